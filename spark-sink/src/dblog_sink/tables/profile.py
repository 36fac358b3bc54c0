"""Profiles raw records by topic in one Spark job: counts, offsets, schema ids of keys and
values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.schema.wire_format import SCHEMAS_MAX, TOO_MANY, is_json, maybe_derived, maybe_dumped, maybe_sequenced_json, schema_text

_NONE: Mapping[str, int] = MappingProxyType({})


@dataclass(slots=True)
class TopicStats:
    """The profile of one topic among some records."""

    topic: str
    records: int = 0
    value_bytes: int = 0
    key_schema_ids: set[bytes | None] = field(default_factory=set)
    value_schema_ids: dict[bytes, int] = field(default_factory=dict)
    texts: dict[bytes, str] = field(default_factory=dict)
    """Schema id to schema text, for JSON records."""
    nulls: int = 0
    """Number of Kafka tombstones."""
    maybe_dumped: int = 0
    """Number of records that contain ``incremental``, as every dumped row does in
    ``source.snapshot``.
    """
    maybe_derived: int = 0
    """Number of records that may lack ``source.sequence``; for PostgreSQL, that Debezium may have
    written.
    """
    maybe_sequenced: int = 0
    """Number of records that may have ``source.sequence``."""
    first: dict[int, int] = field(default_factory=dict)
    """Smallest offset by partition."""
    last: dict[int, int] = field(default_factory=dict)
    """Greatest offset by partition."""

    @property
    def has_too_many_schemas(self) -> bool:
        """True if the records have more schemas than can be read together."""
        return TOO_MANY in self.value_schema_ids


def profile(raw: DataFrame, highs: Mapping[str, int] = _NONE) -> list[TopicStats]:
    """Profile the records by topic, in the job that reads them and fills the cache.

    ``highs`` maps PostgreSQL topics to the first of D7's numbers in dblog's last records. Only
    numbers are aggregated, because Spark sorts when it aggregates text; a second job fetches the
    schemas of JSON records if there are any.
    """
    profiled: dict[str, TopicStats] = {}
    found = raw.groupBy("topic", "partition", "key_schema_id", "value_schema_id").agg(
        F.count("*").alias("n"),
        F.count_if(maybe_dumped()).alias("dumped"),
        F.count_if(maybe_derived(highs)).alias("derived"),
        F.count_if(maybe_sequenced_json()).alias("sequenced"),
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
        F.sum(F.length("value")).alias("bytes"),
    )
    for row in found.collect():
        stats = profiled.setdefault(row["topic"], TopicStats(row["topic"]))
        stats.records += row["n"]
        stats.value_bytes += row["bytes"] or 0
        stats.maybe_dumped += row["dumped"]
        stats.maybe_derived += row["derived"] if row["value_schema_id"] is not None else 0
        if row["value_schema_id"] is not None:
            stats.maybe_sequenced += row["sequenced"] if is_json(bytes(row["value_schema_id"])) else row["n"] - row["derived"]
        partition = row["partition"]
        stats.key_schema_ids.add(None if row["key_schema_id"] is None else bytes(row["key_schema_id"]))
        if row["value_schema_id"] is None:
            stats.nulls += row["n"]
        else:
            schema_id = bytes(row["value_schema_id"])
            stats.value_schema_ids[schema_id] = stats.value_schema_ids.get(schema_id, 0) + row["n"]
        stats.first[partition] = min(row["first"], stats.first.get(partition, row["first"]))
        stats.last[partition] = max(row["last"], stats.last.get(partition, row["last"]))
    for stats in profiled.values():
        if max(len(stats.value_schema_ids), len(stats.key_schema_ids)) > SCHEMAS_MAX:
            stats.value_schema_ids = {TOO_MANY: sum(stats.value_schema_ids.values())}
            stats.key_schema_ids = {TOO_MANY}
    for column in ("key", "value"):
        _fetch_texts(raw, profiled, column)
    # The longest work starts first.
    return sorted(profiled.values(), key=lambda stats: -stats.records)


def _fetch_texts(raw: DataFrame, profiled: Mapping[str, TopicStats], column: str) -> None:
    """Fetch the schemas that are contained in the records."""
    schema_ids = {
        topic: [one for one in (stats.key_schema_ids if column == "key" else stats.value_schema_ids) if is_json(one)]
        for topic, stats in profiled.items()
    }
    topics = [topic for topic, found in schema_ids.items() if found]
    if not topics:
        return
    schema_id = f"{column}_schema_id"
    wanted = F.col(schema_id).isin(sorted({one for found in schema_ids.values() for one in found if one is not None}))
    texts = raw.where(F.col("topic").isin(topics) & wanted).groupBy("topic", schema_id).agg(F.max(schema_text(column)).alias("text"))
    for row in texts.collect():
        if row["text"] is not None:
            profiled[row["topic"]].texts[bytes(row[schema_id])] = row["text"]
