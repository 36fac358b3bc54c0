"""A lake in a store with S3's interface: no folders, no renames, answers that are late, refused or lost; and still one writer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from dblog_sink.config import job_options
from dblog_sink.config.lake_paths import CONDITIONAL
from dblog_sink.delta.fence import Fence
from dblog_sink.delta.file_skipping import newest
from dblog_sink.errors import DefiniteError
from dblog_sink.job.start import check_paths
from dblog_sink.state.crash_points import nothing
from dblog_sink.state.files import HadoopFolder
from dblog_sink.state.lease import Lease
from dblog_sink.state.new_table import new_table
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from sink.feed import Feed, Trial
from sink.harness import HeldLease, Sink, change
from stack import ObjectStore
from support.envelopes import TableSchema
from support.registry_server import RegistryServer


@pytest.fixture(scope="module")
def store(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """The store, where this JVM's s3a leads."""
    with ObjectStore(tmp_path_factory.mktemp("store")) as made:
        hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
        for name, value in made.spark_options.items():
            hadoop.set(name.removeprefix("spark.hadoop."), value)
        hadoop.set("fs.s3a.retry.interval", "20ms")
        hadoop.set("fs.s3a.retry.throttle.interval", "20ms")
        yield made
        spark._jvm.org.apache.hadoop.fs.FileSystem.closeAll()


@pytest.fixture
def lake(store: ObjectStore) -> Iterator[str]:
    """A path of its own; the store fails as a test lets it."""
    store.fail()
    yield f"s3a://lake/{uuid4().hex[:8]}"
    store.fail()


@pytest.fixture
def items(registry: RegistryServer) -> TableSchema:
    return TableSchema(topic="p.shop.items", columns=[("id", "long"), ("name", ["null", "string"])], registry=registry)


# -- small files


def test_a_file_whose_writing_was_not_answered_was_created_by_whoever_wrote_it(spark: SparkSession, store: ObjectStore, lake: str) -> None:
    folder = HadoopFolder(spark, lake)
    store.fail(lost=1.0, lost_of="PUT", lost_named="lease.json", lost_most=1)

    assert folder.create("lease.json", "mine")

    assert store.counts()["lost"] == 1
    assert not folder.create("lease.json", "another's")
    assert folder.read("lease.json") == "mine"


def test_of_many_that_create_a_file_at_once_one_does(spark: SparkSession, lake: str) -> None:
    begin = threading.Barrier(6)

    def create(n: int) -> bool:
        folder = HadoopFolder(spark, lake)
        begin.wait()
        return folder.create("lease.json", f"of {n}")

    with ThreadPoolExecutor(6) as threads:
        created = list(threads.map(create, range(6)))

    assert created.count(True) == 1
    assert HadoopFolder(spark, lake).read("lease.json") == f"of {created.index(True)}"


@pytest.mark.long
def test_a_file_that_is_replaced_and_removed_again_and_again_is_read_whole_or_not_at_all(spark: SparkSession, lake: str) -> None:
    folder = HadoopFolder(spark, lake)
    texts = ["a" * 5000, "b" * 3000]
    ended = threading.Event()

    def write() -> None:
        while not ended.wait(0.01):
            for text in texts:
                folder.replace("lease.json", text)
            folder.remove("lease.json")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(25):
            assert folder.read("lease.json") in (None, *texts)
            assert folder.names() in ([], ["lease.json"])
    finally:
        ended.set()
        writer.join()


# -- Delta's log


def log_store(spark: SparkSession, name: str) -> Any:
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    made = jvm.java.lang.Class.forName(name, True, loader).getConstructors()[0]
    arguments = spark.sparkContext._gateway.new_array(jvm.java.lang.Object, 1)
    arguments[0] = hadoop(spark)
    return made.newInstance(arguments)


def hadoop(spark: SparkSession) -> Any:
    return spark.sparkContext._jsc.hadoopConfiguration()


def write(spark: SparkSession, log: Any, path: str, text: str) -> str | None:
    """Write a commit of one line; the class of the error, if any."""
    jvm: Any = spark._jvm
    lines = jvm.java.util.ArrayList()
    lines.add(text)
    try:
        log.write(jvm.org.apache.hadoop.fs.Path(path), lines.iterator(), False, hadoop(spark))
    except Py4JJavaError as e:
        return str(e.java_exception.getClass().getSimpleName())
    return None


