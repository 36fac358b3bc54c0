"""Warnings that stand while something is wrong: raised by key, withdrawn by key, shown in the connector's status.

A line of the log is read once, if at all. What stays wrong has to be where an operator looks, for as long as it is so.
The list is bounded: it travels to the herder with the task's report and stands in every answer of the status.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice

from dblog.model import TableId

COUNT_MAX = 50
"""Warnings that a list shows; one more counts the rest."""
CHARS_MAX = 2000
"""Of one warning's text."""
KEPT_MAX = 1000
"""Keys of one task."""
NAMED_MAX = 20
"""Tables that one warning names."""
_NONE = range(0)


@dataclass(frozen=True, slots=True)
class _OfTables:
    """A warning that stands for each of its tables until a repair has read it, or it is gone."""

    before: str
    after: str
    tables: dict[TableId, int]
    """By table, which finding was the last of it."""

    @property
    def text(self) -> str:
        named = ", ".join(sorted(map(str, islice(self.tables, NAMED_MAX))))
        more = f" and {len(self.tables) - NAMED_MAX} more" if len(self.tables) > NAMED_MAX else ""
        return f"{self.before}{named}{more}{self.after}"


@dataclass(frozen=True, slots=True)
class Found:
    """The findings that come before a place in the log."""

    upto: int = 0
    ahead: range = _NONE
    """Findings that the reader of the log has already made of what comes after the place."""

    def has(self, number: int) -> bool:
        """Return whether this finding is one of them."""
        return number <= self.upto and number not in self.ahead


class StandingWarnings:
    """The warnings of one run of a task. Any thread may call any method."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: dict[str, str] = {}
        self._lasting: set[str] = set()
        self._of_tables: dict[str, _OfTables] = {}
        self._found = 0
        self._ahead = _NONE
        self._begun: dict[tuple[str, TableId], Found] = {}
        """By repair and table, the findings before it began to read the table."""

    @property
    def found(self) -> int:
        """The number of findings of ``raise_of_tables`` so far."""
        return self._found

    @property
    def found_here(self) -> Found:
        """The findings that come before the place up to which the log is given out."""
        return Found(self._found, self._ahead)

    def found_ahead(self, since: int) -> None:
        """Note that the findings since so many are of log that is decoded, and not given out yet: they come after a place inside it."""
        self._ahead = range(since + 1, self._found + 1)

    def raise_warning(self, key: str, text: str, *, lasting: bool = False) -> None:
        """Show `text` until `key` is withdrawn. A key that stands already gets the new text; to repeat a text costs next to nothing.

        ``lasting``: the next run would not find it out again, so it stands there too.
        """
        if self._texts.get(key) == text:
            return
        with self._lock:
            if key in self._texts or len(self._texts) < KEPT_MAX:
                self._texts[key] = text
                if lasting:
                    self._lasting.add(key)

    def raise_of_tables(self, key: str, tables: Iterable[TableId], *, before: str, after: str) -> None:
        """Show a lasting warning with the names of these tables, and of those that the key has already, between the two texts."""
        with self._lock:
            known = self._of_tables.get(key)
            named = {**({} if known is None else known.tables), **dict.fromkeys(tables, self._found + 1)}
            if not named or (known is None and len(self._texts) >= KEPT_MAX):
                return
            self._found += 1
            made = self._of_tables[key] = _OfTables(before, after, named)
            self._texts[key] = made.text

    def found_again(self, key: str, table: TableId) -> bool:
        """Return whether the warning of ``raise_of_tables`` names the table, or counts it: then it stands for this finding too. Costs next to nothing."""
        known = self._of_tables.get(key)
        if known is None or table not in known.tables:
            return False
        with self._lock:
            if (now := self._of_tables.get(key)) is None or table not in now.tables:
                return False
            self._found += 1
            now.tables[table] = self._found
            return True

    def repair_begins(self, dump: str, table: TableId, found: Found) -> None:
        """Note that a dump in mode repair reads the table from its beginning, after these findings. Of later ones it may have passed the rows. # I5"""
        with self._lock:
            if any(table in known.tables for known in self._of_tables.values()):  # else there is nothing that it may end
                self._begun[dump, table] = found

    def repair_ends(self, dump: str, table: TableId) -> None:
        """Name a table no longer that this dump has read to its end, where the last finding came before its first row was read."""
        with self._lock:
            self._end([table], self._begun.pop((dump, table), Found()))

    def end_for(self, tables: Iterable[TableId]) -> None:
        """Name these tables no longer in the warnings of ``raise_of_tables``: they are gone."""
        with self._lock:
            self._end(tables, Found(self._found))

    def _end(self, tables: Iterable[TableId], before: Found) -> None:
        gone = set(tables)
        if gone:
            for key, known in list(self._of_tables.items()):
                left = {table: found for table, found in known.tables.items() if table not in gone or not before.has(found)}
                if len(left) == len(known.tables):
                    continue
                if left:
                    made = self._of_tables[key] = replace(known, tables=left)
                    self._texts[key] = made.text
                else:
                    del self._of_tables[key], self._texts[key]

    def withdraw(self, key: str) -> None:
        """Take a warning away; a key that does not stand is left alone."""
        if key in self._texts:
            with self._lock:
                self._texts.pop(key, None)
                self._of_tables.pop(key, None)
                self._lasting.discard(key)

    def of_next_run(self) -> StandingWarnings:
        """Return the warnings that the next run of the task begins with: those that nothing finds out again."""
        made = StandingWarnings()
        with self._lock:
            made._of_tables = {key: replace(known, tables=dict(known.tables)) for key, known in self._of_tables.items()}
            made._found, made._begun = self._found, dict(self._begun)
            made._lasting = set(self._lasting)
            made._texts = {key: text for key, text in self._texts.items() if key in self._lasting or key in self._of_tables}
        return made

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
