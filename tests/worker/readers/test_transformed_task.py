"""A task with transforms: what reaches Kafka, what the markers count, and that the offset moves though records are dropped."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dblog.errors import DefiniteError
from support.fake_database.follower import FakeFollower
from support.fake_database.given import GivenFake

UNWRAP = {"transforms": "unwrap", "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState"}
ROUTE = {
    "transforms": "route",
    "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.route.regex": r"p\.d\.(.*)",
    "transforms.route.replacement": "lake.$1",
}
FILTER_TOMBSTONES = {
    "transforms": "filter",
    "transforms.filter.type": "org.apache.kafka.connect.transforms.Filter",
    "transforms.filter.predicate": "gone",
    "predicates": "gone",
    "predicates.gone.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
}


class Raw(FakeFollower):
    """A follower that keeps the records of every topic as they are sent."""

    def __init__(self, *given: Any, **config: Any) -> None:
        self.sent: list[tuple[str, Any, Any]] = []
        super().__init__(*given, **config)

    def poll(self, *, records_max: int = 2000) -> None:
        batches = self.task.poll(timeout_s=0.05, records_max=records_max, bytes_max=1 << 20)
        for batch in batches:
            assert batch.records_total == sum(len(segment.values) for segment in batch.segments)
            for segment in batch.segments:
                self.sent += [
                    (segment.topic, _read(key), None if value is None else json.loads(value))
                    for key, value in zip(segment.keys, segment.values, strict=True)
                ]
            self.task.fold.advance(batch.step)
        if batches:
            self.offset = self.task.fold.offset()
            self.task.commit(self.offset)

    def of(self, topic: str) -> list[tuple[Any, Any]]:
        return [(key, value) for name, key, value in self.sent if name == topic]

    @property
    def markers(self) -> list[Any]:
        return [value for _, value in self.of("__dblog-chunks.p")]


def _read(key: bytes | None) -> Any:
    """Return a key as JSON, or as text if it is none."""
    return None if key is None else json.loads(key) if key[:1] in b"{[" else key.decode()


@pytest.fixture
def given():
    given = GivenFake()
    given.create("t")
    given.insert("t", (1, "a"), (2, "b"), (3, "c"))
    return given


def follow(given, **config):
    return Raw(given.server, **config).start()


def test_unwrapped_rows_leave_dumped_and_logged_and_a_delete_leaves_one_tombstone(given):
    follower = follow(given, **UNWRAP)
    follower.until_dumped()

    given.update("t", 1, "x")
    given.delete("t", 2)
    given.insert("t", (4, "d"))
    follower.until(lambda: len(follower.of("p.d.t")) == 6)
    follower.task.stop()

    assert follower.of("p.d.t") == [
        ({"id": 1}, {"id": 1, "name": "a"}),
        ({"id": 2}, {"id": 2, "name": "b"}),
        ({"id": 3}, {"id": 3, "name": "c"}),
        ({"id": 1}, {"id": 1, "name": "x"}),
        ({"id": 2}, None),
        ({"id": 4}, {"id": 4, "name": "d"}),
    ]


def test_unwrapped_rows_have_no_markers_since_nobody_could_count_them(given):
    follower = follow(given, **UNWRAP)
    follower.until_dumped()
    follower.task.stop()

    assert not follower.markers


def test_a_route_by_the_topics_name_is_in_rows_and_markers(given):
    follower = follow(given, **ROUTE)
    follower.until_dumped()
    given.delete("t", 1)
    follower.until(lambda: len(follower.of("lake.t")) == 5)
    follower.task.stop()

    assert [value and value["op"] for _, value in follower.of("lake.t")] == ["r", "r", "r", "d", None]
    assert not follower.of("p.d.t")
    assert {(marker["topic"], marker["rows_read"], marker["rows_passed"]) for marker in follower.markers} == {("lake.t", 3, None)}


def test_a_dropped_record_counts_as_done(given):
    follower = follow(given, **FILTER_TOMBSTONES)
    follower.until_dumped()
    given.delete("t", 1)
    end = len(given.server.log)

    follower.until(lambda: given.server.confirmed and given.server.confirmed[-1] == end)
    follower.task.stop()

    assert [value["op"] for _, value in follower.of("p.d.t")] == ["r", "r", "r", "d"]


def test_a_chain_that_drops_everything_moves_on_and_its_markers_count_no_rows(given):
    drop = {"transforms": "drop", "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter"}
    follower = follow(given, **drop)
    follower.until_dumped()
    given.insert("t", (4, "d"))
    end = len(given.server.log)

    follower.until(lambda: given.server.confirmed and given.server.confirmed[-1] == end)
    follower.task.stop()

    assert {topic for topic, _, _ in follower.sent} == {"__dblog-chunks.p"}
    assert sum(marker["rows_read"] for marker in follower.markers) == 3
    assert {marker["rows_passed"] for marker in follower.markers} == {0}


def test_rows_changed_inside_a_window_are_left_out_as_without_transforms(given):
    follower = follow(given, **UNWRAP)
    for number in range(20):
        given.update("t", 1 + number % 3, f"v{number}")
        follower.poll()
    follower.until_dumped()
    follower.until(lambda: {row["id"]: row["name"] for _, row in follower.of("p.d.t")[-12:] if row} == {2: "v19", 1: "v18", 3: "v17"})
    follower.task.stop()

    last = {key["id"]: value["name"] for key, value in follower.of("p.d.t")}
    assert last == {1: "v18", 2: "v19", 3: "v17"}


def test_a_record_that_a_transform_cannot_handle_ends_the_task_without_its_values(given):
    missing = {
        "transforms": "key",
        "transforms.key.type": "org.apache.kafka.connect.transforms.ExtractField$Key",
        "transforms.key.field": "nope",
    }
    follower = follow(given, **missing)

    with pytest.raises(DefiniteError, match=r"a record of topic p cannot be handled: transform key .*Unknown field: nope"):
        follower.until_dumped()
    follower.task.stop()


def test_with_tolerance_such_a_record_is_left_out_and_its_position_stored(given):
    missing = {
        "transforms": "key",
        "transforms.key.type": "org.apache.kafka.connect.transforms.ExtractField$Key",
        "transforms.key.field": "nope",
        "errors.tolerance": "all",
    }
    follower = follow(given, **missing)
    follower.until_dumped()
    follower.task.stop()

    assert not follower.of("p.d.t")


@pytest.mark.parametrize("mode", ["verify", "repair"])
@pytest.mark.parametrize(("transforms", "reason"), [(UNWRAP, "change the records"), (FILTER_TOMBSTONES, "drop records")])
def test_a_dump_that_compares_is_refused_where_transforms_take_rows_away(given, mode, transforms, reason):
    follower = follow(given, **transforms)
    follower.until_dumped()

    with pytest.raises(DefiniteError, match=reason):
        follower.ask("d.t", mode=mode)
    follower.task.stop()


def test_a_requested_dump_of_rows_passes_the_chain(given):
    follower = follow(given, **UNWRAP)
    follower.until_dumped()

    follower.until_state(follower.ask("d.t"), "DONE")
    follower.task.stop()

    assert [row["id"] for _, row in follower.of("p.d.t")] == [1, 2, 3, 1, 2, 3]


def test_a_verification_is_accepted_where_only_topics_are_renamed(given):
    follower = follow(given, **ROUTE)
    follower.until_dumped()

    follower.until_state(follower.ask("d.t", mode="verify"), "DONE")
    follower.task.stop()

    assert follower.markers[-1]["topic"] == "lake.t"
    assert follower.markers[-1]["mode"] == "verify"


def test_no_rows_of_a_table_come_into_a_topic_of_the_connectors_state(given):  # number 13 of the worker's safety
    route = {**ROUTE, "transforms.route.replacement": "__dblog-chunks.p"}
    for config in ({"dblog.chunk.marker.topic": "p.d.t"}, {"signal.kafka.topic": "p.d.t"}, route):
        follower = follow(given, **config)
        with pytest.raises(
            DefiniteError, match=r"table d\.t: its rows would come into the topic .*, which no record of a table belongs in"
        ):
            follower.until_dumped()
        follower.task.stop()


NUMBERS = {"value.converter": "org.apache.kafka.connect.converters.LongConverter"}


def test_records_that_the_converter_cannot_write_go_to_the_dead_letter_topic_and_the_offset_moves(given):
    tolerant = {**NUMBERS, "errors.tolerance": "all", "errors.deadletterqueue.topic.name": "failed"}
    follower = follow(given, **tolerant)
    given.insert("t", (4, "secret"))
    end = len(given.server.log)

    follower.until(lambda: given.server.confirmed and given.server.confirmed[-1] == end and follower.of("failed"))
    follower.task.stop()

    logged = [value for _, value in follower.of("failed") if value.get("op") == "c"]
    assert [(one["table"], one["stage"], one["class"]) for one in logged] == [("d.t", "VALUE_CONVERTER", "NumberConverter")]
    assert "secret" not in json.dumps(follower.sent)
    assert {topic for topic, _, _ in follower.sent} == {"failed"}


def test_without_tolerance_such_a_record_ends_the_task(given):
    with pytest.raises(DefiniteError, match="LongConverter writes int64 only"):
        follow(given, **NUMBERS).until_dumped()
