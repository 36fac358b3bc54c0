"""Warnings that stand while a problem lasts: raised and withdrawn by key, shown in the connector's
status.

A log line is read once at best, but a lasting problem must be visible where an operator looks. The
list is bounded, because it travels to the herder with the task's report and is part of every status
answer.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice

from dblog.model import TableId

COUNT_MAX = 50
"""Maximum number of warnings in the list; one more counts the rest."""
CHARS_MAX = 2000
"""Maximum length of one warning's text."""
KEPT_MAX = 1000
"""Maximum number of keys in one task."""
NAMED_MAX = 20
"""Maximum number of tables that one warning names."""
_NONE = range(0)


@dataclass(frozen=True, slots=True)
class _OfTables:
    """A warning about tables. It names each until a repair has read the table, or the table is
    gone.
    """

    before: str
    after: str
    tables: dict[TableId, int]
    """Number of the last finding by table."""

    @property
    def text(self) -> str:
        named = ", ".join(sorted(map(str, islice(self.tables, NAMED_MAX))))
        more = f" and {len(self.tables) - NAMED_MAX} more" if len(self.tables) > NAMED_MAX else ""
        return f"{self.before}{named}{more}{self.after}"


@dataclass(frozen=True, slots=True)
class Found:
    """Set of findings (numbered calls of ``raise_of_tables``) before some position in the log."""

    upto: int = 0
    ahead: range = _NONE
    """Numbers of findings that concern log after the position, because the reader had
    read ahead.
    """

    def has(self, number: int) -> bool:
        """Return True if the set contains the finding with this number."""
        return number <= self.upto and number not in self.ahead


class StandingWarnings:
    """Warnings of one run of a task. Any thread may call any method."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: dict[str, str] = {}
        self._lasting: set[str] = set()
        self._of_tables: dict[str, _OfTables] = {}
        self._found = 0
        self._ahead = _NONE
        self._begun: dict[tuple[str, TableId], Found] = {}
        """Findings before a repair began to read a table, by repair and table."""

    @property
    def found(self) -> int:
        """Number of findings of ``raise_of_tables`` so far."""
        return self._found

    @property
    def found_here(self) -> Found:
        """Findings before the position up to which the log has been passed on."""
        return Found(self._found, self._ahead)

    def found_ahead(self, since: int) -> None:
        """Note that the findings after number ``since`` concern log that is decoded but not passed
        on.

        At a position inside that log they count as later findings.
        """
        self._ahead = range(since + 1, self._found + 1)

    def raise_warning(self, key: str, text: str, *, lasting: bool = False) -> None:
        """Show `text` until `key` is withdrawn. A key that already stands gets the new text.

        Repeating the same text costs next to nothing. ``lasting`` is True if the next run could not
        detect the problem again, so that the warning also stands there.
        """
        if self._texts.get(key) == text:
            return
        with self._lock:
            if key in self._texts or len(self._texts) < KEPT_MAX:
                self._texts[key] = text
                if lasting:
                    self._lasting.add(key)

    def raise_of_tables(self, key: str, tables: Iterable[TableId], *, before: str, after: str) -> None:
        """Show a lasting warning that names these tables between the two texts.

        Tables that the key already names stay in the list.
        """
        with self._lock:
            known = self._of_tables.get(key)
            named = {**({} if known is None else known.tables), **dict.fromkeys(tables, self._found + 1)}
            if not named or (known is None and len(self._texts) >= KEPT_MAX):
                return
            self._found += 1
            made = self._of_tables[key] = _OfTables(before, after, named)
            self._texts[key] = made.text

    def found_again(self, key: str, table: TableId) -> bool:
        """Count a finding about a table that the warning already covers, and return True.

        Return False if the warning of ``raise_of_tables`` does not cover the table; that costs next
        to nothing.
        """
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
        """Note that a dump in mode repair reads the table from its beginning, after these findings.
        # I5

        It may already have passed the rows of later findings.
        """
        with self._lock:
            if any(table in known.tables for known in self._of_tables.values()):  # otherwise there is no warning that the repair could end
                self._begun[dump, table] = found

    def repair_ends(self, dump: str, table: TableId) -> None:
        """Remove a table that this dump has read to its end, if its last finding came before the
        dump began.
        """
        with self._lock:
            self._end([table], self._begun.pop((dump, table), Found()))

    def end_for(self, tables: Iterable[TableId]) -> None:
        """Remove tables that are gone from the warnings of ``raise_of_tables``."""
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
        """Withdraw the warning of this key, if it stands."""
        if key in self._texts:
            with self._lock:
                self._texts.pop(key, None)
                self._of_tables.pop(key, None)
                self._lasting.discard(key)

    def of_next_run(self) -> StandingWarnings:
        """Return the warnings that the next run starts with: those that nothing detects again."""
        made = StandingWarnings()
        with self._lock:
            made._of_tables = {key: replace(known, tables=dict(known.tables)) for key, known in self._of_tables.items()}
            made._found, made._begun = self._found, dict(self._begun)
            made._lasting = set(self._lasting)
            made._texts = {key: text for key, text in self._texts.items() if key in self._lasting or key in self._of_tables}
        return made

    def texts(self) -> tuple[str, ...]:
        """Return the standing warnings, oldest first, limited in number and length."""
        with self._lock:
            return shown(self._texts.values())


def shown(texts: Iterable[str]) -> tuple[str, ...]:
    """Return each text once, cut to CHARS_MAX; if there are more than COUNT_MAX, a last sentence
    counts the rest.
    """
    distinct = list(dict.fromkeys(texts))
    cut = [text if len(text) <= CHARS_MAX else f"{text[:CHARS_MAX]}..." for text in distinct[:COUNT_MAX]]
    more = len(distinct) - COUNT_MAX
    return (*cut, f"{more} more warnings; the worker's log has them") if more > 0 else tuple(cut)
