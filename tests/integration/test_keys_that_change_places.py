"""Message keys that no unique index enforces, and that rows exchange inside a statement or a transaction. # I3"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from stack.database import Database
from support.follower import Follower
from support.servers import execute, new_database

pytestmark = pytest.mark.either_server

ROWS = 6
FILLED = "INSERT INTO t (id, v) VALUES " + ", ".join(f"({number}, 'row {number}')" for number in range(1, ROWS + 1))
TABLES = {
    "an own primary key": "CREATE TABLE t (row_id INT PRIMARY KEY AUTO_INCREMENT, id INT NOT NULL, v VARCHAR(20), note TEXT)",
    "no index at all": "CREATE TABLE t (id INT NOT NULL, v VARCHAR(20), note TEXT)",
}
STATEMENTS = {
    "all shift up": ("UPDATE t SET id = id + 1",),
    "all shift down": ("UPDATE t SET id = id - 1",),
    "two change places": ("UPDATE t SET id = 3 - id WHERE id IN (1, 2)",),
    "all turn round": ("UPDATE t SET id = 7 - id",),
    "a chain of one row": ("UPDATE t SET id = 11 WHERE id = 1", "UPDATE t SET id = 12 WHERE id = 11"),
    "onto a key whose row leaves": ("UPDATE t SET id = 2, v = 'm' WHERE id = 1", "UPDATE t SET id = 9 WHERE id = 2 AND v <> 'm'"),
    "a new row before the old one goes": (
        "UPDATE t SET v = 'old' WHERE id = 2",
        "INSERT INTO t (id, v) VALUES (2, 'new')",
        "DELETE FROM t WHERE id = 2 AND v = 'old'",
    ),
    "there and back": ("UPDATE t SET id = id + 1", "UPDATE t SET id = id - 1", "UPDATE t SET id = 7 - id"),
}


@pytest.fixture(params=TABLES)
def follower(source: Database, request: pytest.FixtureRequest) -> Iterator[Follower]:
    """A connector that has dumped the rows 1 to 6; the key `id` is not the table's."""
    database = new_database(source, "places")
    execute(source, TABLES[request.param], FILLED, "CREATE TABLE marks (id INT PRIMARY KEY)", database=database)
    made = Follower(source, database, **{"message.key.columns": r"(.*)\.t:id", "max.batch.size": "1", "max.queue.size": "2"}).start()
    made.until_dumped()
    assert made.warnings.texts() == (), "what is left out needs no warning"
    yield made
    made.task.stop()


NUMBERS = count(1)


def catch_up(follower: Follower) -> None:
    """Until all is sent that is committed by now."""
    number = next(NUMBERS)
    follower.sql(f"INSERT INTO marks VALUES ({number})")
    follower.until(lambda: f'{{"id":{number}}}' in {key.replace(" ", "") for key in follower.rows.get("marks", {})})


def test_rows_that_exchange_their_message_keys_are_all_there(follower: Follower) -> None:
    for name, statements in STATEMENTS.items():
        follower.sql("DELETE FROM t", FILLED)
        follower.sql("BEGIN", *statements, "COMMIT")
        catch_up(follower)
        follower.poll()
        assert sorted(row["id"] for row in follower.rows["t"].values()) == sorted(row["id"] for row in follower.selected("t")), name
        follower.until_equal("t")


def test_a_restart_inside_the_transaction_leaves_out_the_same_deletes(follower: Follower) -> None:
    follower.sql("BEGIN", *STATEMENTS["onto a key whose row leaves"], "COMMIT")

    seen = len(follower.values)
    follower.until_polled(lambda: len(follower.values) > seen, records_max=1)
    assert follower.offset is not None
    assert follower.offset["event"] > 0, "it is inside of the transaction"
    follower.restart()
    catch_up(follower)

    assert sorted(row["id"] for row in follower.rows["t"].values()) == [2, 3, 4, 5, 6, 9]
    follower.until_equal("t")


def test_a_row_that_passes_through_the_key_of_another_one_is_named_with_the_dump_that_helps(follower: Follower) -> None:
    follower.sql("BEGIN", "UPDATE t SET id = 2, v = 'm' WHERE id = 1", "UPDATE t SET id = 9 WHERE id = 2 AND v = 'm'", "COMMIT")
    catch_up(follower)

    (text,) = follower.warnings.texts()
    assert all(part in text for part in (f"{follower.database}.t got a key of message.key.columns and left it again", "--mode repair"))
    follower.until_state(follower.ask(rf"{follower.database}\.t", mode="repair"), "DONE")
    assert follower.warnings.texts() == ()


def test_a_restart_behind_rows_that_were_read_again_goes_on(source: Database) -> None:
    database = new_database(source, "places")
    made = "CREATE TABLE t (row_id INT NOT NULL, id INT NOT NULL, v VARCHAR(20), note TEXT, PRIMARY KEY (row_id, id))"
    filled = "INSERT INTO t (row_id, id, v) VALUES " + ", ".join(f"({number}, {number}, 'row {number}')" for number in range(1, 31))
    execute(source, made, filled, "CREATE TABLE marks (id INT PRIMARY KEY)", database=database)
    small = {"max.batch.size": "1", "max.queue.size": "2"}
    follower = Follower(source, database, **{"message.key.columns": r"(.*)\.t:id", "dblog.row.image.missing": "reread"}, **small).start()
    try:
        follower.until_dumped()
        moves = [f"UPDATE t SET id = {number + 100} WHERE id = {number}" for number in range(1, 31)]
        follower.sql("SET SESSION binlog_row_image = MINIMAL", "BEGIN", *moves, "COMMIT")
        seen = len(follower.values)
        follower.until_polled(lambda: len(follower.values) > seen + 1 and (follower.offset or {}).get("event"), records_max=1)

        follower.restart()
        catch_up(follower)

        follower.until_equal("t")
    finally:
        follower.task.stop()
