"""A sink that slept while another one took over commits nothing when it wakes, wherever it slept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from dblog_sink.delta import target as targets
from dblog_sink.delta.fence import Fence
from dblog_sink.delta.file_skipping import newest
from dblog_sink.delta.log_cleanup import has_next
from dblog_sink.delta.merge import Txn, append
from dblog_sink.delta.transaction import begun
from dblog_sink.delta.upsert import inserted
from dblog_sink.errors import DefiniteError, TransientError
from dblog_sink.state.crash_points import nothing
from dblog_sink.state.new_table import new_table
from delta.tables import DeltaTable
from pyspark.errors import UnsupportedOperationException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sink.harness import HeldLease, Record, Sink, change
from sink.job import LIMIT_S, Job
from stack import Kafka
from stack.process import wait_until
from support.envelopes import TableSchema
from support.registry_server import RegistryServer


@pytest.fixture
def items(registry: RegistryServer) -> TableSchema:
    return TableSchema(topic="p.shop.items", columns=[("id", "long"), ("name", ["null", "string"])], registry=registry)


def row(key: int, name: str) -> dict:
    return {"id": key, "name": name}


def fence(sink: Sink, *, alone: bool = True, lease: HeldLease | None = None) -> Fence:
    made = Fence(
        sink.spark, str(sink.folder / "lake" / "_dblog" / "control"), lease=lease or HeldLease(), now_s=iter(range(0, 10**9, 10)).__next__
    )
    made.take(alone=alone)
    return made


@contextmanager
def watched(by: Fence) -> Iterator[None]:
    """As in a process of its own."""
    by.install()
    try:
        yield
    finally:
        by.remove()


def versions(sink: Sink) -> dict[str, int]:
    """Of every Delta table in the lake."""
    lake = sink.folder / "lake"
    return {
        str(log.parent.relative_to(lake)): max(int(one.stem) for one in log.glob("*.json") if one.stem.isdigit())
        for log in lake.rglob("_delta_log")
    }


def first(items: TableSchema) -> list[Record]:
    return [change(items, "c", row(key, "a"), at=100 + key) for key in (1, 2, 3)]


def second(items: TableSchema) -> list[Record]:
    """An update, a delete, an insert and a record that cannot be read."""
    return [
        change(items, "u", row(1, "b"), at=200),
        change(items, "d", row(2, "a"), at=210),
        change(items, "c", row(4, "c"), at=220),
        Record(topic=items.topic, key=None, value=b"\0\0\0\x27\x0fno schema"),
    ]


APPLIED = {"rewrite.rows.max": "0", "control.interval.s": "0"}
LANDED = {**APPLIED, "trigger.interval.s": "0", "merge.rows.min": "1000000"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("settings", "at"),
    [
        (APPLIED, "quarantined"),
        (APPLIED, "merged"),
        (LANDED, "landed"),
        (LANDED, "tombstones_written"),
    ],
    ids=lambda one: one if isinstance(one, str) else ("landed" if "trigger.interval.s" in one else "applied"),
)
def test_a_sink_that_sleeps_between_two_commits_while_another_takes_over_commits_nothing_more(
    sink: Sink, items: TableSchema, settings: dict[str, str], at: str
) -> None:
    sink.settings |= settings
    slept = fence(sink)
    heirs: list[Fence] = []
    left: list[dict[str, int]] = []

    def sleep(step: str) -> None:
        if step == at and not heirs:
            slept.remove()  # the other one has a JVM of its own
            heirs.append(fence(sink, alone=False))
            heirs[0].claim(sink.writer.paths().values(), threads=2)
            left.append(versions(sink))
            slept.install()

    with watched(slept):
        sink.batch(*first(items))
        sink.reached = sleep
        sink.restarted()
        records = [replace(one, offset=3 + n) for n, one in enumerate(second(items))]

        def go_on() -> None:
            sink.repeat(1, records)
            sink.batch(change(items, "c", row(9, "z"), at=900))  # where it slept behind the last commit of the batch

        with pytest.raises(Exception, match="another sink has taken"):
            go_on()
        sink.killed()
        assert versions(sink) == left[0]
        assert slept.lost is not None
        assert "this one commits nothing any more" in slept.lost

    sink.reached = nothing
    with watched(heirs[0]):
        sink.repeat(1, records)

    assert heirs[0].lost is None
    assert sink.rows(items) == [row(1, "b"), row(3, "a"), row(4, "c")]
    assert len(sink.quarantined()) == 1


def table(spark: SparkSession, path: str) -> DeltaTable:
    """A small one, of two files."""
    for n in range(2):
        spark.range(n, n + 1).withColumn("v", F.lit("a")).coalesce(1).write.format("delta").mode("append").save(path)
    return DeltaTable.forPath(spark, path)


def test_no_kind_of_commit_gets_through_after_a_takeover(sink: Sink) -> None:
    spark, path, new = sink.spark, str(sink.folder / "lake" / "t"), str(sink.folder / "lake" / "new")
    rows = spark.range(3).withColumn("v", F.lit("b"))
    slept = fence(sink)
    held = table(spark, path)
    heir = fence(sink, alone=False)
    heir.claim([path, new], threads=2)
    before = versions(sink)

    kinds: dict[str, Callable[[], object]] = {
        "append": lambda: append(rows, path, ("id", "v"), Txn("a", 1)),
        "overwrite": lambda: rows.write.format("delta").mode("overwrite").save(path),
        "delete": lambda: held.delete("id = 0"),
        "update": lambda: held.update("id = 0", {"v": F.lit("c")}),
        "merge": lambda: held.alias("t").merge(rows.alias("s"), "t.id = s.id").whenNotMatchedInsertAll().execute(),
        "alter": lambda: spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS (w INT)"),
        "properties": lambda: spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('a' = 'b')"),
        "optimize": lambda: held.optimize().executeCompaction(),
        "create": lambda: DeltaTable.createIfNotExists(spark).location(new).addColumn("id", "INT").execute(),
    }
    with watched(slept):
        for kind, commit in kinds.items():
            with pytest.raises(Exception, match="another sink has taken"):
                commit()
            assert versions(sink) == before, kind
    with watched(heir):
        kinds["append"]()
    assert versions(sink)["t"] == before["t"] + 1


def test_an_error_of_delta_comes_through_as_it_is(sink: Sink) -> None:
    path = str(sink.folder / "lake" / "t")
    held = table(sink.spark, path)
    sink.spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.appendOnly' = 'true')")

    with watched(fence(sink)), pytest.raises(UnsupportedOperationException, match=r"^\[DELTA_CANNOT_MODIFY_APPEND_ONLY\]"):
        held.delete("id = 0")


def test_a_commit_that_was_begun_before_a_takeover_fails(sink: Sink) -> None:
    path = str(sink.folder / "lake" / "t")
    table(sink.spark, path)
    rows = sink.spark.range(2, 3).withColumn("v", F.lit("b"))
    slept = fence(sink)
    before = sink.spark.read.format("delta").load(path).count()
    with ExitStack() as open_until_the_end:
        with watched(slept):
            transaction = open_until_the_end.enter_context(begun(sink.spark, path))
        fence(sink, alone=False).claim([path], threads=1)

        with pytest.raises(Exception, match="DELTA_METADATA_CHANGED"):
            inserted(transaction, rows, count=1, columns=("id", "v"), one_file=True, txn=Txn("a", 1))

    assert sink.spark.read.format("delta").load(path).count() == before


@pytest.mark.parametrize("renewed", [False, True], ids=["and its lease has lapsed", "and its lease was renewed since"])
def test_a_sink_that_slept_within_a_transaction_looks_at_its_own_clock_before_the_commit(sink: Sink, *, renewed: bool) -> None:
    path = str(sink.folder / "lake" / "not known to the heir")
    table(sink.spark, path)
    lease = HeldLease()
    slept = fence(sink, lease=lease)
    rows = sink.spark.range(1).withColumn("v", F.lit("a"))
    began = slept.started

    def started(start: Callable[[], object]) -> object:
        begun = began(start)
        if renewed:
            lease.lapses += 1
        else:
            lease.lost = "the lease could not be renewed"
        return begun

    slept.started = started  # type: ignore[method-assign]
    before = versions(sink)
    with watched(slept), pytest.raises(Exception, match="the lease lapsed" if renewed else "the lease could not be renewed"):
        append(rows, path, ("id", "v"), Txn("a", 1))

    assert versions(sink) == before

    slept.started, lease.lost = began, None  # type: ignore[method-assign]
    with watched(slept):
        append(rows, path, ("id", "v"), Txn("a", 1))
    assert versions(sink) != before, "what is begun after the renewal is committed"


def test_a_lease_that_lapses_while_a_transaction_is_let_begin_is_one_that_lapsed_within_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renewed or not, another sink may have taken the state after the control table was read."""
    lease = HeldLease()
    slept = Fence(MagicMock(), "control", lease=lease)

    def slow_look() -> None:
        lease.lapses += 1

    monkeypatch.setattr(slept, "_look", slow_look)
    new = MagicMock()
    new.snapshot().version.return_value = -1
    slept.started(lambda: new)

    with pytest.raises(TransientError, match="the lease lapsed while this transaction ran"):
        slept.before_commit()


