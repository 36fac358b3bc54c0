"""A condition that is taken stays in its brackets, whatever characters it has: the servers' own cutting of text is the oracle.

Each condition would give a row of its own making where the server cuts its quotes or comments in another way than the check does. What the check refuses is not
sent.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import psycopg2
import pymysql
from dblog.dialects.mysql.catalog.sql import SESSION_SQL_MODE
from dblog.dialects.mysql.ddl import conditions as of_binlog
from dblog.dialects.postgres.catalog import conditions as of_postgres
from stack import Postgres
from stack.database import Database
from support import postgres as of_server
from support.servers import connected, new_database

CHARACTERS = [chr(code) for code in (*range(0x100), 0x2000, 0x2028, 0x3000, 0xFEFF, 0xFF07, 0x1F600)]
LEAK = 4711
LETTERS = "abenqxuEBNXU"
COLUMNS = ", ".join(f"1 AS {letter}" for letter in "abenqxu")
OUT = f" FROM (SELECT {COLUMNS}) AS t)) UNION SELECT {LEAK} FROM t WHERE (1=1 "
"""Ends what a condition has begun, and its brackets."""


def comments(ends: str) -> Iterator[str]:
    """Begin a comment, for one of the two readers alone, that hides a quote."""
    marks = [f"--{one}" for one in CHARACTERS] + ["#", "/*", "//", "-- "]
    marks += [f"{one}{two}" for one, two in itertools.product("-#/*!\\;%&|\x00\x1a\x7f\x85", repeat=2)]
    for mark in marks:
        yield f"1=0 {mark} '{ends}) UNION SELECT {LEAK} FROM t WHERE (1=1 {mark} '"
        yield f"1=0 {mark} ') UNION SELECT {LEAK} FROM t WHERE (1=1 {mark} '"


def quotes(heads: list[str], marks: str, characters: list[str]) -> Iterator[str]:
    """Have a backslash before a quote, which hides it for one of the two readers alone, and quotes that are doubled for one alone."""
    for head, character, quote in itertools.product(heads, characters, marks):
        before = f"1=(SELECT {head}{character}"
        yield f"{before}{quote}\\{quote}{OUT}-- {quote})"
        yield f"{before}{quote}\\{quote} {quote}{OUT}-- {quote})"
        yield f"{before}{quote}\\{quote}{quote}{OUT}-- {quote})"
        yield f"{before}{quote}{quote}{OUT}-- {quote}{quote})"


def leaks(taken: Iterator[str], fault_of: Callable[[str], str | None], run: Callable[[str], list[tuple[object, ...]]]) -> list[str]:
    sent = [where for where in dict.fromkeys(taken) if fault_of(where) is None]
    assert len(sent) > 100
    return [where for where in sent if (LEAK,) in run(f"SELECT 1 FROM t WHERE (\n{where}\n)")]


# number 33 of the worker's safety
def test_no_comment_and_no_quote_leads_out_of_a_condition_of_mysql_and_mariadb(source: Database) -> None:
    database = new_database(source, "brackets")
    heads = ["", "t.", "t .", "1", "1 ", "1.", "1e", "@", "@a", "@@", "@@a.", "_utf8mb4", "\\", "\\N", "`a`", "`a`.", "t.a ", "0", "0x", "$", "a$"]  # fmt: skip
    conditions = itertools.chain(
        comments("\n"),
        quotes(heads, "'\"`", ["", " ", *LETTERS, "\\", "$"]),
        quotes(["", "t."], "'", CHARACTERS),
        quotes(["", "t.", "@"], "'\"`", [f"{one}{two}" for one, two in itertools.product("\x00\x1c\x7f\x85\xa0\u3000.@_", LETTERS)]),
    )
    with connected(source, database=database) as connection, connection.cursor() as cursor:
        cursor.execute(f"SET SESSION sql_mode = '{SESSION_SQL_MODE}'")
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        cursor.execute("INSERT INTO t VALUES (1)")

        def run(statement: str) -> list[tuple[object, ...]]:
            try:
                cursor.execute(statement)
            except pymysql.err.Error:
                return []
            return [tuple(row) for row in cursor.fetchall()]

        assert run(f"SELECT 1 FROM t WHERE (1=(SELECT ''{OUT})") == [(LEAK,)]
        assert leaks(conditions, of_binlog.fault_of, run) == []


def test_no_comment_and_no_quote_leads_out_of_a_condition_of_postgresql(postgres: Postgres, postgres_database: str) -> None:
    heads = [
        "",
        "''LIKE",
        "true AS a",
        "true AS a$b",
        "text",
        "pg_catalog.",
        "pg_catalog.text",
        "1",
        "1 ",
        "1.",
        "1e",
        "0x",
        "$1",
        '"a"',
        "'a'",
        "t.",
    ]
    pairs = [f"{one}{two}" for one, two in itertools.product("$_aeE1&\x7f\x80\xe9.", "eEuUbBxXnN&$")]
    conditions = itertools.chain(
        comments("\n"),
        quotes(heads, "'\"", ["", " ", *LETTERS, "U&", "u&", "$"]),
        quotes(["", "''LIKE", "true AS a"], "'", [*CHARACTERS, *pairs]),
        dollars(),
    )
    with of_server.connected(postgres, database=postgres_database) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)")

        def run(statement: str) -> list[tuple[object, ...]]:
            try:
                cursor.execute(statement)
            except (psycopg2.Error, ValueError):
                return []
            return list(cursor.fetchall()) if cursor.description else []

        assert (LEAK,) in run(f"SELECT 1 FROM t WHERE (1=(SELECT 1{OUT})")
        assert leaks(conditions, of_postgres.fault_of, run) == []


def dollars() -> Iterator[str]:
    """Begin or end a text between dollars, for one of the two readers alone."""
    heads = ["true AS a", "true AS é", 'true AS "a"', "1", "1 ", "''", "1."]
    tags = ["", "b", "1", "é", "_", "b1", "B", "a b", *"'\""]
    for head, one, two in itertools.product(heads, tags, tags):
        yield f"1=1 AND (SELECT {head}${one}${OUT}-- ${two}$)"
        yield f"(SELECT {head}${one}$)) UNION SELECT {LEAK} FROM t WHERE ((SELECT {head}${two}$)"
