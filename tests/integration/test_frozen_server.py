"""A server that hangs: the task has the reason within a moment, and withdraws it when the server answers."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stack import MariaDb, Postgres
from stack.database import Database
from support.follower import Follower
from support.postgres import execute as execute_postgres
from support.postgres_follower import PostgresFollower
from support.servers import execute, started

TIMEOUT_S = 120.0
REASON = "the log is not read: the server does not answer (overdue since "


def until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s, "it never became true"
        threading.Event().wait(0.05)


@contextmanager
def frozen(pid: int | None) -> Iterator[None]:
    """A server whose processes all stand still."""
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)  # first, so that it makes no more of them
    children = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split()
    for child in children:
        _send(int(child), signal.SIGSTOP)
    try:
        yield
    finally:
        for child in children:
            _send(int(child), signal.SIGCONT)
        os.kill(pid, signal.SIGCONT)


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # PostgreSQL's workers come and go
        os.kill(pid, number)


def assert_says_so(follower: Follower | PostgresFollower, server: Database | Postgres) -> None:
    follower.sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    follower.start()
    follower.until_dumped()
    assert follower.task.waits_for() is None

    with frozen(server.pid):
        began_s = time.monotonic()
        until(lambda: (follower.task.waits_for() or "").startswith(REASON))
        assert time.monotonic() - began_s < 14.5, "the status has it a second later"
        first = follower.task.waits_for()
        threading.Event().wait(1.5)
        assert follower.task.waits_for() == first, "a text that changes would be written each time"

    until(lambda: follower.task.waits_for() is None)
    follower.sql("INSERT INTO t VALUES (2)")
    follower.until_equal("t")
    follower.task.stop()


def test_a_mariadb_that_hangs_is_the_reason_that_the_task_gives(own_folder: Path) -> None:
    with started(MariaDb(own_folder)) as server:
        execute(server, "CREATE DATABASE d")
        assert_says_so(Follower(server, "d"), server)


def test_a_postgres_that_hangs_is_the_reason_that_the_task_gives(own_folder: Path) -> None:
    with started(Postgres(own_folder)) as server:
        execute_postgres(server, "CREATE DATABASE d")
        assert_says_so(PostgresFollower(server, "d", **{"publication.autocreate.mode": "all_tables"}), server)
