"""Snapshots of all tables at the end of one transaction: published together, never with a part of a transaction, and readable as long as they are kept."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from dblog.dialects.postgres.pgoutput.position import sequence_of
from dblog_sink import cli
from dblog_sink.config import job_options
from dblog_sink.delta.session import another
from dblog_sink.errors import ConfigError, DefiniteError
from dblog_sink.job.runner import files_keep_h
from dblog_sink.job.vacuum import Vacuum
from dblog_sink.observe.progress import Progress
from dblog_sink.query import answer
from dblog_sink.snapshots.manifest import Entry, Manifest, PublishedSnapshot, as_of, lines_of, snapshots
from dblog_sink.state.control_table import ControlTable
from dblog_sink.state.crash_points import nothing
from dblog_sink.state.snapshot import Frontier, Snapshot
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from sink.config.test_job_options import LEAST
from sink.harness import Record, Sink, change
from sink.job import Job
from sink.transfers import BEGAN, SOURCE, SUM, Source, State, arrived, gtid
from stack import Kafka
from support.chunk_markers import chunk_marker, in_avro
from support.envelopes import TableSchema
from support.json_lines import json_lines
from support.registry_server import RegistryServer

STEPS = ("landed", "snapshot_chosen", "altered", "appended", "rewritten", "versioned", "published", "merged_recorded")


class Kill(DefiniteError):  # noqa: N818  the process is gone: not an error that anything may try again
    """The process ended here."""


def state_path(sink: Sink) -> str:
    return str(sink.folder / "lake" / "_dblog")


def a_day_later(sink: Sink) -> None:
    """A day passes by the publisher's clock."""
    sink.now_s = lambda: time.time() + 25 * 3600.0


def published(sink: Sink) -> list[PublishedSnapshot]:
    return snapshots(sink.spark, state_path(sink))


def content(at: PublishedSnapshot) -> State:
    """What a snapshot's frames hold."""
    left, right, transfers = (at.frame(f"bank.{name}") if f"bank.{name}" in at.tables else None for name in ("left", "right", "transfers"))
    return State(
        {} if left is None else {row["id"]: row["v"] for row in left.collect()},
        {} if right is None else {row["id"]: row["v"] for row in right.where("_dblog_current").collect()},
        () if transfers is None else tuple(row["n"] for row in transfers.orderBy("n").collect()),
        at.position,
    )


def later() -> datetime:
    """By Kafka's clock, after everything that the test does."""
    return datetime.now(UTC) + timedelta(hours=1)


def killing(steps: set[str], hits: list[str]) -> Callable[[str], None]:
    def reached(step: str) -> None:
        if step in steps:
            steps.discard(step)
            hits.append(step)
            raise Kill(step)

    return reached


def lines(sink: Sink, kind: str) -> list[dict]:
    return [line for line in json_lines(sink.folder / "progress.jsonl") if line["kind"] == kind]


@pytest.mark.parametrize(
    ("seed", "moves", "batches", "steps"),
    [
        pytest.param(2, 3, 1, ("published",), id="few", marks=pytest.mark.long),
        pytest.param(2, 16, 4, STEPS, marks=pytest.mark.long, id="many"),
    ],
)
def test_every_snapshot_holds_whole_transactions_however_their_records_arrive_and_wherever_the_job_is_killed(
    sink: Sink, registry: RegistryServer, seed: int, moves: int, batches: int, steps: tuple[str, ...]
) -> None:
    dice = random.Random(seed)
    source = Source(registry)
    source.opened()
    for _ in range(moves):
        source.moved(dice)
    arrivals = arrived(source.records, dice, batches=batches, resent=2)
    left, hits, noted = set(steps), [], None
    sink.settings |= source.settings | {"control.interval.s": "0"}
    sink.reached = killing(left, hits)

    def surely(step: Callable[[], object]) -> object:
        """Again until nobody is killed; what was chosen before a kill is what is published after it."""
        nonlocal noted
        while True:
            try:
                return step()
            except Kill:
                chosen = sink.control.state.snapshot if hits[-1] != "landed" else None
                sink.killed()
                if chosen is not None:
                    assert noted is None or noted.number < chosen.number or noted == chosen, (
                        f"seed {seed}: another snapshot of the same number"
                    )
                    noted = chosen

    for number, batch in enumerate(arrivals):
        surely(partial(lambda number, batch: sink.writer(sink.frame(batch), number), number, batch))
        surely(partial(Sink.publish, sink))
    for _ in range(3):  # what the source sent again is recognised when it holds the snapshots back a second time
        surely(partial(Sink.publish, sink))

    found = published(sink)
    assert len(found) >= batches
    assert found[0].transaction == gtid(source.number), f"seed {seed}: the last transaction is in no snapshot"
    for at in found:
        assert all(entry.complete for entry in at.tables.values())
        if at.transaction is not None:
            state = content(at)
            assert state == source.states[at.transaction], f"seed {seed}, snapshot {at.number}"
            assert sum(state.left.values()) + sum(state.right.values()) == SUM
    assert {at.number for at in found} == set(range(len(found)))
    assert left == set(), "steps that were not reached"
    assert all(waits == [] for topic, waits in sink.book.waiting().items()), "everything is merged"
    assert sink.quarantined() == []


