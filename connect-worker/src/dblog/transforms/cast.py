"""Cast: gives fields, or the whole key or value, another primitive type, as Java casts and parses.

Bytes can only become text (base64); a Decimal can become any type.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dblog.codecs.header_text import member_text
from dblog.codecs.javatext import double_text, float_text
from dblog.codecs.schema import Field, Kind, Schema
from dblog.config.options import Importance, Option, Settings, Value
from dblog.config.options import Kind as OptionKind
from dblog.transforms.decimals import decimal_of, is_decimal
from dblog.transforms.faults import RecordError
from dblog.transforms.java_numbers import BITS, as_float32, float_to_int, parsed_float, parsed_int, wrapped
from dblog.transforms.options import REPLACE_NULL
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Effect, TransformPlugin
from dblog.transforms.record import Record
from dblog.transforms.structs import Derived, basics, getter, like, require_map, require_struct

_PURPOSE = "cast types"
_TARGETS = {
    "int8": Kind.INT8,
    "int16": Kind.INT16,
    "int32": Kind.INT32,
    "int64": Kind.INT64,
    "float32": Kind.FLOAT32,
    "float64": Kind.FLOAT64,
    "boolean": Kind.BOOLEAN,
    "string": Kind.STRING,
}
_OTHER_TYPES = ("bytes", "array", "map", "struct")
_NOT_CAST = (Kind.ARRAY, Kind.MAP, Kind.STRUCT)


class Cast:
    """Types by field; the key None stands for the whole key or value."""

    effect = Effect.CHANGES

    def __init__(self, part: Part, casts: Mapping[str | None, Kind], *, replace_null_with_default: bool = True) -> None:
        self._part = part
        self._casts = dict(casts)
        self._whole = self._casts.get(None)
        self._get = getter(replace_null_with_default=replace_null_with_default)
        self._schemas = Derived(self._cast_schema)

    def apply(self, record: Record) -> Record:
        """Return the record with cast values; null stays null."""
        value = self._part.of(record)
        if value is None:
            return record
        schema = self._part.schema_of(record)
        if schema is None:
            return self._part.replaced(record, None, self._without_schema(value))
        updated = self._schemas.of(schema)
        if self._whole is not None:
            return self._part.replaced(record, updated, cast_value(schema, value, self._whole))
        struct = require_struct(schema, value, _PURPOSE)
        made: dict[str, Any] = {}
        for field in schema.fields:
            found = self._get(struct, field)
            target = self._casts.get(field.name)
            made[field.name] = found if target is None else cast_value(field.schema, found, target)
        return self._part.replaced(record, updated, made)

    def _without_schema(self, value: Any) -> Any:
        if self._whole is not None:
            return cast_value(_inferred(value), value, self._whole)
        given = require_map(value, _PURPOSE)
        return {
            **given,
            **{
                name: None if (found := given.get(name)) is None else cast_value(_inferred(found), found, kind)
                for name, kind in self._casts.items()
                if name is not None
            },
        }

    def _cast_schema(self, schema: Schema) -> Schema:
        if self._whole is not None:
            made = replace(basics(schema), kind=self._whole, fields=(), items=None, keys=None)
        else:
            require_struct(schema, {}, _PURPOSE)
            made = like(schema, tuple(self._cast_field(field) for field in schema.fields))
        default = schema.default
        if default is not None and self._whole is not None:
            default = cast_value(schema, default, self._whole)
        return replace(made, optional=schema.optional, default=default)

    def _cast_field(self, field: Field) -> Field:
        kind = self._casts.get(field.name)
        if kind is None:
            return field
        default = None if field.schema.default is None else cast_value(field.schema, field.schema.default, kind)
        return Field(name=field.name, schema=Schema(kind=kind, optional=field.schema.optional, default=default))


def cast_value(schema: Schema, value: Any, target: Kind) -> Any:
    """Return a value as another type. Raise RecordError if Java could not cast or parse it."""
    if value is None:
        return None
    if schema.kind in _NOT_CAST:
        raise RecordError(f"Cast transformation does not support casting from {schema.kind.name}")
    if target is Kind.STRING:
        return _text(schema, value)
    if schema.kind is Kind.STRING:
        return _parsed(value, target)
    if is_decimal(schema):
        value = decimal_of(schema, value)
    elif schema.kind is Kind.BYTES:
        raise RecordError("Unexpected type in Cast transformation: bytes, which can only become string")
    return _converted(value, target)


def _converted(value: Any, target: Kind) -> Any:
    """Return a number or a boolean as another number or boolean."""
    if target in BITS:
        bits = BITS[target]
        return float_to_int(value, bits) if isinstance(value, float) else wrapped(int(value), bits)
    if target is Kind.BOOLEAN:
        whole = float_to_int(value, 64) if isinstance(value, float) else wrapped(int(value), 64)
        return whole != 0
    number = float(value)
    return as_float32(number) if target is Kind.FLOAT32 else number


def _parsed(text: str, target: Kind) -> Any:
    if target is Kind.BOOLEAN:
        return text.lower() == "true"
    try:
        if target in BITS:
            return parsed_int(text, BITS[target])
        number = parsed_float(text)
    except ValueError as e:
        raise RecordError(f"a text was out of range for the requested type {target.name}: {e}") from e
    return as_float32(number) if target is Kind.FLOAT32 else number


def _text(schema: Schema, value: Any) -> str:
    """Return the text of Java's toString; bytes as base64."""
    match schema.kind:
        case Kind.STRING:
            return str(value)
        case Kind.BYTES if not is_decimal(schema):
            return b64encode(value).decode()
        case Kind.FLOAT32:
            return float_text(value)
        case Kind.FLOAT64:
            return double_text(value)
        case _:
            return member_text(schema, value)


