"""Numbers the windows that open at one position of an idle log in read-only mode. The number fills
the low bits of the positions of the window's rows (D7).

A later window needs a later position, even if a run ended in between. Runs know of each other only
through the stored offset. So the offset holds a number above all that were given. Numbers above the
stored one are given only after a higher one is stored, and the next run begins above it. An offset
is stored when a run starts, before its first record is sent, and then at most a second after a dump
has moved. If more than ``AHEAD`` windows open at one position in the meantime, the excess windows
share one number. # I9

No window of an earlier run lies further on in the log than the log's end when this run began, nor
further than the first window of this run may open (readers/dump/marks.py). So wherever the log has
moved past that end, or past a window, numbers start from 1 again and the offset's number falls. It
rises only over runs in which the log does not move.
"""

from __future__ import annotations

from dblog.core.timeline import Position

NUMBER_MAX = (1 << 23) - 1
"""Largest number: the low bits of a position's second number (D7)."""

AHEAD = 4096
"""Free numbers above each stored number, at least. A thousand runs may begin at one position of the
log.
"""


class WindowNumbers:
    """The numbers of one run's windows. Pure: the caller holds a lock around each call."""

    def __init__(self, behind: int = 0, log_end: Position | None = None) -> None:
        """Start after the number ``behind`` of the offset that the run began with. Anybody may have
        written that offset. ``log_end`` is the log's end at that time.
        """
        behind = max(0, min(behind, NUMBER_MAX))
        self._last = self._limit = behind
        self._at = log_end
        self.may_begin = behind >= NUMBER_MAX
        """True if an offset of this run is stored, or if storing one would not change the number.
        """

    @property
    def begin_again_further_on(self) -> bool:
        """True if numbers were given here, so ``come_to`` with a later position resets them."""
        return self._last > 0

    def come_to(self, at: Position) -> None:
        """Note that the log has been read up to this position."""
        if self._at is not None and at > self._at:
            self._last = 0

    def number(self, at: Position) -> int:
        """Return the number of a window that opens at this position."""
        self.come_to(at)
        self._at = at if self._at is None else max(at, self._at)
        self._last = min(self._last + 1, self._limit)
        return self._last

    def last(self, at: Position) -> int:
        """Return the greatest number of a window that opened at this position; 0 if none did."""
        return self._last if at == self._at else 0

    def to_store(self) -> int:
        """Return the number for the offset that is made now. Until the offset is known to be stored
        or lost, no number is given above this one or above the previous one.
        """
        ahead = min((self._last // AHEAD + 2) * AHEAD, NUMBER_MAX)
        self._limit = min(self._limit, ahead)
        return ahead

    def stored(self, ahead: int) -> None:
        """Note that the offset made last, with the number ``ahead``, is stored."""
        self._limit = ahead
        self.may_begin = True
