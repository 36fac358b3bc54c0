"""Converters turn a key or a value into bytes. The worker's and the connector's properties choose
them, as in Kafka Connect.

A connector without a converter of its own takes the worker's class with the worker's settings. A
connector that names a class gets only its own settings below ``key.converter.`` or
``value.converter.``. Avro rows are written by compiled code, which asks the converter only for a
schema's frame (``prefix``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from fastavro.schema import SchemaParseException, to_parsing_canonical_form

from dblog.codecs import avro
from dblog.codecs.json import JsonForm, schemaless, value_writer
from dblog.codecs.schema import Kind, Schema
from dblog.codecs.text import string_text
from dblog.config.worker import OwnRegistry
from dblog.errors import ConfigError, DefiniteError
from dblog.kafka.registry import RegistryAccess, RegistryClient

_SCHEMAS_MAX = 1000
_NO_SCHEMA = "a value without schema, which a transform has made, can be written by the JSON converter only"
_NO_SCHEMAS = "its records have no schema, so nothing shows that the other columns are as they were; use the Avro or the JSON converter"


class Converter(Protocol):
    """A key or value converter."""

    is_avro: bool
    """True if records are a frame and Avro binary, so that compiled row plans apply."""

    def prefix(self, topic: str, schema: Schema) -> bytes:
        """Return the bytes that precede every record of this schema.

        May ask the registry, so call it once for each schema.
        """

    def serialize(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return one record's bytes, or None for a null without a schema (a tombstone)."""

    def partial_fault(self) -> str | None:
        """Return why records of only some columns would be misread, or None if they are safe."""


