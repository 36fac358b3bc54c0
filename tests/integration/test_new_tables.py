"""Tables that are made, or come to match, beside a living task: followed at once and dumped, or followed, or left out (dblog.new.tables). # I3"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from demo.pipeline import Connector, Worker, create_connector_user
from demo.rest import NO_TLS
from stack import Kafka
from stack.database import Database
from stack.process import wait_until
from support.follower import Follower
from support.servers import connected, execute, new_database
from support.topicfold import fold

MATCHING = r".*\.(customers|new_.*)"


class Writer:
    """Writes to the tables of one database until ``stop``, those that are named to it."""

    def __init__(self, source: Database, database: str) -> None:
        self.source, self.database = source, database
        self.tables: list[str] = ["customers"]
        self.written = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _write(self) -> None:
        with connected(self.source, database=self.database) as connection, connection.cursor() as cursor:
            while not self._stopped.is_set():
                for table in self.tables[:]:
                    self.written += 1
                    cursor.execute(f"REPLACE INTO {table} (id, v) VALUES ({1000 + self.written % 50}, {self.written})")
                self._stopped.wait(0.005)


@pytest.fixture
def shop(source: Database) -> Iterator[Any]:
    """Makes a follower of a database with a table that is written to, and its writer."""
    database = new_database(source, "new")
    made: list[tuple[Follower, Writer]] = []

    def make(**config: str) -> tuple[Follower, Writer]:
        follower = Follower(source, database, **{"table.include.list": MATCHING, **config})
        follower.sql("CREATE TABLE customers (id INT PRIMARY KEY, v INT)", "INSERT INTO customers VALUES (1, 1), (2, 2)")
        made.append((follower, Writer(source, database)))
        return made[-1]

    yield make
    for follower, writer in made:
        writer.stop()
        follower.task.stop()


def create(*tables: str) -> list[str]:
    """Statements that make tables with rows that no log has."""
    statements = ["SET sql_log_bin = 0"]
    for table in tables:
        statements += [f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {table} VALUES (1, 10), (2, 20)"]
    return [*statements, "SET sql_log_bin = 1"]


def ids(follower: Follower, table: str) -> set[int]:
    return {row["id"] for row in follower.rows.get(table, {}).values()}


def is_followed(follower: Follower, table: str) -> bool:
    return bool({"c", "u"} & set(follower.ops(table)))


@pytest.mark.parametrize("policy", ["dump", "log", "ignore"])
def test_a_table_that_is_made_beside_a_living_task_is_followed_dumped_or_left_out(shop: Any, policy: str) -> None:
    follower, writer = shop(**{"dblog.new.tables": policy})
    follower.start()
    follower.until_dumped()

    follower.sql("CREATE TABLE new_logged (id INT PRIMARY KEY, v INT)", "INSERT INTO new_logged VALUES (1, 1)")
    follower.sql(*create("new_unlogged"))
    follower.sql(
        "CREATE TABLE other (id INT PRIMARY KEY, v INT)", "INSERT INTO other VALUES (1, 10), (2, 20)", "RENAME TABLE other TO new_renamed"
    )
    writer.tables += ["new_logged", "new_unlogged", "new_renamed"]
    seen = len(follower.ops("customers"))
    follower.until(lambda: len(follower.ops("customers")) > seen + 100)
    if policy == "dump":
        follower.until(lambda: {1, 2} <= ids(follower, "new_unlogged") & ids(follower, "new_renamed"))
    writer.stop()
    follower.until_equal("customers")

    if policy == "ignore":
        assert {table for table, _ in follower.values} == {"customers"}
        return
    follower.until_equal("new_logged")
    assert "r" not in follower.ops("new_logged"), "all of it is in the log"
    for table in ("new_unlogged", "new_renamed"):
        follower.until(lambda table=table: is_followed(follower, table))
        if policy == "dump":
            follower.until_equal(table)
        else:
            follower.until(lambda table=table: ids(follower, table) >= {row["id"] for row in follower.selected(table)} - {1, 2})
            assert not ids(follower, table) & {1, 2}
            assert "r" not in follower.ops(table)


@pytest.mark.either_server
@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.long)])
def test_the_dump_of_a_table_that_comes_out_of_nowhere_is_not_lost_by_a_kill(shop: Any, kills: int) -> None:
    follower, writer = shop()
    follower.start()
    follower.until_dumped()
    follower.sql(*create("new_a"))
    before = dict(follower.offset or {})
    writer.tables.append("new_a")
    follower.until(lambda: "new_a" in follower.rows)

    for _ in range(kills):  # the history has the table, and no offset its dump
        follower.offset = dict(before)
        follower.restart()
        seen = len(follower.ops("new_a"))
        follower.until(lambda seen=seen: len(follower.ops("new_a")) > seen)
    follower.until(lambda: {1, 2} <= ids(follower, "new_a"))
    writer.stop()

    follower.until_equal("new_a")
    follower.until_dumped()
    sent = len(follower.ops("new_a"))
    follower.restart()
    follower.sql("INSERT INTO new_a VALUES (3, 3)")
    follower.until_equal("new_a")
    assert "r" not in follower.ops("new_a")[sent:], "dumped once"


@pytest.mark.either_server
@pytest.mark.parametrize("policy", ["dump", "log", "ignore"])
def test_an_edit_of_the_include_list_brings_in_only_what_is_new_by_the_policy(shop: Any, policy: str) -> None:
    follower, writer = shop(**{"table.include.list": r".*\.customers", "dblog.new.tables": policy})
    follower.sql("CREATE TABLE new_a (id INT PRIMARY KEY, v INT)", "INSERT INTO new_a VALUES (1, 10), (2, 20)")
    follower.start()
    follower.until_dumped()
    dumped = follower.ops("customers").count("r")
    writer.tables.append("new_a")
    follower.until(lambda: len(follower.ops("customers")) > dumped + 20)

    follower.config["table.include.list"] = MATCHING
    follower.restart()
    seen = len(follower.ops("customers"))
    follower.until(lambda: len(follower.ops("customers")) > seen + 50)
    if policy == "dump":
        follower.until(lambda: {1, 2} <= ids(follower, "new_a"))
    writer.stop()
    follower.until_equal("customers")

    assert follower.ops("customers").count("r") == dumped, "what the connector has is not dumped again"
    if policy == "dump":
        follower.until_equal("new_a")
    elif policy == "log":
        follower.until(lambda: ids(follower, "new_a") >= {row["id"] for row in follower.selected("new_a")} - {1, 2})
        assert not ids(follower, "new_a") & {1, 2}
    else:
        assert "new_a" not in follower.rows
    if policy != "dump":
        return

    for listed in (r".*\.customers", MATCHING):  # taken out and added again
        follower.config["table.include.list"] = listed
        follower.restart()
        follower.sql("UPDATE new_a SET v = v + 1", "DELETE FROM new_a WHERE id = 2", "UPDATE customers SET v = v + 1")
        follower.until_equal("customers")
    follower.until_dumped()
    follower.until(lambda: {row["id"]: row["v"] for row in follower.rows["new_a"].values() if row["id"] != 2} == values(follower, "new_a"))
    assert follower.ops("customers").count("r") == dumped


def values(follower: Follower, table: str) -> dict[int, int]:
    return {row["id"]: row["v"] for row in follower.selected(table)}


@pytest.mark.either_server
def test_a_connector_that_takes_no_new_tables_keeps_its_names_over_drops_swaps_and_restarts(shop: Any) -> None:
    follower, writer = shop(**{"dblog.new.tables": "ignore"})
    follower.sql("CREATE TABLE new_a (id INT PRIMARY KEY, v INT)", "INSERT INTO new_a VALUES (1, 1)")
    follower.start()
    follower.until_dumped()

    follower.sql("DROP TABLE new_a", "CREATE TABLE new_b (id INT PRIMARY KEY, v INT)", "INSERT INTO new_b VALUES (1, 1)")
    writer.stop()
    follower.until_equal("customers")
    follower.restart()
    follower.sql("CREATE TABLE new_a (id INT PRIMARY KEY, v INT, w INT)", "INSERT INTO new_a VALUES (1, 7, 7)")
    follower.until_equal("new_a")
    follower.sql(
        "RENAME TABLE customers TO old, new_b TO customers", "INSERT INTO customers VALUES (9, 9)", "INSERT INTO old VALUES (8, 8)"
    )
    follower.until(lambda: {1, 9} <= ids(follower, "customers"))
    assert {table for table, _ in follower.values} == {"customers", "new_a"}

    follower.config["dblog.new.tables"] = "dump"
    follower.sql("CREATE TABLE new_c (id INT PRIMARY KEY, v INT)", "INSERT INTO new_c VALUES (1, 1)")
    follower.restart()
    follower.until_equal("new_c")


@pytest.mark.either_server
@pytest.mark.long
def test_a_worker_whose_connector_gets_a_wider_include_list_dumps_the_new_table_alone_and_nobody_restarts_anything(
    kafka: Kafka, source: Database, own_folder: Path
) -> None:
    database, name = new_database(source, "wider"), f"wider{source.flavor}"
    for table in ("a", "b"):
        rows = ", ".join(f"({n}, {n})" for n in range(1, 501))
        execute(source, f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {table} VALUES {rows}", database=database)
    create_connector_user(source)
    options = {"table.include.list": rf"{database}\.a"}
    connector = Connector(name=name, prefix=name, source=source, kafka=kafka, database=database, options=options)
    with Worker(kafka, own_folder / "worker", name=name, options={"offset.flush.interval.ms": "200"}) as worker:
        worker.rest.create(name, connector.config)
        wait_until(lambda: worker.rest.dump(name).done, timeout_s=90, what="the first dump")

        config = {**connector.config, "table.include.list": rf"{database}\.(a|b)"}
        httpx.put(f"{worker.url}/connectors/{name}/config", json=config, timeout=60, verify=NO_TLS).raise_for_status()
        execute(source, "UPDATE a SET v = -1 WHERE id = 1", "UPDATE b SET v = -1 WHERE id = 1", database=database)

        def folded(table: str) -> dict[int, int]:
            return {key[0]: row["v"] for key, row in fold(kafka.bootstrap, worker.url, f"{name}.{database}.{table}").rows.items()}

        expected = {n: -1 if n == 1 else n for n in range(1, 501)}
        for table in ("a", "b"):
            wait_until(lambda table=table: folded(table) == expected, timeout_s=90, what=f"table {table}")  # type: ignore[misc]
        assert fold(kafka.bootstrap, worker.url, f"{name}.{database}.a").records == 501, "what the connector has is not dumped again"