@pytest.mark.parametrize(("is_gone", "error"), [(False, TransientError), (True, DefiniteError)])
def test_a_lease_that_lapsed_is_waited_for_and_one_that_is_gone_ends_the_sink(sink: Sink, *, is_gone: bool, error: type[Exception]) -> None:
    lease = HeldLease()
    held = fence(sink, lease=lease)
    held.check()
    lease.lost, lease.is_gone = "the reason", is_gone

    with pytest.raises(error, match="the reason"):
        held.check()

    assert held.is_gone == is_gone


def test_a_control_table_that_was_lost_locks_nobody_out_and_lets_no_former_sink_in(sink: Sink) -> None:
    path = str(sink.folder / "lake" / "t")
    held = table(sink.spark, path)
    former = [fence(sink, alone=False) for _ in range(3)]
    former[-1].claim([path], threads=1)
    sink.lose("control")
    heir = fence(sink, alone=False)
    assert heir.token == 1

    with watched(heir):
        held.delete("id = 0")

    assert heir.token == 4
    with watched(former[-1]), pytest.raises(Exception, match="another sink has taken"):
        held.delete("id = 1")
    sink.lose("control")
    with watched(heir), pytest.raises(Exception, match="the control table .* was removed, or replaced by an older copy"):
        held.delete("id = 1")


