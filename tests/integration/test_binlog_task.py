"""A connector's task on real servers: dump and log together, DDL in the middle, lost connections, lost positions. # I2 I3 I4

The task runs without Kafka: batches are polled and folded here, the schema history is tests/support/history.py's.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
from dblog.core.timeline import Timeline
from dblog.errors import DefiniteError, PositionLostError, TransientError
from dblog.model import TableId
from dblog.readers.log.history import SchemaHistory
from stack import MariaDb, MySql
from stack.database import Database
from stack.process import wait_until
from support.follower import TIMEOUT_S, Follower, Row
from support.history import FakeHistoryLog
from support.servers import connected, execute, new_database, purge_log, started
from support.under_writes import under_writes

pytestmark = pytest.mark.either_server


@pytest.fixture
def followers() -> Iterator[list[Follower]]:
    made: list[Follower] = []
    yield made
    for follower in made:
        follower.task.stop()


@pytest.fixture
def shop(source: Database, followers: list[Follower]) -> Any:
    """Makes followers of a database with two tables."""
    database = new_database(source, "task")
    execute(
        source,
        "CREATE TABLE customers (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(40) NOT NULL DEFAULT 'x', note TEXT)",
        "CREATE TABLE items (order_id INT, line SMALLINT, sku VARCHAR(20) COLLATE utf8mb4_unicode_ci, PRIMARY KEY (sku, order_id, line))",
        database=database,
    )

    def make(**config: str) -> Follower:
        follower = Follower(source, database, **config)
        followers.append(follower)
        return follower

    return make


def kill(source: Database, process: object) -> None:
    """KILL, unless the connection has ended by itself."""
    with contextlib.suppress(pymysql.err.OperationalError):
        execute(source, f"KILL {process}")


def fill(follower: Follower, rows: int = 3000) -> None:
    names = ",".join(f"('n{i}', 'é{i}')" for i in range(rows))
    items = ",".join(f"({i // 7}, {i % 7}, 'sku{i % 50}')" for i in range(rows))
    follower.sql(f"INSERT INTO customers (name, note) VALUES {names}", f"INSERT INTO items VALUES {items}")


def test_a_dump_under_writes_ends_equal_to_the_source(shop: Any) -> None:
    follower = shop(**{"dblog.chunk.rows": "200", "dblog.dump.threads": "2"})
    fill(follower)

    def statements(n: int) -> tuple[str, ...]:
        return (
            f"UPDATE customers SET name = 'u{n}' WHERE id % 97 = {n % 97}",
            f"DELETE FROM items WHERE order_id = {n % 400}",
            f"INSERT INTO customers (name) VALUES ('late{n}')",
            f"UPDATE customers SET id = -{n} WHERE id = {n * 3}",
        )

    with under_writes(follower, statements):
        follower.start()
        follower.until_dumped()

    follower.until_equal("customers")
    follower.until_equal("items")
    ops = {record["op"] for _, record in follower.values if record is not None}
    assert ops == {"r", "c", "u", "d"}


def test_ddl_in_the_middle_of_the_dump_is_followed_and_the_table_is_read_to_its_end(shop: Any) -> None:
    follower = shop(**{"dblog.chunk.rows": "100"})
    fill(follower)
    follower.start()
    follower.until(lambda: bool(follower.rows.get("customers")))

    follower.sql("ALTER TABLE customers ADD COLUMN level INT NOT NULL DEFAULT 7 AFTER id, DROP COLUMN note")
    follower.sql("UPDATE customers SET level = 8 WHERE id < 20", "INSERT INTO customers (name, level) VALUES ('after', 1)")
    follower.until_dumped()

    # Rows sent before the statement keep the columns they had; whatever is sent again has the new ones.
    def level(row: Row) -> Any:
        return row.get("level", 7)

    with connected(follower.source, database=follower.database) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, level, name FROM customers")
        selected = {row[0]: row[1:] for row in cursor.fetchall()}
    follower.until(lambda: {row["id"]: (level(row), row["name"]) for row in follower.rows["customers"].values()} == selected)


def test_a_restart_goes_on_at_the_chunk_and_loses_nothing(shop: Any) -> None:
    follower = shop(**{"dblog.chunk.rows": "50"})
    fill(follower)
    follower.start()

    for done in (300, 900, 1800):
        follower.until(lambda done=done: len(follower.rows.get("customers", {})) >= done)
        follower.sql(f"INSERT INTO customers (name) VALUES ('between {done}')", f"DELETE FROM customers WHERE id = {done // 3}")
        follower.restart()
        dump = follower.task.running.progress.own
        table = dump.tables[0]
        assert table.after is not None or table.done
    follower.until_dumped()

    follower.until_equal("customers")
    follower.until_equal("items")
    dumped = sum(1 for table, record in follower.values if table == "customers" and record is not None and record["op"] == "r")
    assert dumped < 2 * 3000, "a restart must not begin the table again"


def test_a_killed_log_connection_neither_loses_nor_repeats_a_row_of_the_transaction_it_was_in(shop: Any) -> None:
    follower = shop(**{"snapshot.mode": "no_data", "max.batch.size": "10", "max.queue.size": "20"})
    follower.start()
    many = ",".join(f"('{'x' * 30}{i}')" for i in range(400))
    with connected(follower.source, database=follower.database) as connection, connection.cursor() as cursor:
        connection.begin()
        for _ in range(20):
            cursor.execute(f"INSERT INTO customers (name) VALUES {many}")
        connection.commit()
    follower.until(lambda: len(follower.values) > 500)

    # The small queue holds the reader in the middle of the transaction.
    killed = execute(follower.source, "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'")
    for (process,) in killed:
        kill(follower.source, process)
    follower.until(lambda: len(follower.rows.get("customers", {})) == 8000)
    follower.sql("INSERT INTO customers (name) VALUES ('the end')")
    follower.until_equal("customers")

    assert killed
    assert follower.task.metrics()["log_reconnects_total"] >= 1
    assert len(follower.values) == 8001


def test_rows_that_move_between_tables_of_one_topic_are_sent_in_the_order_of_the_log(source: Database, followers: list[Follower]) -> None:
    shards = []
    for _ in range(2):
        shards.append(new_database(source, "shard"))
        execute(source, "CREATE TABLE orders (id INT PRIMARY KEY, moves INT)", database=shards[-1])
    strategy = "io.debezium.schema.SchemaTopicNamingStrategy"
    follower = Follower(
        source, shards[0], **{"database.include.list": ",".join(shards), "topic.naming.strategy": strategy, "dblog.topics.shared": "true"}
    )
    followers.append(follower)
    follower.sql("INSERT INTO orders VALUES " + ",".join(f"({key}, 0)" for key in range(10)))
    follower.start()
    follower.until_dumped()
    follower.task.stop()  # so that the next run finds many transactions at once

    with connected(source) as connection, connection.cursor() as cursor:
        for move in range(95):  # half of the rows come to rest in each of the two
            key, before, after = move % 10, shards[move // 10 % 2], shards[(move // 10 + 1) % 2]
            connection.begin()
            cursor.execute(f"DELETE FROM {before}.orders WHERE id = {key}")
            cursor.execute(f"INSERT INTO {after}.orders VALUES ({key}, {move // 10 + 1})")
            connection.commit()
        cursor.execute(f"INSERT INTO {shards[1]}.orders VALUES (99, 0)")
    follower.restart()
    follower.until(lambda: any(record is not None and record["op"] == "c" and record["after"]["id"] == 99 for _, record in follower.values))

    expected = [{"id": key, "moves": 10 if key < 5 else 9} for key in range(10)] + [{"id": 99, "moves": 0}]
    assert sorted(follower.rows["orders"].values(), key=lambda row: row["id"]) == expected
    logged = [record for _, record in follower.values if record is not None and record["op"] != "r"]
    positions = [tuple(map(int, json.loads(record["source"]["sequence"]))) for record in logged]
    assert len(positions) == 2 * 95 + 1
    assert positions == sorted(positions)
    assert {record["source"]["db"] for record in logged} == set(shards)


def test_rows_before_and_after_a_restart_are_decoded_with_the_columns_of_their_time(shop: Any) -> None:
    follower = shop(**{"snapshot.mode": "no_data"})
    follower.start()
    follower.sql("INSERT INTO customers (id, name) VALUES (1, 'old columns')")
    follower.until(lambda: bool(follower.rows.get("customers")))
    follower.task.stop()

    follower.sql(
        "INSERT INTO customers (id, name) VALUES (2, 'logged before the change')",
        "ALTER TABLE customers CHANGE name title VARCHAR(60), ADD COLUMN born DATE FIRST",
        "INSERT INTO customers (born, id, title) VALUES ('2001-02-03', 3, 'after')",
    )
    follower.task = follower.new_task()
    follower.task.start(follower.offset)
    follower.until(lambda: len(follower.rows["customers"]) == 3)

    rows = sorted(follower.rows["customers"].values(), key=lambda row: row["id"])
    assert rows[1] == {"id": 2, "name": "logged before the change", "note": None}
    assert rows[2] == {"born": 11356, "id": 3, "title": "after", "note": None}


def test_a_table_created_later_is_followed_and_a_dropped_one_ends(shop: Any) -> None:
    follower = shop()
    follower.start()
    follower.until_dumped()

    follower.sql("CREATE TABLE notes (id INT PRIMARY KEY, t VARCHAR(9))", "INSERT INTO notes VALUES (1, 'a')", "DROP TABLE items")
    follower.sql("INSERT INTO customers (name) VALUES ('on it goes')")

    follower.until_equal("notes")
    follower.until_equal("customers")


def test_a_statement_of_megabytes_about_a_foreign_table_is_cut_in_its_record(source: Database, shop: Any) -> None:
    foreign = new_database(source, "sandbox")
    follower = shop()
    follower.start()
    follower.until_dumped()

    execute(source, f"CREATE TABLE {foreign}.t (id INT) /* {'x' * 2_000_000} */")
    execute(source, f"CREATE TABLE {foreign}.u (id INT)")
    follower.until(lambda: any(f"{foreign}.u" in str(record["ddl"]) for record in follower.reported))

    (cut,) = (record for record in follower.reported if f"{foreign}.t" in str(record["ddl"]))
    assert len(cut["ddl"]) < 70_000
    assert cut["ddl"].startswith(f"CREATE TABLE {foreign}.t (id INT) /* xxx")
    assert cut["ddl"].endswith(" characters are left out */")
    assert [change["type"] for change in cut["tableChanges"]] == ["CREATE"]
    assert max(len(str(version)) for version in follower.history.records) < 20_000


@pytest.fixture
def customers_alone(shop: Any) -> Follower:
    """A follower that has dumped one of the two tables, and is configured with the other for its next run."""
    follower: Follower = shop()
    follower.config["table.include.list"] = rf"{follower.database}\.customers"
    follower.task = follower.new_task()
    fill(follower, 50)
    follower.start()
    follower.until_dumped()
    assert "items" not in follower.rows
    del follower.config["table.include.list"]
    return follower


def test_a_table_that_joins_at_a_restart_is_dumped(customers_alone: Follower) -> None:
    follower = customers_alone

    follower.restart()

    follower.until_equal("items")
    follower.until_equal("customers")


def test_a_table_that_joins_is_dumped_though_its_first_run_was_killed_before_its_offset_was_stored(customers_alone: Follower) -> None:
    follower = customers_alone
    follower.task.stop()
    follower.task = follower.new_task()
    follower.task.start(follower.offset)  # the history knows of the table now, the stored offset does not

    follower.restart()

    follower.until_equal("items")
    follower.until_equal("customers")


def test_the_first_schemas_are_reported_once_though_a_run_was_killed_before_it_reported_them(shop: Any) -> None:
    follower = shop(**{"snapshot.mode": "no_data"})

    def created() -> int:
        own = (record["ddl"] for record in follower.reported if record["databaseName"] == follower.database)
        return sum("CREATE TABLE" in ddl and "customers" in ddl for ddl in own)

    follower.start()
    follower.restart()  # of the first run nothing was taken but where it begins
    follower.until(lambda: created() == 1)
    follower.sql("INSERT INTO customers (name) VALUES ('a')")
    follower.until_equal("customers")
    reported = len(follower.reported)

    follower.restart()
    follower.sql("INSERT INTO customers (name) VALUES ('b')")

    follower.until_equal("customers")
    assert len(follower.reported) == reported


def test_a_table_that_was_left_out_for_a_while_is_dumped_again(shop: Any) -> None:
    follower = shop()
    fill(follower, 50)
    follower.start()
    follower.until_dumped()
    follower.config["table.exclude.list"] = rf"{follower.database}\.items"
    follower.restart()
    follower.sql("UPDATE items SET line = line + 100", "INSERT INTO customers (name) VALUES ('meanwhile')")
    follower.until_equal("customers")
    del follower.config["table.exclude.list"]

    follower.restart()

    def missed_rows() -> bool:
        return sum(row["line"] >= 100 for row in follower.rows["items"].values()) == 50

    follower.until(missed_rows)


def test_a_dump_at_every_start_reports_rows_deleted_between_two_starts(shop: Any) -> None:
    follower = shop(**{"snapshot.mode": "always"})
    fill(follower, 50)
    follower.start()
    follower.until_equal("customers")
    follower.task.stop()
    follower.sql("DELETE FROM customers WHERE id < 10")
    dumped = len(follower.ops("customers"))

    follower.restart()

    follower.until_equal("customers")
    follower.until_dumped()
    assert follower.ops("customers")[dumped:].count("r") == 41


def test_a_table_without_a_key_is_dumped_and_followed(shop: Any) -> None:
    follower = shop()
    follower.sql("CREATE TABLE plain (a INT, b VARCHAR(9))", "INSERT INTO plain VALUES (1, 'x'), (1, 'x')")
    follower.start()
    follower.until_dumped()

    follower.sql("INSERT INTO plain VALUES (2, 'y')")

    follower.until_equal("plain")


def test_a_prepared_transaction_that_nobody_ends_holds_up_its_own_table_and_no_other(shop: Any) -> None:
    follower = shop(**{"dblog.chunk.rows": "50", "dblog.dump.threads": "1"})
    fill(follower)
    follower.start()
    follower.until(lambda: bool(follower.rows.get("customers")))
    with connected(follower.source, database=follower.database) as connection, connection.cursor() as cursor:
        for statement in (
            "XA START 'held'",
            "UPDATE customers SET name = 'prepared' WHERE id = 3000",
            "XA END 'held'",
            "XA PREPARE 'held'",
        ):
            cursor.execute(statement)

        follower.until_equal("items")
        running = follower.task.running
        assert not running.progress.table(TableId(follower.database, "customers")).done
        assert running.windows.resets(TableId(follower.database, "customers")) <= 2
        follower.restart()
        follower.sql("INSERT INTO items VALUES (999, 9, 'a later one')")
        follower.until_equal("items")
        assert not follower.task.running.progress.table(TableId(follower.database, "customers")).done
        cursor.execute("XA COMMIT 'held'")

    follower.until_dumped()
    follower.until_equal("customers")


def test_initial_only_ends_with_the_dump(shop: Any) -> None:
    follower = shop(**{"snapshot.mode": "initial_only"})
    fill(follower, 100)
    follower.start()
    follower.until_dumped()

    follower.until(lambda: not follower.task.metrics()["connected"])

    follower.sql("INSERT INTO customers (name) VALUES ('too late')")
    assert len(follower.rows["customers"]) == 100


def test_a_purged_position_is_refused_with_the_way_out_and_when_needed_takes_it(shop: Any) -> None:
    follower, markers = shop(**{"dblog.chunk.rows": "10"}), []
    follower.marked = lambda value: markers.append(json.loads(value))
    fill(follower, 30)
    follower.start()
    follower.until_dumped()
    follower.task.stop()
    assert {marker["mode"] for marker in markers} == {"rows"}
    follower.sql("INSERT INTO customers (name) VALUES ('never read from the log')", "DELETE FROM customers ORDER BY id LIMIT 1")
    purge_log(follower.source)

    follower.task = follower.new_task()
    with pytest.raises(PositionLostError, match="snapshot.mode=when_needed"):
        follower.task.start(follower.offset)
    follower.task.stop()
    follower.config["snapshot.mode"] = "when_needed"
    follower.task = follower.new_task()
    markers.clear()
    follower.task.start(follower.offset)

    # The delete is in no log: the dump is a repair, also behind a restart, and the sink removes what it does not bring. # I3
    follower.until(lambda: markers)
    follower.restart()
    follower.until_dumped()
    follower.until(lambda: any(marker["final"] for marker in markers if marker["table"].endswith(".customers")))
    assert {marker["mode"] for marker in markers} == {"repair"}
    assert {marker["scope"] for marker in markers} == {"table"}


def test_a_log_that_is_purged_before_a_slow_reader_has_read_it_is_lost_for_the_run_and_for_the_next_start(shop: Any) -> None:
    follower = shop(**{"max.queue.size": "2", "max.batch.size": "1"})
    follower.start()
    follower.until_dumped()
    follower.sql(
        *["INSERT INTO customers (name, note) VALUES ('x', REPEAT('x', 60000))"] * 300
    )  # more than the sockets and the reader hold
    purge_log(follower.source)

    with pytest.raises(PositionLostError):
        follower.until(lambda: False)
    follower.task.stop()
    follower.task = follower.new_task()
    with pytest.raises(PositionLostError, match="snapshot.mode=when_needed"):
        follower.task.start(follower.offset)


def test_a_lost_schema_history_is_refused_not_guessed(shop: Any) -> None:
    follower = shop()
    follower.start()
    follower.until_dumped()
    follower.history = FakeHistoryLog()

    with pytest.raises(DefiniteError, match="schema history"):
        follower.restart()


def test_a_history_that_is_away_at_start_is_a_passing_fault(shop: Any) -> None:
    follower = shop()
    follower.history.away = True

    with pytest.raises(TransientError, match="away"):
        follower.start()


def test_the_history_keeps_no_more_versions_than_a_restart_needs(shop: Any) -> None:
    follower = shop(**{"snapshot.mode": "no_data"})
    follower.start()
    for n in range(30):
        follower.sql(f"ALTER TABLE customers ADD COLUMN c{n} INT", f"INSERT INTO customers (name, c{n}) VALUES ('r', {n})")
        follower.until(lambda n=n: len(follower.rows.get("customers", {})) == n + 1)

    follower.history.compact()
    timeline = Timeline()
    SchemaHistory(follower.history, server=follower.name).recover(timeline)

    customers = [t for t in timeline.tables() if t.name == "customers" and t.database == follower.database]
    assert len(timeline.versions(customers[0])) <= 5
    follower.restart()
    follower.sql("INSERT INTO customers (name) VALUES ('after recovery')")
    follower.until(lambda: len(follower.rows["customers"]) == 31)


@pytest.mark.parametrize("server", [MariaDb, MySql])
def test_tables_and_watermarks_in_any_case_are_found_in_the_log_of_a_server_that_keeps_names_in_lower_case(
    own_folder: Path, followers: list[Follower], server: type[MariaDb | MySql]
) -> None:
    with started(server(own_folder, options={"lower_case_table_names": 1}, durable=False)) as source:
        database = new_database(source, "lower")
        execute(source, "CREATE TABLE Orders (id INT PRIMARY KEY)", "INSERT INTO ORDERS VALUES (1), (2), (3)", database=database)
        follower = Follower(source, "", **{"dblog.watermark.table": "DBLog.WaterMark", "database.include.list": f"{database},dblog"})
        followers.append(follower)

        follower.start()
        follower.until_dumped()
        execute(
            source, "ALTER TABLE oRDERS ADD Note INT", "INSERT INTO orders VALUES (4, 4)", "RENAME TABLE ORDERS TO Sold", database=database
        )
        execute(source, "INSERT INTO SOLD VALUES (5, 5)", database=database)
        follower.until(lambda: any(row["id"] == 5 for row in follower.rows.get("sold", {}).values()))
        follower.task.stop()

    assert {table for table, _ in follower.values} == {"orders", "sold"}
    assert sorted(row["id"] for row in follower.rows["orders"].values()) == [1, 2, 3, 4]
    assert {row["id"]: row["Note"] for row in follower.rows["sold"].values()}[5] == 5


def test_a_row_that_nobody_takes_grows_old(shop: Any) -> None:
    """As in a connector that is paused: the row waits in the queue, and its age is the lag."""
    follower = shop(**{"snapshot.mode": "no_data"}).start()
    task = follower.task

    def lag_above(least_ms: float) -> bool:
        return task.metrics()["lag_ms"] > least_ms

    wait_until(lambda: task.metrics()["connected"] == 1.0, timeout_s=TIMEOUT_S, what="the log")
    follower.sql("INSERT INTO customers (name) VALUES ('waits')")
    wait_until(lambda: lag_above(2_500.0), timeout_s=TIMEOUT_S, what="the row to grow old")

    follower.until_equal("customers")

    wait_until(lambda: not lag_above(0.0), timeout_s=TIMEOUT_S, what="the lag to end")


def test_the_log_files_that_a_connector_needs_are_counted_while_nobody_takes_its_rows(source: Database, shop: Any) -> None:
    """As in a connector that is paused: it has read to the log's end, and what is stored is what the server must not drop."""
    purge_log(source)
    follower = shop(**{"snapshot.mode": "no_data", "dblog.metrics.server.interval.ms": "50"}).start()
    task = follower.task

    def files() -> list[float | None]:
        names = "log_behind_files", "log_stored_behind_files", "log_purge_margin_files", "log_purged"
        return [task.metrics().get(name) for name in names]

    insert, rotate = "INSERT INTO customers (name) VALUES ('waits')", "FLUSH BINARY LOGS"
    follower.sql(insert, rotate, rotate, insert)
    wait_until(lambda: files() == [0, 2, 0, 0], timeout_s=TIMEOUT_S, what="the two files behind the stored one to be read and counted")

    follower.until_equal("customers")
    follower.until(lambda: files() == [0, 0, 2, 0])
    follower.sql(rotate)  # and nothing is written
    follower.until(lambda: files() == [0, 0, 3, 0])
