"""A dump of some columns fills these columns and nothing else: no other value, no position, no column of the table is touched."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import pytest
from sink.harness import Record, Sink, change
from support.envelopes import TableSchema
from support.json_lines import json_lines
from support.registry_server import RegistryServer

Row = dict[str, Any]


class PartialSchema(TableSchema):
    """Of the table's key and some columns, as the worker marks it."""

    @cached_property
    def value_schema(self) -> dict[str, Any]:
        schema = TableSchema.value_schema.func(self)
        images = next(field["type"] for field in schema["fields"] if field["name"] == "before")
        images[1]["connect.parameters"] = {"io.dblog.partial": "true"}
        return schema


def tables(registry: RegistryServer, name: str) -> tuple[TableSchema, TableSchema]:
    """The table, and its rows of the column ``b`` alone."""
    text = ["null", "string"]
    whole = TableSchema(topic=f"p.shop.{name}", columns=[("id", "long"), ("a", text), ("b", text)], registry=registry)
    return whole, PartialSchema(topic=whole.topic, columns=[("id", "long"), ("b", text)], registry=registry)


def logged(one: TableSchema, key: int, a: str, b: str | None, *, at: int, op: str = "c") -> Record:
    return change(one, op, {"id": key, "a": a, "b": b}, at=at, sequenced=True)


def filled(one: TableSchema, *keys: int, low: int, b: str | None = "filled") -> list[Record]:
    return [change(one, "r", {"id": key, "b": b}, at=low, sequenced=True) for key in keys]


def found(sink: Sink, one: TableSchema) -> list[tuple[Any, ...]]:
    """Rows with the second number of their positions, as the log has it."""
    rows = sink.read(one).selectExpr("id", "a", "b", "shiftright(_dblog_seq2, 23) AS at").collect()
    return sorted((tuple(row) for row in rows), key=lambda row: (row[0], row[3]))


def left_out(sink: Sink) -> int:
    lines = json_lines(sink.folder / "progress.jsonl")
    return sum(one["left_out"] for line in lines if line["kind"] == "batch" for one in line["tables"].values())


def test_only_the_columns_of_the_dump_are_set_where_the_row_is_there_and_not_newer(sink: Sink, registry: RegistryServer) -> None:
    sink.settings |= {"table.t.match": ".*", "table.t.evolution.drop": "drop"}
    items, partial = tables(registry, "items")
    sink.batch(*(logged(items, key, "a", None, at=100 + key) for key in (1, 2, 3, 4)))
    # 3 was changed behind the watermark; 4 was deleted; 5 comes in the same batch, 6 behind the watermark; 9 is nowhere; 2 is filled twice, once with NULL.
    sink.batch(
        logged(items, 5, "a", None, at=105),
        *filled(partial, 1, 2, 3, 4, 5, 6, 9, low=200),
        logged(items, 3, "new", "own", at=210, op="u"),
        logged(items, 4, "a", None, at=220, op="d"),
        logged(items, 6, "a", "own", at=230),
        *filled(partial, 2, low=240, b=None),
    )

    assert found(sink, items) == [
        (1, "a", "filled", 101),
        (2, "a", None, 102),
        (3, "new", "own", 210),
        (5, "a", "filled", 105),
        (6, "a", "own", 230),
    ]
    assert left_out(sink) == 2

    # Alone in a batch they are the same, a row that is sent again included; and a whole row of a dump that is older replaces what they are on.
    sink.killed()
    sink.batch(*filled(partial, 1, 3, 9, low=200, b="again"))
    sink.batch(change(items, "r", {"id": 5, "a": "repaired", "b": "repaired"}, at=150, sequenced=True))
    assert found(sink, items)[0] == (1, "a", "again", 101)
    assert found(sink, items)[2:4] == [(3, "new", "own", 210), (5, "repaired", "repaired", 150)]
    assert (left_out(sink), sink.quarantined()) == (4, [])


@pytest.mark.long
def test_a_history_gets_a_version_and_a_list_of_changes_a_row(sink: Sink, registry: RegistryServer) -> None:
    sink.settings |= {
        "table.h.match": r"shop\.versions",
        "table.h.mode": "history",
        "table.a.match": r"shop\.changes",
        "table.a.mode": "append",
    }
    both = {name: tables(registry, name) for name in ("versions", "changes")}
    sink.batch(*(logged(whole, 1, "a", None, at=101) for whole, _ in both.values()))
    sink.batch(*(record for _, partial in both.values() for record in filled(partial, 1, 9, low=200)))
    sink.batch(*(logged(whole, 1, "new", "own", at=300, op="u") for whole, _ in both.values()))

    assert found(sink, both["versions"][0]) == [(1, "a", None, 101), (1, "a", "filled", 200), (1, "new", "own", 300)]
    rows = sink.read(both["changes"][0]).select("id", "a", "b", "_dblog_op").collect()
    assert sorted((tuple(row) for row in rows), key=str) == [
        (1, "a", None, "c"),
        (1, "new", "own", "u"),
        (1, None, "filled", "r"),
        (9, None, "filled", "r"),
    ]


@pytest.mark.long
@pytest.mark.parametrize("rewrite", ["0", "1000"])
def test_a_column_that_comes_with_the_dump_is_added_and_what_landed_is_shown_filled(
    sink: Sink, registry: RegistryServer, rewrite: str
) -> None:
    sink.settings |= {"rewrite.rows.max": rewrite, "trigger.interval.s": "0", "merge.rows.min": "1000000", "table.t.match": ".*"}
    sink.settings |= {"table.t.soft.delete": "gone"}
    _, partial = tables(registry, "items")
    before = TableSchema(topic=partial.topic, columns=[("id", "long"), ("a", ["null", "string"])], registry=registry)
    sink.batch(*(change(before, "c", {"id": key, "a": "a"}, at=100 + key, sequenced=True) for key in (1, 2)))
    sink.batch(change(before, "d", {"id": 2, "a": "a"}, at=150, sequenced=True))
    sink.land(*filled(partial, 1, 2, low=200))
    sink.drain()

    assert found(sink, before) == [(1, "a", "filled", 101), (2, "a", None, 150)]
    sink.land(*filled(partial, 1, 2, low=300, b="landed"))
    assert [(one["id"], one["b"]) for one in sink.fresh(before)] == [(1, "landed"), (2, None)]
