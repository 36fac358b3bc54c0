"""The upsert with one join does what Delta's MERGE does, and leaves to it what only MERGE can do."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from dblog_sink.delta.merge import KeyRange, Merged, Txn, in_ranges, is_conflict, merge, not_older, one_range
from dblog_sink.delta.transaction import Transaction, begun
from dblog_sink.delta.upsert import upsert
from dblog_sink.records.decode import OP, SEQ1, SEQ2
from dblog_sink.schema import evolve
from dblog_sink.schema.evolve import AddColumn, DropColumn, RenameColumn
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as t

KEYS = (("id", t.LongType()), ("kind", t.StringType()))
COLUMNS = ("id", "kind", "v", SEQ1, SEQ2)
SCHEMA = f"id long, kind string, v string, `{SEQ1}` long, `{SEQ2}` long"


def table(spark: SparkSession, path: Path, **properties: str) -> str:
    """An empty mirror."""
    builder = DeltaTable.create(spark).location(str(path)).addColumns(t._parse_datatype_string(SCHEMA))
    for name, value in {"delta.enableDeletionVectors": "true", **properties}.items():
        builder = builder.property(name, value)
    builder.execute()
    return str(path)


def batch(spark: SparkSession, dice: random.Random, number: int) -> list[tuple[Any, ...]]:
    """One row a key: some newer and some older than what is there, some deletes, some keys that are new."""
    keys = dice.sample([(n, kind) for n in range(12 * (number + 1)) for kind in "ab"], 20)
    return [(*key, f"{number}", 1, dice.randint(0, 100 * (number + 1)), dice.choice("ccuuud")) for key in keys]


def put(
    spark: SparkSession,
    path: str,
    rows: DataFrame,
    *,
    count: int,
    txn: Txn,
    broadcast: bool = True,
    bounded: bool = True,
    transaction: Transaction | None = None,
) -> Merged | None:
    span = rows.agg(F.min("id"), F.max("id"), F.min("kind"), F.max("kind")).first()
    assert span is not None
    ranges = [KeyRange({"id": span[0], "kind": span[2]}, {"id": span[1], "kind": span[3]})] if bounded else []
    return upsert(
        spark,
        path=path,
        rows=rows,
        count=count,
        on=("id", "kind"),
        deletes=F.col(OP) == "d",
        wins=not_older("s.", "t."),
        compared=(SEQ1, SEQ2),
        columns=COLUMNS,
        bounds=in_ranges(ranges, KEYS),
        near=in_ranges(one_range(ranges, KEYS), KEYS),
        broadcast=broadcast,
        one_file=broadcast,
        txn=txn,
        transaction=transaction,
    )


def content(spark: SparkSession, path: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in spark.read.format("delta").load(path).select(*COLUMNS).collect())


@pytest.mark.parametrize("batches", [2, pytest.param(5, marks=pytest.mark.long)])
def test_it_ends_as_merge_does_and_counts_alike(spark: SparkSession, tmp_path: Path, batches: int) -> None:
    dice = random.Random(18)
    ours, theirs = (table(spark, tmp_path / name) for name in ("ours", "theirs"))
    kinds: set[str] = set()

    for number in range(batches):
        rows = spark.createDataFrame(batch(spark, dice, number), f"{SCHEMA}, `{OP}` string").repartition(2).cache()
        done = put(spark, ours, rows, count=20, txn=Txn("t", number), broadcast=number % 2 == 0, bounded=number != batches - 1)
        expected = merge(spark, path=theirs, rows=rows, keys=KEYS, columns=COLUMNS, ranges=[], txn=Txn("t", number))

        assert done == expected, f"batch {number}"
        assert content(spark, ours) == content(spark, theirs), f"batch {number}"
        kinds |= {what for what in ("inserted", "updated", "deleted") if getattr(expected, what)}
        rows.unpersist()

    assert kinds == {"inserted", "updated", "deleted"}
    history = DeltaTable.forPath(spark, ours).history().where("operation = 'MERGE'").collect()
    assert len(history) == batches
    assert history[0]["operationMetrics"]["numTargetRowsUpdated"] == str(done.updated)  # type: ignore[union-attr]


@pytest.mark.long
@pytest.mark.parametrize("shape", ["renamed", "widened", "partitioned", "clustered", "checked"])
def test_it_ends_as_merge_does_in_tables_of_other_shapes(spark: SparkSession, tmp_path: Path, shape: str) -> None:
    dice = random.Random(9)
    paths = [str(tmp_path / name) for name in ("ours", "theirs")]
    for path in paths:
        columns = (
            SCHEMA.replace("v string", "w string")
            if shape == "renamed"
            else SCHEMA.replace("id long", "id int")
            if shape == "widened"
            else SCHEMA
        )
        builder = DeltaTable.create(spark).location(path).addColumns(t._parse_datatype_string(columns))
        builder = builder.property("delta.enableDeletionVectors", "true")
        if shape == "partitioned":
            builder = builder.partitionedBy("kind")
        if shape == "clustered":
            builder = builder.clusterBy("id")
        if shape == "widened":
            builder = builder.property("delta.enableTypeWidening", "true")
        builder.execute()
    before = batch(spark, dice, 0)
    for path in paths:
        rows = spark.createDataFrame(before, f"{SCHEMA}, `{OP}` string").drop(OP)
        rows = rows.withColumnRenamed("v", "w") if shape == "renamed" else rows
        rows.withColumn("id", F.col("id").cast("int") if shape == "widened" else F.col("id")).write.format("delta").mode("append").save(
            path
        )
        if shape == "renamed":
            spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
            spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN w TO v")
        if shape == "widened":
            spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN id TYPE BIGINT")
        if shape == "checked":
            spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT small CHECK (id < 1000)")

    rows = spark.createDataFrame(batch(spark, dice, 1), f"{SCHEMA}, `{OP}` string")
    done = put(spark, paths[0], rows, count=20, txn=Txn("t", 1))
    expected = merge(spark, path=paths[1], rows=rows, keys=KEYS, columns=COLUMNS, ranges=[], txn=Txn("t", 1))

    assert done == expected
    assert done is not None
    assert min(done.inserted, done.updated) > 0
    assert content(spark, paths[0]) == content(spark, paths[1])
    if shape == "checked":
        wrong = spark.createDataFrame([(1000, "a", "x", 9, 9, "c")], f"{SCHEMA}, `{OP}` string")
        with pytest.raises(Exception, match="DELTA_VIOLATE_CONSTRAINT"):
            put(spark, paths[0], wrong, count=1, txn=Txn("t", 2))


def test_what_was_committed_is_not_written_again(spark: SparkSession, tmp_path: Path) -> None:
    path = table(spark, tmp_path / "t")
    rows = spark.createDataFrame([(1, "a", "x", 1, 1, "c")], f"{SCHEMA}, `{OP}` string")
    assert put(spark, path, rows, count=1, txn=Txn("t", 3)) == Merged(1, 0, 0)
    before = DeltaTable.forPath(spark, path).history().count()

    assert put(spark, path, rows, count=1, txn=Txn("t", 3)) == Merged(0, 0, 0)

    assert DeltaTable.forPath(spark, path).history().count() == before


@pytest.mark.some_cases
@pytest.mark.parametrize("change", [RenameColumn("v", "w"), DropColumn("v")], ids=["renamed", "dropped"])
def test_a_table_whose_column_the_sink_renamed_or_dropped_is_written_with_one_join_as_before(
    spark: SparkSession, tmp_path: Path, change: RenameColumn | DropColumn
) -> None:
    path = table(spark, tmp_path / "t")
    evolve.apply(spark, path, [change])
    evolve.apply(spark, path, [AddColumn("v", t.StringType())])
    rows = spark.createDataFrame([(1, "a", "x", 1, 1, "c")], f"{SCHEMA}, `{OP}` string")

    assert put(spark, path, rows, count=1, txn=Txn("t", 1)) == Merged(1, 0, 0)

    features = DeltaTable.forPath(spark, path).detail().select("tableFeatures").first()
    assert features is not None
    assert features[0] == ["appendOnly", "columnMapping", "deletionVectors", "invariants"]


def test_a_table_that_may_have_a_change_data_feed_and_has_none_is_written_with_one_join(spark: SparkSession, tmp_path: Path) -> None:
    path = table(spark, tmp_path / "t")
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5')")
    rows = spark.createDataFrame([(1, "a", "x", 1, 1, "c")], f"{SCHEMA}, `{OP}` string")

    assert put(spark, path, rows, count=1, txn=Txn("t", 1)) == Merged(1, 0, 0)

    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    assert put(spark, path, rows, count=1, txn=Txn("t", 2)) is None


def test_a_table_whose_owner_switched_deletion_vectors_off_is_left_to_merge(spark: SparkSession, tmp_path: Path) -> None:
    path = table(spark, tmp_path / "t")
    rows = spark.createDataFrame([(1, "a", "x", 1, 1, "c"), (2, "a", "x", 1, 1, "c")], f"{SCHEMA}, `{OP}` string")
    put(spark, path, rows, count=2, txn=Txn("t", 1))
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")

    rows = spark.createDataFrame([(1, "a", "y", 1, 2, "u")], f"{SCHEMA}, `{OP}` string")

    assert put(spark, path, rows, count=1, txn=Txn("t", 2)) is None
    assert merge(spark, path=path, rows=rows, keys=KEYS, columns=COLUMNS, ranges=[], txn=Txn("t", 2)) == Merged(0, 1, 0)
    assert [row[2] for row in content(spark, path)] == ["y", "x"]


@pytest.mark.some_cases
@pytest.mark.parametrize(
    "properties", [{"delta.enableDeletionVectors": "false"}, {"delta.enableChangeDataFeed": "true"}, {"delta.enableRowTracking": "true"}]
)
def test_a_table_with_duties_that_only_merge_knows_is_left_to_it(spark: SparkSession, tmp_path: Path, properties: dict[str, str]) -> None:
    path = table(spark, tmp_path / "t", **properties)
    rows = spark.createDataFrame([(1, "a", "x", 1, 1, "c")], f"{SCHEMA}, `{OP}` string")

    assert put(spark, path, rows, count=1, txn=Txn("t", 1)) is None

    assert content(spark, path) == []


def test_another_writer_in_between_is_a_conflict_and_nothing_is_written(spark: SparkSession, tmp_path: Path) -> None:
    path = table(spark, tmp_path / "t")
    first = spark.createDataFrame([(n, "a", "x", 1, 1, "c") for n in range(4)], f"{SCHEMA}, `{OP}` string")
    put(spark, path, first, count=4, txn=Txn("t", 1))
    rows = spark.createDataFrame([(2, "a", "y", 1, 2, "u")], f"{SCHEMA}, `{OP}` string")

    with begun(spark, path) as transaction:
        DeltaTable.forPath(spark, path).delete("id = 2")
        with pytest.raises(Exception) as caught:  # noqa: PT011  the JVM's, classified by the sink itself
            put(spark, path, rows, count=1, txn=Txn("t", 2), transaction=transaction)

    assert is_conflict(caught.value)
    assert [row[0] for row in content(spark, path)] == [0, 1, 3]
    assert put(spark, path, rows, count=1, txn=Txn("t", 2)) == Merged(1, 0, 0)
