"""Keeps what has happened to each connector since this worker began: its log lines, and a timeline of
events made of some of them.

An event is a line that changes what an operator would think: somebody changed something (audit), a
state, a restart, a retry, a failover, a statement that changed a table, a dump. Every warning and
every error is one too. Both stores are bounded (``observe/lines.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dblog.observe.lines import ConnectorLines, Line

KINDS = {
    "change": ("change",),
    "state": (
        "connector state",
        "task state",
        "task failed",
        "task killed",
        "task process started",
        "task process ended",
        "this worker runs",
    ),
    "retry": ("task tries again", "log connection lost", "dump waits before its next try", "the server is out of connections"),
    "failover": ("another server answers", "a replica has transactions", "the slot has lost"),
    "ddl": (
        "a statement changed",
        "schema change",
        "a parked table is read again",
        "a table is read by itself",
        "the table's key has changed",
    ),
    "dump": ("dump ", "the table's dump", "the dump is done", "tables that were new", "table dumped", "requested dump ended"),
    "position": ("offsets altered", "offsets reset", "what was stored is lost"),
}
"""Kinds of events, with the beginnings of their lines."""
_WARNINGS = ("warning", "error", "critical")
_AUDIT = "dblog.audit"
_EVENT_BYTES_EACH = 32 << 10
_EVENT_BYTES_MAX = 8 << 20


def kind_of(line: Line) -> str:
    """Return the kind of event that a line is, or an empty text if it is not an event."""
    if line.logger == _AUDIT:
        return "change"
    for kind, beginnings in KINDS.items():
        if line.text.startswith(beginnings):
            return kind
    return "warning" if line.level in _WARNINGS else ""


class Journal:
    """Lines and events of all connectors. Threads may share it."""

    def __init__(self, *, exists: Callable[[str], bool] = lambda _name: True) -> None:
        """Create an empty journal. ``exists`` is called for each line, also while locks are held.

        Lines about a connector that does not exist are left out: refused requests name whatever
        their senders like, and would take the room of real ones.
        """
        self._exists = exists
        self.lines = ConnectorLines()
        self._events = ConnectorLines(bytes_each=_EVENT_BYTES_EACH, bytes_max=_EVENT_BYTES_MAX)

    def heard(self, line: Line, fields: Mapping[str, Any]) -> None:
        """Take a line of this process. Only those that name a connector are kept."""
        connector = fields.get("connector")
        if isinstance(connector, str) and self._exists(connector):
            self._add(connector, line)

    def sent(self, connector: str, lines: Iterable[object], shown: Callable[[str], str]) -> None:
        """Take lines that a task's process has sent. ``shown`` hides secrets."""
        if self._exists(connector):
            for line in self.lines.read(lines, shown):
                self._add(connector, line)

    def _add(self, connector: str, line: Line) -> None:
        self.lines.add(connector, line)
        if kind_of(line):
            self._events.add(connector, line)

    def events(self, connector: str, *, kind: str = "", limit: int = 200) -> list[tuple[str, Line]]:
        """Return kinds and lines of the newest events, newest first."""
        found = [(kind_of(line), line) for line in reversed(self._events.of(connector, limit=10_000))]
        return [each for each in found if kind in ("", each[0])][:limit]

    def forget(self, connector: str) -> None:
        """Forget a connector that was deleted."""
        self.lines.forget(connector)
        self._events.forget(connector)
