"""Keeps what the charts show: a few series for each connector, in rings of fixed size. Pure.

There are three rings of 5 s, 30 s and 5 min, which reach back 5 minutes, an hour and a day. A
slot holds the mean of what was recorded in it, for a lag the maximum: a peak that an average hides
is what the viewer looks for. One connector takes ``BYTES_EACH`` bytes, whatever flows, and at most
``CONNECTORS_MAX`` connectors are kept; a restart of the worker begins again.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

SERIES = ("create", "update", "delete", "dumped", "acknowledged", "bytes", "lag_s", "behind_bytes")
"""Row changes read from the log by kind, rows dumped, records and bytes that Kafka took, all per
second; the lag in seconds, and the bytes of the log that are not read."""
_PEAKS = frozenset({"lag_s", "behind_bytes"})
_COUNTERS = {
    "create": "events_total|create",
    "update": "events_total|update",
    "delete": "events_total|delete",
    "dumped": "dump_rows_total",
    "acknowledged": "records_acknowledged_total",
    "bytes": "bytes_sent_total",
}
_GAUGES = {"lag_s": ("lag_ms", 0.001), "behind_bytes": ("log_behind_bytes", 1.0)}
_LATENCIES = {"read_s": "event_latency_seconds|read", "acknowledged_s": "event_latency_seconds|acknowledged"}
"""Histograms of the age of a change when it is read, and when Kafka has acknowledged it."""
CONNECTORS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Reach:
    """One ring: its name in addresses, the seconds of a slot, and the number of slots."""

    name: str
    step_s: int
    slots: int


REACHES = (Reach("5m", 5, 60), Reach("1h", 30, 120), Reach("24h", 300, 288))
BYTES_EACH = sum(reach.slots for reach in REACHES) * len(SERIES) * 4
_FRESH_S = 30.0
"""Age after which a task's numbers are not drawn any more."""


class _Ring:
    __slots__ = ("_counts", "_reach", "_slot", "_values")

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._values = tuple(array("f", [math.nan]) * reach.slots for _ in SERIES)
        self._counts = [0] * len(SERIES)
        self._slot: int | None = None

    def record(self, now_s: float, values: Mapping[str, float]) -> None:
        slot = int(now_s // self._reach.step_s)
        if self._slot is None or slot > self._slot:
            first = slot if self._slot is None else max(self._slot + 1, slot - self._reach.slots + 1)
            for each in range(first, slot + 1):
                for ring in self._values:
                    ring[each % self._reach.slots] = math.nan
            self._slot, self._counts = slot, [0] * len(SERIES)
        elif slot < self._slot:
            return  # the clock was set back; the slots of that time are written already
        at = slot % self._reach.slots
        for index, name in enumerate(SERIES):
            value = values.get(name)
            if value is None:
                continue
            count, ring = self._counts[index], self._values[index]
            known = ring[at]
            ring[at] = value if not count else max(known, value) if name in _PEAKS else known + (value - known) / (count + 1)
            self._counts[index] = count + 1

    def read(self, now_s: float, names: Iterable[str]) -> dict[str, list[float | None]]:
        last, slots = int(now_s // self._reach.step_s), self._reach.slots
        newest = last if self._slot is None else self._slot
        out: dict[str, list[float | None]] = {}
        for name in names:
            ring = self._values[SERIES.index(name)]
            # Slots after the newest one still hold what was there a whole turn before.
            found = [ring[slot % slots] if newest - slots < slot <= newest else math.nan for slot in range(last - slots + 1, last + 1)]
            out[name] = [None if math.isnan(value) else round(value, 3) for value in found]
        return out


@dataclass(slots=True)
class _Known:
    """The last sample of a connector: its counters, their time, and the values of now."""

    at_s: float
    counters: dict[str, float]
    ages: dict[str, tuple[float, float]]
    """Number and sum of the ages by name, from the histograms."""
    now: dict[str, float]
    rings: tuple[_Ring, ...]


class History:
    """The series of all connectors that run on this worker, and of all together."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._all = tuple(_Ring(reach) for reach in REACHES)
        self.since_s: float | None = None
        """Unix time of the first sample, or None before it."""

    def record(self, now_s: float, tasks: Mapping[str, tuple[Mapping[str, float], float | None]]) -> None:
        """Record one sample: by connector the numbers of its task, and the Unix time of its report."""
        self.since_s = self.since_s or now_s
        for name in [name for name in self._known if name not in tasks]:
            del self._known[name]
        together: dict[str, float] = {}
        for name, (numbers, reported_s) in tasks.items():
            if reported_s is None or now_s - reported_s > _FRESH_S:
                if name in self._known:
                    self._known[name].now = {}
                continue
            values = self._sample(name, numbers, reported_s)
            for series, value in values.items():
                known = together.get(series)
                together[series] = value if known is None else max(known, value) if series in _PEAKS else known + value
            if (found := self._known.get(name)) is not None:
                for ring in found.rings:
                    ring.record(now_s, values)
        for ring in self._all:
            ring.record(now_s, together)

    def _sample(self, name: str, numbers: Mapping[str, float], at_s: float) -> dict[str, float]:
        counters = {series: numbers[key] for series, key in _COUNTERS.items() if key in numbers}
        gauges = {series: numbers[key] * factor for series, (key, factor) in _GAUGES.items() if key in numbers}
        if numbers.get("paused"):
            gauges.pop("lag_s", None)  # it reads nothing because somebody wants that, and is late for no other reason
        ages = {age: (numbers.get(f"{key}|+Inf", 0.0), numbers.get(f"{key}|sum", 0.0)) for age, key in _LATENCIES.items()}
        known = self._known.get(name)
        if known is None:
            if len(self._known) < CONNECTORS_MAX:
                self._known[name] = _Known(at_s, counters, ages, gauges, tuple(_Ring(reach) for reach in REACHES))
            return gauges
        if at_s <= known.at_s:
            return known.now
        # A counter that is smaller than before belongs to a new process, which has counted from zero.
        passed_s = at_s - known.at_s
        rates = {
            series: (value - (known.counters[series] if value >= known.counters[series] else 0.0)) / passed_s
            for series, value in counters.items()
            if series in known.counters  # a dump that goes on after a restart begins with all its rows
        }
        # The mean age of the changes since the last sample; without any, the one that was known.
        means = {age: known.now[age] for age in ages if age in known.now}
        for age, (number, total) in ages.items():
            number_before, total_before = known.ages[age] if number >= known.ages[age][0] else (0.0, 0.0)
            if number > number_before:
                means[age] = (total - total_before) / (number - number_before)
        known.at_s, known.counters, known.ages, known.now = at_s, counters, ages, {**rates, **gauges, **means}
        return known.now

    def now(self, name: str) -> Mapping[str, float]:
        """Return the newest values of a connector by series. A value that is unknown is missing."""
        known = self._known.get(name)
        return {} if known is None else known.now

    def series(self, name: str | None, reach: Reach, names: Iterable[str], now_s: float) -> dict[str, list[float | None]]:
        """Return the values of each slot up to ``now_s``, oldest first, of a connector or of all."""
        rings = self._all if name is None else self._known[name].rings if name in self._known else None
        if rings is None:
            return {each: [None] * reach.slots for each in names}
        return rings[REACHES.index(reach)].read(now_s, names)

    @property
    def bytes_held(self) -> int:
        """The size of all rings."""
        return (len(self._known) + 1) * BYTES_EACH
