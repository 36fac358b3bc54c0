"""How late the tables are: the time up to which everything that Kafka had is in them.

Each report of the query shows which offsets Kafka had at a moment, and which are read. Once all offsets of a report are read, what Kafka had at that
moment is read. So the time of the newest report whose offsets are read is the answer, at any number of records a second, and without asking Kafka.
What is read and has landed, but waits for its merge, holds the answer back to the moment of its landing.

A topic that is deleted, or made again, is never read to the offsets that it had: a partition that is gone from a report, or that ends earlier in it than
in the one before, counts in no older report. What of it was not read is lost, and is reported as such elsewhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

Offsets = Mapping[str, Mapping[int, int]]
"""By topic and partition, the offset before which everything is there, or is read."""

_REPORTS_MAX = 64


class AppliedUpTo:
    """The moment, from reports in the order of their times. Not earlier than the job's start, before which nothing is known."""

    def __init__(self, *, began_s: float) -> None:
        self._read_s = began_s
        self._unread: deque[tuple[float, Offsets]] = deque()

    def reported(self, at_s: float, *, there: Offsets, read: Offsets, landed_s: float | None) -> float:
        """The moment after a report of what was ``there`` at ``at_s``. ``landed_s``: when the oldest rows landed that wait; None: none do."""
        if self._unread and (gone := _gone(self._unread[-1][1], there)):
            self._unread = deque((then_s, _without(gone, ends)) for then_s, ends in self._unread)
        self._unread.append((at_s, there))
        while self._unread and _covers(read, self._unread[0][1]):
            self._read_s = max(self._read_s, self._unread.popleft()[0])
        if len(self._unread) > _REPORTS_MAX:  # a long time behind: the one that tells least beside its neighbours is left out
            gaps = [self._unread[at + 1][0] - self._unread[at - 1][0] for at in range(1, len(self._unread) - 1)]
            del self._unread[1 + gaps.index(min(gaps))]
        return self._read_s if landed_s is None else min(self._read_s, landed_s)


def _covers(read: Offsets, there: Offsets) -> bool:
    return all(read.get(topic, {}).get(partition, 0) >= offset for topic, ends in there.items() for partition, offset in ends.items())


def _gone(before: Offsets, now: Offsets) -> set[tuple[str, int]]:
    """Partitions that are not there any more, or that are others of the same name: Kafka's offsets only rise."""
    return {
        (topic, partition)
        for topic, ends in before.items()
        for partition, end in ends.items()
        if now.get(topic, {}).get(partition, -1) < end
    }


def _without(gone: set[tuple[str, int]], there: Offsets) -> Offsets:
    return {topic: {partition: end for partition, end in ends.items() if (topic, partition) not in gone} for topic, ends in there.items()}
