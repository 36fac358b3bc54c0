"""The control channel between herder and task process: JSON lines over one inherited socket.

The herder sends start, pause, resume and stop; the task answers with states, topics and metrics.
When the channel ends, the herder is gone and another worker may start the same task, so the process
exits at once. A herder may also live on after it lost the lead of its group. Therefore its first
message and every renewal name the time until which it leads, and the kernel kills the process at
that time. # I7

The channel is opened before the task's modules are imported, which takes seconds on a busy machine,
so a stop works from the first moment on (``stop.py``).
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import socket
import sys
import threading
import traceback
from typing import Any

from dblog.observe.hidden import HIDDEN_IN_LOG
from dblog.observe.lines import NewestLines
from dblog.observe.logs import TABLE
from dblog.runtime.deadline import Deadline
from dblog.runtime.stop import LIMIT_S, Stop

_READ_BYTES = 65536
_LINES_AT_ONCE = 100
HERDER_GONE_EXIT_CODE = 76
"""Exit status of a task process that lost its herder."""


class Control:
    """Task's end of the channel. Its own thread reads messages, so a stop also reaches
    a busy task.
    """

    def __init__(self, control_fd: int, stop: Stop | None = None) -> None:
        self.stop = stop or Stop()
        self.lines = NewestLines()
        """Log lines of this process that the herder does not have yet."""
        self._socket = socket.socket(fileno=control_fd)
        self._messages: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._write_lock = threading.Lock()
        self._deadline = Deadline()
        self._reader = threading.Thread(target=self._follow, name="control", daemon=True)
        self._reader.start()

    def send(self, message: dict[str, Any]) -> None:
        """Send one message to the herder. Exit the process if the channel is closed."""
        data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with self._write_lock:
            try:
                self._socket.sendall(data)
            except OSError:
                os._exit(HERDER_GONE_EXIT_CODE)

    def send_lines(self) -> None:
        """Send the log lines that wait, at most ``_LINES_AT_ONCE``."""
        if lines := self.lines.take(_LINES_AT_ONCE):
            self.send({"type": "log", "lines": lines})

    def take(self, timeout_s: float | None) -> dict[str, Any] | None:
        """Return the next message, or None if none arrives within ``timeout_s``.

        0 returns at once, None waits without limit.
        """
        try:
            if timeout_s == 0:
                return self._messages.get_nowait()
            return self._messages.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def _follow(self) -> None:
        try:
            self._read()
        except BaseException:  # noqa: BLE001  without this thread no message and no end of the lease would be noticed
            with contextlib.suppress(Exception):
                print("The thread that reads the herder's messages has ended; this process ends with it.", file=sys.stderr)  # noqa: T201
                traceback.print_exc()
            # Abort instead of exiting with a status: the process failed, not the task, so the
            # herder starts it again.
            os.abort()

    def _read(self) -> None:
        pending = b""
        while True:
            data = self._receive()
            if not data:
                os._exit(HERDER_GONE_EXIT_CODE)
            *lines, pending = (pending + data).split(b"\n")
            messages = [json.loads(line) for line in lines]
            # Only the last lease counts: a process that was slow to start may read leases that have
            # ended and been renewed since.
            leases = [until_s for message in messages if (until_s := _lease_of(message)) is not None]
            if leases:
                self._deadline.set(leases[-1])
            for message in messages:
                match message:
                    case {"type": "lease"}:
                        pass
                    case {"type": "stop"}:
                        self.stop.order(_limit_of(message))
                        self._messages.put(message)  # wakes a thread that waits in ``take``
                    case {"type": "level", "logger": str(name), "level": str(level)}:
                        TABLE.set(name, level)  # at once, so that it also reaches a busy task
                    case _:
                        if isinstance(levels := message.get("levels"), dict):
                            TABLE.take(levels)
                        if isinstance(hidden := message.pop("hidden", None), dict):
                            HIDDEN_IN_LOG.take(hidden)
                        self._messages.put(message)

    def _receive(self) -> bytes:
        """Wait for data and return all that has arrived; return b"" once the channel has ended."""
        data = b""
        try:
            data = self._socket.recv(_READ_BYTES)
            while more := self._socket.recv(_READ_BYTES, socket.MSG_DONTWAIT):
                data += more
        except BlockingIOError:
            return data
        except OSError:
            return b""
        return b""  # the channel ended after this data


def _limit_of(message: dict[str, Any]) -> float:
    match message:
        case {"limit_s": int() | float() as limit_s}:
            return limit_s
    return LIMIT_S


def _lease_of(message: dict[str, Any]) -> float | None:
    match message:
        case {"type": "lease", "until_s": int() | float() as until_s} | {"type": "start", "lease_until_s": int() | float() as until_s}:
            return until_s
    return None
