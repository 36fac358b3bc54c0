"""Signals of a table in the log, over a small database in memory: wherever a task is killed, each is carried out once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from dblog.model import TableId
from support.fake_database.database import FakeDatabase
from support.fake_database.dialect import SIGNALS
from support.fake_database.follower import DATABASE, FakeFollower

ROWS = 40
T, U = (TableId(DATABASE, name) for name in "tu")
BOTH = '{"data-collections": ["d.t", "d.u"]}'


@pytest.fixture
def follow() -> Iterator[Callable[..., FakeFollower]]:
    followers: list[FakeFollower] = []

    def make(**config: str) -> FakeFollower:
        database = FakeDatabase()
        for table in (T, U):
            database.execute(f"CREATE TABLE {table.name} (id int, name text, PRIMARY KEY (id))")
            database.insert(table, *((n, f"row {n}") for n in range(ROWS)))
        database.execute("CREATE TABLE signals (id text, type text, data text, PRIMARY KEY (id))")
        own = {
            "snapshot.mode": "no_data",
            "incremental.snapshot.chunk.size": "8",
            "notification.enabled.channels": "sink",
            "notification.sink.topic.name": "told",
        }
        followers.append(FakeFollower(database, **{**own, **config}))
        return followers[-1].start()

    yield make
    for follower in followers:
        follower.task.stop()


def told(follower: FakeFollower, identity: str) -> list[str]:
    return [each["type"] for each in follower.notifications if each["id"] == identity]


@pytest.mark.parametrize("polls", [*range(12), 15, 20])
def test_a_signal_is_carried_out_once_wherever_its_task_is_killed(follow: Any, polls: int) -> None:
    follower = follow()
    follower.database.insert(SIGNALS, ("s", "execute-snapshot", BOTH), ("p", "pause-snapshot", ""), ("r", "resume-snapshot", ""))
    follower.database.update(T, (3, "changed"))
    follower.database.delete(U, (4,))

    for _ in range(polls):
        follower.poll(records_max=1)
    follower.restart()
    follower.until(lambda: "COMPLETED" in told(follower, "s"))

    steps = told(follower, "s")
    assert (steps.count("STARTED"), steps.count("COMPLETED"), steps.count("TABLE_SCAN_COMPLETED")) == (1, 1, 2)
    assert [step for step in steps if step in ("PAUSED", "RESUMED")] == ["PAUSED", "RESUMED"]
    for table in ("t", "u"):
        follower.until_equal(table)
    assert "signals" not in follower.rows


def test_nobody_is_notified_who_has_not_asked_for_it(follow: Any) -> None:
    follower = follow(**{"notification.enabled.channels": "jmx"})

    follower.database.insert(SIGNALS, ("s", "execute-snapshot", BOTH))

    follower.until_equal("t")
    assert follower.notifications == []


FILTERED = '{"data-collections": ["d.t", "d.u"], "additional-conditions": [{"data-collection": "d.t", "filter": "name LIKE \'%1\'"}]}'


# number 25 of the worker's safety
def test_a_filter_is_refused_where_filters_are_switched_off_and_a_signal_without_one_is_obeyed(follow: Any) -> None:
    follower = follow(**{"dblog.signals.filters": "false"})

    follower.database.insert(SIGNALS, ("filtered", "execute-snapshot", FILTERED), ("plain", "execute-snapshot", BOTH))
    follower.until(lambda: "COMPLETED" in told(follower, "plain"))

    assert told(follower, "filtered") == []
    signals = follower.task.running.signals
    assert (signals.taken_total, signals.refused_total) == (1, 1)


def test_filters_that_are_switched_off_end_the_dumps_that_they_began(follow: Any) -> None:
    follower = follow()
    follower.database.insert(
        SIGNALS, ("pause", "execute-snapshot", FILTERED), ("plain", "execute-snapshot", BOTH), ("p", "pause-snapshot", "")
    )
    follower.until(lambda: "PAUSED" in told(follower, "pause") and "PAUSED" in told(follower, "plain"))
    # Readers are threads, so some windows may have closed before the log came to the pause.
    rows_of_paused = {one["id"]: one["rows"] for one in follower.task.running.desk.statuses()}

    follower.config["dblog.signals.filters"] = "false"
    follower.restart()
    follower.database.insert(SIGNALS, ("r", "resume-snapshot", ""))
    follower.until(lambda: "COMPLETED" in told(follower, "plain"))

    (failed,) = (one for one in follower.task.running.desk.statuses() if "dblog.signals.filters" in (one["reason"] or ""))
    assert failed["state"] == "FAILED"
    assert failed["rows"] <= rows_of_paused[failed["id"]]
