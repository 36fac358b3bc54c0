"""Finds the schemas of one topic's records in the driver, by the schema ids that occur in them.

A new schema id needs no restart: it is in the profile of the records and is asked for. The sink
waits for an unavailable registry and skips nothing. An id that a healthy registry does not know
makes bad records and does not stop the table (``registry``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dblog_sink.config.tables import TableSpec
from dblog_sink.errors import DefiniteError
from dblog_sink.schema.registry import Registry, UnreadableSchemaError
from dblog_sink.schema.types import TypeChoices
from dblog_sink.schema.wire_format import HISTORY, SCHEMAS_MAX, TOO_MANY, is_json, schema_id_of
from dblog_sink.schema.writer_schemas import Envelope, KeySchema, NotRows, Reading, Unreadable, key_schema, value_schema

_NOT_FRAMED = "the value is not framed by a schema id; the sink reads Avro of a Confluent-compatible converter, and JSON with its schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The resolved schemas of a topic among some records."""

    envelopes: dict[bytes, Envelope]
    key_schemas: dict[bytes, KeySchema]
    unreadable_keys: dict[bytes, str]
    """Reasons why keys cannot be read, by schema id."""
    unreadable_ids: dict[bytes, str]
    """Reasons why values cannot be read, by schema id."""
    left_out: tuple[bytes, ...]
    """Schema ids of records that are not rows."""
    kind: str | None
    """Kind of the rows, in an envelope or unwrapped; None if there are no rows."""


class Schemas:
    """Cache of all schemas asked for so far.

    Threads may share it; at worst a schema is asked for twice.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._values: dict[tuple[str, int | str, bool], Envelope | NotRows | Unreadable] = {}
        self._keys: dict[tuple[str, int | str], KeySchema | Unreadable] = {}

    def known(
        self,
        spec: TableSpec,
        value_schema_ids: Iterable[bytes],
        key_schema_ids: Iterable[bytes | None],
        texts: Mapping[bytes, str],
        *,
        kind: str | None,
    ) -> Known:
        """Resolve the schemas of these keys and values.

        ``texts`` has the schema text of JSON records by schema id. ``kind`` is the kind of rows
        that the target already has, None if the target does not exist.
        """
        plain = Reading(column=spec.column, types=TypeChoices(spec.json_type, spec.decimal_overflow), records=kind or spec.records)
        keys: dict[bytes, KeySchema] = {}
        bad_keys: dict[bytes, str] = {}
        for found in sorted(one for one in key_schema_ids if one is not None):
            match self._key(spec, found, texts, plain):
                case KeySchema() as made:
                    keys[found] = made
                case Unreadable(reason):
                    bad_keys[found] = reason
        names = frozenset(field.member for made in keys.values() for field in made.fields)
        reading = Reading(column=plain.column, types=plain.types, records=plain.records, keys=names)
        envelopes: dict[bytes, Envelope] = {}
        bad: dict[bytes, str] = {}
        left_out: list[bytes] = []
        for found in sorted(value_schema_ids):
            match self._value(spec, found, texts, reading):
                case Envelope() as envelope if kind in (None, envelope.kind):
                    kind = envelope.kind
                    envelopes[found] = envelope
                case Envelope() as envelope:
                    bad[found] = (
                        f"the topic's records were of kind {kind} and this one is of kind {envelope.kind}; give it a topic of its own"
                    )
                case NotRows():
                    left_out.append(found)
                case Unreadable(reason):
                    bad[found] = reason
        return Known(
            envelopes=envelopes, key_schemas=keys, unreadable_keys=bad_keys, unreadable_ids=bad, left_out=tuple(left_out), kind=kind
        )

    def history(self, topic: str, value_schema_ids: Iterable[bytes]) -> dict[bytes, str]:
        """Return the writer schemas of a topic's schema-change records by schema id."""
        made = self._values_of(topic, (one for one in value_schema_ids if not is_json(one)), {})
        return {one: value.history for one, value in made if isinstance(value, NotRows) and value.history is not None}

    def markers(self, topic: str, value_schema_ids: Iterable[bytes], texts: Mapping[bytes, str]) -> dict[bytes, str]:
        """Return the writer schemas of a topic's chunk markers by schema id; empty text for
        JSON.
        """
        made = self._values_of(topic, value_schema_ids, texts)
        return {one: value.marker for one, value in made if isinstance(value, NotRows) and value.marker is not None}

    def transactions(self, topic: str, value_schema_ids: Iterable[bytes], texts: Mapping[bytes, str]) -> dict[bytes, str]:
        """Return the writer schemas of transaction metadata records by schema id; empty text for
        JSON.

        Raise DefiniteError if the topic has records of another kind.
        """
        found: dict[bytes, str] = {}
        for one, value in self._values_of(topic, value_schema_ids, texts):
            match value:
                case NotRows(transactions=str(writer)):
                    found[one] = writer
                case Unreadable(reason):
                    msg = f"topic {topic}, named by topics.transaction: {reason}"
                    raise DefiniteError(msg)
                case _:
                    msg = (
                        f"topic {topic}, named by topics.transaction, holds records that are not about transactions; name the topic that the source "
                        "writes with provide.transaction.metadata=true"
                    )
                    raise DefiniteError(msg)
        return found

    def _values_of(
        self, topic: str, value_schema_ids: Iterable[bytes], texts: Mapping[bytes, str]
    ) -> Iterator[tuple[bytes, Envelope | NotRows | Unreadable]]:
        """Yield each schema id and the meaning of its records. The topic need not be a table's."""
        spec = TableSpec(name=topic, topic=topic, path="")
        for one in sorted(value_schema_ids):
            yield one, self._value(spec, one, texts, Reading())

    def _value(self, spec: TableSpec, found: bytes, texts: Mapping[bytes, str], reading: Reading) -> Envelope | NotRows | Unreadable:
        if found == HISTORY:
            return NotRows("schema history")
        named = self._text(found, texts)
        if isinstance(named, Unreadable):
            return named
        schema_id, text = named
        at = (f"{spec.topic}\0{reading.records}", schema_id if schema_id >= 0 else text, bool(reading.keys))
        if at not in self._values:
            self._values[at] = value_schema(schema_id, text, reading)
        return self._values[at]

    def _key(self, spec: TableSpec, found: bytes, texts: Mapping[bytes, str], reading: Reading) -> KeySchema | Unreadable:
        named = self._text(found, texts)
        if isinstance(named, Unreadable):
            return named
        schema_id, text = named
        at = (spec.topic, schema_id if schema_id >= 0 else text)
        if at not in self._keys:
            self._keys[at] = key_schema(schema_id, text, reading)
        return self._keys[at]

    def _text(self, found: bytes, texts: Mapping[bytes, str]) -> tuple[int, str] | Unreadable:
        """Return the schema id (-1 for JSON, which has none) and the schema's text."""
        if is_json(found):
            return -1, texts.get(found, "{")
        if found == TOO_MANY:
            return Unreadable(f"the records have more than {SCHEMAS_MAX} schemas")
        schema_id = schema_id_of(found)
        if schema_id is None:
            return Unreadable(_NOT_FRAMED)
        try:
            text = self._registry.schema(schema_id)
        except UnreadableSchemaError as e:
            return Unreadable(str(e))
        if text is None:
            return Unreadable(f"the registry has no schema with id {schema_id}")
        return schema_id, text
