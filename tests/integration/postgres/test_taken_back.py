"""What a real server's log has of transactions that are taken back: none of it is sent. # I3

The table in docs/log.md names each kind, and the test that holds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from stack import Postgres
from support.postgres import execute, new_database
from support.postgres_follower import PostgresFollower, drop_slots
from support.servers import started


@pytest.fixture(scope="module")
def preparing(servers_folder: Path) -> Iterator[Postgres]:
    """A server that takes PREPARE TRANSACTION."""
    folder = servers_folder / "preparing"
    with started(Postgres(folder, durable=False, options={"max_prepared_transactions": "5"})) as server:
        yield server


@pytest.mark.parametrize("streaming", ["true", "false"])
def test_no_row_or_column_of_what_was_rolled_back_is_sent(preparing: Postgres, streaming: str) -> None:
    server = preparing
    database = new_database(server)
    large = "INSERT INTO t SELECT n, 'taken back' FROM generate_series(1000, 9000) n"
    execute(
        server,
        f"ALTER DATABASE {database} SET logical_decoding_work_mem = '64kB'",
        "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)",
        "CREATE TABLE u (id INT PRIMARY KEY, v TEXT)",
        "INSERT INTO t VALUES (1, 'stays')",
        database=database,
    )
    follower = PostgresFollower(server, database, **{"dblog.log.streaming": streaming})
    follower.start()
    follower.until_dumped()
    try:
        for statements in (
            ("BEGIN", large, "DELETE FROM t WHERE id = 1", "ROLLBACK"),
            ("BEGIN", large, "PREPARE TRANSACTION 'back'"),
            ("ROLLBACK PREPARED 'back'",),
            ("BEGIN", "INSERT INTO t VALUES (2, 'stays')", "SAVEPOINT a", large, "ROLLBACK TO a", "PREPARE TRANSACTION 'stays'"),
            ("INSERT INTO t VALUES (3, 'stays')",),
            ("COMMIT PREPARED 'stays'",),
            ("BEGIN", "ALTER TABLE t ADD COLUMN gone INT", "INSERT INTO t VALUES (4, 'taken back', 1)", "TRUNCATE t", "DROP TABLE u", "ROLLBACK"),
            (
                "BEGIN", "SAVEPOINT a", "ALTER TABLE u RENAME TO w", "CREATE TABLE x AS SELECT * FROM t", "TRUNCATE t", "ROLLBACK TO a",
                "INSERT INTO t VALUES (5, 'stays')", "COMMIT",
            ),
            ("INSERT INTO t VALUES (6, 'last')", "INSERT INTO u VALUES (1, 'last')"),
        ):  # fmt: skip
            execute(server, *statements, database=database)
        for again in (False, True):
            if again:
                follower.restart()
                execute(server, "DELETE FROM t WHERE id = 6", database=database)
            for table in ("t", "u"):
                follower.until_equal(table)
    finally:
        follower.task.stop()
        drop_slots(server, database)

    sent = [record for _, record in follower.values if record is not None]
    assert not any((record["after"] or {}).get("v") == "taken back" for record in sent)
    assert not any("gone" in (record["after"] or {}) for record in sent)
    assert {table for table, _ in follower.values} == {"t", "u"}
    assert [record["op"] for table, record in follower.values if table == "t" and record is not None] == ["r", "c", "c", "c", "c", "d"]
