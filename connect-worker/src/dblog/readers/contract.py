"""Contract of a kind of database: everything that the reader layer needs to run a task on it.

A new database is a folder in ``dialects/`` that implements these protocols for its log, positions,
schemas, chunks, watermarks and row plans. tests/contracts/database.py holds MySQL, MariaDB,
PostgreSQL and a small database in memory (tests/support/fake_database) to all protocols that a task
needs; only ``DatabaseKind`` is used without a task. The reader layer owns threads, queue,
interleaving, schema history, retries, the dump and offsets. Positions, statements and table maps
are opaque to it: it hands them back to the dialect that made them. The contract is here and not in
``dialects/`` because imports point downwards.

    DatabaseKind ──source──► Source    used without a task: settings, offsets, statements

    Source ──connect──► Server ──┬─ Check, Positions, SchemaSource, ChunkSource, SchemaReports
      │                          ├─ schemas(timeline) ──► LogSchemas    tables in the log
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
from dblog.core.pressure import Limit
from dblog.core.selection import Parts, Selection
from dblog.core.table_dump import Key
from dblog.core.timeline import Database, Position, Timeline
from dblog.core.watermark import WatermarkPosition
from dblog.model import Column, OffsetMap, Table, TableId
from dblog.ports import DumpConnection
from dblog.readers.dump_progress import DumpProgress
from dblog.readers.items import IgnoredForNow, LogCounts, LogItem, RowsParked, Statement
from dblog.readers.retrying import Retrying
from dblog.readers.standing_warnings import StandingWarnings

Merge = Callable[[Column, Column], Column]
"""(known, seen) -> the column to decode with; see ``core.crosscheck.cross_check``."""


# ---- positions


class Progress(Protocol):
    """Progress in a log, as part of the source offset.

    The reader's progress and the acknowledged progress are two values of it. They are ordered by
    ``sequence``, two BIGINTs (D7): (source epoch << 32 | file or timeline, offset << 23 | row).
    """

    epoch: int
    """Number that rises when another server's log begins; 0 in an offset that this connector has
    not written.
    """

    @property
    def sequence(self) -> Position:
        """The two sequence numbers (D7) of this position."""

    @property
    def source_ts_us(self) -> int:
        """Time of the newest event that was read, captured or not; 0 if no event has one."""

    @property
    def resume_point(self) -> Hashable:
        """Value that stays equal as long as a new connection would begin at the same event."""

    def sequence_of(self, position: Any) -> Position:
        """Return the two sequence numbers (D7) of an item's position, in this epoch."""

    def advance(self, position: Any) -> None:
        """Take the position of an item; items come in the order of the log."""

    @property
    def is_between(self) -> bool:
        """True if this position is between two transactions, not inside one."""

    def has_come_to(self, mark: Any, *, quiet: bool) -> bool:
        """Return True if everything before the mark has been read (``ports.LogPositions.log_end``).

        ``quiet`` is True if the log has nothing more at the moment, so that there is time to
        compare more than the position.
        """

    def copy(self) -> Self:
        """Return an independent copy."""

    def to_map(self) -> dict[str, str | int | float | bool | None]:
        """Return the source offset, in Debezium's keys if it has them; ``Source.progress`` reads
        it.
        """

    def note(self) -> dict[str, object]:
        """Return the position for people; it is stored with table versions and shown in
        log lines.
        """

    def row_context(self, *, now_us: int) -> RowContext:
        """Return the source context of a record at this position."""

    def watermark_position(self) -> WatermarkPosition:
        """Return this position as that of a watermark, for chunk markers."""

    def taken_over(self) -> None:
        """Note that another program wrote the offset, so that open transactions at it
        are unknown.
        """

    def metrics(self) -> dict[str, float]:
        """Return metrics of this position by name."""

    def __str__(self) -> str:
        """Return the position as text for messages."""


