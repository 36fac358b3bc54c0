"""Metrics in Prometheus's text format: this program's own (``observe/declared.py``), and Kafka
Connect's and Debezium's under the names that existing dashboards use (``observe/jmx.py``).

An option of the worker selects one set or both. A worker reports only the connectors and tasks that
run on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from dblog.observe import jmx
from dblog.observe.declared import OF_TASK, STATES, WORKER_METRICS, Kind
from dblog.observe.numbers import INFINITE, SUM, named, parted

STALE_S = 30.0
"""Age in seconds after which a task's numbers are left out, so a hanging process reports none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskNumbers:
    """One task: its identity, its state, and the numbers that it reported last."""

    connector: str
    task: int
    state: str
    plugin: str
    server: str
    kills: int
    values: Mapping[str, float]
    reported_s: float | None = None
    """Wall-clock time of the last report, in seconds. None if the task has not reported."""
    restarts: Mapping[str, int] = field(default_factory=dict)
    """Number of restarts by the worker, by reason."""
    failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginNames:
    """A connector's class, type and version. ``unknown`` for a class that the worker lacks."""

    class_name: str = "unknown"
    type: str = "unknown"
    version: str = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerNumbers:
    """A snapshot of one worker's metrics."""

    connectors: Mapping[str, str]
    tasks: tuple[TaskNumbers, ...]
    startup_counts: Mapping[str, int]
    registry_records_skipped: int = 0
    records_skipped: Mapping[str, int] = field(default_factory=dict)
    """Records that could not be read, by topic."""
    now_s: float = 0.0
    version: str = ""
    commit: str = ""
    started_s: float = 0.0
    ready: bool = False
    leads: bool = False
    leaderships: int = 0
    rebalances: int = 0
    leader: str = ""
    generation: int = 0
    configured: Mapping[str, int] = field(default_factory=dict)
    """Connectors of the config topic, each with its configured number of tasks."""
    warnings: Mapping[str, int] = field(default_factory=dict)
    """Number of standing warnings of each connector that runs on this worker."""
    plugins: Mapping[str, PluginNames] = field(default_factory=dict)
    """Class, type and version of each connector that runs on this worker."""
    certificates: tuple[tuple[str, str, str, float], ...] = ()
    """Certificates: use, connector, name, and expiry as a Unix time in seconds."""
    registry_requests: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """Selects the metric names that /metrics shows."""

    own: bool = True
    jmx: bool = True
    lower: bool = False
    """True to write Debezium's attributes in lower case."""

    def attribute(self, name: str) -> str:
        """Return the metric name of one of Debezium's attributes."""
        return f"debezium_metrics_{name.lower() if self.lower else name}"


def naming_of(names: str, case: str) -> Naming:
    """Return the naming that the worker's options ``names`` and ``case`` select."""
    return Naming(own=names in ("both", "dblog"), jmx=names in ("both", "jmx"), lower=case == "lower")


class _Families:
    """Metric families, built one sample at a time and kept in the order of first use."""

    def __init__(self) -> None:
        self._families: dict[str, Any] = {}

    def add(self, name: str, doc: str, labels: Mapping[str, str], value: float, kind: Kind = Kind.GAUGE) -> None:
        family = self._families.get(name)
        if family is None:
            make = CounterMetricFamily if kind is Kind.COUNTER else GaugeMetricFamily
            family = self._families[name] = make(name.removesuffix("_total") if kind is Kind.COUNTER else name, doc, labels=list(labels))
        family.add_metric(list(labels.values()), value)

    def add_histogram(self, name: str, doc: str, labels: Mapping[str, str], buckets: Mapping[str, float], total: float) -> None:
        family = self._families.get(name)
        if family is None:
            family = self._families[name] = HistogramMetricFamily(name, doc, labels=list(labels))
        family.add_metric(list(labels.values()), buckets=list(buckets.items()), sum_value=total)

    def all(self) -> Iterable[Metric]:
        return self._families.values()


