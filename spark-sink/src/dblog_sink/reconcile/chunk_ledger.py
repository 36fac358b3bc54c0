"""The book of chunk markers and dumped rows: which chunks may be judged, and how (I9). Pure.

A marker counts the rows of its chunk that were sent, and names the topic and the low watermark.
Each of those rows carries the low watermark's position (schemas/README.md, ``source.sequence``).
Rows are therefore counted by topic and position, wherever they lie in Kafka. Gaps that transactions
leave in the offsets do not matter. A chunk that a restarted worker reads again has a new low
watermark and a new marker. A quarantined record is counted too. If several chunks share a low
watermark, they are judged in the order of their markers, and arrived rows are assigned to them in
that order.

A chunk is complete as soon as enough rows have come, in any order. It is short only once its
topic's partitions are read past every offset where its rows can be. If the marker does not give
these offsets, ``wait_s`` must also have passed, since the producer may still be retrying.

A shortfall is unproven if rows may be missing legitimately: in a compacted topic, where later
records replaced them, and at positions whose rows were not all counted (``floors``). Rows that come
after the verdict are reported as late.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from dblog_sink.reconcile.dump_coverage import Coverage, Covered, Position

ChunkKey = tuple[str, Position]
"""A topic and the position of a low watermark."""
ReadTo = Mapping[str, Mapping[int, int]]
"""Topic to partition to offset; every record before the offset is read."""

COMPLETE, SHORT, UNPROVEN, LATE = "complete", "short", "unproven", "late"
FIRST, WHOLE, PART = "first", "whole", "part"
"""Kinds of dumps that a chunk belongs to: the source's own dump of the table, a requested dump of
the whole table, or a requested dump of some of its rows or columns.
"""
NOT_COUNTED = "counting began after the first of its rows"
TOO_MANY = "too many chunks wait to be judged"
NOT_ENDED = "its first dump has not ended"
NOT_YET = "rows of its first dump are still to come"
NOT_ARRIVED = "rows of a dump did not arrive; dump the table again"
OWN = "initial"
"""Id of the source's own dump in markers (schemas/README.md)."""
_NEVER = (1 << 63, 0)
_BEFORE_ALL = (-1, 0)
ALL_BATCHES: Mapping[str, int] = MappingProxyType({})
"""Default for ``read``: every landed batch counts."""
BATCHES_MAX = 1000
"""Number of batches per topic whose positions of dumped rows are remembered. A snapshot leaves out
only the newest few batches.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The worker's report on one chunk.

    ``rows`` is the number of rows sent. ``ends`` maps each partition to an offset that lies after
    all of them.
    """

    topic: str
    position: Position
    chunk_id: str
    table: str
    rows: int
    ends: Mapping[int, int]
    exact: bool
    """True if ``ends`` comes from the worker; else the sink asked the brokers when the marker
    came.
    """
    met_s: float
    of: str = FIRST


