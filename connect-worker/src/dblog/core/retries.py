"""Decides whether a passing error is tried again, after which pause, and when to give up. The task,
its log and its dumps share this rule.

``errors.max.retries`` and ``retriable.restart.connector.wait.ms`` are Debezium's: the number of
tries after a retriable error before the task fails (-1: for ever, 0: none), and the pause before
each try. Without a configured pause, the pause grows (``core/backoff.py``). If the number of tries
is limited, it is Debezium's ten seconds, because a handful of short pauses would be over before a
server has restarted. ``dblog.retry.timeout.ms`` limits the time for which errors may last in all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dblog.core.backoff import Backoff
from dblog.errors import DefiniteError, TransientError

_PAUSE_S = 10.0
"""Debezium's default of retriable.restart.connector.wait.ms."""
_MAX_RETRIES, _PAUSE, _TIMEOUT = "errors.max.retries", "retriable.restart.connector.wait.ms", "dblog.retry.timeout.ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The limits of retries. None means no limit, and for ``pause_s`` the growing pause."""

    retries_max: int | None = None
    timeout_s: float | None = None
    pause_s: float | None = None
    backoff: Backoff = field(default_factory=Backoff)

    @classmethod
    def of(cls, config: Mapping[str, str]) -> RetryPolicy:
        """Return the policy of a configuration that was checked before. Only keys that are set
        count.
        """
        retries_max, pause_ms, timeout_ms = (_whole(config.get(name)) for name in (_MAX_RETRIES, _PAUSE, _TIMEOUT))
        return cls(
            retries_max=None if retries_max is None or retries_max < 0 else retries_max,
            timeout_s=None if timeout_ms is None or timeout_ms < 0 else timeout_ms / 1000,
            pause_s=pause_ms / 1000 if pause_ms is not None else None if retries_max is None or retries_max < 0 else _PAUSE_S,
        )

    def delay_s(self, failures: int, *, chance: float) -> float:
        """Return the seconds to wait after this many consecutive failures. ``chance`` is a random
        number in [0, 1).
        """
        return self.backoff.delay_s(failures, chance=chance) if self.pause_s is None else self.pause_s

    def with_backoff(self, backoff: Backoff) -> RetryPolicy:
        """Return the policy with another growing pause."""
        return replace(self, backoff=backoff)


class Retries:
    """A series of consecutive failures of one operation. Times are of one monotonic clock."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._first_failure_s = 0.0
        self.failures = 0

    def failed(self, error: TransientError, *, now_s: float, chance: float) -> float:
        """Count a failure and return the seconds to wait before the next try. Raise DefiniteError
        if there is to be none. ``chance`` is a random number in [0, 1) from the caller's generator.
        """
        if self.failures == 0:
            self._first_failure_s = now_s
        self.failures += 1
        policy, waited_s = self._policy, now_s - self._first_failure_s
        if policy.retries_max is not None and self.failures > policy.retries_max:
            raise gave_up(error, tries=self.failures, waited_s=waited_s, limit=f"{_MAX_RETRIES}={policy.retries_max}") from error
        if policy.timeout_s is not None and waited_s > policy.timeout_s:
            raise gave_up(error, tries=self.failures, waited_s=waited_s, limit=f"{_TIMEOUT}={policy.timeout_s * 1000:.0f}") from error
        return policy.delay_s(self.failures, chance=chance)

    def succeeded(self) -> None:
        """End the series of failures."""
        self.failures = 0


def gave_up(error: TransientError, *, tries: int, waited_s: float, limit: str) -> DefiniteError:
    """Return the error that replaces a transient one when trying again has not helped for too
    long.
    """
    message = (
        f"gave up after {tries} tries in {waited_s:.0f} s ({limit}): {error}; nothing is lost, restart the task once the cause is gone"
    )
    return DefiniteError(message)


def _whole(text: str | None) -> int | None:
    return None if text is None or not str(text).strip() else int(str(text))