@pytest.mark.long
def test_what_is_above_the_snapshot_is_seen_by_the_view_and_not_by_the_snapshot(sink: Sink, registry: RegistryServer) -> None:
    source = Source(registry)
    source.opened()
    source.moved(random.Random(3))
    held = [record for record in source.records if record.topic == source.right.topic][-1:]
    sink.settings |= source.settings

    sink.land(*(record for record in source.records if record not in held))
    assert sink.publish()

    assert content(published(sink)[0]) == source.states[gtid(1)]
    assert {row["id"]: row["v"] for row in sink.fresh(source.left)} == source.states[gtid(2)].left
    assert not sink.publish(), "nothing is complete that was not before"
    sink.land(*held)
    assert sink.publish()
    newest = as_of(sink.spark, state_path(sink))
    assert content(newest) == source.states[gtid(2)]
    assert newest.register(prefix="then_") == [
        "then_bank_left",
        "then_bank_right",
        *(["then_bank_transfers"] if "bank.transfers" in newest.tables else []),
    ]
    assert sink.spark.table("then_bank_left").count() == len(source.states[gtid(2)].left)


@pytest.mark.long
def test_rows_of_a_dump_make_a_table_complete_in_snapshots_behind_them(sink: Sink, registry: RegistryServer) -> None:
    source = Source(registry)
    source.opened()
    source.dumped(source.left, {90: 1, 91: 2}, at=500)  # before the first transaction, sent after it: they may show what came later
    source.moved(random.Random(1))
    sink.settings |= source.settings
    first = [n for n, record in enumerate(source.records) if record.topic == source.transactions.topic][2]

    sink.land(*source.records[:first])
    assert sink.publish()
    newest = as_of(sink.spark, state_path(sink))
    assert not newest.tables["bank.left"].complete
    assert newest.tables["bank.right"].complete
    with pytest.raises(DefiniteError, match="bank.left is not complete in snapshot 0: rows of a dump"):
        newest.frame("bank.left")
    assert newest.frame("bank.left", incomplete=True).count() == 6

    sink.land(*source.records[first:])
    assert sink.publish()
    newest = as_of(sink.spark, state_path(sink))
    assert newest.tables["bank.left"].complete
    assert newest.frame("bank.left").count() == 2 + len(source.states[gtid(2)].left)


@pytest.mark.long
def test_a_table_is_complete_behind_the_end_of_its_first_dump(sink: Sink, registry: RegistryServer) -> None:
    source = Source(registry)
    source.opened()
    sink.settings |= source.settings

    def marker(chunk_id: str, at: int, *, final: bool = False) -> Record:
        made = chunk_marker(source.left.topic, chunk_id=chunk_id, low=(1, at << 23), read=1, final=final)
        return Record(topic=f"__dblog-chunks.{source.prefix}", key=None, value=in_avro(registry, made))

    def next_snapshot(*others: Record) -> Entry:
        begin = len(source.records)
        source.moved(random.Random(begin))
        sink.land(*others, *(replace(record, at=later()) for record in source.records[begin:]))
        assert sink.publish()
        return as_of(sink.spark, state_path(sink)).tables["bank.left"]

    source.dumped(source.left, {90: 1}, at=500)
    sink.land(*source.records, marker("a", 500))
    assert next_snapshot().reason == "its first dump has not ended"
    begin = len(source.records)
    source.dumped(source.left, {91: 2}, at=2500)
    assert next_snapshot(marker("b", 2500, final=True)).reason == "rows of its first dump are still to come"
    assert next_snapshot(*source.records[begin : begin + 1]).complete
    sink.restarted()
    assert next_snapshot(marker("a", 4500)).complete, "a second dump repeats what is there"


@pytest.mark.long
def test_a_source_that_rests_gets_a_snapshot_behind_its_dump_once_all_that_kafka_has_is_read(sink: Sink, registry: RegistryServer) -> None:
    source = Source(registry)
    source.dumped(source.left, {1: 5, 2: 6}, at=700)
    sink.settings |= source.settings
    read = {source.left.topic: {0: 1}}
    sink.kafka = lambda _: ({source.left.topic: {0: 0}}, {source.left.topic: {0: 2}}, read)
    sink.land(*source.records)

    assert not sink.publish()
    assert not sink.publish(), "Kafka has more than was read"
    read[source.left.topic][0] = 2
    assert sink.publish()

    newest = as_of(sink.spark, state_path(sink), position=(1, 700 << 23))
    assert newest.frame("bank.left", incomplete=True).count() == 2
    assert not newest.tables["bank.left"].complete


