"""Decides how hard dumps may press on a source, by measurements of the source: free, slowed in
steps, or held.

A limit is a value that must not be exceeded. Before it is reached, dumps slow down step by step;
each step halves the readers and the rows and lengthens the pause. At the limit dumps are held,
which leaves no snapshot open. They speed up again one step at a time, each after a quiet period,
since a source that recovered because dumps are slow would suffer at once if they were fast. With
several limits, the nearest one decides.

Times are of a monotonic clock. A value that is not measured limits nothing, but a server that no
longer answers counts as being in trouble.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

SLOWER_FROM, EASIER_BELOW, RELEASED_BELOW = 0.8, 0.7, 0.9
"""Shares of a limit: dumps get slower from the first, and faster below the second; between them
nothing changes. Held dumps are released below the third.
"""

SLOWER_EVERY_S, EASIER_EVERY_S = 2.0, 10.0

UNANSWERED_S = 10.0
"""Seconds without an answer after which a server is left alone."""

SLOWEST = 4
HELD = SLOWEST + 1
_DELAYS_S = (0.0, 0.05, 0.2, 0.5, 1.0, 1.0)


class Limit(StrEnum):
    """Measurements that can be limited. ``dblog.dump.limit.`` and the value make the option, except
    for the last two.
    """

    THREADS_RUNNING = "threads.running"
    STATEMENT_P95 = "statement.p95.ms"
    REPLICA_LAG = "replica.lag.ms"
    HISTORY_LENGTH = "history.list.length"
    TRANSACTION_AGE = "transaction.age.s"
    LOG_LAG = "log.lag.ms"
    LOG_RACE = "log.race"
    """Nearness of the server to dropping unread log, from 0 to 1 (``core/lograce.py``)."""
    ANSWER = "answer.s"
    """Seconds for which the server has not answered."""


OF_SERVER = (Limit.THREADS_RUNNING, Limit.STATEMENT_P95, Limit.REPLICA_LAG, Limit.HISTORY_LENGTH, Limit.TRANSACTION_AGE)
"""Measurements that only the server knows."""


@dataclass(frozen=True, slots=True)
class Cause:
    """The limit that is nearest to being reached, and the measured value."""

    limit: Limit
    measured: float
    most: float

    @property
    def share(self) -> float:
        """The measured value as a share of the limit."""
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
    """The speed at which dumps may read now: from step 0, free, to ``HELD``."""

    step: int = 0
    cause: Cause | None = None
    """The limit that slows dumps; None while they are free."""

    @property
    def state(self) -> str:
        """The state in a word: free, slowed or held."""
        return "held" if self.held else "slowed" if self.step else "free"

    @property
    def held(self) -> bool:
        """True if dumps must not read at all."""
        return self.step >= HELD

    @property
    def share(self) -> float:
        """Factor for the rows, bytes and time of a chunk, and for the number of readers."""
        return 0.5 ** min(self.step, SLOWEST)

    @property
    def delay_s(self) -> float:
        """Seconds to rest before each chunk."""
        return _DELAYS_S[self.step]

    def readers(self, most: int) -> int:
        """Return the number of readers that may read, out of ``most``; at least 1."""
        return max(1, int(most * self.share))


FREE = Pace()


@dataclass(frozen=True, slots=True, kw_only=True)
class Governor:
    """The current pace and the time of its last change. Immutable: each measurement gives a new
    one.
    """

    limits: Mapping[Limit, float]
    pace: Pace = FREE
    changed_s: float = field(default=float("-inf"))
    """Time when the pace became this one, or when a measurement last forbade an easier one."""

    def looked(self, measured: Mapping[Limit, float], *, now_s: float) -> Governor:
        """Return the governor after a measurement of the source. ``measured`` lacks the values that
        are unknown. Called about once a second.
        """
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
        """Return the limit that is nearest now, or that was nearest at the last measurement; None
        for a free pace.
        """
        return None if step == 0 else cause or self.pace.cause
