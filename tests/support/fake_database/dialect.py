"""The dialect of the database in memory.

The docstring of each class names its protocol in ``dblog.readers.contract``.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from dblog.abort import Abort
from dblog.codecs.plan import ColumnPlan, Form, RowContext, Source, TablePlan
from dblog.codecs.rowplan import ReferencePlan, RowEncoder, Writers
from dblog.codecs.schema import Kind, Schema
from dblog.core.changes import Change, RenameTable, Unknown, tables_of
from dblog.core.crosscheck import Seen
from dblog.core.pressure import Limit
from dblog.core.selection import Parts
from dblog.core.timeline import Database, Position, Timeline
from dblog.core.watermark import WatermarkPosition
from dblog.errors import DefiniteError, PositionLostError, ServerChangedError, TransientError
from dblog.model import Column, OffsetMap, Table, TableId
from dblog.ports import ChunkRows
from dblog.readers.contract import Advice, Load, LogSchemas, LogState, Merge, Progress, Reading, TableResolver, TaskContext
from dblog.readers.items import IgnoredForNow, LogCounts, LogItem, LogRows, Moved, RowsParked, Signals, Statement, Watermarks
from dblog.readers.standing_warnings import StandingWarnings
from support.fake_database.database import Entry, FakeDatabase, MarkEntry, RowsEntry, StatementEntry, key_indexes, ordered
from support.fake_database.image import SOURCE, JsonImage, chunk_image, log_image, source_block
from support.fake_database.statements import parse

ROW_BITS = 23
WATERMARKS = TableId("dblog", "watermark")
SIGNALS = TableId("d", "signals")
Row = tuple[Any, ...]


class FakeProgress:
    """A ``Progress``: the number of entries read from a log.

    Positions of items are plain numbers.
    """

    def __init__(self, *, server: str, number: int, entries: int, epoch: int = 0, foreign: bool = False) -> None:
        self.server = server
        self.number = number
        self.entries = entries
        self.epoch = epoch
        self.foreign = foreign

    @property
    def sequence(self) -> Position:
        return self.sequence_of(self.entries)

    @property
    def source_ts_us(self) -> int:
        return 0

    @property
    def resume_point(self) -> int:
        return self.entries

    @property
    def is_between(self) -> bool:
        return True

    def has_come_to(self, mark: int, *, quiet: bool) -> bool:
        return self.entries >= mark

    def sequence_of(self, position: int) -> Position:
        return self.epoch << 32 | self.number, position << ROW_BITS

    def advance(self, position: int) -> None:
        self.entries = position

    def copy(self) -> FakeProgress:
        return FakeProgress(server=self.server, number=self.number, entries=self.entries, epoch=self.epoch, foreign=self.foreign)

    def to_map(self) -> dict[str, str | int | float | bool | None]:
        return {"server": self.server, "number": self.number, "entries": self.entries, "dblog_epoch": self.epoch}

    def note(self) -> dict[str, object]:
        return {"number": self.number, "entries": self.entries}

    def row_context(self, *, now_us: int) -> FakeContext:
        high, low = self.sequence
        return _context(self.number, self.entries, (high, low), now_us)

    def watermark_position(self) -> WatermarkPosition:
        high, low = self.sequence
        return WatermarkPosition(file=f"log.{self.number}", pos=self.entries, sequence_high=high, sequence_low=low)

    def taken_over(self) -> None:
        self.foreign = True

    def metrics(self) -> dict[str, float]:
        return {"log_pos": float(self.entries)}

    def __str__(self) -> str:
        return f"entry {self.entries} of log {self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeContext(RowContext):
    """A ``RowContext`` with the entry that rows belong to."""

    number: int
    entry: int

    def __str__(self) -> str:
        return f"entry {self.entry} of log {self.number}"


def _context(number: int, entry: int, sequence: Position, now_us: int) -> FakeContext:
    return FakeContext(
        number=number,
        entry=entry,
        source_ts_us=now_us,
        now_us=now_us,
        sequence_high=sequence[0],
        sequence_low=sequence[1],
    )


class FakeReader:
    """A ``LogReader`` of the database in memory."""

    def __init__(self, database: FakeDatabase, at: FakeProgress, resolve: TableResolver, now_us: Callable[[], int]) -> None:
        self._database = database
        self._epoch = at.epoch
        self._next = at.entries
        self._resolve = resolve
        self._now_us = now_us
        self._arrived: list[Entry] = []
        self._encoders: dict[TableId, RowEncoder | RowsParked | None] = {}
        self._closed = False
        self._woken = threading.Event()
        self.counts = LogCounts()

    @property
    def is_silent(self) -> bool:
        return False

    def receive(self, timeout_s: float) -> int:
        if self._closed:
            raise TransientError("the connection is closed")
        self._arrived = self._database.entries(self._next, timeout_s=timeout_s, unless=self._woken)
        self._woken.clear()
        return len(self._arrived)

    def items(self) -> Iterator[LogItem]:
        arrived, self._arrived = self._arrived, []
        for entry in arrived:
            self.counts.bytes += 1
            self.counts.commits += 1
            yield self._item(entry, self._next)
            self._next += 1

    def flush(self) -> Iterator[LogItem]:
        return iter(())

    def forget_tables(self) -> None:
        self._encoders.clear()

    def wake(self) -> None:
        with self._database.changed:
            self._woken.set()
            self._database.changed.notify_all()

    def close(self) -> None:
        self._closed = True
        self.wake()

    def _item(self, entry: Entry, index: int) -> LogItem:
        high, low = self._epoch << 32 | self._database.number, (index << ROW_BITS) + (1 << ROW_BITS - 1)
        context = _context(self._database.number, index, (high, low), self._now_us())
        behind = index + 1
        match entry:
            case RowsEntry(table, op, images) if table.id == SIGNALS:
                at = WatermarkPosition(file=f"log.{self._database.number}", pos=index, sequence_high=high, sequence_low=low)
                rows = tuple((after[0], after[1], after[2]) for _, after in images if after is not None)
                return Signals(rows=rows if op == "c" else (), at=at, position=behind)
            case RowsEntry(table, op, images):
                encoder = self._encoder(table, (high, low), index)
                if isinstance(encoder, RowsParked):
                    self.counts.parked += 1
                    return Moved(position=behind)
                if encoder is None:
                    self.counts.other_tables += 1
                    return Moved(position=behind)
                self.counts.created += len(images) if op == "c" else 0
                self.counts.updated += len(images) if op == "u" else 0
                self.counts.deleted += len(images) if op == "d" else 0
                keys, values, headers = encoder.encode_rows(op, log_image(images), context)  # type: ignore[arg-type]
                size_bytes = sum(len(part) for part in (*keys, *values) if part is not None)
                return LogRows(
                    segments=[(encoder, keys, values, headers)],
                    records=len(keys),
                    bytes=size_bytes,
                    source_ts_us=context.source_ts_us,
                    position=behind,
                )
            case MarkEntry(name, token):
                at = WatermarkPosition(file=f"log.{self._database.number}", pos=index, sequence_high=high, sequence_low=low)
                return Watermarks(rows=((name, token),), at=at, position=behind)
            case StatementEntry(text, database):
                return Statement(
                    statement=entry,
                    text=text,
                    database=database,
                    valid_from=(high, behind << ROW_BITS),
                    position=behind,
                    begin=behind,
                    note={"entries": behind},
                    where=f"entry {index}",
                    source=context,
                )

    def _encoder(self, table: Table, position: Position, begin: int) -> RowEncoder | RowsParked | None:
        if table.id not in self._encoders:
            encoder = self._resolve(table, position, begin)
            if isinstance(encoder, IgnoredForNow):
                return None
            self._encoders[table.id] = encoder
        return self._encoders[table.id]


class FakeLog:
    """The ``LogSource`` of the database in memory."""

    def __init__(self, server: FakeServer, resolve: TableResolver, context: TaskContext) -> None:
        self._server = server
        self._resolve = resolve
        self._context = context

    def open(self, at: Progress, *, unreadable: AbstractSet[Any]) -> FakeReader:
        assert isinstance(at, FakeProgress)
        assert not unreadable
        database = self._server.database
        if (at.server, at.number) != (database.identity, database.number):
            raise ServerChangedError(f"{database.identity} answers now")
        return FakeReader(database, at, self._resolve, self._context.clock.now_us)

    def end(self, *, epoch: int) -> Position:
        now = self._server.now()
        now.epoch = epoch
        return now.sequence

    def passed_over(self, table: TableId) -> None:
        pass

    def shows(self, shown: Any, table: TableId, low: Position) -> bool:
        return True

    def beat(self) -> None:
        pass

    def confirm(self, offset: OffsetMap) -> None:
        self._server.database.confirmed.append(offset["entries"])


class FakeLoad:
    """A ``LoadWatch`` that reports the load set by the test; all else cannot be measured."""

    def __init__(self, database: FakeDatabase) -> None:
        self._database = database

    def measure(self, wanted: Collection[Limit]) -> Load:
        load = self._database.load
        return Load(
            measured={limit: load[limit] for limit in wanted if limit in load},
            missing={limit: "nobody measures it" for limit in wanted if limit not in load},
        )

    def close(self) -> None:
        pass


class FakeWatch:
    """A ``LogWatch``: an entry counts as a byte, and the log is one file."""

    def __init__(self, server: FakeServer) -> None:
        self._server = server

    def look(self, read: Progress, stored: Progress) -> LogState:
        assert isinstance(read, FakeProgress)
        assert isinstance(stored, FakeProgress)
        database = self._server.database
        margin = stored.entries - database.oldest
        return LogState(
            behind_bytes=len(database.log) - read.entries,
            behind_files=0,
            stored_behind_files=0,
            margin_files=max(0, margin),
            margin_bytes=max(0, margin),
            purged=margin < 0,
            retention_s=None,
            uses_gtids=False,
            needed_bytes=max(0, len(database.log) - stored.entries),
        )

    def row_estimates(self, tables: Sequence[TableId]) -> dict[TableId, int]:
        view, _ = self._server.database.snapshot()
        return {table: len(view[table]) for table in tables if table in view}

    def close(self) -> None:
        pass


class FakeSchemas:
    """The ``LogSchemas``: each log entry has the table's definition with its rows."""

    advice = Advice(name_columns="-", name_columns_in_future="-", log_rows="-", disagreement="-")

    def __init__(self, server: FakeServer, timeline: Timeline) -> None:
        self._server = server
        self._timeline = timeline

    def read_table_map(self, table_map: Table) -> tuple[TableId, Seen, Merge]:
        seen = Seen(columns=table_map.columns, named=True, key=table_map.key)
        return table_map.id, seen, lambda known, found: known if known.type == found.type else found

    def parse_statement(self, statement: StatementEntry, text: str, position: Position) -> Iterable[Change]:
        return parse(text, statement.database, self._timeline.lookup_before(position), strange=False)

    def rewritten(self, changes: Iterable[Change], before: Callable[[TableId], Table | None]) -> dict[TableId, str]:
        found: dict[TableId, str] = {}
        for change in changes:
            match change:
                case RenameTable(pairs):
                    found |= {new: f"it was {old}" for old, new in pairs}
                case Unknown(ids, reason):
                    found |= dict.fromkeys(ids, reason)
                case _:
                    pass
        return found

    def row_change(self, statement: StatementEntry, text: str) -> tuple[str, AbstractSet[TableId]] | None:
        return None

    def read_table(self, table: TableId, position: Position, begin: int) -> Reading:
        database = self._server.database
        with database.changed:
            end = position[0], len(database.log) << ROW_BITS
            behind = [entry for entry in database.log[begin:] if isinstance(entry, StatementEntry)]
            touched = any(
                table in tables_of(change) for entry in behind for change in parse(entry.text, entry.database, database.tables.get)
            )
            return Reading(table=database.tables.get(table), position=end, touched=touched)


