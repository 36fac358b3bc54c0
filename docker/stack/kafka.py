"""A Kafka broker: one KRaft node that is its own controller."""

import base64
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from stack.commands import run
from stack.maven import jars, java
from stack.process import GuardedProcess, free_port

LOG4J = """\
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %c{1} %m%n
rootLogger.level=INFO
rootLogger.appenderRef.out.ref=out
"""
_STARTED = "Kafka Server started"  # kafka.server.KafkaRaftServer, after the listeners take connections
_SMALL_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class Kafka:
    """`with Kafka(folder) as kafka: kafka.bootstrap`. A folder that holds a stopped broker's data is continued."""

    def __init__(self, folder: Path, *, options: Mapping[str, object] | None = None, heap: str = "1g") -> None:
        """`options` are added to, or replace, lines of server.properties."""
        self.folder = folder.absolute()
        self.port = free_port()
        self._controller_port = free_port()
        self._options = dict(options or {})
        self._heap = heap
        self.process: GuardedProcess | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Format the folder if it is new, start the broker and wait until it serves clients."""
        class_path = f"{jars('kafka')}/*"
        properties = self.folder / "server.properties"
        log = self.folder / "kafka.log"
        self.folder.mkdir(parents=True, exist_ok=True)
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._properties().items()))
        (self.folder / "log4j2.properties").write_text(LOG4J)
        if not (self.folder / "data" / "meta.properties").exists():
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            run(
                [
                    java(),
                    *_SMALL_JVM,
                    "-cp",
                    class_path,
                    "kafka.tools.StorageTool",
                    "format",
                    "--standalone",
                    f"--cluster-id={cluster}",
                    "-c",
                    str(properties),
                ],
                what="Formatting the broker's data folder",
            )
        read_from = log.stat().st_size if log.exists() else 0

        def started() -> bool:
            with log.open("rb") as text:
                text.seek(read_from)
                return _STARTED.encode() in text.read()

        self.process = GuardedProcess(
            "Kafka",
            [
                java(),
                f"-Xmx{self._heap}",
                "-XX:+UseG1GC",
                "-XX:+ExitOnOutOfMemoryError",
                "-Djava.awt.headless=true",
                f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
                "-cp",
                class_path,
                "kafka.Kafka",
                str(properties),
            ],
            log=log,
            ready=started,
        )
        self.process.start()

    def stop(self) -> None:
        """Orderly shutdown; `start` continues on the same port."""
        if self.process is not None:
            self.process.stop()

    def kill(self) -> None:
        """SIGKILL; `start` recovers on the same port."""
        if self.process is not None:
            self.process.kill()

    def restart(self) -> None:
        self.stop()
        self.start()

    def _properties(self) -> dict[str, object]:
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            # `format --standalone` writes a quorum that knows itself by its directory id; the static `...voters` must not be set then.
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self._controller_port}",
            "log.dirs": self.folder / "data",
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 4,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            **self._options,
        }
