"""What the log shows of tables: Relation messages, brought together with what the catalog knows of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from dblog.core.changes import Change
from dblog.core.crosscheck import PartOf, Seen
from dblog.core.timeline import Absent, Known, Parked, Position, Stale, Timeline
from dblog.dialects.postgres.catalog.tables import key_of
from dblog.dialects.postgres.pgoutput.changes import (
    ATTACHED,
    Dropped,
    MadeAgain,
    NameTaken,
    RelationChanged,
    Truncated,
    changes_of,
    merged,
    rewritten,
)
from dblog.dialects.postgres.pgoutput.items import LogOffset
from dblog.dialects.postgres.pgoutput.messages import Relation
from dblog.dialects.postgres.pgoutput.position import sequence_of
from dblog.dialects.postgres.pgoutput.visibility import Snapshot
from dblog.dialects.postgres.task.connections import Connections
from dblog.dialects.postgres.wire.session import Unshown, settled_log_end
from dblog.dialects.postgres.wire.slot import find_publication
from dblog.model import Column, Table, TableId
from dblog.readers.contract import Advice, Merge, Reading, TaskContext

VISIBLE_TRIES = 50
VISIBLE_PAUSE_S = 0.002
"""Some times as long as a commit is logged before it is visible, if no standby is waited for."""

ADVICE = Advice(
    name_columns="the log of PostgreSQL always does",
    name_columns_in_future="The log of PostgreSQL always names its columns",
    log_rows="the log of PostgreSQL always holds rows",
    disagreement="as after a change of the system catalogs by hand",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What the catalog had of tables in doubt; ``numbers`` of all tables. The log ended at ``end`` behind that."""

    tables: frozenset[TableId] = frozenset()
    numbers: Mapping[int, TableId] = field(default_factory=dict)
    found: Mapping[TableId, Table] = field(default_factory=dict)
    end: int = 0


