"""Decides which delete of an old key would remove a row that another row of the same transaction has become. Pure.

An update of a key is a delete of the old key and a create of the new one. That is right where the server checks the key with each row: no other row can be at
the old key by then. It is wrong where the server checks later, or never: a DEFERRABLE primary key, or message.key.columns that no unique index enforces. Of
``UPDATE t SET id = id + 1`` the log has 1 to 2, then 2 to 3: the row that was at 1 is at 2 when the delete of 2 comes.

So the keys are noted at which a transaction has put rows, with a digest of each such row. A row that leaves such a key is one of these (``UPDATE t SET id = 2
WHERE id = 1``, then ``SET id = 3 WHERE id = 2``), or the row of before, which has other values:

- It has other values: the row that was put there stays, and the delete is left out.
- It has the values of one that was put there, and the last record of the key is of another one that is still there: the delete is left out.
- It has the same values as the last one: it may be the one that was put there, or one of before that is equal in every column. The log does not tell, so the
  table is asked.
- Another row of that key was changed in place meanwhile: the record of that change was the last one of the key. The table is asked, too.

At the end of a transaction a key has one row at most, or its values are no key. # I3
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from enum import Enum, auto

from dblog.codecs.plan import TablePlan
from dblog.model import Table

KEYS_MAX = 100_000
"""Keys of one transaction that are remembered. Beyond them the table is asked for each key that a row leaves. # I6"""


class OldKey(Enum):
    """Name what becomes of the delete of a key that a row has left."""

    DELETED = auto()
    """No other row is there."""
    KEPT = auto()
    """The row that was put there by the transaction is there still, and its record was the last one of the key."""
    ASKED = auto()
    """Only the table shows whether a row is there, and which one."""


@dataclass(slots=True)
class _Put:
    """Rows that the transaction has put at a key."""

    rows: list[bytes] = field(default_factory=list)
    """Digests of those that have not left it."""
    other_left: bool = False
    """The row of before has left it."""
    last: bytes | None = None
    """Digest of the row that the last record of the key shows; None: it is of another row."""
    other_changed: bool = False
    """Another row of the key was changed in place, so that the last record of the key is not of ``rows``."""


class MovedKeys:
    """The keys of one transaction at which it has put rows, of all tables."""

    def __init__(self, *, keys_max: int = KEYS_MAX) -> None:
        self._keys_max = keys_max
        self._put: dict[Hashable, _Put] = {}
        self._is_full = False

    def put(self, key: Hashable, row: bytes) -> None:
        """Note a row that was inserted with the key, or got it by an update. ``key`` begins with the table, ``row`` is a digest of all its values."""
        known = self._put.get(key)
        if known is None:
            if len(self._put) >= self._keys_max:
                self._is_full = True
                return
            known = self._put[key] = _Put()
        known.rows.append(row)
        known.last = row

    def changed(self, key: Hashable, before: bytes | None, after: bytes) -> None:
        """Note an update that leaves the key alone. ``before`` None: the log does not show the row of before."""
        known = self._put.get(key)
        if known is None:
            return
        if before in known.rows:
            known.rows[known.rows.index(before)] = known.last = after
        else:
            known.other_changed, known.last = True, None

    def left(self, key: Hashable, row: bytes | None) -> OldKey:
        """Note a row that was deleted, or got another key, and return what becomes of the delete. ``row`` None: the log does not show all of it."""
        known = self._put.get(key)
        if known is None:
            return OldKey.ASKED if self._is_full else OldKey.DELETED
        if row is None:
            known.other_changed, known.last = True, None
            return OldKey.ASKED
        if row in known.rows:
            known.rows.remove(row)
            if known.last in known.rows:
                return OldKey.KEPT
            if known.other_left and not known.rows and not known.other_changed and not self._is_full:
                return OldKey.DELETED
            return OldKey.ASKED
        known.other_left = True
        if known.other_changed or self._is_full:
            return OldKey.ASKED
        return OldKey.KEPT if known.rows else OldKey.DELETED


def is_enforced_by_row(plan: TablePlan) -> bool:
    """Return whether the server refuses each row whose message key another row has, as it is written. True where a table has no message key.

    An index that is unique at the end of a statement or transaction only is not ``Index.unique``. A table whose indexes are not known counts as enforced.
    """
    return not plan.table.indexes or _is_enforced(plan.table, [plan.table.columns[at].name for at in plan.key])


def is_loose(plan: TablePlan) -> bool:
    """Return whether the message key is one that ``message.key.columns`` gives, and that the server does not enforce row by row. A table without any index
    is loose then.
    """
    key = tuple(plan.table.columns[at].name for at in plan.key)
    return bool(key) and key != plan.table.key and not _is_enforced(plan.table, key)


def _is_enforced(table: Table, key: Collection[str]) -> bool:
    if not key:
        return True
    names = {name.lower() for name in key}
    required = {column.name.lower() for column in table.columns if not column.nullable}
    return any(
        index.unique
        and not index.partial
        and not index.functional
        and bool(index.columns)
        and {name.lower() for name in index.columns} <= names & required
        for index in table.indexes
    )
