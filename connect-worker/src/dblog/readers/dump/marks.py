"""The two ways to mark a window in the log: watermarks written to the source, or positions read
from it.

A written watermark is a row that comes by itself in the log. In read-only mode (``read.only=true``)
nothing is written. Chunk threads ask the log thread for its position, prove that their snapshot
shows everything before it, and read the end of the server's log after their SELECT. The log thread
opens and closes windows at its position (core/marks.py), even if the log has nothing more: a thread
that asks wakes it. docs/dump.md has the argument. # I2

An earlier run may have opened windows after the stored offset, at most at the log's end of that
time. The first window of a run opens when the log thread has reached the present end. So no chunk
has an earlier low mark than the chunks read before it. # I9
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from dblog.core.marks import AwaitedMarks
from dblog.core.timeline import Position
from dblog.core.watermark import Ticket, WatermarkPosition
from dblog.core.window_numbers import WindowNumbers
from dblog.errors import TransientError
from dblog.model import TableId
from dblog.ports import DumpConnection
from dblog.readers.contract import Progress
from dblog.readers.dump.open_windows import OpenWindows
from dblog.readers.dump.order import RecordOrder
from dblog.readers.dump.proof import read_behind_watermark, snapshot_behind
from dblog.readers.log.schemas import Schemas
from dblog.readers.log.stream import OpenLog
from dblog.readers.tally import Tally

Found = TypeVar("Found")

_STOPPING = "the task is stopping"

LOOK_INTERVAL_S = 0.1
"""Seconds between checks, while a thread waits for the log thread, if the task stops."""


class WindowMarks(Protocol):
    """Marks of one chunk reader's windows."""

    def behind_low(self, connection: DumpConnection, ticket: Ticket, read: Callable[[], Found]) -> Found:
        """Return the result of ``read`` in a snapshot that provably shows the log before the low
        mark.
        """

    def high(self, connection: DumpConnection, ticket: Ticket) -> None:
        """Close the window, whose rows have been submitted."""


class WrittenMarks:
    """Marks as rows of the watermark table. Implements ``WindowMarks``.

    ``name`` is the reader's watermark row. ``tally`` counts snapshots that prove nothing.
    """

    def __init__(self, name: str, stopped: threading.Event, tally: Tally) -> None:
        self._name = name
        self._stopped = stopped
        self._tally = tally

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
            retried=self._tally.proof_retried,
        )

    def high(self, connection: DumpConnection, ticket: Ticket) -> None:
        """Commit the high watermark."""
        connection.write_watermark(self._name, ticket.high_token)


