"""The two sinks under measurement behind one face: a program that reads topics into a lake, until they are read to their end or until it is stopped."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cost import TICKS_PER_S
from demo.pipeline import ROOT
from stack import GuardedProcess, spark_jars
from stack.process import wait_until
from support.json_lines import json_lines

LIMIT_S = 3_600.0
DRIVER_MEMORY = "3g"
NAIVE_BATCH_ROWS = 250_000


def spark_conf(folder: Path) -> dict[str, str]:
    """Of both sinks and of the programs around them."""
    return {
        "spark.ui.enabled": "false",
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.jars": ",".join(map(str, spark_jars())),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a sink is asked to do. ``trigger_s`` 0: read to the end, then stop."""

    name: str
    bootstrap: str
    registry_url: str
    topics: Sequence[str]
    schemas: dict[str, str]
    """The naive sink's: a value schema for each topic."""
    lake: Path
    trigger_s: float = 0
    options: dict[str, str] = field(default_factory=dict)
    """Of our sink only."""


class Run:
    """One run of one sink; CPU time is read from /proc while it runs."""

    def __init__(self, process: GuardedProcess, progress: Path, checkpoint: Path) -> None:
        self.process, self.progress, self.checkpoint = process, progress, checkpoint
        self.cpu_s = 0.0
        self._began_s = 0.0

    def lines(self, kind: str) -> list[dict[str, Any]]:
        """What it has reported so far."""
        return [line for line in json_lines(self.progress) if line["kind"] == kind]

    def pids(self) -> list[int]:
        """The program and everything below it: spark-submit's JVM has Python below it, Python has the JVM."""
        assert self.process.pid is not None
        found, waiting = [], [self.process.pid]
        while waiting:
            found.append(waiting.pop())
            waiting += _children(found[-1])
        return found

    def started(self) -> None:
        """Wait until it has reported that it has started; time and CPU count from here."""
        wait_until(lambda: bool(self.lines("started")) or not self.process.running, timeout_s=300, what=f"{self.process.name} to start")
        if not self.lines("started"):
            raise RuntimeError(f"{self.process.name} ended\n{self.process.log_end()}")
        self._began_s = self._now_cpu_s()

    def to_the_end(self) -> float:
        """Wait until it has read everything and ended; seconds from its start."""
        self.started()
        deadline = time.monotonic() + LIMIT_S
        while self.process.running and time.monotonic() < deadline:
            with contextlib.suppress(OSError, IndexError):
                self.cpu_s = max(self.cpu_s, self._now_cpu_s() - self._began_s)
            time.sleep(0.1)
        stopped = self.lines("stopped")
        if not stopped or self.process.wait(timeout_s=5) != 0:
            raise RuntimeError(f"{self.process.name} failed\n{self.process.log_end()}")
        return float(stopped[0]["at"] - self.lines("started")[0]["at"])

    def _now_cpu_s(self) -> float:
        total = 0.0
        for pid in self.pids():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                total += (int(fields[11]) + int(fields[12])) / TICKS_PER_S
        return total


class Engine:
    """One of the two sinks."""

    key: str

    def __init__(self, folder: Path) -> None:
        self.folder = folder / self.key

    def run(self, job: Job) -> Run:
        """A started program."""
        raise NotImplementedError

    def table(self, lake: Path, table: str) -> Path:
        """Where a table of the database ``shop`` is."""
        return lake / "shop" / table

    def fresh(self, job: Job) -> Path:
        """An empty folder for one run."""
        folder = self.folder / job.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    @contextlib.contextmanager
    def running(self, job: Job) -> Iterator[Run]:
        """A run that is ended by SIGKILL at the latest."""
        run = self.run(job)
        try:
            yield run
        finally:
            run.process.kill()


class Naive(Engine):
    """naive_sink.py."""

    key = "naive"

    def run(self, job: Job, *, base: bool = False) -> Run:
        folder = self.fresh(job)
        progress, checkpoint = folder / "progress.jsonl", folder / "checkpoint"
        topics = {topic: {"path": str(self.table(job.lake, topic.split(".")[-1])), "schema": job.schemas[topic]} for topic in job.topics}
        asked = {
            "bootstrap": job.bootstrap,
            "topics": topics,
            "progress": str(progress),
            "checkpoint": str(checkpoint),
            "trigger_s": job.trigger_s,
            "batch_rows": NAIVE_BATCH_ROWS,
            "base": base,
            # Two hundred partitions, the default, would be all overhead on two cores.
            "spark": {**spark_conf(folder), "spark.sql.shuffle.partitions": "4"},
        }
        (folder / "job.json").write_text(json.dumps(asked, indent=1))
        return Run(self._process(folder, "naive_sink.py"), progress, checkpoint)

    def load(self, job: Job) -> None:
        """A base table, by one append."""
        run = self.run(job, base=True)
        if run.process.wait(timeout_s=LIMIT_S) != 0:
            raise RuntimeError(f"the naive sink's base table was not made\n{run.process.log_end()}")

    @staticmethod
    def _process(folder: Path, program: str) -> GuardedProcess:
        process = GuardedProcess(program, program_argv(program, folder / "job.json"), log=folder / "log", cwd=folder)
        process.start()
        return process


class Ours(Engine):
    """spark-sink/run.py under spark-submit, as its README shows."""

    key = "ours"

    def __init__(self, folder: Path, *, java_options: str, options: dict[str, str]) -> None:
        super().__init__(folder)
        self._java_options = java_options
        self._options = options

    def run(self, job: Job) -> Run:
        folder = self.fresh(job)
        progress, checkpoint = folder / "progress.jsonl", folder / "checkpoint"
        config = {
            "name": job.name,
            "topics": ",".join(job.topics),
            "registry.url": job.registry_url,
            "kafka.bootstrap.servers": job.bootstrap,
            "target.path": str(job.lake),
            "checkpoint.path": str(checkpoint),
            "progress.file": str(progress),
            **({"trigger.interval.s": str(job.trigger_s)} if job.trigger_s else {"trigger.once": "true"}),
            **job.options,
            **self._options,
        }
        (folder / "sink.yaml").write_text(json.dumps(config, indent=1))  # JSON is YAML
        conf = {key: value for key, value in spark_conf(folder).items() if key not in ("spark.jars", "spark.driver.memory")}
        submit = Path(sys.executable).with_name("spark-submit")
        argv = [
            *(str(submit), "--master", "local[2]", "--driver-memory", DRIVER_MEMORY, "--driver-java-options", self._java_options),
            *(argument for key, value in conf.items() for argument in ("--conf", f"{key}={value}")),
            *("--jars", ",".join(map(str, spark_jars())), str(ROOT / "spark-sink" / "run.py"), "--config", str(folder / "sink.yaml")),
        ]
        env = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": ""}
        process = GuardedProcess("the sink", argv, log=folder / "log", env=env, cwd=folder, grace_s=40.0)
        process.start()
        return Run(process, progress, checkpoint)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (thread / "children").read_text().split()]
    return found


def program_argv(program: str, job: Path) -> list[str]:
    """A program of this folder."""
    return [sys.executable, str(Path(__file__).with_name(program)), str(job)]
