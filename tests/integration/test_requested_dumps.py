"""Dumps that are asked for while the log flows: of tables, by a condition, by keys; steered, killed, beside each other. The fold of the output is the source."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from dblog.core.dumprequests import Wanted, changed, with_table_wanted, with_wanted
from dblog.dialects.mariadb import session as mariadb_session
from dblog.dialects.mysql.task import server
from dblog.dialects.mysql.wire import session
from dblog.errors import DefiniteError, TransientError
from dblog.model import TableId
from dblog.readers.dump import chunk
from stack.database import Database
from support.follower import Follower
from support.servers import connected, execute, new_database
from support.under_writes import under_writes
from worker.core.test_javaarray import ARRAY, WRITTEN


@pytest.fixture
def shop(source: Database) -> Iterator[Callable[..., Follower]]:
    """Makes followers of tables whose rows are older than the connector, which dumps nothing by itself."""
    database = new_database(source, "asked")
    execute(
        source,
        "CREATE TABLE orders (id INT PRIMARY KEY, status VARCHAR(10) NOT NULL, v INT)",
        "CREATE TABLE docs (id INT PRIMARY KEY, status VARCHAR(10) NOT NULL, doc JSON)",
        "CREATE TABLE items (sku VARCHAR(20) COLLATE utf8mb4_unicode_ci, line INT, v INT, PRIMARY KEY (sku, line))",
        "INSERT INTO orders WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) "
        "SELECT i, IF(i % 3 = 0, 'open', 'done'), i FROM n",
        """INSERT INTO docs SELECT id, status, CONCAT('{"price": ', id, '.5000000000000000001}') FROM orders""",
        "INSERT INTO items WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT CONCAT('é', i % 30), i, i FROM n",
        database=database,
    )
    made: list[Follower] = []

    def make(**config: str) -> Follower:
        follower = Follower(source, database, **{"snapshot.mode": "no_data", "dblog.chunk.rows": "100", **config})
        made.append(follower)
        return follower.start()

    yield make
    for follower in made:
        follower.task.stop()


def dumped(follower: Follower, table: str = "orders") -> list[int]:
    """The ids of rows that a dump has sent, in their order."""
    return [record["after"]["id"] for name, record in follower.values if name == table and record is not None and record["op"] == "r"]


def test_a_request_whose_table_somebody_locks_is_answered(shop: Any, source: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CHECK_LIMIT_S", 1)
    follower = shop(**{"database.query.timeout.ms": "15000"})

    with connected(source, database=follower.database) as locker, locker.cursor() as cursor:
        cursor.execute("LOCK TABLES orders WRITE")
        with pytest.raises(TransientError, match="reading .*1205"):
            follower.ask(rf"{follower.database}\.orders")

    follower.until_state(follower.ask(rf"{follower.database}\.orders"), "DONE")


def test_a_start_that_waits_for_a_locked_table_says_so_and_tries_again(
    shop: Any, source: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (session, mariadb_session):
        monkeypatch.setattr(module, "LOCK_WAIT_S", 1)
    follower = shop()
    follower.task.stop()

    with connected(source, database=follower.database) as locker, locker.cursor() as cursor:
        cursor.execute("LOCK TABLES orders WRITE")
        with pytest.raises(TransientError, match=r"failed: somebody locks the table"):
            follower.restart()

    follower.restart()


def test_tables_that_nothing_has_dumped_are_asked_for_under_writes_and_end_equal_to_the_source(shop: Any) -> None:
    follower = shop()

    def statements(n: int) -> tuple[str, ...]:
        return (
            f"UPDATE orders SET status = 'u{n % 100}' WHERE id % 97 = {n % 97}",
            f"DELETE FROM items WHERE line = {n}",
            f"UPDATE orders SET id = id + 100000 WHERE id = {n * 3}",
            f"INSERT INTO orders VALUES ({200_000 + n}, 'new', NULL)",
        )

    with under_writes(follower, statements):
        request = follower.ask(rf"{follower.database}\.(orders|items)", parallelism=2, chunk_rows=50)
        status = follower.until_state(request, "DONE")

    follower.until_equal("orders")
    follower.until_equal("items")
    assert (status["tables_total"], status["tables_done"], status["reason"]) == (2, 2, None)
    assert "dblog_dumps" in follower.offset
    assert "snapshot" not in follower.offset, "the connector's own dump is none"


@pytest.mark.either_server
def test_a_condition_brings_the_rows_that_it_holds_for_with_the_kinds_of_their_documents(shop: Any) -> None:
    follower = shop()

    request = follower.ask(rf"{follower.database}\.docs", predicate={".*docs": "status = 'open' OR id < 3"})
    follower.until_state(request, "DONE")
    whole = {row["id"]: row["doc"] for row in follower.rows["docs"].values()}
    follower.sql("UPDATE docs SET status = 'seen'")
    follower.until(lambda: len(follower.rows["docs"]) == 900 and all(row["status"] == "seen" for row in follower.rows["docs"].values()))

    assert sorted(dumped(follower, "docs")) == sorted({1, 2, *range(3, 901, 3)})
    assert whole == {row["id"]: row["doc"] for row in follower.rows["docs"].values() if row["id"] in whole}, "as the log has them"


@pytest.mark.either_server
def test_keys_bring_their_rows_and_none_for_those_that_there_are_not(shop: Any) -> None:
    follower = shop()

    request = follower.ask(rf"{follower.database}\.orders", keys=[[n] for n in (*range(5, 600, 2), 7_000_000)])
    follower.until_state(request, "DONE")
    other = follower.ask(rf"{follower.database}\.items", keys=[["é1", 1], ["é2", 3]])
    follower.until_state(other, "DONE")

    assert dumped(follower) == list(range(5, 600, 2))
    assert [row["sku"] for row in follower.rows["items"].values()] == ["é1"]


@pytest.mark.either_server
def test_a_dump_goes_on_over_kills_and_is_done_once(shop: Any) -> None:
    follower = shop()
    request = follower.ask(rf"{follower.database}\.orders", chunk_rows=40)

    for rows in (80, 300, 600):
        follower.until(lambda rows=rows: len(dumped(follower)) >= rows)
        follower.sql(f"DELETE FROM orders WHERE id = {rows}", f"UPDATE orders SET status = 'k' WHERE id = {rows + 1}")
        follower.restart()
    follower.until_state(request, "DONE")
    follower.restart()

    follower.until_equal("orders")
    assert follower.status(request.id)["state"] == "DONE"
    assert len(dumped(follower)) < 2 * 900, "a restart does not begin it again"
    follower.task.desk.forget(request.id)
    follower.until(lambda: "dblog_dumps" not in follower.offset or request.id not in follower.offset["dblog_dumps"])


@pytest.mark.either_server
@pytest.mark.parametrize("restarts", [False, True])
def test_a_dump_rests_when_it_is_paused_goes_on_where_it_was_and_becomes_faster_while_it_runs(shop: Any, *, restarts: bool) -> None:
    follower = shop()
    request = follower.ask(rf"{follower.database}\.orders", chunk_rows=10, delay_ms=60_000)
    assert not dumped(follower)

    request = follower.tell(with_wanted(request, Wanted.PAUSED))
    follower.until_state(request, "PAUSED")
    request = follower.tell(changed(request, {"delay_ms": 0, "chunk_rows": 300}))
    if restarts:
        follower.restart()
    assert follower.status(request.id)["state"] == "PAUSED"
    follower.sql("INSERT INTO orders VALUES (100000, 'log', NULL)")
    follower.until(lambda: "100000" in str(follower.rows.get("orders")))
    assert not dumped(follower)

    request = follower.tell(with_wanted(request, Wanted.RUNNING))
    follower.until_state(request, "DONE")
    follower.until_equal("orders")


@pytest.mark.either_server
def test_a_rest_between_chunks_ends_when_it_is_made_shorter(shop: Any) -> None:
    follower = shop()
    request = follower.ask(rf"{follower.database}\.orders", chunk_rows=100, delay_ms=3_600_000)
    follower.until(lambda: any(thread.name == "dump-0" for thread in threading.enumerate()))

    follower.tell(changed(request, {"delay_ms": 0}))

    follower.until_state(request, "DONE")
    follower.until_equal("orders")


@pytest.mark.either_server
def test_a_stop_ends_a_dump_or_one_table_of_it(shop: Any) -> None:
    follower = shop()
    slow = follower.ask(rf"{follower.database}\.(orders|items)", chunk_rows=10, delay_ms=2_000, order="as_given")
    stopped = follower.tell(with_table_wanted(slow, f"{follower.database}.items", Wanted.STOPPED))
    states = {one["table"].rpartition(".")[2]: one["state"] for one in follower.status(slow.id)["tables"]}
    assert states["items"] == "STOPPED"
    assert states["orders"] in ("WAITING", "RUNNING")

    follower.tell(with_wanted(stopped, Wanted.STOPPED))
    status = follower.until_state(stopped, "STOPPED")

    assert status["reason"] == "stopped by request"
    assert len(dumped(follower)) < 900


@pytest.mark.either_server
def test_two_requests_for_one_table_are_carried_out_one_after_the_other_the_urgent_one_first(shop: Any) -> None:
    follower = shop()
    first = follower.ask(rf"{follower.database}\.orders", wanted="PAUSED")
    urgent = follower.ask(rf"{follower.database}\.orders", priority=5, wanted="PAUSED", predicate={".*": "id <= 10"})
    first, urgent = (follower.tell(with_wanted(one, Wanted.RUNNING)) for one in (first, urgent))

    follower.until_state(first, "DONE")
    follower.until_state(urgent, "DONE")

    assert sorted(dumped(follower)) == sorted([*range(1, 901), *range(1, 11)])
    follower.until_equal("orders")


@pytest.mark.either_server
def test_a_table_that_changes_or_goes_in_mid_dump_ends_alone_and_with_a_reason(shop: Any) -> None:
    follower = shop()
    request = follower.ask(rf"{follower.database}\.(orders|items)", chunk_rows=50, parallelism=2, wanted="PAUSED")
    request = follower.tell(with_table_wanted(request, f"{follower.database}.items", Wanted.PAUSED))
    request = follower.tell(with_wanted(request, Wanted.RUNNING))
    follower.until(lambda: len(dumped(follower)) >= 100)
    request = follower.tell(with_wanted(request, Wanted.PAUSED))
    follower.until_state(request, "PAUSED")

    follower.sql("ALTER TABLE orders ADD COLUMN level INT NOT NULL DEFAULT 7", "DROP TABLE items")
    follower.tell(with_wanted(request, Wanted.RUNNING))
    status = follower.until_state(request, "FAILED")

    assert {row["id"] for row in follower.rows["orders"].values()} == set(range(1, 901))
    assert any("level" in row for row in follower.rows["orders"].values()), "what is read behind the statement has the new column"
    assert (status["tables_total"], status["tables_failed"]) == (2, 1)
    assert f"{follower.database}.items was dropped" in status["reason"]


def test_a_table_whose_key_sorts_in_another_order_in_mid_dump_is_read_from_its_beginning(shop: Any) -> None:
    follower = shop()
    follower.sql(
        "CREATE TABLE words (id VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci PRIMARY KEY, v INT)",
        "SET SESSION sql_log_bin = 0",
        "INSERT INTO words WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) SELECT CONCAT(IF(i % 2, 'a', 'B'), i), i FROM n",
        "SET SESSION sql_log_bin = 1",
        "INSERT INTO words VALUES ('a', 0)",
    )
    follower.until(lambda: "words" in follower.rows)  # the log has come to the table
    request = follower.ask(rf"{follower.database}\.words", chunk_rows=2)
    follower.until(lambda: len(dumped(follower, "words")) >= 8)
    request = follower.tell(with_wanted(request, Wanted.PAUSED))
    follower.until_state(request, "PAUSED")
    assert len(dumped(follower, "words")) < 100, "all that have been read begin with an a"

    follower.sql("ALTER TABLE words CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")  # those with a B stand in front now
    follower.until_state(follower.tell(with_wanted(request, Wanted.RUNNING)), "DONE")

    follower.until_equal("words")


@pytest.mark.either_server
def test_a_predicate_that_takes_too_long_ends_its_table_with_what_came_before_and_the_connector_goes_on(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk, "NOT_READ_S", 0.0)
    follower = shop(**{"database.query.timeout.ms": "400", "retriable.restart.connector.wait.ms": "50", "errors.max.retries": "0"})

    request = follower.ask(
        rf"{follower.database}\.(orders|items)", predicate={".*orders": "SLEEP(IF(id BETWEEN 61 AND 800, 1, 0)) = 0"}, chunk_rows=50
    )
    follower.until(lambda: "(database.query.timeout.ms)" in str((follower.status(request.id) or {})["reason"]))
    status = follower.until_state(request, "FAILED")

    states = {table["table"].partition(".")[2]: (table["state"], table["rows"]) for table in status["tables"]}
    assert states == {"orders": ("FAILED", 50), "items": ("DONE", 900)}
    assert "could not be read in 3 tries" in status["reason"]
    assert "took longer than 0.4 s (database.query.timeout.ms); request another dump" in status["reason"]
    follower.sql("INSERT INTO orders VALUES (5000, 'new', NULL)")
    follower.until(lambda: any(row["id"] == 5000 for row in follower.rows["orders"].values()))


@pytest.mark.parametrize(
    ("predicate", "error"),
    [
        ("CAST(v AS UNSIGNED) - 400 < 9", 1690),
        ("v = (SELECT i.v FROM {d}.items i WHERE i.v DIV 600 = orders.v DIV 600 LIMIT 2)", 1242),
    ],
)
def test_a_predicate_that_a_row_in_mid_dump_does_not_take_ends_its_table_and_neither_the_dump_nor_the_connector(
    shop: Any, predicate: str, error: int
) -> None:
    follower = shop()

    request = follower.ask(
        rf"{follower.database}\.(orders|items)", predicate={".*orders": predicate.format(d=follower.database)}, chunk_rows=50
    )
    status = follower.until_state(request, "FAILED")

    assert "cannot be read by the predicate" in status["reason"]
    assert f"failed: error {error}" in status["reason"]
    assert {one["table"].rpartition(".")[2]: one["state"] for one in status["tables"]} == {"orders": "FAILED", "items": "DONE"}
    follower.until_equal("items")
    follower.sql("INSERT INTO orders VALUES (100000, 'log', NULL)")
    follower.until(lambda: "100000" in str(follower.rows.get("orders")))


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"predicate": {".*typo": "v = 1"}}, "the predicate's pattern .*typo matches none of the dump's tables"),
    ({"tables": ["nothing.here"]}, "no captured table matches nothing.here"),
    ({"predicate": {".*": "status ="}}, "the server does not take the predicate"),
    ({"predicate": {".*": "nobody = 1"}}, "the server does not take the predicate"),
    ({"predicate": {".*": "1 = 1) OR (1 = 1"}}, "it closes a bracket that it has not opened"),
    ({"predicate": {".*": "1 = 1); DROP TABLE orders; SELECT (1"}}, "it closes a bracket that it has not opened"),
    ({"predicate": {".*": "1 = 1) UNION SELECT 1 FROM (orders"}}, "it closes a bracket"),
    ({"predicate": {".*": "1 = 1 -- x"}}, "it has a comment"),
    ({"surrogate_key": "statuss"}, "has no column statuss .* is status meant?"),
    ({"surrogate_key": "v"}, "cannot be read by its column v, which may be NULL"),
    ({"surrogate_key": "status"}, "has no index in the order of status, id, .* create an index on status"),
    ({"keys": [["a"]]}, "key 1 has a value .* that does not fit its type .*; give a whole number"),
    ({"keys": [[1], [1 << 31]]}, "key 2 has a value .*; give a whole number from -2147483648 to 2147483647"),
    ({"keys": [[1], [2, 3]]}, "each key must have a value for each column"),
    ({"keys": [[1, 2]]}, "key 1 has 2 values, and the key of .* has 1 columns: id"),
]
"""What is asked for, and a part of the answer."""


@pytest.mark.either_server
def test_what_cannot_be_dumped_is_refused_before_it_begins(shop: Any) -> None:
    follower = shop()

    for body, reason in REFUSED:
        tables = body.get("tables", [rf"{follower.database}\.orders"])
        with pytest.raises(DefiniteError, match=reason):
            follower.ask(*tables, **{name: value for name, value in body.items() if name != "tables"})

    assert follower.task.running.progress.requests.by_id == {}
    assert follower.selected("orders"), "nothing is changed there"


def with_shades(follower: Follower) -> None:
    """Tables of 900 rows that the log does not show, and of one that it does: with and without a key, several rows to each value."""
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT"
    follower.sql(
        "CREATE TABLE moved (id INT PRIMARY KEY, shade INT NOT NULL, KEY (shade))",
        "CREATE TABLE notes (word VARCHAR(10) CHARACTER SET latin1 COLLATE latin1_swedish_ci NOT NULL, id INT, KEY (word))",
        "SET SESSION sql_log_bin = 0",
        f"INSERT INTO moved {numbers} i, i % 7 FROM n",
        f"INSERT INTO notes {numbers} CONCAT(IF(i % 2, 'Ö', 'ö'), i % 15), i FROM n",
        "SET SESSION sql_log_bin = 1",
        "INSERT INTO notes VALUES ('z', 901)",
        "INSERT INTO moved VALUES (901, 7)",
    )
    follower.until(lambda: "moved" in follower.rows)  # the log has come to the tables


def test_a_surrogate_key_that_a_foreign_key_changes_without_a_row_in_the_log_is_refused(shop: Any) -> None:
    follower = shop()
    follower.sql(
        "CREATE TABLE shops (id INT PRIMARY KEY)",
        "CREATE TABLE sales (id INT PRIMARY KEY, shop INT NOT NULL, place INT NOT NULL, KEY (place), "
        "CONSTRAINT of_shop FOREIGN KEY (shop) REFERENCES shops (id) ON UPDATE CASCADE, CONSTRAINT of_place FOREIGN KEY (place) REFERENCES shops (id))",
        "INSERT INTO shops VALUES (1)",
        "INSERT INTO sales VALUES (1, 1, 1)",
    )
    follower.until_equal("sales")
    native = execute(follower.source, "SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'")
    sales = rf"{follower.database}\.sales"

    if native and native[0][1] == "OFF":  # the log has what the foreign key changes
        follower.until_state(follower.ask(sales, surrogate_key="shop"), "DONE")
    else:
        with pytest.raises(DefiniteError, match="its column SHOP, which its foreign key of_shop changes without a trace in the log"):
            follower.ask(sales, surrogate_key="SHOP")
    follower.until_state(follower.ask(sales, surrogate_key="place"), "DONE")


def test_an_index_that_gives_no_order_is_none_to_read_by_and_one_that_turns_into_such_ends_the_table(shop: Any) -> None:
    follower = shop()
    is_mariadb = "mariadb" in execute(follower.source, "SELECT VERSION()")[0][0].lower()
    hidden = "IGNORED" if is_mariadb else "INVISIBLE"
    columns = "id INT PRIMARY KEY, at INT NOT NULL, name VARCHAR(400) NOT NULL"
    tables = {
        "hidden": (f"KEY at (at) {hidden}", "", "at", "its index at is hidden from the optimizer"),
        "hashed": ("KEY at (at)", " ENGINE=MEMORY", "at", "its index at is of the kind HASH, which has no order"),
        "words": ("FULLTEXT KEY name (name)", "", "name", "its index name is of the kind FULLTEXT"),
        "cut": ("KEY name (name(3))", "", "name", "its index name has a part of a column only"),
        "down": ("KEY at (at DESC)", "", "at", "its index at has descending and ascending columns"),
        "downwards": ("KEY at (at DESC, id DESC)", "", "at", None),
    }
    if is_mariadb:
        tables["stretched"] = ("UNIQUE KEY longer (longer)", "", "longer", "its index longer is of the kind HASH")
    for name, (index, options, _, _) in tables.items():
        more = "longer VARCHAR(2000) NOT NULL, " if name == "stretched" else ""
        follower.sql(f"CREATE TABLE {name} ({columns}, {more}{index}){options}")
        values = "i, i % 3, CONCAT('n', i)" + ", i" * bool(more)
        follower.sql(
            f"INSERT INTO {name} WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30) SELECT {values} FROM n"
        )
    follower.until_equal(name)

    refused = {}
    for name, (_, _, column, _) in tables.items():
        try:
            request = follower.ask(rf"{follower.database}\.{name}", surrogate_key=column, chunk_rows=7)
        except DefiniteError as e:
            refused[name] = str(e)
        else:
            follower.until_state(request, "DONE")
            assert sorted(dumped(follower, name)) == list(range(1, 31)), name
    assert {name: fault in refused.get(name, "") for name, (_, _, _, fault) in tables.items() if fault is not None} == dict.fromkeys(
        refused, True
    )

    request = follower.ask(rf"{follower.database}\.downwards", surrogate_key="at", chunk_rows=2, delay_ms=50)
    follower.until(lambda: len(dumped(follower, "downwards")) > 32)
    follower.sql(f"ALTER TABLE downwards ALTER INDEX at {hidden}")
    status = follower.until_state(request, "FAILED")
    assert "cannot be read in the order of at, id: its index at is hidden" in status["reason"]


@pytest.mark.either_server
def test_a_surrogate_key_bounds_the_chunks_of_tables_with_a_key_and_without_one_and_no_row_is_lost(shop: Any) -> None:
    follower = shop()
    with_shades(follower)

    def statements(n: int) -> tuple[str, ...]:
        return (f"UPDATE moved SET shade = (shade + 3) % 7 WHERE id = {n * 7 + 1}", f"INSERT INTO moved VALUES ({1000 + n}, {n % 7})")

    request = follower.ask(rf"{follower.database}\.moved", surrogate_key="shade", chunk_rows=40, parallelism=2)
    follower.until(lambda: len(dumped(follower, "moved")) >= 40)
    with under_writes(follower, statements, pause_s=0.005):
        for rows in (80, 300):
            follower.until(lambda rows=rows: len(dumped(follower, "moved")) >= rows)
            follower.sql(f"UPDATE moved SET shade = (shade + 3) % 7 WHERE id % 5 = {rows % 3}", f"DELETE FROM moved WHERE id = {rows}")
            follower.restart()
        follower.until_state(request, "DONE")
    by_word = follower.until_state(follower.ask(rf"{follower.database}\.notes", surrogate_key="word", chunk_rows=10), "DONE")

    follower.until_equal("moved")
    assert [(n + 1) * 7 for n in range(40)] == dumped(follower, "moved")[:40], "rows of the least shade, in the order of their key"
    assert sorted(dumped(follower, "notes")) == list(range(1, 902)), "each once"
    assert by_word["chunks"] == 15, "of 16 words, two of them in the first one: none ends between rows of a word, whatever their case"


@pytest.mark.either_server
def test_a_table_whose_surrogate_key_is_another_column_by_the_same_name_in_mid_dump_begins_again_and_without_one_fails(shop: Any) -> None:
    follower = shop(**{"dblog.ddl.redump": "never"})
    with_shades(follower)
    request = follower.ask(rf"{follower.database}\.moved", surrogate_key="shade", chunk_rows=2, delay_ms=20)
    follower.until(lambda: len(dumped(follower, "moved")) >= 8)
    follower.until_state(request := follower.tell(with_wanted(request, Wanted.PAUSED)), "PAUSED")

    follower.sql("ALTER TABLE moved DROP KEY shade, DROP COLUMN shade, ADD COLUMN shade INT NOT NULL DEFAULT -1, ADD KEY (shade)")
    request = follower.tell(changed(request, {"chunk_rows": 100, "delay_ms": 0}))
    follower.until_state(follower.tell(with_wanted(request, Wanted.RUNNING)), "DONE")

    assert set(dumped(follower, "moved")) == set(range(1, 902)), "all of them stand in front of where it had come to"

    request = follower.ask(rf"{follower.database}\.moved", surrogate_key="shade", chunk_rows=2, delay_ms=20)
    follower.until(lambda: len(dumped(follower, "moved")) >= 915)
    follower.sql("ALTER TABLE moved MODIFY shade INT")
    status = follower.until_state(request, "FAILED")

    assert "cannot be read by its column shade, which may be NULL" in status["reason"]


def test_every_key_of_a_request_is_tried_on_the_server(shop: Any) -> None:
    follower = shop()
    follower.sql(
        "CREATE TABLE kinds (at TIMESTAMP(3) NOT NULL, day DATE NOT NULL, state ENUM('a?', 'b') NOT NULL, amount DECIMAL(30, 2) NOT NULL, v INT,"
        " PRIMARY KEY (at, day, state, amount))",
        "INSERT INTO kinds WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) "
        "SELECT TIMESTAMP('2026-01-01 08:00:00'), '2026-01-31', 'a?', 1234567890123456789012345678 - i, i FROM n",
    )
    follower.until(lambda: len(follower.rows.get("kinds", {})) == 300)
    keys = [["2026-01-01 08:00:00.000", "2026-01-31", "a?", 1234567890123456789012345678 - n] for n in range(1, 301)]

    status = follower.until_state(follower.ask(rf"{follower.database}\.kinds", keys=keys), "DONE")

    assert status["rows"] == 300
    server, table = follower.task.running.server, follower.task.running.schemas.table(TableId(follower.database, "kinds"))
    assert table is not None
    with pytest.raises(DefiniteError, match="key 251 has a value .*; give a date and time as the server prints them"):
        follower.ask(rf"{follower.database}\.kinds", keys=[*keys[:250], ["no date", *keys[0][1:]]])
    tried = [*keys[:250], ["no date", *keys[0][1:]], *keys[251:]]
    if follower.source.flavor == "mariadb":
        server.try_keys(table, tried)  # it takes it for a moment that no row has
    else:
        with pytest.raises(
            DefiniteError, match=rf"the server does not take one of the keys 201 to 300 for {follower.database}.kinds: .* error 1525"
        ):
            server.try_keys(table, tried)


@pytest.mark.either_server
@pytest.mark.parametrize(
    ("change", "reason"), [("DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)", "is id, v now"), ("DROP PRIMARY KEY", "is none now")]
)
def test_keys_of_a_table_that_gets_another_key_or_none_end_the_table_and_nothing_else_is_sent(shop: Any, change: str, reason: str) -> None:
    follower = shop()
    request = follower.ask(rf"{follower.database}\.orders", keys=[[n] for n in range(1, 101)], chunk_rows=10, delay_ms=100)
    follower.until(lambda: len(dumped(follower)) >= 20)

    follower.sql(f"ALTER TABLE orders {change}")
    status = follower.until_state(request, "FAILED")

    assert f"the key of {follower.database}.orders was id when this dump of given keys began, and {reason}" in status["reason"]
    assert max(dumped(follower)) < 100
    follower.sql("INSERT INTO orders VALUES (100000, 'log', 7)")
    follower.until(lambda: "100000" in str(follower.rows.get("orders")))


def test_an_incremental_snapshot_that_debezium_had_not_finished_goes_on_behind_the_last_row_that_it_sent(shop: Any) -> None:
    follower = shop()
    follower.task.stop()
    number = ARRAY + WRITTEN["int"][0][:-8]
    follower.offset |= {
        "incremental_snapshot_primary_key": f"{number}{600:08x}",
        "incremental_snapshot_maximum_key": f"{number}{890:08x}",
        "incremental_snapshot_collections": json.dumps(
            [{"incremental_snapshot_collections_id": f"{follower.database}.{table}"} for table in ("orders", "items", "gone")]
        ),
        "incremental_snapshot_correlation_id": "ad-hoc-1",
    }
    follower.sql("UPDATE orders SET status = 'later' WHERE id = 700", "DELETE FROM orders WHERE id = 701")

    def statements(n: int) -> tuple[str, ...]:
        return (
            f"UPDATE orders SET v = v + 1000 WHERE id % 300 = {n % 300} AND id NOT BETWEEN 601 AND 890",
            f"UPDATE items SET v = v + 1000 WHERE line % 90 = {n % 90}",
            f"DELETE FROM items WHERE line = {n * 7 % 900}",
        )

    follower.task = follower.new_task()
    follower.start()
    with under_writes(follower, statements, pause_s=0.005):
        follower.until_dumped()

    assert sorted(dumped(follower)) == sorted({*range(601, 891)} - {701})
    follower.until_equal("items")
    follower.until_part("orders")
    assert not [key for key in follower.offset if key.startswith("incremental_snapshot_")]
