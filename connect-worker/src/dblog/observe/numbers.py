"""Flat names for the numbers that a task reports to /metrics, and the collectors that the task
fills once a batch.

A task reports a flat mapping from names to numbers. Label values follow the name, separated by
bars, in the order declared in ``observe/declared.py``: ``events_total|create``. A histogram's
buckets are numbers too, with the bound as the last value. Only one thread may fill a collector;
others may read it meanwhile.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 21600.0)
"""Histogram bounds for durations of milliseconds up to the hours of a catch-up."""

OTHER = "other"
"""Label value that stands for all values beyond the limit."""

SUM = "sum"
INFINITE = "+Inf"


def named(name: str, *labels: str) -> str:
    """Return the flat name of a number with labels."""
    return "|".join((name, *labels))


def parted(flat: str, labels: int) -> tuple[str, list[str]]:
    """Split a flat name into the metric's name and its ``labels`` label values.

    The last value may contain bars.
    """
    name, *values = flat.split("|", labels)
    return name, values


class Histogram:
    """Counts of values up to each bound, and the sum of all values."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value. A negative value, from clocks that differ, counts as zero."""
        value = max(0.0, value)
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def numbers(self, name: str, *labels: str) -> dict[str, float]:
        """Return the buckets and the sum as a task's numbers. Empty before the first value."""
        out: dict[str, float] = {}
        total = 0
        for bound, count in zip((*map(str, self._bounds), INFINITE), self._counts, strict=True):
            total += count
            out[named(name, *labels, bound)] = float(total)
        out[named(name, *labels, SUM)] = self._sum
        return out if total else {}


class Counts:
    """Counters by label value.

    Beyond ``values_max`` values, new ones are counted together as other.
    """

    __slots__ = ("_counts", "_values_max")

    def __init__(self, values_max: int) -> None:
        self._values_max = values_max
        self._counts: dict[str, int] = {}

    def add(self, value: str, number: int = 1) -> None:
        """Add ``number`` to the counter of ``value``."""
        counts = self._counts
        if value in counts:
            counts[value] += number
        elif self._values_max:
            value = value if len(counts) < self._values_max else OTHER
            counts[value] = counts.get(value, 0) + number

    def numbers(self, name: str, *labels: str) -> dict[str, float]:
        """Return the counters as a task's numbers, with the counted value as the last label."""
        return {named(name, *labels, value): float(count) for value, count in dict(self._counts).items()}


class Recent:
    """Mean, maximum and rate of the values added recently: during the last 30 to 60 seconds, or the
    last one to two times ``half_s``.
    """

    HALF_S = 30.0

    __slots__ = ("_began_s", "_half_s", "_now", "_was")

    def __init__(self, now_s: float, half_s: float = HALF_S) -> None:
        self._half_s = half_s
        self._began_s = now_s
        self._was = [0.0, 0.0, 0.0]
        self._now = [0.0, 0.0, 0.0]
        """Number, sum and maximum."""

    def add(self, value: float, now_s: float) -> None:
        """Add a value."""
        self._turn(now_s)
        half = self._now
        half[0] += 1
        half[1] += value
        half[2] = max(half[2], value)

    def greatest(self, now_s: float) -> float:
        """Return the maximum, or 0 without values."""
        self._turn(now_s)
        return max(self._was[2], self._now[2])

    def mean(self, now_s: float) -> float:
        """Return the mean, or 0 without values."""
        self._turn(now_s)
        count = self._was[0] + self._now[0]
        return (self._was[1] + self._now[1]) / count if count else 0.0

    def rate(self, now_s: float) -> float:
        """Return the sum per second."""
        self._turn(now_s)
        over_s = self._half_s + now_s - self._began_s if self._was[0] else now_s - self._began_s
        return (self._was[1] + self._now[1]) / max(over_s, 1.0)

    def _turn(self, now_s: float) -> None:
        if now_s - self._began_s >= self._half_s:
            fresh = now_s - self._began_s < 2 * self._half_s
            self._was = self._now if fresh else [0.0, 0.0, 0.0]
            self._now = [0.0, 0.0, 0.0]
            self._began_s = now_s if not fresh else self._began_s + self._half_s


REGISTRY_REQUESTS = Counts(4)
KAFKA_ERRORS = Counts(100)
"""Errors of this process's Kafka clients, by name. Like the log levels, both counters are global: a
task has a process of its own, and clients are created in many places.
"""


def share_below(ordered: Sequence[float], share: float) -> float:
    """Return the quantile ``share`` (0 to 1) of sorted values, or 0 if there are none."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
