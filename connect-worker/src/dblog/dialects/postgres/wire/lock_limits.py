"""Limits how long a query about one of many tables waits for a lock on it."""

from __future__ import annotations

LOCKED_MS = 200
"""Milliseconds that the log and a start wait at most for a lock on a table that they query."""

WAITED_FOR_MAX = 10
"""Number of locked tables after which no further one is waited for: an ALTER of a partitioned table
locks each of its partitions.
"""

LIMIT_LOCKS_SQL = (
    "SELECT pg_catalog.current_setting('lock_timeout'), pg_catalog.set_config('lock_timeout', (CASE WHEN whole.ms > 0 "
    "THEN greatest(1, least(%s, whole.ms / 2)) ELSE %s END)::text, false) "
    "FROM (SELECT (extract(epoch FROM pg_catalog.current_setting('statement_timeout')::interval) OPERATOR(pg_catalog.*) 1000)::int AS ms) AS whole"
)
"""Query that sets the session's limit for locks and returns the previous one. The limit is at most
half of what a statement may take (PostgreSQL manual, "lock_timeout").
"""


def locked_ms(locked: int) -> int:
    """Return the milliseconds to wait for a lock on another table after ``locked`` tables were
    found locked.
    """
    return LOCKED_MS if locked < WAITED_FOR_MAX else 1
