"""Tables whose changes were in no log, or under another name, for a while: found without a row of theirs, and dumped again. # I3"""

from __future__ import annotations

import json

import pytest
from dblog.dialects.postgres.task.server import PostgresServer
from stack import Postgres
from structlog.testing import capture_logs
from support.postgres import connected
from support.postgres_begun import BY_ROOT, OFTEN, Begun, logged, wait_for_line
from support.postgres_follower import ROOT, PostgresFollower

SELDOM = {"dblog.metrics.server.interval.ms": "2000"}
BY_HAND = {"publication.autocreate.mode": "disabled"}
T = ("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'a'), (2, 'a')")
HIGH = (*ROOT, "CREATE TABLE high (id INT PRIMARY KEY, v TEXT)", "INSERT INTO high VALUES (11, 'a')")
ATTACH = "ALTER TABLE root ATTACH PARTITION high FOR VALUES FROM (10) TO (20)"
DETACH = "ALTER TABLE root DETACH PARTITION high"
UNDER_ROOT = (ATTACH, "UPDATE root SET v = 'b' WHERE id = 11", "INSERT INTO root VALUES (13, 'b')", DETACH)
"""Rows of the partition come under the name of its root."""
UNLOGGED = ("ALTER TABLE t SET UNLOGGED", "UPDATE t SET v = 'b' WHERE id = 1", "INSERT INTO t VALUES (3, 'b')", "ALTER TABLE t SET LOGGED")
DUMPED_AGAIN = "the table is dumped again"

CASES = {
    "a partition for a while": (HIGH, BY_ROOT, UNDER_ROOT, "high"),
    "a partition for a while that has lost a column": (
        (
            *ROOT,
            "CREATE TABLE high (id INT PRIMARY KEY, old INT, v TEXT)",
            "ALTER TABLE high DROP old",
            "INSERT INTO high VALUES (11, 'a')",
        ),
        BY_ROOT,
        UNDER_ROOT,
        "high",
    ),
    "taken out and put back": (
        (*T, "CREATE PUBLICATION dbz_publication FOR TABLE t, marks"),
        BY_HAND,
        (
            "ALTER PUBLICATION dbz_publication DROP TABLE t",
            "UPDATE t SET v = 'b' WHERE id = 1",
            "INSERT INTO t VALUES (3, 'b')",
            "ALTER PUBLICATION dbz_publication ADD TABLE t",
        ),
        "t",
    ),
    "operations taken away and given back": (
        T,
        {},
        (
            "ALTER PUBLICATION dbz_publication SET (publish = 'insert')",
            "UPDATE t SET v = 'b' WHERE id = 1",
            "ALTER PUBLICATION dbz_publication SET (publish = 'insert, update, delete, truncate')",
        ),
        "t",
    ),
    "a condition for rows that goes": (
        (*T, "CREATE PUBLICATION dbz_publication FOR TABLE t WHERE (id > 1), marks"),
        BY_HAND,
        ("UPDATE t SET v = 'b' WHERE id = 1", "ALTER PUBLICATION dbz_publication SET TABLE t, marks"),
        "t",
    ),
    "a list of columns that goes": (
        (*T, "CREATE PUBLICATION dbz_publication FOR TABLE t (id), marks"),
        BY_HAND,
        ("ALTER PUBLICATION dbz_publication SET TABLE t, marks",),
        "t",
    ),
    "another list of columns": (
        (
            "CREATE TABLE t (id INT PRIMARY KEY, v TEXT, w TEXT)",
            "INSERT INTO t VALUES (1, 'a', 'a')",
            "CREATE PUBLICATION dbz_publication FOR TABLE t (id, v), marks",
        ),
        BY_HAND,
        ("ALTER PUBLICATION dbz_publication SET TABLE t (id, v, w), marks",),
        "t",
    ),
    "a schema taken out and put back": (
        (*T, "CREATE PUBLICATION dbz_publication FOR TABLES IN SCHEMA public"),
        BY_HAND,
        (
            "ALTER PUBLICATION dbz_publication DROP TABLES IN SCHEMA public",
            "UPDATE t SET v = 'b' WHERE id = 1",
            "ALTER PUBLICATION dbz_publication ADD TABLES IN SCHEMA public",
        ),
        "t",
    ),
    "a published partition detached and attached again": (
        (*ROOT, "CREATE PUBLICATION dbz_publication FOR TABLE root, marks"),
        BY_HAND,
        (
            "ALTER TABLE root DETACH PARTITION low",
            "UPDATE low SET v = 'b' WHERE id = 1",
            "ALTER TABLE root ATTACH PARTITION low FOR VALUES FROM (0) TO (10)",
        ),
        "low",
    ),
}


