"""Builds every statement about rows of tables.

Values are quoted in the text, because COPY takes no parameters. In place of parameters, a statement
tells for each key column if its values are whole numbers, which the lines of COPY do not show.

Source of the rules: PostgreSQL manual, 4.1 "Lexical Structure", 9.24.5 "Row Constructor
Comparison". Sessions run with standard_conforming_strings=on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from dblog.dialects.postgres.catalog.types import EXTENSIONS
from dblog.errors import DefiniteError, UnknownKeyError
from dblog.model import Column, Table, TableId

Statement = tuple[str, tuple[bool, ...]]
"""Text of a statement, and for each key column True if its values are whole numbers."""

_NAMED_TYPE = re.compile(r'("(?:[^"]|"")+"|[a-z_][a-z0-9_$]*)\.([a-z0-9_]+)(?:\(.*\))?', re.DOTALL)
"""Pattern of an extension's type as format_type() shows it with an empty search path."""

_WHOLE = frozenset({"int2", "int4", "int8", "oid"})


def quote(identifier: str) -> str:
    """Return an identifier in quotes, which any name needs to be safe."""
    return '"' + identifier.replace('"', '""') + '"'


def quote_table(table: TableId) -> str:
    """Return a table's full name, quoted."""
    return f"{quote(table.database)}.{quote(table.name)}"


def rows_of(table: Table) -> str:
    """Return the part of a SELECT after FROM for a table's rows. Tables that inherit from it are
    left out, since the log has their changes under their own names.
    """
    return quote_table(table.id) if table.partitioned else f"ONLY {quote_table(table.id)}"


def quote_text(text: str) -> str:
    """Return a text as a literal. Raise DefiniteError for a zero byte, which no value can
    contain.
    """
    if "\0" in text:
        message = "a text with a zero byte is not a value of PostgreSQL"
        raise DefiniteError(message)
    return "'" + text.replace("'", "''") + "'"


def parse_table_name(text: str) -> TableId:
    """Return the table that an option names as ``schema.table``. Raise DefiniteError for any other
    text.
    """
    schema, dot, name = text.partition(".")
    if not dot or not schema or not name:
        message = f"'{text}' is not a table name; write it as schema.table"
        raise DefiniteError(message)
    return TableId(schema, name)


def key_indexes(table: Table) -> tuple[int, ...]:
    """Return the indexes of the key columns in the select list, in key order."""
    index_of = {column.name: at for at, column in enumerate(table.columns)}
    return tuple(index_of[name] for name in table.key)


def whole_numbers(table: Table) -> tuple[bool, ...]:
    """Return for each key column True if its values are whole numbers. Bounds hold those as
    integers, and all others as texts that the server prints and reads.
    """
    return tuple(table.columns[at].type in _WHOLE for at in key_indexes(table))


def select_list(table: Table) -> str:
    """Return all columns in the order of the log, with NULL for each that is not read."""
    return ", ".join("NULL" if column.unread else quote(column.name) for column in table.columns)


def chunk_select(
    table: Table, after: Sequence[Any] | None, upto: Sequence[Any] | None, rows_max: int, *, where: str | None = None
) -> Statement:
    """Return the statement for the first ``rows_max`` rows of the range (after, upto] in key order.
    None leaves the range open on that side. The table must have a key.

    ``where``, here and below, limits the rows by a condition. It must have been checked
    (``conditions.py``).
    """
    return _chunk(table, select_list(table), after, upto, rows_max, where)


def _chunk(
    table: Table, wanted: str, after: Sequence[Any] | None, upto: Sequence[Any] | None, rows_max: int, only: str | None, more: str = ""
) -> Statement:
    conditions = [_compared(table, operator, bound) for bound, operator in ((after, ">"), (upto, "<=")) if bound is not None]
    conditions += [] if only is None else [bracketed(only)]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {wanted} FROM {rows_of(table)}{where} ORDER BY {_key_list(table)} LIMIT {int(rows_max)}{more}", whole_numbers(table)


