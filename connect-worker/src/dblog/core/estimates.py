"""Estimates how long a dump or one of its tables will take, and how wrong earlier estimates were.

Each estimate is remembered with the rows that were left when it was made. Once a quarter of those
rows has been read, or everything is done, the estimate is judged: its time for that part is
compared with the time that the part took. The error shown to people is the median of the last
judged estimates, as a share of the time taken. Times are of a monotonic clock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from statistics import median

RATE_OVER_S = 60.0
ANSWERS_MAX, JUDGED_MAX = 8, 16
JUDGED_AFTER, AGAIN_AFTER = 0.25, 0.05
"""Shares of the rows left at an estimate: read rows after which it is judged, and after which the
next one is remembered.
"""


@dataclass(frozen=True, slots=True)
class _Answer:
    at_s: float
    done: int
    left: int
    eta_s: float


class EndEstimate:
    """Estimates for one dump, or for one table in it, counted in rows."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()
        self._answers: deque[_Answer] = deque(maxlen=ANSWERS_MAX)
        self._errors: deque[float] = deque(maxlen=JUDGED_MAX)
        self.rate: float | None = None
        """Rows a second over the last minute; None if unknown."""
        self.eta_s: float | None = None

    @property
    def error(self) -> float | None:
        """Median error of the estimates so far: 0.1 if the time was a tenth longer or shorter than
        estimated. None before any can be judged.
        """
        return round(median(self._errors), 3) if self._errors else None

    def look(self, now_s: float, *, done: int, left: int | None) -> None:
        """Take the rows done and the rows left; ``left`` is None if unknown. Called about once a
        second while the dump runs.
        """
        if self._seen and done < self._seen[-1][1]:
            self.rest()  # the dump has started again from the beginning
        self._seen.append((now_s, done))
        while now_s - self._seen[0][0] > RATE_OVER_S:
            self._seen.popleft()
        since_s, before = self._seen[0]
        self.rate = round((done - before) / (now_s - since_s), 1) if now_s - since_s >= 1 else None
        self.eta_s = None if left is None or not self.rate else round(left / self.rate, 1)
        self._judge(now_s, done)
        if left and self.eta_s is not None and (not self._answers or done - self._answers[-1].done >= self._answers[-1].left * AGAIN_AFTER):
            self._answers.append(_Answer(now_s, done, left, self.eta_s))

    def rest(self) -> None:
        """Drop the open estimates because the dump pauses: estimates are about running dumps
        only.
        """
        self._seen.clear()
        self._answers.clear()
        self.rate = self.eta_s = None

    def end(self, now_s: float) -> None:
        """Judge the open estimates by the time until now, since all is done."""
        for answer in self._answers:
            self._judged(answer.eta_s, now_s - answer.at_s)
        self.rest()

    def _judge(self, now_s: float, done: int) -> None:
        waiting = [answer for answer in self._answers if done - answer.done < answer.left * JUDGED_AFTER]
        for answer in self._answers:
            if done - answer.done >= answer.left * JUDGED_AFTER:
                self._judged(answer.eta_s * (done - answer.done) / answer.left, now_s - answer.at_s)
        if len(waiting) < len(self._answers):
            self._answers = deque(waiting, maxlen=ANSWERS_MAX)

    def _judged(self, foretold_s: float, took_s: float) -> None:
        if took_s > 0:
            self._errors.append(abs(foretold_s - took_s) / took_s)
