"""Starts the programs between source and lake as a user does: a broker, the worker, the Spark job.

The worker gets a properties file and takes requests by REST; its task process, which is to be
killed, is found among its children. All files are in one folder. The caller acts as the operator's
supervisor and restarts a killed worker with the same file.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from stack import BRIEF_JVM, Kafka, Server, spark_jars
from stack.database import Database
from stack.process import free_port

from demo.connection import connect_to
from demo.postgres import shop as postgres
from demo.rest import Rest

ROOT = Path(__file__).resolve().parents[2]
CONNECTOR_CLASSES = {
    "mariadb": "io.debezium.connector.mariadb.MariaDbConnector",
    "mysql": "io.debezium.connector.mysql.MySqlConnector",
    "postgres": "io.debezium.connector.postgresql.PostgresConnector",
}
CONNECTOR_USER = "dblog"
CONNECTOR_PASSWORD = "dblog-demo"  # noqa: S105 - of a server that runs for minutes on the loopback interface
AVRO_CONVERTER = "io.confluent.connect.avro.AvroConverter"


class Worker(Server):
    """A dblog worker on a free port.

    ``checkout`` may name another clone with its own virtual environment.
    """

    def __init__(
        self, kafka: Kafka, folder: Path, *, name: str = "demo", options: dict[str, str] | None = None, checkout: Path = ROOT
    ) -> None:
        super().__init__("dblog worker", folder, log="worker.log", env={"PYTHONPATH": str(checkout / "connect-worker" / "src")})
        self.url = f"http://127.0.0.1:{free_port()}"
        self.rest = Rest(self.url)
        self._python = sys.executable if checkout == ROOT else str(checkout / "build/venv/bin/python")
        self._properties = {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": f"dblog-{name}",
            "listeners": self.url,
            **{f"{kind}.storage.topic": f"dblog-{name}-{kind}" for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
            **{f"dblog.{kind}.replication.factor": "1" for kind in ("registry", "dumps.storage")},
            # There is no schema.registry.url, so the worker's own registry serves worker and sink.
            "key.converter": AVRO_CONVERTER,
            "value.converter": AVRO_CONVERTER,
            "offset.flush.interval.ms": "2000",
            **(options or {}),
        }

    def prepare(self) -> list[str]:
        file = self.folder / "worker.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self._properties.items()))
        return [self._python, "-P", "-m", "dblog", "worker", str(file)]

    def answers(self) -> bool:
        return self.rest.healthy()

    def task_pid(self) -> int | None:
        """Return the process id of the only task, None if it does not run."""
        return next(iter(task_pids(self.pid)), None)

    def kill_task(self) -> int | None:
        """Kill the task's process with SIGKILL.

        Return its process id, or None if there was none.
        """
        pid = self.task_pid()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return pid


def task_pids(worker_pid: int | None) -> list[int]:
    """Return the process ids of a worker's running tasks."""
    if not Path("/proc/self").exists():
        return task_pids_by_ps(worker_pid)
    found: list[int] = []
    for child in _children(worker_pid):
        with contextlib.suppress(OSError):
            if b"task" in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0"):
                found.append(child)
    return found