@dataclass(frozen=True, slots=True)
class Loss:
    """Records that were lost before the sink read them.

    ``ms`` is their latest Kafka timestamp and ``position`` their latest position in the log. The
    position is None if an earlier version of the sink recorded the loss.
    """

    ms: int
    position: Position | None = None

    def is_before(self, low: Position, began_ms: int) -> bool:
        """Return True if a dump that began at this low watermark and time reads what was lost.

        ``began_ms`` is the worker's clock. Position and time must both be later: the position of
        the last lost record is unknown if it belongs to a transaction of which no row came, and
        clocks differ.
        """
        return began_ms > self.ms and (self.position is None or low > self.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict on one chunk.

    ``missing`` counts rows that did not arrive; of a late chunk, rows that have arrived since.
    """

    marker: Marker
    result: str
    missing: int = 0
    unreadable: int = 0
    """Expected rows that are taken to be among the topic's quarantined records without a
    position.
    """
    why: str = ""


@dataclass(slots=True)
class Group:
    """The chunks of one topic and low watermark.

    ``arrived`` counts rows that came and are not assigned to a judged chunk, ``markers`` has the
    chunks to be judged, and ``missing_rows`` the judged chunks that miss rows.
    """

    arrived: int = 0
    markers: dict[str, Marker] = field(default_factory=dict)
    missing_rows: dict[str, tuple[Marker, int]] = field(default_factory=dict)
    unreadable: set[str] = field(default_factory=set)
    """Judged chunks with rows in quarantine."""


@dataclass(slots=True)
class Book:
    """The chunks that are not judged yet, and what is known of each table's dumps."""

    groups: dict[ChunkKey, Group] = field(default_factory=dict)
    unreadable: dict[str, int] = field(default_factory=dict)
    """Topic to the number of dumped records that are quarantined without a position and not
    assigned to a chunk yet.
    """
    floors: dict[str, Position] = field(default_factory=dict)
    """Topic to the position up to which rows may have come uncounted."""
    sequence: int = -1
    """Batch sequence of the last counted batch."""
    begun: set[str] = field(default_factory=set)
    """Topics whose own dump has sent a marker, or is known to have rows still to read."""
    requested: set[str] = field(default_factory=set)
    """Topics with a marker of a requested dump."""
    dumped: set[str] = field(default_factory=set)
    """Topics with dumped rows."""
    coverage: Coverage = field(default_factory=Coverage)
    """Coverage of the tables by the source's own dumps and by requested dumps of whole tables."""
    begins: dict[str, dict[tuple[str, Position], tuple[int, bool]]] = field(default_factory=dict)
    """Topic to the beginnings of such dumps. A beginning maps dump and low watermark to the
    worker's time and a flag, True if ``coverage`` has the ranges from there on.
    """
    ends: dict[str, set[tuple[str | None, Position]]] = field(default_factory=dict)
    """Topic to the last chunks of its dumps, as dump and low watermark. The dump is None if it is
    unknown or does not bring all rows.
    """
    landed: dict[str, dict[int, tuple[Position, Position]]] = field(default_factory=dict)
    """Topic to batch to the lowest and highest position of dumped rows in it. Holds the last
    ``BATCHES_MAX`` batches.
    """
    has_markers: bool = False
    """True once a marker has come, which shows that the source writes them."""

    def dumps_incomplete(self, upto: Position, read: Mapping[str, int] = ALL_BATCHES) -> dict[str, str]:
        """Return topics whose first dump is incomplete among records up to position ``upto``, with
        the reason.

        ``read`` maps a topic to its last batch that counts. Later dumps do not count, as they
        repeat rows. Rows that the worker left out of the first dump are not known here.
        """
        # Rows without a marker yet belong to a first dump, unless the topic has a requested dump.
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
        """Return topics whose tables were completely dumped after their loss, with the dump's
        times.

        ``since`` holds the losses by topic. The dump must end at or before position ``upto``, in
        batches up to ``read``. The times are the worker's, of its begin and end. Return None if the
        source writes no markers.
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
        """Return the entries that must be kept until a later dump replaces them.

        First the chunks with missing rows that no later dump has brought. Then, by topic, the
        position from which the source's own dump does not cover its table yet. If these entries
        were deleted, the missing rows would count as arrived.
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
        """Record the beginning of a dump of the topic's table.

        ``ranged`` is True if the ranges of its chunks have been kept since then.
        """
        begins = self.begins.setdefault(topic, {})
        known_ms, was_ranged = begins.get((dump, position), (ms, ranged))
        begins[dump, position] = (min(ms, known_ms), ranged and was_ranged)

    def end(self, topic: str, position: Position, dump: str | None = None) -> None:
        """Record the last chunk of a dump of the topic's table.

        ``dump`` is its id, None if it is unknown or does not bring all rows.
        """
        self.ends.setdefault(topic, set()).add((dump, position))

    def arrive(self, topic: str, position: Position, rows: int, sequence: int = -1) -> None:
        """Count dumped rows that came in batch ``sequence``."""
        self.dumped.add(topic)
        landed = self.landed.setdefault(topic, {})
        low, high = landed.get(sequence, (position, position))
        landed[sequence] = min(low, position), max(high, position)
        if len(landed) > BATCHES_MAX:
            del landed[min(landed)]
        self.groups.setdefault((topic, position), Group()).arrived += rows

    def cannot_read(self, topic: str, rows: int) -> None:
        """Count dumped records that have no readable position."""
        self.unreadable[topic] = self.unreadable.get(topic, 0) + rows

    def expect(self, marker: Marker) -> None:
        """Record a marker. Repeating it changes nothing."""
        self.has_markers = True
        self.know(marker.topic, marker.of)
        group = self.groups.setdefault((marker.topic, marker.position), Group())
        if marker.chunk_id not in group.missing_rows:
            group.markers.setdefault(marker.chunk_id, marker)

    def know(self, topic: str, of: str) -> None:
        """Record that a dump of this kind (``FIRST``, ``WHOLE``, ``PART``) has chunks of the
        topic's table.
        """
        (self.begun if of == FIRST else self.requested).add(topic)

    def owe(self, topic: str) -> None:
        """Record that the source's own dump of the topic's table has rows still to read.

        A requested dump's marker says so.
        """
        self.begun.add(topic)
        self.has_markers = True

    def judge(
        self, read_to: ReadTo, *, now_s: float, wait_s: float, doubt: Callable[[str], str | None], midway: bool = False
    ) -> list[Verdict]:
        """Judge every chunk that can be judged now, and return the verdicts.

        ``doubt`` returns a legitimate reason for missing rows of a topic; it is called only if some
        are missing. ``midway`` is True if counting did not begin with the first record, so that a
        topic without a floor proves nothing.
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
                # These rows have arrived, but their table does not have them.
                if verdict.unreadable:
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
        """Drop the oldest groups above ``groups_max``, and return verdicts for their chunks.

        These are rows whose marker never came and markers that cannot be judged. # I6
        """
        found: list[Verdict] = []
        for key in list(self.groups)[: max(0, len(self.groups) - groups_max)]:
            group = self.groups.pop(key)
            topic, position = key
            self.floors[topic] = max(position, self.floors.get(topic, position))
            found += [Verdict(marker=marker, result=UNPROVEN, why=TOO_MANY) for marker in group.markers.values()]
        self.coverage.forget(groups_max)
        return found

    def _first_ends(self, topics: Collection[str], covered: Mapping[str, Collection[Covered]]) -> dict[str, Position]:
        """Return, by topic, the position at which the first dumps of all its tables have ended.

        The position is out of reach if one of them has not ended.
        """
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
        """Yield the ends of dumps whose ranges are not kept, each with its dump and its beginning.

        The beginning is the latest one of the dump at or before that end, None if it is unknown.
        Chunks before that beginning belong to another attempt.
        """
        begins = self.begins.get(topic, {})
        for dump, end in self.ends.get(topic, ()):
            begun = max(((at, ms, ranged) for (one, at), (ms, ranged) in begins.items() if one == dump and at <= end), default=None)
            if begun is None or not begun[2]:
                yield dump, end, None if begun is None else begun[:2]

    def _whole(
        self, topic: str, loss: Loss, upto: Position, covered: Collection[Covered], waiting: Collection[Position], read: Mapping[str, int]
    ) -> tuple[int, int] | None:
        """Return the worker's times when a dump that read the whole loss began and ended, else
        None.

        ``waiting`` holds the low watermarks of the topic's chunks that miss rows.
        """
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
        """Return True if a batch after the last read one has dumped rows between these positions.

        Return False if ``read`` does not name the topic.
        """
        if topic not in read:
            return False
        landed = self.landed.get(topic, {}).items()
        return any(sequence > read[topic] and first <= upto and last >= low for sequence, (first, last) in landed)

    def _dumped_again(self, topic: str, position: Position, group: Group, covered: Collection[Covered], upto: Position) -> bool:
        """Return True if a later whole dump replaces every missing row of this group.

        If ranges are kept, that dump must begin after the chunk; if not, it must only end after it.
        """
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
    # The sink does not read the topic, or has not started to.
    if partitions is None:
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
