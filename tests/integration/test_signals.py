"""Debezium's signals from a table of the source, and notifications of what becomes of them: real servers, kills in between, writes beside."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from dblog.readers.signals import signal_topic
from dblog.readers.signals.signal_file import SignalFileSettings
from dblog.readers.signals.signal_topic import SignalTopicSettings
from stack import Kafka
from stack.database import Database
from support.follower import Follower
from support.servers import execute, new_database
from support.standing_consumers import standing_consumers
from support.under_writes import under_writes

TOPIC = "told"


@pytest.fixture
def shop(source: Database) -> Iterator[Callable[..., Follower]]:
    """Makes followers of tables whose rows are older than the connector, which dumps nothing by itself, and of a table of signals."""
    database = new_database(source, "signals")
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) SELECT i, i % 7 FROM n"
    execute(
        source,
        "CREATE TABLE orders (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE items (sku VARCHAR(20), line INT, PRIMARY KEY (sku, line))",
        "CREATE TABLE nothing (id INT PRIMARY KEY)",
        "CREATE TABLE debezium_signal (id VARCHAR(42) PRIMARY KEY, type VARCHAR(32) NOT NULL, data VARCHAR(2048))",
        f"INSERT INTO orders {numbers}",
        "INSERT INTO items VALUES ('a', 1), ('b', 2), ('c', 3)",
        database=database,
    )
    made: list[Follower] = []

    def make(**config: str) -> Follower:
        own = {
            "snapshot.mode": "no_data",
            "signal.data.collection": f"{database}.debezium_signal",
            "incremental.snapshot.chunk.size": "100",
            "notification.enabled.channels": "sink,log",
            "notification.sink.topic.name": TOPIC,
        }
        follower = Follower(source, database, **{**own, **config})
        made.append(follower)
        return follower.start()

    yield make
    for follower in made:
        follower.task.stop()


def send(follower: Follower, *signals: tuple[str, str] | tuple[str, str, Any]) -> None:
    """In one transaction, so that the log has them together."""

    def row(identity: str, kind: str, data: Any = None) -> str:
        text = "NULL" if data is None else "'" + json.dumps(data).replace("\\", "\\\\").replace("'", "''") + "'"
        return f"('{identity}', '{kind}', {text})"

    follower.sql(f"INSERT INTO debezium_signal VALUES {', '.join(row(*signal) for signal in signals)}")


def statements(n: int) -> tuple[str, ...]:
    """What is written beside the dumps."""
    return (
        f"UPDATE orders SET v = v + 1 WHERE id % 50 = {n % 50}",
        f"INSERT INTO orders VALUES ({1000 + n}, 0)",
    )


def dumped(follower: Follower, table: str = "orders") -> list[int]:
    return [record["after"]["id"] for name, record in follower.values if name == table and record is not None and record["op"] == "r"]


def told(follower: Follower, identity: str) -> list[str]:
    """The types of a signal's notifications, in order."""
    return [each["type"] for each in follower.notifications if each["id"] == identity]


def test_a_signal_in_the_log_dumps_its_tables_and_each_step_is_notified_behind_its_rows(shop: Any) -> None:
    follower = shop()
    names = [f"{follower.database}.{table}" for table in ("orders", "nothing", "items")]

    send(
        follower,
        ("one", "execute-snapshot", {"data-collections": [names[0], names[1], rf"{follower.database}\.it.*"], "type": "INCREMENTAL"}),
    )
    follower.until(lambda: "COMPLETED" in told(follower, "one"))

    follower.until_equal("orders")
    follower.until_equal("items")
    assert "debezium_signal" not in follower.rows, "the signal table is no data"
    assert [(each["type"], each["additional_data"].get("status")) for each in follower.notifications] == [
        ("STARTED", None),
        ("IN_PROGRESS", None),
        ("IN_PROGRESS", None),
        ("IN_PROGRESS", None),
        ("TABLE_SCAN_COMPLETED", "SUCCEEDED"),
        ("TABLE_SCAN_COMPLETED", "EMPTY"),
        ("IN_PROGRESS", None),
        ("TABLE_SCAN_COMPLETED", "SUCCEEDED"),
        ("COMPLETED", None),
    ]
    assert {(each["id"], each["aggregate_type"]) for each in follower.notifications} == {("one", "Incremental Snapshot")}
    data = [each["additional_data"] for each in follower.notifications]
    prefix = follower.config["topic.prefix"]
    assert data[0] == {"connector_name": prefix, "data_collections": ",".join(names)}
    assert data[1] == {
        "connector_name": prefix,
        "data_collections": ",".join(names),
        "current_collection_in_progress": names[0],
        "maximum_key": "300",
        "last_processed_key": "100",
    }
    assert data[4] == {
        "connector_name": prefix,
        "data_collections": ",".join(names),
        "scanned_collection": names[0],
        "total_rows_scanned": "300",
        "status": "SUCCEEDED",
    }
    assert (data[6]["data_collections"], data[6]["maximum_key"], data[6]["last_processed_key"]) == (names[2], "c,3", "c,3")
    assert data[8] == {"connector_name": prefix}


