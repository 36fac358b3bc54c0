"""The header ``traceparent`` of records (W3C Trace Context): in which steps of the worker the records of a batch were captured, by topic.

A batch may hold records of thousands of steps, so only the newest of a topic are fetched, sampled ones first.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

TRACEPARENT = "traceparent"
STEPS_MAX = 128
"""Of a topic in a batch, and so of a span, which has as many links by OpenTelemetry's default."""
_FORM = "^(?!ff)[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$"
_SAMPLED = "[13579bdf]$"
"""The last bit of the flags."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Of one topic: the newest of its steps, as their ``traceparent``, and how many there are in all."""

    newest: tuple[str, ...]
    total: int


def traceparent() -> Column:
    """The header of a record that Kafka's source gives with its headers; NULL without one, or where it is none."""
    # The last one counts: a proxy that goes on with a trace adds its own behind those that it finds.
    text = F.expr(f"CAST(try_element_at(filter(headers, one -> one.key = '{TRACEPARENT}'), -1).value AS STRING)")
    return F.when(text.rlike(_FORM), text).alias(TRACEPARENT)


def steps(records: DataFrame, *, steps_max: int = STEPS_MAX) -> dict[str, Steps]:
    """By topic, the steps of records that have their ``traceparent`` in a column, at most so many of each topic."""
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
