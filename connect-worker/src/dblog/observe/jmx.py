"""Kafka Connect's and Debezium's metrics, under the names that a JMX exporter gives them, computed
from a task's own numbers.

Connect's JMX groups are named ``kafka_connect_<group>_<metric>``, following Strimzi's rules.
Debezium's attributes are named ``debezium_metrics_<Attribute>`` with the labels plugin, name, task
and context, following Debezium's examples. For the meanings see Kafka's documentation, "Connect
Monitoring", and Debezium's manual, "MySQL connector", Monitoring. Metrics without a true value in
this program are left out; ``LEFT_OUT`` gives the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dblog.observe.declared import Kind

Numbers = Mapping[str, float]
Value = Callable[[Numbers, float], float | None]
"""Computes a metric from a task's numbers and the current time in seconds. None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """One metric of a task: its name for Connect or Debezium, and its computation."""

    group: str
    """Debezium's context, or Connect's group."""
    name: str
    of: Value
    kind: Kind = Kind.GAUGE


def _number(name: str) -> Value:
    return lambda numbers, _now_s: numbers.get(name)


def _sum(*names: str) -> Value:
    def value(numbers: Numbers, _now_s: float) -> float | None:
        found = [numbers[name] for name in names if name in numbers]
        return sum(found) if found else None

    return value


def _less(name: str, less: str) -> Value:
    def value(numbers: Numbers, _now_s: float) -> float | None:
        return None if name not in numbers or less not in numbers else numbers[name] - numbers[less]

    return value


def _of_dump(value: Value) -> Value:
    """Return 0 instead of None for a running task without a dump, as Debezium reports it."""

    def or_zero(numbers: Numbers, now_s: float) -> float | None:
        found = value(numbers, now_s)
        return 0.0 if found is None and "connected" in numbers else found

    return or_zero


def _all_dumped(numbers: Numbers, _now_s: float) -> float | None:
    """Return 1 if the dump has ended and no table failed.

    Debezium's completed and aborted exclude each other; a dump with failed tables counts as
    aborted.
    """
    if "dump_running" not in numbers:
        return None
    return float(not numbers["dump_running"] and not numbers.get("dump_tables_failed"))


def _ms_since(name: str, *, before: float = -1.0) -> Value:
    """Return the milliseconds since the instant ``name``, or ``before`` if there was none yet.

    Debezium answers -1 for most such attributes.
    """
    return lambda numbers, now_s: max(0.0, (now_s - numbers[name]) * 1000) if name in numbers else before


def _constant(value: float, *, when: str = "") -> Value:
    return lambda numbers, _now_s: None if when and when not in numbers else value


def _debezium(group: str, *pairs: tuple[str, Value]) -> tuple[Attribute, ...]:
    return tuple(Attribute(group=group, name=name, of=value) for name, value in pairs)


_QUEUE = (
    ("QueueTotalCapacity", _number("queue_capacity_records")),
    ("QueueRemainingCapacity", _less("queue_capacity_records", "queue_records")),
    ("MaxQueueSizeInBytes", _number("queue_capacity_bytes")),
    ("CurrentQueueSizeInBytes", _number("queue_bytes")),
)
_SEEN = tuple(f"events_total|{op}" for op in ("create", "update", "delete", "truncate"))
_FILTERED = tuple(f"events_filtered_total|{reason}" for reason in ("table", "operation", "source"))
_ERRONEOUS = tuple(f"events_skipped_total|{reason}" for reason in ("damaged", "unusable", "passed_over", "refused", "untransformed"))

