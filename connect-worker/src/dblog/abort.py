"""Cuts short, from another thread, what waits for somebody else's answer."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Abort:
    """What is to be done when waiting has lasted long enough; ``call`` may come at any time and again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._actions: dict[object, Callable[[], None]] = {}

    def __len__(self) -> int:
        """How much would be cut."""
        return len(self._actions)

    def on(self, action: Callable[[], None]) -> Callable[[], None]:
        """Do this at every call; it must be harmless when there is nothing to cut.

        The answer takes it off again: what ends before the ``Abort`` does has to, or it is kept for as long.
        """
        key = object()
        with self._lock:
            self._actions[key] = action

        def forget() -> None:
            with self._lock:
                self._actions.pop(key, None)

        return forget

    def call(self) -> None:
        """Cut everything that has been named so far."""
        with self._lock:
            actions = list(self._actions.values())
        for action in actions:
            action()
