"""Checks that values from a person can be values of a table's key. The server checks the rest
(``probes``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from dblog.core.table_dump import Key
from dblog.dialects.postgres.catalog import sql
from dblog.errors import DefiniteError
from dblog.model import Column, Table

KEYS_AT_ONCE = 200
"""Number of keys in one probe."""

_BITS = {"int2": 16, "int4": 32, "int8": 64}
_OID_MAX = (1 << 32) - 1


def check(table: Table, keys: Sequence[Key]) -> None:
    """Raise DefiniteError that names the first wrong key by its number, never its values."""
    if not table.key:
        message = f"{table.id} has no key that its rows could be asked for by; use a predicate"
        raise DefiniteError(message)
    columns = [table.columns[at] for at in sql.key_indexes(table)]
    for number, key in enumerate(keys, 1):
        if len(key) != len(columns):
            message = f"key {number} has {len(key)} values, and the key of {table.id} has {len(columns)} columns: {', '.join(table.key)}"
            raise DefiniteError(message)
        for column, value in zip(columns, key, strict=True):
            if (wanted := _wanted(column, value)) is not None:
                message = (
                    f"key {number} has a value for {table.id}.{column.name} that does not fit its type ({column.type_text}); give {wanted}"
                )
                raise DefiniteError(message)


def probes(table: Table, keys: Sequence[Key]) -> Iterator[tuple[str, sql.Statement]]:
    """Yield statements that the server refuses if it does not accept one of their keys, each with
    the numbers of its keys as text. They read no column of a row.
    """
    for begin in range(0, len(keys), KEYS_AT_ONCE):
        part = keys[begin : begin + KEYS_AT_ONCE]
        numbers = f"key {begin + 1}" if len(part) == 1 else f"one of the keys {begin + 1} to {begin + len(part)}"
        yield numbers, sql.any_by_key(table, part)


def _wanted(column: Column, value: object) -> str | None:
    """Return a description of the values that the column can have, if ``value`` is not one. Return
    None if it may fit, which the server then decides.
    """
    if column.type in _BITS or column.type == "oid":
        low, high = (0, _OID_MAX) if column.type == "oid" else (-(1 << _BITS[column.type] - 1), (1 << _BITS[column.type] - 1) - 1)
        fits = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return None if fits else f"a whole number from {low} to {high}"
    if column.type == "bool":
        return None if isinstance(value, bool) else "true or false"
    if column.type in ("numeric", "float4", "float8", "money"):
        return None if isinstance(value, int | float | Decimal | str) and not isinstance(value, bool) else "a number"
    return None if isinstance(value, str) and "\0" not in value else "a text"
