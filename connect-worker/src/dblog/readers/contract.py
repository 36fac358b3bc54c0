"""What a kind of database has to give, so that the reader layer runs a task on it: log, positions,
schemas, chunks, watermarks and row plans.

A new database is a folder in ``dialects/`` that fulfils these protocols. tests/contracts/database.py
holds MySQL, MariaDB, PostgreSQL and a small database in memory (tests/support/fake_database) to all
of them that a task needs; ``DatabaseKind`` alone is asked without one. The reader layer owns threads, queue,
interleaving, schema history, retries, the dump and offsets. It sees positions, statements and table
maps as opaque values, and hands them back to the dialect that made them. The contract stands here
and not beside the dialects because imports point downwards.

    DatabaseKind ──source──► Source    what is asked without a task: settings, offsets, statements

    Source ──connect──► Server ──┬─ Check, Positions, SchemaSource, ChunkSource, SchemaReports
      │                          ├─ schemas(timeline) ──► LogSchemas      what the log shows of tables
      ├─ Progress (an offset)    └─ log(resolve) ──► LogSource ──open──► LogReader ──► items
      └─ RowPlans
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from dblog.abort import Abort
from dblog.clock import Clock
from dblog.codecs.plan import ColumnPlan, RowContext, TablePlan
from dblog.codecs.rowplan import RowEncoder, Writers
from dblog.codecs.schema import Schema
from dblog.config.options import Settings
from dblog.core.changes import Change
from dblog.core.crosscheck import Seen
from dblog.core.dumps import Key
from dblog.core.pressure import Limit
from dblog.core.selection import Parts
from dblog.core.timeline import Database, Position, Timeline
from dblog.core.watermark import WatermarkPosition
from dblog.model import Column, OffsetMap, Table, TableId
from dblog.ports import DumpConnection
from dblog.readers.items import IgnoredForNow, LogCounts, LogItem, RowsParked, Statement
from dblog.readers.standing_warnings import StandingWarnings

Merge = Callable[[Column, Column], Column]
"""(known, seen) -> the column to decode with; see ``core.crosscheck.cross_check``."""


# ---- positions


class Progress(Protocol):
    """How far a log has been taken: the reader's progress and the acknowledged one are two values of it. It travels in the source offset.

    Order is that of ``sequence``, D7's two BIGINTs: (source epoch << 32 | file or timeline, offset << 23 | row).
    """

    epoch: int
    """Rises when another server's log begins; 0 in an offset that this connector has not written."""

    @property
    def sequence(self) -> Position:
        """D7's numbers of this position."""

    @property
    def source_ts_us(self) -> int:
        """The time of the newest event that was taken, captured or not; 0 when none has it."""

    @property
    def resume_point(self) -> Hashable:
        """Equal as long as a new connection would begin at the same event."""

    def sequence_of(self, position: Any) -> Position:
        """D7's numbers of an item's position, in this epoch."""

    def advance(self, position: Any) -> None:
        """Take the position of an item; items come in the order of the log."""

    @property
    def is_between(self) -> bool:
        """Whether no transaction is taken in part."""

    def has_come_to(self, mark: Any, *, quiet: bool) -> bool:
        """Whether everything that the mark names has been taken (``ports.LogPositions.log_end``). ``quiet``: the log has nothing more now, so
        there is time to compare what the position alone does not show.
        """

    def copy(self) -> Self:
        """An independent copy."""

    def to_map(self) -> dict[str, str | int | float | bool | None]:
        """The source offset, in Debezium's keys where it has some; ``Source.progress`` reads it back."""

    def note(self) -> dict[str, object]:
        """For people: what the history keeps beside a table version, and log lines show."""

    def row_context(self, *, now_us: int) -> RowContext:
        """The source block of a record that belongs to this position."""

    def watermark_position(self) -> WatermarkPosition:
        """The position as that of a watermark, for markers of chunks."""

    def taken_over(self) -> None:
        """The offset is not of this connector's own writing: whatever it would have noted of open transactions is unknown."""

    def metrics(self) -> dict[str, float]:
        """Numbers for the herder."""

    def __str__(self) -> str:
        """For messages."""


class Positions(Protocol):
    """Where a server's log can be read from."""

    def now(self) -> Progress:
        """The log's end, before which every change that a SELECT can see is logged; epoch 0."""

    def begin(self) -> Progress:
        """Where a first run begins to read: in front of it every change is visible to a SELECT, and nothing behind it is lost from now on; epoch 0."""

    def oldest(self) -> Progress:
        """The log's beginning; epoch 0."""

    def resume(self, progress: Progress) -> bool:
        """Make a stored position fit for this server. True: the position is of another server's log, so the epoch has to rise.

        PositionLostError when the log from there on is not to be had any more.
        """


