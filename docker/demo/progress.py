"""Shows a run in progress: a panel on a terminal, else a line every few seconds.

A thread gets the numbers from a callback, so that a slow answer of a server that was just killed
delays the display and not the run.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.table import Table

LINE_INTERVAL_S = 5.0
SAMPLE_INTERVAL_S = 1.0


@dataclass(slots=True)
class Numbers:
    """The displayed numbers; None if not known (yet)."""

    rows_dumped: int | None = None
    rows_to_dump: int = 0
    records: int | None = None
    changes: int = 0
    rows_lake: int | None = None
    newest_order_at: dt.datetime | None = None
    lag_s: float | None = None
    task: str = "-"
    dump: str = ""


@dataclass(slots=True)
class _Rate:
    """The changes per second since the last sample."""

    value: int = 0
    at_s: float = field(default_factory=time.monotonic)

    def update(self, value: int) -> float:
        now_s = time.monotonic()
        rate = (value - self.value) / max(now_s - self.at_s, 0.001)
        self.value, self.at_s = value, now_s
        return max(rate, 0.0)


class Progress:
    """The display of a run.

    ``phase`` and ``event`` show what the run does; the numbers come from ``sample`` about once a
    second.
    """

    def __init__(self, title: str, *, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self.sample: Callable[[Numbers], None] | None = None
        self.dump: Callable[[], str] | None = None
        """Function that returns the line of the dump beside the log; None without one."""
        self.numbers = Numbers()
        self.kills: list[str] = []
        self._title = title
        self._phase = "starting"
        self._began_s = time.monotonic()
        self._changes, self._records = _Rate(), _Rate()
        self._changes_per_s = self._records_per_s = 0.0
        self._live: Live | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live = Live(self._panel(), console=self.console, refresh_per_second=4, transient=True)
            self._live.start()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(10)
        if self._live is not None:
            self._live.stop()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began_s

    def phase(self, text: str) -> None:
        """Show what goes on from now on, also as a separate line."""
        self._phase = text
        self.event(text)

    def event(self, text: str) -> None:
        """Show something that happened, above the panel."""
        self.console.print(f"{self.elapsed_s:6.1f} s  {text}", markup=False, soft_wrap=True)

    def _watch(self) -> None:
        line_at_s = time.monotonic() + LINE_INTERVAL_S
        while not self._stop.wait(SAMPLE_INTERVAL_S):
            # A server that is down is asked again in a second.
            with suppress(Exception):
                if self.sample is not None:
                    self.sample(self.numbers)
                self.numbers.dump = self.dump() if self.dump is not None else ""
            self._changes_per_s = self._changes.update(self.numbers.changes)
            self._records_per_s = self._records.update(self.numbers.records or 0)
            if self._live is not None:
                self._live.update(self._panel())
            elif time.monotonic() >= line_at_s:
                line_at_s = time.monotonic() + LINE_INTERVAL_S
                cells = "  ".join(f"{name} {value}" for name, value in self._cells() if name != "phase")
                self.console.print(f"{self.elapsed_s:6.1f} s  | {cells}", markup=False, soft_wrap=True)

    def _cells(self) -> list[tuple[str, str]]:
        n = self.numbers
        return [
            ("phase", self._phase),
            # New rows are dumped too, so the number may exceed the rows at the start.
            ("rows dumped", "-" if n.rows_dumped is None else f"{n.rows_dumped:,} ({n.rows_to_dump:,} at the start)"),
            ("changes", f"{_count(n.changes)} ({self._changes_per_s:,.0f}/s)"),
            ("records in Kafka", "-" if n.records is None else f"{n.records:,} ({self._records_per_s:,.0f}/s)"),
            ("rows in the lake", _count(n.rows_lake)),
            ("lag", "-" if n.lag_s is None else f"{n.lag_s:.0f} s"),
            ("task", n.task),
            ("kills", ", ".join(self.kills) or "none yet"),
            *([("second dump", n.dump)] if n.dump else []),
        ]

    def _panel(self) -> Panel:
        grid = Table.grid(padding=(0, 2))
        for name, value in self._cells():
            grid.add_row(f"[dim]{name}[/dim]", value)
        return Panel(grid, title=f"{self._title}, {self.elapsed_s:.0f} s", expand=False)


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
