"""A transaction that the log has and no snapshot shows yet: PostgreSQL makes it visible only once a synchronous standby has it. # I2"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest
from stack import Postgres
from support.postgres import connected, execute, new_database
from support.postgres_follower import ROOT, PostgresFollower, drop_slots

WINDOWS = pytest.mark.parametrize("windows", [{}, {"read.only": "true"}], ids=["written", "read-only"])


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A server whose commits wait for a standby that never comes, where a session asks for that: all others say that they do not."""
    with Postgres(tmp_path_factory.mktemp("waiting") / "server", durable=False) as server:
        execute(server, "ALTER SYSTEM SET synchronous_commit = 'local'", "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        execute(server, "SELECT pg_reload_conf()")
        yield server


class Waiting:
    """A statement whose commit is logged and waits."""

    def __init__(self, server: Postgres, database: str, statement: str) -> None:
        self._server = server
        self._connection = psycopg2.connect(**{**server.login, "dbname": database}, options="-c synchronous_commit=on")
        self._connection.autocommit = True
        self.pid = self._connection.info.backend_pid
        self._thread = threading.Thread(target=self._run, args=(statement,), daemon=True)
        self._thread.start()

    def _run(self, statement: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)

    @property
    def waits(self) -> bool:
        found = execute(self._server, f"SELECT wait_event FROM pg_stat_activity WHERE pid = {self.pid}")
        return found == [("SyncRep",)]

    def release(self) -> None:
        """Nobody is waited for any more: the transaction becomes visible."""
        execute(self._server, f"SELECT pg_cancel_backend({self.pid})")
        self._thread.join(30)
        assert not self._thread.is_alive()
        self._connection.close()


@WINDOWS
def test_a_chunk_that_lacks_what_the_log_has_in_front_of_it_is_read_again(waiting: Postgres, windows: dict[str, str]) -> None:
    database = new_database(waiting)
    execute(waiting, "CREATE TABLE t (id INT PRIMARY KEY, name TEXT)", "INSERT INTO t VALUES (1, 'old'), (2, 'gone')", database=database)
    follower = PostgresFollower(waiting, database, **windows, **{"snapshot.mode": "no_data"}).start()
    held = [
        Waiting(waiting, database, "UPDATE t SET name = 'new' WHERE id = 1"),
        Waiting(waiting, database, "DELETE FROM t WHERE id = 2"),
    ]
    try:
        follower.until(lambda: follower.ops("t").count("d") == 1 and follower.ops("t").count("u") == 1)
        assert [one.waits for one in held] == [True, True]

        request = follower.ask("public.t")
        follower.until(lambda: follower.task.metrics().get("proof_retries_total", 0) > 2)
        assert "r" not in follower.ops("t"), "no snapshot shows what the log has had"
    finally:
        for one in held:
            one.release()
    follower.until_state(request, "DONE")

    assert follower.ops("t").count("r") == 1
    assert list(follower.rows["t"].values()) == [{"id": 1, "name": "new"}]
    follower.task.stop()
    with connected(waiting, database=database):
        follower.until_equal("t")


@WINDOWS
def test_a_run_that_begins_behind_such_a_transaction_does_not_know_it_and_waits_for_it(waiting: Postgres, windows: dict[str, str]) -> None:
    database = new_database(waiting)
    execute(waiting, "CREATE TABLE t (id INT PRIMARY KEY, name TEXT)", "INSERT INTO t VALUES (1, 'old')", database=database)
    follower = PostgresFollower(waiting, database, **windows, **{"snapshot.mode": "no_data"}).start()
    held = Waiting(waiting, database, "UPDATE t SET name = 'new' WHERE id = 1")
    try:
        follower.until(lambda: follower.ops("t") == ["u"])
        execute(waiting, "CREATE TABLE other (id INT PRIMARY KEY)", "INSERT INTO other VALUES (1)", database=database)
        follower.until(lambda: follower.ops("other").count("c") == 1)
        follower.restart()
        assert held.waits

        request = follower.ask("public.t")
        follower.until(lambda: follower.task.metrics().get("proof_retries_total", 0) > 2)
        assert "r" not in follower.ops("t")
    finally:
        held.release()
    follower.until_state(request, "DONE")

    assert list(follower.rows["t"].values()) == [{"id": 1, "name": "new"}]
    follower.task.stop()


def test_a_large_value_beside_a_changed_key_is_read_once_its_transaction_is_visible(waiting: Postgres) -> None:
    database = new_database(waiting)
    follower = PostgresFollower(waiting, database)
    large = "(SELECT string_agg(md5(n::text || '{0}'), '') FROM generate_series(1, 400) n)"
    follower.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, big TEXT)",
        "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
        f"INSERT INTO t VALUES (1, 'A' || {large.format(1)}), (2, 'B' || {large.format(2)})",
    )
    follower.start().until_dumped()
    held = Waiting(waiting, database, "BEGIN; UPDATE t SET id = 3 WHERE id = 2; UPDATE t SET id = 2 WHERE id = 1; COMMIT")
    try:
        follower.until(lambda: held.waits)
        for _ in range(20):  # what the log has meanwhile may not name the row that has the key still
            follower.poll()
    finally:
        held.release()
    follower.until_equal("t")
    follower.task.stop()
    drop_slots(waiting, database)


