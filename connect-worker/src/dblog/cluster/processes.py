"""Task processes: one child for each task, which exchanges JSON lines with the worker over a socket
pair (D3).

One thread starts, watches and ends all of them. Children must be started by a thread that lives as
long as they do: their parent-death signal (set by the child first, ``dblog task``) fires when that
*thread* ends. A second guard is the socket: end of file means that the herder has ended. Where
workers share a group, a third guard is the lease. Children get its end with their first message and
at every renewal, and their kernel timer ends them at that moment (``runtime/deadline.py``); the
table does the same for a child that had no time to set its timer. # I7

Children get their own session, so that Ctrl-C in a terminal reaches only the worker, which stops
them in order.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from dblog.clock import lease_clock_s
from dblog.cluster.program import Begun, TaskProgram
from dblog.cluster.records import TaskId
from dblog.kafka.clientlog import ClientLog, is_client_line

_log = structlog.get_logger("dblog.cluster.processes")

_LINE_BYTES_MAX = 8 << 20
"""Bytes of a child's message. ``runtime/supervisor.py`` cuts its traces far below this."""
_READ_BYTES = 1 << 16
_LAST_LINES = 40
_IDLE_S = 5.0
_ENDING_POLL_S = 0.02
_END_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class TaskMessage:
    """A message of a child."""

    run: int
    message: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """The end of a child: its exit code, or the signal that ended it."""

    run: int
    exit_code: int | None
    signal_number: int | None
    last_output: str
    forced: bool
    """True if the child did not stop in time and we killed it."""


ProcessEvent = TaskMessage | Died


@dataclass(slots=True, eq=False)
class _Child:
    run: int
    task: TaskId
    begun: Begun
    hide: Callable[[str], str] = str
    incoming: bytearray = field(default_factory=bytearray)
    outgoing: bytearray = field(default_factory=bytearray)
    last_lines: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST_LINES))
    error_rest: bytearray = field(default_factory=bytearray)
    client_log: ClientLog = field(init=False)
    control_open: bool = True
    kill_at_s: float | None = None
    forced: bool = False

    def __post_init__(self) -> None:
        self.client_log = ClientLog(f"task {self.task}", **self.task.fields)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        return self.begun.process

    @property
    def control(self) -> socket.socket:
        return self.begun.control


