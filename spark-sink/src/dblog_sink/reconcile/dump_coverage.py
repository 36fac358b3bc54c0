"""Finds the position from which a dump covers its table, from the ranges of its chunks. Pure.

The chunk at the end of the table says nothing about those before it: several readers may read one
table, and the last range may be read first. So the markers of a dump are a graph of bounds, as in
``dump_chains.py``. A dump **covers** its table once they lead from a chunk that begins the table to
one that ends it; the position is that of the latest chunk on the earliest such path. The dump is
**proven** once there is a path of chunks whose rows have all arrived in the table. Only a proven
dump repairs a loss.

Both facts are kept when the chunks are forgotten. A dump that began before the sink kept ranges has
none; its end counts as its coverage.
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
    """The key range of one chunk of a dump.

    ``low`` is its low watermark, ``opened_ms`` the worker's time of it, and ``ts_ms`` the worker's
    time when the window closed.
    """

    chunk_id: str
    low: Position
    after: str | None
    upto: str | None
    begins: bool
    final: bool
    opened_ms: int
    ts_ms: int
    repairs: bool = True
    """True if no row of the range was left out."""
    latest_low: Position | None = None
    """Low watermark of the latest chunk if the range stands for a run of chunks (``folding.py``),
    else None.
    """

    @property
    def latest(self) -> Position:
        """Low watermark of the latest chunk."""
        return self.low if self.latest_low is None else self.latest_low


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """A dump that covers its table.

    ``low`` and ``began_ms`` are of the chunk that begins it, ``upto`` and ``ended_ms`` of the
    latest chunk that it needs.
    """

    of: TableDump
    low: Position
    upto: Position
    began_ms: int
    ended_ms: int
    proven: bool = False

    @property
    def topic(self) -> str:
        """Topic of the dump's rows."""
        return self.of[0]


@dataclass(slots=True)
class _Open:
    """The chunks of a dump that is not proven, by chunk id."""

    ranges: dict[str, Range] = field(default_factory=dict)
    proven: set[str] = field(default_factory=set)
    """Ids of chunks whose rows are all in their table."""
    has_end: bool = False
    """True once a final chunk has come."""
    left_over: int = 0
    """Number of ranges after the last folding."""


@dataclass(slots=True)
class Coverage:
    """The dumps whose ranges are kept, of all tables."""

    found: dict[tuple[TableDump, Position, bool], Covered] = field(default_factory=dict)
    """Coverage by dump, the position where it began, and whether it is proven."""
    _open: dict[TableDump, _Open] = field(default_factory=dict)
    _chunks: dict[tuple[str, str], TableDump] = field(default_factory=dict)
    """Topic and chunk id to the chunk's dump."""
    _changed: set[TableDump] = field(default_factory=set)
    _proven_low: dict[TableDump, Position] = field(default_factory=dict)
    fold_above: int = FOLD_ABOVE
    unfolded: int = UNFOLDED

    def take(self, covered: Covered) -> None:
        """Take in a fact that was found before, such as one read from the table."""
        self.found[covered.of, covered.low, covered.proven] = covered
        if covered.proven:
            self._proven_low[covered.of] = max(covered.low, self._proven_low.get(covered.of, covered.low))
            self._forget(covered.of)

    def add(self, of: TableDump, one: Range) -> None:
        """Add the range of a chunk. Repeating it changes nothing.

        Neither do chunks of a proven dump that a restarted worker reads again.
        """
        low = self._proven_low.get(of)
        if low is not None and of not in self._open and not (one.begins and one.low > low):
            return
        dump = self._open.setdefault(of, _Open())
        dump.ranges.setdefault(one.chunk_id, one)
        dump.has_end |= one.final
        self._chunks[of[0], one.chunk_id] = of
        self._changed.add(of)

    def prove(self, topic: str, chunk_id: str) -> None:
        """Record that all rows of a chunk are in their table."""
        of = self._chunks.get((topic, chunk_id))
        if of is not None:
            dump = self._open[of]
            dump.proven.add(chunk_id)
            self._changed.add(of)
            if len(dump.ranges) > max(self.fold_above, 2 * dump.left_over):
                self._fold(of, dump, self.unfolded)

    def decide(self) -> list[Covered]:
        """Return the dumps that became covering or proven since the last call."""
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
        """Drop the oldest dumps while there are more than ``ranges_max`` ranges; they cover
        nothing. # I6
        """
        if len(self._chunks) > ranges_max:
            for of, dump in self._open.items():
                self._fold(of, dump, min(self.unfolded, UNFOLDED_OF_MANY))
        while len(self._chunks) > ranges_max:
            self._drop(next(iter(self._open)))

    def by_topic(self) -> dict[str, list[Covered]]:
        """Return all covering dumps by topic."""
        found: dict[str, list[Covered]] = {}
        for one in self.found.values():
            found.setdefault(one.topic, []).append(one)
        return found

    def uncovered(self, dump: str) -> Iterator[tuple[TableDump, Collection[Range]]]:
        """Yield the tables that the dump of this id does not cover yet, with their known chunks."""
        covered = {of for of, _, _ in self.found}
        return ((of, one.ranges.values()) for of, one in self._open.items() if of[2] == dump and of not in covered)

    def _forget(self, of: TableDump) -> None:
        """Drop the chunks of all attempts up to the proven one."""
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
        """Replace each run of proven neighbours by one range, except among the newest chunks.

        Runs do not cross attempts.
        """
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
    """Split the chunks into attempts, in the order of their low watermarks.

    A new attempt starts at each chunk that begins the table; no other chunk of it is earlier.
    """
    found: list[list[Range]] = []
    for one in sorted(ranges, key=lambda one: (one.low, not one.begins)):
        if not found or (one.begins and (one.low > found[-1][0].low or not found[-1][0].begins)):
            found.append([])
        found[-1].append(one)
    return found


def reaches_end(ranges: Iterable[Range]) -> Position | None:
    """Return the position of the latest chunk on the earliest path through the table.

    Return None if no path leads from the table's beginning to its end.
    """
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
    """Merge a run of chunks into one range."""
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
