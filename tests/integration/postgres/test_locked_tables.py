"""Tables that somebody locks for long (LOCK TABLE, a statement that alters them in an open transaction) hold up no other table. # I3"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any

import pytest
from dblog.config.connector import parse_connector
from dblog.dialects.postgres.task import server, unsent_values
from dblog.dialects.postgres.task.log import PostgresReader
from dblog.dialects.postgres.wire import lock_limits, replica_identity, slot
from dblog.dialects.postgres.wire.connect import LockedError, settings_of
from dblog.dialects.postgres.wire.lock_limits import LOCKED_MS
from dblog.dialects.postgres.wire.session import Session, connect
from dblog.errors import TransientError
from stack import Postgres
from stack.process import wait_until
from support.postgres import connected, execute
from support.postgres_begun import BY_ROOT, Begun
from support.postgres_follower import PostgresFollower

OTHER = "CREATE TABLE other (id INT PRIMARY KEY, v TEXT)"
LARGE = (
    "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)",
    "ALTER TABLE t ALTER v SET STORAGE EXTERNAL",
    "INSERT INTO t SELECT i, repeat(i::text, 9000) FROM generate_series(1, 3) i",
)


@contextmanager
def locked_after(postgres: Postgres, database: str, *statements: str) -> Iterator[None]:
    """Commit these as one transaction, with ``t`` locked by somebody from the moment of the commit on, and until the end of the block."""
    with connected(postgres, database=database) as writer, connected(postgres, database=database) as locker:
        writer.autocommit = locker.autocommit = False
        for statement in statements:
            writer.cursor().execute(statement)
        lock = threading.Thread(target=locker.cursor().execute, args=("LOCK TABLE t IN ACCESS EXCLUSIVE MODE",))
        lock.start()
        waits = "SELECT 1 FROM pg_locks WHERE relation = 't'::regclass AND NOT granted"
        wait_until(lambda: execute(postgres, waits, database=database), timeout_s=60, what="the lock to be waited for")
        writer.commit()
        lock.join(60)
        try:
            yield
        finally:
            locker.rollback()


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What sessions wait for with a limit, and how many milliseconds that is."""
    noted: list[tuple[str, int]] = []
    limit = Session.lock_limit

    def lock_limit(session: Session, limit_ms: int, *, doing: str) -> AbstractContextManager[None]:
        noted.append((doing, limit_ms))
        return limit(session, limit_ms, doing=doing)

    monkeypatch.setattr(Session, "lock_limit", lock_limit)
    return noted


@contextmanager
def locked(postgres: Postgres, database: str) -> Iterator[None]:
    """With ``t`` locked by somebody."""
    with connected(postgres, database=database) as locker:
        locker.autocommit = False
        locker.cursor().execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        yield


@pytest.mark.parametrize("away", [False, True], ids=["running", "away"])
def test_the_columns_of_a_locked_table_that_was_altered_are_known(postgres: Postgres, database: str, begun: Begun, away: bool) -> None:
    follower = begun(
        "CREATE TABLE t (id INT PRIMARY KEY, v TEXT, d TEXT GENERATED ALWAYS AS (v || 'x') STORED)", "INSERT INTO t VALUES (1, 'a')", OTHER
    )
    if away:
        follower.task.stop()

    with locked_after(
        postgres, database, "ALTER TABLE t ADD w INT DEFAULT 1 + 1, ALTER v SET DEFAULT lower('B')", "INSERT INTO t (id) VALUES (2)"
    ):
        if away:
            follower.restart()
        follower.sql("INSERT INTO other VALUES (1, 'a')")
        follower.until_equal("other")

    follower.until(lambda: {row["id"]: (row["v"], row.get("w")) for row in follower.rows["t"].values()}[2] == ("b", 2))


@pytest.mark.parametrize("away", [False, True], ids=["running", "away"])
def test_a_table_whose_row_cannot_be_read_for_a_lock_is_named_until_its_repair(
    postgres: Postgres, database: str, begun: Begun, monkeypatch: pytest.MonkeyPatch, away: bool
) -> None:
    monkeypatch.setattr(unsent_values, "LOCK_LIMIT_S", 1.0)
    follower: PostgresFollower = begun(*LARGE, OTHER)
    if away:
        follower.task.stop()

    with locked_after(postgres, database, "UPDATE t SET id = id + 10", "INSERT INTO other VALUES (1, 'a')"):
        if away:
            follower.restart()
        follower.until_equal("other")
        (warning,) = [text for text in follower.warnings.texts() if "got another key" in text]
        assert "public.t" in warning
        assert "--mode repair" in warning

    follower.ask("public.t", mode="repair")
    follower.until_equal("t")
    follower.until(lambda: not [text for text in follower.warnings.texts() if "got another key" in text])


