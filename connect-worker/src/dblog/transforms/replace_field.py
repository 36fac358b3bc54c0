"""ReplaceField: leaves fields out, or gives them other names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from dblog.codecs.schema import Field, Schema
from dblog.config.options import Kind, Option, Settings, Value
from dblog.transforms.options import REPLACE_NULL, names
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Effect, TransformPlugin
from dblog.transforms.record import Record
from dblog.transforms.structs import Derived, field_of, getter, like, require_map, require_struct

_PURPOSE = "field replacement"


class ReplaceField:
    """Fields to leave out, fields to keep (empty: all others), and new names."""

    effect = Effect.CHANGES

    def __init__(
        self,
        part: Part,
        *,
        exclude: Collection[str] = (),
        include: Collection[str] = (),
        renames: Mapping[str, str] | None = None,
        replace_null_with_default: bool = True,
    ) -> None:
        self._part = part
        self._exclude = frozenset(exclude)
        self._include = frozenset(include)
        self._renames = dict(renames or {})
        self._source_of = {new: old for old, new in self._renames.items()}
        self._get = getter(replace_null_with_default=replace_null_with_default)
        self._shapes = Derived(self._shape)

    def apply(self, record: Record) -> Record:
        """Return the record with the fields that stay."""
        value = self._part.of(record)
        if value is None:
            return record
        schema = self._part.schema_of(record)
        if schema is None:
            given = require_map(value, _PURPOSE)
            kept = {self._renames.get(name, name): one for name, one in given.items() if self._stays(name)}
            return self._part.replaced(record, None, kept)
        struct = require_struct(schema, value, _PURPOSE)
        updated, sources = self._shapes.of(schema)
        get = self._get
        made = {name: get(struct, field) for name, field in sources}
        return self._part.replaced(record, updated, made)

    def _stays(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def _shape(self, schema: Schema) -> tuple[Schema, tuple[tuple[str, Field], ...]]:
        fields = tuple(
            Field(name=self._renames.get(field.name, field.name), schema=field.schema) for field in schema.fields if self._stays(field.name)
        )
        sources: list[tuple[str, Any]] = []
        for field in fields:
            source = field_of(schema, self._source_of.get(field.name, field.name))
            if source is not None:
                sources.append((field.name, source))
        return like(schema, fields), tuple(sources)


def without_fields(record: Record, part: Part, fields: Collection[str]) -> Record:
    """Return the record without some fields of a part. Null becomes the default, as Debezium has
    it.
    """
    return ReplaceField(part, exclude=fields).apply(record) if fields else record


def renames_of(value: Value) -> dict[str, str]:
    """Return the new names by old ones. Raise ValueError for an entry that is not ``old:new``."""
    renames: dict[str, str] = {}
    for entry in value if isinstance(value, tuple) else ():
        parts = entry.split(":")
        if len(parts) != 2:  # noqa: PLR2004 - the old name and the new one
            raise ValueError(f"Invalid rename mapping: {entry}")
        renames[parts[0]] = parts[1]
    return renames


def _check_renames(value: Value, _all: Mapping[str, Value]) -> str | None:
    try:
        renames_of(value)
    except ValueError as e:
        return str(e)
    return None


def _make(settings: Settings, part: Part) -> ReplaceField:
    return ReplaceField(
        part,
        exclude=settings.items_of("exclude"),
        include=settings.items_of("include"),
        renames=renames_of(settings.items_of("renames")),
        replace_null_with_default=settings.boolean(REPLACE_NULL.name),
    )


REPLACE_FIELD = TransformPlugin(
    class_name="org.apache.kafka.connect.transforms.ReplaceField",
    doc="Leaves fields out, or gives them other names.",
    make=_make,
    options=(
        names("exclude", "Fields to leave out; they are left out even if include names them."),
        names("include", "Fields to keep; all others are left out."),
        Option(name="renames", doc="New names of fields, as in old:new,other:another.", kind=Kind.LIST, default="", check=_check_renames),
        REPLACE_NULL,
    ),
    parts=(Part.KEY, Part.VALUE),
)
