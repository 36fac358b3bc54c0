"""Closed windows whose rows are not all sent: they leave in parts, and log rows go out between
parts.

The rows of a closed window may leave later than its high watermark. As long as the log does not
change a row, the value that the SELECT read is the value in the log. So the rule of the window
still holds (``core/watermark.py``): a key that the log brings meanwhile is noted, and its row is
dropped if it has not left. The log waits for at most one part, which is encoded when it leaves. If
keys do not distinguish rows, or the log brings something other than rows, all remaining rows leave
first. # I2

Only the log thread changes this state, under the lock of the dumps' progress; so it reads without
the lock.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from dblog.codecs.plan import RowContext
from dblog.codecs.rowplan import DIGEST_MASK, RowEncoder
from dblog.core.watermark import Closed
from dblog.model import TableId

Rows = TypeVar("Rows")

NOTED_MAX = 20_000
"""Maximum number of keys noted for a closed window. If log rows bring more, its remaining rows
leave before them. # I6
"""


@dataclass(slots=True, eq=False)
class WindowRecords:
    """Records of the first window: rows before ``start`` are encoded, and records before ``at``
    have left.

    ``rows`` are the rows as the server sent them.
    """

    topic: str
    encoder: RowEncoder | None
    """Encoder of the rows; None if the window sends none."""
    context: RowContext
    """Position of the window's low watermark, which each row carries."""
    rows: bytes = b""
    start: int = 0
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    at: int = 0
    dropped: int = 0
    digest: int = 0
    fingerprints: bytes | None = None
    schemas: tuple[str, str] | None = None
    unwritten_schemas: tuple[Any, Any] | None = None
    """Schemas of key and value if the records still pass a chain of transforms."""
    passed: int = 0
    """Number of records that the chain has let through, of those that have left."""
    mean_bytes: int | None = None
    """Mean size of a record's value in bytes; None before any is encoded."""

    @property
    def is_out(self) -> bool:
        """True if all records have left."""
        return self.at >= len(self.keys) and self.start >= len(self.rows)

    def make(self, noted: AbstractSet[bytes], *, rows_max: int = sys.maxsize, bytes_max: int = sys.maxsize) -> None:
        """Encode the next rows, except those whose key the log has had since the SELECT."""
        if self.encoder is None:
            return
        stop = self.encoder.end_of_rows(self.rows, self.start, rows_max, bytes_max)
        self.keys, self.values, dropped, digest = self.encoder.encode_chunk(self.rows[self.start : stop], self.context, noted)
        self.start, self.at, self.dropped, self.digest = stop, 0, self.dropped + dropped, self.digest + digest & DIGEST_MASK
        if self.mean_bytes is None and self.values:
            self.mean_bytes = max(1, sum(len(value) for value in self.values if value is not None) // len(self.values))

    def part(self, noted: AbstractSet[bytes], *, records_max: int, bytes_max: int) -> tuple[list[bytes | None], list[bytes | None]]:
        """Return keys and values of the next records, except those whose key the log has had since
        the SELECT.

        They have about ``bytes_max`` bytes at most, but at least one row is taken.
        """
        if self.at >= len(self.keys):
            self.make(noted, rows_max=records_max, bytes_max=bytes_max)
            noted = frozenset()
        stop = self.at + max(1, min(records_max, bytes_max // (self.mean_bytes or 1)))
        keys, values = self.keys[self.at : stop], self.values[self.at : stop]
        self.at = stop
        if noted and not noted.isdisjoint(keys):
            stays = [key not in noted for key in keys]
            self.dropped += stays.count(False)
            keys = [key for key, stay in zip(keys, stays, strict=True) if stay]
            values = [value for value, stay in zip(values, stays, strict=True) if stay]
        return keys, values


@dataclass(slots=True, eq=False)
class ClosedWindow(Generic[Rows]):
    """A closed window whose rows are leaving.

    ``left_out`` holds the keys that the log has had since the SELECT. ``records`` is None until it
    is the first window.
    """

    closed: Closed[Rows]
    left_out: set[bytes]
    records: WindowRecords | None = None


class ClosedWindows(Generic[Rows]):
    """Closed windows of one task, in the order in which they closed."""

    def __init__(self) -> None:
        self._windows: deque[ClosedWindow[Rows]] = deque()

    def __len__(self) -> int:
        return len(self._windows)

    def __iter__(self) -> Iterator[Closed[Rows]]:
        return (window.closed for window in self._windows)

    @property
    def first(self) -> ClosedWindow[Rows]:
        """Window whose rows leave next."""
        return self._windows[0]

    def of(self, table: TableId, lane: int | None = None) -> int:
        """Return the number of windows in a lane of the table; None counts all lanes."""
        return sum(window.closed.table == table and lane in (None, window.closed.lane) for window in self._windows)

    def add(self, closed: Iterable[Closed[Rows]]) -> None:
        """Add windows that the log has just closed."""
        self._windows.extend(ClosedWindow(one, set(one.dropped)) for one in closed)

    def end_first(self) -> None:
        """Remove the first window: its rows have left, or must not."""
        self._windows.popleft()

    def is_full(self, table: TableId, keys: int) -> bool:
        """Return True if ``keys`` further keys would exceed the limit of some window of
        the table.
        """
        return any(
            window.closed.table == table and len(window.left_out) - len(window.closed.dropped) + keys > NOTED_MAX
            for window in self._windows
        )

    def note(self, table: TableId, keys: Iterable[bytes | None]) -> None:
        """Note the keys of log rows."""
        for window in self._windows:
            if window.closed.table == table:
                window.left_out.update(key for key in keys if key is not None)
