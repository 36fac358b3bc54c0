"""Decides for which old keys a delete must be left out because another row of the same transaction
has that key now. Pure.

An update of a key is sent as a delete of the old key and a create of the new one. That is right if
the server checks the key row by row, since no other row can have the old key by then. It is wrong
if the server checks later or never: a DEFERRABLE primary key, or message.key.columns that no unique
index enforces. For ``UPDATE t SET id = id + 1`` the log has 1 to 2, then 2 to 3: when the delete of
2 comes, the row that was at 1 is at 2.

So each key at which a transaction has put rows is noted, with a digest of each such row. A row that
leaves such a key is either one of these (``UPDATE t SET id = 2 WHERE id = 1``, then ``SET id = 3
WHERE id = 2``) or the row that was there before the transaction:

- It has values that no noted row has: the noted row stays, and the delete is left out.
- It has the values of a noted row, and the key's last record shows another noted row that is still
  there: the delete is left out.
- It has the values of the key's last record. It may be the noted row, or an earlier row that is
  equal in every column. The log does not show which, so the table is asked.
- Another row of that key was changed in place meanwhile, so that change is the key's last record.
  The table is asked.

At the end of a transaction a key has at most one row, or the columns are no key. # I3
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from enum import Enum, auto

from dblog.codecs.plan import TablePlan
from dblog.model import Table

KEYS_MAX = 100_000
"""Number of keys of one transaction that are remembered. Beyond it, the table is asked for each key
that a row leaves. # I6
"""


class OldKey(Enum):
    """The decision about the delete of a key that a row has left."""

    DELETED = auto()
    """Send the delete: no other row has the key."""
    KEPT = auto()
    """Leave the delete out: a row that the transaction put there still has the key, and the key's
    last record shows it.
    """
    ASKED = auto()
    """Ask the table: only it shows whether a row has the key, and which one."""


@dataclass(slots=True)
class _Put:
    """The rows that the transaction has put at one key."""

    rows: list[bytes] = field(default_factory=list)
    """Digests of the rows that have not left the key."""
    other_left: bool = False
    """True if the row that was there before the transaction has left the key."""
    last: bytes | None = None
    """Digest of the row that the key's last record shows; None if that is a row not in ``rows``."""
    other_changed: bool = False
    """True if another row of the key was changed in place, so that the key's last record is not one
    of ``rows``.
    """


class MovedKeys:
    """The keys at which one transaction has put rows, for all tables."""

    def __init__(self, *, keys_max: int = KEYS_MAX) -> None:
        self._keys_max = keys_max
        self._put: dict[Hashable, _Put] = {}
        self._is_full = False

    def put(self, key: Hashable, row: bytes) -> None:
        """Note a row that was inserted with the key or got it by an update. ``key`` begins with the
        table; ``row`` is a digest of all the row's values.
        """
        known = self._put.get(key)
        if known is None:
            if len(self._put) >= self._keys_max:
                self._is_full = True
                return
            known = self._put[key] = _Put()
        known.rows.append(row)
        known.last = row

    def changed(self, key: Hashable, before: bytes | None, after: bytes) -> None:
        """Note an update that does not change the key. ``before`` is None if the log does not show
        the old row.
        """
        known = self._put.get(key)
        if known is None:
            return
        if before in known.rows:
            known.rows[known.rows.index(before)] = known.last = after
        else:
            known.other_changed, known.last = True, None

    def left(self, key: Hashable, row: bytes | None) -> OldKey:
        """Note a row that was deleted or got another key, and return the decision about the delete.
        ``row`` is None if the log does not show the whole row.
        """
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
    """Return True if the server refuses, with each row written, a message key that another row has.
    Also return True for a table without a message key.

    An index that is unique only at the end of a statement or transaction is not ``Index.unique``. A
    table whose indexes are unknown counts as enforced.
    """
    return not plan.table.indexes or _is_enforced(plan.table, [plan.table.columns[at].name for at in plan.key])


def is_loose(plan: TablePlan) -> bool:
    """Return True if the message key comes from ``message.key.columns`` and the server does not
    enforce it row by row. That includes a table without any index.
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
