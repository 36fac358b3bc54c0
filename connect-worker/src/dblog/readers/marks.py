"""How a window's watermarks are made and met: written to the source (a row that comes by itself in the log), or in read-only mode read
from it, with nothing written.

Read-only mode (``read.only=true``): chunk threads ask the log thread for its position, prove that their snapshot shows everything in front
of it, and read the server's log end behind their SELECT. The log thread opens and closes windows where it stands (core/marks.py), also of
a log that has nothing more: whoever asks wakes it. docs/dump.md has the argument. # I2

An earlier run may have opened windows behind the stored offset, at most where the log ended then. The first window of a run opens where the log has come to
its end of now, so no chunk has an earlier low mark than those that were read before it. # I9
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from dblog.core.marks import AwaitedMarks
from dblog.core.openings import Openings
from dblog.core.timeline import Position
from dblog.core.watermark import Ticket, WatermarkPosition
from dblog.errors import TransientError
from dblog.ports import DumpConnection
from dblog.readers.contract import Progress
from dblog.readers.proof import read_behind_watermark, snapshot_behind

Found = TypeVar("Found")

_STOPPING = "the task is stopping"

LOOK_INTERVAL_S = 0.1
"""How often whoever waits for the log thread looks whether the task stops."""


class WindowMarks(Protocol):
    """One chunk reader's."""

    def behind_low(self, connection: DumpConnection, ticket: Ticket, read: Callable[[], Found]) -> Found:
        """What ``read`` gives in a snapshot that is proved to show everything that the log has in front of the window's low mark."""

    def high(self, connection: DumpConnection, ticket: Ticket) -> None:
        """The window has its rows: have it closed."""


MakeMarks = Callable[[str, threading.Event, Callable[[], None]], WindowMarks]
"""(name of the reader's watermark row, when it stops, what to call for each snapshot that proves nothing)."""


class WrittenMarks:
    """Rows of the watermark table. Implements ``WindowMarks``."""

    def __init__(self, name: str, stopped: threading.Event, retried: Callable[[], None]) -> None:
        self._name = name
        self._stopped = stopped
        self._retried = retried

    def behind_low(self, connection: DumpConnection, ticket: Ticket, read: Callable[[], Found]) -> Found:
        """Commit the low watermark, and find it in the snapshot."""
        connection.write_watermark(self._name, ticket.low_token)
        return read_behind_watermark(
            connection,
            read,
            watermark=self._name,
            token=ticket.low_token,
            wanted_for=f"below a chunk of {ticket.table}",
            stopped=self._stopped,
            retried=self._retried,
        )

    def high(self, connection: DumpConnection, ticket: Ticket) -> None:
        """Commit the high watermark."""
        connection.write_watermark(self._name, ticket.high_token)