def rows_by_key(table: Table, keys: Sequence[Sequence[Any]]) -> Statement:
    """Return the statement for the existing rows with these keys, in key order."""
    return _by_key(table, select_list(table), keys), whole_numbers(table)


def columns_by_key(table: Table, columns: Sequence[Column], keys: Sequence[Sequence[Any]]) -> str:
    """Return the statement for the key's columns and these columns, for the existing rows with
    these keys, in key order.
    """
    return _by_key(table, f"{_key_list(table)}, {', '.join(quote(column.name) for column in columns)}", keys)


def any_by_key(table: Table, keys: Sequence[Sequence[Any]]) -> Statement:
    """Return a statement that compares keys like ``rows_by_key`` but shows no values of the
    rows.
    """
    return _by_key(table, "1", keys), whole_numbers(table)


def _by_key(table: Table, wanted: str, keys: Sequence[Sequence[Any]]) -> str:
    rungs = " OR ".join(_compared(table, "=", key) for key in keys)
    return f"SELECT {wanted} FROM {rows_of(table)} WHERE {rungs} ORDER BY {_key_list(table)}"


def max_key(table: Table, *, where: str | None = None) -> Statement:
    """Return the statement for the greatest key, with the key's columns only. It has no row if the
    table is empty.
    """
    order = ", ".join(f"{quote(name)} DESC" for name in table.key)
    return f"SELECT {_key_list(table)} FROM {rows_of(table)}{_only(where)} ORDER BY {order} LIMIT 1", whole_numbers(table)


