"""A dump of one large table by one reader and by several, then the same table asked for again. README.md says what is asked.

python tests/bench/onetable.py [--rows 1000000] [--readers 1 4] [--keys text number] [--again rows verify] [--source mysql]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
from cost import Meter, cpu_s
from demo.pipeline import ROOT, Connector, Worker, create_connector_user
from demo.rest import NO_TLS
from demo.topics import Topics, delete_topics
from machine import machine
from rich.console import Console
from stack import Kafka, MariaDb, MySql
from stack.database import Database
from stack.process import wait_until
from tables import DATABASE, NUMBERS, TEN, Source

FOLDER = ROOT / "build" / "bench" / "onetable"
LIMIT_S = 1800.0
POLL_S = 0.05
KEYS = {"number": TEN.columns, "text": TEN.columns.replace("PRIMARY KEY (id)", "PRIMARY KEY (name), KEY (id)")}
"""The same table with its number for the key, and with its text."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One dump: the connector's own (``mode`` is "first") or a requested one. CPU is the worker's and its task's."""

    mode: str
    key: str
    readers: int
    rows: int
    first_s: float | None
    wall_s: float
    cpu_s: float


def fill(database: Database, keys: list[str], *, rows: int) -> None:
    """A table for each kind of key."""
    source = Source(database)
    source.prepare()
    create_connector_user(database)
    for key in keys:
        source.execute(f"CREATE TABLE {DATABASE}.by_{key} ({KEYS[key]}) ENGINE=InnoDB")
        for start in range(0, rows, NUMBERS):
            source.execute(f"{TEN.insert(f'by_{key}', f'(t.n + {start})')} FROM {DATABASE}.numbers t WHERE t.n < {rows - start}")
        source.execute(f"ANALYZE TABLE {DATABASE}.by_{key}")


def dump(worker: Worker, source: Database, kafka: Kafka, *, key: str, readers: int, rows: int, again: list[str]) -> Iterator[Measured]:
    """One connector's first dump of one table, by a worker that runs; then a requested dump of each mode of ``again``."""
    name = f"{key}{readers}"
    topics = Topics(kafka.bootstrap, [f"{name}.{DATABASE}.by_{key}"])
    connector = Connector(
        name=name,
        prefix=name,
        source=source,
        kafka=kafka,
        database=DATABASE,
        options={
            "table.include.list": rf"{DATABASE}\.by_{key}",
            "dblog.dump.threads": str(readers),
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
        },
    )
    assert worker.pid is not None
    began_s, began_cpu_s, first_s = time.monotonic(), cpu_s(worker.pid), 0.0
    worker.rest.create(name, connector.config)

    def dumped() -> bool:
        nonlocal first_s
        worker.rest.state(name)  # raises when it has failed
        there = topics.records()
        first_s = first_s or (time.monotonic() - began_s if there else 0.0)
        return there >= rows

    wait_until(dumped, timeout_s=LIMIT_S, what=f"{name} to be dumped", pause_s=POLL_S)
    measured = Measured(
        mode="first",
        key=key,
        readers=readers,
        rows=topics.records(),
        first_s=first_s,
        wall_s=time.monotonic() - began_s,
        cpu_s=cpu_s(worker.pid) - began_cpu_s + cpu_s(worker.task_pid() or 0),
    )
    assert measured.rows == rows, f"{name} wrote {measured.rows} records of {rows} rows"
    yield measured
    for mode in again:
        yield requested(worker, name, mode=mode, key=key, readers=readers, rows=rows)
    worker.rest.delete(name)
    wait_until(lambda: worker.task_pid() is None, timeout_s=60, what="the task to end")
    delete_topics(kafka.bootstrap, f"{name}.")


def requested(worker: Worker, name: str, *, mode: str, key: str, readers: int, rows: int) -> Measured:
    """A dump of the connector's table in ``mode``, from its request to DONE."""
    pids = [pid for pid in (worker.pid, worker.task_pid()) if pid is not None]
    wait_until(lambda: worker.rest.dump(name).done, timeout_s=60, what="the first dump's end to be stored")
    meter, began_s = Meter.of(pids), time.monotonic()
    asked = {"tables": [rf"{DATABASE}\.by_{key}"], "mode": mode, "parallelism": readers}
    answer = httpx.post(f"{worker.url}/connectors/{name}/dumps", json=asked, timeout=60, verify=NO_TLS)
    answer.raise_for_status()
    dump = answer.json()["id"]
    status: dict[str, Any] = {}

    def done() -> bool:
        nonlocal status
        status = (worker.rest.requested_dump(name, dump) or {}).get("status", status)
        assert status.get("state") not in {"FAILED", "STOPPED"}, f"{mode} ended: {status}"
        return status.get("state") == "DONE"

    wait_until(done, timeout_s=LIMIT_S, what=f"a dump of {name} to be done", pause_s=POLL_S)
    assert status["rows"] == rows, f"{mode} read {status['rows']} of {rows} rows"
    return Measured(mode=mode, key=key, readers=readers, rows=rows, first_s=None, wall_s=time.monotonic() - began_s, cpu_s=meter.used_s())


def reported(one: Measured) -> str:
    """A line for a reader."""
    first = "" if one.first_s is None else f", the first record after {one.first_s:.2f} s"
    return (
        f"key {one.key}, {one.readers} readers, {one.mode}: {one.wall_s:.1f} s ({one.rows / one.wall_s:.0f} rows/s){first}, "
        f"{one.cpu_s:.1f} CPU-s"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Speed of a dump of one large table, by its readers.")
    parser.add_argument("--source", choices=("mysql", "mariadb"), default="mysql")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--readers", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--keys", choices=tuple(KEYS), nargs="+", default=list(KEYS))
    parser.add_argument("--again", choices=("rows", "repair", "verify"), nargs="+", default=[])
    arguments = parser.parse_args()
    console = Console(highlight=False, width=160)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    kind = {"mysql": MySql, "mariadb": MariaDb}[arguments.source]
    found: list[Measured] = []
    try:
        with (
            kind(FOLDER / arguments.source, durable=False, options={"innodb_buffer_pool_size": "512M"}) as server,
            Kafka(FOLDER / "kafka", lasting=True) as kafka,
        ):
            fill(server, arguments.keys, rows=arguments.rows)
            facts = machine(server)
            console.print(f"{facts}; {arguments.rows} rows are filled")
            for key in arguments.keys:
                for readers in arguments.readers:
                    folder = Path(FOLDER / f"worker_{key}_{readers}")
                    with Worker(
                        kafka, folder, name=f"w{key}{readers}", options={"dblog.registry.topic": f"schemas-{key}-{readers}"}
                    ) as worker:
                        for one in dump(worker, server, kafka, key=key, readers=readers, rows=arguments.rows, again=arguments.again):
                            found.append(one)
                            console.print(reported(one))
    finally:
        for data in (arguments.source, "kafka"):
            shutil.rmtree(FOLDER / data, ignore_errors=True)
    (FOLDER.parent / "onetable.json").write_text(json.dumps({"machine": facts, "dumps": [asdict(one) for one in found]}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
