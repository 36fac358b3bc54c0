"""Rows and statements that a real server logs and takes back: none of them stays anywhere. # I3

The table in docs/log.md names for each of these what the log has of it, and its test.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pymysql
import pytest
from dblog.errors import DefiniteError
from stack import MySql
from stack.database import Database
from support.follower import Follower
from support.servers import connected, execute, new_database, purge_log, started

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


def prepare(follower: Follower, name: str, *statements: str) -> None:
    """An XA transaction that stays prepared."""
    session(follower, f"XA START '{name}'", *statements, f"XA END '{name}'", f"XA PREPARE '{name}'")


XA_TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY)",
    "CREATE TABLE x (id INT PRIMARY KEY, a INT, b LONGTEXT, d DECIMAL(9,2), e ENUM('p','q'))",
    "CREATE TABLE y (a VARCHAR(20), b INT, PRIMARY KEY (b, a))",
    "INSERT INTO x VALUES (1, 1, 'one', 1.50, 'p'), (2, NULL, NULL, NULL, NULL), (3, 3, 'three', 3, 'q'), (4, 4, 'four', 4, 'p')",
    "INSERT INTO y VALUES ('a', 1), ('b', 1), ('c', 2)",
)
XA_CHANGES = (
    "INSERT INTO x VALUES (10, 10, 'ten', 1, 'p'), (11, 11, 'eleven', 2, 'q')",
    "UPDATE x SET a = 5, b = NULL WHERE id < 3",
    "UPDATE x SET a = 6, b = REPEAT('z', 70000) WHERE id = 1",
    "DELETE FROM x WHERE id IN (1, 3)",
    "INSERT INTO x VALUES (3, 33, 'again', 1, 'p')",
    "UPDATE x SET id = id + 100",
    "UPDATE x SET id = 1 WHERE id = 104",
    "DELETE FROM y WHERE b = 1",
    "INSERT INTO y VALUES ('a', 1)",
    "UPDATE y SET b = b + 1, a = 'd' WHERE b = 2",
)
"""They insert, update, delete, insert again, and move rows to keys of others."""


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
def test_rows_of_a_prepared_transaction_are_taken_back_when_it_is_rolled_back(follow: Make, source: Database, compressed: bool) -> None:
    follower = follow(source, *XA_TABLES)
    for table in ("x", "y"):
        follower.until_equal(table)
    name = "binlog_transaction_compression" if source.flavor == "mysql" else "log_bin_compress"
    if compressed:
        execute(source, *(() if source.flavor == "mysql" else ("SET GLOBAL log_bin_compress_min_len = 10",)), f"SET GLOBAL {name} = ON")
    try:
        xid = follower.config["name"]
        prepare(follower, xid, *XA_CHANGES)
    finally:
        if compressed:
            execute(source, f"SET GLOBAL {name} = OFF")
    follower.until(lambda: any(r is not None and r["op"] == "c" and r["after"].get("id") == 111 for _, r in follower.values))
    execute(source, f"XA ROLLBACK '{xid}'")
    follower.sql("INSERT INTO x VALUES (10, 0, 'after', 0, 'p')", "UPDATE x SET a = 7 WHERE id = 1")
    check(follower, "x", "y")
    assert "dblog_xa" not in follower.offset
    assert follower.ops("x").count("r") == 4, "nothing is dumped again"
    assert not follower.warnings.texts()


def test_several_prepared_transactions_end_as_they_do_whatever_else_happens(follow: Make, source: Database) -> None:
    """Some are rolled back and some commit, behind a restart of the task, beside rows of others and with a table that nobody captures."""
    other = new_database(source, "uncaptured")
    execute(source, f"CREATE TABLE {other}.t (id INT PRIMARY KEY)")
    follower = follow(source, *TABLES[:4], "CREATE TABLE k (a INT, b INT)", **{"snapshot.mode": "no_data"})
    names = [f"{follower.config['name']}-{number}" for number in range(6)]
    for number, name in enumerate(names):
        changes = [f"INSERT INTO t VALUES ({10 + number})", f"INSERT INTO u VALUES ({10 + number})"]
        prepare(follower, name, *changes, f"INSERT INTO k VALUES ({number}, 1)", f"INSERT INTO {other}.t VALUES ({number})")
        follower.sql(f"INSERT INTO v VALUES ({number})")
    follower.until(lambda: ever_sent(follower, "t", 15))
    follower.restart()
    follower.sql("CREATE TABLE w (id INT PRIMARY KEY)")
    for name, end in zip(names, ["ROLLBACK", "COMMIT", "ROLLBACK", "ROLLBACK", "COMMIT", "ROLLBACK"], strict=True):
        execute(source, f"XA {end} '{name}'", "FLUSH BINARY LOGS")
    follower.sql("INSERT INTO t VALUES (12)")
    check(follower, "u", "v")
    taken = [r["before"]["a"] for table, r in follower.values if table == "k" and r is not None and r["op"] == "d"]
    assert taken == [0, 2, 3, 5]
    assert "dblog_xa" not in follower.offset
    assert not follower.warnings.texts()


def test_a_restart_inside_what_is_taken_back_takes_all_of_it_back(follow: Make, source: Database) -> None:
    follower = follow(
        source, *TABLES[:1], "CREATE TABLE l (id INT PRIMARY KEY, v INT)", *(f"INSERT INTO l VALUES ({n}, 0)" for n in range(5)),
        **{"max.queue.size": "64", "max.batch.size": "16"},
    )  # fmt: skip
    follower.until_equal("l")
    xid = follower.config["name"]
    many = ", ".join(f"({n}, 1)" for n in range(10, 3000))
    prepare(follower, xid, "UPDATE l SET v = 7", f"INSERT INTO l VALUES {many}", "UPDATE l SET v = v + 1")
    follower.until(lambda: len(follower.rows["l"]) == 2995)
    execute(source, f"XA ROLLBACK '{xid}'")
    follower.until(
        lambda: any(r is not None and r["op"] == "u" and r["after"]["v"] == 7 and r["before"]["v"] == 8 for _, r in follower.values)
    )
    follower.restart()
    check(follower, "l")


def test_a_prepared_transaction_that_is_long_for_other_tables_is_taken_back_by_the_log_alone(follow: Make, source: Database) -> None:
    """Only rows of captured tables wait in memory."""
    follower = follow(source, "CREATE TABLE l (id INT PRIMARY KEY, v INT)", "INSERT INTO l VALUES (1, 1)")
    follower.until_equal("l")
    other = f"{follower.database}_other"
    execute(source, f"CREATE DATABASE {other}", f"CREATE TABLE {other}.big (id INT PRIMARY KEY, v LONGTEXT)")
    xid = follower.config["name"]
    many = [f"INSERT INTO {other}.big VALUES ({n}, REPEAT('y', 9000000))" for n in range(3)]
    prepare(follower, xid, "UPDATE l SET v = 7", *many, "INSERT INTO l VALUES (2, 2)")
    follower.until(lambda: len(follower.rows["l"]) == 2)
    sent = len(follower.values)
    execute(source, f"XA ROLLBACK '{xid}'")
    follower.until_equal("l")
    assert [record["op"] for _, record in follower.values[sent:] if record is not None] == ["d", "u"]
    assert not any("repair" in text for text in follower.warnings.texts())


GONE = {
    "the log is purged": ("", "purge"),
    "it is too long": ("INSERT INTO x SELECT 1000 + id, 1, REPEAT('y', 9000000), 1, 'p' FROM x WHERE id > 1 AND id < 4", ""),
    "the images lack columns": ("SET SESSION binlog_row_image = 'NOBLOB'", ""),
}


@pytest.mark.parametrize("why", GONE)
def test_what_the_log_alone_cannot_take_back_a_repair_takes_away_and_restores(follow: Make, source: Database, why: str) -> None:
    """The dump stays a repair behind a restart. A table that is empty again has a marker too, so that the sink empties its own."""
    statement, purge = GONE[why]
    follower = follow(source, *XA_TABLES, "CREATE TABLE vacant (id INT PRIMARY KEY)", **{"incremental.snapshot.chunk.size": "2"})
    for table in ("x", "y"):
        follower.until_equal(table)
    markers: list[dict[str, object]] = []

    def marked(value: bytes) -> None:
        marker = json.loads(value)
        if markers or marker["mode"] == "repair":  # the last ones of the first dump may come late
            markers.append(marker)

    follower.marked = marked
    xid = follower.config["name"]
    first = [statement] if statement.startswith("SET") else []
    with connected(source, database=follower.database) as connection, connection.cursor() as cursor:
        for text in first:
            cursor.execute(text)
        for text in (
            f"XA START '{xid}'",
            "INSERT INTO vacant VALUES (1)",
            *XA_CHANGES[:5],
            *([statement] if statement and not first else []),
        ):
            cursor.execute(text)
        cursor.execute(f"XA END '{xid}'")
        cursor.execute(f"XA PREPARE '{xid}'")
    follower.until(lambda: any(r is not None and r["after"] is not None and r["after"].get("b") == "again" for _, r in follower.values))
    if purge:
        execute(source, "FLUSH BINARY LOGS")
        follower.sql("INSERT INTO t VALUES (5)")
        follower.until_equal("t")
        purge_log(source)
    execute(source, f"XA ROLLBACK '{xid}'")
    follower.until(lambda: any(marker["table"] == f"{follower.database}.x" for marker in markers))
    follower.restart()
    follower.sql("INSERT INTO t VALUES (6)")
    follower.until_equal("t")
    follower.until_dumped()
    follower.until(lambda: {m["table"] for m in markers if m["final"]} >= {f"{follower.database}.{name}" for name in ("x", "vacant")})
    assert {marker["mode"] for marker in markers} == {"repair"}
    shown = {row["id"]: [str(value) for value in row.values()] for row in follower.rows["x"].values()}
    rows = {row["id"]: [str(value) for value in row.values()] for row in follower.selected("x")}
    assert {ident: shown[ident] for ident in rows} == rows, "rows that it changed are as they were"


def test_what_no_repair_can_take_away_either_ends_the_task_with_the_remedy_and_the_other_tables_are_repaired(
    follow: Make, source: Database
) -> None:
    follower, markers = follow(source, *XA_TABLES, "CREATE TABLE k (a INT)"), []
    follower.until_equal("x")
    follower.marked = lambda value: markers.append(json.loads(value))
    xid = follower.config["name"]
    with connected(source, database=follower.database) as connection, connection.cursor() as cursor:
        for text in (
            GONE["the images lack columns"][0],
            f"XA START '{xid}'",
            *XA_CHANGES[:5],
            "INSERT INTO k VALUES (1)",
            f"XA END '{xid}'",
            f"XA PREPARE '{xid}'",
        ):
            cursor.execute(text)
    follower.until(lambda: any(table == "k" for table, _ in follower.values))
    execute(source, f"XA ROLLBACK '{xid}'")
    with pytest.raises(DefiniteError, match=rf"XA ROLLBACK at .* {follower.database}\.k cannot be repaired .*failure.handling.mode=warn"):
        follower.until(lambda: False)

    follower.config["event.processing.failure.handling.mode"] = "warn"
    follower.restart()
    follower.until(lambda: [m for m in markers if m["table"].endswith(".x") and m["mode"] == "repair" and m["final"]])
    (standing,) = [text for text in follower.warnings.texts() if "XA ROLLBACK" in text]
    until = standing.partition(". Until a dump with mode=repair has ended")[2]
    assert f"{follower.database}.k" in until
    assert f"{follower.database}.x" not in until, "its repair has ended the warning for it"


def test_where_the_lake_keeps_what_was_deleted_rows_that_were_rolled_back_stay_until_a_repair_is_asked_for(
    follow: Make, source: Database
) -> None:
    follower, markers = follow(source, *TABLES[:1], **{"skipped.operations": "d"}), []
    follower.sql("INSERT INTO t VALUES (1)")
    follower.until_equal("t")
    follower.marked = lambda value: markers.append(json.loads(value))
    xid = follower.config["name"]
    prepare(follower, xid, "INSERT INTO t VALUES (2)")
    follower.until(lambda: len(follower.rows["t"]) == 2)
    execute(source, f"XA ROLLBACK '{xid}'")

    follower.until(lambda: any("XA ROLLBACK" in text and f"{follower.database}.t" in text for text in follower.warnings.texts()))
    follower.until(lambda: [m for m in markers if m["table"].endswith(".t") and m["final"]])
    follower.until_dumped()
    assert {marker["mode"] for marker in markers} == {"rows"}
    follower.until_state(follower.ask(rf"{follower.database}\.t", mode="repair"), "DONE")
    assert not any("XA ROLLBACK" in text for text in follower.warnings.texts())


def test_a_server_that_restarts_in_between_has_the_transaction_and_its_rows_are_taken_back(
    own_folder: Path, followers: list[Follower]
) -> None:
    with started(MySql(own_folder / "mysql")) as server:
        database = new_database(server, "back")
        execute(server, *XA_TABLES, database=database)
        follower = Follower(server, database)
        followers.append(follower)
        follower.start()
        follower.until_equal("x")
        prepare(follower, "here", *XA_CHANGES)
        follower.until(lambda: any(r is not None and r["op"] == "c" and r["after"].get("id") == 111 for _, r in follower.values))
        follower.task.stop()
        server.kill()
        server.start()
        follower.restart()
        execute(server, "XA ROLLBACK 'here'")
        check(follower, "x", "y")
        assert follower.ops("x").count("r") == 4
        follower.task.stop()