# ---- the log


class LogReader(Protocol):
    """An open connection to the log. One thread uses it; ``close`` may be called from another."""

    @property
    def is_silent(self) -> bool:
        """Whether signals from the server are overdue."""

    @property
    def counts(self) -> LogCounts:
        """What it has met since it was opened. Any thread may ask, also once it is closed."""

    def receive(self, timeout_s: float) -> int:
        """How many bytes have arrived, 0 when none came in time. TransientError when the connection is lost."""

    def items(self) -> Iterator[LogItem]:
        """What the bytes that arrived hold, in the order of the log. An item has been taken when the next one is asked for. Rows may be kept back.

        DamagedLogError, with the event's position where only its rows would be lost; DefiniteError for an event that must not be passed over. # I5
        """

    def flush(self) -> Iterator[LogItem]:
        """The rows that were kept back."""

    def forget_tables(self) -> None:
        """Schemas have changed: ask for the encoder of each table again."""

    def wake(self) -> None:
        """End a ``receive`` that waits, or the next one, as if its time had passed. Any thread may call it, also once it is closed."""

    def close(self) -> None:
        """Close the connection."""


class LogSource(Protocol):
    """The log of one source, over all connections of a task."""

    def open(self, at: Progress, *, unreadable: AbstractSet[Any]) -> LogReader:
        """Read on from ``at``, which the reader layer moves on with the items. ``unreadable``: positions of damaged events that are to be left out.

        ServerChangedError when another server answers than the one that ``at`` belongs to: asked at every connection, for an address may lead anywhere.
        """

    def end(self, *, epoch: int) -> Position:
        """Where the server's log ends now. TransientError when nobody answers."""

    def passed_over(self, table: TableId) -> None:
        """Rows of this table have passed that are not sent, for now or for good."""

    def shows(self, shown: Any, table: TableId, low: Position) -> bool:
        """Whether a snapshot (``ports.DumpConnection.snapshot_shown``) shows all that the log has of the table in front of ``low``, D7's numbers of a
        window's low watermark, which the log has come to. Asked by the log thread. # I2
        """

    def beat(self) -> None:
        """A heartbeat is sent: do at the source what the configuration wants with it. It does not keep the log thread waiting."""

    def confirm(self, offset: OffsetMap) -> None:
        """The offset is stored: the server may drop what lies before it. Called by the committing thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """Where the server's log stands, as it answered just now, beside a position that is read and the one that is stored."""

    behind_bytes: int
    """From the position that is read to the log's end."""
    behind_files: int
    stored_behind_files: int
    """From the position that is stored: a task that is paused, or cannot reach Kafka, reads ahead of it."""
    margin_files: int | None
    """Older ones than the stored position's: what the server can drop before that position is lost. None where it drops nothing that is needed."""
    margin_bytes: int | None
    purged: bool
    """Whether the stored position is lost already."""
    retention_s: float | None
    """How long the server keeps its log; None for ever."""
    uses_gtids: bool
    kept_bytes: int | None = None
    """How much of its log the server keeps; None for all."""
    needed_bytes: int = 0
    """From the beginning of the stored position's file to the log's end."""
    stored_age_s: float | None = None
    """Of the newest event in front of the stored position, by the server's clock; None where nothing has a time."""
    tables_unpublished: int | None = None
    """Captured tables whose changes are in no log, or not all of them; None where a log always has them."""


ESTIMATED_MAX = 2000
"""Tables of a dump whose statistics are asked for: of more, no total is known."""


class LogWatch(Protocol):
    """A connection of its own for questions about the server's log, for metrics. One thread asks."""

    def look(self, read: Progress, stored: Progress) -> LogState:
        """Where the log stands. Both positions move meanwhile. TransientError when no answer comes within seconds."""

    def row_estimates(self, tables: Sequence[TableId]) -> dict[TableId, int]:
        """Rows of these tables by the server's statistics, of those that have any. TransientError as above."""

    def close(self) -> None:
        """Close the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a server is under, as it answered just now."""

    measured: Mapping[Limit, float]
    missing: Mapping[Limit, str]
    """What cannot be measured there, and why, with the remedy."""


class LoadWatch(Protocol):
    """A connection of its own for questions about the load of the server that chunks are read from. One thread asks, about once a second."""

    def measure(self, wanted: Collection[Limit]) -> Load:
        """Each of these, or why it cannot be had. TransientError when no answer comes within seconds."""

    def close(self) -> None:
        """Close the connection."""


