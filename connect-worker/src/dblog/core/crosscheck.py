"""Compares the schema that would decode an event with what the log shows of the table at that event
(D8, I4).

Every rows event follows a table map. With full metadata it carries names, signedness, charsets,
members and the primary key. Without, it carries types and a count, which is enough to notice most
disagreements.

A disagreement is reported and not repaired here: the schema comes from the server or from the DDL
statements, each server counts the log's metadata in its own way, and the caller finds out which
side is wrong. The log adds only columns that nobody declared, which neither the server nor a
statement shows. A table is never decoded with columns that do not fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dblog.model import Column, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The columns of one table as far as the log alone shows them, one for each column that the log
    carries.

    ``named`` is True if the columns have names (full metadata); otherwise their names are empty.
    ``key`` holds the names of the key columns; None if the log does not name them.
    """

    columns: Sequence[Column]
    named: bool
    key: tuple[str, ...] | None = None
    is_table: bool = True
    """False if the rows in the log are not those of a table (MariaDB logs the state of a sequence
    as rows).
    """
    complete: bool = True
    """True if the log shows how the bytes of every column are read, so that a table can be built
    from the log alone. Meaningful only if ``named``.
    """
    hidden_behind: Callable[[Table], int] = lambda _: 0
    """Function that returns the number of undeclared columns that the log carries after the table's
    own columns. Called only if the columns have no names.
    """


@dataclass(frozen=True, slots=True)
class Agreed:
    """Verdict: decode with the table as it is."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """Verdict: decode with ``table`` and keep it. It is the known table plus hidden columns that
    only the log shows; ``reasons`` name them.
    """

    table: Table
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Verdict: do not decode with the known table, because the log contradicts it.

    ``in_log`` is the table as the log shows it, with the facts of the known table that the log
    cannot express. None if the log names no columns.
    """

    reason: str
    in_log: Table | None = None


Verdict = Agreed | Repaired | Mismatch


def cross_check(table: Table, seen: Seen, merge: Callable[[Column, Column], Column]) -> Verdict:
    """Compare ``table`` with the columns that the log shows.

    ``merge`` is the dialect's function of a known column and the one seen in the log. It returns
    the known column itself if they agree. Otherwise it returns the column to decode with: the seen
    one, plus those facts of the known one that the log cannot express and that still hold.
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
    """Return True if the columns differ only in members of an ENUM or SET that the server's catalog
    shows with question marks. The catalog has no characters beyond the basic multilingual plane.
    """
    shown = tuple(_BEYOND_BASIC_PLANE.sub("?", member) for member in merged.members)
    return shown == column.members and replace(merged, members=column.members, type_text=column.type_text) == column


def _with_tail(verdict: Verdict, table: Table, tail: tuple[Column, ...]) -> Verdict:
    if not isinstance(verdict, Agreed):
        return verdict
    return Repaired(replace(table, columns=(*table.columns, *tail)), (f"{len(tail)} hidden columns follow the declared ones",))


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