CASES |= {
    "unlogged for a while": (T, {}, UNLOGGED, "t"),
    "values converted to the type of before": (T, {}, ("ALTER TABLE t ALTER v TYPE TEXT USING upper(v)",), "t"),
    "values converted beside another change of the table": (
        ("CREATE TABLE t (id INT PRIMARY KEY, old INT, v TEXT)", "INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'a')"),
        {},
        ("ALTER TABLE t ALTER v TYPE TEXT USING upper(v), DROP old",),
        "t",
    ),
}


def case(follower_of: Begun, name: str, **config: str) -> tuple[PostgresFollower, tuple[str, ...], str]:
    made, own, statements, table = CASES[name]
    return follower_of(*made, **own, **config), statements, table


def wait_for_look(follower: PostgresFollower) -> None:
    """Until the watch has asked the server from the beginning of a look to its end."""
    server = follower.task.running.server
    assert isinstance(server, PostgresServer)
    for _ in range(2):
        before = server.connections.marks
        follower.until(lambda seen=before: server.connections.marks is not seen)


@pytest.mark.parametrize("row", [False, True], ids=["", "a row follows"])
@pytest.mark.parametrize("name", CASES)
def test_what_the_log_lacks_of_a_table_is_dumped_though_all_is_as_before_at_the_next_look(begun: Begun, name: str, row: bool) -> None:
    follower, statements, table = case(begun, name, **SELDOM)

    follower.sql(
        *statements, *([f"INSERT INTO {table} (id) VALUES (9)" if table == "low" else f"INSERT INTO {table} (id) VALUES (19)"] * row)
    )

    follower.until_equal(table)


def test_a_table_that_somebody_locks_holds_up_no_other_table_and_is_dumped_once_it_can_be_read(
    postgres: Postgres, database: str, begun: Begun
) -> None:
    follower = begun(*T, "CREATE TABLE other (id INT PRIMARY KEY, v TEXT)", **SELDOM)
    with connected(postgres, database=database) as writer:
        follower.sql("ALTER TABLE t ALTER v TYPE TEXT USING upper(v)")
        writer.autocommit = False
        writer.cursor().execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        wait_for_look(follower)
        follower.sql("INSERT INTO other VALUES (1, 'a')")

        follower.until_equal("other")

        writer.rollback()
    follower.until_equal("t")


@pytest.mark.parametrize("name", CASES)
def test_what_the_log_lacks_of_a_table_is_dumped_while_the_watch_looks_at_each_step(begun: Begun, name: str) -> None:
    follower, statements, table = case(begun, name, **OFTEN)

    for statement in statements:
        follower.sql(statement)
        wait_for_look(follower)

    follower.until_equal(table)
    follower.sql(f"UPDATE {table} SET v = 'last'")
    follower.until_equal(table)


@pytest.mark.parametrize("name", CASES)
def test_what_the_log_lacks_of_a_table_is_dumped_by_the_next_start(begun: Begun, name: str) -> None:
    follower, statements, table = case(begun, name, **SELDOM)
    follower.task.stop()

    follower.sql(*statements)
    follower.restart()

    follower.until_equal(table)
    with capture_logs() as lines:  # and once only
        follower.until_caught_up()
        follower.restart()
        follower.until_caught_up()
    assert not logged(lines, DUMPED_AGAIN)


