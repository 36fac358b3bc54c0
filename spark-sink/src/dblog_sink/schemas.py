"""What the sink must know of a writer schema: is it a table's envelope, which columns it has, and how to read it cheaply.

A record is always read with its own writer schema; Avro's resolution between versions would get decimals wrong (delta-sink.md 4.2, 1).
The reader schema made here has the same types and only fewer fields: neither ``before`` nor most of ``source`` is built in memory. Both
texts are stripped of Connect's properties, so that plans stay short (a long schema text in a plan can overflow the stack when a query
stops, delta-sink.md 2.1).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dblog_sink.errors import DefiniteError
from dblog_sink.types import Conversion, conversion, without_null

SOURCE_FIELDS = ("sequence", "file", "pos", "row", "lsn", "ts_ms")
"""The fields of the source block that decide a row's position and its age."""

NOT_ROWS = frozenset(
    {
        "io.debezium.connector.common.Heartbeat",
        "io.debezium.connector.common.TransactionMetadataValue",
        "io.debezium.connector.mysql.SchemaChangeValue",
        "io.debezium.connector.mariadb.SchemaChangeValue",
        "io.debezium.connector.postgresql.MessageValue",
        "io.debezium.connector.common.Notification",
    }
)
"""Value schemas of records that are no rows: they are left out wherever they turn up."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column of the source as one schema id writes it."""

    name: str
    conversion: Conversion


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """One schema id of a table's values."""

    schema_id: int
    fields: tuple[Field, ...]
    source_fields: frozenset[str]
    has_before: bool
    writer_text: str
    reader_text: str
    reader_text_with_before: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySchema:
    """One schema id of a table's keys."""

    schema_id: int
    fields: tuple[Field, ...]
    writer_text: str
    reader_text: str


@dataclass(frozen=True, slots=True)
class NotRows:
    """A schema of records that are left out: heartbeats, transaction metadata, schema changes, messages."""

    name: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A schema that no table can be made of; its records go to quarantine with this reason."""

    reason: str


def value_schema(schema_id: int, text: str) -> Envelope | NotRows | Unreadable:
    """What records with this value schema are."""
    top, definitions, writer = _parsed(text)
    if not isinstance(top, dict) or top.get("type") != "record":
        return Unreadable(f"schema {schema_id} is no record: not a Debezium envelope")
    name = _full_name(top)
    if top.get("connect.name", name) in NOT_ROWS or name in NOT_ROWS:
        return NotRows(name)
    members = {field["name"]: field["type"] for field in top["fields"]}
    if not {"op", "source", "after"} <= members.keys():
        return Unreadable(f"schema {schema_id} ({name}) is not a Debezium envelope; send the topic without unwrapping")
    row = _record_of(members["after"], definitions, where=name)
    source = _record_of(members["source"], definitions, where=name)
    fields = _fields(row, definitions, where=name)
    kept = [field["name"] for field in source["fields"] if field["name"] in SOURCE_FIELDS]
    reader = _reader(top, row, fields, source, kept, with_before=False)
    with_before = _reader(top, row, fields, source, kept, with_before=True) if "before" in members else reader
    return Envelope(
        schema_id=schema_id,
        fields=fields,
        source_fields=frozenset(kept),
        has_before="before" in members,
        writer_text=_compact(writer),
        reader_text=_compact(reader),
        reader_text_with_before=_compact(with_before),
    )


def key_schema(schema_id: int, text: str) -> KeySchema | Unreadable:
    """What keys with this schema are."""
    top, definitions, writer = _parsed(text)
    if not isinstance(top, dict) or top.get("type") != "record":
        return Unreadable(f"key schema {schema_id} is no record: not a Debezium key")
    fields = _fields(top, definitions, where=_full_name(top))
    reader = {"type": "record", "name": top["name"], "namespace": top.get("namespace", ""), "fields": _reader_fields(fields)}
    return KeySchema(schema_id=schema_id, fields=fields, writer_text=_compact(writer), reader_text=_compact(reader))


def _fields(row: Mapping[str, Any], definitions: Mapping[str, Any], *, where: str) -> tuple[Field, ...]:
    fields = tuple(Field(f["name"], conversion(f["type"], definitions, where=f"{where}, column {f['name']}")) for f in row["fields"])
    seen: dict[str, str] = {}
    for field in fields:
        other = seen.setdefault(field.name.lower(), field.name)
        if other != field.name:
            msg = f"{where}: columns {other} and {field.name} differ only in case, which Delta cannot hold; rename or exclude one in the connector"
            raise DefiniteError(msg)
        if field.name.lower().startswith("_dblog_"):
            msg = f"{where}: column {field.name}: names that begin with _dblog_ belong to the sink; rename or exclude it in the connector"
            raise DefiniteError(msg)
    return fields


def _reader(
    top: Mapping[str, Any],
    row: Mapping[str, Any],
    fields: tuple[Field, ...],
    source: Mapping[str, Any],
    kept: list[str],
    *,
    with_before: bool,
) -> dict[str, Any]:
    definition = {"type": "record", "name": row["name"], "namespace": row.get("namespace", ""), "fields": _reader_fields(fields)}
    members: list[dict[str, Any]] = []
    if with_before:
        members.append({"name": "before", "type": ["null", definition]})
        members.append({"name": "after", "type": ["null", _full_name(row)]})
    else:
        members.append({"name": "after", "type": ["null", definition]})
    plain = {field["name"]: _plain_type(field["type"]) for field in source["fields"]}
    members.append(
        {
            "name": "source",
            "type": {
                "type": "record",
                "name": source["name"],
                "namespace": source.get("namespace", ""),
                "fields": [{"name": name, "type": ["null", plain[name]]} for name in kept],
            },
        }
    )
    members.append({"name": "op", "type": "string"})
    return {"type": "record", "name": top["name"], "namespace": top.get("namespace", ""), "fields": members}


def _reader_fields(fields: tuple[Field, ...]) -> list[dict[str, Any]]:
    return [{"name": field.name, "type": ["null", field.conversion.avro]} for field in fields]


def _plain_type(schema: Any) -> str:
    schema = without_null(schema, where="source")
    return str(schema["type"] if isinstance(schema, dict) else schema)


def _record_of(schema: Any, definitions: Mapping[str, Any], *, where: str) -> Mapping[str, Any]:
    schema = without_null(schema, where=where)
    record = definitions.get(schema) if isinstance(schema, str) else schema
    if not isinstance(record, dict) or record.get("type") != "record":
        msg = f"{where}: after and source must be records"
        raise DefiniteError(msg)
    return record


def _parsed(text: str) -> tuple[Any, dict[str, Any], Any]:
    """(the schema with full names everywhere, its named types by full name, the same schema without any property of Connect)."""
    definitions: dict[str, Any] = {}
    top = _named(json.loads(text), "", definitions)
    return top, definitions, _stripped(top)


def _named(schema: Any, namespace: str, definitions: dict[str, Any]) -> Any:
    """Avro specification, Names: a name without a dot belongs to the enclosing namespace. Afterwards every reference is a full name."""
    if isinstance(schema, list):
        return [_named(branch, namespace, definitions) for branch in schema]
    if isinstance(schema, str):
        return _reference(schema, namespace, definitions)
    result = dict(schema)
    kind = schema["type"]
    if kind in ("record", "enum", "fixed"):
        name = schema["name"]
        if "." in name:
            namespace, name = name.rsplit(".", 1)
        else:
            namespace = schema.get("namespace", namespace)
        namespace = _legal(namespace)
        result["name"], result["namespace"] = name, namespace
        definitions[_full_name(result)] = result
        if kind == "record":
            result["fields"] = [{**field, "type": _named(field["type"], namespace, definitions)} for field in schema["fields"]]
    elif kind == "array":
        result["items"] = _named(schema["items"], namespace, definitions)
    elif kind == "map":
        result["values"] = _named(schema["values"], namespace, definitions)
    elif not isinstance(kind, str):
        result["type"] = _named(kind, namespace, definitions)
    else:
        result["type"] = _reference(kind, namespace, definitions)
    return result


def _reference(name: str, namespace: str, definitions: Mapping[str, Any]) -> str:
    full = f"{namespace}.{name}" if "." not in name and namespace else _legal(name)
    return full if full in definitions else name


def _legal(namespace: str) -> str:
    """A namespace that Spark's Avro 1.12 takes: the older one of most writers lets a topic prefix keep its hyphens. Names do not matter to bytes."""
    parts = (re.sub(r"\W", "_", part) for part in namespace.split("."))
    return ".".join(f"_{part}" if part[:1].isdigit() or not part else part for part in parts) if namespace else namespace


