"""dblog and a real Debezium get the same signals, in one table of one server and in one topic; the notifications of both are compared field by field.

python tests/compat/compare_signals.py [--source mysql|mariadb]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pymysql
from accepted_notifications import reason
from compare import create_topics
from confluent_kafka import Consumer, Producer, TopicPartition
from demo.pipeline import CONNECTOR_USER, ROOT, Connector, Worker, create_connector_user
from demo.rest import Rest
from differences import Difference, Differences
from rich.console import Console
from stack import Debezium, Kafka, MariaDb, MySql
from stack.database import Database
from stack.process import wait_until
from topics import Decoded, Decoder

FOLDER = ROOT / "build" / "compat-signals"
DATABASE = "signals"
COMMANDS = "signals.commands"
"""The topic of signals."""
LIMIT_S = 300.0
SIDES = ("ours", "peer")
ENDS = ("COMPLETED", "ABORTED")
BIG_ROWS = 1000

TABLES = (
    "CREATE TABLE debezium_signal (id VARCHAR(42) PRIMARY KEY, type VARCHAR(32) NOT NULL, data VARCHAR(2048))",
    "CREATE TABLE orders (id INT PRIMARY KEY, v INT NOT NULL UNIQUE)",
    "CREATE TABLE lines_of (sku VARCHAR(20), line BIGINT, at DATETIME(3), PRIMARY KEY (sku, line))",
    "CREATE TABLE nothing (id INT PRIMARY KEY)",
    "CREATE TABLE keyless (a INT, b INT)",
    "CREATE TABLE big (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE mark (id INT PRIMARY KEY)",
    "INSERT INTO orders VALUES (1, 10), (2, 20), (3, 30), (4, 40), (5, 50)",
    "INSERT INTO lines_of VALUES ('a', 1, '2026-01-01'), ('a', 2, '2026-01-02'), ('b', 1, NULL)",
    "INSERT INTO keyless VALUES (1, 1), (2, 2), (2, 2)",
    f"INSERT INTO big WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {BIG_ROWS}) SELECT i, i FROM n",
    "INSERT INTO mark VALUES (1)",
)


class Listener:
    """What one side has notified so far."""

    def __init__(self, bootstrap: str, registry_url: str, prefix: str) -> None:
        self.heard: list[Decoded] = []
        self.taken = 0
        self._decoder = Decoder(registry_url, prefix)
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"signals-{prefix}", "enable.auto.commit": False})
        self._consumer.assign([TopicPartition(f"{prefix}.notifications", 0, 0)])

    def listen(self) -> list[Decoded]:
        """All of it."""
        while (message := self._consumer.poll(0.05)) is not None:
            assert message.error() is None, message.error()
            key, key_schema = self._decoder.decode(message.key())
            value, value_schema = self._decoder.decode(message.value())
            self.heard.append(Decoded(key, value, key_schema, value_schema, tuple(message.headers() or ()), message.partition()))
        return self.heard

    def new(self) -> list[Decoded]:
        """Since the last step."""
        return self.listen()[self.taken :]

    def close(self) -> None:
        self._consumer.close()


@dataclass(frozen=True)
class Pair:
    """Both sides at the same signals."""

    server: Database
    listeners: dict[str, Listener]
    rest: dict[str, Rest]
    prefixes: dict[str, str]
    producer: Producer

    def sql(self, *statements: str) -> None:
        with pymysql.connect(**self.server.login, database=DATABASE, autocommit=True) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def send(self, identity: str, kind: str, data: Any = None) -> None:
        """One signal, into the table that both follow."""
        text = None if data is None else data if isinstance(data, str) else json.dumps(data)
        with pymysql.connect(**self.server.login, database=DATABASE, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("INSERT INTO debezium_signal VALUES (%s, %s, %s)", (identity, kind, text))

    def produce(self, identity: str, kind: str, data: Any) -> None:
        """One signal into the topic, for each of them."""
        for prefix in self.prefixes.values():
            self.producer.produce(COMMANDS, json.dumps({"id": identity, "type": kind, "data": data}).encode(), prefix.encode(), partition=0)
        assert self.producer.flush(30) == 0

    def until(self, kinds: tuple[str, ...], *, count: int = 1, what: str) -> None:
        """Both have notified so many of these in this step."""

        def reached() -> bool:
            for side, listener in self.listeners.items():
                self.rest[side].state(self.prefixes[side])  # raises with its trace when it has failed
                if sum(each.value["type"] in kinds for each in listener.new()) < count:
                    return False
            return True

        wait_until(reached, timeout_s=LIMIT_S, what=what, pause_s=0.3)

    def step(self, name: str) -> dict[str, list[Decoded]]:
        """What both have notified since the last one: up to a small snapshot that ends it."""
        mark = f"mark-{name}"
        found: dict[str, list[Decoded]] = {}
        self.send(mark, "execute-snapshot", {"data-collections": [f"{DATABASE}.mark"]})
        for side, listener in self.listeners.items():

            def ended(listener: Listener = listener) -> bool:
                return any(each.value["id"] == mark and each.value["type"] == "COMPLETED" for each in listener.new())

            wait_until(ended, timeout_s=LIMIT_S, what=f"{side} to end the step {name}", pause_s=0.3)
            found[side] = [each for each in listener.new() if each.value["id"] != mark]
            listener.taken = len(listener.heard)
        return found


def table(name: str) -> str:
    return f"{DATABASE}.{name}"


def filtered(sql: str) -> dict[str, Any]:
    return {"data-collections": [table("orders")], "additional-conditions": [{"data-collection": table("orders"), "filter": sql}]}


SIMPLE: dict[str, tuple[tuple[str, Any], ...]] = {
    "one table": (("execute-snapshot", {"data-collections": [table("orders")], "type": "incremental"}),),
    "patterns": (("execute-snapshot", {"data-collections": [table("lines_of"), r"signals\.(orders|nothing)"]}),),
    "condition": (("execute-snapshot", filtered("v > 10 AND id <> 4")),),
    "condition for nothing": (("execute-snapshot", filtered("v > 1000")),),
    "condition that is no SQL": (("execute-snapshot", filtered("v >")),),
    "unknown table": (("execute-snapshot", {"data-collections": [table("unknown")]}),),
    "no key": (("execute-snapshot", {"data-collections": [table("keyless")]}),),
    "surrogate key": (("execute-snapshot", {"data-collections": [table("orders")], "surrogate-key": "v"}),),
    "blocking": (("execute-snapshot", {"data-collections": [table("orders"), table("lines_of")], "type": "blocking"}),),
}
"""Signals that end by themselves."""

MALFORMED: tuple[tuple[str, Any], ...] = (
    ("execute-snapshot", "{"),
    ("execute-snapshot", {"data-collections": []}),
    ("execute-snapshot", {"data-collections": [7]}),
    ("execute-snapshot", {"data-collections": [table("orders")], "type": "sideways"}),
    ("no-such-signal", {}),
    ("log", {"message": "Signal message at offset {}"}),
    ("log", {}),
    ("pause-snapshot", None),
    ("resume-snapshot", None),
    ("stop-snapshot", {"type": "incremental"}),
)
"""Signals that nobody is notified of; none of these may end a connector."""


def steps(pair: Pair) -> Iterator[tuple[str, dict[str, list[Decoded]], Callable[[Decoded], bool]]]:
    """Each step's name, what both notified, and which of that is compared."""

    def every(_each: Decoded) -> bool:
        return True

    def but_progress(each: Decoded) -> bool:
        return each.value["type"] != "IN_PROGRESS"  # how many there are by then is chance

    for name, signals in SIMPLE.items():
        for number, (kind, data) in enumerate(signals):
            pair.send(f"{name} {number}", kind, data)
        pair.until(ENDS, what=f"both to end: {name}")
        yield name, pair.step(name), every

    pair.produce("by a topic", "execute-snapshot", {"data-collections": [table("orders")], "type": "incremental"})
    pair.until(ENDS, what="both to end what a topic asked for")
    yield "signal of a topic", pair.step("topic"), every

    for number, (kind, data) in enumerate(MALFORMED):
        pair.send(f"malformed {number}", kind, data)
    yield "malformed", pair.step("malformed"), every

    pair.send("paused", "execute-snapshot", {"data-collections": [table("big"), table("orders")]})
    pair.until(("IN_PROGRESS",), what="both to read")
    pair.send("pause", "pause-snapshot", {"type": "incremental"})
    pair.until(("PAUSED",), what="both to pause")
    pair.send("resume", "resume-snapshot", {"type": "incremental"})
    pair.until(("COMPLETED",), what="both to end what was paused")
    yield "pause and resume", pair.step("pause"), but_progress

    pair.send("stopped in part", "execute-snapshot", {"data-collections": [table("big"), table("orders")]})
    pair.until(("IN_PROGRESS",), what="both to read")
    pair.send("stop one", "stop-snapshot", {"type": "incremental", "data-collections": [table("orders")]})
    pair.until(("COMPLETED",), what="both to end what was stopped in part")
    yield "stop of a table that waits", pair.step("stop one"), but_progress

    pair.send("stopped", "execute-snapshot", {"data-collections": [table("big"), table("orders")]})
    pair.until(("IN_PROGRESS",), what="both to read")
    pair.send("stop all", "stop-snapshot", {"type": "incremental"})
    pair.until(("ABORTED",), what="both to stop")
    yield "stop of all", pair.step("stop all"), but_progress


