"""Whoever names tables in a source names folders here: a table whose folder would be the sink's own, or another table's, waits for a person, and the others go
on.
"""

from __future__ import annotations

import pytest
from dblog_sink.tables.source_names import named_otherwise
from sink.harness import Record, Sink, change
from support.envelopes import TableSchema
from support.registry_server import RegistryServer


def test_a_table_of_the_sinks_own_name_is_parked_and_the_others_go_on(sink: Sink, registry: RegistryServer) -> None:
    tables = [
        TableSchema(topic=f"z.{name}", columns=[("v", ["null", "string"])], key=(), registry=registry)
        for name in ("_dblog.control", "public.t")
    ]

    def rows(at: int, text: str) -> list[Record]:
        return [Record(topic=table.topic, key=None, value=table.value_bytes("c", after={"v": text}, pos=at)) for table in tables]

    sink.batch(*rows(1, "a"))
    assert sorted(row["v"] for row in sink.read(tables[1]).collect()) == ["a"]
    assert "_dblog.control" in str(sink.control.state.parked)
    assert "table.<rule>.target.path" in str(sink.control.state.parked)

    # A path of its own, and all that has landed is there.
    sink.settings |= {"table.moved.match": "_dblog.control", "table.moved.target.path": "{base}/moved/t"}
    sink.restarted()
    sink.book.unpark(tables[0].topic)
    sink.drain()

    assert sorted(row["v"] for row in sink.spark.read.format("delta").load(f"{sink.base}/moved/t").collect()) == ["a"]


def test_a_table_with_a_dot_in_its_name_takes_no_other_tables_path(sink: Sink, registry: RegistryServer) -> None:
    """Table ``hr.salaries`` of database ``inventory`` comes first; the one of database ``hr`` has the path, and all others go on."""
    stranger, owner, other, nameless = (
        TableSchema(topic=f"p.{name}", columns=[("id", "long")], registry=registry)
        for name in ("inventory.hr.salaries", "hr.salaries", "shop.t", "shop.t.")
    )

    sink.batch(inserted(stranger, 1, source=("inventory", "hr.salaries")))
    sink.batch(
        inserted(stranger, 2, source=("inventory", "hr.salaries")),
        change(nameless, "c", {"id": 1}, at=1),
        change(other, "c", {"id": 1}, at=1),
    )
    sink.restarted()
    sink.batch(inserted(owner, 7, source=("hr", "salaries")))

    assert [sink.rows(table) for table in (owner, other)] == [[{"id": 7}], [{"id": 1}]]
    reasons = sink.book.parked()
    assert set(reasons) == {stranger.topic, nameless.topic}
    assert "holds rows of table hr.salaries of inventory" in reasons[stranger.topic]
    assert "topics.name" in reasons[nameless.topic]

    # The way out that the message names, and all that has landed is there.
    sink.settings["topics.name"] = r"(?P<prefix>p)\.(?P<db>[^.]+)\.(?P<table>.+)"
    sink.restarted()
    for topic in reasons:
        sink.book.unpark(topic)
    sink.drain()
    assert sink.book.parked() == {}
    assert sorted(row["id"] for row in sink.spark.read.format("delta").load(f"{sink.base}/inventory/hr.salaries").collect()) == [1, 2]


def inserted(table: TableSchema, at: int, *, source: tuple[str, str]) -> Record:
    """An insert whose source block names database and table."""
    value = table.value_bytes("c", after={"id": at}, pos=at, named=source)
    return Record(topic=table.topic, key=table.key_bytes({"id": at}), value=value)


@pytest.mark.parametrize(
    ("topic", "read", "source", "expected"),
    [
        ("p.inventory.hr.salaries", ("hr", "salaries"), {"db": "inventory", "table": "hr.salaries"}, ("inventory", "hr.salaries")),
        ("p.a.b.c", ("b", "c"), {"db": "a.b", "table": "c"}, ("a.b", "c")),
        ("p.public.hr.t", ("hr", "t"), {"db": "app", "schema": "public", "table": "hr.t"}, ("public", "hr.t")),
        ("p.public.hr.t", ("hr", "t"), {"db": "hr", "schema": "public", "table": "hr.t"}, ("public", "hr.t")),
        # A prefix with dots, a database beside the schema, a topic that a transform named, a source that names nothing.
        ("prod.eu.shop.t", ("shop", "t"), {"db": "shop", "table": "t"}, None),
        ("p.app.public.t", ("public", "t"), {"db": "app", "schema": "public", "table": "t"}, None),
        ("p.all.shop.t", ("shop", "t"), {"db": "shop", "table": "t_shard.1"}, None),
        ("p.all.shop.t", ("shop", "t"), {"db": "shop"}, None),
        ("p.all.shop.t", ("shop", "t"), {}, None),
    ],
)
def test_a_topic_is_told_by_its_records_from_that_of_another_table(
    topic: str, read: tuple[str, str], source: dict[str, str], expected: tuple[str, str] | None
) -> None:
    assert named_otherwise(topic, read, source) == expected
