"""Reads a PostgreSQL table for the comparison by plain SELECT: its columns, its key, every row.

Values for which the driver has its own objects, or no type, are selected as the server's text.
"""

from __future__ import annotations

from collections.abc import Iterator

from demo.canonical import SourceColumn
from demo.connection import PostgresConnect

FETCH_ROWS = 2_000
_AS = {"json": "text", "jsonb": "text", "int4range": "text", "point": "text", "money": "numeric"}

_COLUMNS = """
    SELECT column_name, CASE WHEN t.typtype = 'e' THEN 'enum' ELSE udt_name END, format_type(t.oid, NULL), coalesce(datetime_precision, 6)
    FROM information_schema.columns JOIN pg_type t ON t.typname = udt_name AND t.typnamespace = udt_schema::regnamespace
    WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"""
_KEY = """
    SELECT a.attname FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(number, at), pg_attribute a
    WHERE i.indrelid = format('%%I.%%I', %s, %s)::regclass AND i.indisprimary AND a.attrelid = i.indrelid AND a.attnum = k.number
    ORDER BY k.at"""


def describe(connect: PostgresConnect, schema: str, table: str) -> tuple[tuple[SourceColumn, ...], tuple[str, ...]]:
    """Return the columns in order, and the primary key's columns in key order."""
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute(_COLUMNS, (schema, table))
        columns = tuple(SourceColumn(name, kind, text, digits) for name, kind, text, digits in cursor.fetchall())
        cursor.execute(_KEY, (schema, table))
        return columns, tuple(name for (name,) in cursor.fetchall())


def read_rows(connect: PostgresConnect, schema: str, table: str, columns: tuple[SourceColumn, ...]) -> Iterator[tuple[object, ...]]:
    """Yield every row in the order of ``columns``, streamed."""
    names = ", ".join(f'"{column.name}"::{_AS[column.type]}' if column.type in _AS else f'"{column.name}"' for column in columns)
    with connect() as connection:
        with connection.cursor() as cursor:
            cursor.execute("SET timezone TO 'UTC'")
        # A named cursor keeps its result on the server.
        with connection.cursor("rows") as cursor:
            cursor.itersize = FETCH_ROWS
            cursor.execute(f"SELECT {names} FROM {schema}.{table}")
            yield from cursor
