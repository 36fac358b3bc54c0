"""Metrics in Prometheus's text, under the names that dashboards for Kafka Connect and Debezium already read.

Connect's JMX groups appear as ``kafka_connect_<group>_<metric>`` and Debezium's attributes as ``debezium_metrics_<Attribute>`` (the usual
spelling of the JMX exporter; Kafka's documentation, Connect Monitoring; Debezium's manual, "MySQL connector", Monitoring). Whatever else a task reports is
``dblog_task_<name>``. A worker reports only what runs on it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskNumbers:
    """One task: who it is, how it is, and what it reported last."""

    connector: str
    task: int
    state: str
    plugin: str
    server: str
    kills: int
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerNumbers:
    """One worker at one moment."""

    connectors: Mapping[str, str]
    tasks: tuple[TaskNumbers, ...]
    startup_counts: Mapping[str, int]
    registry_records_skipped: int = 0
    records_skipped: Mapping[str, int] = field(default_factory=dict)
    """By topic."""


TASK_DOCS = {
    "lag_ms": "Age of the oldest change that Kafka has not acknowledged, or that may be unread while the log is not heard of; 0 when there is none.",
    "connected": "1 while the log connection is open.",
    "log_pos": "Offset in the log file that has been read up to.",
    "log_reconnects_total": "Log connections that were lost.",
    "log_records_total": "Records made from the log.",
    "log_events_skipped_total": "Events left out because an option asks for it, or because their table is parked.",
    "tables_parked": "Tables whose rows are passed over because their columns are not known.",
    "queue_records": "Records between the readers and the sender.",
    "queue_bytes": "Bytes of their keys and values.",
    "dump_tables_total": "Tables of the dump.",
    "dump_tables_done": "Tables of the dump that have been read to their end.",
    "dump_tables_failed": "Tables of the dump that could not be read; the log has the reason.",
    "dump_rows_total": "Rows that the dump has read.",
    "dump_running": "1 while tables of the dump are left.",
    "records_sent_total": "Records handed to the producer.",
    "bytes_sent_total": "Bytes of their keys and values.",
    "records_outstanding": "Records handed to the producer that Kafka has not acknowledged.",
    "send_failures_total": "Records that Kafka refused and errors.tolerance=all left out.",
    "paused": "1 while the task is paused.",
}
"""What a task reports, in a sentence each. A name that is not here is shown all the same, and a test misses it."""

_CONNECT_NAMES = {
    "records_sent_total": "source_task_source_record_write_total",
    "records_polled_total": "source_task_source_record_poll_total",
    "records_outstanding": "source_task_source_record_active_count",
    "send_failures_total": "task_error_total_record_failures",
}
"""What a task reports, as Connect's metric of its task."""

_DEBEZIUM_NAMES = {
    "lag_ms": ("streaming", "MilliSecondsBehindSource"),
    "connected": ("streaming", "Connected"),
    "log_records_total": ("streaming", "TotalNumberOfEventsSeen"),
    "log_reconnects_total": ("streaming", "NumberOfDisconnects"),
    "log_pos": ("streaming", "BinlogPosition"),
    "queue_bytes": ("streaming", "CurrentQueueSizeInBytes"),
    "queue_records_max": ("streaming", "QueueTotalCapacity"),
    "queue_records_free": ("streaming", "QueueRemainingCapacity"),
    "queue_bytes_max": ("streaming", "MaxQueueSizeInBytes"),
    "dump_tables_total": ("snapshot", "TotalTableCount"),
    "dump_rows_total": ("snapshot", "RowsScanned"),
    "dump_running": ("snapshot", "SnapshotRunning"),
}
"""What a task reports, as Debezium's attribute in its context."""

UNDESCRIBED = "As the task reports it."

_TASK_STATES = ("running", "paused", "failed", "unassigned", "destroyed", "restarting")


class _Collector:
    """Builds all families from one snapshot at each scrape."""

    def __init__(self, take: Callable[[], WorkerNumbers]) -> None:
        self._take = take

    def collect(self) -> Iterable[Metric]:
        """All families."""
        now = self._take()
        yield from _worker_families(now)
        yield from _task_families(now)


def metrics_text(take: Callable[[], WorkerNumbers]) -> Callable[[], bytes]:
    """A function that gives the text of now."""
    registry = CollectorRegistry()
    registry.register(_Collector(take))
    return lambda: generate_latest(registry)


