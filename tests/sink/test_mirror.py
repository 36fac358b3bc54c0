"""Mirror mode on small batches: every lawful order of arrival ends with the source's rows, and every step may be repeated."""

from __future__ import annotations

from dataclasses import replace

import pytest
from dblog_sink.modes import mirror
from delta.tables import DeltaTable
from sink.harness import Record, Sink, change, tombstone
from support.envelopes import TableSchema
from support.registry_server import RegistryServer


@pytest.fixture
def items(registry: RegistryServer) -> TableSchema:
    return TableSchema(topic="p.shop.items", columns=[("id", "long"), ("name", ["null", "string"])], registry=registry)


class Crash(Exception):  # noqa: N818  not an error of ours
    """The process is gone."""


def row(key: int, name: str | None) -> dict:
    return {"id": key, "name": name}


def version(sink: Sink, table: TableSchema) -> int:
    return DeltaTable.forPath(sink.spark, sink.path(table)).history(1).first()["version"]


def test_inserts_updates_and_deletes_arrive(sink: Sink, items: TableSchema) -> None:
    sink.batch(change(items, "c", row(1, "a"), at=100), change(items, "c", row(2, "b"), at=110))

    sink.batch(
        change(items, "u", row(1, "A"), before=row(1, "a"), at=200),
        change(items, "d", row(2, "b"), at=210),
        tombstone(items, row(2, "b")),
        change(items, "c", row(3, None), at=220),
    )

    assert sink.rows(items) == [row(1, "A"), row(3, None)]
    assert sink.quarantined() == []


def test_a_late_dump_row_neither_overwrites_nor_resurrects(sink: Sink, items: TableSchema) -> None:
    # The log's rows come first; the dump's, read at an earlier position, long after. A deleted key stays away across a restart too.
    sink.batch(
        change(items, "u", row(1, "new"), at=500, sequenced=True),
        change(items, "c", row(2, "x"), at=510, sequenced=True),
        change(items, "c", row(9, "x"), at=511, sequenced=True),
    )
    sink.batch(change(items, "d", row(2, "x"), at=600, sequenced=True), change(items, "d", row(5, "never seen"), at=610, sequenced=True))
    sink.restarted()

    sink.batch(*(change(items, "r", row(key, "dumped"), at=300, sequenced=True) for key in (1, 2, 3, 5)))

    assert sink.rows(items) == [row(1, "new"), row(3, "dumped"), row(9, "x")]


def test_a_key_that_came_back_after_its_delete_lives(sink: Sink, items: TableSchema) -> None:
    sink.batch(change(items, "c", row(1, "first"), at=100))
    sink.batch(change(items, "d", row(1, "first"), at=200))
    sink.batch(change(items, "c", row(1, "second"), at=300), change(items, "r", row(1, "first"), at=150))

    sink.batch(change(items, "d", row(1, "stale"), at=250))

    assert sink.rows(items) == [row(1, "second")]


def test_positions_are_compared_as_numbers(sink: Sink, items: TableSchema) -> None:
    # As text, binlog.000099 would beat binlog.000100 nowhere, but binlog.999999 would beat binlog.1000000, and position 9 beat 10.
    sink.batch(change(items, "c", row(1, "old"), at=9, file=999_999), change(items, "c", row(2, "old"), at=9))

    sink.batch(change(items, "u", row(1, "new"), at=4, file=1_000_000), change(items, "u", row(2, "new"), at=10))

    assert sink.rows(items) == [row(1, "new"), row(2, "new")]


def test_rows_of_one_event_are_ordered_by_their_number_and_equal_positions_by_the_offset(sink: Sink, items: TableSchema) -> None:
    sink.batch(
        change(items, "u", row(1, "second"), at=100, row_number=1),
        change(items, "u", row(1, "first"), at=100, row_number=0),
        change(items, "c", row(2, "first"), at=200),
        change(items, "d", row(2, "first"), at=200),
        change(items, "c", row(2, "last"), at=200),
    )

    assert sink.rows(items) == [row(1, "second"), row(2, "last")]


def test_a_key_change_is_a_delete_and_an_insert(sink: Sink, items: TableSchema) -> None:
    sink.batch(change(items, "c", row(1, "a"), at=100))

    sink.batch(change(items, "d", row(1, "a"), at=200), tombstone(items, row(1, "a")), change(items, "c", row(7, "a"), at=200))

    assert sink.rows(items) == [row(7, "a")]


