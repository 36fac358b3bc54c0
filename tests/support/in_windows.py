"""A source whose chunk windows can be written into, of any database: each protocol that is not named here goes to the real one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dblog.ports import ChunkRows

Change = Callable[[tuple[Any, ...]], None]


class _Instead:
    """Stands for another object but in what a subclass has of its own."""

    def __init__(self, real: Any, change: Change) -> None:
        self._real = real
        self._change = change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class SourceWithWindows(_Instead):
    """A ``Source``. ``change`` is called with a chunk's last key once its snapshot has ended, before its high watermark is written."""

    def connect(self, **options: Any) -> Any:
        return _Server(self._real.connect(**options), self._change)


class _Server(_Instead):
    def open_chunks(self) -> Any:
        return _Chunks(self._real.open_chunks(), self._change)


class _Chunks(_Instead):
    _last_key: tuple[Any, ...] | None = None
    """() of a chunk that was read by the place of its rows."""

    def select(self, *parameters: Any, **options: Any) -> ChunkRows:
        found: ChunkRows = self._real.select(*parameters, **options)
        if found.row_count > 1:  # a single row is the greatest key, which is asked for in a chunk's snapshot
            self._last_key = found.last_key or ()
        return found

    def end_snapshot(self) -> None:
        self._real.end_snapshot()
        last_key, self._last_key = self._last_key, None
        if last_key is not None:
            self._change(last_key)
