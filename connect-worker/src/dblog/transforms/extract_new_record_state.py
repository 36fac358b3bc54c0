"""ExtractNewRecordState: unwraps the envelope, so that the record's value is the row.

Rows of other topics pass unchanged. What becomes of a delete and of the tombstone after it is one
choice (``delete.tombstone.handling.mode``). A truncate is dropped. Fields of the envelope and of its
blocks may be added to the row or to the headers.

Source of the rules: Debezium's AbstractExtractNewRecordState, ExtractNewRecordState and
DefaultDeleteHandlingStrategy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dblog.codecs import avro
from dblog.codecs.schema import Field, Kind, Schema
from dblog.config.options import Importance, Option, Settings, Value
from dblog.config.options import Kind as OptionKind
from dblog.transforms.envelopes import is_envelope, require_field, routed, text_of
from dblog.transforms.faults import RecordError
from dblog.transforms.options import flag, text
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Effect, TransformPlugin
from dblog.transforms.reading import reader
from dblog.transforms.record import Header, Read, Record
from dblog.transforms.replace_field import without_fields
from dblog.transforms.skipping import Skip, is_null, plain_skipper
from dblog.transforms.structs import Derived, basics, field_of, like

DELETED = "__deleted"
_OP = "op"
_DELETE = "d"
_STRING = Schema(kind=Kind.STRING)
_OPTIONAL_STRING = Schema(kind=Kind.STRING, optional=True)
_DELETED_BYTES = {text: avro.encode(_OPTIONAL_STRING, text) for text in ("true", "false")}
_IN_TRANSACTION = frozenset({"id", "data_collection_order", "total_order"})
_IN_ENVELOPE = frozenset({"op", "ts_ms", "ts_us", "ts_ns"})
_MODES = ("drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone")
_REWRITES = frozenset({"rewrite", "rewrite-with-tombstone"})


@dataclass(frozen=True, slots=True)
class FieldReference:
    """A field of the envelope, or of one of its blocks, that is added under another name.

    ``block`` is None for a field of the envelope itself.
    """

    block: str | None
    field: str
    new_name: str

    @classmethod
    def parsed(cls, prefix: str, entry: str) -> FieldReference:
        """Return the reference of one entry of ``add.fields`` or ``add.headers``: a name,
        ``block.name``, or either with ``:new_name``.

        Raise ValueError if the entry has another form.
        """
        parts = entry.split(":")
        if len(parts) > 2 or not parts[0]:  # noqa: PLR2004 - a field and its new name
            raise ValueError(f"Unexpected field name: {entry}")
        path = parts[0].split(".")
        field = path[0] if len(path) == 1 else path[1]
        block = _block_of(field) if len(path) == 1 else path[0]
        plain = field if len(path) == 1 else f"{block}_{field}"
        return cls(block, field, prefix + (plain if len(parts) == 1 else parts[1]))

    def found_in(self, envelope: Schema) -> FoundField | None:
        """Return how to read the field from envelopes of a schema; None if these do not have it.

        Raise RecordError if they lack the block.
        """
        block = None if self.block is None else field_of(envelope, self.block)
        if self.block is not None and block is None:
            raise RecordError(f"the record has no block {self.block}, of which {self.field} is to be added")
        inside = field_of(envelope if block is None else block.schema, self.field)
        own = field_of(envelope, self.field)
        found = inside or own
        if found is None:
            return None
        schema = basics(found.schema).as_optional()
        return FoundField(self.new_name, schema, None if inside is None else self.block, self.block, self.field)


@dataclass(frozen=True, slots=True)
class FoundField:
    """A field reference resolved for one schema of envelopes."""

    new_name: str
    schema: Schema
    block: str | None
    required_block: str | None
    field: str

    def value_in(self, envelope: Mapping[str, Any]) -> Any:
        """Return the value, without the field's default; None if the block is null."""
        if self.required_block is not None and envelope.get(self.required_block) is None:
            return None
        parent = envelope if self.block is None else envelope[self.block]
        return parent.get(self.field)


def _block_of(field: str) -> str | None:
    if field in _IN_TRANSACTION:
        return "transaction"
    return None if field in _IN_ENVELOPE else "source"


@dataclass(frozen=True, slots=True)
class _Shape:
    """Facts about one schema of envelopes that the transform needs for each record."""

    before: Field
    after: Field
    skip_before: Skip
    skip_after: Skip
    read_rest: Read
    """Reader of what follows both rows in the envelope's bytes."""
    writers: tuple[tuple[FoundField, avro.Write], ...]
    """Writers of the added fields."""
    defaults: tuple[tuple[str, Any], ...]
    """Fields of the row whose null becomes the default, if rows are rewritten."""
    fields: tuple[FoundField, ...]
    headers: tuple[FoundField, ...]


