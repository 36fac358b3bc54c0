"""What the sink writes follows from the version that it replaces: nothing of it is left beside."""

from __future__ import annotations

import pytest
from dblog_sink import session as sessions
from pyspark.sql import SparkSession
from sink.harness import Sink, change
from support.envelopes import TableSchema
from support.registry_server import RegistryServer


def test_a_row_that_moves_to_another_partition_is_not_left_behind_where_overwrites_are_dynamic(
    sink: Sink, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = TableSchema(topic="p.shop.parts", columns=[("id", "long"), ("part", "string")], registry=registry)
    another = sessions.another

    def dynamic(session: SparkSession) -> SparkSession:
        fresh = another(session)
        fresh.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")  # as spark.* of the configuration, or of the cluster, may say
        return fresh

    monkeypatch.setattr(sessions, "another", dynamic)
    sink.settings |= {"table.all.match": ".*", "table.all.partition.by": "part"}
    sink.batch(change(table, "c", {"id": 1, "part": "a"}, at=100), change(table, "c", {"id": 2, "part": "b"}, at=101))

    sink.batch(change(table, "u", {"id": 1, "part": "b"}, at=200))

    assert sink.rows(table) == [{"id": 1, "part": "b"}, {"id": 2, "part": "b"}]
