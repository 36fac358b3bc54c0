"""Statements keep their order, and are known again, whatever happens to the topic that reports them."""

from __future__ import annotations

import pytest
from dblog_sink.config import job_options
from dblog_sink.schema.registry import Registry
from dblog_sink.schema.resolve import Schemas
from dblog_sink.state.notes import ColumnsRenamed, RenameStatement, State
from dblog_sink.tables.schema_changes import SchemaChanges, place_of

GIVEN = {"kafka.bootstrap.servers": "unused", "topics.pattern": "p", "registry.url": "http://127.0.0.1:1", "target.path": "/lake"}


def test_statements_of_a_topic_that_was_made_again_come_after_those_of_the_former_one() -> None:
    settings = job_options.parse(GIVEN)
    spec = settings.table("p.shop.t")
    assert spec is not None
    state = State()
    for note in (
        ColumnsRenamed("shop.t", {"x": "a"}),
        RenameStatement("p", "shop.t", 7, (("a", "b"),), "t1"),
        RenameStatement("p", "shop.t", 3, (("c", "d"),), "t2"),
        RenameStatement("p", "shop.t", 5, (("d", "e"),), "t2"),
        RenameStatement("p", "shop.t", 9, (("b", "c"),), "t1"),
    ):
        state.take(note)
    changes = SchemaChanges(
        settings, Schemas(Registry(GIVEN["registry.url"])), state, lambda _n, _a: None, lambda _s, _t: None, lambda _t: "t2"
    )

    found = changes.of(spec)

    assert found == {"-1": [("x", "a")], "t1:7": [("a", "b")], "t1:9": [("b", "c")], "t2:3": [("c", "d")], "t2:5": [("d", "e")]}
    assert [place_of(at, list(found)) for at in (None, *found)] == [0, 1, 2, 3, 4, 5]
    again = State()
    for note in state.notes():
        again.take(note)
    assert again == state


@pytest.mark.parametrize(
    ("at", "keys", "place"),
    [
        ("7", ["7", "9"], 1),
        ("7", ["t1:7", "t1:9"], 1),  # an earlier version did not note the topic's id
        ("7", ["7", "t1:3"], 1),
        ("-1", ["-2", "-1", "7"], 2),
        ("t1:7", ["t2:3", "t2:9"], 0),  # the state was lost, and the topic made again
        ("t1:7", [], 0),
    ],
)
def test_a_table_finds_the_last_statement_that_it_has_followed(at: str, keys: list[str], place: int) -> None:
    assert place_of(at, keys) == place
