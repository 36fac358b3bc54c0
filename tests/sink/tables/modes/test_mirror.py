"""Mirror mode on small batches: every allowed order of arrival ends with the source's rows, and every step may be repeated."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from dblog_sink.config import job_options
from dblog_sink.errors import DefiniteError
from dblog_sink.query.freshest import fresh
from delta.tables import DeltaTable
from sink.harness import Record, Sink, change, tombstone
from support.envelopes import TableSchema
from support.registry_server import RegistryServer


@pytest.fixture
def items(registry: RegistryServer) -> TableSchema:
    return TableSchema(topic="p.shop.items", columns=[("id", "long"), ("name", ["null", "string"])], registry=registry)


def row(key: int, name: str | None) -> dict:
    return {"id": key, "name": name}


def version(sink: Sink, table: TableSchema) -> int:
    return DeltaTable.forPath(sink.spark, sink.path(table)).history(1).first()["version"]


@dataclass(frozen=True)
class Story:
    """Events of one key or a few, by batch, and the rows that are left."""

    batches: list[list[tuple[str, int, str | None, dict]]]
    left: list[tuple[int, str | None]]


STORIES = {
    "inserts, updates and deletes arrive": Story(
        [
            [("c", 1, "a", {"at": 100}), ("c", 2, "b", {"at": 110})],
            [("u", 1, "A", {"at": 200}), ("d", 2, "b", {"at": 210}), ("null", 2, None, {}), ("c", 3, None, {"at": 220})],
        ],
        [(1, "A"), (3, None)],
    ),
    # The log's rows come first; the dump's, read at an earlier position, long after. A deleted key stays away across a restart too.
    "a late dump row neither overwrites nor resurrects": Story(
        [
            [("u", 1, "new", {"at": 500}), ("c", 2, "x", {"at": 510}), ("c", 9, "x", {"at": 511})],
            [("d", 2, "x", {"at": 600}), ("d", 5, "never seen", {"at": 610})],
            [("r", key, "dumped", {"at": 300}) for key in (1, 2, 3, 5)],
        ],
        [(1, "new"), (3, "dumped"), (9, "x")],
    ),
    "a key that came back after its delete stays": Story(
        [
            [("c", 1, "first", {"at": 100})],
            [("d", 1, "first", {"at": 200})],
            [("c", 1, "second", {"at": 300}), ("r", 1, "first", {"at": 150})],
            [("d", 1, "stale", {"at": 250})],
        ],
        [(1, "second")],
    ),
    # As text, binlog.000099 would beat binlog.000100 nowhere, but binlog.999999 would beat binlog.1000000, and position 9 beat 10.
    "positions are compared as numbers": Story(
        [
            [("c", 1, "old", {"at": 9, "file": 999_999}), ("c", 2, "old", {"at": 9})],
            [("u", 1, "new", {"at": 4, "file": 1_000_000}), ("u", 2, "new", {"at": 10})],
        ],
        [(1, "new"), (2, "new")],
    ),
    "rows of one event are ordered by their number, and equal positions by the offset": Story(
        [
            [
                ("u", 1, "second", {"at": 100, "row_number": 1}),
                ("u", 1, "first", {"at": 100, "row_number": 0}),
                ("c", 2, "first", {"at": 200}),
                ("d", 2, "first", {"at": 200}),
                ("c", 2, "last", {"at": 200}),
            ]
        ],
        [(1, "second"), (2, "last")],
    ),
    "a key change is a delete and an insert": Story(
        [[("c", 1, "a", {"at": 100})], [("d", 1, "a", {"at": 200}), ("null", 1, None, {}), ("c", 7, "a", {"at": 200})]],
        [(7, "a")],
    ),
}


def test_every_story_of_a_few_rows_ends_as_in_the_source(sink: Sink, items: TableSchema) -> None:
    # Side by side, on keys of their own: a batch costs the same for one story as for all.
    first_key = {name: 100 * n for n, name in enumerate(STORIES)}

    def record(name: str, op: str, key: int, value: str | None, more: dict) -> Record:
        made = row(first_key[name] + key, value)
        return tombstone(items, made) if op == "null" else change(items, op, made, sequenced="late dump" in name, **more)

    for number in range(4):
        present = [(name, event) for name, story in STORIES.items() for event in (story.batches[number : number + 1] or [[]])[0]]
        sink.batch(*(record(name, *event) for name, event in present))
        if number == 1:
            sink.restarted()

    rows = {one["id"]: one["name"] for one in sink.rows(items)}
    found = {name: [(key - first, value) for key, value in rows.items() if first <= key < first + 100] for name, first in first_key.items()}
    assert found == {name: story.left for name, story in STORIES.items()}
    assert sink.quarantined() == []


@pytest.mark.long
@pytest.mark.parametrize("mode", ["mirror", "history"])
def test_a_null_value_of_a_compacted_topic_deletes_although_the_delete_before_it_was_compacted_away(
    sink: Sink, items: TableSchema, mode: str
) -> None:
    sink.compacted.add(items.topic)
    sink.settings |= {"table.all.match": ".*", "table.all.mode": mode}
    batches = [
        [change(items, "c", row(key, "a"), at=100 + key) for key in (1, 2, 3, 4)],
        [
            tombstone(items, row(1, None)),  # alone in its batch
            change(items, "u", row(2, "b"), at=202),
            tombstone(items, row(2, None)),
            tombstone(items, row(3, None)),
            change(items, "c", row(3, "again"), at=303),
            tombstone(items, row(9, None)),  # of a key that nobody has
        ],
        [change(items, "r", row(1, "late"), at=90), change(items, "d", row(4, "a"), at=304), tombstone(items, row(4, None))],
    ]
    offset = iter(range(100))
    batches = [[replace(record, offset=next(offset)) for record in batch] for batch in batches]

    def live() -> list[tuple[int, str]]:
        found = sink.read(items)
        found = found.where("_dblog_current") if mode == "history" else found
        return sorted((one["id"], one["name"]) for one in found.select("id", "name").collect())

    for number, batch in enumerate(batches):
        sink.repeat(number, batch)
    assert live() == [(3, "again")]
    if mode == "history":
        assert sorted((one["id"], one["name"]) for one in sink.rows(items)) == [
            (1, "a"),
            (1, "late"),
            (2, "a"),
            (2, "b"),
            (3, "a"),
            (3, "again"),
            (4, "a"),
        ]
        ended = sink.read(items).selectExpr("id", "name", "unix_millis(_dblog_to) AS ms").collect()
        ends = {(one["id"], one["name"]): one["ms"] for one in ended}
        assert ends[1, "a"] == ends[3, "a"] == 1000 * int(batches[1][0].at.timestamp()), "a null has no other time than Kafka's"
    # Positions alone: the topic is read again, in batches of other bounds.
    sink.restarted().lose("control")
    sink.query_id = "second"
    for number, record in enumerate(batches[1][3:5]):
        sink.repeat(number, [record])
        assert number == 0 or live() == [(3, "again")]


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


@pytest.mark.long
def test_a_dump_batch_is_inserted_and_only_what_is_newer_replaces_a_row(sink: Sink, items: TableSchema) -> None:
    sink.settings |= {"rewrite.rows.max": "0"}
    sink.batch(change(items, "c", row(1000, "log"), at=500), change(items, "u", row(12, "log"), at=510))

    sink.batch(*(change(items, "r", row(key, "dump"), at=100) for key in range(10, 20)), change(items, "u", row(1000, "log2"), at=600))
    sink.batch(*(change(items, "r", row(key, "dump"), at=100) for key in range(30, 40)))

    names = {one["id"]: one["name"] for one in sink.rows(items)}
    assert names == dict.fromkeys((*range(10, 20), *range(30, 40)), "dump") | {12: "log", 1000: "log2"}
    done = [entry["operationMetrics"] for entry in DeltaTable.forPath(sink.spark, sink.path(items)).history().collect()]
    counts = [[int(one.get(f"numTargetRows{what}", 0)) for what in ("Inserted", "Updated", "Deleted")] for one in done[:2]]
    assert counts == [[10, 0, 0], [9, 1, 0]], "the dump row of 12 is older than the log's"


@pytest.mark.long
def test_a_composite_key_and_types_without_bounds_work(sink: Sink, registry: RegistryServer) -> None:
    sink.settings["rewrite.rows.max"] = "0"
    table = TableSchema(
        topic="p.shop.lines", columns=[("id", "int"), ("code", "bytes"), ("n", ["null", "long"])], key=("id", "code"), registry=registry
    )
    sink.batch(*(change(table, "c", {"id": n, "code": bytes([n]), "n": n}, at=100 + n) for n in range(3)))

    sink.batch(
        change(table, "u", {"id": 1, "code": b"\x01", "n": 11}, at=200), change(table, "d", {"id": 1, "code": b"\x02", "n": 0}, at=201)
    )

    assert [one["n"] for one in sink.rows(table)] == [0, 11, 2]


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
        Record(topic="__dblog-chunks.p", key=b"k", value=b'{"chunk": 1}'),
    )

    assert sink.rows(items) == [row(1, "a")]
    assert [sink.rows(other) for other in others] == [[{"id": n, "v": "x"}] for n in (1, 2, 3)]
    assert sink.quarantined() == []
    assert sorted(path.name for path in (sink.folder / "lake").iterdir()) == ["_dblog", "shop"]


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


def test_topic_order_follows_the_offset_whatever_the_positions_are(sink: Sink, items: TableSchema) -> None:
    sink.settings["position"] = "topic"
    sink.batch(change(items, "c", row(1, "a"), at=900))

    sink.batch(change(items, "u", row(1, "b"), at=100))

    assert sink.rows(items) == [row(1, "b")]


@pytest.mark.long
def test_compaction_changes_no_row(sink: Sink, items: TableSchema) -> None:
    sink.settings |= {"compact.commits": "2", "rewrite.rows.max": "0"}
    for n in range(3):
        sink.batch(change(items, "c", row(n, "a"), at=100 + n), change(items, "d", row(n - 2, "a"), at=150 + n))

    assert sink.rows(items) == [row(1, "a"), row(2, "a")]
    assert "OPTIMIZE" in {entry["operation"] for entry in DeltaTable.forPath(sink.spark, sink.path(items)).history().collect()}


@pytest.mark.long
def test_a_small_mirror_is_tidied_too_and_its_commits_are_counted_over_starts(sink: Sink, items: TableSchema) -> None:
    sink.settings |= {"compact.commits": "3", "tombstones.keep.h": "0"}
    tombstones = str(sink.folder / "lake/_dblog/tombstones/shop/items")
    left = []
    for n in range(4):  # each rewrites the table and notes a delete
        sink.batch(change(items, "c", row(n, "a"), at=100 + n), change(items, "d", row(n - 1, "a"), at=150 + n))
        left.append(sink.spark.read.format("delta").load(tombstones).count())
        sink.restarted()

    assert 0 in left, left
    assert sink.rows(items) == [row(3, "a")]


@pytest.mark.long
def test_the_freshest_state_is_asked_for_by_table_or_topic_and_only_of_a_mirror(
    sink: Sink, items: TableSchema, registry: RegistryServer
) -> None:
    sink.settings |= {"table.h.match": "shop.h", "table.h.mode": "history"}
    history = TableSchema(topic="p.shop.h", columns=[("id", "long")], registry=registry)
    sink.batch(change(items, "c", row(1, "a"), at=100), change(history, "c", {"id": 1}, at=101))
    sink.restarted()
    sink.settings |= {"trigger.interval.s": "0", "merge.rows.min": "1000000"}
    sink.land(change(items, "u", row(1, "b"), at=200))
    settings = job_options.parse(sink.given)

    for name in ("shop.items", items.topic):
        assert [one["name"] for one in fresh(sink.spark, settings, name).collect()] == ["b"]
    with pytest.raises(DefiniteError, match=r"shop\.h is kept in mode history"):
        fresh(sink.spark, settings, "shop.h")
    with pytest.raises(DefiniteError, match="no Delta table of shop.nothing"):
        fresh(sink.spark, settings, "shop.nothing")
