"""`make compare-way-back`: one connector goes from Debezium to dblog and back, again and again, and no change is lost on the way.

Each hand-over is the one that Kafka Connect has for it: stop here, read the offsets, PATCH them there, resume there. The last change before it and the first one
after it are of every kind, on MySQL and MariaDB with DDL in between, written while nobody follows the table. Each version of a row has a number of its own, so
the topic shows which are missing; folded by key it must give the table.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
from demo.connection import connect_to
from demo.pipeline import Connector, Worker, create_connector_user
from demo.rest import NO_TLS
from rich.console import Console
from sides import FOLDER, LIMIT_S, create_topics
from stack import Debezium, Kafka, MariaDb, MySql, Postgres
from stack.database import Database
from stack.process import wait_until
from topics import read

SCHEMA = "way"
NAME = "wayback"
TOPIC = f"{NAME}.{SCHEMA}.t"
SOURCES: dict[str, Callable[..., Database]] = {"mysql": MySql, "mariadb": MariaDb, "postgres": Postgres}

DDL = (
    ("ALTER TABLE {t} ADD COLUMN extra INT DEFAULT 7",),
    ("ALTER TABLE {t} MODIFY COLUMN paid INT AFTER due",),
    tuple(f"ALTER TABLE {{t}} RENAME COLUMN {old} TO {new}" for old, new in (("paid", "other"), ("due", "paid"), ("other", "due"))),
    ("ALTER TABLE {t} DROP COLUMN extra", "ALTER TABLE {t} ADD COLUMN note VARCHAR(20) FIRST"),
)
"""What happens to the table while dblog follows it, one hand-over after the other; of PostgreSQL nothing, whose log describes each table itself.

