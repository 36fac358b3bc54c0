"""Warnings of a running task, on real servers: they stand while they are true, and are withdrawn when their cause is gone."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from stack import MariaDb, Postgres
from support.follower import Follower
from support.postgres_follower import PostgresFollower, drop_slots
from support.servers import execute

TIMEOUT_S = 120.0


def until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s, "it never became true"
        threading.Event().wait(0.05)


@pytest.fixture
def postgres_here(postgres: Postgres, postgres_database: str) -> Iterator[str]:
    yield postgres_database
    drop_slots(postgres, postgres_database)


@pytest.fixture
def mariadb_here(mariadb: MariaDb) -> str:
    name = f"d{uuid.uuid4().hex[:8]}"
    execute(mariadb, f"CREATE DATABASE {name}")
    return name


def is_unmatched(follower: Follower | PostgresFollower, name: str) -> bool:
    """Whether a warning stands that names this table of the include list; asks for numbers first, as the runtime does each second."""
    follower.task.metrics()
    return any(f".{name}" in text for text in follower.warnings.texts())


def test_a_name_that_matches_no_table_stands_until_the_table_is_made_on_postgres(postgres: Postgres, postgres_here: str) -> None:
    follower = PostgresFollower(
        postgres, postgres_here, **{"publication.autocreate.mode": "all_tables", "table.include.list": "public.t,public.later,public.never"}
    )
    follower.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    follower.start()
    follower.until_dumped()
    assert is_unmatched(follower, "later")

    follower.sql("CREATE TABLE later (id INT PRIMARY KEY)", "INSERT INTO later VALUES (1)")

    until(lambda: not is_unmatched(follower, "later"))
    assert is_unmatched(follower, "never")
    follower.task.stop()


def test_a_name_that_matches_no_table_stands_until_the_table_is_made_on_mariadb(mariadb: MariaDb, mariadb_here: str) -> None:
    names = f"{mariadb_here}.t,{mariadb_here}.later,{mariadb_here}.never"
    follower = Follower(mariadb, mariadb_here, **{"table.include.list": names})
    follower.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    follower.start()
    follower.until_dumped()
    assert is_unmatched(follower, "later")

    follower.sql("CREATE TABLE later (id INT PRIMARY KEY)", "INSERT INTO later VALUES (1)")

    until(lambda: not is_unmatched(follower, "later"))
    assert is_unmatched(follower, "never")
    follower.task.stop()