@pytest.mark.parametrize("away", [False, True], ids=["running", "away"])
@pytest.mark.parametrize("row", [False, True], ids=["", "a row follows"])
def test_a_table_that_was_unlogged_for_a_while_is_dumped_when_it_is_logged_again(begun: Begun, row: bool, away: bool) -> None:
    follower = begun(*T, **OFTEN)
    markers: list[dict[str, object]] = []
    *before, logged_again = UNLOGGED
    follower.sql(*before)
    wait_for_look(follower)
    follower.until(lambda: "t" not in {table.name for table in follower.task.running.schemas.captured()})
    if away:
        follower.restart()
        follower.until_caught_up()
        follower.task.stop()

    follower.marked = lambda value: markers.append(json.loads(value))
    follower.sql(logged_again, *(["INSERT INTO t VALUES (4, 'd')"] if row else []))
    if away:
        follower.restart()

    follower.until_equal("t")
    follower.until(lambda: any(marker["final"] for marker in markers))
    assert {marker["mode"] for marker in markers} == {"repair"}, "rows may have been deleted meanwhile"


@pytest.mark.parametrize("restarts", [0, 2], ids=["", "over-restarts"])
def test_what_a_transaction_wrote_while_the_publication_left_it_out_comes_when_it_has_ended(
    postgres: Postgres, database: str, begun: Begun, restarts: int
) -> None:
    follower = begun(*T, **OFTEN)
    with connected(postgres, database=database) as writer:
        writer.autocommit = False
        follower.sql("ALTER PUBLICATION dbz_publication SET (publish = 'insert')")
        writer.cursor().execute("UPDATE t SET v = 'b' WHERE id = 1")
        with capture_logs() as lines:
            follower.sql("ALTER PUBLICATION dbz_publication SET (publish = 'insert, update, delete')")
            follower.until(lambda: logged(lines, DUMPED_AGAIN))
            for _ in range(3):
                follower.until_caught_up()
        for _ in range(restarts):
            follower.restart()
            for _ in range(3):
                follower.until_caught_up()
        writer.commit()

    follower.until_equal("t")


@pytest.mark.parametrize(
    ("away", "back"),
    [
        pytest.param(
            ["ALTER PUBLICATION dbz_publication DROP TABLE t"],
            "ALTER PUBLICATION dbz_publication ADD TABLE t (id, v)",
            id="put back with other columns",
        ),
        pytest.param(
            ["DROP TABLE t", "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)"],
            "ALTER PUBLICATION dbz_publication ADD TABLE t",
            id="made again",
        ),
    ],
)
def test_a_table_that_comes_back_with_a_row_is_dumped_behind_transactions_that_wrote_before_that_over_a_restart(
    postgres: Postgres, database: str, begun: Begun, away: list[str], back: str
) -> None:
    made = ("CREATE TABLE t (id INT PRIMARY KEY, v TEXT, w TEXT)", "CREATE PUBLICATION dbz_publication FOR TABLE t, marks")
    follower = begun(*made, **BY_HAND, **{"dblog.metrics.server.interval.ms": "0"})  # nothing but a row shows it
    follower.sql(*away)
    with connected(postgres, database=database) as writer:
        writer.autocommit = False
        writer.cursor().execute("INSERT INTO t VALUES (3, 'b')")
        with capture_logs() as lines:
            follower.sql(back, "INSERT INTO t (id) VALUES (4)")
            follower.until(lambda: logged(lines, DUMPED_AGAIN))
            follower.until_caught_up()
        follower.restart()  # a session that has decoded the table's rows before decodes older ones with the publication of now
        for _ in range(3):
            follower.until_caught_up()
        writer.commit()

    follower.until(lambda: {"3", "4"} <= {str(row["id"]) for row in follower.rows["t"].values()})