class PostgresSchemas:
    """One task's. Implements ``readers.contract.LogSchemas``; used by the log thread."""

    advice = ADVICE

    def __init__(self, connections: Connections, timeline: Timeline, context: TaskContext, *, epoch: int) -> None:
        self._connections = connections
        self._timeline = timeline
        self._context = context
        self._epoch = epoch
        self.numbers: dict[int, TableId] = {}
        """The captured tables by the numbers that the log has for them."""
        self._of_tables: dict[TableId, int] = {}
        self._newest: dict[int, Table] = {}
        """By number, tables as they were seen last, whatever has their names now."""
        self._asked = _Asked()
        self._described_by = 0
        """The transaction of the last Relation message."""
        self._unseen: dict[int, int] = {}
        """Numbers of tables that have rows in the log while nobody sees them, and the transactions of the rows."""

    def know(self, tables: dict[int, Table]) -> None:
        """The catalog has these tables, by their numbers. What the history has goes before: the log begins where that ends."""
        for table_id in self._timeline.tables():
            table = self._timeline.current_table(table_id)
            if table is not None and table.number is not None:
                self._number(table.number, table_id)
                self._newest[table.number] = table
        for number, table in tables.items():
            if number not in self.numbers and table.id not in self._of_tables:
                self._number(number, table.id)
            elif self.numbers.get(number) != table.id:
                # It has got another's name, or lost its own. The log tells of that with a next row, which may never come.
                self._connections.doubts.add(self.numbers.get(number, table.id))

    def _number(self, number: int, table: TableId) -> None:
        self.numbers[number] = table
        self._of_tables[table] = number

    def number_of(self, table: TableId) -> int | None:
        """The number that the log has for a table; None where it is not known."""
        return self._of_tables.get(table)

    # ---- the contract

    def read_table_map(self, table_map: Relation) -> tuple[TableId, Seen, Merge]:
        """Name, columns and key of a Relation message. The server does not send another where a partitioned table is renamed whose rows come under its name: it
        notes with each partition whether it has. So the name is the one that was found out for its number.
        """
        table = self.numbers.get(table_map.number, TableId(table_map.schema, table_map.name))
        part_of = self._context.patience(lambda: self._part_of(table_map.number))
        return (
            table,
            Seen(columns=self._columns(table_map), named=True, complete=True, key=self._key(table, table_map), part_of=part_of),
            merged,
        )

    def _part_of(self, number: int) -> PartOf | None:
        """Where rows of partitions come under their root's name, those that come under a partition's own were written before it was attached. The log has a
        transaction before anybody sees what it did (``pgoutput.visibility``): for a moment, or until a standby has it; then ``found_out`` asks again.
        """
        session = self._connections.live_session()
        if not session.by_root:
            return None
        for _ in range(VISIBLE_TRIES):
            if session.is_there(number) or self._shows(self._described_by):
                return self._root_of(number)
            time.sleep(VISIBLE_PAUSE_S)
        self._unseen[number] = self._described_by
        return None

    def _shows(self, xid: int) -> bool:
        return not xid or Snapshot.of(self._connections.live_session().snapshot()).shows_xid(xid)

    def _root_of(self, number: int) -> PartOf | None:
        session = self._connections.live_session()
        root = session.root_of(number)
        publication = None if root is None else find_publication(session, self._connections.publication)
        if root is None or publication is None or not publication.by_root:
            return None
        if self._context.includes(root) and root not in self._of_tables:
            self._connections.doubts.add(root)  # it was made in the same moment, and no row of it has come
        return PartOf(root, sequence_of(epoch=self._epoch, lsn=session.log_end()))

    def _key(self, table: TableId, relation: Relation) -> tuple[str, ...] | None:
        """The primary key that a Relation message shows, which has no order: that of the known key, or of the server's, where it is of the same columns. None
        where the replica identity is another.
        """
        of_key = tuple(column.name for column in relation.columns if column.of_key)
        if relation.identity != "d" or not of_key:
            return None
        known = self._timeline.current_table(table)
        if known is not None and set(known.key) == set(of_key):
            return known.key
        now = self._unshown(relation)
        return now.key if now is not None and set(now.key) == set(of_key) else of_key

    def parse_statement(
        self, statement: RelationChanged | MadeAgain | NameTaken | Truncated, text: str, position: Position
    ) -> Iterable[Change]:
        """The changes of what the log shows."""
        del text, position
        return changes_of(statement)

    def rewritten(self, changes: Iterable[Change], before: Callable[[TableId], Table | None]) -> dict[TableId, str]:
        """The tables whose old rows the changes alter without rows in the log."""
        del before
        return rewritten(changes)

    def row_change(self, statement: Any, text: str) -> tuple[str, AbstractSet[TableId]] | None:
        """The log has rows."""
        del statement, text
        return None

    def read_table(self, table: TableId, position: Position, begin: Any) -> Reading:
        """The table as the server has it now. Nobody can say what the log holds of it up to there, for it shows a change with the next row only."""
        del begin
        session = self._connections.live_session()
        found = session.read_tables(lambda other: other == table)
        self.know(found)
        end = sequence_of(epoch=position[0] >> 32, lsn=session.log_end())
        return Reading(table=next(iter(found.values()), None), position=end, touched=True)

    # ---- what a Relation message changes

    def changed(self, relation: Relation, position: Position, *, xid: int, resumed: Position) -> RelationChanged | MadeAgain | None:
        """What has become of a captured table since its last version; None where nothing has, or where no version of it is known.

        ``xid``: the transaction that it comes in. ``resumed``: where the connection's log begins. What precedes it is in a transaction that was taken in part,
        and known.
        """
        self._described_by = xid
        table_id = TableId(relation.schema, relation.name)
        former = self.numbers.get(relation.number)
        if not self._context.includes(table_id) and (former is None or not self._context.includes(former)):
            return None
        self._number(relation.number, table_id)
        lookup = self._timeline.lookup_before(position)  # an earlier connection may have come to this very message
        before = None if former is None else lookup(former)
        if before is not None and before.number not in (None, relation.number):
            before = None  # another table has taken its name meanwhile
        before = before or lookup(table_id)
        if position < resumed or (before is None and relation.number not in self._newest):
            return None
        change = self._change(table_id, before, relation, position)
        if change is not None:
            self._newest[relation.number] = change.table if isinstance(change, MadeAgain) else change.after
            if not self._asked.tables.isdisjoint((table_id, former)):
                self._connections.doubts.add(table_id)  # the message may be newer than what the catalog had of it, so it is asked again
        return change

    def _change(
        self, table_id: TableId, before: Table | None, relation: Relation, position: Position
    ) -> RelationChanged | MadeAgain | None:
        columns = self._columns(relation)
        if before is None:  # the table that had its number has lost its name to another one, as where two tables swap theirs
            return MadeAgain(self._as_logged(table_id, replace(self._newest[relation.number], id=table_id), columns, relation))
        if before.id == table_id and before.number not in (None, relation.number):
            return MadeAgain(self._as_logged(table_id, before, columns, relation))
        behind = position <= asked_of(self._timeline.note_before(before.id, position))
        doubtful = "a column may be another one than before, with its name and type" if behind else None
        if before.id == table_id and _agree(before.columns, columns) and not _other_key(before, relation):
            now = self._unshown(relation)
            if now is None or not _differs_unseen(before, relation, now):
                if doubtful:
                    return RelationChanged(before, before, why=doubtful)
                self._look_behind(before, relation, now)
                return None
        after = self._as_logged(table_id, before, columns, relation)
        return RelationChanged(before, after, asked=sequence_of(epoch=self._epoch, lsn=self._log_end()), why=doubtful)

    def _log_end(self) -> int:
        end: int = self._context.patience(lambda: self._connections.live_session().log_end())
        return end

    def _look_behind(self, known: Table, relation: Relation, now: Unshown | None) -> None:
        """The log does not show that a column was dropped and made again with its name and type, nor that a partition was attached, but it names the columns
        once more. Where the catalog has another column by now, or more such partitions, the table is in doubt.
        """
        numbers = {} if now is None else now.numbers
        attached: list[tuple[int, int]] = (
            self._context.patience(lambda: self._connections.live_session().attached_partitions([relation.number]))
            if known.partitioned
            else []
        )
        other_columns = any(
            column.number is not None and numbers.get(column.name, column.number) != column.number for column in known.columns
        )
        if other_columns or not {number for _, number in attached} <= set(known.attached):
            self._connections.doubts.add(known.id)

    # ---- what nothing in the log shows

    def found_out(self, at: LogOffset, position: Position) -> Iterator[RelationChanged | MadeAgain | NameTaken | Dropped]:
        """What has become of the tables that are in doubt. It holds from where the log ended when the catalog was asked: rows that the table had as it was
        before have all come by then, for a statement that alters a table waits for transactions that have written to it. ``at``: between two transactions.
        """
        if self._unseen and not at.in_transaction:
            yield from self._seen_by_now(position)
        if doubted := self._connections.doubts.take():
            self._asked = self._context.patience(lambda: self._ask(doubted | set(self._asked.tables)))
        asked = self._asked
        if not asked.tables or at.in_transaction or at.lsn < asked.end:
            return
        self._asked = _Asked()
        of_tables = {table_id: self._of_tables.get(table_id) for table_id in asked.tables}  # as they were: one may take the other's name
        for table_id in sorted(asked.tables):
            number, state = of_tables[table_id], self._timeline.state_at(table_id, position)
            own = asked.found.get(table_id)
            if own is not None and own.number not in self.numbers and not isinstance(state, Parked) and self._context.includes(table_id):
                # The log may have told that another table had the name, or may not yet; of this one it has told nothing.
                moved = None if number is None else self._moved_on(asked, number, state)
                self._take_number(asked, table_id)
                yield MadeAgain(own) if moved is None else NameTaken(moved, own)
                continue
            if not isinstance(state, Known):
                continue
            name = table_id if number is None else asked.numbers.get(number)
            now = asked.found.get(table_id if name is None else name)
            if now is None:
                yield Dropped(table_id)
            elif name is None or (name != table_id and state.table.number not in (None, number)):
                self._take_number(asked, now.id)
                yield MadeAgain(now)
            elif now != state.table:
                self._take_number(asked, now.id)
                yield RelationChanged(state.table, now)

    def _seen_by_now(self, position: Position) -> Iterator[RelationChanged]:
        for number, xid in tuple(self._unseen.items()):
            if not self._context.patience(partial(self._shows, xid)):
                continue
            del self._unseen[number]
            part_of = self._context.patience(partial(self._root_of, number))
            state = None if part_of is None else self._timeline.state_at(part_of.table, position)
            if isinstance(state, Known):
                yield RelationChanged(state.table, state.table, why=ATTACHED)

    def _moved_on(self, asked: _Asked, number: int, state: Known | Absent | Stale) -> RelationChanged | None:
        """What has become of the table that is known by a name which another one has now; None where it is gone, is captured no longer, or is followed."""
        if not isinstance(state, Known) or state.table.number not in (None, number):
            return None
        name = asked.numbers.get(number)
        now = None if name is None else asked.found.get(name)
        if now is None or not self._context.includes(now.id):
            return None
        self._take_number(asked, now.id)
        return RelationChanged(state.table, now)

    def _ask(self, tables: set[TableId]) -> _Asked:
        session = self._connections.live_session()
        numbers = session.table_numbers()
        names = {numbers[number] for table in tables if (number := self._of_tables.get(table)) in numbers}
        found = session.read_tables(lambda table: table in tables or table in names)
        end, _ = settled_log_end(session.wire)
        return _Asked(tables=frozenset(tables), numbers=numbers, found={table.id: table for table in found.values()}, end=end)

    def _take_number(self, asked: _Asked, table: TableId) -> None:
        for number, name in asked.numbers.items():
            if name == table:
                self._number(number, table)

    def _unshown(self, relation: Relation) -> Unshown | None:
        found: Unshown | None = self._context.patience(lambda: self._connections.live_session().unshown(relation.number))
        return found

    def _as_logged(self, table_id: TableId, before: Table, columns: tuple[Column, ...], relation: Relation) -> Table:
        """The table with these columns: as the server has it now where that fits, whatever its name is by now, else what is known of each column."""
        now: Table | None = self._context.patience(lambda: self._of_number(relation.number))
        now = None if now is None else replace(now, id=table_id)
        if now is not None and _agree(now.columns, columns) and not _other_key(now, relation):
            return now
        known = {column.name: column for table in (before, now) if table is not None for column in table.columns}
        made = tuple(merged(known[column.name], column) if column.name in known else column for column in columns)
        names = {column.name for column in made}
        indexes = tuple(index for index in before.indexes if set(index.columns) <= names)
        if _other_key(before, relation):
            of_key = {column.name for column in relation.columns if column.of_key}
            nullable = tuple(replace(column, nullable=False) if column.name in of_key else column for column in made)
            key = tuple(column.name for column in made if column.name in of_key)
            return replace(
                before,
                id=table_id,
                columns=nullable,
                key=key,
                primary_key=relation.identity == "d",
                indexes=indexes,
                number=relation.number,
                file=None,
            )
        keyed = before if now is None or not now.primary_key or _shows_key(relation) or not set(now.key) <= names else now
        if set(keyed.key) <= names:
            key, primary = keyed.key, keyed.primary_key
        else:
            key, primary = key_of(made, indexes)
        return replace(before, id=table_id, columns=made, key=key, primary_key=primary, indexes=indexes, number=relation.number, file=None)

    def _of_number(self, number: int) -> Table | None:
        """The table that the server has now."""
        session = self._connections.live_session()
        name = session.table_numbers().get(number)
        return None if name is None else session.read_tables(lambda table: table == name).get(number)

    def _columns(self, relation: Relation) -> tuple[Column, ...]:
        """As far as the log shows them; whether NULL is allowed it does not."""
        session = self._connections.live_session
        texts = self._context.patience(lambda: session().type_texts((column.type, column.modifier) for column in relation.columns))
        types = self._connections.session.types
        return tuple(
            types.column(
                Column(
                    name=column.name,
                    type="",
                    type_text=texts.get((column.type, column.modifier)) or f"type {column.type}",
                    nullable=True,
                ),
                column.type,
                column.modifier,
            )
            for column in relation.columns
        )


