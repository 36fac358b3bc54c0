"""Fit a record of the schema-change topic into what Kafka takes.

Such a record has the statement of a client, and clients may send statements of megabytes about tables that nobody captures. One that Kafka refuses would end
the task, and again after each restart. So the statement is cut at a marked place, and if that is not enough the table's columns are left out: who follows the
topic still sees that something has changed, where and when. The rows do not depend on these records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

RECORD_BYTES_MAX = 1_000_000
"""Topics take records of 1 048 588 bytes unless they are configured otherwise (Kafka's manual, message.max.bytes), producers 1 000 000 (librdkafka's)."""

OVERHEAD_BYTES = 16 * 1024
"""Key, headers and what Kafka puts around a record."""

STATEMENT_CHARS_MAX = 64 * 1024
_SHORT_CHARS = 1024


def value_bytes_max(producer_bytes_max: int | None) -> int:
    """Return how many bytes a value may have; ``producer_bytes_max`` is the producer's limit, None for the usual one."""
    limit = RECORD_BYTES_MAX if producer_bytes_max is None else min(RECORD_BYTES_MAX, producer_bytes_max)
    return max(limit - OVERHEAD_BYTES, limit // 2)


def smaller_forms(value: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Give the value with less and less in it, for as long as it is too large."""
    yield {**value, "ddl": cut_statement(value["ddl"], STATEMENT_CHARS_MAX)}
    short = {**value, "ddl": cut_statement(value["ddl"], _SHORT_CHARS)}
    yield short
    yield {**short, "tableChanges": []}


def cut_statement(text: str, chars_max: int) -> str:
    """Return a statement with no more than its first ``chars_max`` characters; a comment after them says how many are left out."""
    if len(text) <= chars_max:
        return text
    return f"{text[:chars_max]}\n/* cut by dblog: {len(text) - chars_max} of {len(text)} characters are left out */"