def test_a_transaction_that_stays_prepared_holds_up_no_dump_of_a_run_that_begins_behind_it(tmp_path: Path) -> None:
    with Postgres(tmp_path / "server", durable=False, options={"max_prepared_transactions": "5"}) as server:
        database = new_database(server)
        follower = PostgresFollower(server, database, **{"snapshot.mode": "no_data"})
        follower.sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        follower.start()
        execute(server, "BEGIN; INSERT INTO t VALUES (100); PREPARE TRANSACTION 'left'", database=database)
        follower.sql("INSERT INTO t VALUES (2)")
        follower.until(lambda: len(follower.rows.get("t", {})) == 1)
        follower.restart()

        follower.until_state(follower.ask(r"public\.t"), "DONE")

        execute(server, "COMMIT PREPARED 'left'", database=database)
        follower.until_equal("t")
        follower.task.stop()


def test_rows_of_a_table_that_is_attached_in_their_transaction_are_the_root_s_also_where_nobody_sees_them_for_a_while(
    waiting: Postgres,
) -> None:
    database = new_database(waiting)
    config = {"publish.via.partition.root": "true", "table.include.list": "public.root,public.marks"}
    follower = PostgresFollower(waiting, database, **config)
    follower.sql(*ROOT)
    follower.start().until_dumped()
    follower.until_caught_up()

    held = Waiting(
        waiting,
        database,
        "BEGIN; CREATE TABLE high (LIKE root INCLUDING ALL); INSERT INTO high VALUES (11, 'b'); "
        "ALTER TABLE root ATTACH PARTITION high FOR VALUES FROM (10) TO (20); COMMIT",
    )
    follower.until(lambda: held.waits)
    follower.until_caught_up()
    held.release()
    follower.sql("INSERT INTO root VALUES (12, 'c')")

    follower.until_equal("root")
    follower.task.stop()


def test_a_partition_that_is_attached_while_a_standby_is_waited_for_brings_its_rows_over_a_kill(waiting: Postgres) -> None:
    database = new_database(waiting)
    config = {
        "publish.via.partition.root": "true",
        "table.include.list": "public.root,public.marks",
        "dblog.metrics.server.interval.ms": "100",
    }
    follower = PostgresFollower(waiting, database, **config)
    follower.sql(*ROOT)
    follower.start().until_dumped()
    filled = (
        "BEGIN; CREATE TABLE high (LIKE root INCLUDING ALL); INSERT INTO high VALUES (11, 'b'); "
        "ALTER TABLE root ATTACH PARTITION high FOR VALUES FROM (10) TO (20); COMMIT"
    )
    held = Waiting(waiting, database, filled)
    follower.until(lambda: held.waits)
    follower.until_caught_up()

    follower.task.stop()
    held.release()
    follower.restart()

    follower.until_equal("root")
    follower.task.stop()
    drop_slots(waiting, database)
