"""A source of any database that lets a test write during chunk windows.

Protocols that are not named here go to the real source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dblog.ports import ChunkRows

Change = Callable[[tuple[Any, ...]], None]


class _Instead:
    """A stand-in for another object, except for the members that a subclass defines."""

    def __init__(self, real: Any, change: Change) -> None:
        self._real = real
        self._change = change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class SourceWithWindows(_Instead):
    """A ``Source`` that calls ``change`` with a chunk's last key inside the chunk's window.

    The call comes after the end of the chunk's snapshot, before its high watermark is written.
    """

    def connect(self, **options: Any) -> Any:
        return _Server(self._real.connect(**options), self._change)


class _Server(_Instead):
    def open_chunks(self) -> Any:
        return _Chunks(self._real.open_chunks(), self._change)


class _Chunks(_Instead):
    _last_key: tuple[Any, ...] | None = None
    """Key of the last row; () for a chunk that was read by row number."""

    def select(self, *parameters: Any, **options: Any) -> ChunkRows:
        found: ChunkRows = self._real.select(*parameters, **options)
        # A single row is the greatest key, which is read within a chunk's snapshot.
        if found.row_count > 1:
            self._last_key = found.last_key or ()
        return found

    def end_snapshot(self) -> None:
        self._real.end_snapshot()
        last_key, self._last_key = self._last_key, None
        if last_key is not None:
            self._change(last_key)
