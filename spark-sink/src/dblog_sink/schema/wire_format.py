"""Computes schema ids of records in SQL: five bytes that all records of one writer schema share.

In Confluent's wire format a record begins with them: a zero byte and the registry's number. A JSON
record begins with a brace and contains its schema; its schema id is the brace and four bytes of a
digest of the text before the payload. Records that begin otherwise share an id and go to quarantine.

A connector's schema history is JSON without a schema, and a topic pattern may include its topic by
accident (``shop.history`` has the prefix of the tables). Its records are recognized by their form
and share a reserved schema id; they are not rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.schema.writer_schemas import JSON_START

RECORD = ("topic", "partition", "offset", "timestamp", "key", "value")
"""Columns of a Kafka record, wherever it is stored."""
WITH_SCHEMA_IDS = (*RECORD, "key_schema_id", "value_schema_id")
"""Columns that ``with_schema_ids`` returns."""

SCHEMA_ID_BYTES = 5
HISTORY = b"{hist"
"""Schema id of records of a schema history."""
NOT_FRAMED = b"\xff"
"""Schema id of records that are neither in Confluent's wire format nor JSON."""
TOO_MANY = b"\xfe"
"""Schema id that stands for all of a topic that has more than ``SCHEMAS_MAX``."""
SCHEMAS_MAX = 1000
"""Most schema ids of one topic in a batch, of keys and of values each. Each is asked for and has a
part of the plan, and anybody who writes a topic may put any number into a record.
"""
_OWN_HISTORY_KEY = r'^\{"dblog":[0-9]+,"server":"'
_DEBEZIUM_HISTORY = r'^\{\s*"source"\s*:\s*\{[^{}]*\}\s*,\s*"position"\s*:'
_BRACE = b"{"[0]


def schema_id(column: str) -> Column:
    """Return the schema ids of the records in a binary column; NULL for a Kafka tombstone.

    Records in another format share one: anybody who writes a topic could give each its own
    beginning.
    """
    digest = f"concat(X'7B', substring(unhex(md5(CAST({_part(column)} AS BINARY))), 1, 4))"
    framed = f"substring({column}, 1, 1) = X'00' AND length({column}) >= {SCHEMA_ID_BYTES}"
    other = f"IF({framed}, substring({column}, 1, {SCHEMA_ID_BYTES}), IF({column} IS NULL, NULL, X'{NOT_FRAMED.hex()}'))"
    return F.expr(f"IF(substring({column}, 1, 1) = X'7B', {digest}, {other})")


def with_schema_ids(records: DataFrame, *also: str) -> DataFrame:
    """Return the records with the schema ids of key and value, for everything that decodes them.

    ``also`` names further columns to keep.
    """
    value = F.when(_of_a_history(), F.lit(bytearray(HISTORY))).otherwise(schema_id("value"))
    return records.select(*also, *RECORD, schema_id("key").alias("key_schema_id"), value.alias("value_schema_id"))


def schema_text(column: str) -> Column:
    """Return the schema text inside a JSON record; NULL for others."""
    return F.expr(f"IF(substring({column}, 1, 1) = X'7B', {_part(column)}, NULL)")


def maybe_dumped() -> Column:
    """Return a condition that is true for every row of a dump.

    It looks for the text that ``source.snapshot`` has there, in Avro as in JSON. Other records may
    contain that text too.
    """
    return F.coalesce(F.contains(F.col("value"), F.lit(b"incremental")), F.lit(False))


def maybe_derived(highs: Mapping[str, int]) -> Column:
    """Return a condition that is true for every record without ``source.sequence``.

    It looks for bytes with which a sequence begins; other texts may begin alike. Every JSON record
    satisfies it. For a topic in ``highs`` the sequence must begin with that number as the first of
    D7's numbers, because Debezium writes two LSNs in the same place.
    """
    start = F.lit(b'["')
    if highs:
        pairs = [part for topic, high in sorted(dict(highs).items()) for part in (F.lit(topic), F.lit(f'["{high}","'.encode()))]
        start = F.coalesce(F.try_element_at(F.create_map(*pairs), F.col("topic")), start)
    json = F.coalesce(F.substring("value", 1, 1) == F.lit(b"{"), F.lit(False))
    return ~F.coalesce(F.contains(F.col("value"), start), F.lit(False)) | json


def maybe_sequenced_json() -> Column:
    """Return a condition that is true for every JSON record with ``source.sequence``.

    It looks for the beginning of a sequence as JSON writes it inside a text.
    """
    return F.coalesce((F.substring("value", 1, 1) == F.lit(b"{")) & F.contains(F.col("value"), F.lit(b'[\\"')), F.lit(False))


def _of_a_history() -> Column:
    """Return a condition that is true for records of a schema history.

    These are JSON without a schema, or erased ones, with the worker's key, or without a key and
    with the beginning of Debezium's. The worker's key is that of ``readers/log/history.py``. Debezium's
    value begins with source and position (its manual, "MySQL connector", Schema history topic).
    """
    key, value = F.col("key").cast("string"), F.col("value").cast("string")
    plain = F.col("value").isNull() | ((F.substring("value", 1, 1) == F.lit(b"{")) & ~value.startswith(JSON_START))
    return F.coalesce(plain & F.when(key.isNull(), value.rlike(_DEBEZIUM_HISTORY)).otherwise(key.rlike(_OWN_HISTORY_KEY)), F.lit(False))


def _part(column: str) -> str:
    text = f"CAST({column} AS STRING)"
    # Texts that do not begin with a schema share one schema id; otherwise each would have its own.
    return f"IF(startswith({text}, '{JSON_START}'), substring_index({text}, ',\"payload\":', 1), '{{')"


def schema_id_of(found: bytes | None) -> int | None:
    """Return the registry's number of a schema id, or None if it is not in Confluent's wire
    format.
    """
    if found is None or len(found) != SCHEMA_ID_BYTES or found[0] != 0:
        return None
    return int.from_bytes(found[1:], "big")


def is_json(found: bytes | None) -> bool:
    """Return True for the schema id of a JSON record."""
    return bool(found) and found[0] == _BRACE  # type: ignore[index]
