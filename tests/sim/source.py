"""The simulated source: tables whose every state is kept, the log that made them, and writers, DDL and prepared transactions by seed.

``states[n]`` is what the first ``n`` entries of the log have made, so a snapshot is a number, and a stale one a smaller number. An entry's position
is its number; a row's is ``position_of(number)`` and its place in the entry, behind the free ones of the position between two entries.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from operator import itemgetter
from typing import Any

from dblog.core.changes import AlterTable, Change, CreateTable, DropTable, RenameTable, TruncateTable, tables_of
from dblog.model import Column, Index, Table, TableId
from sim.threads import HUB

ROW_BITS = 23
HALF = 1 << (ROW_BITS - 1)
DATABASE = "s"
CAPTURED = tuple(TableId(DATABASE, name) for name in "abc")
ASIDE = TableId(DATABASE, "t")
"""Not captured: a name that tables are renamed to and from."""
KEYS_MAX = 9
DEFAULT = 7
"""Of column x in rows that were there before it."""


def position_of(entry: int) -> int:
    """D7's second number of what an entry holds."""
    return (entry << ROW_BITS) + HALF


Row = tuple[Any, ...]
Rows = dict[int, Row]
NOTHING: frozenset[TableId] = frozenset()

_COLUMNS = {
    "id": Column(name="id", type="int", type_text="int", nullable=False),
    "alt": Column(name="alt", type="int", type_text="int", nullable=False),
    "v": Column(name="v", type="int", type_text="int", nullable=False),
    "x": Column(name="x", type="int", type_text="int", nullable=True, has_default=True, default=str(DEFAULT)),
    "y": Column(name="y", type="int", type_text="int", nullable=True),
}

SURROGATE, SURROGATE_AT = "v", 2
_BOUND = itemgetter(0)

ROWS, MARK, LOST, DDL, PREPARED, COMMITTED = range(6)
"""Kinds of entries. LOST: a watermark that was committed, and that a crash of the server has taken from its log."""


@cache
def definition(id_: TableId, extra: tuple[str, ...], key: tuple[str, ...]) -> Table:
    """A version of a table: ``id``, ``alt`` and ``v``, and whichever of ``x`` and ``y`` it has."""
    columns = tuple(_COLUMNS[name] for name in ("id", "alt", "v", *extra))
    return Table(id=id_, columns=columns, key=key, primary_key=bool(key), indexes=(Index(name="v", columns=("v",), unique=False),))


Shape = tuple[Table, tuple[str, ...], int, tuple[int, ...]]
_SHAPES: dict[int, Shape] = {}
"""By identity, for a table's hash is that of all its columns: the table, to keep it, its columns' names, and where the key's first column and all of them
stand."""


def _shape(table: Table) -> Shape:
    if len(_SHAPES) > 1000:
        _SHAPES.clear()
    names = tuple(column.name for column in table.columns)
    key = tuple(names.index(name) for name in table.key)
    found = _SHAPES[id(table)] = (table, names, key[0] if key else -1, key)
    return found


def names_of(table: Table) -> tuple[str, ...]:
    return (_SHAPES.get(id(table)) or _shape(table))[1]


def key_index(table: Table) -> int:
    """Where the key's only column stands; -1 without a key."""
    return (_SHAPES.get(id(table)) or _shape(table))[2]


def is_chosen(id_: int) -> bool:
    """Whether a first dump of chosen rows has the row of that ``id``."""
    return id_ % 4 == 0


SHADES = 5


def in_order(table: Table, rows: Iterable[Row]) -> list[tuple[tuple[int, ...], Row]]:
    """The rows as the server orders them, each behind what it orders and bounds it by. By ``v`` it sees some shades alone, as a collation would: a row has
    another one with each change, in front of the one before or behind it, and shares it with others.
    """
    key = (_SHAPES.get(id(table)) or _shape(table))[3]
    if len(key) == 1 and key[0] != SURROGATE_AT:
        at = key[0]
        found = [((row[at],), row) for row in rows]
    else:
        found = [(tuple(row[at] * 7 % SHADES if at == SURROGATE_AT else row[at] for at in key), row) for row in rows]
    found.sort(key=_BOUND)
    return found


