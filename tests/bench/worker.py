"""How fast the worker is, and with how little: two catch-ups and one dump through a real broker. README.md says what each question is.

A connector is started through REST and then stopped (catch-up) or made anew (dump); time and CPU are taken between the first record in its topic
and the last, so that neither the start of Python nor that of the server counts, as the peer's figures are of a warm JVM.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import pymysql
from demo.pipeline import ROOT, Connector, Worker, create_connector_user
from demo.topics import Topics
from rich.console import Console
from rich.table import Table
from stack import Kafka, MariaDb, MySql, Unavailable
from stack.database import Database
from stack.process import wait_until

FOLDER = ROOT / "build" / "bench"
DATABASE = "bench"
RUNS = 3
POLL_S = 0.01
LIMIT_S = 300.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")

COLUMNS = (
    "id bigint NOT NULL AUTO_INCREMENT, amount int NOT NULL, name varchar(60) NOT NULL, price decimal(12,2) NOT NULL, kind smallint NOT NULL,"
    " flag tinyint(1) NOT NULL, made datetime(6) NOT NULL, seen timestamp(3) NOT NULL, note varchar(200) NULL, weight double NOT NULL, PRIMARY KEY (id)"
)
NAMES = "amount, name, price, kind, flag, made, seen, note, weight"
VALUES = (
    "{n} * 7919 % 2000000000, CONCAT('name-', {n}), {n} % 1000000 / 100, {n} % 30000, {n} % 2,"
    " DATE_ADD('2024-01-01', INTERVAL {n} * 1000003 MICROSECOND), DATE_ADD('2024-01-01', INTERVAL {n} * 1003000 MICROSECOND),"
    " RPAD({n}, 30, 'abcdefghij'), {n} / 7"
)

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

    def execute(self, *statements: str) -> None:
        with contextlib.closing(pymysql.connect(**self.source.login, autocommit=True)) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

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
        self.execute(f"INSERT INTO {DATABASE}.{table} ({NAMES}) SELECT {VALUES.format(n=1)}")
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


def cpu_s(pid: int) -> float:
    """User and system time of a process with all its threads, also the ended ones (proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def peak_mib(pid: int) -> float:
    """Peak resident memory."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def write_bulk(bench: Bench, table: str, rows: int) -> None:
    """Statements of 10 000 rows; the server makes rows events of about 8 KiB of each."""
    for start in range(0, rows, 10_000):
        count = min(10_000, rows - start)
        bench.execute(
            f"INSERT INTO {DATABASE}.{table} ({NAMES}) SELECT {VALUES.format(n=f'(t.n + {start})')} FROM {DATABASE}.numbers t WHERE t.n < {count}"
        )


def write_single(bench: Bench, table: str, rows: int) -> None:
    """A transaction a row, written by the server itself."""
    bench.execute(
        f"DROP PROCEDURE IF EXISTS {DATABASE}.one_by_one",
        f"CREATE PROCEDURE {DATABASE}.one_by_one(rows_total INT) BEGIN DECLARE i INT DEFAULT 0; WHILE i < rows_total DO"
        f" INSERT INTO {DATABASE}.{table} ({NAMES}) SELECT {VALUES.format(n='i')}; SET i = i + 1; END WHILE; END",
        f"CALL {DATABASE}.one_by_one({rows})",
    )


def run(source: Database, kafka: Kafka, *, bulk_rows: int, single_rows: int, console: Console) -> dict[str, list[Measured]]:
    """All questions on servers that are up."""
    worker = Worker(
        kafka, FOLDER / "worker", name="bench", options={"producer.compression.type": "lz4", "offset.flush.interval.ms": "60000"}
    )
    results: dict[str, list[Measured]] = {}
    with worker.process:
        bench = Bench(source, kafka, worker)
        bench.execute(f"CREATE DATABASE {DATABASE}", f"CREATE TABLE {DATABASE}.numbers (n int NOT NULL PRIMARY KEY)")
        digits = "(SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)"
        bench.execute(
            f"INSERT INTO {DATABASE}.numbers SELECT a.n * 1000 + b.n * 100 + c.n * 10 + d.n FROM {digits} a, {digits} b, {digits} c, {digits} d"
        )
        create_connector_user(source)
        for question, table, rows, write in (("bulk", "bulk", bulk_rows, write_bulk), ("single", "single", single_rows, write_single)):
            bench.execute(f"CREATE TABLE {DATABASE}.{table} ({COLUMNS}) ENGINE=InnoDB")
            bench.prepare_catch_up(question, table)
            began_s = time.monotonic()
            write(bench, table, rows)
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


def machine(source: Database) -> dict[str, Any]:
    """What the numbers were measured on."""
    cpu = next(
        (line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "?"
    )
    with contextlib.closing(pymysql.connect(**source.login)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        version = cursor.fetchone()[0]
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gib": round(memory_gib),
        "python": platform.python_version(),
        "source": f"{source.flavor} {version}",
    }


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
            with Kafka(FOLDER / "kafka") as kafka:
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
