"""Collects the metrics of a running task once a second from the counts of its parts."""

from __future__ import annotations

from collections import deque
from itertools import chain, islice

from dblog.clock import Clock
from dblog.core.dumps import Dump
from dblog.core.table_dump import TableDump
from dblog.model import TableId
from dblog.observe.numbers import OTHER, named
from dblog.readers.dump.governing import Governing
from dblog.readers.dump.open_windows import OpenWindows
from dblog.readers.dump_progress import DumpProgress
from dblog.readers.log.logwatch import RowEstimates, Watch
from dblog.readers.log.schemas import Schemas
from dblog.readers.log.stream import LogStream
from dblog.readers.queue import BlockingQueue
from dblog.readers.run.dumpdesk import DumpDesk
from dblog.readers.signals.signals import SignalDesk
from dblog.readers.tally import Tally
from dblog.transforms.stage import TransformStage

RATE_OVER_S = 60.0
CAPTURED_AGAIN_S = 60.0


class TaskMetrics:
    """Metrics of one run, collected by the sender's thread.

    ``queue_limits`` is (records, bytes). ``recovery`` holds the numbers that the start has counted.
    """

    def __init__(
        self,
        *,
        stream: LogStream,
        queue: BlockingQueue,
        progress: DumpProgress,
        windows: OpenWindows,
        tally: Tally,
        schemas: Schemas,
        watch: Watch,
        estimates: RowEstimates,
        governing: Governing,
        signals: SignalDesk,
        desk: DumpDesk,
        queue_limits: tuple[int, int],
        recovery: dict[str, float],
        tables_max: int,
        clock: Clock,
        stage: TransformStage | None = None,
    ) -> None:
        self._stage = stage
        self._stream = stream
        self._queue = queue
        self._progress = progress
        self._windows = windows
        self._tally = tally
        self._schemas = schemas
        self._watch = watch
        self._estimates = estimates
        self._governing = governing
        self._signals = signals
        self._desk = desk
        self._queue_limits = queue_limits
        self._recovery = recovery
        self._tables_max = tables_max
        self._clock = clock
        dump = progress.own
        self._dump_began_s = None if dump is None or dump.ended else clock.monotonic_s()
        self._dump_began_us = clock.now_us()
        self._dump_ended_s: float | None = None
        self._rows_at: deque[tuple[float, int]] = deque()
        self._tables_at: dict[TableId, tuple[float, int]] = {}
        self._captured: tuple[float, int] | None = None

    def numbers(self) -> dict[str, float]:
        """Return all metrics by name."""
        now_s, now_us = self._clock.monotonic_s(), self._clock.now_us()
        return {
            **self._of_queue(),
            **self._of_log(now_s),
            **self._of_transforms(),
            **self._of_server(),
            **self._windows.numbers(),
            **self._tally.numbers(),
            **self._of_dump(now_s, now_us),
            **self._governing.numbers(),
            "signals_total": float(self._signals.taken_total),
            "signals_refused_total": float(self._signals.refused_total),
            **self._recovery,
        }

    def _of_transforms(self) -> dict[str, float]:
        if self._stage is None:
            return {}
        return {
            named("events_filtered_total", "transform"): float(self._stage.dropped_total),
            named("events_skipped_total", "untransformed"): float(self._stage.failed_total),
        }

    def _of_queue(self) -> dict[str, float]:
        queue = self._queue
        records_max, bytes_max = self._queue_limits
        return {
            "queue_records": float(queue.records_total),
            "queue_bytes": float(queue.bytes_total),
            "queue_capacity_records": float(records_max),
            "queue_capacity_bytes": float(bytes_max),
            "queue_fill_ratio": queue.fill,
            "queue_full_seconds_total": queue.full_s,
        }

    def _of_log(self, now_s: float) -> dict[str, float]:
        stream = self._stream
        counts = stream.counts()
        lag_ms = max(stream.lag_ms(), self._age_ms(self._queue.oldest_source_ts_us))
        passed_over = self._schemas.passed_over.total
        out = {
            "connected": float(stream.connected),
            "log_silent": float(stream.silent),
            **stream.progress.metrics(),
            "log_reconnects_total": float(stream.reconnects_total),
            "log_records_total": float(stream.records_total),
            "log_bytes_total": float(counts.bytes),
            "lag_ms": lag_ms,
            "transactions_total": float(counts.commits),
            "rollbacks_total": float(counts.rollbacks),
            "ddl_total": float(stream.ddl_total),
            "schema_history_changes_total": float(stream.ddl_total),
            named("events_total", "create"): float(counts.created),
            named("events_total", "update"): float(counts.updated),
            named("events_total", "delete"): float(counts.deleted),
            named("events_total", "truncate"): float(stream.truncates_total),
            named("events_filtered_total", "table"): float(counts.other_tables),
            named("events_filtered_total", "operation"): float(counts.skipped_operations),
            named("events_filtered_total", "source"): float(counts.other_sources),
            named("events_filtered_total", "unchanged"): float(counts.unchanged),
            named("events_skipped_total", "damaged"): float(stream.damaged_total),
            named("events_skipped_total", "unusable"): float(stream.skipped_total - stream.damaged_total),
            named("events_skipped_total", "passed_over"): float(passed_over),
            named("events_skipped_total", "parked"): float(counts.parked),
            "log_events_skipped_total": float(stream.skipped_total + passed_over),
            "tables_parked": float(len(self._schemas.parked)),
            "tables_captured": float(self._tables_captured(now_s)),
        }
        instants = {
            "log_last_heard_timestamp_seconds": stream.heard_at_us,
            "log_last_event_timestamp_seconds": stream.event_at_us,
            "log_last_record_timestamp_seconds": stream.record_at_us,
            "source_event_timestamp_seconds": max(stream.source_ts_us or 0, stream.progress.source_ts_us) or None,
            "heartbeat_last_timestamp_seconds": stream.beat_at_us,
            "schema_history_last_change_timestamp_seconds": stream.ddl_at_us,
        }
        return out | {name: at_us / 1_000_000 for name, at_us in instants.items() if at_us is not None}

    def _of_race(self) -> dict[str, float]:
        race = self._watch.race
        if race is None:
            return {}
        left = {} if race.left_s is None else {"log_race_left_seconds": race.left_s}
        return {"log_race_near_ratio": race.near, **left}

    def _tables_captured(self, now_s: float) -> int:
        """Return the number of captured tables, counted once a minute: there may be tens of
        thousands.
        """
        if self._captured is None or now_s - self._captured[0] >= CAPTURED_AGAIN_S:
            self._captured = now_s, self._schemas.captured_total
        return self._captured[1]

    def _of_server(self) -> dict[str, float]:
        out = {"server_questions_failed_total": float(self._watch.failures)}
        answer = self._watch.state
        if answer is None:
            return out
        state, at_us = answer
        out |= {
            "server_log_asked_timestamp_seconds": at_us / 1_000_000,
            "log_behind_bytes": float(state.behind_bytes),
            "log_behind_files": float(state.behind_files),
            "log_stored_behind_files": float(state.stored_behind_files),
            "log_needed_bytes": float(state.needed_bytes),
            "log_purged": float(state.purged),
            **self._of_race(),
            "gtid_mode": float(state.uses_gtids),
        }
        limits = {
            "log_retention_seconds": state.retention_s,
            "log_purge_margin_files": state.margin_files,
            "log_purge_margin_bytes": state.margin_bytes,
            "tables_unpublished": state.tables_unpublished,
        }
        return out | {name: float(value) for name, value in limits.items() if value is not None}

    # ---- the dump

    def _of_dump(self, now_s: float, now_us: int) -> dict[str, float]:
        dump = self._progress.own
        if dump is None:
            return {}
        out = {
            "dump_tables_total": float(dump.tables_total),
            "dump_tables_done": float(dump.tables_done),
            "dump_tables_failed": float(len(dump.failed)),
            "dump_rows_total": float(dump.rows),
            "dump_bytes_total": float(dump.bytes),
            "dump_running": float(not dump.ended),
        }
        chunk_at_us = self._tally.chunk_at_us
        if dump.ended:
            self._dump_ended_s = self._dump_ended_s or now_s
            self._tables_at.clear()
            self._rows_at.clear()
        elif self._dump_began_s is None or self._dump_ended_s is not None:
            self._dump_began_s, self._dump_began_us, self._dump_ended_s = now_s, now_us, None
        if self._dump_began_s is None:
            return out  # it had ended before this run
        out |= self._rows_scanned(dump)
        out["dump_started_timestamp_seconds"] = self._dump_began_us / 1_000_000
        out["dump_duration_seconds"] = (self._dump_ended_s or now_s) - self._dump_began_s
        out["dump_last_progress_timestamp_seconds"] = max(self._dump_began_us, chunk_at_us or 0) / 1_000_000
        return out if dump.ended else out | self._speed(dump, now_s) | self._tables(dump, now_s)

    def _speed(self, dump: Dump, now_s: float) -> dict[str, float]:
        self._rows_at.append((now_s, dump.rows))
        while now_s - self._rows_at[0][0] > RATE_OVER_S:
            self._rows_at.popleft()
        since_s, rows = self._rows_at[0]
        rate = max(0.0, (dump.rows - rows) / max(1.0, now_s - since_s))
        out = {"dump_rows_per_second": rate}
        left = self._left(dump)
        if left is not None:
            out["dump_rows_estimated"] = float(dump.rows + left)
            if rate > 0:
                out["dump_eta_seconds"] = left / rate
        if (error := self._desk.eta_error()) is not None:
            out["dump_eta_error_ratio"] = error
        return out

    def _left(self, dump: Dump) -> int | None:
        """Return the rows left to read by the statistics; None if a table has none."""
        estimates = self._estimates.rows
        if not estimates or any(table not in estimates for table in dump.left):
            return None
        return sum(max(0, estimates[table] - progress.rows) for table, progress in dump.left.items())

    def _tables(self, dump: Dump, now_s: float) -> dict[str, float]:
        out: dict[str, float] = {}
        begun = [progress for progress in dump.left.values() if progress.started][: self._tables_max]
        self._tables_at = {p.table: self._tables_at.get(p.table, (now_s, p.rows)) for p in begun}
        for progress in begun:
            out |= self._table(progress, now_s)
        return out

    def _rows_scanned(self, dump: Dump) -> dict[str, float]:
        """Return the rows by table for all tables of the dump, finished ones included, as Debezium
        does.
        """
        shown = {str(each.table): each.rows for each in islice(chain(dump.over.values(), dump.left.values()), self._tables_max)}
        rest = dump.rows - sum(shown.values())
        rows = {**shown, OTHER: rest} if rest else shown
        return {named("jmx:rows_scanned", name): float(count) for name, count in rows.items()}

    def _table(self, progress: TableDump, now_s: float) -> dict[str, float]:
        name = str(progress.table)
        out = {named("dump_table_rows", name): float(progress.rows), named("dump_table_chunks", name): float(progress.chunks)}
        out[named("dump_table_bytes", name)] = float(progress.bytes)
        estimated = self._estimates.rows.get(progress.table)
        if estimated is not None:
            out[named("dump_table_rows_estimated", name)] = float(estimated)
            since_s, rows = self._tables_at[progress.table]
            rate = (progress.rows - rows) / max(1.0, now_s - since_s)
            if rate > 0:
                out[named("dump_table_eta_seconds", name)] = max(0, estimated - progress.rows) / rate
        return out

    def _age_ms(self, source_ts_us: int | None) -> float:
        return 0.0 if source_ts_us is None else max(0.0, (self._clock.now_us() - source_ts_us) / 1000)