def _inferred(value: Any) -> Schema:
    match value:
        case bool():
            return Schema(kind=Kind.BOOLEAN)
        case int():
            return Schema(kind=Kind.INT64)
        case float():
            return Schema(kind=Kind.FLOAT64)
        case str():
            return Schema(kind=Kind.STRING)
        case bytes():
            return Schema(kind=Kind.BYTES)
        case list():
            return Schema(kind=Kind.ARRAY)
        case _:
            return Schema(kind=Kind.MAP)


def casts_of(value: Value) -> dict[str | None, Kind]:
    """Return the types by field. Raise ValueError with the reason for a wrong entry."""
    casts: dict[str | None, Kind] = {}
    entries = value if isinstance(value, tuple) else ()
    if not entries:
        raise ValueError("Must specify at least one field to cast.")
    for entry in entries:
        parts = [part.strip() for part in entry.split(":")]
        if len(parts) > 2:  # noqa: PLR2004 - a field and a type
            raise ValueError(f"Invalid rename mapping: {entry}")
        name = parts[-1].lower()
        kind = _TARGETS.get(name)
        if kind is None:
            if name in _OTHER_TYPES:
                raise ValueError(
                    f"Cast transformation does not support casting to {name.upper()}; supported types are {', '.join(_TARGETS)}"
                )
            raise ValueError(f"Invalid type found in casting spec: {parts[-1]}")
        casts[parts[0] if len(parts) > 1 else None] = kind
    if None in casts and len(entries) > 1:
        raise ValueError(
            "Cast transformations that specify a type to cast the entire value to may only specify a single cast in their spec"
        )
    return casts


def _check(value: Value, _all: object) -> str | None:
    try:
        casts_of(value)
    except ValueError as e:
        return str(e)
    return None


def _make(settings: Settings, part: Part) -> Cast:
    return Cast(part, casts_of(settings.items_of("spec")), replace_null_with_default=settings.boolean(REPLACE_NULL.name))


CAST = TransformPlugin(
    class_name="org.apache.kafka.connect.transforms.Cast",
    doc="Gives fields, or the whole key or value, another type.",
    make=_make,
    options=(
        Option(
            name="spec",
            doc=f"Types by field, as in a:int32,b:string, or one type for the whole. Types: {', '.join(_TARGETS)}.",
            kind=OptionKind.LIST,
            required=True,
            importance=Importance.HIGH,
            check=_check,
        ),
        REPLACE_NULL,
    ),
    parts=(Part.KEY, Part.VALUE),
)
