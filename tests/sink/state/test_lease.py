"""One sink at a time, and a checkpoint for one configuration only."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from dblog_sink.config import job_options
from dblog_sink.errors import DefiniteError
from dblog_sink.job import start
from dblog_sink.kafka import checkpoint_binding
from dblog_sink.state.files import LocalFolder
from dblog_sink.state.lease import EXPIRES_AFTER_S, FILE, LOST_AFTER_S, RENEW_EVERY_S, Holder, Lease, is_dead, started_at, this_process
from pyspark.sql import SparkSession

LEAST = {"kafka.bootstrap.servers": "b:9092", "topics": "p.a.b,p.a.c", "registry.url": "http://r", "target.path": "/lake/"}


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def sleep(self, pause_s: float) -> None:
        self.now_s += pause_s


def lease(folder: Path, clock: Clock, holder: Holder | None = None) -> Lease:
    return Lease(LocalFolder(folder), name="shop", where="/lake/_dblog", now_s=lambda: clock.now_s, holder=holder)


def holder_in(folder: Path) -> Holder:
    return Holder(**json.loads((folder / FILE).read_text()))


def write(folder: Path, holder: Holder) -> None:
    (folder / FILE).write_text(json.dumps(asdict(holder)))


def renewing(holder: Lease, clock: Clock) -> Callable[[float], None]:
    """Time passes, and the holder renews its lease."""
    renewed_s = clock.now_s

    def sleep(pause_s: float) -> None:
        nonlocal renewed_s
        clock.sleep(pause_s)
        if clock.now_s - renewed_s >= RENEW_EVERY_S:
            renewed_s = clock.now_s
            holder.renew()

    return sleep


def elsewhere(folder: Path, clock: Clock) -> Lease:
    """The lease of a sink on another machine, written just now. No thread renews it."""
    held = lease(folder, clock, replace(this_process("shop"), host="elsewhere"))
    held.renew()
    return held


def test_a_lease_that_is_absent_for_a_moment_does_not_mean_that_nobody_is_at_work(tmp_path: Path) -> None:
    """As where a store's client deletes the file before it puts the new one there."""
    clock = Clock()
    elsewhere(tmp_path, clock)

    def sleep(pause_s: float) -> None:
        clock.sleep(pause_s)
        (tmp_path / FILE).unlink(missing_ok=True)

    taker = lease(tmp_path, clock)
    try:
        assert not taker.take(sleep=sleep)
    finally:
        taker.give_back()


def test_the_second_sink_refuses_and_names_the_one_that_runs(tmp_path: Path) -> None:
    clock = Clock()
    first, second = lease(tmp_path, clock), lease(tmp_path, clock)
    assert first.take(), "there was none"
    try:
        with pytest.raises(DefiniteError, match=r"another sink runs on /lake/_dblog: shop, process \d+ on .*Stop it first"):
            second.take(sleep=renewing(first, clock))
    finally:
        first.give_back()

    assert second.take(sleep=clock.sleep)
    second.give_back()
    assert not (tmp_path / FILE).exists()
    assert second.lost is not None, "who has given the lease back commits nothing more"


