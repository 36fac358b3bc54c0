"""Describes a column's type as Debezium's metadata does: name, length and scale.

``column.propagate.source.type`` puts them into records, and they decide the effect of a mask, a
hash or a truncation. Debezium takes them from PostgreSQL's JDBC driver (TypeInfoCache:
getPrecision, getScale, getDisplaySize) when a Relation message arrives (ColumnMetaData). Its
initial snapshot has other values for ``serial`` types and for numeric without a precision; here the
stream's values are used.
"""

from __future__ import annotations

import re

from dblog.model import Column

UNLIMITED = (1 << 31) - 1
"""Length that the driver reports for a type without one."""

_LONG_NAMES = {
    "bigint": "int8",
    "bit varying": "varbit",
    "boolean": "bool",
    "character": "bpchar",
    "character varying": "varchar",
    "double precision": "float8",
    "integer": "int4",
    "real": "float4",
    "smallint": "int2",
    "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamptz",
    "time without time zone": "time",
    "time with time zone": "timetz",
}
"""Names of types in pg_type by format_type()'s spellings."""

_MODIFIER = re.compile(r"\([^()\"]*\)")
_LAST_NAME = re.compile(r'(?:.*\.)?(?:"((?:[^"]|"")+)"|([^."]+))', re.DOTALL)
_FIXED_LENGTHS = {"int2": 5, "int4": 10, "oid": 10, "int8": 19, "float4": 8, "float8": 17, "bool": 1, "char": 1, "date": 13, "interval": 49}
_CLOCK_LENGTHS = {"time": 8, "timetz": 14, "timestamp": 22, "timestamptz": 28}
_NUMERIC_LENGTH = 131_089
_MICROS = 6


def declared_type(column: Column) -> str:
    """Return the declared type's name in pg_type, without its schema. A domain keeps its own name;
    an array begins with ``_``, as ``_int4``.
    """
    text = column.type_text
    name, dimensions = (text.removesuffix("[]"), "_") if text.endswith("[]") else (text, "")
    name = _MODIFIER.sub("", name).strip()
    if name.startswith("interval "):  # interval day to second
        return f"{dimensions}interval"
    if name in _LONG_NAMES:
        return dimensions + _LONG_NAMES[name]
    found = _LAST_NAME.fullmatch(name)
    if found is None:
        return dimensions + name
    return dimensions + (found[2] or found[1].replace('""', '"'))


def declared_length(column: Column) -> int:
    """Return the number of characters or bits, a numeric's precision, or the width of the type's
    longest text. Return ``UNLIMITED`` if there is no limit.
    """
    name = column.type.removeprefix("_")
    if name in _FIXED_LENGTHS:
        return _FIXED_LENGTHS[name]
    if name in _CLOCK_LENGTHS:
        digits = _MICROS if column.length is None else column.length
        # With one fraction digit the driver counts a digit too many.
        return _CLOCK_LENGTHS[name] + (0 if digits == 0 else max(digits, 2) + 1)
    if name == "numeric":
        return _NUMERIC_LENGTH if column.length is None else column.length
    if name in ("varchar", "bpchar", "bit", "varbit") and column.length is not None:
        return column.length
    return UNLIMITED


def declared_scale(column: Column) -> int:
    """Return the number of fraction digits of a numeric or a time; for floats, the number that the
    driver reports.
    """
    name = column.type.removeprefix("_")
    if name in ("float4", "float8"):
        return _FIXED_LENGTHS[name]
    if name in _CLOCK_LENGTHS or name == "interval":
        return _MICROS if column.length is None else column.length
    return column.scale or 0
