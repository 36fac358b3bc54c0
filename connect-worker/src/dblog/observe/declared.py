"""Every metric of the worker, declared once. /metrics, docs/metrics.md and the tests that compare
the two derive from these declarations.

A metric of a task is exposed as ``dblog_task_<name>`` with the labels connector and task and its
own labels; the task reports it under ``name`` (``observe/numbers.py``). A metric of the worker is
exposed as ``dblog_<name>``. Names follow Prometheus: base units, ``_total`` for counters,
``_timestamp_seconds`` for instants. A value that is unknown is left out; the last known one is not
repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

TABLES_MAX = "dblog.metrics.tables.max"
NAMES = "dblog.metrics.names"
JMX_CASE = "dblog.metrics.jmx.case"


class Kind(Enum):
    """Prometheus's metric types."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """The declaration of one metric."""

    name: str
    doc: str
    kind: Kind = Kind.GAUGE
    labels: tuple[str, ...] = ()
    """Label names besides connector and task."""
    group: str = ""
    """The heading under which docs/metrics.md lists the metric."""


def _metric(name: str, doc: str, *labels: str) -> Metric:
    """Return a counter if the name ends in ``_total``, a gauge otherwise."""
    return Metric(name=name, doc=doc, labels=labels, kind=Kind.COUNTER if name.endswith("_total") else Kind.GAUGE)


def _group(group: str, *metrics: Metric) -> tuple[Metric, ...]:
    return tuple(replace(metric, group=group) for metric in metrics)


STATES = ("running", "paused", "stopped", "failed", "unassigned", "restarting")
"""States of a connector. A task has the same ones except stopped."""

WORKER_METRICS: tuple[Metric, ...] = (
    *_group(
        "Worker",
        _metric("build_info", "1; which program this is.", "version", "commit"),
        _metric("worker_started_timestamp_seconds", "When the worker began."),
        _metric("worker_ready", "1 once the worker takes requests."),
        _metric("worker_leads", "1 while this worker runs the connectors of its group; the others stand by."),
        _metric(
            "worker_leaderships_total", "Times this worker began to run the connectors; over all workers, how often the lead has changed."
        ),
        _metric("worker_rebalances_total", "Rebalances of the group that gave or took something here."),
        _metric("worker_connectors_configured", "Connectors in the config topic."),
        _metric(
            "connector_state",
            "1 for the state that a connector is in, 0 for the others; from the worker that leads.",
            "connector",
            "state",
        ),
        _metric(
            "connector_warnings",
            "Warnings that stand for a connector, but for passwords that are written out and defaults that are not Debezium's: "
            "GET /connectors/NAME/status lists them all; from the worker that leads.",
            "connector",
        ),
        _metric("connector_tasks_configured", "Tasks that a connector should have.", "connector"),
        _metric(
            "certificate_expiry_timestamp_seconds",
            "When the first certificate of a file ends. connector is empty for the worker's own; name is the file's, or the key's. "
            "Of several that have them all in common, the first to end.",
            "use",
            "connector",
            "name",
        ),
        _metric(
            "registry_requests_total", "Requests to the schema registry that the worker serves: ok, client_error, server_error.", "result"
        ),
        _metric("registry_records_skipped_total", "Records of the registry's topic that were not understood."),
        _metric("topic_records_skipped_total", "Records of the worker's own topics that could not be read; the log names them.", "topic"),
    ),
)
"""Metrics of the worker itself."""

HERDER_TASK_METRICS: tuple[Metric, ...] = _group(
    "State of a task",
    _metric("state", "1 for the state that a task is in, 0 for the others.", "state"),
    _metric(
        "reported_timestamp_seconds",
        "When the task's numbers last reached the worker. A process that hangs stops here, and its numbers go after 30 s.",
    ),
    _metric(
        "restarts_total",
        "Starts after the first one: killed (its process died), error (tried again after an error that may pass), requested (by REST), "
        "config (its configuration changed).",
        "reason",
    ),
    _metric("failures_total", "Times the task became FAILED."),
    _metric("kills_in_a_row", "Times its process was killed without a quiet minute between."),
)
"""Metrics that the worker knows without asking the task, so they exist even if the task hangs."""

