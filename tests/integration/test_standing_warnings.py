"""Warnings of a running task, on real servers: they stand while they are true, and are withdrawn when their cause is gone."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from dblog.abort import Abort
from dblog.config.connector import parse_connector
from dblog.config.plugins import find_connector
from dblog.dialects.registry import kind_of
from dblog.errors import ConfigError
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


def check(follower: Follower | PostgresFollower) -> None:
    """Check the connector as a worker does that is asked to make it."""
    plugin = find_connector(follower.config["connector.class"])
    assert plugin is not None
    kind_of(plugin.flavor).check(parse_connector(plugin.options, follower.config), limit_s=60.0, abort=Abort())


def test_tables_whose_dots_make_one_topic_are_refused_together_and_named_when_the_second_one_comes_on_postgres(
    postgres: Postgres, postgres_here: str
) -> None:
    follower = PostgresFollower(postgres, postgres_here, **{"publication.autocreate.mode": "all_tables", "schema.include.list": "a,a[.]b"})
    follower.sql('CREATE SCHEMA "a.b"', "CREATE SCHEMA a", 'CREATE TABLE "a.b".c (id INT PRIMARY KEY)')
    first = 'INSERT INTO "a.b".c VALUES ({})'
    second = ('CREATE TABLE a."b.c" (id INT PRIMARY KEY)', 'INSERT INTO a."b.c" VALUES (1)', 'DROP TABLE a."b.c"')
    they_are_refused_together_and_named(follower, ('"a.b"."c"', '"a"."b.c"', "topic.delimiter=-", "schema.exclude.list"), first, second)


def test_tables_whose_dots_make_one_topic_are_refused_together_and_named_when_the_second_one_comes_on_mariadb(
    mariadb: MariaDb, mariadb_here: str
) -> None:
    one, other = mariadb_here, f"{mariadb_here}.b"
    follower = Follower(mariadb, one, **{"database.include.list": f"{one},{one}[.]b", "snapshot.mode": "no_data"})
    follower.sql(f"CREATE DATABASE `{other}`", f"CREATE TABLE `{other}`.c (id INT PRIMARY KEY)")
    first = f"INSERT INTO `{other}`.c VALUES ({{}})"
    second = ("CREATE TABLE `b.c` (id INT PRIMARY KEY)", "INSERT INTO `b.c` VALUES (1)", "DROP TABLE `b.c`")
    they_are_refused_together_and_named(
        follower, (f'"{other}"."c"', f'"{one}"."b.c"', "topic.delimiter=-", "database.exclude.list"), first, second
    )


def they_are_refused_together_and_named(
    follower: Follower | PostgresFollower, texts: tuple[str, ...], first: str, second: tuple[str, str, str]
) -> None:
    """``first`` inserts a row into the table that has the topic, ``second`` makes, fills and drops the other one."""
    make, fill, drop = second

    def is_named() -> bool:
        follower.task.metrics()
        follower.poll()
        return any(all(text in warning for text in texts) for warning in follower.warnings.texts())

    check(follower)
    follower.start()
    assert not is_named()

    follower.sql(make, fill)

    until(is_named)
    with pytest.raises(ConfigError) as refused:
        check(follower)
    assert all(text in str(refused.value) for text in texts)
    follower.sql(first.format(1))
    follower.until(lambda: len(follower.rows.get("c", {})) == 1)
    follower.restart()
    until(is_named)
    follower.sql(first.format(2))
    follower.until(lambda: len(follower.rows.get("c", {})) == 2)
    assert "b.c" not in follower.rows, "two tables' rows are never mixed: the one that came later is parked"

    follower.config["topic.delimiter"] = "-"
    check(follower)
    if isinstance(follower, Follower):
        follower.sql(drop)
        until(lambda: not is_named())
    else:
        follower.restart()
        follower.until(lambda: len(follower.rows.get("b.c", {})) == 1)
        assert not is_named()
    follower.task.stop()
