"""Makes SQL that turns a Delta value back into the Avro bytes that its record had, for
fingerprints.

It reverses the conversions of ``schema/types.py`` (schemas/README.md). A record in Avro binary is
the concatenation of its fields, so each column is encoded separately and no record is built. A
column that cannot be turned back exactly is reported by name. A value that the source cannot hold,
such as NULL in a NOT NULL column or a fraction of a second that the source's type lacks, becomes
NULL, so that no fingerprint equals it.

No conversion rounds, wraps or fails. Casts are ``try_cast``, because rows that somebody else wrote
must not stop a comparison.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import types as t

from dblog_sink.schema.evolve import wider
from dblog_sink.schema.types import (
    INFINITE_DATE,
    INFINITE_MICROS,
    LAST_DATE,
    LONG_MAX,
    MINUS_INFINITE_MICROS,
    Conversion,
    conversion,
    quote,
    text_sql,
    type_sql,
)

FRACTION = "io.dblog.fraction"
"""Schema parameter of a TIMESTAMP in verify markers: number of fractional digits of its text."""

Sql = Callable[[str], str]


class NoWayBackError(Exception):
    """Raised when a column does not hold what its record had; the text gives the reason."""


def field_bytes(schema: Any, definitions: Mapping[str, Any], *, held: t.DataType, path: str, where: str) -> str:
    """Return SQL of one field's Avro bytes.

    ``schema`` is its Avro type and ``held`` the type of the Delta column at ``path``. Raise
    NoWayBackError if the column cannot be turned back.
    """
    if not isinstance(schema, list):
        return _value(schema, definitions, held, path, where)
    at = schema.index("null") if "null" in schema else -1
    if len(schema) != 2 or at < 0:  # noqa: PLR2004  null and one other
        msg = "its type is a union"
        raise NoWayBackError(msg)
    value = _value(schema[1 - at], definitions, held, path, where)
    none, some = _branch(at), _branch(1 - at)
    return f"IF({path} IS NULL, {none}, concat({some}, {value}))"


def _branch(number: int) -> str:
    return f"X'{2 * number:02X}'"


def _value(schema: Any, definitions: Mapping[str, Any], held: t.DataType, path: str, where: str) -> str:
    while isinstance(schema, dict) and not isinstance(schema["type"], str):
        schema = schema["type"]
    if isinstance(schema, str) and schema in definitions:
        schema = definitions[schema]
    made = conversion(schema, definitions, where=where)
    if made.bounded is not None and isinstance(held, type(made.bounded.type)):
        made = made.bounded
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "record" and isinstance(made.type, t.StringType) and held == made.type:
        return _variable_decimal(path)
    if kind == "record":
        return _record(schema, definitions, held, path, where)
    if kind == "array" and isinstance(held, t.ArrayType):
        return _array(schema["items"], definitions, held.elementType, path, where)
    if kind in ("array", "map", "enum", "fixed"):
        msg = f"its type is {kind}"
        raise NoWayBackError(msg)
    if held != made.type:
        if wider(held, made.type) != held:
            msg = f"it is {held.simpleString()} in Delta, and a value of the source is {made.type.simpleString()}"
            raise NoWayBackError(msg)
        cast = f"try_cast({path} AS {type_sql(made.type)})"
        path = f"IF(try_cast({cast} AS {type_sql(held)}) <=> {path}, {cast}, NULL)"
    return _scalar(schema, kind, made, path)


def _scalar(schema: Any, kind: str, made: Conversion, path: str) -> str:
    name = "" if isinstance(schema, str) else schema.get("connect.name", "")
    logical = None if isinstance(schema, str) else schema.get("logicalType")
    if isinstance(made.type, t.DecimalType):
        own = {"type": "bytes", "logicalType": "decimal", "precision": made.type.precision, "scale": made.type.scale}
        return _avro(path, own)
    match kind, made.type:
        case "bytes", t.StringType():
            return _long_decimal(path, int(schema.get("scale", 0)))
        case "boolean", _:
            return f"IF({path}, X'01', X'00')"
        case "int" | "long", t.DateType():
            return _number(f"IF(unix_date({path}) = {LAST_DATE}, {INFINITE_DATE}, unix_date({path}))")
        case "int" | "long", t.TimestampNTZType() | t.TimestampType():
            return _number(_instant(name, logical, f"unix_micros(CAST({path} AS TIMESTAMP))"))
        case "int" | "long", _:
            return _number(_time_of_day(name, logical, path))
        case "string", t.DateType():
            return _text(f"concat(CAST({path} AS STRING), 'Z')")
        case "string", t.TimestampNTZType():
            return _text(f"concat(replace(CAST({path} AS STRING), ' ', 'T'), 'Z')")
        case "string", t.TimestampType():
            return _text(_zoned(path, schema))
        case "string", t.StringType():
            return _text(path)
        case _, t.FloatType() | t.DoubleType() | t.BinaryType():
            return _avro(path, kind)
    msg = f"a {made.type.simpleString()} has no bytes"  # a VARIANT, whose text is not kept
    raise NoWayBackError(msg)


def _instant(name: str, logical: str | None, micros: str) -> str:
    """Return SQL of the source's number for microseconds since 1970."""
    if name.endswith(".NanoTimestamp"):
        ends = f"CASE {micros} WHEN {INFINITE_MICROS}L THEN {LONG_MAX}L WHEN {MINUS_INFINITE_MICROS}L THEN {-LONG_MAX}L - 1L"
        return f"{ends} ELSE try_multiply({micros}, 1000L) END"
    if name.endswith(".Timestamp") or (logical or "").endswith("timestamp-millis"):
        return _exact(micros, 1000)
    return micros