# number 25 of the worker's safety
def test_a_condition_of_a_signal_chooses_rows_and_one_that_is_none_ends_its_table_without_a_word_of_it(shop: Any, capfd: Any) -> None:
    follower = shop()
    orders = f"{follower.database}.orders"

    def conditions(sql: str) -> dict[str, Any]:
        return {"data-collections": [orders], "additional-conditions": [{"data-collection": orders, "filter": sql}]}

    send(follower, ("some", "execute-snapshot", conditions("v = 3 AND id < 50")))
    follower.until(lambda: "COMPLETED" in told(follower, "some"))
    assert dumped(follower) == [id_ for id_ in range(1, 50) if id_ % 7 == 3]

    for number, sql in enumerate(("secretcolumn = 4711", "1 = 1) UNION (SELECT 4711, 4711", "1 = 1; DELETE FROM orders WHERE id = 4711")):
        send(follower, (f"bad{number}", "execute-snapshot", conditions(sql)))
        follower.until(lambda number=number: "COMPLETED" in told(follower, f"bad{number}"))
        statuses = [each["additional_data"].get("status") for each in follower.notifications if each["id"] == f"bad{number}"]
        assert statuses == [None, "SQL_EXCEPTION", None]

    written = "".join(capfd.readouterr())
    assert "cannot begin" in written
    assert "4711" not in written.replace(str(follower.source.port), "")
    assert len(dumped(follower)) == 7


@pytest.mark.either_server
def test_what_is_no_signal_is_counted_and_logged_without_its_text_and_the_next_one_is_obeyed(shop: Any, capfd: Any) -> None:
    follower = shop()
    orders = f"{follower.database}.orders"
    bad = [
        ("execute-snapshot", "{'secret4711"),
        ("execute-snapshot", '["secret4711"]'),
        ("execute-snapshot", '{"data-collections": "secret4711"}'),
        ("execute-snapshot", '{"data-collections": ["(secret4711"]}'),
        ("execute-snapshot", '{"data-collections": ["secret4711"], "type": "secret4711"}'),
        ("execute-snapshot", None),
        ("log", "{}"),
        ("set-binlog-position", '{"binlog_filename": "secret4711", "binlog_position": 4}'),
        ("secret4711", "{}"),
    ]
    for number, (kind, text) in enumerate(bad):
        value = "NULL" if text is None else "'" + text.replace("'", "''") + "'"
        follower.sql(f"INSERT INTO debezium_signal VALUES ('bad{number}', '{kind}', {value})")
    follower.sql("UPDATE debezium_signal SET type = 'execute-snapshot'", "DELETE FROM debezium_signal")
    send(follower, ("log", "log", {"message": "we are at {}"}))
    send(follower, ("changes", "schema-changes", {"database": "x", "changes": []}))
    send(follower, ("good", "execute-snapshot", {"data-collections": [orders]}))
    follower.until(lambda: "COMPLETED" in told(follower, "good"))

    numbers = follower.task.metrics()
    assert (numbers["signals_total"], numbers["signals_refused_total"]) == (3.0, float(len(bad)))
    written = "".join(capfd.readouterr())
    assert "secret4711" not in written
    assert "a signal is left out" in written
    assert "we are at " in written
    assert "we are at {}" not in written
    follower.until_equal("orders")


@pytest.mark.either_server
def test_a_signal_pauses_and_resumes_what_signals_asked_for_over_a_restart_and_nothing_else(shop: Any) -> None:
    follower = shop()
    items = f"{follower.database}.items"
    mine = follower.ask(rf"{follower.database}\.orders", chunk_rows=10, delay_ms=60_000)

    send(follower, ("one", "execute-snapshot", {"data-collections": [items]}), ("pause", "pause-snapshot", {"type": "incremental"}))
    follower.until(lambda: "PAUSED" in told(follower, "one"))

    def others() -> list[str]:
        return [status["state"] for status in follower.task.desk.statuses() if status["id"] != mine.id]

    # Until the database has been asked about its filter, it waits.
    follower.until(lambda: others() == ["PAUSED"])
    assert follower.status(mine.id)["state"] != "PAUSED"
    follower.restart()
    follower.until(lambda: others() == ["PAUSED"])
    send(follower, ("resume", "resume-snapshot"))
    follower.until(lambda: "COMPLETED" in told(follower, "one"))

    assert told(follower, "one") == ["STARTED", "PAUSED", "RESUMED", "IN_PROGRESS", "TABLE_SCAN_COMPLETED", "COMPLETED"]
    assert told(follower, mine.id) == ["STARTED"]
    follower.until_equal("items")


