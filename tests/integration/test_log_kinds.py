"""What real servers write into their logs beside plain rows, through a whole task: compressed transactions and events. # I3 I5 I6"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pymysql
import pytest
from stack.database import Database
from support.follower import Follower
from support.servers import connected, execute, new_database

Make = Callable[..., Follower]


@pytest.fixture
def followers() -> Iterator[list[Follower]]:
    made: list[Follower] = []
    yield made
    for follower in made:
        follower.task.stop()


@pytest.fixture
def follow(source: Database, followers: list[Follower]) -> Make:
    """Makes a follower of a new database, from now on; statements make its tables first."""

    def make(*statements: str, **config: str) -> Follower:
        database = new_database(source, "kinds")
        execute(source, *statements, database=database)
        follower = Follower(source, database, **{"snapshot.mode": "no_data", **config})
        followers.append(follower)
        return follower.start()

    return make


@contextlib.contextmanager
def compressing(source: Database) -> Iterator[None]:
    """New sessions of this server write compressed logs."""
    name = "binlog_transaction_compression" if source.flavor == "mysql" else "log_bin_compress"
    execute(source, f"SET GLOBAL {name} = ON")
    try:
        yield
    finally:
        execute(source, f"SET GLOBAL {name} = OFF")


def transaction(follower: Follower, *statements: str) -> None:
    with connected(follower.source, database=follower.database) as connection, connection.cursor() as cursor:
        connection.begin()
        for statement in statements:
            cursor.execute(statement)
        connection.commit()


def event_names(source: Database) -> set[str]:
    file = execute(source, "SHOW BINARY LOGS")[-1][0]
    return {str(row[2]) for row in execute(source, f"SHOW BINLOG EVENTS IN '{file}'")}


def kill_dumps(source: Database) -> int:
    """End every log connection; how many there were."""
    found = execute(source, "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'")
    for (process,) in found:
        with contextlib.suppress(pymysql.err.OperationalError):
            execute(source, f"KILL {process}")
    return len(found)


def test_a_compressed_log_is_followed(follow: Make) -> None:
    follower = follow("CREATE TABLE t (id INT PRIMARY KEY, s TEXT, v VARCHAR(50))", "CREATE TABLE other (id INT)")
    with compressing(follower.source):
        follower.sql("INSERT INTO t VALUES (1, REPEAT('a', 5000), 'one')")
        transaction(
            follower,
            "INSERT INTO t VALUES " + ",".join(f"({n}, REPEAT('b', {n}), 'v{n}')" for n in range(2, 900)),
            "UPDATE t SET v = CONCAT(v, '!') WHERE id % 3 = 0",
            "SAVEPOINT s",
            "DELETE FROM t WHERE id > 300",
            "ROLLBACK TO SAVEPOINT s",
            "DELETE FROM t WHERE id > 800",
            "UPDATE t SET id = id + 10000 WHERE id < 5",
        )
        follower.sql(
            "ALTER TABLE t ADD COLUMN w INT NOT NULL DEFAULT 4", "UPDATE t SET w = 5 WHERE id BETWEEN 10 AND 20", "UPDATE t SET v = 'x'"
        )
        kinds = event_names(follower.source)
    follower.until_equal("t")

    assert any(("payload" if follower.source.flavor == "mysql" else "compressed") in name.lower() for name in kinds), kinds
    gtids = [record["source"]["gtid"] for _, record in follower.values if record is not None]
    assert len(set(gtids)) == 4


def test_a_connection_killed_inside_a_compressed_transaction_neither_loses_nor_repeats_a_row(follow: Make) -> None:
    follower = follow(
        "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, s VARCHAR(50))", **{"max.batch.size": "10", "max.queue.size": "20"}
    )
    many = ",".join(f"('{'x' * 30}{i}')" for i in range(400))
    with compressing(follower.source):
        transaction(follower, *[f"INSERT INTO t (s) VALUES {many}"] * 20)
    follower.until(lambda: len(follower.values) > 500)

    # The small queue holds the reader in the middle of the transaction.
    killed = kill_dumps(follower.source)
    follower.until(lambda: len(follower.rows.get("t", {})) == 8000)
    follower.sql("INSERT INTO t (s) VALUES ('the end')")
    follower.until_equal("t")

    assert killed
    assert len(follower.values) == 8001


def test_a_task_killed_inside_a_compressed_transaction_goes_on_at_its_offset(follow: Make) -> None:
    follower = follow(
        "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, s VARCHAR(50))", **{"max.batch.size": "50", "max.queue.size": "100"}
    )
    many = ",".join(f"('{'x' * 30}{i}')" for i in range(400))
    with compressing(follower.source):
        transaction(follower, *[f"INSERT INTO t (s) VALUES {many}"] * 10)
    follower.until(lambda: len(follower.values) > 500)
    inside: dict[str, Any] = dict(follower.offset or {})

    follower.restart()
    follower.until(lambda: len(follower.rows.get("t", {})) == 4000)
    follower.sql("INSERT INTO t (s) VALUES ('the end')")
    follower.until_equal("t")

    assert inside["dblog_event" if follower.source.flavor == "mysql" else "event"] > 2
    assert ("event" in inside) == (follower.source.flavor == "mariadb"), "Debezium reads a compressed transaction anew"
    assert len(follower.values) == 4001
    sequences = [record["source"]["sequence"] for _, record in follower.values if record is not None]
    assert len(set(sequences)) == 4001
