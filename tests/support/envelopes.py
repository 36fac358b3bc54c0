"""Debezium records for tests of the sink, encoded by fastavro with Confluent's Avro schemas.

The schemas have Connect's properties (``connect.name``, ``connect.version``,
``connect.parameters``), ``after`` refers to the record type declared in ``before``, and the source
block is Debezium's (its manual, "MySQL connector", Data change events). Real records have the same
form.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import fastavro
from support.registry_server import RegistryServer

Column = tuple[str, Any]
"""A column's name and Avro type. A nullable type is a union with null."""


def decimal(precision: int, scale: int) -> dict[str, Any]:
    """Return the schema of Connect's Decimal in Avro."""
    return {
        "type": "bytes",
        "scale": scale,
        "precision": precision,
        "connect.version": 1,
        "connect.parameters": {"scale": str(scale), "connect.decimal.precision": str(precision)},
        "connect.name": "org.apache.kafka.connect.data.Decimal",
        "logicalType": "decimal",
    }


def logical(kind: str, name: str) -> dict[str, Any]:
    """Return the schema of a logical type of Debezium or Connect that Avro does not define."""
    return {"type": kind, "connect.version": 1, "connect.name": name}


def int16() -> dict[str, Any]:
    """Return the schema of Connect's int16."""
    return {"type": "int", "connect.type": "int16"}


_MYSQL_SOURCE: Sequence[tuple[str, Any]] = (
    ("version", "string"),
    ("connector", "string"),
    ("name", "string"),
    ("ts_ms", "long"),
    ("snapshot", [{"type": "string", "connect.version": 1, "connect.default": "false", "connect.name": "io.debezium.data.Enum"}, "null"]),
    ("db", "string"),
    ("sequence", ["null", "string"]),
    ("ts_us", ["null", "long"]),
    ("ts_ns", ["null", "long"]),
    ("table", ["null", "string"]),
    ("server_id", "long"),
    ("gtid", ["null", "string"]),
    ("file", "string"),
    ("pos", "long"),
    ("row", "int"),
    ("thread", ["null", "long"]),
    ("query", ["null", "string"]),
)
_POSTGRES_SOURCE: Sequence[tuple[str, Any]] = (
    *_MYSQL_SOURCE[:9],
    ("schema", "string"),
    ("table", "string"),
    ("txId", ["null", "long"]),
    ("lsn", ["null", "long"]),
    ("xmin", ["null", "long"]),
)


@dataclass(frozen=True, kw_only=True)
class TableSchema:
    """A version of a captured table.

    With an empty ``key`` records have no key. ``before`` is False if the connector omits that
    field.
    """

    topic: str
    columns: Sequence[Column]
    key: Sequence[str] = ("id",)
    connector: str = "mysql"
    before: bool = True
    registry: RegistryServer = field(repr=False)

    @cached_property
    def value_schema(self) -> dict[str, Any]:
        """Return the schema of the envelope."""
        row = {
            "type": "record",
            "name": "Value",
            "fields": [_with_default(name, kind) for name, kind in self.columns],
            "connect.name": f"{self.topic}.Value",
        }
        source_fields = _POSTGRES_SOURCE if self.connector == "postgresql" else _MYSQL_SOURCE
        source = {
            "type": "record",
            "name": "Source",
            "namespace": f"io.debezium.connector.{self.connector}",
            "fields": [_with_default(name, kind) for name, kind in source_fields],
            "connect.version": 1,
            "connect.name": f"io.debezium.connector.{self.connector}.Source",
        }
        block = {
            "type": "record",
            "name": "block",
            "namespace": "event",
            "fields": [
                {"name": "id", "type": "string"},
                {"name": "total_order", "type": "long"},
                {"name": "data_collection_order", "type": "long"},
            ],
            "connect.version": 1,
            "connect.name": "event.block",
        }
        images = (
            [_with_default("before", ["null", row]), _with_default("after", ["null", "Value"])]
            if self.before
            else [_with_default("after", ["null", row])]
        )
        return {
            "type": "record",
            "name": "Envelope",
            "namespace": self.topic,
            "fields": [
                *images,
                {"name": "source", "type": source},
                _with_default("transaction", ["null", block]),
                {"name": "op", "type": "string"},
                *(_with_default(name, ["null", "long"]) for name in ("ts_ms", "ts_us", "ts_ns")),
            ],
            "connect.version": 2,
            "connect.name": f"{self.topic}.Envelope",
        }

    @cached_property
    def key_schema(self) -> dict[str, Any]:
        """Return the schema of the key; its columns are not nullable."""
        kinds = dict(self.columns)
        return {
            "type": "record",
            "name": "Key",
            "namespace": self.topic,
            "fields": [{"name": name, "type": kinds[name]} for name in self.key],
            "connect.name": f"{self.topic}.Key",
        }

    @cached_property
    def _value_encoder(self) -> tuple[int, Any]:
        return self.registry.register(json.dumps(self.value_schema)), fastavro.parse_schema(self.value_schema)

    @cached_property
    def _key_encoder(self) -> tuple[int, Any]:
        return self.registry.register(json.dumps(self.key_schema)), fastavro.parse_schema(self.key_schema)

    @property
    def key_schema_id(self) -> int:
        """Id of the key schema in the registry."""
        return self._key_encoder[0]

    @property
    def value_schema_id(self) -> int:
        """Id of the value schema in the registry."""
        return self._value_encoder[0]

    def key_bytes(self, key: Mapping[str, Any]) -> bytes | None:
        """Return an encoded key with its schema id; None for a table without key."""
        return _framed(*self._key_encoder, key) if self.key else None

    def value_bytes(
        self,
        op: str,
        *,
        before: Mapping[str, Any] | None = None,
        after: Mapping[str, Any] | None = None,
        file: str = "binlog.000001",
        pos: int = 4,
        row: int = 0,
        sequence: tuple[int | None, int | None] | None = None,
        ts_ms: int = 1_700_000_000_000,
        lsn: int | None = None,
        transaction: tuple[str, int, int] | None = None,
        server: int = 1,
        gtid: str | None = None,
        snapshot: str | None = None,
        named: tuple[str, str] | None = None,
    ) -> bytes:
        """Return an encoded envelope with its schema id.

        ``transaction`` has the id, the total order and the order within the table. ``named`` has
        database and table if the topic's name does not.
        """
        database, table = named or self.topic.split(".")[-2:]
        source = {
            "version": "3.6.1.Final",
            "connector": self.connector,
            "name": "p",
            "ts_ms": ts_ms,
            "snapshot": snapshot or ("incremental" if op == "r" else "false"),
            "db": database,
            "sequence": None
            if sequence is None
            else json.dumps([None if part is None else str(part) for part in sequence], separators=(",", ":")),
            "table": table,
            "server_id": server,
            "gtid": gtid,
            "file": file,
            "pos": pos,
            "row": row,
            "schema": "public",
            "lsn": lsn,
        }
        envelope = {
            "before": before,
            "after": after,
            "source": source,
            "transaction": None
            if transaction is None
            else dict(zip(("id", "total_order", "data_collection_order"), transaction, strict=True)),
            "op": op,
            "ts_ms": ts_ms,
            "ts_us": ts_ms * 1000,
            "ts_ns": ts_ms * 1_000_000,
        }
        return _framed(*self._value_encoder, envelope)


