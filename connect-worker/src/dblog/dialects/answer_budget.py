"""A shared limit on the memory that the answers of several servers may take.

Each answer also has a limit of its own. But a worker checks many configurations at once, each with
a server that the configuration's author chose.
"""

from __future__ import annotations

import threading


class AnswerBudget:
    """A budget of bytes, shared by connections of several threads."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._lock = threading.Lock()
        self._bytes_free = bytes_max

    def take(self, count: int) -> bool:
        """Reserve ``count`` bytes if that many are free; return whether they were."""
        with self._lock:
            if count > self._bytes_free:
                return False
            self._bytes_free -= count
            return True

    def give_back(self, count: int) -> None:
        """Return ``count`` reserved bytes to the budget."""
        with self._lock:
            self._bytes_free += count


CHECKS_BYTES_MAX = 4 << 30
"""Memory for two catalogs of the greatest size, in bytes. A check runs in the worker's own process
against the server that its configuration names.
"""

CHECKS_BUDGET = AnswerBudget(CHECKS_BYTES_MAX)