class TableResolver(Protocol):
    """What a log reader asks for the encoder of a table that it meets."""

    def __call__(self, table_map: Any, position: Position, begin: Any) -> RowEncoder | IgnoredForNow | RowsParked | None:
        """``table_map``: the log's own description of the table, for ``LogSchemas``. ``begin``: where a second reader would find what follows.

        None: the table's rows are passed over; ROWS_PARKED: so too, and counted as parked; IGNORED_FOR_NOW: so too, and each time it is asked about again.
        """


# ---- schemas


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A table as the server had it at ``position``, None if there was none; ``touched``: a statement between the position asked about and this one names it."""

    table: Table | None
    position: Position
    touched: bool


class SchemaSource(Protocol):
    """What the server has of its tables."""

    def read_tables(self, include: Callable[[TableId], bool]) -> list[Table]:
        """Every table that ``include`` accepts, as it is now."""

    def read_databases(self) -> dict[str, Database]:
        """Each database's defaults that a new table inherits."""

    def take_over(self, records: Iterable[bytes], timeline: Timeline, *, prefix: str, offset: OffsetMap) -> int:
        """Fill the timeline from a schema history that Debezium has kept; how many records were used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What a user can do about a log that shows too little of its tables; parts of sentences."""

    name_columns: str
    """Makes the log name its columns."""
    name_columns_in_future: str
    log_rows: str
    """Makes the log hold rows instead of statements."""
    disagreement: str
    """How catalog and log may come to disagree."""


class LogSchemas(Protocol):
    """What the log shows of tables, and what its statements mean."""

    @property
    def advice(self) -> Advice:
        """In this database's terms."""

    def read_table_map(self, table_map: Any) -> tuple[TableId, Seen, Merge]:
        """Name and columns as the log has them, and how to bring them together with those that are known. # I4"""

    def parse_statement(self, statement: Any, text: str, position: Position) -> Iterable[Change]:
        """The changes of a statement that hold from ``position`` on; ``Unknown`` for what cannot be understood."""

    def rewritten(self, changes: Iterable[Change], before: Callable[[TableId], Table | None]) -> dict[TableId, str]:
        """The tables whose old rows the changes alter without row events, and how."""

    def row_change(self, statement: Any, text: str) -> tuple[str, AbstractSet[TableId]] | None:
        """For a statement that changes rows, which a log of rows must not hold: its kind, and the tables that it may mean, in lower case."""

    def read_table(self, table: TableId, position: Position, begin: Any) -> Reading:
        """The table as the server has it now, and whether the log holds nothing of it between ``begin`` and there."""


class SchemaReports(Protocol):
    """Records of the schema-change topic, as Debezium writes them. What they are is the dialect's: ``RowPlans.schema_change`` takes them apart."""

    def at_start(self, include: Callable[[TableId], bool]) -> list[Any]:
        """What a connector reports of the tables that it finds."""

    def of_statement(
        self,
        statement: Statement,
        changes: Sequence[Change],
        *,
        after: Callable[[TableId], Table | None],
        includes: Callable[[TableId], bool],
        includes_database: Callable[[str], bool],
    ) -> list[Any]:
        """What it reports of a statement. ``after``: a table as the statement left it."""


# ---- chunks and watermarks


class ChunkSql(Protocol):
    """The dialect's statements for chunks: each gives its text and its parameters."""

    def chunk_select(
        self, table: Table, after: Key | None, upto: Key | None, rows_max: int, *, where: str | None = None
    ) -> tuple[str, Key]:
        """The first rows of the range (after, upto], in key order; ``where``, here and below: of those for which this condition holds."""

    def rows_by_key(self, table: Table, keys: Sequence[Key]) -> tuple[str, Key]:
        """The rows of these keys, as far as there are any."""

    def max_key(self, table: Table, *, where: str | None = None) -> tuple[str, Key]:
        """The greatest key, as the only columns."""

    def exact_key(self, table: Table, shown: Key) -> Key | None:
        """The key that a chunk's row shows, as a bound; None where the row may not show all of it."""

    def last_key(self, table: Table, after: Key | None, upto: Key | None, row_count: int, *, where: str | None = None) -> tuple[str, Key]:
        """The key of the last of these rows of a chunk, as the only columns: for a row that does not show it."""

    def key_lookup(self, table: Table, key: Key, after: Key | None, *, where: str | None = None) -> tuple[str, Key]:
        """One row if the table has this key, and it is greater than ``after``."""

    def full_scan(self, table: Table, rows_max: int, *, where: str | None = None) -> tuple[str, Key]:
        """The whole of a table without a key."""

    def by_place(self, table: Table) -> Table:
        """A table without a key, with the place of its rows for one, by which it is read in chunks; as it is, where a server has no places."""

    def key_indexes(self, table: Table) -> tuple[int, ...]:
        """Where the key columns stand in the select list, in key order."""


