"""Tables that join a running connector, change silently or swap their names: no row is lost, whatever dumps them or not. # I3 I4"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from dblog.errors import DefiniteError
from stack.database import Database
from support.follower import Follower
from support.servers import execute, new_database

pytestmark = pytest.mark.either_server


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


def test_a_table_that_joins_is_followed_though_rows_of_it_lie_before_the_position_where_it_joined(shop: Any) -> None:
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
        pytest.param(("ALTER TABLE items DROP COLUMN a", "ALTER TABLE items ADD COLUMN a INT"), marks=pytest.mark.long),
        pytest.param(("ALTER TABLE items CHANGE a b INT", "ALTER TABLE items ADD COLUMN a INT"), marks=pytest.mark.long),
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
            follower.sql("INSERT INTO customers (name) VALUES ('watermark')")
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
    follower.sql("CREATE TABLE later (id INT PRIMARY KEY)", "INSERT INTO later VALUES (1), (100)")
    follower.until_equal("later")
    assert "items" not in str((follower.offset or {})["dblog_dump"])
    sent = len(follower.values)

    for left_out in (True, False):
        follower.config["table.exclude.list"] = r".*\.later" if left_out else "nothing"
        follower.restart()
        # Row 100 stays as it is: a row that changes within its chunk's window comes from the log alone.
        follower.sql("INSERT INTO customers (name) VALUES ('watermark')", "UPDATE later SET id = id + 1 WHERE id < 100")
        follower.until_equal("customers")
    follower.until_dumped()
    follower.until(lambda: "r" in follower.ops("later"))

    assert "items" not in [table for table, _ in follower.values[sent:]]


UNTELLABLE = (
    "SET sql_log_bin = 0",
    "ALTER TABLE items ADD COLUMN b INT",
    "SET sql_log_bin = 1",
    "INSERT INTO items VALUES (2, 'passed over', 2, 2)",
    "SET sql_log_bin = 0",
    "ALTER TABLE items DROP COLUMN b",
)
"""A row of columns that neither the log's statements nor the server's catalog show: its table is parked."""


def with_a_row_of_unknown_columns(shop: Any, **config: str) -> Follower:
    """A follower that is down, with such a row ahead of it."""
    follower: Follower = shop(**config)
    follower.sql("INSERT INTO items VALUES (0, 'old', 0)")
    follower.start()
    follower.sql("INSERT INTO items VALUES (1, 'one', 1)", "INSERT INTO customers (name) VALUES ('a')")
    follower.until(lambda: bool(follower.rows.get("items")))
    follower.until_equal("customers")
    follower.task.stop()
    follower.sql(*UNTELLABLE)
    follower.sql("INSERT INTO customers (name) VALUES ('b')")
    return follower


GOES_ON = {"inconsistent.schema.handling.mode": "warn"}
NOT_DUMPED = [{"snapshot.mode": "no_data"}, {"snapshot.include.collection.list": r".*\.customers"}]


@pytest.mark.parametrize("selection", [NOT_DUMPED[0], pytest.param(NOT_DUMPED[1], marks=pytest.mark.long)])
@pytest.mark.parametrize("goes_on", [{}, GOES_ON, {"event.processing.failure.handling.mode": "warn"}])
def test_rows_that_are_passed_over_where_nothing_dumps_their_table_are_an_error_or_counted(
    shop: Any, selection: dict[str, str], goes_on: dict[str, str]
) -> None:
    follower = with_a_row_of_unknown_columns(shop, **selection, **goes_on)

    if not goes_on:
        follower.restart()
        with pytest.raises(DefiniteError, match=r"rows of .*items in the log cannot be decoded.*inconsistent.schema.handling.mode=warn"):
            follower.until_equal("customers")
        return
    follower.restart()
    follower.until(lambda: any(row["name"] == "b" for row in follower.rows["customers"].values()))
    assert follower.task.metrics()["log_events_skipped_total"] == 1
    follower.restart()
    follower.sql("INSERT INTO items VALUES (3, 'later', 3)", "INSERT INTO customers (name) VALUES ('c')")

    follower.until(lambda: any(row["name"] == "c" for row in follower.rows["customers"].values()))
    follower.until(lambda: any(row["id"] == 3 for row in follower.rows["items"].values()))
    assert [r["after"]["id"] for t, r in follower.values if t == "items" and r is not None and r["op"] == "c"] == [1, 3]
    assert ("r" in follower.ops("items"), "dblog_dump" in (follower.offset or {})) == (False, "snapshot.mode" not in selection)


def test_a_table_that_was_parked_is_not_taken_up_where_nothing_dumps_it_any_more(shop: Any) -> None:
    follower = with_a_row_of_unknown_columns(shop)
    follower.restart()
    follower.until_equal("customers")
    follower.task.stop()

    follower.config["snapshot.include.collection.list"] = r".*\.customers"
    for _ in range(2):
        follower.task = follower.new_task()
        with pytest.raises(DefiniteError, match=r"only a dump of .*items brings them"):
            follower.task.start(follower.offset)
        follower.task.stop()
    follower.config |= GOES_ON
    follower.restart()
    follower.sql("INSERT INTO items VALUES (3, 'later', 3)")
    follower.until(lambda: any(row["id"] == 3 for row in follower.rows["items"].values()))


@pytest.mark.parametrize("killed", [False, True])
def test_a_table_that_was_parked_is_dumped_at_a_restart_on_an_idle_log(shop: Any, killed: bool) -> None:
    follower = with_a_row_of_unknown_columns(shop)
    follower.restart()
    follower.until_equal("customers")
    assert follower.task.metrics()["tables_parked"] == 1
    file, pos, *_ = execute(follower.source, "SHOW MASTER STATUS" if follower.source.flavor == "mariadb" else "SHOW BINARY LOG STATUS")[0]
    follower.until(lambda: ((follower.offset or {})["file"], (follower.offset or {})["pos"]) >= (str(file), int(str(pos))))
    sent = len(follower.ops("items"))
    markers: list[dict[str, Any]] = []
    follower.marked = lambda value: markers.append(json.loads(value))

    follower.task.stop()
    if killed:  # the history has what is to be dumped, the stored offset does not yet
        follower.task = follower.new_task()
        follower.task.start(follower.offset)
    follower.restart()

    follower.until_equal("items")
    follower.until_dumped()
    assert follower.ops("items")[sent:] == ["r"] * 3
    assert {marker["mode"] for marker in markers if marker["table"].endswith(".items")} == {"repair"}, "deletes were passed over, too"
    follower.restart()
    follower.sql("INSERT INTO items VALUES (3, 'later', 3)")
    follower.until_equal("items")
    assert follower.ops("items")[sent:] == [*["r"] * 3, "c"], "dumped once"
