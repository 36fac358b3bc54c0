"""Tells when a session for questions has been asked nothing for so long that its connection is better closed."""

from __future__ import annotations

import time

SESSION_IDLE_S = 10.0


class IdleSession:
    """One session, which is opened again on demand. Used by one thread."""

    def __init__(self) -> None:
        self._used_s: float | None = None
        self._is_closed = False

    def used(self) -> None:
        """Note that it is asked something now."""
        self._used_s = time.monotonic()

    def opened(self) -> None:
        """Note that it has a connection again."""
        self._is_closed = False

    def is_due(self) -> bool:
        """Return, once, that it is to be closed. The first call counts as a use: what a start has asked is not noted."""
        if self._is_closed:
            return False
        if self._used_s is None:
            self.used()
        elif time.monotonic() - self._used_s >= SESSION_IDLE_S:
            self._is_closed = True
        return self._is_closed
