"""Databases in other encodings than UTF8, and in none: their texts are read, whatever bytes they hold."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from dblog.abort import Abort
from dblog.config.connector import parse_connector
from dblog.dialects.postgres.task.kind import PostgresKind
from dblog.errors import DefiniteError
from stack import Postgres
from support.postgres import connected, new_database
from support.postgres_begun import Begun
from support.postgres_follower import PostgresFollower, drop_slots


@pytest.fixture(params=["SQL_ASCII"])
def database(postgres: Postgres, request: pytest.FixtureRequest) -> Iterator[str]:
    """Of this encoding."""
    encoding = str(request.param)
    name = new_database(postgres, encoding.lower(), options=f"ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    yield name
    drop_slots(postgres, name)


def raw(postgres: Postgres, database: str, *statements: bytes, encoding: str = "SQL_ASCII") -> None:
    """Run statements of any bytes."""
    with connected(postgres, database=database) as connection, connection.cursor() as cursor:
        cursor.execute(f"SET client_encoding = '{encoding}'")
        for statement in statements:
            cursor.execute(statement)


def test_bytes_that_are_no_utf8_become_replacement_characters_in_dump_and_log(postgres: Postgres, database: str, begun: Begun) -> None:
    raw(
        postgres,
        database,
        b"CREATE TYPE mood AS ENUM ('ok', 'caf\xe9')",
        b"CREATE TABLE t (id INT PRIMARY KEY, v TEXT DEFAULT 'd\xe9', c VARCHAR(9), m mood, a TEXT[], j JSON)",
        b"COMMENT ON COLUMN t.v IS 'caf\xe9'",
        b"COMMENT ON TABLE t IS 'caf\xe9'",
        b"CREATE TABLE elsewhere_\xe9 (id INT PRIMARY KEY, w\xe9 TEXT)",
        b"INSERT INTO t VALUES (1, 'caf\xe9', 'gr\xc3\xbc\xc3\x9fe', 'caf\xe9', ARRAY['x\xff'], '{\"a\": \"\xe9\"}')",
    )
    follower = begun(**{"table.include.list": "public.t,public.marks"})
    raw(postgres, database, b"INSERT INTO t VALUES (2, 'caf\xe9', 'gr\xc3\xbc\xc3\x9fe', 'caf\xe9', ARRAY['x\xff'], '{\"a\": \"\xe9\"}')")
    raw(postgres, database, b"INSERT INTO elsewhere_\xe9 VALUES (1, '\xe9')")
    follower.until(lambda: '{"id":2}' in follower.keys("t"))
    follower.restart()
    raw(postgres, database, b"UPDATE t SET c = 'x\xfe' WHERE id = 2")
    follower.until(lambda: any(row["c"] == "x\N{REPLACEMENT CHARACTER}" for row in follower.rows["t"].values()))

    first, second = sorted(follower.rows["t"].values(), key=lambda row: row["id"])
    assert first == {
        "id": 1,
        "v": "caf\N{REPLACEMENT CHARACTER}",
        "c": "grüße",
        "m": "caf\N{REPLACEMENT CHARACTER}",
        "a": ["x\N{REPLACEMENT CHARACTER}"],
        "j": '{"a": "\N{REPLACEMENT CHARACTER}"}',
    }
    assert second == {**first, "id": 2, "c": "x\N{REPLACEMENT CHARACTER}"}


def test_names_in_utf8_of_a_database_without_an_encoding_are_read(postgres: Postgres, database: str, begun: Begun) -> None:
    raw(
        postgres,
        database,
        'CREATE TABLE t (id INT PRIMARY KEY, "größe" TEXT)'.encode(),
        "INSERT INTO t VALUES (1, 'groß')".encode(),
    )
    follower = begun()

    raw(postgres, database, "INSERT INTO t VALUES (2, 'größer')".encode())

    follower.until(lambda: '{"id":2}' in follower.keys("t"))
    assert sorted(str(list(row.values())[1]) for row in follower.rows["t"].values()) == ["groß", "größer"]


@pytest.mark.parametrize(
    "statement",
    [b"CREATE TABLE caf\xe9 (id INT PRIMARY KEY)", b"CREATE TABLE t (id INT PRIMARY KEY, caf\xe9 TEXT)"],
    ids=["table", "column"],
)
def test_a_captured_table_with_a_name_that_is_no_utf8_is_refused_by_name_with_the_remedy(
    postgres: Postgres, database: str, begun: Begun, statement: bytes
) -> None:
    follower = begun(**{"table.include.list": "public.marks"})
    raw(postgres, database, statement)
    config = {**follower.config, "table.include.list": r"public\..*"}

    with pytest.raises(DefiniteError, match=r"caf\\xe9.*RENAME.*table.exclude.list"):
        PostgresKind().check(parse_connector(follower.options, config), limit_s=60.0, abort=Abort())


def test_a_table_with_keys_that_are_no_utf8_is_dumped_over_kills_in_its_middle(postgres: Postgres, database: str, begun: Begun) -> None:
    raw(
        postgres,
        database,
        b"CREATE TABLE t (id TEXT, n INT, PRIMARY KEY (id, n))",
        b"INSERT INTO t SELECT n || '\xe9', n FROM generate_series(1, 3000) n",
    )
    follower = PostgresFollower(
        postgres, database, **{"incremental.snapshot.chunk.size": "50", "max.batch.size": "50", "max.queue.size": "100"}
    )
    begun.followers.append(follower)

    follower.start()
    for rows in (100, 1000):
        while len(follower.keys("t")) < rows or '"after":[{"bytes":' not in str((follower.offset or {})["dblog_dump"]):
            follower.poll(records_max=50)
        follower.restart()
    assert len(follower.keys("t")) < 3000
    follower.until_dumped()

    assert len(follower.keys("t")) == 3000
    assert follower.ops("t").count("r") < 4000


@pytest.mark.parametrize(("database", "text"), [("LATIN1", "größe"), ("WIN1252", "größe"), ("EUC_JP", "日本")], indirect=["database"])
def test_texts_of_a_database_in_another_encoding_are_converted(begun: Begun, text: str) -> None:
    follower = begun(f'CREATE TABLE t (id INT PRIMARY KEY, "{text}" TEXT)', f"INSERT INTO t VALUES (1, '{text}')")

    follower.sql(f"INSERT INTO t VALUES (2, '{text}')")

    follower.until_equal("t")


@pytest.mark.parametrize("database", ["WIN1252"], indirect=True)
@pytest.mark.parametrize("logged", [False, True], ids=["dumped", "logged"])
def test_bytes_to_which_the_encoding_gives_no_character_are_an_error_that_says_so(
    postgres: Postgres, database: str, begun: Begun, logged: bool
) -> None:
    insert = b"INSERT INTO t VALUES (2, 'x\x81')"
    raw(postgres, database, b"CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", *([] if logged else [insert]), encoding="WIN1252")

    with pytest.raises(DefiniteError, match=r"no character.*correct") as failed:  # noqa: PT012 - the log comes to it behind a dump
        follower = begun()
        raw(postgres, database, insert, encoding="WIN1252")
        follower.until(lambda: '{"id":2}' in follower.keys("t"))

    assert logged or "public.t" in str(failed.value)
