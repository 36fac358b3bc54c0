"""The limit of a session's statements while it asks one table after the other: tables that somebody
locks make it shorter.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Self

from dblog.dialects.postgres.wire.lock_limits import locked_ms
from dblog.dialects.postgres.wire.session import Session


class LockWaits:
    """The limit of a session's statements while it asks one table after the other. ``found_locked`` is told of each one that could not be had."""

    def __init__(self, session: Session, *, doing: str) -> None:
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
