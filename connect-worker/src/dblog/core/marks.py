"""Which windows open and close where the log stands, when nobody writes their watermarks: read-only mode.

A written watermark comes by itself in the log. A mark that was only read from a server shows up once the log thread has brought all that
the mark names. Two kinds, and what makes each of them safe:

- The low mark is the log's own position, taken between two transactions and where the table's rows are followed: everything in front of it
  has been brought, and the window notes all that comes. The chunk's snapshot has to prove that it shows everything in front of it; until it
  does, no row is read. # I2
- The high mark is read from the server behind the SELECT and names at least everything that the SELECT can have seen. The window closes
  where the log has brought all of it; later would be right as well.

Windows of a lane of a table close in their order, which is the rule of core/watermark.py: a mark that is met waits for the lane's older ones.

How marks compare is the dialect's business: they are opaque here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from dblog.core.watermark import Ticket
from dblog.model import TableId

Mark = TypeVar("Mark")
"""What the log has to come to; compared by whoever made it."""


class AwaitedMarks(Generic[Mark]):
    """The marks of one task that the log has not come to. Pure: the shell holds a lock around each call."""

    def __init__(self) -> None:
        self._lows: list[Ticket] = []
        self._highs: dict[tuple[TableId, int], list[tuple[Ticket, Mark]]] = {}

    def __bool__(self) -> bool:
        return bool(self._lows or self._highs)

    def want_low(self, ticket: Ticket) -> None:
        """Open this window where the log stands next between two transactions."""
        self._lows.append(ticket)

    def want_high(self, ticket: Ticket, mark: Mark) -> None:
        """Close this window where the log has come to the mark; the windows of a table's lane are asked for in their order."""
        self._highs.setdefault((ticket.table, ticket.lane), []).append((ticket, mark))

    def forget_low(self, ticket: Ticket) -> None:
        """Nobody waits for it any more."""
        if ticket in self._lows:
            self._lows.remove(ticket)

    def take_highs(self, has_come_to: Callable[[Mark], bool]) -> list[Ticket]:
        """The windows that close here, each lane's in their order."""
        out: list[Ticket] = []
        for lane, waiting in list(self._highs.items()):
            while waiting and has_come_to(waiting[0][1]):
                out.append(waiting.pop(0)[0])
            if not waiting:
                del self._highs[lane]
        return out

    def take_lows(self, *, between: bool, follows: Callable[[Ticket], bool]) -> list[Ticket]:
        """The windows that open here. ``between`` False: some rows of a transaction have been brought and others have not, so what a snapshot has to
        show cannot be named. ``follows`` False: rows of one of its tables are passed over here, which no window would note,
        or a dump has to bring rows that are further on.
        """
        if not between:
            return []
        here = [ticket for ticket in self._lows if follows(ticket)]
        self._lows = [ticket for ticket in self._lows if ticket not in here]
        return here
