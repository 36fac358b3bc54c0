"""HeaderFrom, InsertHeader and DropHeaders: the transforms of record headers."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import Any

from dblog.codecs.schema import Field, Kind, Schema
from dblog.config.options import Importance, Option, Settings
from dblog.errors import ConfigError
from dblog.transforms.faults import RecordError
from dblog.transforms.java_numbers import as_float32, wrapped
from dblog.transforms.options import REPLACE_NULL, names, text
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Effect, TransformPlugin
from dblog.transforms.record import Header, Record
from dblog.transforms.structs import Derived, field_of, getter, like, require_map, require_struct

_PACKAGE = "org.apache.kafka.connect.transforms"
_INTEGERS = ((8, Kind.INT8), (16, Kind.INT16), (32, Kind.INT32), (64, Kind.INT64))
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_NUMBER_CHARS_MAX = 100


class HeaderFrom:
    """Fields and the headers for their values. ``moves`` takes the fields out of the part."""

    def __init__(
        self, part: Part, fields: Sequence[str], headers: Sequence[str], *, moves: bool, replace_null_with_default: bool = True
    ) -> None:
        self.effect = Effect.CHANGES if moves else Effect.ADDS
        self._part = part
        self._pairs = tuple(zip(fields, headers, strict=True))
        self._moves = moves
        self._purpose = f"header {'move' if moves else 'copy'}"
        self._get = getter(replace_null_with_default=replace_null_with_default)
        self._shapes = Derived(self._shape)

    def apply(self, record: Record) -> Record:
        """Return the record with the headers. A tombstone has no fields, and is an error."""
        schema, value = self._part.schema_of(record), self._part.of(record)
        if schema is None:
            given = require_map(value, self._purpose)
            added = tuple(Header(header, None, given.get(name)) for name, header in self._pairs)
            kept = {name: one for name, one in given.items() if not self._moves or all(name != moved for moved, _ in self._pairs)}
            return self._part.replaced(record.with_headers((*record.headers, *added)), None, kept)
        struct = require_struct(schema, value, self._purpose)
        updated, sources = self._shapes.of(schema)
        get = self._get
        added = tuple(Header(header, field.schema, get(struct, field)) for field, header in sources)
        made = record.with_headers((*record.headers, *added))
        if not self._moves:
            return made
        return self._part.replaced(made, updated, {field.name: get(struct, field) for field in updated.fields})

    def _shape(self, schema: Schema) -> tuple[Schema, tuple[tuple[Field, str], ...]]:
        sources: list[tuple[Field, str]] = []
        for name, header in self._pairs:
            field = field_of(schema, name)
            if field is None:
                raise RecordError(f"there is no field {name} for the header {header}")
            sources.append((field, header))
        moved = {name for name, _ in self._pairs}
        return like(schema, tuple(field for field in schema.fields if field.name not in moved)), tuple(sources)


class InsertHeader:
    """A header that every record gets."""

    effect = Effect.ADDS

    def __init__(self, header: Header) -> None:
        self._header = header

    def apply(self, record: Record) -> Record:
        """Return the record with the header after its others."""
        return record.with_headers((*record.headers, self._header))


class DropHeaders:
    """Names of headers that no record keeps."""

    effect = Effect.ADDS

    def __init__(self, dropped: Collection[str]) -> None:
        self._names = frozenset(dropped)

    def apply(self, record: Record) -> Record:
        """Return the record without the headers."""
        kept = tuple(header for header in record.headers if header.name not in self._names)
        return record if len(kept) == len(record.headers) else record.with_headers(kept)


def parsed_literal(literal: str) -> tuple[Schema | None, Any]:
    """Return schema and value of a literal as Connect's ``Values.parseString`` infers them.

    Raise ValueError for a list or a map, which are not known here.
    """
    trimmed = literal.strip()
    if trimmed.lower() in ("true", "false") and trimmed == literal:
        return Schema(kind=Kind.BOOLEAN), trimmed.lower() == "true"
    if trimmed == "null":
        return None, None
    if trimmed[:1] in "[{" and trimmed:
        raise ValueError("a list or a map as a header's value is not known here; write another text")
    if len(trimmed) <= _NUMBER_CHARS_MAX and _NUMBER.fullmatch(trimmed):
        number = Decimal(trimmed)
        if number == number.to_integral_value():
            whole = int(number)
            for bits, kind in _INTEGERS:
                if wrapped(whole, bits) == whole:
                    return Schema(kind=kind), whole
        narrow = as_float32(float(number))
        if abs(narrow) != float("inf"):
            return Schema(kind=Kind.FLOAT32), narrow
        return Schema(kind=Kind.FLOAT64), float(number)
    return Schema(kind=Kind.STRING), literal


def _make_header_from(settings: Settings, part: Part) -> HeaderFrom:
    fields, headers = settings.items_of("fields"), settings.items_of("headers")
    if len(fields) != len(headers):
        raise ConfigError({"fields": ["'fields' config must have the same number of elements as 'headers' config."]})
    return HeaderFrom(
        part,
        fields,
        headers,
        moves=settings.text("operation") == "move",
        replace_null_with_default=settings.boolean(REPLACE_NULL.name),
    )


def _make_insert_header(settings: Settings, _part: Part) -> InsertHeader:
    try:
        schema, value = parsed_literal(settings.text("value.literal"))
    except ValueError as e:
        raise ConfigError({"value.literal": [str(e)]}) from e
    return InsertHeader(Header(settings.text("header"), schema, value))


def _make_drop_headers(settings: Settings, _part: Part) -> DropHeaders:
    return DropHeaders(settings.items_of("headers"))


HEADER_FROM = TransformPlugin(
    class_name=f"{_PACKAGE}.HeaderFrom",
    doc="Copies or moves fields to headers.",
    make=_make_header_from,
    options=(
        names("fields", "Fields for the headers.", required=True, importance=Importance.HIGH),
        names("headers", "Names of the headers, in the order of fields.", required=True, importance=Importance.HIGH),
        Option(
            name="operation",
            doc="move takes the fields out of key or value, copy leaves them there.",
            required=True,
            importance=Importance.HIGH,
            choices=("move", "copy"),
        ),
        REPLACE_NULL,
    ),
    parts=(Part.KEY, Part.VALUE),
)
INSERT_HEADER = TransformPlugin(
    class_name=f"{_PACKAGE}.InsertHeader",
    doc="Adds a header to each record.",
    make=_make_insert_header,
    options=(
        text("header", "Name of the header.", required=True, importance=Importance.HIGH),
        text(
            "value.literal", "Value of the header; numbers, true and false are written as such.", required=True, importance=Importance.HIGH
        ),
    ),
)
DROP_HEADERS = TransformPlugin(
    class_name=f"{_PACKAGE}.DropHeaders",
    doc="Takes headers out of each record.",
    make=_make_drop_headers,
    options=(names("headers", "Names of the headers.", required=True, importance=Importance.HIGH),),
)
