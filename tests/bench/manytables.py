"""A dump of many small tables: from the request to the last record in its topic, topics and schemas included. README.md says what is asked.

python tests/bench/manytables.py [--tables 1000] [--rows 100] [--source mysql] [--before FOLDER]
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
from cost import Meter, cpu_s, peak_mib
from demo.pipeline import ROOT, Connector, Worker, create_connector_user
from demo.rest import NO_TLS
from demo.topics import Topics, delete_topics
from machine import machine
from rich.console import Console
from stack import Kafka, MariaDb, MySql
from stack.database import Database
from stack.process import wait_until
from tables import DATABASE, TEN, Source

FOLDER = ROOT / "build" / "bench" / "manytables"
LIMIT_S = 900.0
POLL_S = 0.1
RARE_POLL_S = 0.5
"""Asking a broker for the ends of a thousand topics ten times a second would take a good part of a small machine."""
RARE_SHARE = 0.9
"""Of the records: until then it is asked rarely."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One dump. CPU is the worker's and its task's, and what broker, database and this program took beside them; the peak is the task's."""

    tables: int
    rows: int
    wall_s: float
    cpu_s: float
    herder_cpu_s: float
    task_cpu_s: float
    broker_cpu_s: float
    database_cpu_s: float
    bench_cpu_s: float
    peak_mib: float
    offset_chars_max: int


class Bench:
    """The servers, with the tables filled."""

    def __init__(self, source: Database, kafka: Kafka, *, tables: int, rows: int) -> None:
        self.source, self.kafka, self.rows = source, kafka, rows
        self.names = [f"t{n:05}" for n in range(tables)]

    def fill(self) -> None:
        source = Source(self.source)
        source.prepare()
        create_connector_user(self.source)
        for start in range(0, len(self.names), 100):
            some = self.names[start : start + 100]
            source.execute(*(f"CREATE TABLE {DATABASE}.{name} ({TEN.columns}) ENGINE=InnoDB" for name in some))
            source.execute(*(f"{TEN.insert(name, 't.n')} FROM {DATABASE}.numbers t WHERE t.n < {self.rows}" for name in some))

    def dump(self, worker: Worker, name: str) -> Measured:
        """One connector's first dump, by a worker that runs."""
        topics = Topics(self.kafka.bootstrap, [f"{name}.{DATABASE}.{table}" for table in self.names])
        wanted = len(self.names) * self.rows
        connector = Connector(
            name=name,
            prefix=name,
            source=self.source,
            kafka=self.kafka,
            database=DATABASE,
            options={
                "table.include.list": rf"{DATABASE}\.t\d+",
                "database.server.id": str(5000 + abs(hash(name)) % 100_000),
                "topic.creation.default.partitions": "1",
                "topic.creation.default.replication.factor": "1",
            },
        )
        herder, broker, database = Meter.of([worker.pid or 0]), Meter.of([self.kafka.pid or 0]), Meter.of([self.source.pid or 0])
        began_s, began_bench_s, longest = time.monotonic(), time.process_time(), 0
        worker.rest.create(name, connector.config)

        def dumped(records: float) -> bool:
            nonlocal longest
            worker.rest.state(name)  # raises when it has failed
            longest = max(longest, len(self._offset(worker, name)))
            return topics.records() >= records

        for share, pause_s in ((RARE_SHARE, RARE_POLL_S), (1.0, POLL_S)):
            wait_until(lambda share=share: dumped(share * wanted), timeout_s=LIMIT_S, what=f"{name} to be dumped", pause_s=pause_s)
        wall_s = time.monotonic() - began_s
        task = worker.task_pid() or 0
        task_cpu_s, herder_cpu_s = cpu_s(task), herder.used_s()
        measured = Measured(
            tables=len(self.names),
            rows=topics.records(),
            wall_s=wall_s,
            cpu_s=herder_cpu_s + task_cpu_s,
            herder_cpu_s=herder_cpu_s,
            task_cpu_s=task_cpu_s,
            broker_cpu_s=broker.used_s(),
            database_cpu_s=database.used_s(),
            bench_cpu_s=time.process_time() - began_bench_s,
            peak_mib=peak_mib(task),
            offset_chars_max=longest,
        )
        assert measured.rows == wanted, f"{name} wrote {measured.rows} records of {wanted} rows"
        wait_until(lambda: worker.rest.dump(name).done, timeout_s=60, what=f"{name} to store that it is done")
        worker.rest.delete(name)
        wait_until(lambda: worker.task_pid() is None, timeout_s=60, what="the task to end")
        delete_topics(self.kafka.bootstrap, f"{name}.")
        return measured

    def _offset(self, worker: Worker, name: str) -> str:
        found = httpx.get(f"{worker.url}/connectors/{name}/offsets", timeout=30, verify=NO_TLS).json().get("offsets", [])
        return str(found[0]["offset"].get("dblog_dump", "")) if found and found[0]["offset"] else ""


