"""Where the log's content goes: rows and watermarks into the interleaver, events into records, and rows that only a dump can bring into the dump."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from dblog.core.changes import TruncateTable
from dblog.core.watermark import WatermarkPosition
from dblog.model import Segment, TableId
from dblog.readers.contract import Progress, SchemaReports
from dblog.readers.dumping import Dumping
from dblog.readers.interleaved import Interleaver
from dblog.readers.items import LogRows, OtherRecord, Signals, Statement
from dblog.readers.marks import MarkExchange
from dblog.readers.options import ReaderOptions
from dblog.readers.patience import Patience
from dblog.readers.records import Records
from dblog.readers.removed_rows import RemovedRows
from dblog.readers.schemas import Schemas, StatementDone
from dblog.readers.signals import SignalDesk

Result = TypeVar("Result")


class LogOutput:
    """One task's. Implements ``stream.Output``; the log thread calls it. ``first``: what the schema-change topic gets ahead of all records.

    ``exchange``: where windows get their marks in read-only mode. ``signals`` None: nobody takes any. ``removed`` None: nobody is told of rows that stay.
    """

    def __init__(
        self,
        *,
        interleaver: Interleaver,
        dumping: Dumping,
        records: Records,
        schemas: Schemas,
        reports: SchemaReports,
        options: ReaderOptions,
        patience: Patience,
        first: Iterable[Any] = (),
        began: Progress,
        exchange: MarkExchange | None = None,
        signals: SignalDesk | None = None,
        removed: RemovedRows | None = None,
    ) -> None:
        self._removed = removed
        self._signals = signals
        self._exchange = exchange
        self._interleaver = interleaver
        self._dumping = dumping
        self._records = records
        self._schemas = schemas
        self._reports = reports
        self._options = options
        self._patience = patience
        self._first: Iterator[Any] = iter(tuple(first))
        self._began = began

    def first(self) -> None:
        """Send what is ahead of the log, once."""
        for report in self._first:
            self._interleaver.extra([self._made(lambda report=report: self._records.first_schema(self._began, report))])  # type: ignore[misc]

    def moved(self, position: object) -> None:
        """The log has come to this position; the next batch carries it."""
        self._interleaver.moved(position)

    def rows(self, item: LogRows) -> None:
        """Rows, in the order of the log."""
        segments = [Segment(e.plan.topic, keys, values, e.plan.table.id, headers) for e, keys, values, headers in item.segments]
        size_bytes = item.bytes
        if item.borders:
            borders = self._made(lambda: self._records.borders(item.borders))
            segments.append(borders)  # behind the rows: who meets an END finds most of its rows there
            size_bytes += sum(len(part) for part in (*borders.keys, *borders.values) if part is not None)
        self._interleaver.rows(segments, records=item.records, size_bytes=size_bytes, source_ts_us=item.source_ts_us, lacking=item.lacking)

    def watermark(self, name: str, token: str, at: WatermarkPosition) -> None:
        """A row of the watermark table; those of other connectors and earlier runs mean nothing to the windows."""
        if name.startswith(f"{self._options.watermark_name}/"):
            self._interleaver.watermark(token, at)

    @property
    def chunk_rows_wait(self) -> bool:
        """Whether rows of chunks are still to leave, whose windows have closed."""
        return self._interleaver.chunk_rows_wait

    def send_chunk_rows(self, *, waited_max_s: float | None = None) -> bool:
        """Have some leave, as there is room for them, or when none has left for so long. Whether some have left."""
        return self._interleaver.send_chunk_rows(waited_max_s=waited_max_s)

    def send_all_chunk_rows(self) -> None:
        """Have all leave."""
        self._interleaver.send_all_chunk_rows()

    def signals(self, item: Signals) -> None:
        """Rows of a signal table; what they ask for goes out with their position."""
        if self._signals is not None:
            self._signals.of_table(item)

    def other(self, item: OtherRecord) -> None:
        """A record that is of no table."""
        self._interleaver.extra([self._made(lambda: self._records.other(item))])

    def passed(self, at: Progress, *, between: bool, quiet: bool) -> None:
        """Everything up to there is out: windows whose marks it meets open and close."""
        if self._exchange is not None:
            self._exchange.passed(at, between=between, quiet=quiet)

    def statement(self, statement: Statement, done: StatementDone) -> None:
        """Tables have changed: windows are read again, the dump follows, and the topics get their records."""
        for table in {*done.touched, *done.rewritten}:
            self._interleaver.table_changed(table, "DDL inside the window")
        repaired = self._dumping.tables_changed(done.changes, done.rewritten, done.reordered, done.removed)
        if done.unparked:
            self._dumping.tables_back(done.unparked)
        truncates = self._made(lambda: self._truncates(statement, done))
        if self._removed is not None:
            self._removed.take_back(done.gone)
            reported = {*repaired, *(segment.table for segment in truncates)}
            self._removed.removed({table: what for table, what in done.removed.items() if table not in reported})
        self._interleaver.extra([*truncates, *self._made(lambda: self._schema_changes(statement, done))])

    def heartbeat(self) -> None:
        """Send a heartbeat."""
        self._interleaver.extra([self._made(self._records.heartbeat)])

    def push(self) -> None:
        """Send the position, and the dump's state, without a record."""
        self._interleaver.extra([])

    @property
    def dump_moved(self) -> bool:
        """Whether no batch has carried the dump's newest state yet."""
        return self._interleaver.dump_moved

    def has_overdue(self, *, submitted_before_s: float) -> bool:
        """Whether a window that was submitted before that moment still waits for its high watermark."""
        return self._interleaver.has_overdue(submitted_before_s=submitted_before_s)

    def read_overdue_again(self, *, submitted_before_s: float) -> None:
        """The watermarks of these windows will not come."""
        self._interleaver.read_overdue_again(submitted_before_s=submitted_before_s)

    def hold(self, tables: frozenset[TableId], reason: str) -> None:
        """Open no window of these tables, and of no others but these, until the next call."""
        if self._interleaver.hold(tables, reason):
            self._dumping.start_readers()

    def must_dump(self, tables: Iterable[TableId] | None, why: str, *, repairs: bool = False) -> None:
        """Rows that only a dump can bring, or (``repairs``) take away, of these tables or (None) of all; DefiniteError where none may."""
        self._dumping.must_dump(tables, why, repairs=repairs)

    def tables_back(self, tables: Mapping[TableId, str]) -> None:
        """Tables whose rows were passed over have a schema again."""
        self._dumping.tables_back(tables)

    def _made(self, make: Callable[[], Result]) -> Result:
        return self._patience(make)

    def _truncates(self, statement: Statement, done: StatementDone) -> list[Segment]:
        """Make the records of truncated tables, but those that ``skipped.operations`` leaves out."""
        return [
            record
            for change in done.changes
            if isinstance(change, TruncateTable) and (encoder := self._schemas.encoder(change.id)) is not None
            if (record := self._records.truncated(statement.source, encoder)) is not None
        ]

    def _schema_changes(self, statement: Statement, done: StatementDone) -> list[Segment]:
        """Make what one DDL statement leaves in the schema-change topic."""
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
