"""Numbers of a task on their way to /metrics: their flat names, and the few shapes that are filled once a batch.

A task reports a flat mapping from names to numbers. A name with labels has their values behind it, in the order in which
``observe/declared.py`` has the labels: ``events_total|create``. A histogram's buckets are numbers too, with their bound as the last value.
One thread fills a shape; others may read it meanwhile.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 21600.0)
"""Bounds of what may take milliseconds or, in a catch-up, hours."""

OTHER = "other"
"""Stands for every label value beyond the limit."""

SUM = "sum"
INFINITE = "+Inf"


def named(name: str, *labels: str) -> str:
    """The flat name of a number with labels."""
    return "|".join((name, *labels))


def parted(flat: str, labels: int) -> tuple[str, list[str]]:
    """The reverse, for a metric with that many labels; the last value may have bars of its own."""
    name, *values = flat.split("|", labels)
    return name, values


class Histogram:
    """How often values were up to each bound, and their sum."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value; one below zero (clocks differ) as zero."""
        value = max(0.0, value)
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def numbers(self, name: str, *labels: str) -> dict[str, float]:
        """As numbers of a task; none before the first value."""
        out: dict[str, float] = {}
        total = 0
        for bound, count in zip((*map(str, self._bounds), INFINITE), self._counts, strict=True):
            total += count
            out[named(name, *labels, bound)] = float(total)
        out[named(name, *labels, SUM)] = self._sum
        return out if total else {}


class Counts:
    """Counters by a label value, at most ``values_max`` of them; what comes later is counted together."""

    __slots__ = ("_counts", "_values_max")

    def __init__(self, values_max: int) -> None:
        self._values_max = values_max
        self._counts: dict[str, int] = {}

    def add(self, value: str, number: int = 1) -> None:
        """Count so many of a value."""
        counts = self._counts
        if value in counts:
            counts[value] += number
        elif self._values_max:
            value = value if len(counts) < self._values_max else OTHER
            counts[value] = counts.get(value, 0) + number

    def numbers(self, name: str, *labels: str) -> dict[str, float]:
        """As numbers of a task; the value is the last label."""
        return {named(name, *labels, value): float(count) for value, count in dict(self._counts).items()}


class Recent:
    """Mean, greatest and number of what was added during the last half to whole minute, or once to twice another time."""

    HALF_S = 30.0

    __slots__ = ("_began_s", "_half_s", "_now", "_was")

    def __init__(self, now_s: float, half_s: float = HALF_S) -> None:
        self._half_s = half_s
        self._began_s = now_s
        self._was = [0.0, 0.0, 0.0]
        self._now = [0.0, 0.0, 0.0]
        """Number, sum, greatest."""

    def add(self, value: float, now_s: float) -> None:
        """Add a value."""
        self._turn(now_s)
        half = self._now
        half[0] += 1
        half[1] += value
        half[2] = max(half[2], value)

    def greatest(self, now_s: float) -> float:
        """The greatest one, 0 without any."""
        self._turn(now_s)
        return max(self._was[2], self._now[2])

    def mean(self, now_s: float) -> float:
        """Their mean, 0 without any."""
        self._turn(now_s)
        count = self._was[0] + self._now[0]
        return (self._was[1] + self._now[1]) / count if count else 0.0

    def rate(self, now_s: float) -> float:
        """The sum, by second."""
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
"""This process's own, like the levels of its logs: a task has one process, and clients are made in many places."""


def share_below(ordered: Sequence[float], share: float) -> float:
    """The value that this share of the ordered ones is not above; 0 without any."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
