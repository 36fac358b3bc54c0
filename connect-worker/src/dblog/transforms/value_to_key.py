"""ValueToKey: makes the key of fields of the value."""

from __future__ import annotations

from collections.abc import Sequence

from dblog.codecs.schema import Field, Kind, Schema
from dblog.config.options import Importance, Settings
from dblog.transforms.faults import RecordError
from dblog.transforms.options import REPLACE_NULL, names
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Effect, TransformPlugin
from dblog.transforms.record import Record
from dblog.transforms.structs import Derived, field_of, getter, require_map, require_struct

_PURPOSE = "copying fields from value to key"


class ValueToKey:
    """The fields of the key, in its order."""

    effect = Effect.CHANGES

    def __init__(self, fields: Sequence[str], *, replace_null_with_default: bool = True) -> None:
        self._fields = tuple(fields)
        self._get = getter(replace_null_with_default=replace_null_with_default)
        self._schemas = Derived(self._key_schema)

    def apply(self, record: Record) -> Record:
        """Return the record with its new key. A tombstone has no fields, and is an error."""
        if record.value_schema is None:
            given = require_map(record.value, _PURPOSE)
            return record.with_key(None, {name: given.get(name) for name in self._fields})
        struct = require_struct(record.value_schema, record.value, _PURPOSE)
        schema = self._schemas.of(record.value_schema)
        get = self._get
        return record.with_key(schema, {field.name: get(struct, field) for field in schema.fields})

    def _key_schema(self, schema: Schema) -> Schema:
        found: list[Field] = []
        for name in self._fields:
            field = field_of(schema, name)
            if field is None:
                raise RecordError(f"Field does not exist: {name}")
            found.append(field)
        return Schema(kind=Kind.STRUCT, fields=tuple(found))


def _make(settings: Settings, _part: Part) -> ValueToKey:
    return ValueToKey(settings.items_of("fields"), replace_null_with_default=settings.boolean(REPLACE_NULL.name))


VALUE_TO_KEY = TransformPlugin(
    class_name="org.apache.kafka.connect.transforms.ValueToKey",
    doc="Makes the key of fields of the value.",
    make=_make,
    options=(names("fields", "Fields of the value that make the key.", required=True, importance=Importance.HIGH), REPLACE_NULL),
)
