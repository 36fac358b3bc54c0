"""Shows a run in progress: one live screen on a terminal, else a line for each event.

``screen.py`` draws; this module samples the numbers, keeps the view up to date, and writes. One
thread gets the numbers from a callback, another prints lines, so that a slow answer of a server that
was just killed delays neither the run nor the lines.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from demo import screen
from demo.screen import Numbers, Rate, View

SAMPLE_INTERVAL_S = 1.0
FRAMES_PER_S = 4
_LOOK_S = 0.25


class Progress:
    """The display of a run.

    ``phase`` and ``event`` show what the run does, and ``waits`` what it waits for; the numbers come
    from ``sample`` about once a second. Any thread may call them. ``log`` names a file that gets all
    lines, which a live screen does not keep.
    """

    def __init__(self, title: str, *, source: str = "source", console: Console | None = None, log: Path | None = None) -> None:
        self.console = console or Console(highlight=False)
        self.sample: Callable[[Numbers], None] | None = None
        self.dump: Callable[[], str] | None = None
        """Function that returns the line of the dump beside the log; None without one."""
        self.numbers = Numbers()
        self._view = View(title, source=source, numbers=self.numbers)
        self._waits_for: str | Callable[[], str] = ""
        self._began_s = time.monotonic()
        self._line_s = self._began_s
        self._changes, self._records, self._rows = Rate(), Rate(), Rate()
        self._turn = threading.RLock()
        self._log_path = log
        self._log: TextIO | None = None
        self._live: Live | None = None
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=target, name="progress", daemon=True) for target in (self._sample, self._print_lines)]

    def __enter__(self) -> Self:
        if self._log_path is not None:
            self._log = self._log_path.open("w", encoding="utf-8")
        if self.console.is_terminal:
            self._live = Live(_Screen(self), console=self.console, refresh_per_second=FRAMES_PER_S, screen=True)
            self._live.start()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(10)
        if self._live is not None:
            self._live.stop()
        if self._log is not None:
            self._log.close()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began_s

    def phase(self, text: str) -> None:
        """Show what goes on from now on, also as an event."""
        with self._turn:
            self._view.phase = text
            self.event(text)

    def event(self, text: str) -> None:
        """Show something that happened."""
        with self._turn:
            at_s = self.elapsed_s
            self._view.events.append((at_s, text))
            self._write(f"{screen.stamp(at_s)}  {text}")

    def killed(self, what: str, text: str) -> None:
        """Show a kill, and keep it on the screen to its end as ``what``."""
        with self._turn:
            self._view.kills.append((self.elapsed_s, what))
            self.event(text)

    @contextmanager
    def waits(self, what: str | Callable[[], str]) -> Iterator[None]:
        """Show inside the block that the run waits for something.

        A function is called again for each frame and line.
        """
        with self._turn:
            before = self._waits_for, self._view.waits_since_s
            self._waits_for, self._view.waits_since_s = what, self.elapsed_s
        try:
            yield
        finally:
            with self._turn:
                self._waits_for, self._view.waits_since_s = before

    def picture(self, *, width: int, height: int) -> list[Text]:
        """Return the lines of the screen as of now."""
        with self._turn:
            return screen.picture(self._now(), width=width, height=height)

    def look(self) -> None:
        """Take a sample of the numbers."""
        # A server that is down is asked again in a second.
        with suppress(Exception):
            if self.sample is not None:
                self.sample(self.numbers)
            self.numbers.dump = self.dump() if self.dump is not None else ""
        now_s = time.monotonic()
        with self._turn:
            self._view.changes_per_s = self._changes.take(self.numbers.changes, now_s)
            self._view.records_per_s = self._records.take(self.numbers.records or 0, now_s)
            self._view.rows_per_s = self._rows.take(self.numbers.rows_lake or 0, now_s)

    def line(self) -> None:
        """Print all numbers if that is due."""
        with self._turn:
            if time.monotonic() - self._line_s >= screen.LINE_INTERVAL_S:
                self._line_s = time.monotonic()
                self._write(screen.line(self._now()))

    def _now(self) -> View:
        self._view.elapsed_s = self.elapsed_s
        self._view.waits_for = self._waits_for if isinstance(self._waits_for, str) else self._waits_for()
        return self._view

    def _sample(self) -> None:
        while not self._stop.wait(SAMPLE_INTERVAL_S):
            self.look()

    def _print_lines(self) -> None:
        while not self._stop.wait(_LOOK_S):
            self.line()

    def _write(self, text: str) -> None:
        if self._live is None:
            self.console.print(text, markup=False, soft_wrap=True)
        if self._log is not None:
            self._log.write(f"{text}\n")
            self._log.flush()


class _Screen:
    """The live screen, which rich draws anew with each frame."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(screen.WIDTH_MIN, options.max_width)
        yield Text("\n").join(self._progress.picture(width=width, height=options.height or console.size.height))
