"""Debezium's CloudEventsConverter: an event of the CloudEvents specification for each change.

The event is JSON or Avro, and so is the image of the row inside it. Every record that is no change
of a row becomes null, as at Debezium: it has no form of such events for heartbeats, schema changes
and transactions.

Source of the rules: observed on Debezium 3.6.1, with its classes side by side
(tests/compat/compare_converters.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from dblog.codecs.envelope import TRANSACTION_BLOCK, NameAdjustment
from dblog.codecs.json import JsonForm, value_writer
from dblog.codecs.schema import Field, Kind, Schema
from dblog.errors import ConfigError, DefiniteError
from dblog.kafka.converters.avro import AvroConverter
from dblog.kafka.converters.contract import NO_SCHEMAS, flag
from dblog.kafka.converters.json import json_form
from dblog.kafka.registry import RegistryClient

CLASS_NAME = "io.debezium.converters.CloudEventsConverter"
_JSON, _AVRO = "json", "avro"
_TYPES = {_JSON: "application/json", _AVRO: "application/avro"}
_ENVELOPE = ".Envelope"
_DATA_FIELDS = ("before", "after")
_DATA_TOPIC = "-data"
"""Suffix of the topic in the subject of the row's schema where the event is Avro too."""
_GENERATED = {"id": "generate", "type": "generate", "traceparent": "generate", "dataSchemaName": "generate"}
_SWITCHES = {"traceparent": "opentelemetry.tracing.attributes.enable", "dataSchemaName": "schema.data.name.source.header.enable"}
"""Options without which a part is not taken from a header, whatever metadata.source says."""
_IDS: Mapping[str, tuple[str, ...]] = {
    "mysql": ("name", "file", "pos"),
    "mariadb": ("name", "file", "pos"),
    "postgresql": ("name", "lsn", "txId", "sequence"),
}
"""Fields of the source block that make an event's id, by connector."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TEXT = Schema(kind=Kind.STRING)
_FIXED = ("id", "source", "specversion", "type", "time", "datacontenttype")
_PLAIN = {
    Kind.BOOLEAN: Kind.BOOLEAN,
    Kind.INT8: Kind.INT32,
    Kind.INT16: Kind.INT32,
    Kind.INT32: Kind.INT32,
    Kind.INT64: Kind.STRING,
    Kind.STRING: Kind.STRING,
}
"""Types of an event's attributes, by those of the fields that they are made of."""
_SCHEMAS_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """The parts that are made once for a topic, an envelope's schema, and a database."""

    envelope: Schema
    schema: Schema
    data: Schema
    source: tuple[tuple[str, str, Schema], ...]
    """Fields of the source block: attribute, name, schema."""
    write: Callable[[Any], bytes] | None
    """Writer of the event as JSON without schemas."""
    write_data: Callable[[Any], bytes] | None
    """Writer of the row as JSON with its schema, None if the event's writer does it."""


