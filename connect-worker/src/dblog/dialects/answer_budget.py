"""How much the answers of several servers may weigh together.

One answer has a limit of its own, but a worker checks many configurations at once, each with a server that somebody else names.
"""

from __future__ import annotations

import threading


class AnswerBudget:
    """Bytes of memory, shared by connections of several threads."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._lock = threading.Lock()
        self._bytes_free = bytes_max

    def take(self, count: int) -> bool:
        """Whether there was room for so many bytes more; they are taken then."""
        with self._lock:
            if count > self._bytes_free:
                return False
            self._bytes_free -= count
            return True

    def give_back(self, count: int) -> None:
        """What was taken is free again."""
        with self._lock:
            self._bytes_free += count


CHECKS_BYTES_MAX = 4 << 30
"""Two catalogs of the greatest kind; the server of a check is whatever its configuration names, and it runs in the worker's own process."""

CHECKS_BUDGET = AnswerBudget(CHECKS_BYTES_MAX)