def run(server: Database, kafka: Kafka, console: Console) -> list[Difference]:
    """All steps on servers that are up; the differences."""
    create_connector_user(server)
    with pymysql.connect(**server.login, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"GRANT RELOAD, SHOW DATABASES, LOCK TABLES ON *.* TO '{CONNECTOR_USER}'@'%'")
        cursor.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
        cursor.execute(f"GRANT INSERT, DELETE ON {DATABASE}.* TO '{CONNECTOR_USER}'@'%'")
        cursor.execute(f"USE {DATABASE}")
    prefixes = {side: f"{side}side" for side in SIDES}
    worker = Worker(kafka, FOLDER / "worker", name="signals")
    debezium = Debezium(FOLDER / "debezium", kafka, registry_url=worker.url, flavor=server.flavor)
    found = Differences(server.flavor)
    with worker, debezium:
        rest = {"ours": worker.rest, "peer": Rest(debezium.url)}
        create_topics(kafka.bootstrap, [COMMANDS, *(f"{prefix}.notifications" for prefix in prefixes.values())])
        listeners = {side: Listener(kafka.bootstrap, worker.url, prefix) for side, prefix in prefixes.items()}
        pair = Pair(server, listeners, rest, prefixes, Producer({"bootstrap.servers": kafka.bootstrap}))
        pair.sql(*TABLES)
        for number, (side, prefix) in enumerate(prefixes.items()):
            connector = Connector(
                name=prefix,
                prefix=prefix,
                source=server,
                kafka=kafka,
                database=DATABASE,
                options={
                    "database.server.id": str(7000 + number * 10),
                    "table.include.list": rf"{DATABASE}\.(orders|lines_of|nothing|keyless|big|mark)",
                    "signal.enabled.channels": "source,kafka",
                    "signal.data.collection": f"{DATABASE}.debezium_signal",
                    "signal.kafka.topic": COMMANDS,
                    "signal.kafka.bootstrap.servers": kafka.bootstrap,
                    "signal.kafka.groupId": f"{prefix}-signals",
                    "signal.poll.interval.ms": "500",
                    "incremental.snapshot.chunk.size": "2",
                    "notification.enabled.channels": "sink,log",
                    "notification.sink.topic.name": f"{prefix}.notifications",
                    "poll.interval.ms": "10",
                    **({"errors.retry.timeout": "-1"} if side == "peer" else {}),
                },
            )
            rest[side].create(prefix, connector.config)
        try:
            pair.until(("COMPLETED",), what="both to end their initial snapshots")
            compare(found, "initial snapshot", pair.step("initial"))
            for name, notified, compared in steps(pair):
                compare(found, name, {side: [each for each in heard if compared(each)] for side, heard in notified.items()})
                console.print(
                    f"{server.flavor}: {name}: {', '.join(f'{side} {len(heard)}' for side, heard in notified.items())}", markup=False
                )
        finally:
            for listener in listeners.values():
                listener.close()
    console.print(f"{server.flavor}: {found.compared} notifications compared", markup=False)
    return list(found.found.values())


