"""Rows that an UPDATE moves past the chunks of a dump: their log records are all that anybody gets of them, also of large values. # I3"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from stack import Postgres
from support.in_windows import SourceWithWindows
from support.postgres_follower import PostgresFollower, drop_slots

PLACEHOLDER = "__debezium_unavailable_value"
LARGE = "(SELECT string_agg(md5(n::text || id::text), '') FROM generate_series(1, 400) n)"
ROWS = 60


@pytest.fixture
def database(postgres: Postgres, postgres_database: str) -> Iterator[str]:
    yield postgres_database
    drop_slots(postgres, postgres_database)


class Follower(PostgresFollower):
    """A consumer that takes records with their schema beside them, too."""

    def _take(self, table: str, key: bytes | None, value: bytes | None) -> None:
        record = None if value is None else json.loads(value)
        super()._take(table, key, value if record is None or "payload" not in record else json.dumps(record["payload"]).encode())


def follow(postgres: Postgres, database: str, *, moves: str, identity: str = "DEFAULT", **config: str) -> PostgresFollower:
    """A connector that has dumped nothing, on a table with large values; rows are moved once, after the second chunk was read."""
    follower = Follower(postgres, database, **{"snapshot.mode": "no_data", "dblog.chunk.rows": "20", **config})
    follower.sql(
        "CREATE TABLE marks (id INT PRIMARY KEY)",
        "CREATE TABLE t (id INT PRIMARY KEY, at INT NOT NULL, n INT NOT NULL, body TEXT)",
        "ALTER TABLE t ALTER body SET STORAGE EXTERNAL",
        f"INSERT INTO t SELECT id, id, 0, {LARGE} FROM generate_series(1, {ROWS}) id",
        "CREATE INDEX ON t (at, id)",
        f"ALTER TABLE t REPLICA IDENTITY {identity}",
    )
    chunks: list[tuple[Any, ...]] = []

    def after_chunk(last_key: tuple[Any, ...]) -> None:
        chunks.append(last_key)
        if len(chunks) == 2:
            follower.sql(moves)

    follower.wrapped = lambda source: SourceWithWindows(source, after_chunk)
    follower.task = follower.new_task()
    follower.start()
    follower.until_caught_up()
    return follower


MOVES = {
    "after the end": {"surrogate_key": "at", "moves": "UPDATE t SET at = 1000, n = 1 WHERE id IN (5, 48, 49, 50)"},
    "before the frontier": {"surrogate_key": "at", "moves": "UPDATE t SET at = 0, n = 1 WHERE id IN (5, 48, 49, 50)"},
    "into the predicate": {"predicate": {".*": "at < 1000"}, "moves": "UPDATE t SET at = 7, n = 1 WHERE id IN (5, 8)"},
}


@pytest.mark.parametrize("mode", ["rows", "repair"])
@pytest.mark.parametrize("how", MOVES)
def test_a_row_that_moves_past_all_chunks_comes_with_its_large_value(postgres: Postgres, database: str, how: str, mode: str) -> None:
    asked = {name: value for name, value in MOVES[how].items() if name != "moves"}
    if "predicate" in asked and mode == "repair":
        pytest.skip("a repair takes no predicate")
    follower = follow(postgres, database, moves=str(MOVES[how]["moves"]))
    if "predicate" in asked:
        follower.sql("UPDATE t SET at = 1001 WHERE id IN (5, 8)")
        follower.until_caught_up()
        follower.rows.pop("t")

    follower.until_state(follower.ask("public.t", chunk_rows=20, mode=mode, **asked), "DONE")
    follower.until_caught_up()
    follower.task.stop()

    rows = {row["id"]: row for row in follower.rows["t"].values()}
    assert sorted(rows) == list(range(1, ROWS + 1))
    assert [row["id"] for row in rows.values() if row["body"] == PLACEHOLDER] == []
    assert sum(row["n"] for row in rows.values()) in (2, 4)


def test_a_column_that_is_dumped_alone_comes_with_rows_that_move_past_all_chunks(postgres: Postgres, database: str) -> None:
    follower = follow(
        postgres,
        database,
        moves=str(MOVES["after the end"]["moves"]),
        **{"key.converter.schemas.enable": "true", "value.converter.schemas.enable": "true"},
    )
    follower.until_state(follower.ask("public.t", chunk_rows=20, mode="columns", columns=["body"], surrogate_key="at"), "DONE")
    follower.until_caught_up()
    follower.task.stop()

    shown: dict[int, set[str]] = {}
    for name, record in follower.values:
        if name == "t" and record is not None:
            shown.setdefault(record["after"]["id"], set()).add(record["after"]["body"])
    assert [key for key, bodies in shown.items() if bodies == {PLACEHOLDER}] == []
    assert sorted(shown) == list(range(1, ROWS + 1))


def test_an_update_beside_no_such_dump_leaves_large_values_out(postgres: Postgres, database: str) -> None:
    follower = follow(postgres, database, moves="UPDATE t SET n = 1 WHERE id = 5")

    follower.until_state(follower.ask("public.t", chunk_rows=20), "DONE")
    follower.until_caught_up()
    follower.task.stop()

    assert [record["after"]["body"] for name, record in follower.values if name == "t" and record and record["op"] == "u"] == [PLACEHOLDER]
