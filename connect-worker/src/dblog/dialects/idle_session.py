"""A clock for a session that asks the server questions: after a while without use its connection
should be closed.
"""

from __future__ import annotations

import time

SESSION_IDLE_S = 10.0


class IdleSession:
    """The idle time of one session, which is opened again on demand. Used by one thread."""

    def __init__(self) -> None:
        self._used_s: float | None = None
        self._is_closed = False

    def used(self) -> None:
        """Note that the session is used now."""
        self._used_s = time.monotonic()

    def opened(self) -> None:
        """Note that the session has a connection again."""
        self._is_closed = False

    def is_due(self) -> bool:
        """Return True, once, when the session should be closed. The first call counts as a use,
        because the questions of a start are not noted.
        """
        if self._is_closed:
            return False
        if self._used_s is None:
            self.used()
        elif time.monotonic() - self._used_s >= SESSION_IDLE_S:
            self._is_closed = True
        return self._is_closed
