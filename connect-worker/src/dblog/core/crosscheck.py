"""Does the schema we would decode with agree with what the log shows of the table at this event? (D8, I4)

Every rows event follows a table map. With full metadata it carries names, signedness, charsets, members and the primary key; without, types and a
count, which is enough to notice most disagreements. Either way a disagreement is reported, and nothing is put right here: the schema comes from the
server or from the statements that made it, each server counts the log's metadata in its own way, and the caller finds out which of them is wrong. The
log fills in only what neither of the others can know: columns that nobody declared. A table is never decoded with columns that do not fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dblog.model import Column, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the log shows of one table: a column for each that it carries, as far as the log alone shows it.

    ``named``: the columns have names (full metadata); otherwise their names are empty. ``key``: the names of the key columns, None when the log does not
    name them.
    """

    columns: Sequence[Column]
    named: bool
    key: tuple[str, ...] | None = None
    is_table: bool = True
    """False: what the log shows as rows is something else (MariaDB logs a sequence's state that way)."""
    complete: bool = True
    """With ``named``: the log shows of every column how its bytes are read, so a table could be made from the log alone."""
    hidden_behind: Callable[[Table], int] = lambda _: 0
    """How many columns that nobody declared the log carries behind a table's own; asked where they have no names."""


@dataclass(frozen=True, slots=True)
class Agreed:
    """Decode with the table as it is."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """Decode with this table, and keep it: the one we hold, with the hidden columns that only the log shows; ``reasons`` name them."""

    table: Table
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The table must not be used as it is: the log contradicts it.

    ``in_log``: the table as the log shows it, completed by what the log cannot express; None where the log names no columns.
    """

    reason: str
    in_log: Table | None = None


Verdict = Agreed | Repaired | Mismatch


def cross_check(table: Table, seen: Seen, merge: Callable[[Column, Column], Column]) -> Verdict:
    """Compare ``table`` with what the log shows.

    ``merge`` (the dialect's) takes a known column and the seen one and returns the known one itself if they agree, else the column to
    decode with: the seen one with everything of the known one that the log cannot express and that still holds.
    """
    if not seen.named:
        return _by_position(table, seen, merge)
    reasons: list[str] = []
    hidden: list[str] = []
    columns: list[Column] = []
    known = {column.name.lower(): column for column in table.columns}
    for found in seen.columns:
        column = known.get(found.name.lower())
        if column is None:
            (hidden if found.hidden else reasons).append(f"column {found.name} is new")
            columns.append(found)
            continue
        merged = merge(column, found)
        if merged != column:
            differences = hidden if _fills_in(column, merged) else reasons
            differences.append(
                f"column {column.name} is {merged.type_text}{'' if merged.nullable else ' NOT NULL'}, not {column.type_text}"
            )
        columns.append(merged)
    names = [column.name for column in columns]
    declared = [column.name for column in table.columns if not column.hidden]
    gone = [column for column in table.columns if column.name not in names]
    for column in gone:
        (hidden if column.hidden else reasons).append(f"column {column.name} is gone")
    if not reasons and not hidden and names != [column.name for column in table.columns]:
        reasons.append("the columns are in another order")
    key, primary = table.key, table.primary_key
    if seen.key is not None and seen.key != key:
        reasons.append(f"the key is ({', '.join(seen.key)})")
        key, primary = seen.key, True
    elif not set(key) <= set(names):
        reasons.append("a key column is gone")
        key, primary = (), False
    if not reasons and not hidden:
        return Agreed()
    in_log = replace(table, columns=tuple(columns), key=key, primary_key=primary)
    if not reasons and [name for name in names if name in declared] == declared:
        return Repaired(in_log, tuple(hidden))
    return Mismatch(f"the log contradicts the schema of {table.id}: {'; '.join((*reasons, *hidden))}", in_log)


_BEYOND_BASIC_PLANE = re.compile("[\U00010000-\U0010ffff]")


def _fills_in(column: Column, merged: Column) -> bool:
    """Whether the log differs only in members that the server's catalog shows with question marks: it has no characters beyond the basic plane."""
    shown = tuple(_BEYOND_BASIC_PLANE.sub("?", member) for member in merged.members)
    return shown == column.members and replace(merged, members=column.members, type_text=column.type_text) == column


def _with_tail(verdict: Verdict, table: Table, tail: tuple[Column, ...]) -> Verdict:
    if not isinstance(verdict, Agreed):
        return verdict
    return Repaired(replace(table, columns=(*table.columns, *tail)), (f"{len(tail)} hidden columns stand behind the declared",))


def _by_position(table: Table, seen: Seen, merge: Callable[[Column, Column], Column]) -> Verdict:
    hidden = len(seen.columns) - len(table.columns)
    if hidden > 0 and hidden == seen.hidden_behind(table):
        tail = tuple(replace(column, name=f"hidden {at}", hidden=True) for at, column in enumerate(seen.columns[-hidden:], start=1))
        return _with_tail(_by_position(table, replace(seen, columns=seen.columns[:-hidden]), merge), table, tail)
    if hidden != 0:
        return Mismatch(f"{table.id} has {len(table.columns)} columns as we know it and {len(seen.columns)} in the log")
    for at, (column, found) in enumerate(zip(table.columns, seen.columns, strict=True), start=1):
        merged = merge(column, replace(found, name=column.name))
        if merged != column:
            return Mismatch(
                f"column {at} of {table.id}, {column.name}, is {column.type_text} as we know it and {merged.type_text} in the log"
            )
    return Agreed()