def _other_key(known: Table, relation: Relation) -> bool:
    """Whether the log shows another key: by REPLICA IDENTITY DEFAULT it flags the columns of the primary key, in no order, else those of the index that is the
    replica identity.
    """
    of_key = {column.name for column in relation.columns if column.of_key}
    return _shows_key(relation) and bool(of_key) and of_key != set(known.key)


def _differs_unseen(known: Table, relation: Relation, now: Unshown) -> bool:
    """Whether the server has the table otherwise now in what the log does not show: whether a column takes NULL; the order of the primary key, whether there
    still is one where the message flags no column (as it does where the key is deferrable), and all of it with another replica identity.
    """
    if any(column.name in now.nullable for column in known.columns if not column.nullable):
        return True
    known_key = known.key if known.primary_key else ()
    if _shows_key(relation):
        is_gone = bool(known_key) and not now.key and not any(column.of_key for column in relation.columns)
        return is_gone or (now.key != known_key and set(now.key) == set(known_key))
    return now.key != known_key


def _shows_key(relation: Relation) -> bool:
    """Whether the columns that a Relation message flags are those of the key."""
    return relation.identity in ("d", "i")


def _agree(known: tuple[Column, ...], seen: tuple[Column, ...]) -> bool:
    """Whether the log shows the table as it is known."""
    return len(known) == len(seen) and all(
        one.name == other.name and merged(one, other) is one for one, other in zip(known, seen, strict=True)
    )


ASKED = "asked"
"""In a version's note: ``RelationChanged.asked``."""


def asked_of(note: Mapping[str, object]) -> Position:
    """Up to where a message that repeats the version says that something has become of the table, which the version may have already: the catalog was asked
    of it behind that.
    """
    match note.get(ASKED):
        case [int(high), int(low)]:
            return high, low
    return 0, 0
