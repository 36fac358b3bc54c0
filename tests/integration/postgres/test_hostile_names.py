"""A database, a schema, tables, columns and a publication of PostgreSQL under names that would end a statement, a quote or a format: dumped and followed. # I3"""

from __future__ import annotations

import re

from dblog.dialects.postgres.catalog.sql import quote
from stack import Postgres
from support.postgres import execute
from support.postgres_follower import PostgresFollower, drop_slots

SCHEMA = "x;drop\"%s {0} ' \\ \u2603"
PUBLICATION = "p;drop\"%s {0} '"
TABLES = [
    'a"; DROP TABLE t; --',
    '"',
    '""',
    "%s",
    "%(a)s",
    "{0}",
    "}{",
    "$1",
    "$$",
    "it's",
    "a b",
    "back\\slash",
    "line\nbreak",
    "--",
    "/* x",
    "dot.ted",
    "tab\tstop",
    "\u2603\U0001f600",
    "select",
    "UPPER",
    "x" * 63,
]


def test_names_that_would_end_a_statement_are_dumped_and_followed(postgres: Postgres) -> None:  # number 31 of the worker's safety
    database = 'd;drop"%s {0} \u2603'
    execute(postgres, f"CREATE DATABASE {quote(database)}")
    config = {"schema.include.list": re.escape(SCHEMA), "publication.name": PUBLICATION, "dblog.chunk.rows": "2"}
    config["dblog.topics.shared"] = "true"  # three of the names become the same in a topic: see TABLES
    follower = PostgresFollower(postgres, database, SCHEMA, **config, **{"publication.autocreate.mode": "filtered"})
    tables = {name: f"{quote(SCHEMA)}.{quote(name)}" for name in TABLES}
    columns = {name: quote(f"c {name}"[:63]) for name in TABLES}
    try:
        follower.sql(f"CREATE SCHEMA {quote(SCHEMA)}")
        for name, table in tables.items():
            follower.sql(
                f"CREATE TABLE {table} (id INT, {columns[name]} VARCHAR(40), PRIMARY KEY (id, {columns[name]}))",
                f"INSERT INTO {table} VALUES (1, 'one'), (2, '?'), (3, '%s')",
            )
        follower.start()
        follower.until_dumped()

        for name, table in tables.items():
            follower.sql(
                f"INSERT INTO {table} VALUES (4, 'four')",
                f"UPDATE {table} SET {columns[name]} = 'new' WHERE id = 1",
                f"DELETE FROM {table} WHERE id = 2",
                f"ALTER TABLE {table} ADD COLUMN {quote(name[::-1])} INT DEFAULT 7",
                f"INSERT INTO {table} VALUES (5, 'five', 5)",
            )

        for name in tables:
            follower.until_equal_by_name(name)
    finally:
        follower.task.stop()
        drop_slots(postgres, database)
        execute(postgres, f"DROP DATABASE {quote(database)} WITH (FORCE)")
