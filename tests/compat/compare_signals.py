"""dblog and a real Debezium get the same signals, in one table of one server, in one topic and in files; the notifications of both are compared field by field.

python tests/compat/compare_signals.py [--source mysql|mariadb|postgres] [--steps "stop of all"]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from accepted_notifications import reason
from confluent_kafka import Consumer, Producer, TopicPartition
from demo.connection import connect_to
from demo.pipeline import CONNECTOR_USER, ROOT, Connector, Worker, create_connector_user
from demo.rest import Rest
from differences import Difference, Differences
from rich.console import Console
from sides import create_topics
from stack import Debezium, Kafka, MariaDb, MySql, Postgres
from stack.database import Database
from stack.process import wait_until
from topics import Decoded, Decoder

FOLDER = ROOT / "build" / "compat-signals"
FILES = FOLDER / "files"
"""A file of signals for each, by the name of its side."""
DATABASE = "signals"
COMMANDS = "signals.commands"
"""The topic of signals."""
LIMIT_S = 120.0
SIDES = ("ours", "peer")
ENDS = ("COMPLETED", "ABORTED")
TRIES = 4
BIG_TIMES = 90
"""The rows of the table that is steered while it is read are as many times as many: seconds of work for either, also beside other work."""

TABLES = (
    "CREATE TABLE debezium_signal (id VARCHAR(120) PRIMARY KEY, type VARCHAR(32) NOT NULL, data VARCHAR(2048))",
    "CREATE TABLE orders (id INT PRIMARY KEY, v INT NOT NULL UNIQUE)",
    "CREATE TABLE lines_of (sku VARCHAR(20), line BIGINT, at TIMESTAMP(3) NULL, PRIMARY KEY (sku, line))",
    "CREATE TABLE nothing (id INT PRIMARY KEY)",
    "CREATE TABLE keyless (a INT, b INT)",
    "CREATE TABLE big (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE numbered (n INT NOT NULL, v INT)",
    "CREATE INDEX by_n ON numbered (n)",
    "CREATE TABLE mark (id INT PRIMARY KEY)",
    "INSERT INTO orders VALUES (1, 10), (2, 20), (3, 30), (4, 40), (5, 50)",
    "INSERT INTO lines_of VALUES ('a', 1, '2026-01-01'), ('a', 2, '2026-01-02'), ('b', 1, NULL)",
    "INSERT INTO keyless VALUES (1, 1), (2, 2), (2, 2)",
    "INSERT INTO numbered VALUES (1, 1), (2, NULL), (3, 3), (4, 4), (5, 5)",
    (
        f"INSERT INTO big WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {BIG_TIMES}) "
        f"SELECT a.i * {BIG_TIMES} + b.i, a.i FROM n a CROSS JOIN n b"
    ),
    "INSERT INTO mark VALUES (1)",
)


PREPARATION = {
    **dict.fromkeys(
        ("mysql", "mariadb"),
        (
            f"GRANT RELOAD, SHOW DATABASES, LOCK TABLES ON *.* TO '{CONNECTOR_USER}'@'%'",
            f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4",
            f"GRANT INSERT, DELETE ON {DATABASE}.* TO '{CONNECTOR_USER}'@'%'",
        ),
    ),
    "postgres": (
        f"CREATE SCHEMA {DATABASE}",
        f"GRANT USAGE ON SCHEMA {DATABASE} TO {CONNECTOR_USER}",
        f"ALTER DEFAULT PRIVILEGES IN SCHEMA {DATABASE} GRANT INSERT, DELETE ON TABLES TO {CONNECTOR_USER}",
        f"CREATE PUBLICATION {DATABASE} FOR ALL TABLES",
    ),
}
"""The database, in PostgreSQL a schema, and what the connectors may do in it."""


@contextlib.contextmanager
def session(server: Database, *, there: bool = True) -> Iterator[Any]:
    """The administrator's, whose statements are committed one by one; ``there``: in the database of the tables."""
    with connect_to(server)() as connection, connection.cursor() as cursor:
        if server.flavor == "postgres":
            connection.autocommit = True
            cursor.execute(f"SET search_path = {DATABASE}")
        else:
            connection.autocommit(True)
            if there:
                cursor.execute(f"USE {DATABASE}")
        yield cursor


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
    wanted: str
    """A pattern: steps that match are made."""

    def wants(self, name: str) -> bool:
        return re.search(self.wanted, name) is not None

    def sql(self, *statements: str) -> None:
        with session(self.server) as cursor:
            for statement in statements:
                cursor.execute(statement)

    def send(self, identity: str, kind: str, data: Any = None) -> None:
        """One signal, into the table that both follow."""
        text = None if data is None else data if isinstance(data, str) else json.dumps(data)
        with session(self.server) as cursor:
            cursor.execute("INSERT INTO debezium_signal VALUES (%s, %s, %s)", (identity, kind, text))

    def produce(self, identity: str, kind: str, data: Any = None) -> None:
        """One signal into the topic, for each of them; a text as it is."""
        for side, prefix in self.prefixes.items():
            self.producer.produce(COMMANDS, _line(side, identity, kind, data).encode(), prefix.encode(), partition=0)
        assert self.producer.flush(30) == 0

    def write(self, identity: str, kind: str, data: Any = None) -> None:
        """One signal into the file of each of them."""
        for side in self.prefixes:
            with (FILES / side).open("a") as file:
                file.write(_line(side, identity, kind, data) + "\n")

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


