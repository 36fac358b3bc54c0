"""The source tasks this worker can run, by connector class: from a start order to a task, everything built and nothing started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import structlog

from dblog.abort import Abort
from dblog.clock import Clock, SystemClock
from dblog.config.connector import parse_connector
from dblog.config.options import Option, Settings
from dblog.config.plugins import CONNECTORS, find_connector
from dblog.config.unknown_keys import describe_unknown, unknown_keys
from dblog.config.worker import read_worker_config
from dblog.errors import DefiniteError
from dblog.kafka.converters import converters_of
from dblog.readers.binlog_dialect import DIALECTS, BinlogDialect
from dblog.readers.binlog_task import BinlogTask
from dblog.readers.encoders import Encoders
from dblog.readers.history import SchemaHistory
from dblog.readers.history_topic import KafkaHistoryLog
from dblog.readers.reachable import history_client

log = structlog.get_logger(__name__)


class Order(Protocol):
    """What of a start order matters here (runtime/supervisor.py's ``StartOrder``)."""

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
    def worker(self) -> Mapping[str, str]:
        """The worker's properties."""


class HistoryOf(Protocol):
    """Makes the connector's schema history."""

    def __call__(self, abort: Abort | None = None) -> SchemaHistory:
        """``abort`` ends reading it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a configuration makes, before anything is connected."""

    dialect: BinlogDialect
    options: tuple[Option, ...]
    settings: Settings
    encoders: Encoders
    history_of: HistoryOf
    clock: Clock


def parts_of(config: Mapping[str, str], worker_properties: Mapping[str, str], *, task: int) -> Parts:
    """The parts of a connector's task; ConfigError or DefiniteError when the configuration makes none."""
    class_name = config["connector.class"]
    plugin = find_connector(class_name)
    if plugin is None or plugin.flavor not in DIALECTS:
        message = f"connector.class {class_name} has no source task here; the classes are {', '.join(c.class_name for c in CONNECTORS)}"
        raise DefiniteError(message)
    dialect = DIALECTS[plugin.flavor]
    settings = parse_connector(plugin.options, config)
    clock = SystemClock()
    worker = read_worker_config(worker_properties)
    key_converter, value_converter = converters_of(worker_properties, config, own_registry=worker.own_registry)
    encoders = Encoders(
        settings=settings,
        dialect=dialect,
        key_converter=key_converter,
        value_converter=value_converter,
        clock=clock,
        task=task,
    )
    client = history_client(settings, worker)
    history_topic = settings.text_or_none("schema.history.internal.kafka.topic") or f"{settings.text('topic.prefix')}.dblog.history"

    def history_of(abort: Abort | None = None) -> SchemaHistory:
        log = KafkaHistoryLog(client, history_topic, abort=abort)
        log.ensure_topic()
        return SchemaHistory(log, server=settings.text("topic.prefix"))

    return Parts(dialect=dialect, options=plugin.options, settings=settings, encoders=encoders, history_of=history_of, clock=clock)


def source_task(order: Order) -> BinlogTask:
    """The task of a start order; ConfigError or DefiniteError when the configuration makes none."""
    parts = parts_of(order.config, order.worker, task=order.task)
    for key, sentence in describe_unknown(unknown_keys(parts.options, order.config)).items():
        log.warning("unknown key in the connector's configuration", key=key, reason=sentence)
    return BinlogTask(
        connector=order.connector,
        settings=parts.settings,
        dialect=parts.dialect,
        encoders=parts.encoders,
        history_of=parts.history_of,
        clock=parts.clock,
    )
