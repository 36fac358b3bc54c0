"""Chooses the Spark type of a Debezium column and makes the SQL that converts it in the JVM.

Debezium's own logical types carry only ``connect.name``; Avro sees plain ints, longs and strings
(Debezium's manual, "Avro Serialization"). So types are chosen from the writer schema's JSON, once a
schema id, and Spark's own mapping of logical types is used for decimals only. Conversions use
integer arithmetic on proleptic Gregorian values and never depend on the session's time zone.

| Debezium                                   | Spark                                                       |
|--------------------------------------------|-------------------------------------------------------------|
| int8, int16, int32, int64                  | TINYINT, SMALLINT, INT, BIGINT                              |
| Decimal (precise)                          | DECIMAL(p, s); declared with over 38 digits STRING          |
| VariableScaleDecimal                       | STRING: a number of any length, written out                 |
| time.Date, IsoDate, connect Date           | DATE; PostgreSQL's infinity is the last one that Spark has  |
| time.Timestamp, MicroTimestamp, NanoTimestamp, IsoTimestamp, connect Timestamp | TIMESTAMP_NTZ: a wall clock |
| time.ZonedTimestamp                        | TIMESTAMP: an instant; infinity as PostgreSQL's driver has it |
| time.Time, MicroTime, NanoTime, connect Time | BIGINT microseconds (TIME may be negative or beyond 24 h) |
| time.Year                                  | INT                                                         |
| Bits, bytes                                | BINARY (Bits little-endian, as Debezium writes them)        |
| Enum, EnumSet, Json, Uuid, Xml, ZonedTime, Interval, other text | STRING                                 |
| MicroDuration                              | BIGINT microseconds                                         |
| geometry.*, other structs                  | STRUCT                                                      |
| arrays, maps                               | ARRAY, MAP                                                  |
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import types as t

from dblog_sink.errors import DefiniteError, ParkError

DECIMAL_DIGITS_MAX = 38
"""Digits of the widest decimal of Spark and Delta."""

Columns = tuple[tuple[str, t.DataType], ...]
"""Names and types of columns, in order."""

Sql = Callable[[str], str]
"""Function from SQL of a value to SQL of something derived from it."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """A field's conversion: Spark type, Avro type to read it with, SQL, and a check for failure."""

    type: t.DataType
    avro: Any
    sql: Sql | None = None
    """Function to SQL of the converted value; None if the value needs no conversion."""
    failed: Sql | None = None
    """Function to SQL that is true if the conversion failed; None if it cannot fail."""
    bounded: Conversion | None = None
    """Conversion for a table that keeps a decimal as decimal, or one of any scale as struct, while
    this one makes it text.
    """
    in_json: bool = False
    """True if bytes inside are read as base64."""

    def convert(self, path: str) -> str:
        """Return SQL of the converted value at ``path``."""
        return path if self.sql is None else self.sql(path)


INFINITE_DATE = -2_147_472_692
"""Debezium's number for PostgreSQL's date ``infinity``, which is earlier than every date. The
number of ``-infinity`` is one more and sorts correctly.
"""
LAST_DATE = (1 << 31) - 1
"""Days since 1970 of Spark's last date."""
INFINITE_MICROS, MINUS_INFINITE_MICROS = 9_223_372_036_825_200_000, -9_223_372_036_832_400_000
"""Microseconds of PostgreSQL's timestamps ``infinity`` and ``-infinity`` (its JDBC driver's
PGStatement). Debezium writes text for text types, and the ends of a BIGINT for nanoseconds.
"""
LONG_MAX = (1 << 63) - 1


def _days(path: str) -> str:
    return f"date_from_unix_date(IF({path} = {INFINITE_DATE}, {LAST_DATE}, {path}))"


def _from_millis(path: str) -> str:
    return f"CAST(timestamp_millis({path}) AS TIMESTAMP_NTZ)"