def test_a_replayed_batch_commits_nothing(sink: Sink, items: TableSchema) -> None:  # I8
    sink.batch(change(items, "c", row(1, "a"), at=100), change(items, "c", row(2, "a"), at=101))
    records = [
        replace(change(items, "u", row(1, "b"), at=200), offset=2),
        replace(change(items, "d", row(2, "a"), at=201), offset=3),
    ]
    sink.repeat(1, records)
    before = version(sink, items)

    sink.restarted().repeat(1, records)

    assert version(sink, items) == before
    assert sink.rows(items) == [row(1, "b")]


def test_a_lost_checkpoint_only_costs_time(sink: Sink, items: TableSchema) -> None:
    # Batch numbers begin at 0 again: under the old transaction id everything would be skipped, the new rows too.
    batches = [
        [change(items, "c", row(1, "a"), at=100), change(items, "c", row(2, "a"), at=110)],
        [change(items, "d", row(1, "a"), at=200), change(items, "u", row(2, "b"), at=210)],
    ]
    for batch in batches:
        sink.batch(*batch)
    sink.restarted()
    sink.generation, sink.batch_id = "g2", 0

    sink.batch(*batches[0], *batches[1], change(items, "c", row(3, "c"), at=300))

    assert sink.rows(items) == [row(2, "b"), row(3, "c")]


