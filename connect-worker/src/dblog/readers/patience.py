"""Waits out what may pass by itself: a registry or a broker that is away, in the middle of work that must not be left half done.

Used where giving the error back would lose an event: the log thread holds an event that is not finished. It waits for ever, and shows what for
(``waits``), unless there is a limit: then the waiting turns into a DefiniteError, and the task shows FAILED with the reason.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import TypeVar

import structlog

from dblog.clock import Clock
from dblog.core.retries import Retries, RetryPolicy
from dblog.errors import ServerChangedError, TransientError

log = structlog.get_logger(__name__)

Result = TypeVar("Result")


class Patience:
    """Tries a call again until it succeeds, the task stops, or the policy's limits are reached."""

    def __init__(self, *, stopped: threading.Event, policy: RetryPolicy, clock: Clock) -> None:
        self._stopped = stopped
        self._policy = policy
        self._clock = clock
        self.waits: str | None = None
        """What is waited for at this moment."""

    def __call__(self, call: Callable[[], Result]) -> Result:
        """The call's result. Its TransientError comes out when the task stops meanwhile."""
        retries = Retries(self._policy)
        while True:
            try:
                result = call()
            except ServerChangedError:
                raise
            except TransientError as e:
                delay_s = retries.failed(e, now_s=self._clock.monotonic_s(), chance=random.random())  # noqa: S311 - jitter, no secret
                log.warning("trying again", reason=str(e), failures=retries.failures, delay_s=round(delay_s, 2))
                self.waits = str(e)
                if self._stopped.wait(delay_s):
                    raise
            else:
                self.waits = None
                return result
