"""Reads the header ``traceparent`` of records (W3C Trace Context), by topic.

It shows in which spans of the worker a batch's records were captured. A batch may have records of
thousands of spans, so only a topic's newest are fetched, sampled ones first.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

TRACEPARENT = "traceparent"
STEPS_MAX = 128
"""Maximum number of worker spans for a topic in a batch; a span has at most this many links by
OpenTelemetry's default.
"""
_FORM = "^(?!ff)[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$"
_SAMPLED = "[13579bdf]$"
"""Matches a set last bit of the flags, which means sampled."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The newest worker spans of a topic as ``traceparent``, and the number of all its spans."""

    newest: tuple[str, ...]
    total: int


def traceparent() -> Column:
    """Return the header of a record as a column; NULL if it is missing or malformed."""
    # The last one counts: a proxy that continues a trace appends its own header.
    text = F.expr(f"CAST(try_element_at(filter(headers, one -> one.key = '{TRACEPARENT}'), -1).value AS STRING)")
    return F.when(text.rlike(_FORM), text).alias(TRACEPARENT)


def steps(records: DataFrame, *, steps_max: int = STEPS_MAX) -> dict[str, Steps]:
    """Return the worker spans by topic, at most ``steps_max`` for each.

    The records must have their ``traceparent`` in a column.
    """
    found = records.where(F.col(TRACEPARENT).isNotNull()).groupBy("topic", TRACEPARENT).agg(F.max("timestamp").alias("last"))
    topic = Window.partitionBy("topic")
    newest_first = topic.orderBy(F.col(TRACEPARENT).rlike(_SAMPLED).desc(), F.desc("last"), TRACEPARENT)
    ranked = found.select("topic", TRACEPARENT, F.row_number().over(newest_first).alias("rank"), F.count("*").over(topic).alias("total"))
    newest: dict[str, list[str]] = {}
    totals: dict[str, int] = {}
    for row in ranked.where(F.col("rank") <= steps_max).orderBy("topic", "rank").collect():
        newest.setdefault(row["topic"], []).append(row[TRACEPARENT])
        totals[row["topic"]] = row["total"]
    return {topic: Steps(tuple(texts), totals[topic]) for topic, texts in newest.items()}
