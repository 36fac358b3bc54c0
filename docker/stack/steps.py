"""Shows the steps of setup, several at a time, as one line: what, how far, how long.

On a terminal the line is written anew in its place; elsewhere it comes again every 15 seconds. A step
that took time leaves a line of its own when it ends. Work that a step does finds it by ``current``,
whatever is between them, and reports how far it is: a note, or a folder that fills up to a known size.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

SILENT_S = 1.0
"""Seconds below which a step prints nothing."""
REPORT_INTERVAL_S = 15.0
"""Seconds between two lines where there is no terminal."""
FRAME_S = 0.25
_MB = 1e6


@dataclass(slots=True)
class Step:
    """A step that is being done."""

    name: str
    began_s: float = field(default_factory=time.monotonic)
    about: str = ""
    """Last report of the step on itself, in words; empty if it made none."""
    folder: Path | None = None
    """Folder that its download fills, None if there is none."""
    bytes_total: int = 0

    def note(self, about: str) -> None:
        """Report what the step does now."""
        self.about, self.folder = about, None

    def expect(self, folder: Path, bytes_total: int) -> None:
        """Report that a download of known size fills a folder from now on."""
        self.folder, self.bytes_total = folder, bytes_total

    @property
    def progress(self) -> str:
        """Part of the work that is done, in words; empty if that is not known."""
        if self.folder is None:
            return self.about
        return f"{min(size_of(self.folder), self.bytes_total) / _MB:,.0f} of {self.bytes_total / _MB:,.0f} MB"


def describe(steps: Sequence[Step], *, now_s: float) -> str:
    """Return what these steps do, how far they are and for how long, as one text."""
    texts = []
    for step in steps:
        facts = [part for part in (step.progress, f"{now_s - step.began_s:.0f} s") if part]
        texts.append(f"{step.name} ({', '.join(facts)})")
    return f"setup: {'; '.join(texts)}"


def fitted(text: str, columns: int) -> str:
    """Return the text, cut to a terminal's width."""
    return text if len(text) < columns else f"{text[: max(0, columns - 4)]}..."


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder, which may change meanwhile."""
    total = 0
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            with contextlib.suppress(OSError):
                total += size_of(Path(entry.path)) if entry.is_dir(follow_symlinks=False) else entry.stat(follow_symlinks=False).st_size
    return total


_CURRENT: ContextVar[Step | None] = ContextVar("step", default=None)


def current() -> Step:
    """Return the step that the caller's work belongs to; outside of all of them one that nobody sees."""
    return _CURRENT.get() or Step("")


class Board:
    """The running steps, and the thread that shows them. Any thread may add a step."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out
        self._turn = threading.Lock()
        self._running: list[Step] = []
        self._thread: threading.Thread | None = None
        self._is_drawn = False

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Show a step while the block runs, and how long it took.

        A step of less than a second prints nothing.
        """
        step = Step(name)
        token = _CURRENT.set(step)
        with self._turn:
            self._running.append(step)
            if self._thread is None:
                self._thread = threading.Thread(target=self._show, name="setup", daemon=True)
                self._thread.start()
        failed = True
        try:
            yield step
            failed = False
        finally:
            _CURRENT.reset(token)
            with self._turn:
                self._running.remove(step)
                taken_s = time.monotonic() - step.began_s
                if taken_s >= SILENT_S:
                    self._print(f"setup: {name} {'failed' if failed else 'done'} ({taken_s:.0f} s)")

    @property
    def _stream(self) -> TextIO:
        return self._out or sys.stdout

    def _show(self) -> None:
        interval_s = FRAME_S if self._stream.isatty() else REPORT_INTERVAL_S
        first = True
        while True:
            # The first line comes soon: it shows that something goes on.
            time.sleep(min(SILENT_S, interval_s) if first else interval_s)
            first = False
            with self._turn:
                if not self._running:
                    self._thread = None
                    return
                now_s = time.monotonic()
                shown = [step for step in self._running if now_s - step.began_s >= SILENT_S]
                if shown:
                    self._draw(describe(shown, now_s=now_s))

    def _draw(self, text: str) -> None:
        if self._stream.isatty():
            self._stream.write(f"\r\x1b[K{fitted(text, shutil.get_terminal_size().columns)}")
            self._stream.flush()
            self._is_drawn = True
        else:
            print(text, file=self._stream, flush=True)

    def _print(self, text: str) -> None:
        clear = "\r\x1b[K" if self._is_drawn else ""
        self._is_drawn = False
        print(f"{clear}{text}", file=self._stream, flush=True)


BOARD = Board()
"""Steps of this process."""
