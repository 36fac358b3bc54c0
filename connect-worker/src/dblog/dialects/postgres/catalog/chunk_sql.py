"""Statements for chunks: by the key, or of a table without one by the place of its rows. Implements ``readers.contract.ChunkSql`` as a module."""

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
    """The first rows of the range (after, upto], in order."""
    if table.key == places.KEY:
        return places.chunk_select(table, after, upto, rows_max, where=where)
    return sql.chunk_select(table, after, upto, rows_max, where=where)


def max_key(table: Table, *, where: str | None = None) -> Statement:
    """Where the table ends."""
    return places.max_key(table) if table.key == places.KEY else sql.max_key(table, where=where)


def last_key(
    table: Table, after: Sequence[Any] | None, upto: Sequence[Any] | None, row_count: int, *, where: str | None = None
) -> Statement:
    """Where about so many rows end."""
    if table.key == places.KEY:
        assert upto is not None, "the first chunk asks where the table ends"
        return places.last_key(table, after, upto, row_count)
    return sql.last_key(table, after, upto, row_count, where=where)


def key_lookup(table: Table, key: Sequence[Any], after: Sequence[Any] | None, *, where: str | None = None) -> Statement:
    """One row if the table has this bound, and it is behind ``after``."""
    return places.key_lookup(table, key, after) if table.key == places.KEY else sql.key_lookup(table, key, after, where=where)


def key_indexes(table: Table) -> tuple[int, ...]:
    """Where the key columns stand in the select list, in key order; a place stands in none."""
    return () if table.key == places.KEY else sql.key_indexes(table)
