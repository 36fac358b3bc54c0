"""A column's type as Debezium's metadata has it: name, length and scale.

They reach records by ``column.propagate.source.type``, and decide what a mask, a hash or a cut does. Debezium takes them from PostgreSQL's JDBC driver
(TypeInfoCache: getPrecision, getScale, getDisplaySize) when a Relation message arrives (ColumnMetaData); its initial snapshot differs in ``serial`` types and
in numeric without a precision, and gives way to the stream's.
"""

from __future__ import annotations

import re

from dblog.model import Column

UNLIMITED = (1 << 31) - 1
"""The driver's length of a type that has none."""

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
"""format_type()'s spellings, and pg_type's."""

_MODIFIER = re.compile(r"\([^()\"]*\)")
_LAST_NAME = re.compile(r'(?:.*\.)?(?:"((?:[^"]|"")+)"|([^."]+))', re.DOTALL)
_FIXED_LENGTHS = {"int2": 5, "int4": 10, "oid": 10, "int8": 19, "float4": 8, "float8": 17, "bool": 1, "char": 1, "date": 13, "interval": 49}
_CLOCK_LENGTHS = {"time": 8, "timetz": 14, "timestamp": 22, "timestamptz": 28}
_NUMERIC_LENGTH = 131_089
_MICROS = 6


def declared_type(column: Column) -> str:
    """The declared type's name in pg_type, without its schema: a domain's own name, ``_int4`` for an array."""
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
    """Characters, bits, a numeric's precision, or the width of the type's longest text; ``UNLIMITED`` where there is no limit."""
    name = column.type.removeprefix("_")
    if name in _FIXED_LENGTHS:
        return _FIXED_LENGTHS[name]
    if name in _CLOCK_LENGTHS:
        digits = _MICROS if column.length is None else column.length
        # The driver counts a digit too many for one fraction digit.
        return _CLOCK_LENGTHS[name] + (0 if digits == 0 else max(digits, 2) + 1)
    if name == "numeric":
        return _NUMERIC_LENGTH if column.length is None else column.length
    if name in ("varchar", "bpchar", "bit", "varbit") and column.length is not None:
        return column.length
    return UNLIMITED


def declared_scale(column: Column) -> int:
    """Fraction digits: of a numeric, a time, or as many as the driver gives floats."""
    name = column.type.removeprefix("_")
    if name in ("float4", "float8"):
        return _FIXED_LENGTHS[name]
    if name in _CLOCK_LENGTHS or name == "interval":
        return _MICROS if column.length is None else column.length
    return column.scale or 0
