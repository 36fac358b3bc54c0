"""Every statement about rows of tables. Values stand in the text, quoted, for COPY takes no parameters; in their place a statement says of each key column
whether its values are whole numbers, which lines of COPY do not show.

Rule source: PostgreSQL manual, 4.1 "Lexical Structure", 9.24.5 "Row Constructor Comparison". Sessions run with standard_conforming_strings=on.
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
"""The text, and of each key column whether it has whole numbers."""

_NAMED_TYPE = re.compile(r'("(?:[^"]|"")+"|[a-z_][a-z0-9_$]*)\.([a-z0-9_]+)(?:\(.*\))?', re.DOTALL)
"""A type of an extension as format_type() shows it where the search path is empty."""

_WHOLE = frozenset({"int2", "int4", "int8", "oid"})


def quote(identifier: str) -> str:
    """An identifier, whatever it is called."""
    return '"' + identifier.replace('"', '""') + '"'


def quote_table(table: TableId) -> str:
    """A table's full name."""
    return f"{quote(table.database)}.{quote(table.name)}"


def rows_of(table: Table) -> str:
    """What a SELECT reads a table's rows from: without those of tables that inherit from it, whose changes the log has under their own names."""
    return quote_table(table.id) if table.partitioned else f"ONLY {quote_table(table.id)}"


def quote_text(text: str) -> str:
    """A text as a literal. DefiniteError for a zero byte, which no value has."""
    if "\0" in text:
        message = "a text with a zero byte is no value of PostgreSQL"
        raise DefiniteError(message)
    return "'" + text.replace("'", "''") + "'"


def parse_table_name(text: str) -> TableId:
    """``schema.table`` of an option; raises DefiniteError."""
    schema, dot, name = text.partition(".")
    if not dot or not schema or not name:
        message = f"'{text}' is not a table name; write it as schema.table"
        raise DefiniteError(message)
    return TableId(schema, name)


def key_indexes(table: Table) -> tuple[int, ...]:
    """Where the key columns stand in the select list, in key order."""
    index_of = {column.name: at for at, column in enumerate(table.columns)}
    return tuple(index_of[name] for name in table.key)


def whole_numbers(table: Table) -> tuple[bool, ...]:
    """Of each key column, whether its values are whole numbers: bounds have them as such, all others as the texts that the server prints, and reads."""
    return tuple(table.columns[at].type in _WHOLE for at in key_indexes(table))


def select_list(table: Table) -> str:
    """All columns, in the order of the log, with NULL for each that is not read."""
    return ", ".join("NULL" if column.unread else quote(column.name) for column in table.columns)


def chunk_select(
    table: Table, after: Sequence[Any] | None, upto: Sequence[Any] | None, rows_max: int, *, where: str | None = None
) -> Statement:
    """The first ``rows_max`` rows of the range (after, upto] in key order. None: open on that side. The table has a key.

    ``where``, here and below: of the rows for which this condition holds. It has been checked (``conditions.py``).
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
    """The rows of these keys in key order, as far as there are any."""
    return _by_key(table, select_list(table), keys), whole_numbers(table)


def columns_by_key(table: Table, columns: Sequence[Column], keys: Sequence[Sequence[Any]]) -> str:
    """The key's columns and these of the rows of these keys in key order, as far as there are any."""
    return _by_key(table, f"{_key_list(table)}, {', '.join(quote(column.name) for column in columns)}", keys)


def any_by_key(table: Table, keys: Sequence[Sequence[Any]]) -> Statement:
    """Compares like ``rows_by_key``, and shows no value of the rows."""
    return _by_key(table, "1", keys), whole_numbers(table)


def _by_key(table: Table, wanted: str, keys: Sequence[Sequence[Any]]) -> str:
    rungs = " OR ".join(_compared(table, "=", key) for key in keys)
    return f"SELECT {wanted} FROM {rows_of(table)} WHERE {rungs} ORDER BY {_key_list(table)}"


def max_key(table: Table, *, where: str | None = None) -> Statement:
    """The greatest key, as the only columns; no row when the table is empty."""
    order = ", ".join(f"{quote(name)} DESC" for name in table.key)
    return f"SELECT {_key_list(table)} FROM {rows_of(table)}{_only(where)} ORDER BY {order} LIMIT 1", whole_numbers(table)