DEBEZIUM: tuple[Attribute, ...] = (
    *_debezium(
        "streaming",
        ("Connected", _number("connected")),
        ("MilliSecondsBehindSource", _number("lag_ms")),
        ("MilliSecondsBehindSourceMinValue", _number("jmx:lag_min_ms")),
        ("MilliSecondsBehindSourceMaxValue", _number("jmx:lag_max_ms")),
        ("MilliSecondsBehindSourceAverageValue", _number("jmx:lag_avg_ms")),
        ("MilliSecondsBehindSourceP50", _number("jmx:lag_p50_ms")),
        ("MilliSecondsBehindSourceP95", _number("jmx:lag_p95_ms")),
        ("MilliSecondsBehindSourceP99", _number("jmx:lag_p99_ms")),
        # Debezium counts every binlog event here, heartbeats included, so a quiet database does not
        # look lost.
        ("MilliSecondsSinceLastEvent", _ms_since("log_last_heard_timestamp_seconds", before=0.0)),
        ("TotalNumberOfEventsSeen", _sum(*_SEEN, *_FILTERED)),
        ("TotalNumberOfCreateEventsSeen", _number("events_total|create")),
        ("TotalNumberOfUpdateEventsSeen", _number("events_total|update")),
        ("TotalNumberOfDeleteEventsSeen", _number("events_total|delete")),
        ("NumberOfEventsFiltered", _sum(*_FILTERED)),
        ("NumberOfErroneousEvents", _sum(*_ERRONEOUS)),
        ("NumberOfUnchangedEventsSkipped", _number("events_filtered_total|unchanged")),
        ("NumberOfCommittedTransactions", _number("transactions_total")),
        ("NumberOfRolledBackTransactions", _number("rollbacks_total")),
        ("NumberOfLargeTransactions", _constant(0.0, when="connected")),
        ("NumberOfNotWellFormedTransactions", _constant(0.0, when="connected")),
        ("NumberOfSkippedEvents", _sum("events_skipped_total|damaged", "events_skipped_total|unusable")),
        ("NumberOfDisconnects", _number("log_reconnects_total")),
        ("BinlogPosition", _number("log_pos")),
        ("IsGtidModeEnabled", _number("gtid_mode")),
        *_QUEUE,
    ),
    *_debezium(
        "snapshot",
        ("TotalTableCount", _of_dump(_number("dump_tables_total"))),
        ("RemainingTableCount", _of_dump(_less("dump_tables_total", "dump_tables_done"))),
        ("SnapshotRunning", _of_dump(_number("dump_running"))),
        ("SnapshotCompleted", _of_dump(_all_dumped)),
        ("SnapshotAborted", _of_dump(lambda n, _s: None if "dump_tables_failed" not in n else float(n["dump_tables_failed"] > 0))),
        ("SnapshotSkipped", lambda n, _s: None if "connected" not in n else float("dump_tables_total" not in n)),
        ("SnapshotPaused", _constant(0.0, when="connected")),
        ("SnapshotDurationInSeconds", _of_dump(_number("dump_duration_seconds"))),
        ("SnapshotPausedDurationInSeconds", _constant(0.0, when="connected")),
        ("HoldingGlobalLock", _constant(0.0, when="connected")),
        ("TotalNumberOfEventsSeen", _of_dump(_number("dump_rows_total"))),
        ("MilliSecondsSinceLastEvent", _ms_since("dump_last_progress_timestamp_seconds")),
        ("NumberOfErroneousEvents", _constant(0.0, when="connected")),
        ("NumberOfEventsFiltered", _constant(0.0, when="connected")),
        *_QUEUE,
    ),
    *_debezium(
        "schema-history",
        ("RecoveryStartTime", _number("schema_history_recovered_timestamp_seconds")),
        ("ChangesRecovered", _number("schema_history_recovered_tables")),
        ("ChangesApplied", _number("schema_history_changes_total")),
        ("MilliSecondsSinceLastRecoveredChange", _ms_since("schema_history_recovered_timestamp_seconds")),
        ("MilliSecondsSinceLastAppliedChange", _ms_since("schema_history_last_change_timestamp_seconds")),
    ),
)
"""Debezium's attributes."""

ROWS_SCANNED = "RowsScanned"
CHUNKS_COMPLETED = "TableChunksCompletedCounts"
"""Debezium's attributes of the context snapshot that have a value for each table."""


def _connect(group: str, *pairs: tuple[str, Value]) -> tuple[Attribute, ...]:
    return tuple(
        Attribute(group=group, name=name, of=value, kind=Kind.COUNTER if name.endswith("_total") else Kind.GAUGE) for name, value in pairs
    )


