"""How fast the worker is, and with how little: two catch-ups and one dump through a real broker. README.md explains each question.

A connector is started through REST and then stopped (catch-up) or made again (dump); time and CPU are taken between the first record in its topic
and the last, so that neither the start of Python nor that of the server counts, as the peer's figures are of a warm JVM.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import httpx
from cost import cpu_s, peak_mib
from demo.pipeline import ROOT, Connector, Worker, create_connector_user
from demo.topics import Topics
from machine import machine
from rich.console import Console
from rich.table import Table
from stack import Kafka, MariaDb, MySql, Unavailable
from stack.database import Database
from stack.process import wait_until
from tables import DATABASE, TEN, Source

FOLDER = ROOT / "build" / "bench"
RUNS = 3
POLL_S = 0.01
LIMIT_S = 300.0

DEBEZIUM_PER_CPU_S = {"bulk": 33_000, "single": 20_800, "dump": 39_800}
"""Debezium 3.6.1 tuned, same table, such a machine: 2 cores, everything on one host, JVM warm (measured for this project, MySQL 9.7)."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: between the first record seen in the topic and the last."""

    rows: int
    wall_s: float
    cpu_s: float
    peak_mib: float

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.wall_s

    @property
    def rows_per_cpu_s(self) -> float:
        return self.rows / self.cpu_s


class Bench:
    """The servers and the worker of one benchmark run."""

    def __init__(self, source: Database, kafka: Kafka, worker: Worker) -> None:
        self.source, self.kafka, self.worker = source, kafka, worker
        self.tables = Source(source)

    def create(self, name: str, table: str, *, mode: str) -> None:
        connector = Connector(
            name=name,
            prefix=name,
            source=self.source,
            kafka=self.kafka,
            database=DATABASE,
            options={
                "table.include.list": f"{DATABASE}.{table}",
                "snapshot.mode": mode,
                "database.server.id": str(5000 + abs(hash(name)) % 100_000),
            },
        )
        self.worker.rest.create(name, connector.config)

    def put(self, name: str, verb: str) -> None:
        httpx.put(f"{self.worker.url}/connectors/{name}/{verb}", timeout=60).raise_for_status()

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(condition, timeout_s=LIMIT_S, what=what, pause_s=POLL_S)

    def topic(self, name: str, table: str) -> Topics:
        return Topics(self.kafka.bootstrap, [f"{name}.{DATABASE}.{table}"])

    def prepare_catch_up(self, question: str, table: str) -> None:
        """Connectors that have stored an offset and stand still, so that what is written next waits for them in the binlog."""
        names = [f"{question}_{run}" for run in range(RUNS)]
        for name in names:
            self.create(name, table, mode="no_data")
            self.wait(lambda name=name: self.worker.rest.state(name) == "RUNNING", f"{name} to run")
        self.tables.execute(TEN.insert(table, "1"))
        for name in names:
            topics = self.topic(name, table)
            self.wait(lambda topics=topics: topics.records() == 1, f"the first row of {name}")
            self.put(name, "stop")
        self.wait(lambda: not self.task_pids(), "the tasks to stop")

    def measure(self, name: str, table: str, *, rows: int, already: int, begin: Callable[[], None]) -> Measured:
        """Begin, and measure until ``rows`` records more than ``already`` are in the topic."""
        topics = self.topic(name, table)
        topics.records()
        begin()
        self.wait(lambda: topics.records() > already, f"the first record of {name}")
        pid = self.task_pids()[0]
        began_s, began_cpu_s, began = time.monotonic(), cpu_s(pid), topics.records()
        self.wait(lambda: topics.records() >= already + rows, f"{rows} records of {name}")
        wall_s, used_s = time.monotonic() - began_s, cpu_s(pid) - began_cpu_s
        measured = Measured(already + rows - began, wall_s, used_s, peak_mib(pid))
        assert topics.records() == already + rows, f"{name} wrote more records than there are rows"
        httpx.delete(f"{self.worker.url}/connectors/{name}", timeout=60).raise_for_status()
        self.wait(lambda: not self.task_pids(), "the task to end")
        return measured

    def task_pids(self) -> list[int]:
        pid = self.worker.task_pid()
        return [] if pid is None else [pid]


