"""Tables, a log and transactions in memory.

A commit changes the tables and appends to the log in one step; a snapshot is a copy.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dblog.core.changes import AlterTable, Change, CreateTable, DropTable, RenameTable
from dblog.model import Table, TableId
from support.fake_database.statements import parse

Row = tuple[Any, ...]


@dataclass(frozen=True)
class RowsEntry:
    """Rows that a transaction changed, as (before, after), with their table's definition."""

    table: Table
    op: str
    images: tuple[tuple[Row | None, Row | None], ...]


@dataclass(frozen=True)
class StatementEntry:
    """A logged schema change."""

    text: str
    database: str


@dataclass(frozen=True)
class MarkEntry:
    """A logged change of a row of the watermark table."""

    name: str
    token: str


Entry = RowsEntry | StatementEntry | MarkEntry


class FakeDatabase:
    """A database in memory.

    ``identity`` names the server and ``number`` its log; both differ after a failover. Log entries
    before ``oldest`` are purged.
    """

    def __init__(self, *, identity: str = "fake-1", number: int = 1) -> None:
        self.identity = identity
        self.number = number
        self.tables: dict[TableId, Table] = {}
        self.rows: dict[TableId, dict[Row, Row]] = {}
        self.watermarks: dict[str, str] = {}
        self.log: list[Entry] = []
        self.oldest = 0
        self.load: dict[Any, float] = {}
        """Values of the server's load that a task measures, by limit."""
        self.confirmed: list[Any] = []
        self.changed = threading.Condition(threading.RLock())

    # ---- writers

    def execute(self, text: str, *, database: str = "d") -> None:
        """Execute a statement that changes tables."""
        with self.changed:
            for change in parse(text, database, self.tables.get):
                self._apply(change)
            self._logged(StatementEntry(text, database))

    def _apply(self, change: Change) -> None:
        match change:
            case CreateTable(table):
                self.tables[table.id] = table
                self.rows[table.id] = {}
            case AlterTable(id_, table):
                kept = [
                    [c.name for c in self.tables[id_].columns].index(c.name) if self.tables[id_].column(c.name) else None
                    for c in table.columns
                ]
                self.tables[id_] = table
                self.rows[id_] = {key: tuple(None if at is None else row[at] for at in kept) for key, row in self.rows[id_].items()}
                self.rows[id_] = {self.key_of(id_, row): row for row in self.rows[id_].values()}
            case DropTable(ids):
                for id_ in ids:
                    del self.tables[id_], self.rows[id_]
            case RenameTable(pairs):
                for old, new in pairs:
                    table = self.tables.pop(old)
                    self.tables[new] = Table(id=new, columns=table.columns, key=table.key)
                    self.rows[new] = self.rows.pop(old)
            case _:
                raise AssertionError(change)

    def insert(self, table: TableId, *rows: Row) -> None:
        """Insert rows in one transaction."""
        with self.changed:
            for row in rows:
                self.rows[table][self.key_of(table, row)] = row
            self._logged(RowsEntry(self.tables[table], "c", tuple((None, row) for row in rows)))

    def update(self, table: TableId, row: Row) -> None:
        """Update the row with the same key."""
        with self.changed:
            key = self.key_of(table, row)
            before, self.rows[table][key] = self.rows[table][key], row
            self._logged(RowsEntry(self.tables[table], "u", ((before, row),)))

    def delete(self, table: TableId, key: Row) -> None:
        """Delete the row with this key."""
        with self.changed:
            before = self.rows[table].pop(key)
            self._logged(RowsEntry(self.tables[table], "d", ((before, None),)))

    def watermark(self, name: str, token: str) -> None:
        """Commit a watermark."""
        with self.changed:
            self.watermarks[name] = token
            self._logged(MarkEntry(name, token))

    def purge(self) -> None:
        """Purge the log up to now."""
        with self.changed:
            self.oldest = len(self.log)

    def _logged(self, entry: Entry) -> None:
        self.log.append(entry)
        self.changed.notify_all()

    # ---- readers

    def snapshot(self) -> tuple[dict[TableId, dict[Row, Row]], dict[str, str]]:
        """Return copies of all current rows and watermarks."""
        with self.changed:
            return copy.deepcopy(self.rows), dict(self.watermarks)

    def key_of(self, table: TableId, row: Row) -> Row:
        """Return the row's key values."""
        return tuple(row[at] for at in key_indexes(self.tables[table]))

    def entries(self, start: int, *, timeout_s: float, unless: threading.Event) -> list[Entry]:
        """Return the log entries from ``start`` on.

        The list is empty if none comes within ``timeout_s``, or once ``unless`` is set.
        """
        with self.changed:
            self.changed.wait_for(lambda: len(self.log) > start or unless.is_set(), timeout=timeout_s)
            return self.log[start:]


def key_indexes(table: Table) -> tuple[int, ...]:
    """Return the indexes of the key columns."""
    names = [column.name for column in table.columns]
    return tuple(names.index(name) for name in table.key)


def ordered(rows: Iterable[tuple[Row, Row]]) -> list[tuple[Row, Row]]:
    """Return the pairs (key, row) in key order."""
    return sorted(rows, key=lambda pair: pair[0])