class ChunkSource(Protocol):
    """Rows of key ranges, each read in a snapshot that shows the low watermark written before it (``ports.Watermarks``), or in read-only mode the low
    position read before it (``ports.LogPositions``). # I2
    """

    @property
    def chunk_sql(self) -> ChunkSql:
        """The statements."""

    def own_condition(self, table: TableId) -> str | None:
        """Which rows of the table the configuration wants of the connector's first dump; None: all."""

    def open_chunks(self) -> DumpConnection:
        """Connections for one dump thread, to this very server; ServerChangedError when another one answers. In read-only mode chunks may come from
        a replica, which proves itself with each snapshot.
        """


# ---- the whole


class Check(Protocol):
    """Whether a start can succeed."""

    def check(self, tables: Sequence[Table], *, watermarks: TableId | None, named: Parts) -> list[str]:
        """DefiniteError that names every setting and privilege that is missing, with the statement to run; warnings otherwise.

        ``tables``: the captured tables that the account sees. ``named``: what the configuration names, which it may not see. ``watermarks``: the
        watermark table, which is made here where it is missing; None where nothing is read from tables, or nothing may be written.
        """

    def complete_log(self, lacking: Callable[[list[TableId]], None]) -> None:
        """Have the log hold the rows of all tables that were checked, where the server asks for that and it is ours to order. ``lacking`` is called ahead of
        it, if at all, with the tables whose rows the log has not held until now: from then on nothing at the server shows that a dump has to bring them. # I3
        """


class RequestCheck(Protocol):
    """Whether a requested dump could be carried out. Asked from any thread, on connections of its own."""

    def prepare_dump(self, tables: Sequence[Table]) -> dict[TableId, int]:
        """DefiniteError that names every privilege that is missing to read these tables, with the statement to run; what windows need is made where missing.

        Rows of these tables by the server's statistics, as ``LogWatch.row_estimates`` has them.
        """

    def check_conditions(self, conditions: Sequence[tuple[Table, str]]) -> None:
        """DefiniteError where a text is not one condition that the server takes for its table; TransientError when it cannot be asked."""

    def check_surrogate(self, tables: Sequence[Table], column: str) -> None:
        """DefiniteError where the server changes the column's values in rows that the log does not show, or has no index in that order; TransientError when
        it cannot be asked.
        """

    def check_keys(self, table: Table, keys: Sequence[Key]) -> None:
        """DefiniteError where the values are none of the table's key by its definition; nothing is asked."""

    def try_keys(self, table: Table, keys: Sequence[Key]) -> None:
        """DefiniteError where the server does not take one of them; TransientError when it cannot be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContext:
    """What a server's log needs of the task that reads it."""

    run: str
    """Different in each run; part of the watermarks' tokens."""
    watermark_name: str
    """The task's own rows of the watermark table begin with it."""
    includes: Callable[[TableId], bool]
    """Which tables are captured."""
    stopped: threading.Event
    patience: Callable[[Callable[[], Any]], Any]
    """Waits out a server that is away."""
    clock: Clock
    warnings: StandingWarnings = field(default_factory=StandingWarnings)
    """What an operator has to know while the task runs."""
    moves_rows: Callable[[TableId], bool] = lambda _: False
    """Whether a dump reads the table so that an update of a row can take it past all chunks (log thread only)."""
    joined: frozenset[TableId] = frozenset()
    """Tables that joined the connector, or its log, while it had a position already, and of which its dump has rows left."""
    returned: frozenset[TableId] = frozenset()
    """Tables of whose changes some may have been in no log until their dump was ordered, which has rows left."""


class Server(Check, Positions, SchemaSource, SchemaReports, ChunkSource, RequestCheck, Protocol):
    """One server that answers; asked by the thread that starts the task, then by the log thread."""

    @property
    def log_has_statements(self) -> bool:
        """Whether a restart finds each change of a table in the log again, as a statement, whatever the history has of it. False: changes are seen by comparing
        what the log shows with the history, so that the history is put back to the stored offset.
        """

    @property
    def watermark_table(self) -> TableId:
        """By the name that the log has for it."""

    @property
    def signal_tables(self) -> frozenset[TableId]:
        """By the same names; empty where no signals come from the source. Rows that are inserted into them come out of the log as ``Signals``."""

    def schemas(self, timeline: Timeline, context: TaskContext, *, epoch: int) -> LogSchemas:
        """The log's schemas; ``timeline`` holds the tables that statements build on."""

    def log(self, schemas: LogSchemas, resolve: TableResolver, context: TaskContext) -> LogSource:
        """The log, with encoders by ``resolve``. Rows of the watermark table come out as ``Watermarks``."""

    def open_watch(self, abort: Abort) -> LogWatch:
        """A connection to this very server for ``LogWatch``; ``abort`` cuts it. TransientError when it cannot be had."""

    def open_load(self, abort: Abort) -> LoadWatch:
        """A connection for ``LoadWatch`` to the server that chunks are read from; ``abort`` cuts it. TransientError when it cannot be had."""

    def close(self) -> None:
        """Close the connection; logs and dumps have theirs."""