@pytest.mark.either_server
def test_signals_survive_kills_and_each_is_carried_out_once(shop: Any) -> None:
    follower = shop(**{"incremental.snapshot.chunk.size": "20"})
    orders = f"{follower.database}.orders"

    with under_writes(follower, statements):
        for kill in range(4):
            send(follower, (f"s{kill}", "execute-snapshot", {"data-collections": [orders]}))
            if kill % 2:
                begun = len(follower.notifications)
                follower.until(lambda begun=begun: len(follower.notifications) > begun + 3)
            follower.restart()
        follower.until(lambda: all("COMPLETED" in told(follower, f"s{kill}") for kill in range(4)))

    follower.until_equal("orders")
    starts = [told(follower, f"s{kill}").count("STARTED") for kill in range(4)]
    assert starts == [1] * 4, "what was polled is stored with it, so that none comes twice"
    assert [told(follower, f"s{kill}").count("COMPLETED") for kill in range(4)] == [1] * 4


@pytest.mark.either_server
def test_a_signal_stops_a_snapshot_or_some_of_its_tables(shop: Any) -> None:
    follower = shop()
    orders, items = (f"{follower.database}.{table}" for table in ("orders", "items"))

    asked = {"data-collections": [orders, items]}
    send(follower, ("some", "execute-snapshot", asked), ("stop", "stop-snapshot", {"type": "incremental", "data-collections": [orders]}))
    follower.until(lambda: "COMPLETED" in told(follower, "some"))
    aborted = [each["additional_data"] for each in follower.notifications if each["type"] == "ABORTED"]
    assert aborted == [{"connector_name": follower.config["topic.prefix"], "data_collections": orders}]
    assert "orders" not in follower.rows
    follower.until_equal("items")

    send(follower, ("all", "execute-snapshot", asked), ("stop2", "stop-snapshot", {"type": "incremental"}))
    follower.until(lambda: "ABORTED" in told(follower, "all"))
    assert told(follower, "all") == ["STARTED", "ABORTED"]


@pytest.mark.either_server
def test_a_blocking_snapshot_is_read_in_windows_and_notified_as_an_initial_one(shop: Any) -> None:
    follower = shop()
    send(follower, ("b", "execute-snapshot", {"data-collections": [f"{follower.database}.orders"], "type": "blocking"}))
    follower.until(lambda: any(each["type"] == "COMPLETED" for each in follower.notifications))

    follower.until_equal("orders")
    assert [each["type"] for each in follower.notifications] == ["STARTED", "IN_PROGRESS", "TABLE_SCAN_COMPLETED", "COMPLETED"]
    assert {each["aggregate_type"] for each in follower.notifications} == {"Initial Snapshot"}
    assert len({each["id"] for each in follower.notifications}) == 4


@pytest.mark.either_server
def test_signals_of_a_topic_are_carried_out_once_over_kills_and_begin_where_a_group_has_committed(shop: Any, kafka: Kafka) -> None:
    follower = shop(**{"incremental.snapshot.chunk.size": "50"})
    topic, group, key = f"{follower.name}-signal", f"{follower.name}-group", follower.config["topic.prefix"]
    orders = {"data-collections": [f"{follower.database}.orders"]}
    producer = Producer({"bootstrap.servers": kafka.bootstrap})

    def put(identity: str, kind: str, data: Any = None, *, name: str = key) -> None:
        producer.produce(topic, json.dumps({"id": identity, "type": kind, "data": data}).encode(), name.encode(), partition=0)
        producer.flush(30)

    for number in range(3):
        put(f"old{number}", "execute-snapshot", orders)
    with contextlib.closing(Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group, "enable.auto.commit": False})) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)

        follower.signal_topic = SignalTopicSettings(client={"bootstrap.servers": kafka.bootstrap}, topic=topic, group=group, key=key)
        follower.restart()
        put("other", "execute-snapshot", orders, name="another connector")
        producer.produce(topic, b"{nonsense", key.encode(), partition=0)
        put("log", "log", {"message": "from a topic"})
        with under_writes(follower, statements, pause_s=0.01):
            follower.until(lambda: "IN_PROGRESS" in told(follower, "old2"))
            follower.restart()
            follower.until(lambda: "COMPLETED" in told(follower, "old2"))
            for number in range(3):
                put(f"new{number}", "execute-snapshot", orders)
                follower.until(lambda number=number: "STARTED" in told(follower, f"new{number}"))
                follower.restart()
            follower.until(lambda: "COMPLETED" in told(follower, "new2"))

        follower.until_equal("orders")
        assert [told(follower, f"new{number}").count("STARTED") for number in range(3)] == [1] * 3
        assert [told(follower, f"old{number}").count("STARTED") for number in range(3)] == [0, 0, 1]
        assert not told(follower, "other")
        follower.until(lambda: (consumer.committed([TopicPartition(topic, 0)], timeout=10)[0].offset) == 9)


