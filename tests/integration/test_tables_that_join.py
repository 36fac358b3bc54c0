"""Tables that join a running connector, change silently or swap their names: no row is lost, whatever dumps them or not. # I3 I4"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from stack.database import Database
from support.follower import Follower
from support.servers import execute, new_database


@pytest.fixture
def shop(source: Database) -> Iterator[Any]:
    """Makes followers of a database with two tables."""
    database = new_database(source, "join")
    execute(
        source,
        "CREATE TABLE customers (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(40) NOT NULL DEFAULT 'x', note TEXT)",
        "CREATE TABLE items (id INT PRIMARY KEY, sku VARCHAR(20), a INT)",
        database=database,
    )
    made: list[Follower] = []

    def make(**config: str) -> Follower:
        made.append(Follower(source, database, **config))
        return made[-1]

    yield make
    for follower in made:
        follower.task.stop()


def without_items(shop: Any, **config: str) -> Follower:
    """A follower that has run for a while without one of the tables; it is down now."""
    follower: Follower = shop(**{"table.exclude.list": r".*\.items", **config})
    follower.start()
    follower.sql("INSERT INTO customers (name) VALUES ('a')")
    follower.until_equal("customers")
    follower.task.stop()
    return follower


def test_a_table_that_joins_is_followed_though_rows_of_it_lie_before_the_place_where_it_joined(shop: Any) -> None:
    follower = without_items(shop)
    follower.sql("INSERT INTO items VALUES (1, 'before', 1)", "INSERT INTO items VALUES (2, 'before', 2)")

    del follower.config["table.exclude.list"]
    follower.restart()
    follower.until(lambda: "r" in follower.ops("items"))
    follower.sql(
        "UPDATE items SET sku = 'after' WHERE id = 1", "INSERT INTO items VALUES (3, 'after', 3)", "DELETE FROM items WHERE id = 2"
    )

    follower.until_equal("items")


@pytest.mark.parametrize("selection", [{"snapshot.mode": "no_data"}, {"snapshot.include.collection.list": r".*\.customers"}])
def test_where_nothing_dumps_a_table_its_rows_come_from_the_stored_offset_on(shop: Any, selection: dict[str, str]) -> None:
    follower = without_items(shop, **selection)
    follower.sql(
        "INSERT INTO items VALUES (1, 'before', 1)",
        "CREATE TABLE made (id INT PRIMARY KEY, old INT)",
        "INSERT INTO made VALUES (1, 10)",
        "ALTER TABLE made ADD COLUMN b INT",
        "INSERT INTO made VALUES (2, 20, 2)",
        "ALTER TABLE made DROP COLUMN old",
        "INSERT INTO made VALUES (3, 3)",
    )

    del follower.config["table.exclude.list"]
    follower.restart()
    follower.sql(
        "UPDATE items SET sku = 'after' WHERE id = 1", "ALTER TABLE items ADD COLUMN c INT", "INSERT INTO items VALUES (3, 'after', 3, 4)"
    )
    follower.sql("INSERT INTO made VALUES (4, 4)")
    follower.until_equal_by_name("items")
    follower.until_equal_by_name("made")
    follower.restart()
    follower.sql("INSERT INTO items VALUES (5, 'again', 5, 5)", "INSERT INTO made VALUES (5, 5)")

    follower.until_equal_by_name("items")
    follower.until_equal_by_name("made")
    assert (follower.ops("items"), follower.ops("made")) == (["c", "u", "c", "c"], ["c"] * 5)
    by_name = {row["id"]: row for row in follower.rows["made"].values()}
    assert by_name[1] == {"id": 1, "old": 10}
    assert by_name[2] == {"id": 2, "old": 20, "b": 2}


@pytest.mark.parametrize(
    "statements",
    [
        ("ALTER TABLE items DROP COLUMN a, ADD COLUMN a INT",),
        ("ALTER TABLE items DROP COLUMN a", "ALTER TABLE items ADD COLUMN a INT"),
        ("ALTER TABLE items CHANGE a b INT", "ALTER TABLE items ADD COLUMN a INT"),
        ("ALTER TABLE items DROP COLUMN a", "RENAME TABLE items TO other, other TO items", "ALTER TABLE items ADD COLUMN A INT"),
    ],
)
@pytest.mark.parametrize("restarts", [False, True])
def test_a_column_that_comes_back_under_its_name_has_its_table_dumped_again(shop: Any, statements: tuple[str, ...], restarts: bool) -> None:
    follower = shop()
    follower.sql("INSERT INTO items VALUES (1, 'one', 1), (2, 'two', 2)")
    follower.start()
    follower.until_dumped()

    for statement in statements:
        follower.sql(statement)
        if restarts:
            follower.sql("INSERT INTO customers (name) VALUES ('mark')")
            follower.until_equal("customers")
            follower.restart()

    follower.until_equal_by_name("items")


def test_tables_swapped_during_a_dump_are_read_to_their_ends_though_nothing_is_dumped_again(shop: Any) -> None:
    follower = shop(**{"dblog.chunk.rows": "50", "dblog.ddl.redump": "never", "max.queue.size": "60", "max.batch.size": "20"})
    names = ",".join(f"('n{i}', 'é{i}')" for i in range(3000))
    follower.sql(f"INSERT INTO customers (name, note) VALUES {names}")
    follower.start()
    follower.until(lambda: bool(follower.rows.get("customers")))

    follower.sql(
        "CREATE TABLE _customers_gho LIKE customers",
        "ALTER TABLE _customers_gho ADD COLUMN level INT",
        "INSERT INTO _customers_gho (id, name, note) SELECT id, name, note FROM customers",
        "RENAME TABLE customers TO _customers_del, _customers_gho TO customers",
        "DROP TABLE _customers_del",
    )
    follower.until_dumped()

    follower.until_equal_by_name("customers")


def test_a_table_that_joined_and_was_dumped_is_not_dumped_again_though_the_offset_names_it_no_more(shop: Any) -> None:
    follower = without_items(shop)
    follower.sql("INSERT INTO items VALUES (1, 'one', 1)")
    del follower.config["table.exclude.list"]
    follower.restart()
    follower.until_equal("items")
    follower.until_dumped()
    follower.sql("CREATE TABLE later (id INT PRIMARY KEY)", "INSERT INTO later VALUES (1)")
    follower.until_equal("later")
    assert "items" not in str((follower.offset or {})["dblog_dump"])
    sent = len(follower.values)

    for left_out in (True, False):
        follower.config["table.exclude.list"] = r".*\.later" if left_out else "nothing"
        follower.restart()
        follower.sql("INSERT INTO customers (name) VALUES ('mark')", "UPDATE later SET id = id + 1")
        follower.until_equal("customers")
    follower.until_dumped()
    follower.until(lambda: "r" in follower.ops("later"))

    assert "items" not in [table for table, _ in follower.values[sent:]]