def _from_micros(path: str) -> str:
    return f"CAST(timestamp_micros({path}) AS TIMESTAMP_NTZ)"


def _from_nanos(path: str) -> str:
    low, high = f"({-LONG_MAX}L - 1L)", f"{LONG_MAX}L"
    micros = f"CASE {path} WHEN {high} THEN {INFINITE_MICROS}L WHEN {low} THEN {MINUS_INFINITE_MICROS}L ELSE {_nanos_to_micros(path)} END"
    return f"CAST(timestamp_micros({micros}) AS TIMESTAMP_NTZ)"


def _nanos_to_micros(path: str) -> str:
    return f"({path} div 1000L - IF({path} % 1000L < 0L, 1L, 0L))"


def _millis_to_micros(path: str) -> str:
    return f"(CAST({path} AS BIGINT) * 1000L)"


def _zoned(path: str) -> str:
    infinite = f"CASE {path} WHEN 'infinity' THEN {INFINITE_MICROS}L WHEN '-infinity' THEN {MINUS_INFINITE_MICROS}L END"
    return f"coalesce(try_cast({path} AS TIMESTAMP), timestamp_micros({infinite}))"


def _iso_timestamp(path: str) -> str:
    return f"CAST(try_cast({path} AS TIMESTAMP) AS TIMESTAMP_NTZ)"


def _iso_date(path: str) -> str:
    return f"try_cast(rtrim('Z', {path}) AS DATE)"


def _became_null(sql: Sql) -> Sql:
    return lambda path: f"({path} IS NOT NULL AND {sql(path)} IS NULL)"


def _checked(kind: t.DataType, avro: str, sql: Sql) -> Conversion:
    return Conversion(kind, avro, sql, _became_null(sql))


_NTZ = t.TimestampNTZType()
_BY_NAME: Mapping[str, Conversion] = {
    "io.debezium.time.Date": Conversion(t.DateType(), "int", _days),
    "org.apache.kafka.connect.data.Date": Conversion(t.DateType(), "int", _days),
    "io.debezium.time.IsoDate": _checked(t.DateType(), "string", _iso_date),
    "io.debezium.time.Timestamp": Conversion(_NTZ, "long", _from_millis),
    "org.apache.kafka.connect.data.Timestamp": Conversion(_NTZ, "long", _from_millis),
    "io.debezium.time.MicroTimestamp": Conversion(_NTZ, "long", _from_micros),
    "io.debezium.time.NanoTimestamp": Conversion(_NTZ, "long", _from_nanos),
    "io.debezium.time.IsoTimestamp": _checked(_NTZ, "string", _iso_timestamp),
    "io.debezium.time.ZonedTimestamp": _checked(t.TimestampType(), "string", _zoned),
    "io.debezium.time.Time": Conversion(t.LongType(), "int", _millis_to_micros),
    "org.apache.kafka.connect.data.Time": Conversion(t.LongType(), "int", _millis_to_micros),
    "io.debezium.time.MicroTime": Conversion(t.LongType(), "long"),
    "io.debezium.time.NanoTime": Conversion(t.LongType(), "long", _nanos_to_micros),
}

_BY_LOGICAL_TYPE: Mapping[tuple[str, str], Conversion] = {
    ("int", "date"): Conversion(t.DateType(), "int", _days),
    ("int", "time-millis"): Conversion(t.LongType(), "int", _millis_to_micros),
    ("long", "time-micros"): Conversion(t.LongType(), "long"),
    ("long", "timestamp-millis"): Conversion(t.TimestampType(), "long", lambda p: f"timestamp_millis({p})"),
    ("long", "timestamp-micros"): Conversion(t.TimestampType(), "long", lambda p: f"timestamp_micros({p})"),
    ("long", "local-timestamp-millis"): Conversion(_NTZ, "long", _from_millis),
    ("long", "local-timestamp-micros"): Conversion(_NTZ, "long", _from_micros),
}

