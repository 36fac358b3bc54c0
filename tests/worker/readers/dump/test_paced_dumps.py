"""A whole task in memory whose dumps become slower, are held and let go at random: no table is forgotten, none is read while they are held. # I3"""

from __future__ import annotations

import random

import pytest
from dblog.core.pressure import FREE, HELD, SLOWEST, Limit, Pace
from dblog.readers.dump import governing
from support.fake_database.follower import FakeFollower
from support.fake_database.given import GivenFake

TABLES = ("a", "b", "c", "e", "f")
ROWS = 60


def given_tables(rows: int = ROWS) -> GivenFake:
    given = GivenFake()
    for table in TABLES:
        given.create(table)
        given.insert(table, *((n, "old") for n in range(rows)))
    return given


def follower_of(given: GivenFake, *, threads: int = 3, **config: str) -> FakeFollower:
    return given.follow(**{"dblog.dump.threads": str(threads), "dblog.chunk.rows": "5", "dblog.metrics.server.interval.ms": "0", **config})


@pytest.mark.parametrize("seed", range(4))
def test_whatever_the_pace_does_every_dump_comes_to_its_end_and_the_output_is_the_source(seed: int) -> None:
    chance, given, n = random.Random(seed), given_tables(), 0
    given.insert("a", *((n, "old") for n in range(1000, 1400)))  # which several readers read at once
    follower = follower_of(given, **{"dblog.dump.limit.log.lag.ms": "0", "dblog.metrics.server.interval.ms": "20"}).start()
    requested = follower.ask(r"d\.(a|b|c)", parallelism=3, priority=chance.randrange(2))
    try:
        dumping = follower.task.running.dumping
        for _ in range(40):
            dumping.pace(Pace(chance.choice((0, 1, 2, SLOWEST, HELD, HELD))))
            for _ in range(chance.randrange(4)):
                n += 1
                given.update(chance.choice(TABLES), chance.randrange(ROWS), f"new {n}")
                follower.poll()
        dumping.pace(FREE)
        follower.until_dumped()
        follower.until_state(requested, "DONE")
        for table in TABLES:
            follower.until_equal(table)
    finally:
        follower.task.stop()


def test_while_dumps_are_held_no_chunk_is_read_and_no_reader_is_left_and_the_log_goes_on() -> None:
    given = given_tables(150)
    follower = follower_of(given).start()
    try:
        running = follower.task.running
        follower.until(lambda: follower.ops("a"))
        running.dumping.pace(Pace(HELD))
        follower.until(lambda: not any(thread.name.startswith("dump-") for thread in running._run.threads._threads if thread.is_alive()))  # noqa: SLF001
        follower.until(lambda: running.metrics()["queue_records"] == 0 and running.metrics()["windows_open"] == 0)
        read = len(follower.values)
        given.update("e", 1, "new")
        follower.until(lambda: "u" in follower.ops("e"))
        assert len(follower.values) == read + 1

        running.dumping.pace(FREE)
        follower.until_dumped()
    finally:
        follower.task.stop()


def test_slower_dumps_have_fewer_readers_and_get_them_back() -> None:
    given = given_tables(5000)
    follower = follower_of(given, threads=4).start()
    try:
        running = follower.task.running

        def readers() -> int:
            return sum(thread.name.startswith("dump-") and thread.is_alive() for thread in running._run.threads._threads)  # noqa: SLF001

        follower.until(lambda: readers() == 4)
        running.dumping.pace(Pace(2))
        follower.until(lambda: readers() == 1)
        running.dumping.pace(FREE)
        follower.until(lambda: readers() == 4)
    finally:
        follower.task.stop()


def test_a_source_that_is_pressed_holds_its_dumps_and_one_that_is_not_any_more_gets_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(governing, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr("dblog.core.pressure.EASIER_EVERY_S", 0.02)
    given = given_tables()
    given.server.load = {Limit.THREADS_RUNNING: 50.0}
    follower = follower_of(given, **{"dblog.dump.limit.threads.running": "10"}).start()
    try:
        follower.until(lambda: (own := follower.status("initial")) is not None and own["governor"]["state"] == "held")
        given.server.load = {Limit.THREADS_RUNNING: 1.0}
        follower.until_dumped()
        for table in TABLES:
            follower.until_equal(table)
    finally:
        follower.task.stop()