def test_a_reader_of_signals_that_stands_still_is_replaced_and_no_signal_is_missed_or_doubled(
    shop: Any, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = standing_consumers(monkeypatch, signal_topic)
    monkeypatch.setattr(signal_topic, "END_ASKED_S", 0.1)
    monkeypatch.setattr(signal_topic, "STANDSTILL_S", 1.0)
    follower = shop()
    topic, key = f"{follower.name}-signal", follower.config["topic.prefix"]
    producer = Producer({"bootstrap.servers": kafka.bootstrap})

    def ask(identity: str) -> None:
        orders = {"data-collections": [f"{follower.database}.orders"]}
        signal = {"id": identity, "type": "execute-snapshot", "data": orders}
        producer.produce(topic, json.dumps(signal).encode(), key.encode(), partition=0)
        producer.flush(30)

    ask("first")
    follower.signal_topic = SignalTopicSettings(client={"bootstrap.servers": kafka.bootstrap}, topic=topic, group=topic, key=key)
    follower.restart()
    follower.until(lambda: "COMPLETED" in told(follower, "first"))
    readers[-1].stands_still.set()
    follower.until(readers[-1].stood_still.is_set)
    ask("second")

    follower.until(lambda: "COMPLETED" in told(follower, "second"))
    assert len(readers) == 2
    assert [told(follower, identity).count("STARTED") for identity in ("first", "second")] == [1, 1]


@pytest.mark.either_server
def test_a_topic_of_signals_that_is_away_keeps_nothing_from_being_read(shop: Any) -> None:
    follower = shop()
    follower.signal_topic = SignalTopicSettings(client={"bootstrap.servers": "127.0.0.1:9"}, topic="t", group="g", key="k")
    follower.restart()

    send(follower, ("one", "execute-snapshot", {"data-collections": [f"{follower.database}.orders"]}))
    follower.until(lambda: "COMPLETED" in told(follower, "one"))
    follower.until_equal("orders")


# number 26 of the worker's safety
@pytest.mark.either_server
def test_lines_of_a_file_are_signals_once_over_kills_and_it_is_emptied_behind_them(shop: Any, tmp_path: Path) -> None:
    follower = shop(**{"incremental.snapshot.chunk.size": "50"})
    path = tmp_path / "signals.txt"
    follower.signal_file = SignalFileSettings(path=path, interval_s=0.02)
    follower.restart()

    def line(identity: str) -> str:
        return json.dumps({"id": identity, "type": "execute-snapshot", "data": {"data-collections": [f"{follower.database}.orders"]}})

    path.write_text(f"nonsense\n\n{line('f0')}\n{line('f1')}")  # the last one without a line's end
    with under_writes(follower, statements, pause_s=0.01):
        for number in range(2):
            follower.until(lambda number=number: "STARTED" in told(follower, f"f{number}"))
            follower.restart()
        follower.until(lambda: path.read_text() == "")
        for number in range(2, 5):
            with path.open("a") as file:
                file.write(f"{line(f'f{number}')}\n")
            follower.until(lambda number=number: "STARTED" in told(follower, f"f{number}"))
            follower.restart()
    path.with_name("kept").write_text(f"{line('linked')}\n")
    follower.until(lambda: path.read_text() == "")
    path.unlink()
    path.symlink_to(path.with_name("kept"))
    follower.until(lambda: all("COMPLETED" in told(follower, f"f{number}") for number in range(5)))

    assert [told(follower, f"f{number}").count("STARTED") for number in range(5)] == [1] * 5
    assert not told(follower, "linked"), "a link may lead anywhere"
    assert path.read_text()
    follower.until_equal("orders")
