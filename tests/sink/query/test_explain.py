"""From one key to what made its row: on a real broker, for a live row, one that was deleted, and one that never was."""

from __future__ import annotations

from pathlib import Path

import pytest
from dblog_sink.config import job_options
from dblog_sink.errors import DefiniteError
from dblog_sink.query.explain import Explained, explain, key_of, lines_of
from dblog_sink.query.freshest import reader
from dblog_sink.state.control_table import State
from pyspark.sql import SparkSession
from pyspark.sql import types as t
from sink.harness import change
from sink.job import Job
from stack import Kafka
from support.registry_server import RegistryServer


@pytest.fixture
def job(spark: SparkSession, kafka: Kafka, registry: RegistryServer, tmp_path: Path) -> Job:
    return Job(spark, kafka, registry, tmp_path)


def asked(job: Job, table: str, key: str) -> Explained:
    settings = job_options.parse(job.settings)
    applier, registry = reader(job.spark, settings, State())
    return explain(job.spark, settings, applier, registry, table=table, key=key)


@pytest.mark.long
def test_a_rows_last_change_is_led_back_to_its_record_and_its_delta_version(job: Job) -> None:
    table = job.table("t")
    job.create(table)
    with job.running():
        job.send(change(table, "r", {"id": 1, "v": "a"}, at=10), change(table, "r", {"id": 2, "v": "a"}, at=11))
        job.wait("the dump", lambda: len(job.rows(table)) == 2)
        job.send(change(table, "u", {"id": 1, "v": "b"}, at=20))
        job.wait("the update", lambda: (1, "b") in job.rows(table))
        job.send(change(table, "d", {"id": 2, "v": "a"}, at=30), change(table, "c", {"id": 3, "v": "c"}, at=31))
        job.wait("the rest", lambda: job.rows(table) == [(1, "b"), (3, "c")])

    live, deleted, never = (asked(job, "shop.t", key) for key in ("1", "id=2", "4"))

    assert (live.state, live.position, live.mode) == ("live", (1, 20 << 23), "mirror")
    assert [(one["op"], one["kafka"]["offset"], one["source"]["pos"]) for one in live.records] == [("u", 2, 20), ("r", 0, 10)]
    assert all(one["schema_id"] is not None for one in live.records)
    path = str(job.folder / "lake" / "shop" / "t")

    def value_at(version: int) -> str:
        return job.spark.read.format("delta").option("versionAsOf", version).load(path).where("id = 1").collect()[0]["v"]

    assert live.delta is not None
    assert (value_at(live.delta["version"] - 1), value_at(live.delta["version"])) == ("a", "b")

    assert (deleted.state, deleted.position) == ("deleted", (1, 30 << 23))
    assert [one["op"] for one in deleted.records] == ["d", "r"]
    assert deleted.delta is not None
    assert deleted.delta["version"] > live.delta["version"]
    assert (never.state, never.position, never.records) == ("unknown", None, [])

    text = "\n".join(lines_of(live))
    assert f"updated at position [1, {20 << 23}]: {table.topic}-0 offset 2 (kafka" in text
    assert "pos 20" in text
    assert "'b'" not in text  # no value of the row is shown

    with pytest.raises(DefiniteError, match="the sink has no table shop.u; it has shop.t"):
        asked(job, "shop.u", "1")
    with pytest.raises(DefiniteError, match="idd=1 is no .*int, which key column id of shop.t is"):
        asked(job, "shop.t", "idd=1")


def test_the_key_of_several_columns_is_asked_for_by_name() -> None:
    keys = (("order_id", t.IntegerType()), ("line", t.ShortType()))

    assert key_of("line=2,order_id=4711", keys, "shop.items") == {"order_id": "4711", "line": "2"}
    assert key_of("a=b", keys[:1], "shop.t") == {"order_id": "a=b"}
    with pytest.raises(DefiniteError, match="write it as order_id=...,line=..."):
        key_of("4711", keys, "shop.items")