@pytest.mark.long
def test_a_transaction_that_stays_incomplete_is_reported_and_only_a_person_lets_it_pass(sink: Sink, registry: RegistryServer) -> None:
    source = Source(registry)
    source.opened()
    source.moved(random.Random(1))
    source.moved(random.Random(2))
    lost = next(record for record in source.records if record.topic == source.right.topic and record.at > source.records[10].at)
    sink.settings |= source.settings | {"manifest.incomplete.max.s": "0"}

    sink.land(*(record for record in source.records if record is not lost))
    assert sink.publish()
    assert not sink.publish()
    assert not sink.publish()
    reported = lines(sink, "incomplete")[-1]
    assert (reported["transaction"], reported["missing"], reported["ended"]) == (gtid(2), {"bank.right": 1}, True)
    assert published(sink)[0].transaction == gtid(1)

    sink.restarted().settings["manifest.pass"] = gtid(2)
    assert sink.publish()
    newest = as_of(sink.spark, state_path(sink))
    assert newest.transaction == gtid(3)
    assert newest.tables["bank.right"].reason == "manifest.pass names the transaction"
    snapshot = sink.control.state.snapshot
    assert snapshot is not None
    noted = sink.control.state.missing[source.right.topic]
    assert (noted.position, noted.kafka_ms) == (snapshot.frontier.position, snapshot.ended_ms)
    assert {row["id"]: row["v"] for row in newest.frame("bank.left").collect()} == source.states[gtid(3)].left


@pytest.mark.long
def test_a_transaction_of_postgresql_that_is_not_complete_is_not_in_a_snapshot_although_it_wrote_before_others(
    sink: Sink, registry: RegistryServer
) -> None:
    source = Source(registry)
    table = TableSchema(topic="p.bank.left", columns=[("id", "int"), ("v", "int")], connector="postgresql", registry=registry)
    sink.settings |= source.settings
    early = change(table, "c", {"id": 1, "v": 1}, at=104, transaction=("571:104", 1, 1))
    late = change(table, "c", {"id": 2, "v": 2}, at=152, transaction=("572:152", 1, 1))
    ends = [replace(source.end(f"{name}:{lsn}", {"bank.left": 1}), at=BEGAN) for name, lsn in (("572", 160), ("571", 170))]

    sink.land(source.begin("572:140"), late, ends[0], early, source.begin("571:165"))
    assert sink.publish()
    newest = as_of(sink.spark, state_path(sink), lsn="0/98")
    assert (newest.transaction, newest.lsn) == ("572", 152)
    assert [row["id"] for row in newest.frame("bank.left").collect()] == [2]
    assert sink.control.state.snapshot.frontier.open == ("571",)

    sink.restarted().land(ends[1])
    assert sink.publish()
    assert sorted(row["id"] for row in as_of(sink.spark, state_path(sink)).frame("bank.left").collect()) == [1, 2]
    assert not any(sink.book.waiting().values())


def test_of_dblog_s_records_of_postgresql_a_snapshot_is_what_was_committed_up_to_its_lsn(sink: Sink, registry: RegistryServer) -> None:
    source = Source(registry)
    left, right = (
        TableSchema(topic=f"p.bank.{name}", columns=[("id", "int"), ("v", "int")], connector="postgresql", registry=registry)
        for name in ("left", "right")
    )
    sink.settings |= source.settings

    def change_of(table: TableSchema, key: int, *, xid: int, lsn: int, commit: int, number: int) -> Record:
        row = {"id": key, "v": xid}
        value = table.value_bytes(
            "c", after=row, lsn=lsn, sequence=sequence_of(epoch=9, lsn=commit, number=number), transaction=(f"{xid}:{commit}", number, 1)
        )
        return Record(topic=table.topic, key=table.key_bytes({"id": key}), value=value)

    def dumped(key: int, low: int) -> Record:
        value = left.value_bytes("r", after={"id": key, "v": 0}, sequence=sequence_of(epoch=9, lsn=low))
        return Record(topic=left.topic, key=left.key_bytes({"id": key}), value=value)

    # 571 wrote first and was committed last.
    of_571 = [change_of(table, 1, xid=571, lsn=0x100, commit=0x1_0000_0170, number=n) for n, table in enumerate((left, right), 1)]
    of_572 = [change_of(table, 2, xid=572, lsn=0x150, commit=0x1_0000_0160, number=n) for n, table in enumerate((left, right), 1)]
    counts = {"bank.left": 1, "bank.right": 1}

    sink.land(source.begin("572:4294967648"), *of_572, replace(source.end("572:4294967648", counts), at=BEGAN), dumped(3, 0x1_0000_0160))
    sink.land(source.begin("571:4294967664"), *of_571, dumped(4, 0x1_0000_0168))
    assert sink.publish()
    first = as_of(sink.spark, state_path(sink), lsn="1/168")
    assert (first.transaction, first.lsn) == ("572", 0x1_0000_0160)
    assert "lsn 1/160" in lines_of(first, tables=False)[0]
    # A row of a dump may show what came behind the snapshot, so the table is not complete in it.
    assert sorted(row["id"] for row in first.frame("bank.left", incomplete=True).collect()) == [2, 3]
    assert sink.control.state.snapshot.frontier.open == ()

    sink.restarted().land(replace(source.end("571:4294967664", counts), at=later()))
    assert sink.publish()
    newest = as_of(sink.spark, state_path(sink))
    assert (newest.transaction, newest.lsn) == ("571", 0x1_0000_0170)
    assert [sorted(row["id"] for row in newest.frame(f"bank.{name}").collect()) for name in ("left", "right")] == [[1, 2, 3, 4], [1, 2]]


