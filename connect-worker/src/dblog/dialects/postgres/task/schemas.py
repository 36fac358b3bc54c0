"""Combines what the log shows of tables, in Relation messages, with what the catalog knows."""

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
    """The catalog's answer about doubtful tables, from one snapshot: by name, and by number under
    their current names. ``end`` is the end of the log after the snapshot.
    """

    tables: frozenset[TableId] = frozenset()
    found: Mapping[int, Table] = field(default_factory=dict)
    unpublished: frozenset[TableId] = frozenset()
    end: int = 0


class PostgresSchemas:
    """The schemas of one task's tables. Implements ``readers.contract.LogSchemas``. The log thread
    uses it.
    """

    advice = ADVICE

    def __init__(self, connections: Connections, timeline: Timeline, context: TaskContext, *, epoch: int) -> None:
        self._connections = connections
        self._timeline = timeline
        self._context = context
        self._epoch = epoch
        self.numbers: dict[int, TableId] = {}
        """Captured tables by their numbers in the log."""
        self._of_tables: dict[TableId, int] = {}
        self._newest: dict[int, Table] = {}
        """Tables as they were seen last, by number, whatever their names are now."""
        self._asked = _Asked()
        self._looked_at: Position = (0, 0)
        """Position where the log ended when the catalog was compared with the history. The effect
        of an earlier statement may have been undone by another one.
        """
        self.joining: set[TableId] = set()
        """Tables that have joined since the log was last read on. They may be new to the
        publication.
        """
        self.returning: set[TableId] = set()
        """Tables, found since the log was last read on, that were in no log for a while."""
        self._shown: tuple[Position, int] = (0, 0), 0
        """Position and table number of the last Relation message."""

    def know(self, tables: Mapping[int, Table], *, put_back: AbstractSet[TableId] = frozenset()) -> None:
        """Take the captured tables that the catalog has now, by number. The history takes
        precedence, since the log begins where it ends. ``put_back`` are tables that this start has
        added to the publication; they are dumped because they count as joined.
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
                # The table was dropped or renamed. The log shows that only with a next row, which
                # may never come.
                self._connections.doubts.add(table_id)
        self._compare(tables)
        self._looked_at = sequence_of(epoch=self._epoch, lsn=self._log_end())

    def _compare(self, tables: Mapping[int, Table]) -> None:
        """Compare the catalog's current tables with what is known of them."""
        for number, table in tables.items():
            known = self._timeline.current_table(table.id)
            if number not in self.numbers and table.id not in self._of_tables:
                self._number(number, table.id)
                self._newest.setdefault(number, table)
            elif self.numbers.get(number) != table.id:
                # It has got another table's name, or lost its own.
                self._connections.doubts.add(self.numbers.get(number, table.id))
            elif known is None:
                continue
            elif known != table or interruption(known, table) or has_other_files(known, table) or lost_partitions(known, table):
                # A statement changed it that the log still has, or that no row follows.
                self._connections.doubts.add(table.id)
            else:
                self._timeline.refresh(kept_entries(known, table))

    def _number(self, number: int, table: TableId) -> None:
        self.numbers[number] = table
        self._of_tables[table] = number

    def number_of(self, table: TableId) -> int | None:
        """Return a table's number in the log; None if it is not known."""
        return self._of_tables.get(table)

    # ---- the contract

    def read_table_map(self, table_map: Relation) -> tuple[TableId, Seen, Merge]:
        """Return name, columns and key of a Relation message.

        The server sends no new message after the rename of a partitioned table whose rows come
        under its name, because it remembers for each partition that it has sent one. So the name is
        the one that was found for the table's number.
        """
        table = self.numbers.get(table_map.number, TableId(table_map.schema, table_map.name))
        return table, Seen(columns=self._columns(table_map), named=True, complete=True, key=self._key(table, table_map)), merged

    def _key(self, table: TableId, relation: Relation) -> tuple[str, ...] | None:
        """Return the primary key that a Relation message shows; None if the replica identity is
        another. The message has no order of the columns, so the order is that of the known key, or
        of the server's, if that has the same columns.
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
        """Return the changes of tables that the log shows."""
        del text, position
        return changes_of(statement)

    def rewritten(self, changes: Iterable[Change], before: Callable[[TableId], Table | None]) -> dict[TableId, str]:
        """Return the tables whose old rows change without rows in the log, with the reason."""
        del before
        return rewritten(changes)

    def row_change(self, statement: Any, text: str) -> tuple[str, AbstractSet[TableId]] | None:
        """Return None: the log of PostgreSQL has rows and no statements."""
        del statement, text
        return None

    def read_table(self, table: TableId, position: Position, begin: Any) -> Reading:
        """Return the table as the server has it now. What the log holds of it up to there is
        unknown, since the log shows a change only with the next row.
        """
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
        """Return what has changed of a captured table since its last version. Return None if
        nothing has, or if no version of it is known.

        ``resumed`` is the position where the connection's log begins. Messages before it belong to
        a transaction that was taken in part, and are known.
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
        # An earlier connection may have read this very message.
        lookup = self._timeline.lookup_before(position)
        before = None if former is None else lookup(former)
        if before is not None and before.number not in (None, relation.number):
            before = None  # another table has taken its name since
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
                # The message may be newer than the catalog's answer, so the catalog is asked again.
                self._connections.doubts.add(table_id)
        return change

    def _is_shown_beside(self, relation: Relation, position: Position) -> bool:
        """Return True if the message is of a partition whose rows come under its root's name. The
        server sends both messages one after the other, and then a row of the root (pgoutput.c,
        maybe_send_schema). A TRUNCATE of many tables has such messages too, without columns.
        """
        shown, number = self._shown
        self._shown = position, relation.number
        return self._connections.session.by_root and shown == position and number != relation.number

    def _change(
        self, table_id: TableId, before: Table | None, relation: Relation, position: Position
    ) -> RelationChanged | MadeAgain | None:
        columns = self._columns(relation)
        # The table of this number has lost its name to another one, as when two tables swap theirs.
        if before is None:
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
        after = self._context.retrying(lambda: kept_entries(before, self._with_unfilled(before, logged)))
        rewritten = self._context.retrying(lambda: self._rewritten(before, after))
        return RelationChanged(
            before, after, asked=sequence_of(epoch=self._epoch, lsn=self._log_end()), why=rewritten or doubtful, rewritten=bool(rewritten)
        )

    def _log_end(self) -> int:
        end: int = self._context.retrying(lambda: self._connections.live_session().log_end())
        return end

    def _look_behind(self, known: Table, relation: Relation, now: Unshown | None) -> None:
        """Note the table as doubtful if the catalog shows a change that an unchanged Relation
        message hides. A column that was dropped and created again with its name and type, or an
        attached partition, makes the server repeat the message without a difference.
        """
        numbers = {} if now is None else now.numbers
        attached: list[tuple[int, str]] = (
            self._context.retrying(lambda: self._connections.live_session().attached_partitions([relation.number]))
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
        """Return the changes of the tables in doubt, or None. ``at`` must be between two
        transactions.

        They hold from the end of the log at the time when the catalog was asked. All rows of the
        table's earlier form have come by then, because a statement that alters a table waits for
        the transactions that have written to it.
        """
        if doubted := self._connections.doubts.take():
            self._asked = self._context.retrying(lambda: self._ask(doubted | self._asked.tables))
        asked = self._asked
        if not asked.tables or at.in_transaction or at.lsn < asked.end or any(self._has_version(name, position) for name in asked.tables):
            return None
        self._asked = _Asked()
        found: FoundOut | None = self._context.retrying(lambda: self._difference(asked, position))
        return found

    def _has_version(self, table: TableId, position: Position) -> bool:
        """Return True if a change at this position would count as a replay, since the log has not
        moved since the last one was found.
        """
        versions = self._timeline.versions(table)
        return bool(versions) and versions[-1].position >= position

    def _difference(self, asked: _Asked, position: Position) -> FoundOut | None:
        """Return the differences between the history and the catalog. A renamed table keeps its
        history if nothing else uses either name.
        """
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
            # Otherwise it is expected further on, or has to be read again.
            and self.numbers.get(number) != table.id
            and not isinstance(states[table.id], Parked)
        ]
        new = [table.number for table in made if table.number is not None and table.number not in self.numbers]
        unfilled = self._connections.live_session().unfilled(new)
        empty = tuple(table for table in made if table.number in unfilled)
        filled = tuple(table for table in made if table.number not in unfilled)
        for name in gone:
            number = self._of_tables.pop(name, None)
            if number is not None and self.numbers.get(number) == name:
                # A table that comes back, such as a detached partition, is dumped like a new one.
                del self.numbers[number]
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
        """Return the reason why rows may differ from those in the log; None if they do not. Other
        changes of the table say nothing about its rows.
        """
        if not has_other_files(before, now) or not self._connections.live_session().was_rewritten(now):
            return None
        return "all of its rows were rewritten, because it was unlogged for a while, or a statement has given a column other values"

    def _with_unfilled(self, before: Table, now: Table) -> Table:
        """Return the table as it is now, with the partitions noted that were attached since
        ``before`` and have no rows.
        """
        if not (new := set(now.attached) - set(before.attached)):
            return now
        places = {int(place.partition(":")[0]): place for place in new}
        unfilled = self._connections.live_session().unfilled(list(places))
        return replace(now, unfilled=frozenset(places[number] for number in unfilled))

    def _known_number(self, table: Table) -> int | None:
        return self._of_tables.get(table.id) if table.number is None else table.number

    def _ask(self, tables: AbstractSet[TableId]) -> _Asked:
        """Ask the catalog about tables. Names lead to numbers, and numbers to other names, until
        all tables are found that have exchanged names with one of them.
        """
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
        found: Unshown | None = self._context.retrying(lambda: self._connections.live_session().unshown(relation.number))
        return found

    def _as_logged(self, table_id: TableId, before: Table, columns: tuple[Column, ...], relation: Relation, position: Position) -> Table:
        """Return the table with these columns. If the server's current table fits, it is that one
        under this name; otherwise it is built from what is known of each column.
        """
        now: Table | None = self._context.retrying(lambda: self._of_number(relation.number))
        now = None if now is None else replace(now, id=table_id)
        if now is not None and _agree(now.columns, columns) and not _other_key(now, relation):
            return _nullable_once(now, before) if position < self._looked_at else now
        made = tuple(_known_column(column, before, now) for column in columns)
        # Otherwise it is not known if the values were converted.
        file = before.file if _same_types(before.columns, made) else None
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
        """Return the table that has this number on the server now; None if it is gone."""
        session = self._connections.live_session()
        name = session.table_numbers().get(number)
        return None if name is None else session.read_tables(lambda table: table == name).get(number)

    def _columns(self, relation: Relation) -> tuple[Column, ...]:
        """Return the columns as far as the log shows them, which is without NOT NULL."""
        session = self._connections.live_session
        texts = self._context.retrying(lambda: session().type_texts((column.type, column.modifier) for column in relation.columns))
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
    """Return what is known of a column that the log shows. A known column of its name but of
    another type may be another column, so NULL is allowed then.
    """
    known = [column for table in (now, before) if table is not None for column in table.columns if column.name == seen.name]
    agreeing = next((column for column in known if merged(column, seen) is column), None)
    if agreeing is not None:
        return agreeing
    return replace(merged(known[0], seen), nullable=True) if known else seen


