"""What a record's first bytes say: the five by which records of one writer schema are known, in SQL, before any schema is read.

Confluent's frame is a zero byte and the schema id. JSON begins with a brace, and its head is that brace and four bytes of a digest of the text up to the
payload, for there is no id: the schema is in the record itself. Whatever else comes is no frame and goes to quarantine.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.schemas import JSON_START

RECORD = ("topic", "partition", "offset", "timestamp", "key", "value")
"""The columns of a record as Kafka's source has them, wherever it is kept."""
HEADED = (*RECORD, "key_head", "value_head")
"""The columns of ``headed``."""

HEAD_BYTES = 5
_BRACE = b"{"[0]


def head(column: str) -> Column:
    """The head of the records in a binary column; NULL for a Kafka tombstone."""
    digest = f"concat(X'7B', substring(unhex(md5(CAST({_part(column)} AS BINARY))), 1, 4))"
    return F.expr(f"IF(substring({column}, 1, 1) = X'7B', {digest}, substring({column}, 1, {HEAD_BYTES}))")


def headed(records: DataFrame, *also: str) -> DataFrame:
    """The records with both heads, as everything that decodes takes them; ``also``: columns that stay beside."""
    return records.select(*also, *RECORD, head("key").alias("key_head"), head("value").alias("value_head"))


def schema_text(column: str) -> Column:
    """The schema that stands in a record of JSON; NULL for others."""
    return F.expr(f"IF(substring({column}, 1, 1) = X'7B', {_part(column)}, NULL)")


def maybe_dumped() -> Column:
    """Whether a record may be a row of a dump: it holds the word that ``source.snapshot`` has there, in Avro as in JSON. Other records may hold it too."""
    return F.coalesce(F.contains(F.col("value"), F.lit(b"incremental")), F.lit(False))


def maybe_derived() -> Column:
    """Whether a record may lack ``source.sequence``: no text in it begins as one does in Avro. Other texts may begin so too; JSON always may lack it."""
    return ~F.coalesce(F.contains(F.col("value"), F.lit(b'["')), F.lit(False)) | F.coalesce(
        F.substring("value", 1, 1) == F.lit(b"{"), F.lit(False)
    )


def _part(column: str) -> str:
    text = f"CAST({column} AS STRING)"
    # A text without a schema in front would be a head of its own each: all of them share one.
    return f"IF(startswith({text}, '{JSON_START}'), substring_index({text}, ',\"payload\":', 1), '{{')"


def framed(schema_id: int) -> bytes:
    """The head of a schema id."""
    return b"\x00" + schema_id.to_bytes(4, "big")


def schema_id_of(found: bytes | None) -> int | None:
    """The schema id of a head, or None if it is none of Confluent's."""
    if found is None or len(found) != HEAD_BYTES or found[0] != 0:
        return None
    return int.from_bytes(found[1:], "big")


def is_json(found: bytes | None) -> bool:
    """Whether a head is one of JSON."""
    return bool(found) and found[0] == _BRACE  # type: ignore[index]
