"""How long a question about one of many tables waits for whoever locks it."""

from __future__ import annotations

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
