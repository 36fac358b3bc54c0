"""Whoever names tables in a source names folders here: a table whose folder would be the sink's own waits for a person, and the others go on."""

from __future__ import annotations

from sink.harness import Record, Sink
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