def _time_of_day(name: str, logical: str | None, path: str) -> str:
    """Return SQL of a time's number in the source's unit from microseconds since midnight.

    A column that is not a time keeps its number.
    """
    if name in ("io.debezium.time.Time", "org.apache.kafka.connect.data.Time") or logical == "time-millis":
        return _exact(path, 1000)
    return f"try_multiply({path}, 1000L)" if name.endswith(".NanoTime") else path


def _exact(number: str, unit: int) -> str:
    return f"IF(pmod({number}, {unit}L) = 0, {number} div {unit}L, NULL)"


def _zoned(path: str, schema: Mapping[str, Any]) -> str:
    """Return SQL of an instant in UTC, with as many fractional digits as the source's column has.

    Delta does not know that number, so it comes from the marker's schema.
    """
    given = schema.get("connect.parameters", {}).get(FRACTION)
    if given is None or not str(given).isdigit() or int(given) > 6:  # noqa: PLR2004  microseconds
        msg = f"how many digits of a second its TIMESTAMP has is not known (the marker's schema has no {FRACTION})"
        raise NoWayBackError(msg)
    digits = int(given)
    # A cast writes years after 9999 and before 1 as the source's connector does; a pattern of
    # date_format cannot.
    second = f"replace(substring_index(CAST({path} AS STRING), '.', 1), ' ', 'T')"
    micros, unit = f"unix_micros({path})", 10 ** (6 - digits)
    part = f", '.', lpad(CAST(pmod({micros}, 1000000L) div {unit}L AS STRING), {digits}, '0')" if digits else ""
    text = f"IF(pmod({micros}, {unit}L) = 0, concat({second}{part}, 'Z'), NULL)"
    return f"CASE {micros} WHEN {INFINITE_MICROS}L THEN 'infinity' WHEN {MINUS_INFINITE_MICROS}L THEN '-infinity' ELSE {text} END"


def _record(schema: Mapping[str, Any], definitions: Mapping[str, Any], held: t.DataType, path: str, where: str) -> str:
    kinds = {field.name: field.dataType for field in held.fields} if isinstance(held, t.StructType) else {}
    members = [(field["name"], field["type"]) for field in schema["fields"]]
    if [name for name, _ in members] != list(kinds):
        msg = f"it is {held.simpleString()} in Delta, which is another record"
        raise NoWayBackError(msg)
    return concatenated(
        field_bytes(kind, definitions, held=kinds[name], path=f"{path}.{quote(name)}", where=f"{where}.{name}") for name, kind in members
    )


def _array(items: Any, definitions: Mapping[str, Any], held: t.DataType, path: str, where: str) -> str:
    """Return SQL of an array as one Avro block: item count, items, end mark."""
    bare = next((one for one in items if one != "null"), None) if isinstance(items, list) else items
    if (
        bare in _BOTH and conversion(bare, definitions, where=where).type == held
        # Spark writes these whole arrays at once, because Avro and Spark have the same item type.
    ):
        array = _avro(path, {"type": "array", "items": items})
        return array if isinstance(items, list) else f"IF(exists({path}, x -> x IS NULL), NULL, {array})"
    variable = f"e{where.count('[')}"
    each = field_bytes(items, definitions, held=held, path=variable, where=f"{where}[]")
    whole = f"aggregate(transform({path}, {variable} -> {each}), {_NOTHING}, (done, one) -> concat(done, one))"
    return f"IF(size({path}) = 0, X'00', concat({_number(f'size({path})')}, {whole}, X'00'))"


_BOTH = ("float", "double", "int", "long", "string")


