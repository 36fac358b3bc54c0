"""One table that several readers read at once, of dense, sparse and composite keys, under writes and kills: the fold of the output is the source, and the chunks
of each table are a whole. # I2 I3 I9
"""

from __future__ import annotations

import itertools
import json
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from stack.database import Database
from support.follower import Follower, Row
from support.servers import execute, new_database

pytestmark = pytest.mark.either_server

ROWS = 4000
TABLES = ("dense", "sparse", "texts")


class ChainFollower(Follower):
    """Keeps the chunk markers."""

    def __init__(self, *arguments: Any, **config: str) -> None:
        super().__init__(*arguments, **config)
        self.markers: list[Row] = []
        self.marked = lambda value: self.markers.append(json.loads(value))

    def chunks(self, dump: str, table: str) -> list[Row]:
        """Of one table, since it began last."""
        found = [m for m in self.markers if m["dump"] == dump and m["table"].endswith(f".{table}")]
        begin = max(n for n, m in enumerate(found) if m["begins"])
        return found[begin:]

    def check_chain(self, dump: str, table: str) -> int:
        """Chunks lead from the beginning to the end, no run has made one twice, and none is there without an end. How often the next one was of another range."""
        chunks = self.chunks(dump, table)
        ahead, met = [m for m in chunks if m["begins"]], set()
        final = False
        while ahead:
            one = ahead.pop()
            final |= one["final"]
            if one["range_upto"] not in met:
                met.add(one["range_upto"])
                ahead += [m for m in chunks if not m["begins"] and m["range_after"] == one["range_upto"]]
        assert final, f"the chunks of {table} do not lead to its end"
        by_run: dict[str, list[str]] = {}
        for m in chunks:
            by_run.setdefault(m["chunk_id"].rpartition("/")[0], []).append(m["range_after"])
        assert all(len(befores) == len(set(befores)) for befores in by_run.values()), "a range was sent twice by one run"
        return sum(b["range_after"] != a["range_upto"] for a, b in itertools.pairwise(chunks))


@pytest.fixture
def shop(source: Database) -> Iterator[Callable[..., ChainFollower]]:
    """Makes followers of tables whose rows are older than the connector."""
    database = new_database(source, "ways")
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})"
    limit = "SET SESSION max_recursive_iterations = 10000" if source.flavor == "mariadb" else "SET SESSION cte_max_recursion_depth = 10000"
    execute(
        source,
        limit,
        "CREATE TABLE dense (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE sparse (id BIGINT PRIMARY KEY, v INT)",
        "CREATE TABLE texts (sku VARCHAR(40) COLLATE utf8mb4_unicode_ci, line INT, v INT, PRIMARY KEY (sku, line))",
        f"INSERT INTO dense {numbers} SELECT i, i FROM n",
        f"INSERT INTO sparse {numbers} SELECT IF(i % 100, i, -4000000000000000000 + i * 1000000000000000), i FROM n",
        f"INSERT INTO texts {numbers} SELECT CONCAT(IF(i % 2, 'É', 'e'), LEFT(SHA2(i % 700, 256), 30)), i, i FROM n",
        *[f"ANALYZE TABLE {table}" for table in TABLES],
        database=database,
    )
    made: list[ChainFollower] = []

    def make(**config: str) -> ChainFollower:
        own = {"dblog.chunk.rows": "50", "dblog.metrics.server.interval.ms": "100", **config}
        follower = ChainFollower(source, database, **own)
        made.append(follower)
        return follower

    yield make
    for follower in made:
        follower.task.stop()


class Writes:
    """Statements of another session, at random, until the end of the block."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        chance = random.Random(19)
        n = 0
        while not self._stop.is_set():
            n += 1
            one, other = chance.randrange(1, ROWS), chance.randrange(1, ROWS)
            self._follower.sql(
                f"UPDATE dense SET v = v + 1 WHERE id BETWEEN {one} AND {one + 20}",
                f"DELETE FROM dense WHERE id = {other}",
                f"UPDATE sparse SET v = v + 1 WHERE id = {one}",
                f"UPDATE sparse SET id = -id WHERE id = {other}",
                f"UPDATE texts SET line = line + 100000 WHERE line = {one}",
                f"DELETE FROM texts WHERE line = {other}",
                f"INSERT INTO texts VALUES ('e{n:05}', {n}, NULL) ON DUPLICATE KEY UPDATE v = {n}",
                f"INSERT INTO dense VALUES ({100_000 + n}, NULL) ON DUPLICATE KEY UPDATE v = {n}",
            )


def sent(follower: Follower, table: str) -> int:
    return sum(1 for name, record in follower.values if name == table and record is not None and record["op"] == "r")


@pytest.mark.parametrize("table", TABLES)
def test_four_readers_of_one_table_that_is_asked_for_give_the_source_over_kills_under_writes(shop: Any, table: str) -> None:
    follower = shop(**{"snapshot.mode": "no_data"}).start()
    with Writes(follower):
        request = follower.ask(rf"{follower.database}\.{table}", parallelism=4, mode="repair")
        for rows in (700, 2000):
            follower.until(lambda rows=rows: sent(follower, table) >= rows)
            follower.restart()
        follower.until_state(request, "DONE")

    follower.until_equal(table)
    assert follower.check_chain(request.id, table) > 10, "the table was not read by several"
    assert sent(follower, table) < 1.5 * ROWS, "ranges that were read are not read again"


def test_the_first_dump_reads_large_tables_by_several_readers_each(shop: Any) -> None:
    follower = shop(**{"snapshot.mode": "initial", "dblog.dump.threads": "5"}).start()
    with Writes(follower):
        follower.until(lambda: sent(follower, "dense") >= 1000)
        follower.restart()
        follower.until_dumped()

    for table in TABLES:
        follower.until_equal(table)
    assert sum(follower.check_chain("initial", table) for table in TABLES) > 10