Way = Callable[[str, str, Any], None]
"""Sends a signal by a channel: id, type, data."""


@dataclass(frozen=True)
class Each:
    """Data that is not the same for both: what a blocking snapshot takes as a filter."""

    ours: Any
    peer: Any


def _line(side: str, identity: str, kind: str, data: Any) -> str:
    data = getattr(data, side) if isinstance(data, Each) else data
    # A record without data ends the thread that the peer reads a topic by, without notice.
    return json.dumps({"id": identity, "type": kind, "data": {} if data is None else data})


def table(name: str) -> str:
    return f"{DATABASE}.{name}"


def filtered(sql: str) -> dict[str, Any]:
    return {"data-collections": [table("orders")], "additional-conditions": [{"data-collection": table("orders"), "filter": sql}]}


SIMPLE: dict[str, dict[str, Any]] = {
    "one table": {"data-collections": [table("orders")], "type": "incremental"},
    "patterns": {"data-collections": [table("lines_of"), r"signals\.(orders|nothing)"]},
    "condition": filtered("v > 10 AND id <> 4"),
    "condition for nothing": filtered("v > 1000"),
    "condition that is no SQL": filtered("v >"),
    "condition of one of two tables, by a pattern": {
        "data-collections": [table("orders"), table("lines_of")],
        "additional-conditions": [{"data-collection": r"signals\.(orders|nothing)", "filter": "v < 40"}],
    },
    "unknown table": {"data-collections": [table("unknown")]},
    "no key": {"data-collections": [table("keyless")]},
    "surrogate key": {"data-collections": [table("orders")], "surrogate-key": "v"},
    "surrogate key and condition": {**filtered("v > 10"), "surrogate-key": "v"},
    "surrogate key of a table without a key": {"data-collections": [table("numbered")], "surrogate-key": "n"},
    "blocking": {"data-collections": [table("orders"), table("lines_of")], "type": "blocking"},
}
"""Data of snapshot signals that end by themselves."""

EVERY_CHANNEL = ("one table", "condition", "unknown table", "surrogate key", "blocking")
"""Those that go by the topic and by the file too."""

BLOCKING_CONDITION = Each(
    {**filtered("v > 10"), "type": "blocking"},
    {**filtered(f"SELECT * FROM {table('orders')} WHERE v > 10"), "type": "blocking"},
)

