"""Decides where in the log windows open and close in read-only mode, in which no watermarks are
written.

A written watermark arrives in the log by itself. A mark that was only read from a server counts as
reached once the log thread has delivered everything that the mark names. There are two kinds:

- The low mark is the log's own position, taken between two transactions and where the table's rows
  are followed. Everything before it has been delivered, and the window notes everything after it.
  The chunk's snapshot has to prove that it shows everything before the mark; until it does, no row
  is read. # I2
- The high mark is read from the server after the SELECT and names at least everything that the
  SELECT can have seen. The window closes where the log has delivered all of it; closing later would
  be right as well.

The windows of one lane of a table close in order, which is the rule of core/watermark.py: a mark
that is reached waits for older windows of its lane.

Marks are opaque here. The dialect knows how they compare.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from dblog.core.watermark import Ticket
from dblog.model import TableId

Mark = TypeVar("Mark")
"""A point that the log has to reach. The code that made it knows how to compare it."""


class AwaitedMarks(Generic[Mark]):
    """The marks of one task that the log has not reached yet. Pure: the caller holds a lock around
    each call.
    """

    def __init__(self) -> None:
        self._lows: list[Ticket] = []
        self._highs: dict[tuple[TableId, int], list[tuple[Ticket, Mark]]] = {}

    def __bool__(self) -> bool:
        return bool(self._lows or self._highs)

    def want_low(self, ticket: Ticket) -> None:
        """Ask to open this window at the log's next place between two transactions."""
        self._lows.append(ticket)

    def want_high(self, ticket: Ticket, mark: Mark) -> None:
        """Ask to close this window when the log has reached the mark. Windows of a table's lane
        must be passed in their order.
        """
        self._highs.setdefault((ticket.table, ticket.lane), []).append((ticket, mark))

    def forget_low(self, ticket: Ticket) -> None:
        """Withdraw the request to open this window."""
        if ticket in self._lows:
            self._lows.remove(ticket)

    def take_highs(self, has_come_to: Callable[[Mark], bool]) -> list[Ticket]:
        """Remove and return the windows that close here, those of each lane in order."""
        out: list[Ticket] = []
        for lane, waiting in list(self._highs.items()):
            while waiting and has_come_to(waiting[0][1]):
                out.append(waiting.pop(0)[0])
            if not waiting:
                del self._highs[lane]
        return out

    def take_lows(self, *, between: bool, follows: Callable[[Ticket], bool]) -> list[Ticket]:
        """Remove and return the windows that open here.

        Nothing opens if ``between`` is False: part of a transaction has been delivered, so nobody
        can name what a snapshot has to show. ``follows`` returns False for a window that cannot
        open here, because rows of its table are skipped here and no window would note them, or
        because a dump has to bring rows from further on in the log.
        """
        if not between:
            return []
        here = [ticket for ticket in self._lows if follows(ticket)]
        self._lows = [ticket for ticket in self._lows if ticket not in here]
        return here
