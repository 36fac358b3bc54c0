"""Finds out whether a statement changes the order of a table's key. A running dump reads in key
order; after such a statement, rows that it has passed may come before unread ones.

Only the key's columns count, by what decides their order: type, charset, collation and the members
of an ENUM or SET. Members added at the end move no row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from dblog.core.changes import AlterTable, Change, Unknown
from dblog.model import Column, Table, TableId


def reordered(changes: Iterable[Change], before: Callable[[TableId], Table | None]) -> Iterator[TableId]:
    """Yield the tables whose key order one statement changes, or may change. ``before`` returns a
    table as it was just before the statement.
    """
    for change in changes:
        match change:
            case AlterTable(id_, table) if table.id == id_:
                old = before(id_)
                if old is not None and not sorts_alike(old, table):
                    yield id_
            case Unknown(ids):
                yield from ids
            case _:
                pass


def sorts_alike(old: Table, new: Table) -> bool:
    """Return True if rows have the same order by the keys of both tables."""
    return old.key == new.key and all(_alike(old.column(name), new.column(name)) for name in new.key)


def _alike(old: Column | None, new: Column | None) -> bool:
    if old is None or new is None:
        return False
    return (old.type, old.charset, old.collation) == (new.type, new.charset, new.collation) and new.members[
        : len(old.members)
    ] == old.members