CONNECT: tuple[Attribute, ...] = (
    *_connect(
        "connector_task",
        ("running_ratio", _number("jmx:running_ratio")),
        ("pause_ratio", _number("jmx:pause_ratio")),
        ("batch_size_max", _number("jmx:batch_size_max")),
        ("batch_size_avg", _number("jmx:batch_size_avg")),
        ("offset_commit_max_time_ms", _number("jmx:commit_max_ms")),
        ("offset_commit_avg_time_ms", _number("jmx:commit_avg_ms")),
        ("offset_commit_success_percentage", _number("jmx:commit_good")),
        ("offset_commit_failure_percentage", _number("jmx:commit_bad")),
    ),
    *_connect(
        "source_task",
        ("source_record_poll_total", _number("records_polled_total")),
        ("source_record_poll_rate", _number("jmx:poll_rate")),
        ("source_record_write_total", _number("records_acknowledged_total")),
        ("source_record_write_rate", _number("jmx:write_rate")),
        ("source_record_active_count", _number("records_outstanding")),
        ("source_record_active_count_max", _number("jmx:active_max")),
        ("source_record_active_count_avg", _number("jmx:active_avg")),
        ("poll_batch_max_time_ms", _number("jmx:poll_batch_max_ms")),
        ("poll_batch_avg_time_ms", _number("jmx:poll_batch_avg_ms")),
    ),
    *_connect(
        "task_error",
        ("total_record_failures", _number("send_failures_total")),
        ("total_record_errors", _number("send_failures_total")),
        ("total_records_skipped", _number("send_failures_total")),
        ("total_errors_logged", _number("jmx:errors")),
        ("total_retries", _number("restarts_total|error")),
        ("deadletterqueue_produce_requests", _constant(0.0, when="started_timestamp_seconds")),
        ("deadletterqueue_produce_failures", _constant(0.0, when="started_timestamp_seconds")),
        ("last_error_timestamp", _number("jmx:error_at_ms")),
    ),
)
"""Connect's metrics of a task."""

LEFT_OUT: Mapping[str, str] = {
    "LastEvent, LastTransactionId, SourceEventPosition, GtidSet, BinlogFilename": "texts, which a JMX exporter leaves out too. "
    "`dblog_task_log_file` has the number of the log file, the connector's offsets have the rest",
    "CapturedTables": "a list of names; their number is `dblog_task_tables_captured`",
    "NumberOfCreateEventsSeen and its siblings (by table)": "a series for each table and operation; `dblog_task_topic_records_total` has one for each topic",
    "ChunkId, ChunkFrom, ChunkTo, TableFrom, TableTo": "texts, and values of keys, which metrics never show",
    "TableChunkCounts": "chunks adapt to the server, so their number is not known before the end",
    "Status, LastAppliedChange, LastRecoveredChange": "texts; a task recovers its history before it reads, and does not run without it",
    "HitCount, MissCount, PoolSize, HitRatioPercent (interner)": "there is no such pool",
}
"""Debezium's attributes that are not reported, with the reason."""

CONNECT_LEFT_OUT: Mapping[str, str] = {
    "transaction-size-min, transaction-size-max, transaction-size-avg": "without exactly-once there are no producer transactions",
    "rebalance-avg-time-ms, rebalance-max-time-ms, time-since-last-rebalance-ms": "one worker runs all connectors, so a rebalance that "
    "leaves the lead where it is stops nothing. `dblog_worker_rebalances_total` and `dblog_worker_leaderships_total` count",
    "connect-protocol": "a text; there is one protocol",
    "task-class, task-version, connector-class, connector-type, connector-version (of a task)": "texts; "
    "`kafka_connect_connector_connector_class`, `_type` and `_version` have them by connector",
    "key-converter-class, key-converter-version, value-converter-class, value-converter-version, header-converter-class, "
    "header-converter-version": "texts; the connector's configuration names the converters, `GET /connector-plugins?connectorsOnly=false` "
    "their versions",
    "connector-transform-metrics, connector-predicate-metrics": "a transform has no class that is loaded, nor a version; its configuration names it",
    "sink-task-metrics": "there are no sink connectors",
    "kafka_producer_*, kafka_consumer_*, kafka_admin_client_*": "metrics of Java clients; "
    "`dblog_task_bytes_sent_total` and `dblog_task_kafka_errors_total` are near",
    "kafka_connect_metrics_*": "the Java client with which a worker is in its group: connections, requests, bytes. "
    "`dblog_worker_leads` and `dblog_worker_rebalances_total` show the group",
    "kafka_connect_start_time_seconds, and version and commit-id of app-info": "`dblog_worker_started_timestamp_seconds` and `dblog_build_info`",
    "jvm_*, jmx_*": "there is no JVM; `process_*` is of the worker, "
    "`dblog_task_process_cpu_seconds_total` and `dblog_task_process_resident_memory_bytes` of a task",
}
"""Connect's metrics that are not reported, with the reason."""
