"""Detects a topic's reader that stands still: records are there, the brokers answer, and the reader
has not moved for long.

After a leader's return librdkafka now and then keeps fetching a partition from a broker that is not
its leader (its pull request 5593 describes such a race), without any error: other consumers read
on, and ``poll`` returns nothing forever. A new consumer reads on at once, so every reader that
follows a topic as long as its process runs checks for this.
"""

from __future__ import annotations

from collections.abc import Mapping


class Standstill:
    """The partitions of one reader. Not thread-safe: it belongs to the thread that reads."""

    def __init__(self, *, limit_s: float) -> None:
        self._limit_s = limit_s
        self._behind: dict[int, tuple[int, float]] = {}
        """Offset and time at which each partition was first seen below its end."""

    def seen(self, reached: Mapping[int, int], ends: Mapping[int, int], now_s: float) -> list[int]:
        """Return the partitions that have stayed below their end, at the same offset, for the
        limit.

        ``now_s`` is a monotonic clock's.
        """
        behind: dict[int, tuple[int, float]] = {}
        for partition, end in ends.items():
            offset = reached.get(partition, 0)
            if offset < end:
                known = self._behind.get(partition)
                behind[partition] = known if known is not None and known[0] == offset else (offset, now_s)
        self._behind = behind
        return sorted(partition for partition, (_, since_s) in behind.items() if now_s - since_s >= self._limit_s)

    def forget(self) -> None:
        """Forget earlier observations.

        The ends are unknown now, and a reader is judged only by what it does while the brokers
        answer.
        """
        self._behind = {}
