"""VectorToJsonConverter: writes vectors of a row as JSON texts, also inside structs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dblog.codecs.javatext import double_text, float_text
from dblog.codecs.schema import Field, Kind, Schema
from dblog.config.options import Settings
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Effect, TransformPlugin
from dblog.transforms.record import Record
from dblog.transforms.structs import Derived, like, require_struct, with_default

_DENSE = ("io.debezium.data.DoubleVector", "io.debezium.data.FloatVector")
_SPARSE = "io.debezium.data.SparseDoubleVector"
_JSON = Schema(kind=Kind.STRING, name="io.debezium.data.Json", version=1)


class VectorToJsonConverter:
    """The transform has no options."""

    effect = Effect.CHANGES

    def __init__(self) -> None:
        self._schemas = Derived(_without_vectors)

    def apply(self, record: Record) -> Record:
        """Return the record with texts for its vectors; null stays null."""
        if record.is_tombstone:
            return record
        value = require_struct(record.value_schema, record.value, "Value should be a struct.")
        assert record.value_schema is not None
        return record.with_value(self._schemas.of(record.value_schema), _texts(record.value_schema, value))


def _without_vectors(schema: Schema) -> Schema:
    fields: list[Field] = []
    for field in schema.fields:
        if field.schema.name in (*_DENSE, _SPARSE):
            fields.append(Field(name=field.name, schema=_JSON.as_optional() if field.schema.optional else _JSON))
        elif field.schema.kind is Kind.STRUCT:
            # A struct that may be null stays one; Debezium makes it required, and fails where it is null.
            inside = _without_vectors(field.schema)
            fields.append(Field(name=field.name, schema=inside.as_optional() if field.schema.optional else inside))
        else:
            fields.append(field)
    return like(schema, tuple(fields))


def _texts(schema: Schema, struct: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for field in schema.fields:
        value = with_default(struct, field)
        if value is not None and field.schema.name in _DENSE:
            value = _dense(field.schema, value)
        elif value is not None and field.schema.name == _SPARSE:
            members = ", ".join(f'"{at}": {double_text(number)}' for at, number in sorted(value["vector"].items()))
            value = f'{{ "dimensions": {value["dimensions"]}, "vector": {{ {members} }} }}'
        elif value is not None and field.schema.kind is Kind.STRUCT:
            value = _texts(field.schema, value)
        made[field.name] = value
    return made


def _dense(schema: Schema, values: list[float]) -> str:
    text = float_text if schema.items is not None and schema.items.kind is Kind.FLOAT32 else double_text
    return f'{{ "values": [{", ".join(map(text, values))}] }}'


def _make(_settings: Settings, _part: Part) -> VectorToJsonConverter:
    return VectorToJsonConverter()


VECTOR_TO_JSON_CONVERTER = TransformPlugin(
    class_name="io.debezium.transforms.VectorToJsonConverter",
    doc="Writes vectors as JSON texts.",
    make=_make,
)
