"""Decides how many rows to ask for in the next chunk: as many as fit a time and a byte budget. The
size grows slowly and shrinks at once.

Large chunks cost fewer watermarks and round trips. Small ones keep windows short, so that fewer
keys are noted and less is read again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

GROWTH_MAX = 2.0
"""Factor by which a chunk may exceed the chunk before it: a single fast answer proves little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkLimits:
    """Limits of a chunk's size. ``time_s`` is the time that one SELECT should take."""

    rows_max: int
    bytes_max: int
    time_s: float = 1.0
    rows_min: int = 16

    def part(self, share: float) -> ChunkLimits:
        """Return the limits multiplied by ``share``, with at least one row and one byte."""
        if share >= 1:
            return self
        rows_max = max(1, int(self.rows_max * share))
        return replace(
            self,
            rows_max=rows_max,
            rows_min=min(self.rows_min, rows_max),
            bytes_max=max(1, int(self.bytes_max * share)),
            time_s=self.time_s * share,
        )


def rows_next(limits: ChunkLimits, *, rows_asked: int, rows_read: int, bytes_read: int, elapsed_s: float) -> int:
    """Return the rows to ask for after a chunk of ``rows_read`` rows and ``bytes_read`` bytes took
    ``elapsed_s`` seconds. An empty chunk leaves ``rows_asked`` as it is.
    """
    if rows_read == 0:
        return rows_asked
    by_time = rows_read * limits.time_s / max(elapsed_s, 1e-6)
    by_bytes = rows_read * limits.bytes_max / max(bytes_read, 1)
    wanted = min(by_time, by_bytes, rows_asked * GROWTH_MAX, float(limits.rows_max))
    return max(limits.rows_min, int(wanted))


def rows_after_overflow(limits: ChunkLimits, *, rows_asked: int) -> int:
    """Return the rows to ask for after a window was discarded because too many changes fell into
    it.
    """
    return max(limits.rows_min, rows_asked // 4)
