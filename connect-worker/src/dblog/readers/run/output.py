"""Destination of the log's content.

Rows and watermarks go into the order of what leaves, events become records, and rows that only a
dump can bring are ordered from the dump.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from dblog.core.changes import TruncateTable
from dblog.core.timeline import Position
from dblog.core.watermark import WatermarkPosition
from dblog.model import Segment, TableId
from dblog.readers.contract import Progress, SchemaReports
from dblog.readers.dump.dumping import Dumping
from dblog.readers.dump.marks import MarkExchange
from dblog.readers.dump.open_windows import OpenWindows
from dblog.readers.dump.order import RecordOrder
from dblog.readers.dump_progress import DumpProgress
from dblog.readers.items import LogRows, OtherRecord, Signals, Statement
from dblog.readers.log.removed_rows import RemovedRows
from dblog.readers.log.schemas import Schemas, StatementDone
from dblog.readers.options import ReaderOptions
from dblog.readers.records import Records
from dblog.readers.retrying import Retrying
from dblog.readers.signals.signals import SignalDesk

Result = TypeVar("Result")


class LogOutput:
    """Output of one task. Implements ``stream.Output``; the log thread calls it.

    ``first`` are reports for the schema-change topic before all records. ``exchange`` gives windows
    their marks in read-only mode. ``signals`` handles signals, None ignores them. ``removed``
    reports rows that stay in the lake, None does not.
    """

    def __init__(
        self,
        *,
        order: RecordOrder,
        windows: OpenWindows,
        progress: DumpProgress,
        dumping: Dumping,
        records: Records,
        schemas: Schemas,
        reports: SchemaReports,
        options: ReaderOptions,
        retrying: Retrying,
        first: Iterable[Any] = (),
        began: Progress,
        exchange: MarkExchange | None = None,
        signals: SignalDesk | None = None,
        removed: RemovedRows | None = None,
    ) -> None:
        self._removed = removed
        self._signals = signals
        self._exchange = exchange
        self._order = order
        self._windows = windows
        self._progress = progress
        self._dumping = dumping
        self._records = records
        self._schemas = schemas
        self._reports = reports
        self._options = options
        self._retrying = retrying
        self._first: Iterator[Any] = iter(tuple(first))
        self._began = began

    def first(self) -> None:
        """Send the records that come before the log's, once."""
        for report in self._first:
            self._order.extra([self._made(lambda report=report: self._records.first_schema(self._began, report))])  # type: ignore[misc]

    def moved(self, position: object) -> None:
        """Note the position that the log has reached; the next batch carries it."""
        self._order.moved(position)

    def rows(self, item: LogRows) -> None:
        """Send rows in the order of the log."""
        segments = [
            Segment(e.plan.topic, keys, values, e.plan.table.id, headers, schemas=e.plan.unwritten_schemas)
            for e, keys, values, headers in item.segments
        ]
        size_bytes = item.bytes
        if item.borders:
            borders = self._made(lambda: self._records.borders(item.borders))
            segments.append(borders)  # after the rows: a reader that meets an END has most of its rows already
            size_bytes += sum(len(part) for part in (*borders.keys, *borders.values) if part is not None)
        self._order.rows(segments, records=item.records, size_bytes=size_bytes, source_ts_us=item.source_ts_us, lacking=item.lacking)

    def watermark(self, name: str, token: str, at: WatermarkPosition) -> None:
        """Take a row of the watermark table; ignore those of other connectors and earlier runs."""
        if name.startswith(f"{self._options.watermark_name}/"):
            self._order.watermark(token, at)

    @property
    def chunk_rows_wait(self) -> bool:
        """True while rows of closed windows have not left."""
        return self._order.chunk_rows_wait

    def send_chunk_rows(self, *, waited_max_s: float | None = None) -> bool:
        """Send rows of closed windows if there is room, or if none has left for ``waited_max_s``.

        Return True if some were sent.
        """
        return self._order.send_chunk_rows(waited_max_s=waited_max_s)

    def send_all_chunk_rows(self) -> None:
        """Send all rows of closed windows."""
        self._order.send_all_chunk_rows()

    def signals(self, item: Signals) -> None:
        """Take the rows of a signal table; the batch with their position carries what
        they ask for.
        """
        if self._signals is not None:
            self._signals.of_table(item)

    def other(self, item: OtherRecord) -> None:
        """Send a record that belongs to no table."""
        self._order.extra([self._made(lambda: self._records.other(item))])

    def passed(self, at: Progress, *, between: bool, quiet: bool, not_before: Mapping[TableId, Position]) -> None:
        """Open and close the windows whose marks ``at`` has reached."""
        if self._exchange is not None:
            self._exchange.passed(at, between=between, quiet=quiet, not_before=not_before)

    def statement(self, statement: Statement, done: StatementDone) -> None:
        """Pass on that tables have changed: discard windows, adapt dumps, and send schema-change
        records.
        """
        for table in {*done.touched, *done.rewritten}:
            self._windows.table_changed(table, "DDL inside the window")
        repaired = self._dumping.tables_changed(done.changes, done.rewritten, done.reordered, done.removed)
        if done.unparked:
            self._dumping.tables_back(done.unparked)
        truncates = self._made(lambda: self._truncates(statement, done))
        if self._removed is not None:
            self._removed.take_back(done.gone)
            reported = {*repaired, *(segment.table for segment in truncates)}
            self._removed.removed({table: what for table, what in done.removed.items() if table not in reported})
        self._order.extra([*truncates, *self._made(lambda: self._schema_changes(statement, done))])

    def heartbeat(self) -> None:
        """Send a heartbeat."""
        self._order.extra([self._made(self._records.heartbeat)])

    def push(self) -> None:
        """Send the position and the state of dumps without a record."""
        self._order.extra([])

    @property
    def dump_moved(self) -> bool:
        """True if no batch has carried the newest state of dumps yet."""
        return self._progress.moved

    def has_overdue(self, *, submitted_before_s: float) -> bool:
        """Return True if a window submitted before ``submitted_before_s`` waits for its high
        watermark.
        """
        return self._windows.has_overdue(submitted_before_s=submitted_before_s)

    def read_overdue_again(self, *, submitted_before_s: float) -> None:
        """Discard the windows submitted before ``submitted_before_s``; their watermarks will not
        come.
        """
        self._windows.read_overdue_again(submitted_before_s=submitted_before_s)

    def hold(self, tables: frozenset[TableId], reason: str) -> None:
        """Replace the set of held tables: discard their windows and refuse new ones."""
        if self._windows.hold(tables, reason):
            self._dumping.start_readers()

    def must_dump(self, tables: Iterable[TableId] | None, why: str, *, repairs: bool = False) -> None:
        """Dump tables whose rows only a dump can bring or, with ``repairs``, remove.

        ``tables`` None means every captured table. Raise DefiniteError if they may not be dumped.
        """
        self._dumping.must_dump(tables, why, repairs=repairs)

    def tables_back(self, tables: Mapping[TableId, str]) -> None:
        """Dump tables that have a schema again after their rows were skipped."""
        self._dumping.tables_back(tables)

    def _made(self, make: Callable[[], Result]) -> Result:
        return self._retrying(make)

    def _truncates(self, statement: Statement, done: StatementDone) -> list[Segment]:
        """Return the records of truncated tables, except those that ``skipped.operations``
        excludes.
        """
        return [
            record
            for change in done.changes
            if isinstance(change, TruncateTable) and (encoder := self._schemas.encoder(change.id)) is not None
            if (record := self._records.truncated(statement.source, encoder)) is not None
        ]

    def _schema_changes(self, statement: Statement, done: StatementDone) -> list[Segment]:
        """Return the records of one DDL statement for the schema-change topic."""
        records: list[Segment] = []
        if self._options.reports_schemas and not self._options.is_filtered(statement.text):
            reports = self._reports.of_statement(
                statement,
                done.changes,
                after=self._schemas.table,
                includes=self._options.reports,
                includes_database=self._options.reports_database,
            )
            records += [self._records.schema_change(statement.source, report) for report in reports]
        return records