@pytest.mark.long
def test_a_manifest_ends_where_debezium_goes_on_behind_dblog(sink: Sink, registry: RegistryServer) -> None:
    source = Source(registry)
    table = TableSchema(topic="p.bank.left", columns=[("id", "int"), ("v", "int")], connector="postgresql", registry=registry)
    sink.settings |= source.settings
    numbers = (sequence_of(epoch=9, lsn=0x160, number=1), (0x160, 0x200))
    for (sequence, lsn), xid in zip(zip(numbers, (0x150, 0x200), strict=True), (571, 572), strict=True):
        value = table.value_bytes("c", after={"id": xid, "v": 1}, lsn=lsn, sequence=sequence, transaction=(f"{xid}:1", 1, 1))
        row = Record(topic=table.topic, key=table.key_bytes({"id": xid}), value=value)
        sink.land(source.begin(f"{xid}:1"), row, replace(source.end(f"{xid}:1", {"bank.left": 1}), at=BEGAN))
    with pytest.raises(DefiniteError, match="records of Debezium's connector follow those of dblog's.*a manifest is of one log"):
        sink.publish()


@pytest.mark.long
def test_a_sink_that_comes_late_waits_only_until_it_has_read_what_there_is(sink: Sink, registry: RegistryServer) -> None:
    source = Source(registry)
    source.opened()
    for seed in (1, 2, 3):
        source.moved(random.Random(seed))
    # Kafka has lost the first BEGIN, and what came before transaction 3 in one topic.
    own = [record for record in source.records if record.topic == source.transactions.topic][1:]
    others = [record for record in source.records if record.topic not in (source.transactions.topic, source.left.topic)]
    lefts = [replace(record, offset=50 + n) for n, record in enumerate(r for r in source.records if r.topic == source.left.topic) if n > 4]
    topics = (source.left.topic, source.right.topic, source.transfers.topic)
    offsets = {topic: {0: 90} for topic in topics}
    sink.settings |= source.settings
    sink.kafka = lambda _: (offsets, offsets, offsets)
    sink.land(*own, *others, *lefts)

    assert not sink.publish(), "the brokers are asked first how far the topic goes"
    assert not sink.publish(), "what was asked is known from now on"
    assert sink.publish()

    newest = as_of(sink.spark, state_path(sink))
    assert newest.transaction == gtid(source.number)
    assert not newest.tables["bank.left"].complete
    assert {row["id"]: row["v"] for row in newest.frame("bank.right").where("_dblog_current").collect()} == source.states[
        gtid(source.number)
    ].right


@pytest.mark.long
def test_a_parked_table_stays_at_its_last_snapshot_and_catches_up_when_it_is_resumed(sink: Sink, registry: RegistryServer) -> None:
    source = Source(registry)
    source.opened()
    sink.settings |= source.settings
    sink.land(*source.records)
    assert sink.publish()
    sink.book.park("p.bank.left", "under repair")
    begin = len(source.records)
    source.moved(random.Random(1))

    sink.land(*source.records[begin:])
    assert sink.publish()
    newest = as_of(sink.spark, state_path(sink))
    assert newest.tables["bank.left"].reason == "parked: under repair"
    assert {row["v"] for row in newest.frame("bank.left", incomplete=True).collect()} == {100}

    sink.restarted()
    sink.writer  # noqa: B018
    sink.book.unpark("p.bank.left")
    begin = len(source.records)
    assert sink.publish(), "it catches up though the source rests"
    newest = as_of(sink.spark, state_path(sink))
    assert newest.transaction == gtid(2)
    assert {row["id"]: row["v"] for row in newest.frame("bank.left", incomplete=True).collect()} == source.states[gtid(2)].left
    assert "resume" in (newest.tables["bank.left"].reason or "")
    source.moved(random.Random(2))
    sink.land(*(replace(record, at=later()) for record in source.records[begin:]))
    assert sink.publish()
    assert content(as_of(sink.spark, state_path(sink))) == source.states[gtid(3)]


