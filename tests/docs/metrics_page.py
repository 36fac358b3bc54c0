"""Writes connect-worker/docs/metrics.md from what the worker declares; run as a program, it puts the page in place."""

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from dblog.observe import jmx
from dblog.observe.declared import HERDER_TASK_METRICS, TASK_METRICS, WORKER_METRICS, Metric

PAGE = Path(__file__).parents[2] / "connect-worker" / "docs" / "metrics.md"

HEAD = """\
# Metrics

What `GET /metrics` of a worker shows, name by name. The page is made from `observe/declared.py` and
`observe/jmx.py` by `tests/docs/metrics_page.py`.

    curl -s http://HOST:8083/metrics | grep dblog_task_lag_seconds

Each worker shows what runs on it: all tasks' processes are in one answer, with the labels
`connector` and `task`. A task reports once a second. Its counters begin at 0 with its process,
which `rate` and `increase` of Prometheus expect.

A number that is not known is left out, and never repeated from before: all numbers of a task whose
process hangs go 30 s after its last report, but for its state, its restarts and the time of that
report. The readonly listener (`dblog.rest.readonly.listener`) shows metrics without a login.

| option of the worker's file | meaning |
|---|---|
| `dblog.metrics.names` | `both` (default), `dblog`, or `jmx`: only the names of Kafka Connect and Debezium |
| `dblog.metrics.jmx.case` | `lower` spells Debezium's attributes as an exporter with `lowercaseOutputName` does |
| `dblog.metrics.tables.max` | how many tables and topics of a task have series of their own (100); the rest is `other` |

| option of a connector | meaning |
|---|---|
| `dblog.metrics.server.interval.ms` | how often the server is asked, on a connection of its own, how far its log goes (10000); 0: never |

## What to watch

| question | expression |
|---|---|
| has a task failed? | `dblog_task_state{state="failed"} == 1` |
| is something in doubt? | `dblog_connector_warnings > 0`: the list `warnings` of the status has the sentences |
| are changes of tables in no log? | `dblog_task_tables_unpublished > 0` (PostgreSQL): `warnings` has the statement to run |
| does a task stand still? | `dblog_task_stalled_seconds > 60`: the server's log has more, the server is silent, or records wait for Kafka, and nothing moves |
| does a start hang? | `dblog_task_starting_seconds > 600`, unless the history of schemas is long |
| does a process hang? | `time() - dblog_task_reported_timestamp_seconds > 60` |
| how late are changes? | `dblog_task_lag_seconds`, and by stage `dblog_task_event_latency_seconds` |
| will the log be purged too early? | `dblog_task_log_retention_seconds < dblog_task_lag_seconds + 6 * 3600`, or `dblog_task_log_purge_margin_files == 0 and dblog_task_log_stored_behind_files > 0`. What a provider of managed servers adds to the server's own rules shows in the second alone |
| does PostgreSQL's slot fill its disk? | `dblog_task_log_needed_bytes > 10e9`, or how much its disk can take. A connector that is stopped, failed or deleted reports nothing, and its slot keeps the log all the same: watch `pg_replication_slots` at the server too |
| will it be lost before it is read? | `dblog_task_log_race_left_seconds < 86400` |
| are dumps kept from harming their source? | `dblog_task_dump_governor_state{state="held"} == 1`, and `dblog_task_dump_limit_measured / on(connector, task, limit) dblog_task_dump_limit` |
| are rows left out? | `increase(dblog_task_events_skipped_total{reason!="parked"}[15m]) > 0` |
| are offsets stored? | `dblog_task_offset_uncommitted_seconds > 5 * dblog_task_offset_flush_interval_seconds` |
| does a dump stand still? | `dblog_task_dump_running == 1 and time() - dblog_task_dump_last_progress_timestamp_seconds > 600` |
| does the lead change all the time? | `sum(increase(dblog_worker_leaderships_total[10m])) > 5` |
| is Kafka or the database the slow side? | Kafka where `dblog_task_queue_fill_ratio` is near 1, the database where it is near 0 |
"""

