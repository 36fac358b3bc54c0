"""``dblog dumps watch``: follows a dump to its end. A terminal gets a picture that is drawn again in place, anything else a line for each step.

A worker that does not answer is asked again: the dump goes on under the next one that leads.
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
"""Gives the dump's detail; TransientError where nobody answers."""

_ERASE = "\x1b[J"
"""From the cursor to the end of the screen."""


def watch(ask: Ask, out: TextIO, *, every_s: float, live: bool, pause: Callable[[float], None] = time.sleep) -> str:
    """Follow a dump until it has ended; the state it has ended in."""
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
    """A picture that is drawn over the last one."""

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
    """A line with its time whenever there is something new."""

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