class _Collector:
    """Builds all families from one snapshot at each scrape."""

    def __init__(self, take: Callable[[], WorkerNumbers], naming: Naming) -> None:
        self._take = take
        self._naming = naming

    def collect(self) -> Iterable[Metric]:
        """Yield all metric families."""
        now, families = self._take(), _Families()
        if self._naming.jmx:
            _connect_worker(now, families)
        if self._naming.own:
            _worker(now, families)
        for task in now.tasks:
            _task(task, now, families, self._naming)
        yield from families.all()


def metrics_text(take: Callable[[], WorkerNumbers], naming: Naming | None = None) -> Callable[[], bytes]:
    """Return a function that renders the current metrics."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(_Collector(take, naming or Naming()))
    return lambda: generate_latest(registry)


# ---- the worker


_OF_WORKER = {metric.name: metric for metric in WORKER_METRICS}


def _worker(now: WorkerNumbers, families: _Families) -> None:
    def add(name: str, value: float, *labels: str) -> None:
        metric = _OF_WORKER[name]
        families.add(f"dblog_{name}", metric.doc, dict(zip(metric.labels, labels, strict=True)), value, metric.kind)

    add("build_info", 1.0, now.version, now.commit)
    add("worker_started_timestamp_seconds", now.started_s)
    add("worker_ready", float(now.ready))
    add("worker_leads", float(now.leads))
    add("worker_leaderships_total", now.leaderships)
    add("worker_rebalances_total", now.rebalances)
    add("worker_connectors_configured", len(now.configured))
    for connector, state in now.connectors.items():
        for each in STATES:
            add("connector_state", float(each == state), connector, each)
    for connector, tasks in now.configured.items():
        add("connector_tasks_configured", tasks, connector)
    for connector, count in now.warnings.items():
        add("connector_warnings", count, connector)
    for use, connector, name, ends_s in now.certificates:
        add("certificate_expiry_timestamp_seconds", ends_s, use, connector, name)
    for result, count in now.registry_requests.items():
        add("registry_requests_total", count, result)
    add("registry_records_skipped_total", now.registry_records_skipped)
    for topic, count in now.records_skipped.items():
        add("topic_records_skipped_total", count, topic)


_CONNECT_TASK_STATES = ("running", "paused", "failed", "unassigned", "destroyed", "restarting")


def _connect_worker(now: WorkerNumbers, families: _Families) -> None:
    """Add the metrics of Connect's worker, rebalance, coordinator and connector groups."""

    def add(name: str, doc: str, value: float, **labels: str) -> None:
        families.add(f"kafka_connect_{name}", doc, labels, value, Kind.COUNTER if name.endswith("_total") else Kind.GAUGE)

    add("worker_connector_count", "Connectors on this worker.", len(now.connectors))
    add("worker_task_count", "Tasks on this worker.", len(now.tasks))
    add("coordinator_assigned_connectors", "Connectors on this worker.", len(now.connectors))
    add("coordinator_assigned_tasks", "Tasks on this worker.", len(now.tasks))
    for kind in ("connector", "task"):
        good, bad = now.startup_counts.get(f"{kind}-startup-success", 0), now.startup_counts.get(f"{kind}-startup-failure", 0)
        share = good / (good + bad) if good + bad else 0.0
        add(f"worker_{kind}_startup_attempts_total", f"Starts of {kind}s.", good + bad)
        add(f"worker_{kind}_startup_success_total", f"Starts of {kind}s that went well.", good)
        add(f"worker_{kind}_startup_failure_total", f"Starts of {kind}s that did not.", bad)
        add(f"worker_{kind}_startup_success_percentage", f"Share of starts of {kind}s that went well.", share)
        add(f"worker_{kind}_startup_failure_percentage", f"Share of starts of {kind}s that did not.", 1.0 - share if good + bad else 0.0)
    add("worker_rebalance_completed_rebalances_total", "Rebalances of the group.", now.rebalances)
    add("worker_rebalance_epoch", "The generation of this worker's lead.", now.generation)
    add("worker_rebalance_rebalancing", "1 while nobody is known to lead.", float(not now.leader))
    if now.leader:
        add("worker_rebalance_leader_name", "1; who runs the connectors.", 1, leader_name=now.leader)
    tasks, tasks_in = Counter(task.connector for task in now.tasks), Counter((task.connector, task.state) for task in now.tasks)
    for connector, state in now.connectors.items():
        add("worker_connector_total_task_count", "Tasks of a connector here.", tasks[connector], connector=connector)
        for each in _CONNECT_TASK_STATES:
            add(f"worker_connector_{each}_task_count", f"Its {each} tasks.", tasks_in[connector, each], connector=connector)
        add("connector_status", "1 for the state a connector is in.", 1, connector=connector, status=state)
        is_a = now.plugins.get(connector, PluginNames())
        add("connector_connector_class", "1; the class of a connector.", 1, connector=connector, connector_class=is_a.class_name)
        add("connector_connector_type", "1; the type of a connector.", 1, connector=connector, connector_type=is_a.type)
        add("connector_connector_version", "1; the version of its class.", 1, connector=connector, connector_version=is_a.version)