class Positions(Protocol):
    """Positions from which a server's log can be read. Their epoch is 0 until the
    caller sets it.
    """

    def now(self) -> Progress:
        """Return the end of the log; every change that a SELECT can see is logged before it."""

    def begin(self) -> Progress:
        """Return the position where a first run begins to read.

        Every change before it is visible to a SELECT, and from now on nothing after it is lost.
        """

    def oldest(self) -> Progress:
        """Return the beginning of the log."""

    def resume(self, progress: Progress) -> bool:
        """Adapt a stored position to this server.

        Return True if the position is of another server's log, so that the epoch has to rise. Raise
        PositionLostError if the log from there on is no longer available.
        """


# ---- the log


class LogReader(Protocol):
    """An open connection to the log. One thread uses it; another may call ``close``."""

    @property
    def is_silent(self) -> bool:
        """True while signs of life from the server are overdue."""

    @property
    def counts(self) -> LogCounts:
        """Counts since the connection was opened. Any thread may read them, also after
        ``close``.
        """

    def receive(self, timeout_s: float) -> int:
        """Wait for data, and return the number of bytes that arrived; 0 if none arrived in time.

        Raise TransientError if the connection is lost.
        """

    def items(self) -> Iterator[LogItem]:
        """Yield the content of the bytes that arrived, in the order of the log.

        An item counts as taken when the next one is requested. Rows may be held back (see
        ``flush``). Raise DamagedLogError for a damaged event, with its position if skipping it
        would lose only its rows; and DefiniteError for an event that must not be skipped. # I5
        """

    def flush(self) -> Iterator[LogItem]:
        """Yield the rows that were held back."""

    def forget_tables(self) -> None:
        """Forget the encoders: schemas have changed, so ask for each table's encoder again."""

    def wake(self) -> None:
        """End a ``receive`` that waits, or the next one, as if its time had passed.

        Any thread may call it, also after ``close``.
        """

    def close(self) -> None:
        """Close the connection."""


class LogSource(Protocol):
    """The log of one source, independent of the task's connections to it."""

    def open(self, at: Progress, *, unreadable: AbstractSet[Any]) -> LogReader:
        """Open a connection that reads from ``at``, which the reader layer advances item by item.

        ``unreadable`` holds the positions of damaged events that are to be skipped. Raise
        ServerChangedError if another server answers than the one that ``at`` belongs to. This is
        checked at every connection, because an address may lead anywhere.
        """

    def end(self, *, epoch: int) -> Position:
        """Return the present end of the server's log. Raise TransientError if the server does not
        answer.
        """

    def passed_over(self, table: TableId) -> None:
        """Note that rows of this table were read but not sent, for now or for good."""

    def shows(self, shown: Any, table: TableId, low: Position) -> bool:
        """Return True if a snapshot shows everything that the log has of the table before ``low``.
        # I2

        ``shown`` comes from ``ports.DumpConnection.snapshot_shown``. ``low`` holds the
        sequence numbers (D7) of a window's low watermark, which the log has reached. Called by the
        log thread.
        """

    def beat(self) -> None:
        """Run the configured heartbeat action at the source, without blocking the log thread."""

    def confirm(self, offset: OffsetMap) -> None:
        """Note that the offset is stored, so the server may drop older log. Called by the
        committing thread.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """Present state of the server's log, compared with the read and the stored position."""

    behind_bytes: int
    """Bytes from the read position to the end of the log."""
    behind_files: int
    stored_behind_files: int
    """Files from the stored position to the end of the log. A task that is paused, or cannot reach
    Kafka, reads ahead of it.
    """
    margin_files: int | None
    """Files before the stored position, which the server can drop before that position is lost.
    None if the server drops nothing that is needed.
    """
    margin_bytes: int | None
    purged: bool
    """True if the stored position is lost already."""
    retention_s: float | None
    """Seconds that the server keeps its log; None without limit."""
    uses_gtids: bool
    kept_bytes: int | None = None
    """Bytes of log that the server keeps; None without limit."""
    needed_bytes: int = 0
    """Bytes from the beginning of the stored position's file to the end of the log."""
    stored_age_s: float | None = None
    """Age of the newest event before the stored position, by the server's clock; None if no event
    has a time.
    """
    tables_unpublished: int | None = None
    """Number of captured tables whose changes are in no log, or not all of them; None if a log
    always has them.
    """


