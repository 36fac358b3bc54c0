"""The two programs under measurement behind one face: a Kafka Connect REST address, connectors, processes, a kill and a start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import httpx
from cost import forget_peak, peak_mib
from demo.pipeline import Connector, Worker, task_pids
from demo.rest import Rest
from postgres import connector_config
from stack import Debezium, Kafka, Postgres
from stack.database import Database
from stack.process import wait_until
from tables import DATABASE

LIMIT_S = 900.0
POLL_S = 0.01

TUNED = {
    "max.queue.size": "65536",
    "max.batch.size": "16384",
    "producer.override.batch.size": str(512 * 1024),
    "producer.override.linger.ms": "20",
    "producer.override.compression.type": "lz4",
}
"""Debezium with the settings that its users come to for throughput."""


class Engine:
    """One of the two. Both take the same connector configuration."""

    def __init__(self, kafka: Kafka, source: Database, *, url: str) -> None:
        self.kafka, self.source, self.url = kafka, source, url
        self.rest = Rest(url)
        self._server_id = 5000

    def pids(self) -> list[int]:
        """All processes whose CPU time counts."""
        raise NotImplementedError

    def forget_peak(self) -> None:
        """Memory is asked for what comes now."""
        raise NotImplementedError

    def peak_mib(self) -> float:
        """Of the process that does the work."""
        raise NotImplementedError

    def kill(self) -> None:
        """SIGKILL to everything."""
        raise NotImplementedError

    def start(self) -> None:
        """After a kill."""
        raise NotImplementedError

    def create(self, name: str, tables: list[str], *, mode: str, options: dict[str, str]) -> None:
        self._server_id += 10
        if isinstance(self.source, Postgres):
            chosen = {"table.include.list": ",".join(f"{DATABASE}.{table}" for table in tables), "snapshot.mode": mode, **options}
            self.rest.create(name, connector_config(self.source, name, chosen))
            wait_until(lambda: self.rest.state(name) == "RUNNING", timeout_s=LIMIT_S, what=f"{name} to run")
            return
        connector = Connector(
            name=name,
            prefix=name,
            source=self.source,
            kafka=self.kafka,
            database=DATABASE,
            options={
                "table.include.list": ",".join(f"{DATABASE}.{table}" for table in tables),
                "snapshot.mode": mode,
                "database.server.id": str(self._server_id + (500_000 if isinstance(self, Peer) else 0)),
                **options,
            },
        )
        self.rest.create(name, connector.config)
        wait_until(lambda: self.rest.state(name) == "RUNNING", timeout_s=LIMIT_S, what=f"{name} to run")

    def stop(self, name: str) -> None:
        """STOPPED, and its tasks ended; the offset is stored."""
        self._put(name, "stop")
        wait_until(lambda: self.rest.state(name) == "-", timeout_s=LIMIT_S, what=f"the task of {name} to stop")

    def resume(self, name: str) -> None:
        self._put(name, "resume")

    def delete(self, name: str) -> None:
        self.stop(name)
        self.rest.delete(name)

    def offsets(self, name: str) -> Any:
        """The stored offsets, for comparison with what they were."""
        return httpx.get(f"{self.url}/connectors/{name}/offsets", timeout=30).raise_for_status().json()

    def _put(self, name: str, verb: str) -> None:
        httpx.put(f"{self.url}/connectors/{name}/{verb}", timeout=60).raise_for_status()


class Ours(Engine):
    """A dblog worker: the herder and one process a task."""

    def __init__(self, worker: Worker, kafka: Kafka, source: Database) -> None:
        super().__init__(kafka, source, url=worker.url)
        self.worker = worker

    def pids(self) -> list[int]:
        assert self.worker.pid is not None
        return [self.worker.pid, *task_pids(self.worker.pid)]

    def forget_peak(self) -> None:
        """Each measurement has a task process of its own."""

    def peak_mib(self) -> float:
        return max(peak_mib(pid) for pid in self.pids()[1:])

    def stop(self, name: str) -> None:
        others = len(self.pids()) - (self.rest.state(name) != "-")
        super().stop(name)
        wait_until(lambda: len(self.pids()) <= others, timeout_s=LIMIT_S, what=f"the task process of {name} to end")

    def kill(self) -> None:
        """The herder; the kernel kills the task processes with it."""
        self.worker.kill()

    def start(self) -> None:
        self.worker.start()


class Peer(Engine):
    """Debezium in Connect: one JVM."""

    def __init__(self, debezium: Debezium, kafka: Kafka, source: Database) -> None:
        super().__init__(kafka, source, url=debezium.url)
        self.debezium = debezium

    def pids(self) -> list[int]:
        assert self.debezium.pid is not None
        return [self.debezium.pid]

    def forget_peak(self) -> None:
        forget_peak(self.pids()[0])

    def peak_mib(self) -> float:
        return peak_mib(self.pids()[0])

    def kill(self) -> None:
        self.debezium.kill()

    def start(self) -> None:
        self.debezium.start()


@dataclass(frozen=True, slots=True)
class Variant:
    """One contestant: an engine with connector options."""

    key: str
    """`ours`, `peer` or `peer_tuned`, as in peer.json."""
    engine: Engine
    options: dict[str, str] = field(default_factory=dict)