class MarkExchange:
    """Meeting point of chunk threads and log thread in read-only mode.

    ``order`` gets each mark that the log reaches. ``log`` wakes a log thread that waits for the
    log.
    """

    def __init__(
        self, *, order: RecordOrder, windows: OpenWindows, schemas: Schemas, log: OpenLog, numbers: WindowNumbers | None = None
    ) -> None:
        self._order = order
        self._windows = windows
        self._schemas = schemas
        self._log = log
        self._numbers = numbers or WindowNumbers()
        self._numbering = threading.Lock()
        """Lock around the numbering, held briefly, so that storing an offset does not wait for the
        log thread.
        """
        self._here: Progress | None = None
        """Some position that the log has reached in this run; None until a chunk thread asked for
        one.
        """
        self._wants_here = False
        self.may_ask = False
        """True once the log's end at the time of the run's first window is known."""
        self._first: Any = None
        """Log end that was read for the run's first window; None once the log has reached it."""
        self._changed = threading.Condition()
        self._awaited: AwaitedMarks[Any] = AwaitedMarks()
        self._given: dict[int, Progress] = {}

    # ---- offsets

    def to_store(self) -> int:
        """Return the number for the ``dblog_windows`` field of an offset made now."""
        with self._numbering:
            return self._numbers.to_store()

    def stored(self, ahead: int) -> None:
        """Note that an offset with this ``dblog_windows`` field is stored."""
        with self._numbering:
            self._numbers.stored(ahead)
        self._log.wake()

    # ---- chunk threads

    def here(self, stopped: threading.Event) -> Progress:
        """Return a position that the log has reached in this run.

        Raise TransientError if the task stops meanwhile.
        """
        with self._changed:
            self._wants_here = True
        self._log.wake()
        with self._changed:
            while self._here is None:
                if stopped.is_set():
                    raise TransientError(_STOPPING)
                self._changed.wait(LOOK_INTERVAL_S)
            return self._here

    def first_behind(self, mark: Any) -> None:
        """Open no window of the run before this mark. Only the first call counts."""
        with self._changed:
            if not self.may_ask:
                self._first, self.may_ask = mark, True

    def low(self, ticket: Ticket, stopped: threading.Event) -> Progress:
        """Open the window, and return the position where it was opened.

        Raise TransientError if the task stops meanwhile.
        """
        with self._changed:
            self._awaited.want_low(ticket)
        self._log.wake()
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
        """Close the window when the log has reached the mark."""
        with self._changed:
            self._awaited.want_high(ticket, mark)
        self._log.wake()

    # ---- the log thread

    def passed(self, at: Progress, *, between: bool, quiet: bool, not_before: Mapping[TableId, Position]) -> None:
        """Open and close windows at the position that the log has reached.

        ``between`` is True if nothing after it has been passed on, not even a part of a
        transaction. ``quiet`` is True if the log has nothing more at the moment. ``not_before`` are
        tables with a dump that has to show everything up to a later position.
        """
        if self._numbers.begin_again_further_on:
            with self._numbering:
                self._numbers.come_to(at.sequence)
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
            between = between and self._first is None and self._numbers.may_begin
            opening = self._awaited.take_lows(
                between=between, follows=lambda ticket: not self._opens_later(ticket, at.sequence, not_before)
            )
        with self._numbering:
            last = self._numbers.last(at.sequence)
            numbers = [self._numbers.number(at.sequence) for _ in opening]
        for ticket in closing:
            self._order.watermark(ticket.high_token, _position(at, last))
        for ticket, number in zip(opening, numbers, strict=True):
            self._order.watermark(ticket.low_token, _position(at, number))
        if opening:
            copy = at.copy()
            with self._changed:
                self._given.update({ticket.number: copy for ticket in opening})
                self._changed.notify_all()

    def _opens_later(self, ticket: Ticket, position: Position, not_before: Mapping[TableId, Position]) -> bool:
        """Return True if a window opened at this position would miss rows of its table.

        Rows of the table are ignored up to a later position, or a dump was ordered to bring them up
        to one. A written watermark comes after that position anyway.
        """
        tables = self._windows.tables_between(ticket)
        return any(self._schemas.passes_over(table, position) or position < not_before.get(table, (0, 0)) for table in tables)


class ReadMarks:
    """Marks as positions of the log. Implements ``WindowMarks``.

    ``tally`` counts snapshots that prove nothing.
    """

    def __init__(self, exchange: MarkExchange, stopped: threading.Event, tally: Tally) -> None:
        self._exchange = exchange
        self._stopped = stopped
        self._tally = tally

    def behind_low(self, connection: DumpConnection, ticket: Ticket, read: Callable[[], Found]) -> Found:
        """Open the window at the log's position, and take a snapshot that shows everything before
        it.
        """
        if not self._exchange.may_ask:
            here = self._exchange.here(self._stopped)
            with snapshot_behind(connection, here, wanted_for=str(ticket.table), stopped=self._stopped, retried=self._tally.proof_retried):
                pass  # it shows which server the snapshots come from; only then the log's end means something
            self._exchange.first_behind(connection.log_end())
        low = self._exchange.low(ticket, self._stopped)
        with snapshot_behind(connection, low, wanted_for=str(ticket.table), stopped=self._stopped, retried=self._tally.proof_retried):
            return read()

    def high(self, connection: DumpConnection, ticket: Ticket) -> None:
        """Close the window at the present end of the log: everything that the SELECT saw is before
        it.
        """
        self._exchange.high(ticket, connection.log_end())


def _position(at: Progress, number: int) -> WatermarkPosition:
    """Return the position with the window's number, so that windows opened at one position of an
    idle log are ordered.

    No event begins there, so the numbers of its rows are free (D7).
    """
    here = at.watermark_position()
    return replace(here, sequence_low=here.sequence_low + number)
