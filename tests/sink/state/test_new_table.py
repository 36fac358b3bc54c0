"""A table is made also where a former attempt was killed before its first commit, and nothing else is ever removed."""

from __future__ import annotations

from pathlib import Path

import pytest
from dblog_sink.delta.merge import Txn, append
from dblog_sink.state.new_table import new_table
from pyspark.sql import SparkSession
from sink.harness import Sink, change
from support.envelopes import TableSchema
from support.registry_server import RegistryServer


def killed(path: Path) -> Path:
    """What a kill in the first commit leaves of a table."""
    log = path / "_delta_log"
    (log / "_staged_commits").mkdir(parents=True)
    for name in (".00000000000000000000.json.4f226fb7.tmp", "..00000000000000000000.json.4f226fb7.tmp.crc"):
        (log / name).write_text("{}")
    return log


def test_a_table_whose_making_was_killed_is_made(spark: SparkSession, tmp_path: Path) -> None:
    killed(tmp_path / "t")

    new_table(spark, str(tmp_path / "t")).addColumn("id", "int").execute()

    assert spark.read.format("delta").load(str(tmp_path / "t")).columns == ["id"]


def test_a_table_that_is_there_stays_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    new_table(spark, path).addColumn("id", "int").execute()
    before = sorted((tmp_path / "t").rglob("*"))

    new_table(spark, path).addColumn("other", "int").execute()

    assert sorted((tmp_path / "t").rglob("*")) == before
    assert spark.read.format("delta").load(path).columns == ["id"]


@pytest.mark.some_cases
@pytest.mark.parametrize(
    "name", ["part-0.parquet", "_delta_log/_staged_commits/00000000000000000001.json", "_delta_log/00000000000000000007.json"]
)
def test_a_folder_with_anything_else_in_it_is_left_alone(spark: SparkSession, tmp_path: Path, name: str) -> None:
    killed(tmp_path / "t")
    (tmp_path / "t" / name).write_text("{}")
    before = sorted((tmp_path / "t").rglob("*"))

    new_table(spark, str(tmp_path / "t"))

    assert sorted((tmp_path / "t").rglob("*")) == before


def test_what_is_made_by_its_first_rows_needs_no_help(spark: SparkSession, tmp_path: Path) -> None:
    """As the quarantine is."""
    killed(tmp_path / "t")

    append(spark.range(1), str(tmp_path / "t"), ("id",), Txn("a", 1))

    assert spark.read.format("delta").load(str(tmp_path / "t")).count() == 1


def test_a_sink_goes_on_where_the_making_of_its_tables_was_killed(sink: Sink, registry: RegistryServer) -> None:
    items = TableSchema(topic="p.shop.items", columns=[("id", "long"), ("v", "string")], registry=registry)
    for path in (Path(sink.path(items)), sink.folder / "lake/_dblog/landing", sink.folder / "lake/_dblog/control"):
        killed(path)

    sink.batch(change(items, "c", {"id": 1, "v": "a"}, at=1), change(items, "c", {"id": 2, "v": "b"}, at=2))
    sink.batch(change(items, "d", {"id": 2, "v": "b"}, at=3))

    assert sink.rows(items) == [{"id": 1, "v": "a"}]
