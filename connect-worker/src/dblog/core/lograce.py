"""Whether the source will drop log before it has been read: by the age and the size that it keeps, by how far the reading is behind, and by both speeds.

The position that counts is the stored one, which a restart needs; it moves as the reading does. A log that is read to its end loses no race, however old its
newest event is. Speeds are taken over some minutes, for a log is written and read in gusts. Times are of a monotonic clock, but for the age of an event, which
the source's own clock gives, as it is that clock which decides what the source drops.

The nearness is for the governor (``core/pressure.py``), which slows dumps from 0.8 on and holds them at 1: then the log has the source, and us, for itself.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

SPEEDS_OVER_S, SPEEDS_FROM_S = 300.0, 20.0

AT_END_BYTES = 1 << 20
"""A reading that is no further behind is at the end."""

USED_MAX = 0.8
"""Of the age or size that the source keeps: behind it, dumps are held."""

LEFT_S, LEFT_SHARE = 3600.0, 0.25
"""So near to the loss dumps are held: an hour, or a quarter of all that is kept where that is less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLook:
    """What was seen of the log at one moment."""

    at_s: float
    read_bytes: int
    """Read so far by this run."""
    behind_bytes: int
    needed_bytes: int
    """From the beginning of the stored position's file to the log's end."""
    age_s: float | None
    """Of the stored position; None where nothing there has a time."""
    kept_s: float | None
    """How long the source keeps its log; None for ever."""
    kept_bytes: int | None
    """How much of it; None for all."""


@dataclass(frozen=True, slots=True)
class Race:
    """How it stands."""

    near: float = 0.0
    """0 where the log is safe, 1 and more where it will be lost soon."""
    left_s: float | None = None
    """Until the source drops what has not been read, at the speeds of now; None where the reading is not the slower one, or that is not known."""


class LogRace:
    """One task's."""

    def __init__(self) -> None:
        self._looks: deque[LogLook] = deque()

    def looked(self, look: LogLook) -> Race:
        """How it stands now."""
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
        """Bytes a second that are written, and that are read."""
        first, last = self._looks[0], self._looks[-1]
        took_s = last.at_s - first.at_s
        if took_s < SPEEDS_FROM_S:
            return None, None
        read = last.read_bytes - first.read_bytes
        return max(0.0, read + last.behind_bytes - first.behind_bytes) / took_s, read / took_s
