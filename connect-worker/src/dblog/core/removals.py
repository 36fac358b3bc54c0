"""Finds the tables from which a statement removes rows without logging them, and the clause that
does it.

TRUNCATE, a dropped partition, another table under a known name: the log has the statement and none
of the rows, so their records stay in the topic. A dump in mode ``repair`` removes them from the
lake. A table that is only dropped does not count: nobody expects rows of it. Nor does a table that
comes back as the same table: the rows that it lacks were deleted while no log had it, and the dump
that follows is a repair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dblog.core.changes import AlterTable, Change, CreateTable, DropTable, RenameTable, TruncateTable, Unknown
from dblog.model import Table, TableId

LEFT_MAX = 50_000
"""Number of dropped tables whose names are remembered; the oldest are forgotten first. # I6"""

TRUNCATED = "TRUNCATE"
REPLACED = "another table has its name"
RETURNED = "it was gone, and is there again"
DETACHED = "a partition was detached or dropped"


class Removals:
    """The removals that the statements of one log cause, read in order."""

    def __init__(self) -> None:
        self._left: dict[TableId, None] = {}

    def leave(self, tables: Iterable[TableId]) -> None:
        """Note tables that are gone or were renamed: the next table of that name is another one."""
        for table in tables:
            self._left.pop(table, None)
            self._left[table] = None
        while len(self._left) > LEFT_MAX:
            del self._left[next(iter(self._left))]

    def of(self, changes: Iterable[Change], before: Callable[[TableId], Table | None]) -> dict[TableId, str]:
        """Return the tables from which one statement removes rows, with the reason. ``before``
        returns a table as it was just before the statement.
        """
        found: dict[TableId, str] = {}
        left: set[TableId] = set()

        def had_another(table: TableId) -> bool:
            return table in left or table in self._left

        for change in changes:
            match change:
                case TruncateTable(table_id):
                    found[table_id] = TRUNCATED
                case CreateTable(table) if not change.already and not change.misses:
                    if table.id in self._left:
                        found[table.id] = RETURNED
                    elif table.id in left or (change.replaces and before(table.id) is not None):
                        found[table.id] = REPLACED
                case DropTable(ids):
                    left.update(dropped for dropped in ids if before(dropped) is not None)
                    for dropped in ids:
                        found.pop(dropped, None)
                case RenameTable(pairs):
                    for old, new in pairs:
                        self._rename(old, new, found, left, takes_over=had_another(new) or before(new) is not None)
                case AlterTable(old, table):
                    if table.id != old:
                        self._rename(old, table.id, found, left, takes_over=had_another(table.id))
                    if change.removes is not None:
                        found[table.id] = change.removes
                case Unknown(ids):
                    found |= {spoilt: RETURNED for spoilt in ids if spoilt in self._left}
                case _:
                    pass
        return found

    @staticmethod
    def _rename(old: TableId, new: TableId, found: dict[TableId, str], left: set[TableId], *, takes_over: bool) -> None:
        found.pop(old, None)
        left.add(old)
        if takes_over:
            found[new] = REPLACED
