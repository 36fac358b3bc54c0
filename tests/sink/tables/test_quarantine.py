"""Records that cannot be applied are kept with the reason, and hold up nobody."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from dblog_sink.config import job_options
from dblog_sink.delta.merge import Txn
from dblog_sink.errors import DefiniteError
from dblog_sink.job.commands import Command
from dblog_sink.job.replay import Replayed, replay, version_of
from dblog_sink.query.show import show
from sink.harness import Record, Sink, change
from support.envelopes import TableSchema, decimal, logical
from support.registry_server import RegistryServer


@pytest.fixture
def items(registry: RegistryServer) -> TableSchema:
    columns = [("id", "long"), ("seen", ["null", logical("string", "io.debezium.time.ZonedTimestamp")]), ("big", ["null", decimal(65, 0)])]
    return TableSchema(topic="p.shop.items", columns=columns, registry=registry)


def test_each_kind_of_bad_record_is_kept_with_its_reason_and_the_others_arrive(
    sink: Sink, items: TableSchema, registry: RegistryServer
) -> None:
    sink.settings |= {"table.t.match": ".*", "table.t.decimal.overflow": "quarantine"}
    good = {"id": 1, "seen": "2024-01-01T00:00:00Z", "big": Decimal(10**37)}
    readable = change(items, "c", good, at=1)
    unwrapped = registry.register(
        json.dumps({"type": "record", "name": "Value", "namespace": "p.shop.other", "fields": [{"name": "id", "type": "int"}]})
    )
    bad = {
        "not framed": Record(topic=items.topic, key=readable.key, value=b"no frame"),
        "JSON without its schema": Record(topic=items.topic, key=readable.key, value=b'{"json": true}'),
        "no schema with id 9999": Record(topic=items.topic, key=readable.key, value=b"\0\0\0\x27\x0f" + b"x"),
        "does not decode": Record(topic=items.topic, key=readable.key, value=readable.value[:9]),
        "unknown operation": Record(topic=items.topic, key=readable.key, value=items.value_bytes("x", after=good)),
        "no row image": Record(topic=items.topic, key=readable.key, value=items.value_bytes("c")),
        "no key": Record(topic=items.topic, key=None, value=items.value_bytes("c", after=good)),
        "key does not decode": Record(topic=items.topic, key=b"junk!", value=items.value_bytes("c", after=good, pos=77)),
        "no position": Record(topic=items.topic, key=readable.key, value=items.value_bytes("c", after=good, file="no-number.")),
        "column seen": change(items, "c", good | {"seen": "yesterday"}, at=2),
        "column big: the value has no decimal(38,0)": change(items, "c", good | {"big": Decimal(10**40)}, at=3),
        "not a Debezium envelope": Record(topic="p.shop.other", key=None, value=b"\0" + unwrapped.to_bytes(4, "big") + b"\x02"),
    }

    sink.batch(readable, *bad.values(), change(items, "c", good | {"id": 2}, at=9))

    assert [one["id"] for one in sink.rows(items)] == [1, 2]
    kept = sink.quarantined()
    assert sorted(bytes(one["value"]) for one in kept) == sorted(record.value for record in bad.values())
    reasons = {bytes(one["value"]): one["reason"] for one in kept}
    for part, record in bad.items():
        assert part in reasons[record.value], reasons[record.value]
    assert all(one["batch_id"] == 0 for one in kept)


def test_what_went_to_quarantine_is_reported_and_listed_without_its_content(
    sink: Sink, items: TableSchema, caplog: pytest.LogCaptureFixture
) -> None:
    assert show(sink.spark, job_options.parse(sink.given), table="quarantine", rows_max=2).rows == 0
    good = change(items, "c", {"id": 1, "seen": None, "big": None}, at=1)

    sink.batch(good, *(Record(topic=items.topic, key=good.key, value=b"junk") for _ in range(3)))

    (reported,) = (record.getMessage() for record in caplog.records if record.name == "dblog_sink.tables.quarantine")
    assert reported.startswith("3 of 4 records of topic p.shop.items cannot be applied and are kept in quarantine (the value is not framed")
    found = show(sink.spark, job_options.parse(sink.given), table="quarantine", rows_max=2)
    assert (found.rows, len(found.newest)) == (3, 2)
    assert {key: json.loads(found.newest[0])[key] for key in ("topic", "partition", "offset")} == {
        "topic": items.topic,
        "partition": 0,
        "offset": 1,
    }
    assert "junk" not in "".join((reported, *found.newest))


def test_a_batch_full_of_bad_records_stops_the_job_after_keeping_them(sink: Sink, items: TableSchema) -> None:
    sink.settings |= {"quarantine.rows.max": "2"}
    good = change(items, "c", {"id": 1, "seen": None, "big": None}, at=1)
    bad = [Record(topic=items.topic, key=good.key, value=b"junk") for _ in range(3)]

    with pytest.raises(DefiniteError, match="3 of 4 records of topic p.shop.items") as caught:
        sink.batch(good, *bad)

    assert "junk" not in str(caught.value)
    assert len(sink.quarantined()) == 3


def test_a_table_that_fails_does_not_hold_up_the_others_of_its_batch(sink: Sink, items: TableSchema, registry: RegistryServer) -> None:
    text = TableSchema(topic="p.shop.changing", columns=[("id", "int"), ("v", "string")], registry=registry)
    number = TableSchema(topic="p.shop.changing", columns=[("id", "int"), ("v", "int")], registry=registry)
    sink.batch(change(text, "c", {"id": 1, "v": "a"}, at=1))

    with pytest.raises(DefiniteError, match=r"shop\.changing, column v: its type in the source became int, and the Delta table's string"):
        sink.batch(change(number, "c", {"id": 2, "v": 5}, at=2), change(items, "c", {"id": 1, "seen": None, "big": None}, at=1))

    assert [one["id"] for one in sink.rows(items)] == [1]
    assert sink.rows(text) == [{"id": 1, "v": "a"}]


@pytest.mark.long
def test_a_bad_record_is_kept_once_whatever_way_it_comes_a_second_time(sink: Sink, items: TableSchema) -> None:
    good = change(items, "c", {"id": 1, "seen": None, "big": None}, at=1)
    bad = replace(good, value=b"junk", offset=1)

    def killed(step: str) -> None:
        if step == "quarantined":
            raise DefiniteError("the process ended here")

    sink.reached = killed
    with pytest.raises(DefiniteError, match="ended here"):
        sink.batch(replace(good, offset=0), bad)
    sink.killed().reached = lambda _: None
    sink.settings |= {"trigger.interval.s": "0", "merge.rows.min": "1000000"}  # this time it lands first

    sink.batch(replace(good, offset=0), bad)
    assert sink.rows(items) != []
    sink.restarted().lose("control")
    sink.query_id, sink.batch_id = "second", 0
    sink.batch(replace(good, offset=0), bad)

    assert [one["offset"] for one in sink.quarantined()] == [1]


@pytest.mark.parametrize("mode", ["mirror", pytest.param("history", marks=pytest.mark.long)])
def test_a_replay_overwrites_nothing_of_its_own_position(sink: Sink, registry: RegistryServer, mode: str) -> None:
    """All rows of a compressed transaction that Debezium wrote have one position: the one in quarantine may be the older one."""
    narrow, wide = (TableSchema(topic="p.shop.t", columns=[("id", "long"), ("v", kind)], registry=registry) for kind in ("int", "long"))
    sink.settings |= {"table.all.match": ".*", "table.all.evolution": "ignore", "table.all.mode": mode}
    sink.batch(change(narrow, "c", {"id": 1, "v": 1}, at=1))
    too_large = [change(wide, "c", {"id": key, "v": 2**40}, at=20) for key in (2, 3, 4)]
    sink.batch(*too_large, change(wide, "u", {"id": 2, "v": 5}, at=20), change(wide, "d", {"id": 3, "v": 5}, at=20))
    assert len(sink.quarantined()) == 3
    sink.restarted()
    sink.settings["table.all.evolution"] = "evolve"

    outcome = replayed(sink)

    rows = sink.read(wide) if mode == "mirror" else sink.read(wide).where("_dblog_current")
    assert sorted((row["id"], row["v"]) for row in rows.collect()) == [(1, 1), (2, 5), (4, 2**40)]
    assert (outcome.records, outcome.still_bad) == (3, 2)
    assert [one["offset"] for one in sink.quarantined()] == [1, 2]
    assert all("which of the two is later is unknown" in one["reason"] for one in sink.quarantined())


@pytest.mark.long
def test_a_replay_of_records_with_positions_of_their_own_is_repeatable(sink: Sink, registry: RegistryServer) -> None:
    narrow, wide = (TableSchema(topic="p.shop.t", columns=[("id", "long"), ("v", kind)], registry=registry) for kind in ("int", "long"))
    sink.settings |= {"table.all.match": ".*", "table.all.evolution": "ignore"}
    sink.batch(change(narrow, "c", {"id": 1, "v": 1}, at=1, sequenced=True))
    sink.batch(change(wide, "u", {"id": 1, "v": 2**40}, at=20, sequenced=True))
    sink.restarted()
    sink.settings["table.all.evolution"] = "evolve"

    again = change(wide, "u", {"id": 1, "v": 2**40}, at=20, sequenced=True)  # the source sends it once more
    sink.batch(again)
    outcome = replayed(sink)

    assert sink.rows(wide) == [{"id": 1, "v": 2**40}]
    assert (outcome.records, outcome.still_bad, sink.quarantined()) == (1, 0, [])


@pytest.mark.long
def test_a_replay_does_not_bring_back_a_row_that_was_deleted_however_long_ago(sink: Sink, registry: RegistryServer) -> None:
    narrow, wide = (TableSchema(topic="p.shop.t", columns=[("id", "long"), ("v", kind)], registry=registry) for kind in ("int", "long"))
    sink.settings |= {"table.all.match": ".*", "table.all.evolution": "ignore", "tombstones.keep.h": "0"}
    sink.batch(change(narrow, "c", {"id": 1, "v": 1}, at=1, sequenced=True))
    sink.batch(change(wide, "c", {"id": 2, "v": 2**40}, at=20, sequenced=True), change(wide, "d", {"id": 2, "v": 5}, at=30, sequenced=True))
    sink.applier.compact(wide.topic)
    sink.restarted()
    sink.settings["table.all.evolution"] = "evolve"

    outcome = replayed(sink)

    assert sink.rows(wide) == [{"id": 1, "v": 1}]
    assert (outcome.records, outcome.still_bad) == (1, 0)
    sink.applier.compact(wide.topic)
    tombstones = str(sink.folder / "lake/_dblog/tombstones/shop/t")
    assert sink.spark.read.format("delta").load(tombstones).count() == 0, "with the record its delete may be forgotten"


def replayed(sink: Sink) -> Replayed:
    """What is in quarantine goes through the sink again."""
    version = version_of(sink.spark, sink.pipeline.quarantine.path)
    assert version is not None
    return replay(
        sink.spark,
        sink.pipeline.quarantine,
        sink.applier,
        sink.book,
        command=Command(verb="replay"),
        topics=None,
        version=version,
        txn=Txn("t/replay/1", version),
        source_logs=sink.control.state.source_logs,
    )


@pytest.mark.long
def test_a_record_of_a_topic_that_was_made_again_stays_where_only_its_offset_shows_its_log(sink: Sink, registry: RegistryServer) -> None:
    narrow, wide = (TableSchema(topic="p.shop.t", columns=[("id", "long"), ("v", kind)], registry=registry) for kind in ("int", "long"))
    sink.settings |= {"table.all.match": ".*", "table.all.evolution": "ignore"}
    now_ms = 1_700_000_000_000
    sink.batch(change(narrow, "c", {"id": 1, "v": 1}, at=1, file=9, ts_ms=now_ms))
    sink.batch(change(wide, "u", {"id": 1, "v": 2**40}, at=20, file=9, ts_ms=now_ms + 1))
    sink.batch(change(narrow, "u", {"id": 1, "v": 2}, at=1, file=3, server=2, ts_ms=now_ms + 2))  # after a failover
    sink.restarted()
    sink.query_id, sink.topic_id = "second", "t2"
    sink.next_offsets.clear()
    sink.repeat(0, [change(narrow, "u", {"id": 1, "v": 3}, at=2, file=3, server=2, ts_ms=now_ms + 3)])
    sink.restarted()
    sink.settings["table.all.evolution"] = "evolve"

    outcome = replayed(sink)

    assert sink.rows(narrow) == [{"id": 1, "v": 3}]
    assert (outcome.records, outcome.still_bad, len(sink.quarantined())) == (1, 1, 1)


@pytest.mark.long
def test_records_that_are_still_bad_stay_where_the_clock_is_behind_the_one_that_kept_them(sink: Sink, registry: RegistryServer) -> None:
    narrow, wide = (TableSchema(topic="p.shop.t", columns=[("id", "long"), ("v", kind)], registry=registry) for kind in ("int", "long"))
    sink.settings |= {"table.all.match": ".*", "table.all.evolution": "ignore"}
    sink.batch(change(narrow, "c", {"id": 1, "v": 1}, at=1, sequenced=True))
    sink.batch(change(wide, "c", {"id": 2, "v": 2**40}, at=20, sequenced=True))
    sink.spark.sql(f"UPDATE delta.`{sink.folder / 'lake/_dblog/quarantine'}` SET at = at + INTERVAL 5 MINUTES")
    sink.restarted()

    assert replayed(sink).still_bad == 1

    assert len(sink.quarantined()) == 1


@pytest.mark.long
def test_many_batches_with_bad_records_leave_few_files_which_topics_do_not_share(sink: Sink, registry: RegistryServer) -> None:
    tables = [TableSchema(topic=f"p.shop.{name}", columns=[("id", "int"), ("v", "string")], registry=registry) for name in ("a", "b")]
    good = [change(table, "c", {"id": 1, "v": "a"}, at=1) for table in tables]
    for n in range(3):
        bad = [Record(topic=table.topic, key=one.key, value=b"no Avro", offset=10 + n) for table, one in zip(tables, good, strict=True)]
        sink.batch(*good, *bad)
        sink.repeat(sink.batch_id + 100, bad)  # they come another way
    folder = sink.folder / "lake/_dblog/quarantine"
    sink.restarted()  # a process may be too short for as many commits

    assert sink.pipeline.quarantine.compact(sink.spark, 1000, since=None) is None
    done = sink.restarted().pipeline.quarantine.compact(sink.spark, 6, since=None)

    files = sink.spark.read.format("delta").load(str(folder)).inputFiles()
    assert sorted(Path(one).parent.name for one in files) == ["topic=p.shop.a", "topic=p.shop.b"]
    assert [(one["topic"], one["offset"]) for one in sink.quarantined()] == [(table.topic, 10 + n) for table in tables for n in range(3)]
    assert sink.pipeline.quarantine.compact(sink.spark, 1, since=done) is None, "nothing came since"
    assert sink.restarted().pipeline.quarantine.compact(sink.spark, 1, since=done) is None