JMX = """\
## Names of Kafka Connect and Debezium

Connect's metrics have the names that Strimzi's rules for the JMX exporter give them
(`kafka_connect_<group>_<metric>`). Debezium's attributes have those of Debezium's examples:
`debezium_metrics_<Attribute>` with the labels `plugin`, `name` (topic.prefix), `task` and `context`.

Rates, means and greatest values are over the last half to whole minute, those of
`MilliSecondsBehindSource` over five minutes, those of `offset_commit_*` over one and a half to three
flush intervals, if that is longer. A flush that finds nothing to store counts as a commit that went
well, as it does in Connect.

Of the worker there are `kafka_connect_worker_*` (counts of connectors, tasks and starts),
`kafka_connect_worker_rebalance_*`, `kafka_connect_coordinator_assigned_*`, and of each connector
`kafka_connect_connector_status` and `kafka_connect_connector_connector_class`, `_type` and `_version`,
which dashboards join; of a task also `kafka_connect_connector_task_status`.
"""

DIFFERENCES = """\
They mean what their names say, with these differences:

| metric | difference |
|---|---|
| `MilliSecondsSinceLastEvent` (streaming) | time since the server was heard on the log connection, heartbeats included, as Debezium has it for binlogs. It shows a dead connection, not that nobody writes; `dblog_task_log_last_record_timestamp_seconds` does that |
| `TotalNumberOfEventsSeen` (streaming) | row changes of captured tables, and what `NumberOfEventsFiltered` counts. Debezium counts each event of the log |
| `NumberOfEventsFiltered` | events of the log, each of any number of rows |
| `ChangesRecovered` | counts tables, for the history has a record for each |
| `NumberOfLargeTransactions`, `HoldingGlobalLock`, `SnapshotPaused` | 0: there is no buffer of transactions, no lock and no pause |
| `NumberOfNotWellFormedTransactions` | 0: a log with such a transaction is damaged for dblog, which stops or counts `NumberOfErroneousEvents` |
| `NumberOfUnchangedEventsSkipped` | 0 without `skip.messages.without.change`, where Debezium has -1 |
| `SnapshotCompleted`, `SnapshotSkipped` | stay 1 and 0 after a restart behind a finished dump, which the offset remembers; Debezium's are 0 and 1 then. Without any dump they are 0 and 1, and all counts of a snapshot 0 |
| `SnapshotAborted` | 1 from the first table that could not be read, while the others go on; `SnapshotCompleted` stays 0 then |
| `RowsScanned`, `TableChunksCompletedCounts` | have the label `table` |
"""


BY_TABLE = [jmx.Attribute(group="snapshot", name=name, of=lambda *_: None) for name in (jmx.ROWS_SCANNED, jmx.CHUNKS_COMPLETED)]


def page() -> str:
    parts = [HEAD]
    parts += ["## The worker\n", table(WORKER_METRICS, "dblog_")]
    for group, metrics in groupby(sorted((*HERDER_TASK_METRICS, *TASK_METRICS), key=lambda m: ORDER.index(m.group)), lambda m: m.group):
        parts += [f"## {group}\n", table(metrics, "dblog_task_")]
    parts += [JMX, listed("Connect's group", "kafka_connect_{group}_", jmx.CONNECT)]
    parts += [listed("Debezium's context", "debezium_metrics_", [*jmx.DEBEZIUM, *BY_TABLE]), DIFFERENCES]
    parts += ["Not reported:\n", left_out({**jmx.LEFT_OUT, **jmx.CONNECT_LEFT_OUT})]
    return "\n".join(parts)


ORDER = list(dict.fromkeys(metric.group for metric in (*HERDER_TASK_METRICS, *TASK_METRICS)))


def table(metrics: Iterable[Metric], prefix: str) -> str:
    rows = ["| name | type | labels | meaning |", "|---|---|---|---|"]
    rows += [f"| `{prefix}{m.name}` | {m.kind.value} | {', '.join(m.labels)} | {m.doc} |" for m in metrics]
    return "\n".join([*rows, ""])


def listed(heading: str, prefix: str, attributes: Iterable[jmx.Attribute]) -> str:
    groups: dict[str, list[str]] = {}
    for each in attributes:
        groups.setdefault(each.name, []).append(each.group)
    rows = [f"| {heading} | metric |", "|---|---|"]
    rows += [f"| {', '.join(of_name)} | `{prefix.format(group=of_name[0])}{name}` |" for name, of_name in groups.items()]
    return "\n".join([*rows, ""])


def left_out(reasons: dict[str, str]) -> str:
    return "\n".join(["| what | why |", "|---|---|", *(f"| {what} | {why} |" for what, why in reasons.items()), ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
