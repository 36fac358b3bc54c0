"""Tables of every kind of key, and without one, asked for while all of them are written and the task is killed: the fold of the output is the source. # I2 I3"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from stack.database import Database
from support.follower import Follower
from support.servers import execute, new_database
from support.under_writes import under_writes

ROWS = 400
"""Rows of each table; ``v`` is the number that a row was made of, and another one of the same last digits after each update."""
STEP = 100_000
KINDS = {
    "composite": (
        "a INT, b VARCHAR(20) COLLATE utf8mb4_unicode_ci, v BIGINT, PRIMARY KEY (a, b)",
        "{i} % 7, CONCAT(IF({i} % 2, 'É', 'e'), {i})",
    ),
    "hashes": ("id BINARY(16) PRIMARY KEY, v BIGINT", "UNHEX(LEFT(SHA2({i}, 256), 32))"),
    "words": (
        "id VARCHAR(40) CHARACTER SET latin1 COLLATE latin1_swedish_ci PRIMARY KEY, v BIGINT",
        "CONCAT(IF({i} % 2, 'Z', 'z'), LEFT(SHA2({i}, 256), 30))",
    ),
    "moments": ("id DATETIME(6) PRIMARY KEY, v BIGINT", "TIMESTAMP('1999-12-31 23:59:59.999999') + INTERVAL {i} * 7 MINUTE"),
    "stamps": ("id TIMESTAMP(3) PRIMARY KEY, v BIGINT", "TIMESTAMP('2026-03-28 23:00:00.123') + INTERVAL {i} MINUTE"),
    "amounts": ("id DECIMAL(30, 4) PRIMARY KEY, v BIGINT", "({i} - 200) * 123456789012345678.1234"),
    "skewed": ("id BIGINT PRIMARY KEY, v BIGINT", "IF({i} % 50, {i}, {i} * 10000000000000000)"),
    "choices": ("a ENUM('c', 'b', 'a'), id SMALLINT UNSIGNED, v BIGINT, PRIMARY KEY (a, id)", "{i} % 3 + 1, {i}"),
    "only_unique": ("id INT NOT NULL, v BIGINT, UNIQUE KEY (id)", "{i}"),
}
WITHOUT_KEY = "loose"


@pytest.fixture
def shop(source: Database) -> Iterator[Callable[..., Follower]]:
    """Makes followers of tables whose rows are older than the connector, which dumps nothing by itself."""
    database = new_database(source, "keys")
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})"
    statements = [f"CREATE TABLE {WITHOUT_KEY} (v BIGINT)", f"INSERT INTO {WITHOUT_KEY} {numbers} SELECT i FROM n"]
    for name, (columns, key) in KINDS.items():
        statements += [f"CREATE TABLE {name} ({columns})", f"INSERT INTO {name} {numbers} SELECT {key.format(i='i')}, i FROM n"]
    execute(source, *statements, database=database)
    made: list[Follower] = []

    def make(**config: str) -> Follower:
        follower = Follower(source, database, **{"snapshot.mode": "no_data", "dblog.chunk.rows": "50", **config})
        made.append(follower)
        return follower.start()

    yield make
    for follower in made:
        follower.task.stop()


def statements(n: int) -> tuple[str, ...]:
    """Of each table a row goes, one changes, one comes; the table without a key gets some."""
    out = [f"INSERT INTO {WITHOUT_KEY} VALUES ({ROWS + n})"] if n % 20 == 0 else []
    for name, (_, key) in KINDS.items():
        out += [
            f"DELETE FROM {name} WHERE v % {STEP} = {n * 7 % ROWS}",
            f"UPDATE {name} SET v = v + {STEP} WHERE v % {STEP} = {n * 11 % ROWS}",
            f"INSERT IGNORE INTO {name} SELECT {key.format(i=f'{ROWS + n % 2000}')}, {ROWS + n % 2000}",
        ]
    return tuple(out)


def numbers(rows: Any) -> list[int]:
    return sorted(row["v"] for row in rows)


def sent(follower: Follower) -> int:
    return sum(1 for _, record in follower.values if record is not None and record["op"] == "r")


@pytest.mark.long  # three kinds of keys are tried in test_parallel_windows.py
@pytest.mark.parametrize("read_only", [False, True], ids=["written watermarks", "read only"])
def test_tables_of_every_kind_of_key_are_the_sources_after_a_dump_under_writes_and_kills(shop: Any, *, read_only: bool) -> None:
    follower = shop(**({"read.only": "true"} if read_only else {}))
    with under_writes(follower, statements, pause_s=0.01):
        request = follower.ask(rf"{follower.database}\..*", parallelism=3)
        for rows in (500, 2000):
            follower.until(lambda rows=rows: sent(follower) >= rows)
            follower.restart()
        done = follower.until_state(request, "DONE")

    assert (done["tables_total"], done["tables_done"], done["tables_failed"]) == (len(KINDS) + 1, len(KINDS) + 1, 0)
    for name in KINDS:
        follower.until(lambda name=name: numbers(follower.rows[name].values()) == numbers(follower.selected(name)))
        assert follower.ops(name).count("r") >= ROWS / 4, name
    follower.until(
        lambda: {row["v"] for row in follower.rows[WITHOUT_KEY].values()} == {row["v"] for row in follower.selected(WITHOUT_KEY)}
    )
    assert follower.ops(WITHOUT_KEY).count("r") >= ROWS
