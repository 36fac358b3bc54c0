"""MaskField: replaces the values of fields by zero, an empty text, or a constant."""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal
from typing import Any

from dblog.codecs.avro import DATE, TIME, TIMESTAMP
from dblog.codecs.schema import Field, Kind, Schema
from dblog.config.options import Importance, Option, Settings, Value
from dblog.transforms.decimals import is_decimal, unscaled_of
from dblog.transforms.faults import RecordError
from dblog.transforms.java_numbers import BITS, as_float32, parsed_decimal, wrapped
from dblog.transforms.options import REPLACE_NULL, names
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Effect, TransformPlugin
from dblog.transforms.record import Record
from dblog.transforms.structs import Derived, getter, require_map, require_struct

_PURPOSE = "mask fields"
_TIMES = (DATE, TIME, TIMESTAMP)


class MaskField:
    """The masked fields, and the text of their replacement or None."""

    effect = Effect.CHANGES

    def __init__(
        self, part: Part, fields: Collection[str], *, replacement: str | None = None, replace_null_with_default: bool = True
    ) -> None:
        self._part = part
        self._fields = frozenset(fields)
        self._replacement = replacement
        self._get = getter(replace_null_with_default=replace_null_with_default)
        self._replaces_null = replace_null_with_default
        self._shapes = Derived(self._shape)

    def apply(self, record: Record) -> Record:
        """Return the record with masked fields. Null stays null, in a field."""
        schema, value = self._part.schema_of(record), self._part.of(record)
        if schema is None:
            made = dict(require_map(value, _PURPOSE))
            for name in self._fields & made.keys():
                made[name] = None if made[name] is None else self._masked_plain(made[name])
            return self._part.replaced(record, None, made)
        struct = require_struct(schema, value, _PURPOSE)
        masked, defaults = self._shapes.of(schema)
        made = dict(struct)
        for name, default in defaults:
            if made.get(name) is None:
                made[name] = default
        for field in masked:
            if self._get(struct, field) is not None:
                made[field.name] = self._masked(field.schema)
        return self._part.replaced(record, schema, made)

    def _shape(self, schema: Schema) -> tuple[tuple[Field, ...], tuple[tuple[str, Any], ...]]:
        replaced = schema.fields if self._replaces_null else ()
        return (
            tuple(field for field in schema.fields if field.name in self._fields),
            tuple((field.name, field.schema.default) for field in replaced if field.schema.default is not None),
        )

    def _masked(self, schema: Schema) -> Any:
        if self._replacement is None:
            return masked(schema)
        try:
            return replaced_by(schema, self._replacement)
        except ValueError as e:
            raise RecordError(f"the replacement does not fit a field of type {schema.name or schema.kind.value}: {e}") from e

    def _masked_plain(self, value: Any) -> Any:
        """Return the mask of a value without schema."""
        if self._replacement is not None:
            raise RecordError("a field without schema cannot be masked by a replacement")
        match value:
            case bool():
                return False
            case int() | float():
                return type(value)(0)
            case str():
                return ""
            case list():
                return []
            case dict():
                return {}
            case _:
                raise RecordError("Cannot mask value of this type")


def masked(schema: Schema) -> Any:
    """Return the null value of a type. Raise RecordError for bytes and structs, as Connect does."""
    match schema.kind:
        case Kind.BOOLEAN:
            return False
        case Kind.INT8 | Kind.INT16 | Kind.INT32 | Kind.INT64:
            return 0
        case Kind.FLOAT32 | Kind.FLOAT64:
            return 0.0
        case Kind.STRING:
            return ""
        case Kind.ARRAY:
            return []
        case Kind.MAP:
            return {}
        case Kind.BYTES if is_decimal(schema):
            return unscaled_of(schema, Decimal(0))
        case _:
            raise RecordError(f"Cannot mask value of type: {schema.kind.value}")


def replaced_by(schema: Schema, text: str) -> Any:
    """Return a replacement as a value of a type. Raise ValueError if the type or the text does not
    allow it.
    """
    if schema.kind in BITS and schema.name not in _TIMES:
        return wrapped(int(parsed_decimal(text)), BITS[schema.kind])
    match schema.kind:
        case Kind.FLOAT32:
            return as_float32(float(parsed_decimal(text)))
        case Kind.FLOAT64:
            return float(parsed_decimal(text))
        case Kind.STRING:
            return text
        case Kind.BYTES if is_decimal(schema):
            return unscaled_of(schema, parsed_decimal(text))
        case _:
            raise ValueError("this type cannot be masked by a replacement")


def _not_empty(value: Value, _all: object) -> str | None:
    return "String must be non-empty" if value == "" else None


def _make(settings: Settings, part: Part) -> MaskField:
    return MaskField(
        part,
        settings.items_of("fields"),
        replacement=settings.text_or_none("replacement"),
        replace_null_with_default=settings.boolean(REPLACE_NULL.name),
    )


MASK_FIELD = TransformPlugin(
    class_name="org.apache.kafka.connect.transforms.MaskField",
    doc="Replaces the values of fields by zero, an empty text, or a constant.",
    make=_make,
    options=(
        names("fields", "Fields to mask.", required=True, importance=Importance.HIGH),
        Option(
            name="replacement",
            doc="Constant for numbers and texts; absent: 0, an empty text, false.",
            importance=Importance.LOW,
            check=_not_empty,
        ),
        REPLACE_NULL,
    ),
    parts=(Part.KEY, Part.VALUE),
)