class ExtractNewRecordState:
    """The options of one use of the transform."""

    effect = Effect.CHANGES

    def __init__(
        self,
        *,
        mode: str = "tombstone",
        add_fields: Sequence[FieldReference] = (),
        add_headers: Sequence[FieldReference] = (),
        route_by_field: str | None = None,
        replace_null_with_default: bool = True,
        drop_header: str | None = None,
        drop_from_key: bool = False,
        drop_keeps_schema: bool = True,
    ) -> None:
        self._mode = mode
        self._rewrites = mode in _REWRITES
        self._add_fields = tuple(add_fields)
        self._add_headers = tuple(add_headers)
        self._route_by = route_by_field
        self._replaces_null = replace_null_with_default
        self._drop_header = drop_header
        self._drop_from_key = drop_from_key
        self._drop_keeps_schema = drop_keeps_schema
        self._cuts = not (route_by_field or drop_header)
        """True if no field of the row itself has to be read."""
        self._readers = Derived(reader)
        self._shapes = Derived(self._shape)
        self._rows = Derived(self._row)

    def apply(self, record: Record) -> Record | None:
        """Return the unwrapped record, None if it is dropped."""
        if record.is_tombstone:
            if self._mode != "rewrite-with-tombstone":
                return None
            added = tuple(Header(one.new_name, _STRING, _DELETE) for one in self._add_headers if one.field == _OP)
            return record.with_headers((*record.headers, *added)) if added else record
        if not is_envelope(record.value_schema):
            return record
        schema = record.value_schema
        assert schema is not None
        shape = self._shapes.of(schema)
        if self._cuts and record.value_bytes is not None and not (self._rewrites and shape.defaults):
            return self._cut(record, schema, shape, record.value_bytes)
        envelope: Mapping[str, Any] = record.value
        if shape.headers:
            added = tuple(Header(one.new_name, one.schema, one.value_in(envelope)) for one in shape.headers)
            record = record.with_headers((*record.headers, *added))
        row = envelope.get("after")
        if row is None:
            before = envelope.get("before")
            return None if before is None else self._deleted(record, shape, envelope, before)
        if self._route_by is not None:
            record = routed(record, text_of(shape.after.schema, row, self._route_by))
        made = record.with_value(self._rows.of(schema), self._unwrapped(shape, envelope, row, "false"))
        return made if self._drop_header is None else self._without_dropped(made)

    def _cut(self, record: Record, schema: Schema, shape: _Shape, data: bytes) -> Record | None:
        """Return the record with the row cut out of the envelope's bytes, the added fields after it."""
        has_before = not is_null(shape.before.schema, data, 0)
        at = shape.skip_before(data, 1) if has_before else 1
        has_after = not is_null(shape.after.schema, data, at)
        end = shape.skip_after(data, at + 1) if has_after else at + 1
        if not has_before and not has_after:
            return None
        rest = shape.read_rest(data[end:]) if shape.headers or shape.fields else {}
        if shape.headers:
            added = tuple(Header(one.new_name, one.schema, one.value_in(rest)) for one in shape.headers)
            record = record.with_headers((*record.headers, *added))
        if not has_after and not self._rewrites:
            return self._deleted(record, shape, {}, {})
        row = data[at + 1 : end] if has_after else data[1:at]
        if self._rewrites:
            row += _DELETED_BYTES["false" if has_after else "true"]
        if shape.writers:
            out = bytearray(row)
            for one, write in shape.writers:
                write(out, one.value_in(rest))
            row = bytes(out)
        made = self._rows.of(schema)
        return record.with_unread_value(made, row, self._readers.of(made))

    def _row(self, schema: Schema) -> Schema:
        """Return the schema of unwrapped rows, with the added fields."""
        shape = self._shapes.of(schema)
        rewritten = (Field(name=DELETED, schema=_OPTIONAL_STRING),) if self._rewrites else ()
        row = shape.after.schema
        return like(row, (*row.fields, *rewritten, *(Field(name=one.new_name, schema=one.schema) for one in shape.fields)))

    def _deleted(self, record: Record, shape: _Shape, envelope: Mapping[str, Any], before: Mapping[str, Any]) -> Record | None:
        if self._mode == "drop":
            return None
        if self._route_by is not None:
            record = routed(record, text_of(shape.before.schema, before, self._route_by))
        if self._mode == "delete-to-tombstone":
            return record.with_value(None, None)
        if not self._rewrites:
            # Debezium leaves the schema of the row here, which JSON with schemas shows.
            return record.with_value(shape.after.schema, None)
        assert record.value_schema is not None
        made = record.with_value(self._rows.of(record.value_schema), self._unwrapped(shape, envelope, before, "true"))
        return made if self._drop_header is None else self._without_dropped(made)

    def _unwrapped(self, shape: _Shape, envelope: Mapping[str, Any], row: Mapping[str, Any], deleted: str) -> dict[str, Any]:
        made = dict(row)
        if self._rewrites:
            for name, default in shape.defaults:
                if made.get(name) is None:
                    made[name] = default
            made[DELETED] = deleted
        for one in shape.fields:
            made[one.new_name] = one.value_in(envelope)
        return made

    def _shape(self, schema: Schema) -> _Shape:
        before, after = require_field(schema, "before"), require_field(schema, "after")
        fields = tuple(found for one in self._add_fields if (found := one.found_in(schema)) is not None)
        headers = tuple(found for one in self._add_headers if (found := one.found_in(schema)) is not None)
        columns = after.schema.fields
        replaced = columns if self._rewrites and self._replaces_null else ()
        defaults = tuple((field.name, field.schema.default) for field in replaced if field.schema.default is not None)
        assert schema.fields[:2] == (before, after), "an envelope begins with the rows"
        rest = reader(like(schema, schema.fields[2:]))
        writers = tuple((one, avro.writer(one.schema)) for one in fields)
        return _Shape(before, after, plain_skipper(before.schema), plain_skipper(after.schema), rest, writers, defaults, fields, headers)

    def _without_dropped(self, record: Record) -> Record:
        """Return the record without the fields that a header lists."""
        header = next((one for one in record.headers if one.name == self._drop_header), None)
        if header is None or not isinstance(header.value, list) or not header.value:
            return record
        dropped = frozenset(header.value)
        if self._drop_from_key and record.key_schema is not None and record.key_schema.kind is Kind.STRUCT:
            record = without_fields(record, Part.KEY, self._droppable(record.key_schema, dropped))
        assert record.value_schema is not None
        return without_fields(record, Part.VALUE, self._droppable(record.value_schema, dropped))

    def _droppable(self, schema: Schema, dropped: frozenset[str]) -> frozenset[str]:
        if not self._drop_keeps_schema:
            return dropped
        return frozenset(field.name for field in schema.fields if field.schema.optional and field.name in dropped)


