"""Reports tables whose removed rows stay at consumers, until a repair dump has removed them from
the lake.

A statement removed the rows without a row event (``core/removals.py``), and no record of it was
sent: ``skipped.operations`` leaves out TRUNCATE by default, as in Debezium, and the other
statements have no record. The schema history stores this with the table, so a restart does not
forget it. For a table without a key, which no dump can repair, it is not stored, so a restart ends
the warning. The log thread calls this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Protocol

import structlog

from dblog.core.removals import TRUNCATED
from dblog.core.repair_command import repair_command
from dblog.model import Table, TableId
from dblog.readers.standing_warnings import StandingWarnings

log = structlog.get_logger(__name__)

KEY = "rows removed"
NAMED_MAX = 20
COMMAND_CHARS_MAX = 500
"""Maximum length, about, of the command in the warning, which names only the first tables."""


class KnownRemovals(Protocol):
    """Storage of the removals (``schemas.Schemas``)."""

    def table(self, table: TableId) -> Table | None:
        """Return the table as it is now; None if it is unknown."""

    def removals(self) -> Mapping[TableId, str]:
        """Return the tables that were noted, in this or earlier runs, with what removed
        their rows.
        """

    def note_removals(self, tables: Mapping[TableId, str]) -> None:
        """Store these tables, with what removed their rows, so that a restart finds them."""

    def end_removals(self, tables: Iterable[TableId]) -> None:
        """Forget these tables."""


class RemovedRows:
    """Tables of one run with removed rows that consumers still have."""

    def __init__(self, *, connector: str, schemas: KnownRemovals, warnings: StandingWarnings) -> None:
        self._connector = connector
        self._schemas = schemas
        self._warnings = warnings
        self._tables = dict(schemas.removals())
        self._raise()

    def removed(self, tables: Mapping[TableId, str]) -> None:
        """Report tables that a statement removed rows from; ``tables`` maps each to what removed
        them.

        A table that is already reported is not logged again.
        """
        for table, what in tables.items():
            if table not in self._tables:
                log.warning(
                    "rows that a statement removed stay in the topic and in the lake",
                    table=str(table),
                    removed_by=what,
                    remedy=repair_command(self._connector, [table])
                    if self._has_key(table)
                    else "delete them there: without a key no dump can",
                )
            self._tables[table] = what
        if tables:
            self._schemas.note_removals({table: what for table, what in tables.items() if self._has_key(table)})
            self._raise()

    def repaired(self, dump: str, table: TableId) -> None:
        """Withdraw a table that a repair dump has read to its end, here and in other warnings that
        it ends.
        """
        self._warnings.repair_ends(dump, table)
        self._take_back((table,))

    def take_back(self, tables: Iterable[TableId]) -> None:
        """Withdraw tables that are gone, here and in other warnings that a repair ends."""
        tables = tuple(tables)
        self._warnings.end_for(tables)
        self._take_back(tables)

    def _take_back(self, tables: Iterable[TableId]) -> None:
        named = [table for table in tables if self._tables.pop(table, None) is not None]
        if named:
            self._schemas.end_removals(named)
            self._raise()

    def _raise(self) -> None:
        if not self._tables:
            self._warnings.withdraw(KEY)
            return
        count, first = len(self._tables), list(islice(self._tables, NAMED_MAX))
        named = ", ".join(f"{table} ({self._tables[table]})" for table in first)
        more = f" and {count - NAMED_MAX} more tables" if count > NAMED_MAX else ""
        truncates = "; with skipped.operations=none a TRUNCATE reaches the lake" if TRUNCATED in self._tables.values() else ""
        self._warnings.raise_warning(
            KEY,
            f"rows that statements removed stay in the topics and in the lake, of {named}{more}: {self._remedy(first, count)}{truncates}",
        )

    def _remedy(self, first: list[TableId], count: int) -> str:
        with_key = [table for table in first if self._has_key(table)]
        if not with_key:
            return "delete them there, for without a key no dump can"
        named = with_key[:1]
        for table in with_key[1:]:
            if len(repair_command(self._connector, [*named, table])) > COMMAND_CHARS_MAX:
                break
            named.append(table)
        rest = "" if len(named) == count else ", and the same request for each other table that has a key"
        return f"`{repair_command(self._connector, named)}` removes them from the lake{rest}"

    def _has_key(self, table: TableId) -> bool:
        now = self._schemas.table(table)
        return now is None or bool(now.key)
