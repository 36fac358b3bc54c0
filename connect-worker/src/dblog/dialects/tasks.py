"""The source tasks that this worker can run, by connector class. Turns a start order into a task
with all its parts built and nothing started.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from dblog.abort import Abort
from dblog.clock import Clock, SystemClock
from dblog.config.clients import connector_client
from dblog.config.connector import parse_connector
from dblog.config.options import Option, Settings
from dblog.config.other_defaults import other_defaults
from dblog.config.plugins import CONNECTORS, find_connector
from dblog.config.unknown_keys import describe_unknown, unknown_keys, without_effect
from dblog.config.worker import WorkerConfig, own_topics, read_worker_config
from dblog.core.dumprequests import DumpRequest
from dblog.dialects.registry import FLAVORS, kind_of
from dblog.errors import ConfigError, DefiniteError
from dblog.kafka.converters import converters_of
from dblog.observe.declared import TABLES_MAX
from dblog.readers.contract import Source
from dblog.readers.log.history import SchemaHistory
from dblog.readers.log.history_topic import KafkaHistoryLog
from dblog.readers.options import history_topic_of
from dblog.readers.records import Records
from dblog.readers.reserved_topics import check_topics
from dblog.readers.run.reachable import history_client, signal_file, signal_topic
from dblog.readers.run.task import ReaderTask
from dblog.readers.signals.signal_file import SignalFileSettings
from dblog.readers.signals.signal_topic import SignalTopicSettings
from dblog.readers.standing_warnings import StandingWarnings
from dblog.transforms.configuration import chain_of, configured

log = structlog.get_logger(__name__)


class Order(Protocol):
    """The part of a start order (``StartOrder`` of runtime/supervisor.py) that is needed to build a
    task.
    """

    @property
    def connector(self) -> str:
        """The connector's name."""

    @property
    def task(self) -> int:
        """The task's number."""

    @property
    def config(self) -> Mapping[str, str]:
        """The task's configuration, secrets resolved."""

    @property
    def dumps(self) -> Sequence[DumpRequest]:
        """The requested dumps that have not ended, oldest first."""

    @property
    def warnings(self) -> StandingWarnings:
        """The place where the run raises warnings for an operator."""

    @property
    def worker(self) -> Mapping[str, str]:
        """The worker's properties."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryTopic:
    """The topic of a connector's schema history. Implements ``history.StoredHistory``."""

    client: Mapping[str, Any]
    """librdkafka's settings for the connection; its files are still to be read."""
    topic: str
    server: str
    """topic.prefix of the connector, which Debezium's records carry."""
    warnings: StandingWarnings | None

    def open(self, abort: Abort | None = None) -> SchemaHistory:
        """Return the history. ``abort`` ends the reading of its topic."""
        log = KafkaHistoryLog(self.client, self.topic, abort=abort, warnings=self.warnings)
        log.ensure_topic()
        return SchemaHistory(log, server=self.server)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts that a configuration determines, before anything is connected."""

    flavor: str
    source: Source
    options: tuple[Option, ...]
    settings: Settings
    records: Records
    history: HistoryTopic
    signal_topic: SignalTopicSettings | None
    signal_file: SignalFileSettings | None
    clock: Clock
    tables_max: int


def parts_of(
    config: Mapping[str, str], worker_properties: Mapping[str, str], *, task: int, warnings: StandingWarnings | None = None
) -> Parts:
    """Return the parts of a connector's task. Raise ConfigError or DefiniteError if the
    configuration is wrong.
    """
    class_name = config["connector.class"]
    plugin = find_connector(class_name)
    if plugin is None or plugin.flavor not in FLAVORS:
        message = f"connector.class {class_name} has no source task here; the classes are {', '.join(c.class_name for c in CONNECTORS)}"
        raise DefiniteError(message)
    settings = parse_connector(plugin.options, config)
    chain = chain_of(config)
    source = kind_of(plugin.flavor).source(settings)
    clock = SystemClock()
    worker = read_worker_config(worker_properties)
    if refused := check_topics(settings, own_topics(worker.settings)):
        raise ConfigError(refused)
    key_converter, value_converter = converters_of(worker_properties, config, own_registry=worker.own_registry)
    records = Records(
        settings=settings,
        plans=source.plans,
        key_converter=key_converter,
        value_converter=value_converter,
        clock=clock,
        task=task,
        record_bytes_max=_producer_bytes_max(worker, config),
        chain=chain,
    )
    return Parts(
        flavor=plugin.flavor,
        source=source,
        options=plugin.options,
        settings=settings,
        records=records,
        history=HistoryTopic(
            client=history_client(settings, worker),
            topic=history_topic_of(settings),
            server=settings.text("topic.prefix"),
            warnings=warnings,
        ),
        signal_topic=signal_topic(settings, worker),
        signal_file=signal_file(settings, worker),
        clock=clock,
        tables_max=worker.settings.integer(TABLES_MAX),
    )


def _producer_bytes_max(worker: WorkerConfig, config: Mapping[str, str]) -> int | None:
    """Return the largest record, in bytes, that the connector's producer takes; None if it is not
    configured.
    """
    name = "message.max.bytes"
    text = connector_client(config, "producer.override.").get(name) or worker.client_settings("producer").get(name)
    return None if text is None else int(str(text))


def source_task(order: Order) -> ReaderTask:
    """Return the task of a start order. Raise ConfigError or DefiniteError if the configuration is
    wrong.
    """
    parts = parts_of(order.config, order.worker, task=order.task, warnings=order.warnings)
    options = (*parts.options, *configured(order.config).options)
    for key, sentence in describe_unknown(unknown_keys(options, order.config)).items():
        log.warning("unknown key in the connector's configuration", key=key, reason=sentence)
    for key, sentence in without_effect(options, order.config).items():
        log.warning("a key of the connector's configuration has no effect", key=key, reason=sentence)
    for key, sentence in other_defaults(parts.options, order.config).items():
        log.warning(
            "a key that the connector's configuration leaves out has another default here than in Debezium", key=key, reason=sentence
        )
    return ReaderTask(
        connector=order.connector,
        settings=parts.settings,
        source=parts.source,
        records=parts.records,
        history=parts.history,
        clock=parts.clock,
        tables_max=parts.tables_max,
        requests=order.dumps,
        warnings=order.warnings,
        signal_topic=parts.signal_topic,
        signal_file=parts.signal_file,
    )
