"""Log that is written and not flushed: a transaction that is open, or commits that do not wait (synchronous_commit=off). A walsender sends what is flushed."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from stack import Postgres
from support.postgres import connected
from support.postgres_follower import PostgresFollower, drop_slots
from support.under_writes import in_rounds

CHUNK_ROWS = 10
ROWS = 40
WAITED_MAX_S = 10.0
"""A server flushes all that is open every 15 seconds (bgwriter.c, LOG_SNAPSHOT_INTERVAL_MS)."""


@pytest.fixture
def database(postgres: Postgres, postgres_database: str) -> Iterator[str]:
    yield postgres_database
    drop_slots(postgres, postgres_database)


@pytest.mark.parametrize("windows", [{}, {"read.only": "true"}], ids=["written", "read-only"])
def test_a_dump_does_not_wait_for_a_transaction_that_somebody_leaves_open(
    postgres: Postgres, database: str, windows: dict[str, str]
) -> None:
    follower = PostgresFollower(postgres, database, **windows, **{"dblog.chunk.rows": str(CHUNK_ROWS), "snapshot.mode": "no_data"})
    follower.sql("CREATE TABLE t (id INT PRIMARY KEY, name TEXT)", f"INSERT INTO t SELECT n, 'x' FROM generate_series(1, {ROWS}) n")
    follower.start()
    with connected(postgres, database=database) as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO t VALUES (0, 'later')")
        began_s = time.monotonic()
        request = follower.ask("public.t")
        for _ in range(10):
            cursor.execute("UPDATE t SET name = 'later' WHERE id = 0")
            follower.poll()
        follower.until_state(request, "DONE")
        took_s = time.monotonic() - began_s
        cursor.execute("COMMIT")
    follower.until_equal("t")
    follower.task.stop()

    assert took_s < WAITED_MAX_S


def test_rows_of_chunks_never_come_behind_commits_that_did_not_wait(postgres: Postgres, database: str) -> None:
    """With synchronous_commit=off a commit is visible before it is flushed, so that a chunk may show it ahead of the log."""
    follower = PostgresFollower(postgres, database, **{"read.only": "true", "dblog.chunk.rows": str(CHUNK_ROWS)})
    follower.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL)", "INSERT INTO t SELECT n, 0 FROM generate_series(1, 400) n")
    with connected(postgres, database=database) as connection, connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off")
        with in_rounds(lambda n: cursor.execute(f"UPDATE t SET n = n + 1 WHERE id = {n * 7 % 400}"), pause_s=0.002):
            follower.start()
            follower.until_dumped()
    follower.until_equal("t")
    follower.task.stop()

    newest: dict[int, int] = {}
    for _, record in follower.values:
        assert record is not None
        row = record["after"]
        assert newest.get(row["id"], 0) <= row["n"], "a row went back in time"
        newest[row["id"]] = row["n"]
    assert follower.ops("t").count("r") > 0