def _worker_families(now: WorkerNumbers) -> Iterable[Metric]:
    yield GaugeMetricFamily("kafka_connect_worker_connector_count", "Connectors on this worker.", len(now.connectors))
    yield GaugeMetricFamily("kafka_connect_worker_task_count", "Tasks on this worker.", len(now.tasks))
    for kind in ("connector", "task"):
        good, bad = now.startup_counts.get(f"{kind}-startup-success", 0), now.startup_counts.get(f"{kind}-startup-failure", 0)
        prefix = f"kafka_connect_worker_{kind}_startup"
        yield GaugeMetricFamily(f"{prefix}_attempts_total", f"Starts of {kind}s.", good + bad)
        yield GaugeMetricFamily(f"{prefix}_success_total", f"Starts of {kind}s that went well.", good)
        yield GaugeMetricFamily(f"{prefix}_failure_total", f"Starts of {kind}s that did not.", bad)
        share = good / (good + bad) if good + bad else 0.0
        yield GaugeMetricFamily(f"{prefix}_success_percentage", f"Share of starts of {kind}s that went well.", share)
        yield GaugeMetricFamily(
            f"{prefix}_failure_percentage", f"Share of starts of {kind}s that did not.", 1.0 - share if good + bad else 0.0
        )
    yield CounterMetricFamily(
        "dblog_registry_records_skipped", "Records of the registry's topic that were not understood.", now.registry_records_skipped
    )
    skipped = CounterMetricFamily(
        "dblog_topic_records_skipped", "Records of the worker's own topics that could not be read; the log names them.", labels=["topic"]
    )
    for topic, count in now.records_skipped.items():
        skipped.add_metric([topic], count)
    yield skipped
    total = GaugeMetricFamily("kafka_connect_worker_connector_total_task_count", "Tasks of a connector here.", labels=["connector"])
    tasks = Counter(task.connector for task in now.tasks)
    for connector in now.connectors:
        total.add_metric([connector], tasks[connector])
    yield total
    tasks_in = Counter((task.connector, task.state) for task in now.tasks)
    for state in _TASK_STATES:
        family = GaugeMetricFamily(f"kafka_connect_worker_connector_{state}_task_count", f"Its {state} tasks.", labels=["connector"])
        for connector in now.connectors:
            family.add_metric([connector], tasks_in[(connector, state)])
        yield family
    status = GaugeMetricFamily("kafka_connect_connector_status", "1 for the state a connector is in.", labels=["connector", "status"])
    for connector, state in now.connectors.items():
        status.add_metric([connector, state], 1)
    yield status


def _task_families(now: WorkerNumbers) -> Iterable[Metric]:
    labels = ["connector", "task"]
    families: dict[str, GaugeMetricFamily] = {}

    def add(name: str, doc: str, names: list[str], values: list[str], number: float) -> None:
        if name not in families:
            families[name] = GaugeMetricFamily(name, doc, labels=names)
        families[name].add_metric(values, number)

    for task in now.tasks:
        who = [task.connector, str(task.task)]
        add("kafka_connect_connector_task_status", "1 for the state a task is in.", [*labels, "status"], [*who, task.state], 1)
        add("dblog_task_kills_in_a_row", "Times its process was killed without a quiet minute between.", labels, who, task.kills)
        for name, number in task.values.items():
            add(f"dblog_task_{_clean(name)}", TASK_DOCS.get(name, UNDESCRIBED), labels, who, number)
            if name in _CONNECT_NAMES:
                add(f"kafka_connect_{_CONNECT_NAMES[name]}", "Kafka Connect's metric of the task.", labels, who, number)
            if name in _DEBEZIUM_NAMES:
                context, attribute = _DEBEZIUM_NAMES[name]
                _add_debezium(add, task, context, attribute, number)
        _add_dump_rest(add, task)
    yield from families.values()


_Add = Callable[[str, str, list[str], list[str], float], None]


def _add_debezium(add: _Add, task: TaskNumbers, context: str, attribute: str, number: float) -> None:
    values = [task.plugin, task.server, str(task.task), context]
    add(f"debezium_metrics_{attribute}", "Debezium's attribute.", ["plugin", "name", "task", "context"], values, number)


def _add_dump_rest(add: _Add, task: TaskNumbers) -> None:
    """Debezium's attributes that follow from others."""
    total, done, running = (task.values.get(name) for name in ("dump_tables_total", "dump_tables_done", "dump_running"))
    if total is not None and done is not None:
        _add_debezium(add, task, "snapshot", "RemainingTableCount", total - done)
    if running is not None:
        _add_debezium(add, task, "snapshot", "SnapshotCompleted", float(not running))


def _clean(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", name)
