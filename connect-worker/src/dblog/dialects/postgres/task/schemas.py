"""What the log shows of tables: Relation messages, brought together with what the catalog knows of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from dblog.core.changes import Change
from dblog.core.crosscheck import Seen
from dblog.core.timeline import Known, Parked, Position, Timeline
from dblog.dialects.postgres.catalog.tables import is_deferrable, key_of
from dblog.dialects.postgres.pgoutput.changes import FoundOut, MadeAgain, RelationChanged, Truncated, changes_of, merged, rewritten, type_of
from dblog.dialects.postgres.pgoutput.interruptions import has_other_files, interruption, kept_entries, lost_partitions
from dblog.dialects.postgres.pgoutput.items import LogOffset
from dblog.dialects.postgres.pgoutput.messages import Relation
from dblog.dialects.postgres.pgoutput.position import sequence_of
from dblog.dialects.postgres.task.connections import Connections
from dblog.dialects.postgres.wire.session import Unshown, settled_log_end
from dblog.dialects.postgres.wire.slot import find_publication
from dblog.model import Column, Table, TableId
from dblog.readers.contract import Advice, Merge, Reading, TaskContext

log = structlog.get_logger(__name__)

ADVICE = Advice(
    name_columns="the log of PostgreSQL always does",
    name_columns_in_future="The log of PostgreSQL always names its columns",
    log_rows="the log of PostgreSQL always holds rows",
    disagreement="as after a change of the system catalogs by hand",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What one snapshot of the catalog had of tables in doubt, by name, and under whatever names they have now, by number. The log ended at ``end`` behind
    that.
    """

    tables: frozenset[TableId] = frozenset()
    found: Mapping[int, Table] = field(default_factory=dict)
    unpublished: frozenset[TableId] = frozenset()
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
        self._looked_at: Position = (0, 0)
        """Where the log ended when the catalog was compared with the history. What a statement in front of that did, another one may have undone."""
        self.joining: set[TableId] = set()
        """Tables that have joined since the log was read on last, which may be new to the publication."""
        self.returning: set[TableId] = set()
        """Tables that were in no log for a while, of those found out since the log was read on last."""
        self._shown: tuple[Position, int] = (0, 0), 0
        """The position and the table number of the last Relation message."""

    def know(self, tables: Mapping[int, Table], *, put_back: AbstractSet[TableId] = frozenset()) -> None:
        """The catalog has these tables, by their numbers, and no other captured ones. What the history has goes before: the log begins where that ends.
        ``put_back``: those that this start has put into the publication, which are dumped by the number of their joining.
        """
        for again in tables.values():
            if again.id in put_back:
                self._timeline.refresh(again)
        for table_id in self._timeline.tables():
            table = self._timeline.current_table(table_id)
            if table is None or table.number is None:
                continue
            found = tables.get(table.number)
            has_its_name = found is not None and found.id == table_id
            if has_its_name or table.number not in self.numbers:
                self._number(table.number, table_id)
                self._newest[table.number] = table
            if not has_its_name and self._context.includes(table_id):
                # Dropped, or it has another name: the log tells of that with a next row, which may never come.
                self._connections.doubts.add(table_id)
        self._compare(tables)
        self._looked_at = sequence_of(epoch=self._epoch, lsn=self._log_end())

    def _compare(self, tables: Mapping[int, Table]) -> None:
        """With what is known of tables that the catalog has now."""
        for number, table in tables.items():
            known = self._timeline.current_table(table.id)
            if number not in self.numbers and table.id not in self._of_tables:
                self._number(number, table.id)
                self._newest.setdefault(number, table)
            elif self.numbers.get(number) != table.id:
                self._connections.doubts.add(self.numbers.get(number, table.id))  # it has got another's name, or lost its own
            elif known is None:
                continue
            elif known != table or interruption(known, table) or has_other_files(known, table) or lost_partitions(known, table):
                self._connections.doubts.add(table.id)  # by a statement that the log still has, or has no row behind
            else:
                self._timeline.refresh(kept_entries(known, table))

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
        return table, Seen(columns=self._columns(table_map), named=True, complete=True, key=self._key(table, table_map)), merged

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
        self, statement: RelationChanged | MadeAgain | FoundOut | Truncated, text: str, position: Position
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
        self._compare(found)
        if self._timeline.current_table(table) is None:
            self.joining.add(table)
        end = sequence_of(epoch=position[0] >> 32, lsn=session.log_end())
        return Reading(table=next(iter(found.values()), None), position=end, touched=True)

    # ---- what a Relation message changes

    def changed(self, relation: Relation, position: Position, *, resumed: Position) -> RelationChanged | MadeAgain | None:
        """What has become of a captured table since its last version; None where nothing has, or where no version of it is known.

        ``resumed``: where the connection's log begins. What precedes it is in a transaction that was taken in part, and known.
        """
        table_id = TableId(relation.schema, relation.name)
        former = self.numbers.get(relation.number)
        if self._is_shown_beside(relation, position):
            if self._timeline.current_table(former or table_id) is not None:
                self._connections.doubts.add(former or table_id)
            return None
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
            if isinstance(change, MadeAgain):
                self.joining.add(change.table.id)
            elif change.misses:
                self.returning.add(change.after.id)
            if position < self._looked_at:
                self._connections.doubts.add(table_id)
                self._connections.doubts.add(former or table_id)
            elif not self._asked.tables.isdisjoint((table_id, former)):
                self._connections.doubts.add(table_id)  # the message may be newer than what the catalog had of it, so it is asked again
        return change

    def _is_shown_beside(self, relation: Relation, position: Position) -> bool:
        """Whether the message is of a partition whose rows come under its root's name: the server sends both messages one after the other, and then a row of
        the root (pgoutput.c, maybe_send_schema). A TRUNCATE of many tables has such messages, too, and no columns.
        """
        shown, number = self._shown
        self._shown = position, relation.number
        return self._connections.session.by_root and shown == position and number != relation.number

    def _change(
        self, table_id: TableId, before: Table | None, relation: Relation, position: Position
    ) -> RelationChanged | MadeAgain | None:
        columns = self._columns(relation)
        if before is None:  # the table that had its number has lost its name to another one, as where two tables swap theirs
            former = self._newest[relation.number]
            made = self._as_logged(table_id, replace(former, id=table_id), columns, relation, position)
            return MadeAgain(made, returns=former.id == table_id)
        if before.id == table_id and before.number not in (None, relation.number):
            return MadeAgain(self._as_logged(table_id, before, columns, relation, position))
        behind = position <= asked_of(self._timeline.note_before(before.id, position))
        doubtful = "a column may be another one than before, with its name and type" if behind else None
        if before.id == table_id and _agree(before.columns, columns) and not _other_key(before, relation):
            now = self._unshown(relation)
            if now is None or not _differs_unseen(before, relation, now):
                if doubtful:
                    return RelationChanged(before, before, why=doubtful)
                self._look_behind(before, relation, now)
                return None
        logged = self._as_logged(table_id, before, columns, relation, position)
        after = self._context.patience(lambda: kept_entries(before, self._with_unfilled(before, logged)))
        rewritten = self._context.patience(lambda: self._rewritten(before, after))
        return RelationChanged(
            before, after, asked=sequence_of(epoch=self._epoch, lsn=self._log_end()), why=rewritten or doubtful, rewritten=bool(rewritten)
        )

    def _log_end(self) -> int:
        end: int = self._context.patience(lambda: self._connections.live_session().log_end())
        return end

    def _look_behind(self, known: Table, relation: Relation, now: Unshown | None) -> None:
        """The log does not show that a column was dropped and made again with its name and type, nor that a partition was attached, but it names the columns
        once more. Where the catalog has another column by now, or more such partitions, the table is in doubt.
        """
        numbers = {} if now is None else now.numbers
        attached: list[tuple[int, str]] = (
            self._context.patience(lambda: self._connections.live_session().attached_partitions([relation.number]))
            if known.partitioned
            else []
        )
        other_columns = any(
            column.number is not None and numbers.get(column.name, column.number) != column.number for column in known.columns
        )
        if other_columns or not {place for _, place in attached} <= set(known.attached):
            self._connections.doubts.add(known.id)

    # ---- what nothing in the log shows

    def found_out(self, at: LogOffset, position: Position) -> FoundOut | None:
        """What has become of the tables that are in doubt. It holds from where the log ended when the catalog was asked: rows that the table had as it was
        before have all come by then, for a statement that alters a table waits for transactions that have written to it. ``at``: between two transactions.
        """
        if doubted := self._connections.doubts.take():
            self._asked = self._context.patience(lambda: self._ask(doubted | self._asked.tables))
        asked = self._asked
        if not asked.tables or at.in_transaction or at.lsn < asked.end or any(self._has_version(name, position) for name in asked.tables):
            return None
        self._asked = _Asked()
        found: FoundOut | None = self._context.patience(lambda: self._difference(asked, position))
        return found

    def _has_version(self, table: TableId, position: Position) -> bool:
        """Whether a change of here would count as a replay, as where the log has not moved since the last one was found out."""
        versions = self._timeline.versions(table)
        return bool(versions) and versions[-1].position >= position

    def _difference(self, asked: _Asked, position: Position) -> FoundOut | None:
        """Between the history and the catalog. A table whose name has changed keeps its history where nothing else has to do with either name."""
        states = {name: self._timeline.state_at(name, position) for name in asked.tables}
        known = {name: state.table for name, state in states.items() if isinstance(state, Known)}
        by_name = {table.id: table for table in asked.found.values()}
        gone, changed, in_place, interrupted = [], [], set[TableId](), dict[TableId, str]()
        for name, before in sorted(known.items()):
            number = self._known_number(before)
            now = by_name.get(name) if number is None else asked.found.get(number)
            if now is None or not (now.id == name or (self._context.includes(now.id) and now.id not in known)):
                gone.append(name)
                continue
            in_place.add(now.id)
            now = kept_entries(before, now)
            rewritten = self._rewritten(before, now)
            one = RelationChanged(
                before, self._with_unfilled(before, now), why=interruption(before, now) or rewritten, rewritten=bool(rewritten)
            )
            if one.misses:
                interrupted[now.id] = str(one.why)
            if now != before or one.why is not None or lost_partitions(before, now):
                changed.append(one)
            else:
                self._timeline.refresh(now)
        made = [
            table
            for number, table in sorted(asked.found.items())
            if table.id not in in_place | asked.unpublished
            and self._context.includes(table.id)
            and self.numbers.get(number) != table.id  # else it is expected further on, or has to be read again
            and not isinstance(states[table.id], Parked)
        ]
        new = [table.number for table in made if table.number is not None and table.number not in self.numbers]
        unfilled = self._connections.live_session().unfilled(new)
        empty = tuple(table for table in made if table.number in unfilled)
        filled = tuple(table for table in made if table.number not in unfilled)
        for name in gone:
            number = self._of_tables.pop(name, None)
            if number is not None and self.numbers.get(number) == name:
                del self.numbers[number]  # one that comes back, as a partition that is detached, is dumped like a new one
        for name, why in interrupted.items():
            log.warning(
                "changes of a table may be in no log for a while",
                table=str(name),
                reason=why,
                remedy="it is dumped again where snapshot.mode lets it be, and the sink removes rows that were deleted in between; where the table has no key, "
                "or shares its topic, they stay",
            )
        placed = in_place | {table.id for table in made}
        for number, table in asked.found.items():
            if table.id in placed or not self._context.includes(table.id):
                self._number(number, table.id)
        self.joining.update(table.id for table in filled)
        self.returning.update(interrupted)
        returned = frozenset(table.id for table in filled if self._comes_back(table))
        return FoundOut(tuple(gone), filled, tuple(changed), empty, returned) if gone or made or changed else None

    def _comes_back(self, table: Table) -> bool:
        former = None if table.number is None else self._newest.get(table.number)
        return (former is not None and former.id == table.id) or self._timeline.comes_back(table)

    def _rewritten(self, before: Table, now: Table) -> str | None:
        """Return why rows may be others than the log has shown; None where they are not. Whatever else has changed of the table tells nothing of its rows."""
        if not has_other_files(before, now) or not self._connections.live_session().was_rewritten(now):
            return None
        return (
            "all of its rows were written as new ones, as where it was unlogged for a while, or a statement has given a column other values"
        )

    def _with_unfilled(self, before: Table, now: Table) -> Table:
        """As it is now, with those of its partitions that have been attached since ``before`` and have no row."""
        if not (new := set(now.attached) - set(before.attached)):
            return now
        places = {int(place.partition(":")[0]): place for place in new}
        unfilled = self._connections.live_session().unfilled(list(places))
        return replace(now, unfilled=frozenset(places[number] for number in unfilled))

    def _known_number(self, table: Table) -> int | None:
        return self._of_tables.get(table.id) if table.number is None else table.number

    def _ask(self, tables: AbstractSet[TableId]) -> _Asked:
        """Names lead to numbers, and these to other names, until all that have changed theirs with one of them are there."""
        session = self._connections.live_session()
        names, numbers = set(tables), set[int]()
        while True:
            numbers |= {self._of_tables[name] for name in names if name in self._of_tables}
            found = session.read_tables(names.__contains__, numbers=numbers)
            further = {table.id for table in found.values()} - names
            further |= {self.numbers[number] for number in found if number in self.numbers} - names
            if not further:
                break
            names |= further
        publication = find_publication(session, self._connections.publication)
        unpublished = names if publication is None else set[TableId]() if publication.all_tables else names - publication.tables
        end, _ = settled_log_end(session.wire)
        return _Asked(tables=frozenset(names), found=found, unpublished=frozenset(unpublished), end=end)

    def _unshown(self, relation: Relation) -> Unshown | None:
        found: Unshown | None = self._context.patience(lambda: self._connections.live_session().unshown(relation.number))
        return found

    def _as_logged(self, table_id: TableId, before: Table, columns: tuple[Column, ...], relation: Relation, position: Position) -> Table:
        """The table with these columns: as the server has it now where that fits, whatever its name is by now, else what is known of each column."""
        now: Table | None = self._context.patience(lambda: self._of_number(relation.number))
        now = None if now is None else replace(now, id=table_id)
        if now is not None and _agree(now.columns, columns) and not _other_key(now, relation):
            return _nullable_once(now, before) if position < self._looked_at else now
        made = tuple(_known_column(column, before, now) for column in columns)
        file = before.file if _same_types(before.columns, made) else None  # else it is not known whether the values were converted
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
                file=file,
            )
        keyed = before if now is None or not now.primary_key or _shows_key(relation) or not set(now.key) <= names else now
        if set(keyed.key) <= names:
            key, primary = keyed.key, keyed.primary_key
        else:
            key, primary = key_of(made, indexes)
        required = tuple(replace(column, nullable=False) if column.name in key else column for column in made)
        return replace(
            before, id=table_id, columns=required, key=key, primary_key=primary, indexes=indexes, number=relation.number, file=file
        )

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


