"""What chunk markers count against what arrived (I9): the book of dumped ranges, and when one of them may be judged. Pure.

A marker counts how many rows of its range were sent, to which topic, and the low watermark; every one of those rows carries the low watermark's position
(schemas/README.md, ``source.sequence``). So rows are counted by topic and position, wherever they lie in Kafka: gaps that transactions leave in the
offsets mean nothing, a chunk that a restarted worker reads again has another low watermark and a marker of its own, and a record is counted although it
goes to quarantine. Chunks of one low watermark are judged in the order of their markers, the rows that came being theirs in this order.

A chunk is complete as soon as enough has come, in any order. It is short only when its topic's partitions are read past where its rows can be, and,
where the marker does not give it itself, a while has passed: the producer may still be trying. A shortfall is unproven where rows may be missing lawfully: in
a compacted topic, whose later records have replaced them, and at positions whose rows were not all counted (``floors``). Rows that come
after all are reported as late.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from dblog_sink.reconcile.dump_coverage import Coverage, Covered, Position

ChunkKey = tuple[str, Position]
"""A topic, and the low watermark's position."""
ReadTo = Mapping[str, Mapping[int, int]]
"""By topic and partition: all before this offset is read."""

COMPLETE, SHORT, UNPROVEN, LATE = "complete", "short", "unproven", "late"
FIRST, WHOLE, PART = "first", "whole", "part"
"""What a chunk is of: the source's own dump of the table, one that was requested, or a requested one of some of its rows or columns."""
NOT_COUNTED = "counting began after the first of its rows"
TOO_MANY = "too many chunks wait to be judged"
NOT_ENDED = "its first dump has not ended"
NOT_YET = "rows of its first dump are still to come"
NOT_ARRIVED = "rows of a dump did not arrive; dump the table again"
OWN = "initial"
"""What the source's own dump is called in markers (schemas/README.md)."""
_NEVER = (1 << 63, 0)
_BEFORE_ALL = (-1, 0)
ALL_BATCHES: Mapping[str, int] = MappingProxyType({})
"""Whatever has landed counts."""
BATCHES_MAX = 1000
"""Batches of which it is known where their rows of dumps lie; a snapshot is chosen over the newest but a few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """What the worker reports of one chunk. ``rows`` were sent; ``ends``: by partition, the offset before which they all lie."""

    topic: str
    position: Position
    chunk_id: str
    table: str
    rows: int
    ends: Mapping[int, int]
    exact: bool
    """The worker gives the ends; else they are the brokers' at the time the sink met the marker."""
    met_s: float
    of: str = FIRST


