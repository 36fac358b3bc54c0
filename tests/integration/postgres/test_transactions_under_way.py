"""Transactions that a server sends while they are under way: records are those that come without streaming, also over restarts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from stack import Postgres
from structlog.testing import capture_logs
from support.postgres import connected, execute
from support.postgres_follower import PostgresFollower, drop_slots

STREAMING = {"dblog.log.streaming": "true"}
ROWS = 3000


@pytest.fixture
def database(postgres: Postgres, postgres_database: str) -> Iterator[str]:
    execute(
        postgres,
        f"ALTER DATABASE {postgres_database} SET logical_decoding_work_mem = '64kB'",  # what is larger is sent before it ends
        "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)",
        "CREATE TABLE u (id INT PRIMARY KEY, v TEXT)",
        database=postgres_database,
    )
    yield postgres_database
    drop_slots(postgres, postgres_database)


def streamed(server: Postgres, follower: PostgresFollower) -> int:
    """How many transactions the slot has sent before they ended."""
    ((count,),) = execute(server, f"SELECT stream_txns FROM pg_stat_replication_slots WHERE slot_name = '{follower.name}'")
    return int(str(count))


def insert(table: str, begin: int, note: str = "row") -> str:
    return f"INSERT INTO {table} SELECT n, '{note} ' || n FROM generate_series({begin}, {begin + ROWS - 1}) n"


def records(follower: PostgresFollower) -> list[tuple[str, str, int]]:
    return [
        (name, record["op"], (record["after"] or record["before"])["id"])
        for name, record in follower.values
        if record is not None and record["op"] != "r"
    ]


def work(server: Postgres, database: str) -> None:
    """Two large transactions beside each other, one with parts that it takes back, one that is taken back as a whole, and small ones between them."""
    with (
        connected(server, database=database) as one,
        connected(server, database=database) as two,
        connected(server, database=database) as three,
    ):
        for connection in (one, two, three):
            connection.autocommit = False
        first, second, third = one.cursor(), two.cursor(), three.cursor()
        first.execute("SAVEPOINT a")
        first.execute(insert("u", 100_000, "taken back"))
        first.execute("ROLLBACK TO SAVEPOINT a")
        third.execute(insert("t", 200_000, "taken back"))
        first.execute(insert("t", 0))
        second.execute(insert("t", 10_000))
        first.execute("SAVEPOINT b")
        first.execute(insert("u", 0))
        first.execute("RELEASE SAVEPOINT b")
        execute(server, "INSERT INTO t VALUES (-1, 'small')", database=database)
        second.execute(f"UPDATE t SET v = v || ' again' WHERE id >= 10000 AND id < {10_000 + ROWS}")
        first.execute("SAVEPOINT c")
        first.execute("DELETE FROM t WHERE id < 500 AND id >= 0")
        first.execute("ROLLBACK TO SAVEPOINT c")
        first.execute("DELETE FROM t WHERE id < 100 AND id >= 0")
        first.execute("ALTER TABLE u ADD w INT")
        first.execute(f"INSERT INTO u SELECT n, 'with w', n FROM generate_series({ROWS}, {2 * ROWS}) n")
        two.commit()
        three.rollback()
        execute(server, "INSERT INTO t VALUES (-2, 'small')", database=database)
        one.commit()
        execute(server, "INSERT INTO u VALUES (-3, 'small', 3)", database=database)


def test_records_are_those_that_come_without_streaming(postgres: Postgres, database: str) -> None:
    followers = [PostgresFollower(postgres, database, **config) for config in (STREAMING, {})]
    for follower in followers:
        follower.start()
        follower.until_dumped()

    work(postgres, database)
    for follower in followers:
        follower.until(lambda follower=follower: records(follower)[-1:] == [("u", "c", -3)])
        follower.task.stop()

    under_way, whole = followers
    for name in ("t", "u"):
        assert [one for one in records(under_way) if one[0] == name] == [one for one in records(whole) if one[0] == name]
        assert under_way.rows[name] == whole.rows[name]
    under_way.until_equal("t")
    sources = [
        [
            (record["source"]["lsn"], record["source"]["txId"], record["source"]["ts_us"])
            for name, record in follower.values
            if name == "t" and record
        ]
        for follower in followers
    ]
    assert sources[0] == sources[1]
    assert streamed(postgres, under_way) >= 2
    assert streamed(postgres, whole) == 0


def test_a_run_that_ends_inside_a_transaction_that_was_sent_under_way_goes_on_there(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, **STREAMING, **{"max.batch.size": "100", "max.queue.size": "200"})
    follower.start()
    follower.until_dumped()
    work(postgres, database)

    restarts = seen = 0

    def comes() -> bool:
        return len(records(follower)) > seen + 1500 or records(follower)[-1:] == [("u", "c", -3)]

    while records(follower)[-1:] != [("u", "c", -3)]:
        follower.until(comes)
        seen = len(records(follower))
        follower.restart()
        restarts += 1
    follower.task.stop()

    assert restarts > 5
    follower.until_equal("t")
    assert {row["id"]: row.get("w") for row in follower.rows["u"].values()} == {row["id"]: row["w"] for row in follower.selected("u")}
    assert len(set(records(follower))) == len(records(follower)), "no change comes twice"


def test_a_server_that_is_killed_while_transactions_are_under_way_sends_them_again(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, **STREAMING)
    follower.start()
    follower.until_dumped()
    with connected(postgres, database=database) as connection:
        connection.autocommit = False
        cursor = connection.cursor()
        cursor.execute(insert("t", 0))
        follower.until(lambda: streamed(postgres, follower) > 0)
        execute(postgres, f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{follower.name}'")
        cursor.execute(insert("u", 0))
        connection.commit()
    follower.until_equal("t")
    follower.until_equal("u")
    follower.task.stop()


def test_ddl_that_is_taken_back_is_not_taken_for_real(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, **STREAMING)
    follower.sql("INSERT INTO u VALUES (-1, 'x')")
    follower.start().until_dumped()
    with connected(postgres, database=database) as connection:
        connection.autocommit = False
        cursor = connection.cursor()
        cursor.execute(insert("t", 0))
        cursor.execute("SAVEPOINT a")
        cursor.execute("ALTER TABLE u RENAME TO u_old; CREATE TABLE u (id INT PRIMARY KEY, v TEXT, w INT DEFAULT 7)")
        cursor.execute(insert("u", 1))
        cursor.execute("ROLLBACK TO SAVEPOINT a")
        cursor.execute(insert("t", 10_000))
        connection.commit()
    follower.until_equal("t")
    assert follower.ops("u") == ["r"]

    follower.sql("INSERT INTO u VALUES (-2, 'y')", "UPDATE u SET v = 'z' WHERE id = -1")
    follower.until_equal("u")
    assert follower.ops("u") == ["r", "c", "u"]
    follower.task.stop()


def test_a_table_that_was_described_in_what_was_taken_back_is_known_to_later_transactions(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, **STREAMING).start()
    follower.until_dumped()
    with connected(postgres, database=database) as connection:
        connection.autocommit = False
        cursor = connection.cursor()
        cursor.execute("SAVEPOINT a")
        cursor.execute(insert("u", 0))
        cursor.execute("ROLLBACK TO SAVEPOINT a")
        cursor.execute(insert("t", 0))
        connection.commit()
    follower.sql("INSERT INTO u VALUES (-1, 'small')")
    follower.until_equal("u")
    follower.sql(insert("u", 0), "TRUNCATE t, u")
    follower.until(lambda: len(follower.rows["u"]) == ROWS + 1)
    follower.sql("INSERT INTO t VALUES (-1, 'behind')")
    follower.until(lambda: any(row["id"] == -1 for row in follower.rows["t"].values()))
    assert streamed(postgres, follower) >= 2
    follower.task.stop()


def test_a_full_disk_is_waited_for_with_the_folder_s_name(postgres: Postgres, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = PostgresFollower(postgres, database, **STREAMING)
    with capture_logs() as lines, monkeypatch.context() as full:
        full.setattr("dblog.dialects.postgres.task.log.tempfile.TemporaryFile", partial(Path("/dev/full").open, "w+b"))
        follower.start().until_dumped()
        follower.sql(insert("t", 0))
        follower.until(lambda: any("TMPDIR" in str(line.get("reason")) for line in lines))
    follower.until_equal("t")
    follower.task.stop()
