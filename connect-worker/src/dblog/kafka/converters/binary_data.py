"""Debezium's BinaryDataConverter and ByteArrayConverter: bytes as they are, the rest by another
converter.

Outbox tables hold payloads that the application has serialized already. These become the record's
value, while heartbeats and other records go to the converter of ``delegate.converter.type``, whose
settings stand below that key.
"""

from __future__ import annotations

from typing import Any

from dblog.codecs.avro import DECIMAL
from dblog.codecs.schema import Kind, Schema
from dblog.errors import DefiniteError
from dblog.kafka.converters.contract import NO_SCHEMAS, Converter
from dblog.kafka.registry import RegistryClient

DELEGATE = "delegate.converter.type"


class BinaryDataConverter:
    """Converter of bytes, with another one (or None) for all other values."""

    is_avro = False

    def __init__(self, delegate: Converter | None, *, option: str) -> None:
        """Create the converter. ``option`` is the full key that names the delegate."""
        self._delegate = delegate
        self._option = option

    @property
    def writes_structs(self) -> bool:
        """True if the delegate writes them."""
        return self._delegate is not None and self._delegate.writes_structs

    @property
    def registry(self) -> RegistryClient | None:
        """The delegate's registry."""
        return None if self._delegate is None else self._delegate.registry

    def prefix(self, topic: str, schema: Schema) -> bytes:
        """Return no bytes: each record is written by ``serialize``."""
        del topic, schema
        return b""

    def serialize(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return bytes as they are, or what the delegate makes of another value.

        Raise DefiniteError if there is no delegate for it.
        """
        if schema is None or schema.kind is Kind.BYTES:
            if value is None:
                return None
            if isinstance(value, bytes | bytearray | memoryview) and (schema is None or schema.name != DECIMAL):
                return bytes(value)
        if self._delegate is None:
            what = "value without a schema" if schema is None else schema.kind.value if schema.name is None else schema.name
            raise DefiniteError(
                f"topic {topic}: a {what} is not binary, so another converter has to write it; name one in {self._option}, such as "
                "org.apache.kafka.connect.json.JsonConverter"
            )
        return self._delegate.serialize(topic, schema, value)

    def partial_fault(self) -> str | None:
        """Return the delegate's fault, which writes rows."""
        return NO_SCHEMAS if self._delegate is None else self._delegate.partial_fault()
