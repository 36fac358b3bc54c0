"""Kinds of tables, and what empties them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from dblog.abort import Abort
from dblog.config.connector import parse_connector
from dblog.dialects.postgres.task.kind import PostgresKind
from stack import Postgres
from structlog.testing import capture_logs
from support.in_windows import SourceWithWindows
from support.postgres import execute
from support.postgres_follower import ROOT, PostgresFollower, drop_slots

ALL_OPERATIONS = {"skipped.operations": "none"}


class Emptied(PostgresFollower):
    """A consumer that empties its table where the source has."""

    def _take(self, table: str, key: bytes | None, value: bytes | None) -> None:
        record = None if value is None else json.loads(value)
        if record is None or record["op"] != "t":
            super()._take(table, key, value)
            return
        self.values.append((table, record))
        assert (key, record["before"], record["after"]) == (None, None, None)
        self.rows[table] = {}


@pytest.fixture
def database(postgres: Postgres, postgres_database: str) -> Iterator[str]:
    yield postgres_database
    drop_slots(postgres, postgres_database)


# --- what empties a table --------------------------------------------------------------------------------------------


def test_a_truncate_is_a_record_of_each_table_that_it_empties(postgres: Postgres, database: str) -> None:
    follower = Emptied(postgres, database, **ALL_OPERATIONS)
    follower.sql(
        "CREATE TABLE a (id INT PRIMARY KEY)",
        "CREATE TABLE b (id INT PRIMARY KEY)",
        "CREATE TABLE c (id INT PRIMARY KEY, a INT REFERENCES a)",
        "INSERT INTO a VALUES (1)",
        "INSERT INTO b VALUES (1)",
        "INSERT INTO c VALUES (1, 1)",
    )
    follower.start()
    follower.until_dumped()

    follower.sql(
        "TRUNCATE b", "INSERT INTO b VALUES (2)", "TRUNCATE a, b CASCADE", "INSERT INTO a VALUES (3)", "INSERT INTO c VALUES (4, 3)"
    )
    follower.until_caught_up()
    follower.task.stop()

    assert (follower.ops("a"), follower.ops("b"), follower.ops("c")) == (["r", "t", "c"], ["r", "t", "c", "t"], ["r", "t", "c"])
    for table in "abc":
        follower.until_equal(table)


def test_a_truncate_stands_between_the_rows_of_its_transaction_also_after_a_restart(postgres: Postgres, database: str) -> None:
    follower = Emptied(postgres, database, **ALL_OPERATIONS, **{"max.batch.size": "2", "max.queue.size": "4"})
    follower.sql("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)", "INSERT INTO a VALUES (0)")
    follower.start()
    follower.until_dumped()

    execute(
        postgres,
        "BEGIN",
        "INSERT INTO a SELECT generate_series(1, 5)",
        "INSERT INTO b SELECT generate_series(1, 5)",
        "TRUNCATE a",
        "INSERT INTO a SELECT generate_series(3, 7)",
        "TRUNCATE a, b",
        "INSERT INTO a SELECT generate_series(7, 9)",
        "COMMIT",
        database=database,
    )
    while len(follower.rows.get("a", {})) != 3 or "t" not in follower.ops("b"):
        follower.poll(records_max=2)
        follower.restart()
    follower.until_caught_up()
    follower.task.stop()

    assert follower.ops("a").count("t") >= 2
    follower.until_equal("a")
    follower.until_equal("b")


def test_by_default_a_truncate_is_no_record(postgres: Postgres, database: str) -> None:
    follower = Emptied(postgres, database)
    follower.sql("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    follower.start()
    follower.until_dumped()

    follower.sql("TRUNCATE a", "INSERT INTO a VALUES (2)")
    follower.until_caught_up()
    follower.task.stop()

    assert follower.ops("a") == ["r", "c"]


@pytest.mark.parametrize("windows", [{}, {"read.only": "true"}], ids=["written", "read-only"])
def test_rows_that_a_truncate_inside_their_window_has_taken_do_not_come_behind_it(
    postgres: Postgres, database: str, windows: dict[str, str]
) -> None:
    follower = Emptied(postgres, database, **ALL_OPERATIONS, **windows, **{"dblog.chunk.rows": "20"})
    follower.sql("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a SELECT generate_series(1, 60)")
    emptied: list[Any] = []

    def inside(last_key: tuple[Any, ...]) -> None:
        if not emptied:
            emptied.append(last_key)
            follower.sql("TRUNCATE a", "INSERT INTO a SELECT generate_series(50, 70)")

    follower.wrapped = lambda source: SourceWithWindows(source, inside)
    follower.task = follower.new_task()
    follower.start()
    follower.until_dumped()
    follower.until_caught_up()
    follower.task.stop()

    assert emptied
    follower.until_equal("a")


# --- partitions ------------------------------------------------------------------------------------------------------

PARTITIONED = (
    "CREATE TABLE root (id INT, year INT, name TEXT, PRIMARY KEY (id, year)) PARTITION BY RANGE (year)",
    "CREATE TABLE old PARTITION OF root FOR VALUES FROM (2000) TO (2020)",
    "CREATE TABLE new PARTITION OF root FOR VALUES FROM (2020) TO (2040)",
    "INSERT INTO root SELECT n, 2000 + n, 'row ' || n FROM generate_series(0, 39) n",
)


def test_without_root_each_partition_is_a_table_and_a_row_that_moves_leaves_the_one_it_was_in(postgres: Postgres, database: str) -> None:
    follower = Emptied(postgres, database, **ALL_OPERATIONS)
    follower.sql(*PARTITIONED)
    follower.start()
    follower.until_dumped()

    follower.sql("UPDATE root SET year = year + 10 WHERE year % 7 = 0 AND year < 2030", "DELETE FROM root WHERE id = 3")
    follower.sql("CREATE TABLE newer PARTITION OF root FOR VALUES FROM (2040) TO (2060)", "INSERT INTO root VALUES (50, 2050, 'newer')")
    follower.sql("ALTER TABLE root DETACH PARTITION old", "UPDATE old SET name = 'detached' WHERE id < 9", "TRUNCATE new")
    follower.until_caught_up()

    for table in ("old", "new", "newer"):
        follower.until_equal(table)
    follower.task.stop()
    assert "root" not in follower.rows


def test_with_root_rows_of_all_partitions_come_under_the_name_of_the_root(postgres: Postgres, database: str) -> None:
    follower = Emptied(postgres, database, **ALL_OPERATIONS, **{"publish.via.partition.root": "true"})
    follower.sql(*PARTITIONED)
    follower.start()
    follower.until_dumped()

    follower.sql("UPDATE root SET year = year + 10 WHERE year % 7 = 0 AND year < 2030", "DELETE FROM root WHERE id = 3")
    follower.sql("CREATE TABLE newer PARTITION OF root FOR VALUES FROM (2040) TO (2060)", "INSERT INTO root VALUES (50, 2050, 'newer')")
    follower.sql("INSERT INTO newer VALUES (51, 2051, 'into the partition itself')", "UPDATE newer SET name = 'x' WHERE id = 50")
    follower.until_caught_up()
    follower.until_equal("root")

    follower.sql("TRUNCATE root", "INSERT INTO root VALUES (1, 2001, 'again')")
    follower.until_caught_up()
    follower.until_equal("root")
    follower.task.stop()
    assert set(follower.rows) == {"root", "marks"}


def test_with_root_a_partition_that_is_detached_is_a_table_and_one_that_is_attached_is_none(postgres: Postgres, database: str) -> None:
    """Rows of both change their table without a row in the log; what is written from then on comes under the new name."""
    follower = Emptied(postgres, database, **ALL_OPERATIONS, **{"publish.via.partition.root": "true"})
    follower.sql(
        *PARTITIONED, "CREATE TABLE newer (id INT, year INT, name TEXT, PRIMARY KEY (id, year))", "INSERT INTO newer VALUES (1, 2041, 'a')"
    )
    follower.start()
    follower.until_dumped()

    follower.sql("ALTER TABLE root ATTACH PARTITION newer FOR VALUES FROM (2040) TO (2060)", "INSERT INTO newer VALUES (2, 2042, 'b')")
    follower.sql(
        "ALTER TABLE root DETACH PARTITION old", "INSERT INTO old VALUES (103, 2003, 'c')", "UPDATE old SET name = 'd' WHERE id = 4"
    )
    follower.until_caught_up()

    follower.until_equal("old")
    assert {"id": 2, "year": 2042, "name": "b"} in follower.rows["root"].values()
    follower.task.stop()


@pytest.mark.parametrize("away", [False, True], ids=["running", "away"])
def test_with_root_the_rows_that_an_attached_partition_brings_along_are_dumped(postgres: Postgres, database: str, away: bool) -> None:
    follower = PostgresFollower(postgres, database, **{"publish.via.partition.root": "true"})
    follower.sql(
        *PARTITIONED,
        "CREATE TABLE newer (id INT, year INT, name TEXT, PRIMARY KEY (id, year))",
        "INSERT INTO newer SELECT n, 2041, 'brought along' FROM generate_series(1, 10) n",
    )
    follower.start()
    follower.until_dumped()
    follower.sql("INSERT INTO root VALUES (501, 2001, 'before')")
    follower.until_caught_up()
    if away:
        follower.task.stop()

    follower.sql(
        "ALTER TABLE root ATTACH PARTITION newer FOR VALUES FROM (2040) TO (2060)", "INSERT INTO root VALUES (502, 2042, 'behind')"
    )
    if away:
        follower.restart()
    follower.until_caught_up()
    follower.until_equal("root")
    follower.task.stop()


def test_with_root_a_partition_that_is_made_as_one_makes_no_dump(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, **{"publish.via.partition.root": "true"})
    follower.sql(*PARTITIONED)
    follower.start()
    follower.until_dumped()
    dumped = follower.ops("root").count("r")

    follower.sql("CREATE TABLE made PARTITION OF root FOR VALUES FROM (2040) TO (2060)", "INSERT INTO root VALUES (501, 2041, 'a')")
    follower.until_caught_up()
    follower.until_equal("root")
    follower.sql("INSERT INTO root VALUES (502, 2042, 'b')")
    follower.until_caught_up()
    follower.task.stop()

    assert follower.ops("root").count("r") == dumped


# --- kinds of tables -------------------------------------------------------------------------------------------------


def test_what_is_not_logged_is_no_table_of_the_connector_and_what_is_generated_no_column(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, n INT, twice INT GENERATED ALWAYS AS (n * 2) STORED, i INT GENERATED BY DEFAULT AS IDENTITY)",
        "CREATE UNLOGGED TABLE unlogged (id INT PRIMARY KEY)",
        "CREATE VIEW a_view AS SELECT * FROM t",
        "CREATE MATERIALIZED VIEW a_copy AS SELECT * FROM t",
        "CREATE SEQUENCE a_sequence",
        "INSERT INTO t VALUES (1, 1)",
        "INSERT INTO unlogged VALUES (1)",
    )
    follower.start()
    follower.until_dumped()

    follower.sql("INSERT INTO t VALUES (2, 2)", "UPDATE t SET n = 7 WHERE id = 1", "INSERT INTO unlogged VALUES (2)")
    follower.sql("ALTER TABLE unlogged SET LOGGED", "INSERT INTO unlogged VALUES (3)")
    follower.until_caught_up()
    follower.until_equal("unlogged")
    follower.task.stop()

    assert set(follower.rows) == {"t", "marks", "unlogged"}
    assert sorted(follower.rows["t"].values(), key=lambda row: row["id"]) == [{"id": 1, "n": 7, "i": 1}, {"id": 2, "n": 2, "i": 2}]


@pytest.mark.parametrize("by_root", ["false", "true"])
def test_rows_of_a_table_that_inherits_from_another_come_under_its_own_name_alone(postgres: Postgres, database: str, by_root: str) -> None:
    """A SELECT from the other table has them, too (PostgreSQL manual, 5.10 "Inheritance"), and the log never shows them there."""
    follower = PostgresFollower(postgres, database, **{"publish.via.partition.root": by_root, "dblog.chunk.rows": "16"})
    follower.sql(
        *PARTITIONED,
        "CREATE TABLE parent (id INT PRIMARY KEY, v TEXT)",
        "CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent)",
        "CREATE TABLE keyless (a INT)",
        "CREATE TABLE keyless_child () INHERITS (keyless)",
        "INSERT INTO parent SELECT n, 'parent' FROM generate_series(1, 40) n",
        "INSERT INTO child SELECT n, 'child' FROM generate_series(20, 60) n",
        "INSERT INTO keyless VALUES (1), (2)",
        "INSERT INTO keyless_child VALUES (3)",
    )
    follower.start()
    follower.until_dumped()

    follower.sql(
        "UPDATE parent SET v = 'both' WHERE id = 25", "DELETE FROM child WHERE id = 50", "UPDATE root SET name = 'x' WHERE id = 30"
    )
    follower.until_caught_up()
    request = follower.ask("public.parent", keys=[[21], [45]])
    follower.until_state(request, "DONE")
    follower.task.stop()

    assert {row["id"]: row["v"] for row in follower.rows["parent"].values()} == {n: "both" if n == 25 else "parent" for n in range(1, 41)}
    assert {row["id"]: row["v"] for row in follower.rows["child"].values()} == {
        n: "both" if n == 25 else "child" for n in range(20, 61) if n != 50
    }
    assert sorted(row["a"] for row in follower.rows["keyless"].values()) == [1, 2]
    assert len(follower.rows["root" if by_root == "true" else "new"]) == (40 if by_root == "true" else 20)


def test_a_table_without_key_has_records_without_key_and_its_deletes_show_the_row(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql(
        "CREATE TABLE t (a INT, b TEXT)", "ALTER TABLE t REPLICA IDENTITY FULL", "INSERT INTO t VALUES (1, 'x'), (1, 'x'), (NULL, NULL)"
    )
    follower.start()
    follower.until_dumped()

    follower.sql("UPDATE t SET b = 'y' WHERE a IS NULL", "DELETE FROM t WHERE ctid = (SELECT min(ctid) FROM t WHERE a = 1)")
    follower.until(lambda: "d" in follower.ops("t"))
    follower.task.stop()

    records = [record for name, record in follower.values if name == "t"]
    assert [(record["op"], record["before"], record["after"]) for record in records if record is not None] == [
        ("r", None, {"a": 1, "b": "x"}),
        ("r", None, {"a": 1, "b": "x"}),
        ("r", None, {"a": None, "b": None}),
        ("u", {"a": None, "b": None}, {"a": None, "b": "y"}),
        ("d", {"a": 1, "b": "x"}, None),
    ]
    assert None not in [record for name, record in follower.values if name == "t"], "no tombstone without key"


def test_the_columns_of_a_unique_index_are_the_key_of_a_table_without_primary_key(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, **{"dblog.chunk.rows": "16"})
    follower.sql(
        "CREATE TABLE t (a INT NOT NULL, b TEXT NOT NULL, c INT, UNIQUE (b, a))",
        "CREATE UNIQUE INDEX a_first ON t (c)",  # takes NULLs
        "CREATE UNIQUE INDEX a_part ON t (a) WHERE c IS NULL",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX t_b_a_key",
        "INSERT INTO t SELECT n, 'b' || n, n FROM generate_series(1, 100) n",
    )
    follower.start()
    follower.until_dumped()

    follower.sql("UPDATE t SET c = NULL WHERE a < 5", "DELETE FROM t WHERE a = 7", "UPDATE t SET b = 'other' WHERE a = 9")
    follower.until_caught_up()
    follower.until_equal("t")
    follower.task.stop()

    assert '{"b":"other","a":9}' in follower.rows["t"]


def test_where_another_index_is_the_replica_identity_its_columns_are_the_key(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql(
        "CREATE TABLE t (a INT NOT NULL, b INT NOT NULL, c TEXT)",
        "CREATE UNIQUE INDEX by_a ON t (a)",
        "CREATE UNIQUE INDEX by_b ON t (b)",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX by_b",
        "INSERT INTO t VALUES (1, 10, 'x'), (2, 20, 'y'), (3, 30, 'z')",
    )
    follower.start()
    follower.until_dumped()

    follower.sql("UPDATE t SET c = 'new' WHERE a = 1", "UPDATE t SET b = 21 WHERE a = 2", "DELETE FROM t WHERE a = 3")
    follower.until_caught_up()
    follower.until_equal("t")
    follower.task.stop()


def test_where_another_index_than_the_primary_key_is_the_replica_identity_a_changed_primary_key_leaves_no_old_row(
    postgres: Postgres, database: str
) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, code INT NOT NULL UNIQUE)",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX t_code_key",
        "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30), (4, 40)",
    )
    follower.start()
    follower.until_dumped()

    follower.sql("UPDATE t SET id = 5 WHERE id = 1", "UPDATE t SET code = 21 WHERE id = 2", "DELETE FROM t WHERE id = 3")
    follower.until_caught_up()
    follower.until_equal("t")
    follower.task.stop()

    assert sorted(follower.rows["t"]) == ['{"code":10}', '{"code":21}', '{"code":40}']


@pytest.mark.parametrize("to", ["USING INDEX t_code_key", "DEFAULT"])
def test_a_replica_identity_that_becomes_another_than_the_primary_key_or_the_primary_key_again_is_the_key_from_then_on(
    postgres: Postgres, database: str, to: str
) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql("CREATE TABLE t (id INT PRIMARY KEY, code INT NOT NULL UNIQUE)", "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)")
    if to == "DEFAULT":
        follower.sql("ALTER TABLE t REPLICA IDENTITY USING INDEX t_code_key")
    follower.start()
    follower.until_dumped()

    follower.sql(f"ALTER TABLE t REPLICA IDENTITY {to}", "UPDATE t SET id = 4, code = 40 WHERE id = 1", "DELETE FROM t WHERE id = 3")
    follower.until_caught_up()
    new = {'{"id":4}', '{"id":2}'} if to == "DEFAULT" else {'{"code":40}', '{"code":20}'}
    follower.until(lambda: new <= set(follower.rows["t"]))
    follower.task.stop()

    column = "id" if to == "DEFAULT" else "code"
    assert {name for name in follower.rows["t"] if column in name} == new


def test_an_index_that_becomes_the_replica_identity_while_the_connector_runs_is_the_key_from_then_on(
    postgres: Postgres, database: str
) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql(
        "CREATE TABLE t (a INT NOT NULL, b INT NOT NULL, c TEXT)",
        "CREATE UNIQUE INDEX by_a ON t (a)",
        "CREATE UNIQUE INDEX by_b ON t (b)",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX by_a",
        "INSERT INTO t VALUES (1, 10, 'x'), (2, 20, 'y'), (3, 30, 'z')",
    )
    follower.start()
    follower.until_dumped()

    follower.sql("ALTER TABLE t REPLICA IDENTITY USING INDEX by_b", "UPDATE t SET a = 4 WHERE b = 10", "DELETE FROM t WHERE b = 20")
    follower.until_caught_up()
    follower.until(lambda: {'{"b":10}', '{"b":30}'} <= set(follower.rows["t"]))
    follower.task.stop()

    assert follower.rows["t"]['{"b":10}'] == {"a": 4, "b": 10, "c": "x"}


@pytest.mark.parametrize(("columns", "identity", "warned"), [("code", "DEFAULT", 1), ("code", "FULL", 0), ("id", "DEFAULT", 0)])
def test_a_check_warns_of_a_message_key_that_the_log_does_not_show_of_old_rows(
    postgres: Postgres, database: str, columns: str, identity: str, warned: int
) -> None:
    follower = PostgresFollower(postgres, database, **{"message.key.columns": f"public.t:{columns}"})
    follower.sql("CREATE TABLE t (id INT PRIMARY KEY, code INT NOT NULL)", f"ALTER TABLE t REPLICA IDENTITY {identity}")

    warnings = PostgresKind().check(parse_connector(follower.options, follower.config), limit_s=60.0, abort=Abort())

    assert ["public.t" in warning and "REPLICA IDENTITY FULL" in warning for warning in warnings] == [True] * warned


@pytest.mark.parametrize(
    ("type_text", "value"),
    [
        ("INT", "n"),
        ("BIGINT", "n * 5000000000::bigint"),
        ("SMALLINT", "n"),
        ("TIMESTAMPTZ", "timestamptz '2024-01-01' + n * interval '7.5 s'"),
        ("TIMESTAMP(3)", "timestamp '2024-01-01' + n * interval '7.5 s'"),
        ("DATE", "date '2024-01-01' + n"),
        ("VARCHAR(20)", "'it''s ' || n"),
        ("CHAR(8)", "n::text"),
        ("BYTEA", "int4send(n)"),
        ("INET", "inet '10.0.0.0' + n"),
        ("UUID", "md5(n::text)::uuid"),
        ("NUMERIC(8,2)", "n / 4.0"),
    ],
)
@pytest.mark.parametrize("key", ["id", None])
def test_a_dump_in_the_order_of_another_column_brings_every_row(
    postgres: Postgres, database: str, type_text: str, value: str, key: str | None
) -> None:
    follower = PostgresFollower(postgres, database, **{"snapshot.mode": "no_data"})
    follower.sql(
        f"CREATE TABLE t (id INT NOT NULL, v {type_text} NOT NULL{'' if key is None else f', PRIMARY KEY ({key})'})",
        f"INSERT INTO t SELECT n, {value} FROM generate_series(1, 40) n",
        "CREATE UNIQUE INDEX ON t (v)" if key else "CREATE INDEX ON t (v)",
        "CREATE TABLE marks (id INT PRIMARY KEY)",
    )
    follower.start()
    follower.sql("INSERT INTO marks VALUES (1)")
    follower.until(lambda: "c" in follower.ops("marks"))

    follower.until_state(follower.ask("public.t", surrogate_key="v", chunk_rows=7), "DONE")

    follower.task.stop()
    assert sorted(record["after"]["id"] for name, record in follower.values if name == "t" and record) == list(range(1, 41))


def test_rows_under_their_root_s_name_have_its_new_one_once_a_dump_has_found_it_out(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, **{"publish.via.partition.root": "true"})
    follower.sql(
        "CREATE TABLE root (id INT PRIMARY KEY, v TEXT) PARTITION BY RANGE (id)",
        "CREATE TABLE leaf PARTITION OF root FOR VALUES FROM (0) TO (100)",
        "CREATE TABLE other (id INT PRIMARY KEY, n INT NOT NULL)",
        "INSERT INTO root VALUES (1, 'a')",
        "INSERT INTO other VALUES (7, 7)",
    )
    follower.start().until_dumped()
    follower.sql("INSERT INTO root VALUES (2, 'b')")  # the server describes the root with this row, and not again
    follower.until_equal("root")
    follower.sql("BEGIN; ALTER TABLE root RENAME TO between; ALTER TABLE other RENAME TO root; ALTER TABLE between RENAME TO other; COMMIT")
    follower.ask(r"public\.(root|other)")
    follower.until(lambda: {"id": 2, "v": "b"} in follower.rows["other"].values())

    follower.sql("INSERT INTO other VALUES (3, 'c')")

    follower.until(lambda: {"id": 3, "v": "c"} in follower.rows.get("other", {}).values())
    follower.task.stop()


@pytest.mark.parametrize("tables", ["public.*", "public.root,public.marks"], ids=["all", "the root alone"])
def test_rows_of_a_table_that_its_own_transaction_attaches_are_rows_of_the_root(postgres: Postgres, database: str, tables: str) -> None:
    config = {"publish.via.partition.root": "true", "table.include.list": tables}
    follower = PostgresFollower(postgres, database, **config)
    follower.sql(*ROOT)
    follower.start().until_dumped()

    follower.sql(
        "BEGIN; CREATE TABLE high (LIKE root INCLUDING ALL); INSERT INTO high VALUES (11, 'b'); "
        "ALTER TABLE root ATTACH PARTITION high FOR VALUES FROM (10) TO (20); COMMIT",
        "INSERT INTO root VALUES (2, 'c'), (12, 'd')",
    )

    follower.until_equal("root")
    follower.task.stop()


IN_SILENCE = {
    "renamed": ("ALTER TABLE t RENAME TO renamed", "renamed"),
    "given a column with a default": ("ALTER TABLE t ADD more INT DEFAULT 7", "t"),
    "given a column again": ("ALTER TABLE t DROP v, ADD v TEXT DEFAULT 'again'", "t"),
    "converted": ("ALTER TABLE t ALTER v TYPE VARCHAR(9) USING upper(v)", "t"),
    "made again": ("DROP TABLE t; CREATE TABLE t (id INT PRIMARY KEY, w INT); INSERT INTO t VALUES (3, 3)", "t"),
}


@pytest.mark.parametrize(("statement", "now"), IN_SILENCE.values(), ids=IN_SILENCE)
@pytest.mark.parametrize("partitioned", [False, True], ids=["a table", "a root"])
def test_what_a_statement_did_to_a_table_is_found_out_without_a_row(
    postgres: Postgres, database: str, partitioned: bool, statement: str, now: str
) -> None:
    config = {"publish.via.partition.root": str(partitioned).lower(), "dblog.metrics.server.interval.ms": "100"}
    follower = PostgresFollower(postgres, database, **config)
    follower.sql(
        f"CREATE TABLE t (id INT PRIMARY KEY, v TEXT){' PARTITION BY RANGE (id)' if partitioned else ''}",
        *(["CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10)"] if partitioned else []),
        "INSERT INTO t VALUES (1, 'a')",
    )
    follower.start().until_dumped()
    follower.sql("INSERT INTO t VALUES (2, 'b')")
    follower.until_equal("t")

    follower.rows.pop("t")
    follower.sql(statement)

    follower.until_equal(now)
    follower.task.stop()


def dumps_of(lines: Sequence[Mapping[str, Any]], table: str) -> int:
    return sum(line["event"] == "the table is dumped again" and line["table"] == f"public.{table}" for line in lines)


FILLED_AND_ATTACHED = (
    "BEGIN; CREATE TABLE high (LIKE root INCLUDING ALL); INSERT INTO high SELECT n, 'b' FROM generate_series(10, 5009) n; "
    "ALTER TABLE root ATTACH PARTITION high FOR VALUES FROM (10) TO (1000000); COMMIT"
)


@pytest.mark.parametrize("statement", [FILLED_AND_ATTACHED, "ALTER PUBLICATION dbz_publication SET (publish_via_partition_root = false)"])
def test_a_root_is_dumped_once_for_a_partition_s_own_rows_and_not_where_the_publication_has_them_so(
    postgres: Postgres, database: str, statement: str
) -> None:
    follower = PostgresFollower(postgres, database, **{"publish.via.partition.root": "true", "max.batch.size": "100"})
    follower.sql(*ROOT)
    follower.start().until_dumped()
    follower.until_caught_up()

    with capture_logs() as lines:
        follower.sql(statement)
        for n in range(5):
            follower.sql(f"UPDATE root SET v = 'x{n}' WHERE id = 1")
            follower.until_caught_up()
        if statement == FILLED_AND_ATTACHED:
            follower.until_equal("root")
    follower.task.stop()

    assert dumps_of(lines, "root") == (1 if statement == FILLED_AND_ATTACHED else 0)


@pytest.mark.parametrize("rows", [True, False], ids=["rows of then", "none"])
def test_a_root_that_is_made_with_a_filled_partition_is_there(postgres: Postgres, database: str, rows: bool) -> None:
    config = {"publish.via.partition.root": "true", "table.include.list": "public.root,public.marks"}
    follower = PostgresFollower(postgres, database, **config)
    follower.sql("CREATE TABLE marks (id INT PRIMARY KEY)")
    follower.start().until_dumped()

    follower.sql(
        "BEGIN; CREATE TABLE root (id INT PRIMARY KEY, v TEXT) PARTITION BY RANGE (id); CREATE TABLE high (LIKE root INCLUDING ALL); "
        "INSERT INTO high VALUES (11, 'b'); ALTER TABLE root ATTACH PARTITION high FOR VALUES FROM (10) TO (20); COMMIT",
        *(["INSERT INTO root VALUES (12, 'c')"] if rows else []),
    )

    follower.until_equal("root")
    follower.task.stop()


@pytest.mark.parametrize("partitioned", [False, True], ids=["a table", "a root"])
def test_a_table_that_gets_a_captured_name_is_captured(postgres: Postgres, database: str, partitioned: bool) -> None:
    config = {
        "publish.via.partition.root": "true",
        "dblog.metrics.server.interval.ms": "100",
        "table.include.list": "public.t,public.z,public.marks",
    }
    follower = PostgresFollower(postgres, database, **config)
    follower.sql(
        f"CREATE TABLE outside (id INT PRIMARY KEY, v TEXT){' PARTITION BY RANGE (id)' if partitioned else ''}",
        *(["CREATE TABLE low PARTITION OF outside FOR VALUES FROM (0) TO (10)"] if partitioned else []),
        "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)",
        "INSERT INTO t VALUES (1, 'a')",
        "INSERT INTO outside VALUES (1, 'b'), (7, 'x')",
    )
    follower.start().until_dumped()
    follower.sql("INSERT INTO outside VALUES (2, 'b')")
    follower.until_caught_up()

    follower.sql("BEGIN; ALTER TABLE t RENAME TO z; ALTER TABLE outside RENAME TO t; COMMIT")
    follower.until_equal("t")
    follower.until_equal("z")
    follower.sql("INSERT INTO t VALUES (3, 'c')")

    follower.until_equal("t")
    follower.task.stop()


def test_a_name_that_passes_from_one_table_to_another_while_the_connector_is_away(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, **{"table.include.list": "public.t,public.z,public.marks"})
    follower.sql("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "CREATE TABLE outside (id INT PRIMARY KEY, v TEXT)")
    follower.sql("INSERT INTO t VALUES (1, 'a')", "INSERT INTO outside VALUES (1, 'b'), (7, 'x')")
    follower.start().until_dumped()
    follower.until_caught_up()
    follower.task.stop()
    follower.sql("BEGIN; ALTER TABLE t RENAME TO z; ALTER TABLE outside RENAME TO t; COMMIT")

    follower.restart()

    follower.until_equal("t")
    follower.until_equal("z")
    follower.task.stop()