ESTIMATED_MAX = 2000
"""Maximum number of a dump's tables whose statistics are read; with more, the total is unknown."""


class LogWatch(Protocol):
    """A separate connection for questions about the server's log, for metrics. One
    thread uses it.
    """

    def look(self, read: Progress, stored: Progress) -> LogState:
        """Return the state of the log. Both positions advance meanwhile.

        Raise TransientError if the server does not answer within seconds.
        """

    def row_estimates(self, tables: Sequence[TableId]) -> dict[TableId, int]:
        """Return the estimated rows of these tables, for those that the server has statistics of.

        Raise TransientError if the server does not answer within seconds.
        """

    def close(self) -> None:
        """Close the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Present load of a server."""

    measured: Mapping[Limit, float]
    missing: Mapping[Limit, str]
    """Limits that cannot be measured, with the reason and the remedy."""


class LoadWatch(Protocol):
    """A separate connection that measures the load of the server that chunks are read from.

    One thread uses it, about once a second.
    """

    def measure(self, wanted: Collection[Limit]) -> Load:
        """Measure the load for these limits; ``missing`` names the limits that cannot be measured.

        Raise TransientError if the server does not answer within seconds.
        """

    def close(self) -> None:
        """Close the connection."""


class TableResolver(Protocol):
    """Function that gives a log reader the encoder of a table."""

    def __call__(self, table_map: Any, position: Position, begin: Any) -> RowEncoder | IgnoredForNow | RowsParked | None:
        """Return the table's encoder; None to drop its rows.

        Return ROWS_PARKED to drop and count them, IGNORED_FOR_NOW to drop them and ask again at the
        next event. ``table_map`` is the log's own description of the table, for ``LogSchemas``.
        ``begin`` is the position where a second reader would find what follows.
        """


# ---- schemas


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A table as the server had it at ``position``; None if there was none.

    ``touched`` is True if a statement between the position of the question and this one names the
    table.
    """

    table: Table | None
    position: Position
    touched: bool


class SchemaSource(Protocol):
    """Reader of the tables that the server has now."""

    def read_tables(self, include: Callable[[TableId], bool]) -> list[Table]:
        """Return every table that ``include`` accepts, as it is now."""

    def read_databases(self) -> dict[str, Database]:
        """Return by database the defaults that a new table inherits."""

    def take_over(self, records: Iterable[bytes], timeline: Timeline, *, prefix: str, offset: OffsetMap) -> int:
        """Fill the timeline from a schema history of Debezium; return the number of
        records used.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Parts of sentences that tell a user what to do about a log that shows too little of its
    tables.
    """

    name_columns: str
    """Action that makes the log name its columns."""
    name_columns_in_future: str
    log_rows: str
    """Action that makes the log contain rows instead of statements."""
    disagreement: str
    """Example of how catalog and log come to disagree."""


class LogSchemas(Protocol):
    """Tables and statements as the log shows them."""

    @property
    def advice(self) -> Advice:
        """Advice to a user in the terms of this database."""

    def read_table_map(self, table_map: Any) -> tuple[TableId, Seen, Merge]:
        """Return the table's name and columns as the log has them, and a function that merges them
        with the known columns. # I4
        """

    def parse_statement(self, statement: Any, text: str, position: Position) -> Iterable[Change]:
        """Yield the changes of a statement, valid from ``position`` on; ``Unknown`` for what it
        cannot parse.
        """

    def rewritten(self, changes: Iterable[Change], before: Callable[[TableId], Table | None]) -> dict[TableId, str]:
        """Return the tables whose old rows the changes alter without row events, and how."""

    def row_change(self, statement: Any, text: str) -> tuple[str, AbstractSet[TableId]] | None:
        """Return kind and possible tables, in lower case, of a statement that changes rows; else
        None.

        A log of rows must not contain such statements.
        """

    def read_table(self, table: TableId, position: Position, begin: Any) -> Reading:
        """Return the table as the server has it now.

        ``Reading.touched`` says if the log has something of it between ``begin`` and now.
        """


class SchemaReports(Protocol):
    """Records of the schema-change topic, as Debezium writes them.

    Their form is private to the dialect: ``RowPlans.schema_change`` takes them apart.
    """

    def at_start(self, include: Callable[[TableId], bool]) -> list[Any]:
        """Return the reports about the tables that exist when the connector starts."""

    def of_statement(
        self,
        statement: Statement,
        changes: Sequence[Change],
        *,
        after: Callable[[TableId], Table | None],
        includes: Callable[[TableId], bool],
        includes_database: Callable[[str], bool],
    ) -> list[Any]:
        """Return the reports about a statement. ``after`` returns a table as the
        statement left it.
        """


# ---- chunks and watermarks


class ChunkSql(Protocol):
    """Chunk statements of the dialect; each method returns (text, parameters)."""

    def chunk_select(
        self, table: Table, after: Key | None, upto: Key | None, rows_max: int, *, where: str | None = None
    ) -> tuple[str, Key]:
        """Select the first rows of the range (after, upto], in key order.

        Here and below, ``where`` limits the rows to those that fulfil this condition.
        """

    def rows_by_key(self, table: Table, keys: Sequence[Key]) -> tuple[str, Key]:
        """Select the rows of these keys; some may not exist."""

    def max_key(self, table: Table, *, where: str | None = None) -> tuple[str, Key]:
        """Select the greatest key, as the only columns."""

    def exact_key(self, table: Table, shown: Key) -> Key | None:
        """Return the key of a chunk's row as a bound, or None if the row may not show all of it."""

    def last_key(self, table: Table, after: Key | None, upto: Key | None, row_count: int, *, where: str | None = None) -> tuple[str, Key]:
        """Select the key of a chunk's last row, as the only columns, if the row itself does not
        show it.
        """

    def key_lookup(self, table: Table, key: Key, after: Key | None, *, where: str | None = None) -> tuple[str, Key]:
        """Select one row if the table has this key and it is greater than ``after``."""

    def full_scan(self, table: Table, rows_max: int, *, where: str | None = None) -> tuple[str, Key]:
        """Select all rows of a table without a key."""

    def by_place(self, table: Table) -> Table:
        """Return a table without a key with the place of its rows as the key, to be read in chunks.

        Return the table unchanged if the server has no such places.
        """

    def key_indexes(self, table: Table) -> tuple[int, ...]:
        """Return the indexes of the key columns in the select list, in key order."""


