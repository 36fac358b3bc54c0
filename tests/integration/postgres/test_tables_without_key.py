"""Dumps of tables without a key: in chunks of pages, beside writes, over kills, and where rows move without a trace in the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from stack import Postgres
from support.in_windows import SourceWithWindows
from support.postgres import execute
from support.postgres_follower import PostgresFollower, drop_slots

ROWS = 5000


@pytest.fixture
def database(postgres: Postgres, postgres_database: str) -> Iterator[str]:
    execute(
        postgres,
        "CREATE TABLE t (n INT, v TEXT)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        f"INSERT INTO t SELECT n, 'row ' || n || repeat('.', n % 200) FROM generate_series(1, {ROWS}) n",
        database=postgres_database,
    )
    yield postgres_database
    drop_slots(postgres, postgres_database)


class Folded(PostgresFollower):
    """A consumer that keeps the rows of `t` by their column `n`, which no two rows share."""

    def latest(self, table: str = "t") -> dict[int, str]:
        rows: dict[int, str] = {}
        for name, record in self.values:
            if name == table and record is not None:
                if record["before"] is not None:
                    rows.pop(record["before"]["n"], None)
                if record["after"] is not None:
                    rows[record["after"]["n"]] = record["after"]["v"]
        return rows

    def there(self, table: str = "t") -> dict[int, str]:
        return {int(n): str(v) for n, v in execute(self.server, f"SELECT n, v FROM {table}", database=self.database)}

    def dumped(self, table: str = "t") -> list[int]:
        return [record["after"]["n"] for name, record in self.values if name == table and record is not None and record["op"] == "r"]


def between_chunks(follower: Folded, *actions: Callable[[], None]) -> list[Callable[[], None]]:
    """Have the follower's dump do these behind its first chunks, one each. Returns those that are left."""
    left = list(actions)

    def inside(_last_key: tuple[object, ...]) -> None:
        if left and len(follower.dumped()) > 0:
            left.pop(0)()

    follower.wrapped = lambda source: SourceWithWindows(source, inside)
    follower.task = follower.new_task()
    return left


def test_a_table_without_key_is_dumped_in_chunks_and_each_row_comes_once(postgres: Postgres, database: str) -> None:
    follower = Folded(postgres, database, **{"dblog.chunk.rows": "500"})
    begun: list[int] = []
    between_chunks(follower, *[lambda: begun.append(len(follower.dumped()))] * 3)
    follower.start()
    follower.until_dumped()
    follower.task.stop()

    assert sorted(follower.dumped()) == list(range(1, ROWS + 1))
    assert len(begun) == 3
    assert 0 < begun[0] < ROWS, "rows of a chunk leave before the last is read"


def test_rows_that_are_changed_between_the_chunks_are_as_the_log_has_them(postgres: Postgres, database: str) -> None:
    follower = Folded(postgres, database, **{"dblog.chunk.rows": "500"})
    left = between_chunks(
        follower,
        lambda: follower.sql("DELETE FROM t WHERE n % 3 = 0", "VACUUM t"),
        lambda: follower.sql("UPDATE t SET v = 'moved ' || n WHERE n % 5 = 0"),  # into the pages that are empty now, in front of the reader
        lambda: follower.sql(f"INSERT INTO t SELECT n, 'new' FROM generate_series({ROWS + 1}, {ROWS + 700}) n"),
    )
    follower.start()
    follower.until_dumped()
    follower.until(lambda: follower.latest() == follower.there())
    follower.task.stop()

    assert not left


@pytest.mark.parametrize("statement", ["VACUUM FULL t", "TRUNCATE t", "ALTER TABLE t ADD w TEXT DEFAULT clock_timestamp()::text"])
def test_a_table_that_is_written_anew_between_two_chunks_is_dumped_from_its_begin(
    postgres: Postgres, database: str, statement: str
) -> None:
    follower = Folded(postgres, database, **{"dblog.chunk.rows": "500", "skipped.operations": "none"})
    left = between_chunks(
        follower,
        lambda: follower.sql("DELETE FROM t WHERE n < 1000"),  # so that VACUUM FULL moves rows forward, past the reader
        lambda: follower.sql(statement),
    )
    follower.start()
    follower.until_dumped()
    follower.sql("INSERT INTO t VALUES (0, 'last')")
    follower.until(lambda: 0 in follower.latest())
    follower.task.stop()

    assert not left
    if not statement.startswith("TRUNCATE"):
        assert follower.latest() == follower.there()
    assert set(follower.there()) - {0} <= set(follower.dumped())


def test_a_dump_goes_on_at_its_page_behind_a_restart(postgres: Postgres, database: str) -> None:
    follower = Folded(postgres, database, **{"dblog.chunk.rows": "500"})
    follower.start()
    follower.until(lambda: len(follower.dumped()) >= ROWS // 4)
    follower.restart()
    follower.until_dumped()
    follower.sql("INSERT INTO t VALUES (0, 'last')")
    follower.until(lambda: 0 in follower.latest())
    follower.task.stop()

    assert follower.latest() == follower.there()
    assert len(follower.dumped()) < ROWS + 2 * ROWS // 4, "what was stored is not read again"


@pytest.mark.parametrize("by_root", ["false", "true"])
def test_the_pages_of_all_partitions_are_read(postgres: Postgres, database: str, by_root: str) -> None:
    follower = Folded(postgres, database, **{"dblog.chunk.rows": "500", "publish.via.partition.root": by_root})
    follower.sql(
        "CREATE TABLE root (n INT, v TEXT) PARTITION BY RANGE (n)",
        "CREATE TABLE low PARTITION OF root FOR VALUES FROM (0) TO (1000)",
        "CREATE TABLE high PARTITION OF root FOR VALUES FROM (1000) TO (9000)",
        "CREATE TABLE empty PARTITION OF root FOR VALUES FROM (9000) TO (9999)",
        "INSERT INTO root SELECT * FROM t",
        "ANALYZE",
    )
    follower.start()
    follower.until_dumped()
    follower.task.stop()

    found = follower.dumped("root") if by_root == "true" else follower.dumped("low") + follower.dumped("high")
    assert sorted(found) == list(range(1, ROWS + 1))


def test_a_table_without_a_page_is_dumped(postgres: Postgres, database: str) -> None:
    follower = Folded(postgres, database)
    follower.sql("CREATE TABLE nothing (n INT, v TEXT)")
    follower.start()
    follower.until_dumped()
    follower.sql("INSERT INTO nothing VALUES (1, 'x')")
    follower.until(lambda: follower.latest("nothing") == {1: "x"})
    follower.task.stop()
