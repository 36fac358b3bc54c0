"""``dblog dumps watch``: follows a dump to its end.

A terminal gets a picture that is redrawn in place; any other output gets a line for each change. A
worker that does not answer is asked again: the dump continues under the next leader.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TextIO

from dblog.dumps.lines import ENDED, headline, picture_of, progress_of
from dblog.dumps.printable import printable
from dblog.errors import TransientError

Ask = Callable[[], Mapping[str, Any]]
"""Function that returns the dump as the REST API shows it; raises TransientError if no worker
answers.
"""

_ERASE = "\x1b[J"
"""Erases from the cursor to the end of the screen."""


def watch(ask: Ask, out: TextIO, *, every_s: float, live: bool, pause: Callable[[float], None] = time.sleep) -> str:
    """Follow a dump until it has ended, and return its last state."""
    view = _Live(out) if live else _Plain(out)
    while True:
        try:
            dump = ask()
        except TransientError as e:
            view.trouble(printable(str(e)))
        else:
            view.show(dump)
            if dump["status"]["state"] in ENDED:
                return str(dump["status"]["state"])
        pause(every_s)


@dataclass(slots=True)
class _Live:
    """View that redraws a picture in place."""

    out: TextIO
    _drawn: int = 0

    def show(self, dump: Mapping[str, Any]) -> None:
        size = shutil.get_terminal_size()
        self._draw(picture_of(dump, width=size.columns, height=size.lines))

    def trouble(self, reason: str) -> None:
        self._draw([reason[: shutil.get_terminal_size().columns - 1]])

    def _draw(self, lines: list[str]) -> None:
        up = f"\x1b[{self._drawn}A\r" if self._drawn else ""
        self.out.write(f"{up}{_ERASE}" + "".join(f"{line}\n" for line in lines))
        self.out.flush()
        self._drawn = len(lines)


@dataclass(slots=True)
class _Plain:
    """View that prints a line with the time at each change."""

    out: TextIO
    _last: str = ""

    def show(self, dump: Mapping[str, Any]) -> None:
        self._write(f"{headline(dump)}; {progress_of(dump['status'])}")

    def trouble(self, reason: str) -> None:
        self._write(f"{reason}; asking again")

    def _write(self, text: str) -> None:
        if text != self._last:
            self.out.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {text}\n")
            self.out.flush()
            self._last = text
