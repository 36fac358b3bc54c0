"""Finds captured tables whose changes are, at this moment, not or not completely in the log.

The publication may lack a table, leave out a kind of change or have a row filter, and a table may
be unlogged. Nothing in the log shows that. So the watch asks the server, and standing warnings
report it as long as it lasts. # I3
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import structlog

from dblog.core.selection import Selection
from dblog.dialects.postgres.catalog import sql
from dblog.dialects.postgres.task.connections import Connections
from dblog.dialects.postgres.wire.check import NAMED_MAX, lacks_tables, leaves_out, some_rows
from dblog.dialects.postgres.wire.session import Session
from dblog.dialects.postgres.wire.slot import Publication, follow_publication
from dblog.model import TableId

log = structlog.get_logger(__name__)

UNPUBLISHED = "publication lacks tables"
LEFT_OUT = "publication leaves out kinds of changes"
SOME_ROWS = "publication has conditions for rows"
UNLOGGED = "tables are unlogged"
"""Keys of standing warnings."""

DUMPED_THEN = (
    "tables that had been captured are dumped again then, and the sink removes rows that were deleted in between; where a table has no key, or shares its "
    "topic, they stay"
)


class Unpublished:
    """The looks of one watch at the publication. ``selection`` tells captured tables; None if there
    are none.
    """

    def __init__(self, connections: Connections, session: Session, *, selection: Selection | None) -> None:
        self._connections = connections
        self._session = session
        self._selection = selection
        self.tables: Mapping[int, TableId] = {}
        """All tables whose rows are logged, by number, as the last look found them."""

    def _includes(self, table: TableId) -> bool:
        return self._selection is not None and self._selection.includes(table)

    def look(self) -> int:
        """Raise and withdraw the warnings. Return the number of captured tables with changes that
        are in no log.
        """
        name = self._connections.publication
        found = follow_publication(self._session, name)
        self.tables = self._session.table_numbers()
        captured = frozenset(table for table in self.tables.values() if self._includes(table))
        unlogged = {table for table in self._session.unlogged_tables() if self._includes(table)}
        self._unlogged(unlogged)
        if found is None:  # a missing publication ends the log, with its own message
            for key in (UNPUBLISHED, LEFT_OUT, SOME_ROWS):
                self._connections.warnings.withdraw(key)
            return len(captured | unlogged)
        lacking = frozenset[TableId]() if found.all_tables else captured - found.tables
        self._lacking(name, lacking)
        left_out = self._left_out(found)
        self._say(SOME_ROWS, "; ".join(some_rows(name, sorted(captured & found.filtered))))
        return len(unlogged | (captured if left_out else lacking))

    def _lacking(self, name: str, lacking: frozenset[TableId]) -> None:
        what = "the publication lacks captured tables: changes of them are in no record"
        reason = f"{lacks_tables(name, sorted(lacking))}; {DUMPED_THEN}" if lacking else ""
        if lacking and lacking != self._connections.lacking:
            log.warning(what, reason=reason)
        self._raise(UNPUBLISHED, f"{what}: {reason}" if lacking else "")
        for table in self._connections.lacking - lacking:
            self._connections.doubts.add(table)  # from here on the log has the table
        self._connections.lacking = lacking

    def _left_out(self, found: Publication) -> bool:
        sentence = leaves_out(found)
        self._say(LEFT_OUT, f"{sentence}; {DUMPED_THEN}" if sentence else "")
        return sentence is not None

    def _unlogged(self, tables: Collection[TableId]) -> None:
        if not tables:
            self._say(UNLOGGED, "")
            return
        names = ", ".join(map(str, sorted(tables)[:NAMED_MAX]))
        example = sql.quote_table(min(tables))
        self._say(
            UNLOGGED,
            f"captured tables are unlogged: {names}; changes of them are in no log; run there, for each: ALTER TABLE {example} SET LOGGED; or leave the "
            f"tables out with table.exclude.list; {DUMPED_THEN}",
        )

    def _say(self, key: str, text: str) -> None:
        if text and self._connections.said.get(key) != text:
            log.warning(key, reason=text)
        self._connections.said[key] = text
        self._raise(key, text)

    def _raise(self, key: str, text: str) -> None:
        if text:
            self._connections.warnings.raise_warning(key, text)
        else:
            self._connections.warnings.withdraw(key)
