"""Limits how long a session waits for locks while it queries one table after the other: locked
tables shorten the limit.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Self

from dblog.dialects.postgres.wire.lock_limits import locked_ms
from dblog.dialects.postgres.wire.session import Session


class LockWaits:
    """The lock limit of a session while it queries one table after the other. Call ``found_locked``
    for each table whose lock it did not get.
    """

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
        """Count a table whose lock did not come in time. After some of them, further locks are not
        waited for.
        """
        before_ms = locked_ms(self._locked)
        self._locked += 1
        if locked_ms(self._locked) != before_ms:
            self._limit()

    def _limit(self) -> None:
        self._limits.enter_context(self._session.lock_limit(locked_ms(self._locked), doing=self._doing))
