"""Decides which Connect schema each PostgreSQL type has in each handling mode, how its text is
read, and what replaces NULL if NULL is not allowed.

Source of the rules: Debezium 3.6.1 (PostgresValueConverter, JdbcValueConverters, SchemaFactory) for
columns of a stream. Two columns of one type differ only by the type modifier.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dblog.codecs.plan import Form
from dblog.codecs.schema import Field, Kind, Schema
from dblog.dialects.postgres.values.declared import UNLIMITED
from dblog.dialects.postgres.values.modes import TypeModes
from dblog.dialects.postgres.values.shapes import EMPTY_COLLECTION, point_struct
from dblog.dialects.postgres.values.sources import PgSource
from dblog.model import Column


@dataclass(frozen=True, slots=True)
class Typed:
    """A type in the current modes: how it is read, its form, its bare schema, and the zero of that
    form.

    ``element`` is the type of an array's elements, with the schema that the array gives them.
    ``fallible`` is True if the type has values that the schema cannot express.
    """

    source: PgSource
    form: Form
    schema: Schema
    zero: Any
    element: Typed | None = None
    fallible: bool = False


GEOMETRIC = frozenset({"box", "circle", "line", "lseg", "path", "polygon"})
"""Types that Debezium up to 3.6 does not know. With include.unknown.datatypes it prints their
numbers as Java does.
"""

_PLAIN_TEXTS = frozenset(
    {"text", "varchar", "bpchar", "char", "name", "citext", "isbn", "inet", "cidr", "macaddr", "macaddr8"}
    | {"tsrange", "tstzrange", "daterange", "int4range", "int8range", "numrange"}
)
_NAMED_TEXTS = {
    "json": "io.debezium.data.Json",
    "jsonb": "io.debezium.data.Json",
    "uuid": "io.debezium.data.Uuid",
    "xml": "io.debezium.data.Xml",
    "ltree": "io.debezium.data.Ltree",
    "tsvector": "io.debezium.data.Tsvector",
}
_INTEGERS = {"int2": Kind.INT16, "int4": Kind.INT32, "int8": Kind.INT64, "oid": Kind.INT64}

_OPTIONAL_ELEMENTS = frozenset(
    {
        "int2",
        "int4",
        "int8",
        "oid",
        "char",
        "varchar",
        "text",
        "bpchar",
        "inet",
        "cidr",
        "macaddr",
        "macaddr8",
        "tsrange",
        "tstzrange",
        "daterange",
    }
    | {
        "int4range",
        "numrange",
        "int8range",
        "numeric",
        "float4",
        "float8",
        "bool",
        "date",
        "uuid",
        "json",
        "jsonb",
        "time",
        "timetz",
        "timestamp",
    }
    | {"timestamptz", "bytea", "geometry", "geography", "citext", "hstore", "ltree"}
)
"""Types whose array elements may be NULL in Debezium's schema. Elements of the other types that it
knows may not.
"""
_NEVER_ELEMENTS = frozenset({"money", "name", "interval", "varbit", "xml", "point", "refcursor"})
"""Types whose arrays Debezium leaves out, whatever ``include.unknown.datatypes`` is."""

_TEXT = Schema(kind=Kind.STRING)
_VARIABLE_SCALE = Schema(
    kind=Kind.STRUCT,
    name="io.debezium.data.VariableScaleDecimal",
    version=1,
    doc="Variable scaled decimal",
    fields=(Field(name="scale", schema=Schema(kind=Kind.INT32)), Field(name="value", schema=Schema(kind=Kind.BYTES))),
)
_WKB = Field(name="wkb", schema=Schema(kind=Kind.BYTES))
_SRID = Field(name="srid", schema=Schema(kind=Kind.INT32, optional=True))
_POINT = Schema(
    kind=Kind.STRUCT,
    name="io.debezium.data.geometry.Point",
    version=1,
    doc="Geometry (POINT)",
    fields=(
        Field(name="x", schema=Schema(kind=Kind.FLOAT64)),
        Field(name="y", schema=Schema(kind=Kind.FLOAT64)),
        Field(name="wkb", schema=Schema(kind=Kind.BYTES, optional=True)),
        _SRID,
    ),
)
_GEOMETRY = Schema(
    kind=Kind.STRUCT, optional=True, name="io.debezium.data.geometry.Geometry", version=1, doc="Geometry", fields=(_WKB, _SRID)
)
"""Schema of a geometry: always optional, even for a NOT NULL column."""
_GEOGRAPHY = Schema(kind=Kind.STRUCT, name="io.debezium.data.geometry.Geography", version=1, doc="Geography", fields=(_WKB, _SRID))
_SPARSE_VECTOR = Schema(
    kind=Kind.STRUCT,
    name="io.debezium.data.SparseDoubleVector",
    version=1,
    doc="Sparse double vector",
    fields=(
        Field(name="dimensions", schema=Schema(kind=Kind.INT16)),
        Field(name="vector", schema=Schema(kind=Kind.MAP, keys=Schema(kind=Kind.INT16), items=Schema(kind=Kind.FLOAT64))),
    ),
)
_HSTORE_MAP = Schema(kind=Kind.MAP, keys=_TEXT, items=Schema(kind=Kind.STRING, optional=True))
EPOCH_ZONED = "1970-01-01T00:00:00Z"
_MILLIS_DIGITS = 3
_MICROS_DIGITS = 6


def typed(column: Column, modes: TypeModes) -> Typed | None:
    """Return the type of a column. Return None if Debezium does not know it; then the column is
    left out.
    """
    if is_array(column):
        return _array(column, modes)
    known = _scalar(column.type, column, modes)
    if known is None and modes.include_unknown_datatypes:
        return _unknown(column.type, modes)
    return known


def is_array(column: Column) -> bool:
    """Return True if the type is an array. A type of another schema may have any name, so its
    declaration decides.
    """
    schema, _, name = column.type.rpartition(".")
    return name.startswith("_") and (not schema or column.type_text.endswith("[]"))


def element_type(column: Column) -> str:
    """Return the name of an array's element type: ``int4`` for ``_int4``, ``app.kind`` for
    ``app._kind``.
    """
    schema, dot, name = column.type.rpartition(".")
    return schema + dot + name.removeprefix("_")


def fraction_digits(column: Column) -> int:
    """Return the number of fraction digits of a time or timestamp; without (p) it is six."""
    return _MICROS_DIGITS if column.length is None else column.length


def _array(column: Column, modes: TypeModes) -> Typed | None:
    name = element_type(column)
    if name in _NEVER_ELEMENTS:
        return None
    element = None if name == "bit" else _scalar(name, column, modes)
    if element is None:
        if not modes.include_unknown_datatypes:
            return None
        element = _unknown(name, modes)
    element = replace(element, schema=replace(element.schema, optional=name in _OPTIONAL_ELEMENTS))
    return Typed(PgSource.VALUE, Form.VALUE, Schema(kind=Kind.ARRAY, items=element.schema), [], element=element, fallible=True)


def _scalar(name: str, column: Column, modes: TypeModes) -> Typed | None:
    """Return a type that is not an array, with the modifier of ``column``."""
    if name in _INTEGERS:
        return Typed(PgSource.INT, Form.INT, Schema(kind=_INTEGERS[name]), 0)
    if name in _PLAIN_TEXTS:
        return Typed(PgSource.TEXT, Form.TEXT, _TEXT, "")
    if name in _NAMED_TEXTS:
        return Typed(PgSource.TEXT, Form.TEXT, _named(Kind.STRING, _NAMED_TEXTS[name]), "")
    match name:
        case "bool":
            return Typed(PgSource.BOOL, Form.BOOLEAN, Schema(kind=Kind.BOOLEAN), False)
        case "float4":
            return Typed(PgSource.FLOAT4, Form.FLOAT32, Schema(kind=Kind.FLOAT32), 0.0)
        case "float8":
            return Typed(PgSource.FLOAT8, Form.FLOAT64, Schema(kind=Kind.FLOAT64), 0.0)
        case "numeric":
            return _numeric(column, modes)
        case "money":
            return _money(modes)
        case "bytea":
            return _binary(PgSource.BYTEA, modes)
        case "bit" | "varbit":
            return _bits(name, column)
        case "enum":
            allowed = (("allowed", ",".join(column.members)),)
            return Typed(PgSource.TEXT, Form.TEXT, replace(_named(Kind.STRING, "io.debezium.data.Enum"), parameters=allowed), "")
        case "date":
            return _date(modes)
        case "time":
            return _time(column, modes)
        case "timestamp":
            return _timestamp(column, modes)
        case "timetz":
            return Typed(PgSource.TIMETZ, Form.ISO_TIME, _named(Kind.STRING, "io.debezium.time.ZonedTime"), "00:00:00Z")
        case "timestamptz":
            return Typed(PgSource.TIMESTAMPTZ, Form.ZONED_TIMESTAMP, _named(Kind.STRING, "io.debezium.time.ZonedTimestamp"), EPOCH_ZONED)
        case "interval":
            return _interval(modes)
        case "hstore":
            if modes.hstore_handling_mode == "map":
                return _value(_HSTORE_MAP, {})
            return _value(_named(Kind.STRING, "io.debezium.data.Json"), "{}")
        case "point":
            return _value(_POINT, point_struct(0.0, 0.0))
        case "geometry":
            return _value(_GEOMETRY, {"wkb": EMPTY_COLLECTION, "srid": None})
        case "geography":
            return _value(_GEOGRAPHY, {"wkb": EMPTY_COLLECTION, "srid": None})
        case "vector":
            return _value(replace(_named(Kind.ARRAY, "io.debezium.data.DoubleVector"), items=Schema(kind=Kind.FLOAT64)), [])
        case "halfvec":
            return _value(replace(_named(Kind.ARRAY, "io.debezium.data.FloatVector"), items=Schema(kind=Kind.FLOAT32)), [])
        case "sparsevec":
            return replace(_value(_SPARSE_VECTOR, {"dimensions": 0, "vector": {}}), fallible=True)
        case _:
            return None


def _unknown(name: str, modes: TypeModes) -> Typed:
    """Return the type for ``include.unknown.datatypes``: the bytes of the text."""
    binary = _binary(PgSource.TEXT, modes)
    return replace(binary, source=PgSource.VALUE, form=Form.VALUE) if name in GEOMETRIC else binary


def _named(kind: Kind, name: str) -> Schema:
    return Schema(kind=kind, name=name, version=1)


def _value(schema: Schema, zero: Any) -> Typed:
    return Typed(PgSource.VALUE, Form.VALUE, schema, zero)


def _binary(source: PgSource, modes: TypeModes) -> Typed:
    match modes.binary_handling_mode:
        case "base64":
            return Typed(source, Form.BASE64, _TEXT, "")
        case "base64-url-safe":
            return Typed(source, Form.BASE64_URL, _TEXT, "")
        case "hex":
            return Typed(source, Form.HEX, _TEXT, "")
        case _:
            return Typed(source, Form.BYTES, Schema(kind=Kind.BYTES), b"")


def _bits(name: str, column: Column) -> Typed:
    """Return the type of a bit string. One bit is a boolean. More bits are as few little-endian
    bytes as the highest bit needs, even for bit(n), whose text has n digits.
    """
    bits = column.length if column.length is not None else 1 if name == "bit" else UNLIMITED
    if bits == 1:
        # A varbit(1) may be empty, which is neither true nor false.
        return replace(_value(Schema(kind=Kind.BOOLEAN), zero=False), fallible=name == "varbit")
    return _value(replace(_named(Kind.BYTES, "io.debezium.data.Bits"), parameters=(("length", str(bits)),)), b"")


def _decimal(*, scale: int, precision: int | None) -> Schema:
    parameters = [("scale", str(scale))]
    if precision is not None:
        parameters.append(("connect.decimal.precision", str(precision)))
    return replace(_named(Kind.BYTES, "org.apache.kafka.connect.data.Decimal"), parameters=tuple(parameters))


def decimal_scale(column: Column) -> int:
    """Return the scale of a numeric's decimal. A negative scale (PostgreSQL 15) only rounds, and no
    Avro reader knows it, so it becomes 0.
    """
    return max(0, column.scale or 0)


def _numeric(column: Column, modes: TypeModes) -> Typed:
    match modes.decimal_handling_mode:
        case "double":
            return Typed(PgSource.NUMERIC, Form.DECIMAL_DOUBLE, Schema(kind=Kind.FLOAT64), 0.0)
        case "string":
            scale = decimal_scale(column)
            return Typed(PgSource.NUMERIC, Form.DECIMAL_TEXT, _TEXT, f"0.{'0' * scale}" if scale else "0")
    if column.length is None:
        return replace(_value(_VARIABLE_SCALE, {"scale": 0, "value": b"\x00"}), fallible=True)
    scale = decimal_scale(column)
    # With a negative scale there are more digits than the precision says. With a scale above the
    # precision, Avro needs a precision equal to the scale.
    precision = max(column.length - min(0, column.scale or 0), scale)
    return Typed(PgSource.NUMERIC, Form.DECIMAL, _decimal(scale=scale, precision=precision), b"\x00", fallible=True)


def _money(modes: TypeModes) -> Typed:
    digits = modes.money_fraction_digits
    match modes.decimal_handling_mode:
        case "double":
            return _value(Schema(kind=Kind.FLOAT64), 0.0)
        case "string":
            return _value(_TEXT, f"0.{'0' * digits}" if digits else "0")
        case _:
            return _value(_decimal(scale=digits, precision=None), b"\x00")


def _date(modes: TypeModes) -> Typed:
    match modes.time_precision_mode:
        case "connect":
            return Typed(PgSource.DATE, Form.DAYS, _named(Kind.INT32, "org.apache.kafka.connect.data.Date"), 0)
        case "isostring":
            return Typed(PgSource.DATE, Form.ISO_DATE, _named(Kind.STRING, "io.debezium.time.IsoDate"), "1970-01-01Z")
        case _:
            return Typed(PgSource.DATE, Form.DAYS, _named(Kind.INT32, "io.debezium.time.Date"), 0)


def _time(column: Column, modes: TypeModes) -> Typed:
    match modes.time_precision_mode:
        case "connect":
            return Typed(PgSource.TIME, Form.MILLIS, _named(Kind.INT32, "org.apache.kafka.connect.data.Time"), 0)
        case "isostring":
            return Typed(PgSource.TIME, Form.ISO_TIME, _named(Kind.STRING, "io.debezium.time.IsoTime"), "00:00:00Z")
        case "nanoseconds":
            return Typed(PgSource.TIME, Form.NANOS, _named(Kind.INT64, "io.debezium.time.NanoTime"), 0)
        case "adaptive" if fraction_digits(column) <= _MILLIS_DIGITS:
            return Typed(PgSource.TIME, Form.MILLIS, _named(Kind.INT32, "io.debezium.time.Time"), 0)
        case _:
            return Typed(PgSource.TIME, Form.MICROS, _named(Kind.INT64, "io.debezium.time.MicroTime"), 0)


def _timestamp(column: Column, modes: TypeModes) -> Typed:
    mode = modes.time_precision_mode
    match mode:
        case "connect":
            return Typed(PgSource.TIMESTAMP, Form.MILLIS, _named(Kind.INT64, "org.apache.kafka.connect.data.Timestamp"), 0)
        case "isostring":
            return Typed(PgSource.TIMESTAMP, Form.ISO_TIMESTAMP, _named(Kind.STRING, "io.debezium.time.IsoTimestamp"), EPOCH_ZONED)
        case "nanoseconds":
            return Typed(PgSource.TIMESTAMP, Form.NANOS, _named(Kind.INT64, "io.debezium.time.NanoTimestamp"), 0, fallible=True)
        case "adaptive" | "adaptive_time_microseconds" if fraction_digits(column) <= _MILLIS_DIGITS:
            return Typed(PgSource.TIMESTAMP, Form.MILLIS, _named(Kind.INT64, "io.debezium.time.Timestamp"), 0)
        case _:
            return Typed(PgSource.TIMESTAMP, Form.MICROS, _named(Kind.INT64, "io.debezium.time.MicroTimestamp"), 0, fallible=True)


def _interval(modes: TypeModes) -> Typed:
    if modes.interval_handling_mode == "string":
        text = _named(Kind.STRING, "io.debezium.time.Interval")
        return replace(_value(text, "P0Y0M0DT0H0M0S"), fallible=True)
    return replace(_value(_named(Kind.INT64, "io.debezium.time.MicroDuration"), 0), fallible=True)
