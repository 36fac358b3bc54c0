"""Keeps the job's Prometheus metrics and serves them over HTTP.

Every line of ``observe/progress.py`` updates counters and gauges, so the file for people and the
numbers for dashboards come from the same source. Tables are labels; their number is bounded by the
topics that are read. Names follow Prometheus's rules: base units, ``_total`` for counters,
``_timestamp_seconds`` for instants. A dashboard computes ``time() - x`` from these, because a gauge
of an age would stand still when nothing comes. The exception, ``lag_seconds``, is computed at each
scrape.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from dblog_sink.errors import DefiniteError
from dblog_sink.observe.metrics_server import MetricsServer
from dblog_sink.tables.verify import COUNTS, DIFFERING, EQUAL, UNKNOWN

_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 60.0, 150.0, 600.0)
_WAITS = ("land", "parked")
"""Paths of a batch's records that are not in their table yet."""
ERROR_CLASSES = ("kafka", "registry", "conflict", "storage", "definite", "other")
"""Classes of the job's errors. ``definite`` needs a person."""
REGISTRY_RESULTS = ("ok", "unknown", "away", "refused")
_REPAIRED = ("removed", "kept")
_VERDICTS = (EQUAL, DIFFERING, UNKNOWN)
_WRITTEN = (("upsert", "upserts"), ("delete", "deletes"))


