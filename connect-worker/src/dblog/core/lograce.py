"""Estimates whether the source will drop part of its log before that part has been read. The
estimate uses the age and the size that the source keeps, the distance of the reading from the log's
end, and the speeds of writing and reading.

The position that counts is the stored one, which a restart needs; it moves with the reading. A log
that is read to its end is safe, however old its newest event is. Speeds are averaged over some
minutes, because a log is written and read in bursts. Times are of a monotonic clock. Only the age
of an event is by the source's own clock, since that clock decides what the source drops.

The governor (``core/pressure.py``) uses ``near``: it slows dumps from 0.8 on and holds them at 1,
which leaves the source and the worker to the log.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

SPEEDS_OVER_S, SPEEDS_FROM_S = 300.0, 20.0

AT_END_BYTES = 1 << 20
"""Distance from the log's end below which the reading counts as being at the end."""

USED_MAX = 0.8
"""Share of the kept age or size. Once the log uses more, dumps are held."""

LEFT_S, LEFT_SHARE = 3600.0, 0.25
"""Time to the loss at which dumps are held: one hour, or a quarter of the time in which all the
kept log would be lost, if that is less.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLook:
    """Measurements of the log at one moment."""

    at_s: float
    read_bytes: int
    """Bytes of log that this run has read so far."""
    behind_bytes: int
    needed_bytes: int
    """Bytes from the beginning of the stored position's file to the log's end."""
    age_s: float | None
    """Age of the stored position in seconds; None if no event there has a time."""
    kept_s: float | None
    """Seconds for which the source keeps its log; None if it keeps it for ever."""
    kept_bytes: int | None
    """Bytes of log that the source keeps; None if it keeps all."""


@dataclass(frozen=True, slots=True)
class Race:
    """The danger that unread log is dropped."""

    near: float = 0.0
    """Nearness of the loss: 0 if the log is safe, 1 or more if unread log will be lost soon."""
    left_s: float | None = None
    """Seconds until the source drops unread log, at the current speeds. None if the reading keeps
    up or the speeds are unknown.
    """


class LogRace:
    """The race between reading and dropping for one task's log."""

    def __init__(self) -> None:
        self._looks: deque[LogLook] = deque()

    def looked(self, look: LogLook) -> Race:
        """Add a measurement and return the danger as of now."""
        if self._looks and look.read_bytes < self._looks[-1].read_bytes:
            self._looks.clear()
        self._looks.append(look)
        while look.at_s - self._looks[0].at_s > SPEEDS_OVER_S:
            self._looks.popleft()
        if look.behind_bytes < AT_END_BYTES:
            return Race()
        written, read = self._speeds()
        near, left_s = 0.0, None
        for used, kept, lost_each_s in (
            (look.age_s, look.kept_s, None if written is None or read is None or not written else 1 - read / written),
            (float(look.needed_bytes), look.kept_bytes, None if written is None or read is None else written - read),
        ):
            if used is None or not kept:
                continue
            near = max(near, used / kept / USED_MAX)
            if lost_each_s is not None and lost_each_s > 0:
                left = max(0.0, kept - used) / lost_each_s
                left_s = left if left_s is None else min(left, left_s)
                near = max(near, min(LEFT_S, kept / lost_each_s * LEFT_SHARE) / max(left, 1.0))
        return Race(near, left_s)

    def _speeds(self) -> tuple[float | None, float | None]:
        """Return the bytes a second that are written, and those that are read. Return (None, None)
        before there are measurements over 20 seconds.
        """
        first, last = self._looks[0], self._looks[-1]
        took_s = last.at_s - first.at_s
        if took_s < SPEEDS_FROM_S:
            return None, None
        read = last.read_bytes - first.read_bytes
        return max(0.0, read + last.behind_bytes - first.behind_bytes) / took_s, read / took_s
