"""Decides which tables the connector may repair without a request.

A repair takes every row out of the lake that the table does not have, and cannot tell why it has none.
After a gap of the log that is what brings the deletes of the gap. But ``skipped.operations`` may keep
rows in the lake on purpose, and those would go too:

- With ``d`` the lake keeps what was deleted: no repair without a request.
- With ``t``, the default, it keeps what a statement took away (``core/removals.py``): no repair of a
  table that is known to have lost rows so, until one that was asked for has read it.

Rows that a statement took away inside the gap are in no log, so nobody knows of them: they leave with
the deletes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from dblog.model import TableId


@dataclass(frozen=True, slots=True)
class UnaskedRepairs:
    """The rule of one connector."""

    keeps_deletes: bool
    """Whether rows that were deleted are to stay in the lake (``skipped.operations`` with d)."""
    keeps_removals: bool
    """The same of rows that a statement took away without a row in the log (with t)."""

    @classmethod
    def skipping(cls, operations: Collection[str]) -> UnaskedRepairs:
        """Return the rule for these ``skipped.operations``."""
        return cls("d" in operations, "t" in operations)

    @property
    def of_removals(self) -> bool:
        """Whether a repair may take away what a statement has taken from its table just now."""
        return not (self.keeps_deletes or self.keeps_removals)

    def allows(self, table: TableId, removed: Collection[TableId]) -> bool:
        """Return whether the table may be repaired. ``removed``: the tables whose removed rows still stay in the lake."""
        return not self.keeps_deletes and not (self.keeps_removals and table in removed)
