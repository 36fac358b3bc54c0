"""What follows when a table could not be written: try again, park the table by its policy, or stop the job."""

from __future__ import annotations

from typing import Literal

from dblog_sink.config.job_options import Settings
from dblog_sink.errors import DefiniteError, ParkError

Outcome = Literal["retry", "park", "stop"]
_DOUBLINGS_MAX = 32
"""Attempts have no limit but the configuration's, and a power of thousands is no float."""


def pause_s(attempt: int, *, pause_max_s: float) -> float:
    """How long to wait after the ``attempt``-th failure in a row, the first being 1: a second, doubling, up to ``pause_max_s``."""
    return min(2.0 ** min(attempt - 1, _DOUBLINGS_MAX), pause_max_s)


class Failures:
    """Counts the failed attempts of each table."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._attempts: dict[str, int] = {}

    def judge(self, topic: str, error: BaseException) -> Outcome:
        """Count a failed attempt and decide: a table is parked when trying again cannot help, or has been tried often enough, and its policy asks for it."""
        self._attempts[topic] = self._attempts.get(topic, 0) + 1
        spec = self._settings.table(topic)
        retries = 0 if spec is None else spec.failure_retries
        if not isinstance(error, DefiniteError) and self._attempts[topic] <= retries:
            return "retry"
        parks = isinstance(error, ParkError) if spec is None else spec.parks(error)
        return "park" if parks else "stop"

    def attempts(self, topic: str) -> int:
        """How often the table failed in a row."""
        return self._attempts.get(topic, 0)

    def forget(self, topic: str) -> None:
        """The table was written, or is resumed."""
        self._attempts.pop(topic, None)

    def clear(self) -> None:
        """The query starts again."""
        self._attempts.clear()
