"""Gives the log reader the encoder for a table at the log's position, and keeps timeline and
history in step with the log. # I4

``resolve`` answers a table map: it takes the table version valid there, compares it with the table
map, and reads the table from the server if the two disagree. If the server agrees with the log, its
schema is used. If it disagrees too, the table is parked: the log's metadata fills in missing facts
but overrules neither. ``statement`` takes a DDL statement: the timeline is changed and the history
written before the log continues.

A schema read from the server is true at the server's end of the log, not at our position. It is
used only if no statement in between touches the table (``Reading.touched``). Otherwise the table is
parked from here to that end: its rows are skipped while all other tables go on. At the end the
table has a schema again, and is dumped again because rows of that stretch are missing. A table that
is entirely unknown stays parked. If a parked table is excluded from dumps, its rows would never
come. The task ends then, unless the user wants to go on without them; in that case their events are
counted. # I5

A table whose topic another captured table has is parked too, until a start gives it a topic of its
own (``readers/topics.py``). # I2

The log thread changes this state, chunk threads ask for tables, and the committer drops versions.
One lock serves all, and none of them takes it per row.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import structlog

from dblog.codecs.fingerprint import Fingerprints
from dblog.codecs.plan import RowContext
from dblog.codecs.rowplan import Chunk, Op, ReadOp, RowEncoder
from dblog.codecs.rowplan import Records as EncodedRows
from dblog.core.changes import AlterTable, Change, CreateTable, Ignored, RenameTable, TruncateTable, Unknown, tables_of
from dblog.core.crosscheck import Agreed, Mismatch, Repaired, Seen, cross_check
from dblog.core.key_order import reordered
from dblog.core.removals import Removals
from dblog.core.timeline import Absent, Known, Parked, Position, Stale, Timeline
from dblog.errors import DefiniteError
from dblog.model import Table, TableId
from dblog.readers.contract import LogSchemas, Merge, Reading
from dblog.readers.items import IGNORED_FOR_NOW, ROWS_PARKED, IgnoredForNow, RowsParked
from dblog.readers.log.debezium_history import LoggedStatement
from dblog.readers.log.encoders_ahead import EncodersAhead
from dblog.readers.log.history import SchemaHistory
from dblog.readers.options import ReaderOptions
from dblog.readers.records import Records
from dblog.readers.retrying import Retrying
from dblog.readers.topics import SharedTopicWarnings

log = structlog.get_logger(__name__)


WAS_PARKED = "rows were skipped while it was parked"
APPEARED = "no statement of the log made it: its rows of before are in no log"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementDone:
    """Result of one statement.

    ``touched`` are the captured tables that it touched, ``rewritten`` those whose old rows it
    altered and why, ``unparked`` those whose rows were skipped until now and that are known again,
    and why.
    """

    changes: tuple[Change, ...]
    touched: tuple[TableId, ...] = ()
    rewritten: dict[TableId, str] = field(default_factory=dict)
    reordered: tuple[TableId, ...] = ()
    """Tables whose keys sort in another order from here on."""
    unparked: dict[TableId, str] = field(default_factory=dict)
    removed: dict[TableId, str] = field(default_factory=dict)
    """Captured tables that lost rows by the statement without a row event, with the cause."""
    gone: tuple[TableId, ...] = ()
    """Captured tables that were dropped or renamed."""


@dataclass(slots=True)
class EventCount:
    """Number of row events of parked tables that no dump will bring, if the connector is configured
    to go on without them.
    """

    total: int = 0


class PassedOver:
    """Encoder of a parked table: makes no records of its rows, and counts the events.

    It implements ``RowEncoder``. Its plan has only the fields read before there are records: the
    table's name, and an empty topic.
    """

    def __init__(self, table: TableId, count: EventCount) -> None:
        self._table = table
        self._count = count
        self._is_reported = False
        self.plan: Any = SimpleNamespace(
            table=SimpleNamespace(id=table, columns=(), indexes=(), key=()), topic="", skipped_operations=(), key=(), columns=()
        )

    def encode_rows(self, op: Op, body: bytes, context: RowContext, *, version: int | None = None, skip_rows: int = 0) -> EncodedRows:  # noqa: ARG002 - RowEncoder's
        """Return no records, and count the event."""
        self._count.total += 1
        if not self._is_reported:
            self._is_reported = True
            log.warning(
                "rows are skipped (inconsistent.schema.handling.mode): the table's schema is not known here",
                table=str(self._table),
                at=str(context),
            )
        return [], [], {}

    def encode_chunk(self, rows: bytes, context: RowContext, dropped_keys: AbstractSet[bytes], op: ReadOp = "r") -> Chunk:
        """Raise AssertionError: windows of a parked table are discarded."""
        raise AssertionError(self._table, len(rows), context, dropped_keys, op)

    def end_of_rows(self, rows: bytes, start: int, rows_max: int, bytes_max: int) -> int:
        """Raise AssertionError: windows of a parked table are discarded."""
        raise AssertionError(self._table, len(rows), start, rows_max, bytes_max)

    def fingerprint_chunk(self, rows: bytes, dropped_keys: AbstractSet[bytes]) -> Fingerprints:
        """Raise AssertionError: windows of a parked table are discarded."""
        raise AssertionError(self._table, len(rows), dropped_keys)

    def check_table_map(self, body: bytes) -> None:
        """Accept any table map."""


class Schemas:
    """Schemas of one task.

    - ``options`` select the captured tables, and those that a dump may bring. A statement that they
      filter (schema.history.internal.ddl.filter) is left out of the history; its changes are still
      applied.
    - ``records`` builds encoders, and ``retrying`` repeats a call while a broker or server is away.
    - ``left_out`` is called with each table whose rows are skipped for now, when ``resolve`` asks
      for it.
    - ``joins`` is the number of the last joining that the dump has included.
    - ``ahead`` builds encoders for tables that will be dumped, without waiting for a registry.
    """

    def __init__(
        self,
        *,
        timeline: Timeline,
        history: SchemaHistory,
        log_schemas: LogSchemas,
        options: ReaderOptions,
        records: Records,
        retrying: Retrying,
        left_out: Callable[[TableId], None] = lambda _: None,
        ahead: EncodersAhead | None = None,
        joins: int = 0,
        topics: SharedTopicWarnings | None = None,
    ) -> None:
        self._retrying = retrying
        self._topics = topics
        self._removals = Removals()
        self._removals.leave(timeline.gone())
        self._left_out = left_out
        self._ahead = ahead
        self._timeline = timeline
        self._history = history
        self._log_schemas = log_schemas
        self._options = options
        self._records = records
        self._joins = max([joins, *(number for number, _ in timeline.joined().values())])
        self._appeared: set[TableId] = set()
        self.passed_over = EventCount()
        self._parked: dict[TableId, str] = {}
        self._ends: list[tuple[Position, TableId]] = []
        self._encoders: dict[TableId, RowEncoder] = {}
        self._ignored_before: dict[TableId, Position] = {}
        self._expected: dict[TableId, tuple[Position, Table]] = {}
        self._lock = threading.RLock()
        if topics is not None:
            for table in timeline.captured_tables():
                topics.captured(table.id)
            for parked in timeline.in_state(Parked):
                if (reason := topics.refusal(parked)) is not None:
                    self._parked[parked] = reason

    @property
    def timeline(self) -> Timeline:
        """Timeline of the table versions."""
        return self._timeline

    def includes(self, table: TableId) -> bool:
        """Return True if the table is selected, known or not."""
        return self._options.selection.includes(table)

    def captured(self) -> list[TableId]:
        """Return the captured tables that exist at the newest position, sorted."""
        return sorted(t.id for t in self._timeline.captured_tables())

    def captured_now(self) -> frozenset[TableId]:
        """Return the captured tables that exist. Any thread may call it."""
        with self._lock:
            return frozenset(t.id for t in self._timeline.captured_tables())

    @property
    def captured_total(self) -> int:
        """Number of captured tables that exist. Any thread may read it."""
        with self._lock:
            return len(self._timeline.captured_tables())

    def table(self, table: TableId) -> Table | None:
        """Return the newest known version, or None. Chunk threads call it as well."""
        with self._lock:
            return self._timeline.current_table(table)

    def prepare(self, table: Table) -> None:
        """Start to build the encoder of this version, because its rows will be read. Dump threads
        call it.
        """
        if self._ahead is None:
            return
        with self._lock:
            known = self._encoders.get(table.id)
            if (known is None or known.plan.table != table) and self._timeline.current_table(table.id) == table:
                self._ahead.begin(table)

    def encoder(self, table: TableId) -> RowEncoder | None:
        """Return the encoder of the newest version; None if the table is unknown or gone."""
        current = self._timeline.current_table(table)
        return None if current is None else self._encoder_of(current)

    def ignore_before(self, table: TableId, position: Position) -> None:
        """Ignore rows of the table before ``position``, where it joined the connector.

        It is dumped, or followed from there.
        """
        self._ignored_before[table] = position

    def passes_over(self, table: TableId, position: Position) -> bool:
        """Return True if the position is before the one where the table joined."""
        return position < self._ignored_before.get(table, (0, 0))

    def expect(self, table: Table, position: Position) -> None:
        """Expect a table that joined the connector at ``position`` and that no dump brings. # I4

        ``table`` is its definition on the server there. Rows before that position are followed too,
        with the columns that the log shows; other facts are taken as they are at ``position``.
        """
        self._expected[table.id] = position, table

    @property
    def parked(self) -> Mapping[TableId, str]:
        """Tables whose rows are skipped at the log's position, with the reason."""
        return self._parked

    def resume_parkings(self, at: Position) -> None:
        """Restore, after a restart, the parkings that end after ``at``."""
        self._ends = sorted(self._timeline.parkings_that_end(at))

    @property
    def waits_for_end(self) -> bool:
        """True if some table gets a schema at a later position, or appeared without a statement.

        Read for every item of the log.
        """
        return bool(self._ends or self._appeared)

    def take_ended(self, position: Position) -> dict[TableId, str]:
        """Return the tables that must be dumped now, with the reason: parked ones whose parking has
        ended, and those that appeared without a statement.

        The decoder has to forget its tables then.
        """
        appeared, self._appeared = self._appeared, set()
        ended = {table: WAS_PARKED for end, table in self._ends if end <= position}
        self._ends = [(end, table) for end, table in self._ends if end > position]
        for table in ended:
            self._parked.pop(table, None)
            log.info("a parked table is read again", table=str(table))
        return ended | dict.fromkeys(appeared, APPEARED)

    def removals(self) -> Mapping[TableId, str]:
        """Return the captured tables that lost rows by statements and were not repaired since."""
        with self._lock:
            return {table: what for table, what in self._timeline.removals().items() if self.includes(table)}

    def note_removals(self, tables: Mapping[TableId, str]) -> None:
        """Store in the history why these tables lost rows; return when it is stored."""
        with self._lock:
            if noted := [table for table, what in tables.items() if self._timeline.note_removal(table, what)]:
                self._retrying(lambda: self._history.save(self._timeline, noted))

    def end_removals(self, tables: Iterable[TableId]) -> None:
        """Remove the noted removals of these tables from the history, with the next offset that is
        stored.
        """
        with self._lock:
            for table in tables:
                self._timeline.end_removal(table)

    def save_list(self, identity: str, tables: Sequence[TableId]) -> None:
        """Store a list of tables that a dump's text refers to from now on; return when it is
        stored.
        """
        with self._lock:
            self._retrying(lambda: self._history.save_list(identity, tables))

    def joined_numbers(self) -> dict[TableId, int]:
        """Return the tables that joined, with the numbers of their joinings."""
        return {table: number for table, (number, _) in self._timeline.joined().items()}

    def resolve(self, table_map: Any, position: Position, begin: Any) -> RowEncoder | IgnoredForNow | RowsParked | None:
        """Return the encoder for the rows after this table map; None if the table is not captured.
        # I3

        Return ROWS_PARKED if it is parked until a statement or position that the reader watches
        for, and IGNORED_FOR_NOW before the position where it joined. The latter answer must not be
        cached.
        """
        with self._lock:
            if self._expected:
                self._arrive(position)
            table_id, seen, merge = self._log_schemas.read_table_map(table_map)
            encoder = self._resolve(table_id, seen, merge, position, begin)
            parked = encoder is None and table_id in self._parked
            if parked and not self._options.dump.dumps(table_id):
                return PassedOver(table_id, self.passed_over)
            if seen.is_table and (parked or encoder is IGNORED_FOR_NOW or not self.includes(table_id)):
                self._left_out(table_id)
            return ROWS_PARKED if parked else encoder

    def _arrive(self, position: Position) -> None:
        """Add the expected tables whose position has been reached and that the log has not
        described.

        Their definition is the one that the server had.
        """
        arrived = [table for at, table in self._expected.values() if at <= position]
        for table in arrived:
            at, _ = self._expected.pop(table.id)
            if not isinstance(self._timeline.current(table.id), Known):
                self._timeline.put(table, at)
                self._admit(table.id, at)
                self._save(table.id)

    def _resolve(self, table_id: TableId, seen: Seen, merge: Merge, position: Position, begin: Any) -> RowEncoder | IgnoredForNow | None:
        if not self.includes(table_id) or not seen.is_table:
            return None
        if self.passes_over(table_id, position):
            return IGNORED_FOR_NOW
        match self._timeline.state_at(table_id, position):
            case Known(table):
                return self._checked(table, seen, merge, position, begin)
            case Stale(reason, last):
                return self._refreshed(table_id, last, seen, merge, position, begin, reason)
            case Absent():
                encoder = self._refreshed(table_id, None, seen, merge, position, begin, "no version of it is known")
                if encoder is not None and self._options.dump.dumps_new(table_id) and not self._is_expected(table_id, position):
                    self._appear(table_id, position)
                return encoder
            case Parked(reason):
                self._parked[table_id] = reason
                return None

    def _is_expected(self, table_id: TableId, position: Position) -> bool:
        """Return True if the table's rows come from here on anyway, or the log still has the
        statement that creates it.
        """
        return table_id in self._expected or self._timeline.is_awaited(table_id, position)

    def _appear(self, table_id: TableId, position: Position) -> None:
        """Let a table join that has rows although no statement of the log created it. # I3

        Another server did, a tool, or a session that does not log. The table is dumped, because its
        earlier rows are in no log. After a restart before the dump's first offset, the number of
        its joining shows that.
        """
        if self._join(table_id, position):
            self._save(table_id)
            self._appeared.add(table_id)

    def _join(self, table_id: TableId, position: Position, *, missed: bool = False) -> bool:
        """Give the joining of a table a number; return False if it is not new here.

        After a restart before the dump's first offset, the number shows that the table is still to
        be dumped.
        """
        if not self._options.dump.dumps_new(table_id) or not self._timeline.note_joined(table_id, position, self._joins + 1, missed=missed):
            return False
        self._joins += 1
        return True

    def statement(
        self, query: Any, text: str, *, position: Position, note: dict[str, object], begin: Any, logged: LoggedStatement | None = None
    ) -> StatementDone:
        """Apply one statement of the log, valid from ``position`` on. # I5

        ``logged`` is its form for Debezium's history. If the statement leaves a table unknown, read
        it from the server at once. Raise DefiniteError for a statement that changes rows of
        captured tables without row events.
        """
        with self._lock:
            filtered = self._options.is_filtered(text)
            if not filtered:
                self._refuse_row_changes(query, text)
            if self._expected:
                self._arrive((position[0], position[1] - 1))
            changes = tuple(self._named(change, text) for change in self._log_schemas.parse_statement(query, text, position))
            if all(isinstance(change, Ignored) for change in changes):
                return StatementDone(changes=changes)
            rewritten = self._timeline.returned(changes, position) | self._log_schemas.rewritten(
                changes, self._timeline.lookup_before(position)
            )
            rewritten = {table: why for table, why in rewritten.items() if not self._joins_undumped(table, changes)}
            reordered_tables = tuple(reordered(changes, self._timeline.lookup_before(position)))
            removed = self._removals.of(changes, self._timeline.lookup_before(position))
            before = dict(self._timeline.databases)
            changed = self._timeline.apply(changes, position, ddl=None if filtered else text, note=note)
            after = self._timeline.databases
            databases = [name for name in {*before, *after} if before.get(name) != after.get(name)]
            unparked = {}
            for table in changed:
                if self._topics is not None and isinstance(self._timeline.current(table), Absent):
                    self._topics.gone(table)
                self._encoders.pop(table, None)
                if self._ahead is not None:
                    self._ahead.forget(table)
                was_parked = self._parked.pop(table, None) is not None
                if table in self._expected:
                    continue  # its first row asks for its columns, or they come from the position where it joined
                if self.includes(table) and isinstance(state := self._timeline.current(table), Stale):
                    self._reread(table, position, begin, state.reason)
                if isinstance(self._timeline.current(table), Known):
                    self._admit(table, position)
                if was_parked and table not in self._parked and isinstance(self._timeline.current(table), Known):
                    unparked[table] = WAS_PARKED
            for change in changes:
                if isinstance(change, CreateTable) and change.joins and len(self._timeline.versions(change.table.id)) == 1:
                    self._join(change.table.id, position, missed=change.misses)
            if changed or databases or logged is not None:
                kept = None if filtered else logged
                self._retrying(lambda: self._history.save(self._timeline, changed, databases=databases, statement=kept))
            truncated = [t for c in changes if isinstance(c, TruncateTable) for t in tables_of(c)]
            touched = tuple(t for t in dict.fromkeys((*changed, *truncated)) if self.includes(t))
            gone = tuple(t for t in touched if isinstance(self._timeline.current(t), Absent))
            self._removals.leave(gone)
            return StatementDone(
                changes=changes,
                touched=touched,
                rewritten={t: why for t, why in rewritten.items() if self.includes(t) and t not in self._parked and t not in unparked},
                reordered=tuple(t for t in reordered_tables if self.includes(t)),
                unparked=unparked,
                removed={t: what for t, what in removed.items() if self.includes(t) and t not in gone},
                gone=gone,
            )

    def _joins_undumped(self, table: TableId, changes: tuple[Change, ...]) -> bool:
        """Return True if the statement brings a table that is new under any name and must not be
        dumped.
        """
        if self._options.dump.dumps_new(table) or self._timeline.versions(table):
            return False
        former = {old for change in changes if isinstance(change, RenameTable) for old, new in change.pairs if new == table}
        former |= {change.id for change in changes if isinstance(change, AlterTable) and change.table.id == table}
        return not any(self.includes(old) for old in former)

    def _named(self, change: Change, text: str) -> Change:
        """Complete an ``Unknown`` change without tables: every captured table whose name is in the
        text.
        """
        if not isinstance(change, Unknown) or change.ids:
            return change
        lowered = text.lower()
        return Unknown(tuple(t for t in self._captured_ids() if t.name.lower() in lowered), change.reason)

    def _captured_ids(self) -> tuple[TableId, ...]:
        """Return the captured tables, and those expected later: the log may have reached them
        already.
        """
        return tuple(dict.fromkeys((*(t.id for t in self._timeline.captured_tables()), *self._expected)))

    def _reread(self, table_id: TableId, position: Position, begin: Any, why: str) -> None:
        """Read a table that a statement left unknown from the server; park it if it has changed
        since.
        """
        reading = self._read(table_id, position, begin, why)
        if reading.table is None:
            self._timeline.drop_table(table_id, position)  # dropped since, with all its rows
        elif reading.touched:
            self._park(table_id, position, f"{why}, and it was altered again before it could be read", reading)
        else:
            self._timeline.put(reading.table, position)

    def _read(self, table_id: TableId, position: Position, begin: Any, why: str) -> Reading:
        reading: Reading = self._retrying(lambda: self._log_schemas.read_table(table_id, position, begin))
        log.info(
            "table schema read from the server", table=str(table_id), reason=why, found=reading.table is not None, touched=reading.touched
        )
        return reading

    def _park(self, table_id: TableId, position: Position, reason: str, reading: Reading | None) -> None:
        dumped = self._options.dump.dumps(table_id)
        if not (dumped or self._options.dump.goes_on):
            message = (
                f"rows of {table_id} in the log cannot be decoded: {reason}; snapshot.mode or snapshot.include.collection.list leave it out of every dump, "
                f"so passing over them would lose them. {self._log_schemas.advice.name_columns_in_future} for the future, and reset the connector's "
                "offsets, or leave the table out, or set inconsistent.schema.handling.mode=warn to go on without them"
            )
            raise DefiniteError(message)
        self._timeline.park(table_id, position, reason)
        self._parked[table_id] = reason
        if reading is not None and reading.table is not None and reading.position > position:
            self._timeline.put(reading.table, reading.position)
            self._ends = sorted([*(end for end in self._ends if end[1] != table_id), (reading.position, table_id)])
            reason += "; its rows are skipped until then" + (", and it is dumped again" if dumped else "")
        log.error("table parked", table=str(table_id), reason=reason, remedy="restart the task to have it read and dumped again")

    def _admit(self, table_id: TableId, position: Position) -> bool:
        """Note that a table is captured. Return False if another one has its topic: it is parked
        then. # I2
        """
        if self._topics is None or not self.includes(table_id):
            return True
        if (reason := self._topics.refusal(table_id)) is None:
            self._topics.captured(table_id)
            return True
        self._timeline.park(table_id, position, reason)
        self._parked[table_id] = reason
        log.error("table parked", table=str(table_id), reason=reason)
        return False

    def _refuse_row_changes(self, query: Any, text: str) -> None:
        change = self._log_schemas.row_change(query, text)
        if change is None:
            return
        kind, changed = change
        for table in self._captured_ids():
            if TableId(table.database.lower(), table.name.lower()) in changed:
                message = (
                    f"the log holds the statement {kind} that changes rows of {table} (statement-based logging) instead of the rows; "
                    f"{self._log_schemas.advice.log_rows}, and reset the connector's offsets to dump again"
                )
                raise DefiniteError(message)
        log.warning("the log holds a statement that changes rows instead of the rows; it names no captured table", kind=kind)

    def committed(self, position: Position) -> None:
        """Drop versions that no restart needs after an offset was stored.

        Do nothing while the log thread holds the lock: it may be waiting for a registry or database
        that is away, and the committer must not wait with it. The next offset will come.
        """
        if self._lock.acquire(blocking=False):
            try:
                self._history.prune(self._timeline, position)
            finally:
                self._lock.release()

    def _checked(self, table: Table, seen: Seen, merge: Merge, position: Position, begin: Any) -> RowEncoder | None:
        match cross_check(table, seen, merge):
            case Agreed():
                return self._encoder_of(table)
            case Repaired(repaired, reasons):
                log.info("hidden columns taken from the log's metadata", table=str(table.id), reasons=list(reasons))
                self._timeline.repair(repaired, position, note={})
                self._save(table.id)
                return self._encoder_of(repaired)
            case Mismatch(reason):
                return self._refreshed(table.id, table, seen, merge, position, begin, reason)

    def _refreshed(
        self, table_id: TableId, last: Table | None, seen: Seen, merge: Merge, position: Position, begin: Any, why: str
    ) -> RowEncoder | None:
        """Read the table from the server, and use it if the log agrees; else park the table. # I4

        The log overrules neither catalog nor history, with one exception: the table is gone or was
        altered since, and the log names its columns and shows each one completely.
        """
        reading = self._read(table_id, position, begin, why)
        if seen.named:
            in_log: Table | None = None
            for candidate in (reading.table, last):
                if candidate is not None:
                    match cross_check(candidate, seen, merge):
                        case Agreed():
                            return self._accepted(candidate, position)
                        case Repaired(repaired, _):
                            return self._accepted(repaired, position)
                        case Mismatch(reason, table):
                            if candidate is reading.table:
                                why = reason
                            in_log = in_log or table
            if seen.complete and (reading.table is None or reading.touched):
                key = seen.key or ()
                log.warning(
                    "only the log shows a table's columns: the server has it otherwise by now",
                    table=str(table_id),
                    reason=why,
                    columns=[f"{column.name} {column.type_text}" for column in (in_log.columns if in_log else seen.columns)],
                )
                return self._accepted(in_log or Table(id=table_id, columns=tuple(seen.columns), key=key, primary_key=bool(key)), position)
        if reading.table is None:
            return None  # dropped since, or never a table: MariaDB logs the state of a sequence as a row
        if not reading.touched:
            match cross_check(reading.table, seen, merge):
                case Agreed():
                    return self._accepted(reading.table, position)
                case Repaired(repaired, _):
                    return self._accepted(repaired, position)
                case Mismatch(reason):
                    why = reason
        advice = f"{self._log_schemas.advice.name_columns}, or leave the table out with table.exclude.list"
        if reading.touched:
            self._park(table_id, position, f"{why}, and it was altered again before it could be read; {advice}", reading)
        else:
            if seen.named:
                advice = (
                    f"catalog and log of the server disagree, {self._log_schemas.advice.disagreement}: reset the connector's offsets to dump again, or leave "
                    "the table out with table.exclude.list"
                )
            self._park(table_id, position, f"{why}, though the server has it so; {advice}", None)
        self._save(table_id)
        return None

    def _accepted(self, table: Table, position: Position) -> RowEncoder | None:
        admitted = self._admit(table.id, position)
        if admitted:
            self._timeline.repair(table, position, note={})
        self._save(table.id)
        return self._encoder_of(table) if admitted else None

    def _save(self, table: TableId) -> None:
        self._retrying(lambda: self._history.save(self._timeline, [table]))

    def _encoder_of(self, table: Table) -> RowEncoder:
        encoder = self._encoders.get(table.id)
        if encoder is None or encoder.plan.table != table:
            ahead = None if self._ahead is None else self._ahead.take(table)
            encoder = self._encoders[table.id] = ahead or self._retrying(lambda: self._records.encoder(table))
        return encoder