def test_of_many_drivers_that_commit_one_version_at_once_one_does(spark: SparkSession, lake: str) -> None:
    commit = f"{lake}/_delta_log/00000000000000000000.json"
    begin = threading.Barrier(6)

    def committed(n: int) -> str | None:
        log = log_store(spark, CONDITIONAL)
        begin.wait()
        return write(spark, log, commit, f"commit of {n}")

    with ThreadPoolExecutor(6) as threads:
        outcomes = list(threads.map(committed, range(6)))

    assert sorted(outcomes, key=str) == ["FileAlreadyExistsException"] * 5 + [None]
    read = HadoopFolder(spark, f"{lake}/_delta_log").read("00000000000000000000.json")
    assert read == f"commit of {outcomes.index(None)}\n"


def test_a_commit_whose_answer_was_lost_is_the_drivers_own(spark: SparkSession, store: ObjectStore, lake: str) -> None:
    commit = f"{lake}/_delta_log/00000000000000000001.json"
    log = log_store(spark, CONDITIONAL)
    store.fail(lost=1.0, lost_of="PUT", lost_named=".json", lost_most=2)

    assert write(spark, log, commit, "mine") is None

    assert store.counts()["lost"] == 2
    assert write(spark, log, commit, "another's") == "FileAlreadyExistsException"


def test_a_commit_that_a_log_store_keeps_aside_is_not_thrown_away(spark: SparkSession, lake: str) -> None:
    aside = HadoopFolder(spark, f"{lake}/t/_delta_log/.tmp")
    aside.create("00000000000000000000.json.c7f", "a commit that the other log store has in its table of locks")
    HadoopFolder(spark, f"{lake}/u/_delta_log/_staged_commits").replace("x", "")
    HadoopFolder(spark, f"{lake}/u/_delta_log/_staged_commits").remove("x")

    for name in ("t", "u"):
        new_table(spark, f"{lake}/{name}")

    assert HadoopFolder(spark, f"{lake}/t/_delta_log/.tmp").names() == ["00000000000000000000.json.c7f"]
    system = spark._jvm.org.apache.hadoop.fs.Path(lake).getFileSystem(hadoop(spark))
    assert not system.exists(spark._jvm.org.apache.hadoop.fs.Path(f"{lake}/u/_delta_log"))


def test_a_store_that_does_not_heed_conditions_is_refused_before_anything_is_written(
    spark: SparkSession, store: ObjectStore, lake: str
) -> None:
    least = {"kafka.bootstrap.servers": "b:9092", "topics": "p.a.b", "registry.url": "http://r", "target.path": lake}
    check_paths(spark, job_options.parse(least))

    store.fail(heeds_conditions=False)
    with pytest.raises(
        DefiniteError, match=r"^state.path: the store of s3a://lake/.* does not heed If-None-Match.*storage.single.driver=true|^target"
    ):
        check_paths(spark, job_options.parse(least))


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("abfss://c@a.dfs.core.windows.net/lake", "docs/object-stores.md"),
        ("s3://lake/t", "write s3a://lake/t"),
    ],
)
def test_a_store_without_a_client_is_refused_with_what_it_needs(spark: SparkSession, path: str, remedy: str) -> None:
    least = {
        "kafka.bootstrap.servers": "b:9092",
        "topics": "p.a.b",
        "registry.url": "http://r",
        "target.path": path,
        "storage.single.driver": "true",
    }

    with pytest.raises(DefiniteError, match=rf"^target.path: Spark has no client for {path}.*{remedy}"):
        check_paths(spark, job_options.parse(least))


