"""DecodeLogicalDecodingMessageContent: makes a row of a logical message of PostgreSQL whose content is
JSON, so that the outbox's EventRouter can take it.

The message becomes the envelope of an insert, with the content as ``after`` and no key. Content that
is no JSON object is an error of the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dblog.codecs.schema import Field, Kind, Schema
from dblog.codecs.schema_caches import forgets_with_others
from dblog.config.options import Settings
from dblog.transforms.envelopes import require_field
from dblog.transforms.expanded_json import JsonRules, parsed
from dblog.transforms.faults import RecordError
from dblog.transforms.options import flag
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Effect, TransformPlugin
from dblog.transforms.record import Record
from dblog.transforms.structs import with_default

_MESSAGE_VALUE = "io.debezium.connector.postgresql.MessageValue"
_SCHEMAS_MAX = 1000


class DecodeLogicalDecodingMessageContent:
    """The treatment of nulls in the content."""

    effect = Effect.CHANGES

    def __init__(self, *, includes_null: bool) -> None:
        self._rules = JsonRules(keeps_null=includes_null)
        self._schemas: dict[tuple[int, int], tuple[Schema, Schema, Schema]] = {}
        forgets_with_others(self)

    def forget(self) -> None:
        """Drop all schemas."""
        self._schemas.clear()

    def apply(self, record: Record) -> Record:
        """Return the message as an insert; other records stay."""
        schema = record.value_schema
        if schema is None or schema.name != _MESSAGE_VALUE or record.is_tombstone:
            return record
        value: Mapping[str, Any] = record.value
        message = require_field(schema, "message")
        content = require_field(message.schema, "content")
        if content.schema.kind is not Kind.BYTES:
            raise RecordError("The content of a logical decoding message is non-binary")
        data = (value.get("message") or {}).get("content")
        try:
            content_schema, after = parsed(bytes(data or b"").decode(), name=None, rules=self._rules)
        except (ValueError, RecursionError, OverflowError) as e:
            raise RecordError("the content of a logical message is not a JSON object, or has an array of mixed types") from e
        updated = self._schema(schema, content_schema)
        fields = {field.name: with_default(value, field) for field in schema.fields if field.name != "message"}
        return record.with_key(None, None).with_value(updated, {**fields, "op": "c", "after": after})

    def _schema(self, schema: Schema, content: Schema) -> Schema:
        known = self._schemas.get((id(schema), id(content)))
        if known is None or known[0] is not schema or known[1] is not content:
            kept = tuple(field for field in schema.fields if field.name != "message")
            made = Schema(kind=Kind.STRUCT, name=f"{schema.name}.Envelope", fields=(*kept, Field(name="after", schema=content)))
            if len(self._schemas) >= _SCHEMAS_MAX:
                self._schemas.clear()
            known = self._schemas[id(schema), id(content)] = schema, content, made
        return known[2]


def _make(settings: Settings, _part: Part) -> DecodeLogicalDecodingMessageContent:
    return DecodeLogicalDecodingMessageContent(includes_null=settings.boolean("fields.null.include"))


DECODE_LOGICAL_DECODING_MESSAGE_CONTENT = TransformPlugin(
    class_name="io.debezium.connector.postgresql.transforms.DecodeLogicalDecodingMessageContent",
    doc="Makes an insert of a logical message whose content is JSON.",
    make=_make,
    options=(flag("fields.null.include", "If true, fields that are null in the content are kept.", default="false"),),
)
