"""Lets another thread cut short calls that wait for an answer."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Abort:
    """Actions that end waiting calls; ``call`` runs them, at any time and as often as needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._actions: dict[object, Callable[[], None]] = {}

    def __len__(self) -> int:
        """Return the number of registered actions."""
        return len(self._actions)

    def on(self, action: Callable[[], None]) -> Callable[[], None]:
        """Register an action for every ``call``. It must do no harm if there is nothing to end.

        Return a function that removes it. An operation that ends before the ``Abort`` does has to
        remove its action, or the action is kept that long.
        """
        key = object()
        with self._lock:
            self._actions[key] = action

        def forget() -> None:
            with self._lock:
                self._actions.pop(key, None)

        return forget

    def call(self) -> None:
        """Run all registered actions."""
        with self._lock:
            actions = list(self._actions.values())
        for action in actions:
            action()
