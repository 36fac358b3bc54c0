# ruff: noqa: INP001  programs, no package
"""Defines the four dashboards: the panels with their queries and the alerts on the same metrics.

``$namespace``, ``$job`` and ``$connector`` are variables of the boards; ``$__rate_interval`` is
Grafana's. The worker and the sink declare the metrics. Like the alerts, no query adds up values of
two groups, because connectors of two groups may have the same name.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A panel of a board.

    ``queries`` are pairs of an expression and a legend. ``alert`` names the alert whose runbook the
    panel links to; None for no link.
    """

    title: str
    description: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    alert: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A dashboard in Grafana.

    ``variables`` are pairs of a name and the query for its values. The choice of a variable limits
    the values of later ones.
    """

    name: str
    title: str
    description: str
    variables: tuple[tuple[str, str], ...]
    panels: tuple[Panel, ...]


_GROUP = 'namespace=~"$namespace",job=~"$job"'
_IN_GROUP = f"{{{_GROUP}}}"
_CONNECTOR = f'{_GROUP},connector=~"$connector"'


def _groups_of(metric: str) -> tuple[tuple[str, str], ...]:
    """Return the variables that choose groups of workers or sinks among those in one Prometheus.

    ``metric`` is any metric that each of them has.
    """
    return (("namespace", f"label_values({metric}, namespace)"), ("job", f'label_values({metric}{{namespace=~"$namespace"}}, job)'))


_OF_WORKERS = (*_groups_of("dblog_build_info"), ("connector", f"label_values(dblog_task_state{_IN_GROUP}, connector)"))


def _of(name: str, labels: str = "") -> str:
    return f"dblog_task_{name}{{{_CONNECTOR}{',' if labels else ''}{labels}}}"


def _rate(name: str, labels: str = "") -> str:
    return f"rate({_of(name, labels)}[$__rate_interval])"


def _by(labels: str, expression: str, *, how: str = "sum") -> str:
    return f"{how} by ({labels}) ({expression})"


_TASK = "namespace, job, connector, task"


def _task(title: str, description: str, name: str, *, unit: str = "short", how: str = "max", alert: str | None = None) -> Panel:
    """Return a panel with the gauge ``name`` of each task."""
    return Panel(
        title=title,
        description=description,
        queries=((_by(_TASK, _of(name), how=how), "{{job}} {{connector}}/{{task}}"),),
        unit=unit,
        alert=alert,
    )


def _rates(title: str, description: str, name: str, *labels: str, unit: str = "short", alert: str | None = None) -> Panel:
    """Return a panel with the rate of the counter ``name`` for each connector and other labels."""
    shown = "/".join(f"{{{{{label}}}}}" for label in ("connector", *labels))
    return Panel(
        title=title,
        description=description,
        queries=((_by(", ".join(("namespace", "job", "connector", *labels)), _rate(name)), f"{{{{job}}}} {shown}"),),
        unit=unit,
        alert=alert,
    )


FLEET = Board(
    name="fleet",
    title="dblog / Fleet",
    description="All workers and connectors: what runs, what does not, and who is late.",
    variables=_OF_WORKERS,
    panels=(
        Panel(
            title="Workers that are ready",
            description="Workers that take requests. One of each group runs the connectors, the others stand by.",
            queries=((f"sum by (namespace, job) (dblog_worker_ready{_IN_GROUP})", "{{job}}"),),
            kind="stat",
            alert="DblogNoWorker",
        ),
        Panel(
            title="Workers that lead",
            description="One for each group.",
            queries=((f"sum by (namespace, job) (dblog_worker_leads{_IN_GROUP})", "{{job}}"),),
            kind="stat",
            alert="DblogNoLeader",
        ),
        Panel(
            title="Connectors",
            description="In the config topic, whatever their state.",
            queries=((f"max by (namespace, job) (dblog_worker_connectors_configured{_IN_GROUP})", "{{job}}"),),
            kind="stat",
        ),
        Panel(
            title="Tasks by state",
            description="A task that is not running does nothing.",
            queries=((f"sum by (state) ({_of('state')})", "{{state}}"),),
            kind="stat",
            alert="DblogTaskFailed",
        ),
        Panel(
            title="Tasks that do not run yet",
            description="UNASSIGNED or RESTARTING: their start takes its time, hangs, or is tried again.",
            queries=((_by(_TASK, _of("state", 'state=~"unassigned|restarting"'), how="max"), "{{job}} {{connector}}/{{task}}"),),
            alert="DblogTaskUnassigned",
        ),
        _task(
            "Starts under way",
            "How long a start has taken by now: connections, checks, the history of schemas.",
            "starting_seconds",
            unit="s",
            alert="DblogTaskStarting",
        ),
        Panel(
            title="Connectors by state",
            description="1 for the state that a connector is in.",
            queries=(
                (
                    f"max by (namespace, job, connector, state) (dblog_connector_state{{{_CONNECTOR}}}) == 1",
                    "{{job}} {{connector}} {{state}}",
                ),
            ),
            kind="table",
            alert="DblogConnectorFailed",
        ),
        Panel(
            title="Warnings",
            description="How many stand for a connector; the list warnings of its status has the sentences.",
            queries=((f"max by (namespace, job, connector) (dblog_connector_warnings{{{_CONNECTOR}}}) > 0", "{{job}} {{connector}}"),),
            kind="table",
            alert="DblogConnectorWarnings",
        ),
        Panel(
            title="Versions",
            description="More than one during an upgrade only.",
            queries=((f"count by (namespace, job, version) (dblog_build_info{_IN_GROUP})", "{{job}} {{version}}"),),
            kind="table",
        ),
        _task("Lag", "Age of the oldest change that Kafka does not have yet.", "lag_seconds", unit="s", alert="DblogLagHigh"),
        _task("Stalled", "How long nothing has moved though something should.", "stalled_seconds", unit="s", alert="DblogStalled"),
        _rates("Records acknowledged", "Records that Kafka has, each second.", "records_acknowledged_total", unit="cps"),
        Panel(
            title="Restarts in the last hour",
            description="killed: the process died; error: tried again; requested and config: on purpose.",
            queries=(
                (f"sum by (namespace, job, connector, reason) (increase({_of('restarts_total')}[1h]))", "{{job}} {{connector}} {{reason}}"),
            ),
            alert="DblogTaskRestarts",
        ),
        Panel(
            title="Changes of the lead",
            description="In ten minutes. A group at rest has none.",
            queries=((f"sum by (namespace, job) (increase(dblog_worker_leaderships_total{_IN_GROUP}[10m]))", "{{job}}"),),
            alert="DblogLeaderChanges",
        ),
        Panel(
            title="Days to the end of certificates",
            description="The nearest end of the certificates in each file.",
            queries=(
                (
                    f"(min by (namespace, job, use, connector, name) (dblog_certificate_expiry_timestamp_seconds{_IN_GROUP}) - time()) / 86400",
                    "{{job}} {{use}} {{name}}",
                ),
            ),
            unit="d",
            alert="DblogCertificateExpires",
        ),
        Panel(
            title="Connectors that are not as wanted",
            description="Found by the program that applies connectors from files; field: the option at fault.",
            queries=((f"max by (namespace, job, connector, field) (dblog_apply_problem{_IN_GROUP})", "{{job}} {{connector}} {{field}}"),),
            kind="table",
            alert="DblogApplyProblem",
        ),
        Panel(
            title="Last round in which all was as wanted",
            description="Seconds since then.",
            queries=((f"time() - max by (namespace, job) (dblog_apply_last_good_timestamp_seconds{_IN_GROUP})", "{{job}}"),),
            unit="s",
            alert="DblogApplyLate",
        ),
        Panel(
            title="CPU of tasks",
            description="A task is a process; more than one core is rare.",
            queries=((_by(_TASK, _rate("process_cpu_seconds_total")), "{{job}} {{connector}}/{{task}}"),),
        ),
        _task("Memory of tasks", "Resident memory of each task's process.", "process_resident_memory_bytes", unit="bytes"),
        Panel(
            title="Requests to the worker's registry",
            description="By outcome; server_error is the worker's fault.",
            queries=(
                (
                    f"sum by (namespace, job, result) (rate(dblog_registry_requests_total{_IN_GROUP}[$__rate_interval]))",
                    "{{job}} {{result}}",
                ),
            ),
            unit="reqps",
            alert="DblogRegistryErrors",
        ),
    ),
)

CONNECTOR = Board(
    name="connector",
    title="dblog / Connector",
    description="One connector from its database's log to Kafka's acknowledgement: where the time goes.",
    variables=_OF_WORKERS,
    panels=(
        _task("Lag", "Age of the oldest change that Kafka does not have yet.", "lag_seconds", unit="s", alert="DblogLagVeryHigh"),
        _task(
            "Log behind", "Bytes of the database's log that are not read yet.", "log_behind_bytes", unit="bytes", alert="DblogNotCatchingUp"
        ),
        _task("Stalled", "How long nothing has moved though something should.", "stalled_seconds", unit="s", alert="DblogStalled"),
        Panel(
            title="Last heard of the database",
            description="Seconds since the newest bytes on the log connection, heartbeats included.",
            queries=((f"time() - {_by(_TASK, _of('log_last_heard_timestamp_seconds'), how='max')}", "{{job}} {{connector}}/{{task}}"),),
            unit="s",
            alert="DblogStalled",
        ),
        _rates("Log read", "Bytes of the log that arrive, each second.", "log_bytes_total", unit="Bps"),
        _rates("Row changes by operation", "Changes of captured tables that are read.", "events_total", "op", unit="cps"),
        _rates("Transactions", "Commits that are read.", "transactions_total", unit="cps"),
        _rates("DDL statements", "Statements that changed captured tables.", "ddl_total"),
        _rates("Filtered", "Left out because the configuration says so.", "events_filtered_total", "reason", unit="cps"),
        Panel(
            title="Skipped in the last hour",
            description="Changes that were left out although no filter asks for it. Anything but parked is lost.",
            queries=(
                (
                    f"sum by (namespace, job, connector, reason) (increase({_of('events_skipped_total')}[1h]))",
                    "{{job}} {{connector}} {{reason}}",
                ),
            ),
            alert="DblogEventsSkipped",
        ),
        _task("Parked tables", "Tables whose columns are not known.", "tables_parked", alert="DblogTableParked"),
        _task(
            "Tables in no log",
            "Captured tables of which PostgreSQL logs no changes, or not all.",
            "tables_unpublished",
            alert="DblogTablesUnpublished",
        ),
        _task("Captured tables", "Captured tables that exist.", "tables_captured"),
        Panel(
            title="Queue",
            description="How full it is, 0 to 1. Full: the brokers are the slower part. Empty: the database is.",
            queries=((_by(_TASK, _of("queue_fill_ratio"), how="max"), "{{job}} {{connector}}/{{task}}"),),
            unit="percentunit",
            alert="DblogQueueFull",
        ),
        Panel(
            title="Readers wait for room",
            description="Share of the time in which the queue was full.",
            queries=((_by(_TASK, _rate("queue_full_seconds_total")), "{{job}} {{connector}}/{{task}}"),),
            unit="percentunit",
            alert="DblogQueueFull",
        ),
        Panel(
            title="Age of changes by stage (p95)",
            description="When they are read, taken out of the queue, and acknowledged: the difference is what a stage takes.",
            queries=(
                (
                    f"histogram_quantile(0.95, sum by (namespace, job, connector, stage, le) ({_rate('event_latency_seconds_bucket')}))",
                    "{{job}} {{connector}} {{stage}}",
                ),
            ),
            unit="s",
        ),
        _rates("Records by topic", "Records made for each topic, from log and dump.", "topic_records_total", "topic", unit="cps"),
        _rates(
            "Acknowledged by topic",
            "The same, once Kafka has them.",
            "topic_records_acknowledged_total",
            "topic",
            unit="cps",
            alert="DblogTopicSilent",
        ),
        _task("Not acknowledged", "Records that were sent and that Kafka has not acknowledged.", "records_outstanding"),
        _rates("Errors of Kafka clients", "By librdkafka's name.", "kafka_errors_total", "error", alert="DblogKafkaErrors"),
        _rates(
            "Registry", "Requests of the task's converters, by outcome.", "registry_requests_total", "result", alert="DblogRegistryErrors"
        ),
        _task(
            "Progress not stored",
            "How long acknowledged progress has waited to be stored.",
            "offset_uncommitted_seconds",
            unit="s",
            alert="DblogOffsetsNotCommitted",
        ),
        _rates("Offsets stored", "By outcome.", "offset_commits_total", "result", alert="DblogOffsetsNotCommitted"),
        _task(
            "Log retention",
            "How long the database keeps its log. Nothing: for ever.",
            "log_retention_seconds",
            unit="s",
            how="min",
            alert="DblogLogRetentionShort",
        ),
        _task(
            "Log files before ours",
            "Log files before the one with the stored position. 0: that one goes next. Nothing: PostgreSQL's slot keeps all.",
            "log_purge_margin_files",
            how="min",
            alert="DblogLogPurgeNear",
        ),
        _rates("Errors", "By class, and whether another try may help.", "errors_total", "class", "retriable", alert="DblogTaskRestarts"),
    ),
)

DUMP = Board(
    name="dump",
    title="dblog / Dump",
    description="How far dumps are, when they end, and what their windows do beside the log.",
    variables=_OF_WORKERS,
    panels=(
        _task("Running", "1 while tables of a dump are left.", "dump_running", alert="DblogDumpStuck"),
        Panel(
            title="Tables",
            description="All of the dump, those that are done, and those that could not be read.",
            queries=tuple(
                (_by(_TASK, _of(f"dump_tables_{name}"), how="max"), f"{{{{job}}}} {{{{connector}}}} {name}")
                for name in ("total", "done", "failed")
            ),
            alert="DblogDumpTablesFailed",
        ),
        _task("Rows read", "Rows that the dump has read.", "dump_rows_total"),
        _task("Rows estimated", "By the database's statistics; they may be off by half.", "dump_rows_estimated"),
        _task("Rows a second", "Over the last minute.", "dump_rows_per_second", unit="cps"),
        _task("Time to the end", "At the speed of now.", "dump_eta_seconds", unit="s"),
        _task("Error of that time", "By the middle one of the last answers: 0.1 is a tenth too long or too short.", "dump_eta_error_ratio"),
        Panel(
            title="Held or slowed",
            description="1 while dumps give way to their source: its load, or log that would be lost before it is read. A dump's detail says which.",
            queries=tuple(
                (_by(_TASK, _of("dump_governor_state", f'state="{state}"'), how="max"), f"{{{{job}}}} {{{{connector}}}} {state}")
                for state in ("slowed", "held")
            ),
        ),
        Panel(
            title="Last progress",
            description="Seconds since a chunk was finished.",
            queries=((f"time() - {_by(_TASK, _of('dump_last_progress_timestamp_seconds'), how='max')}", "{{job}} {{connector}}/{{task}}"),),
            unit="s",
            alert="DblogDumpStuck",
        ),
        Panel(
            title="Tables being read",
            description="Rows so far, of each table that is being read.",
            queries=((_by("namespace, job, connector, table", _of("dump_table_rows"), how="max"), "{{job}} {{table}}"),),
        ),
        Panel(
            title="Time to each table's end",
            description="At the speed that each has had.",
            queries=((_by("namespace, job, connector, table", _of("dump_table_eta_seconds"), how="max"), "{{job}} {{table}}"),),
            unit="s",
        ),
        _rates("Chunks", "Chunks finished, each second.", "dump_chunks_total", unit="cps", alert="DblogDumpStuck"),
        _task("Open windows", "Stretches of the log in which a chunk is read.", "windows_open"),
        _task("Keys in windows", "Keys that the log has changed since low watermarks.", "window_keys"),
        _rates("Windows closed", "Windows that have met their high watermark.", "windows_closed_total", unit="cps"),
        _rates("Windows read again", "By the reason.", "windows_discarded_total", "reason", unit="cps", alert="DblogDumpStuck"),
        _rates(
            "Rows dropped for newer changes", "Rows of chunks that the log had changed meanwhile.", "window_rows_dropped_total", unit="cps"
        ),
        _rates("Snapshots taken again", "They did not show their low watermark yet.", "proof_retries_total", unit="cps"),
    ),
)


def _sink(name: str, labels: str = "") -> str:
    return f"dblog_sink_{name}{{{_GROUP}{',' if labels else ''}{labels}}}"


def _sink_rate(labels: str, name: str) -> str:
    return f"sum by ({labels}) (rate({_sink(name)}[$__rate_interval]))"


def _sink_p95(labels: str, name: str) -> str:
    return f"histogram_quantile(0.95, sum by ({labels}, le) (rate({_sink(name + '_bucket')}[$__rate_interval])))"


_WRONG = 'result=~"differing|missing|invented"'

SINK = Board(
    name="sink",
    title="dblog / Sink",
    description="From Kafka to the Delta tables: how late they are, what each batch does, and what waits for a person.",
    variables=_groups_of("dblog_sink_build_info"),
    panels=(
        Panel(
            title="Running",
            description="1 while the query runs.",
            queries=((f"max by (namespace, job) ({_sink('running')})", "{{job}}"),),
            kind="stat",
            alert="DblogSinkDown",
        ),
        Panel(
            title="Lag",
            description="How long ago the tables had everything that Kafka had then.",
            queries=((f"max by (namespace, job) ({_sink('lag_seconds')})", "{{job}}"),),
            unit="s",
            alert="DblogSinkLag",
        ),
        Panel(
            title="Age of the newest change by table",
            description="By the source's clock. It rises for a table that nobody writes to.",
            queries=((f"time() - max by (namespace, job, table) ({_sink('visible_timestamp_seconds')})", "{{job}} {{table}}"),),
            unit="s",
        ),
        Panel(
            title="From source to Delta by table",
            description="From a change's commit on the source to its commit in Delta, at the last write.",
            queries=((f"max by (namespace, job, table) ({_sink('source_lag_seconds')})", "{{job}} {{table}}"),),
            unit="s",
        ),
        Panel(
            title="Records that wait",
            description="In Kafka, and in the landing table.",
            queries=(
                (f"max by (namespace, job) ({_sink('records_behind')})", "{{job}} in Kafka"),
                (f"max by (namespace, job) ({_sink('rows_waiting')})", "{{job}} landed"),
            ),
            alert="DblogSinkLag",
        ),
        Panel(
            title="Batches",
            description="Batches by outcome. A failed one is tried again.",
            queries=((_sink_rate("namespace, job, result", "batches_total"), "{{job}} {{result}}"),),
            unit="cps",
            alert="DblogSinkFailing",
        ),
        Panel(
            title="Failures in a row",
            description="Batches that failed since one ended well.",
            queries=((f"max by (namespace, job) ({_sink('batch_failures_in_a_row')})", "{{job}}"),),
            alert="DblogSinkFailing",
        ),
        Panel(
            title="Duration of batches (p95)",
            description="From the first look at the records to the last commit.",
            queries=((_sink_p95("namespace, job", "batch_duration_seconds"), "{{job}}"),),
            unit="s",
            alert="DblogSinkLag",
        ),
        Panel(
            title="Duration by step",
            description="Mean of: read (and sort by topic), write, count (of chunks), record (in the control table).",
            queries=(
                (
                    _sink_rate("namespace, job, phase", "batch_phase_duration_seconds_sum")
                    + " / "
                    + _sink_rate("namespace, job, phase", "batch_phase_duration_seconds_count"),
                    "{{job}} {{phase}}",
                ),
            ),
            unit="s",
        ),
        Panel(
            title="Duration of a table's write (p95)",
            description="From a table's records to its last commit.",
            queries=((_sink_p95("namespace, job, table", "write_duration_seconds"), "{{job}} {{table}}"),),
            unit="s",
        ),
        Panel(
            title="Records taken in",
            description="Kafka records, each second.",
            queries=((_sink_rate("namespace, job, table", "records_total"), "{{job}} {{table}}"),),
            unit="cps",
        ),
        Panel(
            title="Rows written",
            description="Upserts and deletes in the tables, each second.",
            queries=((_sink_rate("namespace, job, table, op", "rows_total"), "{{job}} {{table}} {{op}}"),),
            unit="cps",
        ),
        Panel(
            title="Ways of writing",
            description="append, merge or rewrite: a table that is always merged is the dear one.",
            queries=((_sink_rate("namespace, job, table, path", "writes_total"), "{{job}} {{table}} {{path}}"),),
            unit="cps",
        ),
        Panel(
            title="Rows by table",
            description="Rows in the Delta tables.",
            queries=((f"max by (namespace, job, table) ({_sink('table_rows')})", "{{job}} {{table}}"),),
        ),
        Panel(
            title="Parked tables",
            description="1 while a table waits for a person.",
            queries=((f"max by (namespace, job, table) ({_sink('table_parked')})", "{{job}} {{table}}"),),
            alert="DblogSinkTableParked",
        ),
        Panel(
            title="Quarantine in the last hour",
            description="Records that could not be applied.",
            queries=((f"sum by (namespace, job, table) (increase({_sink('quarantined_total')}[1h]))", "{{job}} {{table}}"),),
            alert="DblogSinkQuarantine",
        ),
        Panel(
            title="Rows that are not the source's",
            description="At the last comparison of the table with its source: differing, missing in Delta, or invented there.",
            queries=((f"sum by (namespace, job, table, result) ({_sink('verified_rows', _WRONG)})", "{{job}} {{table}} {{result}}"),),
            alert="DblogLakeDiffers",
        ),
        Panel(
            title="Errors in the last hour",
            description="What failed: Kafka, the registry, a commit's conflict, the storage, something a person must mend.",
            queries=((f"sum by (namespace, job, class) (increase({_sink('errors_total')}[1h]))", "{{job}} {{class}}"),),
            alert="DblogSinkKafkaErrors",
        ),
        Panel(
            title="Restarts in the last hour",
            description="Restarts of the query after failures that may pass.",
            queries=((f"sum by (namespace, job) (increase({_sink('restarts_total')}[1h]))", "{{job}}"),),
            alert="DblogSinkRestarts",
        ),
        Panel(
            title="Registry",
            description="Requests by outcome; schemas are asked for once.",
            queries=((_sink_rate("namespace, job, result", "registry_requests_total"), "{{job}} {{result}}"),),
            unit="reqps",
            alert="DblogSinkRegistryErrors",
        ),
        Panel(
            title="Chunks compared with their markers",
            description="complete; short: rows are missing; late: they came after all; unproven: nothing can be said.",
            queries=((f"sum by (namespace, job, table, result) ({_sink('chunks_total')})", "{{job}} {{table}} {{result}}"),),
            alert="DblogVerifyMismatch",
        ),
        Panel(
            title="Commit conflicts in the last hour",
            description="Another writer committed in between.",
            queries=((f"sum by (namespace, job, table) (increase({_sink('commit_conflicts_total')}[1h]))", "{{job}} {{table}}"),),
            alert="DblogSinkFailing",
        ),
        Panel(
            title="Duplicates left out",
            description="Records that an earlier checkpoint had applied.",
            queries=((f"sum by (namespace, job) ({_sink('duplicates_dropped_total')})", "{{job}}"),),
        ),
        Panel(
            title="Records lost in Kafka",
            description="They expired before they were read.",
            queries=((f"sum by (namespace, job, topic) ({_sink('data_losses_total')})", "{{job}} {{topic}}"),),
            alert="DblogSinkDataLoss",
        ),
        Panel(
            title="Consistent snapshots",
            description="The newest one's number.",
            queries=((f"max by (namespace, job) ({_sink('snapshot_number')})", "{{job}}"),),
            alert="DblogSinkSnapshotBlocked",
        ),
    ),
)

BOARDS = (FLEET, CONNECTOR, DUMP, SINK)
