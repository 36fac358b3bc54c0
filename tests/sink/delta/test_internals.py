"""What the sink calls of Delta without a public name is looked for before it is needed."""

from __future__ import annotations

from typing import Any

import pytest
from dblog_sink.delta import internals
from dblog_sink.errors import DefiniteError
from dblog_sink.job import start
from dblog_sink.tables.modes import history, mirror
from pyspark.sql import SparkSession
from sink.harness import Sink, change
from support.envelopes import TableSchema
from support.registry_server import RegistryServer

OF_ANOTHER_DELTA = {"org.apache.spark.sql.delta.DeltaLog": ("startTransaction(Option,Option,Option)", "forTable(SparkSession,String)")}
START = "org.apache.spark.sql.delta.DeltaLog.startTransaction(Option,Option,Option)"


def test_this_delta_has_every_method_that_is_called(spark: SparkSession) -> None:
    assert internals.missing(spark, internals.NEEDED) == []
    assert internals.missing(spark, internals.UPSERT) == []


def test_a_delta_that_lacks_what_the_upsert_calls_is_reported_in_one_line(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert not start.lacks_upsert(spark)
    monkeypatch.setattr(internals, "UPSERT", {**OF_ANOTHER_DELTA, "org.apache.spark.sql.delta.NoSuchClass": ("go()",)})

    assert start.lacks_upsert(spark)

    missing = f"{START}, no org.apache.spark.sql.delta.NoSuchClass.go()"
    assert [one.getMessage() for one in caplog.records] == [f"this Delta has no {missing}: tables are written by MERGE, which is slower"]


def test_a_delta_that_lacks_more_than_that_is_refused_with_the_one_to_take(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(internals, "NEEDED", OF_ANOTHER_DELTA)

    with pytest.raises(DefiniteError, match=r"it has no .*startTransaction.*; submit the job with .*Delta 4\.4\.0"):
        start.lacks_upsert(spark)


@pytest.mark.parametrize("mode", ["mirror", pytest.param("history", marks=pytest.mark.long)])
def test_tables_are_kept_by_merge_alone_where_it_must_be(
    sink: Sink, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    def not_there(*_: Any, **__: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(mirror if mode == "mirror" else history, "upsert", not_there)
    table = TableSchema(topic="p.shop.t", columns=[("id", "long"), ("v", "string")], registry=registry)
    sink.settings |= {"rewrite.rows.max": "0", "table.all.match": ".*", "table.all.mode": mode}
    sink.merge_only = True

    sink.batch(*(change(table, "c", {"id": n, "v": "a"}, at=n) for n in (1, 2, 3)))
    sink.batch(change(table, "u", {"id": 1, "v": "b"}, at=10), change(table, "d", {"id": 2, "v": "a"}, at=11))

    frame = sink.read(table)
    live = frame.where("_dblog_current") if mode == "history" else frame
    assert sorted((row["id"], row["v"]) for row in live.collect()) == [(1, "b"), (3, "a")]
