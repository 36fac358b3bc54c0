"""Connections that end, lead elsewhere, or are not answered any more; and limits that a role has for its sessions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from dblog.dialects.postgres.task import connections as task_connections
from dblog.dialects.postgres.wire import log as wire_log
from dblog.dialects.postgres.wire.connect import open_wire, settings_of
from dblog.errors import DblogError, TransientError
from integration.postgres.test_other_servers import TABLES, copy_of, ids, promoted
from stack import Postgres, Postgres17
from support.postgres import execute, new_database
from support.postgres_follower import PostgresFollower, drop_slots
from support.tcp_switch import TcpSwitch


@pytest.fixture
def database(postgres: Postgres, postgres_database: str) -> Iterator[str]:
    yield postgres_database
    drop_slots(postgres, postgres_database)


def test_a_log_connection_that_reaches_another_server_than_the_session_takes_nothing_from_it(tmp_path: Path) -> None:
    old = Postgres(tmp_path / "old", durable=False)
    with old:
        database = new_database(old)
        follower = PostgresFollower(old, database)
        follower.sql(*TABLES)
        follower.start()
        follower.until_dumped()
        follower.task.stop()
    copy_of(tmp_path / "old", tmp_path / "new")
    new = promoted(tmp_path / "new")
    try:
        with old, TcpSwitch(old.port) as switch:
            follower.config["database.port"] = str(switch.port)
            follower.restart()
            follower.until_caught_up()

            switch.target = new.port
            execute(old, "SELECT pg_terminate_backend(active_pid, 10000) FROM pg_replication_slots")
            execute(new, "INSERT INTO t VALUES (1, 'of another server')", database=database)
            with pytest.raises(DblogError, match="is on timeline 2 now, and was on 1: it was promoted"):
                follower.until(lambda: ids(follower))
            follower.task.stop()
    finally:
        new.stop()

    assert ids(follower) == []


def test_connections_that_are_not_answered_any_more_are_opened_again(
    postgres: Postgres, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire_log, "SILENT_S", 2.0)
    monkeypatch.setattr(task_connections, "ANSWER_LIMIT_S", 1.0)
    with TcpSwitch(postgres.port) as switch:
        follower = PostgresFollower(postgres, database, **{"status.update.interval.ms": "500"})
        follower.sql(*TABLES)
        follower.config["database.port"] = str(switch.port)
        follower.task = follower.new_task()
        follower.start()
        follower.until_dumped()
        follower.until_caught_up()

        switch.swallow()
        follower.sql("ALTER TABLE t ADD COLUMN more INT", "INSERT INTO t VALUES (1, 'not heard at first', 7)")
        follower.until(lambda: ids(follower) == [1])
        follower.task.stop()


def test_a_question_that_is_not_answered_in_time_ends_with_the_connection(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    wire = open_wire(settings_of(follower.parts().settings))
    began_s = time.monotonic()
    try:
        with pytest.raises(TransientError, match="a long question"):
            wire.query("SELECT pg_sleep(60)", doing="a long question", limit_s=0.2)
    finally:
        wire.close()

    assert time.monotonic() - began_s < 30


LIMITS = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout")


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres17]:
    """A server that has transaction_timeout, too."""
    with Postgres17(tmp_path_factory.mktemp("newer") / "server", durable=False) as server:
        yield server


def test_limits_that_the_role_has_for_its_sessions_end_neither_log_nor_dump(newer: Postgres17) -> None:
    database = new_database(newer)
    role = f"limited_{database}"
    slow_select = {
        "snapshot.select.statement.overrides": "public.t",
        "snapshot.select.statement.overrides.public.t": "SELECT * FROM public.t WHERE (SELECT public.slowly())",
    }
    follower = PostgresFollower(newer, database, **{"database.user": role, "database.password": "pw"}, **slow_select)
    follower.sql(
        f"CREATE ROLE {role} LOGIN SUPERUSER PASSWORD 'pw'",
        *(f"ALTER ROLE {role} SET {limit} = '700ms'" for limit in (*LIMITS, "transaction_timeout")),
        f"ALTER ROLE {role} SET wal_sender_timeout = '3s'",
        *TABLES,
        "INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(1, 5) n",
        "CREATE FUNCTION slowly() RETURNS boolean LANGUAGE sql VOLATILE AS 'SELECT pg_sleep(4) IS NOT NULL'",
    )
    where = settings_of(follower.parts().settings)
    wires = [open_wire(where), open_wire(where, replication=True)]
    try:
        shown = [[wire.one(f"SHOW {limit}") for limit in (*LIMITS, "transaction_timeout")] for wire in wires]
    finally:
        for wire in wires:
            wire.close()
    follower.start()
    follower.until_dumped()
    follower.until_caught_up()
    follower.until_equal("t")
    follower.task.stop()

    assert shown == [["10min", *["0"] * 4], ["0"] * 5], "a statement of ours has the limit of database.query.timeout.ms"
    assert follower.task.metrics()["log_reconnects_total"] == 0