def _nullable_once(now: Table, before: Table) -> Table:
    """Return the current table for an older part of the log. There a column may have allowed NULL
    until all rows had a value, except for one that was added with a value in every row.
    """
    known = {column.name: column for column in before.columns}

    def may_be_null(column: Column) -> bool:
        if column.name in now.key:
            return False
        return known[column.name].nullable if column.name in known else not (column.filled or column.has_default)

    return replace(now, columns=tuple(replace(column, nullable=column.nullable or may_be_null(column)) for column in now.columns))


def _same_types(before: tuple[Column, ...], after: tuple[Column, ...]) -> bool:
    """Return True if no column that both have by name has another type."""
    types = {column.name: type_of(column) for column in before}
    return all(types.get(column.name, type_of(column)) == type_of(column) for column in after)


def _other_key(known: Table, relation: Relation) -> bool:
    """Return True if the log shows another key. With REPLICA IDENTITY DEFAULT it flags the columns
    of the primary key, in no order; otherwise those of the index that is the replica identity.
    """
    of_key = {column.name for column in relation.columns if column.of_key}
    return _shows_key(relation) and bool(of_key) and of_key != set(known.key)


def _differs_unseen(known: Table, relation: Relation, now: Unshown) -> bool:
    """Return True if the server's current table differs in something that the log does not show.

    That is: if a column allows NULL; the order of the primary key; if the key still exists although
    the message flags no column (as with a deferrable key); if it is enforced row by row; and with
    another replica identity the whole key.
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
    """Return True if the columns that a Relation message flags are those of the key."""
    return relation.identity in ("d", "i")


def _agree(known: tuple[Column, ...], seen: tuple[Column, ...]) -> bool:
    """Return True if the log shows the table as it is known."""
    return len(known) == len(seen) and all(
        one.name == other.name and merged(one, other) is one for one, other in zip(known, seen, strict=True)
    )


ASKED = "asked"
"""Field of a version's note: ``RelationChanged.asked``."""


def asked_of(note: Mapping[str, object]) -> Position:
    """Return the position of the log's end when the catalog was asked about the version. A message
    up to there that repeats the version may report a change that the version contains already.
    """
    match note.get(ASKED):
        case [int(high), int(low)]:
            return high, low
    return 0, 0