def test_a_repair_that_has_passed_such_a_row_leaves_the_warning_to_the_next_one(
    postgres: Postgres, database: str, begun: Begun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unsent_values, "LOCK_LIMIT_S", 1.0)
    follower: PostgresFollower = begun(*LARGE, "INSERT INTO t SELECT i, repeat(i::text, 9000) FROM generate_series(4, 20) i", OTHER)
    repair = follower.ask("public.t", mode="repair", chunk_rows=2, delay_ms=300)
    follower.until(lambda: (follower.status(repair.id) or {}).get("rows", 0) >= 4)

    with locked_after(postgres, database, "UPDATE t SET id = -1 WHERE id = 20", "INSERT INTO other VALUES (1, 'a')"):
        follower.until_equal("other")
    follower.until_state(repair, "DONE")

    assert [text for text in follower.warnings.texts() if "got another key" in text], "the repair had passed the row's new key"
    follower.until_state(follower.ask("public.t", mode="repair"), "DONE")
    follower.until_equal("t")
    assert not [text for text in follower.warnings.texts() if "got another key" in text]


def test_a_row_that_changes_behind_the_first_chunk_of_a_repair_keeps_its_warning_where_both_come_at_once(
    postgres: Postgres, database: str, begun: Begun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unsent_values, "LOCK_LIMIT_S", 1.0)
    reads, stands = threading.Event(), threading.Event()
    reads.set()
    receive = PostgresReader.receive

    def received(reader: PostgresReader, timeout_s: float) -> int:
        if not reads.is_set():
            stands.set()
        reads.wait(60)
        return receive(reader, timeout_s)

    monkeypatch.setattr(PostgresReader, "receive", received)
    follower: PostgresFollower = begun(*LARGE, "INSERT INTO t SELECT i, repeat(i::text, 9000) FROM generate_series(4, 20) i", OTHER)
    with locked_after(postgres, database, "UPDATE t SET id = 30 WHERE id = 20", "INSERT INTO other VALUES (1, 'a')"):
        follower.until_equal("other")

    reads.clear()
    assert stands.wait(60)
    repair = follower.ask("public.t", mode="repair", chunk_rows=2)
    follower.until(lambda: follower.task.running.windows.numbers()["windows_open"] == 2)
    follower.sql("UPDATE t SET id = -1 WHERE id = 19")  # within the minute, in which nobody asks for its value
    ((end,),) = execute(postgres, "SELECT pg_current_wal_lsn()::text")
    sent = f"SELECT 1 FROM pg_stat_replication WHERE application_name LIKE 'dblog log%' AND sent_lsn >= '{end}'"
    wait_until(lambda: execute(postgres, sent), timeout_s=60, what="the log to be sent")
    reads.set()
    follower.until_state(repair, "DONE")

    assert {row["id"]: row["v"] for row in follower.rows["t"].values()}[-1] == "__debezium_unavailable_value"
    assert [text for text in follower.warnings.texts() if "got another key" in text]


def test_many_locked_tables_are_waited_for_as_one(
    postgres: Postgres, database: str, begun: Begun, limits: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unsent_values, "LOCK_LIMIT_S", 1.0)
    monkeypatch.setattr(lock_limits, "WAITED_FOR_MAX", 3)
    follower: PostgresFollower = begun(
        "CREATE TABLE t (id INT PRIMARY KEY, v TEXT) PARTITION BY LIST (id)",
        "ALTER TABLE t ALTER v SET STORAGE EXTERNAL",
        *(f"CREATE TABLE t{n} PARTITION OF t FOR VALUES IN ({n}, {n + 10})" for n in range(5)),
        "INSERT INTO t SELECT i, repeat(i::text, 9000) FROM generate_series(0, 4) i",
        OTHER,
    )
    with locked_after(postgres, database, "UPDATE t SET id = id + 10", "INSERT INTO other VALUES (1, 'a')"):
        follower.until_equal("other")

    waits_ms = [limit_ms for doing, limit_ms in limits if doing.startswith("reading a value")]
    assert waits_ms == [1000, LOCKED_MS, LOCKED_MS, 1, 1]
    (text,) = [text for text in follower.warnings.texts() if "got another key" in text]
    assert all(f"public.t{n}" in text for n in range(5))


