"""Code that was generated for one batch serves the next: nothing that differs from batch to batch is written into it, and none of it is forgotten."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from pyspark.sql import SparkSession
from sink.harness import Record, Sink, change
from support.envelopes import TableSchema
from support.registry_server import RegistryServer

KEYS = 1000
BATCHES = 4


def generated(spark: SparkSession) -> int:
    """How many classes Spark has generated so far."""
    return int(spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME().getCount())


def batch(table: TableSchema, dice: random.Random, number: int) -> list[Record]:
    """Inserts, updates and deletes, some keys more than once."""
    keys = dice.choices(range(KEYS), k=KEYS // 2)
    return [
        change(
            table,
            dice.choice("cuuuud"),
            {"id": key, "name": f"{number}"},
            at=number * KEYS + row,
            sequenced=True,
            ts_ms=1_700_000_000_000 + number,
        )
        for row, key in enumerate(keys)
    ]


@pytest.mark.long
def test_a_batch_like_those_before_it_generates_no_code(sink: Sink, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("tables.modes.mirror", "delta.session"):  # as if these were many rows, of which plans are compiled
        monkeypatch.setattr(f"dblog_sink.{module}.MANY_ROWS", 100)
    sink.settings |= {"rewrite.rows.max": "0"}
    items = TableSchema(topic="p.shop.items", columns=[("id", "long"), ("name", ["null", "string"])], registry=registry)
    dice = random.Random(1)

    counts = [generated(sink.spark)]
    for number in range(BATCHES):
        sink.batch(*batch(items, dice, number))
        counts.append(generated(sink.spark))

    each = [after - before for before, after in pairwise(counts)]
    assert each[0] > 20, f"the first batch compiles its plans, or this test sees nothing: {each}"
    assert each[-1] == 0, f"classes generated, batch by batch: {each}"
