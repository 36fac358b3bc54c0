"""Builds the statements for chunks: by key, or by the place of the rows for a table without a key.
Implements ``readers.contract.ChunkSql`` as a module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dblog.dialects.postgres.catalog import places, sql
from dblog.dialects.postgres.catalog.places import by_place
from dblog.dialects.postgres.catalog.sql import Statement, exact_key, full_scan, rows_by_key
from dblog.model import Table

__all__ = ["by_place", "chunk_select", "exact_key", "full_scan", "key_indexes", "key_lookup", "last_key", "max_key", "rows_by_key"]


def chunk_select(
    table: Table, after: Sequence[Any] | None, upto: Sequence[Any] | None, rows_max: int, *, where: str | None = None
) -> Statement:
    """Return the statement for the first ``rows_max`` rows of the range (after, upto], in order."""
    if table.key == places.KEY:
        return places.chunk_select(table, after, upto, rows_max, where=where)
    return sql.chunk_select(table, after, upto, rows_max, where=where)


def max_key(table: Table, *, where: str | None = None) -> Statement:
    """Return the statement for the last key, or the last place, of a table."""
    return places.max_key(table) if table.key == places.KEY else sql.max_key(table, where=where)


def last_key(
    table: Table, after: Sequence[Any] | None, upto: Sequence[Any] | None, row_count: int, *, where: str | None = None
) -> Statement:
    """Return the statement for the last key, or the last place, of the next ``row_count`` rows. By
    place the number of rows is an estimate.
    """
    if table.key == places.KEY:
        assert upto is not None, "the first chunk asks where the table ends"
        return places.last_key(table, after, upto, row_count)
    return sql.last_key(table, after, upto, row_count, where=where)


def key_lookup(table: Table, key: Sequence[Any], after: Sequence[Any] | None, *, where: str | None = None) -> Statement:
    """Return a statement with one row if the table has this bound and it comes after ``after``."""
    return places.key_lookup(table, key, after) if table.key == places.KEY else sql.key_lookup(table, key, after, where=where)


def key_indexes(table: Table) -> tuple[int, ...]:
    """Return the indexes of the key columns in the select list, in key order. Return () for a table
    read by place, which is not in the select list.
    """
    return () if table.key == places.KEY else sql.key_indexes(table)