def test_a_table_that_was_in_no_log_for_a_while_is_dumped_over_a_kill(begun: Begun) -> None:
    follower, statements, table = case(begun, "taken out and put back", **SELDOM)

    with capture_logs() as lines:
        follower.sql(*statements)
        follower.until_caught_up()
        wait_for_line(lines, "schema change in the log")
        follower.restart()  # nothing was polled behind that

    follower.until_equal(table)


@pytest.mark.parametrize("away", [False, True], ids=["running", "away"])
def test_what_becomes_of_other_tables_in_the_publication_costs_no_dump(begun: Begun, away: bool) -> None:
    made = (*T, "CREATE TABLE u (id INT PRIMARY KEY)", "CREATE PUBLICATION dbz_publication FOR TABLE t, marks")
    follower = begun(*made, **BY_HAND, **{"table.include.list": "public.t,public.marks"}, **OFTEN)
    if away:
        follower.task.stop()

    with capture_logs() as lines:
        follower.sql("ALTER PUBLICATION dbz_publication ADD TABLE u", "ALTER PUBLICATION dbz_publication SET TABLE t, marks")
        follower.sql("COMMENT ON TABLE t IS 'x'", "VACUUM FULL t", "GRANT SELECT ON t TO public", "ALTER TABLE t ALTER v SET NOT NULL")
        if away:
            follower.restart()
        wait_for_look(follower)
        follower.until_caught_up()
        follower.until_caught_up()

    assert not logged(lines, DUMPED_AGAIN)


def test_a_table_that_a_start_puts_back_into_the_publication_is_dumped_once(begun: Begun) -> None:
    follower = begun(*T, **{"publication.autocreate.mode": "filtered"}, **OFTEN)
    follower.sql("ALTER PUBLICATION dbz_publication DROP TABLE t", "UPDATE t SET v = 'b'")
    follower.task.stop()

    with capture_logs() as lines:
        follower.restart()
        follower.until_equal("t")
        wait_for_look(follower)
        follower.until_caught_up()
        follower.restart()
        wait_for_look(follower)
        follower.until_caught_up()

    assert not logged(lines, DUMPED_AGAIN)
    assert not logged(lines, "changes of a table may be in no log for a while")


@pytest.mark.parametrize("away", [False, True], ids=["running", "away"])
@pytest.mark.parametrize(
    "statement", ["VACUUM FULL t", "CLUSTER t USING t_pkey", "BEGIN; TRUNCATE t; INSERT INTO t VALUES (5, 'e'); COMMIT", "REINDEX TABLE t"]
)
def test_rows_that_are_written_anew_as_they_are_cost_no_dump(begun: Begun, statement: str, away: bool) -> None:
    follower = begun(*T, **OFTEN, **{"skipped.operations": "none"})
    if away:
        follower.task.stop()

    with capture_logs() as lines:
        follower.sql(statement)
        if away:
            follower.restart()
        wait_for_look(follower)
        follower.until_caught_up()
        follower.until_caught_up()

    assert not logged(lines, DUMPED_AGAIN)


@pytest.mark.parametrize(
    ("name", "away"),
    [
        pytest.param("taken out and put back", False, id="running"),
        pytest.param("taken out and put back", True, id="away"),
        pytest.param("unlogged for a while", True, id="unlogged"),
    ],
)
def test_the_dump_after_a_stretch_that_is_in_no_log_is_a_repair_for_rows_were_deleted_in_it(begun: Begun, name: str, away: bool) -> None:
    follower, (first, *others), table = case(begun, name, **SELDOM)
    markers: list[dict[str, object]] = []
    follower.marked = lambda value: markers.append(json.loads(value))
    if away:
        follower.task.stop()

    follower.sql(first, "DELETE FROM t WHERE id = 2", *others)
    if away:
        follower.restart()

    follower.until(lambda: any(marker["final"] and str(marker["table"]).endswith(f".{table}") for marker in markers))
    assert {(marker["mode"], marker["scope"]) for marker in markers} == {("repair", "table")}
