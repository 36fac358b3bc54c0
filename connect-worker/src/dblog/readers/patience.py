"""Waits out what may pass by itself: a registry or a broker that is away, in the middle of work that must not be left half done.

Used where giving the error back would lose the place: the log thread holds an event that is not finished. It waits for ever, and says for what
(``waits``), unless there is a limit: then the waiting turns into a DefiniteError, and the task shows FAILED with the reason.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import TypeVar

import structlog

from dblog.clock import Clock
from dblog.core.backoff import Backoff
from dblog.errors import DefiniteError, ServerChangedError, TransientError

log = structlog.get_logger(__name__)

Result = TypeVar("Result")


class Patience:
    """Tries a call again until it succeeds, the task stops, or ``limit_s`` has passed (None: for ever)."""

    def __init__(self, *, stopped: threading.Event, limit_s: float | None, clock: Clock) -> None:
        self._stopped = stopped
        self._limit_s = limit_s
        self._clock = clock
        self._backoff = Backoff()
        self.waits: str | None = None
        """What is waited for at this moment."""

    def __call__(self, call: Callable[[], Result]) -> Result:
        """The call's result. Its TransientError comes out when the task stops meanwhile."""
        failures, started_s = 0, self._clock.monotonic_s()
        while True:
            try:
                result = call()
            except ServerChangedError:
                raise
            except TransientError as e:
                failures += 1
                waited_s = self._clock.monotonic_s() - started_s
                if self._limit_s is not None and waited_s > self._limit_s:
                    message = (
                        f"gave up after {failures} tries in {waited_s:.0f} s: {e}; nothing is lost, restart the task once the cause is gone"
                    )
                    raise DefiniteError(message) from e
                delay_s = self._backoff.delay_s(failures, chance=random.random())  # noqa: S311 - jitter, no secret
                log.warning("trying again", reason=str(e), failures=failures, delay_s=round(delay_s, 2))
                self.waits = str(e)
                if self._stopped.wait(delay_s):
                    raise
            else:
                self.waits = None
                return result