@pytest.mark.parametrize("step", ["rewrite", "merge", "append"])
def test_a_crash_between_the_commits_of_a_batch_is_mended_by_its_replay(
    sink: Sink, items: TableSchema, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    sink.settings |= {"merge.split.rows.min": "2", "rewrite.rows.max": "1000" if step == "rewrite" else "0"}
    sink.batch(*(change(items, "c", row(key, "a"), at=100 + key) for key in range(5)))
    records = [
        replace(change(items, op, row(key, "b"), at=at), offset=10 + n)
        for n, (op, key, at) in enumerate(
            [("d", 1, 210), ("u", 2, 220), ("r", 8, 150), ("r", 9, 150), ("r", 3, 90), ("r", 1, 150), ("r", 4, 240)]
        )
    ]
    with monkeypatch.context() as patch:

        def crash(*_: object, **__: object) -> None:
            raise Crash

        patch.setattr(mirror, step, crash)
        with pytest.raises(Crash):
            sink.repeat(1, records)

    sink.restarted().repeat(1, records)

    assert sink.rows(items) == [row(0, "a"), row(2, "b"), row(3, "a"), row(4, "b"), row(8, "b"), row(9, "b")]


def test_a_large_dump_batch_is_appended_and_only_known_keys_are_merged(sink: Sink, items: TableSchema) -> None:
    sink.settings |= {"merge.split.rows.min": "3", "rewrite.rows.max": "0"}
    sink.batch(change(items, "c", row(1000, "log"), at=500), change(items, "u", row(12, "log"), at=510))

    sink.batch(*(change(items, "r", row(key, "dump"), at=100) for key in range(10, 20)), change(items, "u", row(1000, "log2"), at=600))
    sink.batch(*(change(items, "r", row(key, "dump"), at=100) for key in range(30, 40)))

    names = {one["id"]: one["name"] for one in sink.rows(items)}
    assert names == dict.fromkeys((*range(10, 20), *range(30, 40)), "dump") | {12: "log", 1000: "log2"}
    operations = [entry["operation"] for entry in DeltaTable.forPath(sink.spark, sink.path(items)).history().collect()]
    assert operations[0] == "WRITE", "keys beyond every file's statistics are appended without a merge"


@pytest.mark.parametrize("rewritten", [True, False])
def test_a_composite_key_and_types_without_bounds_work(sink: Sink, registry: RegistryServer, rewritten: bool) -> None:
    sink.settings["rewrite.rows.max"] = "1000" if rewritten else "0"
    table = TableSchema(
        topic="p.shop.lines", columns=[("id", "int"), ("code", "bytes"), ("n", ["null", "long"])], key=("id", "code"), registry=registry
    )
    sink.batch(*(change(table, "c", {"id": n, "code": bytes([n]), "n": n}, at=100 + n) for n in range(3)))

    sink.batch(
        change(table, "u", {"id": 1, "code": b"\x01", "n": 11}, at=200), change(table, "d", {"id": 1, "code": b"\x02", "n": 0}, at=201)
    )

    assert [one["n"] for one in sink.rows(table)] == [0, 11, 2]


def test_a_truncate_deletes_what_is_older_and_what_comes_late(sink: Sink, items: TableSchema) -> None:
    sink.batch(change(items, "c", row(1, "a"), at=100), change(items, "c", row(2, "a"), at=101))
    truncate = Record(topic=items.topic, key=None, value=items.value_bytes("t", pos=300))

    sink.batch(truncate, change(items, "c", row(3, "after"), at=400))
    sink.restarted().batch(change(items, "r", row(4, "late"), at=200), change(items, "r", row(5, "later"), at=500))

    assert sink.rows(items) == [row(3, "after"), row(5, "later")]


def test_several_tables_are_written_in_one_batch_and_other_records_left_out(
    sink: Sink, items: TableSchema, registry: RegistryServer
) -> None:
    others = [TableSchema(topic=f"p.shop.t{n}", columns=[("id", "int"), ("v", "string")], registry=registry) for n in range(3)]
    heartbeat = registry.register(
        '{"type":"record","name":"Heartbeat","namespace":"io.debezium.connector.common","fields":[{"name":"ts_ms","type":"long"}]}'
    )

    sink.batch(
        *(change(other, "c", {"id": n, "v": "x"}, at=n) for n, other in enumerate(others, start=1)),
        change(items, "c", row(1, "a"), at=100),
        Record(topic="__debezium-heartbeat.p", key=None, value=b"\0" + heartbeat.to_bytes(4, "big") + b"\x02"),
        Record(topic="p", key=None, value=b"\0" + heartbeat.to_bytes(4, "big") + b"\x02"),
        Record(topic="p.dblog.chunks", key=b"k", value=b'{"chunk": 1}'),
    )

    assert sink.rows(items) == [row(1, "a")]
    assert [sink.rows(other) for other in others] == [[{"id": n, "v": "x"}] for n in (1, 2, 3)]
    assert sink.quarantined() == []
    assert sorted(path.name for path in (sink.folder / "lake").iterdir()) == ["shop"]


def test_debezium_topics_without_before_and_without_sequence_work(sink: Sink, registry: RegistryServer) -> None:
    slim = TableSchema(topic="p.shop.slim", columns=[("id", "int"), ("v", "string")], before=False, registry=registry)
    postgres = TableSchema(topic="p.public.pg", columns=[("id", "int"), ("v", "string")], connector="postgresql", registry=registry)
    sink.batch(*(change(table, "c", {"id": key, "v": "a"}, at=100 + key) for table in (slim, postgres) for key in (1, 2)))

    sink.batch(
        *(
            event
            for table in (slim, postgres)
            for event in (change(table, "u", {"id": 1, "v": "b"}, at=200), change(table, "d", {"id": 2, "v": "a"}, at=210))
        ),
        *(change(table, "c", {"id": 1, "v": "stale"}, at=50) for table in (slim, postgres)),
    )

    assert sink.rows(slim) == sink.rows(postgres) == [{"id": 1, "v": "b"}]


def test_topic_order_follows_the_offset_whatever_the_positions_say(sink: Sink, items: TableSchema) -> None:
    sink.settings["position"] = "topic"
    sink.batch(change(items, "c", row(1, "a"), at=900))

    sink.batch(change(items, "u", row(1, "b"), at=100))

    assert sink.rows(items) == [row(1, "b")]


def test_compaction_changes_no_row(sink: Sink, items: TableSchema) -> None:
    sink.settings |= {"compact.commits": "2", "rewrite.rows.max": "0"}
    for n in range(4):
        sink.batch(change(items, "c", row(n, "a"), at=100 + n), change(items, "d", row(n - 2, "a"), at=150 + n))

    assert sink.rows(items) == [row(2, "a"), row(3, "a")]
    assert "OPTIMIZE" in {entry["operation"] for entry in DeltaTable.forPath(sink.spark, sink.path(items)).history().collect()}
