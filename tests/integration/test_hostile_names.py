"""Databases, tables, columns and the watermark table under names that would end a statement, a quote or a format: dumped and followed like any other. # I3"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterator

import pymysql
import pytest
from dblog.dialects.mysql.catalog.sql import quote
from stack.database import Database
from support.follower import Follower
from support.servers import execute

pytestmark = pytest.mark.either_server

TABLES = [
    "a;drop",
    "a`b",
    "``",
    "%s",
    "%(a)s",
    "wa%ter",
    "?",
    "it's",
    '"',
    "a b",
    "back\\slash",
    "line\nbreak",
    "--",
    "/*!50000 x",
    "dot.ted",
    "#",
    "\u2603",
]
MAYBE = "\U0001f600"
"""MySQL and MariaDB keep names in three bytes a character; a server that takes it must be followed, too."""


@pytest.fixture
def database(source: Database) -> Iterator[str]:
    name = f"x;drop`%s ? '\" \\ {uuid.uuid4().hex[:8]} \u2603"
    execute(source, f"CREATE DATABASE {quote(name)}")
    yield name
    execute(source, f"DROP DATABASE {quote(name)}")


@pytest.fixture
def tables(source: Database, database: str) -> list[str]:
    made = []
    for name in [*TABLES, MAYBE]:
        with contextlib.suppress(pymysql.err.MySQLError) if name is MAYBE else contextlib.nullcontext():
            column = quote(f"c {name}")
            statement = f"CREATE TABLE {quote(name)} (id INT, {column} VARCHAR(40), PRIMARY KEY (id, {column}))"
            execute(source, statement, f"INSERT INTO {quote(name)} VALUES (1, 'one'), (2, '?'), (3, '%s')", database=database)
            made.append(name)
    return made


@pytest.fixture
def follower(source: Database, database: str) -> Iterator[Follower]:
    made = Follower(
        source,
        database,
        **{
            "database.include.list": re.escape(database),
            "dblog.watermark.table": "dblog.wa?t%er;\"'",
            "dblog.chunk.rows": "2",
            # Several of the names become the same in a topic.
            "dblog.topics.shared": "true",
        },
    )
    yield made
    made.task.stop()


# number 31 of the worker's safety
def test_names_that_would_end_a_statement_are_dumped_and_followed(follower: Follower, tables: list[str]) -> None:
    follower.start()
    follower.until_dumped()
    for table in tables:
        follower.until_equal(table)
        assert follower.ops(table) == ["r"] * 3

    for table in tables:
        name, column = quote(table), quote(f"c {table}")
        follower.sql(
            f"INSERT INTO {name} VALUES (4, 'four')",
            f"UPDATE {name} SET {column} = 'new' WHERE id = 1",
            f"DELETE FROM {name} WHERE id = 2",
            f"ALTER TABLE {name} ADD COLUMN {quote(table[::-1] + 'x')} INT DEFAULT 7",
            f"INSERT INTO {name} VALUES (5, 'five', 5)",
        )

    for table in tables:
        follower.until_equal_by_name(table)


def test_a_rename_to_such_a_name_is_followed_over_a_restart(follower: Follower, tables: list[str]) -> None:
    follower.start()
    follower.until_dumped()
    new = {table: f"{table}\u2603`2" for table in tables}
    follower.sql("RENAME TABLE " + ", ".join(f"{quote(old)} TO {quote(name)}" for old, name in new.items()))
    follower.restart()

    for table in new.values():
        follower.sql(f"INSERT INTO {quote(table)} VALUES (9, 'nine')")
    for table in new.values():
        follower.until(lambda table=table: any(9 in row.values() for row in follower.rows.get(table, {}).values()))
