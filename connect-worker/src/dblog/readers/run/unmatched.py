"""Withdraws the start's warnings about names in the include lists that match no table, once a table
of that name is captured.
"""

from __future__ import annotations

from collections.abc import Sequence

from dblog.core.selection import Parts
from dblog.core.unmatched_tables import matched_meanwhile
from dblog.readers.log.schemas import Schemas
from dblog.readers.standing_warnings import StandingWarnings


def key_of_check(text: str) -> str:
    """Return the key of the standing warning for a text of the server's check."""
    return f"server: {text}"


class UnmatchedNames:
    """Unmatched names of one run. ``texts`` are standing warnings of the server's check."""

    def __init__(self, texts: Sequence[str], *, named: Parts, schemas: Schemas, warnings: StandingWarnings) -> None:
        self._texts = list(texts)
        self._named = named
        self._schemas = schemas
        self._warnings = warnings
        self._captured_total = schemas.captured_total

    def look(self) -> None:
        """Withdraw warnings that no longer hold. It is cheap to call while no table
        comes or goes.
        """
        if not self._texts or self._schemas.captured_total == self._captured_total:
            return
        captured = self._schemas.captured_now()
        self._captured_total = len(captured)
        for text in matched_meanwhile(self._texts, self._named, captured):
            self._texts.remove(text)
            self._warnings.withdraw(key_of_check(text))