def key_of(table: Table, row: Row | None) -> bytes | None:
    """The key of a record of that row; other columns make other keys."""
    at = key_index(table)
    return None if row is None or at < 0 else b"%s%d" % (table.key[0].encode(), row[at])


def extra_of(table: Table) -> tuple[str, ...]:
    return names_of(table)[3:]


class Source:
    """One server."""

    def __init__(self, *, lag_share: float, readable: float, strange: float, names_columns: bool, only_renames: bool) -> None:
        self.random = HUB.random
        self.strange = strange
        """Share of ALTER statements that nobody but the server understands."""
        self.names_columns = names_columns
        """Whether the log's metadata is full."""
        self.only_renames = only_renames
        """DDL gives tables other names, and other keys, and nothing else."""
        self.lag_share = lag_share
        self.readable = readable
        """Share of row events of which records can be made; the rows of the others only a dump can bring."""
        self.tables: dict[TableId, tuple[Table, Rows]] = {}
        self.marks: dict[str, str] = {}
        self.log: list[tuple[Any, ...]] = []
        self.states: list[tuple[dict[TableId, tuple[Table, Rows]], dict[str, str]]] = [(self.tables, self.marks)]
        self.held: list[frozenset[TableId]] = [NOTHING]
        """What prepared transactions have changed, by the number of entries."""
        self.locked: list[TableId] = []
        """Tables that a snapshot has read: no DDL on them."""
        self.breaks: dict[TableId, int] = {}
        """Where a name stood for other rows, or rows were told apart otherwise: what a topic has of before stays there."""
        self.truncated: list[tuple[TableId, int]] = []
        self._prepared: tuple[TableId, list[tuple[Row | None, Row | None]]] | None = None
        self._value = 0
        self._left: TableId | None = None
        """The captured name that the table aside has had."""

    # ---- what is committed

    def _commit(self, entry: tuple[Any, ...], *, held: frozenset[TableId] | None = None) -> None:
        self.log.append(entry)
        self.states.append((self.tables, self.marks))
        self.held.append(self.held[-1] if held is None else held)

    def create(self, id_: TableId, *, key: tuple[str, ...], rows: int) -> None:
        """A table with rows that were there before the connector."""
        table = definition(id_, (), key)
        at = key_index(table)
        content: Rows = {}
        for number in range(rows):
            row = (number * 2 if rows * 2 <= KEYS_MAX + 1 else number, number, self._next())
            content[row[at] if at >= 0 else row[0]] = row
        self.tables = {**self.tables, id_: (table, content)}
        self._commit((DDL, (CreateTable(table),), False))

    def _next(self) -> int:
        self._value += 1
        return self._value

    def write(self) -> None:
        """A transaction of some rows, of one table or several."""
        random = self.random
        kept = list(self.tables)
        if not kept:
            return
        changes = []
        self.tables = {**self.tables}
        for _ in range(1 if random() < 0.7 else 3):
            id_ = kept[int(random() * len(kept))]
            table, rows = self.tables[id_]
            change = self._change(id_, table, rows)
            if change is not None:
                before, after = change
                at = max(key_index(table), 0)
                rows = {**rows}
                if before is not None:
                    del rows[before[at]]
                if after is not None:
                    rows[after[at]] = after
                self.tables[id_] = (table, rows)
                changes.append((table, before, after))
        if changes:
            # A dump takes no row away, so what is deleted is always in the log.
            readable = random() < self.readable or any(
                key_of(table, old) != key_of(table, new) for table, old, new in changes if old is not None
            )
            self._commit((ROWS, changes, readable))
            if HUB.is_told:
                HUB.note(
                    f"source: {len(self.log) - 1} rows {[(c[0].id.name, c[1], c[2]) for c in changes]}{'' if readable else ' unreadable'}"
                )

    def _change(self, id_: TableId, table: Table, rows: Rows) -> tuple[Row | None, Row | None] | None:
        """What happens to one row; None where a prepared transaction holds it."""
        random = self.random
        kind = random()
        at = max(key_index(table), 0)
        if not rows or (kind < 0.35 and len(rows) < KEYS_MAX):
            return None, self._new_row(table, rows)
        keys = list(rows)
        before = rows[keys[int(random() * len(keys))]]
        if self._prepared is not None and self._prepared[0] == id_ and any(old == before for old, _ in self._prepared[1]):
            return None
        if kind < 0.6:
            return before, (*before[:2], self._next(), *before[3:])
        if kind < 0.8 and len(rows) < KEYS_MAX:
            fresh = self._new_row(table, rows)
            moved = list(before)
            moved[at], moved[2] = fresh[at], fresh[2]
            return before, tuple(moved)
        return before, None

    def _new_row(self, table: Table, rows: Rows) -> Row:
        taken = [*rows.values()]
        if self._prepared is not None:
            taken += [after for _, after in self._prepared[1] if after is not None]
        ids, alts = {row[0] for row in taken}, {row[1] for row in taken}
        id_, alt = int(self.random() * KEYS_MAX), int(self.random() * KEYS_MAX)
        while id_ in ids:
            id_ += 1
        while alt in alts:
            alt += 1
        return (id_, alt, self._next(), *[DEFAULT if name == "x" else None for name in extra_of(table)])

    def prepare(self) -> None:
        """XA PREPARE, whose rows are in the log and which no SELECT sees; then its XA COMMIT."""
        if self._prepared is not None:
            id_, changes = self._prepared
            self._prepared = None
            table, rows = self.tables[id_]
            at = max(key_index(table), 0)
            rows = {**rows}
            for before, after in changes:
                if before is not None:
                    del rows[before[at]]
                if after is not None:
                    rows[after[at]] = after
            self.tables = {**self.tables, id_: (table, rows)}
            self._commit((COMMITTED,), held=NOTHING)
            HUB.note(f"source: {len(self.log) - 1} XA COMMIT of {id_.name}")
            return
        kept = [id_ for id_ in self.tables if id_ in CAPTURED]
        if not kept:
            return
        id_ = kept[int(self.random() * len(kept))]
        table, rows = self.tables[id_]
        change = self._change(id_, table, rows)
        if change is not None:
            self._prepared = (id_, [change])
            self._commit((PREPARED, [(table, *change)], True), held=frozenset({id_}))
            HUB.note(f"source: {len(self.log) - 1} XA PREPARE of {id_.name} {change}")

    @property
    def is_prepared(self) -> bool:
        return self._prepared is not None

    def mark(self, name: str, token: str, *, lost: bool) -> None:
        """Commit a watermark."""
        self.marks = {**self.marks, name: token}
        self._commit((LOST if lost else MARK, name, token))
        if HUB.is_told:
            HUB.note(f"source: {len(self.log) - 1} watermark {token}{' (lost)' if lost else ''}")

    # ---- DDL

    def alter(self) -> None:
        """One DDL statement of any kind, unless a lock keeps it waiting."""
        random = self.random
        kind = random()
        id_ = (*CAPTURED, ASIDE)[int(random() * 4)]
        if id_ not in self.tables:
            if kind < 0.5 and not self.only_renames:
                self._create(id_)
            return
        table, rows = self.tables[id_]
        free = [other for other in (*CAPTURED, ASIDE) if other not in self.tables]
        others = [other for other in self.tables if other != id_]
        if self.only_renames:
            kind = 0.4 if kind < 0.2 else 0.85 if kind < 0.6 else 0.95
            # What comes from an uncaptured name is not dumped for that; only the name that it was cut short under is remembered, once.
            others = [other for other in others if ASIDE not in {id_, other}]
            if id_ == ASIDE:
                free = [other for other in free if other == self._left]
        if kind < 0.35:
            self._columns(id_, table, rows)
        elif kind < 0.45 and table.key:
            other = definition(id_, extra_of(table), ("alt",) if table.key == ("id",) else ("id",))
            at = key_index(other)
            self._ddl((AlterTable(id_, other),), {id_: (other, {row[at]: row for row in rows.values()})}, breaks=True)
        elif kind < 0.55:
            self.rewrite(id_)
        elif kind < 0.7:
            self._ddl((TruncateTable(id_),), {id_: (table, {})})
        elif kind < 0.78:
            self._ddl((DropTable((id_,)),), {id_: None}, breaks=True)
        elif kind < 0.9 and free:
            new = free[int(random() * len(free))]
            self._rename(((id_, new),))
        elif others:
            other = others[int(random() * len(others))]
            aside = TableId(DATABASE, "u")
            self._rename(((id_, aside), (other, id_), (aside, other)))

    def rewrite(self, id_: TableId) -> None:
        """All rows of a table are other ones, without an event."""
        table, rows = self.tables[id_]
        changed = {key: (*row[:2], self._next(), *row[3:]) for key, row in rows.items()}
        self._ddl((AlterTable(id_, table, rewrites="its rows are other ones"),), {id_: (table, changed)})

    def _create(self, id_: TableId) -> None:
        table = definition(id_, (), ("id",))
        self._ddl((CreateTable(table),), {id_: (table, {})}, breaks=True)

    def _columns(self, id_: TableId, table: Table, rows: Rows) -> None:
        name = "x" if self.random() < 0.5 else "y"
        extra = extra_of(table)
        if name in extra:
            at = 3 + extra.index(name)
            after = definition(id_, tuple(n for n in extra if n != name), table.key)
            changed = {key: (*row[:at], *row[at + 1 :]) for key, row in rows.items()}
        else:
            after = definition(id_, (*extra, name), table.key)
            changed = {key: (*row, DEFAULT if name == "x" else None) for key, row in rows.items()}
        self._ddl((AlterTable(id_, after),), {id_: (after, changed)})

    def _rename(self, pairs: tuple[tuple[TableId, TableId], ...]) -> None:
        after: dict[TableId, tuple[Table, Rows] | None] = {}
        for old, new in pairs:
            if new == self._left:
                self._left = None
            if new == ASIDE:
                self._left = old
            found = after.get(old) or self.tables[old]
            table, rows = found
            after[new] = (definition(new, extra_of(table), table.key), rows)
            after[old] = None
        self._ddl((RenameTable(pairs),), after, breaks=True)

    def _ddl(self, changes: tuple[Change, ...], after: dict[TableId, tuple[Table, Rows] | None], *, breaks: bool = False) -> None:
        held = self.held[-1]
        if any(id_ in self.locked or id_ in held for id_ in after):
            return
        tables = {**self.tables}
        for id_, found in after.items():
            if found is None:
                tables.pop(id_, None)
            else:
                tables[id_] = found
            if breaks:
                self.breaks[id_] = (len(self.log) + 1) << ROW_BITS
        for change in changes:
            if isinstance(change, TruncateTable):
                self.truncated.append((change.id, position_of(len(self.log))))
        self.tables = tables
        strange = isinstance(changes[0], AlterTable) and self.random() < self.strange
        self._commit((DDL, changes, strange))
        if HUB.is_told:
            HUB.note(f"source: {len(self.log) - 1} {'strange ' if strange else ''}DDL {_told(changes)}")

    # ---- what is read

    def snapshot(self) -> int:
        """The number of entries that a snapshot of now shows; a commit may become visible to others a moment after it returned, a replica lags."""
        end = len(self.log)
        if self.random() < self.lag_share:
            end = max(0, end - 1 - int(self.random() * 4))
        return end


def _told(changes: tuple[Change, ...]) -> str:
    told = []
    for change in changes:
        names = ", ".join(t.name for t in tables_of(change))
        shape = f" ({', '.join(names_of(change.table))}; key {change.table.key})" if isinstance(change, AlterTable) else ""
        told.append(f"{type(change).__name__} {names}{shape}")
    return "; ".join(told)
