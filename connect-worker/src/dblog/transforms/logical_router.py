"""ByLogicalTableRouter and ToLogicalTopicRouter: bring the records of several tables into one topic.

The key gets a field with the topic that the record came from, so that equal keys of two tables stay
apart (``key.enforce.uniqueness``). Schemas take the name of the new topic. Both classes are one
transform under two names with another default for the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dblog.codecs.envelope import NameAdjustment
from dblog.codecs.schema import Field, Kind, Schema
from dblog.codecs.schema_caches import forgets_with_others
from dblog.config.options import Importance, Option, Settings
from dblog.config.options import Kind as OptionKind
from dblog.config.regex import PatternError, Replacing
from dblog.errors import ConfigError
from dblog.transforms.envelopes import is_envelope
from dblog.transforms.options import flag, pattern, text
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Effect, TransformPlugin
from dblog.transforms.record import Record
from dblog.transforms.structs import require_struct

_PURPOSE = "Updating schema"
_ROWS = ("before", "after")
_TOPICS_MAX = 10_000
_SCHEMAS_MAX = 1000


class LogicalRouter:
    """The pattern of topics, and what becomes of keys. ``key_field`` None adds no field."""

    effect = Effect.CHANGES

    def __init__(
        self,
        topics: Replacing,
        *,
        key_field: str | None,
        identifiers: Replacing | None = None,
        adjustment: NameAdjustment = NameAdjustment.NONE,
    ) -> None:
        self._topics = topics
        self._key_field = key_field
        self._identifiers = identifiers
        self._adjustment = adjustment
        self._routes: dict[str, tuple[str | None, str]] = {}
        self._keys: dict[tuple[int, str], tuple[Schema, Schema]] = {}
        self._envelopes: dict[tuple[int, str], tuple[Schema, Schema]] = {}
        forgets_with_others(self)

    def forget(self) -> None:
        """Drop all schemas."""
        self._keys.clear()
        self._envelopes.clear()

    def apply(self, record: Record) -> Record:
        """Return the record in its logical topic; records of other topics stay as they are."""
        topic, identifier = self._route(record.topic)
        if not topic:
            return record
        made = record.with_topic(topic)
        if record.key is None:
            made = made.with_key(None, None)
        else:
            assert record.key_schema is not None
            key: Mapping[str, Any] = require_struct(record.key_schema, record.key, _PURPOSE)
            added = {} if self._key_field is None else {self._key_field: identifier}
            made = made.with_key(self._key_schema(record.key_schema, topic), {**key, **added})
        if record.is_tombstone or not is_envelope(record.value_schema):
            return made
        assert record.value_schema is not None
        return made.with_value_schema(self._envelope_schema(record.value_schema, topic))

    def _route(self, topic: str) -> tuple[str | None, str]:
        """Return the logical topic, None for other topics, and the identifier for keys."""
        known = self._routes.get(topic)
        if known is None:
            identifier = None if self._identifiers is None else self._identifiers.replaced(topic)
            known = self._topics.replaced(topic), topic if identifier is None else identifier
            if len(self._routes) >= _TOPICS_MAX:
                self._routes.clear()
            self._routes[topic] = known
        return known

    def _key_schema(self, schema: Schema, topic: str) -> Schema:
        known = self._keys.get((id(schema), topic))
        if known is None or known[0] is not schema:
            added = () if self._key_field is None else (Field(name=self._key_field, schema=Schema(kind=Kind.STRING)),)
            made = replace(schema, name=self._name(topic, "Key"), default=None, fields=(*schema.fields, *added))
            known = self._kept(self._keys, schema, topic, made)
        return known[1]

    def _envelope_schema(self, schema: Schema, topic: str) -> Schema:
        known = self._envelopes.get((id(schema), topic))
        if known is None or known[0] is not schema:
            row = next((field.schema for name in _ROWS for field in schema.fields if field.name == name), None)
            renamed = None if row is None else replace(row, name=self._name(topic, "Value"), default=None)
            fields = tuple(
                field if renamed is None or field.name not in _ROWS else Field(name=field.name, schema=renamed) for field in schema.fields
            )
            known = self._kept(
                self._envelopes, schema, topic, replace(schema, name=self._name(topic, "Envelope"), default=None, fields=fields)
            )
        return known[1]

    @staticmethod
    def _kept(cache: dict[tuple[int, str], tuple[Schema, Schema]], schema: Schema, topic: str, made: Schema) -> tuple[Schema, Schema]:
        if len(cache) >= _SCHEMAS_MAX:
            cache.clear()
        cache[id(schema), topic] = schema, made
        return schema, made

    def _name(self, topic: str, suffix: str) -> str:
        return self._adjustment.schema_name(f"{topic}.{suffix}")


def _make(settings: Settings, _part: Part) -> LogicalRouter:
    try:
        topics = Replacing(settings.text("topic.regex"), settings.text("topic.replacement"))
    except PatternError as e:
        raise ConfigError({"topic.replacement": [str(e)]}) from e
    regex, replacement = ((settings.text_or_none(f"key.field.{name}") or "").strip() for name in ("regex", "replacement"))
    if regex and not replacement:
        raise ConfigError({"key.field.replacement": ["key.field.replacement must be non-empty if key.field.regex is set."]})
    try:
        identifiers = Replacing(regex, replacement) if regex else None
    except PatternError as e:
        raise ConfigError({"key.field.replacement": [str(e)]}) from e
    return LogicalRouter(
        topics,
        key_field=settings.text("key.field.name") if settings.boolean("key.enforce.uniqueness") else None,
        identifiers=identifiers,
        adjustment=NameAdjustment(settings.text("schema.name.adjustment.mode")),
    )


def _options(key_field: str) -> tuple[Option, ...]:
    low = Importance.LOW
    return (
        replace(text("topic.regex", "Pattern that the whole name of a topic has to match.", required=True, importance=low), check=pattern),
        replace(text("topic.replacement", "The logical topic; $1 is the first group.", required=True, importance=low), check=None),
        flag(
            "key.enforce.uniqueness",
            "If true, keys get a field that names the table, so that keys of tables that share a topic differ.",
            default="true",
        ),
        replace(text("key.field.regex", "Pattern that makes the field's value of the old topic's name.", importance=low), check=pattern),
        text("key.field.name", "Name of the field.", default=key_field, importance=low),
        text("key.field.replacement", "The field's value, with key.field.regex; else it is the old topic's name.", importance=low),
        Option(
            name="schema.name.adjustment.mode",
            doc="Replacement of characters in schema names that Avro does not allow.",
            default="none",
            importance=low,
            choices=tuple(mode.value for mode in NameAdjustment),
        ),
        Option(
            name="logical.destination.cache.size",
            doc="Number of schemas that are kept.",
            kind=OptionKind.INT,
            default="16",
            importance=low,
            no_effect="all schemas in use are kept",
        ),
    )


BY_LOGICAL_TABLE_ROUTER = TransformPlugin(
    class_name="io.debezium.transforms.ByLogicalTableRouter",
    doc="Brings the records of several tables into one topic, with the table in the key.",
    make=_make,
    options=_options("__dbz__physicalTableIdentifier"),
)
TO_LOGICAL_TOPIC_ROUTER = TransformPlugin(
    class_name="io.debezium.transforms.ToLogicalTopicRouter",
    doc="Brings the records of several topics into one topic, with the old topic in the key.",
    make=_make,
    options=_options("__dbz__sourceIdentifier"),
)