@pytest.mark.long
def test_tables_that_were_merged_before_there_was_a_manifest_are_complete_behind_that(sink: Sink, registry: RegistryServer) -> None:
    source = Source(registry)
    source.opened()
    opened = len(source.records)
    source.moved(random.Random(1))
    half = len(source.records) - 2
    sink.settings |= {"table.right.match": r"bank\.right", "table.right.mode": "history", "topics.exclude": r"p\.elsewhere\..*"}
    sink.batch(*source.records[:opened])
    sink.restarted().settings |= source.settings
    topics = ("p.bank.left", "p.bank.right", "p.bank.transfers")
    first, end = ({topic: {0: offset} for topic in topics} for offset in (0, 3))
    sink.kafka = lambda _: (first, end, end)

    sink.land(
        *source.records[opened:half]
    )  # a batch that may have been tried before the restart goes on as it was begun: the BEGIN is not kept
    sink.land(*source.records[half:])
    assert any(sink.publish() for _ in range(3)), "the brokers are asked how far the topics go, and then the snapshot is made"
    assert not as_of(sink.spark, state_path(sink)).tables["bank.left"].complete
    begin = len(source.records)
    source.moved(random.Random(2))
    sink.land(*(replace(record, at=later()) for record in source.records[begin:]))
    assert sink.publish()
    assert content(as_of(sink.spark, state_path(sink))) == source.states[gtid(3)]


@pytest.mark.long
def test_vacuum_takes_no_file_that_a_snapshot_needs_and_snapshots_go_before_their_files(
    sink: Sink, registry: RegistryServer, tmp_path: Path
) -> None:
    source = Source(registry)
    sink.settings |= source.settings | {"vacuum.keep.h": "0", "manifest.keep.h": "5000"}
    for _ in range(3):
        begin = len(source.records)
        source.moved(random.Random(1)) if begin else source.opened()
        sink.land(*source.records[begin:])
        assert sink.publish()
    path = str(sink.folder / "lake" / "bank" / "left")
    properties = DeltaTable.forPath(sink.spark, path).detail().select("properties").first()[0]
    assert properties["delta.deletedFileRetentionDuration"] == "interval 5049 hours"
    assert properties["delta.logRetentionDuration"] == "interval 5073 hours"
    now_s = [0.0]

    def vacuum(settings: job_options.Settings, keep_h: Callable[[str], float] | None) -> Vacuum:
        manifest = Manifest(another(sink.spark), settings.state_path, keep_h=settings["manifest.keep.h"])
        session = another(sink.spark)
        session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        return Vacuum(
            session,
            paths=lambda: {"bank.left": path},
            compact=lambda _topic: None,
            control=control,
            progress=Progress(None),
            interval_h=1.0,
            keep_h=keep_h or partial(files_keep_h, sink.spark, settings, manifest),
            share_max=1.0,
            expire=manifest.expire,
            now_s=lambda: now_s[0],
            look_every_s=0.0,
        )

    def look(keep_h: Callable[[str], float] | None = None) -> None:
        now_s[0] += 3600.0
        vacuum(job_options.parse(sink.given), keep_h).look()

    control = ControlTable(another(sink.spark), str(tmp_path / "control"), interval_s=0.0, now_s=lambda: 0.0, reached=nothing)
    look()
    look()
    assert [content(at) for at in published(sink)] == [source.states[gtid(n)] for n in (3, 2, 1)]

    # A snapshot's hours are over: it goes, all but the newest one, and then the files that only it needed.
    sink.settings["manifest.keep.h"] = "0"
    look(lambda _path: 0.0)
    left = published(sink)
    assert [at.transaction for at in left] == [gtid(3)]
    assert content(left[0]) == source.states[gtid(3)]
    assert len(list(Path(path).glob("*.parquet"))) == 1


def rested(sink: Sink, *tables: TableSchema, days: float = 9.0) -> None:
    """The tables' commits are so old, all of them; the process has ended meanwhile."""
    sink.restarted()
    for table in tables:
        for file in Path(sink.path(table), "_delta_log").iterdir():
            then = file.stat().st_mtime - days * 86_400
            os.utime(file, (then, then))
    sink.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


