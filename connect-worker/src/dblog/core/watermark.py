"""Decides which rows of a chunk may be sent, and when: DBLog's watermark windows, several at once.

A window is a SELECT between two watermarks in the log. A log event for a key between the watermarks removes that key's chunk row, because the event is
at least as new as the row; whatever is left is exactly what the log did not touch, and may be sent at the high watermark. The log never waits:
keys are noted from the low watermark on, and the rows are filtered once the high watermark shows up.

Why this is right: the low watermark is committed before the chunk's snapshot is taken (the reader proves it by finding the watermark in that very
snapshot), and the high watermark is committed after the SELECT has ended. So a change that the SELECT did not see is logged behind the low watermark, and
a change that the SELECT did see is either logged before the low watermark (and was sent before the row), or inside the window, where it drops the
row. # I2

A log may leave out values of a row that it has changed: large ones that were as before. Such an event drops the key's chunk row as any other, but whoever
has had no row of that key yet lacks these values for good. So a window says which of its dropped keys are of that kind, and a chunk with one of them is
read again. # I3

Source of the rule: "DBLog: A Watermark Based Change-Data-Capture Framework" (Andreakis, Papapanagiotou, 2020), section 3.

Windows of one lane of a table are opened on consecutive key ranges and progress is a frontier; so a window that is thrown away takes its younger
siblings of the same lane with it. A table has a lane for each of its readers: their ranges have no key in common, and a key of the log is dropped in the
windows of all of them.

One pair of watermarks may stand for windows of several tables, which were read in one snapshot. They share the two positions and nothing else: each drops
its own table's keys, and one that is thrown away leaves the others as they are.

A watermark may be lost: a server that takes over never got it, or a damaged event is passed over. High watermarks of one lane come in the order of its
windows, so one that comes ahead of an older sibling's proves that the older one is lost; where no younger one follows, the shell asks for those that are
overdue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

from dblog.model import TableId

Rows = TypeVar("Rows")
"""Whatever the reader gives for a chunk; windows never look inside."""

Group = TypeVar("Group")


class Why(Enum):
    """Why windows are thrown away, in a word: for metrics."""

    KEYS = "keys"
    """Too many were noted."""
    TABLE = "table"
    """Its columns, or its old rows, are other ones now."""
    HELD = "held"
    WATERMARK = "watermark"
    """It is lost."""
    ERROR = "error"
    """The SELECT failed."""
    KEYLESS = "keyless"
    MESSAGE_KEY = "message_key"
    """It does not distinguish rows."""
    LACKING = "lacking"
    """The log does not have all values of a row that it has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkPosition:
    """Where a watermark stands in the log; ``sequence_high`` and ``sequence_low`` are D7's two numbers."""

    file: str
    pos: int
    sequence_high: int
    sequence_low: int
    gtid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """What the chunk reader gets for a window it may now read: the texts to write as watermarks. Windows that are declared together have them in common."""

    number: int
    table: TableId
    low_token: str
    high_token: str
    lane: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed(Generic[Rows]):
    """A window whose high watermark has passed: send ``rows`` but for the ``dropped`` keys, with the position of ``low``."""

    number: int
    table: TableId
    rows: Rows
    low: WatermarkPosition
    high: WatermarkPosition
    dropped: frozenset[bytes]
    lacking: frozenset[bytes] = frozenset()
    """Those of the dropped keys of which the log has had no record with all values."""
    lane: int = 0
    opened_ms: int | None = None
    """When its low watermark was met, by the wall clock."""
    found_before: Any = None
    """What the caller said when its low watermark was met (``Windows.watermark``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded:
    """Windows thrown away, in order; the reader reads their ranges again from its frontier. ``smaller`` asks for fewer rows."""

    table: TableId
    numbers: tuple[int, ...]
    reason: str
    smaller: bool = False
    lane: int | None = 0
    """None: those of all lanes."""


@dataclass(slots=True, eq=False)
class _Window(Generic[Rows]):
    number: int
    pair: int
    """The number that its watermarks have: that of the first window between them."""
    table: TableId
    keyed: bool
    keys_max: int
    lane: int = 0
    low: WatermarkPosition | None = None
    opened_ms: int | None = None
    found_before: Any = None
    rows: Rows | None = None
    submitted_s: float = 0.0
    dropped: set[bytes] = field(default_factory=set)
    lacking: set[bytes] = field(default_factory=set)


class Windows(Generic[Rows]):
    """All windows of one task. Pure: the shell holds a lock around each call.

    ``run`` makes the watermarks of this run unlike those of any other run or connector, so that watermarks found again after a restart mean nothing.
    ``keys_max`` bounds the notes of one window. # I6
    """

    def __init__(self, *, run: str, keys_max: int) -> None:
        self._run = run
        self._keys_max = keys_max
        self._next_number = 1
        self._windows: dict[int, _Window[Rows]] = {}
        self._pairs: dict[int, list[_Window[Rows]]] = {}
        self._by_table: dict[TableId, list[_Window[Rows]]] = {}
        self.closed_total = 0
        self.discarded_total: Counter[Why] = Counter()

    @property
    def keys_noted(self) -> int:
        """Keys that open windows have noted."""
        return sum(len(window.dropped) for window in self._windows.values())

    @property
    def open_total(self) -> int:
        """Windows declared and neither closed nor discarded."""
        return len(self._windows)

    def open_of(self, table: TableId, lane: int = 0) -> int:
        """The same of one lane of a table."""
        return sum(window.lane == lane for window in self._by_table.get(table, ()))

    def open_in(self, table: TableId) -> int:
        """The same of all its lanes."""
        return len(self._by_table.get(table, ()))

    def declare(self, table: TableId, *, keyed: bool, lane: int = 0) -> Ticket:
        """Announce a window, before its low watermark is written. ``keyed`` False: any event of the table spoils the window."""
        return self._declare([table], keyed=keyed, lane=lane)[0]

    def declare_together(self, tables: Sequence[TableId]) -> list[Ticket]:
        """Announce a window of each of these tables, all between one pair of watermarks; the tables have keys. They share ``keys_max``. # I6"""
        return self._declare(tables, keyed=True)

    def _declare(self, tables: Sequence[TableId], *, keyed: bool, lane: int = 0) -> list[Ticket]:
        pair = self._next_number
        windows: list[_Window[Rows]] = [
            _Window(number, pair, table, keyed, max(1, self._keys_max // len(tables)), lane)
            for number, table in enumerate(tables, start=pair)
        ]
        self._next_number += len(windows)
        if windows:
            self._pairs[pair] = list(windows)
        for window in windows:
            self._windows[window.number] = window
            self._by_table.setdefault(window.table, []).append(window)
        low, high = f"{self._run}/{pair}/low", f"{self._run}/{pair}/high"
        return [Ticket(number=window.number, table=window.table, low_token=low, high_token=high, lane=lane) for window in windows]

    def tables_between(self, ticket: Ticket) -> tuple[TableId, ...]:
        """The tables whose windows lie between the ticket's watermarks, without those that were thrown away."""
        pair = int(ticket.low_token.split("/")[-2])
        return tuple(window.table for window in self._pairs.get(pair, ()))

    def submit(self, number: int, rows: Rows, *, now_s: float = 0.0) -> bool:
        """Give a window its rows, before its high watermark is written. False: the window was discarded meanwhile, do not write the watermark."""
        window = self._windows.get(number)
        if window is None:
            return False
        window.rows, window.submitted_s = rows, now_s
        return True

    def release(self, number: int) -> None:
        """A window that was declared is not read after all. It is the newest of its table, so no range follows on it."""
        window = self._windows.get(number)
        if window is not None:
            self._forget(window)

    def note(self, table: TableId, keys: Iterable[bytes | None], *, lacking: AbstractSet[bytes] = frozenset()) -> Sequence[Discarded]:
        """Drop the keys of log events from the table's open windows; what becomes too many. Called in log order, between the calls of ``watermark``.

        ``lacking``: those of them of which some record has not all values, for the log leaves out large ones that an update has not changed. Whoever has had
        no other record of such a key needs the chunk's row.
        """
        windows = self._by_table.get(table)
        if windows is None:
            return ()
        spoilt: list[Discarded] = []
        for window in tuple(windows):
            if window.low is None or window.number not in self._windows:
                continue  # not open yet, or its low watermark is lost (a younger sibling may be open all the same); or an older sibling has just gone
            if not window.keyed:
                spoilt.append(self._discard(window, "a change of a table without a key came inside the window", Why.KEYLESS))
                continue
            if lacking or window.lacking:
                window.lacking.difference_update(key for key in keys if key is not None and key not in lacking)
                window.lacking |= lacking - window.dropped
            window.dropped.update(key for key in keys if key is not None)
            if len(window.dropped) > window.keys_max:
                spoilt.append(self._discard(window, f"more than {window.keys_max} keys changed inside the window", Why.KEYS, smaller=True))
        return spoilt

    def watermark(
        self, token: str, position: WatermarkPosition, *, now_ms: int | None = None, found: Any = None
    ) -> list[Closed[Rows] | Discarded]:
        """A watermark has shown up in the log: what becomes of the windows between it and its counterpart, in their order. Watermarks of other runs, and of
        windows discarded since, mean nothing. ``now_ms``: the wall clock's time. ``found``: a value that the closed window has from its low one.

        A high watermark that shows another one to be lost closes no window of that table: the range of the older one would be passed over.
        """
        run, _, rest = token.rpartition("/")[0].rpartition("/")
        if run != self._run:
            return []
        windows = self._pairs.get(int(rest), [])
        if token.endswith("/low"):
            for window in windows:
                window.low, window.opened_ms, window.found_before = position, now_ms, found
            return []
        return [self._met_high(window, position) for window in tuple(windows)]

    def _met_high(self, window: _Window[Rows], position: WatermarkPosition) -> Closed[Rows] | Discarded:
        if window.rows is None:
            message = f"the high watermark of window {window.number} of {window.table} came before its rows"
            raise AssertionError(message)
        oldest = next(one for one in self._by_table[window.table] if one.lane == window.lane)
        if oldest is not window:
            return self._discard(oldest, "the log has a younger window's high watermark, and none of this one's", Why.WATERMARK)
        if window.low is None:
            return self._discard(window, "the log has its high watermark, and no low watermark", Why.WATERMARK)
        self._forget(window)
        self.closed_total += 1
        return Closed(
            number=window.number,
            table=window.table,
            rows=window.rows,
            low=window.low,
            high=position,
            dropped=frozenset(window.dropped),
            lacking=frozenset(window.lacking),
            lane=window.lane,
            opened_ms=window.opened_ms,
            found_before=window.found_before,
        )

    def discard(self, number: int, reason: str, *, why: Why = Why.ERROR, smaller: bool = False) -> Discarded | None:
        """Throw one window away (and its younger siblings): its SELECT failed, or its rows do not fit the table any more."""
        window = self._windows.get(number)
        return None if window is None else self._discard(window, reason, why, smaller=smaller)

    def overdue(self, submitted_before_s: float) -> list[Discarded]:
        """Throw away the windows whose rows were submitted before that moment: whoever asks has read a log that had their high watermarks long ago."""
        late = self._late(submitted_before_s)
        return [self._discard(w, "the log does not have its high watermark", Why.WATERMARK) for w in late if w.number in self._windows]

    def has_overdue(self, submitted_before_s: float) -> bool:
        """Whether there are such windows."""
        return bool(self._late(submitted_before_s))

    def _late(self, submitted_before_s: float) -> list[_Window[Rows]]:
        return [w for w in self._windows.values() if w.rows is not None and w.submitted_s < submitted_before_s]

    def table_changed(self, table: TableId, reason: str, *, why: Why = Why.TABLE) -> Discarded | None:
        """DDL on the table: nothing read so far can be trusted to fit it. Every window of the table goes, also those not open yet."""
        windows = self._by_table.get(table)
        return None if windows is None else self._discard_all(tuple(windows), reason, why, lane=None)

    def lane_spoilt(self, table: TableId, lane: int, reason: str, *, why: Why = Why.TABLE) -> Discarded | None:
        """What a lane's windows would follow on was thrown away: they all go."""
        windows = [window for window in self._by_table.get(table, ()) if window.lane == lane]
        return self._discard_all(windows, reason, why, lane=lane) if windows else None

    def _discard(self, first: _Window[Rows], reason: str, why: Why, *, smaller: bool = False) -> Discarded:
        siblings = [w for w in self._by_table[first.table] if w.lane == first.lane]
        doomed = [w for w in siblings if w.number >= first.number]
        return self._discard_all(doomed, reason, why, lane=first.lane, smaller=smaller)

    def _discard_all(self, doomed: Sequence[_Window[Rows]], reason: str, why: Why, *, lane: int | None, smaller: bool = False) -> Discarded:
        for window in doomed:
            self._forget(window)
        self.discarded_total[why] += len(doomed)
        return Discarded(table=doomed[0].table, numbers=tuple(w.number for w in doomed), reason=reason, smaller=smaller, lane=lane)

    def _forget(self, window: _Window[Rows]) -> None:
        del self._windows[window.number]
        _leave(self._by_table, window.table, window)
        _leave(self._pairs, window.pair, window)


def _leave(groups: dict[Group, list[_Window[Rows]]], group: Group, window: _Window[Rows]) -> None:
    windows = groups[group]
    windows.remove(window)
    if not windows:
        del groups[group]
