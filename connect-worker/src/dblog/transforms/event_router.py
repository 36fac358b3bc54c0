"""The outbox's EventRouter: each row that is inserted into an outbox table becomes an event.

A column names the topic, one is the key, one the payload, and one the id, which is a header.
Deletes and tombstones are dropped; an update is not expected. Records that are no rows pass, so a
predicate on the outbox's topic is not needed for heartbeats and schema changes; rows of other
tables need one.

Source of the rules: Debezium's EventRouterDelegate, EventRouterConfigDefinition and JsonSchemaData.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog

from dblog.codecs.schema import Field, Kind, Schema
from dblog.codecs.schema_caches import forgets_with_others
from dblog.config.options import Importance, Option, Settings, Value
from dblog.config.options import Kind as OptionKind
from dblog.config.regex import PatternError, Replacing
from dblog.errors import ConfigError
from dblog.transforms.envelopes import is_envelope, require_field, text_of
from dblog.transforms.expanded_json import JsonRules, expanded
from dblog.transforms.faults import RecordError
from dblog.transforms.options import flag, pattern, text
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Effect, TransformPlugin
from dblog.transforms.record import Header, Record
from dblog.transforms.structs import field_of, require_struct, with_default

log = structlog.get_logger(__name__)

_STRING = Schema(kind=Kind.STRING)
_PLACEMENTS = ("header", "envelope", "partition")
_PER_MILLI = {"io.debezium.time.Timestamp": 1, "io.debezium.time.MicroTimestamp": 1000, "io.debezium.time.NanoTimestamp": 1_000_000}
_SCHEMAS_MAX = 1000
_PARTS_MAX = 3


@dataclass(frozen=True, slots=True)
class Additional:
    """A column that goes to a header, to the value beside the payload, or to the partition."""

    field: str
    placement: str
    alias: str

    @classmethod
    def parsed(cls, entry: str) -> Additional:
        """Return the column of an entry ``field:placement`` or ``field:placement:alias``.

        Raise ValueError for another form.
        """
        parts = [part.strip() for part in entry.split(":")]
        if not 1 < len(parts) <= _PARTS_MAX or parts[1].lower() not in _PLACEMENTS or not all(parts):
            raise ValueError(f"{entry} is not field:placement or field:placement:alias with a placement of {', '.join(_PLACEMENTS)}")
        return cls(parts[0], parts[1].lower(), parts[2] if len(parts) == _PARTS_MAX else parts[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxColumns:
    """The names of the outbox table's columns; None for one that is not used."""

    id: str = "id"
    key: str | None = "aggregateid"
    payload: str = "payload"
    timestamp: str | None = None
    version: str | None = None
    route_by: str = "aggregatetype"


