"""Fingerprints of rows by schemas/README.md, made with an independent Avro writer.

It uses the schemas of a marker and nothing else.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable, Mapping
from hashlib import md5
from typing import Any

import fastavro


def prints_of(marker: Mapping[str, Any]) -> list[bytes]:
    """Return the fingerprints in a marker, one for each row. The marker comes from Avro or JSON."""
    given = marker["fingerprints"]
    whole = given if isinstance(given, bytes) else base64.b64decode(given)
    return [whole[at : at + 16] for at in range(0, len(whole), 16)]


def fingerprints(rows: Iterable[Mapping[str, Any]], schemas: Mapping[str, str]) -> set[bytes]:
    """Return the fingerprints of rows, which are mappings by column name."""
    key, row = (fastavro.parse_schema(json.loads(schemas[part])) for part in ("key", "row"))

    def head(schema: Any, value: Mapping[str, Any]) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, value)
        return md5(out.getvalue(), usedforsecurity=False).digest()[:8]

    names = [field["name"] for field in key["fields"]]
    return {head(key, {name: one[name] for name in names}) + head(row, one) for one in rows}