def compare(found: Differences, step: str, notified: dict[str, list[Decoded]]) -> None:
    """The same notifications in the same order; ids that are a signal's are compared, those that are drawn are not, and no moments. The tables of an initial
    snapshot have no order at the peer, nor have the entries of a map.
    """
    mine, theirs = (sorted(map(_bare, notified[side]), key=_place) for side in SIDES)
    found.compare_logs({step: mine}, {step: theirs})


def _place(each: Decoded) -> tuple[int, str, str]:
    if each.value["aggregate_type"] != "Initial Snapshot":
        return 0, "", ""  # as they came
    data = each.value["additional_data"]
    name = data.get("current_collection_in_progress", data.get("scanned_collection", ""))
    return (1 if name else 0 if each.value["type"] == "STARTED" else 2), name, each.value["type"]


def _bare(each: Decoded) -> Decoded:
    value = {name: item for name, item in each.value.items() if name != "timestamp"}
    if len(str(value["id"])) == len("00000000-0000-0000-0000-000000000000") and str(value["id"]).count("-") == 4:
        value["id"] = "(drawn)"
    data = dict(sorted(value["additional_data"].items()))
    if "data_collections" in data and (value["type"] == "ABORTED" or value["aggregate_type"] == "Initial Snapshot"):
        data["data_collections"] = ",".join(sorted(data["data_collections"].split(",")))
    value["additional_data"] = data
    assert each.key == {"id": each.value["id"]}
    # The differences align records by op.
    return Decoded({"id": value["id"]}, {"op": value["type"], **value}, each.key_schema, each.value_schema, each.headers, each.partition)


