"""Checks the digests of chunks against schemas/README.md.

The expected digests come from the records in the table's topic, encoded by an independent Avro
writer.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import fastavro
from support.topicfold import Registry, records

MODULUS = 1 << 64


def check_chunks(bootstrap: str, registry: Registry, topic: str, markers: Iterable[Mapping[str, Any]]) -> int:
    """Check the row count of each chunk marker, and the digest where no change replaced a row.

    Return the number of digests that were compared.
    """
    sent: dict[tuple[int, int], dict[bytes, int]] = {}
    for key, value, _ in records(bootstrap, topic):
        if value is None:
            continue
        assert key is not None, "a table with a key has keyed records"
        envelope, schema = registry.decode_with_schema(value)
        if envelope["op"] == "r":
            high, low = (int(part) for part in envelope["source"]["sequence"].strip("[]").replace('"', "").split(","))
            sent.setdefault((high, low), {})[key] = zlib.crc32(_written(schema, envelope["after"]))
    compared = 0
    for marker in markers:
        rows = sent.get((marker["low"]["sequence_high"], marker["low"]["sequence_low"]), {})
        assert len(rows) == marker["rows_read"] - marker["rows_dropped"], marker["chunk_id"]
        if not marker["rows_dropped"]:
            assert sum(rows.values()) % MODULUS == marker["digest"] % MODULUS, marker["chunk_id"]
            compared += 1
    return compared


def _written(schema: Any, row: Mapping[str, Any]) -> bytes:
    """Return the row encoded as an Avro record."""
    after = next(field["type"] for field in schema["fields"] if field["name"] == "after")
    before = next(field["type"] for field in schema["fields"] if field["name"] == "before")
    # The first branch defines the record; the second refers to it by name.
    value = next(branch for kind in (after, before) for branch in kind if isinstance(branch, dict))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(value), row)
    return out.getvalue()
