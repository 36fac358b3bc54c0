"""The source tasks this worker can run, by connector class: from a start order to a task, everything built and nothing started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from dblog.clock import SystemClock
from dblog.config.connector import parse_connector
from dblog.config.plugins import CONNECTORS, find_connector
from dblog.config.worker import read_worker_config, to_librdkafka
from dblog.errors import DefiniteError
from dblog.kafka.converters import converters_of
from dblog.readers.binlog_dialect import DIALECTS
from dblog.readers.binlog_task import BinlogTask
from dblog.readers.encoders import Encoders
from dblog.readers.history import SchemaHistory
from dblog.readers.history_topic import KafkaHistoryLog


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


def source_task(order: Order) -> BinlogTask:
    """The task of a start order; ConfigError or DefiniteError when the configuration makes none."""
    class_name = order.config["connector.class"]
    plugin = find_connector(class_name)
    if plugin is None or plugin.flavor not in DIALECTS:
        message = f"connector.class {class_name} has no source task here; the classes are {', '.join(c.class_name for c in CONNECTORS)}"
        raise DefiniteError(message)
    dialect = DIALECTS[plugin.flavor]
    settings = parse_connector(plugin.options, order.config)
    clock = SystemClock()
    worker = read_worker_config(order.worker)
    key_converter, value_converter = converters_of(order.worker, order.config, own_registry_url=worker.advertised_url)
    encoders = Encoders(
        settings=settings,
        dialect=dialect,
        key_converter=key_converter,
        value_converter=value_converter,
        clock=clock,
        task=order.task,
    )
    history_client: dict[str, Any] = {
        **worker.client_settings("producer"),
        **to_librdkafka(settings.under("schema.history.internal.producer.")),
        "bootstrap.servers": settings.text_or_none("schema.history.internal.kafka.bootstrap.servers") or order.worker["bootstrap.servers"],
    }
    history_topic = settings.text_or_none("schema.history.internal.kafka.topic") or f"{settings.text('topic.prefix')}.dblog.history"

    def history_of() -> SchemaHistory:
        log = KafkaHistoryLog(history_client, history_topic)
        log.ensure_topic()
        return SchemaHistory(log, server=settings.text("topic.prefix"))

    return BinlogTask(connector=order.connector, settings=settings, dialect=dialect, encoders=encoders, history_of=history_of, clock=clock)
