"""What the sink writes follows from the version that it replaces: what somebody else commits in between is neither undone nor written twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from dblog_sink.delta import session as sessions
from dblog_sink.delta.merge import Txn, written
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame
from sink.harness import Sink, change
from support.envelopes import TableSchema
from support.registry_server import RegistryServer


@pytest.fixture
def items(registry: RegistryServer) -> TableSchema:
    return TableSchema(topic="p.shop.items", columns=[("id", "long"), ("name", ["null", "string"])], registry=registry)


def row(key: int, name: str) -> dict:
    return {"id": key, "name": name}


def once_after(step: Callable[..., Any], act: Callable[[], object]) -> Callable[..., Any]:
    """The step, and when it is done the first time somebody else acts."""
    left = [act]

    def stepped(*args: Any, **kwargs: Any) -> Any:
        done = step(*args, **kwargs)
        if left:
            left.pop()()
        return done

    return stepped


def test_a_row_that_moves_to_another_partition_is_not_left_behind_where_overwrites_are_dynamic(
    sink: Sink, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = TableSchema(topic="p.shop.parts", columns=[("id", "long"), ("part", "string")], registry=registry)
    another = sessions.another

    def dynamic(session: SparkSession) -> SparkSession:
        fresh = another(session)
        fresh.conf.set(
            "spark.sql.sources.partitionOverwriteMode", "dynamic"
        )  # as spark.* of the configuration, or of the cluster, may set it
        return fresh

    monkeypatch.setattr(sessions, "another", dynamic)
    sink.settings |= {"table.all.match": ".*", "table.all.partition.by": "part"}
    sink.batch(change(table, "c", {"id": 1, "part": "a"}, at=100), change(table, "c", {"id": 2, "part": "b"}, at=101))

    sink.batch(change(table, "u", {"id": 1, "part": "b"}, at=200))

    assert sink.rows(table) == [{"id": 1, "part": "b"}, {"id": 2, "part": "b"}]


@pytest.mark.long
def test_a_version_that_somebody_else_deleted_while_a_history_was_computed_does_not_come_back(
    sink: Sink, items: TableSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink.settings |= {"table.all.match": ".*", "table.all.mode": "history"}
    sink.batch(*(change(items, "c", row(key, "a"), at=100 + key) for key in (1, 2)))
    delete = f"DELETE FROM delta.`{sink.path(items)}` WHERE id = 1"
    monkeypatch.setattr(DataFrame, "localCheckpoint", once_after(DataFrame.localCheckpoint, lambda: sink.spark.sql(delete)))

    sink.batch(change(items, "u", row(1, "b"), at=200))

    assert sink.rows(items) == [row(1, "b"), row(2, "a")]


@pytest.mark.long
def test_versions_that_another_run_wrote_meanwhile_are_not_written_twice(
    sink: Sink, items: TableSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that was thought dead, under another checkpoint: no transaction id keeps the two apart."""
    sink.settings |= {"table.all.match": ".*", "table.all.mode": "history"}
    sink.batch(change(items, "c", row(1, "a"), at=101))
    changes = [change(items, "c", row(2, "a"), at=102), change(items, "u", row(2, "b"), at=103)]

    def other() -> None:
        with Sink(sink.spark, sink.registry, sink.folder, settings=sink.settings, query_id="other") as second:
            second.lose("control")
            second.batch(*changes)

    monkeypatch.setattr(DataFrame, "localCheckpoint", once_after(DataFrame.localCheckpoint, other))
    sink.batch(*changes)

    assert [one["name"] for one in sink.rows(items)] == ["a", "a", "b"]


def test_the_last_batch_of_a_delta_log_is_found_by_a_thread_that_has_no_session(sink: Sink, items: TableSchema) -> None:
    """As a merge's after a takeover, where Delta had not read so far yet, and the session that was made first has ended."""
    sink.batch(change(items, "c", row(1, "a"), at=100))
    session, path = sink.spark, sink.path(items)
    for checksum in Path(path).glob("_delta_log/*.crc"):
        checksum.unlink()
    jvm: Any = session._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    sessions_of_spark = jvm.org.apache.spark.sql.classic.SparkSession
    found: list[int] = []

    def ask() -> None:
        sessions_of_spark.clearActiveSession()
        found.append(written(session, path, Txn(f"dblog-sink/{sink.query_id}", 0)))

    sessions_of_spark.clearDefaultSession()
    try:
        thread = Thread(target=ask)
        thread.start()
        thread.join(60)
    finally:
        sessions_of_spark.setDefaultSession(session._jsparkSession)
    assert found == [0]
