"""A worker process of a test: the real program on real Kafka, with dummy tasks by default."""

import contextlib
import os
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx
from demo.rest import NO_TLS
from stack import GuardedProcess, Kafka
from stack.process import free_port

_ROOT = Path(__file__).parents[2]
_PROGRAM = Path(__file__).with_name("dummy_worker.py")
T = TypeVar("T")


class Worker:
    """A worker with its own topics; it can be killed and started again."""

    def __init__(
        self,
        kafka: Kafka,
        folder: Path,
        group: str,
        *,
        name: str | None = None,
        tasks: str = "dummy",
        tls: ssl.SSLContext = NO_TLS,
        **settings: str,
    ) -> None:
        """Prepare a worker.

        ``name`` distinguishes several workers of one group; ``tasks`` is dummy or real. ``tls`` is
        the client's TLS context, for a worker whose listener has TLS.
        """
        self.port = free_port()
        self.tls = tls
        self.url = f"{'http' if tls is NO_TLS else 'https'}://127.0.0.1:{self.port}"
        self.id = f"127.0.0.1:{self.port}"
        self.group = group
        self.folder = folder
        self.name = name or group
        self.log = folder / f"{self.name}.log"
        self.properties = {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": group,
            "listeners": self.url,
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            **{f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
            "offset.storage.partitions": "3",
            "dblog.registry.topic": f"{group}-schemas",
            "dblog.log.format": "plain",
            **settings,
        }
        self.process = GuardedProcess(
            f"worker {self.name}",
            [sys.executable, str(_PROGRAM), str(self.write_properties()), tasks],
            log=self.log,
            env={"PYTHONPATH": os.pathsep.join([str(_ROOT / "connect-worker" / "src"), *sys.path]), "TMPDIR": str(folder)},
            ready=self.healthy,
        )
        self.client = httpx.Client(base_url=self.url, timeout=30, verify=self.tls)

    def write_properties(self) -> Path:
        """Write the file of ``properties``, which the next start reads. Return its path."""
        file = self.folder / f"{self.name}.properties"
        file.write_text("".join(f"{name}={text}\n" for name, text in self.properties.items()), encoding="utf-8")
        return file

    def healthy(self) -> bool:
        """Return True if the worker takes requests."""
        try:
            return httpx.get(f"{self.url}/health", timeout=5, verify=self.tls).status_code == 200
        except httpx.TransportError:
            return False

    def __enter__(self) -> Self:
        self.process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.process.stop()

    def create(self, name: str, **config: str) -> httpx.Response:
        """POST a connector that may share its prefix; `dummy_behaviour=` becomes
        `dummy.behaviour`.
        """
        return self.client.post("/connectors", json={"name": name, "config": connector_config(**{"dblog_topics_shared": "true"} | config)})

    def status(self, name: str) -> dict[str, Any] | None:
        """Return the connector's status, None if it does not exist."""
        answer = self.client.get(f"/connectors/{name}/status")
        return None if answer.status_code == 404 else answer.json()

    def wait_for(self, name: str, connector: str, *tasks: str, limit_s: float = 120.0) -> dict[str, Any]:
        """Wait until the connector and its tasks are in these states. Return the status."""

        def seen() -> dict[str, Any] | None:
            status = self.status(name)
            states = None if status is None else (status["connector"]["state"], *(task["state"] for task in status["tasks"]))
            return status if states == (connector, *tasks) else None

        return until(seen, limit_s=limit_s, what=lambda: f"{name} to be {connector} {tasks}, not {self.status(name)}")

    def gone(self, name: str) -> None:
        """Delete a connector, and wait until it no longer exists."""
        self.client.delete(f"/connectors/{name}")
        until(lambda: self.status(name) is None, what=lambda: f"{name} to be gone, not {self.status(name)}")


def connector_config(**config: str) -> dict[str, str]:
    """Return a valid configuration of a MySQL connector."""
    return {
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "tasks.max": "1",
        "database.hostname": "db",
        "database.user": "u",
        "database.password": "sesame-open",
        "database.server.id": "5400",
        "topic.prefix": "shop",
        "schema.history.internal.kafka.topic": "history",
        "schema.history.internal.kafka.bootstrap.servers": "b:9092",
        **{name.replace("_", "."): text for name, text in config.items()},
    }


def postgres_config(**config: str) -> dict[str, str]:
    """Return a minimal valid configuration of a PostgreSQL connector."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "database.hostname": "db",
        "database.user": "u",
        "database.password": "sesame-open",
        "database.dbname": "shop",
        "topic.prefix": "shop",
        **{name.replace("_", "."): text for name, text in config.items()},
    }


def until(
    probe: Callable[[], T | None], *, limit_s: float = 120.0, what: Callable[[], str] = lambda: "a condition", pause_s: float = 0.05
) -> T:
    """Return the probe's first true value. Raise AssertionError after the limit."""
    deadline = time.monotonic() + limit_s
    while True:
        value = probe()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {limit_s} s for {what()}"
        time.sleep(pause_s)


def alive(pid: int) -> bool:
    """Return True if a process exists and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    # ProcessLookupError if it ends between opening and reading.
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@contextlib.contextmanager
def running_worker(kafka: Kafka, folder: Path, group: str, settings: Mapping[str, str] | None = None) -> Iterator[Worker]:
    """Run a worker for the duration of a block."""
    with Worker(kafka, folder, group, **(settings or {})) as worker:
        yield worker