def run(bench: Bench, checkouts: dict[str, Path], *, rounds: int, console: Console) -> dict[str, list[Measured]]:
    """The rounds of each checkout in turn; each dump by a worker of its own, whose start is not in it."""
    results: dict[str, list[Measured]] = {which: [] for which in checkouts}
    for at in range(rounds):
        for which, checkout in checkouts.items():
            folder = FOLDER / f"worker_{which}_{at}"
            # Registering is part of the work, so each dump has a registry of its own.
            options = {"dblog.registry.topic": f"schemas-{which}-{at}", "offset.flush.interval.ms": "60000"}
            with Worker(bench.kafka, folder, name=f"{which}{at}", options=options, checkout=checkout) as worker:
                measured = bench.dump(worker, f"{which}{at}")
            results[which].append(measured)
            console.print(
                f"{which} {at}: {measured.wall_s:.1f} s, {measured.cpu_s:.1f} CPU-s (herder {measured.herder_cpu_s:.1f}, task {measured.task_cpu_s:.1f}; "
                f"broker {measured.broker_cpu_s:.1f}, database {measured.database_cpu_s:.1f}, this {measured.bench_cpu_s:.1f}), peak {measured.peak_mib:.0f} MiB, "
                f"dump state in the offset at most {measured.offset_chars_max} characters"
            )
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description="Speed of a dump of many small tables.")
    parser.add_argument("--source", choices=("mysql", "mariadb"), default="mysql")
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--before", type=Path, metavar="FOLDER", help="another checkout, in which `make setup` has run, in turn with this one"
    )
    arguments = parser.parse_args()
    console = Console(highlight=False, width=160)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    kind = {"mysql": MySql, "mariadb": MariaDb}[arguments.source]
    checkouts = {"now": ROOT, **({"before": arguments.before.resolve()} if arguments.before else {})}
    try:
        with (
            kind(FOLDER / arguments.source, durable=False, options={"innodb_buffer_pool_size": "512M"}) as server,
            Kafka(FOLDER / "kafka", lasting=True) as kafka,
        ):
            bench = Bench(server, kafka, tables=arguments.tables, rows=arguments.rows)
            bench.fill()
            facts = machine(server)
            console.print(f"{facts}; {arguments.tables} tables of {arguments.rows} rows are filled")
            results = run(bench, checkouts, rounds=arguments.rounds, console=console)
    finally:
        for data in (arguments.source, "kafka"):
            shutil.rmtree(FOLDER / data, ignore_errors=True)
    for which, found in results.items():
        console.print(
            f"{which}: median {statistics.median(m.wall_s for m in found):.1f} s, {statistics.median(m.cpu_s for m in found):.1f} CPU-s"
        )
    report = {"machine": facts, **{which: [asdict(m) for m in found] for which, found in results.items()}}
    (FOLDER.parent / "manytables.json").write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