class FakeSql:
    """The ``ChunkSql``: a verb and a table, which ``FakeChunks`` understands."""

    def chunk_select(
        self, table: Table, after: Row | None, upto: Row | None, rows_max: int, *, where: str | None = None
    ) -> tuple[str, Row]:
        return f"chunk {table.id}", (after, upto, rows_max)

    def max_key(self, table: Table, *, where: str | None = None) -> tuple[str, Row]:
        return f"max {table.id}", ()

    def exact_key(self, table: Table, shown: Row) -> Row | None:
        return shown

    def last_key(self, table: Table, after: Row | None, upto: Row | None, row_count: int, *, where: str | None = None) -> tuple[str, Row]:
        return f"nth {table.id}", (after, upto, row_count)

    def key_lookup(self, table: Table, key: Row, after: Row | None, *, where: str | None = None) -> tuple[str, Row]:
        return f"lookup {table.id}", (key, after)

    def rows_by_key(self, table: Table, keys: Sequence[Row]) -> tuple[str, Row]:
        return f"keys {table.id}", tuple(keys)

    def full_scan(self, table: Table, rows_max: int, *, where: str | None = None) -> tuple[str, Row]:
        return f"scan {table.id}", (rows_max,)

    def by_place(self, table: Table) -> Table:
        return table

    def key_indexes(self, table: Table) -> tuple[int, ...]:
        return key_indexes(table)


