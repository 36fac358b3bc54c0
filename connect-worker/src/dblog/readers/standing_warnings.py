"""Warnings that stand while something is wrong: raised by key, withdrawn by key, shown in the connector's status.

A line of the log is read once, if at all. What stays wrong has to be where an operator looks, for as long as it is so.
The list is bounded: it travels to the herder with the task's report and stands in every answer of the status.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

COUNT_MAX = 50
"""Warnings that a list shows; one more counts the rest."""
CHARS_MAX = 2000
"""Of one warning's text."""
KEPT_MAX = 1000
"""Keys of one task."""


class StandingWarnings:
    """The warnings of one run of a task. Any thread may call any method."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: dict[str, str] = {}

    def raise_warning(self, key: str, text: str) -> None:
        """Show `text` until `key` is withdrawn. A key that stands already gets the new text; to repeat a text costs next to nothing."""
        if self._texts.get(key) == text:
            return
        with self._lock:
            if key in self._texts or len(self._texts) < KEPT_MAX:
                self._texts[key] = text

    def withdraw(self, key: str) -> None:
        """Take a warning away; a key that does not stand is left alone."""
        if key in self._texts:
            with self._lock:
                self._texts.pop(key, None)

    def texts(self) -> tuple[str, ...]:
        """Return the warnings that stand, oldest first, bounded in number and length."""
        with self._lock:
            return shown(self._texts.values())


def shown(texts: Iterable[str]) -> tuple[str, ...]:
    """Return each text once, cut to CHARS_MAX; behind COUNT_MAX of them a sentence that counts the rest."""
    distinct = list(dict.fromkeys(texts))
    cut = [text if len(text) <= CHARS_MAX else f"{text[:CHARS_MAX]}..." for text in distinct[:COUNT_MAX]]
    more = len(distinct) - COUNT_MAX
    return (*cut, f"{more} more warnings; the worker's log has them") if more > 0 else tuple(cut)
