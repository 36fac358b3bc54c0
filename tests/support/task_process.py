"""The real task program, with the test as its herder: the test sends orders and reads messages."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dblog
from dblog.config.plugins import CONNECTORS
from stack import Kafka, MariaDb

TIMEOUT_S = 120.0
JSON = "org.apache.kafka.connect.json.JsonConverter"
PROGRAM = (sys.executable, "-m", "dblog", "task", "--control-fd")


class TaskProcess:
    """A task process with its messages and its log lines."""

    def __init__(self, command: tuple[str, ...], *, path: Path | None = None) -> None:
        self._control, theirs = socket.socketpair()
        self.messages: queue.Queue[dict[str, Any]] = queue.Queue()
        self.lines: queue.Queue[str] = queue.Queue()
        first = [str(path)] if path is not None else []
        with theirs:
            self.process = subprocess.Popen(
                [*command, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([*first, str(Path(dblog.__file__).parents[1]), *sys.path])},
            )
        self._listeners = [threading.Thread(target=listen, daemon=True) for listen in (self._listen, self._read_log)]
        for listener in self._listeners:
            listener.start()

    def _listen(self) -> None:
        with contextlib.suppress(ConnectionResetError), self._control.makefile() as lines:
            for line in lines:
                self.messages.put(json.loads(line))

    def _read_log(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.lines.put(line)

    def send(self, **message: Any) -> None:
        self._control.sendall(json.dumps(message).encode() + b"\n")

    def start(self, config: dict[str, str], *, bootstrap: str, hidden: dict[str, str] | None = None) -> None:
        """Send the herder's first message."""
        worker = {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            **{f"{kind}.storage.topic": f"{config['topic.prefix']}-{kind}" for kind in ("config", "offset", "status")},
            "key.converter": JSON,
            "value.converter": JSON,
        }
        self.send(type="start", connector=config["name"], task=0, config=config, worker=worker, offsets=[], hidden=hidden or {})

    def wait_sending(self) -> None:
        """Wait until the task sends records, which is when it reports metrics."""
        wait_for(self.messages, lambda message: message["type"] == "metrics")

    def wait_logged(self, text: str) -> None:
        wait_for(self.lines, lambda line: text in line)

    def seconds_to_stop(self, *, limit_s: float = 5.0) -> float:
        """Order the task to stop and wait for it.

        Return the duration in seconds. It must not fail.
        """
        began_s = time.monotonic()
        self.send(type="stop", limit_s=limit_s)
        try:
            assert self.process.wait(TIMEOUT_S) == 0
        except subprocess.TimeoutExpired as e:
            message = f"it did not end in {TIMEOUT_S:g} s"
            raise AssertionError(message) from e
        return time.monotonic() - began_s

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for listener in self._listeners:
            listener.join()
        self._control.close()


def configured(kafka: Kafka, mariadb: MariaDb, database: str) -> dict[str, str]:
    """Return the configuration of a connector with a new name, for one database of MariaDB."""
    name = f"c-{uuid.uuid4().hex[:8]}"
    return {
        "name": name,
        "connector.class": next(c.class_name for c in CONNECTORS if c.flavor == "mariadb"),
        "topic.prefix": name,
        "database.hostname": mariadb.host,
        "database.port": str(mariadb.port),
        "database.user": mariadb.user,
        "database.password": mariadb.password,
        "database.server.id": str(uuid.uuid4().int % 2_000_000_000 + 1000),
        "database.include.list": database,
        "schema.history.internal.kafka.topic": f"{name}-h",
        "schema.history.internal.kafka.bootstrap.servers": kafka.bootstrap,
        "key.converter": JSON,
        "value.converter": JSON,
    }


def wait_for(source: queue.Queue[Any], wanted: Callable[[Any], bool]) -> Any:
    """Return the first message that ``wanted`` accepts. Raise queue.Empty after the limit."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        found = source.get(timeout=max(0.01, deadline_s - time.monotonic()))
        if wanted(found):
            return found


class Silent:
    """A server that accepts connections and never answers."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(TIMEOUT_S)
        self._taken: list[socket.socket] = []
        self.port = int(self._listener.getsockname()[1])
        self.address = f"127.0.0.1:{self.port}"

    def wait_asked(self) -> None:
        """Wait until a client has connected."""
        connection, _ = self._listener.accept()
        self._taken.append(connection)

    def close(self) -> None:
        for opened in (*self._taken, self._listener):
            opened.close()


@contextlib.contextmanager
def silent() -> Iterator[Silent]:
    """Run a server that does not answer."""
    made = Silent()
    try:
        yield made
    finally:
        made.close()


@contextlib.contextmanager
def task_process(*command: str, path: Path | None = None) -> Iterator[TaskProcess]:
    """Run a task process, and kill it at the end.

    ``command`` is another program than the task's own, which gets the number of the channel as its
    last argument. ``path`` is a folder whose modules come first.
    """
    made = TaskProcess(command or PROGRAM, path=path)
    try:
        yield made
    finally:
        made.close()
