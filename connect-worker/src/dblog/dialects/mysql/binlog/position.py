"""Positions in a MySQL log: sets of GTIDs, and file with offset.

A GTID set describes what a client has seen, on any server. File and offset are valid on one server
only. Rule sources: MySQL manual 19.1.3.1 "GTID Format and Storage" (text form, tags since 8.3,
canonical order), sql/rpl_gtid_set.cc (binary form of COM_BINLOG_DUMP_GTID and PREVIOUS_GTIDS,
``encode_nsids_format``).
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from dblog.errors import DefiniteError

Source = tuple[str, str]
"""UUID in lower case, and tag ("" for none)."""

Interval = tuple[int, int]
"""First and last transaction number, both included."""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")

GNO_MAX = (1 << 63) - 2


class GtidSet:
    """A set of GTIDs. ``add`` and ``add_all`` change it in place, since every batch calls them;
    every other operation returns a new set.

    Stored as sorted, disjoint intervals that never touch, for each (UUID, tag).
    """

    __slots__ = ("_intervals", "_texts")

    def __init__(self) -> None:
        self._intervals: dict[Source, list[Interval]] = {}
        self._texts: dict[Source, str] = {}
        """The text of a source's intervals, dropped when they change. Most sets have many idle
        sources and one that grows.
        """

    @classmethod
    def parse(cls, text: str) -> GtidSet:
        """Parse the text of a server or an offset. Line breaks, blanks, upper case and overlaps are
        allowed. Raise DefiniteError if it is malformed.
        """
        out = cls()
        for part in "".join(text.split()).lower().split(","):
            if not part:
                continue
            uuid, *members = part.split(":")
            if not _UUID.fullmatch(uuid) or not members:
                raise _not_a_set(part)
            tag = ""
            for member in members:
                if _TAG.fullmatch(member):
                    tag = member
                    continue
                found = _RANGE.fullmatch(member)
                if found is None:
                    raise _not_a_set(part)
                first = int(found[1])
                last = int(found[2] or first)
                if not 1 <= first <= last <= GNO_MAX:
                    raise _not_a_set(part)
                out.add(uuid, tag, first, last)
        return out

    @classmethod
    def of(cls, members: Iterable[tuple[str, str, int, int]]) -> GtidSet:
        """Return the set of (UUID, tag, first, last) tuples."""
        out = cls()
        for uuid, tag, first, last in members:
            out.add(uuid, tag, first, last)
        return out

    def add(self, uuid: str, tag: str, first: int, last: int) -> None:
        """Add the transactions ``first`` to ``last`` of a source. Takes constant time if the range
        continues the last interval.
        """
        source = (uuid, tag)
        self._texts.pop(source, None)
        intervals = self._intervals.get(source)
        if intervals is None:
            self._intervals[source] = [(first, last)]
            return
        low, high = intervals[-1]
        if first > high:
            if first == high + 1:
                intervals[-1] = (low, last)
            else:
                intervals.append((first, last))
            return
        # Intervals from ``start`` to ``end`` touch the new one and are joined with it.
        start = bisect_left(intervals, first - 1, key=lambda interval: interval[1])
        end = bisect_left(intervals, last + 2, key=lambda interval: interval[0])
        if start < end:
            first = min(first, intervals[start][0])
            last = max(last, intervals[end - 1][1])
        intervals[start:end] = [(first, last)]

    def add_all(self, ranges: Iterable[tuple[str, str, int, int]]) -> None:
        """Add the finished transactions of a batch (``LogOffset.gtids_delta``)."""
        for uuid, tag, first, last in ranges:
            self.add(uuid, tag, first, last)

    def copy(self) -> GtidSet:
        """Return an independent copy."""
        out = GtidSet()
        out._intervals = {source: intervals.copy() for source, intervals in self._intervals.items()}
        out._texts = self._texts.copy()
        return out

    def subtract(self, other: GtidSet) -> GtidSet:
        """Return the members that the other set lacks."""
        out = GtidSet()
        for source, intervals in self._intervals.items():
            rest = _without(intervals, other._intervals.get(source, []))
            if rest:
                out._intervals[source] = rest
        return out

    def contains(self, other: GtidSet) -> bool:
        """Return whether every member of the other is in this set."""
        return not other.subtract(self)

    def only_source(self, uuid: str) -> GtidSet:
        """Return the members that one server made, with any tag."""
        out = GtidSet()
        out._intervals = {source: intervals.copy() for source, intervals in self._intervals.items() if source[0] == uuid.lower()}
        return out

    @property
    def tagged(self) -> bool:
        """True if any member has a tag; servers before 8.3 do not know tags."""
        return any(tag for _, tag in self._intervals)

    def members(self) -> Iterator[tuple[str, str, int, int]]:
        """Yield (UUID, tag, first, last) in canonical order."""
        for uuid, tag in sorted(self._intervals):
            for first, last in self._intervals[uuid, tag]:
                yield uuid, tag, first, last

    def text(self) -> str:
        """Return the server's canonical text in one line: UUIDs sorted, untagged intervals first,
        then by tag.
        """
        parts: list[str] = []
        before = ""
        for source in sorted(self._intervals):
            uuid, tag = source
            ranges = self._texts.get(source)
            if ranges is None:
                ranges = ":".join(str(first) if first == last else f"{first}-{last}" for first, last in self._intervals[source])
                self._texts[source] = ranges
            tagged = f":{tag}:{ranges}" if tag else f":{ranges}"
            parts.append(tagged if uuid == before else f",{uuid}{tagged}")
            before = uuid
        return "".join(parts)[1:]

    def encode(self) -> bytes:
        """Return the form of COM_BINLOG_DUMP_GTID. With a tagged member the set is in the format of
        8.3, which older servers refuse.
        """
        tagged = self.tagged
        count = len(self._intervals)
        out = [struct.pack("<Q", (1 << 56) | (count << 8) | 1 if tagged else count)]
        for uuid, tag in sorted(self._intervals):
            intervals = self._intervals[uuid, tag]
            out.append(bytes.fromhex(uuid.replace("-", "")))
            if tagged:
                # The length is a one-byte varint of the server's serialization library.
                out.append(bytes((len(tag) << 1,)) + tag.encode())
            out.append(struct.pack("<Q", len(intervals)))
            out += [struct.pack("<QQ", first, last + 1) for first, last in intervals]
        return b"".join(out)

    @classmethod
    def decode(cls, data: bytes) -> GtidSet:
        """Parse the form of ``encode``, which is also the body of PREVIOUS_GTIDS."""
        out = cls()
        (head,) = struct.unpack_from("<Q", data)
        form = head >> 56
        if form > 1:
            message = f"the server sent a GTID set of an unknown format ({form}); this server is newer than dblog knows"
            raise DefiniteError(message)
        count = (head >> 8) & 0xFFFFFFFFFFFF if form else head
        at = 8
        for _ in range(count):
            uuid = uuid_text(data[at : at + 16])
            at += 16
            tag = ""
            if form:
                length = data[at] >> 1
                tag = data[at + 1 : at + 1 + length].decode("ascii")
                at += 1 + length
            (intervals,) = struct.unpack_from("<Q", data, at)
            at += 8
            for _ in range(intervals):
                first, end = struct.unpack_from("<QQ", data, at)
                at += 16
                out.add(uuid, tag, first, end - 1)
        return out

    def __bool__(self) -> bool:
        return bool(self._intervals)

    def __eq__(self, other: object) -> bool:
        return self._intervals == other._intervals if isinstance(other, GtidSet) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # sets grow in place

    def __repr__(self) -> str:
        return f"GtidSet({self.text()!r})"


def uuid_text(data: bytes) -> str:
    """Return the text of a UUID's 16 bytes."""
    digits = data.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _without(intervals: list[Interval], taken: list[Interval]) -> list[Interval]:
    """Return the intervals without ``taken``. Both are sorted and disjoint."""
    out: list[Interval] = []
    i = 0
    for low, last in intervals:
        first = low
        while i < len(taken) and taken[i][1] < first:
            i += 1
        j = i
        while first <= last and j < len(taken) and taken[j][0] <= last:
            if taken[j][0] > first:
                out.append((first, taken[j][0] - 1))
            first = max(first, taken[j][1] + 1)
            j += 1
        if first <= last:
            out.append((first, last))
    return out


def _not_a_set(part: str) -> DefiniteError:
    return DefiniteError(f"'{part[:100]}' is not part of a GTID set; correct the connector's offset (field gtids), or reset it")


# -- file and offset -------------------------------------------------------------------------------


def file_index(file: str) -> int:
    """Return the number of a log file: the digits after the last dot (``binlog.000042`` is 42).
    They grow past six digits without a gap.
    """
    digits = file.rpartition(".")[2]
    if not (digits.isascii() and digits.isdigit()):
        message = f"'{file}' is not the name of a log file; correct the connector's offset (field file), or reset it"
        raise DefiniteError(message)
    return int(digits)
