"""Keeps the newest log lines in memory, for the page and the command line: a few of this process, and
in the worker those of each connector.

The lines are those that are written, after the same levels and with the same secrets hidden. Both
stores are bounded; the oldest lines go first.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

CONTROLS = {code: f"\\u{code:04x}" for code in (*range(0x0A), *range(0x0B, 0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)}
"""Control characters and line separators, as JSON escapes. They could move a terminal's cursor or
start a new line for some readers.
"""
TEXT_MAX = 2000
"""Characters of a line; longer ones are cut."""
_FIELDS = frozenset({"timestamp", "level", "logger", "event", "connector", "task", "exception"})
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50, "fatal": 50}


@dataclass(frozen=True, slots=True)
class Line:
    """One log line."""

    at: str
    """Time in ISO 8601, UTC."""
    level: str
    logger: str
    text: str

    @property
    def size(self) -> int:
        """Bytes that it takes, about."""
        return len(self.text) + len(self.logger) + 120


def line_of(event: Mapping[str, Any], shown: Callable[[str], str]) -> Line:
    """Return the line of an event. ``shown`` hides secrets in a text."""
    fields = " ".join(f"{key}={_text(value)}" for key, value in event.items() if key not in _FIELDS)
    trace = str(event.get("exception") or "")
    text = shown("\n".join(part for part in (f"{event.get('event', '')} {fields}".strip(), trace) if part))
    # As in the log that is written, no name begins a line, and none moves a terminal's cursor.
    text = text.encode(errors="backslashreplace").decode().replace("\n", "\n    ").translate(CONTROLS)
    return Line(
        at=str(event.get("timestamp", "")),
        level=str(event.get("level", "info")),
        logger=str(event.get("logger", "")),
        text=text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 1]}…",
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


class NewestLines:
    """Lines that wait to be passed on. Threads may share it; ``add`` never waits."""

    def __init__(self, lines_max: int = 500) -> None:
        self._lines: deque[Line] = deque(maxlen=lines_max)
        self.dropped = 0
        """Lines that gave way to newer ones before they were taken."""

    def add(self, line: Line) -> None:
        """Add a line. The oldest one gives way if there is no room."""
        self.dropped += len(self._lines) == self._lines.maxlen
        self._lines.append(line)

    def take(self, lines_max: int) -> list[dict[str, Any]]:
        """Return and forget the oldest lines, as JSON objects."""
        found: list[dict[str, Any]] = []
        while self._lines and len(found) < lines_max:
            found.append(asdict(self._lines.popleft()))
        return found


class ConnectorLines:
    """The newest lines of each connector. Threads may share it."""

    def __init__(self, *, bytes_each: int = 128 << 10, bytes_max: int = 32 << 20) -> None:
        """Create an empty store. If all lines exceed ``bytes_max``, those of the connector that has
        logged nothing for the longest time go.
        """
        self._bytes_each = bytes_each
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._lines: OrderedDict[str, deque[Line]] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._size = 0

    def add(self, connector: str, line: Line) -> None:
        """Add a line of a connector."""
        with self._lock:
            lines = self._lines.setdefault(connector, deque())
            self._lines.move_to_end(connector)
            lines.append(line)
            self._grow(connector, line.size)
            while self._sizes[connector] > self._bytes_each and len(lines) > 1:
                self._grow(connector, -lines.popleft().size)
            while self._size > self._bytes_max and len(self._lines) > 1:
                self._forget(next(iter(self._lines)))

    def _grow(self, connector: str, size: int) -> None:
        self._sizes[connector] = self._sizes.get(connector, 0) + size
        self._size += size

    def _forget(self, connector: str) -> None:
        if self._lines.pop(connector, None) is not None:
            self._size -= self._sizes.pop(connector)

    def forget(self, connector: str) -> None:
        """Forget a connector that was deleted."""
        with self._lock:
            self._forget(connector)

    @staticmethod
    def read(lines: Iterable[object], shown: Callable[[str], str]) -> Iterator[Line]:
        """Return the lines that a task's process has sent. What is no line is left out."""
        for each in lines:
            match each:
                case {"at": str(at), "level": str(level), "logger": str(logger), "text": str(text)}:
                    yield Line(at[:40], level[:20], logger[:200], shown(text[: TEXT_MAX + 1]))

    def of(self, connector: str, *, level: str = "", search: str = "", limit: int = 500) -> list[Line]:
        """Return the newest lines of at least this level that contain ``search``, oldest first."""
        least, wanted = _LEVELS.get(level.lower(), 0), search.casefold()
        with self._lock:
            lines = list(self._lines.get(connector, ()))
        found = [each for each in lines if _LEVELS.get(each.level, 20) >= least and wanted in f"{each.logger} {each.text}".casefold()]
        return found[-limit:] if limit else []