@pytest.mark.long
def test_a_table_that_rested_for_long_is_read_in_every_snapshot_that_is_kept_once_it_changes(sink: Sink, registry: RegistryServer) -> None:
    """Delta refuses a version that was committed before the files' time, and is not the newest: however young the snapshot is that names it."""
    source = Source(registry)
    source.opened()
    sink.settings |= source.settings
    sink.land(*source.records)
    assert sink.publish()
    rested(sink, source.left, source.right)
    shorter = "'delta.deletedFileRetentionDuration' = 'interval 1 hours'"
    sink.spark.sql(f"ALTER TABLE delta.`{sink.path(source.left)}` SET TBLPROPERTIES ({shorter})")  # by its owner
    rested(sink, source.left, days=0.5)
    begin = len(source.records)
    source.moved(random.Random(1))
    sink.reached = killing({"rewritten"}, [])
    sink.land(*source.records[begin:])
    with pytest.raises(Kill):
        sink.publish()

    opened = source.states[gtid(1)].left
    assert {row["id"]: row["v"] for row in as_of(sink.spark, state_path(sink)).frame("bank.left").collect()} == opened, (
        "until the next snapshot"
    )
    sink.killed().reached = nothing
    assert sink.publish()
    assert [{row["id"]: row["v"] for row in at.frame("bank.left").collect()} for at in published(sink)] == [
        source.states[gtid(2)].left,
        opened,
    ]


@pytest.mark.long
def test_a_snapshot_is_read_after_a_long_stop_when_the_tables_get_the_retention_of_their_logs(sink: Sink, registry: RegistryServer) -> None:
    """That takes a commit, which replaces the version that the snapshot names."""
    source = Source(registry)
    source.opened()
    sink.settings |= source.settings
    sink.land(*source.records)
    assert sink.publish()
    names = "'delta.enableExpiredLogCleanup', 'dblog.log.cleaned', 'dblog.log.kept.h'"
    for table in (source.left, source.right):  # as by an earlier version
        sink.spark.sql(f"ALTER TABLE delta.`{sink.path(table)}` UNSET TBLPROPERTIES IF EXISTS ({names})")
    for days in (0.0, 60.0):
        if days:
            rested(sink, source.left, source.right, days=days)
        begin = len(source.records)
        source.moved(random.Random(1))
        sink.land(*source.records[begin:])
        assert sink.publish()

    properties = DeltaTable.forPath(sink.spark, sink.path(source.left)).detail().select("properties").first()[0]
    assert properties["delta.enableExpiredLogCleanup"] == "false"
    assert [content(at) for at in published(sink)][:2] == [source.states[gtid(n)] for n in (3, 2)]


@pytest.mark.long
def test_a_table_that_somebody_restored_while_the_job_was_away_is_not_complete_in_a_snapshot(sink: Sink, registry: RegistryServer) -> None:
    source = Source(registry)
    source.opened()
    sink.settings |= source.settings
    sink.land(*source.records)
    assert sink.publish()
    sink.restarted()
    # To the version in which it was made, without any row.
    sink.spark.sql(f"RESTORE TABLE delta.`{sink.path(source.left)}` TO VERSION AS OF 0")
    assert not sink.publish(), "nothing is new"
    a_day_later(sink)

    assert sink.publish()

    entries = published(sink)[0].tables
    assert (entries["bank.left"].complete, entries["bank.right"].complete) == (False, True)
    assert "restored" in (entries["bank.left"].reason or "")


@pytest.mark.long
def test_what_a_table_that_rests_is_committed_to_is_looked_at(sink: Sink, registry: RegistryServer) -> None:
    """Else its log would begin, one day, behind the version that was looked at last, and nobody would know what was lost."""
    source = Source(registry)
    source.opened()
    sink.settings |= source.settings
    sink.land(*source.records)
    assert sink.publish()
    control = sink.control
    before = {topic: control.state.history_checked[topic][1] for topic in (source.left.topic, source.right.topic)}
    a_day_later(sink)
    assert sink.publish()

    assert all(control.state.history_checked[topic][1] > version for topic, version in before.items())


@pytest.mark.long
def test_a_snapshot_is_published_again_before_its_versions_are_too_old_where_the_source_rests(sink: Sink, registry: RegistryServer) -> None:
    source = Source(registry)
    source.opened()
    sink.settings |= source.settings
    sink.land(*source.records)
    assert sink.publish()
    assert not sink.publish()
    a_day_later(sink)

    assert sink.publish()
    assert not sink.publish()

    newest, before = published(sink)
    assert (newest.transaction, newest.position) == (before.transaction, before.position) == (gtid(1), before.position)
    assert all(entry.version > before.tables[name].version for name, entry in newest.tables.items())
    assert content(newest) == content(before) == source.states[gtid(1)]


