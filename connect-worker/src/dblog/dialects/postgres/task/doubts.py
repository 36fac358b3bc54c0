"""Tables that are not as the log has shown them, as a dump, the watch or a start has found.

The log of PostgreSQL has no DDL: what a statement did shows in front of the table's next row, which may never come: a dump would wait for ever, and
records of before would stay. So the log thread asks the catalog (``PostgresSchemas.found_out``).
"""

from __future__ import annotations

import threading

from dblog.model import TableId


class Doubts:
    """One task's. Dump threads and the watch add tables, the log thread takes them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: set[TableId] = set()

    def add(self, table: TableId) -> None:
        """The table is not as it is known."""
        with self._lock:
            self._tables.add(table)

    def take(self) -> set[TableId]:
        """Those since the last call."""
        if not self._tables:
            return set()
        with self._lock:
            taken, self._tables = self._tables, set()
            return taken
