"""Avro is read by an expression without state."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from dblog_sink.schema.avro import read_avro
from dblog_sink.schema.types import decimal_sql
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

SCHEMA = json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}]})
READER = json.dumps({"type": "record", "name": "r", "fields": [{"name": "b", "type": "string"}]})


def expressions(frame: DataFrame) -> Iterator[str]:
    """Class names of all expressions of the analyzed plan, as threads share them."""

    def nested(one) -> Iterator[str]:
        yield one.getClass().getSimpleName()
        children = one.children()
        for at in range(children.size()):
            yield from nested(children.apply(at))

    plan = frame._jdf.queryExecution().analyzed()
    while True:
        for at in range(plan.expressions().size()):
            yield from nested(plan.expressions().apply(at))
        if plan.children().isEmpty():
            return
        plan = plan.children().apply(0)


@pytest.mark.parametrize("reader", [None, READER])
def test_a_plan_that_reads_avro_builds_no_map_when_it_is_compared(spark: SparkSession, reader: str | None) -> None:
    raw = spark.createDataFrame([(bytearray(b"\x02\x02x"),), (bytearray(b"\x02"),)], "value binary")

    frame = raw.select(read_avro(F.col("value"), SCHEMA, reader).alias("r"))

    assert {"FromAvro", "Literal"} <= set(expressions(frame))
    assert "CreateMap" not in set(expressions(frame))
    assert [row["r"] and row["r"]["b"] for row in frame.collect()] == ["x", None]


EDGES = [n for bound in (10**38, 10**37, 2**127, 2**128, 10**20, 1) for n in (bound - 1, bound, bound + 1, -bound - 1, -bound, -bound + 1)]


@pytest.mark.parametrize("precision", [1, 20, 37, 38])
def test_decimals_of_bytes_are_read_up_to_their_last_digit_and_null_beyond(spark: SparkSession, precision: int) -> None:
    numbers = [0, *EDGES, 10**80, -(10**80)]
    lengths = [(n.bit_length() // 8 + 1, extra) for n in numbers for extra in (0, 3)]
    texts = [
        bytearray(n.to_bytes(size + extra, "big", signed=True))
        for n, (size, extra) in zip([n for n in numbers for _ in "ab"], lengths, strict=True)
    ]
    frame = spark.createDataFrame([(at, text) for at, text in enumerate(texts)], "at int, value binary")

    found = frame.selectExpr("at", f"{decimal_sql('value', precision, 0)} AS n").orderBy("at").collect()

    wanted = [n if abs(n) < 10**precision else None for n in numbers for _ in "ab"]
    assert [None if row["n"] is None else int(row["n"]) for row in found] == wanted


def test_no_bytes_are_no_decimal(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(bytearray(b""),), (None,)], "value binary")

    assert [row[0] for row in frame.selectExpr(decimal_sql("value", 10, 2)).collect()] == [None, None]
