"""Files of old versions go, within their time and no sooner, and what is kept can still be read."""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from dblog_sink.delta import target as targets
from dblog_sink.delta.session import another
from dblog_sink.job.vacuum import Vacuum, due
from dblog_sink.observe.progress import Progress
from dblog_sink.state.control_table import ControlTable
from dblog_sink.state.crash_points import nothing
from dblog_sink.state.notes import KnownLate, State, TableWritten
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from sink.harness import Sink, change
from sink.job import Job
from stack import Kafka
from stack.process import wait_until
from support.envelopes import TableSchema
from support.registry_server import RegistryServer

DAY_S = 86_400.0


def test_the_table_that_waited_longest_comes_first_and_one_that_never_had_a_turn_does_not() -> None:
    names = {"a": "", "b": "", "c": "", "new": ""}
    last_s = {"a": 100.0, "b": 50.0, "c": 190.0, "gone": 0.0}

    assert due(names, last_s, now_s=200.0, interval_s=100.0) == ["b", "a"]


def test_a_turn_that_a_clock_which_was_ahead_has_recorded_is_due() -> None:
    last_s = {"wrong": 1e9, "a little": 210.0}

    assert due({"wrong": "", "a little": ""}, last_s, now_s=200.0, interval_s=86_400.0) == ["wrong"]


def test_a_failure_of_the_store_ends_no_vacuum_for_good(spark: SparkSession, tmp_path: Path) -> None:
    failures = [OSError("the store is away")] * 2

    def record(notes, _step: str) -> None:
        if failures:
            raise failures.pop()
        for note in notes:
            control.state.take(note)

    control = SimpleNamespace(state=State(), record=record)
    compacted = threading.Event()
    vacuum = Vacuum(
        another(spark),
        paths=lambda: {"shop.t": str(tmp_path / "none")},
        compact=lambda _topic: compacted.set(),
        control=control,
        progress=Progress(None),
        interval_h=24.0,
        keep_h=lambda _path: 24.0,
        share_max=1.0,
        look_every_s=0.01,
    )

    vacuum.start()
    wait_until(lambda: not failures, timeout_s=60, what="the failures")
    vacuum.ask({"shop.t": "p.shop.t"})

    assert compacted.wait(300)
    vacuum.stop()


@pytest.mark.long
def test_files_of_old_versions_are_deleted_when_their_time_has_come(
    spark: SparkSession, registry: RegistryServer, sink: Sink, tmp_path: Path
) -> None:
    table = TableSchema(topic="p.shop.t", columns=[("id", "int"), ("v", "string")], registry=registry)
    for n in range(3):  # a small table is rewritten by each batch
        sink.batch(change(table, "c", {"id": n, "v": "a"}, at=n))
    sink.restarted()
    folder = Path(sink.path(table))
    now_s = [0.0]
    lines: list[tuple[str, object]] = []
    control = ControlTable(another(spark), str(tmp_path / "control"), interval_s=0.0, now_s=lambda: 0.0, reached=nothing)
    session = another(spark)
    session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    vacuum = Vacuum(
        session,
        paths=lambda: {"shop.t": str(folder), "nothing": str(tmp_path / "none")},
        compact=lambda topic: None,
        control=control,
        progress=Progress(None, listener=lambda kind, facts: lines.append((kind, facts["table"]))),
        interval_h=24.0,
        keep_h=lambda _path: 0.0,
        share_max=1.0,
        now_s=lambda: now_s[0],
        look_every_s=0.0,
    )
    before = len(list(folder.glob("*.parquet")))

    vacuum.look()
    now_s[0] = DAY_S - 1
    vacuum.look()
    assert len(list(folder.glob("*.parquet"))) == before == 3
    now_s[0] = DAY_S
    vacuum.look()

    assert len(list(folder.glob("*.parquet"))) == 1
    assert lines == [("vacuum", "shop.t")]
    assert sink.rows(table) == [{"id": n, "v": "a"} for n in range(3)]
    assert control.state.vacuumed_s["shop.t"] == DAY_S


@pytest.mark.long
def test_rows_of_a_clustered_table_that_were_put_in_order_are_left_alone_by_the_next_compaction(
    sink: Sink, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "CUBE_BYTES", 11_500, raising=False)
    sink.settings |= {"compact.commits": "2", "table.t.match": ".*", "table.t.cluster.by": "v"}
    table = TableSchema(topic="p.shop.t", columns=[("id", "int"), ("v", "string")], registry=registry)
    texts = {n: random.Random(n).randbytes(3_000).hex() for n in (1, 2, 3, 4)}
    for n in (1, 2):
        sink.batch(change(table, "c", {"id": n, "v": texts[n]}, at=n))
    ordered = set(sink.read(table).inputFiles())

    for n in (3, 4):
        sink.batch(change(table, "c", {"id": n, "v": texts[n]}, at=n))

    done = [row["operation"] for row in DeltaTable.forPath(sink.spark, sink.path(table)).history().orderBy("version").collect()]
    assert done == ["CREATE TABLE", "MERGE", "MERGE", "OPTIMIZE", "MERGE", "MERGE", "OPTIMIZE"]
    assert ordered < set(sink.read(table).inputFiles())
    assert sink.rows(table) == [{"id": n, "v": texts[n]} for n in (1, 2, 3, 4)]


