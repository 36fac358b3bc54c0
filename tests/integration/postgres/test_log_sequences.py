"""Sequences on one server: what is altered, dropped, made again and taken away under a connector that runs, or while it is away."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from dblog.core.dumprequests import INITIAL
from dblog.dialects.postgres.wire import slot
from dblog.errors import DefiniteError
from stack import Postgres
from support.postgres import execute
from support.postgres_follower import PostgresFollower, drop_slots, unread


@pytest.fixture
def database(postgres: Postgres, postgres_database: str) -> Iterator[str]:
    yield postgres_database
    drop_slots(postgres, postgres_database)


@pytest.fixture
def followers() -> Iterator[list[PostgresFollower]]:
    made: list[PostgresFollower] = []
    yield made
    for one in made:
        with contextlib.suppress(Exception):
            one.task.stop()


def test_rows_come_under_the_root_where_the_publication_has_them_so(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql(
        "CREATE TABLE marks (id INT PRIMARY KEY)",
        "CREATE TABLE root (id INT PRIMARY KEY, v TEXT) PARTITION BY RANGE (id)",
        "CREATE TABLE leaf PARTITION OF root FOR VALUES FROM (0) TO (100)",
        "CREATE PUBLICATION dbz_publication FOR ALL TABLES WITH (publish_via_partition_root = true)",
        "INSERT INTO root VALUES (1, 'a')",
    )
    follower.start()
    follower.until_dumped()
    follower.sql("INSERT INTO root VALUES (2, 'b')", "UPDATE root SET v = 'c' WHERE id = 1")
    follower.until_caught_up()
    follower.task.stop()
    assert sorted((row["id"], row["v"]) for row in follower.rows["root"].values()) == [(1, "c"), (2, "b")]
    assert not follower.rows.get("leaf")


def test_a_primary_key_of_other_columns_is_the_key_from_then_on(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql(
        "CREATE TABLE marks (id INT PRIMARY KEY)",
        "CREATE TABLE t (a INT PRIMARY KEY, b INT NOT NULL, v TEXT)",
        "INSERT INTO t VALUES (1, 10, 'x'), (2, 20, 'y')",
    )
    follower.start()
    follower.until_dumped()
    follower.sql("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (b)", "INSERT INTO t VALUES (1, 11, 'second a = 1')")
    follower.until_caught_up()
    assert follower.keys("t")[-1] != '{"a":1}'
    follower.until_equal("t")
    follower.task.stop()


def test_a_delete_after_a_change_of_the_primary_key_is_a_record(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql(
        "CREATE TABLE marks (id INT PRIMARY KEY)",
        "CREATE TABLE t (a INT PRIMARY KEY, b INT NOT NULL, v TEXT)",
        "INSERT INTO t VALUES (1, 10, 'x'), (2, 20, 'y')",
    )
    follower.start()
    follower.until_dumped()
    follower.sql("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (b)", "DELETE FROM t WHERE b = 10")
    follower.until_caught_up()
    assert "d" in follower.ops("t")
    follower.task.stop()


def test_a_table_that_was_dropped_and_made_again_is_dumped_again(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql(
        "CREATE TABLE marks (id INT PRIMARY KEY)",
        "CREATE TABLE t (a INT PRIMARY KEY, b INT NOT NULL)",
        "INSERT INTO t VALUES (1, 10), (2, 20)",
    )
    follower.start()
    follower.until_dumped()
    begun = len(follower.values)
    follower.sql("DROP TABLE t", "CREATE TABLE t (a INT PRIMARY KEY, b INT NOT NULL)", "INSERT INTO t VALUES (3, 30)")
    follower.until_caught_up()
    for _ in range(60):
        follower.poll()
    follower.task.stop()
    since = [record["op"] for name, record in follower.values[begun:] if name == "t" and record is not None]
    assert {"r", "t", "d"} & set(since), f"nothing shows that rows 1 and 2 are gone: {since}"


def test_a_table_made_again_with_another_key_has_that_key(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql(
        "CREATE TABLE marks (id INT PRIMARY KEY)", "CREATE TABLE t (a INT PRIMARY KEY, b INT NOT NULL)", "INSERT INTO t VALUES (1, 10)"
    )
    follower.start()
    follower.until_dumped()
    begun = len(follower.values)
    follower.sql("DROP TABLE t", "CREATE TABLE t (a INT NOT NULL, b INT PRIMARY KEY)", "INSERT INTO t VALUES (7, 70), (7, 71)")
    follower.until_caught_up()
    follower.task.stop()
    del begun
    assert [name for name in follower.keys("t") if '"b"' in name], follower.keys("t")


@pytest.mark.parametrize("away", [False, True], ids=["running", "away"])
@pytest.mark.parametrize("columns", ["c INT, d INT", "d INT, c INT"], ids=["within", "last"])
def test_a_column_that_is_dropped_and_made_again_has_its_new_values(postgres: Postgres, database: str, columns: str, away: bool) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql(
        "CREATE TABLE marks (id INT PRIMARY KEY)",
        f"CREATE TABLE t (id INT PRIMARY KEY, {columns})",
        "INSERT INTO t (id, c, d) VALUES (1, 10, 100), (2, 20, 200)",
    )
    follower.start()
    follower.until_dumped()
    follower.sql("INSERT INTO t (id, c, d) VALUES (3, 30, 300)")
    follower.until_caught_up()
    if away:
        follower.task.stop()

    follower.sql("ALTER TABLE t DROP COLUMN c", "ALTER TABLE t ADD COLUMN c INT", "INSERT INTO t (id, c, d) VALUES (4, 40, 400)")
    if away:
        follower.restart()
    follower.until_caught_up()
    follower.until_equal("t")

    assert sorted((row["id"], row["c"]) for row in follower.rows["t"].values()) == [(1, None), (2, None), (3, None), (4, 40)]
    follower.task.stop()


def test_two_columns_that_swap_their_names_have_the_values_of_the_other(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql(
        "CREATE TABLE marks (id INT PRIMARY KEY)", "CREATE TABLE t (id INT PRIMARY KEY, c INT, d INT)", "INSERT INTO t VALUES (1, 10, 100)"
    )
    follower.start()
    follower.until_dumped()

    follower.sql(
        "ALTER TABLE t RENAME c TO e; ALTER TABLE t RENAME d TO c; ALTER TABLE t RENAME e TO d", "INSERT INTO t (id, c) VALUES (2, 20)"
    )
    follower.until_caught_up()
    follower.until_equal("t")

    assert sorted((row["id"], row["c"], row["d"]) for row in follower.rows["t"].values()) == [(1, 100, 10), (2, 20, None)]
    follower.task.stop()


def test_a_column_that_becomes_another_enum_has_its_new_values(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql(
        "CREATE TYPE mood AS ENUM ('low', 'high')",
        "CREATE TYPE weather AS ENUM ('rain', 'sun')",
        "CREATE TABLE marks (id INT PRIMARY KEY)",
        "CREATE TABLE t (id INT PRIMARY KEY, m mood)",
        "INSERT INTO t VALUES (1, 'low'), (2, 'high')",
    )
    follower.start()
    follower.until_dumped()

    follower.sql(
        "ALTER TABLE t ALTER m TYPE weather USING (CASE m WHEN 'low' THEN 'rain' ELSE 'sun' END)::weather",
        "INSERT INTO t VALUES (3, 'sun')",
    )
    follower.until_caught_up()
    follower.until_equal("t")

    assert sorted((row["id"], row["m"]) for row in follower.rows["t"].values()) == [(1, "rain"), (2, "sun"), (3, "sun")]
    follower.task.stop()


def test_a_key_column_that_was_renamed_while_the_connector_was_away_is_the_key(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql("CREATE TABLE marks (id INT PRIMARY KEY)", "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'a')")
    follower.start()
    follower.until_dumped()
    follower.task.stop()
    follower.sql(
        "ALTER TABLE t RENAME COLUMN id TO uid",
        "INSERT INTO t VALUES (2, 'b')",
        "ALTER TABLE t ADD COLUMN w INT",
        "INSERT INTO t VALUES (3, 'c', 3)",
    )
    follower.restart()
    follower.until_caught_up()
    names = follower.keys("t")
    follower.task.stop()
    assert names == ['{"id":1}', '{"uid":2}', '{"uid":3}']


def test_rows_of_a_table_that_is_gone_by_now_have_its_key(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql("CREATE TABLE marks (id INT PRIMARY KEY)")
    follower.start()
    follower.until_dumped()
    follower.task.stop()
    follower.sql("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'a')", "UPDATE t SET v = 'b'", "DROP TABLE t")
    follower.restart()
    follower.until_caught_up()
    names, ops = follower.keys("t"), follower.ops("t")
    follower.task.stop()
    assert (names, ops) == (['{"id":1}'], ["c", "u"])


def test_two_tables_that_swap_their_names(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql(
        "CREATE TABLE marks (id INT PRIMARY KEY)",
        "CREATE TABLE a (id INT PRIMARY KEY, v TEXT)",
        "CREATE TABLE b (code INT PRIMARY KEY, w INT NOT NULL)",
        "INSERT INTO a VALUES (1, 'a')",
        "INSERT INTO b VALUES (7, 70)",
    )
    follower.start()
    follower.until_dumped()
    follower.sql("ALTER TABLE a RENAME TO c; ALTER TABLE b RENAME TO a; ALTER TABLE c RENAME TO b")
    follower.sql(
        "INSERT INTO b VALUES (2, 'in b')",
        "INSERT INTO a VALUES (8, 80)",
        "INSERT INTO b VALUES (3, 'in b')",
        "INSERT INTO a VALUES (9, 90)",
    )
    follower.until_caught_up()
    for _ in range(40):
        follower.poll()
    assert {'{"id":2}', '{"id":3}', '{"id":1}'} <= set(follower.keys("b"))
    assert {'{"code":8}', '{"code":9}', '{"code":7}'} <= set(follower.keys("a"))
    follower.restart()
    follower.sql("INSERT INTO b VALUES (4, 'in b')", "INSERT INTO a VALUES (10, 90)")
    follower.until_caught_up()
    assert '{"id":4}' in follower.keys("b")
    assert '{"code":10}' in follower.keys("a")
    follower.task.stop()


@pytest.mark.parametrize("away", [False, True], ids=["running", "away"])
@pytest.mark.parametrize("first", ["a", "b"])
def test_two_tables_of_equal_columns_that_swap_their_names_are_both_dumped_again(
    postgres: Postgres, database: str, first: str, away: bool
) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql(
        "CREATE TABLE marks (id INT PRIMARY KEY)",
        "CREATE TABLE a (id INT PRIMARY KEY, v TEXT)",
        "CREATE TABLE b (id INT PRIMARY KEY, v TEXT)",
        "INSERT INTO a VALUES (1, 'a')",
        "INSERT INTO b VALUES (1, 'b')",
    )
    follower.start()
    follower.until_dumped()
    if away:
        follower.task.stop()
    follower.sql("ALTER TABLE a RENAME TO c; ALTER TABLE b RENAME TO a; ALTER TABLE c RENAME TO b")
    follower.sql(f"INSERT INTO {first} VALUES (2, 'x')", f"INSERT INTO {'b' if first == 'a' else 'a'} VALUES (3, 'y')")
    if away:
        follower.restart()
    follower.until_caught_up()
    follower.until_equal("a")
    follower.until_equal("b")
    follower.task.stop()


def test_a_rename_while_the_connector_was_away(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql("CREATE TABLE marks (id INT PRIMARY KEY)", "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'a')")
    follower.start()
    follower.until_dumped()
    follower.task.stop()
    follower.sql("INSERT INTO t VALUES (2, 'b')", "ALTER TABLE t RENAME TO u", "INSERT INTO u VALUES (3, 'c')")
    follower.restart()
    follower.until_caught_up()
    follower.until_equal("u")
    assert follower.keys("t") == ['{"id":1}', '{"id":2}']
    follower.task.stop()


def test_a_key_of_a_type_outside_of_the_search_path_is_read_in_its_own_order(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, **{"dblog.chunk.rows": "1"})
    follower.sql(
        "CREATE SCHEMA ext",
        "CREATE EXTENSION citext SCHEMA ext",
        "CREATE TABLE t (id ext.citext PRIMARY KEY)",
        "INSERT INTO t VALUES ('a'), ('B'), ('c'), ('D')",
    )
    follower.start()
    follower.until_dumped()
    found = sorted(row["id"] for row in follower.rows.get("t", {}).values())
    follower.task.stop()
    assert found == ["B", "D", "a", "c"]


def test_a_table_without_columns_does_no_harm(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql("CREATE TABLE marks (id INT PRIMARY KEY)", "CREATE TABLE nothing ()", "INSERT INTO nothing DEFAULT VALUES")
    follower.start()
    follower.until_dumped()
    follower.sql("INSERT INTO nothing DEFAULT VALUES")
    follower.until_caught_up()
    follower.task.stop()


def test_a_truncate_of_several_tables_in_the_middle_of_a_transaction(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, **{"skipped.operations": "none"})
    follower.sql(
        "CREATE TABLE marks (id INT PRIMARY KEY)",
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "CREATE TABLE u (id INT PRIMARY KEY, t INT REFERENCES t)",
        "INSERT INTO t VALUES (1)",
        "INSERT INTO u VALUES (1, 1)",
    )
    follower.start()
    follower.until_dumped()
    follower.sql("BEGIN; INSERT INTO t VALUES (2); TRUNCATE t CASCADE; INSERT INTO t VALUES (3); COMMIT")
    follower.until_caught_up()
    follower.task.stop()
    assert follower.ops("t") == ["r", "c", "t", "c"]
    assert follower.ops("u") == ["r", "t"]


def test_a_slot_that_is_dropped_under_a_running_task_ends_the_task(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql("CREATE TABLE marks (id INT PRIMARY KEY)", "CREATE TABLE t (id INT PRIMARY KEY)")
    follower.start()
    follower.until_dumped()
    drop_slots(postgres, database)
    with pytest.raises(DefiniteError, match="slot"):
        follower.until(lambda: follower.keys("t"))


def test_a_slot_that_was_dropped_and_made_anew_under_a_running_task_loses_nothing_in_silence(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql("CREATE TABLE marks (id INT PRIMARY KEY)", "CREATE TABLE t (id INT PRIMARY KEY)")
    follower.start()
    follower.until_dumped()
    drop_slots(postgres, database)
    follower.sql("INSERT INTO t VALUES (1)")
    follower.sql(f"SELECT pg_create_logical_replication_slot('{follower.name}', 'pgoutput')")
    follower.sql("INSERT INTO t VALUES (2)")
    try:
        follower.until(lambda: '{"id":2}' in follower.keys("t"))
    except DefiniteError:
        return
    finally:
        follower.task.stop()
    assert follower.keys("t") == ['{"id":1}', '{"id":2}']


def test_a_slot_that_somebody_else_reads_on_under_a_running_task_loses_nothing_in_silence(postgres: Postgres, database: str) -> None:

    follower = PostgresFollower(postgres, database)
    follower.sql("CREATE TABLE marks (id INT PRIMARY KEY)", "CREATE TABLE t (id INT PRIMARY KEY)")
    follower.start()
    follower.until_dumped()
    follower.sql("INSERT INTO t VALUES (1)")
    follower.until(lambda: '{"id":1}' in follower.keys("t"))
    unread(
        postgres,
        database,
        follower.name,
        "INSERT INTO t VALUES (2) ON CONFLICT DO NOTHING",
        f"SELECT pg_replication_slot_advance('{follower.name}', pg_current_wal_flush_lsn())",
    )
    follower.sql("INSERT INTO t VALUES (3)")
    try:
        follower.until(lambda: '{"id":3}' in follower.keys("t"))
    except DefiniteError:
        return
    finally:
        follower.task.stop()
    assert follower.keys("t") == ['{"id":1}', '{"id":2}', '{"id":3}']


def test_after_the_primary_key_changed_a_restart_has_the_new_one(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql(
        "CREATE TABLE marks (id INT PRIMARY KEY)", "CREATE TABLE t (a INT PRIMARY KEY, b INT NOT NULL)", "INSERT INTO t VALUES (1, 10)"
    )
    follower.start()
    follower.until_dumped()
    follower.sql("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (b)", "INSERT INTO t VALUES (1, 11)")
    follower.until_caught_up()
    follower.restart()
    follower.sql("INSERT INTO t VALUES (1, 12)")
    follower.until_caught_up()
    found = follower.keys("t")
    follower.task.stop()
    assert '{"b":12}' in found


def test_row_level_security_is_named_where_it_keeps_the_account_from_reading(postgres: Postgres, database: str) -> None:
    account = {"database.user": f"rls_{database}", "database.password": "pw", "publication.autocreate.mode": "disabled"}
    follower = PostgresFollower(postgres, database, **account)
    follower.sql(
        f"CREATE ROLE rls_{database} LOGIN REPLICATION PASSWORD 'pw'",
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        f"GRANT SELECT ON t TO rls_{database}",
        "CREATE PUBLICATION dbz_publication FOR ALL TABLES",
    )
    try:
        follower.start()
        follower.until(lambda: (follower.status(INITIAL) or {}).get("state") == "FAILED")
        status = follower.status(INITIAL)
        follower.task.stop()
    finally:
        drop_slots(postgres, database)
        follower.sql(f"DROP OWNED BY rls_{database}", f"DROP ROLE rls_{database}")
    assert status is not None
    assert f'ALTER ROLE "rls_{database}" BYPASSRLS;' in status["reason"]


def test_a_role_with_a_search_path_and_timeouts_of_its_own_is_read(postgres: Postgres, database: str) -> None:
    account = {"database.user": f"own_{database}", "database.password": "pw", "publication.autocreate.mode": "disabled"}
    follower = PostgresFollower(postgres, database, **account)
    follower.sql(
        f"CREATE ROLE own_{database} LOGIN REPLICATION PASSWORD 'pw'",
        f"ALTER ROLE own_{database} SET search_path = 'pg_temp'",
        f"ALTER ROLE own_{database} SET default_transaction_read_only = on",
        f"ALTER ROLE own_{database} SET quote_all_identifiers = on",
        "CREATE TYPE mood AS ENUM ('a', 'b')",
        'CREATE TABLE "T ""x%s" (id mood PRIMARY KEY, "c\'%s" TEXT)',
        """INSERT INTO "T ""x%s" VALUES ('a', '1'), ('b', '2')""",
        "CREATE TABLE marks (id INT PRIMARY KEY)",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO own_{database}",
        "CREATE PUBLICATION dbz_publication FOR ALL TABLES",
    )
    try:
        follower.start()
        follower.until_dumped()
        follower.until_caught_up()
        follower.task.stop()
        assert len(follower.rows['T "x%s']) == 2
    finally:
        drop_slots(postgres, database)
        follower.sql(f"DROP OWNED BY own_{database}", f"DROP ROLE own_{database}")


def test_a_renamed_key_column_with_the_server_as_it_was_then(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql("CREATE TABLE marks (id INT PRIMARY KEY)", "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'a')")
    follower.start()
    follower.until_dumped()
    follower.sql("ALTER TABLE t RENAME COLUMN id TO uid", "INSERT INTO t VALUES (2, 'b')")
    follower.until_caught_up()
    follower.sql("UPDATE t SET v = 'n' WHERE uid = 1", "DELETE FROM t WHERE uid = 2")
    follower.until_caught_up()
    names = follower.keys("t")
    follower.task.stop()
    assert '{"uid":1}' in names
    assert '{"uid":2}' not in names


def test_ddl_between_rows_of_one_transaction_and_a_kill_in_it(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, **{"max.batch.size": "100"})
    follower.sql("CREATE TABLE marks (id INT PRIMARY KEY)", "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
    follower.start()
    follower.until_dumped()
    follower.sql(
        "BEGIN; INSERT INTO t SELECT n, 'x' FROM generate_series(1, 300) n; SAVEPOINT s; ALTER TABLE t ADD COLUMN gone INT; "
        "INSERT INTO t VALUES (-1, 'rolled back', 1); ROLLBACK TO s; ALTER TABLE t ADD COLUMN w INT; "
        "INSERT INTO t SELECT n, 'y', n FROM generate_series(301, 600) n; ALTER TABLE t DROP COLUMN v; "
        "INSERT INTO t SELECT n, n FROM generate_series(601, 900) n; ALTER TABLE t RENAME TO u; INSERT INTO u VALUES (901, 901); COMMIT"
    )
    for count in (150, 350, 450, 650):
        while len(follower.rows.get("t", {})) < count:
            follower.poll(records_max=60)
        follower.restart()
    follower.until_caught_up()
    assert sorted(row["id"] for row in follower.rows["t"].values()) == list(range(1, 901))
    follower.until(lambda: len(follower.rows.get("u", {})) == 901)
    follower.until_equal_by_name("u")
    follower.task.stop()


def test_prepared_transactions_and_enum_members_that_come_later(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql("CREATE TYPE mood AS ENUM ('a')", "CREATE TABLE marks (id INT PRIMARY KEY)", "CREATE TABLE t (id INT PRIMARY KEY, m mood)")
    follower.start()
    follower.until_dumped()
    follower.sql("INSERT INTO t VALUES (1, 'a')")
    follower.until_caught_up()
    follower.sql("ALTER TYPE mood ADD VALUE 'b'", "INSERT INTO t VALUES (2, 'b')")
    follower.until_caught_up()
    follower.until_equal("t")
    request = follower.ask("public.t")
    follower.until_state(request, "DONE")
    follower.until_equal("t")
    follower.task.stop()


def test_a_table_of_case_variant_columns_can_be_captured_as_the_message_says(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, **{"field.name.adjustment.mode": "avro_unicode"})
    follower.sql("CREATE TABLE marks (id INT PRIMARY KEY)", 'CREATE TABLE t ("A" INT, a INT PRIMARY KEY)', "INSERT INTO t VALUES (5, 1)")
    follower.start()
    follower.until_dumped()
    follower.until_equal("t")
    follower.task.stop()


def test_a_delete_where_the_primary_key_was_replaced_while_the_connector_was_away(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql(
        "CREATE TABLE marks (id INT PRIMARY KEY)",
        "CREATE TABLE t (a INT PRIMARY KEY, b INT NOT NULL)",
        "INSERT INTO t VALUES (1, 10), (2, 20)",
    )
    follower.start()
    follower.until_dumped()
    follower.task.stop()
    follower.sql("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (b)", "UPDATE t SET b = 11 WHERE b = 10")
    follower.restart()
    follower.until_caught_up()
    found = follower.keys("t")
    follower.task.stop()
    assert '{"b":11}' in found


def test_a_table_that_takes_the_place_of_a_captured_one_is_dumped(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, **{"table.include.list": "public.t,public.marks"})
    follower.sql("CREATE TABLE marks (id INT PRIMARY KEY)", "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'a')")
    follower.start()
    follower.until_dumped()
    follower.sql(
        "CREATE TABLE made (id INT PRIMARY KEY, v TEXT)",
        "INSERT INTO made SELECT n, 'new' FROM generate_series(1, 5) n",
        "BEGIN; DROP TABLE t; ALTER TABLE made RENAME TO t; COMMIT",
        "INSERT INTO t VALUES (6, 'after')",
    )
    follower.until_caught_up()
    for _ in range(60):
        follower.poll()
    found = sorted((row["id"], row["v"]) for row in follower.rows["t"].values())
    follower.restart()
    follower.until_caught_up()
    for _ in range(40):
        follower.poll()
    later = sorted((row["id"], row["v"]) for row in follower.rows["t"].values())
    follower.task.stop()
    assert (found, later) == ([*((n, "new") for n in range(1, 6)), (6, "after")],) * 2


def test_rows_of_a_root_that_is_no_table_of_the_connector_have_its_key(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql(
        "CREATE TABLE marks (id INT PRIMARY KEY)",
        "CREATE TABLE root (id INT PRIMARY KEY, v TEXT) PARTITION BY RANGE (id)",
        "CREATE TABLE leaf PARTITION OF root FOR VALUES FROM (0) TO (100)",
        "CREATE PUBLICATION dbz_publication FOR ALL TABLES WITH (publish_via_partition_root = true)",
    )
    try:
        follower.start()
    except DefiniteError:
        return
    follower.until_dumped()
    follower.sql("INSERT INTO root VALUES (1, 'a')", "UPDATE root SET v = 'c' WHERE id = 1", "DELETE FROM root WHERE id = 1")
    follower.until_caught_up()
    ops, names = follower.ops("root"), follower.keys("root")
    follower.task.stop()
    assert (ops, names) == (["c", "u", "d"], [])


def slots(follower: PostgresFollower) -> list[Any]:
    name = follower.config["slot.name"]
    return execute(follower.server, f"SELECT slot_name FROM pg_replication_slots WHERE slot_name = '{name}'")


def test_a_slot_that_is_dropped_with_an_ordered_stop_is_made_again_and_everything_dumped(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, **{"slot.drop.on.stop": "true", "snapshot.mode": "when_needed"})
    follower.sql(
        "CREATE TABLE marks (id INT PRIMARY KEY)", "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'a'), (2, 'b')"
    )
    follower.start()
    follower.until_dumped()
    follower.until_caught_up()

    follower.task.leave()
    assert slots(follower) == []
    follower.sql("UPDATE t SET v = 'changed' WHERE id = 2", "INSERT INTO t VALUES (3, 'c')")
    follower.restart()
    follower.until(lambda: '{"id":3}' in follower.keys("t"))
    follower.until_equal("t")

    follower.restart()  # killed: the slot stays
    assert len(slots(follower)) == 1
    follower.task.stop()


def test_behind_a_slot_that_was_dropped_with_a_stop_nothing_is_passed_over_in_silence(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, **{"slot.drop.on.stop": "true"})
    follower.sql("CREATE TABLE marks (id INT PRIMARY KEY)")
    follower.start()
    follower.until_dumped()
    follower.until_caught_up()

    follower.task.leave()
    with pytest.raises(DefiniteError, match=r"no longer exists.*snapshot\.mode=when_needed"):
        follower.restart()


def test_a_slot_that_somebody_else_reads_by_then_stays(postgres: Postgres, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot, "_FREED_TRIES", 2)
    follower = PostgresFollower(postgres, database, **{"slot.drop.on.stop": "true"})
    follower.sql("CREATE TABLE marks (id INT PRIMARY KEY)")
    follower.start()
    follower.until_dumped()

    give_up = follower.parts().source.leaving()
    assert give_up is not None
    give_up()

    assert len(slots(follower)) == 1
    follower.until_caught_up()
    follower.task.stop()
