"""Decides how many rows the next chunk asks for: as many as fit a time and a byte budget, growing slowly and shrinking at once.

Large chunks cost fewer watermarks and round trips; small ones keep windows short, so fewer keys are noted and less is read again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

GROWTH_MAX = 2.0
"""A chunk is at most twice the size of the one before: a single fast answer proves little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkLimits:
    """The bounds a chunk obeys; ``time_s`` is what one SELECT should take."""

    rows_max: int
    bytes_max: int
    time_s: float = 1.0
    rows_min: int = 16

    def part(self, share: float) -> ChunkLimits:
        """A share of them."""
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
    """Rows to ask for after a chunk of ``rows_read`` rows took ``elapsed_s`` and ``bytes_read``."""
    if rows_read == 0:
        return rows_asked
    by_time = rows_read * limits.time_s / max(elapsed_s, 1e-6)
    by_bytes = rows_read * limits.bytes_max / max(bytes_read, 1)
    wanted = min(by_time, by_bytes, rows_asked * GROWTH_MAX, float(limits.rows_max))
    return max(limits.rows_min, int(wanted))


def rows_after_overflow(limits: ChunkLimits, *, rows_asked: int) -> int:
    """Rows to ask for after a window had to be thrown away because too much changed inside it."""
    return max(limits.rows_min, rows_asked // 4)