def test_a_row_that_a_dump_of_chosen_rows_may_have_passed_is_named_where_it_cannot_be_read_for_a_lock(
    postgres: Postgres, database: str, begun: Begun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unsent_values, "LOCK_LIMIT_S", 1.0)
    follower: PostgresFollower = begun(
        "CREATE TABLE t (id INT PRIMARY KEY, n INT, v TEXT)",
        "ALTER TABLE t ALTER v SET STORAGE EXTERNAL",
        "INSERT INTO t SELECT i, i % 2, repeat(i::text, 9000) FROM generate_series(1, 20) i",
        OTHER,
    )
    dump = follower.ask("public.t", predicate={"public.t": "n = 1"}, chunk_rows=1, delay_ms=300)
    follower.until(lambda: (follower.status(dump.id) or {}).get("rows", 0) >= 3)

    with locked_after(postgres, database, "UPDATE t SET n = 1 WHERE id = 2", "INSERT INTO other VALUES (1, 'a')"):
        follower.until_equal("other")
    follower.until_state(dump, "DONE")

    assert {row["id"]: row["v"] for row in follower.rows["t"].values()}[2] == "__debezium_unavailable_value", "no chunk brings it"
    assert [text for text in follower.warnings.texts() if "public.t changed while a dump of chosen rows" in text]
    follower.until_state(follower.ask("public.t", mode="repair"), "DONE")
    follower.until_equal("t")
    assert not [text for text in follower.warnings.texts() if "chosen rows" in text]


@pytest.mark.parametrize("chosen", [{"predicate": {"public.t": "id = 1"}}, {"keys": [[1]]}], ids=["predicate", "keys"])
def test_a_request_that_cannot_be_checked_for_a_lock_is_answered(
    postgres: Postgres, database: str, begun: Begun, monkeypatch: pytest.MonkeyPatch, chosen: dict[str, Any]
) -> None:
    monkeypatch.setattr(server, "CHECK_LIMIT_MS", 10_000)  # longer than a statement may take
    follower: PostgresFollower = begun("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", **{"database.query.timeout.ms": "3000"})

    with locked(postgres, database), pytest.raises(TransientError, match="lock timeout"):
        follower.ask("public.t", **chosen)

    follower.until_state(follower.ask("public.t", **chosen), "DONE")