@dataclass(frozen=True, kw_only=True)
class TransactionTopic:
    """Begin and end records of transactions by Debezium's manual (Transaction metadata)."""

    topic: str
    registry: RegistryServer = field(repr=False)

    @cached_property
    def _encoders(self) -> tuple[tuple[int, Any], tuple[int, Any]]:
        name = "io.debezium.connector.common.TransactionMetadata"
        counted = {
            "type": "record",
            "name": "collection",
            "namespace": "event",
            "fields": [{"name": "data_collection", "type": "string"}, {"name": "event_count", "type": "long"}],
            "connect.version": 1,
            "connect.name": "event.collection",
        }
        key = {
            "type": "record",
            "name": "TransactionMetadataKey",
            "namespace": "io.debezium.connector.common",
            "fields": [{"name": "id", "type": "string"}],
            "connect.version": 1,
            "connect.name": f"{name}Key",
        }
        value = {
            "type": "record",
            "name": "TransactionMetadataValue",
            "namespace": "io.debezium.connector.common",
            "fields": [
                {"name": "status", "type": "string"},
                {"name": "id", "type": "string"},
                _with_default("event_count", ["null", "long"]),
                _with_default("data_collections", ["null", {"type": "array", "items": ["null", counted]}]),
                {"name": "ts_ms", "type": "long"},
            ],
            "connect.version": 1,
            "connect.name": f"{name}Value",
        }
        pairs = [(self.registry.register(json.dumps(schema)), fastavro.parse_schema(schema)) for schema in (key, value)]
        return pairs[0], pairs[1]

    def key_bytes(self, transaction: str) -> bytes:
        """Return an encoded key with its schema id."""
        return _framed(*self._encoders[0], {"id": transaction})

    def value_bytes(self, transaction: str, counts: Mapping[str, int] | None = None, *, ts_ms: int = 1_700_000_000_000) -> bytes:
        """Return a BEGIN record, or with ``counts`` (records by data collection) an END record."""
        reported = None if counts is None else [{"data_collection": name, "event_count": count} for name, count in counts.items()]
        record = {
            "status": "BEGIN" if counts is None else "END",
            "id": transaction,
            "event_count": None if counts is None else sum(counts.values()),
            "data_collections": reported,
            "ts_ms": ts_ms,
        }
        return _framed(*self._encoders[1], record)


def _with_default(name: str, kind: Any) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "type": kind}
    if isinstance(kind, list) and kind[0] == "null":
        entry["default"] = None
    return entry


def _framed(schema_id: int, schema: Any, datum: Mapping[str, Any]) -> bytes:
    out = io.BytesIO()
    out.write(b"\x00" + schema_id.to_bytes(4, "big"))
    fastavro.schemaless_writer(out, schema, datum)
    return out.getvalue()