def test_files_that_no_commit_names_are_deleted_once_a_week(sink: Sink, registry: RegistryServer, tmp_path: Path) -> None:
    table = TableSchema(topic="p.shop.t", columns=[("id", "int"), ("v", "string")], registry=registry)
    sink.batch(change(table, "c", {"id": 1, "v": "a"}, at=1))
    folder = Path(sink.path(table))
    (of_table,) = folder.glob("*.parquet")
    left, young = folder / "part-00000-left-behind.parquet", folder / "part-00000-of-a-write-at-work.parquet"
    for one in (left, young):
        one.write_bytes(of_table.read_bytes())
    for one in (left, of_table):
        os.utime(one, (time.time() - 40 * DAY_S,) * 2)
    os.utime(young, (time.time() - 12 * 3600,) * 2)
    now_s = [0.0]
    control = ControlTable(another(sink.spark), str(tmp_path / "control"), interval_s=1000.0, now_s=lambda: 0.0, reached=nothing)
    session = another(sink.spark)
    session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    vacuum = Vacuum(
        session,
        paths=lambda: {"shop.t": str(folder)},
        compact=lambda topic: None,
        control=control,
        progress=Progress(None),
        interval_h=24.0,
        keep_h=lambda _path: 1.0,
        share_max=1.0,
        now_s=lambda: now_s[0],
        look_every_s=0.0,
    )

    for day in (0, 1, 9):
        now_s[0] = day * DAY_S
        vacuum.look()

    assert not left.exists()
    assert young.exists()
    assert sink.rows(table) == [{"id": 1, "v": "a"}]


def test_a_table_whose_folder_lies_in_that_of_another_keeps_its_files(spark: SparkSession, tmp_path: Path) -> None:
    outer, inner = tmp_path / "lake/shop", tmp_path / "lake/shop/t"
    for folder in (outer, inner):
        spark.range(3).write.format("delta").save(str(folder))
    for one in inner.glob("*.parquet"):
        os.utime(one, (time.time() - 40 * DAY_S,) * 2)
    now_s = [0.0]
    control = ControlTable(another(spark), str(tmp_path / "control"), interval_s=1000.0, now_s=lambda: 0.0, reached=nothing)
    session = another(spark)
    session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    vacuum = Vacuum(
        session,
        paths=lambda: {"shop.outer": str(outer), "shop.t": str(inner), "_dblog/confirmed/shop": str(outer)},
        compact=lambda topic: None,
        control=control,
        progress=Progress(None),
        interval_h=24.0,
        keep_h=lambda _path: 1.0,
        share_max=1.0,
        now_s=lambda: now_s[0],
        look_every_s=0.0,
    )

    for day in (0, 1, 9):
        now_s[0] = day * DAY_S
        vacuum.look()

    assert list(inner.glob("*.parquet"))
    assert another(spark).read.format("delta").load(str(inner)).count() == 3


def test_every_table_of_the_job_has_its_turn(sink: Sink, registry: RegistryServer) -> None:
    table = TableSchema(topic="p.shop.t", columns=[("id", "int"), ("v", "string")], registry=registry)
    sink.batch(change(table, "c", {"id": 1, "v": "a"}, at=1))

    lake = sink.folder / "lake"
    assert sink.writer.paths() == {
        "_dblog/chunks": f"{lake}/_dblog/chunks",
        "_dblog/fingerprints": f"{lake}/_dblog/fingerprints",
        "_dblog/verified": f"{lake}/_dblog/verified",
        "_dblog/landing": f"{lake}/_dblog/landing",
        "_dblog/control": f"{lake}/_dblog/control",
        "_dblog/quarantine": f"{lake}/_dblog/quarantine",
        "shop.t": f"{lake}/shop/t",
        "_dblog/tombstones/shop.t": f"{lake}/_dblog/tombstones/shop/t",
    }


@pytest.mark.long
def test_a_table_is_compacted_and_vacuumed_when_asked(spark: SparkSession, kafka: Kafka, registry: RegistryServer, tmp_path: Path) -> None:
    job = Job(spark, kafka, registry, tmp_path)
    table = job.table("t")
    job.create(table)
    job.settings |= {"rewrite.rows.max": "0", "compact.commits": "0", "vacuum.interval.h": "0", "vacuum.keep.h": "0"}
    folder = tmp_path / "lake" / "shop" / "t"
    with job.running():
        for n in range(3):
            job.send(change(table, "c", {"id": n, "v": "a"}, at=n))
            job.wait("the row", lambda n=n: len(job.rows(table)) == n + 1)
        assert len(list(folder.glob("*.parquet"))) == 3

        job.ask("maintain")
        job.wait("the vacuum", lambda: [line["table"] for line in job.lines("vacuum")] == ["shop.t"])

        assert len(list(folder.glob("*.parquet"))) == 1
        job.send(change(table, "c", {"id": 3, "v": "a"}, at=3))
        job.wait("the row after it", lambda: len(job.rows(table)) == 4)


def test_what_ended_is_noted_among_what_is_written_together(spark: SparkSession, tmp_path: Path) -> None:
    def control() -> ControlTable:
        return ControlTable(another(spark), str(tmp_path / "control"), interval_s=1000.0, now_s=lambda: 0.0, reached=nothing)

    first = control()
    first.record(
        [TableWritten("p.shop.t", "t", appending=True), KnownLate("p.shop.t", "counted from the middle")], "recorded", at_once=True
    )
    first.record([TableWritten("p.shop.t", "t", appending=False), KnownLate("p.shop.t", None)], "recorded")
    first.flush()

    assert (control().state.appending, control().state.late) == (set(), {})