class AvroConverter:
    """Confluent's AvroConverter: a zero byte, the schema id, Avro binary."""

    is_avro = True

    def __init__(self, settings: Mapping[str, str], *, is_key: bool, registry: RegistryClient) -> None:
        self._registry = registry
        self._part = "key" if is_key else "value"
        self._auto_register = _flag(settings, "auto.register.schemas", default=True)
        self._use_latest = _flag(settings, "use.latest.version", default=False)
        self._normalize = _flag(settings, "normalize.schemas", default=False)
        self._meta_data = _flag(settings, "connect.meta.data", default=True)
        strategy = settings.get(f"{self._part}.subject.name.strategy", "TopicNameStrategy")
        self._strategy = strategy.rpartition(".")[2]
        # refuses an unknown strategy at start
        self._subject(topic="t", schema=Schema(kind=Kind.STRING, name="n"))
        self._known = _Once[tuple[bytes, avro.Write]]()

    def prefix(self, topic: str, schema: Schema) -> bytes:
        """Return the frame with the schema's id."""
        return self.frame(*self.described(topic, schema))

    def frame(self, subject: str, text: str) -> bytes:
        """Return the frame for a subject and schema text that ``described`` returned."""
        if self._auto_register:
            return avro.frame(self._registry.register(subject, text, normalize=self._normalize))
        if self._use_latest:
            return avro.frame(self._latest(subject, text))
        return avro.frame(self._registry.lookup(subject, text, normalize=self._normalize))

    def described(self, topic: str, schema: Schema) -> tuple[str, str]:
        """Return the subject and the text to register the schema with. Makes no request."""
        return self._subject(topic=topic, schema=schema), avro.avro_text(schema, subject=topic, connect_meta_data=self._meta_data)

    @property
    def registers(self) -> bool:
        """True if new schemas are registered, False if they are only looked up."""
        return self._auto_register

    @property
    def normalize(self) -> bool:
        """True if schemas are registered in normalized form."""
        return self._normalize

    @property
    def registry(self) -> RegistryClient:
        """The client of the registry that holds the schemas."""
        return self._registry

    def serialize(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the frame and Avro binary, or None for a null value.

        Raise DefiniteError for a value without schema, which only a transform can make.
        """
        if value is None:
            return None
        if schema is None:
            raise DefiniteError(_NO_SCHEMA)
        prefix, write = self._known.of(topic, schema, lambda: (self.prefix(topic, schema), avro.writer(schema)))
        out = bytearray(prefix)
        write(out, value)
        return bytes(out)

    def partial_fault(self) -> str | None:
        """Return why such records would be misread, or None.

        They are marked by a parameter of their schema, and need a subject of their own.
        """
        if not self._meta_data:
            return "connect.meta.data=false leaves out of the schema that the other columns are as they were; set it to true"
        if self._strategy == "RecordNameStrategy":
            return (
                "RecordNameStrategy has one subject for whole rows and rows of some columns, of which a registry would refuse either; use "
                "TopicNameStrategy or TopicRecordNameStrategy"
            )
        return None

    def _latest(self, subject: str, text: str) -> int:
        """Return the id of the newest version.

        Raise DefiniteError if its fields are not those of ``text``.
        """
        schema_id, latest = self._registry.latest(subject)
        try:
            layout = _layout(latest)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, SchemaParseException):
            # The message quotes nothing of the schema: any address that a configuration names may
            # have sent it.
            raise DefiniteError(
                f"subject {subject}: the newest registered schema (id {schema_id}) is no Avro schema; check schema.registry.url, "
                "register a fitting version, or set use.latest.version=false"
            ) from None
        if layout != _layout(text):
            raise DefiniteError(
                f"subject {subject}: the newest registered schema (id {schema_id}) has other fields than the table; "
                "register a fitting version, or set use.latest.version=false"
            )
        return schema_id

    def _subject(self, *, topic: str, schema: Schema) -> str:
        match self._strategy:
            case "TopicNameStrategy":
                return f"{topic}-{self._part}"
            case "RecordNameStrategy":
                return schema.name or topic
            case "TopicRecordNameStrategy":
                return f"{topic}-{schema.name}"
            case _:
                option = f"{self._part}.converter.{self._part}.subject.name.strategy"
                raise ConfigError(
                    {option: [f"{self._strategy} is not supported; use TopicNameStrategy, RecordNameStrategy or TopicRecordNameStrategy"]}
                )


class UnframedAvro:
    """Avro without a frame, for records that pass a chain of transforms before they are written."""

    is_avro = True

    def __init__(self) -> None:
        self._known = _Once[avro.Write]()

    def prefix(self, topic: str, schema: Schema) -> bytes:
        """Return no bytes: no registry knows these schemas."""
        del topic, schema
        return b""

    def serialize(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return Avro binary, or None for a null value."""
        if schema is None or value is None:
            return None
        out = bytearray()
        self._known.of(topic, schema, lambda: avro.writer(schema))(out, value)
        return bytes(out)

    def partial_fault(self) -> str | None:
        """Return None: the chain's converter decides."""
        return None


class JsonConverter:
    """Kafka's JsonConverter."""

    is_avro = False

    def __init__(self, settings: Mapping[str, str], *, option_prefix: str) -> None:
        decimal_format = settings.get("decimal.format", "BASE64").upper()
        if decimal_format not in ("BASE64", "NUMERIC"):
            raise ConfigError({f"{option_prefix}decimal.format": [f"{decimal_format} is not one of BASE64, NUMERIC"]})
        self._form = JsonForm(
            schemas_enable=_flag(settings, "schemas.enable", default=True),
            decimal_numeric=decimal_format == "NUMERIC",
            replace_null_with_default=_flag(settings, "replace.null.with.default", default=True),
        )
        self._known = _Once[Callable[[Any], bytes]]()

    def prefix(self, topic: str, schema: Schema) -> bytes:
        """Return no bytes: each record carries its schema."""
        del topic, schema
        return b""

    def serialize(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the value as JSON, with its schema if schemas.enable is set."""
        if schema is None:
            return None if value is None else schemaless(value, self._form)
        return self._known.of(topic, schema, lambda: value_writer(schema, self._form))(value)

    def partial_fault(self) -> str | None:
        """Return None if records carry their schema, which marks such records."""
        if self._form.schemas_enable:
            return None
        return "without schemas (schemas.enable=false) nothing shows that the other columns are as they were; set it to true"


class StringConverter:
    """Kafka's StringConverter: a value's text."""

    is_avro = False

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._encoding = settings.get("converter.encoding", "UTF-8")

    def prefix(self, topic: str, schema: Schema) -> bytes:
        """Return no bytes."""
        del topic, schema
        return b""

    def serialize(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the text of Java's ``String.valueOf``, or None for null.

        Raise DefiniteError for a value without schema, which only a transform can make.
        """
        del topic
        if value is not None and schema is None:
            raise DefiniteError(_NO_SCHEMA)
        return None if schema is None or value is None else string_text(schema, value).encode(self._encoding)

    def partial_fault(self) -> str | None:
        """Return the reason that records have no schema to mark them."""
        return _NO_SCHEMAS


class ByteArrayConverter:
    """Kafka's ByteArrayConverter, for values that are bytes."""

    is_avro = False

    def prefix(self, topic: str, schema: Schema) -> bytes:
        """Return no bytes."""
        del topic, schema
        return b""

    def serialize(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the value's bytes. Raise DefiniteError for a value of another type."""
        if value is None:
            return None
        if schema is None:
            raise DefiniteError(_NO_SCHEMA)
        if schema.kind is not Kind.BYTES:
            raise DefiniteError(f"topic {topic}: ByteArrayConverter cannot write a {schema.kind.value}; use the Avro or JSON converter")
        return bytes(value)

    def partial_fault(self) -> str | None:
        """Return the reason that records have no schema to mark them."""
        return _NO_SCHEMAS


def converters_of(worker: Mapping[str, str], config: Mapping[str, str], *, own_registry: OwnRegistry | None) -> tuple[Converter, Converter]:
    """Return the key and the value converter of a connector.

    ``worker`` and ``config`` are raw properties. Raise ConfigError. Both converters share one
    client if they use the same registry and login, so one request may register schemas of both.
    """
    clients: list[RegistryClient] = []

    def client(access: RegistryAccess) -> RegistryClient:
        known = next((made for made in clients if made.access == access), None)
        if known is None:
            clients.append(known := RegistryClient(access))
        return known

    return (
        converter_of(worker, config, is_key=True, own_registry=own_registry, client=client),
        converter_of(worker, config, is_key=False, own_registry=own_registry, client=client),
    )


def converter_of(
    worker: Mapping[str, str],
    config: Mapping[str, str],
    *,
    is_key: bool,
    own_registry: OwnRegistry | None,
    client: Callable[[RegistryAccess], RegistryClient] = RegistryClient,
) -> Converter:
    """Return the key or the value converter of a connector. Makes no request yet.

    ``client`` creates the registry's client. Raise ConfigError.
    """
    option = "key.converter" if is_key else "value.converter"
    source = config if config.get(option) else worker
    name = source.get(option)
    if not name:
        raise ConfigError({option: ["is given neither by the connector nor by the worker"]})
    settings = {k.removeprefix(f"{option}."): v for k, v in source.items() if k.startswith(f"{option}.")}
    match name.strip().rpartition(".")[2].removesuffix("Converter"):
        case "Avro":
            access = RegistryAccess.from_settings(settings, option_prefix=f"{option}.", own=own_registry)
            return AvroConverter(settings, is_key=is_key, registry=client(access))
        case "Json":
            return JsonConverter(settings, option_prefix=f"{option}.")
        case "String":
            return StringConverter(settings)
        case "ByteArray":
            return ByteArrayConverter()
        case _:
            raise ConfigError({option: [f"{name} is not known; use AvroConverter, JsonConverter, StringConverter or ByteArrayConverter"]})


Made = TypeVar("Made")


class _Once(Generic[Made]):
    """A cache by the identity of a schema object.

    Hashing a deep schema for every record would cost more than writing the record.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[str, int], tuple[Schema, Made]] = {}

    def of(self, topic: str, schema: Schema, make: Callable[[], Made]) -> Made:
        known = self._made.get((topic, id(schema)))
        if known is not None and known[0] is schema:
            return known[1]
        made = make()
        if len(self._made) >= _SCHEMAS_MAX:
            self._made.clear()
        self._made[(topic, id(schema))] = (schema, made)
        return made


def _layout(text: str) -> str:
    """Return Avro's parsing canonical form: the parts of a schema that decide its bytes."""
    return str(to_parsing_canonical_form(json.loads(text)))


def _flag(settings: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = settings.get(name)
    return default if value is None else str(value).strip().lower() == "true"