class MarkExchange:
    """Where one task's chunk threads and its log thread meet in read-only mode. ``watermark`` tells the windows of a mark that is met here.

    ``later``: whether a window, and those between its pair of marks, open further on only than at a position.
    """

    def __init__(
        self,
        watermark: Callable[[str, WatermarkPosition], None],
        later: Callable[[Ticket, Position], bool] = lambda _ticket, _position: False,
        openings: Openings | None = None,
    ) -> None:
        self._watermark = watermark
        self._later = later
        self._openings = openings or Openings()
        self._numbering = threading.Lock()
        """Held around it, for a moment: whoever stores offsets does not wait for the log thread."""
        self._here: Progress | None = None
        """Where the log stood some time in this run."""
        self._wants_here = False
        self.may_ask = False
        """Whether it is known where the log ended when the run's first window was wanted."""
        self._first: Any = None
        """That; None: the log has come to it."""
        self._changed = threading.Condition()
        self._awaited: AwaitedMarks[Any] = AwaitedMarks()
        self._given: dict[int, Progress] = {}
        self.wake: Callable[[], None] = lambda: None
        """Has a log thread that waits for the log look here."""

    def marks(self, name: str, stopped: threading.Event, retried: Callable[[], None]) -> WindowMarks:
        """A chunk reader's; a ``MakeMarks``."""
        del name
        return ReadMarks(self, stopped, retried)

    # ---- offsets

    def to_store(self) -> int:
        """What the offset that is made now has of the windows' numbers."""
        with self._numbering:
            return self._openings.to_store()

    def stored(self, ahead: int) -> None:
        """An offset that has this is stored."""
        with self._numbering:
            self._openings.stored(ahead)
        self.wake()

    # ---- chunk threads

    def here(self, stopped: threading.Event) -> Progress:
        """A position that the log was brought up to in this run. TransientError when the task stops meanwhile."""
        with self._changed:
            self._wants_here = True
        self.wake()
        with self._changed:
            while self._here is None:
                if stopped.is_set():
                    raise TransientError(_STOPPING)
                self._changed.wait(LOOK_INTERVAL_S)
            return self._here

    def first_behind(self, mark: Any) -> None:
        """No window of the run opens in front of the mark: that of the first call."""
        with self._changed:
            if not self.may_ask:
                self._first, self.may_ask = mark, True

    def low(self, ticket: Ticket, stopped: threading.Event) -> Progress:
        """Have the window opened, and get the position where it was. TransientError when the task stops meanwhile."""
        with self._changed:
            self._awaited.want_low(ticket)
        self.wake()
        with self._changed:
            try:
                while ticket.number not in self._given:
                    if stopped.is_set():
                        raise TransientError(_STOPPING)
                    self._changed.wait(LOOK_INTERVAL_S)
            finally:
                self._awaited.forget_low(ticket)
                given = self._given.pop(ticket.number, None)
        assert given is not None, "it was there"
        return given

    def high(self, ticket: Ticket, mark: Any) -> None:
        """Have the window closed where the log has come to the mark."""
        with self._changed:
            self._awaited.want_high(ticket, mark)
        self.wake()

    # ---- the log thread

    def passed(self, at: Progress, *, between: bool, quiet: bool) -> None:
        """The log is brought up to there. ``between``: nothing behind it is, not even in part. ``quiet``: nothing more of it is there now."""
        if self._openings.begin_again_further_on:
            with self._numbering:
                self._openings.come_to(at.sequence)
        if not self._awaited and not self._wants_here:
            return
        if self._wants_here and between:
            with self._changed:
                self._here, self._wants_here = at.copy(), False
                self._changed.notify_all()
        with self._changed:
            closing = self._awaited.take_highs(lambda mark: at.has_come_to(mark, quiet=quiet))
            if self._first is not None and at.has_come_to(self._first, quiet=quiet):
                self._first = None
            between = between and self._first is None and self._openings.may_begin
            opening = self._awaited.take_lows(between=between, follows=lambda ticket: not self._later(ticket, at.sequence))
        with self._numbering:
            last = self._openings.last(at.sequence)
            numbers = [self._openings.number(at.sequence) for _ in opening]
        for ticket in closing:
            self._watermark(ticket.high_token, _position(at, last))
        for ticket, number in zip(opening, numbers, strict=True):
            self._watermark(ticket.low_token, _position(at, number))
        if opening:
            copy = at.copy()
            with self._changed:
                self._given.update({ticket.number: copy for ticket in opening})
                self._changed.notify_all()


class ReadMarks:
    """Positions of the log. Implements ``WindowMarks``."""

    def __init__(self, exchange: MarkExchange, stopped: threading.Event, retried: Callable[[], None]) -> None:
        self._exchange = exchange
        self._stopped = stopped
        self._retried = retried

    def behind_low(self, connection: DumpConnection, ticket: Ticket, read: Callable[[], Found]) -> Found:
        """Open the window where the log stands, and take a snapshot that shows everything in front of that."""
        if not self._exchange.may_ask:
            here = self._exchange.here(self._stopped)
            with snapshot_behind(connection, here, wanted_for=str(ticket.table), stopped=self._stopped, retried=self._retried):
                pass  # it shows which server the snapshots are of, and without that the log's end means nothing
            self._exchange.first_behind(connection.log_end())
        low = self._exchange.low(ticket, self._stopped)
        with snapshot_behind(connection, low, wanted_for=str(ticket.table), stopped=self._stopped, retried=self._retried):
            return read()

    def high(self, connection: DumpConnection, ticket: Ticket) -> None:
        """Everything that the SELECT can have seen is in front of where the log ends now."""
        self._exchange.high(ticket, connection.log_end())


def _position(at: Progress, number: int) -> WatermarkPosition:
    """Windows that open at one position of an idle log still sort: no event begins there, so its rows' numbers are free (D7)."""
    here = at.watermark_position()
    return replace(here, sequence_low=here.sequence_low + number)
