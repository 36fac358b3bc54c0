"""Dumps of a source that is pressed: what is measured on real servers, and dumps that stop before harm, leave nothing open and go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from dblog.abort import Abort
from dblog.core import pressure
from dblog.core.pressure import OF_SERVER, Limit
from dblog.readers.contract import LoadWatch
from dblog.readers.dump import governing
from stack.database import Database
from support.follower import Follower
from support.servers import connected, execute, new_database
from support.under_writes import under_writes

ROWS = 2_000
SLEEPERS = 12


@pytest.fixture
def follower_of(source: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Follower]]:
    """Makes followers of a table whose rows are older than the connector, which dumps nothing by itself."""
    monkeypatch.setattr(governing, "LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(pressure, "EASIER_EVERY_S", 0.3)
    database = new_database(source, "pressed")
    execute(
        source,
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) SELECT i, i FROM n LIMIT {ROWS}",
        *(f"INSERT INTO t SELECT id + {500 * n}, v FROM t WHERE id <= 500" for n in range(1, ROWS // 500)),
        database=database,
    )
    made: list[Follower] = []

    def make(**config: str) -> Follower:
        follower = Follower(source, database, **{"snapshot.mode": "no_data", "dblog.chunk.rows": "100", **config})
        made.append(follower)
        return follower

    yield make
    for follower in made:
        follower.task.stop()


@contextmanager
def sleeping(server: Database, count: int) -> Iterator[None]:
    """So many statements are at work until the end."""
    with connected(server) as first, first.cursor() as cursor:
        cursor.execute("SELECT GET_LOCK('dblog-test-sleepers', 0)")

        def sleep() -> None:
            with connected(server) as connection, connection.cursor() as waiting:
                waiting.execute("SELECT GET_LOCK('dblog-test-sleepers', 600)")

        threads = [threading.Thread(target=sleep) for _ in range(count)]
        for thread in threads:
            thread.start()
        until(lambda: running(server) > count)
        yield
        cursor.execute("SELECT RELEASE_LOCK('dblog-test-sleepers')")
        for thread in threads:
            thread.join()


def running(server: Database) -> int:
    return int(str(execute(server, "SHOW GLOBAL STATUS LIKE 'Threads_running'")[0][1]))


def until(condition: Callable[[], Any]) -> None:
    deadline_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline_s
        threading.Event().wait(0.05)


def test_threads_old_transactions_history_and_statements_are_measured_as_they_are(source: Database, follower_of: Any) -> None:
    follower = follower_of()
    server = follower.parts().source.connect(again=False)
    with (
        closing(server),
        closing(server.open_load(Abort())) as load,
        connected(source, database=follower.database) as old,
        old.cursor() as cursor,
    ):
        before = measured(load)
        with sleeping(source, SLEEPERS):
            busy = measured(load)
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("BEGIN")
        cursor.execute("SELECT COUNT(*) FROM t")
        for n in range(20):
            follower.sql(f"UPDATE t SET v = v + {n} WHERE id <= 20", f"DELETE FROM t WHERE id = {n + 1}")
        until(lambda: measured(load)[Limit.TRANSACTION_AGE] >= 2)
        aged = measured(load)
        cursor.execute("ROLLBACK")

        assert busy[Limit.THREADS_RUNNING] >= before[Limit.THREADS_RUNNING] + SLEEPERS - 2
        assert aged[Limit.TRANSACTION_AGE] < 60, "in the server's time zone, whatever that is"
        assert aged[Limit.HISTORY_LENGTH] > 0
        assert aged[Limit.REPLICA_LAG] == 0
        if source.flavor == "mysql":
            until(lambda: 0 < measured(load).get(Limit.STATEMENT_P95, 0) < 600_000)


def statements(n: int) -> tuple[str, ...]:
    """What is written beside a dump; the rows stay as many."""
    return (f"UPDATE t SET v = v + 1 WHERE id % 97 = {n % 97}",)


def measured(load: LoadWatch) -> dict[Limit, float]:
    return dict(load.measure(OF_SERVER).measured)


@pytest.mark.either_server
def test_a_source_with_many_threads_holds_its_dump_without_a_snapshot_and_lets_it_go_on_to_its_end(
    source: Database, follower_of: Any
) -> None:
    follower = follower_of(**{"dblog.dump.limit.threads.running": str(SLEEPERS)}).start()
    request = follower.ask(rf"{follower.database}\.t", delay_ms=150, parallelism=3)
    follower.until(lambda: follower.ops("t"))

    with sleeping(source, SLEEPERS):
        follower.until(lambda: governor(follower, request)["state"] == "held")
        status = governor(follower, request)
        follower.until(lambda: snapshots(source) == 0)
        follower.until(lambda: follower.task.metrics()["windows_open"] == 0 and not follower.task.metrics()["queue_records"])
        read = len(follower.ops("t"))
        follower.sql("UPDATE t SET v = -1 WHERE id = 1")
        follower.until(lambda: "u" in follower.ops("t"))
        metrics = follower.task.metrics()
        assert len(follower.ops("t")) == read + 1, "the log goes on, and nothing else"
        assert metrics["dump_governor_state|held"] == 1

    assert status["measured"] >= SLEEPERS
    assert "dblog.dump.limit.threads.running" in status["reason"]
    follower.tell(follower.requests[request.id])
    with under_writes(follower, statements, pause_s=0.01):
        done = follower.until_state(request, "DONE")
    follower.until_equal("t")
    assert done["governor"] is None
    assert follower.task.metrics()["dump_governor_seconds_total|held"] > 0


@pytest.mark.either_server
def test_a_log_that_the_server_would_drop_before_it_is_read_holds_the_dump_until_it_is_read(source: Database, follower_of: Any) -> None:
    before = execute(source, "SELECT @@GLOBAL.binlog_expire_logs_seconds")[0][0]
    execute(source, "SET GLOBAL binlog_expire_logs_seconds = 4")
    try:
        follower = follower_of(
            **{"dblog.dump.limit.log.lag.ms": "0", "dblog.metrics.server.interval.ms": "100", "max.queue.size": "10", "max.batch.size": "5"}
        )
        follower.sql("CREATE TABLE wide (id INT PRIMARY KEY, v LONGTEXT)")
        follower.start()
        request = follower.ask(rf"{follower.database}\.t", delay_ms=100)
        follower.until(lambda: follower.ops("t"))
        for n in range(8):
            follower.sql(f"UPDATE t SET v = {n} WHERE id <= 20", f"INSERT INTO wide VALUES ({n}, REPEAT('x', 500000))")

        until(lambda: governor(follower, request)["state"] == "held")  # nobody takes what the log thread reads

        assert "the source will drop log" in governor(follower, request)["reason"]
        assert follower.task.metrics()["log_race_near_ratio"] >= 1
        follower.until_state(request, "DONE")
        follower.until_equal("t")
        assert follower.task.metrics().get("log_race_near_ratio", 0) == 0
    finally:
        execute(source, f"SET GLOBAL binlog_expire_logs_seconds = {before}")


@pytest.mark.either_server
def test_a_dump_shows_how_far_each_table_is_how_fast_what_proved_its_last_chunk_and_goes_on_counting_over_a_restart(
    source: Database, follower_of: Any
) -> None:
    follower = follower_of(**{"dblog.metrics.server.interval.ms": "100"})
    follower.sql("ANALYZE TABLE t")
    follower.start()
    request = follower.ask(rf"{follower.database}\.t", delay_ms=200)
    follower.until(lambda: (shown(follower, request) or {}).get("eta_s"))
    early = shown(follower, request)
    with under_writes(follower, statements, pause_s=0.01):
        follower.restart()
        follower.until(lambda: (shown(follower, request) or {}).get("rows", 0) > early["rows"] and shown(follower, request)["proof"])
        late = shown(follower, request)
        done = follower.until_state(request, "DONE")

    assert early["rows_per_s"] > 0
    assert early["chunks"] * early["chunk_rows"] == early["rows"], "each chunk is as long as the others"
    assert early["bytes"] > early["rows"] * 5
    assert early["bytes_estimated"] == pytest.approx(early["bytes"] / early["rows"] * early["rows_estimated"], rel=0.01)
    assert late["bytes"] / late["rows"] == pytest.approx(early["bytes"] / early["rows"], rel=0.1)
    assert (late["proof"]["low"]["file"], late["proof"]["low"]["pos"]) < (late["proof"]["high"]["file"], late["proof"]["high"]["pos"])
    assert (done["rows"], done["tables"][0]["chunks_open"], done["tables"][0]["state"]) == (ROWS, 0, "DONE")
    assert done["eta_error"] is not None
    follower.until_equal("t")


def shown(follower: Follower, request: Any) -> dict[str, Any]:
    """The table in the dump's status."""
    status = follower.status(request.id)
    assert status is not None
    table: dict[str, Any] = status["tables"][0]
    return table


