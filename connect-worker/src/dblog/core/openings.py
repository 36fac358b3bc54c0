"""The number of a window among those that open at one position of an idle log, in read-only mode: it stands in the low bits of the positions of its rows (D7).

A later window has a later position, also where a run ended in between. Runs know of each other by the stored offset alone, so the offset has a number
that is ahead of all that were given: numbers behind it are given once it is stored, and the next run begins behind it. An offset is stored when a run starts,
before its first record is sent, and then at most a second after a dump has moved; should more than ``AHEAD`` windows open at one position meanwhile, those
that are too many have one number. # I9

No window of an earlier run is further on in the log than where the log ended when this run began, nor than where the first window of this run may open
(readers/marks.py). So wherever the log has moved on from there, or from a window, numbers begin again, and the offset's comes down: it rises only over runs
in which the log does not move.
"""

from __future__ import annotations

from dblog.core.timeline import Position

NUMBER_MAX = (1 << 23) - 1
"""D7: the low bits of the second number."""

AHEAD = 4096
"""At least so many are free behind each stored number: a thousand runs may begin at one position of the log."""


class Openings:
    """Of one run. Pure: the shell holds a lock around each call."""

    def __init__(self, behind: int = 0, log_end: Position | None = None) -> None:
        """``behind``: what the offset has that the run began with; anybody may have written it. ``log_end``: where the log ended then."""
        behind = max(0, min(behind, NUMBER_MAX))
        self._last = self._limit = behind
        self._at = log_end
        self.may_begin = behind >= NUMBER_MAX
        """Whether an offset of this run is stored, or has nothing new to tell of numbers."""

    @property
    def begin_again_further_on(self) -> bool:
        """Whether ``come_to`` has anything to do."""
        return self._last > 0

    def come_to(self, at: Position) -> None:
        """The log has been read up to here."""
        if self._at is not None and at > self._at:
            self._last = 0

    def number(self, at: Position) -> int:
        """Of a window that opens here."""
        self.come_to(at)
        self._at = at if self._at is None else max(at, self._at)
        self._last = min(self._last + 1, self._limit)
        return self._last

    def last(self, at: Position) -> int:
        """The greatest number that a window has which opened here."""
        return self._last if at == self._at else 0

    def to_store(self) -> int:
        """For the offset that is made now. Until it is known whether it is stored or lost, no number is given behind it, or behind the one before it."""
        ahead = min((self._last // AHEAD + 2) * AHEAD, NUMBER_MAX)
        self._limit = min(self._limit, ahead)
        return ahead

    def stored(self, ahead: int) -> None:
        """The offset that was made last is stored."""
        self._limit = ahead
        self.may_begin = True
