"""Decides which rows of a chunk may be sent, and when: DBLog's watermark windows, several at once.

A window is a SELECT between two watermarks in the log. A log event for a key between the watermarks
removes that key's chunk row, because the event is at least as new as the row. The remaining rows
are exactly those that the log did not touch, and they may be sent at the high watermark. The log
never waits: keys are noted from the low watermark on, and the rows are filtered when the high
watermark arrives.

Why this is right: the low watermark is committed before the chunk's snapshot is taken (the reader
proves it by finding the watermark in that very snapshot), and the high watermark is committed after
the SELECT has ended. So a change that the SELECT did not see is logged after the low watermark. A
change that the SELECT did see is either logged before the low watermark (and was sent before the
row), or inside the window, where it drops the row. # I2

A log may leave out unchanged values of a row that it has changed, if they are large. Such an event
drops the key's chunk row like any other. But a consumer that has had no row of that key yet would
lack these values for good. So a window names its dropped keys of that kind, and a chunk with such a
key is read again. # I3

Source of the rule: "DBLog: A Watermark Based Change-Data-Capture Framework" (Andreakis,
Papapanagiotou, 2020), section 3.

Windows of one lane of a table are opened on consecutive key ranges, and progress is a frontier. So
when a window is discarded, the younger windows of its lane are discarded with it. A table has a
lane for each of its readers: their ranges have no key in common, and a key of the log is dropped in
the windows of all lanes.

One pair of watermarks may serve windows of several tables, which were read in one snapshot. They
share the two positions and nothing else: each drops its own table's keys, and discarding one does
not affect the others.

A watermark may be lost: a server that takes over never got it, or a damaged event is skipped. High
watermarks of one lane come in the order of its windows. So if a younger window's high watermark
comes first, that of the older window is lost. If no younger one follows, the caller asks for
windows that are overdue.
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
"""Rows of a chunk as the reader gives them; windows never look inside."""

Group = TypeVar("Group")


class Why(Enum):
    """Reasons for discarding windows, as labels of metrics."""

    KEYS = "keys"
    """Too many keys were noted."""
    TABLE = "table"
    """The table's columns, or its old rows, have changed."""
    HELD = "held"
    WATERMARK = "watermark"
    """A watermark is lost."""
    ERROR = "error"
    """The SELECT failed."""
    KEYLESS = "keyless"
    MESSAGE_KEY = "message_key"
    """The message key does not distinguish rows."""
    LACKING = "lacking"
    """The log lacks some values of a row that it has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkPosition:
    """The place of a watermark in the log. ``sequence_high`` and ``sequence_low`` are D7's two
    numbers.
    """

    file: str
    pos: int
    sequence_high: int
    sequence_low: int
    gtid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """Permission for a chunk reader to read a window, with the texts to write as watermarks.
    Windows that are declared together share these texts.
    """

    number: int
    table: TableId
    low_token: str
    high_token: str
    lane: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed(Generic[Rows]):
    """A window whose high watermark has passed. Its ``rows``, except those with ``dropped`` keys,
    must be sent with the position of ``low``.
    """

    number: int
    table: TableId
    rows: Rows
    low: WatermarkPosition
    high: WatermarkPosition
    dropped: frozenset[bytes]
    lacking: frozenset[bytes] = frozenset()
    """Dropped keys for which the window saw no record with all values."""
    lane: int = 0
    opened_ms: int | None = None
    """Wall-clock time at which the log reached the low watermark, in milliseconds; None if unknown.
    """
    found_before: Any = None
    """Value that the caller passed as ``found`` at the low watermark (``Windows.watermark``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded:
    """Windows that were discarded, in order. The reader reads their ranges again from its frontier,
    with fewer rows if ``smaller``.
    """

    table: TableId
    numbers: tuple[int, ...]
    reason: str
    smaller: bool = False
    lane: int | None = 0
    """Lane of the windows; None if windows of all lanes were discarded."""


@dataclass(slots=True, eq=False)
class _Window(Generic[Rows]):
    number: int
    pair: int
    """Number in the window's watermarks: that of the first window between them."""
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
    """All windows of one task. Pure: the caller holds a lock around each call.

    ``run`` makes the watermarks of this run differ from those of any other run or connector, so
    that watermarks read again after a restart mean nothing. ``keys_max`` limits the keys that one
    window notes. # I6
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
        """Number of keys that open windows have noted."""
        return sum(len(window.dropped) for window in self._windows.values())

    @property
    def open_total(self) -> int:
        """Number of windows that were declared and are neither closed nor discarded."""
        return len(self._windows)

    def open_of(self, table: TableId, lane: int = 0) -> int:
        """Return the number of open windows in one lane of a table."""
        return sum(window.lane == lane for window in self._by_table.get(table, ()))

    def open_in(self, table: TableId) -> int:
        """Return the number of open windows in all lanes of a table."""
        return len(self._by_table.get(table, ()))

    def declare(self, table: TableId, *, keyed: bool, lane: int = 0) -> Ticket:
        """Announce a window before its low watermark is written. With ``keyed`` False, any event of
        the table discards the window.
        """
        return self._declare([table], keyed=keyed, lane=lane)[0]

    def declare_together(self, tables: Sequence[TableId]) -> list[Ticket]:
        """Announce a window for each of these tables, all between one pair of watermarks. The
        tables have keys. The windows share ``keys_max``. # I6
        """
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
        """Return the tables whose windows lie between the ticket's watermarks, without discarded
        ones.
        """
        pair = int(ticket.low_token.split("/")[-2])
        return tuple(window.table for window in self._pairs.get(pair, ()))

    def submit(self, number: int, rows: Rows, *, now_s: float = 0.0) -> bool:
        """Give a window its rows before its high watermark is written. Return False if the window
        was discarded meanwhile; then do not write the watermark.
        """
        window = self._windows.get(number)
        if window is None:
            return False
        window.rows, window.submitted_s = rows, now_s
        return True

    def release(self, number: int) -> None:
        """Withdraw a declared window that is not read after all. It must be the newest of its
        table, so that no range follows it.
        """
        window = self._windows.get(number)
        if window is not None:
            self._forget(window)

    def note(self, table: TableId, keys: Iterable[bytes | None], *, lacking: AbstractSet[bytes] = frozenset()) -> Sequence[Discarded]:
        """Drop the keys of log events from the table's open windows. Return the windows discarded
        because they noted too many keys, or because their table has no key. Call this in log order,
        between the calls of ``watermark``.

        ``lacking`` are those of the keys with a record that lacks values, because the log leaves
        out large values that an update did not change. A consumer that has no other record of such
        a key needs the chunk's row.
        """
        windows = self._by_table.get(table)
        if windows is None:
            return ()
        spoilt: list[Discarded] = []
        for window in tuple(windows):
            if window.low is None or window.number not in self._windows:
                # The window is not open yet, or its low watermark is lost (a younger window may be
                # open nevertheless), or it was discarded with an older window just now.
                continue
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
        """Take a watermark from the log. Return what becomes of the windows between it and its
        counterpart, in order. Watermarks of other runs, and of discarded windows, mean nothing.

        ``now_ms`` is the wall-clock time. ``found`` is a value that the closed window keeps from
        its low watermark. A high watermark that proves another one lost closes no window of that
        table: the older window's range would be skipped.
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
        """Discard one window and the younger ones of its lane: its SELECT failed, or its rows no
        longer fit the table. Return None if the window is gone already.
        """
        window = self._windows.get(number)
        return None if window is None else self._discard(window, reason, why, smaller=smaller)

    def overdue(self, submitted_before_s: float) -> list[Discarded]:
        """Discard the windows whose rows were submitted before that time. The caller has read the
        log far beyond the places of their high watermarks.
        """
        late = self._late(submitted_before_s)
        return [self._discard(w, "the log does not have its high watermark", Why.WATERMARK) for w in late if w.number in self._windows]

    def has_overdue(self, submitted_before_s: float) -> bool:
        """Return True if ``overdue`` would discard a window."""
        return bool(self._late(submitted_before_s))

    def _late(self, submitted_before_s: float) -> list[_Window[Rows]]:
        return [w for w in self._windows.values() if w.rows is not None and w.submitted_s < submitted_before_s]

    def table_changed(self, table: TableId, reason: str, *, why: Why = Why.TABLE) -> Discarded | None:
        """Discard every window of the table after DDL, also those that are not open yet: nothing
        read so far can be trusted to fit the table.
        """
        windows = self._by_table.get(table)
        return None if windows is None else self._discard_all(tuple(windows), reason, why, lane=None)

    def lane_spoilt(self, table: TableId, lane: int, reason: str, *, why: Why = Why.TABLE) -> Discarded | None:
        """Discard all windows of a lane, because rows that precede them were discarded."""
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
