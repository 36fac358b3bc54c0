"""Dozens of small tables, and thousands: dumped while they are written and altered; killed and started again; equal at the end. # I3"""

from __future__ import annotations

import contextlib
import random
import resource
import statistics
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pymysql
import pytest
from dblog.core import dumps
from dblog.core.dumps import dump_to_text
from dblog.errors import TransientError
from dblog.readers.run import offset as offsets
from stack.database import Database
from stack.process import wait_until
from support import task_follower
from support.follower import Follower
from support.servers import connected, execute, new_database

pytestmark = pytest.mark.either_server

ROWS = 4


class Shop:
    """A database of many tables, written by a thread until ``stop``."""

    def __init__(self, source: Database, tables: int, *, seed: int) -> None:
        self.source = source
        self.database = new_database(source, "many")
        self.names = [f"t{n:05}" for n in range(tables)]
        self.dice = random.Random(seed)
        self.stopped = threading.Event()
        self.writes = 0
        self.alters_left = 4 * tables  # each has a table dumped again: without an end to them, a dump on a busy machine has none
        self._thread = threading.Thread(target=self._write)
        with connected(source, database=self.database) as connection, connection.cursor() as cursor:
            for at, name in enumerate(self.names):
                cursor.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(40) NOT NULL)")
                if at % 7:  # some are empty
                    cursor.execute(f"INSERT INTO {name} VALUES {', '.join(f'({n}, {at})' for n in range(ROWS))}")

    def begin(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _write(self) -> None:
        with connected(self.source, database=self.database) as connection, connection.cursor() as cursor:
            while not self.stopped.is_set():
                self.writes += 1
                with contextlib.suppress(pymysql.err.IntegrityError, pymysql.err.ProgrammingError, pymysql.err.OperationalError):
                    cursor.execute(self._change())

    def _change(self) -> str:
        name, id_ = self.dice.choice(self.names), self.dice.randrange(ROWS + 3)
        kind = self.dice.random()
        if kind < 0.02 and self.alters_left:
            self.alters_left -= 1
            return f"ALTER TABLE {name} ADD COLUMN c{self.writes} INT DEFAULT {self.writes}"
        if kind < 0.3:
            return f"UPDATE {name} SET id = {self.dice.randrange(ROWS + 3)} WHERE id = {id_}"
        if kind < 0.5:
            return f"DELETE FROM {name} WHERE id = {id_}"
        return f"REPLACE INTO {name} (id, v) VALUES ({id_}, {self.writes})"

    def tables(self) -> list[str]:
        return [str(name) for (name,) in execute(self.source, "SHOW TABLES", database=self.database)]


@pytest.fixture
def shop_of(source: Database) -> Iterator[Any]:
    made: list[tuple[Shop, Follower]] = []

    def make(tables: int, *, seed: int = 1, **config: str) -> tuple[Shop, Follower]:
        shop = Shop(source, tables, seed=seed)
        made.append((shop, Follower(source, shop.database, **config)))
        return made[-1]

    yield make
    for shop, follower in made:
        shop.stop()
        follower.task.stop()


def tables_done(follower: Follower) -> int:
    dump = follower.task.running.progress.own
    return 0 if dump is None else dump.tables_done


def restarted(follower: Follower) -> bool:
    """Whether the task could start; the worker too tries again while tables are altered faster than the catalog can be read."""
    try:
        follower.restart()
    except TransientError:
        return False
    return True


@pytest.mark.parametrize(
    ("seed", "tables"),
    [pytest.param(1, 24, id="few"), *(pytest.param(seed, 60, marks=pytest.mark.long, id=str(seed)) for seed in (1, 2, 3))],
)
def test_dozens_of_small_tables_are_equal_in_the_end_though_they_are_written_and_altered_and_the_task_is_killed_in_between(
    shop_of: Any, seed: int, tables: int
) -> None:
    shop, follower = shop_of(tables, seed=seed, **{"dblog.dump.threads": str(seed)})
    follower.start()
    shop.begin()  # a first start reads the catalog, which has to be left alone for a moment: a busy machine would not get to it
    for share in (0.2, 0.6):
        follower.until(lambda share=share: tables_done(follower) > share * len(shop.names))
        wait_until(partial(restarted, follower), timeout_s=60, what="a start while tables are altered")
    follower.until_dumped()
    shop.stop()

    assert shop.writes > 50
    for table in shop.tables():
        follower.until_equal_by_name(table)


def resident_mib() -> float:
    """At the most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def check_thousands(shop: Shop, follower: Follower, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[float]]:
    """Start, run, killed in the middle, start again: equal in the end. The longest text of the dump's state, and how long making each took."""
    lengths: list[int] = []
    times_s: list[float] = []

    def measured(dump: Any) -> str:
        began_s = time.thread_time()
        text = dump_to_text(dump)
        times_s.append(time.thread_time() - began_s)
        lengths.append(len(text))
        return text

    monkeypatch.setattr(offsets, "dump_to_text", measured)
    follower.start()
    follower.until(lambda: tables_done(follower) > len(shop.names) / 2)
    follower.restart()
    done = tables_done(follower)
    follower.until_dumped()

    assert done >= len(shop.names) / 4, "most of what was done is not done again"
    with connected(shop.source, database=shop.database) as connection, connection.cursor() as cursor:
        for name in shop.names:
            if name in follower.rows:
                assert len(follower.rows[name]) == ROWS
            else:
                assert not cursor.execute(f"SELECT 1 FROM {name} LIMIT 1"), name
    return max(lengths), times_s


def test_the_dump_of_many_tables_goes_on_after_a_kill_and_its_state_stays_short(shop_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dumps, "LISTED_FROM_TABLES", 10)
    shop, follower = shop_of(100)

    longest, _ = check_thousands(shop, follower, monkeypatch)

    assert longest < 1_500, "the names of the tables are in a list beside it"
    follower.restart()
    assert [value for key, value in follower.history.records if key is not None and b'"list"' in key][-1] is None


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_dump_of_ten_thousand_tables_goes_on_after_a_kill_and_its_state_stays_short(
    shop_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_follower, "TIMEOUT_S", 900.0)
    shop, follower = shop_of(10_000)

    before_mib, began_s = resident_mib(), time.monotonic()

    longest, times_s = check_thousands(shop, follower, monkeypatch)

    print(
        f"the dump took {time.monotonic() - began_s:.0f} s, with a restart; its state has at most {longest} characters; making it takes "
        f"{statistics.mean(times_s) * 1000:.1f} ms, at most {max(times_s) * 1000:.1f} ms; the process grew by at most {resident_mib() - before_mib:.0f} MiB"
    )
    assert longest < 2_000
    assert statistics.mean(times_s) < 0.05
    assert resident_mib() - before_mib < 1_000
