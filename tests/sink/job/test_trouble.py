"""The running job on a real broker meets lost records, tables that fail, commands, and a registry that is away."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from dblog_sink.config import job_options
from dblog_sink.delta.merge import Txn
from dblog_sink.state.files import LocalFolder
from dblog_sink.tables.apply import Applier
from dblog_sink.tables.profile import TopicStats
from pyspark.sql import DataFrame, SparkSession
from sink.harness import Record, change
from sink.job import LIMIT_S, Job
from stack import Kafka
from stack.process import wait_until
from support.chunk_markers import chunk_marker, in_avro
from support.envelopes import TableSchema
from support.registry_server import RegistryServer


@pytest.fixture
def job(spark: SparkSession, kafka: Kafka, registry: RegistryServer, tmp_path: Path) -> Job:
    return Job(spark, kafka, registry, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("repaired", [pytest.param(False, id="parked"), pytest.param(True, id="and repaired")])
def test_records_that_kafka_has_deleted_park_their_table_and_the_others_go_on(job: Job, *, repaired: bool) -> None:
    lost, remade, fine = job.table("lost"), job.table("remade"), job.table("fine")
    job.create(lost, remade, fine)
    job.send(*(change(table, "c", {"id": n, "v": "a"}, at=n) for table in (lost, remade, fine) for n in range(1, 6)))
    with job.running():
        job.wait("the first rows", lambda: all(len(job.rows(table)) == 5 for table in (lost, remade, fine)))
    job.send(*(change(lost, "c", {"id": n, "v": "b"}, at=n) for n in (6, 7, 8)))
    job.admin.delete_records([TopicPartition(lost.topic, 0, 7)])[TopicPartition(lost.topic, 0)].result(LIMIT_S)
    job.admin.delete_topics([remade.topic])[remade.topic].result(LIMIT_S)
    wait_until(lambda: remade.topic not in job.admin.list_topics(timeout=LIMIT_S).topics, timeout_s=LIMIT_S, what="the topic to go")
    job.create(remade)
    job.send(change(fine, "c", {"id": 6, "v": "b"}, at=6))

    with job.running(chunks__wait__s="0"):  # else a dump that begins within a minute of the loss is doubtful
        job.wait("the table that lost nothing", lambda: len(job.rows(fine)) == 6)
        reported = {line["topic"]: line["reason"] for line in job.lines("data_loss")}
        job.send(change(fine, "c", {"id": 7, "v": "c"}, at=7), change(lost, "u", {"id": 1, "v": "later"}, at=20))
        job.wait("the query past the gap", lambda: len(job.rows(fine)) == 7)
        assert len(job.rows(lost)) == 5  # parked: nothing half right is written

        left = [(lost, [1, 2, 3, 4, 6, 7, 8]), (remade, [1, 2, 3, 4])]
        for table, _ in left:
            name = table.topic.removeprefix(f"{job.prefix}.")
            assert f"dblog dumps start CONNECTOR {name} --mode repair)" in reported[table.topic]
            assert f"then resume it (dblog-sink resume {name})" in reported[table.topic]
        if repaired:
            # What a person does, as the message asks: a repair dump, then resume. Row 5 was deleted in the source meanwhile, and no record says so.
            repair(job, left)
            expected = [(table, [(n, "later" if (table, n) == (lost, 1) else "dumped") for n in keys]) for table, keys in left]
            job.wait("the tables to be the source's", lambda: all(job.rows(table) == rows for table, rows in expected))

    assert {(line["table"], line["rows"]) for line in job.lines("ghosts") if line["result"] == "removed"} == (
        {("shop.lost", 1), ("shop.remade", 1)} if repaired else set()
    )
    assert set(reported) == {lost.topic, remade.topic}
    assert "2 records from offset 5 on have expired, the first one there is 7" in reported[lost.topic]
    assert "offset 5 was to be read next, and the partition ends at 0: the topic was recreated" in reported[remade.topic]
    assert job.status == 0


def test_a_topic_that_was_made_again_and_has_grown_past_the_old_offset_is_reported_and_read_from_its_beginning(job: Job) -> None:
    remade = job.table("remade")
    job.create(remade)
    job.send(*(change(remade, "c", {"id": n, "v": "a"}, at=n) for n in range(1, 6)))
    with job.running():
        job.wait("the first rows", lambda: len(job.rows(remade)) == 5)
    job.admin.delete_topics([remade.topic])[remade.topic].result(LIMIT_S)
    wait_until(lambda: remade.topic not in job.admin.list_topics(timeout=LIMIT_S).topics, timeout_s=LIMIT_S, what="the topic to go")
    job.create(remade)
    job.send(*(change(remade, "r", {"id": n, "v": "dumped again"}, at=20) for n in range(1, 9)))

    with job.running():
        job.wait("the loss", lambda: len(job.lines("data_loss")) == 1)
        assert "the topic was recreated" in job.lines("data_loss")[0]["reason"]
        job.ask("resume", remade.topic)
        job.wait("all of the new topic", lambda: job.rows(remade) == [(n, "dumped again") for n in range(1, 9)])
    with job.running():
        job.send(change(remade, "c", {"id": 9, "v": "later"}, at=30))
        job.wait("what comes later", lambda: len(job.rows(remade)) == 9)
    assert len(job.lines("data_loss")) == 1


def repair(job: Job, tables: Sequence[tuple[TableSchema, Sequence[int]]]) -> None:
    """Send each table a repair dump of these keys, and resume it."""
    for table, keys in tables:
        name = table.topic.removeprefix(f"{job.prefix}.")
        job.send(*(change(table, "r", {"id": n, "v": "dumped"}, at=15, sequenced=True) for n in keys))
        facts = {"low": (1, 15 << 23), "mode": "repair", "dump": "d1", "ts_ms": round(time.time() * 1000)}
        made = chunk_marker(table.topic, chunk_id=name, read=len(keys), begins=True, final=True, **facts)
        job.send(Record(topic=f"__dblog-chunks.{job.prefix}", key=None, value=in_avro(job.registry, made)))
    job.wait("both dumps to be whole", lambda: len([line for line in job.lines("ghosts") if line["result"] == "waits"]) == len(tables))
    for table, _ in tables:
        job.ask("resume", table.topic.removeprefix(f"{job.prefix}."))


@pytest.mark.long
@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_records_that_are_lost_together_with_the_checkpoint_park_their_table_and_the_others_go_on(job: Job, start: str) -> None:
    """Nothing but the control table knows then how far the sink had read."""
    lost, fine = job.table("lost"), job.table("fine")
    job.create(lost, fine)
    job.send(*(change(table, "c", {"id": n, "v": "a"}, at=n) for table in (lost, fine) for n in range(1, 6)))
    with job.running():
        job.wait("the first rows", lambda: all(len(job.rows(table)) == 5 for table in (lost, fine)))
    checkpoint = Path(job_options.parse(job.settings).checkpoint_path)
    shutil.rmtree(checkpoint)
    job.send(*(change(lost, "c", {"id": n, "v": "b"}, at=n) for n in (6, 7, 8)))
    if start == "earliest":
        job.admin.delete_records([TopicPartition(lost.topic, 0, 7)])[TopicPartition(lost.topic, 0)].result(LIMIT_S)

    with job.running(topics__start=start):
        job.wait("the loss", lambda: len(job.lines("data_loss")) == 1)
        job.wait("where the query begins", (checkpoint / "sources" / "0" / "0").exists)
        job.send(change(lost, "u", {"id": 1, "v": "later"}, at=20))
        job.send(change(fine, "c", {"id": 6, "v": "b"}, at=6))
        job.wait("the table that lost nothing", lambda: len(job.rows(fine)) == 6)
        assert len(job.rows(lost)) == 5  # parked: nothing half right is written

    (reported,) = job.lines("data_loss")
    reason = (
        "2 records from offset 5 on have expired"
        if start == "earliest"
        else "3 records from offset 5 on are not read: there is no checkpoint"
    )
    assert reported["topic"] == lost.topic
    assert reason in reported["reason"]
    assert job.status == 0


def test_a_table_that_fails_is_parked_and_resumed_and_none_of_its_records_is_lost(job: Job) -> None:
    text, number, fine = job.table("odd", ("v", "string")), job.table("odd", ("v", "int")), job.table("fine")
    job.create(text, fine)
    job.settings |= {"table.all.match": ".*", "table.all.failure": "park"}
    job.send(change(text, "c", {"id": 1, "v": "a"}, at=1))
    LocalFolder(job.folder / "lake" / "_dblog" / "commands").replace("0.json", '{"verb":"dance"}')
    with job.running():
        job.wait("the first row", lambda: job.rows(text) == [(1, "a")])
        job.wait("the answer to an unknown command", lambda: job.lines("command") != [])
        LocalFolder(job.folder / "lake" / "_dblog" / "commands").replace("1.json", '{"verb":"park","table":"shop.old"}')
        job.wait("the answer about a table that does not exist", lambda: len(job.lines("command")) == 2)
        job.send(change(number, "c", {"id": 2, "v": 7}, at=2), change(fine, "c", {"id": 1, "v": "x"}, at=1))
        job.wait("the other table", lambda: job.rows(fine) == [(1, "x")])
        job.send(change(number, "u", {"id": 1, "v": 8}, at=3))
        job.send(change(fine, "c", {"id": 2, "v": "x"}, at=2))
        job.wait("the other table again", lambda: len(job.rows(fine)) == 2)
        assert job.rows(text) == [(1, "a")]

    with job.running(table__all__evolution="lenient"):
        job.ask("resume", "shop.odd")
        wide = job.table("odd", ("v", "string"), ("v__v2", "int"))
        job.wait(
            "the resumed table", lambda: "v__v2" in str(job.spark.read.format("delta").load(str(job.folder / "lake/shop/odd")).columns)
        )
        job.wait("its rows", lambda: job.rows(wide) == [(1, None, 8), (2, None, 7)])

    assert job.status == 0
    assert job.lines("command")[0]["failed"] == "unknown command; known: park, resume, replay, maintain"
    assert "no table shop.old; it has shop.odd" in job.lines("command")[1]["failed"]


@pytest.mark.long
def test_a_replay_takes_records_out_of_quarantine_and_keeps_those_that_are_still_bad(job: Job) -> None:
    first, second = job.table("t", ("v", "int")), job.table("t", ("v", "long"))
    job.create(first)
    job.settings |= {"table.t.match": ".*", "table.t.evolution": "ignore"}
    good = change(first, "c", {"id": 1, "v": 1}, at=1)
    job.send(good)
    with job.running():
        job.wait("the first row", lambda: job.rows(first) == [(1, 1)])
        job.send(change(second, "c", {"id": 2, "v": 2**40}, at=2), Record(topic=first.topic, key=good.key, value=b"junk"))
        job.send(change(second, "u", {"id": 1, "v": 2**41}, at=3), change(second, "u", {"id": 1, "v": 5}, at=4))
        job.wait("two records too large and one of junk", lambda: len(job.quarantined()) == 3)
        job.wait("the rest", lambda: job.rows(first) == [(1, 5)])

    with job.running(table__t__evolution="evolve"):
        job.ask("replay")
        # The value 2**41 of row 1 is older than what the row has by now.
        assert job.rows(first) == [(1, 5), (2, 2**40)]
        job.ask("replay", "shop.t")
        job.send(Record(topic=f"{job.prefix}.shop.never", key=good.key, value=b"junk"))
        job.wait("junk of a topic that has nothing else", lambda: len(job.quarantined()) == 2)
        job.ask("replay", "shop.never")
        job.ask("replay", "shop.absent", refused=True)

    assert {reason.split(";")[0] for reason in job.quarantined()} == {"the value is not framed by a schema id"}
    *done, absent = job.lines("command")
    assert [(line["records"], line["still_bad"]) for line in done] == [(3, 1), (1, 1), (1, 1)]
    assert "the sink has no table shop.absent; it has shop.never, shop.t" in absent["failed"]
    assert job.status == 0


@pytest.mark.long
def test_a_registry_that_stays_away_stops_the_job_cleanly_and_the_next_start_goes_on(job: Job) -> None:
    table = job.table("t")
    job.create(table)
    job.send(change(table, "c", {"id": 1, "v": "a"}, at=1))
    job.registry.away = True
    with job.running(registry__wait__max__s="1", restart__attempts__max="0", rewrite__rows__max="0"):
        wait_until(lambda: job.status is not None, timeout_s=LIMIT_S, what="the job to stop")
    assert job.status == 1
    assert "the checkpoint is intact" in job.lines("failed")[0]["reason"]
    job.progress.unlink()

    job.registry.away = False
    with job.running():
        job.wait("the row", lambda: job.rows(table) == [(1, "a")])


@pytest.mark.parametrize("trigger_s", [pytest.param("5", id="batch"), pytest.param("0.5", id="merge", marks=pytest.mark.long)])
def test_work_that_takes_too_long_is_broken_off_by_a_stop_and_repeated(job: Job, monkeypatch: pytest.MonkeyPatch, trigger_s: str) -> None:
    table = job.table("t")
    job.create(table)
    job.settings |= {"table.all.match": ".*", "table.all.failure": "park", "table.all.failure.retries": "0"}
    job.settings |= {"trigger.interval.s": trigger_s}  # a table of unknown price is applied at once only if there is the time
    job.send(change(table, "c", {"id": 1, "v": "a"}, at=1))
    begun = threading.Event()

    def endless(self: Applier, stats: TopicStats, raw: DataFrame, txn: Txn, **_: object) -> None:
        begun.set()
        raw.sparkSession.range(10**13).selectExpr("sum(id % 7)").collect()

    monkeypatch.setattr("dblog_sink.job.runner.STOP_BATCH_S", 0.5)
    monkeypatch.setattr("dblog_sink.job.runner.STOP_MERGE_S", 1.0)
    with monkeypatch.context() as slow:
        slow.setattr(Applier, "apply", endless)
        with job.running():
            assert begun.wait(LIMIT_S)
            stopped_s = time.monotonic()
    assert time.monotonic() - stopped_s < 20
    assert job.status == 0
    assert job.lines("parked") == []  # the table is not to blame

    with job.running():
        job.wait("the row", lambda: job.rows(table) == [(1, "a")])


@pytest.mark.long
def test_a_table_that_somebody_else_wrote_to_or_altered_stops_with_the_way_out(job: Job) -> None:
    table = job.table("t", ("v", "string"), ("w", ["null", "int"]))
    job.create(table)
    path = str(job.folder / "lake/shop/t")
    job.send(change(table, "c", {"id": 1, "v": "a", "w": 1}, at=1))
    with job.running():
        job.wait("the row", lambda: job.rows(table) == [(1, "a", 1)])
    job.spark.sql(f"INSERT INTO delta.`{path}` (id, v) VALUES (7, 'foreign')")
    job.send(change(table, "c", {"id": 2, "v": "b", "w": 2}, at=2))

    with job.running():
        wait_until(lambda: job.status == 1, timeout_s=LIMIT_S, what="the job to stop")
    assert "somebody else wrote rows without a position" in job.lines("failed")[-1]["reason"]

    job.spark.sql(f"DELETE FROM delta.`{path}` WHERE _dblog_seq1 IS NULL")
    job.spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    job.spark.sql(f"ALTER TABLE delta.`{path}` DROP COLUMN w")
    job.status = None
    with job.running():
        wait_until(lambda: job.status == 1, timeout_s=LIMIT_S, what="the job to stop")
    assert "somebody dropped or renamed w in" in job.lines("failed")[-1]["reason"]


def test_a_lease_that_cannot_be_renewed_for_a_while_interrupts_the_sink_and_does_not_end_it(job: Job) -> None:
    items = job.table("items")
    job.create(items)
    lease = job.folder / "lake" / "_dblog" / "lease.json"
    with job.running():
        job.send(change(items, "c", {"id": 1, "v": "a"}, at=100))
        job.wait("the first row", lambda: job.rows(items) == [(1, "a")])

        kept = lease.read_bytes()
        while not lease.is_dir():  # the sink may write it meanwhile
            lease.unlink(missing_ok=True)
            with contextlib.suppress(FileExistsError):
                lease.mkdir()
        job.wait("the lapse", lambda: any("could not be renewed" in line["reason"] for line in job.lines("restarting")))
        job.send(change(items, "c", {"id": 2, "v": "b"}, at=200))
        lease.rmdir()
        lease.write_bytes(kept)

        job.wait("the second row", lambda: job.rows(items) == [(1, "a"), (2, "b")])
    assert job.status == 0