QUIET: tuple[tuple[str, Any], ...] = (
    ("execute-snapshot", {"data-collections": []}),
    ("no-such-signal", {}),
    ("log", {"message": "Signal message at offset {}"}),
    ("pause-snapshot", None),
    ("resume-snapshot", None),
    ("stop-snapshot", {"type": "incremental"}),
    ("stop-snapshot", {"type": "incremental", "data-collections": [table("orders")]}),
)
"""Signals that nobody is notified of; none of these may end a connector."""

QUIET_BY_THE_TABLE: tuple[tuple[str, Any], ...] = (
    ("execute-snapshot", "{"),
    ("execute-snapshot", {"data-collections": [7]}),
    ("execute-snapshot", {"data-collections": [table("orders")], "type": "sideways"}),
    ("log", {}),
    ("schema-changes", {"database": DATABASE, "schema": None, "changes": []}),
)
"""More of them, by the table alone: the peer reads topic and file by a thread that not every mistake leaves alive."""

UNDER_WAY = {"data-collections": [table("big"), table("orders")]}


def steps(pair: Pair) -> Iterator[tuple[str, dict[str, list[Decoded]], Callable[[Decoded], bool]]]:
    """Each step's name, what both notified, and which of that is compared."""

    def every(_each: Decoded) -> bool:
        return True

    def but_progress(each: Decoded) -> bool:
        return each.value["type"] != "IN_PROGRESS"  # how many there are by then is chance

    ways: dict[str, Way] = {"table": pair.send, "topic": pair.produce, "file": pair.write}
    for channel, way in ways.items():
        for kind, data in SIMPLE.items():
            name = f"{kind}, by the {channel}"
            if pair.wants(name) and (channel == "table" or kind in EVERY_CHANNEL):
                way(name, "execute-snapshot", data)
                pair.until(ENDS, what=f"both to end: {name}")
                yield name, pair.step(name), every

        if pair.wants(name := f"quiet, by the {channel}"):
            for number, (kind, data) in enumerate((*QUIET, *QUIET_BY_THE_TABLE) if channel == "table" else QUIET):
                way(f"quiet {number} by the {channel}", kind, data)
            way(f"behind the quiet by the {channel}", "execute-snapshot", {"data-collections": [table("nothing")]})
            pair.until(ENDS, what=f"both to have read what nobody is notified of, by the {channel}")
            yield name, pair.step(name), every

        if pair.wants(name := f"pause and resume, by the {channel}"):
            yield name, in_time(pair, name, way, paused, "PAUSED"), but_progress
        for what, collections in STOPPED.items():
            if pair.wants(name := f"stop of {what}, by the {channel}"):
                yield name, in_time(pair, name, way, stopped(what, collections), "ABORTED"), but_progress

    if pair.wants(name := "blocking with a condition, by the topic"):
        pair.produce(name, "execute-snapshot", BLOCKING_CONDITION)
        pair.until(ENDS, what="both to end a blocking snapshot with a condition")
        yield name, pair.step(name), every


STOPPED: dict[str, list[str] | None] = {
    "a table that waits": [table("orders")],
    "the table that is read": [r"signals\.big"],
    "a table that is none of it, and then of all": [table("nothing")],
    "both tables by a pattern": [r"signals\..*"],
    "all": None,
}
"""What is stopped of ``UNDER_WAY``."""

Steer = Callable[[Pair, str, Way], None]


def paused(pair: Pair, name: str, way: Way) -> None:
    # The one goes for all that is read, whatever tables it names.
    way(f"{name}: pause", "pause-snapshot", {"type": "incremental", "data-collections": [table("orders")]})
    pair.until(("PAUSED", "COMPLETED"), what=f"both to pause: {name}")
    way(f"{name}: resume", "resume-snapshot", {"type": "incremental"})
    pair.until(("COMPLETED",), what=f"both to end: {name}")


