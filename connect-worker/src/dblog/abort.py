"""Cuts short, from another thread, what waits for somebody else's answer."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Abort:
    """What is to be done when waiting has lasted long enough; ``call`` may come at any time and again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._actions: list[Callable[[], None]] = []

    def on(self, action: Callable[[], None]) -> None:
        """Do this at every call; it must be harmless when there is nothing to cut."""
        with self._lock:
            self._actions.append(action)

    def call(self) -> None:
        """Cut everything that has been named so far."""
        with self._lock:
            actions = list(self._actions)
        for action in actions:
            action()