class CloudEventsConverter:
    """Converter of a connector's change records to CloudEvents. ``avro`` writes what is Avro, and
    may be None where nothing is.
    """

    is_avro = False
    writes_structs = False

    def __init__(self, settings: Mapping[str, str], *, option_prefix: str, avro: Callable[[], AvroConverter]) -> None:
        self._event_type = _choice(settings, "serializer.type", option_prefix)
        self._data_type = _choice(settings, "data.serializer.type", option_prefix)
        if self._event_type == _AVRO and self._data_type == _JSON:
            raise ConfigError({f"{option_prefix}data.serializer.type": ["json does not go into events of serializer.type=avro; set avro"]})
        _check_sources(settings, option_prefix)
        try:
            self._adjustment = NameAdjustment(settings.get("schema.name.adjustment.mode", "avro").strip().lower())
        except ValueError:
            modes = ", ".join(mode.value for mode in NameAdjustment)
            raise ConfigError({f"{option_prefix}schema.name.adjustment.mode": [f"is not one of {modes}"]}) from None
        self._name = settings.get("schema.cloudevents.name")
        self._extensions = flag(settings, "extension.attributes.enable", default=True)
        of_json = {key.removeprefix("json."): value for key, value in settings.items() if key.startswith("json.")}
        self._form = json_form(of_json, option_prefix=f"{option_prefix}json.")
        self._avro = avro() if _AVRO in (self._event_type, self._data_type) else None
        self._known: dict[tuple[str, int, str | None], _Event] = {}

    @property
    def registry(self) -> RegistryClient | None:
        """The client of the registry for what is Avro."""
        return None if self._avro is None else self._avro.registry

    def prefix(self, topic: str, schema: Schema) -> bytes:
        """Return no bytes: each record is written by ``serialize``."""
        del topic, schema
        return b""

    def serialize(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the event of a change, or None for any other record.

        Raise DefiniteError for the record of an unknown connector.
        """
        if schema is None or value is None:
            return None
        if schema.name is None:
            raise DefiniteError(
                f"topic {topic}: CloudEventsConverter makes events of a table's changes, and not of a value whose schema has no name"
            )
        if not schema.name.endswith(_ENVELOPE):
            return None
        source = value["source"]
        event = self._event(topic, schema, source)
        made = self._attributes(source)
        data = {name: value.get(name) for name in _DATA_FIELDS}
        if self._extensions:
            made |= _extensions(event, value)
        if self._data_type == _AVRO:
            assert self._avro is not None
            written = self._avro.serialize(topic if self._event_type == _JSON else f"{topic}{_DATA_TOPIC}", event.data, data)
            assert written is not None
            made["data"] = written
            made["dataschema"] = f"{','.join(self._avro.registry.access.urls)}/schemas/ids/{int.from_bytes(written[1:5])}"
            if self._event_type == _AVRO:
                return self._avro.serialize(topic, event.schema, made)
        elif event.write_data is None:
            made["data"] = data
        assert event.write is not None
        if event.write_data is None:
            return event.write({field.name: made.get(field.name) for field in event.schema.fields})
        # An event has no schema, but its data have: their text takes the place of {} at its end.
        return event.write({**made, "data": {}})[: -len("{}}")] + event.write_data(data) + b"}"

    def partial_fault(self) -> str | None:
        """Return the reason that records have no schema to mark them."""
        return NO_SCHEMAS

    def _attributes(self, source: Mapping[str, Any]) -> dict[str, Any]:
        connector = source["connector"]
        fields = _IDS.get(connector)
        if fields is None:
            raise DefiniteError(
                f"CloudEventsConverter writes the events of {', '.join(_IDS)}, and not those of a connector named {connector}"
            )
        moment = _EPOCH + timedelta(milliseconds=source["ts_ms"])
        return {
            "id": ";".join(f"{name}:{'null' if source.get(name) is None else source[name]}" for name in fields),
            "source": f"/debezium/{connector}/{source['name']}",
            "specversion": "1.0",
            "type": f"io.debezium.connector.{connector}.DataChangeEvent",
            "time": f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z",
            "datacontenttype": _TYPES[self._data_type],
        }

    def _event(self, topic: str, schema: Schema, source: Mapping[str, Any]) -> _Event:
        database = source.get("db")
        known = self._known.get((topic, id(schema), database))
        if known is None or known.envelope is not schema:
            known = self._made(schema, source)
            if len(self._known) >= _SCHEMAS_MAX:
                self._known.clear()
            self._known[topic, id(schema), database] = known
        return known

    def _made(self, envelope: Schema, source: Mapping[str, Any]) -> _Event:
        by_name = {field.name: field.schema for field in envelope.fields}
        data = Schema(
            kind=Kind.STRUCT,
            name=f"io.debezium.connector.{source['connector']}.Data",
            fields=tuple(Field(name=name, schema=by_name[name]) for name in _DATA_FIELDS),
        )
        of_source = tuple((_attribute(field.name), field.name, field.schema) for field in by_name["source"].fields)
        fields = [(name, _TEXT) for name in _FIXED]
        if self._data_type == _AVRO:
            fields.append(("dataschema", _TEXT))
        if self._extensions:
            fields.append((_attribute("op"), _TEXT))
            fields += [(attribute, _plain(schema, optional=schema.optional)) for attribute, _, schema in of_source]
            fields += [(_attribute(f"tx{field.name}"), _plain(field.schema, optional=True)) for field in TRANSACTION_BLOCK.fields]
        inside = self._data_type == _JSON and self._form.schemas_enable
        last = Schema(kind=Kind.BYTES) if self._data_type == _AVRO else Schema(kind=Kind.STRUCT) if inside else data
        name = self._name if self._name is not None else f"{source['name']}.{source.get('db')}.CloudEvents.Envelope"
        schema = Schema(
            kind=Kind.STRUCT,
            name=self._adjustment.schema_name(name),
            fields=tuple(Field(name=each, schema=one) for each, one in (*fields, ("data", last))),
        )
        plain = JsonForm(
            schemas_enable=False,
            decimal_numeric=self._form.decimal_numeric,
            replace_null_with_default=self._form.replace_null_with_default,
        )
        return _Event(
            envelope=envelope,
            schema=schema,
            data=data,
            source=of_source,
            write=value_writer(schema, plain) if self._event_type == _JSON else None,
            write_data=value_writer(data, self._form) if inside else None,
        )


def _extensions(event: _Event, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that Debezium adds: the operation, the source block, the transaction."""
    made = {_attribute("op"): value["op"]}
    source = value["source"]
    for attribute, name, schema in event.source:
        one = source.get(name)
        one = schema.default if one is None else one
        made[attribute] = str(one) if one is not None and schema.kind is Kind.INT64 else one
    if (transaction := value.get("transaction")) is not None:
        for field in TRANSACTION_BLOCK.fields:
            one = transaction.get(field.name)
            made[_attribute(f"tx{field.name}")] = str(one) if one is not None and field.schema.kind is Kind.INT64 else one
    return made


def _attribute(name: str) -> str:
    """Return the attribute of a field: letters and digits only, as the specification has it."""
    return "iodebezium" + "".join(c for c in name if c.isascii() and c.isalnum())


def _plain(schema: Schema, *, optional: bool) -> Schema:
    return Schema(kind=_PLAIN[schema.kind], optional=optional)


def _choice(settings: Mapping[str, str], name: str, option_prefix: str) -> str:
    text = settings.get(name, _JSON).strip().lower()
    if text not in _TYPES:
        raise ConfigError({f"{option_prefix}{name}": [f"{text} is not one of json, avro"]})
    return text


def _check_sources(settings: Mapping[str, str], option_prefix: str) -> None:
    """Raise ConfigError if a part of events is to come from headers, which this converter does not
    see.
    """
    option = f"{option_prefix}metadata.source"
    named = [part.strip() for part in settings.get("metadata.source", "value,id:generate,type:generate,traceparent:header").split(",")]
    if named[0] != "value":
        raise ConfigError(
            {option: ["only value comes first here: headers do not reach this converter, so an event is made of the record's value"]}
        )
    chosen = {**dict.fromkeys(_GENERATED, "value"), **dict(part.partition(":")[::2] for part in named[1:])}
    if unknown := chosen.keys() - _GENERATED.keys():
        raise ConfigError(
            {option: [f"{', '.join(sorted(unknown))} is not a part of an event that has a source; these are {', '.join(_GENERATED)}"]}
        )
    for part, source in chosen.items():
        switch = _SWITCHES.get(part)
        if switch is not None and not flag(settings, switch, default=False):
            continue
        if source != "generate":
            raise ConfigError(
                {option: [f"{part}:{source} is not possible here, for headers do not reach this converter; write {part}:generate"]}
            )
    if flag(settings, _SWITCHES["traceparent"], default=False):
        raise ConfigError(
            {
                f"{option_prefix}{_SWITCHES['traceparent']}": [
                    "the trace's header does not reach this converter; set it to false, and see dblog.tracing.enabled"
                ]
            }
        )