@pytest.mark.long
def test_a_parked_table_is_read_in_the_snapshots_that_name_its_old_version(sink: Sink, registry: RegistryServer) -> None:
    source = Source(registry)
    source.opened()
    sink.settings |= source.settings | {"vacuum.keep.h": "0", "manifest.keep.h": "1"}
    sink.land(*source.records)
    assert sink.publish()
    sink.book.park(source.left.topic, "under repair")
    DeltaTable.forPath(sink.spark, sink.path(source.left)).delete("id = 1")  # as a part of the next snapshot may be there
    rested(sink, source.left)
    begin = len(source.records)
    source.moved(random.Random(1))

    sink.land(*source.records[begin:])
    assert sink.publish()

    newest = as_of(sink.spark, state_path(sink))
    assert newest.tables["bank.left"].reason == "parked: under repair"
    assert newest.frame("bank.left", incomplete=True).count() == 4
    settings = job_options.parse(sink.given)
    manifest = Manifest(another(sink.spark), settings.state_path, keep_h=1.0)
    assert files_keep_h(sink.spark, settings, manifest, sink.path(source.left)) > 9 * 24, "its files went when the row was deleted"
    assert files_keep_h(sink.spark, settings, manifest, sink.path(source.right)) < 24


def test_a_snapshot_that_cannot_be_read_any_more_states_why(spark: SparkSession, tmp_path: Path) -> None:
    manifest = Manifest(spark, str(tmp_path / "state"), keep_h=1.0)
    path = tmp_path / "t"
    for n in range(2):
        spark.range(n, n + 1).write.format("delta").mode("append").save(str(path))
    tables = {
        name: Entry(path=str(where), version=0, mode="mirror", complete=True) for name, where in (("s.t", path), ("s.u", tmp_path / "u"))
    }
    manifest.publish(Snapshot(number=0, frontier=Frontier(position=(1, 1))), tables=tables, note="{}", txn=("t", 0))
    at = as_of(spark, str(tmp_path / "state"))
    assert at.frame("s.t").count() == 1

    for file in (path / "_delta_log").iterdir():
        os.utime(file, (0, 0))
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    with pytest.raises(
        DefiniteError, match=r"s\.t cannot be read as of snapshot 0 any more: version 0 of .*/t was committed longer ago than"
    ):
        at.frame("s.t")
    with pytest.raises(DefiniteError, match=r"s\.u cannot .*: its table .*/u was moved away or dropped; take a later snapshot"):
        at.frame("s.u")


def test_a_point_of_the_source_leads_to_the_newest_snapshot_at_or_before_it(spark: SparkSession, tmp_path: Path) -> None:
    manifest = Manifest(spark, str(tmp_path), keep_h=1.0)
    other = "aaaaaaaa-71ca-11e1-9e33-c80aa9429562"
    rows = [
        (f"{SOURCE}:9", "binlog.000009", 100, None),
        (f"{SOURCE}:10", "binlog.000010", 50, None),
        (f"{other}:7", "binlog.000010", 90, None),
    ]
    rows += [("0-1-5", "maria-bin.000001", 7, None), ("1-1-2", "maria-bin.000001", 8, None), ("571", None, None, 0x16_B374_D848 - 1)]
    for number, (transaction, file, pos, lsn) in enumerate(rows):
        manifest.publish(
            Snapshot(
                number=number,
                frontier=Frontier(position=(1, 10 * number)),
                transaction=transaction,
                file=file,
                pos=pos,
                lsn=lsn,
                ts_ms=1_700_000_000_000 + 1000 * number,
            ),
            tables={"s.t": Entry(path="/p", version=number, mode="mirror", complete=True)},
            note="{}",
            txn=("t", number),
        )
    manifest.publish(
        Snapshot(number=9, frontier=Frontier(position=(9, 9))), tables={}, note="{}", txn=("t", 2)
    )  # done before: nothing happens

    def at(**point: object) -> int:
        return as_of(spark, str(tmp_path), **point).number

    assert at() == 5
    assert [at(gtid=f"{SOURCE}:{n}") for n in (9, 10, 11, 100)] == [0, 1, 1, 1]
    assert at(gtid=f"{other.upper()}:7") == 2
    assert [at(gtid=one) for one in ("0-1-5", "0-2-8", "1-1-2")] == [3, 3, 4]
    assert [at(position=one) for one in ((1, 10), (1, 19), "1,25", "binlog.000010:89", "binlog.000010:90", "binlog.000009:100")] == [
        1,
        1,
        2,
        1,
        2,
        0,
    ]
    assert at(lsn="16/B374D848") == at(lsn=0x16_B374_D847) == 5
    assert at(time=datetime(2023, 11, 14, 22, 13, 22, 500_000, tzinfo=UTC)) == 2
    for point, reported in (
        ({"gtid": f"{SOURCE}:8"}, "no snapshot at or before gtid"),
        ({"gtid": "x"}, "is not a GTID"),
        ({"position": "x"}, "x is not a position"),
        ({"lsn": "x"}, "is not an LSN"),
    ):
        with pytest.raises(DefiniteError, match=reported):
            at(**point)
    shown = "\n".join(lines_of(as_of(spark, str(tmp_path)), tables=True))
    assert "s.t version 5 of /p (mirror)" in shown
    assert "lsn 16/B374D847" in shown
    with pytest.raises(DefiniteError, match="there is no manifest at"):
        as_of(spark, str(tmp_path / "elsewhere"))


