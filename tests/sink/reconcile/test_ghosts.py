"""After a whole repair dump a table has exactly the rows of its source: what the source does not have is removed, whatever happens on the way (I8)."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from dblog.dialects.postgres.pgoutput.position import sequence_of
from dblog_sink.config import job_options
from dblog_sink.delta.merge import Txn
from dblog_sink.query.show import show
from dblog_sink.records.decode import NO_LOG_ENDS
from dblog_sink.tables.apply import Applier
from sink.harness import Record, Sink, change
from sink.postgres import EPOCH, ID, PostgresTopic, column
from support.chunk_markers import chunk_marker, in_avro
from support.envelopes import TableSchema
from support.json_lines import json_lines
from support.pgoutput_tables import UNSENT
from support.registry_server import RegistryServer

MARKERS = "__dblog-chunks.p"
LOW_MS = 1_700_000_500_000
MODES = {"items": "mirror", "marked": "mirror", "versions": "history", "changes": "append"}


def table(registry: RegistryServer, name: str) -> TableSchema:
    return TableSchema(topic=f"p.shop.{name}", columns=[("id", "long"), ("v", ["null", "string"])], registry=registry)


def row(key: int, value: str = "a") -> dict[str, Any]:
    return {"id": key, "v": value}


def logged(one: TableSchema, *keys: int, at: int = 100, op: str = "c", value: str = "a") -> list[Record]:
    return [change(one, op, row(key, value), at=at + key, sequenced=True) for key in keys]


def dumped(one: TableSchema, *keys: int, low: int, value: str = "dumped") -> list[Record]:
    return [change(one, "r", row(key, value), at=low, sequenced=True) for key in keys]


def marker(one: TableSchema, chunk_id: str, *, low: int, read: int, dump: str = "d1", **facts: Any) -> Record:
    made = chunk_marker(one.topic, chunk_id=chunk_id, low=(1, low << 23), read=read, dump=dump, mode="repair", ts_ms=LOW_MS, **facts)
    return Record(topic=MARKERS, key=None, value=in_avro(one.registry, made))


def repaired(one: TableSchema, *keys: int, low: int = 200, dump: str = "d1", value: str = "dumped") -> list[Record]:
    """A whole dump of these keys, a chunk for the first of them and one for the others."""
    return [
        *dumped(one, keys[0], low=low, value=value),
        marker(one, f"{dump}/1", low=low, read=1, dump=dump, begins=True, upto="[1]"),
        *dumped(one, *keys[1:], low=low + 10, value=value),
        marker(one, f"{dump}/2", low=low + 10, read=len(keys) - 1, dump=dump, after="[1]", upto="[9]", final=True),
    ]


def looked(sink: Sink, *tables: TableSchema) -> None:
    """What the job does between two batches, and then the merges."""
    sink.pipeline.arrivals.look({one.topic: {0: 1000} for one in tables})
    sink.drain()


def outcomes(sink: Sink) -> list[tuple[str, str, int, str]]:
    lines = json_lines(sink.folder / "progress.jsonl")
    return [(line["table"], line["result"], line["rows"], line["why"]) for line in lines if line["kind"] == "ghosts"]


def keys(sink: Sink, one: TableSchema, where: str = "true") -> list[int]:
    return sorted(found[0] for found in sink.read(one).where(where).select("id").collect())


@pytest.fixture
def counting(sink: Sink) -> Sink:
    sink.settings |= {"chunks.wait.s": "0", "topics.pattern": r"p\..*"}
    return sink


def stopped_once_at(sink: Sink, *steps: str) -> list[str]:
    """Let the process fail once behind each of these steps; the steps that it came to."""
    met: list[str] = []

    def reached(step: str) -> None:
        if step in steps and step not in met:
            met.append(step)
            raise OSError(step)

    sink.reached = reached
    return met


def look_until_killed(sink: Sink, met: list[str], one: TableSchema) -> None:
    """Look and merge with a new process, until it is killed at the next step or has nothing left to do."""
    sink.killed()
    dead = list(met)
    sink.pipeline.arrivals.look({one.topic: {0: 1000}})
    sink.pipeline.scheduler.drain(lambda: met != dead)  # a failure is a kill: nothing is tried again
    sink.killed()


def test_the_connectors_own_dump_after_a_gap_of_the_log_removes_rows_that_were_deleted_in_it(
    counting: Sink, registry: RegistryServer
) -> None:
    sink, items = counting, table(registry, "items")
    first = chunk_marker(
        items.topic, chunk_id="a/1", low=(1, 50 << 23), read=3, dump="initial", mode="rows", ts_ms=LOW_MS, begins=True, final=True
    )
    sink.batch(*dumped(items, 1, 2, 3, low=50), Record(topic=MARKERS, key=None, value=in_avro(registry, first)))
    looked(sink, items)
    assert keys(sink, items) == [1, 2, 3]

    sink.batch(*repaired(items, 1, 2, low=200, dump="initial"))
    looked(sink, items)

    assert keys(sink, items) == [1, 2]


def test_no_row_is_a_ghost_while_records_since_the_dump_began_are_in_quarantine() -> None:
    """One of them may be the record of a row that looks like a ghost. Without Spark: what is asked before anything is removed."""
    asked: list[tuple[str, int]] = []
    opened = SimpleNamespace(target=SimpleNamespace(mode="mirror", kind="envelope"))
    applier: Any = SimpleNamespace(
        _spec=lambda topic: topic,
        _settings={"merge.attempts.max": 1, "position": "log"},
        _pool=SimpleNamespace(borrow=nullcontext),
        _quarantine=SimpleNamespace(count_since=lambda _session, topic, since_ms: asked.append((topic, since_ms)) or 2),
        tables=SimpleNamespace(
            forget=lambda _topic: None, found=lambda _spec, _session: opened, restored=lambda _topic, _target, _ends, _session: False
        ),
    )

    kept = Applier.remove_ghosts(applier, "p.a.b", low=(1, 0), ts_ms=LOW_MS, txn=Txn("dump", 1), log_ends=NO_LOG_ENDS)

    assert kept == "2 records of its topic that came since it began are in quarantine"
    assert asked == [("p.a.b", LOW_MS - 3_600_000)], "a window may have been open for an hour"


@pytest.mark.parametrize("names", [("items",), pytest.param(("items", "versions", "bad"), marks=pytest.mark.long)], ids=" ".join)
def test_rows_that_were_damaged_deleted_and_invented_are_the_sources_after_a_whole_repair_dump(
    counting: Sink, registry: RegistryServer, names: tuple[str, ...]
) -> None:
    sink, tables = counting, {name: table(registry, name) for name in names}
    items, others = tables["items"], names[1:]
    sink.settings |= {"table.versions.match": r"shop\.versions", "table.versions.mode": "history"}
    sink.batch(*(record for one in tables.values() for record in logged(one, 1, 2, 3, 4, 5)))
    rows = [(1, "damaged", 1, 101 << 23), *((key, "a", 1, (100 + key) << 23) for key in (3, 4, 5)), (77, "invented", 1, 5)]
    kinds = "id BIGINT, v STRING, _dblog_seq1 BIGINT, _dblog_seq2 BIGINT"
    sink.spark.createDataFrame(rows, kinds).write.format("delta").mode("overwrite").save(sink.path(items))

    # The source has 1, 2 and 3: 2 is as it was, and 3 is changed inside the window of its chunk.
    dump = [
        record
        for one in tables.values()
        for record in (
            marker(one, "first", low=200, read=1, begins=True, upto="[1]"),
            *dumped(one, 1, low=200),
            *logged(one, 3, at=210, op="u", value="changed"),
            *dumped(one, 2, low=205, value="a"),
            *dumped(one, 6, low=205),
            *logged(one, 6, at=220, op="d"),
            marker(one, "last", low=205, read=3, dropped=1, after="[1]", upto="[9]", final=True),
        )
    ]
    sink.batch(*dump, *(replace(logged(tables[name], 3, at=300, op="u")[0], key=b"junk!") for name in others if name == "bad"))
    steps = ["ghosts_recorded"] if others else ["ghosts_recorded", "ghosts_removed"]
    met = stopped_once_at(sink, *steps)  # of one table; the other one goes on
    sink.killed()
    if not others:
        for _ in steps:
            look_until_killed(sink, met, items)
    looked(sink, *tables.values())

    left = [(1, "dumped"), (2, "a"), (3, "changed")]
    assert met == steps
    assert [(one["id"], one["v"]) for one in sink.rows(items)] == left
    if others:
        check_versions(sink, tables["versions"], left)
        assert keys(sink, tables["bad"]) == [1, 2, 3, 4, 5]
    expected = [
        ("shop.bad", "kept", 0, "1 records of its topic that came since it began are in quarantine"),
        ("shop.items", "removed", 3 if others else 0, ""),  # the process that removed them was killed before it reported them
        ("shop.versions", "removed", 2, ""),
    ]
    assert sorted(outcomes(sink)) == [one for one in expected if one[0].removeprefix("shop.") in names]
    listed = show(sink.spark, job_options.parse(sink.given), table="dumps", rows_max=1)
    assert (listed.rows, {"table", "dump", "result", "rows", "why", "at"} <= json.loads(listed.newest[0]).keys()) == (len(names), True)

    # Of changes that come late, those of before the dump bring nothing back, and those behind it count.
    sink.killed()
    late = [one for name, one in tables.items() if name != "bad"]
    sink.batch(*(record for one in late for record in (*logged(one, 4, at=150, op="u"), *logged(one, 5, at=300, value="new"))))
    looked(sink, *tables.values())
    assert keys(sink, items) == [1, 2, 3, 5]
    if others:
        assert keys(sink, tables["versions"], "_dblog_current") == [1, 2, 3, 5]
    assert len(outcomes(sink)) == len(names)


def check_versions(sink: Sink, versions: TableSchema, left: list[tuple[int, str]]) -> None:
    """The history's open versions are these rows, and those of rows that the source does not have ended at the dump's low watermark."""
    columns = ("id", "v", "_dblog_current", "_dblog_to_seq1", "_dblog_to_seq2", "unix_millis(_dblog_to)")
    found = sink.read(versions).selectExpr(*columns).collect()
    assert sorted((one["id"], one["v"]) for one in found if one["_dblog_current"]) == left
    assert [tuple(one)[3:] for one in found if one["id"] in (4, 5)] == [(1, 200 << 23, LOW_MS)] * 2


@pytest.mark.long  # short form: a kill at each step of the removal in test_rows_that_were_damaged_...
@pytest.mark.parametrize("mode", MODES)
def test_a_kill_at_each_step_of_the_removal_changes_nothing(counting: Sink, registry: RegistryServer, mode: str) -> None:
    sink, one = counting, table(registry, mode)
    sink.settings |= {"table.t.match": ".*", "table.t.mode": MODES[mode]} | ({"table.t.soft.delete": "gone"} if mode == "marked" else {})
    sink.settings |= {"trigger.interval.s": "0", "merge.rows.min": "1000000"}  # all of it lands, and waits for its merge
    sink.batch(*logged(one, 1, 2, 3, 4))
    records = repaired(one, 1, 2, 3, value="a")
    steps = {"changes": (), "versions": ("confirmed", "ghosts_recorded", "ghosts_removed")}.get(mode, ("ghosts_recorded", "ghosts_removed"))
    met = stopped_once_at(sink, *steps)
    sink.killed()

    sink.land(*records)
    for _ in range(len(steps) + 1):
        look_until_killed(sink, met, one)
    looked(sink, one)

    assert sorted(met) == sorted(steps)
    current = {"marked": "NOT gone", "versions": "_dblog_current"}.get(mode, "true")
    assert keys(sink, one, current) == ([1, 1, 2, 2, 3, 3, 4] if mode == "changes" else [1, 2, 3])
    if mode == "versions":
        assert sorted(tuple(found) for found in sink.read(one).select("id", "_dblog_to_seq2").collect()) == [
            (1, None),
            (2, None),
            (3, None),
            (4, 200 << 23),
        ]
    assert outcomes(sink)[-1][1] == ("kept" if mode == "changes" else "removed")
    assert looked(sink.killed(), one) is None
    assert len(outcomes(sink)) == 1


@pytest.mark.long
def test_what_an_earlier_version_of_the_sink_merged_of_a_dump_makes_it_doubtful(counting: Sink, registry: RegistryServer) -> None:
    sink, versions = counting, table(registry, "versions")
    sink.settings |= {"table.t.match": ".*", "table.t.mode": "history"}
    first, *others = repaired(versions, 1, 2, value="a")
    sink.batch(*logged(versions, 1, 2, 3), first)
    sink.restarted()
    path = f"{sink.base}/_dblog/chunks"
    columns = (
        "kind",
        "topic",
        "name",
        "chunk_id",
        "ends",
        "result",
        "why",
        "sequence",
        "seq1",
        "seq2",
        "rows",
        "missing",
        "unreadable",
        "exact",
        "at",
    )
    earlier = sink.spark.read.format("delta").load(path).select(*columns)
    earlier.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
    sink.remove(f"{sink.base}/_dblog/confirmed")

    sink.batch(*others)
    looked(sink, versions)

    assert keys(sink, versions, "_dblog_current") == [1, 2, 3]
    assert [why for _, _, _, why in outcomes(sink)] == ["the sink began to count in the middle of it"]
    sink.batch(*repaired(versions, 1, 2, low=400, dump="d2", value="a"))
    looked(sink, versions)
    assert keys(sink, versions, "_dblog_current") == [1, 2]


@pytest.mark.long
def test_a_repair_dump_that_the_version_before_met_the_beginning_of_is_whole(counting: Sink, registry: RegistryServer) -> None:
    sink, items = counting, table(registry, "items")
    records = repaired(items, 1, 2)
    sink.batch(*logged(items, 1, 2, 3), *records[:2])
    sink.restarted()
    path = f"{sink.base}/_dblog/chunks"
    earlier = sink.spark.read.format("delta").load(path).drop("low_ts_ms", "low1", "low2", "mode")
    earlier.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)

    sink.batch(*records[2:])
    looked(sink, items)

    assert keys(sink, items) == [1, 2]
    assert [result for _, result, _, _ in outcomes(sink)] == ["removed"]


@pytest.mark.long
def test_in_a_lake_of_snapshots_the_snapshot_after_the_removal_has_the_sources_rows(counting: Sink, registry: RegistryServer) -> None:
    sink, items = counting, table(registry, "items")
    sink.settings |= {"rewrite.rows.max": "0"}
    sink.batch(*logged(items, 1, 2, 3))
    version = sink.spark.sql(f"DESCRIBE HISTORY delta.`{sink.path(items)}`").first()["version"]
    sink.settings |= {"manifest.interval.s": "1", "topics.transaction": "p.transaction"}
    sink.restarted()
    sink.batch(*repaired(items, 1, 2))

    looked(sink, items)

    assert keys(sink, items) == [1, 2]
    old = sink.spark.read.format("delta").option("versionAsOf", version).load(sink.path(items))
    assert old.count() == 3


@pytest.mark.long
def test_changes_without_large_values_of_rows_that_were_not_there_keep_no_ghost_for_the_dump_brings_the_rows(
    counting: Sink, registry: RegistryServer
) -> None:
    """Somebody has deleted rows of the lake. Updates that leave their large values alone go to quarantine, and the repair dump has the rows whole."""
    sink = counting
    one = PostgresTopic(registry, [ID, column("v", "text", nullable=False), column("n", "int4", nullable=False)])
    unsent = {"id": 3, "v": UNSENT}
    sink.batch(
        *(one.inserted({"id": key, "v": "large", "n": 1}, commit=0x100 + 8 * key) for key in (1, 2, 4)),
        *one.updated({**unsent, "n": 2}, commit=0x200),
    )
    low, next_low = (sequence_of(epoch=EPOCH, lsn=at) for at in (0x300, 0x400))
    facts: dict[str, Any] = {"dump": "d1", "mode": "repair", "ts_ms": LOW_MS}
    chunks = (
        chunk_marker(one.topic, chunk_id="1", low=low, read=2, begins=True, upto="[2]", **facts),
        chunk_marker(one.topic, chunk_id="2", low=next_low, read=1, after="[2]", final=True, **facts),
    )
    first, last = (Record(topic=MARKERS, key=None, value=in_avro(registry, made)) for made in chunks)
    sink.batch(
        *(one.dumped({"id": key, "v": "large", "n": 1}, low=0x300) for key in (1, 2)),
        first,
        # Inside the window of a chunk that was then read again.
        *one.updated({**unsent, "n": 3}, commit=0x380),
    )
    sink.batch(
        one.dumped({"id": 3, "v": "large", "n": 3}, low=0x400),
        last,
        *one.updated({**unsent, "n": 4}, commit=0x480),
    )
    sink.killed()
    sink.pipeline.arrivals.look({one.topic: {0: 1000}})
    sink.drain()

    database, name = one.topic.split(".")[1:]
    assert outcomes(sink) == [(f"{database}.{name}", "removed", 1, "")]
    found = sink.spark.read.format("delta").load(f"{sink.base}/{database}/{name}").orderBy("id").select("id", "v", "n").collect()
    assert [tuple(row) for row in found] == [(1, "large", 1), (2, "large", 1), (3, "large", 4)]
    assert len(sink.quarantined()) == 2


@pytest.mark.long
def test_nothing_is_removed_unless_every_record_of_the_dump_is_in_the_table(counting: Sink, registry: RegistryServer) -> None:
    sink = counting
    tables = {name: table(registry, name) for name in ("parked", "bad", "short", "late", "middle", "lost", "fine")}
    sink.batch(*(record for one in tables.values() for record in logged(one, 1, 2, 3)))
    sink.book.park("p.shop.parked", "asked for")
    records = {name: repaired(one, 1, 2) for name, one in tables.items()}
    records["bad"].append(replace(logged(tables["bad"], 3, at=300, op="u")[0], key=b"junk!"))
    late = records["short"].pop(2)
    records["late"].reverse()  # markers in front of rows
    records["middle"] = records["middle"][2:]
    sink.batch(*(record for one in records.values() for record in one))
    sink.pipeline.arrivals.lose(["p.shop.lost"])
    sink.killed()

    looked(sink, *tables.values())

    assert {name: keys(sink, one) for name, one in tables.items()} == {
        name: [1, 2] if name in ("late", "fine") else [1, 2, 3] for name in tables
    }
    found = {name: (result, rows, why) for name, result, rows, why in outcomes(sink)}
    assert found == {
        "shop.parked": ("waits", 0, "the table is parked: asked for"),
        "shop.bad": ("kept", 0, "1 records of its topic that came since it began are in quarantine"),
        "shop.short": ("kept", 0, "1 rows of one of its chunks did not arrive"),
        "shop.middle": ("kept", 0, "its first chunk was not met"),
        "shop.lost": ("kept", 0, "records of the topic were lost while it ran, or right before"),
        "shop.late": ("removed", 1, ""),
        "shop.fine": ("removed", 1, ""),
    }

    # What comes after all makes a dump whole; and a dump that is asked for again does.
    sink.book.unpark("p.shop.parked")
    sink.killed()
    sink.batch(late, *repaired(tables["middle"], 1, 2, low=400, dump="d2"))
    looked(sink, *tables.values())

    assert {name: keys(sink, tables[name]) for name in ("parked", "short", "middle")} == {
        "parked": [1, 2],
        "short": [1, 2],
        "middle": [1, 2],
    }
    assert len(outcomes(sink)) == 10