@dataclass(frozen=True, slots=True)
class Loss:
    """Records that never came: up to this time of Kafka's, and this position of the log. None: a sink of before has not noted it."""

    ms: int
    position: Position | None = None

    def is_before(self, low: Position, began_ms: int) -> bool:
        """Whether a dump that began at this low watermark, and at this time of the worker's, reads what was lost. Both must show it: the last of the records
        may be of a transaction that no row came of, so that its position is not known, and clocks differ.
        """
        return began_ms > self.ms and (self.position is None or low > self.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome for one chunk. ``missing``: rows that did not arrive, or, of a late chunk, that have arrived by now."""

    marker: Marker
    result: str
    missing: int = 0
    unreadable: int = 0
    """Of the rows expected: taken to be among the topic's records in quarantine that have no position."""
    why: str = ""


@dataclass(slots=True)
class Group:
    """The chunks of one topic and low watermark: rows that came and belong to no judged chunk, chunks to be judged, and what judged ones miss."""

    arrived: int = 0
    markers: dict[str, Marker] = field(default_factory=dict)
    missing_rows: dict[str, tuple[Marker, int]] = field(default_factory=dict)
    unreadable: set[str] = field(default_factory=set)
    """Of those judged ones, the chunks of which rows are in quarantine."""


@dataclass(slots=True)
class Book:
    """Everything that is not judged yet."""

    groups: dict[ChunkKey, Group] = field(default_factory=dict)
    unreadable: dict[str, int] = field(default_factory=dict)
    """By topic: dumped records that went to quarantine without a position, and belong to no chunk yet."""
    floors: dict[str, Position] = field(default_factory=dict)
    """By topic: up to this position rows may have come that were not counted."""
    sequence: int = -1
    """The last batch that was counted."""
    begun: set[str] = field(default_factory=set)
    """Topics of which a marker of the source's own dump came, or one that says that this dump has rows still to read."""
    requested: set[str] = field(default_factory=set)
    """Topics of which a marker of a requested dump came."""
    dumped: set[str] = field(default_factory=set)
    """Topics of which rows of a dump came."""
    coverage: Coverage = field(default_factory=Coverage)
    """Of the source's own dumps, and of others of the whole table."""
    begins: dict[str, dict[tuple[str, Position], tuple[int, bool]]] = field(default_factory=dict)
    """By topic, where such dumps began: the dump and the low watermark; the worker's time of it, and whether ``coverage`` has what follows."""
    ends: dict[str, set[tuple[str | None, Position]]] = field(default_factory=dict)
    """By topic, the low watermarks of chunks that end where their table ends, and the dump; None: it is not known, or does not bring all rows."""
    landed: dict[str, dict[int, tuple[Position, Position]]] = field(default_factory=dict)
    """By topic and batch, between which positions rows of dumps came in the last ``BATCHES_MAX`` of them."""
    has_markers: bool = False
    """A marker came: the source writes them."""

    def dumps_incomplete(self, upto: Position, read: Mapping[str, int] = ALL_BATCHES) -> dict[str, str]:
        """By topic, why rows of its table's first dump are missing among those up to a position, of batches up to ``read``.

        Later dumps repeat what is there; of what the worker passed over in the first one, nothing is known here.
        """
        # Rows whose markers are still to come are of a first dump, unless one is known that was requested.
        begun = self.begun | (self.dumped - self.requested) if self.has_markers else ()
        covered = self.coverage.by_topic()
        first = self._first_ends(begun, covered)
        found = {topic: NOT_ENDED for topic, end in first.items() if end > upto}
        for (topic, position), group in self.groups.items():
            if group.missing_rows and not self._dumped_again(topic, position, group, covered.get(topic, ()), upto):
                found[topic] = NOT_ARRIVED
            elif topic in first and position <= first[topic] and group.arrived < sum(one.rows for one in group.markers.values()):
                found.setdefault(topic, NOT_YET)
        for topic, end in first.items():
            if self._landed_later(topic, read, _BEFORE_ALL, end):
                found.setdefault(topic, NOT_YET)
        return found

    def dumped_since(
        self, since: Mapping[str, Loss], upto: Position, read: Mapping[str, int] = ALL_BATCHES
    ) -> Mapping[str, tuple[int, int]] | None:
        """Topics whose tables were dumped wholly again behind a loss, up to a position and by batches up to ``read``, and the worker's times when that dump
        began and ended. ``since``: the losses, by topic. None: the source writes no markers.
        """
        if not self.has_markers or not since:
            return {} if self.has_markers else None
        waiting: dict[str, list[Position]] = {}
        for (topic, position), group in self.groups.items():
            if group.missing_rows or group.arrived < sum(one.rows for one in group.markers.values()):
                waiting.setdefault(topic, []).append(position)
        covered = self.coverage.by_topic()
        found = {
            topic: self._whole(topic, loss, upto, covered.get(topic, ()), waiting.get(topic, ()), read) for topic, loss in since.items()
        }
        return {topic: times for topic, times in found.items() if times is not None}

    def unsettled(self) -> tuple[set[ChunkKey], dict[str, Position]]:
        """Return where rows are missing that no later dump has brought, and by topic from which position on the source's own dumps do not cover their tables
        yet: what is forgotten of them would count as if it had come.
        """
        covered = self.coverage.by_topic()
        missing = {
            key
            for key, group in self.groups.items()
            if group.missing_rows and not self._dumped_again(*key, group, covered.get(key[0], ()), _NEVER)
        }
        since: dict[str, Position] = {}
        for of, ranges in self.coverage.uncovered(OWN):
            low = min(one.low for one in ranges)
            since[of[0]] = min(low, since.get(of[0], low))
        return missing, since

    def begin(self, topic: str, position: Position, dump: str, ms: int, *, ranged: bool = False) -> None:
        """The first chunk of a dump of the topic's table was reported. ``ranged``: the ranges of its chunks are kept, and were when it came first."""
        begins = self.begins.setdefault(topic, {})
        known_ms, was_ranged = begins.get((dump, position), (ms, ranged))
        begins[dump, position] = (min(ms, known_ms), ranged and was_ranged)

    def end(self, topic: str, position: Position, dump: str | None = None) -> None:
        """The chunk was reported that ends where the topic's table ends. ``dump``: its id, None where it is not known, or does not bring all rows."""
        self.ends.setdefault(topic, set()).add((dump, position))

    def arrive(self, topic: str, position: Position, rows: int, sequence: int = -1) -> None:
        """Rows of a dump came, in this batch."""
        self.dumped.add(topic)
        landed = self.landed.setdefault(topic, {})
        low, high = landed.get(sequence, (position, position))
        landed[sequence] = min(low, position), max(high, position)
        if len(landed) > BATCHES_MAX:
            del landed[min(landed)]
        self.groups.setdefault((topic, position), Group()).arrived += rows

    def cannot_read(self, topic: str, rows: int) -> None:
        """Records of a dump came that have no position."""
        self.unreadable[topic] = self.unreadable.get(topic, 0) + rows

    def expect(self, marker: Marker) -> None:
        """A marker came; the same one a second time changes nothing."""
        self.has_markers = True
        self.know(marker.topic, marker.of)
        group = self.groups.setdefault((marker.topic, marker.position), Group())
        if marker.chunk_id not in group.missing_rows:
            group.markers.setdefault(marker.chunk_id, marker)

    def know(self, topic: str, of: str) -> None:
        """A dump of this kind has chunks of the topic's table."""
        (self.begun if of == FIRST else self.requested).add(topic)

    def owe(self, topic: str) -> None:
        """A marker of a requested dump came, and the source's own dump of the topic's table has rows still to read."""
        self.begun.add(topic)
        self.has_markers = True

    def judge(
        self, read_to: ReadTo, *, now_s: float, wait_s: float, doubt: Callable[[str], str | None], midway: bool = False
    ) -> list[Verdict]:
        """Judge what can be judged now. ``doubt``: why rows of a topic may be missing lawfully; asked only where some are missing. ``midway``: counting did not
        begin with the first record, so nothing is known of topics without a floor.
        """
        found: list[Verdict] = []
        for key, group in list(self.groups.items()):
            for marker in list(group.markers.values()):
                if group.arrived < marker.rows and not is_past(marker, read_to, now_s=now_s, wait_s=wait_s):
                    break
                verdict = self._judged(marker, group, doubt, midway=midway)
                found.append(verdict)
                group.arrived -= marker.rows - verdict.missing - verdict.unreadable
                del group.markers[marker.chunk_id]
                if verdict.result == SHORT:
                    group.missing_rows[marker.chunk_id] = (marker, verdict.missing)
                if verdict.unreadable:  # they have arrived, but not in their table
                    group.unreadable.add(marker.chunk_id)
                elif verdict.result == COMPLETE:
                    self.coverage.prove(marker.topic, marker.chunk_id)
            if not group.markers:
                late = _late(group)
                for chunk_id in {one.marker.chunk_id for one in late} - group.missing_rows.keys() - group.unreadable:
                    self.coverage.prove(key[0], chunk_id)
                found += late
                if not group.arrived and not group.missing_rows:
                    del self.groups[key]
        return found

    def forget(self, groups_max: int) -> list[Verdict]:
        """Drop the oldest of too many: rows whose marker never came, and markers that cannot be judged. # I6"""
        found: list[Verdict] = []
        for key in list(self.groups)[: max(0, len(self.groups) - groups_max)]:
            group = self.groups.pop(key)
            topic, position = key
            self.floors[topic] = max(position, self.floors.get(topic, position))
            found += [Verdict(marker=marker, result=UNPROVEN, why=TOO_MANY) for marker in group.markers.values()]
        self.coverage.forget(groups_max)
        return found

    def _first_ends(self, topics: Collection[str], covered: Mapping[str, Collection[Covered]]) -> dict[str, Position]:
        """By topic, from which position on its tables' first dumps are there; what is never reached, where one has not ended."""
        of_table: dict[str, dict[str, Position]] = {}
        for (topic, table, _), _ in self.coverage.uncovered(OWN):
            of_table.setdefault(topic, {})[table] = _NEVER
        for topic, dumps in covered.items():
            ends = of_table.setdefault(topic, {})
            for one in dumps:
                ends[one.of[1]] = min(one.upto, ends.get(one.of[1], _NEVER))
        return {
            topic: min([end for _, end, _ in self._ends(topic)] + [max(of_table.get(topic, {}).values(), default=_NEVER)])
            for topic in topics
        }

    def _ends(self, topic: str) -> Iterator[tuple[str | None, Position, tuple[Position, int] | None]]:
        """The ends of dumps whose ranges are not kept, each with the dump and where and when it began: of what one read before it began again, another attempt
        ended, or none did.
        """
        begins = self.begins.get(topic, {})
        for dump, end in self.ends.get(topic, ()):
            begun = max(((at, ms, ranged) for (one, at), (ms, ranged) in begins.items() if one == dump and at <= end), default=None)
            if begun is None or not begun[2]:
                yield dump, end, None if begun is None else begun[:2]

    def _whole(
        self, topic: str, loss: Loss, upto: Position, covered: Collection[Covered], waiting: Collection[Position], read: Mapping[str, int]
    ) -> tuple[int, int] | None:
        """When the dump began and ended that has read all that was lost. ``waiting``: low watermarks of chunks of which rows are missing."""
        for one in covered:
            proven = one.proven and one.upto <= upto and not self._landed_later(topic, read, one.low, one.upto)
            if proven and loss.is_before(one.low, one.began_ms):
                return one.began_ms, one.ended_ms
        for _, end, begun in self._ends(topic):
            if begun is None or end > upto or self._landed_later(topic, read, begun[0], end):
                continue
            if loss.is_before(*begun) and not any(begun[0] <= at <= end for at in waiting):
                return begun[1], begun[1]
        return None

    def _landed_later(self, topic: str, read: Mapping[str, int], low: Position, upto: Position) -> bool:
        """Whether rows of dumps between these positions came in a batch behind the last of the topic's that was read; False where none of it was."""
        if topic not in read:
            return False
        landed = self.landed.get(topic, {}).items()
        return any(sequence > read[topic] and first <= upto and last >= low for sequence, (first, last) in landed)

    def _dumped_again(self, topic: str, position: Position, group: Group, covered: Collection[Covered], upto: Position) -> bool:
        """Whether a whole dump began, or where ranges are not kept, ended behind a chunk whose rows are missing, beside the one that the chunk is of."""
        if any(one.proven and one.low > position and one.upto <= upto for one in covered):
            return True
        ends = sum(end >= position for _, end, _ in self._ends(topic))
        return all(ends > (marker.of != PART) for marker, _ in group.missing_rows.values())

    def _judged(self, marker: Marker, group: Group, doubt: Callable[[str], str | None], *, midway: bool) -> Verdict:
        missing = max(0, marker.rows - group.arrived)
        unreadable = min(missing, self.unreadable.get(marker.topic, 0))
        if unreadable:
            self.unreadable[marker.topic] -= unreadable
            missing -= unreadable
        if not missing:
            return Verdict(marker=marker, result=COMPLETE, unreadable=unreadable)
        floor = self.floors.get(marker.topic)
        counted = not midway if floor is None else marker.position > floor
        why = doubt(marker.topic) if counted else NOT_COUNTED
        return Verdict(marker=marker, result=SHORT if why is None else UNPROVEN, missing=missing, unreadable=unreadable, why=why or "")


def is_past(marker: Marker, read_to: ReadTo, *, now_s: float, wait_s: float) -> bool:
    partitions = read_to.get(marker.topic)
    if partitions is None:  # the sink does not read the topic, or not yet
        return False
    return all(partitions.get(partition, 0) >= end for partition, end in marker.ends.items()) and (
        marker.exact or now_s - marker.met_s >= wait_s
    )


def _late(group: Group) -> list[Verdict]:
    found = []
    for chunk_id, (marker, missing) in list(group.missing_rows.items()):
        came = min(group.arrived, missing)
        if came:
            group.arrived -= came
            found.append(Verdict(marker=marker, result=LATE, missing=came))
            if came == missing:
                del group.missing_rows[chunk_id]
            else:
                group.missing_rows[chunk_id] = (marker, missing - came)
    return found
