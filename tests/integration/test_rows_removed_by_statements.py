"""Statements that take rows away without a row in the log, on MySQL and MariaDB: the status names the tables until a repair dump has read them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from stack.database import Database
from structlog.testing import capture_logs
from support.follower import Follower
from support.servers import execute, new_database

ROWS = "INSERT INTO {} VALUES (1, 1), (2, 2), (11, 11)"
PARTITIONED = "PARTITION BY RANGE (id) (PARTITION low VALUES LESS THAN (10), PARTITION high VALUES LESS THAN (20))"
LOGGED = "rows that a statement removed stay in the topic and in the lake"


@pytest.fixture
def shop(source: Database) -> Iterator[Callable[..., Follower]]:
    """Makes followers of tables that have been dumped: plain ones, and one of two partitions."""
    database = new_database(source, "removed")
    made: list[Follower] = []

    def make(**config: str) -> Follower:
        for name in ("orders", "archive"):
            execute(source, f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)", ROWS.format(name), database=database)
        execute(source, f"CREATE TABLE parts (id INT PRIMARY KEY, v INT) {PARTITIONED}", ROWS.format("parts"), database=database)
        execute(source, "CREATE TABLE other (id INT PRIMARY KEY, v INT)", database=database)
        follower = Follower(source, database, **config).start()
        made.append(follower)
        follower.until_dumped()
        return follower

    yield make
    for follower in made:
        follower.task.stop()


def named(follower: Follower) -> str:
    """What stands of removed rows in the status."""
    return next((text for text in follower.warnings.texts() if text.startswith("rows that statements removed")), "")


def passed(follower: Follower) -> None:
    """Until the log has been read up to here: a row of a table that no statement of these tests is about."""
    follower.sql("INSERT INTO archive SELECT MAX(id) + 1, 0 FROM archive")
    follower.until_has("archive")


def repaired(follower: Follower, table: str) -> None:
    request = follower.ask(rf"{follower.database}\.{table}", mode="repair")
    follower.until_state(request, "DONE")


@pytest.mark.parametrize(
    ("table", "statements", "what"),
    [
        pytest.param("orders", ["TRUNCATE orders"], "TRUNCATE", id="truncate"),
        pytest.param("parts", ["ALTER TABLE parts TRUNCATE PARTITION low"], "TRUNCATE PARTITION", id="truncate partition"),
        pytest.param("parts", ["ALTER TABLE parts DROP PARTITION low"], "DROP PARTITION", id="drop partition"),
        pytest.param("parts", ["ALTER TABLE parts EXCHANGE PARTITION low WITH TABLE other"], "EXCHANGE PARTITION", id="exchange"),
        pytest.param(
            "orders",
            ["DROP TABLE orders", "CREATE TABLE orders (id INT PRIMARY KEY, v INT)", "INSERT INTO orders VALUES (3, 3)"],
            "it was gone, and is there again",
            id="drop and create",
        ),
        pytest.param(
            "orders",
            ["CREATE TABLE fresh (id INT PRIMARY KEY, v INT)", "RENAME TABLE orders TO former, fresh TO orders"],
            "another table has its name",
            id="renamed away and in",
        ),
    ],
)
def test_a_table_that_lost_rows_without_a_row_in_the_log_is_named_until_a_repair_dump(
    shop: Any, table: str, statements: list[str], what: str
) -> None:
    follower = shop()
    assert named(follower) == ""

    with capture_logs() as lines:
        follower.sql(*statements)
        follower.until(lambda: named(follower))
        follower.sql(f"TRUNCATE {table}")
        passed(follower)

    said = [line for line in lines if line["event"] == LOGGED and line["table"] == f"{follower.database}.{table}"]
    request = f"dblog dumps start {follower.name} {follower.database}.{table} --mode repair"
    assert [(line["removed_by"], line["remedy"]) for line in said] == [(what, request)], "once"
    assert f"{follower.database}.{table} (TRUNCATE)" in named(follower)
    also = f" {follower.database}.other" if what == "EXCHANGE PARTITION" else ""
    assert f"dblog dumps start {follower.name} {follower.database}.{table}{also} --mode repair" in named(follower)

    repaired(follower, table)
    assert f".{table} (" not in named(follower)
    assert what == "EXCHANGE PARTITION" or named(follower) == ""


def test_or_replace_is_named_on_mariadb(shop: Any, source: Database) -> None:
    if source.flavor != "mariadb":
        pytest.skip("MySQL has no CREATE OR REPLACE TABLE")
    follower = shop()

    follower.sql("CREATE OR REPLACE TABLE orders (id INT PRIMARY KEY, v INT)")

    follower.until(lambda: f"{follower.database}.orders (another table has its name)" in named(follower))


def test_a_table_that_is_only_dropped_or_made_is_not_named_and_one_that_goes_is_named_no_longer(shop: Any) -> None:
    follower = shop()

    follower.sql("DROP TABLE other", "CREATE TABLE later (id INT PRIMARY KEY, v INT)", "RENAME TABLE later TO latest")
    passed(follower)
    assert named(follower) == ""

    follower.sql("TRUNCATE orders", "TRUNCATE parts")
    follower.until(lambda: ".orders" in named(follower) and ".parts" in named(follower))
    follower.sql("DROP TABLE orders")
    follower.until(lambda: ".orders" not in named(follower))
    assert ".parts (TRUNCATE)" in named(follower)


def test_a_table_that_is_dropped_before_a_restart_and_made_again_after_it_is_named(shop: Any) -> None:
    follower = shop()
    follower.sql("DROP TABLE orders", "DROP TABLE other")
    for _ in range(2):
        passed(follower)
    follower.restart()
    passed(follower)
    assert named(follower) == ""

    follower.sql("CREATE TABLE orders (id INT PRIMARY KEY, v INT)", "INSERT INTO orders VALUES (3, 3)")

    follower.until(lambda: f"{follower.database}.orders (it was gone, and is there again)" in named(follower))
    assert ".other" not in named(follower)


def test_a_truncate_that_is_written_needs_no_warning(shop: Any) -> None:
    follower = shop(**{"skipped.operations": "none"})

    follower.sql("TRUNCATE orders")

    follower.until(lambda: "t" in follower.ops("orders"))
    passed(follower)
    assert named(follower) == ""


def test_a_dump_of_rows_leaves_the_warning(shop: Any) -> None:
    follower = shop()
    follower.sql("TRUNCATE orders", ROWS.format("orders"))
    follower.until(lambda: named(follower))

    follower.until_state(follower.ask(rf"{follower.database}\.orders"), "DONE")

    follower.restart()
    assert ".orders (TRUNCATE)" in named(follower), "a restart does not forget it"
    repaired(follower, "orders")
    assert named(follower) == ""
    passed(follower)
    follower.restart()
    assert named(follower) == ""


@pytest.mark.parametrize(
    ("table", "statements"),
    [
        pytest.param("parts", ["ALTER TABLE parts DROP PARTITION low"], id="drop partition"),
        pytest.param("parts", ["ALTER TABLE parts EXCHANGE PARTITION low WITH TABLE other"], id="exchange"),
        pytest.param("orders", ["DROP TABLE orders", "CREATE TABLE orders (id INT PRIMARY KEY, v INT)"], id="drop and create"),
        pytest.param(
            "orders",
            ["CREATE TABLE fresh (id INT PRIMARY KEY, v INT)", "RENAME TABLE orders TO former, fresh TO orders"],
            id="renamed away and in",
        ),
    ],
)
def test_where_truncates_are_written_the_table_is_repaired_and_not_named(shop: Any, table: str, statements: list[str]) -> None:
    follower, markers = shop(**{"skipped.operations": "none"}), []
    follower.marked = lambda value: markers.append(json.loads(value))

    follower.sql(*statements)

    follower.until(lambda: [m for m in markers if m["table"].endswith(f".{table}") and m["final"]])
    assert {(m["mode"], m["scope"]) for m in markers if m["table"].endswith(f".{table}")} == {("repair", "table")}
    assert named(follower) == ""
    markers.clear()
    follower.sql(f"ALTER TABLE {table} ADD d INT NOT NULL DEFAULT 7")
    follower.until(lambda: [m for m in markers if m["table"].endswith(f".{table}") and m["final"]])
    assert {m["mode"] for m in markers if m["table"].endswith(f".{table}")} == {"rows"}, "no row has gone"


def test_a_table_that_no_dump_may_bring_again_is_named_though_truncates_are_written(shop: Any) -> None:
    follower = shop(**{"skipped.operations": "none", "dblog.ddl.redump": "never"})

    follower.sql("ALTER TABLE parts DROP PARTITION low")

    follower.until(lambda: ".parts (DROP PARTITION)" in named(follower))