class ChunkSource(Protocol):
    """Reader of key ranges, each in a snapshot that provably shows the low watermark. # I2

    The watermark is written before the snapshot (``ports.Watermarks``); in read-only mode, the low
    position is read before it (``ports.LogPositions``).
    """

    @property
    def chunk_sql(self) -> ChunkSql:
        """Chunk statements of the dialect."""

    def own_condition(self, table: TableId) -> str | None:
        """Return the condition for rows in the connector's first dump, as configured; None for all
        rows.
        """

    def open_chunks(self) -> DumpConnection:
        """Open the connections of one dump thread to this very server.

        Raise ServerChangedError if another server answers. In read-only mode chunks may come from a
        replica, which proves itself with each snapshot.
        """


# ---- the whole


class Check(Protocol):
    """Check that a start can succeed."""

    def check(self, tables: Sequence[Table], *, watermarks: TableId | None, named: Parts) -> list[str]:
        """Check settings and privileges, and return warnings.

        Raise DefiniteError that names everything missing, with the statements to run. ``tables``
        are the captured tables that the account sees; ``named`` is what the configuration names,
        which it may not see. ``watermarks`` is the watermark table, which is created if missing;
        None if no table is read or nothing may be written.
        """

    def complete_log(self, lacking: Callable[[list[TableId]], None]) -> None:
        """Make the server log full rows of the checked tables, if that takes a setting that we may
        change.

        ``lacking`` is called before the change, if at all, with the tables whose rows were not
        fully logged until now: afterwards nothing on the server shows that a dump has to bring
        them. # I3
        """


