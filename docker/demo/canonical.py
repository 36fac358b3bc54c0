"""One comparable Python value for a cell, whichever end it was read from: a source column's type decides how.

The rules are Debezium's type mapping (section "Data types" of its MySQL and MariaDB documentation) read backwards: a MicroTime number, a
``TIMESTAMP`` text or a Spark timestamp all become microseconds, a little-endian BIT array becomes a number. A lake value of a kind that
the type cannot have becomes ``Unreadable``, which equals nothing, so it is counted as a difference and not excused.
"""

from __future__ import annotations

import datetime as dt
import json
import struct
from collections.abc import Callable
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
    """A column of the source as information_schema.COLUMNS describes it."""

    name: str
    type: str
    type_text: str
    fraction_digits: int = 0


@dataclass(eq=False, frozen=True, slots=True)
class Unreadable:
    """A value that the column's type cannot have; equal to nothing, not even to itself."""

    kind: str


def of_source(column: SourceColumn) -> Reader | None:
    """How a value that PyMySQL selected becomes canonical; None when it already is."""
    if column.type == "date":
        return _nullable(_days)
    if column.type == "time":
        return _nullable(_duration_us)
    if column.type in {"datetime", "timestamp"}:
        return _nullable(_instant_us)
    if column.type == "bit":
        return _nullable(_big_endian)
    if column.type == "float":
        return _nullable(_float32)
    if column.type == "json":
        return _nullable(_json_text)
    return None


def of_lake(column: SourceColumn) -> Reader | None:
    """How a value that was read from the Delta table becomes canonical; None when it already is."""
    match column.type:
        case "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "year":
            return _nullable(_integer)
        case "decimal":
            return _nullable(_decimal)
        case "float":
            return _nullable(_float32)
        case "double":
            return _nullable(_float64)
        case "bit":
            return _nullable(_little_endian)
        case "date":
            return _nullable(_days)
        case "time":
            return _nullable(_duration_us)
        case "datetime":
            scale = 1000 if column.fraction_digits <= MILLISECONDS_DIGITS_MAX else 1
            return _nullable(lambda value: value * scale if type(value) is int else _instant_us(value))
        case "timestamp":
            return _nullable(_instant_us)
        case "json":
            return _nullable(_json_text)
        case "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob":
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


def _big_endian(value: object) -> object:
    return int.from_bytes(value, "big") if isinstance(value, bytes) else _unreadable(value)


def _little_endian(value: object) -> object:
    """BIT(1) is a boolean, BIT(n) a little-endian array (io.debezium.data.Bits)."""
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


def _json_text(value: object) -> object:
    """JSON documents are equal when their values are: the log and a SELECT of MySQL differ in spaces and key order."""
    if not isinstance(value, str):
        return _unreadable(value)
    try:
        return json.dumps(json.loads(value), sort_keys=True)
    except ValueError:
        return _unreadable(value)
