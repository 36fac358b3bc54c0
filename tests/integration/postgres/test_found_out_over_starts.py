"""What is found out over kills and starts, by names that go round, and of tables that are new. # I3, I4"""

from __future__ import annotations

import psycopg2
import pytest
from dblog.core.dumprequests import INITIAL
from dblog.core.timeline import Known
from dblog.dialects.postgres.task.server import PostgresServer
from dblog.errors import TransientError
from dblog.model import TableId
from stack import Postgres
from structlog.testing import capture_logs
from support.postgres_begun import BY_ROOT, OFTEN, ROOT_ONLY, SELDOM, Begun, logged, renamed, together, wait_for_line
from support.postgres_follower import ROOT, PostgresFollower

T = ("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'a')")
NAMES = {"table.include.list": "public.t,public.t2,public.a,public.n,public.marks"}
FOUND = "schema change in the log"
DUMPED_AGAIN = "the table is dumped again"
NEW_NAMES = pytest.mark.parametrize("new", ["t2", "a"])
"""Behind the old name in their order, and in front of it."""


def start_that_fails(follower: PostgresFollower, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the history, and does not come to the catalog."""

    def connection_lost(_: PostgresServer) -> None:
        message = "the connection is lost"
        raise TransientError(message)

    with monkeypatch.context() as patch:
        patch.setattr(PostgresServer, "now", connection_lost)
        follower.task = follower.new_task()
        with pytest.raises(TransientError, match="is lost"):
            follower.start()


def killed_once_found(follower: PostgresFollower, *statements: str) -> None:
    """What the statements did is found out where the stored offset is, and nothing that follows from it is stored."""
    with capture_logs() as lines:
        follower.sql(*statements)
        follower.until_caught_up()
        wait_for_line(lines, FOUND)
        follower.restart()


@pytest.mark.parametrize(
    ("moves", "now"),
    [
        (("a>x", "b>a", "x>b"), "abc"),
        (("c>d", "b>c", "a>b"), "bcd"),
        (("a>d", "b>a"), "acd"),
        (("c>d",), "abd"),
        (("b>0",), "ac0"),
    ],
)
def test_a_name_that_is_found_out_where_the_offset_is_stored_is_dumped_over_a_kill(begun: Begun, moves: tuple[str, ...], now: str) -> None:
    made = [s for n in "abc" for s in (f"CREATE TABLE {n} (id INT PRIMARY KEY, v TEXT)", f"INSERT INTO {n} VALUES (1, 'of {n}')")]
    follower = begun(*made, **{"table.include.list": "public.[a-d],public.x0,public.marks", **SELDOM})

    killed_once_found(follower, together(*renamed(*(move.replace("0", "x0") for move in moves))))

    for name in now:
        follower.until_has(name.replace("0", "x0"))


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ADD more INT DEFAULT 7",
        "DROP TABLE t; CREATE TABLE t (id INT PRIMARY KEY, v TEXT); INSERT INTO t VALUES (3, 'z')",
        "ALTER TABLE t DROP v, ADD v TEXT DEFAULT 'q'",
    ],
)
def test_a_statement_that_is_found_out_where_the_offset_is_stored_is_followed_over_a_kill(begun: Begun, statement: str) -> None:
    follower = begun(*T, **SELDOM)

    killed_once_found(follower, statement)

    follower.until_has("t")


def test_deletes_of_a_table_whose_name_another_one_has_by_now_come_over_a_kill_and_a_start_that_fails(
    begun: Begun, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = begun("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    offset = follower.offset
    with monkeypatch.context() as patch:
        patch.setattr(follower.task, "commit", lambda _: None)
        follower.sql(*renamed("t>r"), "UPDATE r SET v = 'c'")
        follower.until(lambda: follower.keys("r") == ['{"id":1}', '{"id":2}'])
        follower.until_caught_up()
        follower.task.stop()
    follower.sql(
        "DELETE FROM r WHERE id = 1",
        together("CREATE TABLE c (LIKE r INCLUDING ALL)", "INSERT INTO c SELECT * FROM r", *renamed("r>o", "c>r"), "DROP TABLE o"),
    )
    follower.offset = offset

    start_that_fails(follower, monkeypatch)
    follower.restart()

    follower.until_caught_up()
    follower.until_equal("r")


@NEW_NAMES
def test_a_root_that_was_renamed_while_the_connector_was_away_has_its_new_name(begun: Begun, new: str) -> None:
    follower = begun(*ROOT, **{**BY_ROOT, "table.include.list": "public.root,public.t2,public.a,public.marks", **OFTEN})
    follower.task.stop()
    follower.sql("INSERT INTO root VALUES (2, 'b')", *renamed(f"root>{new}"), f"INSERT INTO {new} VALUES (3, 'c')")

    follower.restart()
    follower.until_has(new)
    follower.until_caught_up()
    follower.sql(f"INSERT INTO {new} VALUES (4, 'd')")

    follower.until_has(new)


@NEW_NAMES
def test_a_table_that_gets_its_name_of_before_back_is_found_whole(begun: Begun, new: str) -> None:
    follower = begun(*T, **NAMES, **OFTEN)
    follower.task.stop()
    follower.sql(*renamed(f"t>{new}"))
    follower.restart()
    follower.until_has(new)
    follower.sql(f"INSERT INTO {new} VALUES (2, 'b')")
    follower.until_has(new)

    with capture_logs() as lines:
        follower.sql(*renamed(f"{new}>t"))
        follower.until(lambda: logged(lines, FOUND))
    follower.sql("INSERT INTO t VALUES (3, 'c')")

    follower.until_has("t")


def test_a_table_that_comes_back_under_another_name_keeps_it(begun: Begun) -> None:
    follower = begun(*T, **NAMES, **OFTEN)
    follower.task.stop()
    follower.sql(*renamed("t>outside"))
    follower.restart()
    follower.until_caught_up()
    follower.sql(*renamed("outside>a"))
    follower.until_has("a")
    follower.sql("CREATE TABLE n (id INT PRIMARY KEY)", "INSERT INTO n VALUES (1)")
    follower.until_has("n")

    follower.sql("INSERT INTO a VALUES (3, 'c')")

    follower.until_has("a")


def test_a_table_that_was_outside_while_the_connector_was_away_has_the_rows_of_then(begun: Begun) -> None:
    follower = begun(*T, **{"table.include.list": "public.t,public.marks"}, **OFTEN)
    follower.task.stop()
    follower.sql(*renamed("t>outside"), "INSERT INTO outside VALUES (2, 'b')", *renamed("outside>t"))

    follower.restart()

    follower.until_equal("t")


def test_tables_that_had_each_others_names_while_the_connector_was_away_have_the_rows_of_then(begun: Begun) -> None:
    made = [s for n in "ab" for s in (f"CREATE TABLE {n} (id INT PRIMARY KEY, v TEXT)", f"INSERT INTO {n} VALUES (1, 'of {n}')")]
    follower = begun(*made, **OFTEN)
    swapped = together(*renamed("a>x", "b>a", "x>b"))
    follower.task.stop()
    follower.sql(swapped, "INSERT INTO b VALUES (2, 'of a')", swapped)

    follower.restart()

    follower.until_has("a")
    follower.until_has("b")


@pytest.mark.parametrize("levels", [1, 2])
def test_old_rows_of_partitions_have_the_default_that_a_new_column_has_lost_again(begun: Begun, levels: int) -> None:
    two = (
        "CREATE TABLE root (id INT PRIMARY KEY, v TEXT) PARTITION BY RANGE (id)",
        "CREATE TABLE mid PARTITION OF root FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (id)",
        "CREATE TABLE leaf PARTITION OF mid FOR VALUES FROM (0) TO (10)",
        "INSERT INTO root VALUES (1, 'a')",
    )
    follower = begun(*(ROOT if levels == 1 else two), **ROOT_ONLY, **OFTEN)

    follower.sql(together("ALTER TABLE root ADD more INT DEFAULT 7", "ALTER TABLE root ALTER more DROP DEFAULT"))
    follower.sql("INSERT INTO root VALUES (2, 'b', 9)")

    follower.until_equal("root")


@pytest.mark.parametrize("more", [(), ("INSERT INTO t VALUES (3, 'b', 8, 9)",)], ids=["no row behind", "a row behind"])
def test_old_rows_have_a_drawn_default_though_another_column_came_behind_it(begun: Begun, more: tuple[str, ...]) -> None:
    follower = begun(*T, **OFTEN)
    follower.task.stop()
    follower.sql(
        "ALTER TABLE t ADD c INT DEFAULT (random() * 5)::int + 1",
        "ALTER TABLE t ALTER c DROP DEFAULT",
        "INSERT INTO t VALUES (2, 'b', 8)",
        "ALTER TABLE t ADD d INT",
        *more,
    )

    follower.restart()

    follower.until_equal_by_name("t")


@pytest.mark.parametrize("anew", ["VACUUM FULL t", "TRUNCATE t"])
@pytest.mark.parametrize("alter", ["ALTER TABLE t ADD w INT", "ALTER TABLE t ALTER v TYPE TEXT"])
def test_rows_that_were_written_anew_ahead_of_a_start_cost_no_dump_behind_it(begun: Begun, anew: str, alter: str) -> None:
    follower = begun("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))", "INSERT INTO t VALUES (1, 'a')", **OFTEN)

    def file() -> int | None:
        known = follower.task.running.schemas.timeline.current_table(TableId("public", "t"))
        return None if known is None else known.file

    before = file()
    follower.sql(anew)
    follower.until(lambda: file() != before)
    follower.until_caught_up()
    follower.restart()
    follower.until_caught_up()
    with capture_logs() as lines:
        follower.sql(alter, "INSERT INTO t VALUES (2, 'b')")
        follower.until(lambda: '{"id":2}' in follower.keys("t"))
        follower.until_caught_up()

    assert not logged(lines, DUMPED_AGAIN)


@pytest.mark.parametrize(
    ("kind", "value", "later"), [("INT", "NULL", "5"), ("UUID", "NULL", "gen_random_uuid()"), ("INT[]", "ARRAY[ARRAY[1]]", "ARRAY[1]")]
)
def test_a_column_of_the_log_takes_null_though_the_server_refuses_it_by_now(begun: Begun, kind: str, value: str, later: str) -> None:
    follower = begun("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", **OFTEN)
    follower.task.stop()
    follower.sql(
        f"ALTER TABLE t ADD a {kind}",
        f"INSERT INTO t VALUES (2, {value})",
        f"UPDATE t SET a = {later}",
        "ALTER TABLE t ALTER a SET NOT NULL",
    )

    follower.restart()
    follower.until_caught_up()

    assert [row["after"] for table, row in follower.values if table == "t" and row and row["op"] == "c"] == [{"id": 2, "a": None}]
    follower.until_equal("t")


@pytest.mark.parametrize(("kind", "later"), [("INT", "5"), ("TEXT", "'x'"), ("TIMESTAMPTZ", "now()"), ("JSONB", "'{}'")])
def test_an_older_column_of_the_log_takes_null_though_the_server_refuses_it_by_now(begun: Begun, kind: str, later: str) -> None:
    follower = begun(f"CREATE TABLE t (id INT PRIMARY KEY, v {kind})", "INSERT INTO t VALUES (1, NULL)", **OFTEN)
    follower.task.stop()
    follower.sql(
        "ALTER TABLE t ADD b INT", "INSERT INTO t VALUES (2, NULL, 1)", f"UPDATE t SET v = {later}", "ALTER TABLE t ALTER v SET NOT NULL"
    )

    follower.restart()
    follower.until_caught_up()

    assert [row["after"] for table, row in follower.values if table == "t" and row and row["op"] == "c"] == [{"id": 2, "v": None, "b": 1}]


def test_a_column_that_was_added_with_a_value_in_every_row_has_never_taken_null(begun: Begun) -> None:
    follower = begun("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", **OFTEN)
    follower.task.stop()
    follower.sql("ALTER TABLE t ADD b INT NOT NULL DEFAULT 7", "INSERT INTO t VALUES (2, 8)")

    follower.restart()
    follower.until_equal("t")

    versions = follower.task.running.schemas.timeline.versions(TableId("public", "t"))
    nullable = [[column.nullable for column in version.state.table.columns] for version in versions if isinstance(version.state, Known)]
    assert nullable == [[False], [False, False]][-len(nullable) :]


def test_a_partition_that_was_made_beside_a_new_column_costs_no_dump(begun: Begun) -> None:
    follower = begun(*ROOT, **ROOT_ONLY, **OFTEN)
    follower.task.stop()
    follower.sql(
        "CREATE TABLE p2 PARTITION OF root FOR VALUES FROM (100) TO (200)",
        "ALTER TABLE root ADD w INT",
        "INSERT INTO root VALUES (2, 'b', 3)",
    )

    with capture_logs() as lines:
        follower.restart()
        follower.until_equal_by_name("root")
        follower.until_caught_up()

    assert not logged(lines, DUMPED_AGAIN)


def test_rows_that_were_written_anew_two_starts_ago_cost_no_dump(begun: Begun) -> None:
    follower = begun(*T, **OFTEN)

    def file() -> int | None:
        known = follower.task.running.schemas.timeline.current_table(TableId("public", "t"))
        return None if known is None else known.file

    before = file()
    follower.sql("VACUUM FULL t")
    follower.until(lambda: file() != before)
    follower.sql("INSERT INTO t VALUES (2, 'b')")
    follower.until_caught_up()
    follower.restart()
    follower.until_caught_up()
    follower.task.stop()
    follower.sql("ALTER TABLE t ADD w INT", "INSERT INTO t VALUES (3, 'c', 3)")
    with capture_logs() as lines:
        follower.restart()
        follower.until(lambda: '{"id":3}' in follower.keys("t"))
        follower.until_caught_up()

    assert not logged(lines, DUMPED_AGAIN)


@pytest.mark.parametrize("fails", [False, True])
def test_deletes_of_a_table_that_was_made_again_come_over_a_kill_and_a_start_that_fails(
    begun: Begun, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    follower = begun(*T, **OFTEN)
    with monkeypatch.context() as patch:
        patch.setattr(follower.task, "commit", lambda _: None)
        with capture_logs() as lines:
            follower.sql("DROP TABLE t")
            follower.until(lambda: logged(lines, FOUND))
        follower.sql("INSERT INTO marks VALUES (7001)")
        follower.until_caught_up()
        offset = follower.offset
        follower.sql("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'x'), (2, 'b')")
        follower.until(lambda: '{"id":2}' in follower.keys("t"))
        follower.until_caught_up()
        follower.task.stop()
    follower.sql("DELETE FROM t WHERE id = 2")
    follower.offset = offset
    if fails:
        start_that_fails(follower, monkeypatch)

    follower.restart()

    follower.until_caught_up()
    follower.until_equal("t")


def test_a_table_that_was_seen_empty_costs_no_dump_of_what_the_log_has(begun: Begun) -> None:
    follower = begun(**OFTEN)
    with capture_logs() as lines:
        follower.sql(together(*(f"CREATE TABLE n{number} (id INT PRIMARY KEY, v TEXT)" for number in range(300))))
        follower.until(lambda: logged(lines, FOUND))
        follower.sql(together(*(f"INSERT INTO n{number} VALUES (1, 'a')" for number in range(300))))
        follower.until(lambda: all(follower.keys(f"n{number}") for number in range(300)))
        follower.until_caught_up()

    assert not logged(lines, DUMPED_AGAIN)
    assert not logged(lines, "table schema read from the server")
    assert {op for number in range(300) for op in follower.ops(f"n{number}")} == {"c"}


@pytest.mark.parametrize("later", [False, True], ids=["alone", "ahead of another one"])
def test_a_table_that_joins_is_dumped_though_none_is_dumped_again(begun: Begun, later: bool) -> None:
    made = [
        s for n in ("outside", "outside2") for s in (f"CREATE TABLE {n} (id INT PRIMARY KEY, v TEXT)", f"INSERT INTO {n} VALUES (1, 'a')")
    ]
    follower = begun(*made, **NAMES, **OFTEN, **{"dblog.ddl.redump": "never"})
    follower.sql(*renamed("outside>t"))
    if later:
        follower.sql(together(*renamed("outside2>t2"), "INSERT INTO t2 VALUES (2, 'b')"))
        follower.until_has("t2")
        follower.restart()

    follower.until_has("t")


@pytest.mark.parametrize("by_a_row", [False, True], ids=["by the watch", "by a row"])
def test_a_table_that_is_let_in_is_dumped_behind_whoever_has_written_to_it(
    postgres: Postgres, database: str, begun: Begun, by_a_row: bool
) -> None:
    config = {"publication.autocreate.mode": "disabled", **(SELDOM if by_a_row else OFTEN)}
    follower = begun("CREATE PUBLICATION dbz_publication FOR TABLE marks", **config)
    with capture_logs() as lines:
        follower.sql(*T)
        follower.until(lambda: any(line["event"].startswith("the publication lacks") for line in lines))

    def reason() -> str:
        return str((follower.status(INITIAL) or {}).get("reason"))

    writer = psycopg2.connect(**{**postgres.login, "dbname": database})
    writer.cursor().execute("INSERT INTO t VALUES (2, 'b')")
    follower.sql("ALTER PUBLICATION dbz_publication ADD TABLE t", *(["INSERT INTO t VALUES (4, 'd')"] if by_a_row else []))
    follower.until(lambda: reason().endswith("under way at that time: 1 not ended yet"))
    writer.cursor().execute("INSERT INTO t VALUES (3, 'c')")
    writer.commit()
    writer.close()

    follower.until_equal("t")


def test_a_table_that_is_let_in_while_the_watch_has_lost_its_connection_is_dumped(begun: Begun) -> None:
    follower = begun("CREATE PUBLICATION dbz_publication FOR TABLE marks", **{"publication.autocreate.mode": "disabled", **SELDOM})
    with capture_logs() as lines:
        follower.sql(*T)
        follower.until(lambda: any(line["event"].startswith("the publication lacks") for line in lines))
    others = "backend_type = 'client backend' AND datname = pg_catalog.current_database() AND pid <> pg_catalog.pg_backend_pid()"
    follower.sql(f"SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE {others}")
    follower.sql("ALTER PUBLICATION dbz_publication ADD TABLE t")

    follower.until_has("t")
