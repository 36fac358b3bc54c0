"""Windows that have closed and whose rows are not all sent: they leave part by part, and rows of the log go out between the parts.

A closed window's rows may leave later than at its high watermark. Until the log changes a row, what the SELECT saw of it is what the log shows, so the
rule of the window goes on to hold (``core/watermark.py``): a key that the log brings meanwhile is noted, and its row is left out if it has not left. The
log waits for one part at most, which is encoded when it leaves. Where keys do not tell rows apart, or the log brings other things than rows, all that is
left leaves first. # I2

The interleaver changes it under its lock; the log thread, which alone changes it, reads without.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from dblog.codecs.rowplan import DIGEST_MASK, Chunk
from dblog.core.watermark import Closed
from dblog.model import TableId

Rows = TypeVar("Rows")

NOTED_MAX = 20_000
"""Keys that are noted behind one window; ahead of rows that bring more, what is left of it leaves. # I6"""


@dataclass(slots=True, eq=False)
class Encoded:
    """Records of a window whose turn it is: ``rows`` as the server sent them, in front of ``start`` as records, of which those in front of ``at`` have left."""

    topic: str
    rows: bytes = b""
    end_of_rows: Callable[[bytes, int, int, int], int] | None = None
    """``RowEncoder.end_of_rows``; None where there are no rows to encode."""
    encode: Callable[[bytes, AbstractSet[bytes]], Chunk] | None = None
    """``RowEncoder.encode_chunk`` at the window's position."""
    start: int = 0
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    at: int = 0
    dropped: int = 0
    digest: int = 0
    fingerprints: bytes | None = None
    schemas: tuple[str, str] | None = None
    mean_bytes: int | None = None
    """Of a record's value; None: none is encoded."""

    @property
    def is_out(self) -> bool:
        """Whether all have left."""
        return self.at >= len(self.keys) and self.start >= len(self.rows)

    def make(self, noted: AbstractSet[bytes], *, rows_max: int = sys.maxsize, bytes_max: int = sys.maxsize) -> None:
        """Encode the next rows, without those whose key the log has had since the SELECT."""
        if self.end_of_rows is None or self.encode is None:
            return
        stop = self.end_of_rows(self.rows, self.start, rows_max, bytes_max)
        self.keys, self.values, dropped, digest = self.encode(self.rows[self.start : stop], noted)
        self.start, self.at, self.dropped, self.digest = stop, 0, self.dropped + dropped, self.digest + digest & DIGEST_MASK
        if self.mean_bytes is None and self.values:
            self.mean_bytes = max(1, sum(len(value) for value in self.values if value is not None) // len(self.values))

    def part(self, noted: AbstractSet[bytes], *, records_max: int, bytes_max: int) -> tuple[list[bytes | None], list[bytes | None]]:
        """The next records to leave, without those whose key the log has had since the SELECT: about so many bytes of them, and one row at least."""
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
class LeavingWindow(Generic[Rows]):
    """``left_out``: keys that the log has had since the SELECT. ``records`` None: its turn has not come."""

    closed: Closed[Rows]
    left_out: set[bytes]
    records: Encoded | None = None


class Leaving(Generic[Rows]):
    """Those of one task, in the order in which they closed."""

    def __init__(self) -> None:
        self._windows: deque[LeavingWindow[Rows]] = deque()

    def __len__(self) -> int:
        return len(self._windows)

    @property
    def first(self) -> LeavingWindow[Rows]:
        """Whose turn it is."""
        return self._windows[0]

    def of(self, table: TableId, lane: int | None = None) -> int:
        """How many there are of a lane; None: of all its lanes."""
        return sum(window.closed.table == table and lane in (None, window.closed.lane) for window in self._windows)

    def closed(self) -> list[Closed[Rows]]:
        """All of them."""
        return [window.closed for window in self._windows]

    def add(self, closed: Iterable[Closed[Rows]]) -> None:
        """Windows that the log has just closed."""
        self._windows.extend(LeavingWindow(one, set(one.dropped)) for one in closed)

    def end_first(self) -> None:
        """Its rows are out, or are not to leave."""
        self._windows.popleft()

    def is_full(self, table: TableId, keys: int) -> bool:
        """Whether so many keys more are too many: then all that is left has to leave ahead of their rows."""
        return any(
            window.closed.table == table and len(window.left_out) - len(window.closed.dropped) + keys > NOTED_MAX
            for window in self._windows
        )

    def note(self, table: TableId, keys: Iterable[bytes | None]) -> None:
        """Rows of the log have these keys."""
        for window in self._windows:
            if window.closed.table == table:
                window.left_out.update(key for key in keys if key is not None)
