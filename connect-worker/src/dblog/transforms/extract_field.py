"""ExtractField: one field becomes the whole key or value, by name or by a path of names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dblog.codecs.schema import Field, Schema
from dblog.config.options import Settings
from dblog.errors import ConfigError
from dblog.transforms.faults import RecordError
from dblog.transforms.options import REPLACE_NULL, text
from dblog.transforms.parts import Part
from dblog.transforms.paths import PATH_SYNTAX, steps_of
from dblog.transforms.plugin import Effect, TransformPlugin
from dblog.transforms.record import Record
from dblog.transforms.structs import Derived, field_of, require_map, require_struct_or_null, with_default, without_default

_PURPOSE = "field extraction"


class ExtractField:
    """A path of field names. Null stays null."""

    effect = Effect.CHANGES

    def __init__(self, part: Part, path: str, steps: tuple[str, ...], *, replace_null_with_default: bool) -> None:
        self._part = part
        self._path = path
        self._steps = steps
        self._get = with_default if replace_null_with_default else without_default
        self._fields = Derived(self._fields_along)

    def apply(self, record: Record) -> Record:
        """Return the record with the field in place of the part."""
        schema = self._part.schema_of(record)
        if schema is None:
            return self._part.replaced(record, None, self._from_map(self._part.of(record)))
        fields = self._fields.of(schema)
        struct = require_struct_or_null(schema, self._part.of(record), _PURPOSE)
        if fields is None:
            raise RecordError(f"Unknown field: {self._path}")
        value: Any = struct
        for field in fields[:-1]:
            if value is None:
                break
            value = with_default(value, field)
        return self._part.replaced(record, fields[-1].schema, None if value is None else self._get(value, fields[-1]))

    def _fields_along(self, schema: Schema) -> tuple[Field, ...] | None:
        fields: list[Field] = []
        for name in self._steps:
            field = field_of(schema, name)
            if field is None:
                return None
            fields.append(field)
            schema = field.schema
        return tuple(fields)

    def _from_map(self, value: Any) -> Any:
        for name in self._steps:
            if value is None:
                return None
            found: Mapping[str, Any] = require_map(value, _PURPOSE)
            value = found.get(name)
        return value


def _make(settings: Settings, part: Part) -> ExtractField:
    path = settings.text("field")
    try:
        steps = steps_of(path, settings.text(PATH_SYNTAX.name))
    except ValueError as e:
        raise ConfigError({"field": [str(e)]}) from e
    return ExtractField(part, path, steps, replace_null_with_default=settings.boolean(REPLACE_NULL.name))


EXTRACT_FIELD = TransformPlugin(
    class_name="org.apache.kafka.connect.transforms.ExtractField",
    doc="Makes one field the whole key or value. Null stays null.",
    make=_make,
    options=(
        text("field", "Name of the field, or its path with field.syntax.version=V2.", required=True),
        REPLACE_NULL,
        PATH_SYNTAX,
    ),
    parts=(Part.KEY, Part.VALUE),
)