def _known_column(seen: Column, before: Table, now: Table | None) -> Column:
    """What is known of a column that the log shows. One of its name and another type may be another column: whether it takes NULL is not known then."""
    known = [column for table in (now, before) if table is not None for column in table.columns if column.name == seen.name]
    agreeing = next((column for column in known if merged(column, seen) is column), None)
    if agreeing is not None:
        return agreeing
    return replace(merged(known[0], seen), nullable=True) if known else seen


def _nullable_once(now: Table, before: Table) -> Table:
    """As it is now, in a stretch of the log that is older: a column may have taken NULL there until all its rows had a value. One that was added with a
    value in every row has not.
    """
    known = {column.name: column for column in before.columns}

    def may_be_null(column: Column) -> bool:
        if column.name in now.key:
            return False
        return known[column.name].nullable if column.name in known else not (column.filled or column.has_default)

    return replace(now, columns=tuple(replace(column, nullable=column.nullable or may_be_null(column)) for column in now.columns))


def _same_types(before: tuple[Column, ...], after: tuple[Column, ...]) -> bool:
    """Whether no column has another type, as far as they go by the same names."""
    types = {column.name: type_of(column) for column in before}
    return all(types.get(column.name, type_of(column)) == type_of(column) for column in after)


def _other_key(known: Table, relation: Relation) -> bool:
    """Whether the log shows another key: by REPLICA IDENTITY DEFAULT it flags the columns of the primary key, in no order, else those of the index that is the
    replica identity.
    """
    of_key = {column.name for column in relation.columns if column.of_key}
    return _shows_key(relation) and bool(of_key) and of_key != set(known.key)


def _differs_unseen(known: Table, relation: Relation, now: Unshown) -> bool:
    """Whether the server has the table otherwise now in what the log does not show: whether a column takes NULL; the order of the primary key, whether there
    still is one where the message flags no column (as it does where the key is deferrable), whether it is enforced row by row, and all of it with another
    replica identity.
    """
    if any(column.name in now.nullable for column in known.columns if not column.nullable):
        return True
    known_key = known.key if known.primary_key else ()
    if known.indexes and known_key and now.key and is_deferrable(known) != now.deferrable:
        return True
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