_PLAIN: Mapping[str, Conversion] = {
    "boolean": Conversion(t.BooleanType(), "boolean"),
    "int": Conversion(t.IntegerType(), "int"),
    "long": Conversion(t.LongType(), "long"),
    "float": Conversion(t.FloatType(), "float"),
    "double": Conversion(t.DoubleType(), "double"),
    "string": Conversion(t.StringType(), "string"),
    "bytes": Conversion(t.BinaryType(), "bytes"),
}

_SMALL_INTS: Mapping[str, Conversion] = {
    "int8": Conversion(t.ByteType(), "int", lambda p: f"CAST({p} AS TINYINT)"),
    "int16": Conversion(t.ShortType(), "int", lambda p: f"CAST({p} AS SMALLINT)"),
}


PLAIN_TYPES = frozenset({"null", *_PLAIN})
"""Avro's types that need no definition."""


@dataclass(frozen=True, slots=True)
class TypeChoices:
    """The choices of types that a configuration can make."""

    json: str = "string"
    decimal_overflow: str = "string"


STRICT_TYPES = TypeChoices()
"""Default choices: JSON as text, and decimals too wide for Delta as text."""


def conversion(
    schema: Any,
    definitions: Mapping[str, Any],
    *,
    where: str,
    depth: int = 0,
    choices: TypeChoices = STRICT_TYPES,
) -> Conversion:
    """Return the conversion of one Avro type.

    ``definitions`` has named types by full name; ``where`` names the column in errors. Raise
    DefiniteError for a type that is unknown or not defined.
    """
    schema = without_null(schema, where=where)
    if isinstance(schema, str):
        if schema in _PLAIN:
            return _PLAIN[schema]
        if schema not in definitions:
            msg = f"{where}: Avro type {schema} is not defined in its schema"
            raise DefiniteError(msg)
        schema = definitions[schema]
    kind = schema["type"]
    # A type that only wraps another one.
    if isinstance(kind, dict | list):
        return conversion(kind, definitions, where=where, depth=depth, choices=choices)
    named = _BY_NAME.get(schema.get("connect.name", ""))
    if named is not None and named.avro == kind:
        return named
    if choices.json == "variant" and kind == "string" and schema.get("connect.name") == "io.debezium.data.Json":
        return _checked(t.VariantType(), "string", lambda path: f"IF({_inexact(path)}, NULL, try_parse_json({path}))")
    match kind:
        case "record":
            return _record(schema, definitions, where=where, depth=depth, choices=choices)
        case "array":
            return _array(conversion(schema["items"], definitions, where=where, depth=depth + 1, choices=choices), depth)
        case "map":
            return _map(conversion(schema["values"], definitions, where=where, depth=depth + 1, choices=choices), depth)
        case "enum":
            return Conversion(
                t.StringType(),
                {"type": "enum", "name": schema["name"], "namespace": schema.get("namespace", ""), "symbols": schema["symbols"]},
            )
        case "fixed":
            return Conversion(
                t.BinaryType(), {"type": "fixed", "name": schema["name"], "namespace": schema.get("namespace", ""), "size": schema["size"]}
            )
    logical = schema.get("logicalType")
    if kind == "bytes" and logical == "decimal":
        return _decimal(schema, choices)
    if logical is not None and (kind, logical) in _BY_LOGICAL_TYPE:
        return _BY_LOGICAL_TYPE[kind, logical]
    if kind == "int" and schema.get("connect.type") in _SMALL_INTS:
        return _SMALL_INTS[schema["connect.type"]]
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind in definitions:
        return conversion(kind, definitions, where=where, depth=depth, choices=choices)
    msg = f"{where}: Avro type {kind} is unknown"
    raise DefiniteError(msg)


