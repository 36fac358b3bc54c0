"""Finds out from a Relation message what has changed. The log of PostgreSQL has no DDL, only the
columns of the rows that follow.

A new column was added, or another column has its name now; a missing one was dropped or renamed. If
columns are both new and missing, the rows must be read again, because the log does not show which
values moved where.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dblog.core.changes import AlterTable, Change, CreateTable, DropTable, RenameTable, TruncateTable
from dblog.core.removals import DETACHED
from dblog.core.timeline import Position
from dblog.dialects.postgres.pgoutput.interruptions import interruption, lost_partitions
from dblog.model import Column, Table, TableId

_WIDENED = frozenset({"varchar", "varbit"})
"""Types whose values stay the same if the length changes: an ALTER fails if a value is too long."""


ATTACHED = "a partition was attached, with its rows"


@dataclass(frozen=True, slots=True)
class RelationChanged:
    """A table before and after a change of its columns. A different id means that the table was
    renamed.
    """

    before: Table
    after: Table
    asked: Position | None = None
    """Position of the log's end when the catalog showed more of ``after`` than the log does. That
    part may come from a statement between this change and there.
    """
    why: str | None = None
    """Reason why old rows may have changed although the log shows the table as it was; None if
    there is none.
    """
    rewritten: bool = False
    """True if a statement rewrote all rows."""

    @property
    def misses(self) -> bool:
        """True if changes of rows, deletes included, may be in no log, because the publication
        lacked the table or it was unlogged for a while. A rewrite that a new or altered column
        explains does not count.
        """
        return interruption(self.before, self.after) is not None or (self.rewritten and not _explains_files(self.before, self.after))


@dataclass(frozen=True, slots=True)
class MadeAgain:
    """A table that replaced another one of the same name: the one before was dropped with its
    rows.
    """

    table: Table
    returns: bool = False
    """True if it is the same table, which the log did not have for a while: changes made in that
    time are in no log.
    """


@dataclass(frozen=True, slots=True)
class FoundOut:
    """Changes of tables that the log does not show. Changes found at one moment count as one
    statement, since a name has one version at each position: after two tables have swapped names,
    each is another table under its name.
    """

    gone: tuple[TableId, ...]
    made: tuple[Table, ...]
    changed: tuple[RelationChanged, ...]
    empty: tuple[Table, ...] = ()
    """New tables without rows; the log brings all of their rows."""
    returned: frozenset[TableId] = frozenset()
    """Tables of ``made`` that the connector had before under the same names: changes made in the
    meantime are in no log.
    """


@dataclass(frozen=True, slots=True)
class Truncated:
    """The tables that one TRUNCATE has emptied."""

    tables: tuple[TableId, ...]


def changes_of(statement: RelationChanged | MadeAgain | FoundOut | Truncated) -> list[Change]:
    """Return the statement as changes of tables."""
    match statement:
        case MadeAgain(table, returns):
            return [DropTable((table.id,)), CreateTable(table, with_rows=True, misses=returns)]
        case FoundOut(gone, made, changed, empty, returned):
            kept = [change for one in changed for change in changes_of(one)]
            filled = [CreateTable(table, with_rows=True, joins=True, misses=table.id in returned) for table in made]
            return [*kept, *([DropTable(gone)] if gone else []), *filled, *map(CreateTable, empty)]
        case Truncated(tables):
            return [TruncateTable(table) for table in tables]
        case RelationChanged(before, after):
            renamed: list[Change] = [RenameTable(((before.id, after.id),))] if before.id != after.id else []
            removes = DETACHED if lost_partitions(before, after) else None
            if replace(before, id=after.id) == after and statement.why is None and removes is None and interruption(before, after) is None:
                return renamed
            why = (
                rewrites(before.columns, after.columns)
                or _other_key(before, after)
                or _more_rows(before, after)
                or _filled(before, after)
                or _converted(before, after)
                or interruption(before, after)
                or statement.why
            )
            return [*renamed, AlterTable(after.id, after, rewrites=why, removes=removes, misses=statement.misses)]


def _other_key(before: Table, after: Table) -> str | None:
    if after.key and after.key != before.key:
        return f"its rows are distinguished by {', '.join(after.key)} instead of {', '.join(before.key) or 'nothing'}"
    return None


def _more_rows(before: Table, after: Table) -> str | None:
    """Return the reason if rows have come that no log has: a newly attached partition brought
    them.
    """
    return ATTACHED if set(after.attached) - set(before.attached) - after.unfilled else None


def _filled(before: Table, after: Table) -> str | None:
    """Return the reason if a column was added with a value in every row. The default may be gone by
    now, so that nothing else shows it.
    """
    known = {column.name for column in before.columns}
    new = [column for column in after.columns if column.name not in known]
    anew = None not in (before.file, after.file) and before.file != after.file
    filled = next((column.name for column in new if column.filled or anew), None)
    return None if filled is None else f"column {filled} was added with a value in every row"


def _converted(before: Table, after: Table) -> str | None:
    """Return the reason if a column's values may have been converted.

    One statement may give a column another type or length and other values (ALTER TYPE ... USING).
    The server then rewrites all rows into another file. Each table must have its file from the same
    read as its columns.
    """
    if before.file is not None and before.file == after.file:
        return None
    old = {column.name: column for column in before.columns}
    for column in after.columns:
        known = old.get(column.name, column)
        if type_of(known) != type_of(column):
            return f"column {column.name} was {known.type_text} and is {column.type_text}, and its values may have been converted"
    return None


def _explains_files(before: Table, after: Table) -> bool:
    """Return True if a column is new or has another type. For both the server may rewrite all
    rows.
    """
    old = {column.name: column for column in before.columns}

    def is_other(column: Column) -> bool:
        known = old.get(column.name)
        return (
            known is None
            or type_of(known) != type_of(column)
            or (None not in (known.number, column.number) and known.number != column.number)
        )

    return any(map(is_other, after.columns))


def type_of(column: Column) -> tuple[str, int | None, str]:
    """Return the properties that ALTER TYPE changes."""
    return column.type, column.length, column.type_text


def rewrites(before: Sequence[Column], after: Sequence[Column]) -> str | None:
    """Return the reason why old rows changed without a row in the log; None if they did not."""
    old = {column.name: column for column in before}
    new = [column for column in after if column.name not in old]
    gone = set(old) - {column.name for column in after}
    if new and gone:
        return f"column {new[0].name} is new and others are gone, so it may be one of them under another name"
    for column in new:
        if column.generated:
            return f"column {column.name} is computed in every row"
        if column.has_default and not (column.default is None and not column.default_is_expression):
            return f"column {column.name} has its default in every row"
        if not column.nullable:
            return f"column {column.name} is NOT NULL, so every row has a value in it"
    for column in after:
        known = old.get(column.name)
        if known is not None and None not in (known.number, column.number) and known.number != column.number:
            return f"column {column.name} is another one than before, which was dropped or has another name"
        if known is not None and not same_values(known, column):
            return f"column {column.name} was {known.type_text} and is {column.type_text}"
    return None


def same_values(before: Column, after: Column) -> bool:
    """Return True if every value reads as before."""
    if before.type != after.type:
        return {before.type, after.type} == {"varchar", "text"}
    if before.type in _WIDENED:
        return True
    # An enum, a composite type or a domain may be another one of the same kind, so its text must
    # match too.
    return (before.length, before.scale, before.type_text) == (after.length, after.scale, after.type_text)


def merged(known: Column, seen: Column) -> Column:
    """Return the known column if the log agrees with it, else the one seen in the log
    (``readers.contract.Merge``). The log shows the declared type and its modifier, but neither NULL
    nor members.
    """
    if (known.type, known.length, known.scale, known.type_text) == (seen.type, seen.length, seen.scale, seen.type_text):
        return known
    return replace(seen, nullable=known.nullable, comment=known.comment, number=known.number)


def rewritten(changes: Iterable[Change]) -> dict[TableId, str]:
    """Return the tables whose old rows have changed without rows in the log, with the reason."""
    found: dict[TableId, str] = {}
    for change in changes:
        match change:
            case AlterTable(_, table, reason) if reason is not None:
                found[table.id] = reason
            case CreateTable(table) if change.with_rows:
                found[table.id] = "it was made again"
            case RenameTable(pairs):
                for old, new in pairs:
                    found[new] = f"it was {old}"
            case _:
                pass
    return found