# ---- a task


def _task(task: TaskNumbers, now: WorkerNumbers, families: _Families, naming: Naming) -> None:
    who = {"connector": task.connector, "task": str(task.task)}
    fresh = task.reported_s is None or now.now_s - task.reported_s <= STALE_S
    values = task.values if fresh else {}
    if naming.own:
        _own(task, values, who, families)
    if naming.jmx:
        families.add("kafka_connect_connector_task_status", "1 for the state a task is in.", {**who, "status": task.state}, 1)
        for each in jmx.CONNECT:
            value = each.of(values, now.now_s)
            if value is not None:
                families.add(f"kafka_connect_{each.group}_{each.name}", "Kafka Connect's metric of the task.", who, value, each.kind)
        _debezium(task, values, now.now_s, families, naming)


def _own(task: TaskNumbers, values: Mapping[str, float], who: Mapping[str, str], families: _Families) -> None:
    for state in STATES:
        if state != "stopped":
            _add(named("state", state), float(task.state == state), who, families)
    _add("kills_in_a_row", task.kills, who, families)
    _add("failures_total", task.failures, who, families)
    for reason, count in task.restarts.items():
        _add(named("restarts_total", reason), count, who, families)
    if task.reported_s is not None:
        _add("reported_timestamp_seconds", task.reported_s, who, families)
    histograms: dict[tuple[str, tuple[str, ...]], dict[str, float]] = {}
    for flat, value in values.items():
        name = flat.partition("|")[0]
        metric = OF_TASK.get(name)
        if metric is None:
            continue  # not a declared name; tests check that tasks report only declared ones
        if metric.kind is Kind.HISTOGRAM:
            *of_bucket, bound = parted(flat, len(metric.labels) + 1)[1]
            histograms.setdefault((name, tuple(of_bucket)), {})[bound] = value
        else:
            _add(flat, value, who, families)
    for (name, labels), buckets in histograms.items():
        total = buckets.pop(SUM, 0.0)
        if INFINITE in buckets:
            of_metric = {**who, **dict(zip(OF_TASK[name].labels, labels, strict=True))}
            families.add_histogram(f"dblog_task_{name}", OF_TASK[name].doc, of_metric, buckets, total)


def _add(flat: str, value: float, who: Mapping[str, str], families: _Families) -> None:
    name = flat.partition("|")[0]
    metric = OF_TASK[name]
    labels = parted(flat, len(metric.labels))[1]
    families.add(f"dblog_task_{name}", metric.doc, {**who, **dict(zip(metric.labels, labels, strict=True))}, value, metric.kind)


def _debezium(task: TaskNumbers, values: Mapping[str, float], now_s: float, families: _Families, naming: Naming) -> None:
    if not values:
        return
    who = {"plugin": task.plugin, "name": task.server, "task": str(task.task)}
    for each in jmx.DEBEZIUM:
        value = each.of(values, now_s)
        if value is not None:
            families.add(naming.attribute(each.name), "Debezium's attribute.", {**who, "context": each.group}, value)
    for name, attribute in (("jmx:rows_scanned", jmx.ROWS_SCANNED), ("dump_table_chunks", jmx.CHUNKS_COMPLETED)):
        for flat, value in values.items():
            if flat.startswith(f"{name}|"):
                labels = {**who, "context": "snapshot", "table": flat.partition("|")[2]}
                families.add(naming.attribute(attribute), "Debezium's attribute, by table.", labels, value)
