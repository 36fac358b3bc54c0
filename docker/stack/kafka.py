"""Runs a Kafka broker: one KRaft node, with jars from Maven or from an image."""

import base64
import hashlib
import os
import shutil
import signal
import uuid
from collections.abc import Mapping
from pathlib import Path

from stack.cache import cached
from stack.commands import run
from stack.containers import LOOPBACK, Container, container, wanted
from stack.errors import StackError, Unavailable
from stack.java import java
from stack.maven import jars
from stack.process import free_port
from stack.server import Server

LOG4J = """\
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %c{1} %m%n
rootLogger.level=INFO
rootLogger.appenderRef.out.ref=out
"""
_STARTED = "Kafka Server started"  # kafka.server.KafkaRaftServer, after the listeners take connections
_KILLED = 128 + signal.SIGKILL
"""Exit status of a broker that did not end in time."""
_BRIEF_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""JVM options for short runs, for which the optimizing compiler costs more than it saves."""
_LASTING_JVM = ("-XX:+UseG1GC",)


class Kafka(Server):
    """A broker: `with Kafka(folder) as kafka: kafka.bootstrap`.

    A folder with a stopped broker's data is continued.
    """

    def __init__(
        self,
        folder: Path,
        *,
        options: Mapping[str, object] | None = None,
        heap: str = "1g",
        lasting: bool = False,
        archive_to: Path | None = None,
    ) -> None:
        """Prepare the broker's settings.

        `options` are added to, or replace, lines of server.properties. `lasting` gives benchmarks
        the JVM of a broker in production. `archive_to` is a file that receives the loaded classes
        when the broker stops, for the starts of others (`class_archive`).
        """
        super().__init__("Kafka", folder, log="kafka.log", grace_s=120.0 if archive_to else 30.0)
        self.port = free_port()
        self._controller_port = free_port()
        self._options = dict(options or {})
        self._heap = heap
        self._jvm = _LASTING_JVM if lasting else _BRIEF_JVM
        self._archive_to = archive_to
        self._earlier_log_bytes = 0

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def program(self) -> tuple[list[str], str, Container | None]:
        """Return Java's command, the class path, and the container in which it runs or None.

        Raise Unavailable if there is neither.
        """
        missing = None
        if not wanted():
            try:
                return [java()], f"{jars('kafka')}/*", None
            except Unavailable as reason:
                missing = reason
        found = container("kafka", self.folder, self.port, missing=missing)
        return found.command("java"), "/opt/kafka/libs/*", found

    def prepare(self) -> list[str]:
        program, class_path, contained = self.program()
        if contained:
            contained.remove()
            self.afterwards = contained.removal
        properties = self.folder / "server.properties"
        properties.write_text(
            "".join(f"{name}={value}\n" for name, value in self._properties(contained.address if contained else LOOPBACK).items())
        )
        (self.folder / "log4j2.properties").write_text(LOG4J)
        if self._archive_to:
            shared = f"-XX:ArchiveClassesAtExit={self._archive_to}"
        elif contained:
            shared = "-Xshare:auto"
        else:
            shared = shared_classes(program[0], class_path)
        if not (self.folder / "data" / "meta.properties").exists():
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            run(
                [
                    *(contained.command("java", once=True) if contained else program),
                    *_BRIEF_JVM,
                    *(() if self._archive_to else (shared,)),
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
        self._earlier_log_bytes = self.log.stat().st_size if self.log.exists() else 0
        return [
            *program,
            f"-Xmx{self._heap}",
            *self._jvm,
            shared,
            "-XX:+ExitOnOutOfMemoryError",
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
            "-cp",
            class_path,
            "kafka.Kafka",
            str(properties),
        ]

    def answers(self) -> bool:
        """Return True if its log says, after the lines of earlier runs, that the server started."""
        with self.log.open("rb") as text:
            text.seek(self._earlier_log_bytes)
            return _STARTED.encode() in text.read()

    def _properties(self, address: str) -> dict[str, object]:
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "listeners": f"PLAINTEXT://{address}:{self.port},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            # `format --standalone` writes a quorum that knows itself by its directory id; the
            # static `...voters` must not be set then.
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


def shared_classes(java_program: str, class_path: str) -> str:
    """Return the JVM option that maps a broker's classes.

    If no archive of them can be had, as in a read-only cache folder, it loads them.
    """
    try:
        return f"-XX:SharedArchiveFile={class_archive(java_program, class_path)}"
    except (OSError, StackError):
        return "-Xshare:auto"


def class_archive(java_program: str, class_path: str) -> Path:
    """Return the archive of a broker's loaded classes.

    If the machine has none, a broker that is stopped at once writes it. A broker that maps its
    classes starts with 2 seconds of CPU instead of 7 (JDK 17, "Class Data Sharing"). A JVM ignores
    an archive that does not fit: it compares the times and sizes of the jars, and their order,
    which is that of their folder.
    """
    jars_there = ((each.name, each.stat()) for each in os.scandir(Path(class_path).parent))
    recipe = "\n".join(
        [
            run([java_program, "--version"], what="Asking Java for its version"),
            class_path,
            *(f"{name} {found.st_size} {int(found.st_mtime)}" for name, found in jars_there),
        ]
    )

    def fill(folder: Path) -> None:
        archive = folder / "classes.jsa"
        broker = Kafka(folder / "broker", archive_to=archive)
        broker.start()
        if broker.stop() == _KILLED or not archive.is_file():
            raise StackError(f"the broker did not write its classes\n{broker.log_end()}")
        shutil.rmtree(folder / "broker")

    return cached(f"kafka-classes-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}", fill) / "classes.jsa"