class EventRouter:
    """The columns, the route of their topics, and what becomes of odd rows.

    ``on_update`` is warn, error or fatal. ``ignores_missing`` leaves out additional columns that
    the table does not have. ``json_rules`` None leaves a payload of JSON as text.
    """

    effect = Effect.CHANGES

    def __init__(
        self,
        columns: OutboxColumns,
        route: Replacing,
        *,
        additional: Sequence[Additional] = (),
        ignores_missing: bool = False,
        tombstone_on_empty: bool = False,
        on_update: str = "warn",
        json_rules: JsonRules | None = None,
    ) -> None:
        self._columns = columns
        self._route = route
        self._additional = tuple(additional)
        self._ignores_missing = ignores_missing
        self._tombstone_on_empty = tombstone_on_empty
        self._on_update = on_update
        self._json_rules = json_rules
        self._only_payload = all(one.placement != "envelope" for one in additional)
        self._schemas: dict[tuple[int, object], tuple[Schema, Schema]] = {}
        self._warned = False
        forgets_with_others(self)

    def forget(self) -> None:
        """Drop all schemas."""
        self._schemas.clear()

    def apply(self, record: Record) -> Record | None:
        """Return the event of an inserted row, None for rows that are none."""
        if record.is_tombstone:
            return None
        if not is_envelope(record.value_schema):
            return record
        assert record.value_schema is not None
        envelope: Mapping[str, Any] = record.value
        op = envelope.get("op")
        if op == "d":
            return None
        if op == "u":
            self._unexpected()
            return None
        schema = require_field(record.value_schema, "after").schema
        row = require_struct(schema, envelope.get("after"), "Read Outbox Event")
        return self._event(record, envelope, schema, row)

    def _event(self, record: Record, envelope: Mapping[str, Any], schema: Schema, row: Mapping[str, Any]) -> Record:
        columns = self._columns
        payload_field = self._required(schema, columns.payload, "payload field")
        id_field = self._required(schema, columns.id, "event-id field")
        payload_schema, payload = payload_field.schema, with_default(row, payload_field)
        timestamp = self._timestamp(envelope, schema, row)
        headers = [*record.headers, Header("id", id_field.schema, with_default(row, id_field))]
        if self._json_rules is not None and isinstance(payload, str):
            payload_schema, payload = expanded(payload, payload_schema, name=columns.payload, rules=self._json_rules)
        routed_by = text_of(schema, row, columns.route_by)
        value_schema: Schema | None = payload_schema
        value: Any = payload
        if not self._only_payload:
            value_schema = self._value_schema(payload_field.schema, payload_schema, schema, row, routed_by)
            value = {"payload": payload}
        partition: int | None = None
        for one in self._additional:
            field = field_of(schema, one.field)
            if field is None:
                if self._ignores_missing:
                    continue
                raise RecordError(f"Unable to find field {one.field} in event")
            found = with_default(row, field)
            match one.placement:
                case "envelope":
                    value[one.alias] = found
                case "header":
                    headers.append(Header(one.alias, field.schema, found))
                case _:
                    if field.schema.kind is not Kind.INT32:
                        raise RecordError(f"Field '{one.field}' is not of type INT32")
                    if found is not None and found < 0:
                        raise RecordError(f"Field '{one.field}' names a partition below 0")
                    partition = found
        if self._tombstone_on_empty and (payload is None or (isinstance(payload, str) and not payload.strip())):
            value_schema = value = None
        key_field = None if columns.key is None else field_of(schema, columns.key)
        if columns.key is not None and key_field is None:
            raise RecordError(f"{columns.key} is not a valid field name")
        if routed_by is None:
            raise RecordError(f"the column {columns.route_by} is null, and it names the topic")
        topic = self._route.replaced(routed_by)
        made = record.with_topic(routed_by if topic is None else topic)
        made = made.with_partition(partition).with_timestamp(timestamp).with_headers(tuple(headers))
        made = made.with_key(
            _STRING if key_field is None else key_field.schema, None if key_field is None else with_default(row, key_field)
        )
        return made.with_value(value_schema, value)

    @staticmethod
    def _required(schema: Schema, name: str, what: str) -> Field:
        field = field_of(schema, name)
        if field is None:
            raise RecordError(f"Unable to find {what} {name} in event")
        return field

    def _timestamp(self, envelope: Mapping[str, Any], schema: Schema, row: Mapping[str, Any]) -> int | None:
        of_envelope: int | None = envelope.get("ts_ms")
        if self._columns.timestamp is None:
            return of_envelope
        field = self._required(schema, self._columns.timestamp, "timestamp field")
        value = with_default(row, field)
        if value is None:
            return of_envelope
        per_milli = _PER_MILLI.get(field.schema.name or "")
        if per_milli is None:
            raise RecordError(f"Unsupported field type {field.schema.name or field.schema.kind.value} for event timestamp")
        return int(value) // per_milli if value >= 0 else -(-int(value) // per_milli)

    def _value_schema(self, column: Schema, payload: Schema, row_schema: Schema, row: Mapping[str, Any], routed_by: str | None) -> Schema:
        """Return the schema of payload and additional columns.

        It is cached by the payload's schema, or by the version that a column gives, as in Debezium:
        the name of the first event's topic is in it.
        """
        version: int | None = None
        if self._columns.version is not None:
            version = row.get(self._columns.version)
        key = (id(column if payload is column else payload), version)
        known = self._schemas.get(key)
        if known is not None and known[0] is payload:
            return known[1]
        fields = [Field(name="payload", schema=payload)]
        for one in self._additional:
            field = field_of(row_schema, one.field)
            if one.placement == "envelope" and field is not None:
                fields.append(Field(name=one.alias, schema=field.schema))
        made = Schema(kind=Kind.STRUCT, name=_schema_name(row_schema, routed_by), version=version, fields=tuple(fields))
        if len(self._schemas) >= _SCHEMAS_MAX:
            self._schemas.clear()
        self._schemas[key] = payload, made
        return made

    def _unexpected(self) -> None:
        if self._on_update == "fatal":
            raise RecordError("Unexpected update message received: rows of an outbox are inserted and deleted, never updated")
        if not self._warned:
            self._warned = True
            report = log.warning if self._on_update == "warn" else log.error
            report("updates of the outbox table are left out", reason="rows of an outbox are inserted and deleted, never updated")


