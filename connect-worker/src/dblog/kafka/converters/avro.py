"""Confluent's AvroConverter, and Avro without a frame."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastavro.schema import SchemaParseException, to_parsing_canonical_form

from dblog.codecs import avro
from dblog.codecs.schema import Kind, Schema
from dblog.errors import ConfigError, DefiniteError
from dblog.kafka.converters.contract import NO_SCHEMA, Once, flag
from dblog.kafka.registry import RegistryClient


class AvroConverter:
    """Confluent's AvroConverter: a zero byte, the schema id, Avro binary."""

    is_avro = True
    writes_structs = True

    def __init__(self, settings: Mapping[str, str], *, is_key: bool, registry: RegistryClient) -> None:
        self._registry = registry
        self._part = "key" if is_key else "value"
        self._auto_register = flag(settings, "auto.register.schemas", default=True)
        self._use_latest = flag(settings, "use.latest.version", default=False)
        self._normalize = flag(settings, "normalize.schemas", default=False)
        self._meta_data = flag(settings, "connect.meta.data", default=True)
        strategy = settings.get(f"{self._part}.subject.name.strategy", "TopicNameStrategy")
        self._strategy = strategy.rpartition(".")[2]
        # refuses an unknown strategy at start
        self._subject(topic="t", schema=Schema(kind=Kind.STRING, name="n"))
        self._known = Once[tuple[bytes, avro.Write]]()

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
            raise DefiniteError(NO_SCHEMA)
        prefix, write = self._known.of(topic, schema, lambda: (self.prefix(topic, schema), avro.record_writer(schema)))
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
                f"subject {subject}: the newest registered schema (id {schema_id}) is not an Avro schema; check schema.registry.url, "
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
    writes_structs = True
    registry: RegistryClient | None = None

    def __init__(self) -> None:
        self._known = Once[avro.Write]()

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


def _layout(text: str) -> str:
    """Return Avro's parsing canonical form: the parts of a schema that decide its bytes."""
    return str(to_parsing_canonical_form(json.loads(text)))
