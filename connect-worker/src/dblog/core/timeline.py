"""Stores the schema of every captured table at any position that may still be read again (D8, I4).

A table's history is a list of versions, each valid from its position on. A position is a pair of
integers that sorts as the log does (D7). A DDL statement has the position right after it, a row its
own. A version is valid for a row if its position is not greater than the row's. The version valid
at the committed offset and all later ones are kept, because a restart reads the log from there
again.

Reading the log again meets the same DDL again. A statement whose position is not greater than that
of a table's newest version was applied to that table already, and is skipped for it. So a replay
completes what a crash between two history records of one statement left undone (a swap of two
tables).

A version has one of four states: Known (decode with it), Absent (no table of that name), Stale
(something happened that was not understood: read information_schema again), Parked (a person has to
look). Only tables that ``tracked`` accepts are kept: the captured ones, and others that may be
renamed into one, such as the ghost tables of online schema changes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from dblog.core.changes import (
    AlterDatabase,
    AlterTable,
    Change,
    CreateDatabase,
    CreateTable,
    DropDatabase,
    DropTable,
    Ignored,
    RenameTable,
    TruncateTable,
    Unknown,
)
from dblog.core.tablerecord import table_of_record, table_record
from dblog.model import Table, TableId

Position = tuple[int, int]
"""Position in the log as (sequence_high, sequence_low) of D7. START sorts before every position in
any log.
"""

START: Position = (0, 0)
AFTER_ALL: Position = (1 << 62, 0)
"""Position after every position of a log: it stands for the tables as they are now."""

GONE_TABLES_MAX = 50_000
"""Number of dropped captured tables whose names are remembered; the oldest are forgotten first. #
I6
"""

DDL_CHARS_MAX = 4096
"""Characters of a statement that a version keeps for people to look at. A client may send
megabytes, and the topic of the history limits the size of records.
"""

FOREIGN_TABLES_MAX = 1000
"""Number of tables that are remembered without being captured; the one unchanged for longest is
dropped first. # I6
"""

JOINED = "joined"
"""Field of a version's note: the number of the table's joining. The table existed before it joined
the connector here, so a dump must bring its earlier rows. Numbers rise, so that a dump's state can
tell the joinings that it includes from later ones.
"""

MISSED = "missed"
"""Field of a version's note beside ``JOINED``: rows of the table were sent before, and deletes
since then may have been skipped or may be in no log.
"""

FOUND_OUT = "found_out"
"""Field of a version's note: no statement of the log created the version. It was found out at some
place of the log, and its consequence (a dump) may not be stored.
"""

AWAITED = "awaited"
"""Field of an Absent version's note, a position: the statement that creates the table comes in the
log no later than there, and the log is read from before it.
"""

FORMER_NAMES_MAX = 64
"""Number of former column names that are remembered for a table. A table with more is dumped again
for any new column, since every name may be one of them. # I6
"""

ANY_NAME = "*"

OUTDATED_VERSIONS_KEPT = 2
"""Number of newest versions that stay even if no row was decoded with them: a replay may need the
one before the last statement.
"""


@dataclass(frozen=True, slots=True)
class Known:
    """State: the table's schema is known."""

    table: Table


@dataclass(frozen=True, slots=True)
class Absent:
    """State: there is no table of this name."""


@dataclass(frozen=True, slots=True)
class Stale:
    """State: the schema must be read from the server again. ``last`` is the schema before; None if
    it was never known.
    """

    reason: str
    last: Table | None = None


@dataclass(frozen=True, slots=True)
class Parked:
    """State: rows of this table cannot be decoded until a person acts. The reason says what
    to do.
    """

    reason: str


State = Known | Absent | Stale | Parked


@dataclass(slots=True)
class Version:
    """A state and the position from which it holds. ``used`` is True once a row was decoded with
    it, so that a replay will need it.
    """

    position: Position
    state: State
    ddl: str | None = None
    """Beginning of the statement that created the version; None if no statement did."""
    note: Mapping[str, object] = field(default_factory=dict)
    used: bool = False
    former: frozenset[str] = frozenset()
    """Names, in lower case, of columns that the table had and lost. Records of old rows may hold
    values under these names.
    """


@dataclass(frozen=True, slots=True)
class Database:
    """The defaults of a database that CREATE TABLE inherits."""

    charset: str | None
    collation: str | None


