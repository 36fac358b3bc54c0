"""Converts cells of both ends to comparable Python values, by the type of the source column.

The rules reverse Debezium's type mapping (section "Data types" of its connectors' documentation): a
MicroTime number, a ``TIMESTAMP`` text and a Spark timestamp all become microseconds, and a
little-endian BIT array becomes a number. A lake value that the type cannot have becomes
``Unreadable``, which equals nothing, so it counts as a difference.
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
"""Greatest p for which DATETIME(p) is transferred as milliseconds; above it come microseconds."""


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of the source, as in information_schema.COLUMNS.

    For PostgreSQL ``type`` is pg_type's name.
    """

    name: str
    type: str
    type_text: str
    fraction_digits: int = 0


@dataclass(eq=False, frozen=True, slots=True)
class Unreadable:
    """A value that the column's type cannot have. It equals nothing, not even itself."""

    kind: str


def of_source(column: SourceColumn) -> Reader | None:
    """Return a function that converts the driver's value, or None if it needs no conversion."""
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
    """Return the function that converts the Delta table's value, or None if none is necessary."""
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
    """Return the nearest 32-bit float.

    The source is asked for the exact value (``source.py``), so both ends agree to the bit.
    """
    return FLOAT32.unpack(FLOAT32.pack(value))[0] if isinstance(value, float) else _unreadable(value)


def _float64(value: object) -> object:
    return value if isinstance(value, float) else _unreadable(value)


def _boolean(value: object) -> object:
    return value if isinstance(value, bool) else _unreadable(value)


def _big_endian(value: object) -> object:
    """Return the bits as a number, from MySQL's bytes or PostgreSQL's digits.

    An empty BIT VARYING has no digits and gives 0.
    """
    if isinstance(value, str):
        return int(value or "0", 2)
    return int.from_bytes(value, "big") if isinstance(value, bytes) else _unreadable(value)


def _little_endian(value: object) -> object:
    """Return the bits as a number, from a boolean for BIT(1) or else a little-endian array.

    The record's type is io.debezium.data.Bits.
    """
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
    """Return the microseconds of a TIME, which is a duration from -838:59:59 to 838:59:59."""
    if isinstance(value, dt.timedelta):
        return value // MICROSECOND
    if isinstance(value, dt.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    return value if type(value) is int else _unreadable(value)


def _instant_us(value: object) -> object:
    """Return the microseconds since 1970.

    A DATETIME has no zone and is read as UTC (Debezium's rule).
    """
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
    """Return a point as ``(x,y)``, from the server's text or the record's struct.

    The struct is io.debezium.data.geometry.Point.
    """
    if isinstance(value, Mapping):
        return f"({value.get('x')!r},{value.get('y')!r})"
    if not isinstance(value, str):
        return _unreadable(value)
    return f"({','.join(repr(float(part)) for part in value.strip('()').split(','))})"


def _list(value: object) -> object:
    """Return the list as text, because keys of compared rows must be hashable."""
    return json.dumps(value) if isinstance(value, list) else _unreadable(value)


def _json_text(value: object) -> object:
    """Return a JSON document in one spelling.

    The log and a SELECT of MySQL differ in spaces and key order.
    """
    if not isinstance(value, str):
        return _unreadable(value)
    try:
        return json.dumps(json.loads(value), sort_keys=True)
    except ValueError:
        return _unreadable(value)
