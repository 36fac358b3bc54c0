"""How long questions about many tables wait for whoever locks them."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from typing import Protocol, Self

LOCKED_MS = 200
"""The log and a start wait at most this long for a lock on a table that they ask something."""

WAITED_FOR_MAX = 10
"""After so many tables that somebody locks no further one is waited for: who alters a partitioned table locks each of its partitions."""

LIMIT_LOCKS_SQL = (
    "SELECT pg_catalog.current_setting('lock_timeout'), pg_catalog.set_config('lock_timeout', (CASE WHEN whole.ms > 0 "
    "THEN greatest(1, least(%s, whole.ms / 2)) ELSE %s END)::text, false) "
    "FROM (SELECT (extract(epoch FROM pg_catalog.current_setting('statement_timeout')::interval) OPERATOR(pg_catalog.*) 1000)::int AS ms) AS whole"
)
"""How long a session has waited for locks, and a limit from now on: at most half of what a statement may take (PostgreSQL manual, "lock_timeout")."""


def locked_ms(locked: int) -> int:
    """Return how long to wait for a lock on a further table, where somebody locks so many already."""
    return LOCKED_MS if locked < WAITED_FOR_MAX else 1


class LimitsLocks(Protocol):
    """A session whose statements wait for a lock for a given time only."""

    def lock_limit(self, limit_ms: int, *, doing: str) -> AbstractContextManager[None]:
        """Within the block a statement that waits longer for a lock ends with LockedError."""


class LockWaits:
    """The limit of a session's statements while it asks one table after the other. ``found_locked`` is told of each one that could not be had."""

    def __init__(self, session: LimitsLocks, *, doing: str) -> None:
        self._session = session
        self._doing = doing
        self._locked = 0
        self._limits = ExitStack()

    def __enter__(self) -> Self:
        self._limit()
        return self

    def __exit__(self, *_: object) -> None:
        self._limits.close()

    def found_locked(self) -> None:
        """Count a table whose lock was waited for in vain; further ones may be waited for no more."""
        before_ms = locked_ms(self._locked)
        self._locked += 1
        if locked_ms(self._locked) != before_ms:
            self._limit()

    def _limit(self) -> None:
        self._limits.enter_context(self._session.lock_limit(locked_ms(self._locked), doing=self._doing))
