"""The control channel between herder and task process: JSON lines over one inherited socket.

The herder sends start, pause, resume, stop; the task answers with states, topics and metrics. The end of the channel means that the herder is gone:
the task must not go on without it (another worker may start the same task), so the process ends at once. A herder that is there but leads its group no
longer is no better: its first message, and every renewal, names the time until which it leads, and the kernel ends the process then. # I7

It is made before the task's modules are imported, which takes seconds on a busy machine: a stop is heard from the first moment on (``stop.py``).
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
from dblog.observe.logs import TABLE
from dblog.runtime.deadline import Deadline
from dblog.runtime.stop import LIMIT_S, Stop

_READ_BYTES = 65536
HERDER_GONE_EXIT_CODE = 76
"""Exit status of a task process that lost its herder."""


class Control:
    """The task's end of the channel. Messages are read on a thread of their own, so a stop reaches a task that is busy."""

    def __init__(self, control_fd: int, stop: Stop | None = None) -> None:
        self.stop = stop or Stop()
        self._socket = socket.socket(fileno=control_fd)
        self._messages: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._write_lock = threading.Lock()
        self._deadline = Deadline()
        self._reader = threading.Thread(target=self._follow, name="control", daemon=True)
        self._reader.start()

    def send(self, message: dict[str, Any]) -> None:
        """One line to the herder; a herder that is gone is noticed by the reader."""
        data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with self._write_lock:
            try:
                self._socket.sendall(data)
            except OSError:
                os._exit(HERDER_GONE_EXIT_CODE)

    def take(self, timeout_s: float | None) -> dict[str, Any] | None:
        """The next message; None when there is none within the time (0: do not wait; None: wait for ever)."""
        try:
            if timeout_s == 0:
                return self._messages.get_nowait()
            return self._messages.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def _follow(self) -> None:
        try:
            self._read()
        except BaseException:  # noqa: BLE001  nobody would hear the herder any more, nor the end of its lease
            with contextlib.suppress(Exception):
                print("The thread that reads the herder's messages has ended; this process ends with it.", file=sys.stderr)  # noqa: T201
                traceback.print_exc()
            # A signal, not an exit code: what failed here is this process, not its task, so the herder starts it again.
            os.abort()

    def _read(self) -> None:
        pending = b""
        while True:
            data = self._receive()
            if not data:
                os._exit(HERDER_GONE_EXIT_CODE)
            *lines, pending = (pending + data).split(b"\n")
            messages = [json.loads(line) for line in lines]
            # Only the last message counts: to a process that came up slowly the first one's lease may have ended, and been renewed since.
            leases = [until_s for message in messages if (until_s := _lease_of(message)) is not None]
            if leases:
                self._deadline.set(leases[-1])
            for message in messages:
                match message:
                    case {"type": "lease"}:
                        pass
                    case {"type": "stop"}:
                        self.stop.order(_limit_of(message))
                        self._messages.put(message)  # wakes who waits for one
                    case {"type": "level", "logger": str(name), "level": str(level)}:
                        TABLE.set(name, level)  # here, so that it reaches a task that is busy
                    case _:
                        if isinstance(levels := message.get("levels"), dict):
                            TABLE.take(levels)
                        if isinstance(hidden := message.pop("hidden", None), dict):
                            HIDDEN_IN_LOG.take(hidden)
                        self._messages.put(message)

    def _receive(self) -> bytes:
        """All that has arrived, waiting for the first of it; nothing at the channel's end."""
        data = b""
        try:
            data = self._socket.recv(_READ_BYTES)
            while more := self._socket.recv(_READ_BYTES, socket.MSG_DONTWAIT):
                data += more
        except BlockingIOError:
            return data
        except OSError:
            return b""
        return b""  # it has ended behind what was sent


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