fake_sql = FakeSql()


class FakeChunks:
    """A ``ports.DumpConnection`` to the database in memory."""

    def __init__(self, database: FakeDatabase) -> None:
        self._database = database
        self._view: tuple[dict[TableId, dict[Row, Row]], dict[str, str]] | None = None
        self._closed = False

    def write_watermark(self, name: str, token: str) -> None:
        self._check()
        self._database.watermark(name, token)

    def snapshot_shown(self) -> None:
        pass

    def begin_snapshot(self) -> None:
        self._check()
        self._view = self._database.snapshot()

    def limit_selects(self, limit_s: float) -> None:
        self._check()

    def read_watermark(self, name: str) -> str | None:
        self._check()
        _, watermarks = self._view or self._database.snapshot()
        return watermarks.get(name)

    def begin_snapshot_behind(self, low: FakeProgress) -> bool:
        self._check()
        with self._database.changed:
            shows = len(self._database.log) >= low.entries
            if shows:
                self.begin_snapshot()
        return shows

    def log_end(self) -> int:
        self._check()
        return len(self._database.log)

    def select(
        self, statement: str, parameters: Sequence[Any], *, bytes_max: int = 0, key: Sequence[int] = (), table: TableId | None = None
    ) -> ChunkRows:
        self._check()
        verb, _, name = statement.partition(" ")
        named = TableId(*name.split(".", 1))
        view, _ = self._view or self._database.snapshot()
        if named not in view:
            raise TransientError(f"{named} is not there")
        pairs = ordered(view[named].items())
        match verb:
            case "max":
                rows = [found for found, _ in pairs[-1:]]
            case "lookup":
                wanted, behind = parameters
                rows = [row for found, row in pairs if found == tuple(wanted) and (behind is None or found > tuple(behind))]
            case "keys":
                rows = [row for found, row in pairs if found in parameters]
            case "scan":
                rows = [row for _, row in pairs][: parameters[0]]
            case _:
                after, upto, rows_max = parameters
                inside = ((k, row) for k, row in pairs if (after is None or k > tuple(after)) and (upto is None or k <= tuple(upto)))
                rows = [k for k, _ in inside][rows_max - 1 : rows_max] if verb == "nth" else [row for _, row in inside][:rows_max]
        kept: list[Row] = []
        size_bytes = 0
        for row in rows:
            kept.append(row)
            size_bytes += len(chunk_image([row]))
            if bytes_max and size_bytes > bytes_max:
                break
        last_key = tuple(kept[-1][at] for at in key) if kept and key else None
        return ChunkRows(rows=chunk_image(kept), row_count=len(kept), last_key=last_key)

    def complete(
        self,
        chunk: ChunkRows,
        table: Table,
        after: Sequence[Any] | None,
        *,
        keys: Sequence[Sequence[Any]] | None = None,
        where: str | None = None,
    ) -> ChunkRows:
        self._check()
        return chunk

    def end_snapshot(self) -> None:
        self._check()
        self._view = None

    def close(self) -> None:
        self._closed = True

    def _check(self) -> None:
        if self._closed:
            raise TransientError("the connection is closed")