class RowPlans(Protocol):
    """From a table version to records: key and value bytes that are equal for the same row, from the log or from a chunk."""

    @property
    def name(self) -> str:
        """Debezium's name for the connector: ``source.connector``."""

    def column_plan(self, column: Column, table: TableId, *, included: bool) -> ColumnPlan:
        """What becomes of a column."""

    def encoder(self, plan: TablePlan, writers: Writers | None) -> RowEncoder:
        """The encoder of a table version. ``writers``: the converters' own; None where both are Avro, which the plan writes by itself."""

    @property
    def source(self) -> Schema:
        """The schema of its source block."""

    def source_block(self, plan: TablePlan, context: Any, *, row: int) -> dict[str, Any]:
        """The source block of one row. ``context`` is its own ``RowContext``."""

    def chunk_context(self, low: WatermarkPosition, now_us: int) -> RowContext:
        """The source block of a chunk's rows: its window's low watermark, ``snapshot`` is ``incremental``."""

    def schema_change(self, report: Any, at: RowContext, *, prefix: str, snapshot: bool) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Key and value of a record of the schema-change topic, with its source block. ``snapshot``: of what was found at the start."""


class Source(Protocol):
    """One connector's source: a kind of database with the connector's options. Nothing is connected yet."""

    @property
    def plans(self) -> RowPlans:
        """Its row plans."""

    @property
    def watermark_table(self) -> TableId:
        """As the configuration names it."""

    @property
    def builtin_databases(self) -> frozenset[str]:
        """The server's own, or its own schemas, as ``core.selection.builtin_tables`` reads them: captured only with ``table.ignore.builtin=false``."""

    @property
    def log_writes_watermarks(self) -> bool:
        """Whether reading the log alone needs the watermark table."""

    def progress(self, offset: OffsetMap) -> Progress:
        """Read a stored offset, ours or Debezium's. DefiniteError when it names no position in a log."""

    def leaving(self) -> Callable[[], None] | None:
        """What a stop as ordered does once nothing reads: give up what the server keeps for the connector, DblogError where it stays. None: nothing."""

    def connect(self, *, again: bool, warnings: StandingWarnings | None = None) -> Server:
        """Reach the server. ``again``: this configuration has worked before, so an unknown host name counts as passing. ``warnings`` takes what an operator
        has to know while the task runs; None: nobody reads them.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """What a statement would do to tables."""

    changes: tuple[Change, ...]
    """``Unknown`` for what cannot be understood."""
    rewritten: Mapping[TableId, str]
    """As ``LogSchemas.rewritten``."""


class DatabaseKind(Protocol):
    """A kind of database, found by the name that ``config/plugins.py`` gives its connector: its sources, and what is asked of it without a task.

    No connection waits for longer than ``limit_s``, ``abort`` cuts them all, and nothing is created or changed.
    """

    def source(self, settings: Settings) -> Source:
        """The source of a connector; nothing is connected."""

    def check(self, settings: Settings, *, limit_s: float, abort: Abort) -> list[str]:
        """As ``Check.check``, before the connector is created: ConfigError that names keys, else DefiniteError or TransientError; warnings."""

    def superfluous(self, settings: Settings, *, limit_s: float, abort: Abort) -> list[str]:
        """Statements that take from the account what the connector does not need, in the order to run them in: it can run before and after."""

    def check_offsets(self, prefix: str, changes: Sequence[tuple[Mapping[str, Any], OffsetMap | None]]) -> None:
        """Offsets by partition that a user gives: DefiniteError, with the field and the remedy, for those that a connector could not start from.

        ``prefix``: the connector's topic.prefix. None removes an offset, of any partition.
        """

    def effects(self, settings: Settings, statement: str, timeline: Timeline, *, database: str, limit_s: float, abort: Abort) -> Effects:
        """What a statement would do to the tables as ``timeline`` has them behind all positions; ``database`` is the default one.

        The server is asked for what its statements mean there.
        """
