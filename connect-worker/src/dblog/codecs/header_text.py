"""Writes values as Connect's default SimpleHeaderConverter does (the text of
org.apache.kafka.connect.data.Values.append), which is how record headers hold them.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from datetime import date
from decimal import Context, Decimal
from typing import Any

from dblog.codecs import avro
from dblog.codecs.javatext import double_text, float_text
from dblog.codecs.schema import Kind, Schema


def header_text(schema: Schema | None, value: Any) -> str:
    """Return a header's value as text. Text and bytes outside a struct have no quotes."""
    if schema is None:
        return _plain_text(value)
    match schema.kind:
        case Kind.STRING:
            return str(value)
        case Kind.BYTES if schema.name != avro.DECIMAL:
            return b64encode(value).decode()
        case _:
            return member_text(schema, value)


def _plain_text(value: Any, *, inside: bool = False) -> str:
    """Return the text of a value without schema."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return double_text(value)
        case str():
            return _quoted(value) if inside else value
        case bytes():
            text = b64encode(value).decode()
            return f'"{text}"' if inside else text
        case Mapping():
            return "{" + ",".join(f"{_plain_text(k, inside=True)}:{_plain_text(v, inside=True)}" for k, v in value.items()) + "}"
        case list() | tuple():
            return "[" + ",".join(_plain_text(item, inside=True) for item in value) + "]"
        case _:
            return str(value)


def struct_text(schema: Schema, value: Mapping[str, Any]) -> str:
    """Return a struct with the names of its fields."""
    members = (f"{_quoted(f.name)}:{member_text(f.schema, _or_default(f.schema, value.get(f.name)))}" for f in schema.fields)
    return "{" + ",".join(members) + "}"


def _or_default(schema: Schema, value: Any) -> Any:
    """Return the field's default instead of null, as Connect's Struct does."""
    return schema.default if value is None else value


def member_text(schema: Schema, value: Any) -> str:
    """Return a value as it is written inside a struct, list or map."""
    if value is None:
        return "null"
    if schema.name in _DATE_UNITS:
        return _java_date(int(value) * _DATE_UNITS[schema.name])
    match schema.kind:
        case Kind.BOOLEAN:
            return "true" if value else "false"
        case Kind.STRING:
            return _quoted(value)
        case Kind.BYTES if schema.name == avro.DECIMAL:
            scale = int(dict(schema.parameters).get("scale", "0"))
            return str(Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, Context(prec=100)))
        case Kind.BYTES:
            return f'"{b64encode(value).decode()}"'
        case Kind.FLOAT32:
            return float_text(value)
        case Kind.FLOAT64:
            return double_text(value)
        case Kind.ARRAY:
            assert schema.items is not None
            return "[" + ",".join(member_text(schema.items, item) for item in value) + "]"
        case Kind.MAP:
            assert schema.keys is not None
            assert schema.items is not None
            keys, items = schema.keys, schema.items
            return "{" + ",".join(f"{member_text(keys, k)}:{member_text(items, v)}" for k, v in value.items()) + "}"
        case Kind.STRUCT:
            return struct_text(schema, value)
        case _:
            return str(value)


_MILLIS_PER_DAY = 86_400_000
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_YEARS_PER_ERA, _DAYS_PER_ERA = 400, 146_097
_DATE_UNITS = {avro.DATE: _MILLIS_PER_DAY, avro.TIME: 1, avro.TIMESTAMP: 1}


def _java_date(millis: int) -> str:
    """Return a time as ``Values.dateFormatFor`` prints it: a time of day before 1970-01-02, a date
    if it is a whole day, otherwise both.
    """
    seconds, fraction = divmod(millis % _MILLIS_PER_DAY, 1000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:03d}Z"
    if millis < _MILLIS_PER_DAY:
        return clock
    # The calendar repeats every 400 years, and Python's ends in the year 9999.
    eras, day_of_era = divmod(millis // _MILLIS_PER_DAY + _EPOCH_DAY - 1, _DAYS_PER_ERA)
    like = date.fromordinal(day_of_era + 1)
    day = f"{like.year + eras * _YEARS_PER_ERA:04d}-{like.month:02d}-{like.day:02d}"
    return day if millis % _MILLIS_PER_DAY == 0 else f"{day}T{clock}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