def stopped(what: str, collections: list[str] | None) -> Steer:
    def stop(pair: Pair, name: str, way: Way) -> None:
        named = {} if collections is None else {"data-collections": collections}
        way(f"{name}: stop", "stop-snapshot", {"type": "incremental", **named})
        if what.endswith("of all"):
            way(f"{name}: stop the rest", "stop-snapshot", {"type": "incremental"})
        pair.until(("COMPLETED",) if what in ("a table that waits", "the table that is read") else ENDS, what=f"both to end: {name}")

    return stop


def in_time(pair: Pair, name: str, way: Way, steer: Steer, kind: str) -> dict[str, list[Decoded]]:
    """Steer a snapshot while both read it. Where one was at its end before it heard of that, so that it has notified nothing of this kind, once more."""
    for number in range(TRIES):
        tried = f"{name} {number}"
        way(tried, "execute-snapshot", UNDER_WAY)
        pair.until(("IN_PROGRESS",), what="both to read")
        steer(pair, tried, way)
        notified = pair.step(tried)
        if all(any(each.value["type"] == kind for each in heard) for heard in notified.values()):
            break
    return notified


def run(server: Database, kafka: Kafka, console: Console, wanted: str) -> list[Difference]:
    """All steps on servers that are up; the differences."""
    create_connector_user(server)
    with session(server, there=False) as cursor:
        for statement in PREPARATION[server.flavor]:
            cursor.execute(statement)
    prefixes = {side: f"{side}side" for side in SIDES}
    FILES.mkdir(exist_ok=True)
    worker = Worker(kafka, FOLDER / "worker", name="signals", options={"dblog.signal.files.folder": str(FILES)})
    debezium = Debezium(FOLDER / "debezium", kafka, registry_url=worker.url, flavor=server.flavor)
    found = Differences(server.flavor)
    with worker, debezium:
        rest = {"ours": worker.rest, "peer": Rest(debezium.url)}
        create_topics(kafka.bootstrap, [COMMANDS, *(f"{prefix}.notifications" for prefix in prefixes.values())])
        listeners = {side: Listener(kafka.bootstrap, worker.url, prefix) for side, prefix in prefixes.items()}
        pair = Pair(server, listeners, rest, prefixes, Producer({"bootstrap.servers": kafka.bootstrap}), wanted)
        pair.sql(*TABLES)
        for number, (side, prefix) in enumerate(prefixes.items()):
            connector = Connector(
                name=prefix,
                prefix=prefix,
                source=server,
                kafka=kafka,
                database=DATABASE,
                options={
                    **({"publication.name": DATABASE} if server.flavor == "postgres" else {"database.server.id": str(7000 + number * 10)}),
                    "table.include.list": rf"{DATABASE}\.(orders|lines_of|nothing|keyless|numbered|big|mark)",
                    "signal.enabled.channels": "source,kafka,file",
                    "signal.file": "ours" if side == "ours" else str(FILES / side),
                    "signal.data.collection": f"{DATABASE}.debezium_signal",
                    "signal.kafka.topic": COMMANDS,
                    "signal.kafka.bootstrap.servers": kafka.bootstrap,
                    "signal.kafka.groupId": f"{prefix}-signals",
                    "signal.poll.interval.ms": "50",
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
    parser.add_argument("--source", choices=("mysql", "mariadb", "postgres"), help="default: all three")
    parser.add_argument("--steps", default="", help="a regular expression: steps whose names match; default: all")
    arguments = parser.parse_args()
    console = Console(highlight=False, width=200, soft_wrap=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    opened = 0
    for flavor, kind in (("mysql", MySql), ("mariadb", MariaDb), ("postgres", Postgres)):
        if arguments.source in {None, flavor}:
            with contextlib.ExitStack() as stack:
                server = stack.enter_context(kind(FOLDER / flavor, durable=False))
                kafka = stack.enter_context(Kafka(FOLDER / f"kafka-{flavor}"))
                opened += report(run(server, kafka, console, arguments.steps), console)
            for data in (FOLDER / flavor, FOLDER / f"kafka-{flavor}"):
                shutil.rmtree(data, ignore_errors=True)
    return min(1, opened)


if __name__ == "__main__":
    sys.exit(main())
