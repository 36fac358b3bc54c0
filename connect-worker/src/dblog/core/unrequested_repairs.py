"""Decides which tables the connector may repair without a request.

A repair removes every row from the lake that the table does not have, whatever the reason. After a
gap in the log, that is how the deletes of the gap arrive. But ``skipped.operations`` may keep rows
in the lake on purpose, and a repair would remove those too:

- With ``d`` the lake keeps deleted rows: there is no repair without a request.
- With ``t``, the default, it keeps rows that a statement removed (``core/removals.py``). A table
  that is known to have lost rows that way is not repaired until a requested repair has read it.

Rows that a statement removed inside the gap are in no log, so nobody knows of them: they leave the
lake together with the deleted ones.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from dblog.model import TableId


@dataclass(frozen=True, slots=True)
class UnrequestedRepairs:
    """The rule about unrequested repairs of one connector."""

    keeps_deletes: bool
    """True if deleted rows must stay in the lake (``skipped.operations`` with d)."""
    keeps_removals: bool
    """True if rows that a statement removed without logging them must stay in the lake
    (``skipped.operations`` with t).
    """

    @classmethod
    def skipping(cls, operations: Collection[str]) -> UnrequestedRepairs:
        """Return the rule for these ``skipped.operations``."""
        return cls("d" in operations, "t" in operations)

    @property
    def of_removals(self) -> bool:
        """True if a repair may remove from the lake the rows that a statement has just removed from
        their table.
        """
        return not (self.keeps_deletes or self.keeps_removals)

    def allows(self, table: TableId, removed: Collection[TableId]) -> bool:
        """Return True if the table may be repaired. ``removed`` are the tables whose removed rows
        are still in the lake.
        """
        return not self.keeps_deletes and not (self.keeps_removals and table in removed)