_KEPT = {
    "record": ("type", "name", "namespace"),
    "enum": ("type", "name", "namespace", "symbols"),
    "fixed": ("type", "name", "namespace", "size"),
}


def _stripped(schema: Any) -> Any:
    """Only what decides how bytes are laid out."""
    if isinstance(schema, list):
        return [_stripped(branch) for branch in schema]
    if isinstance(schema, str):
        return schema
    kind = schema["type"]
    if not isinstance(kind, str):
        return _stripped(kind)
    if kind in _KEPT:
        result = {name: schema[name] for name in _KEPT[kind]}
        if kind == "record":
            result["fields"] = [{"name": field["name"], "type": _stripped(field["type"])} for field in schema["fields"]]
        return result
    if kind == "array":
        return {"type": "array", "items": _stripped(schema["items"])}
    if kind == "map":
        return {"type": "map", "values": _stripped(schema["values"])}
    return kind


def _full_name(schema: Mapping[str, Any]) -> str:
    namespace = schema.get("namespace", "")
    return f"{namespace}.{schema['name']}" if namespace and "." not in schema["name"] else str(schema["name"])


def _compact(schema: Any) -> str:
    return json.dumps(_defined_once(schema, set()), separators=(",", ":"))


def _defined_once(schema: Any, seen: set[str]) -> Any:
    """Avro lets a named type be defined once only: later uses (two columns of one geometry type) become its name."""
    if isinstance(schema, list):
        return [_defined_once(branch, seen) for branch in schema]
    if isinstance(schema, str):
        return schema
    result = dict(schema)
    if schema["type"] in _KEPT:
        name = _full_name(schema)
        if name in seen:
            return name
        seen.add(name)
        if "fields" in schema:
            result["fields"] = [{**field, "type": _defined_once(field["type"], seen)} for field in schema["fields"]]
    elif schema["type"] == "array":
        result["items"] = _defined_once(schema["items"], seen)
    elif schema["type"] == "map":
        result["values"] = _defined_once(schema["values"], seen)
    return result