def _schema_name(row: Schema, routed_by: str | None) -> str:
    """Return the name of a value's schema: the row's, with the topic before its last part."""
    if row.name is None:
        return str(routed_by)
    space, dot, name = row.name.rpartition(".")
    return f"{space}{dot}{routed_by}.{name}"


def _additional_of(value: Value) -> list[Additional]:
    return [Additional.parsed(entry) for entry in (value if isinstance(value, tuple) else ())]


def _check_additional(value: Value, _all: Mapping[str, Value]) -> str | None:
    try:
        _additional_of(value)
    except ValueError as e:
        return str(e)
    return None


def _make(settings: Settings, _part: Part) -> EventRouter:
    try:
        route = Replacing(settings.text("route.topic.regex"), settings.text("route.topic.replacement"))
    except PatternError as e:
        raise ConfigError({"route.topic.replacement": [str(e)]}) from e
    rules = JsonRules(
        keeps_null=settings.text("table.json.payload.null.behavior") == "optional_bytes",
        keeps_empty_arrays=settings.text("table.json.payload.empty.array.behavior") == "optional_string",
    )
    return EventRouter(
        OutboxColumns(
            id=settings.text("table.field.event.id"),
            key=settings.text_or_none("table.field.event.key") or None,
            payload=settings.text("table.field.event.payload"),
            timestamp=settings.text_or_none("table.field.event.timestamp") or None,
            version=settings.text_or_none("table.field.event.schema.version") or None,
            route_by=settings.text("route.by.field"),
        ),
        route,
        additional=_additional_of(settings.items_of("table.fields.additional.placement")),
        ignores_missing=settings.text("table.field.additional.missing") == "ignore",
        tombstone_on_empty=settings.boolean("route.tombstone.on.empty.payload"),
        on_update=settings.text("table.op.invalid.behavior"),
        json_rules=rules if settings.boolean("table.expand.json.payload") else None,
    )


_LOW = Importance.LOW

EVENT_ROUTER = TransformPlugin(
    class_name="io.debezium.transforms.outbox.EventRouter",
    doc="Makes an event of each row that is inserted into an outbox table.",
    make=_make,
    options=(
        text("table.field.event.id", "Column of the event's id, which becomes the header id.", default="id", importance=_LOW),
        text("table.field.event.key", "Column of the record's key.", default="aggregateid"),
        text("table.field.event.type", "Column of the event's type; place it with table.fields.additional.placement.", default="type"),
        text("table.field.event.payload", "Column of the payload.", default="payload"),
        text("table.field.event.timestamp", "Column of the record's timestamp; absent: the time of the envelope."),
        Option(
            name="table.fields.additional.placement",
            doc="Further columns, as in type:header:eventType,tenant:envelope,shard:partition.",
            kind=OptionKind.LIST,
            importance=Importance.HIGH,
            check=_check_additional,
        ),
        Option(
            name="table.field.additional.missing",
            doc="Treatment of an event whose table lacks an additional column: error fails, ignore leaves the column out.",
            default="error",
            importance=_LOW,
            choices=("error", "ignore"),
        ),
        text("table.field.event.schema.version", "Column of the version of the value's schema.", importance=_LOW),
        text("route.by.field", "Column that names the topic.", default="aggregatetype", importance=Importance.HIGH),
        replace(
            text("route.topic.regex", "Pattern for that column's text.", default="(?<routedByValue>.*)", importance=_LOW), check=pattern
        ),
        text(
            "route.topic.replacement",
            "The topic; ${routedByValue} is the column's text.",
            default="outbox.event.${routedByValue}",
            importance=Importance.HIGH,
        ),
        flag(
            "route.tombstone.on.empty.payload",
            "If true, an empty payload becomes a tombstone.",
            default="false",
            importance=Importance.HIGH,
        ),
        Option(
            name="table.op.invalid.behavior",
            doc="Treatment of an update of the outbox table: warn and error leave it out with a log line, fatal ends the task.",
            default="warn",
            choices=("warn", "error", "fatal"),
        ),
        flag("table.expand.json.payload", "If true, a payload of JSON becomes a struct.", default="false"),
        Option(
            name="table.json.payload.null.behavior",
            doc="Treatment of a null in a payload that becomes a struct: ignore leaves the field out, optional_bytes keeps it.",
            default="ignore",
            choices=("ignore", "optional_bytes"),
        ),
        Option(
            name="table.json.payload.empty.array.behavior",
            doc="Treatment of an empty array in a payload that becomes a struct: ignore leaves the field out, optional_string keeps it.",
            default="ignore",
            choices=("ignore", "optional_string"),
        ),
    ),
)