def test_a_running_job_stops_when_another_sink_has_taken_over_and_merges_nothing_more(
    spark: SparkSession, kafka: Kafka, registry: RegistryServer, tmp_path: Path
) -> None:
    job = Job(spark, kafka, registry, tmp_path)
    items = job.table("items")
    job.create(items)
    with job.running():
        job.send(change(items, "c", {"id": 1, "v": "a"}, at=1))
        job.wait("the row", lambda: job.rows(items) == [(1, "a")])
        heir = Fence(spark, str(tmp_path / "lake" / "_dblog" / "control"), lease=HeldLease())
        heir.take(alone=False)

        job.send(change(items, "c", {"id": 2, "v": "b"}, at=2))
        wait_until(lambda: job.status is not None, timeout_s=LIMIT_S, what="the job to stop", pause_s=0.2)

        assert not [one.name for one in threading.enumerate() if one.name.startswith(("dblog-merge", "dblog-table"))]
    assert job.status == 1
    assert "another sink has taken the state" in job.lines("failed")[-1]["reason"]
    assert job.rows(items) == [(1, "a")]
    assert heir.lost is None


def test_a_look_without_a_listing_finds_a_commit_of_another_driver_and_a_table_that_was_taken_away(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    new_table(spark, str(path)).addColumn("n", "INT").execute()
    log, snapshot = newest(spark, str(path))
    version = int(snapshot.version())
    commits = [path / "_delta_log" / f"{version + n:020}.json" for n in range(3)]
    assert not has_next(spark, log, version)

    commits[1].write_bytes(commits[0].read_bytes())
    assert has_next(spark, log, version)

    # A sink that slept for so long that all it knew was cleaned away from the beginning of the log on.
    commits[2].write_bytes(commits[0].read_bytes())
    for one in commits[:2]:
        one.unlink()
    assert has_next(spark, log, version)


def test_a_start_that_claims_its_tables_looks_at_their_commits_without_opening_them(
    sink: Sink, items: TableSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink.batch(*first(items))
    sink.restarted()
    heir = fence(sink, alone=False)
    heir.claim(sink.writer.paths().values(), threads=2)

    def opened(*_: object, **__: object) -> None:
        msg = "a table was opened"
        raise AssertionError(msg)

    monkeypatch.setattr(targets, "open_target", opened)
    sink.writer.check_histories()

    assert sink.writer.checked() == {"shop.items": versions(sink)["shop/items"]}
    before = versions(sink)
    sink.writer.check_histories()
    assert versions(sink) == before, "nothing new, and nothing to record"
    DeltaTable.forPath(sink.spark, sink.path(items)).restoreToVersion(0)
    sink.writer.check_histories()
    assert sink.writer.checked()["shop.items"] < versions(sink)["shop/items"], "what is wrong with a table is reported when it is written"