def test_a_sink_that_was_killed_here_leaves_a_lease_that_can_be_taken_at_once(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    clock = Clock()
    dead = replace(this_process("shop"), pid=process.pid, started=started_at(process.pid) or "")
    write(tmp_path, dead)
    assert not is_dead(dead, this_process("shop"), started=started_at)

    process.kill()
    process.communicate()
    began_s = clock.now_s
    assert not lease(tmp_path, clock).take(sleep=clock.sleep), "it may have left something at work: a JVM dies after its Python"

    assert clock.now_s - began_s < RENEW_EVERY_S


def test_a_process_id_means_nothing_in_another_container_or_where_processes_are_hidden() -> None:
    here = this_process("shop")
    running = {1: "1", here.pid: here.started}.get
    other = replace(here, pid=here.pid + 1)

    assert is_dead(other, here, started=running)
    assert not is_dead(replace(other, boot=f"{here.boot.split()[0]} pid:[1]"), here, started=running)
    assert not is_dead(other, here, started=lambda _: None)


@pytest.mark.parametrize("ahead_s", [-1e9, 0.0, 1e9], ids=["its clock is late", "clocks agree", "its clock is early"])
def test_a_sink_elsewhere_is_abandoned_when_its_lease_rests_whatever_its_clock_shows(tmp_path: Path, ahead_s: float) -> None:
    clock = Clock()
    slept = elsewhere(tmp_path, clock)
    held = holder_in(tmp_path)
    write(tmp_path, replace(held, at_s=held.at_s + ahead_s))
    heir = lease(tmp_path, clock)
    with pytest.raises(DefiniteError, match="on elsewhere"):
        heir.take(sleep=renewing(slept, clock))

    began_s = clock.now_s
    assert not heir.take(sleep=clock.sleep)
    assert LOST_AFTER_S <= clock.now_s - began_s < LOST_AFTER_S + RENEW_EVERY_S

    assert slept.lost is not None, "it holds the lease no more before anybody else does"
    assert "could not be renewed" in slept.lost
    slept.renew()
    assert "has taken /lake/_dblog over: shop" in slept.lost
    heir.renew()
    assert heir.lost is None
    heir.give_back()


def test_a_sink_that_cannot_renew_its_lease_holds_it_no_more_before_another_may_take_it(tmp_path: Path) -> None:
    clock = Clock()
    holder = elsewhere(tmp_path, clock)
    clock.sleep(EXPIRES_AFTER_S)
    assert holder.lost is None

    clock.sleep(1.0)

    assert holder.lost is not None
    assert LOST_AFTER_S > EXPIRES_AFTER_S + RENEW_EVERY_S


def test_a_lease_that_lapsed_is_held_again_once_it_is_renewed_and_the_lapse_is_counted(tmp_path: Path) -> None:
    clock = Clock()
    holder = elsewhere(tmp_path, clock)
    clock.sleep(EXPIRES_AFTER_S)
    holder.renew()
    assert holder.lapses == 0

    clock.sleep(EXPIRES_AFTER_S + 1)
    assert (holder.lost is not None, holder.is_gone) == (True, False)
    holder.renew()
    assert (holder.lost, holder.is_gone, holder.lapses) == (None, False, 1)

    clock.sleep(EXPIRES_AFTER_S + 1)
    holder.renew()
    assert holder.lapses == 2, "also where nobody looked at it meanwhile"


class SlowFolder(LocalFolder):
    """A folder that does something else between the request to replace a file and its answer."""

    meanwhile: Callable[[], object] | None = None

    def replace(self, name: str, text: str) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        super().replace(name, text)


def written_late(folder: Path, clock: Clock) -> tuple[Lease, Lease]:
    """A former holder whose last renewal was written after another sink had taken over, and that sink."""
    slow = SlowFolder(folder)
    holder = replace(this_process("former"), host="elsewhere")
    former = Lease(slow, name="former", where="/lake/_dblog", now_s=lambda: clock.now_s, holder=holder)
    former.renew()
    clock.sleep(EXPIRES_AFTER_S + 1)
    heir = lease(folder, clock)
    slow.meanwhile = lambda: heir.take(sleep=clock.sleep)
    former.renew()
    assert holder_in(folder).name == "former"
    return former, heir


def test_a_renewal_that_is_written_after_a_takeover_ends_its_writer_and_not_the_taker(tmp_path: Path) -> None:
    former, heir = written_late(tmp_path, Clock())

    heir.renew()
    former.renew()

    assert heir.lost is None
    assert former.is_gone
    assert holder_in(tmp_path).name == "shop"
    heir.give_back()


def test_a_renewal_counts_from_before_its_write_however_long_that_takes(tmp_path: Path) -> None:
    """Another sink counts from when it sees the lease change, which may be as soon as the write begins."""
    clock, slow = Clock(), SlowFolder(tmp_path)
    held = Lease(slow, name="shop", where="/lake/_dblog", now_s=lambda: clock.now_s)
    held.renew()
    slow.meanwhile = lambda: clock.sleep(EXPIRES_AFTER_S + 1)

    held.renew()

    assert (held.lost is not None, held.is_gone) == (True, False)


def test_a_sink_that_the_fence_has_stopped_leaves_its_lease_though_nobody_took_that(tmp_path: Path) -> None:
    clock = Clock()
    held = lease(tmp_path, clock)
    held.take(sleep=clock.sleep)

    held.give_back(ended_well=False)

    assert (tmp_path / FILE).exists(), "another sink is at work, and the next one has to claim its tables"


def test_a_sink_that_is_no_more_the_holder_takes_no_lease_away(tmp_path: Path) -> None:
    """Without a lease the next sink would take it that none is running, and claim no table."""
    clock = Clock()
    former, heir = written_late(tmp_path, clock)
    former._thread = threading.Thread(target=lambda: None)
    former._thread.start()
    former.give_back(ended_well=False)
    assert (tmp_path / FILE).exists(), "the fence has shown it another sink"
    heir.renew()
    heir._ended.set()
    heir._thread.join()  # type: ignore[union-attr]
    clock.sleep(EXPIRES_AFTER_S + 1)
    heir.give_back()

    assert (tmp_path / FILE).exists(), "its lease has lapsed, and another sink may take it at this moment"


def test_a_lease_that_another_sink_took_is_never_held_again(tmp_path: Path) -> None:
    clock = Clock()
    holder = elsewhere(tmp_path, clock)
    clock.sleep(LOST_AFTER_S)
    write(tmp_path, replace(this_process("other"), host="elsewhere"))
    holder.renew()
    assert holder.is_gone

    (tmp_path / FILE).unlink()

    assert holder.is_gone
    assert holder.lost is not None


@pytest.mark.parametrize("text", ["", "{}", '{"id": "x", "of": "a later version"}', "no json"])
def test_a_lease_that_does_not_state_who_holds_it_is_waited_for_like_any_other(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    clock = Clock()
    began_s = clock.now_s

    taken = lease(tmp_path, clock)
    taken.take(wait_max_s=0, sleep=clock.sleep)

    assert clock.now_s - began_s >= LOST_AFTER_S
    taken.give_back()


def test_of_two_that_take_a_stale_lease_over_at_once_one_has_it(tmp_path: Path) -> None:
    clock = Clock()
    elsewhere(tmp_path, clock)
    first, second = this_process("first"), this_process("second")

    def sleep(pause_s: float) -> None:
        """When the first has written its name, the second, which saw the same, writes its own."""
        clock.sleep(pause_s)
        if holder_in(tmp_path).id == first.id:
            write(tmp_path, second)

    with pytest.raises(DefiniteError, match="another sink runs on /lake/_dblog: second, process"):
        lease(tmp_path, clock, first).take(sleep=sleep)
    assert holder_in(tmp_path) == second


def test_a_sink_whose_lease_was_removed_by_hand_writes_it_again_unless_another_one_was_faster(tmp_path: Path) -> None:
    clock = Clock()
    holder = elsewhere(tmp_path, clock)
    written = holder_in(tmp_path)
    (tmp_path / FILE).unlink()
    holder.renew()
    assert holder.lost is None
    assert holder_in(tmp_path).id == written.id

    (tmp_path / FILE).unlink()
    elsewhere(tmp_path, clock)
    holder.renew()

    assert holder.lost is not None


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"name": "other"}, "it belongs to the pipeline dblog-sink"),
        ({"state.path": "/elsewhere"}, "its tables' state is in {base}/_dblog"),
        ({"topics": "p.a.c"}, "it has read p.a.b, and topics does not name them any more"),
        ({"position": "topic"}, "position=source"),
    ],
)
def test_a_checkpoint_of_another_configuration_is_refused_with_the_way_out(tmp_path: Path, change: dict[str, str], reported: str) -> None:
    folder = LocalFolder(tmp_path)
    checkpoint_binding.check(folder, job_options.parse(LEAST), "cluster-1")

    with pytest.raises(DefiniteError, match="is of another configuration") as caught:
        checkpoint_binding.check(folder, job_options.parse(LEAST | change), "cluster-1")

    assert reported in str(caught.value)
    assert "checkpoint.path of its own" in str(caught.value)
    assert "the tables come out the same" in str(caught.value)