def report(found: list[Difference], console: Console) -> int:
    """Print what differs; the number of differences that nobody has accepted."""
    opened = 0
    for d in found:
        d.accepted = reason(d)
        opened += d.accepted is None
        console.print(
            f"{'accepted' if d.accepted else 'DIFFERS'} {d.phase}, {d.topic}, {d.where}, {d.count}x in {d.record[:80]}", markup=False
        )
        console.print(f"    ours {d.ours!r:.300}\n    peer {d.peer!r:.300}\n    {d.accepted or ''}", markup=False)
    console.print(f"{opened} differences that are not declared", markup=False)
    return opened


def main() -> int:
    parser = argparse.ArgumentParser(description="dblog's notifications against a real Debezium's.")
    parser.add_argument("--source", choices=("mysql", "mariadb"), help="default: both")
    arguments = parser.parse_args()
    console = Console(highlight=False, width=200, soft_wrap=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    found: list[Difference] = []
    for flavor, kind in (("mysql", MySql), ("mariadb", MariaDb)):
        if arguments.source in {None, flavor}:
            with contextlib.ExitStack() as stack:
                server = stack.enter_context(kind(FOLDER / flavor, durable=False))
                kafka = stack.enter_context(Kafka(FOLDER / f"kafka-{flavor}"))
                found += run(server, kafka, console)
            for data in (FOLDER / flavor, FOLDER / f"kafka-{flavor}"):
                shutil.rmtree(data, ignore_errors=True)
    return min(1, report(found, console))


if __name__ == "__main__":
    sys.exit(main())
