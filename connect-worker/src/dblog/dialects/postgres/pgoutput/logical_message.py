"""Builds Debezium's record of a logical message (pg_logical_emit_message), as its
LogicalDecodingMessageMonitor does.
"""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from functools import cache
from typing import Any

from dblog.codecs.envelope import OPTIONAL_INT64, OPTIONAL_STRING, STRING, TRANSACTION_BLOCK, struct
from dblog.codecs.schema import Kind, Schema
from dblog.dialects.postgres.pgoutput.messages import Message
from dblog.dialects.postgres.pgoutput.source_block import source_schema

SUFFIX = "message"
"""Suffix of the topic's name."""

KEY = struct("io.debezium.connector.postgresql.MessageKey", ("prefix", OPTIONAL_STRING), version=1)


@cache
def value_schema(binary_mode: str) -> Schema:
    """Return the schema of the record's value. ``binary_mode`` is binary.handling.mode, for the
    content.
    """
    content = Schema(kind=Kind.BYTES if binary_mode == "bytes" else Kind.STRING, optional=True)
    message = struct("io.debezium.connector.postgresql.Message", ("prefix", OPTIONAL_STRING), ("content", content), version=1)
    return struct(
        "io.debezium.connector.postgresql.MessageValue",
        ("op", STRING),
        ("ts_ms", OPTIONAL_INT64),
        ("source", source_schema()),
        ("transaction", TRANSACTION_BLOCK),
        ("message", message),
        version=1,
    )


def value(message: Message, source: dict[str, Any], *, binary_mode: str, now_us: int) -> dict[str, Any]:
    """Return the record's value."""
    return {
        "op": "m",
        "ts_ms": now_us // 1000,
        "source": source,
        "transaction": None,
        "message": {"prefix": message.prefix, "content": _content(message.content, binary_mode)},
    }


def _content(content: bytes, binary_mode: str) -> bytes | str:
    match binary_mode:
        case "base64":
            return b64encode(content).decode()
        case "base64-url-safe":
            return urlsafe_b64encode(content).decode()
        case "hex":
            return content.hex()
        case _:
            return content
