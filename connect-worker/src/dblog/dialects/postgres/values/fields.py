"""Converts the text of one field into one value in Connect's value space.

The texts are the server's, for rows of the log and of chunks alike (``sources.PgSource`` describes
their forms). A compiled reader handles the common ones itself and calls these for the rest; they
are also its reference.
"""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from dblog.codecs.javatext import as_float32
from dblog.codecs.plan import ColumnPlan, Form
from dblog.codecs.schema import Kind
from dblog.dialects.postgres.values import arrays, hstore, intervals, moments, numbers, shapes
from dblog.dialects.postgres.values.inexpressible import InexpressibleError
from dblog.dialects.postgres.values.modes import TypeModes
from dblog.dialects.postgres.values.plans import declared_of
from dblog.dialects.postgres.values.schemas import GEOMETRIC, Typed, decimal_scale, element_type, fraction_digits, typed
from dblog.dialects.postgres.values.sources import PgSource
from dblog.dialects.postgres.values.unavailable import unavailable
from dblog.errors import BadRowsError
from dblog.model import Column

__all__ = ["Read", "reader", "unavailable", "value_reader"]

Read = Callable[[bytes], Any]

_EXACT = Context(prec=100)
"""Context for exact arithmetic: money has at most 19 digits."""


def reader(plan: ColumnPlan, modes: TypeModes, *, where: str | None = None) -> Read:
    """Return a function from the text of a field that is not NULL to its value. The value is None
    if the schema cannot express it and ``plan.unfit`` is ``null``.

    In other cases a value that cannot be expressed raises BadRowsError, and so does a text that is
    not one of the type's. The error names ``where`` (table and column; by default the column).
    Create a reader once for each table version. A plan of a type that is left out has no reader.
    """
    column = declared_of(plan)
    known = typed(column, modes)
    place = f"column {plan.name}" if where is None else where
    assert known is not None, f"{place}: a type that is left out of records"
    read = value_reader(known, column, modes)
    may_be_null = plan.unfit == "null"

    def checked(raw: bytes) -> Any:
        try:
            return read(raw)
        except InexpressibleError as e:
            if may_be_null:
                return None
            raise BadRowsError(f"{place}: {e}") from e
        except (ValueError, ArithmeticError, LookupError):
            # The cause is left out, because its message may quote the value.
            raise BadRowsError(
                f"{place}: the server's text is not one of type {column.type_text or column.type}; the schema is out of sync, or the session's"
                " DateStyle, IntervalStyle or bytea_output is not the one that was set; exclude the column if a restart of the task does not help"
            ) from None

    return checked


def value_reader(known: Typed, column: Column, modes: TypeModes) -> Read:
    """Return a reader like that of ``reader``, without its handling of errors: it raises
    InexpressibleError, ValueError, ArithmeticError and LookupError.
    """
    if known.element is None:
        return _scalar_reader(known, column.type, column, modes)
    element = element_type(column)
    return _array_reader(known.element, _scalar_reader(known.element, element, column, modes), delimiter=_DELIMITERS.get(element, b","))


_DELIMITERS = {"box": b";", "geometry": b":", "geography": b":"}
"""Values of ``typdelim`` other than a comma (pg_type.dat; PostGIS's CREATE TYPE)."""


def _array_reader(element: Typed, read: Read, *, delimiter: bytes) -> Read:
    if element.schema.optional:
        return lambda raw: [None if part is None else read(part) for part in arrays.elements(raw, delimiter)]

    def without_null(raw: bytes) -> list[Any]:
        parts = arrays.elements(raw, delimiter)
        if None in parts:
            raise InexpressibleError(
                "an array with a NULL in it cannot be written, its elements are required in Debezium's schema; exclude the column"
            )
        return [read(part) for part in parts if part is not None]

    return without_null


def _scalar_reader(known: Typed, name: str, column: Column, modes: TypeModes) -> Read:
    match known.form:
        case Form.INT:
            return int
        case Form.BOOLEAN:
            return _bool
        case Form.FLOAT32:
            return lambda raw: as_float32(float(raw))
        case Form.FLOAT64 | Form.DECIMAL_DOUBLE:
            return float
        case Form.TEXT:
            return _text
        case Form.BYTES | Form.BASE64 | Form.BASE64_URL | Form.HEX:
            binary = _BINARY[known.form]
            if known.source is PgSource.BYTEA:
                return lambda raw: binary(_bytea(raw))
            return binary
        case Form.DECIMAL:
            scale = decimal_scale(column)
            return lambda raw: numbers.unscaled_bytes(numbers.unscaled(raw, scale))
        case Form.DECIMAL_TEXT:
            return numbers.plain_text
        case Form.DAYS:
            return moments.date_days
        case Form.ISO_DATE:
            return moments.date_text
        case Form.ISO_TIME if known.source is PgSource.TIMETZ:
            return moments.timetz_text
        case Form.ISO_TIME:
            return lambda raw: moments.time_text(moments.time_micros(raw))
        case Form.ISO_TIMESTAMP:
            return lambda raw: moments.timestamp_text(moments.timestamp_micros(raw), None)
        case Form.ZONED_TIMESTAMP:
            digits = fraction_digits(column)
            return lambda raw: moments.zoned_text(raw, digits)
        case Form.MILLIS | Form.MICROS | Form.NANOS:
            return _COUNTED[known.source, known.form]
        case _:
            return _value_reader(known, name, modes)


