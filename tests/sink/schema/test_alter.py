"""What is altered in a Delta table, on Delta itself."""

from pathlib import Path

import pytest
from dblog_sink.schema.evolve import AddColumn, WidenColumn, apply
from pyspark.sql import SparkSession
from pyspark.sql import types as t

WALL_CLOCK = t.TimestampNTZType()


@pytest.mark.some_cases
@pytest.mark.parametrize(
    "change",
    [
        AddColumn("v", WALL_CLOCK),
        AddColumn("v", t.ArrayType(WALL_CLOCK)),
        AddColumn("v", t.StructType([t.StructField("at", WALL_CLOCK)])),
        WidenColumn("day", WALL_CLOCK),
    ],
    ids=["a column", "in an array", "in a struct", "instead of a date"],
)
def test_a_table_without_wall_clocks_gets_one(spark: SparkSession, tmp_path: Path, change: AddColumn | WidenColumn) -> None:
    path = str(tmp_path / "t")
    spark.sql("SELECT 1 AS id, DATE'2020-01-01' AS day").write.format("delta").save(path)

    apply(spark, path, [change])
    apply(spark, path, [AddColumn("again", WALL_CLOCK)])  # an attempt that was cut off may have done a part

    columns = dict(spark.read.format("delta").load(path).dtypes)
    assert columns[change.name] == change.type.simpleString()
    assert columns["again"] == "timestamp_ntz"
