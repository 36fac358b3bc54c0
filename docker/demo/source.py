"""Reads a source table for the comparison by plain SELECT: its columns, its key, every row.

FLOAT is selected as a double, because the server's text of a FLOAT has six digits, fewer than
stored. The session's time zone is UTC, so TIMESTAMP is the instant in the log. PostgreSQL is read
in ``postgres/source.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pymysql.cursors

from demo.canonical import SourceColumn
from demo.connection import Connect, PostgresConnect
from demo.postgres import source as postgres

FETCH_ROWS = 2_000


@dataclass(frozen=True, slots=True)
class SourceTable:
    """The columns and the key of a table, for the comparison."""

    columns: tuple[SourceColumn, ...]
    key: tuple[str, ...]


def describe(connect: Connect, database: str, table: str) -> SourceTable:
    """Return the columns in order, and the primary key's columns in key order."""
    if isinstance(connect, PostgresConnect):
        return SourceTable(*postgres.describe(connect, database, table))
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, COALESCE(DATETIME_PRECISION, 0) FROM information_schema.COLUMNS"
            " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
            (database, table),
        )
        columns = tuple(SourceColumn(name, kind.lower(), text, int(digits)) for name, kind, text, digits in cursor.fetchall())
        cursor.execute(
            "SELECT COLUMN_NAME FROM information_schema.KEY_COLUMN_USAGE"
            " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND CONSTRAINT_NAME = 'PRIMARY' ORDER BY ORDINAL_POSITION",
            (database, table),
        )
        return SourceTable(columns, tuple(name for (name,) in cursor.fetchall()))


def read_rows(connect: Connect, database: str, table: str, columns: tuple[SourceColumn, ...]) -> Iterator[tuple[object, ...]]:
    """Yield every row in the order of ``columns``, streamed."""
    if isinstance(connect, PostgresConnect):
        yield from postgres.read_rows(connect, database, table, columns)
        return
    names = ", ".join(f"`{column.name}` + 0e0" if column.type == "float" else f"`{column.name}`" for column in columns)
    with connect() as connection, connection.cursor(pymysql.cursors.SSCursor) as cursor:
        cursor.execute("SET SESSION time_zone = '+00:00'")
        cursor.execute(f"SELECT {names} FROM {database}.{table}")
        while rows := cursor.fetchmany(FETCH_ROWS):
            yield from rows
