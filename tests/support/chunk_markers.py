"""Chunk markers as the worker writes them (schemas/chunk_marker.avsc), in Avro or in JSON."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import fastavro
from support.registry_server import RegistryServer

_SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "chunk_marker.avsc").read_text(encoding="utf-8"))


def chunk_marker(
    topic: str,
    *,
    chunk_id: str,
    low: tuple[int, int],
    read: int,
    dropped: int = 0,
    offsets: dict[int, tuple[int, int]] | None = None,
    begins: bool = False,
    final: bool = False,
    after: str | None = None,
    upto: str | None = "[9]",
    dump: str | None = "initial",
    mode: str | None = "rows",
    scope: str | None = "table",
    ts_ms: int = 1_700_000_000_000,
    fingerprints: bytes | None = None,
    schemas: dict[str, str] | None = None,
    low_ts_ms: int | None = None,
    own_left: bool | None = None,
    rows_passed: int | None = None,
) -> dict[str, Any]:
    """Return the marker of a chunk with ``read`` rows between a low and a high watermark."""
    database, table = topic.split(".")[-2:]
    position = {"file": "binlog.000001", "pos": low[1] >> 23, "gtid": None, "sequence_high": low[0], "sequence_low": low[1]}
    parts = [{"partition": number, "first_offset": first, "last_offset": last} for number, (first, last) in (offsets or {}).items()]
    return {
        "version": "1",
        "connector": "mysql",
        "server": topic.split(".", maxsplit=1)[0],
        "table": f"{database}.{table}",
        "chunk_id": chunk_id,
        "range_after": after,
        "range_upto": upto,
        "final": final,
        "low": position,
        "high": position,
        "rows_read": read,
        "rows_dropped": dropped,
        "digest": -1,
        "topic": topic,
        "offsets": None if offsets is None else parts,
        "ts_ms": ts_ms,
        "dump": dump,
        "mode": mode,
        "begins": begins,
        "scope": scope,
        "fingerprints": fingerprints,
        "schemas": schemas,
        "low_ts_ms": low_ts_ms,
        "own_left": own_left,
        "rows_passed": rows_passed,
    }


def in_avro(registry: RegistryServer, marker: dict[str, Any], *, without: Collection[str] = ()) -> bytes:
    """Return the record's value as the Avro converter writes it.

    ``without`` has the fields that an older worker did not know.
    """
    schema = {**_SCHEMA, "fields": [field for field in _SCHEMA["fields"] if field["name"] not in without]}
    out = io.BytesIO()
    out.write(b"\x00" + registry.register(json.dumps(schema)).to_bytes(4, "big"))
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), marker)
    return out.getvalue()


def in_json(marker: dict[str, Any]) -> bytes:
    """Return the record's value as the JSON converter writes it.

    The schema contains only the record's name and one field.
    """
    text = {"type": "string", "optional": False, "field": "chunk_id"}
    schema = {"type": "struct", "fields": [text], "optional": False, "name": "io.dblog.ChunkMarker", "version": 1}
    payload = {name: base64.b64encode(value).decode() if isinstance(value, bytes) else value for name, value in marker.items()}
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()
