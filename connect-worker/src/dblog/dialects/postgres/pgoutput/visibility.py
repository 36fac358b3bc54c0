"""What a snapshot shows of what the log has: the rule that keeps a chunk from going back in time on PostgreSQL. # I2

A transaction is logged before it is visible: its commit record is written and flushed, a synchronous standby may be waited for, and only then do snapshots show
it (xact.c, RecordTransactionCommit; procarray.c, ProcArrayEndTransaction). So a chunk's snapshot, though it shows the low watermark, may lack a transaction
that the log has in front of that watermark: its rows have been sent, and the chunk has them as they were before. Such a chunk is read again.

A transaction that was logged in an earlier run is not known here. So those that are under way when a run begins are in doubt until a snapshot shows them, or
the log has them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass

from dblog.core.timeline import Position

RECENT_MAX = 65_536
"""Transactions whose tables are remembered. Of older ones that no snapshot has shown yet only the numbers are."""

RANGES_MAX = 100_000
"""Of numbers of older ones: between two of them stands one that is under way, or was rolled back."""

_XID_BITS = 32


@dataclass(frozen=True, slots=True)
class Snapshot:
    """pg_current_snapshot() (PostgreSQL manual, 9.27.6): transactions below ``xmin`` are over, those from ``xmax`` on had not begun, of those in between
    ``under_way`` were not over. Numbers have 64 bits.
    """

    xmin: int
    xmax: int
    under_way: frozenset[int]

    @classmethod
    def of(cls, text: str) -> Snapshot:
        """From the server's text, ``xmin:xmax:xip,...``."""
        xmin, xmax, under_way = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(int(one) for one in under_way.split(",") if one))

    def shows(self, transaction: int) -> bool:
        """Whether it shows what the transaction has done, if that was committed."""
        return transaction < self.xmin or (transaction < self.xmax and transaction not in self.under_way)

    def shows_xid(self, xid: int) -> bool:
        """The same of a transaction by the 32 bits that the log has of its number."""
        return self.shows(whole(xid, near=self.xmax))


def whole(xid: int, *, near: int) -> int:
    """The number of 64 bits that ends in these 32 and is nearest to ``near``."""
    found = near >> _XID_BITS << _XID_BITS | xid
    half = 1 << _XID_BITS - 1
    if found > near + half:
        return found - (1 << _XID_BITS)
    return found + (1 << _XID_BITS) if found < near - half else found


class Logged:
    """The transactions that a run has read from the log, as far as a snapshot may lack them: the reference implementation of ``_fast.FastLogged``. The log
    thread alone uses it.

    ``begin``: a snapshot that was taken ahead of the first connection to the log.
    """

    def __init__(self, begin: Snapshot) -> None:
        self._newest = begin.xmax
        self._in_doubt = set(begin.under_way)
        self._recent: deque[tuple[int, Position, frozenset[int]]] = deque()
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._overflown = False

    def committed(self, xid: int, position: Position, relations: frozenset[int]) -> None:
        """The log has its commit. ``xid`` has 32 bits; ``relations``: the numbers of the tables that it has changed."""
        transaction = self._whole(xid)
        self._in_doubt.discard(transaction)
        self._recent.append((transaction, position, relations))
        if len(self._recent) > RECENT_MAX:
            oldest, _, _ = self._recent.popleft()
            self._add(oldest)

    def shows(self, shown: Snapshot, relation: int | None, low: Position) -> bool:
        """Whether a chunk of the table that was read in this snapshot shows all that the log has of it in front of ``low``. ``relation`` None: its number is
        not known, so any transaction counts.
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
        """The number of 64 bits that is nearest to the newest known one."""
        found = whole(xid, near=self._newest)
        self._newest = max(self._newest, found)
        return found

    def _forget(self, xmin: int) -> None:
        """Every snapshot from now on shows what is below."""
        self._in_doubt = {one for one in self._in_doubt if one >= xmin}
        self._recent = deque(note for note in self._recent if note[0] >= xmin)
        keep = bisect_right(self._ends, xmin)
        del self._starts[:keep], self._ends[:keep]
        if self._overflown and not self._starts:
            self._overflown = False

    def _add(self, transaction: int) -> None:
        """To the ranges [start, end) of old ones."""
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
        """Whether an old one is not below this number: the snapshot is older than the log thread's reading."""
        return bool(self._ends) and self._ends[-1] > transaction
