"""Every record of a connector's topics, decoded with the schema that its own bytes name, the connector's prefix replaced by `P`."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import fastavro
import httpx
from confluent_kafka import Consumer, TopicPartition
from demo.rest import NO_TLS

PREFIX = "P"


@dataclass(frozen=True, slots=True)
class Decoded:
    """One record; a schema is JSON text as the registry has it, None beside a null."""

    key: Any
    value: Any
    key_schema: str | None
    value_schema: str | None
    headers: tuple[tuple[str, Any], ...]
    partition: int


class Decoder:
    """Schemas by number, asked from the registry once."""

    def __init__(self, registry_url: str, prefix: str) -> None:
        self._url, self._prefix = registry_url, prefix
        self._schemas: dict[int, tuple[str, Any]] = {}

    def decode(self, payload: bytes | None) -> tuple[Any, str | None]:
        """Value and schema of Confluent's wire format."""
        if payload is None:
            return None, None
        magic, number = struct.unpack(">bI", payload[:5])
        assert magic == 0, payload[:20]
        text, parsed = self._schema(number)
        stream = BytesIO(payload[5:])
        value = fastavro.schemaless_reader(stream, parsed, None)
        assert not stream.read(), "bytes are left behind the record"
        return self.neutral(value), text

    def neutral(self, value: Any) -> Any:
        """The prefix replaced wherever text holds it."""
        if isinstance(value, str):
            return value.replace(self._prefix, PREFIX)
        if isinstance(value, dict):
            return {key: self.neutral(item) for key, item in value.items()}
        return [self.neutral(item) for item in value] if isinstance(value, list) else value

    def _schema(self, number: int) -> tuple[str, Any]:
        if number not in self._schemas:
            answer = httpx.get(f"{self._url}/schemas/ids/{number}", timeout=30, verify=NO_TLS).raise_for_status().json()["schema"]
            bare = json.loads(answer)
            self._schemas[number] = (json.dumps(self.neutral(bare)), fastavro.parse_schema(_without_logical_types(bare)))
        return self._schemas[number]


def _without_logical_types(schema: Any) -> Any:
    """Values are compared as they are on the wire: no decimals and dates made of them."""
    if isinstance(schema, dict):
        return {key: _without_logical_types(item) for key, item in schema.items() if key != "logicalType"}
    return [_without_logical_types(item) for item in schema] if isinstance(schema, list) else schema


def read(bootstrap: str, registry_url: str, prefix: str, wanted: Callable[[str], bool]) -> dict[str, list[Decoded]]:
    """The topics whose names, with `P` for the connector's prefix, are ``wanted``, by these names; records in order."""
    decoder = Decoder(registry_url, prefix)
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"compare-{prefix}", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    )
    found: dict[str, list[Decoded]] = {}
    try:
        names = [name for name in consumer.list_topics(timeout=10).topics if prefix in name and wanted(name.replace(prefix, PREFIX))]
        left = {}
        for name in names:
            low, end = consumer.get_watermark_offsets(TopicPartition(name, 0), timeout=10)
            found[name.replace(prefix, PREFIX)] = []
            if end > low:
                left[name] = end
        consumer.assign([TopicPartition(name, 0, 0) for name in left])
        while left:
            message = consumer.poll(10)
            assert message is not None, f"no record came, and {left} are left"
            assert message.error() is None, message.error()
            name = message.topic()
            key, key_schema = decoder.decode(message.key())
            value, value_schema = decoder.decode(message.value())
            headers = tuple((header, _header(decoder, data)) for header, data in message.headers() or ())
            found[name.replace(prefix, PREFIX)].append(Decoded(key, value, key_schema, value_schema, headers, message.partition()))
            if message.offset() + 1 >= left[name]:
                del left[name]
                consumer.incremental_unassign([TopicPartition(name, 0)])
    finally:
        consumer.close()
    return found


def _header(decoder: Decoder, data: bytes | None) -> Any:
    return None if data is None else decoder.neutral(data.decode("utf-8", errors="backslashreplace"))