def _inexact(path: str) -> str:
    """Return SQL that is true if a JSON text has a number that Spark's VARIANT would change.

    VARIANT keeps up to 38 digits. A longer number, or one with an exponent, becomes a double, with
    17 digits and at most 1.8e308.
    """
    # Escapes are removed first, so that text between two quotes is a string. Neither pattern nests:
    # nested ones would overflow Java's stack for long texts.
    outside = f"regexp_replace(regexp_replace({path}, r'\\\\.', ''), r'\"[^\"]*\"', '')"
    mantissa = "regexp_replace(n, r'[eE].*', '')"
    rounded = f"length(regexp_replace({mantissa}, r'^-?0+|[^0-9]', '')) > IF(n RLIKE r'[eE]', 17, 38)"
    double = "try_cast(n AS DOUBLE)"
    beyond = f"n RLIKE r'[eE]' AND (abs({double}) = DOUBLE('Infinity') OR ({double} = 0 AND {mantissa} RLIKE r'[1-9]'))"
    return f"exists(regexp_extract_all({outside}, r'[0-9][0-9.eE+-]*', 0), n -> {rounded} OR {beyond})"


def without_null(schema: Any, *, where: str) -> Any:
    """Return T for ``[null, T]`` and ``[T, null]``, because every column of a mirror is nullable.

    Raise DefiniteError for other unions, which Connect does not write.
    """
    if not isinstance(schema, list):
        return schema
    others = [branch for branch in schema if branch != "null"]
    if len(others) != 1:
        msg = f"{where}: a union of {len(others)} types has no column type; map it in the connector"
        raise DefiniteError(msg)
    return others[0]


def decimal_digits(schema: Mapping[str, Any]) -> int:
    """Return the declared number of digits of a Decimal; Connect writes 64 if it knows none.

    Debezium's precise BIGINT UNSIGNED is a Decimal of scale 0 without a precision. It has twenty
    digits if the source's column type is known.
    """
    if schema.get("connect.parameters", {}).get("__debezium.source.column.type", "").upper().startswith("BIGINT UNSIGNED"):
        return 20
    digits, scale = int(schema["precision"]), int(schema.get("scale", 0))
    if digits < 1:
        msg = "a decimal has no such precision"
        raise ValueError(msg)
    # PostgreSQL's NUMERIC(2,5) is below 0.001; Spark's types have at least as many digits as scale.
    return max(digits, scale)


def _decimal(schema: Mapping[str, Any], choices: TypeChoices) -> Conversion:
    """Return the conversion of a Decimal.

    If it is declared with more than 38 digits (MySQL allows 65), the column is text, which holds
    every value. If the configuration or the table asks for a decimal, the scale is kept and values
    that do not fit go to quarantine. Nothing is rounded. Without a declared precision 38 digits are
    assumed to be enough.
    """
    scale, digits = int(schema.get("scale", 0)), decimal_digits(schema)
    if not 0 <= scale <= SCALE_MAX:
        msg = "a decimal has no such scale"
        raise ValueError(msg)
    if digits <= DECIMAL_DIGITS_MAX:
        return Conversion(t.DecimalType(digits, scale), {"type": "bytes", "logicalType": "decimal", "precision": digits, "scale": scale})
    text = Conversion(t.StringType(), "bytes", lambda path: _decimal_text(path, scale), is_too_long)
    if scale > DECIMAL_DIGITS_MAX:
        return text
    bounded = _checked(t.DecimalType(DECIMAL_DIGITS_MAX, scale), "bytes", lambda path: decimal_sql(path, DECIMAL_DIGITS_MAX, scale))
    declared = "connect.decimal.precision" in schema.get("connect.parameters", {})
    return replace(text, bounded=bounded) if declared and choices.decimal_overflow == "string" else bounded


_DECIMAL_BYTES_MAX = 63
"""Length that the varint holds in one byte. MySQL's longest decimals, of 65 digits, have 28
bytes.
"""


