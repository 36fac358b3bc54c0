"""Runs one program under guard: starts it, waits until it is ready, stops, kills, restarts it."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from stack.errors import StackError

GUARD = Path(__file__).with_name("guard.py")
"""Program under which each program runs."""
_SHOWN_LOG_LINES = 30


class GuardedProcess:
    """A program that cannot outlive this process.

    Use `with`, or `start` and `stop`. It can be started again after either end.
    """

    stop_signal = signal.SIGTERM
    """Signal that asks the program to end."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        ready: Callable[[], bool] = lambda: True,
        ready_timeout_s: float = 300.0,
        grace_s: float = 30.0,
        afterwards: Sequence[str] = (),
    ) -> None:
        """Prepare the program.

        `ready` is called after the start until it returns True. `env` is added to this process's
        environment.
        """
        self.name = name
        self.argv = list(argv)
        self.log = log
        self.env = dict(env or {})
        self.cwd = cwd
        self.pid: int | None = None
        """Process id of the program (not the guard's), kept after its end. None before a start, and
        until its guard has reported it.
        """
        self.ready = ready
        """Function called after each start until it returns True; a test may set another."""
        self.afterwards = list(afterwards)
        """Command that the guard runs when the program has ended."""
        self._ready_timeout_s = ready_timeout_s
        self._grace_s = grace_s
        self._guard: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        return self._guard is not None and self._guard.poll() is None

    def start(self) -> None:
        """Start the program and wait until it is ready.

        Raise StackError with the end of its log if it ends or is late.
        """
        if self.running:
            raise StackError(f"{self.name} is running already")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        guard = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                str(GUARD),
                str(os.getpid()),
                str(self._grace_s),
                str(int(self.stop_signal)),
                str(self.log),
                json.dumps(self.afterwards),
                "--",
                *self.argv,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.env},
            cwd=self.cwd,
            start_new_session=True,
        )
        self._guard, self.pid = guard, None
        assert guard.stdout is not None
        with guard.stdout as out:
            first_line = out.readline().strip()
        if not first_line.isdigit():
            guard.wait()
            raise StackError(f"{self.name} could not be started: {first_line or 'its guard ended'}")
        self.pid = int(first_line)
        try:
            wait_until(self._ready_or_ended, timeout_s=self._ready_timeout_s, what=f"{self.name} to be ready")
        except BaseException as error:
            self.kill()
            if isinstance(error, StackError):
                raise StackError(f"{error}\n{self.log_end()}") from error
            raise

    def stop(self) -> int:
        """Ask the program to end, wait for it, and return its exit status.

        Do nothing if it has ended already.
        """
        guard = self._guard
        if guard is None:
            return 0
        if guard.poll() is None:
            guard.terminate()
        try:
            return self._ended(guard)
        # A second Ctrl-C does not wait for an orderly end.
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """End the program with SIGKILL, as a crash or the kernel's memory limit would."""
        guard = self._guard
        if guard is None:
            return
        if guard.poll() is None:
            # Its guard has not reported the process yet, and takes it along.
            if self.pid is None:
                guard.kill()
            elif _is_child(self.pid, guard.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
        self._ended(guard)

    def _ended(self, guard: "subprocess.Popen[str]") -> int:
        """Wait for the guard, and run what it could not run if it was killed itself."""
        status = guard.wait()
        if status < 0 and self.afterwards:
            subprocess.run(self.afterwards, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        return status

    def wait(self, *, timeout_s: float) -> int:
        """Return the exit status of a program that ends.

        Raise StackError if it does not end within the limit.
        """
        if self._guard is None:
            raise StackError(f"{self.name} was not started")
        try:
            return self._guard.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise StackError(f"{self.name} did not end within {timeout_s:g} s\n{self.log_end()}") from error

    def log_end(self) -> str:
        """Return the last lines of the program's log, for an error message."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return "(it wrote nothing)"
        return "\n".join([f"end of {self.log}:", *(f"  {line}" for line in lines[-_SHOWN_LOG_LINES:])])

    def _ready_or_ended(self) -> bool:
        if not self.running:
            raise StackError(f"{self.name} ended while starting (exit status {self._guard.returncode if self._guard else None})")
        return self.ready()


def _is_child(pid: int, parent: int) -> bool:
    """Return True if the process is still the parent's child.

    A program that ended while its guard goes on may have left its id to another process.
    """
    if not Path("/proc/self").exists():
        return True
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) == parent
    return False


def wait_until(condition: Callable[[], bool], *, timeout_s: float, what: str, pause_s: float = 0.05) -> None:
    """Call `condition` until it returns True. Raise StackError with `what` after the limit."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise StackError(f"waited {timeout_s:g} s for {what}")
        time.sleep(pause_s)


_given: deque[int] = deque(maxlen=300)
"""Ports that this process handed out recently; the receiver may not listen yet."""


def free_port() -> int:
    """Return a TCP port that is free on the loopback interface now.

    It is below the range from which the kernel gives ports to outgoing connections (32768 to 60999
    by default), so that a restarted server finds its port still free. Concurrent processes try
    different ports.
    """
    own = os.getpid() % 16
    for _ in range(400):
        port = 20000 + int.from_bytes(os.urandom(2), "big") % 750 * 16 + own
        if port in _given:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            _given.append(port)
            return port
    raise StackError("no free TCP port between 20000 and 32000 on the loopback interface")