class ProcessTable:
    """All task processes of this worker.

    Any thread may call ``start``, ``send`` and ``stop``, which return at once. ``on_event`` is
    called in the table's own thread.
    """

    def __init__(self, *, program: TaskProgram, on_event: Callable[[ProcessEvent], None], leased: bool = False) -> None:
        """Create the table. If ``leased``, children end at the time last given to ``lease``."""
        self._program = program
        self._leased = leased
        self._lease_until_s = 0.0
        self._empty = threading.Event()
        self._empty.set()
        self._on_event = on_event
        self._orders: deque[Callable[[], None]] = deque()
        self._children: dict[int, _Child] = {}
        self._next_run = 0
        self._run_lock = threading.Lock()
        self._wake_receive, self._wake_send = socket.socketpair()
        self._wake_receive.setblocking(False)
        self._wake_send.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_receive, selectors.EVENT_READ, None)
        self._closing = False
        self._thread = threading.Thread(target=self._watch, name="task-processes", daemon=True)
        self._thread.start()

    def start(self, task: TaskId, message: Mapping[str, Any], *, hide: Callable[[str], str] = str) -> int:
        """Start a process and send it its first message. Return the number that names this run in
        all events.

        ``hide`` removes secrets from its error output.
        """
        with self._run_lock:
            self._next_run += 1
            run = self._next_run
        self._order(lambda: self._spawn(run, task, message, hide))
        return run

    def send(self, run: int, message: Mapping[str, Any]) -> None:
        """Send a message to a child. Does nothing if the child has ended."""
        self._order(lambda: self._send(run, message))

    def stop(self, run: int, *, limit_s: float) -> None:
        """Ask a child to stop, and kill it after ``limit_s``. Its ``Died`` event follows."""

        def order() -> None:
            child = self._children.get(run)
            if child is not None and child.kill_at_s is None:
                child.kill_at_s = time.monotonic() + limit_s
                self._send(run, {"type": "stop", "limit_s": limit_s})

        self._order(order)

    def lease(self, until_s: float) -> None:
        """Let children live until that second of ``clock.lease_clock_s``.

        A past time ends them now.
        """

        def order() -> None:
            self._lease_until_s = until_s
            for run in list(self._children):
                self._send(run, {"type": "lease", "until_s": until_s})

        self._order(order)

    def end_all(self, *, limit_s: float) -> bool:
        """Kill every child and wait for their ends. Return True if all have ended."""

        def order() -> None:
            for child in self._children.values():
                child.begun.end()
            self._mark_empty()

        self._empty.clear()
        self._order(order)
        return self._empty.wait(limit_s)

    def close(self) -> None:
        """Kill whatever still runs, and end the thread."""

        def order() -> None:
            self._closing = True
            for child in self._children.values():
                child.begun.end()

        self._order(order)
        self._thread.join(_END_LIMIT_S)
        self._wake_send.close()

    def _order(self, order: Callable[[], None]) -> None:
        self._orders.append(order)
        # A full pipe means that a wake-up is already on its way.
        with contextlib.suppress(BlockingIOError, OSError):
            self._wake_send.send(b"\0")

    def _watch(self) -> None:
        while not (self._closing and not self._children and not self._orders):
            for key, mask in self._selector.select(self._wait_s()):
                if key.data is None:
                    with contextlib.suppress(BlockingIOError):
                        self._wake_receive.recv(_READ_BYTES)
                else:
                    key.data(mask)
            while self._orders:
                self._orders.popleft()()
            self._end_without_lease()
            self._reap()
        self._program.close()
        self._selector.close()
        self._wake_receive.close()

    def _wait_s(self) -> float:
        if self._orders:
            return 0.0
        if any(not child.control_open for child in self._children.values()):
            return _ENDING_POLL_S
        deadlines = [child.kill_at_s for child in self._children.values() if child.kill_at_s is not None]
        waits = [max(0.0, at_s - time.monotonic()) for at_s in deadlines]
        if self._leased and self._children:
            # After the end of the lease, remaining children are polled like others that were
            # killed.
            waits.append(max(_ENDING_POLL_S, self._lease_until_s - lease_clock_s()))
        return min([_IDLE_S, *waits])

    def _mark_empty(self) -> None:
        if not self._children:
            self._empty.set()

    def _end_without_lease(self) -> None:
        if self._leased and self._children and lease_clock_s() >= self._lease_until_s:
            for child in self._children.values():
                if not child.forced:
                    _log.warning(
                        "a task's process is killed: this worker leads its group no longer", **child.task.fields, pid=child.process.pid
                    )
                    child.forced = True
                    child.begun.end()

    def _spawn(self, run: int, task: TaskId, message: Mapping[str, Any], hide: Callable[[str], str]) -> None:
        if self._leased:
            if lease_clock_s() >= self._lease_until_s:
                reason = "this worker leads its group no longer"
                self._on_event(Died(run=run, exit_code=-1, signal_number=None, last_output=reason, forced=True))
                return
            message = {**message, "lease_until_s": self._lease_until_s}
        try:
            begun = self._program.begin()
        except OSError as e:
            _log.error("a task's process cannot be started", **task.fields, reason=str(e))
            reason = f"the process could not be started: {e}"
            self._on_event(Died(run=run, exit_code=-1, signal_number=None, last_output=reason, forced=False))
            return
        process = begun.process
        child = _Child(run, task, begun, hide)
        self._children[run] = child
        self._selector.register(begun.control, selectors.EVENT_READ, lambda mask: self._converse(child, mask))
        if process.stderr is not None:
            self._selector.register(process.stderr, selectors.EVENT_READ, lambda _mask: self._listen(child))
        _log.info("task process started", **task.fields, pid=process.pid)
        self._send(run, message)

    def _send(self, run: int, message: Mapping[str, Any]) -> None:
        child = self._children.get(run)
        if child is None or not child.control_open:
            return
        # In ASCII: an environment variable behind a placeholder may not be valid UTF-8.
        child.outgoing += json.dumps(message, separators=(",", ":")).encode() + b"\n"
        self._converse(child, selectors.EVENT_WRITE)

    def _converse(self, child: _Child, mask: int) -> None:
        if not child.control_open:
            return
        if mask & selectors.EVENT_WRITE and child.outgoing:
            try:
                sent = child.control.send(child.outgoing)
                del child.outgoing[:sent]
            except BlockingIOError:
                pass
            except OSError:
                # Closed at the other end. What the child still sent is read below; _reap sees its
                # end.
                child.outgoing.clear()
        if mask & selectors.EVENT_READ:
            self._read(child)
        if child.control_open:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if child.outgoing else 0)
            self._selector.modify(child.control, events, lambda m: self._converse(child, m))

    def _read(self, child: _Child, *, to_end: bool = False) -> None:
        """Read what has arrived: one piece without ``to_end``, so that a child that never pauses
        does not block the others.
        """
        while child.control_open:
            try:
                data = child.control.recv(_READ_BYTES)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self._close_control(child)
                break
            self._take_lines(child, data)
            if not to_end:
                break

    def _take_lines(self, child: _Child, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            child.incoming += line
            whole, child.incoming = child.incoming, bytearray()
            self._take_line(child, whole)
        child.incoming += rest
        if len(child.incoming) > _LINE_BYTES_MAX:
            _log.error("a task's process sends a line without end; it is killed", **child.task.fields)
            child.begun.end()
            self._close_control(child)

    def _take_line(self, child: _Child, line: bytearray) -> None:
        try:
            message = json.loads(line)
            if b"\\u" in line or not line.isascii():
                message = _encodable(message)
        except (ValueError, RecursionError):
            _log.warning("a task's process sent what is not JSON", **child.task.fields)
            return
        if isinstance(message, dict):
            self._on_event(TaskMessage(child.run, message))

    def _close_control(self, child: _Child) -> None:
        if child.control_open:
            child.control_open = False
            self._selector.unregister(child.control)
            child.control.close()

    def _listen(self, child: _Child) -> None:
        stream = child.process.stderr
        if stream is None or stream.closed:
            return
        while True:
            try:
                data = os.read(stream.fileno(), _READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                self._selector.unregister(stream)
                stream.close()
                break
            child.error_rest += data
            *lines, rest = child.error_rest.split(b"\n")
            child.error_rest = bytearray(rest[-_READ_BYTES:])
            self._pass_on(child, [line.decode(errors="replace") for line in lines])

    @staticmethod
    def _pass_on(child: _Child, lines: list[str]) -> None:
        """Log lines that arrived together as one.

        Lines that librdkafka repeats many times a second are logged only now and then.
        """
        own = [child.hide(line) for line in lines if not is_client_line(line)]
        for line in lines:
            if is_client_line(line):
                child.client_log.line(line)
        child.last_lines.extend(own)
        if own:
            _log.warning("error output of a task", **child.task.fields, pid=child.process.pid, output="\n".join(own))

    def _reap(self) -> None:
        now_s = time.monotonic()
        for child in list(self._children.values()):
            if child.kill_at_s is not None and now_s >= child.kill_at_s and not child.forced and child.process.poll() is None:
                _log.warning("a task did not stop in time; its process is killed", **child.task.fields, pid=child.process.pid)
                child.forced = True
                child.begun.end()
            code = child.process.poll()
            if code is None:
                if not child.control_open and child.kill_at_s is None:
                    # The child closed its control channel and runs on, so no message can reach it
                    # any more.
                    child.kill_at_s = now_s + _IDLE_S
                continue
            if child.control_open:
                self._read(child, to_end=True)
                self._close_control(child)
            self._listen(child)
            if child.process.stderr is not None and not child.process.stderr.closed:
                self._selector.unregister(child.process.stderr)
                child.process.stderr.close()
            del self._children[child.run]
            self._mark_empty()
            if child.error_rest:
                self._pass_on(child, [child.error_rest.decode(errors="replace")])
            _log.info("task process ended", **child.task.fields, pid=child.process.pid, code=code)
            self._on_event(
                Died(
                    run=child.run,
                    exit_code=code if code >= 0 else None,
                    signal_number=-code if code < 0 else None,
                    last_output="\n".join(child.last_lines),
                    forced=child.forced,
                )
            )


def _encodable(value: Any) -> Any:
    """Return a JSON value with halves of surrogate pairs written as escapes.

    No record and no answer could hold them.
    """
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case dict():
            return {_encodable(name): _encodable(part) for name, part in value.items()}
        case list():
            return [_encodable(part) for part in value]
        case _:
            return value
