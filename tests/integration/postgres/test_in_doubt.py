"""What a run does not know of the transactions of the run before. # I2"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import psycopg2
import pytest
from dblog.dialects.postgres.pgoutput.items import LogOffset
from dblog.readers.dump.chunk import UNPROVEN_AT_ONCE
from reference_decoders.postgres.decoder_reference import ReferenceLogDecoder
from stack import Postgres
from support.postgres import connected, execute, new_database
from support.postgres_follower import PostgresFollower

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
def test_a_logged_transaction_is_in_doubt_also_while_no_later_one_has_ended(waiting: Postgres, windows: dict[str, str]) -> None:
    database = new_database(waiting)
    execute(waiting, "CREATE TABLE t (id INT PRIMARY KEY, name TEXT)", "INSERT INTO t VALUES (1, 'old')", database=database)
    follower = PostgresFollower(waiting, database, **windows, **{"snapshot.mode": "no_data"}).start()
    held = Waiting(waiting, database, "UPDATE t SET name = 'new' WHERE id = 1")
    try:
        follower.until(lambda: follower.ops("t") == ["u"])
        follower.restart()
        assert held.waits
        request = follower.ask("public.t")
        follower.until(
            lambda: follower.task.metrics().get("proof_retries_total", 0) > 2 or (follower.status(request.id) or {}).get("state") == "DONE"
        )
        ops = follower.ops("t")
    finally:
        held.release()
    follower.task.stop()
    assert ops == ["u"], "a chunk of before has come behind the update"


def test_a_chunk_that_waits_for_a_transaction_is_read_again_after_longer_and_longer_pauses(waiting: Postgres) -> None:
    database = new_database(waiting)
    follower = PostgresFollower(waiting, database, **{"snapshot.mode": "no_data"})
    follower.sql("CREATE TABLE t (id INT PRIMARY KEY, name TEXT)", "INSERT INTO t VALUES (1, 'old')")
    follower.start()
    held = Waiting(waiting, database, "UPDATE t SET name = 'new' WHERE id = 1")
    try:
        follower.until(lambda: follower.ops("t") == ["u"])
        follower.restart()
        request = follower.ask("public.t")
        follower.until(lambda: follower.task.metrics().get("proof_retries_total", 0) > UNPROVEN_AT_ONCE)
        begun_s = time.monotonic()
        follower.until(lambda: follower.task.metrics().get("proof_retries_total", 0) > UNPROVEN_AT_ONCE + 5)
        took_s = time.monotonic() - begun_s
    finally:
        held.release()
    follower.until(lambda: (follower.status(request.id) or {}).get("state") == "DONE")
    follower.task.stop()
    assert took_s > (0.05 + 0.1 + 0.2 + 0.4 + 0.8) / 2


@pytest.mark.parametrize("same_database", [False, True], ids=["another database", "the same"])
def test_a_transaction_that_a_session_leaves_open_does_not_hold_dumps_up(waiting: Postgres, same_database: bool) -> None:
    database = new_database(waiting)
    follower = PostgresFollower(waiting, database, **{"snapshot.mode": "no_data"})
    follower.sql("CREATE TABLE z (id INT PRIMARY KEY)", "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    follower.start()
    follower.sql("INSERT INTO z VALUES (1)")
    follower.until(lambda: follower.ops("z") == ["c"])
    with connected(waiting, database=database if same_database else "postgres") as other, other.cursor() as cursor:
        cursor.execute("BEGIN; SELECT pg_current_xact_id()")
        follower.sql("INSERT INTO z VALUES (2)")
        follower.restart()
        request = follower.ask("public.t")
        follower.until(
            lambda: (follower.status(request.id) or {}).get("state") == "DONE" or follower.task.metrics().get("proof_retries_total", 0) > 8
        )
        state = (follower.status(request.id) or {}).get("state")
        cursor.execute("ROLLBACK")
    follower.task.stop()
    assert state == "DONE"


def test_a_truncate_that_an_earlier_connection_has_taken_counts_as_a_change_of_its_table() -> None:
    heard: list[frozenset[int]] = []
    decoder = ReferenceLogDecoder(resolve=lambda *_: None, committed=lambda xid, lsn, tables: heard.append(tables), database="d")

    def message(content: bytes, lsn: int = 64) -> bytes:
        whole = b"w" + lsn.to_bytes(8) + lsn.to_bytes(8) + bytes(8) + content
        return len(whole).to_bytes(4, "little") + whole

    begin = message(b"B" + (800).to_bytes(8) + bytes(8) + (7).to_bytes(4))
    relation = message(b"R" + (5).to_bytes(4) + b"public\0t\0d" + (0).to_bytes(2))
    truncate = message(b"T" + (1).to_bytes(4) + b"\0" + (5).to_bytes(4))
    commit = message(b"C" + b"\0" + (800).to_bytes(8) + (808).to_bytes(8) + bytes(8))
    for skip in (0, 1):
        decoder.start(LogOffset(lsn=64, commit_lsn=800 if skip else 0, event=skip), epoch=1, now_us=lambda: 0)
        decoder.feed(begin + relation + truncate + commit)
        while decoder.held:
            decoder.feed(b"")
    assert heard == [frozenset({5}), frozenset({5})]