@pytest.mark.long
def test_a_running_job_publishes_a_dump_while_the_source_rests_and_then_its_transactions(
    spark: SparkSession, kafka: Kafka, registry: RegistryServer, tmp_path: Path
) -> None:
    job = Job(spark, kafka, registry, tmp_path)
    source = Source(registry, prefix=job.prefix)
    job.create(source.left, source.right, source.transfers, source.transactions)
    job.settings |= source.settings
    lake = str(tmp_path / "lake" / "_dblog")
    source.dumped(source.left, {80: 8, 81: 9}, at=500)
    job.send(*source.records)

    def newest() -> PublishedSnapshot | None:
        return next(iter(snapshots(spark, lake, limit=1)), None) if DeltaTable.isDeltaTable(spark, f"{lake}/manifest") else None

    with job.running():
        job.wait("the dump", lambda: (at := newest()) is not None and at.frame("bank.left", incomplete=True).count() == 2)
        source.opened()
        for seed in range(6):
            source.moved(random.Random(seed))
        job.send(*source.records[2:])
        job.wait("the last transaction", lambda: (at := newest()) is not None and at.transaction == gtid(source.number))

    at = newest()
    assert at is not None
    found, expected = content(at), source.states[gtid(source.number)]
    assert found == replace(expected, left={**expected.left, 80: 8, 81: 9})
    assert at.source_ts == datetime.fromtimestamp(source.ts_ms / 1000, tz=UTC)
    assert job.status == 0


def test_a_question_about_snapshots_names_a_point_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    options = [part for key, value in LEAST.items() for part in ("--set", f"{key}={value}")]

    asked: list[dict] = []
    monkeypatch.setattr(answer, "show_snapshots", lambda _settings, **question: asked.append(question) or 0)

    for arguments in (["snapshots"], ["as-of", "--json"], ["as-of", "gtid=0-1-5"], ["as-of", "time=2026-01-31T12:00:00"]):
        assert cli.main([*arguments, *options]) == 0
    assert asked == [
        {"point": None, "as_json": False},
        {"point": {}, "as_json": True},
        {"point": {"gtid": "0-1-5"}, "as_json": False},
        {"point": {"time": datetime(2026, 1, 31, 12)}, "as_json": False},  # noqa: DTZ001
    ]
    for wrong in ("gtid", "id=4", "time=noon"):
        assert cli.main(["as-of", wrong, *options]) == 2


@pytest.mark.parametrize(
    ("options", "key", "reported"),
    [
        ({}, "topics.transaction", "is required by manifest.interval.s"),
        ({"topics.transaction": "p.transaction"}, "topics.transaction", "topics does not: add it there"),
        (
            {"topics.transaction": "p.transaction", "topics": "", "topics.pattern": r"q\..*"},
            "topics.transaction",
            "topics.pattern does not match",
        ),
        (
            {"topics.transaction": "p.transaction", "topics": "p.transaction,p.a.b", "topics.exclude": ".*transaction"},
            "topics.transaction",
            "topics.exclude leaves out",
        ),
        ({"topics.transaction": "p.transaction", "topics": "p.transaction,p.a.b", "position": "topic"}, "position", "must be source"),
    ],
)
def test_a_manifest_without_what_it_needs_is_refused(options: dict[str, str], key: str, reported: str) -> None:
    given = {name: value for name, value in (LEAST | {"manifest.interval.s": "10"} | options).items() if value}

    with pytest.raises(ConfigError) as caught:
        job_options.parse(given)

    assert reported in caught.value.errors[key]


@pytest.mark.parametrize("what", [*(pytest.param(what, marks=pytest.mark.long) for what in ("partitions", "names")), "kind"])
def test_topics_of_which_no_snapshot_can_be_made_are_refused_with_the_way_out(sink: Sink, registry: RegistryServer, what: str) -> None:
    source = Source(registry)
    source.opened()
    sink.settings |= source.settings
    records: list[Record] = source.records
    reported = "is no"
    if what == "partitions":
        records = [replace(records[0], partition=1), *records[1:]]
        reported = "topic p.transaction has several partitions"
    elif what == "names":
        sink.settings["topics.pattern"] = ".*"
        records = [*records, replace(next(one for one in records if one.topic == "p.bank.left"), topic="q.bank.left")]
        reported = "topic q.bank.left holds rows, and its name is not"
    else:
        records = [replace(one, topic="p.transaction") if one.topic == "p.bank.left" else one for one in records]
        reported = "holds records that are not about transactions"
    sink.land(*records)

    with pytest.raises(DefiniteError, match=reported):
        sink.publish()
    assert datetime.now(UTC) > BEGAN
