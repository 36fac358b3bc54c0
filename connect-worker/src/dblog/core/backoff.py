"""Decides how long to wait before the next try: doubling, capped, with a share of chance so that many do not return at once.

Source of the shape: "Exponential Backoff And Jitter" (equal jitter): half fixed, half random.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """``first_s`` before the second try, doubling up to ``max_s``."""

    first_s: float = 0.25
    max_s: float = 30.0

    def delay_s(self, failures: int, *, chance: float) -> float:
        """Seconds to wait after that many failures in a row (1 or more); ``chance`` in [0, 1) comes from the caller's generator."""
        full = min(self.max_s, self.first_s * 2.0 ** min(failures - 1, 32))
        return full / 2 + full / 2 * chance