def test_a_checkpoint_of_another_cluster_does_not_promise_the_same_tables(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    checkpoint_binding.check(folder, job_options.parse(LEAST), "cluster-1")

    with pytest.raises(
        DefiniteError, match="those of the Kafka cluster cluster-1.* leads to cluster-2.* is parked, to be dumped again"
    ) as caught:
        checkpoint_binding.check(folder, job_options.parse(LEAST), "cluster-2")

    assert "come out the same" not in str(caught.value)


def test_a_checkpoint_goes_with_its_lake_and_takes_topics_on(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    checkpoint_binding.check(folder, job_options.parse(LEAST), "cluster-1")

    checkpoint_binding.check(folder, job_options.parse(LEAST | {"target.path": "/moved", "topics": "p.a.b,p.a.c,p.a.d"}), "")

    with pytest.raises(DefiniteError, match="Kafka cluster cluster-1"):
        checkpoint_binding.check(folder, job_options.parse(LEAST | {"topics": "p.a.b,p.a.c,p.a.d"}), "cluster-2")


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (("/lake", None), ("file:///lake/", None)),
        (("file:/lake", None), ("/lake", "file:///lake/_dblog/")),
        (("/lake", "file:/lake/_dblog"), ("file://localhost/lake", None)),
        (("s3a://lake//a", "s3a://state"), ("s3a://lake/a/", "s3a://state/")),
        (("/lake", "/lakeshop"), ("/lake/", "file:///lakeshop")),
        (("/lake", "/lake"), ("/moved", "/moved/")),
    ],
)
def test_a_checkpoint_goes_on_where_its_folders_are_spelt_otherwise(
    tmp_path: Path, first: tuple[str, str | None], then: tuple[str, str | None]
) -> None:
    folder = LocalFolder(tmp_path)

    for base, state in (first, then, first):
        given = LEAST | {"target.path": base} | ({} if state is None else {"state.path": state})
        checkpoint_binding.check(folder, job_options.parse(given), "cluster-1")