def test_a_signal_whose_filter_cannot_be_checked_for_a_lock_holds_up_no_other_one(
    postgres: Postgres, database: str, begun: Begun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CHECK_LIMIT_MS", 300)
    follower: PostgresFollower = begun(
        "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)",
        "INSERT INTO t VALUES (1, 'a')",
        OTHER,
        "INSERT INTO other VALUES (1, 'a')",
        "CREATE TABLE signals (id VARCHAR(64) PRIMARY KEY, type VARCHAR(32) NOT NULL, data TEXT)",
        **{"signal.data.collection": "public.signals"},
    )
    chosen = {"data-collections": ["public.t"], "additional-conditions": [{"data-collection": "public.t", "filter": "id = 1"}]}
    with locked(postgres, database):
        for name, data in (("a", chosen), ("b", {"data-collections": ["public.other"]})):
            follower.sql(f"INSERT INTO signals VALUES ('{name}', 'execute-snapshot', '{json.dumps(data)}')")
        follower.until(lambda: follower.ops("other") == ["r", "r"])
        assert follower.ops("t") == ["r"]

    follower.until(lambda: follower.ops("t") == ["r", "r"])


def test_a_locked_partition_holds_up_no_start(postgres: Postgres, database: str, begun: Begun) -> None:
    follower: PostgresFollower = begun(
        "CREATE TABLE root (id INT PRIMARY KEY, v TEXT) PARTITION BY RANGE (id)",
        "CREATE TABLE t PARTITION OF root FOR VALUES FROM (0) TO (10)",
        OTHER,
        **BY_ROOT,
    )
    follower.task.stop()

    with locked_after(postgres, database, "INSERT INTO root VALUES (1, 'a')"):
        follower.restart()
        follower.sql("INSERT INTO other VALUES (1, 'a')")
        follower.until_equal("other")
        follower.until(lambda: follower.rows.get("root"))


def test_a_start_and_a_request_wait_for_few_of_many_locked_tables(
    postgres: Postgres, database: str, begun: Begun, limits: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_limits, "WAITED_FOR_MAX", 2)
    follower = begun(
        "CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY LIST (id)",
        *(f"CREATE TABLE t{n} PARTITION OF t FOR VALUES IN ({n})" for n in range(4)),
    )
    follower.task.stop()
    limits.clear()
    with locked(postgres, database):
        follower.restart()
        follower.ask(r"public\.t\d")

    waits_ms = {what: [limit_ms for doing, limit_ms in limits if doing == what] for what in ("reading the tables", "estimating tables")}
    assert waits_ms == {"reading the tables": [LOCKED_MS, 1] * 2, "estimating tables": [LOCKED_MS, 1]}


def test_a_start_that_sets_a_replica_identity_holds_up_nobody_behind_a_long_reader(
    postgres: Postgres, database: str, begun: Begun, limits: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_identity, "ALTER_LIMIT_MAX_MS", 1500)
    follower = begun("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'a')")
    follower.task.stop()
    follower.config["database.initial.statements"] = "SET deadlock_timeout = '1min'"
    follower.config["replica.identity.autoset.values"] = "public.t:FULL"
    follower.task = follower.new_task()

    with connected(postgres, database=database) as reader:
        reader.autocommit = False
        reader.cursor().execute("SELECT * FROM t")
        with pytest.raises(TransientError, match=r"setting the REPLICA IDENTITY of public.t .*run there when it rests: ALTER TABLE"):
            follower.start()
        assert limits[-1] == ("setting the REPLICA IDENTITY of public.t", 1500)
        assert execute(postgres, "SELECT count(*) FROM t", database=database) == [(1,)]
        reader.rollback()

    follower.restart()
    assert execute(postgres, "SELECT relreplident::text FROM pg_class WHERE oid = 't'::regclass", database=database) == [("f",)]


def test_a_start_that_sets_a_replica_identity_has_an_autovacuum_give_way(postgres: Postgres, database: str, begun: Begun) -> None:
    follower = begun(
        "CREATE TABLE t (id INT PRIMARY KEY, v TEXT) WITH (autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0, "
        "autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1)",
        "INSERT INTO t SELECT i, repeat('a', 500) FROM generate_series(1, 10000) i",
    )
    follower.task.stop()
    follower.config["replica.identity.autoset.values"] = "public.t:FULL"
    follower.task = follower.new_task()
    try:
        execute(postgres, "ALTER SYSTEM SET autovacuum_naptime = '1s'", "SELECT pg_reload_conf()")
        execute(postgres, "DELETE FROM t WHERE id % 2 = 0", database=database)
        vacuums = "SELECT 1 FROM pg_stat_progress_vacuum WHERE relid = 't'::regclass"
        wait_until(lambda: execute(postgres, vacuums, database=database), timeout_s=120, what="the autovacuum")
        follower.start()
    finally:
        execute(postgres, "ALTER SYSTEM RESET autovacuum_naptime", "SELECT pg_reload_conf()")

    assert execute(postgres, "SELECT relreplident::text FROM pg_class WHERE oid = 't'::regclass", database=database) == [("f",)]


def test_a_start_that_makes_the_publication_waits_a_moment_only_for_a_locked_table(
    postgres: Postgres, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot, "ADD_LIMIT_MS", 300)
    config = {"publication.autocreate.mode": "filtered", "publication.name": "p", "database.query.timeout.ms": "5000"}
    follower = PostgresFollower(postgres, database, **config)
    follower.sql("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")

    with locked(postgres, database), pytest.raises(TransientError, match="lock timeout") as refused:
        follower.start()
    assert re.search(
        r"public\.t is locked by process \d+ .*; or run this there while the table is idle: CREATE PUBLICATION \"p\"", str(refused.value)
    )

    try:
        follower.restart()
    finally:
        follower.task.stop()


def test_a_wait_for_a_lock_ends_as_one_though_statements_may_take_no_longer(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, **{"database.query.timeout.ms": "1500"})
    follower.sql("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
    session = connect(settings_of(parse_connector(follower.options, follower.config)), by_root=False)
    with closing(session), locked(postgres, database):
        with pytest.raises(LockedError), session.lock_limit(10_000, doing="a trial"):
            session.query("SELECT FROM public.t")
        assert session.query("SHOW lock_timeout") == [("0",)]


def test_a_limited_wait_leaves_the_limit_that_the_user_has_set(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, **{"database.initial.statements": "SET lock_timeout = '12s'"})
    session = connect(settings_of(parse_connector(follower.options, follower.config)), by_root=False)
    with closing(session):
        with session.lock_limit(50, doing="a trial"):
            assert session.query("SHOW lock_timeout") == [("50ms",)]
        assert session.query("SHOW lock_timeout") == [("12s",)]
