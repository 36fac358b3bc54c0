"""HoistField: wraps the whole key or value in a struct of one field."""

from __future__ import annotations

from dblog.codecs.schema import Field, Kind, Schema
from dblog.config.options import Settings
from dblog.transforms.options import text
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Effect, TransformPlugin
from dblog.transforms.record import Record
from dblog.transforms.structs import Derived


class HoistField:
    """The name of the field."""

    effect = Effect.CHANGES

    def __init__(self, part: Part, name: str) -> None:
        self._part = part
        self._name = name
        self._schemas = Derived(self._hoisted)

    def apply(self, record: Record) -> Record:
        """Return the record with the wrapped part. A null without schema becomes a map of null."""
        schema = self._part.schema_of(record)
        wrapped = {self._name: self._part.of(record)}
        return self._part.replaced(record, None if schema is None else self._schemas.of(schema), wrapped)

    def _hoisted(self, schema: Schema) -> Schema:
        return Schema(kind=Kind.STRUCT, fields=(Field(name=self._name, schema=schema),))


def _make(settings: Settings, part: Part) -> HoistField:
    return HoistField(part, settings.text("field"))


HOIST_FIELD = TransformPlugin(
    class_name="org.apache.kafka.connect.transforms.HoistField",
    doc="Wraps the whole key or value in a struct of one field.",
    make=_make,
    options=(text("field", "Name of the field.", required=True),),
    parts=(Part.KEY, Part.VALUE),
)
