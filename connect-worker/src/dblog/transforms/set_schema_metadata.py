"""SetSchemaMetadata: gives the schema of key or value another name or version."""

from __future__ import annotations

from dataclasses import replace

from dblog.codecs.schema import Kind, Schema
from dblog.config.options import Importance, Option, Settings
from dblog.config.options import Kind as OptionKind
from dblog.errors import ConfigError
from dblog.transforms.faults import RecordError
from dblog.transforms.options import REPLACE_NULL, text
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Effect, TransformPlugin
from dblog.transforms.record import Record
from dblog.transforms.structs import Derived, getter


class SetSchemaMetadata:
    """The new name and version; None leaves what is there."""

    effect = Effect.CHANGES

    def __init__(self, part: Part, *, name: str | None, version: int | None, replace_null_with_default: bool = True) -> None:
        self._part = part
        self._name = name
        self._version = version
        self._get = getter(replace_null_with_default=replace_null_with_default)
        self._schemas = Derived(self._renamed)

    def apply(self, record: Record) -> Record:
        """Return the record with the schema; a null without schema stays."""
        schema, value = self._part.schema_of(record), self._part.of(record)
        if schema is None:
            if value is None:
                return record
            raise RecordError("Schema required for [updating schema metadata]")
        updated = self._schemas.of(schema)
        if value is not None and schema.kind is Kind.STRUCT:
            value = {field.name: self._get(value, field) for field in schema.fields}
        return self._part.replaced(record, updated, value)

    def _renamed(self, schema: Schema) -> Schema:
        if schema.kind is not Kind.STRUCT:
            raise RecordError("Cannot list fields on non-struct type")  # as Connect fails, whatever it means
        return replace(
            schema,
            name=schema.name if self._name is None else self._name,
            version=schema.version if self._version is None else self._version,
        )


def _make(settings: Settings, part: Part) -> SetSchemaMetadata:
    name, version = settings.text_or_none("schema.name"), settings["schema.version"]
    if name is None and version is None:
        raise ConfigError({"schema.name": ["Neither schema name nor version configured"]})
    return SetSchemaMetadata(
        part,
        name=name,
        version=version if isinstance(version, int) else None,
        replace_null_with_default=settings.boolean(REPLACE_NULL.name),
    )


SET_SCHEMA_METADATA = TransformPlugin(
    class_name="org.apache.kafka.connect.transforms.SetSchemaMetadata",
    doc="Gives the schema of key or value another name or version.",
    make=_make,
    options=(
        text("schema.name", "Name of the schema.", importance=Importance.HIGH),
        Option(name="schema.version", doc="Version of the schema.", kind=OptionKind.INT, importance=Importance.HIGH),
        REPLACE_NULL,
    ),
    parts=(Part.KEY, Part.VALUE),
)