def exact_key(table: Table, shown: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return the key that a row shows, as a bound, or None if columns are missing. The server's
    texts show the whole key.
    """
    return tuple(value if isinstance(value, int | str | bytes) else str(value) for value in shown) if len(shown) == len(table.key) else None


def last_key(
    table: Table, after: Sequence[Any] | None, upto: Sequence[Any] | None, row_count: int, *, where: str | None = None
) -> Statement:
    """Return the statement for the key of the last of the next ``row_count`` rows, with the key's
    columns only.
    """
    return _chunk(table, _key_list(table), after, upto, 1, where, f" OFFSET {int(row_count) - 1}")


def key_lookup(table: Table, key: Sequence[Any], after: Sequence[Any] | None, *, where: str | None = None) -> Statement:
    """Return a statement with one row if the table has this key and it is greater than
    ``after``.
    """
    conditions = [_compared(table, "=", key)]
    conditions += [] if after is None else [_compared(table, ">", after)]
    conditions += [] if where is None else [bracketed(where)]
    return f"SELECT 1 FROM {rows_of(table)} WHERE {' AND '.join(conditions)} LIMIT 2", whole_numbers(table)


def full_scan(table: Table, rows_max: int, *, where: str | None = None) -> Statement:
    """Return the statement for all rows of a table without a key, for one window. Ask for one row
    more than the window may hold: if that row comes, the table is too large for a dump.
    """
    return f"SELECT {select_list(table)} FROM {rows_of(table)}{_only(where)} LIMIT {int(rows_max)}", ()


def copy_out(statement: str) -> str:
    """Return the statement that outputs the rows of another one as lines."""
    return f"COPY ({statement}) TO STDOUT"


def probe(table: Table) -> str:
    """Return a statement that fails if privileges, the table or a column are missing. It reads no
    row. For a table without a key it names ctid too, because chunks need it, and ctid needs a
    privilege like any column.
    """
    wanted = select_list(table) or "1"
    return f"SELECT {wanted if table.key else f'{wanted}, ctid'} FROM {rows_of(table)} LIMIT 0"


_LOOKED_AT_PAGES = 64


def written_by(table: Table, transaction: str) -> str:
    """Return a statement with a row if this transaction wrote one of the table's first rows."""
    return f"SELECT 1 FROM {rows_of(table)} WHERE ctid < '({_LOOKED_AT_PAGES},0)'::pg_catalog.tid AND xmin::text = {quote_text(transaction)} LIMIT 1"


def grant_select(table: TableId, user: str) -> str:
    """Return the statements that let the user read one table."""
    return grant_selects([table], user)


def grant_selects(tables: Sequence[TableId], user: str, columns: Mapping[TableId, Sequence[str]] = MappingProxyType({})) -> str:
    """Return the statements that let the user read these tables, with each schema named once.
    ``columns`` has the tables for which some columns suffice.
    """
    schemas = ", ".join(quote(schema) for schema in dict.fromkeys(table.database for table in tables))
    whole = ", ".join(quote_table(table) for table in tables if table not in columns)
    grants = [f"GRANT SELECT ON {whole} TO {quote(user)};"] if whole else []
    grants += [
        f"GRANT SELECT ({', '.join(map(quote, columns[table]))}) ON {quote_table(table)} TO {quote(user)};"
        for table in tables
        if table in columns
    ]
    return f"GRANT USAGE ON SCHEMA {schemas} TO {quote(user)}; {' '.join(grants)}"


def read_columns(table: Table) -> tuple[str, ...] | None:
    """Return the columns that the account must be able to read; None if it needs the whole
    table.
    """
    if not any(column.unread for column in table.columns):
        return None
    named = tuple(column.name for column in table.columns if not column.unread)
    return named if table.key else (*named, "ctid")


# ---- parts of statements


def _key_list(table: Table) -> str:
    if not table.key:
        message = f"{table.id} has no key to read it by"
        raise AssertionError(message)
    return ", ".join(quote(name) for name in table.key)


def _compared(table: Table, operator: str, bound: Sequence[Any]) -> str:
    columns = [table.columns[at] for at in key_indexes(table)]
    if len(bound) != len(columns):
        message = f"a key of {table.id} has {len(columns)} values ({', '.join(table.key)}), not {len(bound)}"
        raise UnknownKeyError(message)
    values = ", ".join(literal(column, value) for column, value in zip(columns, bound, strict=True))
    return f"({_key_list(table)}) {_qualified(operator, columns)} ({values})"


def _qualified(operator: str, columns: Sequence[Column]) -> str:
    """Return the operator qualified with the schema of the columns' own operators, so that an
    operator of that name in another schema plays no part.

    Columns whose operators are in several schemas, or in an unknown one, leave the choice to the
    session's search path (``wire.search_path``).
    """
    schemas = {_operator_schema(column) for column in columns}
    (schema,) = schemas if len(schemas) == 1 else (None,)
    return operator if schema is None else f"OPERATOR({schema}.{operator})"


def _operator_schema(column: Column) -> str | None:
    """Return the quoted schema of the operators of the column's type; None if it is unknown. It is
    an extension's own schema, or the server's, whose operators also serve arrays, enums and
    composites.
    """
    if column.type in EXTENSIONS:
        found = _NAMED_TYPE.fullmatch(column.type_text)
        # For a domain this finds no schema: its text does not show the schema of its type.
        return found[1] if found is not None and found[2] == column.type else None
    if not column.type.startswith("_") and ("." in column.type or " " in column.type):
        return None
    return "pg_catalog"


def literal(column: Column, value: Any) -> str:
    """Return a value of a column as a literal with a cast. A value given as bytes is a text that is
    not UTF-8.

    The cast is to the type without its modifier: a cast to varchar(3) would cut a longer text and
    find a wrong row.
    """
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    return f"{quote_text(text)}::{type_name(column)}"


def type_name(column: Column) -> str:
    """Return the name of a column's type in a statement, without its modifier."""
    name = column.type.removeprefix("_")
    if name in ("enum", "composite") or name in EXTENSIONS or "." in name or " " in name:
        return column.type_text
    return f"pg_catalog.{quote(column.type)}"


def _only(where: str | None) -> str:
    return "" if where is None else f" WHERE {bracketed(where)}"


def bracketed(where: str) -> str:
    """Return the condition between brackets on separate lines, so that a comment at its end cannot
    hide the bracket.
    """
    return f"(\n{where}\n)"