def run(source: Database, kafka: Kafka, *, bulk_rows: int, single_rows: int, console: Console) -> dict[str, list[Measured]]:
    """All questions on servers that are up."""
    worker = Worker(
        kafka, FOLDER / "worker", name="bench", options={"producer.compression.type": "lz4", "offset.flush.interval.ms": "60000"}
    )
    results: dict[str, list[Measured]] = {}
    with worker:
        bench = Bench(source, kafka, worker)
        bench.tables.prepare()
        create_connector_user(source)
        writers = (("bulk", bulk_rows, bench.tables.write_many), ("single", single_rows, bench.tables.write_single))
        for question, rows, write in writers:
            table = question
            bench.tables.create(table, TEN)
            bench.prepare_catch_up(question, table)
            began_s = time.monotonic()
            write(table, TEN, rows)
            console.print(f"{question}: {rows:,} rows written to the binlog in {time.monotonic() - began_s:.0f} s")
            results[question] = []
            for name in (f"{question}_{at}" for at in range(RUNS)):
                measured = bench.measure(name, table, rows=rows, already=1, begin=lambda name=name: bench.put(name, "resume"))
                results[question].append(measured)
                console.print(f"  {name}: {_line(measured)}")
        results["dump"] = []
        for name in (f"dump_{at}" for at in range(RUNS)):
            measured = bench.measure(
                name, "bulk", rows=bulk_rows + 1, already=0, begin=lambda name=name: bench.create(name, "bulk", mode="initial")
            )
            results["dump"].append(measured)
            console.print(f"  {name}: {_line(measured)}")
    return results


def _line(m: Measured) -> str:
    return f"{m.wall_s:.2f} s, {m.rows_per_s / 1000:,.0f} k/s, {m.rows_per_cpu_s / 1000:,.0f} k per CPU-s, peak {m.peak_mib:.0f} MiB"


def report(results: dict[str, list[Measured]], facts: dict[str, Any], console: Console) -> None:
    """The table for people and build/bench/worker.json for programs."""
    out: dict[str, Any] = {"machine": facts, "columns": 10, "runs": RUNS, "questions": {}}
    table = Table(
        title=f"worker, median of {RUNS}; {facts['source']}; {facts['cpu']}, {facts['cores']} cores, {facts['memory_gib']} GiB, everything on one host"
    )
    for heading in ("question", "rows", "wall s", "k rows/s", "k rows per CPU-s", "peak MiB", "times Debezium tuned, per CPU-s"):
        table.add_column(heading, justify="left" if heading == "question" else "right")
    for question, runs in results.items():
        median = {
            "rows": runs[0].rows,
            "wall_s": statistics.median(m.wall_s for m in runs),
            "rows_per_s": statistics.median(m.rows_per_s for m in runs),
            "rows_per_cpu_s": statistics.median(m.rows_per_cpu_s for m in runs),
            "peak_mib": max(m.peak_mib for m in runs),
        }
        median["times_debezium"] = median["rows_per_cpu_s"] / DEBEZIUM_PER_CPU_S[question]
        out["questions"][question] = {"median": median, "runs": [asdict(m) for m in runs]}
        cells = (
            f"{median['wall_s']:.2f}",
            f"{median['rows_per_s'] / 1000:,.0f}",
            f"{median['rows_per_cpu_s'] / 1000:,.0f}",
            f"{median['peak_mib']:.0f}",
        )
        table.add_row(question, f"{median['rows']:,}", *cells, f"{median['times_debezium']:.1f}")
    (FOLDER / "worker.json").write_text(json.dumps(out, indent=2) + "\n")
    console.print(table)
    console.print(f"written to {(FOLDER / 'worker.json').relative_to(ROOT)}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Speed and memory of the worker.")
    parser.add_argument("--source", choices=("mysql", "mariadb"), help="default: MySQL if this machine can have it, else MariaDB")
    parser.add_argument("--bulk-rows", type=int, default=1_000_000)
    parser.add_argument("--single-rows", type=int, default=300_000)
    arguments = parser.parse_args()
    console = Console(highlight=False, width=160)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    for flavor, kind in (("mysql", MySql), ("mariadb", MariaDb)):
        if arguments.source not in {None, flavor}:
            continue
        server = kind(FOLDER / flavor, durable=False, options={"innodb_buffer_pool_size": "1G"})
        try:
            server.start()
        except Unavailable as e:
            console.print(f"{flavor} cannot be had here: {e}", markup=False)
            continue
        try:
            with Kafka(FOLDER / "kafka", lasting=True) as kafka:
                results = run(server, kafka, bulk_rows=arguments.bulk_rows, single_rows=arguments.single_rows, console=console)
                report(results, machine(server), console)
            return 0
        finally:
            server.stop()
            for data in (FOLDER / flavor, FOLDER / "kafka"):
                shutil.rmtree(data, ignore_errors=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
