"""Tables without a key are kept as the list of their changes."""

from __future__ import annotations

import pytest
from dblog_sink.errors import DefiniteError, TransientError
from sink.harness import Record, Sink
from support.envelopes import TableSchema
from support.registry_server import RegistryServer


def event(table: TableSchema, op: str, at: int, before=None, after=None) -> Record:
    return Record(topic=table.topic, key=None, value=table.value_bytes(op, before=before, after=after, pos=at))


def test_every_change_is_appended_with_both_images_of_an_update(sink: Sink, registry: RegistryServer) -> None:
    table = TableSchema(topic="p.shop.log", columns=[("v", ["null", "string"])], key=(), registry=registry)
    sink.batch(event(table, "r", 1, after={"v": "dumped"}), event(table, "c", 2, after={"v": "a"}))
    changes = [event(table, "u", 3, before={"v": "a"}, after={"v": "b"}), event(table, "d", 4, before={"v": "b"}), event(table, "d", 5)]
    changes.append(event(table, "t", 6))

    sink.batch(*changes)
    sink.repeat(1, changes)

    found = sink.read(table).orderBy("_dblog_seq1", "_dblog_seq2", "_dblog_op").collect()
    assert [(row["_dblog_op"], row["v"]) for row in found] == [("r", "dumped"), ("c", "a"), ("b", "a"), ("u", "b"), ("d", "b"), ("t", None)]
    assert [one["reason"] for one in sink.quarantined()] == ["a delete without key and without its old row cannot be applied"]


def test_updates_without_their_old_row_are_kept_with_the_new_one(sink: Sink, registry: RegistryServer) -> None:
    table = TableSchema(topic="p.shop.log", columns=[("v", ["null", "string"])], key=(), before=False, registry=registry)

    sink.batch(event(table, "u", 3, after={"v": "b"}))

    assert [(row["_dblog_op"], row["v"]) for row in sink.read(table).collect()] == [("u", "b")]


def test_a_list_of_changes_that_fails_after_its_commit_and_is_parked_gets_nothing_twice(sink: Sink, registry: RegistryServer) -> None:
    table = TableSchema(topic="p.shop.log", columns=[("v", ["null", "string"])], key=(), registry=registry)
    sink.settings |= {"table.all.match": ".*", "table.all.failure": "park"}

    def failing(step: str) -> None:
        if step == "appended":
            raise DefiniteError("something broke after the commit")

    sink.reached = failing
    sink.batch(event(table, "c", 1, after={"v": "a"}), event(table, "c", 2, after={"v": "b"}))
    sink.restarted().reached = lambda _: None
    sink.batch(event(table, "c", 3, after={"v": "c"}))
    sink.book.unpark(table.topic)
    sink.drain()

    assert sorted(row["v"] for row in sink.read(table).collect()) == ["a", "b", "c"]


def test_what_may_pass_does_not_park_a_list_of_changes_whose_landed_rows_come_first(
    sink: Sink, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = TableSchema(topic="p.shop.log", columns=[("v", ["null", "string"])], key=(), registry=registry)
    sink.settings |= {"table.all.match": ".*", "table.all.failure": "park", "table.all.failure.retries": "1"}
    sink.settings |= {"trigger.interval.s": "0", "merge.rows.min": "1000000"}
    sink.land(event(table, "c", 1, after={"v": "a"}))
    assert sink.book.waiting()[table.topic] != []

    def away(*_: object, **__: object) -> None:
        msg = "the store is away"
        raise TransientError(msg)

    monkeypatch.setattr(sink.applier, "apply", away)
    with pytest.raises(TransientError, match="away"):
        sink.pipeline.by_batches.catch_up([table.topic])
    assert sink.book.parked() == {}
    sink.pipeline.by_batches.catch_up([table.topic])
    assert sink.book.parked() == {table.topic: "the store is away"}