def snapshots(server: Database) -> int:
    """Transactions that are open."""
    return len(execute(server, "SELECT 1 FROM information_schema.INNODB_TRX"))


def governor(follower: Follower, request: Any) -> dict[str, Any]:
    status = follower.status(request.id)
    assert status is not None
    return status["governor"] or {"state": None}


@pytest.mark.either_server
def test_a_log_that_falls_behind_holds_the_dump_until_it_has_caught_up(follower_of: Any) -> None:
    follower = follower_of(
        **{"dblog.dump.limit.log.lag.ms": "1500", "dblog.metrics.server.interval.ms": "0", "max.queue.size": "10", "max.batch.size": "5"}
    ).start()
    request = follower.ask(rf"{follower.database}\.t", delay_ms=100)
    follower.until(lambda: follower.ops("t"))
    for n in range(50):
        follower.sql(f"UPDATE t SET v = {n} WHERE id <= 20")

    until(lambda: governor(follower, request)["state"] == "held")  # nobody takes what the log thread reads, so it waits

    assert "log.lag.ms" in governor(follower, request)["reason"]
    follower.until_state(request, "DONE")
    follower.until_equal("t")


def test_without_the_privilege_a_limit_is_none_and_the_status_says_why(source: Database, follower_of: Any) -> None:
    execute(
        source,
        "CREATE OR REPLACE USER weak@'%' IDENTIFIED BY 'secret'"
        if source.flavor == "mariadb"
        else "CREATE USER weak@'%' IDENTIFIED BY 'secret'",
        f"GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT{', BINLOG MONITOR' if source.flavor == 'mariadb' else ''} ON *.* TO weak@'%'",
        "GRANT ALL ON dblog.* TO weak@'%'",
    )
    try:
        follower = follower_of(
            **{
                "database.user": "weak",
                "database.password": "secret",
                "dblog.dump.limit.transaction.age.s": "1",
                "dblog.dump.limit.threads.running": "1000",
            }
        ).start()
        request = follower.ask(rf"{follower.database}\.t", delay_ms=20)
        follower.until(lambda: governor(follower, request).get("missing"))
        missing = governor(follower, request)["missing"]
        follower.until_state(request, "DONE")

        assert len(missing) == 1
        assert "transaction.age.s" in missing[0]
        assert "PROCESS" in missing[0]
    finally:
        execute(source, "DROP USER weak@'%'")