class Timeline:
    """The versions of all tracked tables. One reader owns it; it is not safe for threads."""

    def __init__(
        self,
        *,
        captured: Callable[[TableId], bool] = lambda _: True,
        tracked: Callable[[TableId], bool] | None = None,
        foreign_tables_max: int = FOREIGN_TABLES_MAX,
    ) -> None:
        """Create an empty timeline.

        ``captured`` accepts tables whose rows are wanted. ``tracked`` accepts tables whose schemas
        are kept in addition; by default those of databases with a captured table, because a ghost
        table is created beside the table that it will replace.
        """
        self._captured = captured
        self._tracked = tracked or (lambda table: table.database in self._databases_captured)
        self._databases_captured: set[str] = set()
        self._evicted: list[TableId] = []
        self._refreshed: set[TableId] = set()
        self._removals: dict[TableId, str] = {}
        self._gone: dict[TableId, int | None] = {}
        self._foreign_tables_max = foreign_tables_max
        self._versions: dict[TableId, list[Version]] = {}
        self._foreign: dict[TableId, None] = {}
        self.databases: dict[str, Database] = {}
        self.began: Position = START
        """Position where the newest epoch began. All versions may belong to an older epoch."""

    # -- what is known ------------------------------

    def state_at(self, table: TableId, position: Position) -> State:
        """Return the state that is valid for a row at ``position``. # I4"""
        version = self._version_at(table, position)
        if version is None:
            return Absent()
        version.used = True
        return version.state

    def current(self, table: TableId) -> State:
        """Return the newest state of a table."""
        versions = self._versions.get(table)
        return versions[-1].state if versions else Absent()

    def current_table(self, table: TableId) -> Table | None:
        """Return the newest schema of a table, or None if it is not known."""
        state = self.current(table)
        return state.table if isinstance(state, Known) else None

    def lookup_before(self, position: Position) -> Callable[[TableId], Table | None]:
        """Return a function that gives a table's schema just before the statement at ``position``,
        also in a replay. The DDL parser uses it.
        """

        def lookup(table: TableId) -> Table | None:
            version = self._version_at(table, _just_before(position))
            return version.state.table if version is not None and isinstance(version.state, Known) else None

        return lookup

    def note_before(self, table: TableId, position: Position) -> Mapping[str, object]:
        """Return the note of the version that is valid for a row just before ``position``."""
        version = self._version_at(table, _just_before(position))
        return {} if version is None else version.note

    def returned(self, changes: Iterable[Change], position: Position) -> dict[TableId, str]:
        """Return the tables to which the statement at ``position`` adds a column under the name of
        one that was dropped earlier, with the reason.

        Records of old rows still hold the values of the dropped column, while the rows have none of
        them.
        """
        found = {}
        for change in changes:
            if isinstance(change, AlterTable):
                version = self._version_at(change.id, _just_before(position))
                if version is None:
                    continue
                names = _names(Known(change.table))
                names = names - _names(version.state) if ANY_NAME in version.former else names & version.former
                if names:
                    found[change.table.id] = f"column {min(names)} had been dropped before it was added"
        return found

    def tables(self) -> list[TableId]:
        """Return every table with a version, captured or tracked."""
        return sorted(self._versions)

    def captures(self, table: TableId) -> bool:
        """Return True if the table's rows are wanted."""
        return self._captured(table)

    def captured_tables(self) -> list[Table]:
        """Return the newest schemas of all captured tables whose schema is known."""
        found = (self.current_table(id_) for id_ in sorted(self._versions) if self._captured(id_))
        return [table for table in found if table is not None]

    def versions(self, table: TableId) -> Sequence[Version]:
        """Return all kept versions of a table, oldest first."""
        return tuple(self._versions.get(table, ()))

    def in_state(self, kind: type[Stale | Parked]) -> dict[TableId, str]:
        """Return the captured tables that are stale, or parked, now, with the reasons."""
        found = {}
        for id_, versions in self._versions.items():
            state = versions[-1].state
            if isinstance(state, kind) and self._captured(id_):
                found[id_] = state.reason
        return found

    @property
    def newest(self) -> Position:
        """Position of the newest version of any table, or the beginning of the newest epoch if that
        is later.
        """
        return max((self.began, *(versions[-1].position for versions in self._versions.values())))

    def joined(self) -> dict[TableId, tuple[int, Position]]:
        """Return the captured tables that joined a running connector, each with the number and the
        position of its joining. Tables whose version from then is no longer kept are left out.
        """
        return {
            id_: (_number(version.note[JOINED]), version.position)
            for id_, versions in self._versions.items()
            if self._captured(id_)
            for version in versions
            if version.note.get(JOINED)
        }

    def missed(self) -> frozenset[TableId]:
        """Return the joined tables whose dump must also remove rows."""
        return frozenset(id_ for id_, versions in self._versions.items() if any(version.note.get(MISSED) for version in versions))

    def is_awaited(self, table: TableId, position: Position) -> bool:
        """Return True if the statement that creates the table is known to come, at this position or
        after it.
        """
        version = self._version_at(table, position)
        return version is not None and AWAITED in version.note and position <= _known_until(version)

    # -- what changes it ------------------------------

    def put(self, table: Table, position: Position, *, ddl: str | None = None, note: Mapping[str, object] | None = None) -> None:
        """Add a schema that was read from the server, valid from ``position`` on: at the start, or
        for a stale table.
        """
        self._append(table.id, Version(position, Known(table), ddl, note or {}))

    def repair(self, table: Table, position: Position, *, note: Mapping[str, object] | None = None) -> None:
        """Add a schema corrected by the log's own metadata (``crosscheck.Repaired``). It replaces a
        version of the same position.
        """
        self._append(table.id, Version(position, Known(table), None, note or {}, used=True))

    def refresh(self, table: Table) -> None:
        """Replace the newest version's table by an equal one with current values in fields that
        comparisons leave out (``Table.file``).
        """
        versions = self._versions.get(table.id)
        if versions and isinstance(known := versions[-1].state, Known) and known.table == table:
            if known.table.file != table.file or _traces(known.table) != _traces(table):
                self._refreshed.add(table.id)
            versions[-1].state = Known(table)

    def take_refreshed(self) -> set[TableId]:
        """Return the tables that were refreshed since the last call. Their records must be written."""
        taken, self._refreshed = self._refreshed, set()
        return taken

    def removals(self) -> Mapping[TableId, str]:
        """Return the captured tables that lost rows by a statement without rows in the log, with
        the reason, unless a repair has removed these rows since.
        """
        return {table: what for table, what in self._removals.items() if table in self._versions}

    def note_removal(self, table: TableId, what: str) -> bool:
        """Remember that a statement removed rows of the table, and by what. Return False if that is
        known already.
        """
        if table not in self._versions or self._removals.get(table) == what:
            return False
        self._removals[table] = what
        return True

    def end_removal(self, table: TableId) -> None:
        """Forget the removal of rows of a table. ``take_refreshed`` then names the table, because
        its record must be written.
        """
        if self._removals.pop(table, None) is not None:
            self._refreshed.add(table)

    def gone(self) -> Mapping[TableId, int | None]:
        """Return the captured tables that were dropped, oldest first, as far as they are
        remembered, each with the server's number of the table.
        """
        return dict(self._gone)

    def comes_back(self, table: Table) -> bool:
        """Return True if this is the very table that had its name before, and not another one. A
        table that was unlogged for a while comes back so.
        """
        return table.number is not None and self._gone.get(table.id) == table.number

    def note_joined(self, table: TableId, position: Position, number: int, *, missed: bool = False) -> bool:
        """Note that the table joined with its newest version. Return False if that version is of
        another position. ``missed`` is explained at ``MISSED``.
        """
        versions = self._versions.get(table)
        if not versions or versions[-1].position != position:
            return False
        versions[-1].note = {**versions[-1].note, JOINED: number} | ({MISSED: True} if missed else {})
        return True

    def mark_stale(self, table: TableId, position: Position, reason: str) -> None:
        """Make the table stale from ``position`` on: its schema must be read again."""
        self._append(table, Version(position, Stale(reason, self._last_known(table))))

    def park(self, table: TableId, position: Position, reason: str) -> None:
        """Park the table from ``position`` on: its rows cannot be decoded. ``put``, ``drop_table``
        or the table's next CREATE ends that.
        """
        self._append(table, Version(position, Parked(reason)))

    def drop_table(self, table: TableId, position: Position) -> None:
        """Note that the server has no table of this name from ``position`` on."""
        self._append(table, Version(position, Absent()))

    def parkings_that_end(self, after: Position) -> list[tuple[Position, TableId]]:
        """Return the positions after ``after`` at which captured tables stop being parked, each
        with the table. The rows of the table up to there have to be dumped.
        """
        return [
            (later.position, id_)
            for id_, versions in self._versions.items()
            if self._captured(id_)
            for earlier, later in pairwise(versions)
            if isinstance(earlier.state, Parked) and isinstance(later.state, Known) and later.position > after
        ]

    def apply(
        self, changes: Iterable[Change], position: Position, *, ddl: str | None = None, note: Mapping[str, object] | None = None
    ) -> tuple[TableId, ...]:
        """Apply one statement's changes, valid from ``position`` on. Return the tables that got a
        new version; their records must be written.

        ``note`` is added to the history record beside the position (file, pos, gtids), for people
        and for taking over.
        """
        kept_ddl = None if ddl is None else ddl[:DDL_CHARS_MAX]
        after: dict[TableId, State] = {}
        had: dict[TableId, frozenset[str]] = {}
        """Every name that a column of the table has or had."""

        def names(id_: TableId) -> frozenset[str]:
            if id_ not in had:
                version = self._version_at(id_, _just_before(position))
                had[id_] = frozenset() if version is None else version.former | _names(version.state)
            return had[id_]

        def state(id_: TableId) -> State:
            if id_ in after:
                return after[id_]
            version = self._version_at(id_, _just_before(position))
            return version.state if version is not None else Absent()

        for change in changes:
            match change:
                case CreateTable(table, only_if_absent):
                    if not (only_if_absent and isinstance(state(table.id), Known)):
                        after[table.id] = Known(table)
                        had[table.id] = frozenset()
                case AlterTable(id_, table):
                    names_before = names(id_)
                    if table.id != id_:
                        after[id_], had[id_] = Absent(), frozenset()
                    after[table.id] = Known(table)
                    had[table.id] = names_before | _names(Known(table))
                case DropTable(ids):
                    after.update(dict.fromkeys(ids, Absent()))
                    had.update(dict.fromkeys(ids, frozenset()))
                case RenameTable(pairs):
                    for old, new in pairs:
                        after[new], had[new] = _renamed(state(old), old, new), names(old)
                        after[old], had[old] = Absent(), frozenset()
                case DropDatabase(name):
                    self.databases.pop(name, None)
                    after.update({id_: Absent() for id_ in (*self._versions, *after) if id_.database == name})
                case CreateDatabase(name, charset, collation, only_if_absent):
                    if not (only_if_absent and name in self.databases):
                        self.databases[name] = Database(charset, collation)
                case AlterDatabase(name, charset, collation):
                    self.databases[name] = Database(charset, collation)
                case Unknown(ids, reason):
                    for id_ in ids:
                        last = state(id_)
                        after[id_] = Stale(reason, last.table if isinstance(last, Known) else None)
                case TruncateTable() | Ignored():
                    pass
        changed = []
        for id_, new_state in after.items():
            versions = self._versions.get(id_)
            if versions and versions[-1].position >= position:
                continue  # a replay: this statement was applied to the table before
            if _is_same(new_state, versions[-1].state if versions else Absent()):
                continue
            former = frozenset() if isinstance(new_state, Absent) else _bounded(names(id_) - _names(new_state))
            if self._append(id_, Version(position, new_state, kept_ddl, note or {}, former=former)):
                changed.append(id_)
        return tuple(changed)

    def prune(self, committed: Position) -> tuple[TableId, ...]:
        """Drop the versions that no restart can need: those superseded at or before the committed
        offset, and tables dropped by then.

        Return the tables that have no version any more, because they are gone or because nobody
        needs one. Their history records can be erased.
        """
        gone = []
        for id_, versions in list(self._versions.items()):
            valid = bisect_right(versions, committed, key=_position) - 1
            last = next((version.state.table for version in reversed(versions) if isinstance(version.state, Known)), None)
            if valid > 0:
                del versions[:valid]
            if len(versions) == 1 and isinstance(versions[0].state, Absent) and _known_until(versions[0]) <= committed:
                if self._captured(id_) and AWAITED not in versions[0].note:
                    self._gone[id_] = None if last is None else last.number
                del self._versions[id_]
                self._foreign.pop(id_, None)
                self._removals.pop(id_, None)
                gone.append(id_)
        while len(self._gone) > GONE_TABLES_MAX:
            oldest = next(iter(self._gone))
            del self._gone[oldest]
            gone.append(oldest)
        gone += [id_ for id_ in self._evicted if id_ not in self._versions]
        self._evicted.clear()
        return tuple(gone)

    def forget_behind(self, committed: Position, *, awaited_until: Position) -> tuple[TableId, ...]:
        """Drop every version after the committed offset, because another server's log repeats their
        statements. It repeats them at positions after all known ones, up to ``awaited_until``.

        Return the tables that have changed. A table that joined the connector after the offset
        keeps its first version, since no statement would bring it.
        """
        changed = []
        for id_, versions in list(self._versions.items()):
            kept = [version for version in versions if version.position <= committed]
            if not kept and versions[0].note.get(JOINED):
                kept = versions[:1]
            if len(kept) == len(versions):
                continue
            changed.append(id_)
            if kept:
                self._versions[id_] = kept
            elif self._captured(id_):
                # The statement that creates the table is still to come. So the table does not join,
                # and none of its rows is skipped.
                self._versions[id_] = [Version(committed, Absent(), note={AWAITED: list(awaited_until)})]
            else:
                del self._versions[id_]
                self._foreign.pop(id_, None)
        return tuple(changed)

    def take_back(self, committed: Position) -> tuple[TableId, ...]:
        """Drop every version at or after the committed offset, for a log that shows changes of
        tables only with their rows. The log will show them again, and their consequences (a dump, a
        rename within a dump) may not be stored.

        Return the tables that have changed. A table's first version stays if the table joined with
        it, or if it was valid at this offset when the connector began.
        """
        changed = []
        for id_, versions in list(self._versions.items()):
            kept = [
                version
                for at, version in enumerate(versions)
                if version.position < committed
                or (at == 0 and (version.note.get(JOINED) or (version.position == committed and FOUND_OUT not in version.note)))
            ]
            if len(kept) == len(versions):
                continue
            changed.append(id_)
            if kept:
                self._versions[id_] = kept
            else:
                del self._versions[id_]
                self._foreign.pop(id_, None)
        return tuple(changed)

    # -- records ------------------------------

    def to_record(self, table: TableId) -> dict[str, object] | None:
        """Return all kept versions of a table as JSON values, or the note that it was dropped.
        Return None if nothing is known, so that the record can be erased.
        """
        versions = self._versions.get(table)
        if not versions:
            return {"versions": [], "gone": True, "number": self._gone[table]} if table in self._gone else None
        record: dict[str, object] = {"versions": [_version_record(version) for version in versions]}
        if table in self._removals:
            record["removed"] = self._removals[table]
        return record if self._captured(table) else {"foreign": True, **record}

    def from_record(self, table: TableId, record: Mapping[str, object]) -> None:
        """Load a table's versions from a record of ``to_record``. Raise ValueError for anything
        else.

        A table that was not captured when the record was written, and is captured now, stays
        unknown: it joins again. A table that is captured no longer is forgotten, and the next
        ``prune`` has its record erased. If it comes back, its rows of the meantime are missing, so
        it must join again too.
        """
        foreign = bool(record.get("foreign"))
        if foreign == self._captured(table):
            if not foreign:
                self._evicted.append(table)
            return
        try:
            listed = record["versions"]
            assert isinstance(listed, list)
            versions = [_version_of(table, entry) for entry in listed]
        except (AssertionError, KeyError, TypeError, ValueError) as e:
            raise ValueError(f"the schema history record of {table} is not one of ours: {type(e).__name__} {e}") from e
        versions.sort(key=_position)
        if versions:
            self._versions[table] = versions
            self._note_kind(table)
            if isinstance(removed := record.get("removed"), str):
                self._removals[table] = removed
        elif record.get("gone"):
            self._gone[table] = number if isinstance(number := record.get("number"), int) else None

    # -- inside ------------------------------

    def _version_at(self, table: TableId, position: Position) -> Version | None:
        versions = self._versions.get(table)
        if not versions:
            return None
        if versions[-1].position <= position:
            return versions[-1]
        at = bisect_right(versions, position, key=_position)
        return versions[at - 1] if at else None

    def _append(self, table: TableId, version: Version) -> bool:
        if table not in self._versions and not self._worth_keeping(table, version.state):
            return False
        versions = self._versions.setdefault(table, [])
        self._gone.pop(table, None)
        if versions and versions[-1].position > version.position:
            return False  # a replay of known versions
        if versions and version.ddl is None and not isinstance(version.state, Absent):
            # No statement that we read removed these columns.
            lost = versions[-1].former | _names(versions[-1].state)
            version.former = _bounded(version.former | (lost - _names(version.state)))
        if versions and versions[-1].position == version.position:
            version.used |= versions.pop().used
        versions.append(version)
        self._drop_unused(versions)
        self._note_kind(table)
        return True

    def _note_kind(self, table: TableId) -> None:
        """Remember the databases of captured tables. Drop the foreign tables that were unchanged
        for longest. # I6
        """
        if self._captured(table):
            self._databases_captured.add(table.database)
            return
        self._foreign.pop(table, None)
        self._foreign[table] = None
        while len(self._foreign) > self._foreign_tables_max:
            oldest = next(iter(self._foreign))
            del self._foreign[oldest]
            del self._versions[oldest]
            self._evicted.append(oldest)

    def _worth_keeping(self, table: TableId, state: State) -> bool:
        if isinstance(state, Absent):
            return False
        return self._captured(table) or (isinstance(state, Known) and self._tracked(table))

    @staticmethod
    def _drop_unused(versions: list[Version]) -> None:
        """Drop the versions between the first and the last two that decoded no row: a replay will
        find no row for them either.

        A parking stays: its rows exist and were not decoded.
        """
        tail = len(versions) - OUTDATED_VERSIONS_KEPT
        if tail > 1:
            versions[1:tail] = [version for version in versions[1:tail] if version.used or isinstance(version.state, Parked)]

    def _last_known(self, table: TableId) -> Table | None:
        match self.current(table):
            case Known(known):
                return known
            case Stale(_, last):
                return last
            case _:
                return None