class RequestCheck(Protocol):
    """Check that a requested dump can be carried out. Any thread may call it; it opens its own
    connections.
    """

    def prepare_dump(self, tables: Sequence[Table]) -> dict[TableId, int]:
        """Check the privileges to read these tables, and create what windows need.

        Return the tables' estimated rows, as ``LogWatch.row_estimates``. Raise DefiniteError that
        names every missing privilege, with the statement to run.
        """

    def check_conditions(self, conditions: Sequence[tuple[Table, str]]) -> None:
        """Check that each text is a condition that the server accepts for its table.

        Raise DefiniteError if it is not, TransientError if the server cannot be asked.
        """

    def check_surrogate(self, tables: Sequence[Table], column: str) -> None:
        """Check that the tables can be read by this column instead of their keys.

        Raise DefiniteError if the server changes its values in rows without logging that, or has no
        index in its order; TransientError if the server cannot be asked.
        """

    def check_keys(self, table: Table, keys: Sequence[Key]) -> None:
        """Check the values against the definition of the key, without asking the server.

        Raise DefiniteError for values that cannot be a key.
        """

    def try_keys(self, table: Table, keys: Sequence[Key]) -> None:
        """Check that the server accepts these keys.

        Raise DefiniteError for one that it does not accept, TransientError if it cannot be asked.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContext:
    """Values and functions of the task that its server's log needs."""

    run: str
    """Identifier of the run; part of the watermarks' tokens."""
    watermark_name: str
    """Prefix of the names of the task's rows in the watermark table."""
    selection: Selection
    stopped: threading.Event
    retrying: Retrying
    clock: Clock
    warnings: StandingWarnings = field(default_factory=StandingWarnings)
    """Warnings to an operator while the task runs."""
    dumps: DumpProgress = field(default_factory=DumpProgress)
    joined: frozenset[TableId] = frozenset()
    """Tables that joined the connector or its log when it already had a position, and that its dump
    has not finished.
    """
    returned: frozenset[TableId] = frozenset()
    """Tables with changes that may be in no log until their dump was ordered, which has not
    finished.
    """

    def includes(self, table: TableId) -> bool:
        """Return True for a captured table."""
        return self.selection.includes(table)

    def moves_rows(self, table: TableId) -> bool:
        """Return True if a dump reads the table such that an update may move a row past all chunks
        (log thread only).
        """
        return self.dumps.book.moves_rows(table)


class Server(Check, Positions, SchemaSource, SchemaReports, ChunkSource, RequestCheck, Protocol):
    """Connected server, used by the thread that starts the task and later by the log thread."""

    @property
    def log_has_statements(self) -> bool:
        """True if a restart finds each change of a table in the log again, as a statement, whatever
        the history holds. False if changes are detected by comparing log and history, so that a
        restart rolls the history back to the stored offset.
        """

    @property
    def watermark_table(self) -> TableId:
        """Watermark table, under the name that it has in the log."""

    @property
    def signal_tables(self) -> frozenset[TableId]:
        """Signal tables, under their names in the log; empty if no signals come from the source.
        Rows inserted into them come out of the log as ``Signals``.
        """

    def schemas(self, timeline: Timeline, context: TaskContext, *, epoch: int) -> LogSchemas:
        """Return the log's schemas. ``timeline`` holds the tables that statements build on."""

    def log(self, schemas: LogSchemas, resolve: TableResolver, context: TaskContext) -> LogSource:
        """Return the log, with encoders from ``resolve``. Rows of the watermark table come as
        ``Watermarks``.
        """

    def open_watch(self, abort: Abort) -> LogWatch:
        """Connect a ``LogWatch`` to this very server; ``abort`` ends its calls.

        Raise TransientError if that fails.
        """

    def open_load(self, abort: Abort) -> LoadWatch:
        """Connect a ``LoadWatch`` to the server that chunks are read from; ``abort`` ends its
        calls.

        Raise TransientError if that fails.
        """

    def close(self) -> None:
        """Close the connection. Logs and dumps have connections of their own."""