@dataclass(frozen=True)
class SchemaReport:
    """A record for the schema-change topic."""

    database: str
    ddl: str


class FakeServer:
    """The ``Server`` of the database in memory."""

    chunk_sql = fake_sql
    log_has_statements = True
    watermark_table = WATERMARKS
    signal_tables = frozenset({SIGNALS})

    def __init__(self, database: FakeDatabase) -> None:
        self.database = database
        self._identity = database.identity

    def check(self, tables: Sequence[Table], *, watermarks: TableId | None, named: Parts) -> list[str]:
        return []

    def complete_log(self, lacking: Callable[[list[TableId]], None]) -> None:
        pass

    def now(self) -> FakeProgress:
        return self._progress(len(self.database.log))

    def begin(self) -> FakeProgress:
        return self.now()

    def oldest(self) -> FakeProgress:
        return self._progress(self.database.oldest)

    def _progress(self, entries: int) -> FakeProgress:
        return FakeProgress(server=self.database.identity, number=self.database.number, entries=entries)

    def resume(self, progress: Progress) -> bool:
        assert isinstance(progress, FakeProgress)
        if (progress.server, progress.number) != (self.database.identity, self.database.number):
            raise PositionLostError(f"{self.database.identity} does not have the log of {progress.server}")
        if not self.database.oldest <= progress.entries <= len(self.database.log):
            raise PositionLostError(f"{progress} is purged")
        return False

    def read_tables(self, include: Callable[[TableId], bool]) -> list[Table]:
        with self.database.changed:
            return [table for id_, table in sorted(self.database.tables.items()) if include(id_)]

    def read_databases(self) -> dict[str, Database]:
        return {id_.database: Database(None, None) for id_ in self.database.tables}

    def take_over(self, records: Iterable[bytes], timeline: Timeline, *, prefix: str, offset: OffsetMap) -> int:
        return 0

    def at_start(self, include: Callable[[TableId], bool]) -> list[SchemaReport]:
        return [SchemaReport(table.id.database, f"CREATE TABLE {table.id}") for table in self.read_tables(include)]

    def of_statement(
        self,
        statement: Statement,
        changes: Sequence[Change],
        *,
        after: Callable[[TableId], Table | None],
        includes: Callable[[TableId], bool],
        includes_database: Callable[[str], bool],
    ) -> list[SchemaReport]:
        tables = {table for change in changes for table in tables_of(change) if includes(table)}
        return [SchemaReport(statement.database, statement.text)] if tables else []

    def open_watch(self, abort: Abort) -> FakeWatch:
        return FakeWatch(self)

    def open_load(self, abort: Abort) -> FakeLoad:
        return FakeLoad(self.database)

    def own_condition(self, table: TableId) -> str | None:
        return None

    def prepare_dump(self, tables: Sequence[Table]) -> dict[TableId, int]:
        view, _ = self.database.snapshot()
        return {table.id: len(view[table.id]) for table in tables if table.id in view}

    def check_conditions(self, conditions: Sequence[tuple[Table, str]]) -> None:
        """Accept all conditions, because there is no SQL."""

    def check_surrogate(self, tables: Sequence[Table], column: str) -> None:
        """Accept all surrogate keys, because there are no foreign keys."""

    def check_keys(self, table: Table, keys: Sequence[Row]) -> None:
        if not table.key or any(len(key) != len(table.key) for key in keys):
            raise DefiniteError(f"a key of {table.id} has {len(table.key)} values")

    def try_keys(self, table: Table, keys: Sequence[Row]) -> None:
        """Accept all keys."""

    def open_chunks(self) -> FakeChunks:
        if self.database.identity != self._identity:
            raise ServerChangedError(f"{self.database.identity} answers now")
        return FakeChunks(self.database)

    def schemas(self, timeline: Timeline, context: TaskContext, *, epoch: int) -> FakeSchemas:
        return FakeSchemas(self, timeline)

    def log(self, schemas: LogSchemas, resolve: TableResolver, context: TaskContext) -> FakeLog:
        return FakeLog(self, resolve, context)

    def close(self) -> None:
        pass