TASK_METRICS: tuple[Metric, ...] = (
    *_group(
        "State of a task",
        _metric("started_timestamp_seconds", "When the task's process began."),
        _metric(
            "starting_seconds",
            "How long the start has taken that is under way: connections, checks, the history of schemas. 0 while none is.",
        ),
        _metric("paused", "1 while the task is paused."),
        _metric("errors_total", "Errors by class, and whether another try may help.", "class", "retriable"),
        _metric("process_cpu_seconds_total", "CPU time of the task's process."),
        _metric("process_resident_memory_bytes", "Memory of the task's process."),
    ),
    *_group(
        "The log",
        _metric(
            "lag_seconds",
            "Age of the oldest change that Kafka has not acknowledged, or that may be unread while the log is not heard of; 0 without one.",
        ),
        _metric("lag_ms", "The same in milliseconds."),
        _metric(
            "stalled_seconds",
            "How long nothing has moved though something should: the server's log has more, the server is not heard, or records wait for Kafka. "
            "Anything that moves sets it to 0: bytes of the log, also inside one huge transaction, rows of a dump, acknowledgements. 0 while paused. "
            "A start that goes well does not count.",
        ),
        _metric("connected", "1 while the log connection is open."),
        _metric("log_silent", "1 while a connected server has missed its heartbeats."),
        _metric("log_reconnects_total", "Log connections that were lost."),
        _metric("log_bytes_total", "Bytes of the log that arrived, heartbeats left out."),
        _metric("log_file", "Number of the log file that is read."),
        _metric("log_pos", "Offset in the log file that has been read up to."),
        _metric("log_records_total", "Records made from the log."),
        _metric("log_last_heard_timestamp_seconds", "Last sign of life of the server on the log connection."),
        _metric("log_last_event_timestamp_seconds", "Last time something came out of the log."),
        _metric("log_last_record_timestamp_seconds", "Last time a record was made of the log."),
        _metric("source_event_timestamp_seconds", "The source's own time of the newest event that was read."),
        _metric("log_behind_bytes", "Bytes of log between where it is read and the server's end."),
        _metric("log_behind_files", "Log files that the server has begun after the one that is read."),
        _metric(
            "log_stored_behind_files",
            "Log files that the server has begun after the one with the stored position; a restart reads them again.",
        ),
        _metric("server_log_asked_timestamp_seconds", "When the server last answered how far its log goes. It is asked every 10 s."),
        _metric("server_questions_failed_total", "Times it did not answer."),
        _metric("log_retention_seconds", "How long the server keeps its log. Absent where it keeps it for ever."),
        _metric(
            "log_needed_bytes",
            "Bytes of log from where the server has to keep it for the connector to its end. PostgreSQL keeps them on its disk for the slot.",
        ),
        _metric(
            "log_purge_margin_files",
            "Log files before the one with the stored position that the server still has, or those that PostgreSQL can write before it drops what the "
            "slot needs; 0: that one goes next. Absent where a slot keeps all (max_slot_wal_keep_size = -1).",
        ),
        _metric("log_purge_margin_bytes", "Their bytes."),
        _metric(
            "tables_unpublished",
            "Captured tables whose changes PostgreSQL does not log for the connector, or not all of them: the publication lacks them or leaves out a kind of "
            "change, or they are unlogged. Absent for other databases.",
        ),
        _metric("log_purged", "1 when the stored position's log file is gone from the server."),
        _metric(
            "log_race_near_ratio",
            "How near the server is to dropping log that has not been read, by what it keeps and by the speeds of writing and reading: 0 where all has "
            "been read, from 0.8 on dumps become slower, at 1 they are held.",
        ),
        _metric(
            "log_race_left_seconds",
            "When it will, at the speeds of the last minutes. Absent while the log is not read slower than it is written.",
        ),
        _metric("gtid_mode", "1 where the server uses GTIDs."),
        _metric("transactions_total", "Transactions that were read to their commit."),
        _metric("rollbacks_total", "Transactions that were read to a rollback."),
        _metric("heartbeat_last_timestamp_seconds", "When the last heartbeat record was made. Absent without heartbeat.interval.ms."),
    ),
    *_group(
        "Rows and events",
        _metric("events_total", "Row changes of captured tables that were read: create, update, delete, truncate.", "op"),
        _metric(
            "events_filtered_total",
            "Left out because the configuration says so. Events of the log, each of any number of rows: table (not captured), operation "
            "(skipped.operations), source (GTID filters). Rows: unchanged (skip.messages.without.change). Records: transform (dropped by a transform).",
            "reason",
        ),
        _metric(
            "events_skipped_total",
            "Left out without being asked for by a filter: damaged and unusable (the handling modes warn or skip), passed_over (of a parked table "
            "that no dump brings, inconsistent.schema.handling.mode), refused (by Kafka, errors.tolerance=all), "
            "untransformed (by a transform or converter, errors.tolerance=all). parked: of a parked table; "
            "a dump brings them later.",
            "reason",
        ),
        _metric("log_events_skipped_total", "damaged, unusable and passed_over together."),
        _metric("ddl_total", "Statements in the log that changed captured tables."),
        _metric("tables_captured", "Captured tables that exist."),
        _metric("tables_parked", "Tables whose rows are skipped because their columns are unknown."),
        _metric(
            "topic_records_total",
            f"Records made for a topic, from log and dump. At most {TABLES_MAX} topics, the rest together as other.",
            "topic",
        ),
        _metric("topic_records_acknowledged_total", "The same, once Kafka has them.", "topic"),
    ),
    *_group(
        "Queue and Kafka",
        _metric("queue_records", "Records between the readers and the sender."),
        _metric("queue_bytes", "Bytes of their keys and values."),
        _metric("queue_capacity_records", "max.queue.size."),
        _metric("queue_capacity_bytes", "max.queue.size.in.bytes, or its default."),
        _metric("queue_fill_ratio", "The fuller of both, 0 to 1."),
        _metric("queue_full_seconds_total", "Time that readers have waited for room."),
        _metric("records_polled_total", "Records taken out of the queue."),
        _metric("records_sent_total", "Records handed to the producer."),
        _metric("bytes_sent_total", "Bytes of their keys and values."),
        _metric("records_outstanding", "Records handed to the producer that Kafka has not acknowledged."),
        _metric("records_acknowledged_total", "Records that Kafka has."),
        _metric("last_acknowledged_timestamp_seconds", "When Kafka acknowledged last."),
        _metric("send_failures_total", "Records that Kafka refused and errors.tolerance=all left out."),
        _metric("kafka_away", "1 while the brokers do not answer."),
        _metric("kafka_errors_total", "Errors of the Kafka clients, by their name.", "error"),
        _metric("registry_requests_total", "Requests of the task's converters to the schema registry: ok, failed.", "result"),
        _metric("trace_spans_total", "Spans of traces that the collector has taken (exported) or has not (lost).", "result"),
    ),
    Metric(
        name="event_latency_seconds",
        doc="Age of a batch's change when it is read, taken out of the queue (queued) and acknowledged.",
        kind=Kind.HISTOGRAM,
        labels=("stage",),
        group="Queue and Kafka",
    ),
    *_group(
        "Offsets",
        _metric("offset_commits_total", "Offsets stored: ok, failed.", "result"),
        _metric("offset_last_commit_timestamp_seconds", "When an offset was stored last."),
        _metric("offset_uncommitted_seconds", "How long acknowledged progress has waited to be stored; 0 while none waits."),
        _metric("offset_flush_interval_seconds", "offset.flush.interval.ms."),
    ),
    Metric(name="offset_commit_duration_seconds", doc="Time that storing an offset took.", kind=Kind.HISTOGRAM, group="Offsets"),
    *_group(
        "Dump",
        _metric("dump_running", "1 while tables of the dump are left."),
        _metric("dump_tables_total", "Tables of the dump."),
        _metric("dump_tables_done", "Tables of the dump that have been read to their end."),
        _metric("dump_tables_failed", "Tables of the dump that could not be read; the log has the reason."),
        _metric("dump_rows_total", "Rows that the dump has read."),
        _metric("dump_bytes_total", "Their bytes, as the server sent them."),
        _metric("dump_rows_estimated", "Rows of its tables by the server's statistics. Absent where they are not known."),
        _metric("dump_rows_per_second", "Over the last minute."),
        _metric("dump_eta_seconds", "Time to the end at that speed. Absent where it is not known."),
        _metric(
            "dump_eta_error_ratio",
            "How wrong that time has been so far: 0.1 where it was a tenth too long or too short, by the middle one of the last answers. "
            "Absent before any can be judged.",
        ),
        _metric("dump_started_timestamp_seconds", "When this run of the task began or went on with it."),
        _metric("dump_duration_seconds", "How long this run has worked at it."),
        _metric("dump_last_progress_timestamp_seconds", "When a chunk was finished last."),
        _metric("dump_chunks_total", "Chunks finished by this run."),
        _metric("dump_table_rows", f"Rows read of a table that is being read. At most {TABLES_MAX} tables.", "table"),
        _metric("dump_table_bytes", "Their bytes.", "table"),
        _metric("dump_table_rows_estimated", "Its rows by the server's statistics.", "table"),
        _metric("dump_table_chunks", "Its chunks.", "table"),
        _metric("dump_table_eta_seconds", "Time to its end at the speed that it has had.", "table"),
        _metric("windows_open", "Windows that are open."),
        _metric("window_keys", "Keys noted in them."),
        _metric("windows_closed_total", "Windows that have met their high watermark."),
        _metric(
            "windows_discarded_total",
            "Windows that are read again: keys (too many noted), table (DDL, another columns' version, its rows rewritten), held (a prepared XA "
            "transaction), watermark (lost), error (the SELECT failed), keyless (a table without a key has changed), message_key, lacking (the log does not "
            "have all values of a row that it has changed).",
            "reason",
        ),
        _metric("window_rows_dropped_total", "Rows of chunks left out for newer changes in the log."),
        _metric("dump_governor_state", "1 for what dumps are: free, slowed or held, by dblog.dump.limit.* and the log race.", "state"),
        _metric("dump_governor_seconds_total", "Time that dumps were slowed and held.", "state"),
        _metric(
            "dump_limit",
            "What dumps are not to press the source beyond, by the end of its key; also log.race (1) and answer.s (seconds without an answer).",
            "limit",
        ),
        _metric(
            "dump_limit_measured", "What was measured of it last; absent while nothing is dumped, and where it cannot be measured.", "limit"
        ),
        _metric("proof_retries_total", "Snapshots that did not show their low watermark yet, and were taken again."),
        _metric("signals_total", "Signals carried out."),
        _metric(
            "signals_refused_total",
            "Signals left out, for they were malformed or asked for what cannot be; a line of the log has the reason.",
        ),
    ),
    *_group(
        "Schema history",
        _metric("schema_history_recovered_tables", "Tables recovered at the start."),
        _metric("schema_history_recovery_seconds", "How long that took."),
        _metric("schema_history_recovered_timestamp_seconds", "When it began."),
        _metric("schema_history_changes_total", "Statements that it took since."),
        _metric("schema_history_last_change_timestamp_seconds", "When it took the last one."),
    ),
)
"""Metrics that a task reports."""

OF_TASK = {metric.name: metric for metric in (*HERDER_TASK_METRICS, *TASK_METRICS)}
