"""Rows and statements that a real server logs and takes back: none of them stays anywhere. # I3

The table in docs/log.md names for each of these what the log has of it, and its test.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pymysql
import pytest
from stack import MySql
from stack.database import Database
from support.follower import Follower
from support.servers import connected, execute, new_database, started

Make = Callable[..., Follower]

TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY)",
    "CREATE TABLE u (id INT PRIMARY KEY)",
    "CREATE TABLE v (id INT PRIMARY KEY)",
    "CREATE TABLE m (id INT PRIMARY KEY) ENGINE=MyISAM",
    "INSERT INTO t VALUES (1)",
    "INSERT INTO u VALUES (1)",
    "INSERT INTO v VALUES (1)",
)
NAMES = ("t", "u", "v", "m")
LONG = 20
"""Megabytes of a transaction that does not wait in memory for its end."""


@pytest.fixture
def followers() -> Iterator[list[Follower]]:
    made: list[Follower] = []
    yield made
    for follower in made:
        follower.task.stop()


@pytest.fixture
def follow(followers: list[Follower]) -> Make:
    """Makes a follower of a new database; statements make its tables first."""

    def make(server: Database, *statements: str, **config: str) -> Follower:
        database = new_database(server, "back")
        execute(server, *statements, database=database)
        follower = Follower(server, database, **config)
        followers.append(follower)
        return follower.start()

    return make


def session(follower: Follower, *statements: str, fails: bool = False) -> None:
    """Run statements on one connection."""
    with connected(follower.source, database=follower.database) as connection, connection.cursor() as cursor:
        for statement in statements:
            with contextlib.suppress(pymysql.err.Error) if fails else contextlib.nullcontext():
                cursor.execute(statement)


def logged_rollbacks(source: Database) -> list[str]:
    """The statements of the newest log file that take rows back."""
    file = execute(source, "SHOW BINARY LOGS")[-1][0]
    info = [str(row[5]) for row in execute(source, f"SHOW BINLOG EVENTS IN '{file}'")]
    return [text for text in info if text.startswith("ROLLBACK")]


def check(follower: Follower, *tables: str) -> None:
    """The topics, folded, are the tables, now and after a restart; a last row shows that the log was read to its end."""
    for again in (False, True):
        if again:
            follower.restart()
        follower.sql("INSERT INTO t SELECT COALESCE(MAX(id), 0) + 1000000 FROM t AS other")
        for table in ("t", *tables):
            follower.until_equal(table)


def ever_sent(follower: Follower, table: str, ident: int) -> bool:
    return any(r is not None and {"id": ident} in (r["before"], r["after"]) for name, r in follower.values if name == table)


ROLLED_BACK = {
    "a temporary table": "BEGIN; INSERT INTO t VALUES (2); CREATE TEMPORARY TABLE x (a INT); DROP TEMPORARY TABLE x; ROLLBACK",
    "a temporary table that was there": "CREATE TEMPORARY TABLE w (a INT); BEGIN; INSERT INTO t VALUES (2); DROP TEMPORARY TABLE w; ROLLBACK",
    "a temporary table of a SELECT": "BEGIN; INSERT INTO t VALUES (2); CREATE TEMPORARY TABLE z AS SELECT * FROM t; ROLLBACK",
    "a savepoint and MyISAM": "BEGIN; SAVEPOINT a; DELETE FROM u; INSERT INTO m VALUES (1); ROLLBACK TO a; COMMIT",
    "a savepoint and a temporary table": "BEGIN; SAVEPOINT a; UPDATE v SET id = 9; CREATE TEMPORARY TABLE y (a INT); ROLLBACK TO a; "
    "DROP TEMPORARY TABLE y; COMMIT",
    "savepoints in each other": "BEGIN; INSERT INTO t VALUES (60); SAVEPOINT a; INSERT INTO t VALUES (2); INSERT INTO m VALUES (61); "
    "SAVEPOINT `b``x`; DELETE FROM t; ROLLBACK TO `B``X`; INSERT INTO t VALUES (63); ROLLBACK TO a; INSERT INTO t VALUES (64); "
    "RELEASE SAVEPOINT a; COMMIT",
    "a savepoint that is set again": "BEGIN; INSERT INTO m VALUES (5); SAVEPOINT a; INSERT INTO t VALUES (70); SAVEPOINT a; "
    "INSERT INTO t VALUES (2); INSERT INTO m VALUES (6); ROLLBACK TO a; COMMIT",
    "a savepoint, then all of it": "BEGIN; INSERT INTO t VALUES (2); SAVEPOINT a; UPDATE v SET id = 10; INSERT INTO m VALUES (71); "
    "CREATE TEMPORARY TABLE y (a INT); ROLLBACK TO a; INSERT INTO t VALUES (72); ROLLBACK",
    "two engines": "BEGIN; INSERT INTO t VALUES (2); INSERT INTO m VALUES (80); ROLLBACK",
    "an XA transaction that is not prepared": "XA START 'x'; INSERT INTO t VALUES (2); CREATE TEMPORARY TABLE xt (a INT); XA END 'x'; XA ROLLBACK 'x'",
    "a savepoint in XA": "XA START 'y'; SAVEPOINT a; INSERT INTO t VALUES (2); INSERT INTO m VALUES (81); ROLLBACK TO a; "
    "INSERT INTO t VALUES (82); XA END 'y'; XA PREPARE 'y'; XA COMMIT 'y'",
    "a savepoint behind rows in XA": "XA START 'z'; INSERT INTO t VALUES (83); SAVEPOINT a; INSERT INTO t VALUES (2); INSERT INTO m VALUES (84); "
    "ROLLBACK TO a; INSERT INTO t VALUES (85); XA END 'z'; XA PREPARE 'z'; XA COMMIT 'z'",
    "an error in a statement": "INSERT INTO t VALUES (90), (2), (1)",
    "an error in MyISAM": "INSERT INTO m VALUES (90), (91), (90)",
    "a table of a SELECT that fails": "CREATE TABLE c (id INT PRIMARY KEY) SELECT 1 AS id UNION ALL SELECT 1",
    "a temporary table of a SELECT that fails": "BEGIN; INSERT INTO t VALUES (2); CREATE TEMPORARY TABLE q (a INT PRIMARY KEY) "
    "SELECT 1 a UNION ALL SELECT 1; ROLLBACK",
    "LOAD DATA that fails": "BEGIN; INSERT INTO t VALUES (2); LOAD DATA INFILE '/no/such/file' INTO TABLE t; ROLLBACK",
}


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
def test_no_row_of_what_was_rolled_back_is_ever_sent(follow: Make, source: Database, compressed: bool) -> None:
    """Statements that a server refuses (MySQL, of two engines with GTIDs) are passed over; the rest of the transaction runs."""
    follower = follow(source, *TABLES)
    for table in ("t", "u", "v"):
        follower.until_equal(table)
    name = "binlog_transaction_compression" if source.flavor == "mysql" else "log_bin_compress"
    small = () if source.flavor == "mysql" else ("SET GLOBAL log_bin_compress_min_len = 10",)
    if compressed:
        execute(source, *small, f"SET GLOBAL {name} = ON")
    try:
        execute(source, "FLUSH BINARY LOGS")
        for text in ROLLED_BACK.values():
            session(follower, *text.split("; "), fails=True)
        if source.flavor == "mariadb":
            assert {"ROLLBACK", "ROLLBACK TO `a`", "ROLLBACK TO `B``X`"} <= set(logged_rollbacks(source)), "the server logs them"
        check(follower, *NAMES)
    finally:
        if compressed:
            execute(source, f"SET GLOBAL {name} = OFF")

    assert not ever_sent(follower, "t", 2)
    assert not ever_sent(follower, "v", 9)
    assert not any(r is not None and r["op"] == "d" for table, r in follower.values if table == "u")


def test_mysql_without_gtids_logs_no_row_that_it_takes_back(own_folder: Path, followers: list[Follower]) -> None:
    with started(MySql(own_folder / "mysql", options={"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"})) as server:
        database = new_database(server, "back")
        execute(server, *TABLES, database=database)
        follower = Follower(server, database)
        followers.append(follower)
        follower.start()
        execute(server, "FLUSH BINARY LOGS")
        for text in ROLLED_BACK.values():
            session(follower, *text.split("; "), fails=True)
        check(follower, *NAMES)
        follower.task.stop()

    assert not ever_sent(follower, "t", 2)
    assert not ever_sent(follower, "v", 9)


@pytest.mark.parametrize("end", ["ROLLBACK", "ROLLBACK TO a; COMMIT"])
def test_a_transaction_that_is_too_long_to_wait_in_memory_is_read_for_its_end_first(follow: Make, mariadb: Database, end: str) -> None:
    follower = follow(mariadb, "CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE l (id INT PRIMARY KEY, v LONGTEXT)")
    many = [f"INSERT INTO l SELECT {n} * 1000 + seq, REPEAT('x', 1024) FROM seq_1_to_1000" for n in range(LONG)]
    session(
        follower, "BEGIN", "INSERT INTO l VALUES (0, 'stays')", "SAVEPOINT a", *many, "CREATE TEMPORARY TABLE x (a INT)", *end.split("; ")
    )
    check(follower, "l")
    sent = sum(table == "l" for table, _ in follower.values)
    assert sent == (0 if end == "ROLLBACK" else 1)

    session(follower, "BEGIN", *many, "SAVEPOINT a", "DELETE FROM l", "CREATE TEMPORARY TABLE x (a INT)", "ROLLBACK TO a", "COMMIT")
    follower.until(lambda: sum(table == "l" for table, _ in follower.values) >= sent + 3000)
    follower.restart()  # inside the transaction
    check(follower, "l")
    assert not any(r is not None and r["op"] == "d" for table, r in follower.values if table == "l")


@pytest.mark.parametrize("metadata", ["NO_LOG", "FULL"])
def test_an_alter_in_two_phases_is_applied_when_it_commits_and_only_then(follow: Make, mariadb: Database, metadata: str) -> None:
    follower = follow(
        mariadb,
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "CREATE TABLE f (id INT PRIMARY KEY, a INT)",
        "INSERT INTO f VALUES (1, -5)",
        "CREATE TABLE s (id INT PRIMARY KEY, a INT, b INT)",
        "INSERT INTO s VALUES (1, 1, 2)",
    )
    for table in ("f", "s"):
        follower.until_equal(table)
    before = execute(mariadb, "SELECT @@GLOBAL.binlog_row_metadata")[0][0]
    execute(mariadb, f"SET GLOBAL binlog_row_metadata = '{metadata}'")
    try:
        session(follower, "SET SESSION binlog_alter_two_phase = ON", "ALTER TABLE f MODIFY a INT UNSIGNED", fails=True)
        follower.sql("INSERT INTO f VALUES (2, -6)")
        check(follower, "f", "s")
        ops = [r["op"] for table, r in follower.values if table == "f" and r is not None]
        assert ops == ["r", "c"], "an ALTER that has failed has no table dumped again"
        session(
            follower, "SET SESSION binlog_alter_two_phase = ON", "ALTER TABLE s CHANGE a b INT, CHANGE b a INT", "ALTER TABLE s ADD c INT"
        )
        follower.sql("INSERT INTO s (id, a, b, c) VALUES (8, 1, 2, 3)")
        check(follower, "s")
        follower.sql("UPDATE s SET a = 5")
        check(follower, "s")
    finally:
        execute(mariadb, f"SET GLOBAL binlog_row_metadata = '{before}'")


def test_a_table_that_a_failed_create_or_replace_has_dropped_is_gone_although_its_log_ends_in_rollback(
    follow: Make, mariadb: Database
) -> None:
    follower = follow(mariadb, "CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE c (id INT PRIMARY KEY)")
    session(follower, "CREATE OR REPLACE TABLE c (id INT PRIMARY KEY) SELECT 1 AS id UNION ALL SELECT 1", fails=True)
    session(follower, "CREATE TABLE c (name VARCHAR(9) PRIMARY KEY)", "INSERT INTO c VALUES ('new')")
    check(follower)
    follower.until(lambda: any(table == "c" and r is not None and r["after"] == {"name": "new"} for table, r in follower.values))


def test_a_dump_beside_transactions_that_are_rolled_back_ends_equal_to_the_table(follow: Make, mariadb: Database) -> None:
    """A chunk loses no row to a change that was taken back."""
    follower = follow(
        mariadb,
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "CREATE TABLE l (id INT PRIMARY KEY, v INT)",
        "INSERT INTO l SELECT seq, 0 FROM seq_1_to_5000",
        **{"incremental.snapshot.chunk.size": "100", "snapshot.fetch.size": "100"},
    )
    for number in range(30):
        session(
            follower,
            "BEGIN",
            f"DELETE FROM l WHERE id % 30 = {number}",
            f"UPDATE l SET v = {number} + 1",
            "CREATE TEMPORARY TABLE x (a INT)",
            "ROLLBACK",
        )
    check(follower, "l")
    assert not any(r is not None and r["op"] in "ud" for table, r in follower.values if table == "l")


def test_a_signal_that_is_rolled_back_asks_for_nothing(follow: Make, mariadb: Database) -> None:
    database = new_database(mariadb, "signals")
    table = f"{database}.signals"
    execute(mariadb, f"CREATE TABLE {table} (id VARCHAR(42) PRIMARY KEY, type VARCHAR(32), data VARCHAR(2048))")
    follower = follow(mariadb, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", **{"signal.data.collection": table})
    follower.until_equal("t")
    data = f'{{"data-collections": ["{follower.database}.t"]}}'
    session(
        follower,
        "BEGIN", f"INSERT INTO {table} VALUES ('a', 'execute-snapshot', '{data}')", "CREATE TEMPORARY TABLE x (a INT)", "ROLLBACK",
    )  # fmt: skip
    check(follower)
    assert sum(r is not None and r["op"] == "r" for name, r in follower.values if name == "t") == 1
