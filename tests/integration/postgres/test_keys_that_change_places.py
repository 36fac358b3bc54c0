"""Keys that the server does not check row by row, and that rows exchange inside a statement or a transaction. # I3"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from stack import Postgres
from support.postgres_follower import PostgresFollower, drop_slots

DEFERRABLE = {
    "primary key": "CREATE TABLE t (id INT PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v TEXT)",
    "message key": "CREATE TABLE t (row INT PRIMARY KEY, id INT NOT NULL, v TEXT)",
    "unique key": "CREATE TABLE t (id INT NOT NULL, v TEXT, UNIQUE (id) DEFERRABLE INITIALLY DEFERRED)",
}
ROWS = 6


@pytest.fixture
def database(postgres: Postgres, postgres_database: str) -> Iterator[str]:
    yield postgres_database
    drop_slots(postgres, postgres_database)


def follow(
    postgres: Postgres, database: str, kind: str = "primary key", *, values: str = "'row ' || id", **config: str
) -> PostgresFollower:
    """A connector that has dumped the rows 1 to 6."""
    follower = PostgresFollower(postgres, database, **{"message.key.columns": r"public\.t:id", **config})
    follower.sql(DEFERRABLE[kind], "ALTER TABLE t REPLICA IDENTITY FULL", filled(kind, values))
    follower.start()
    follower.until_dumped()
    follower.until_equal("t")
    return follower


def filled(kind: str, values: str) -> str:
    return f"INSERT INTO t SELECT {'id + 100, ' if kind == 'message key' else ''}id, {values} FROM generate_series(1, {ROWS}) id"


STATEMENTS = {
    "all shift up": "UPDATE t SET id = id + 1",
    "all shift down": "UPDATE t SET id = id - 1",
    "two change places": "UPDATE t SET id = 3 - id WHERE id IN (1, 2)",
    "all turn round": "UPDATE t SET id = 7 - id",
    "a chain of one row": "UPDATE t SET id = 11 WHERE id = 1; UPDATE t SET id = 12 WHERE id = 11; UPDATE t SET id = 13 WHERE id = 12",
    "through another row's key": "UPDATE t SET id = 2, v = 'm' WHERE id = 1; UPDATE t SET id = 9 WHERE id = 2 AND v = 'm'",
    "onto a key whose row leaves": "UPDATE t SET id = 2, v = 'm' WHERE id = 1; UPDATE t SET id = 9 WHERE id = 2 AND v <> 'm'",
    "a new row before the old one goes": "UPDATE t SET v = 'old' WHERE id = 2; {insert}; DELETE FROM t WHERE id = 2 AND v = 'old'",
    "the old row changes meanwhile": "UPDATE t SET id = 2, v = 'm' WHERE id = 1; UPDATE t SET v = v || '!' WHERE id = 2; "
    "UPDATE t SET id = 1 WHERE id = 2 AND v <> 'm!'",
    "there and back": "UPDATE t SET id = id + 1; UPDATE t SET id = id - 1; UPDATE t SET id = 7 - id",
}


@pytest.mark.parametrize("values", ["'row ' || id", "'same'"], ids=["different", "equal"])
@pytest.mark.parametrize("kind", DEFERRABLE)
def test_rows_that_exchange_their_keys_are_all_there(postgres: Postgres, database: str, kind: str, values: str) -> None:
    follower = follow(postgres, database, kind, values=values)
    inserted = "INSERT INTO t VALUES (900, 2, 'new')" if kind == "message key" else "INSERT INTO t VALUES (2, 'new')"

    for name, statement in STATEMENTS.items():
        follower.sql("DELETE FROM t", filled(kind, values))
        follower.sql(f"BEGIN; {statement.format(insert=inserted)}; COMMIT")
        follower.until_caught_up()
        assert sorted(row["id"] for row in follower.rows["t"].values()) == sorted(row["id"] for row in follower.selected("t")), name
        follower.until_equal("t")
    follower.task.stop()


def test_a_restart_inside_the_transaction_leaves_out_the_same_deletes(postgres: Postgres, database: str) -> None:
    follower = follow(postgres, database, **{"max.batch.size": "1", "max.queue.size": "2"})
    follower.sql("BEGIN; UPDATE t SET id = id + 1; UPDATE t SET id = id + 1; COMMIT")

    for _ in range(5):
        seen = len(follower.values)
        follower.until(lambda seen=seen: len(follower.values) > seen + 1)
        follower.restart()
    follower.until_caught_up()

    assert sorted(row["id"] for row in follower.rows["t"].values()) == list(range(3, ROWS + 3))
    follower.until_equal("t")
    follower.task.stop()


def test_a_key_that_becomes_deferrable_while_the_log_is_read_is_followed(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t SELECT i, 'row ' || i FROM generate_series(1, 6) i")
    follower.start()
    follower.until_dumped()
    follower.sql("UPDATE t SET v = v || '!' WHERE id = 1")
    follower.until_caught_up()

    follower.sql(
        "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id) DEFERRABLE",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "UPDATE t SET id = id + 1",
    )
    follower.until_caught_up()

    assert sorted(row["id"] for row in follower.rows["t"].values()) == list(range(2, 8))
    follower.until_equal("t")
    follower.task.stop()


def test_a_delete_of_a_key_that_nobody_has_taken_is_sent(postgres: Postgres, database: str) -> None:
    follower = follow(postgres, database)

    follower.sql("BEGIN; UPDATE t SET id = 20 WHERE id = 1; UPDATE t SET id = 21 WHERE id = 20; DELETE FROM t WHERE id = 21; COMMIT")
    follower.until_caught_up()
    follower.task.stop()

    assert sorted(row["id"] for row in follower.rows["t"].values()) == [2, 3, 4, 5, 6]
    assert [record["op"] for name, record in follower.values if name == "t" and record and record["op"] != "r"] == ["d", "c", "d", "c", "d"]
