"""Decides how long to wait before the next try: a delay that doubles up to a limit, with a random
part so that many clients do not return at once.

Source of the shape: "Exponential Backoff And Jitter" (equal jitter): half fixed, half random.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Delays between tries: about ``first_s`` after the first failure, doubling up to ``max_s``."""

    first_s: float = 0.25
    max_s: float = 30.0

    def delay_s(self, failures: int, *, chance: float) -> float:
        """Return the seconds to wait after this many consecutive failures (1 or more).

        ``chance`` is a random number in [0, 1) from the caller's generator.
        """
        full = min(self.max_s, self.first_s * 2.0 ** min(failures - 1, 32))
        return full / 2 + full / 2 * chance
