"""Repeats a call until a transient problem, such as an absent broker, has passed.

It is used where returning the error would lose an event: the log thread holds an event that is not
finished. It waits without limit and shows the reason (``waits``), unless a limit is configured.
Then the wait ends with a DefiniteError, and the task shows FAILED with the reason.
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


class Retrying:
    """Repeats a call until it succeeds, the task stops, or the policy's limits are reached."""

    def __init__(self, *, stopped: threading.Event, policy: RetryPolicy, clock: Clock) -> None:
        self._stopped = stopped
        self._policy = policy
        self._clock = clock
        self.waits: str | None = None
        """Reason of the current wait; None if there is none."""

    def __call__(self, call: Callable[[], Result]) -> Result:
        """Return the call's result. Raise its TransientError if the task stops meanwhile."""
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