def _position(version: Version) -> Position:
    return version.position


def _is_same(one: State, other: State) -> bool:
    """Return True if two states are equal, including how the log came to show the table. If only
    that differs, the log did not have the table for a while.
    """
    if isinstance(one, Known) and isinstance(other, Known) and _traces(one.table) != _traces(other.table):
        return False
    return one == other


def _traces(table: Table) -> tuple[object, ...]:
    return table.published_by, table.columns_written_by, table.large_values, table.partitions


def _number(noted: object) -> int:
    assert isinstance(noted, (int, str)), "a number, or the True of a time when joinings were not numbered"
    return 1 if noted == "True" else int(noted)


def _known_until(gone: Version) -> Position:
    """Return the position after which an absent table is dropped for good."""
    awaited = gone.note.get(AWAITED)
    if not isinstance(awaited, list):
        return gone.position
    high, low = awaited
    return max(gone.position, (int(high), int(low)))


def _just_before(position: Position) -> Position:
    return position[0], position[1] - 1


def _bounded(former: frozenset[str]) -> frozenset[str]:
    return former if len(former) <= FORMER_NAMES_MAX else frozenset({ANY_NAME})


def _names(state: State) -> frozenset[str]:
    """Return the names of a state's columns in lower case, as far as they are known."""
    match state:
        case Known(table) | Stale(_, table) if table is not None:
            return frozenset(column.name.lower() for column in table.columns if not column.hidden)
        case _:
            return frozenset()


