"""Collects tables that differ from what the log has shown, as a dump, the watch or a start has
noticed.

The log of PostgreSQL has no DDL: the effect of a statement appears only before the table's next
row, which may never come. A dump would then wait for ever, and outdated records would stay. So the
log thread asks the catalog (``PostgresSchemas.found_out``).
"""

from __future__ import annotations

import threading

from dblog.model import TableId


class DoubtfulTables:
    """The doubtful tables of one task. Dump threads and the watch add tables, and the log thread
    takes them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: set[TableId] = set()

    def add(self, table: TableId) -> None:
        """Note that the table differs from what is known of it."""
        with self._lock:
            self._tables.add(table)

    def take(self) -> set[TableId]:
        """Return and clear the tables noted since the last call."""
        if not self._tables:
            return set()
        with self._lock:
            taken, self._tables = self._tables, set()
            return taken