def decimal_sql(path: str, precision: int, scale: int) -> str:
    """Return SQL of the decimal of big-endian two's complement bytes; NULL if it has too many
    digits.

    Spark reads such bytes only in Avro, where ``bytes`` is a zigzag varint of the length followed
    by the bytes. Too many digits are detected before from_avro runs, since no error may depend on
    its options (schema/avro.py).
    """
    limit = 10**precision
    digits, negative = f"hex({path})", f"hex({path}) >= '8'"
    width = _DECIMAL_BYTES_MAX * 2
    greatest, least = f"{limit - 1:0{width}X}", f"{(1 << 4 * width) - limit + 1:0{width}X}"
    padded = f"lpad(ltrim(IF({negative}, 'F', '0'), {digits}), {width}, IF({negative}, 'F', '0'))"
    fits = f"length({path}) BETWEEN 1 AND {_DECIMAL_BYTES_MAX} AND IF({negative}, {padded} >= '{least}', {padded} <= '{greatest}')"
    schema = json.dumps({"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale})
    length = f"unhex(lpad(hex(2 * length({path})), 2, '0'))"
    return f"IF({fits}, from_avro(concat({length}, {path}), '{schema}'), CAST(NULL AS DECIMAL({precision},{scale})))"


NUMBER_BYTES_MAX = 512
"""The longest number that is written out, in bytes: some 1230 digits. Longer ones go to quarantine.

The work grows with the square of the digits. In PostgreSQL a NUMERIC without precision may have
147 455 digits; one with a declared precision has at most 1000.
"""


def is_too_long(path: str) -> str:
    """Return SQL that is true if a number has more bytes than are written out."""
    return f"(length({path}) > {NUMBER_BYTES_MAX})"


SCALE_MAX = 16_383
"""Most digits after the point of a number of PostgreSQL. A record may claim more, and the zeros of
two thousand million would fill the memory.
"""


def _is_out_of_bounds(path: str) -> str:
    """Return SQL that is true if a struct of ``scale`` and ``value`` is not written out."""
    return f"({is_too_long(f'{path}.value')} OR {path}.scale NOT BETWEEN 0 AND {SCALE_MAX})"


def _decimal_text(path: str, scale: int) -> str:
    """Return SQL of the decimal text of big-endian two's complement bytes, NULL for too many bytes."""
    return f"IF({path} IS NULL OR {is_too_long(path)}, NULL, {_pointed(_whole_text(path), str(scale))})"


def variable_decimal_text(path: str) -> str:
    """Return SQL of the text of a number, NULL if it has too many bytes or digits after the point.

    ``path`` is a struct of ``scale`` and ``value``. Trailing zeros after the point are not written,
    so equal numbers have equal texts.
    """
    value = f"{path}.value"
    short = f"CAST({decimal_sql(value, DECIMAL_DIGITS_MAX, 0)} AS STRING)"
    whole = _pointed(f"coalesce({short}, {_whole_text(value)})", f"{path}.scale")
    return f"IF({path} IS NULL OR {_is_out_of_bounds(path)}, NULL, {whole})"


_LIMB_DIGITS = 14
_DIGITS_OF_BYTE = 2.41
"""log10(256) is 2.408."""


def _whole_text(path: str) -> str:
    """Return SQL of the whole number of big-endian two's complement bytes, in limbs of fourteen
    digits, two bytes at a time.

    Each step multiplies all limbs by 65536 and adds the carry of the limb before, so until the end
    a limb may exceed its fourteen digits by 65536; 64 bits hold the next product of that. A
    negative number is read as the inverse of its bytes, plus one.
    """
    limb, times = f"1{'0' * _LIMB_DIGITS}L", "65536L"
    negative = f"conv(hex(substring({path}, 1, 1)), 16, 10) >= 128"
    even = f"IF(length({path}) % 2 = 1, concat(IF({negative}, X'FF', X'00'), {path}), {path})"
    word = "CAST(conv(hex(substring(w, 2 * i - 1, 2)), 16, 10) AS BIGINT)"
    added = f"IF({negative}, 65535L - {word}, {word})"
    step = f"transform(a, (x, j) -> x * {times} % {limb} + IF(j = 0, {added}, get(a, j - 1) * {times} DIV {limb}))"
    zeros = f"array_repeat(0L, CAST(ceil(length(w) * {_DIGITS_OF_BYTE}D / {_LIMB_DIGITS}) AS INT) + 1)"
    limbs = f"transform(array({even}), w -> aggregate(sequence(1, length(w) DIV 2), {zeros}, (a, i) -> {step}))[0]"
    carried = (
        f"aggregate(a, named_struct('done', CAST(array() AS ARRAY<BIGINT>), 'carry', IF({negative}, 1L, 0L)),"
        f" (s, x) -> named_struct('done', concat(s.done, array((x + s.carry) % {limb})), 'carry', (x + s.carry) DIV {limb}), s -> s.done)"
    )
    whole = f"transform(array({limbs}), a -> {carried})[0]"
    digits = f"ltrim('0', array_join(transform(reverse({whole}), x -> lpad(CAST(x AS STRING), {_LIMB_DIGITS}, '0')), ''))"
    return f"transform(array({digits}), t -> concat(IF({negative} AND t <> '', '-', ''), IF(t = '', '0', t)))[0]"


def _pointed(whole: str, scale: str) -> str:
    """Return SQL that puts the point before the last ``scale`` digits of a whole number's text."""
    point = (
        f"transform(array({whole}), w -> transform(array(lpad(ltrim('-', w), greatest(length(ltrim('-', w)), {scale} + 1), '0')), d ->"
        f" concat(IF(startswith(w, '-'), '-', ''), left(d, length(d) - {scale}), '.', right(d, {scale})))[0])[0]"
    )
    return whole if scale == "0" else point if scale.isdigit() else f"IF({scale} = 0, {whole}, {point})"


def sql_literal(default: Any, schema: Any, made: Conversion) -> str | None:
    """Return SQL of a schema's default, converted like the column's values.

    Return None if the type has no literal (records, arrays, maps).
    """
    kind = schema if isinstance(schema, str) else schema.get("type")
    match kind, default:
        case "boolean", bool():
            raw = "true" if default else "false"
        case (("int" | "long"), int()) if not isinstance(default, bool):
            raw = f"{default}L" if kind == "long" else str(default)
        case (("float" | "double"), int() | float()):
            raw = f"CAST({default!r} AS {kind.upper()})" if math.isfinite(default) else f"CAST('{default!r}' AS {kind.upper()})"
        case "string", str():
            raw = text_sql(default)
        case "bytes", str():
            data = default.encode("latin-1", errors="strict")
            if isinstance(schema, dict) and schema.get("logicalType") == "decimal" and isinstance(made.type, t.DecimalType):
                unscaled = int.from_bytes(data, "big", signed=True)
                return f"CAST('{_shifted(unscaled, int(schema.get('scale', 0)))}' AS {type_sql(made.type)})"
            raw = f"X'{data.hex()}'"
        case _:
            return None
    return made.convert(raw)


def _shifted(unscaled: int, scale: int) -> str:
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    text = digits if scale == 0 else f"{digits[:-scale]}.{digits[-scale:]}"
    return f"-{text}" if unscaled < 0 else text


def _record(schema: Mapping[str, Any], definitions: Mapping[str, Any], *, where: str, depth: int, choices: TypeChoices) -> Conversion:
    made = _struct(schema, definitions, where=where, depth=depth, choices=choices)
    if schema.get("connect.name") == VARIABLE_SCALE and [field["name"] for field in schema["fields"]] == ["scale", "value"]:
        return Conversion(t.StringType(), made.avro, variable_decimal_text, _is_out_of_bounds, bounded=made)
    return made


VARIABLE_SCALE = "io.debezium.data.VariableScaleDecimal"
"""Connect name of a PostgreSQL NUMERIC without precision, written as unscaled value and scale."""


def _struct(schema: Mapping[str, Any], definitions: Mapping[str, Any], *, where: str, depth: int, choices: TypeChoices) -> Conversion:
    members = [
        (field["name"], conversion(field["type"], definitions, where=f"{where}.{field['name']}", depth=depth, choices=choices))
        for field in schema["fields"]
    ]
    if "" in (names := [name.lower() for name, _ in members]) or len(set(names)) < len(names):
        msg = (
            f"{where}: two members of a struct would have one name in Delta, which does not distinguish upper and lower case, or one has none; exclude the "
            "column with columns.exclude, or flatten it in the connector"
        )
        raise ParkError(msg)
    kind = t.StructType([t.StructField(name, member.type) for name, member in members])
    avro = {
        "type": "record",
        "name": schema["name"],
        "namespace": schema.get("namespace", ""),
        "fields": [{"name": n, "type": ["null", m.avro]} for n, m in members],
    }
    sql: Sql | None = None
    if any(member.sql is not None for _, member in members):

        def rebuild(path: str) -> str:
            parts = ", ".join(f"{text_sql(name)}, {member.convert(f'{path}.{quote(name)}')}" for name, member in members)
            return f"IF({path} IS NULL, NULL, named_struct({parts}))"

        sql = rebuild
    failing = [(name, member.failed) for name, member in members if member.failed is not None]
    failed: Sql | None = None
    if failing:
        failed = lambda path: "(" + " OR ".join(f"{check(f'{path}.{quote(name)}')}" for name, check in failing) + ")"  # noqa: E731
    return Conversion(kind, avro, sql, failed)


def _array(item: Conversion, depth: int) -> Conversion:
    variable = f"e{depth}"
    convert, check = item.sql, item.failed
    return Conversion(
        t.ArrayType(item.type),
        {"type": "array", "items": ["null", item.avro]},
        None if convert is None else lambda path: f"transform({path}, {variable} -> {convert(variable)})",
        None if check is None else lambda path: f"coalesce(exists({path}, {variable} -> {check(variable)}), false)",
    )


def _map(value: Conversion, depth: int) -> Conversion:
    key, variable = f"k{depth}", f"e{depth}"
    convert, check = value.sql, value.failed
    return Conversion(
        t.MapType(t.StringType(), value.type),
        {"type": "map", "values": ["null", value.avro]},
        None if convert is None else lambda path: f"transform_values({path}, ({key}, {variable}) -> {convert(variable)})",
        None if check is None else lambda path: f"coalesce(exists(map_values({path}), {variable} -> {check(variable)}), false)",
    )


def quote(name: str) -> str:
    """Return a column name quoted for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def text_sql(text: str) -> str:
    """Return the SQL literal of a text.

    A dollar sign is escaped too, so that Spark finds no ``${...}`` to substitute.
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"


def type_sql(kind: t.DataType) -> str:
    """Return a type for Spark SQL, with the names of struct members quoted, unlike
    ``simpleString``.
    """
    match kind:
        case t.ArrayType():
            return f"ARRAY<{type_sql(kind.elementType)}>"
        case t.MapType():
            return f"MAP<{type_sql(kind.keyType)}, {type_sql(kind.valueType)}>"
        case t.StructType():
            return f"STRUCT<{', '.join(f'{quote(one.name)}: {type_sql(one.dataType)}' for one in kind.fields)}>"
        case _:
            return kind.simpleString()


def orderable(kind: t.DataType) -> bool:
    """Return True if Spark can compare values of this type; a map or a variant inside
    prevents it.
    """
    match kind:
        case t.MapType() | t.VariantType():
            return False
        case t.ArrayType():
            return orderable(kind.elementType)
        case t.StructType():
            return all(orderable(field.dataType) for field in kind.fields)
        case _:
            return True
