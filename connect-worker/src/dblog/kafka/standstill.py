"""Whether the reader of a topic stands still: records are there, and it has not moved for long though the brokers answer.

librdkafka leaves a partition with a broker that is not its leader now and then, behind a leader's return (its pull request 5593 describes such a race), without
a word: the brokers answer, other consumers read on, and ``poll`` returns nothing for ever. A new consumer reads on at once, so whoever follows a topic for the
life of a process asks.
"""

from __future__ import annotations

from collections.abc import Mapping


class Standstill:
    """One reader's partitions. Not thread-safe: it belongs to the thread that reads."""

    def __init__(self, *, limit_s: float) -> None:
        self._limit_s = limit_s
        self._behind: dict[int, tuple[int, float]] = {}
        """Where a partition was when it was first seen behind its end, and when that was."""

    def seen(self, reached: Mapping[int, int], ends: Mapping[int, int], now_s: float) -> list[int]:
        """The partitions that have been behind their ends at the same offset for as long as the limit; ``now_s`` is of a monotonic clock."""
        behind: dict[int, tuple[int, float]] = {}
        for partition, end in ends.items():
            offset = reached.get(partition, 0)
            if offset < end:
                known = self._behind.get(partition)
                behind[partition] = known if known is not None and known[0] == offset else (offset, now_s)
        self._behind = behind
        return sorted(partition for partition, (_, since_s) in behind.items() if now_s - since_s >= self._limit_s)

    def forget(self) -> None:
        """Nobody knows the ends now: a reader is judged by what it does while the brokers answer."""
        self._behind = {}
