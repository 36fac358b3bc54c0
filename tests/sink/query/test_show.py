"""``show`` reads what not every reader of Delta can."""

from __future__ import annotations

import json

import pytest
from dblog_sink.config import job_options
from dblog_sink.errors import DefiniteError
from dblog_sink.query.show import show
from dblog_sink.schema.evolve import RenameColumn, apply
from deltalake import DeltaTable, QueryBuilder
from sink.harness import Sink, change
from support.envelopes import TableSchema
from support.registry_server import RegistryServer


@pytest.mark.long
def test_the_newest_rows_are_shown_and_no_deleted_one_also_where_a_column_was_renamed(sink: Sink, registry: RegistryServer) -> None:
    sink.settings |= {"rewrite.rows.max": "0"}
    table = TableSchema(topic="p.shop.t", columns=[("id", "long"), ("v", ["null", "string"])], registry=registry)
    sink.batch(*(change(table, "c", {"id": n, "v": None if n == 3 else "a"}, at=n) for n in (1, 2, 3, 4)))
    sink.batch(change(table, "d", {"id": 4, "v": "a"}, at=10), change(table, "u", {"id": 1, "v": "b"}, at=11))
    sink.restarted()
    apply(sink.spark, sink.path(table), [RenameColumn("v", "w")])

    found = show(sink.spark, job_options.parse(sink.given), table="shop.t", rows_max=2)

    assert (found.table, found.path, found.rows) == ("shop.t", sink.path(table), 3)
    assert [(one["id"], one["w"]) for one in map(json.loads, found.newest)] == [(1, "b"), (3, None)]
    # As the README shows it with delta-rs.
    other = QueryBuilder().register("t", DeltaTable(sink.path(table))).execute("SELECT id, w FROM t ORDER BY id")
    assert [row for part in other for row in zip(*(c.to_pylist() for c in part.columns), strict=True)] == [(1, "b"), (2, "a"), (3, None)]
    with pytest.raises(DefiniteError, match=r"the sink has no table shop\.other; it has shop\.t"):
        show(sink.spark, job_options.parse(sink.given), table="shop.other", rows_max=2)


def test_a_table_of_a_topic_that_the_configuration_lists_is_shown_before_the_notes_of_the_job_are_written(
    sink: Sink, registry: RegistryServer
) -> None:
    table = TableSchema(topic="p.shop.t", columns=[("id", "long")], registry=registry)
    sink.batch(change(table, "c", {"id": 1}, at=1))  # the notes wait for control.interval.s, or for the job's end
    asked = {key: value for key, value in sink.given.items() if key != "topics.pattern"} | {"topics": "p.shop.s, p.shop.t"}

    assert show(sink.spark, job_options.parse(asked), table="shop.t", rows_max=2).rows == 1
    with pytest.raises(DefiniteError, match=r"shop\.s has no Delta table yet"):
        show(sink.spark, job_options.parse(asked), table="shop.s", rows_max=2)
