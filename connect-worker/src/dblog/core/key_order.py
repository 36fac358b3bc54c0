"""Whether a statement changes the order of a table's key: a dump under way goes by that order, and rows behind its frontier may stand in front of it then.

Only columns of the key count, by what sorts them: type, charset, collation and the members of an ENUM or SET. More members at the end move none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from dblog.core.changes import AlterTable, Change, Unknown
from dblog.model import Column, Table, TableId


def reordered(changes: Iterable[Change], before: Callable[[TableId], Table | None]) -> Iterator[TableId]:
    """The tables whose keys sort otherwise behind one statement, or may. ``before``: the tables as they were just before it."""
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
    """Whether rows stand in the same order by the key of both."""
    return old.key == new.key and all(_alike(old.column(name), new.column(name)) for name in new.key)


def _alike(old: Column | None, new: Column | None) -> bool:
    if old is None or new is None:
        return False
    return (old.type, old.charset, old.collation) == (new.type, new.charset, new.collation) and new.members[
        : len(old.members)
    ] == old.members
