"""From which position on a dump covers its table, by the ranges of its chunks. Pure.

The chunk that ends where the table ends says nothing of those in front of it: several readers read inside one table, and the last range may be read first.
So the markers of a dump are a graph of bounds, as in ``dump_chains.py``: it **covers** its table once they lead from a chunk that begins to one that is
final, at the position of the latest chunk of the earliest such way. It is **proven** once such a way is of chunks whose rows have all come, each into its
table: what a dump repairs is repaired by a proven one.

The two are facts, and stay when the chunks are forgotten. A dump that began before the sink kept ranges has none, and its end is taken for the whole of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from dblog_sink.reconcile.folding import FOLD_ABOVE, UNFOLDED, UNFOLDED_OF_MANY, runs

Position = tuple[int, int]
TableDump = tuple[str, str, str]
"""A topic, the table's name in the source, and the id of the dump."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """One chunk of a dump of a table. ``low``: its low watermark; ``opened_ms``, ``ts_ms``: the worker's time of it, and of its window's end."""

    chunk_id: str
    low: Position
    after: str | None
    upto: str | None
    begins: bool
    final: bool
    opened_ms: int
    ts_ms: int
    repairs: bool = True
    """It leaves out no row of its range."""
    latest_low: Position | None = None
    """Of a run of chunks that is kept as one, the low watermark of the latest of them (``folding.py``)."""

    @property
    def latest(self) -> Position:
        """The low watermark of its latest chunk."""
        return self.low if self.latest_low is None else self.latest_low


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """A dump covers its table. ``low``, ``began_ms``: of the chunk that begins it; ``upto``, ``ended_ms``: of the latest one that it takes."""

    of: TableDump
    low: Position
    upto: Position
    began_ms: int
    ended_ms: int
    proven: bool = False

    @property
    def topic(self) -> str:
        """Where its rows went."""
        return self.of[0]


@dataclass(slots=True)
class _Open:
    """What is known of a dump that is not proven, by the ids of its chunks."""

    ranges: dict[str, Range] = field(default_factory=dict)
    proven: set[str] = field(default_factory=set)
    """Chunks all rows of which are in their table."""
    has_end: bool = False
    """A final chunk was met."""
    left_over: int = 0
    """Ranges that the last folding left."""