Two CHANGE of one statement that swap columns are not among it: Debezium's own parser loses one of the two, and its task ends.
"""

CHANGES = ("INSERT", "UPDATE", "DELETE", "TWO")


@dataclass
class Source:
    """The table and all versions of its rows that were ever written."""

    server: Database
    versions: set[int] = field(default_factory=set)
    _ids: itertools.count[int] = field(default_factory=lambda: itertools.count(100))
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def table(self) -> str:
        return f"{SCHEMA}.t"

    def run(self, *statements: str) -> None:
        """In one transaction."""
        with connect_to(self.server)() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement.format(t=self.table))
            connection.commit()

    def rows(self) -> list[tuple[Any, ...]]:
        with connect_to(self.server)() as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT id, paid, due, v FROM {self.table} ORDER BY id")
            return [tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in cursor.fetchall()]

    def change(self, kind: str) -> None:
        """One transaction of one kind; a DELETE leaves no version behind it."""
        match kind:
            case "INSERT":
                self.run(self._insert())
            case "TWO":
                self.run(self._insert(), self._insert())
            case "UPDATE":
                self.run(f"UPDATE {self.table} SET v = {self._number()}, paid = paid + 1 WHERE id = 1")
            case _:
                row = next(self._ids)
                self.run(self._insert(row))
                self.run(f"DELETE FROM {self.table} WHERE id = {row}")

    def _insert(self, row: int | None = None) -> str:
        row = next(self._ids) if row is None else row
        return f"INSERT INTO {self.table} (id, paid, due, v) VALUES ({row}, {row * 10 + 4}, {row * 10 + 5}, {self._number()})"

    def _number(self) -> int:
        number = next(self._numbers)
        self.versions.add(number)
        return number


@dataclass(frozen=True)
class Side:
    """Debezium in Kafka Connect, or dblog."""

    name: str
    url: str

    def ask(self, method: str, path: str, body: object = None) -> httpx.Response:
        return httpx.request(method, f"{self.url}/connectors{path}", json=body, timeout=300, verify=NO_TLS)

    def start(self, config: dict[str, str], offsets: Any) -> None:
        """Create the connector where it is not there yet, and have it go on at the offsets."""
        if self.ask("GET", f"/{NAME}").status_code == httpx.codes.NOT_FOUND:
            state = "RUNNING" if offsets is None else "STOPPED"
            self.ask("POST", "", {"name": NAME, "config": config, "initial_state": state}).raise_for_status()
        if offsets is not None:
            wait_until(self._is_stopped, timeout_s=LIMIT_S, what=f"{self.name} to be stopped")
            wait_until(
                lambda: self.ask("PATCH", f"/{NAME}/offsets", offsets).is_success,
                timeout_s=LIMIT_S,
                what=f"{self.name} to take the offsets",
            )
            self.ask("PUT", f"/{NAME}/resume").raise_for_status()

    def stop(self) -> Any:
        """Stop it; the offsets that it leaves."""
        self.ask("PUT", f"/{NAME}/stop").raise_for_status()
        wait_until(self._is_stopped, timeout_s=LIMIT_S, what=f"{self.name} to stop")
        return self.ask("GET", f"/{NAME}/offsets").raise_for_status().json()

    def failed(self) -> str | None:
        status = self.ask("GET", f"/{NAME}/status").json()
        return next(
            (part["trace"] for part in (status.get("connector", {}), *status.get("tasks", ())) if part.get("state") == "FAILED"), None
        )

    def _is_stopped(self) -> bool:
        answer = self.ask("GET", f"/{NAME}/status")
        return answer.is_success and answer.json()["connector"]["state"] == "STOPPED" and not answer.json()["tasks"]


def run(server: Database, kafka: Kafka, console: Console) -> list[str]:
    """All hand-overs on servers that are up; what went wrong, a sentence each."""
    create_connector_user(server)
    source = Source(server)
    if server.flavor == "postgres":
        source.run(f"CREATE SCHEMA {SCHEMA}", f"GRANT USAGE ON SCHEMA {SCHEMA} TO PUBLIC")
    else:
        source.run("GRANT RELOAD, SHOW DATABASES, LOCK TABLES ON *.* TO 'dblog'@'%'", f"CREATE DATABASE {SCHEMA}")
    source.run("CREATE TABLE {t} (id INT PRIMARY KEY, paid INT, due INT, v INT)")
    if server.flavor == "postgres":
        source.run("GRANT SELECT ON {t} TO PUBLIC", "ALTER TABLE {t} REPLICA IDENTITY FULL", "CREATE PUBLICATION way FOR TABLE {t}")
    source.run("INSERT INTO {t} VALUES (1, 14, 15, 0), (2, 24, 25, 0)")
    create_topics(kafka.bootstrap, [TOPIC])
    options = {"publication.name": "way"} if server.flavor == "postgres" else {"database.server.id": "7100"}
    config = Connector(name=NAME, prefix=NAME, source=server, kafka=kafka, database=SCHEMA, options=options).config
    worker = Worker(kafka, FOLDER / "worker", name="way-back")
    debezium = Debezium(FOLDER / "debezium", kafka, registry_url=worker.url, flavor=server.flavor)
    faults: list[str] = []
    with worker, debezium:
        httpx.put(f"{worker.url}/config", json={"compatibility": "NONE"}, timeout=60).raise_for_status()
        theirs, ours = Side("Debezium", debezium.url), Side("dblog", worker.url)
        offsets = None
        for number, (last, first) in enumerate(itertools.product(CHANGES, ("INSERT", "UPDATE", "TWO"))):
            for side in (theirs, ours):
                side.start(config, offsets)
                source.change("TWO")
                if side is ours and server.flavor != "postgres":
                    for statement in DDL[number] if number < len(DDL) else ():
                        source.run(statement)
                source.change(last)
                faults += awaited(source, kafka, worker, side, f"{last} then {first}", console)
                offsets = side.stop()
                source.change(first)  # while nobody runs
                if faults:
                    return faults
        theirs.start(config, offsets)
        return awaited(source, kafka, worker, theirs, "the last one", console)


def awaited(source: Source, kafka: Kafka, worker: Worker, side: Side, when: str, console: Console) -> list[str]:
    """Wait until the newest version is in the topic, then compare all."""

    def versions_and_rows() -> tuple[set[int], list[tuple[Any, ...]]]:
        rows: dict[int, tuple[Any, ...]] = {}
        seen = set()
        for record in read(kafka.bootstrap, worker.url, NAME, lambda name: name == f"P.{SCHEMA}.t").get(f"P.{SCHEMA}.t", []):
            if record.value is None:
                continue
            after = record.value["after"]
            if after is None:
                rows.pop(record.key["id"], None)
                continue
            rows[after["id"]] = tuple(after.get(name) for name in ("id", "paid", "due", "v"))
            seen.add(after["v"])
        return seen, [rows[key] for key in sorted(rows)]

    def arrived() -> bool:
        if (trace := side.failed()) is not None:
            raise RuntimeError(f"{side.name} failed ({when}): {trace[:1500]}")
        seen, rows = versions_and_rows()
        return max(source.versions) in seen and len(rows) <= len(source.rows())

    wait_until(arrived, timeout_s=LIMIT_S, what=f"{side.name} to write the newest row ({when})", pause_s=1.0)
    seen, rows = versions_and_rows()
    faults = [f"{side.name} ({when}): version {number} is missing" for number in sorted(source.versions - seen)]
    if rows != source.rows():
        faults.append(f"{side.name} ({when}): the topic has {rows}, the table {source.rows()}")
    console.print(
        f"{source.server.flavor}, {side.name}, {when}: {len(seen)} versions, {len(rows)} rows, {len(faults)} faults", markup=False
    )
    return faults


def main() -> int:
    """The exit status: 0 without a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", nargs="*", default=list(SOURCES), choices=list(SOURCES))
    arguments = parser.parse_args()
    console = Console(width=200)
    faults: list[str] = []
    for name in arguments.source:
        shutil.rmtree(FOLDER, ignore_errors=True)
        with Kafka(FOLDER / "kafka") as kafka, SOURCES[name](FOLDER / name) as server:
            faults += run(server, kafka, console)
    for fault in faults:
        console.print(fault, markup=False, style="red")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
