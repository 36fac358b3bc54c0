"""Builds the statements for chunks of a table without a key: by the place of its rows, in ranges of
pages.

A bound is (files, page): a number that identifies the files of the table, and the last page of the
range in each file. A row that moves is in the log, and so are rows after the greatest page of the
first chunk. But a statement that rewrites the whole table (VACUUM FULL, CLUSTER) moves rows without
logging them. The table then has other files, and older bounds mean nothing. Source of the rules:
PostgreSQL manual, 5.6 "System Columns" (ctid), 9.28 "System Administration Functions"; from version
14 on, a range of ctid reads only its own pages (release notes, TID range scans).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dblog.dialects.postgres.catalog.sql import Statement, bracketed, quote_table, quote_text, rows_of, select_list
from dblog.errors import RowsMovedError
from dblog.model import Table

KEY = ("ctid files", "ctid page")
"""Key of a table that is read by place. No real key has columns of these names."""

_ROWS_OF_PAGE = 50
"""Rows of a page in a table that was never analysed."""


def by_place(table: Table) -> Table:
    """Return a table without a key with the place of its rows as its key."""
    return replace(table, key=KEY, primary_key=False)


def chunk_select(
    table: Table, after: Sequence[Any] | None, upto: Sequence[Any] | None, rows_max: int, *, where: str | None = None
) -> Statement:
    """Return the statement for at most ``rows_max`` rows of the pages after ``after`` up to
    ``upto``. Raise RowsMovedError if the bounds are of different files.
    """
    if after is not None and upto is not None and after[0] != upto[0]:
        message = f"the rows of {table.id} have been rewritten, so they are in other places"
        raise RowsMovedError(message)
    conditions = [] if after is None else [f"ctid >= '({int(after[1]) + 1},0)'::pg_catalog.tid"]
    conditions += [] if upto is None else [f"ctid < '({int(upto[1]) + 1},0)'::pg_catalog.tid"]
    conditions += [] if where is None else [bracketed(where)]
    only = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {select_list(table)} FROM {rows_of(table)}{only} LIMIT {int(rows_max)}", ()


def max_key(table: Table) -> Statement:
    """Return the statement for the last page of a table; it has no row if the table has no page."""
    return f"SELECT files, pages - 1 FROM ({_places(table)}) AS p WHERE pages > 0", (True, True)


def last_key(table: Table, after: Sequence[Any] | None, upto: Sequence[Any], row_count: int) -> Statement:
    """Return the statement for the page that ends about ``row_count`` rows, estimated by the
    statistics.
    """
    begin = -1 if after is None else int(after[1])
    return (
        f"SELECT files, least({int(upto[1])}, {begin} + greatest(1, ({int(row_count)}::float8 / rows_of_page)::bigint)) FROM ({_places(table)}) AS p",
        (True, True),
    )


def key_lookup(table: Table, key: Sequence[Any], after: Sequence[Any] | None) -> Statement:
    """Return a statement with one row if the table still has the bound's files and the bound comes
    after ``after``.
    """
    behind = after is None or (key[0] == after[0] and key[1] > after[1])
    return f"SELECT 1 FROM ({_places(table)}) AS p WHERE files = {int(key[0])} AND {str(behind).lower()}", ()


def _places(table: Table) -> str:
    """Return a query with one row: (files, pages of the largest file, rows of a page).

    The files are those that the snapshot shows. Their size is the current one, so no row is missed.
    """
    name = f"{quote_text(quote_table(table.id))}::pg_catalog.regclass"
    return (
        "SELECT pg_catalog.hashtextextended(pg_catalog.string_agg(c.relfilenode::text, ',' ORDER BY c.oid), 0) AS files, "
        "max(pg_catalog.pg_relation_size(c.oid) / pg_catalog.current_setting('block_size')::bigint) AS pages, "
        f"coalesce(nullif(sum(greatest(c.reltuples, 0))::float8 / nullif(max(c.relpages), 0)::float8, 0::float8), {_ROWS_OF_PAGE}) AS rows_of_page "
        f"FROM pg_catalog.pg_class c WHERE c.relkind = 'r' AND (c.oid = {name}::pg_catalog.oid "
        f"OR c.oid IN (SELECT relid::pg_catalog.oid FROM pg_catalog.pg_partition_tree({name})))"
    )
