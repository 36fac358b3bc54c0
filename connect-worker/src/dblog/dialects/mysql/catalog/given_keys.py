"""A check that values given by a user can be values of a table's key.

The server would convert a wrong value instead of refusing it: a text for a numeric column becomes 0
and finds another row. So each value is checked here by the table's current definition. The server
is asked about the rest, such as a time that a time zone skips (``probes``).
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from dblog.core.table_dump import Key
from dblog.dialects.mysql.catalog import sql
from dblog.errors import DefiniteError
from dblog.model import Column, Table

KEYS_AT_ONCE = 200
"""The number of keys in one probe."""

_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "integer": 32, "bigint": 64}
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_YEARS = range(1901, 2156)
"""The valid years besides 0. A two-digit year would mean another one."""

_DECIMAL_DIGITS_MAX = 65
_DATE = r"\d{4}-(0\d|1[0-2])-([0-2]\d|3[01])"
_CLOCK = r"[0-5]\d:[0-5]\d(\.\d{1,6})?"
_TIME_MAX = dt.timedelta(hours=839)
_TEXTS = {
    "date": re.compile(_DATE, re.ASCII),
    "datetime": re.compile(rf"{_DATE}([ T]([01]\d|2[0-3]):{_CLOCK})?", re.ASCII),
    "time": re.compile(rf"-?([0-7]?\d\d|8[0-2]\d|83[0-8]):{_CLOCK}", re.ASCII),
}
"""Dates and times as the server prints them. It also stores zeros, and days that a month does not
have.
"""


def check(table: Table, keys: Sequence[Key]) -> None:
    """Raise DefiniteError for the first wrong key. The message gives the key's number, never its
    values.
    """
    if not table.key:
        message = f"{table.id} has no key that its rows could be asked for by; use a predicate"
        raise DefiniteError(message)
    by_name = {column.name.lower(): column for column in table.columns}
    columns = [by_name[name.lower()] for name in table.key]
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
    """Yield statements that the server refuses if it rejects one of the keys, each with the numbers
    of its keys as text. They read no column of a row.
    """
    for begin in range(0, len(keys), KEYS_AT_ONCE):
        part = keys[begin : begin + KEYS_AT_ONCE]
        numbers = f"key {begin + 1}" if len(part) == 1 else f"one of the keys {begin + 1} to {begin + len(part)}"
        yield numbers, sql.any_by_key(table, part)


def _wanted(column: Column, value: object) -> str | None:
    """Return a description of the values that the column accepts; None if this value fits."""
    if column.type in _BITS or column.type in ("year", "bit"):
        return _whole_wanted(column, value)
    if column.type in ("decimal", "numeric"):
        return _decimal_wanted(column, value)
    if column.type in ("float", "double", "real"):
        fits = (type(value) is float and math.isfinite(value)) or (type(value) is int and -(1 << 63) <= value < 1 << 64)
        return None if fits else "a number"
    if column.type in ("date", "datetime", "timestamp", "time"):
        return _time_wanted(column, value)
    if column.type in _BYTES:
        return None if isinstance(value, bytes) else '{"bytes": "<base64>"}'
    if column.type == "enum":
        return None if isinstance(value, str) and (value == "" or value in column.members) else "one of its members, as it is written there"
    if column.type == "set":
        fits = isinstance(value, str) and (value == "" or set(value.split(",")) <= set(column.members))
        return None if fits else "members of its, as they are written there, with commas between them"
    return None if isinstance(value, str | bytes) else "a text"


def _whole_wanted(column: Column, value: object) -> str | None:
    if column.type == "year":
        return None if type(value) is int and (value == 0 or value in _YEARS) else "a year of four digits"
    bits = column.length or 1 if column.type == "bit" else _BITS[column.type]
    unsigned = column.unsigned or column.type == "bit"
    least, most = (0, (1 << bits) - 1) if unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return None if type(value) is int and least <= value <= most else f"a whole number from {least} to {most}"


def _decimal_wanted(column: Column, value: object) -> str | None:
    precision, scale = column.length or 10, column.scale or 0
    wanted = (
        f'a whole number or {{"decimal": "1.50"}}, with at most {precision - scale} digits before the decimal point and {scale} after it'
    )
    if type(value) is int:
        return None if abs(value) < 10 ** (precision - scale) else wanted
    if not isinstance(value, Decimal) or not value.is_finite():
        return wanted
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "it is finite"
    if exponent < -_DECIMAL_DIGITS_MAX or len(digits) + exponent > _DECIMAL_DIGITS_MAX:
        return wanted
    behind = -exponent if value else 0
    while behind > scale and digits and digits[-1] == 0:
        digits, behind = digits[:-1], behind - 1
    return None if behind <= scale and (not value or value.adjusted() < precision - scale) else wanted


def _time_wanted(column: Column, value: object) -> str | None:
    if column.type == "time":
        fits = abs(value) < _TIME_MAX if isinstance(value, dt.timedelta) else _is_printed("time", value)
        return None if fits else "a time as the server prints it, such as 08:30:00"
    if column.type == "date":
        fits = type(value) is dt.date or _is_printed("date", value)
        return None if fits else "a date as the server prints it, such as 2026-01-31"
    fits = (isinstance(value, dt.date) and getattr(value, "tzinfo", None) is None) or _is_printed("datetime", value)
    return None if fits else "a date and time as the server prints them, such as 2026-01-31 08:30:00"


def _is_printed(kind: str, value: object) -> bool:
    return isinstance(value, str) and _TEXTS[kind].fullmatch(value) is not None
