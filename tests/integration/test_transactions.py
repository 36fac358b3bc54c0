"""provide.transaction.metadata on real servers: every END has counted what came, numbers have no holes, and runs that end inside a transaction change neither. # I1"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from stack.database import Database
from support.follower import Follower, Row
from support.servers import connected, execute, new_database

pytestmark = pytest.mark.either_server

TABLES = ("orders", "items", "left_out")


@pytest.fixture
def follow(source: Database) -> Iterator[Any]:
    """Makes the one follower of a database with three tables, of which two are captured."""
    database = new_database(source, "tx")
    execute(source, *(f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(400))" for name in TABLES), database=database)
    made: list[Follower] = []

    def follower(**config: str) -> Follower:
        options = {"provide.transaction.metadata": "true", "table.exclude.list": rf"{database}\.left_out", **config}
        made.append(Follower(source, database, **options))
        return made[-1]

    yield follower
    for one in made:
        one.task.stop()


def transact(follower: Follower, *statements: str, session: str | None = None) -> None:
    """One transaction."""
    with connected(follower.source, database=follower.database) as connection, connection.cursor() as cursor:
        if session is not None:
            cursor.execute(session)
        connection.begin()
        for statement in statements:
            cursor.execute(statement)
        connection.commit()


def inserts(statements: int, rows: int, *, start: int) -> list[str]:
    """Statements of so many rows, the tables in turn."""
    return [
        f"INSERT INTO {TABLES[n % 3]} VALUES " + ",".join(f"({start + n * rows + i}, '{'x' * 200}')" for i in range(rows))
        for n in range(statements)
    ]


def ordered(follower: Follower) -> list[tuple[str, str, Row]]:
    """(table, op, transaction block) of every logged change, in the order in which they came."""
    return [(table, r["op"], r["transaction"]) for table, r in follower.values if r is not None and r["op"] != "r"]


def check(follower: Follower) -> dict[str, Counter[str]]:
    """BEGIN and END of every transaction once and in turn, and each END right; gives the changes of each by table."""
    borders, changes = follower.borders, ordered(follower)
    begins, ends = borders[::2], borders[1::2]
    assert [b["status"] for b in begins] == ["BEGIN"] * len(begins)
    assert [b["status"] for b in ends] == ["END"] * len(ends)
    assert [b["id"] for b in begins] == [b["id"] for b in ends]
    assert len({b["id"] for b in begins}) == len(begins)
    assert all((b["event_count"], b["data_collections"]) == (None, None) for b in begins)
    found: dict[str, Counter[str]] = {}
    for end in ends:
        mine = [(table, block) for table, _, block in changes if block["id"] == end["id"]]
        counts = found[end["id"]] = Counter(table for table, _ in mine)
        assert end["event_count"] == len(mine)
        reported = {counted["data_collection"]: counted["event_count"] for counted in end["data_collections"]}
        assert reported == {f"{follower.database}.{table}": records for table, records in counts.items()}
        assert sorted(block["total_order"] for _, block in mine) == list(range(1, len(mine) + 1))
        for table, records in counts.items():
            assert [block["data_collection_order"] for of, block in mine if of == table] == list(range(1, records + 1))
    assert {block["id"] for _, _, block in changes} <= set(found)
    return found


def until_ended(follower: Follower, table: str) -> None:
    """Until the END of a transaction with this table has come."""
    name = f"{follower.database}.{table}"
    follower.until(lambda: any(c["data_collection"] == name for b in follower.borders for c in b["data_collections"] or ()))


def test_an_end_counts_the_changes_of_its_transaction_over_several_tables(follow: Any) -> None:
    follower: Follower = follow()
    follower.sql("INSERT INTO orders VALUES (1, 'dumped'), (2, 'dumped')")
    follower.start()
    follower.until_dumped()

    transact(
        follower,
        "INSERT INTO orders VALUES (10, 'a'), (11, 'b'), (12, 'c')",
        "INSERT INTO items VALUES (1, 'x')",
        "INSERT INTO left_out VALUES (1, 'not captured')",
        "UPDATE orders SET v = 'changed' WHERE id < 12",
        "UPDATE items SET id = 2",
        "DELETE FROM orders WHERE id = 12",
    )
    follower.sql("INSERT INTO left_out VALUES (2, 'alone')", "ALTER TABLE items ADD w INT", "TRUNCATE TABLE left_out")
    with connected(follower.source, database=follower.database) as connection, connection.cursor() as cursor:
        connection.begin()
        cursor.execute("INSERT INTO orders VALUES (99, 'taken back')")
        connection.rollback()
    transact(follower, "INSERT INTO items (id, w) VALUES (3, 3)", "DELETE FROM orders WHERE id = 1")
    follower.until(lambda: len(ordered(follower)) == 13)
    follower.until(lambda: follower.borders[-1]["id"] == ordered(follower)[-1][2]["id"] and follower.borders[-1]["status"] == "END")

    found = check(follower)
    assert [dict(counts) for counts in found.values() if counts] == [{"orders": 8, "items": 3}, {"items": 1, "orders": 1}]
    assert Counter() in found.values(), "a transaction of no captured table is reported too"
    assert {r["transaction"] for _, r in follower.values if r is not None and r["op"] == "r"} == {None}
    logged = next(r for _, r in follower.values if r is not None and r["op"] != "r")
    assert logged["transaction"]["id"] == logged["source"]["gtid"]
    times_ms = {b["ts_ms"] for b in follower.borders if b["id"] == logged["source"]["gtid"]}
    # MariaDB stamps the begin of a transaction as it writes it into the log, a row as its statement begins.
    assert len(times_ms) == 1
    assert min(times_ms) >= logged["source"]["ts_ms"]


def test_runs_that_end_inside_a_transaction_go_on_counting(follow: Any) -> None:
    follower: Follower = follow(**{"snapshot.mode": "no_data", "max.batch.size": "7", "max.queue.size": "14"})
    follower.start()
    compressed = "SET SESSION binlog_transaction_compression = ON" if follower.source.flavor == "mysql" else None

    transact(follower, *inserts(12, 60, start=0))
    transact(follower, *inserts(12, 60, start=10_000), session=compressed)

    inside = 0
    for sent in (40, 160, 300, 500, 640, 800, 930):
        follower.until(lambda sent=sent: len(ordered(follower)) >= sent)
        assert follower.offset is not None
        inside += "transaction_id" in follower.offset
        follower.restart()
    follower.until(lambda: len(ordered(follower)) == 960)
    follower.sql("INSERT INTO items VALUES (-1, 'the end')")
    follower.until(lambda: len(ordered(follower)) == 961)
    follower.until(lambda: follower.borders[-1]["status"] == "END" and follower.borders[-1]["event_count"] == 1)

    assert inside >= 5, "most runs must have ended inside"
    assert [dict(counts) for counts in check(follower).values()] == [{"orders": 240, "items": 240}] * 2 + [{"items": 1}]
    assert follower.offset is not None
    assert "transaction_id" not in follower.offset


def test_a_lost_log_connection_inside_a_transaction_changes_no_number(follow: Any) -> None:
    follower: Follower = follow(**{"snapshot.mode": "no_data", "max.batch.size": "10", "max.queue.size": "20"})
    follower.start()
    transact(follower, *inserts(12, 400, start=0))
    follower.until(lambda: len(ordered(follower)) > 200)

    stream = follower.task.running.stream
    stream.disconnect()
    follower.until(lambda: len(ordered(follower)) == 3200)
    until_ended(follower, "items")

    assert stream.reconnects_total >= 1
    assert [dict(counts) for counts in check(follower).values()] == [{"orders": 1600, "items": 1600}]


def test_an_xa_transaction_has_the_numbers_that_debezium_gives_it(follow: Any) -> None:
    follower: Follower = follow(**{"snapshot.mode": "no_data"})
    follower.start()
    with connected(follower.source, database=follower.database) as connection, connection.cursor() as cursor:
        cursor.execute("XA START 'tx'")
        cursor.execute("INSERT INTO orders VALUES (1, 'a'), (2, 'b')")
        cursor.execute("XA END 'tx'")
        cursor.execute("XA PREPARE 'tx'")
        cursor.execute("XA COMMIT 'tx'")
    follower.sql("INSERT INTO items VALUES (1, 'the end')")
    until_ended(follower, "items")

    blocks = [(table, block and block["total_order"]) for table, _, block in ordered(follower)]
    if follower.source.flavor == "mysql":  # no BEGIN in the log
        assert blocks == [("orders", None), ("orders", None), ("items", 1)]
        assert [b["event_count"] for b in follower.borders] == [None, 1]
    else:
        assert blocks == [("orders", 1), ("orders", 2), ("items", 1)]
        assert [dict(counts) for counts in check(follower).values()] == [{"orders": 2}, {"items": 1}]  # XA COMMIT stands alone


def test_rows_that_are_read_again_are_numbered_without_holes(follow: Any) -> None:
    follower: Follower = follow(**{"dblog.row.image.missing": "reread", "value.converter.replace.null.with.default": "false"})
    follower.sql("INSERT INTO orders VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    follower.start()
    follower.until_dumped()

    transact(
        follower,
        "INSERT INTO items VALUES (1, 'x')",
        "UPDATE orders SET v = 'changed' WHERE id > 2",
        "UPDATE orders SET id = id + 10 WHERE id < 3",
        "DELETE FROM orders WHERE id = 3",
        "INSERT INTO items VALUES (2, 'y')",
        session="SET SESSION binlog_row_image = MINIMAL",
    )
    until_ended(follower, "items")

    # Row 3 is gone by the time its update is read again; both others moved, a delete and a create each.
    assert [dict(counts) for counts in check(follower).values() if counts] == [{"items": 2, "orders": 6}]
    follower.until_equal("orders")
