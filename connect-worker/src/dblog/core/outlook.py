"""How long a dump, or a table of one, will take, and how wrong the answers to that have been so far.

An answer is remembered with what was left when it was given. Once a quarter of that has been done, or all is over, the answer is judged: what it foretold for
that part beside the time that the part took. The error that people see is the middle one of the last that were judged, as a share of the time that it took.
Times are of a monotonic clock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from statistics import median

RATE_OVER_S = 60.0
ANSWERS_MAX, JUDGED_MAX = 8, 16
JUDGED_AFTER, AGAIN_AFTER = 0.25, 0.05
"""Shares of what was left: when an answer is judged, and when the next one is remembered."""


@dataclass(frozen=True, slots=True)
class _Answer:
    at_s: float
    done: int
    left: int
    eta_s: float


class Outlook:
    """Of one dump, or of one table in it. Rows are what it counts."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()
        self._answers: deque[_Answer] = deque(maxlen=ANSWERS_MAX)
        self._errors: deque[float] = deque(maxlen=JUDGED_MAX)
        self.rate: float | None = None
        """Rows a second, over the last minute."""
        self.eta_s: float | None = None

    @property
    def error(self) -> float | None:
        """Of the answers so far: 0.1 where the time was a tenth longer or shorter than foretold. None before any can be judged."""
        return round(median(self._errors), 3) if self._errors else None

    def look(self, now_s: float, *, done: int, left: int | None) -> None:
        """So much has been done by now, and so much is left, where that is known. Called about once a second while it runs."""
        if self._seen and done < self._seen[-1][1]:
            self.rest()  # it has begun again
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
        """It does not go on for now: answers are about what runs."""
        self._seen.clear()
        self._answers.clear()
        self.rate = self.eta_s = None

    def end(self, now_s: float) -> None:
        """All is over: what was foretold was the time until now."""
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