def task_pids_by_ps(worker_pid: int | None) -> list[int]:
    """Return the process ids of a worker's tasks on a system without proc(5)."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=False).stdout
    processes = [line.split() for line in listed.splitlines()]
    return [int(pid) for pid, parent, *arguments in processes if parent == str(worker_pid) and "task" in arguments]


def _children(pid: int | None) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (thread / "children").read_text().split()]
    return found


class Sink(Server):
    """The Spark job, submitted with a YAML file; two cores of this machine are its cluster."""

    def __init__(self, kafka: Kafka, folder: Path, *, registry_url: str, prefix: str, database: str, name: str = "demo") -> None:
        super().__init__(
            "Spark sink",
            folder,
            log="sink.log",
            env={
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "PYTHONPATH": "",
                "SPARK_LOCAL_DIRS": str(folder / "spark-local"),
            },
            grace_s=20.0,
        )
        self.cwd = self.folder
        self.lake = folder / "lake"
        folder.mkdir(parents=True, exist_ok=True)
        self.jars = tuple(spark_jars())
        self.progress_file = folder / "sink-progress.jsonl"
        config = {
            "name": name,
            # The chunk markers show what a dump has sent.
            "topics.pattern": rf"{prefix}\.{database}\..*|__dblog-chunks\.{prefix}",
            "registry.url": registry_url,
            "registry.wait.max.s": 120,
            "kafka.bootstrap.servers": kafka.bootstrap,
            # Interval for finding new topics.
            "kafka.metadata.max.age.ms": 5000,
            "target.path": str(self.lake),
            "trigger.interval.s": 1,
            # Nothing is late on one machine, so dumped chunks are judged soon.
            "chunks.wait.s": 5,
            "progress.file": str(self.progress_file),
        }
        self.config_file = folder / "sink.yaml"
        self.config_file.write_text(json.dumps(config, indent=2))  # JSON is YAML

    def prepare(self) -> list[str]:
        conf = {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            # A run of minutes ends before the optimizing compiler pays (150 000 rows: 87 CPU-s with
            # it, 58 without), and before a collector with threads of its own does.
            "spark.driver.extraJavaOptions": f"{BRIEF_JVM} -XX:+UseSerialGC -Dderby.system.home={self.folder}",
            "spark.sql.warehouse.dir": str(self.folder / "spark-warehouse"),
        }
        return [
            str(Path(sys.executable).with_name("spark-submit")),
            *("--master", "local[2]", "--driver-memory", "3g"),
            *(part for key, value in conf.items() for part in ("--conf", f"{key}={value}")),
            *("--jars", ",".join(map(str, self.jars))),
            str(ROOT / "spark-sink" / "run.py"),
            *("--config", str(self.config_file)),
        ]

    def answers(self) -> bool:
        """Return True as soon as the process runs; the destination's waits check what it writes."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """A source connector configured as in Debezium's tutorial; only the last lines are ours."""

    name: str
    prefix: str
    source: Database
    kafka: Kafka
    database: str
    options: dict[str, str] = field(default_factory=dict)

    @property
    def config(self) -> dict[str, str]:
        """Body of the POST request."""
        return {
            "connector.class": CONNECTOR_CLASSES[self.source.flavor],
            "tasks.max": "1",
            "database.hostname": self.source.host,
            "database.port": str(self.source.port),
            "database.user": CONNECTOR_USER,
            "database.password": CONNECTOR_PASSWORD,
            "topic.prefix": self.prefix,
            **(self._of_postgres if self.source.flavor == "postgres" else self._of_mysql),
            **self.options,
        }

    @property
    def _of_mysql(self) -> dict[str, str]:
        return {
            "database.server.id": "184054",
            "database.include.list": self.database,
            "schema.history.internal.kafka.bootstrap.servers": self.kafka.bootstrap,
            "schema.history.internal.kafka.topic": f"{self.prefix}.schema-history",
            # The whole range of BIGINT UNSIGNED, and not Debezium's wrapped default.
            "bigint.unsigned.handling.mode": "precise",
        }

    @property
    def _of_postgres(self) -> dict[str, str]:
        return {
            "database.dbname": str(self.source.login["dbname"]),
            "schema.include.list": self.database,
            "plugin.name": "pgoutput",
            "slot.name": re.sub(r"[^a-z0-9_]", "_", self.name.lower()),
            "publication.name": postgres.PUBLICATION,
            "publication.autocreate.mode": "disabled",
        }


def create_connector_user(source: Database) -> None:
    """Create the account of a connector with exactly the privileges that it needs."""
    if source.flavor == "postgres":
        postgres.create_connector_user(connect_to(source), user=CONNECTOR_USER, password=CONNECTOR_PASSWORD)
        return
    account = f"'{CONNECTOR_USER}'@'%'"
    monitor = "BINLOG MONITOR" if source.flavor == "mariadb" else "REPLICATION CLIENT"
    with connect_to(source)() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE USER IF NOT EXISTS {account} IDENTIFIED BY '{CONNECTOR_PASSWORD}'")
        cursor.execute(f"GRANT SELECT, REPLICATION SLAVE, {monitor} ON *.* TO {account}")
        cursor.execute(f"GRANT CREATE, SELECT, INSERT, UPDATE ON dblog.* TO {account}")