class FakePlans:
    """The ``RowPlans`` of the database in memory."""

    name = "fake"
    source = SOURCE

    def source_block(self, plan: TablePlan, context: Any, *, row: int) -> dict[str, Any]:
        return source_block(plan, context, row=row)

    def chunk_context(self, low: WatermarkPosition, now_us: int) -> FakeContext:
        return FakeContext(
            number=int(low.file.partition(".")[2]),
            entry=low.pos,
            source_ts_us=now_us,
            now_us=now_us,
            sequence_high=low.sequence_high,
            sequence_low=low.sequence_low,
            snapshot="incremental",
        )

    def column_plan(self, column: Column, table: TableId, *, included: bool) -> ColumnPlan:
        is_text = column.type == "text"
        schema = Schema(kind=Kind.STRING if is_text else Kind.INT64, optional=column.nullable)
        return ColumnPlan(
            name=column.name,
            source=Source.TEXT if is_text else Source.INT64,
            form=Form.TEXT if is_text else Form.INT,
            included=included,
            schema=schema if included else None,
            nullable=column.nullable,
            key_schema=Schema(kind=schema.kind),
        )

    def encoder(self, plan: TablePlan, writers: Writers | None) -> RowEncoder:
        image: Any = JsonImage()
        return ReferencePlan(plan, image, writers)

    def schema_change(self, report: SchemaReport, at: Any, *, prefix: str, snapshot: bool) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        source = {
            "version": "0",
            "connector": self.name,
            "name": prefix,
            "ts_ms": at.source_ts_us // 1000,
            "snapshot": json.dumps(snapshot),
            "db": report.database,
            "number": at.number,
            "entry": at.entry,
        }
        value = {
            "source": source,
            "ts_ms": at.now_us // 1000,
            "databaseName": report.database,
            "schemaName": None,
            "ddl": report.ddl,
            "tableChanges": [],
        }
        return {"databaseName": report.database}, value


class FakeSource:
    """A ``Source`` with the database in memory."""

    def __init__(self, database: FakeDatabase) -> None:
        self.database = database
        self.plans = FakePlans()
        self.watermark_table = WATERMARKS
        self.builtin_databases: frozenset[str] = frozenset()
        self.log_writes_watermarks = False

    def leaving(self) -> None:
        """Do nothing: the source keeps nothing for a connector."""

    def progress(self, offset: OffsetMap) -> FakeProgress:
        server, number, entries, epoch = (offset.get(name) for name in ("server", "number", "entries", "dblog_epoch"))
        if not isinstance(server, str) or not isinstance(number, int) or not isinstance(entries, int):
            raise DefiniteError("the offset has no entry of a log")
        return FakeProgress(server=server, number=number, entries=entries, epoch=int(epoch or 0))

    def connect(self, *, again: bool, warnings: StandingWarnings | None = None) -> FakeServer:
        return FakeServer(self.database)
