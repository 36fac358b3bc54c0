"""``snapshot.select.statement.overrides``: the first dump brings the rows that a SELECT chooses, and the log all that changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from dblog.abort import Abort
from dblog.config.connector import parse_connector
from dblog.config.select_overrides import LIST, PREFIX
from dblog.dialects.mysql.task.kind import BinlogKind
from dblog.errors import ConfigError
from stack.database import Database
from support.follower import Follower
from support.servers import execute, new_database
from support.under_writes import under_writes


@pytest.fixture
def shop(source: Database) -> Iterator[Callable[..., Follower]]:
    """Makes followers that have not started."""
    database = new_database(source, "chosen")
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)"
    execute(
        source,
        "CREATE TABLE orders (id INT PRIMARY KEY, status VARCHAR(10) NOT NULL, v INT)",
        "CREATE TABLE items (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE few (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE notes (t VARCHAR(10), v INT)",
        f"INSERT INTO orders {numbers} SELECT i, IF(i % 4 = 0, 'open', 'done'), i FROM n",
        f"INSERT INTO items {numbers} SELECT i, i FROM n",
        "INSERT INTO few VALUES (1, 1), (2, 2), (3, 3)",
        "INSERT INTO notes VALUES ('a', 1), ('b', 2)",
        database=database,
    )
    made: list[Follower] = []

    def make(**statements: str) -> Follower:
        given = {f"{PREFIX}{database}.{table}": statement.format(d=database) for table, statement in statements.items()}
        listed = {LIST: ",".join(f"{database}.{table}" for table in statements)}
        follower = Follower(source, database, **{"dblog.chunk.rows": "20", "dblog.dump.threads": "3", **listed, **given})
        made.append(follower)
        return follower

    yield make
    for follower in made:
        follower.task.stop()


def ids(follower: Follower, table: str) -> set[int]:
    return {row["id"] for row in follower.rows.get(table, {}).values()}


def test_the_first_dump_brings_the_chosen_rows_and_the_log_every_change(shop: Any) -> None:
    markers: list[Any] = []
    follower = shop(
        orders="SELECT * FROM {d}.orders WHERE status = 'open' ORDER BY v DESC",
        few="SELECT * FROM {d}.few WHERE id >= 2",
        notes="SELECT * FROM {d}.notes WHERE v = 1",
    )
    follower.marked = lambda value: markers.append(json.loads(value))

    def statements(n: int) -> tuple[str, ...]:
        return (
            f"UPDATE orders SET v = v + 1000 WHERE id = {n * 4 % 400}",
            f"UPDATE items SET v = v + 1000 WHERE id % 40 = {n % 40}",
            f"DELETE FROM items WHERE id = {n * 7 % 400}",
            f"INSERT INTO items VALUES ({1000 + n}, {n})",
        )

    follower.start()
    with under_writes(follower, statements, pause_s=0.01):
        follower.until(lambda: len(ids(follower, "orders")) >= 20)
        follower.restart()
        follower.until_dumped()

    follower.until_part("orders")
    assert ids(follower, "orders") == set(range(4, 401, 4))
    assert ids(follower, "few") == {2, 3}
    assert [row["t"] for row in follower.rows["notes"].values()] == ["a"]
    follower.until_equal("items")
    scopes = {marker["table"].rpartition(".")[2]: marker["scope"] for marker in markers}
    assert scopes == {"orders": "predicate", "few": "predicate", "notes": "predicate", "items": "table"}
    follower.sql("UPDATE orders SET v = -1 WHERE id = 1", "UPDATE few SET v = -1 WHERE id = 1")
    follower.until(lambda: 1 in ids(follower, "orders") and 1 in ids(follower, "few"))


@pytest.mark.either_server
def test_a_table_that_is_dumped_again_comes_whole(shop: Any) -> None:
    follower = shop(orders="SELECT * FROM {d}.orders WHERE status = 'open'")
    follower.start().until_dumped()
    assert ids(follower, "orders") == set(range(4, 401, 4))

    follower.sql("ALTER TABLE orders MODIFY v BIGINT NOT NULL DEFAULT 5")

    follower.until(lambda: len(ids(follower, "orders")) == 400)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("SELECT * FROM {d}.orders WHERE nothing = 1", "the server does not take the condition of the SELECT for .*orders"),
        ("SELECT * FROM {d}.orders WHERE v = ", "the server does not take the condition of the SELECT for .*orders"),
        ("SELECT id FROM {d}.orders", "it must select all columns by"),
    ],
)
def test_a_statement_that_cannot_be_used_is_refused_when_the_configuration_is_checked(shop: Any, statement: str, reason: str) -> None:
    follower = shop()
    follower.config |= {LIST: f"{follower.database}.orders", f"{PREFIX}{follower.database}.orders": statement.format(d=follower.database)}
    settings = parse_connector(follower.options, follower.config)

    with pytest.raises(ConfigError, match=reason) as raised:
        BinlogKind(follower.dialect).check(settings, limit_s=30, abort=Abort())

    assert list(raised.value.errors) == [f"{PREFIX}{follower.database}.orders"]


@pytest.mark.either_server
def test_a_condition_whose_column_goes_in_mid_dump_ends_the_table_and_others_go_on(shop: Any) -> None:
    follower = shop()
    follower.config["snapshot.mode"] = "no_data"
    follower.task = follower.new_task()
    follower.start()
    pattern = rf"{follower.database}\.(orders|items)"
    request = follower.ask(pattern, predicate={".*orders": "status = 'open'"}, chunk_rows=10, delay_ms=200)
    follower.until(lambda: follower.rows.get("orders"))

    follower.sql("ALTER TABLE orders DROP COLUMN status")
    status = follower.until_state(request, "FAILED")

    assert "the server does not take the predicate of" in status["reason"]
    assert {one["table"].rpartition(".")[2]: one["state"] for one in status["tables"]} == {"orders": "FAILED", "items": "DONE"}
