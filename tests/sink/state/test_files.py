"""Small files and the lake itself are where Spark and Delta have them, and no kill leaves half of one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dblog_sink.config import job_options
from dblog_sink.config.lake_paths import CONDITIONAL, DYNAMODB, refusals
from dblog_sink.errors import DefiniteError
from dblog_sink.job.start import check_paths
from dblog_sink.kafka.checkpoint_binding import described
from dblog_sink.state.files import HadoopFolder, LocalFolder, folder, is_local
from pyspark.sql import SparkSession


@pytest.fixture
def elsewhere(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """Hadoop's default file system is not the machine's own; the folder stands for what it has under /lake."""
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
    before = hadoop.get("fs.defaultFS")
    link = "fs.viewfs.mounttable.sink-tests.link./lake"
    hadoop.set(link, f"file://{tmp_path}")
    hadoop.set("fs.defaultFS", "viewfs://sink-tests/")
    try:
        yield tmp_path
    finally:
        hadoop.set("fs.defaultFS", before)
        hadoop.unset(link)


def test_a_path_without_a_scheme_is_on_the_default_file_system_of_spark(spark: SparkSession, elsewhere: Path) -> None:
    made = folder(spark, "/lake/state")

    assert made.create("a.json", "one")
    assert not made.create("a.json", "other")
    made.replace("a.json", "two")
    made.replace("b.json", "three")

    assert (elsewhere / "state" / "a.json").read_text() == "two"
    assert made.names() == ["a.json", "b.json"]
    assert made.read("b.json") == "three"
    made.remove("b.json")
    assert made.read("b.json") is None


@pytest.mark.parametrize(
    ("path", "given", "environment", "local"),
    [
        ("file:/lake", {}, {"HADOOP_CONF_DIR": "/etc/hadoop"}, True),
        ("/lake", {}, {}, True),
        ("/lake", {}, {"HADOOP_CONF_DIR": "/etc/hadoop"}, False),
        ("/lake", {"spark.hadoop.fs.defaultFS": "hdfs://n"}, {}, False),
        ("hdfs://n/lake", {}, {}, False),
    ],
)
def test_a_command_goes_without_spark_only_where_the_path_is_known_to_be_on_the_machine(
    path: str, given: dict[str, str], environment: dict[str, str], local: bool
) -> None:
    assert is_local(path, given, environment) is local


class Killing(str):
    """A text at which the process ends: its file is open then, and nothing is written yet."""

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        raise KeyboardInterrupt


def test_a_kill_while_a_file_is_replaced_leaves_what_was_there(spark: SparkSession, tmp_path: Path) -> None:
    made = HadoopFolder(spark, f"file://{tmp_path}/of a job")
    made.replace("a.json", "old")

    with pytest.raises(KeyboardInterrupt):
        made.replace("a.json", Killing("new"))

    assert [file.stat().st_size for file in (tmp_path / "of a job").glob(".a.json.*.new")] == [0], "the new file was opened"
    assert made.read("a.json") == "old"
    assert made.names() == ["a.json"]
    made.replace("a.json", "new")
    assert made.read("a.json") == "new"


YARN = {"master": "yarn", "log_stores": {}, "shared_mount": False, "single_driver": False}
SINGLE = "io.delta.storage.S3SingleDriverLogStore"


@pytest.mark.parametrize(
    ("path", "otherwise", "reported"),
    [
        ("file:/lake", {}, "the executors of yarn are on others"),
        ("file:/lake", {"master": "spark://m:7077"}, "storage.shared.mount=true"),
        ("file:/lake", {"master": "local-cluster[2,1,1024]"}, "each would have a folder of its own"),
        ("file:/lake", {"shared_mount": True}, None),
        ("file:/lake", {"master": "local[2]"}, None),
        ("file:/lake", {"master": "local"}, None),
        ("s3a://b/lake", {}, rf"spark.delta.logStore.s3a.impl={CONDITIONAL}"),
        ("s3://b/lake", {"log_stores": {"s3a": CONDITIONAL}}, rf"spark.delta.logStore.s3.impl={CONDITIONAL}"),
        ("s3a://b/lake", {"log_stores": {"s3a": SINGLE}}, "storage.single.driver=true"),
        ("s3a://b/lake", {"log_stores": {"s3a": CONDITIONAL}}, None),
        ("s3a://b/lake", {"log_stores": {"s3a": DYNAMODB}}, None),
        ("s3a://b/lake", {"single_driver": True}, None),
        ("gs://b/lake", {}, None),
        ("abfss://c@a/lake", {}, None),
        ("hdfs://n/lake", {}, None),
        ("oss://b/lake", {}, "spark.delta.logStore.oss.impl"),
        ("oss://b/lake", {"log_stores": {"oss": "io.delta.storage.HDFSLogStore"}}, None),
    ],
)
def test_a_lake_is_refused_where_two_writers_or_the_executors_would_not_see_each_other(
    path: str, otherwise: dict[str, Any], reported: str | None
) -> None:
    found = refusals({"target.path": path}, **(YARN | otherwise))

    assert (reported in found["target.path"]) if reported else not found


def test_every_path_of_the_configuration_is_looked_at_before_the_job_starts(spark: SparkSession) -> None:
    least = {"kafka.bootstrap.servers": "b:9092", "topics": "p.a.b", "registry.url": "http://r", "target.path": "/lake"}
    check_paths(spark, job_options.parse(least))

    rule = {"table.gold.match": "a[.]b", "table.gold.target.path": "s3a://gold/{table}"}
    with pytest.raises(DefiniteError, match=r"^state.path: s3a://b/state .*checkpoint.path: .*table.gold.target.path: s3a://gold/table "):
        check_paths(spark, job_options.parse(least | rule | {"state.path": "s3a://b/state"}))


@pytest.mark.parametrize(
    "base", ["abfss://lake@account.dfs.core.windows.net/bronze", "gs://lake/bronze", "s3a://lake/bronze", "hdfs://n:8020/bronze"]
)
def test_every_path_is_below_the_url_of_the_lake_whatever_its_scheme(base: str) -> None:
    least = {"kafka.bootstrap.servers": "b:9092", "topics": "p.shop.a", "registry.url": "http://r", "target.path": f"{base}/"}
    settings = job_options.parse(least | {"table.gold.match": r"shop\.b", "table.gold.target.path": "gs://gold/{table}"})

    assert set(settings.paths_by_option.values()) == {
        base,
        f"{base}/_dblog",
        f"{base}/_dblog/checkpoints/{settings['name']}",
        f"{base}/db/table",
        "gs://gold/table",
    }
    assert settings.paths(["p.shop.a", "p.shop.b"]) == {
        **{
            f"_dblog/{name}": f"{base}/_dblog/{name}" for name in ("landing", "control", "quarantine", "chunks", "fingerprints", "verified")
        },
        "shop.a": f"{base}/shop/a",
        "_dblog/tombstones/shop.a": f"{base}/_dblog/tombstones/shop/a",
        "shop.b": "gs://gold/b",
        "_dblog/tombstones/shop.b": f"{base}/_dblog/tombstones/gs/gold/b",
    }
    assert not is_local(base, {})
    assert described(settings, "c")["state"] == "{base}/_dblog"


def test_two_processes_may_replace_one_file_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = LocalFolder(tmp_path)
    move = Path.replace

    def overtaken(self: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "replace", move)
        LocalFolder(tmp_path).replace("a.json", "of the other")
        return move(self, target)

    monkeypatch.setattr(Path, "replace", overtaken)
    folder.replace("a.json", "of the first")

    assert folder.read("a.json") == "of the first"
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]
