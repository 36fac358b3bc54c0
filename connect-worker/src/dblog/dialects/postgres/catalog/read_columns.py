"""Builds statements for chunks with NULL in place of columns that no record has. The account needs
no privilege for these columns, and their values stay in the server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from dblog.dialects.postgres.catalog import chunk_sql
from dblog.dialects.postgres.catalog.sql import Statement
from dblog.model import Table

KEPT_MAX = 1000
"""Number of table versions whose columns are remembered."""


class ReadColumns:
    """Statements that read only needed columns. ``needed`` returns the names of a table's columns
    that are in records or their keys. Implements ``readers.contract.ChunkSql``.
    """

    exact_key = staticmethod(chunk_sql.exact_key)
    max_key = staticmethod(chunk_sql.max_key)
    last_key = staticmethod(chunk_sql.last_key)
    key_lookup = staticmethod(chunk_sql.key_lookup)
    key_indexes = staticmethod(chunk_sql.key_indexes)
    by_place = staticmethod(chunk_sql.by_place)

    def __init__(self, needed: Callable[[Table], frozenset[str]]) -> None:
        self._needed = needed
        self.of = lru_cache(maxsize=KEPT_MAX)(self._narrowed)

    def _narrowed(self, table: Table) -> Table:
        """Return the table with its unneeded columns marked as not read. Columns of its key are
        always read.
        """
        needed = self._needed(table) | set(table.key)
        return replace(table, columns=tuple(replace(column, unread=column.name not in needed) for column in table.columns))

    def chunk_select(
        self, table: Table, after: Sequence[Any] | None, upto: Sequence[Any] | None, rows_max: int, *, where: str | None = None
    ) -> Statement:
        """Return the statement for the first rows of the range (after, upto], in order."""
        return chunk_sql.chunk_select(self.of(table), after, upto, rows_max, where=where)

    def rows_by_key(self, table: Table, keys: Sequence[Sequence[Any]]) -> Statement:
        """Return the statement for the existing rows with these keys, in key order."""
        return chunk_sql.rows_by_key(self.of(table), keys)

    def full_scan(self, table: Table, rows_max: int, *, where: str | None = None) -> Statement:
        """Return the statement for all rows of a table without a key."""
        return chunk_sql.full_scan(self.of(table), rows_max, where=where)
