"""Decides what follows a failed write of a table: retry, park the table, or stop the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from dblog_sink.config.job_options import Settings
from dblog_sink.errors import DefiniteError, ParkError

Outcome = Literal["retry", "park", "stop"]
_DOUBLINGS_MAX = 32
"""Limit of the exponent: the configuration may allow thousands of attempts, and two to the power of
thousands overflows a float.
"""


def pause_s(attempt: int, *, pause_max_s: float) -> float:
    """Return the pause after the ``attempt``-th consecutive failure, in seconds.

    The first failure is 1. The pause is a second, doubling up to ``pause_max_s``.
    """
    return min(2.0 ** min(attempt - 1, _DOUBLINGS_MAX), pause_max_s)


class Failures:
    """The numbers of failed attempts of each table.

    ``may_commit`` returns False while the sink's lease has lapsed: every write fails then, which is
    no table's fault.
    """

    def __init__(self, settings: Settings, *, may_commit: Callable[[], bool] = lambda: True) -> None:
        self._settings = settings
        self._may_commit = may_commit
        self._attempts: dict[str, int] = {}

    def judge(self, topic: str, error: BaseException) -> Outcome:
        """Count a failed attempt and return what follows.

        A table is parked if a retry cannot help or the retries are used up, and its policy asks for
        it.
        """
        if not self._may_commit():
            return "retry"
        self._attempts[topic] = self._attempts.get(topic, 0) + 1
        spec = self._settings.table(topic)
        retries = 0 if spec is None else spec.failure_retries
        if not isinstance(error, DefiniteError) and self._attempts[topic] <= retries:
            return "retry"
        parks = isinstance(error, ParkError) if spec is None else spec.parks(error)
        return "park" if parks else "stop"

    def attempts(self, topic: str) -> int:
        """Return the number of consecutive failures of the table."""
        return self._attempts.get(topic, 0)

    def forget(self, topic: str) -> None:
        """Reset the count of a table that was written or resumed."""
        self._attempts.pop(topic, None)

    def clear(self) -> None:
        """Reset all counts, because the query starts again."""
        self._attempts.clear()