def exact_key(table: Table, shown: Sequence[Any]) -> tuple[Any, ...] | None:
    """The key that a row shows, as a bound: the server's texts show all of it."""
    return tuple(value if isinstance(value, int | str | bytes) else str(value) for value in shown) if len(shown) == len(table.key) else None


def last_key(
    table: Table, after: Sequence[Any] | None, upto: Sequence[Any] | None, row_count: int, *, where: str | None = None
) -> Statement:
    """The key of the last of these rows of a chunk, as the only columns."""
    return _chunk(table, _key_list(table), after, upto, 1, where, f" OFFSET {int(row_count) - 1}")


def key_lookup(table: Table, key: Sequence[Any], after: Sequence[Any] | None, *, where: str | None = None) -> Statement:
    """One row if the table has this key, and it is greater than ``after``."""
    conditions = [_compared(table, "=", key)]
    conditions += [] if after is None else [_compared(table, ">", after)]
    conditions += [] if where is None else [bracketed(where)]
    return f"SELECT 1 FROM {rows_of(table)} WHERE {' AND '.join(conditions)} LIMIT 2", whole_numbers(table)


def full_scan(table: Table, rows_max: int, *, where: str | None = None) -> Statement:
    """The whole of a table without key, for one window. Ask for one row more than the window may hold: if it comes, the table is too large for a dump."""
    return f"SELECT {select_list(table)} FROM {rows_of(table)}{_only(where)} LIMIT {int(rows_max)}", ()


def copy_out(statement: str) -> str:
    """The statement's rows as lines."""
    return f"COPY ({statement}) TO STDOUT"


def probe(table: Table) -> str:
    """A statement that fails for want of privileges, or of the table or a column; it reads no row. Without a key chunks go by the place of rows, which is a
    column to privileges, too.
    """
    wanted = select_list(table) or "1"
    return f"SELECT {wanted if table.key else f'{wanted}, ctid'} FROM {rows_of(table)} LIMIT 0"


_LOOKED_AT_PAGES = 64


def written_by(table: Table, transaction: str) -> str:
    """A statement that gives a row if one of the table's first rows was written by this transaction."""
    return f"SELECT 1 FROM {rows_of(table)} WHERE ctid < '({_LOOKED_AT_PAGES},0)'::pg_catalog.tid AND xmin::text = {quote_text(transaction)} LIMIT 1"


def grant_select(table: TableId, user: str) -> str:
    """Reading one table."""
    return grant_selects([table], user)


def grant_selects(tables: Sequence[TableId], user: str, columns: Mapping[TableId, Sequence[str]] = MappingProxyType({})) -> str:
    """Return the statements that let the user read these tables, each schema named once. ``columns``: of which tables these columns suffice."""
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
    """Return the columns that the account has to be able to read, where these are not all of the table; None where they are."""
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
    """Return the operator with the schema of the columns' own ones, so that one of its name in another schema has no part in the comparison. Columns of several
    schemas, and types whose schema of operators is not known, leave it to the session's search path (``wire.search_path``).
    """
    schemas = {_operator_schema(column) for column in columns}
    (schema,) = schemas if len(schemas) == 1 else (None,)
    return operator if schema is None else f"OPERATOR({schema}.{operator})"


def _operator_schema(column: Column) -> str | None:
    """Return the quoted schema with the operators of the column's type: an extension's own, or the server's, which serve arrays, enums and composites too."""
    if column.type in EXTENSIONS:
        found = _NAMED_TYPE.fullmatch(column.type_text)
        return found[1] if found is not None and found[2] == column.type else None  # a domain does not tell where its type lies
    if not column.type.startswith("_") and ("." in column.type or " " in column.type):
        return None
    return "pg_catalog"


def literal(column: Column, value: Any) -> str:
    """A value of a column. The cast is to the type without its modifier: to varchar(3) it would cut a longer text instead of finding nothing. Bytes are those
    of a text that is no UTF-8.
    """
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    return f"{quote_text(text)}::{type_name(column)}"


def type_name(column: Column) -> str:
    """A column's type in a statement, without its modifier."""
    name = column.type.removeprefix("_")
    if name in ("enum", "composite") or name in EXTENSIONS or "." in name or " " in name:
        return column.type_text
    return f"pg_catalog.{quote(column.type)}"


def _only(where: str | None) -> str:
    return "" if where is None else f" WHERE {bracketed(where)}"


def bracketed(where: str) -> str:
    """On lines of its own: should it end with a comment, the bracket is outside of that."""
    return f"(\n{where}\n)"
