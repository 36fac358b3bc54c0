"""One comparable Python value for a cell, whichever end it was read from: a source column's type decides how.

The rules are Debezium's type mapping (section "Data types" of the documentation of its connectors) read backwards: a MicroTime number, a
``TIMESTAMP`` text or a Spark timestamp all become microseconds, a little-endian BIT array becomes a number. A lake value of a kind that
the type cannot have becomes ``Unreadable``, which equals nothing, so it is counted as a difference and not excused.
"""

from __future__ import annotations

import datetime as dt
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

Value = int | float | str | bytes | Decimal | None
Reader = Callable[[object], object]

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
MICROSECOND = dt.timedelta(microseconds=1)
FLOAT32 = struct.Struct("<f")
MILLISECONDS_DIGITS_MAX = 3
"""DATETIME(p) travels as milliseconds up to this p, as microseconds above it."""


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of the source as information_schema.COLUMNS describes it. ``type`` of PostgreSQL is the name that pg_type has."""

    name: str
    type: str
    type_text: str
    fraction_digits: int = 0


@dataclass(eq=False, frozen=True, slots=True)
class Unreadable:
    """A value that the column's type cannot have; equal to nothing, not even to itself."""

    kind: str


def of_source(column: SourceColumn) -> Reader | None:
    """How a value that the driver selected becomes canonical; None when it already is."""
    if column.type == "date":
        return _nullable(_days)
    if column.type in {"time", "interval"}:
        return _nullable(_duration_us)
    if column.type in {"datetime", "timestamp", "timestamptz"}:
        return _nullable(_instant_us)
    if column.type in {"bit", "varbit"}:
        return _nullable(_big_endian)
    if column.type in {"float", "float4"}:
        return _nullable(_float32)
    if column.type in {"json", "jsonb"}:
        return _nullable(_json_text)
    if column.type in {"bytea", "bool", "point"} or column.type.startswith("_"):
        return of_lake(column)
    return None


def of_lake(column: SourceColumn) -> Reader | None:
    """How a value that was read from the Delta table becomes canonical; None when it already is."""
    match column.type:
        case "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "year" | "int2" | "int4" | "int8":
            return _nullable(_integer)
        case "decimal" | "numeric" | "money":
            return _nullable(_decimal)
        case "float" | "float4":
            return _nullable(_float32)
        case "double" | "float8":
            return _nullable(_float64)
        case "bool":
            return _nullable(_boolean)
        case "bit" | "varbit":
            return _nullable(_little_endian)
        case "date":
            return _nullable(_days)
        case "time" | "interval":
            return _nullable(_duration_us)
        case "datetime":
            scale = 1000 if column.fraction_digits <= MILLISECONDS_DIGITS_MAX else 1
            return _nullable(lambda value: value * scale if type(value) is int else _instant_us(value))
        case "timestamp" | "timestamptz":
            return _nullable(_instant_us)
        case "json" | "jsonb":
            return _nullable(_json_text)
        case "point":
            return _nullable(_point)
        case "_int4" | "_text":
            return _nullable(_list)
        case "bytea" | "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob":
            return _nullable(_bytes)
        case _:
            return _nullable(_text)


def _nullable(read: Reader) -> Reader:
    return lambda value: None if value is None else read(value)


def _unreadable(value: object) -> Unreadable:
    return Unreadable(type(value).__name__)


def _integer(value: object) -> object:
    if type(value) is int:
        return value
    if isinstance(value, Decimal) and value == value.to_integral_value():  # BIGINT UNSIGNED as Decimal(20, 0)
        return int(value)
    return _unreadable(value)


def _decimal(value: object) -> object:
    if isinstance(value, Decimal):
        return value
    return Decimal(value) if isinstance(value, str) else _unreadable(value)


def _float32(value: object) -> object:
    """The nearest 32-bit float: the source is asked for the exact value (``source.py``), so both ends agree to the bit."""
    return FLOAT32.unpack(FLOAT32.pack(value))[0] if isinstance(value, float) else _unreadable(value)


def _float64(value: object) -> object:
    return value if isinstance(value, float) else _unreadable(value)


def _boolean(value: object) -> object:
    return value if isinstance(value, bool) else _unreadable(value)


def _big_endian(value: object) -> object:
    """A number for the bits: MySQL's bytes, or PostgreSQL's digits, which are none for an empty one of BIT VARYING."""
    if isinstance(value, str):
        return int(value or "0", 2)
    return int.from_bytes(value, "big") if isinstance(value, bytes) else _unreadable(value)


def _little_endian(value: object) -> object:
    """BIT(1) is a boolean, others a little-endian array (io.debezium.data.Bits)."""
    if isinstance(value, bool):
        return int(value)
    return int.from_bytes(value, "little") if isinstance(value, bytes) else _unreadable(value)


def _bytes(value: object) -> object:
    return bytes(value) if isinstance(value, (bytes, bytearray, memoryview)) else _unreadable(value)


def _text(value: object) -> object:
    return value if isinstance(value, str) else _unreadable(value)


def _days(value: object) -> object:
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value.toordinal() - EPOCH_DAY
    return value if type(value) is int else _unreadable(value)


def _duration_us(value: object) -> object:
    """Microseconds of a TIME, which runs from -838:59:59 to 838:59:59 and is no time of day."""
    if isinstance(value, dt.timedelta):
        return value // MICROSECOND
    if isinstance(value, dt.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    return value if type(value) is int else _unreadable(value)


def _instant_us(value: object) -> object:
    """Microseconds since 1970; a DATETIME has no zone and is read as if it were UTC (Debezium's rule)."""
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value)
        except ValueError:
            return _unreadable(value)
    if not isinstance(value, dt.datetime):
        return _unreadable(value)
    aware = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
    return (aware - EPOCH) // MICROSECOND


def _point(value: object) -> object:
    """``(x,y)`` as the server prints it, or the struct that the record has (io.debezium.data.geometry.Point)."""
    if isinstance(value, Mapping):
        return f"({value.get('x')!r},{value.get('y')!r})"
    if not isinstance(value, str):
        return _unreadable(value)
    return f"({','.join(repr(float(part)) for part in value.strip('()').split(','))})"


def _list(value: object) -> object:
    """The list's text: a key of the comparison's rows must have a hash."""
    return json.dumps(value) if isinstance(value, list) else _unreadable(value)


def _json_text(value: object) -> object:
    """JSON documents are equal when their values are: the log and a SELECT of MySQL differ in spaces and key order."""
    if not isinstance(value, str):
        return _unreadable(value)
    try:
        return json.dumps(json.loads(value), sort_keys=True)
    except ValueError:
        return _unreadable(value)