def test_a_checkpoint_of_an_older_sink_goes_on_though_its_state_only_begins_with_the_text_of_the_base(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    settings = job_options.parse(LEAST | {"target.path": "/lake", "state.path": "/lakeshop/state"})
    folder.replace(checkpoint_binding.FILE, json.dumps(checkpoint_binding.described(settings, "") | {"state": "{base}shop/state"}))

    checkpoint_binding.check(folder, settings, "")


def test_a_state_beside_the_base_is_another_one_after_the_lake_has_moved(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    checkpoint_binding.check(folder, job_options.parse(LEAST | {"target.path": "/lake", "state.path": "/lakeshop"}), "")

    with pytest.raises(DefiniteError, match="its tables' state is in /lakeshop, and the configuration has /othershop"):
        checkpoint_binding.check(folder, job_options.parse(LEAST | {"target.path": "/other", "state.path": "/othershop"}), "")


def test_a_state_that_cannot_be_written_is_a_sentence(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = str(tmp_path / "file" / "lake")
    settings = job_options.parse(LEAST | {"target.path": path})

    with pytest.raises(DefiniteError, match=rf"^{path}/_dblog \(state.path.*\) cannot be written: NotADirectoryError"):
        start.fenced(spark, settings, Lease(LocalFolder(Path(settings.state_path)), name="shop", where=path))