class Metrics:
    """The metrics of one job. Threads may call ``take`` concurrently."""

    def __init__(self, *, version: str, once: bool = False, now_s: Callable[[], float] = time.time) -> None:
        self.registry = CollectorRegistry()
        self._now_s = now_s
        self._applied_up_to_s = now_s()
        self._known: set[str] = set()
        """Tables seen so far."""

        def counter(name: str, doc: str, *labels: str) -> Counter:
            return Counter(f"dblog_sink_{name}", doc, labels, registry=self.registry)

        def gauge(name: str, doc: str, *labels: str) -> Gauge:
            return Gauge(f"dblog_sink_{name}", doc, labels, registry=self.registry)

        def seconds(name: str, doc: str, *labels: str) -> Histogram:
            return Histogram(f"dblog_sink_{name}_seconds", doc, labels, buckets=_SECONDS, registry=self.registry)

        gauge("build_info", "The sink's version.", "version").labels(version).set(1)
        self._running = gauge("running", "1 while the query runs, 0 between an end and the next start.")
        gauge("ends_by_itself", "1 where the job ends once it has read all (trigger.once), 0 where it runs until it is stopped.").set(once)
        self._chunks = counter("chunks", "Dumped chunks whose markers were compared with what arrived, by the outcome.", "table", "result")
        self._chunk_rows = counter("chunk_rows_missing", "Rows that a chunk marker counts and that did not arrive.", "table")
        self._ghosts = counter("ghosts_removed", "Rows removed after a whole repair dump, for the source does not have them.", "table")
        self._repairs = counter(
            "repair_dumps", "Repair dumps that came to their ends, by the outcome: removed, or kept (rows).", "table", "result"
        )
        self._comparisons = counter(
            "verify_dumps", "Dumps that compare a table with its source, by the verdict: equal, differing, or unknown.", "table", "result"
        )
        self._compared_rows = gauge(
            "verified_rows",
            "Rows at the last comparison with the source: equal, differing, missing (in Delta), invented (not in the source), changed (since).",
            "table",
            "result",
        )
        self._compared_at = gauge("verified_timestamp_seconds", "When the table was last compared with its source.", "table")
        self._restarts = counter("restarts", "Restarts of the query after failures that may pass.")
        self._errors = counter("errors", "Failures of the query or of one of its steps, by what failed.", "class")
        for name in ERROR_CLASSES:
            self._errors.labels(name)
        self._registry_requests = counter("registry_requests", "Requests to the schema registry, by the outcome.", "result")
        for result in REGISTRY_RESULTS:
            self._registry_requests.labels(result)
        self._conflicts = counter("commit_conflicts", "Commits that Delta refused for another writer had committed in between.", "table")
        self._failures = counter("failures", "Ends of the job that need a person.")
        self._batches = counter("batches", "Batches, by the outcome: committed, or failed and tried again.", "result")
        for result in ("committed", "failed"):
            self._batches.labels(result)
        self._in_a_row = gauge("batch_failures_in_a_row", "Batches that have failed since one ended well.")
        self._last_batch = gauge("last_batch_timestamp_seconds", "When the newest batch was committed.")
        self._batch_seconds = seconds("batch_duration", "From a batch's first look at its records to its last commit.")
        self._phase_seconds = seconds(
            "batch_phase_duration", "A batch's steps: read, write, count (of chunks), record (in the control table).", "phase"
        )
        self._records = counter("records", "Kafka records taken in.", "table")
        self._resent = counter("duplicates_dropped", "Records left out, for an earlier checkpoint had applied them.")
        self._landed = counter("records_landed", "Records landed, to be merged later.", "table")
        self._rows = counter("rows", "Rows written or deleted in the table.", "table", "op")
        self._left_out = counter(
            "partial_rows_left_out", "Dumped rows of some columns only, of which the table had no row that was not newer.", "table"
        )
        self._bad = counter("quarantined", "Records kept in quarantine.", "table")
        self._writes = counter("writes", "Times the table was brought up to date, by the way it was written.", "table", "path")
        self._write_seconds = seconds("write_duration", "From a table's records to its last commit.", "table")
        self._table_rows = gauge("table_rows", "Rows in the Delta table.", "table")
        self._files = gauge("table_files", "Data files of the Delta table, after its last VACUUM.", "table")
        self._visible = gauge("visible_timestamp_seconds", "Source time of the newest change that is in the table.", "table")
        self._lag = gauge(
            "source_lag_seconds", "From the newest change's commit on the source to its commit in Delta, at the last write.", "table"
        )
        gauge(
            "lag_seconds",
            "How long ago the tables had everything that Kafka had then; from the job's start at the earliest, parked tables left out.",
        ).set_function(lambda: max(0.0, self._now_s() - self._applied_up_to_s))
        self._behind = gauge("records_behind", "Records in Kafka that are not read yet.")
        self._waiting = gauge("rows_waiting", "Records landed and not merged.")
        self._parked = gauge("table_parked", "1 while the table is parked.", "table")
        self._snapshot = gauge("snapshot_number", "The newest snapshot of the manifest.")
        self._snapshot_source = gauge("snapshot_timestamp_seconds", "Source time of the newest snapshot's last transaction.")
        self._snapshot_seconds = seconds("snapshot_duration", "From a snapshot's choice to its publication.")
        self._incomplete = gauge(
            "transaction_incomplete_seconds", "How long an incomplete transaction has blocked the next snapshot, once that was reported."
        )
        self._losses = counter("data_losses", "Times that Kafka had lost records of the topic before they were read.", "topic")

        self._spans = counter("trace_spans", "Spans of traces that the collector has taken (exported) or has not (lost).", "result")

    def serve(self, listen: str) -> int:
        """Serve scrapes at ``host:port`` in a separate thread, and return the port.

        Port 0 selects a free one. Raise DefiniteError if the address is taken.
        """
        host, _, port = listen.rpartition(":")
        try:
            server = MetricsServer(self.registry, host or "0.0.0.0", int(port))  # noqa: S104  asked for by leaving the host out
        except OSError as e:
            msg = f"metrics.listen={listen} cannot be opened ({e.strerror}); choose another address"
            raise DefiniteError(msg) from e
        return int(server.server_port)

    def take(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Update the metrics from one progress line."""
        match kind:
            case "batch":
                self._batches.labels("committed").inc()
                self._batch_seconds.observe(facts["seconds"])
                self._last_batch.set(self._now_s())
                for phase, taken in facts["phases"].items():
                    self._phase_seconds.labels(phase).observe(taken)
                self._resent.inc(facts["resent"])
                for table, one in facts["tables"].items():
                    self._meet(table)
                    self._records.labels(table).inc(one["records"])
                    if one["path"] in _WAITS:
                        self._landed.labels(table).inc(one["records"])
                    else:
                        self._written(table, one)
            case "merge":
                self._written(facts["table"], facts)
            case "behind" | "idle":
                self._behind.set(facts["records_behind"])
                self._waiting.set(facts["rows_waiting"])
                if facts["lag_s"] is not None:
                    self._applied_up_to_s = self._now_s() - facts["lag_s"]
            case "parked" | "resumed":
                self._parked.labels(facts["table"]).set(kind == "parked")
            case "vacuum":
                if facts["files"] is not None:
                    self._files.labels(facts["table"]).set(facts["files"])
            case "chunks":
                self._meet(facts["table"])
                self._chunks.labels(facts["table"], "complete").inc(facts["complete"])
            case "chunk":
                self._meet(facts["table"])
                self._chunks.labels(facts["table"], facts["result"]).inc()
                if facts["result"] == "short":
                    self._chunk_rows.labels(facts["table"]).inc(facts["missing"])
            case "ghosts" if facts["result"] in _REPAIRED:
                self._meet(facts["table"])
                self._repairs.labels(facts["table"], facts["result"]).inc()
                self._ghosts.labels(facts["table"]).inc(facts["rows"])
            case "verified" if facts["result"] in _VERDICTS:
                self._meet(facts["table"])
                self._comparisons.labels(facts["table"], facts["result"]).inc()
                if facts["result"] != UNKNOWN:
                    self._compared(facts, self._now_s())
            case "verified_before":
                self._compared(facts, facts["at_s"])
            case "snapshot":
                self._snapshot.set(facts["number"])
                self._snapshot_seconds.observe(facts["seconds"])
                if facts["source_ts_ms"] is not None:
                    self._snapshot_source.set(facts["source_ts_ms"] / 1000)
            case "incomplete":
                self._incomplete.set(facts["seconds"])
            case "completed":
                self._incomplete.set(0)
            case "data_loss":
                self._losses.labels(facts["topic"]).inc()
            case "started":
                self._running.set(1)
            case "batch_ended":
                self._in_a_row.set(0)
            case "batch_failed":
                self._batches.labels("failed").inc()
                self._in_a_row.inc()
            case "error":
                self._errors.labels(facts["of"]).inc()
            case "registry":
                self._registry_requests.labels(facts["result"]).inc()
            case "conflict":
                self._conflicts.labels(facts["table"]).inc()
            case "spans":
                self._spans.labels(facts["result"]).inc(facts["spans"])
            case "restarting":
                self._restarts.inc()
            case "failed":
                self._failures.inc()
                self._running.set(0)
            case "stopped":
                self._running.set(0)
            case _:
                pass

    def _compared(self, facts: Mapping[str, Any], at_s: float) -> None:
        for name in COUNTS:
            self._compared_rows.labels(facts["table"], name).set(facts[name])
        self._compared_at.labels(facts["table"]).set(at_s)

    def _meet(self, table: str) -> None:
        """Create a new table's series of faults at 0, so that Prometheus sees the first as a
        rise.
        """
        if table in self._known:
            return
        self._known.add(table)
        for result in ("complete", "short", "late", "unproven"):
            self._chunks.labels(table, result)
        for result in _REPAIRED:
            self._repairs.labels(table, result)
        for result in _VERDICTS:
            self._comparisons.labels(table, result)
        for series in (self._chunk_rows, self._ghosts, self._bad, self._parked, self._conflicts):
            series.labels(table)

    def _written(self, table: str, one: Mapping[str, Any]) -> None:
        for op, name in _WRITTEN:
            self._rows.labels(table, op).inc(one[name])
        self._bad.labels(table).inc(one["bad"])
        self._left_out.labels(table).inc(one["left_out"])
        self._writes.labels(table, one["path"] or "none").inc()
        self._write_seconds.labels(table).observe(one["seconds"])
        self._table_rows.labels(table).set(one["rows"])
        if one["source_ts_ms"] is not None:
            self._visible.labels(table).set(one["source_ts_ms"] / 1000)
            self._lag.labels(table).set(one["source_lag_s"])