def _value_reader(known: Typed, name: str, modes: TypeModes) -> Read:
    """Return the reader for a type whose source is ``PgSource.VALUE``, by its name."""
    if name in GEOMETRIC:
        form = _BINARY_FORMS[modes.binary_handling_mode]
        return lambda raw: _BINARY[form](shapes.with_java_numbers(_text(raw)).encode())
    match name:
        case "numeric":
            return numbers.variable_scale
        case "money":
            return _money_reader(modes)
        case "bit" | "varbit":
            return _bit if known.schema.kind is Kind.BOOLEAN else _bits
        case "interval":
            return intervals.duration_text if modes.interval_handling_mode == "string" else intervals.duration_micros
        case "hstore":
            convert = hstore.hstore_map if modes.hstore_handling_mode == "map" else hstore.hstore_json
            return lambda raw: convert(_text(raw))
        case _:
            convert_shape = _SHAPES[name]
            return lambda raw: convert_shape(raw.decode("ascii"))


def _bool(raw: bytes) -> bool:
    if raw not in (b"t", b"f"):
        raise ValueError
    return raw == b"t"


def _text(raw: bytes) -> str:
    """Decode a text. A database in SQL_ASCII may contain any bytes; those that are not UTF-8 become
    a replacement character, as in Java.
    """
    return raw.decode("utf-8", "replace")


def _bytea(raw: bytes) -> bytes:
    if not raw.startswith(b"\\x"):
        raise ValueError
    return bytes.fromhex(raw[2:].decode("ascii"))


_BINARY: dict[Form, Read] = {
    Form.BYTES: bytes,
    Form.BASE64: lambda raw: b64encode(raw).decode(),
    Form.BASE64_URL: lambda raw: urlsafe_b64encode(raw).decode(),
    Form.HEX: lambda raw: raw.hex(),
}
_BINARY_FORMS = {"bytes": Form.BYTES, "base64": Form.BASE64, "base64-url-safe": Form.BASE64_URL, "hex": Form.HEX}

_COUNTED: dict[tuple[PgSource, Form], Read] = {
    (PgSource.TIME, Form.MILLIS): lambda raw: moments.time_micros(raw) // 1000,
    (PgSource.TIME, Form.MICROS): moments.time_micros,
    (PgSource.TIME, Form.NANOS): lambda raw: moments.time_micros(raw) * 1000,
    (PgSource.TIMESTAMP, Form.MILLIS): lambda raw: moments.timestamp_micros(raw) // 1000,
    (PgSource.TIMESTAMP, Form.MICROS): moments.timestamp_count,
    (PgSource.TIMESTAMP, Form.NANOS): moments.timestamp_nanos,
}
_SHAPES: dict[str, Callable[[str], Any]] = {
    "point": shapes.point,
    "geometry": shapes.geometry,
    "geography": shapes.geometry,
    "vector": shapes.vector,
    "halfvec": shapes.half_vector,
    "sparsevec": shapes.sparse_vector,
}


def _bit(raw: bytes) -> bool:
    if not raw:
        raise InexpressibleError("an empty varbit(1) cannot be written as a boolean; give the row a bit, or exclude the column")
    return int(raw, 2) != 0


def _bits(raw: bytes) -> bytes:
    """Return the fewest little-endian bytes that hold the highest bit: ``BitSet.toByteArray``."""
    number = int(raw or b"0", 2)
    return number.to_bytes((number.bit_length() + 7) // 8, "little")


def _money_reader(modes: TypeModes) -> Read:
    digits = modes.money_fraction_digits
    match modes.decimal_handling_mode:
        case "double":
            return lambda raw: float(numbers.money(_text(raw), digits))
        case "string":
            return lambda raw: f"{numbers.money(_text(raw), digits):f}"
        case _:
            unit = Decimal(1).scaleb(-digits)
            return lambda raw: _money_bytes(numbers.money(_text(raw), digits), unit, digits)


def _money_bytes(amount: Decimal, unit: Decimal, digits: int) -> bytes:
    """Return the amount rounded half up, as Debezium rounds an amount with more digits than
    ``money.fraction.digits``.
    """
    return numbers.unscaled_bytes(int(amount.quantize(unit, rounding=ROUND_HALF_UP, context=_EXACT).scaleb(digits, _EXACT)))
