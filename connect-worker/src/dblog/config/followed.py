"""Files that are read at start, and again when they change while the worker runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Generic, TypeVar

import structlog

from dblog.errors import DblogError

_log = structlog.get_logger("dblog.config")

T = TypeVar("T")


class Followed(Generic[T]):
    """The parsed content of files.

    Unusable new content is reported once, and the former content stays in use.
    """

    def __init__(self, what: str, paths: Collection[str], read: Callable[[], T]) -> None:
        """Read the files, and raise what ``read`` raises. ``what`` names them in the log."""
        self._what = what
        self._paths = paths
        self._read = read
        self._lock = threading.Lock()
        self._reported = ""
        self._seen = self._state()
        self.value = read()

    def refresh(self) -> bool:
        """Check the files, and reread them if they have changed. Return True if ``value`` is new.

        Slow file systems make this slow, so do not call it in the event loop's thread.
        """
        with self._lock:
            state = self._state()
            if state == self._seen:
                return False
            try:
                value = self._read()
            except DblogError as e:
                # Tried again at the next check: two files may belong together while only one of
                # them is new.
                if str(e) != self._reported:
                    self._reported = str(e)
                    _log.error(f"{self._what} changed and cannot be used; the former content stays in use", reason=str(e))
                return False
            self._seen, self._reported, self.value = state, "", value
        _log.info(f"{self._what} changed and was read again", files=",".join(self._paths))
        return True

    def _state(self) -> list[object]:
        """Return a value that changes with any of the files, or with the target of a link."""
        found: list[object] = []
        for path in self._paths:
            try:
                stat = Path(path).stat()
            except OSError as e:
                found.append((path, e.errno))
            else:
                found.append((path, stat.st_ino, stat.st_size, stat.st_mtime_ns))
        return found
