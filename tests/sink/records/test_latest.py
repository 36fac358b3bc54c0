"""Of many rows, the last one of each key is found without sorting; the rule that sorts all of them is the reference."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from dblog_sink.records.decode import BAD_AT, OFFSET, OP, SEQ1, SEQ2
from dblog_sink.records.latest import distinct, latest
from dblog_sink.tables.modes import mirror
from pyspark.sql import SparkSession
from pyspark.sql import types as t

KEYS = (("id", t.LongType()), ("the part", t.StringType()))
SCHEMA = f"id BIGINT, `the part` STRING, v DOUBLE, {SEQ1} BIGINT, {SEQ2} BIGINT, {OFFSET} BIGINT, {OP} STRING, {BAD_AT} STRING"


def rows(dice: random.Random, *, files: int, ties: bool) -> list[tuple[Any, ...]]:
    """Of keys that come once, twice or often, from so many files of the log; bad ones and truncates among them."""
    made: list[tuple[Any, ...]] = []
    for offset in range(dice.randint(1, 400)):
        key = (dice.randrange(60), dice.choice(["x", "y"])) if dice.random() < 0.7 else (1000 + offset, "x")
        position = (dice.randrange(files), dice.randrange(8) if ties else offset if dice.random() < 0.5 else 10_000 - offset)
        op = dice.choice("ccuuudr")
        made.append((*key, dice.random(), *position, offset, op, None))
    made += [(None, None, None, None, None, offset, None, f"0:{offset}") for offset in range(1000, 1000 + dice.randrange(3))]
    if dice.random() < 0.3:
        made.append((None, None, None, 0, 5, 2000, "t", None))
    return made


@pytest.mark.some_cases
@pytest.mark.parametrize(("files", "ties"), [(1, False), (3, False), (1, True), (2, True)])
@pytest.mark.parametrize("broadcast_max", [2_000_000, 5])
def test_the_last_row_of_each_key_is_the_one_that_sorting_finds(spark: SparkSession, files: int, ties: bool, broadcast_max: int) -> None:
    dice = random.Random(f"{files}{ties}{broadcast_max}")
    for _ in range(2):
        frame = spark.createDataFrame(rows(dice, files=files, ties=ties), SCHEMA)
        work = SimpleNamespace(
            target=SimpleNamespace(keys=KEYS, soft=None, repeats=dice.random() < 0.5),
            records=mirror.MANY_ROWS,
            replayed=False,
            settings={"merge.broadcast.rows.max": broadcast_max},
        )

        found, cached = mirror.last_of_each_key(frame, work)  # type: ignore[arg-type]

        names = sorted(frame.columns)
        assert sorted(map(repr, found.select(*names).collect())) == sorted(map(repr, latest(frame, KEYS).select(*names).collect()))
        for one in cached:
            one.unpersist()


@pytest.mark.parametrize(
    ("kind", "bits"),
    [(t.LongType(), 64), *(pytest.param(kind, bits, marks=pytest.mark.long) for kind, bits in ((t.IntegerType(), 32), (t.ByteType(), 8)))],
)
def test_a_key_that_comes_twice_is_seen_beside_its_neighbours(spark: SparkSession, kind: t.DataType, bits: int) -> None:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    numbers = [low, low + 1, -65, -64, -1, 0, 1, 33, 62, 63, 64, 65, high - 1, high]
    schema = f"id {kind.simpleString()}, part STRING, {OP} STRING, {BAD_AT} STRING"
    keys = (("id", kind), ("part", t.StringType()))
    once = [(number, part, "c", None) for number in numbers for part in "xy"]
    no_rows = [(1, "x", "t", None), (1, "x", None, "0:7")]

    assert distinct(spark.createDataFrame(once + no_rows, schema), keys)
    for number in numbers:
        assert not distinct(spark.createDataFrame([*once, (number, "x", "d", None)], schema), keys), number


def test_keys_without_a_whole_number_are_never_known_to_be_distinct(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", "c", None)], f"id STRING, {OP} STRING, {BAD_AT} STRING")

    assert not distinct(frame, (("id", t.StringType()),))
