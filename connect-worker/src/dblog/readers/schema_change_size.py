"""Shrinks a record of the schema-change topic to a size that Kafka accepts.

The record contains a client's statement, and clients may send statements of megabytes about tables
that nobody captures. A record that Kafka refuses would end the task, and again after each restart.
So the statement is cut at a marked position and, if that is not enough, the table's columns are
left out. Readers of the topic still see that something changed, where and when. The rows do not
depend on these records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

RECORD_BYTES_MAX = 1_000_000
"""Maximum size of a record in bytes. Topics accept 1 048 588 bytes by default (Kafka's manual,
message.max.bytes), producers 1 000 000 (librdkafka's).
"""

OVERHEAD_BYTES = 16 * 1024
"""Bytes reserved for the key, the headers, and what Kafka adds to a record."""

STATEMENT_CHARS_MAX = 64 * 1024
_SHORT_CHARS = 1024


def value_bytes_max(producer_bytes_max: int | None) -> int:
    """Return the maximum size of a value in bytes.

    ``producer_bytes_max`` is the producer's limit, None for the default.
    """
    limit = RECORD_BYTES_MAX if producer_bytes_max is None else min(RECORD_BYTES_MAX, producer_bytes_max)
    return max(limit - OVERHEAD_BYTES, limit // 2)


def smaller_forms(value: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield ever smaller forms of the value."""
    yield {**value, "ddl": cut_statement(value["ddl"], STATEMENT_CHARS_MAX)}
    short = {**value, "ddl": cut_statement(value["ddl"], _SHORT_CHARS)}
    yield short
    yield {**short, "tableChanges": []}


def cut_statement(text: str, chars_max: int) -> str:
    """Return the first ``chars_max`` characters of a statement; a comment says how many are
    missing.
    """
    if len(text) <= chars_max:
        return text
    return f"{text[:chars_max]}\n/* cut by dblog: {len(text) - chars_max} of {len(text)} characters are left out */"
