"""The choice of the columns that identify a row: the primary key, else the first unique index with
only NOT NULL columns, else none.

"First" refers to the server's order of a table's indexes, not to that of the statement.
sql_table.cc sorts primary, unique without NULL columns, unique without prefixes, other unique, the
rest. The table map's SIMPLE_PRIMARY_KEY follows the same order (the server promotes such a unique
index), and so does SHOW CREATE TABLE, from which Debezium takes its key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dblog.model import Column, Index

PRIMARY = "PRIMARY"


def choose_key(columns: Sequence[Column], indexes: Iterable[Index]) -> tuple[tuple[str, ...], bool]:
    """Return the key columns in key order, and whether they are the real primary key."""
    nullable = {column.name.lower() for column in columns if column.nullable}
    for index in server_order(indexes, nullable):
        if index.name == PRIMARY:
            return index.columns, True
        if index.unique and not index.functional and not any(name.lower() in nullable for name in index.columns):
            return index.columns, False
    return (), False


def server_order(indexes: Iterable[Index], nullable: set[str]) -> list[Index]:
    """Sort as the server does when it creates or alters a table. ``nullable`` has column names in
    lower case. Stable.
    """
    return sorted(indexes, key=lambda index: order_rank(index, nullable))


def order_rank(index: Index, nullable: set[str]) -> tuple[int, int, int]:
    """Return the sort key of an index in the server's order."""
    if index.name == PRIMARY:
        return (0, 0, 0)
    if not index.unique:
        return (2, 0, 0)
    return (1, int(any(name.lower() in nullable for name in index.columns)), int(index.partial))