_LIMBS, _LIMB = 9, 32
"""Number of limbs of a long decimal, and bits in each. 288 bits hold more than 76 digits."""
_GROUP = 9
"""Number of decimal digits added in one step."""
_DIGITS_OF_LIMB = 9.6
"""Number of decimal digits that certainly fit into a limb."""
_DIGITS_MAX = 1300
"""Most digits that are turned back, without leading zeros. The sink writes out 1234 at most
(types.NUMBER_BYTES_MAX), and the work grows with the square.
"""
_VARIABLE = "-?(0|[1-9][0-9]*)([.][0-9]*[1-9])?"
"""Matches a number of any scale written without redundant zeros."""


def _long_decimal(path: str, scale: int) -> str:
    """Return SQL of the Avro bytes of a decimal kept as text, with ``scale`` digits after the
    point.
    """
    shape = f"-?[0-9]{{1,76}}[.][0-9]{{{scale}}}" if scale else "-?[0-9]{1,76}"
    zero = "array(" + ", ".join(["0L"] * _LIMBS) + ")"
    return f"IF(regexp_like({path}, '^({shape})$'), {_unscaled(path, zero)}, NULL)"


def _variable_decimal(path: str) -> str:
    """Return SQL of the Avro bytes of a VariableScaleDecimal kept as text: scale, then unscaled
    value.
    """
    scale = f"IF(contains({path}, '.'), length(substring_index({path}, '.', -1)), 0)"
    zero = f"array_repeat(0L, CAST(length({_digits(path)}) / {_DIGITS_OF_LIMB}D AS INT) + 2)"
    whole = f"concat({_number(scale)}, {_unscaled(path, zero)})"
    return f"IF(length({_digits(path)}) <= {_DIGITS_MAX} AND regexp_like({path}, '^({_VARIABLE})$') AND {path} <> '-0', {whole}, NULL)"


def _digits(path: str) -> str:
    return f"ltrim('0', translate({path}, '-.', ''))"


def _unscaled(path: str, zero: str) -> str:
    """Return SQL of the Avro bytes of the integer made of all digits of a text.

    The bytes are the shortest big-endian two's complement. ``zero`` is SQL of an array with enough
    zero limbs. Digits are added nine at a time: each step multiplies all limbs by a billion and
    adds the carry of the limb before, so until the end a limb may exceed its 32 bits by a third;
    63 bits hold the next product of that. For a negative number its absolute value minus one is
    computed, then all bits are inverted.
    """
    negative = f"startswith({path}, '-')"
    count = f"greatest(1, CAST(ceil(length({_digits(path)}) / {_GROUP}) AS INT))"
    padded = f"lpad({_digits(path)}, {_GROUP} * {count}, '0')"
    groups = f"transform(sequence(1, {count}), i -> try_cast(substring({padded}, {_GROUP} * (i - 1) + 1, {_GROUP}) AS BIGINT))"
    size, times = f"{1 << _LIMB}L", f"{10**_GROUP}L"
    step = f"transform(a, (x, j) -> x * {times} % {size} + IF(j = 0, g, get(a, j - 1) * {times} DIV {size}))"
    limbs = f"aggregate({groups}, {zero}, (a, g) -> {step})"
    carried = (
        f"aggregate(a, named_struct('done', CAST(array() AS ARRAY<BIGINT>), 'carry', IF({negative}, -1L, 0L)),"
        f" (s, x) -> named_struct('done', concat(s.done, array(pmod(x + s.carry, {size}))),"
        f" 'carry', (x + s.carry - pmod(x + s.carry, {size})) DIV {size}), s -> s.done)"
    )
    limbs = f"transform(array({limbs}), a -> {carried})[0]"
    whole = f"regexp_replace(array_join(transform(reverse({limbs}), x -> lpad(hex(x), {_LIMB // 4}, '0')), ''), '^(00)+', '')"
    # The first bit is the sign.
    signed = f"transform(array({whole}), h -> IF(h = '' OR h >= '8', concat('00', h), h))[0]"
    digits = "".join(f"{n:X}" for n in range(16))
    turned = f"IF({negative}, translate({signed}, '{digits}', '{digits[::-1]}'), {signed})"
    return _avro(f"unhex({turned})", "bytes")


def concatenated(parts: Any) -> str:
    """Return SQL that concatenates these bytes; empty bytes if there are none."""
    return f"concat({', '.join([*parts] or [_NOTHING])})"


_NOTHING = "CAST('' AS BINARY)"


def _number(sql: str) -> str:
    return _avro(f"CAST({sql} AS BIGINT)", "long")


def _text(sql: str) -> str:
    return _avro(sql, "string")


def _avro(sql: str, schema: Any) -> str:
    return f"to_avro({sql}, {text_sql(json.dumps(schema))})"
