"""Computes the time up to which everything that Kafka had is in the tables.

Each report of the query has the offsets that Kafka had at a moment, and those that are read. Once
all offsets of a report are read, everything that Kafka had at its moment is read. So the answer is
the time of the newest report whose offsets are read, at any rate of records and without asking
Kafka. Records that have landed and wait for their merge hold the answer back to the time of their
landing.

A topic that is deleted or recreated is never read to its former offsets. So a partition that is
missing in a report, or ends earlier than in the report before, no longer counts in older reports.
Its unread records are lost, and reported as such elsewhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

Offsets = Mapping[str, Mapping[int, int]]
"""Offsets by topic and partition before which everything exists, or is read."""

_REPORTS_MAX = 64


class AppliedUpTo:
    """The time up to which tables are complete, computed from reports in the order of their times.

    It is never before the job's start, before which nothing is known.
    """

    def __init__(self, *, began_s: float) -> None:
        self._read_s = began_s
        self._unread: deque[tuple[float, Offsets]] = deque()

    def reported(self, at_s: float, *, there: Offsets, read: Offsets, landed_s: float | None) -> float:
        """Take in a report of the offsets that were ``there`` at ``at_s``, and return the time.

        ``landed_s`` is when the oldest waiting rows landed, None if none wait.
        """
        if self._unread and (gone := _gone(self._unread[-1][1], there)):
            self._unread = deque((then_s, _without(gone, ends)) for then_s, ends in self._unread)
        self._unread.append((at_s, there))
        while self._unread and _covers(read, self._unread[0][1]):
            self._read_s = max(self._read_s, self._unread.popleft()[0])
        # After a long lag: drop the report that adds least to its neighbours.
        if len(self._unread) > _REPORTS_MAX:
            gaps = [self._unread[at + 1][0] - self._unread[at - 1][0] for at in range(1, len(self._unread) - 1)]
            del self._unread[1 + gaps.index(min(gaps))]
        return self._read_s if landed_s is None else min(self._read_s, landed_s)


def _covers(read: Offsets, there: Offsets) -> bool:
    return all(read.get(topic, {}).get(partition, 0) >= offset for topic, ends in there.items() for partition, offset in ends.items())


def _gone(before: Offsets, now: Offsets) -> set[tuple[str, int]]:
    """Return partitions that no longer exist or were recreated; Kafka's offsets only rise."""
    return {
        (topic, partition)
        for topic, ends in before.items()
        for partition, end in ends.items()
        if now.get(topic, {}).get(partition, -1) < end
    }


def _without(gone: set[tuple[str, int]], there: Offsets) -> Offsets:
    return {topic: {partition: end for partition, end in ends.items() if (topic, partition) not in gone} for topic, ends in there.items()}
