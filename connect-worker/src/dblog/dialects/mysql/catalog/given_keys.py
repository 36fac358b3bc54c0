"""Whether values that a person gives are values of a table's key.

The server would rather convert than refuse: a text for a number column is 0, and asks for another row. So the forms are looked at here.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal

from dblog.core.dumps import Key
from dblog.dialects.mysql.catalog import sql
from dblog.errors import DefiniteError
from dblog.model import Column, Table

_WHOLE = frozenset({"tinyint", "smallint", "mediumint", "int", "integer", "bigint", "year", "bit"})
_TIMES = frozenset({"date", "datetime", "timestamp", "time"})
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})


def check(table: Table, keys: Sequence[Key]) -> None:
    """DefiniteError that names the first key at fault by its number, never its values."""
    by_name = {column.name.lower(): column for column in table.columns}
    columns = [by_name[name.lower()] for name in table.key]
    for number, key in enumerate(keys, 1):
        if len(key) != len(columns):
            message = f"key {number} has {len(key)} values, and the key of {table.id} has {len(columns)} columns: {', '.join(table.key)}"
            raise DefiniteError(message)
        for column, value in zip(columns, key, strict=True):
            if (wanted := _wanted(column, value)) is not None:
                message = (
                    f"key {number} has a value for {table.id}.{column.name} that is none of its type ({column.type_text}); give {wanted}"
                )
                raise DefiniteError(message)
    sql.rows_by_key(table, keys[:1])  # raises where an ENUM or SET lacks the member


def _wanted(column: Column, value: object) -> str | None:
    """What is wanted instead of a value that the column cannot have; None where it fits."""
    if column.type in _WHOLE:
        return None if type(value) is int else "a whole number"
    if column.type in ("decimal", "numeric"):
        return None if type(value) is int or isinstance(value, Decimal) else 'a whole number or {"decimal": "1.50"}'
    if column.type in ("float", "double", "real"):
        return None if type(value) in (int, float) else "a number"
    if column.type in _TIMES:
        return None if isinstance(value, str | dt.date | dt.timedelta) else "a text as the server prints it"
    if column.type in _BYTES:
        return None if isinstance(value, bytes) else '{"bytes": "<base64>"}'
    return None if isinstance(value, str | bytes) else "a text"