def _renamed(state: State, old: TableId, new: TableId) -> State:
    match state:
        case Known(table):
            return Known(renamed(table, new))
        case Stale(reason, last):
            return Stale(reason, renamed(last, new) if last else None)
        case Parked():
            return Stale(f"renamed from {old}, which was parked")
        case Absent():
            return Stale(f"renamed from {old}, whose schema is not known")


def renamed(table: Table, id_: TableId) -> Table:
    """Return the table under another name."""
    return replace(table, id=id_)


def _version_record(version: Version) -> dict[str, object]:
    record: dict[str, object] = {"position": {"sequence": list(version.position), **version.note}}
    if version.ddl is not None:
        record["ddl"] = version.ddl
    if version.former:
        record["former"] = sorted(version.former)
    match version.state:
        case Known(table):
            record["table"] = table_record(table)
        case Stale(reason, last):
            record["stale"] = reason
            if last is not None:
                record["table"] = table_record(last)
        case Parked(reason):
            record["parked"] = reason
        case Absent():
            record["absent"] = True
    return record


def _version_of(id_: TableId, record: Mapping[str, Any]) -> Version:
    note = dict(record["position"])
    high, low = note.pop("sequence")
    table = table_of_record(id_, record["table"]) if "table" in record else None
    state: State
    if "stale" in record:
        state = Stale(str(record["stale"]), table)
    elif "parked" in record:
        state = Parked(str(record["parked"]))
    elif record.get("absent"):
        state = Absent()
    else:
        assert table is not None
        state = Known(table)
    return Version((int(high), int(low)), state, record.get("ddl"), note, used=True, former=frozenset(record.get("former", ())))