@dataclass(slots=True)
class Coverage:
    """All dumps of all tables whose ranges are kept."""

    found: dict[tuple[TableDump, Position, bool], Covered] = field(default_factory=dict)
    """By the dump, the position where it began, and whether it is proven."""
    _open: dict[TableDump, _Open] = field(default_factory=dict)
    _chunks: dict[tuple[str, str], TableDump] = field(default_factory=dict)
    """By topic and id, the dump that a chunk is of."""
    _changed: set[TableDump] = field(default_factory=set)
    _proven_low: dict[TableDump, Position] = field(default_factory=dict)
    fold_above: int = FOLD_ABOVE
    unfolded: int = UNFOLDED

    def take(self, covered: Covered) -> None:
        """A fact, as it was found before."""
        self.found[covered.of, covered.low, covered.proven] = covered
        if covered.proven:
            self._proven_low[covered.of] = max(covered.low, self._proven_low.get(covered.of, covered.low))
            self._forget(covered.of)

    def add(self, of: TableDump, one: Range) -> None:
        """A marker came; the same one a second time changes nothing, and neither does what a restarted worker reads again of a dump that is proven."""
        low = self._proven_low.get(of)
        if low is not None and of not in self._open and not (one.begins and one.low > low):
            return
        dump = self._open.setdefault(of, _Open())
        dump.ranges.setdefault(one.chunk_id, one)
        dump.has_end |= one.final
        self._chunks[of[0], one.chunk_id] = of
        self._changed.add(of)

    def prove(self, topic: str, chunk_id: str) -> None:
        """All rows of a chunk are in their table."""
        of = self._chunks.get((topic, chunk_id))
        if of is not None:
            dump = self._open[of]
            dump.proven.add(chunk_id)
            self._changed.add(of)
            if len(dump.ranges) > max(self.fold_above, 2 * dump.left_over):
                self._fold(of, dump, self.unfolded)

    def decide(self) -> list[Covered]:
        """What is covered, or proven, since the last call."""
        new: list[Covered] = []
        for of in sorted(self._changed & self._open.keys()):
            dump = self._open[of]
            for attempt in attempts(dump.ranges.values()) if dump.has_end else ():
                for proven in (False, True):
                    way = [one for one in attempt if one.repairs and one.chunk_id in dump.proven] if proven else attempt
                    upto = reaches_end(way) if attempt[0].begins else None
                    if upto is not None and (of, attempt[0].low, proven) not in self.found:
                        new.append(_covered(of, attempt, upto, proven=proven))
                        self.found[of, attempt[0].low, proven] = new[-1]
        self._changed.clear()
        for one in new:
            self.take(one)
        return new

    def forget(self, ranges_max: int) -> None:
        """Drop the oldest dumps of too many gaps: they cover nothing. # I6"""
        if len(self._chunks) > ranges_max:
            for of, dump in self._open.items():
                self._fold(of, dump, min(self.unfolded, UNFOLDED_OF_MANY))
        while len(self._chunks) > ranges_max:
            self._drop(next(iter(self._open)))

    def by_topic(self) -> dict[str, list[Covered]]:
        """All that was found."""
        found: dict[str, list[Covered]] = {}
        for one in self.found.values():
            found.setdefault(one.topic, []).append(one)
        return found

    def uncovered(self, dump: str) -> Iterator[tuple[TableDump, Collection[Range]]]:
        """The tables that the dump of this id does not cover yet, with the chunks that are known."""
        covered = {of for of, _, _ in self.found}
        return ((of, one.ranges.values()) for of, one in self._open.items() if of[2] == dump and of not in covered)

    def _forget(self, of: TableDump) -> None:
        """Drop the chunks of attempts up to the one that is proven."""
        dump = self._open.get(of)
        if dump is None:
            return
        kept = [one for each in attempts(dump.ranges.values()) if each[0].begins and each[0].low > self._proven_low[of] for one in each]
        self._drop(of)
        for one in kept:
            self.add(of, one)
            if one.chunk_id in dump.proven:
                self.prove(of[0], one.chunk_id)

    def _fold(self, of: TableDump, dump: _Open, unfolded: int) -> None:
        """Keep each run of proven neighbours as one range, but for the newest chunks. Attempts are not mixed."""
        in_order = sorted(dump.ranges.values(), key=lambda one: one.low)
        proven = dump.proven - {one.chunk_id for one in in_order[max(0, len(in_order) - unfolded) :]}
        for attempt in attempts(in_order):
            for run in runs([one for one in attempt if one.repairs and one.chunk_id in proven]):
                for one in run:
                    del dump.ranges[one.chunk_id], self._chunks[of[0], one.chunk_id]
                    dump.proven.discard(one.chunk_id)
                whole = _one_of(run)
                dump.ranges[whole.chunk_id] = whole
                dump.proven.add(whole.chunk_id)
                self._chunks[of[0], whole.chunk_id] = of
        dump.left_over = len(dump.ranges)

    def _drop(self, of: TableDump) -> None:
        for chunk_id in self._open.pop(of).ranges:
            self._chunks.pop((of[0], chunk_id), None)


def attempts(ranges: Iterable[Range]) -> list[list[Range]]:
    """The chunks in the order of their low watermarks, parted in front of each that begins the table: no other chunk of an attempt has an earlier one."""
    found: list[list[Range]] = []
    for one in sorted(ranges, key=lambda one: (one.low, not one.begins)):
        if not found or (one.begins and (one.low > found[-1][0].low or not found[-1][0].begins)):
            found.append([])
        found[-1].append(one)
    return found


def reaches_end(ranges: Iterable[Range]) -> Position | None:
    """The position of the latest chunk of the earliest way from the table's beginning to its end; None: there is no way."""
    behind: dict[str | None, list[Range]] = {}
    ahead: list[tuple[Position, int, Range]] = []
    for number, one in enumerate(ranges):
        if one.begins:
            heappush(ahead, (one.latest, -1 - number, one))
        else:
            behind.setdefault(one.after, []).append(one)
    met: set[str | None] = set()
    pushed = 0
    while ahead:
        latest, _, one = heappop(ahead)
        if one.final:
            return latest
        if one.upto not in met:
            met.add(one.upto)
            for other in behind.get(one.upto, ()):
                pushed += 1
                heappush(ahead, (max(latest, other.latest), pushed, other))
    return None


def _one_of(run: list[Range]) -> Range:
    """Return the range that stands for a run of chunks."""
    first, begin, end = min(run, key=lambda one: one.low), run[0], run[-1]
    return replace(
        first,
        after=begin.after,
        upto=end.upto,
        begins=begin.begins,
        final=end.final,
        opened_ms=min(one.opened_ms for one in run),
        ts_ms=max(one.ts_ms for one in run),
        latest_low=max(one.latest for one in run),
    )


def _covered(of: TableDump, attempt: list[Range], upto: Position, *, proven: bool) -> Covered:
    inside = [one for one in attempt if one.low <= upto]
    return Covered(
        of=of,
        low=attempt[0].low,
        upto=upto,
        began_ms=min(one.opened_ms for one in inside),
        ended_ms=max(one.ts_ms for one in inside),
        proven=proven,
    )