def _references(value: Value, _all: Mapping[str, Value]) -> str | None:
    try:
        for entry in value if isinstance(value, tuple) else ():
            FieldReference.parsed("", entry)
    except ValueError as e:
        return str(e)
    return None


def _make(settings: Settings, _part: Part) -> ExtractNewRecordState:
    prefixes = settings.text("add.fields.prefix"), settings.text("add.headers.prefix")
    return ExtractNewRecordState(
        mode=settings.text("delete.tombstone.handling.mode"),
        add_fields=[FieldReference.parsed(prefixes[0], entry) for entry in settings.items_of("add.fields")],
        add_headers=[FieldReference.parsed(prefixes[1], entry) for entry in settings.items_of("add.headers")],
        route_by_field=settings.text("route.by.field") or None,
        replace_null_with_default=settings.boolean("replace.null.with.default"),
        drop_header=(settings.text_or_none("drop.fields.header.name") or "").strip() or None,
        drop_from_key=settings.boolean("drop.fields.from.key"),
        drop_keeps_schema=settings.boolean("drop.fields.keep.schema.compatible"),
    )


_LOW = Importance.LOW

EXTRACT_NEW_RECORD_STATE = TransformPlugin(
    class_name="io.debezium.transforms.ExtractNewRecordState",
    doc="Replaces the envelope by the row after the change.",
    make=_make,
    options=(
        Option(
            name="delete.tombstone.handling.mode",
            doc="Treatment of a delete and of the tombstone after it. drop sends neither. tombstone sends one tombstone. rewrite sends the row before the "
            "delete, with __deleted=true, and no tombstone; rewrite-with-tombstone sends both. delete-to-tombstone sends the delete as a tombstone without "
            "schema.",
            default="tombstone",
            choices=_MODES,
        ),
        text("route.by.field", "Field of the row whose text is the topic.", default="", importance=_LOW),
        text("add.fields.prefix", "Prefix of the names of added fields.", default="__", importance=_LOW),
        Option(
            name="add.fields",
            doc="Fields of the envelope or its blocks that are added to the row, as in op,source.ts_ms or op:OPERATION.",
            kind=OptionKind.LIST,
            default="",
            importance=_LOW,
            check=_references,
        ),
        text("add.headers.prefix", "Prefix of the names of added headers.", default="__", importance=_LOW),
        Option(
            name="add.headers",
            doc="Fields of the envelope or its blocks that are added as headers.",
            kind=OptionKind.LIST,
            default="",
            importance=_LOW,
            check=_references,
        ),
        flag("replace.null.with.default", "If true, null becomes the column's default in rewritten rows.", default="true"),
        text("drop.fields.header.name", "Header with a list of fields that are left out of the row.", importance=_LOW),
        flag("drop.fields.from.key", "If true, these fields are left out of the key too.", default="false"),
        flag("drop.fields.keep.schema.compatible", "If true, only optional fields are left out.", default="true"),
    ),
)
