"""Decides how hard dumps may press on a source, by what is measured there: free, slowed in steps, or held.

A limit is a value that is not to be passed. In front of it dumps become slower step by step, each with half of the readers, half of the rows and a longer rest
than the one before; at it they are held, which leaves no snapshot open. They come back one step at a time, and each takes a while in which all is well: what
became better because dumps are slow would be worse at once if they were fast. Which limit of several is the nearest decides.

Times are of a monotonic clock. What is not measured limits nothing, but a server that does not answer any more is one in trouble.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

SLOWER_FROM, EASIER_BELOW, RELEASED_BELOW = 0.8, 0.7, 0.9
"""Shares of a limit: between the first two nothing changes."""

SLOWER_EVERY_S, EASIER_EVERY_S = 2.0, 10.0

UNANSWERED_S = 10.0
"""A server that has not answered for so long is left alone."""

SLOWEST = 4
HELD = SLOWEST + 1
_DELAYS_S = (0.0, 0.05, 0.2, 0.5, 1.0, 1.0)


class Limit(StrEnum):
    """What may be limited; behind ``dblog.dump.limit.`` the key, but for the last two."""

    THREADS_RUNNING = "threads.running"
    STATEMENT_P95 = "statement.p95.ms"
    REPLICA_LAG = "replica.lag.ms"
    HISTORY_LENGTH = "history.list.length"
    TRANSACTION_AGE = "transaction.age.s"
    LOG_LAG = "log.lag.ms"
    LOG_RACE = "log.race"
    """How near the server is to dropping log that has not been read, from 0 to 1 (``core/lograce.py``)."""
    ANSWER = "answer.s"
    """How long the server has not answered."""


OF_SERVER = (Limit.THREADS_RUNNING, Limit.STATEMENT_P95, Limit.REPLICA_LAG, Limit.HISTORY_LENGTH, Limit.TRANSACTION_AGE)
"""What only the server knows."""


@dataclass(frozen=True, slots=True)
class Cause:
    """The limit that is the nearest, and what was measured."""

    limit: Limit
    measured: float
    most: float

    @property
    def share(self) -> float:
        """Of the limit."""
        return self.measured / self.most

    def __str__(self) -> str:
        match self.limit:
            case Limit.ANSWER:
                return f"the source has not answered for {self.measured:.0f} s"
            case Limit.LOG_RACE:
                return "the source will drop log that has not been read yet, or is near to it"
            case _:
                return f"{self.limit} is {self.measured:.6g}, the limit {self.most:.6g} (dblog.dump.limit.{self.limit})"


@dataclass(frozen=True, slots=True)
class Pace:
    """How dumps may read now: from step 0, free, to ``HELD``."""

    step: int = 0
    cause: Cause | None = None
    """None while dumps are free."""

    @property
    def state(self) -> str:
        """For people."""
        return "held" if self.held else "slowed" if self.step else "free"

    @property
    def held(self) -> bool:
        """Nothing is to be read."""
        return self.step >= HELD

    @property
    def share(self) -> float:
        """Of rows, bytes and time of a chunk."""
        return 0.5 ** min(self.step, SLOWEST)

    @property
    def delay_s(self) -> float:
        """Rest ahead of a chunk."""
        return _DELAYS_S[self.step]

    def readers(self, most: int) -> int:
        """How many of that many readers may read."""
        return max(1, int(most * self.share))


FREE = Pace()


@dataclass(frozen=True, slots=True, kw_only=True)
class Governor:
    """The pace and since when. Values: each look gives a new one."""

    limits: Mapping[Limit, float]
    pace: Pace = FREE
    changed_s: float = field(default=float("-inf"))
    """When the pace became this one, or when it was last too much for it to become an easier one."""

    def looked(self, measured: Mapping[Limit, float], *, now_s: float) -> Governor:
        """Behind a look at the source; ``measured`` lacks what is not known. Called about once a second."""
        cause = self._nearest(measured)
        share = 0.0 if cause is None else cause.share
        step = self.pace.step
        if share >= 1:
            return self._at(HELD, cause, now_s)
        if self.pace.held:
            if share >= RELEASED_BELOW:
                return self._at(HELD, cause, now_s)
            return self._at(SLOWEST, cause, now_s) if now_s - self.changed_s >= EASIER_EVERY_S else self._with(cause)
        if share >= SLOWER_FROM:
            if step < SLOWEST and now_s - self.changed_s >= SLOWER_EVERY_S:
                return self._at(step + 1, cause, now_s)
            return self._at(step, cause, now_s) if step == SLOWEST else self._with(cause)
        if share >= EASIER_BELOW:
            return self._at(step, cause, now_s) if step else self
        return self._at(step - 1, cause, now_s) if step and now_s - self.changed_s >= EASIER_EVERY_S else self._with(cause)

    def _nearest(self, measured: Mapping[Limit, float]) -> Cause | None:
        causes = [Cause(limit, value, self.limits[limit]) for limit, value in measured.items() if limit in self.limits]
        return max(causes, key=lambda cause: cause.share, default=None)

    def _at(self, step: int, cause: Cause | None, now_s: float) -> Governor:
        return replace(self, pace=Pace(step, self._why(step, cause)), changed_s=now_s)

    def _with(self, cause: Cause | None) -> Governor:
        return replace(self, pace=Pace(self.pace.step, self._why(self.pace.step, cause)))

    def _why(self, step: int, cause: Cause | None) -> Cause | None:
        """While dumps are not free, the limit that comes nearest now, or that was nearest when something was measured last."""
        return None if step == 0 else cause or self.pace.cause