@pytest.mark.long
def test_a_look_at_a_long_log_lists_one_page_from_the_last_checkpoint_on(spark: SparkSession, store: ObjectStore, lake: str) -> None:
    table = f"{lake}/t"
    new_table(spark, table).addColumn("n", "INT").property("delta.checkpointInterval", "3").execute()
    for n in range(7):
        spark.range(1).selectExpr(f"CAST({n} AS INT) AS n").write.format("delta").mode("append").save(table)
    folder = HadoopFolder(spark, f"{table}/_delta_log")
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda n: folder.create(f"{0:020}.x{n:06d}", ""), range(1_100)))

    def cost(look: Callable[[], object]) -> tuple[int, int]:
        store.fail()
        look()
        counts = store.counts()
        return counts.get("lists", 0), counts.get("keys", 0)

    lists, keys = cost(lambda: newest(spark, table))

    assert lists <= 4, "questions for folders are listings too, of one key"
    assert keys < 30
    path = spark._jvm.org.apache.hadoop.fs.Path(f"{table}/_delta_log/{6:020}.")
    whole = cost(lambda: log_store(spark, "io.delta.storage.AzureLogStore").listFrom(path, hadoop(spark)))
    assert whole[1] > 1_100, "what the other log stores cost"
    names = [one.getPath().getName() for one in iterated(log_store(spark, CONDITIONAL).listFrom(path, hadoop(spark)))]
    assert names == sorted(names)
    assert names[0].startswith(f"{6:020}.")
    missing = spark._jvm.org.apache.hadoop.fs.Path(f"{lake}/none/_delta_log/{6:020}.")
    with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
        log_store(spark, CONDITIONAL).listFrom(missing, hadoop(spark))
    beyond = spark._jvm.org.apache.hadoop.fs.Path(f"{table}/_delta_log/{99:020}.")
    assert {one.getPath().getName()[0] for one in iterated(log_store(spark, CONDITIONAL).listFrom(beyond, hadoop(spark)))} == {"_"}


def test_what_lies_beside_or_below_a_log_is_no_part_of_it(spark: SparkSession, store: ObjectStore, lake: str) -> None:
    """S3 lists by the beginning of names: those of a copy of the log beside it have the same."""
    table = f"{lake}/beside"
    spark.range(3).write.format("delta").save(table)
    for folder in ("_delta_log_old", "_delta_log/_below"):
        HadoopFolder(spark, f"{table}/{folder}").create(f"{1:020}.json", "no commit")
    path = spark._jvm.org.apache.hadoop.fs.Path(f"{table}/_delta_log/{0:020}.")

    found = [one.getPath() for one in iterated(log_store(spark, CONDITIONAL).listFrom(path, hadoop(spark)))]

    assert {one.getParent().getName() for one in found} == {"_delta_log"}
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    assert spark.read.format("delta").load(table).count() == 3


def iterated(found: Any) -> Iterator[Any]:
    while found.hasNext():
        yield found.next()


def test_a_fence_that_looks_each_second_lists_nothing_while_nobody_commits(spark: SparkSession, store: ObjectStore, lake: str) -> None:
    fence = Fence(spark, f"{lake}/_dblog/control", lease=HeldLease(), now_s=iter(range(0, 10**9, 10)).__next__)
    fence.take(alone=True)
    fence.check()
    store.fail()

    for _ in range(20):
        fence.check()

    counts = store.counts()
    assert counts.get("lists", 0) == 0
    assert counts["requests"] <= 60


# -- one writer


def test_two_that_start_at_once_get_different_tokens_and_the_first_is_refused(spark: SparkSession, lake: str) -> None:
    """Each in its own view of the log, as in a JVM of its own."""
    control = f"{lake}/_dblog/control"
    made = [Fence(spark.newSession(), control, lease=HeldLease(), now_s=iter(range(0, 10**9, 10)).__next__) for _ in range(3)]
    made[0].take(alone=False)
    begin = threading.Barrier(2)

    def take(fence: Fence) -> None:
        begin.wait()
        fence.take(alone=False)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(take, made[1:]))

    assert sorted(one.token for one in made) == [1, 2, 3]
    with pytest.raises(DefiniteError, match="another sink has taken the state"):
        made[0].check()


