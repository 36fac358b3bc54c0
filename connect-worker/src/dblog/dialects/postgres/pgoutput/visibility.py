"""Decides if a snapshot shows everything that the log has: the rule that keeps a chunk from going
back in time on PostgreSQL. # I2

A transaction is logged before it is visible. Its commit record is written and flushed, the server
may wait for a synchronous standby, and only then do snapshots show it (xact.c,
RecordTransactionCommit; procarray.c, ProcArrayEndTransaction). So a chunk's snapshot may show the
low watermark and still lack a transaction that the log has before that watermark. The transaction's
rows have been sent, and the chunk has older versions of them. Such a chunk is read again.

Transactions that were logged in an earlier run are not known here. So those that are under way when
a run begins are in doubt until a snapshot shows them or the log has them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass

from dblog.core.timeline import Position

RECENT_MAX = 65_536
"""Number of transactions whose tables are remembered. For older ones that no snapshot has shown
yet, only the numbers are kept.
"""

RANGES_MAX = 100_000
"""Number of ranges of older transactions' numbers. Between two ranges is a transaction that is
under way or was rolled back.
"""

_XID_BITS = 32


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The value of pg_current_snapshot() (PostgreSQL manual, 9.27.6). Transactions below ``xmin``
    are over, those from ``xmax`` on had not begun, and of those in between the ones in
    ``under_way`` were not over. Numbers have 64 bits.
    """

    xmin: int
    xmax: int
    under_way: frozenset[int]

    @classmethod
    def of(cls, text: str) -> Snapshot:
        """Parse the server's text, ``xmin:xmax:xip,...``."""
        xmin, xmax, under_way = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(int(one) for one in under_way.split(",") if one))

    def shows(self, transaction: int) -> bool:
        """Return True if the snapshot shows the changes of the transaction, provided that it
        committed.
        """
        return transaction < self.xmin or (transaction < self.xmax and transaction not in self.under_way)

    def shows_xid(self, xid: int) -> bool:
        """Return True if the snapshot shows a transaction that is given by the 32 bits in the
        log.
        """
        return self.shows(whole(xid, near=self.xmax))


def whole(xid: int, *, near: int) -> int:
    """Return the 64-bit number that ends in these 32 bits and is nearest to ``near``."""
    found = near >> _XID_BITS << _XID_BITS | xid
    half = 1 << _XID_BITS - 1
    if found > near + half:
        return found - (1 << _XID_BITS)
    return found + (1 << _XID_BITS) if found < near - half else found


class Logged:
    """The transactions that a run has read from the log and that a snapshot may lack: the reference
    implementation of ``_fast.FastLogged``. Only the log thread uses it.

    ``begin`` is a snapshot taken before the first connection to the log.
    """

    def __init__(self, begin: Snapshot) -> None:
        self._newest = begin.xmax
        self._in_doubt = set(begin.under_way)
        self._recent: deque[tuple[int, Position, frozenset[int]]] = deque()
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._overflown = False

    def committed(self, xid: int, position: Position, relations: frozenset[int]) -> None:
        """Note that the log has the commit of this transaction. ``xid`` has 32 bits; ``relations``
        are the numbers of the tables that it has changed.
        """
        transaction = self._whole(xid)
        self._in_doubt.discard(transaction)
        self._recent.append((transaction, position, relations))
        if len(self._recent) > RECENT_MAX:
            oldest, _, _ = self._recent.popleft()
            self._add(oldest)

    def shows(self, shown: Snapshot, relation: int | None, low: Position) -> bool:
        """Return True if a chunk of the table, read in this snapshot, shows everything that the log
        has of the table before ``low``. ``relation`` is None if the table's number is unknown; then
        every transaction counts.
        """
        self._newest = max(self._newest, shown.xmax)
        self._forget(shown.xmin)
        if self._overflown or any(not shown.shows(one) for one in self._in_doubt):
            return False
        lacking = [one for one in shown.under_way if self._is_old(one)]
        if lacking or self._has_old_from(shown.xmax):
            return False
        return not any(
            not shown.shows(one) and position < low and (relation is None or relation in relations)
            for one, position, relations in self._recent
        )

    def _whole(self, xid: int) -> int:
        """Return the 64-bit number that is nearest to the newest known one."""
        found = whole(xid, near=self._newest)
        self._newest = max(self._newest, found)
        return found

    def _forget(self, xmin: int) -> None:
        """Drop transactions below ``xmin``, which every snapshot from now on shows."""
        self._in_doubt = {one for one in self._in_doubt if one >= xmin}
        self._recent = deque(note for note in self._recent if note[0] >= xmin)
        keep = bisect_right(self._ends, xmin)
        del self._starts[:keep], self._ends[:keep]
        if self._overflown and not self._starts:
            self._overflown = False

    def _add(self, transaction: int) -> None:
        """Add a transaction to the ranges [start, end) of old ones."""
        if self._is_old(transaction):
            return  # the log was read again
        at = bisect_right(self._starts, transaction)
        joins_left = at > 0 and self._ends[at - 1] == transaction
        joins_right = at < len(self._starts) and self._starts[at] == transaction + 1
        if joins_left and joins_right:
            self._ends[at - 1] = self._ends[at]
            del self._starts[at], self._ends[at]
        elif joins_left:
            self._ends[at - 1] += 1
        elif joins_right:
            self._starts[at] -= 1
        elif len(self._starts) >= RANGES_MAX:
            self._overflown = True
        else:
            self._starts.insert(at, transaction)
            self._ends.insert(at, transaction + 1)

    def _is_old(self, transaction: int) -> bool:
        at = bisect_right(self._starts, transaction) - 1
        return at >= 0 and transaction < self._ends[at]

    def _has_old_from(self, transaction: int) -> bool:
        """Return True if an old transaction has a number from this one on: the snapshot is older
        than the log thread's reading.
        """
        return bool(self._ends) and self._ends[-1] > transaction
