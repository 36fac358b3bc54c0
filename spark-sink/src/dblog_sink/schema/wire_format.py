"""The schema id of a record: five bytes that all records of one writer schema share, computed in SQL before any schema is read.

In Confluent's wire format the record begins with them: a zero byte and the registry's number. JSON begins with a brace and has no id, for the schema is in
the record itself: its schema id is the brace and four bytes of a digest of the text up to the payload. A record that begins otherwise goes to quarantine.

A connector's schema history is JSON without a schema, and a pattern of topics easily takes its topic in (``shop.history`` has the prefix of the tables). Its
records are known by their form, and share one schema id of their own: they are no rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.schema.writer_schemas import JSON_START

RECORD = ("topic", "partition", "offset", "timestamp", "key", "value")
"""The columns of a record as Kafka's source has them, wherever it is kept."""
WITH_SCHEMA_IDS = (*RECORD, "key_schema_id", "value_schema_id")
"""The columns of ``with_schema_ids``."""

SCHEMA_ID_BYTES = 5
HISTORY = b"{hist"
"""The schema id of records of a schema history."""
_OWN_HISTORY_KEY = r'^\{"dblog":[0-9]+,"server":"'
_DEBEZIUM_HISTORY = r'^\{\s*"source"\s*:\s*\{[^{}]*\}\s*,\s*"position"\s*:'
_BRACE = b"{"[0]


def schema_id(column: str) -> Column:
    """The schema id of the records in a binary column; NULL for a Kafka tombstone."""
    digest = f"concat(X'7B', substring(unhex(md5(CAST({_part(column)} AS BINARY))), 1, 4))"
    return F.expr(f"IF(substring({column}, 1, 1) = X'7B', {digest}, substring({column}, 1, {SCHEMA_ID_BYTES}))")


def with_schema_ids(records: DataFrame, *also: str) -> DataFrame:
    """The records with both schema ids, as everything that decodes takes them; ``also``: columns that stay beside."""
    value = F.when(_of_a_history(), F.lit(bytearray(HISTORY))).otherwise(schema_id("value"))
    return records.select(*also, *RECORD, schema_id("key").alias("key_schema_id"), value.alias("value_schema_id"))


def schema_text(column: str) -> Column:
    """The schema that stands in a record of JSON; NULL for others."""
    return F.expr(f"IF(substring({column}, 1, 1) = X'7B', {_part(column)}, NULL)")


def maybe_dumped() -> Column:
    """Whether a record may be a row of a dump: it holds the text that ``source.snapshot`` has there, in Avro as in JSON. Other records may hold it too."""
    return F.coalesce(F.contains(F.col("value"), F.lit(b"incremental")), F.lit(False))


def maybe_derived(highs: Mapping[str, int]) -> Column:
    """Whether a record may have no ``source.sequence``: its bytes hold no beginning of one. Other texts may begin so too. JSON may always have none.

    Of a topic in ``highs``: whether it may not carry D7's numbers with this one as the first. Debezium writes two LSNs where they would be, and
    there too only the text shows it.
    """
    start = F.lit(b'["')
    if highs:
        pairs = [part for topic, high in sorted(dict(highs).items()) for part in (F.lit(topic), F.lit(f'["{high}","'.encode()))]
        start = F.coalesce(F.try_element_at(F.create_map(*pairs), F.col("topic")), start)
    json = F.coalesce(F.substring("value", 1, 1) == F.lit(b"{"), F.lit(False))
    return ~F.coalesce(F.contains(F.col("value"), start), F.lit(False)) | json


def maybe_sequenced_json() -> Column:
    """Whether a record is JSON that may have ``source.sequence``: it holds the beginning of one, as JSON writes it in a text."""
    return F.coalesce((F.substring("value", 1, 1) == F.lit(b"{")) & F.contains(F.col("value"), F.lit(b'[\\"')), F.lit(False))


def _of_a_history() -> Column:
    """Whether a record is of a schema history: JSON without a schema (or erased), with the worker's key, or without a key and as Debezium's begins.

    The worker's key is ``readers/history.py``'s; Debezium's value has source and position in front (its manual, "MySQL connector", Schema history topic).
    """
    key, value = F.col("key").cast("string"), F.col("value").cast("string")
    plain = F.col("value").isNull() | ((F.substring("value", 1, 1) == F.lit(b"{")) & ~value.startswith(JSON_START))
    return F.coalesce(plain & F.when(key.isNull(), value.rlike(_DEBEZIUM_HISTORY)).otherwise(key.rlike(_OWN_HISTORY_KEY)), F.lit(False))


def _part(column: str) -> str:
    text = f"CAST({column} AS STRING)"
    # Texts without a schema in front share one schema id, or each would have one of its own.
    return f"IF(startswith({text}, '{JSON_START}'), substring_index({text}, ',\"payload\":', 1), '{{')"


def schema_id_of(found: bytes | None) -> int | None:
    """The registry's number of a schema id, None if it is not in Confluent's wire format."""
    if found is None or len(found) != SCHEMA_ID_BYTES or found[0] != 0:
        return None
    return int.from_bytes(found[1:], "big")


def is_json(found: bytes | None) -> bool:
    """Whether it is the schema id of a record in JSON."""
    return bool(found) and found[0] == _BRACE  # type: ignore[index]