@pytest.mark.long
def test_a_second_sink_is_kept_away_and_one_that_slept_is_fenced(sink: Sink, items: TableSchema, lake: str) -> None:
    sink.lake = lake
    sink.settings |= {"rewrite.rows.max": "0", "control.interval.s": "0"}
    state = f"{lake}/_dblog"

    def fence(*, alone: bool) -> Fence:
        made = Fence(sink.spark, f"{state}/control", lease=HeldLease(), now_s=iter(range(0, 10**9, 10)).__next__)
        made.take(alone=alone)
        return made

    lease = Lease(HadoopFolder(sink.spark, state), name="first", where=state)
    lease.take()
    clock = iter(range(0, 10**9, 3))
    second = Lease(HadoopFolder(sink.spark, state), name="second", where=state, now_s=lambda: float(next(clock)))
    with pytest.raises(DefiniteError, match=f"another sink runs on {state}: first, process"):
        second.take(sleep=lambda _: lease.renew())

    slept, heirs = fence(alone=False), list[Fence]()

    def sleep(step: str) -> None:
        if step == "merged" and not heirs:
            slept.remove()  # the other one has a JVM of its own
            heirs.append(fence(alone=False))
            heirs[0].claim(sink.writer.paths().values(), threads=2)
            slept.install()

    slept.install()
    try:
        sink.batch(*(change(items, "c", {"id": key, "name": "a"}, at=100 + key) for key in (1, 2, 3)))
        sink.reached = sleep
        sink.restarted()
        records = [
            replace(one, offset=3 + n)
            for n, one in enumerate(
                [
                    change(items, "u", {"id": 1, "name": "b"}, at=200),
                    change(items, "d", {"id": 2, "name": "a"}, at=210),
                    change(items, "c", {"id": 4, "name": "c"}, at=220),
                ]
            )
        ]

        def go_on() -> None:
            sink.repeat(1, records)
            sink.batch(change(items, "c", {"id": 9, "name": "z"}, at=900))

        with pytest.raises(Exception, match="another sink has taken"):
            go_on()
        sink.killed()
    finally:
        slept.remove()
    assert heirs, "the step was reached"

    sink.reached = nothing
    heirs[0].install()
    try:
        sink.repeat(1, records)
    finally:
        heirs[0].remove()
        lease.give_back()
    assert sink.rows(items) == [{"id": 1, "name": "b"}, {"id": 3, "name": "a"}, {"id": 4, "name": "c"}]


# -- kills and faults


class Kill(DefiniteError):  # noqa: N818  the process is gone: not an error that anything may try again
    """The process ended here."""


FAULTS = {"refused": 0.02, "lost": 0.03, "slow": 0.01, "slow_s": 0.1, "seed": 7}


@pytest.mark.long
def test_kills_around_the_first_rows_of_a_table_and_faults_of_the_store_change_nothing(
    sink: Sink, items: TableSchema, store: ObjectStore, lake: str
) -> None:
    sink.lake = lake
    sink.settings |= {"control.interval.s": "0", "rewrite.rows.max": "0"}
    store.fail(**FAULTS | {"lost": 0.06})

    records = [replace(change(items, "c", {"id": key, "name": "a"}, at=100 + key), offset=key) for key in range(5)]
    reached = killed(sink, lambda: sink.repeat(0, records), {"altered", "recorded"})

    assert reached == {"altered", "recorded"}
    assert sink.rows(items) == [{"id": key, "name": "a"} for key in range(5)]
    assert min(store.counts()[kind] for kind in ("refused", "lost")) > 0


STEPS = {"altered", "quarantined", "truncate_recorded", "truncated", "tombstones_written", "merged", "rewritten", "landed", "recorded"}


@pytest.mark.long
@pytest.mark.parametrize("seed", [7, 11])
def test_kills_at_the_steps_and_faults_of_the_store_between_them_change_nothing(
    sink: Sink, registry: RegistryServer, store: ObjectStore, lake: str, seed: int
) -> None:
    trial = Trial("mirror", seed, Feed(registry), count=12, batches=3, truncated=True, unreadable=True)
    sink.lake = lake
    sink.settings |= trial.settings | {"control.interval.s": "0"}
    left = set(STEPS)
    store.fail(**FAULTS | {"seed": seed})

    for number, batch in enumerate(trial.batches):
        sink.restarted()
        sink.settings |= {"rewrite.rows.max": "50000" if number == 2 else "0"}
        sink.settings |= {"trigger.interval.s": "0", "merge.rows.min": "1000000"} if number == 1 else {"trigger.interval.s": "1000"}
        left -= killed(sink, lambda number=number, batch=batch: sink.repeat(number, batch), left)

    trial.check(sink)
    assert len(sink.quarantined()) == 1
    assert left == set(), "steps that were not reached"
    assert min(store.counts()[kind] for kind in ("refused", "lost", "slow")) > 0


def killed(sink: Sink, attempt: Callable[[], None], steps: set[str]) -> set[str]:
    """Attempt until it is done, killed once at each of the steps; returns those that were reached. What fails otherwise is attempted again, as the job does."""
    hits: set[str] = set()

    def reached(step: str) -> None:
        if step in steps - hits:
            hits.add(step)
            raise Kill(step)

    sink.reached = reached
    failures = 0
    while True:
        try:
            attempt()
        except Kill:
            sink.killed()
        except Exception:
            failures += 1
            if failures > 3:
                raise
            sink.killed()
        else:
            return hits
