"""One sink at a time, and a checkpoint for one configuration only."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from dblog_sink import binding, config
from dblog_sink.errors import DefiniteError
from dblog_sink.files import LocalFolder
from dblog_sink.lease import FILE, LOST_AFTER_S, Lease, started_at, this_process

LEAST = {"kafka.bootstrap.servers": "b:9092", "topics": "p.a.b,p.a.c", "registry.url": "http://r", "target.path": "/lake/"}


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def sleep(self, pause_s: float) -> None:
        self.now_s += pause_s


def lease(folder: Path, clock: Clock) -> Lease:
    return Lease(LocalFolder(folder), name="shop", where="/lake/_dblog", now_s=lambda: clock.now_s)


def test_the_second_sink_refuses_and_says_who_runs(tmp_path: Path) -> None:
    clock = Clock()
    first, second = lease(tmp_path, clock), lease(tmp_path, clock)
    first.take()
    try:
        with pytest.raises(DefiniteError, match=r"another sink runs on /lake/_dblog: shop, process \d+ on .*Stop it first"):
            second.take(sleep=clock.sleep)
    finally:
        first.give_back()

    second.take(sleep=clock.sleep)
    second.give_back()
    assert not (tmp_path / FILE).exists()


def test_a_sink_that_was_killed_here_leaves_a_lease_that_can_be_taken_at_once(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    clock = Clock()
    dead = replace(this_process("shop", clock.now_s), pid=process.pid, started=started_at(process.pid) or "")
    (tmp_path / FILE).write_text(json.dumps(asdict(dead)))
    heir = lease(tmp_path, clock)
    with pytest.raises(DefiniteError, match="another sink runs"):
        heir.take(sleep=clock.sleep)

    process.kill()
    process.communicate()
    heir.take(wait_max_s=0)

    heir.give_back()


def test_a_sink_elsewhere_is_given_up_after_a_minute_and_stops_when_it_wakes(tmp_path: Path) -> None:
    clock = Clock()
    slept = lease(tmp_path, clock)
    slept._mine = replace(slept._mine, host="elsewhere")
    (tmp_path / FILE).write_text(json.dumps(asdict(slept._mine)))
    heir = lease(tmp_path, clock)
    with pytest.raises(DefiniteError, match="on elsewhere"):
        heir.take(sleep=clock.sleep)

    clock.sleep(LOST_AFTER_S)
    heir.take(wait_max_s=0)
    slept.renew()

    assert slept.lost is not None
    assert "has taken /lake/_dblog over" in slept.lost
    heir.renew()
    assert heir.lost is None
    heir.give_back()


def test_a_lease_that_was_never_written_holds_up_nobody(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("")

    taken = lease(tmp_path, Clock())
    taken.take(wait_max_s=0)

    taken.give_back()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"name": "other"}, "it belongs to the pipeline dblog-sink"),
        ({"state.path": "/elsewhere"}, "its tables' state is in {base}/_dblog"),
        ({"topics": "p.a.c"}, "it has read p.a.b, and topics does not name them any more"),
        ({"position": "topic"}, "position=source"),
    ],
)
def test_a_checkpoint_of_another_configuration_is_refused_with_the_way_out(tmp_path: Path, change: dict[str, str], told: str) -> None:
    folder = LocalFolder(tmp_path)
    binding.check(folder, config.parse(LEAST), "cluster-1")

    with pytest.raises(DefiniteError, match="is of another configuration") as caught:
        binding.check(folder, config.parse(LEAST | change), "cluster-1")

    assert told in str(caught.value)
    assert "checkpoint.path of its own" in str(caught.value)


def test_a_checkpoint_goes_with_its_lake_and_takes_topics_on(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    binding.check(folder, config.parse(LEAST), "cluster-1")

    binding.check(folder, config.parse(LEAST | {"target.path": "/moved", "topics": "p.a.b,p.a.c,p.a.d"}), "")

    with pytest.raises(DefiniteError, match="Kafka cluster cluster-1"):
        binding.check(folder, config.parse(LEAST | {"topics": "p.a.b,p.a.c,p.a.d"}), "cluster-2")