class RowPlans(Protocol):
    """Encoding of table rows to records: key and value are equal for the same row of
    log and chunk.
    """

    @property
    def name(self) -> str:
        """Debezium's name of the connector, as in ``source.connector``."""

    def column_plan(self, column: Column, table: TableId, *, included: bool) -> ColumnPlan:
        """Return the plan for one column."""

    def encoder(self, plan: TablePlan, writers: Writers | None) -> RowEncoder:
        """Return the encoder of a table version.

        ``writers`` are the converters' own; None if both are Avro, which the plan writes by itself.
        """

    @property
    def source(self) -> Schema:
        """Schema of the source block."""

    def source_block(self, plan: TablePlan, context: Any, *, row: int) -> dict[str, Any]:
        """Return the source block of one row. ``context`` is the dialect's own ``RowContext``."""

    def chunk_context(self, low: WatermarkPosition, now_us: int) -> RowContext:
        """Return the context of a chunk's rows: the window's low watermark, with
        ``snapshot=incremental``.
        """

    def schema_change(self, report: Any, at: RowContext, *, prefix: str, snapshot: bool) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return key and value of a schema-change record. ``snapshot`` is True for tables found at
        the start.
        """


class Source(Protocol):
    """A connector's source: a kind of database with the connector's options, not connected."""

    @property
    def plans(self) -> RowPlans:
        """Row plans of this source."""

    @property
    def watermark_table(self) -> TableId:
        """Watermark table, under the name in the configuration."""

    @property
    def builtin_databases(self) -> frozenset[str]:
        """Databases or schemas of the server itself, captured only with
        ``table.ignore.builtin=false``; see ``core.selection.builtin_tables``.
        """

    @property
    def log_writes_watermarks(self) -> bool:
        """True if even reading the log needs the watermark table."""

    def progress(self, offset: OffsetMap) -> Progress:
        """Read a stored offset, ours or Debezium's. Raise DefiniteError if it names no position in
        a log.
        """

    def leaving(self) -> Callable[[], None] | None:
        """Return the action of an ordered stop after reading has ended; None if there is none.

        The action releases what the server keeps for the connector, and raises DblogError if that
        fails.
        """

    def connect(self, *, again: bool, warnings: StandingWarnings | None = None) -> Server:
        """Connect to the server.

        ``again`` is True if this configuration worked before, so that an unknown host name counts
        as transient. ``warnings`` collects warnings for an operator; None discards them.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """Effects that a statement would have on tables."""

    changes: tuple[Change, ...]
    """Changes of the statement; ``Unknown`` for parts that cannot be parsed."""
    rewritten: Mapping[TableId, str]
    """Tables whose old rows would change without row events, as ``LogSchemas.rewritten``."""


class DatabaseKind(Protocol):
    """A kind of database, found by the name that ``config/plugins.py`` gives its connector.

    It makes sources, and answers questions without a task: no call waits longer than ``limit_s``,
    ``abort`` ends all of them, and nothing is created or changed.
    """

    def source(self, settings: Settings) -> Source:
        """Return the source of a connector, not connected."""

    def check(self, settings: Settings, *, limit_s: float, abort: Abort) -> list[str]:
        """Check as ``Check.check`` does, before the connector is created, and return warnings.

        Raise ConfigError that names options, else DefiniteError or TransientError.
        """

    def advise(self, settings: Settings, *, limit_s: float, abort: Abort) -> list[str]:
        """Return sentences for the person who prepares the database, about settings with which a
        connector can run but may come to harm, such as a log that is kept too briefly.

        Each names the section of the page that helps (``dialects/guide.py``).
        """

    def superfluous(self, settings: Settings, *, limit_s: float, abort: Abort) -> list[str]:
        """Return statements that revoke unneeded privileges of the account, in the order to run
        them.

        The connector can run before and after.
        """

    def check_offsets(self, prefix: str, changes: Sequence[tuple[Mapping[str, Any], OffsetMap | None]]) -> None:
        """Check the offsets that a user gives, by partition; None removes an offset, of any
        partition.

        Raise DefiniteError, with the field and the remedy, for an offset that a connector could not
        start from. ``prefix`` is the connector's topic.prefix.
        """

    def effects(self, settings: Settings, statement: str, timeline: Timeline, *, database: str, limit_s: float, abort: Abort) -> Effects:
        """Return the effects of a statement on the tables at the end of ``timeline``.

        ``database`` is the default database. The server is asked what its statements mean there.
        """
