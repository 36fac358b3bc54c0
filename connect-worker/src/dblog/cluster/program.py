"""Starts a task's process: the program, its environment, and the socket to talk to it.

A process may be started before its task. Half of the time from a killed worker to its first new
record is spent by two interpreters importing their modules; started first, the task's imports run
in parallel with the worker's.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dblog.config.secret_values import is_secret


@dataclass(frozen=True, slots=True)
class Begun:
    """A process that waits for its first message, and our end of its control channel."""

    process: subprocess.Popen[bytes]
    control: socket.socket

    def end(self) -> None:
        """Kill the process and its children (it has its own session).

        Does nothing if it has ended.
        """
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def forget(self) -> None:
        """Wait for the ended process, and close its channels."""
        self.process.wait()
        self.control.close()
        if self.process.stderr is not None:
            self.process.stderr.close()


def import_environment() -> dict[str, str]:
    """Return variables that make a task import from where this worker does, and nothing from the
    current directory.

    Anyone who may write there could run code with the worker's secrets, and a file named numbers.py
    would end every task. ``python -m`` puts that directory first on the worker's own path. A
    directory that PYTHONPATH names, or that holds this program, stays.
    """
    here = Path.cwd()
    named = [Path(part).resolve() for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    wanted = here in named or here == Path(__file__).parents[2]
    paths = [path for path in sys.path if path and (wanted or Path(path).resolve() != here)]
    return {"PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}


class TaskProgram:
    """The program that tasks run in."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._command = list(command)
        self._environment = dict(environment or {})
        self._ahead: Begun | None = None

    def begin_ahead(self) -> Begun | None:
        """Start one process now for the first task, and return it.

        The calling thread must outlive it, because a child dies with the thread that started it.
        Return None if the program cannot be started; the first task's start then reports it.
        """
        with contextlib.suppress(OSError):
            self._ahead = self._begin()
        return self._ahead

    def begin(self) -> Begun:
        """Return the process that was started ahead, or a new one.

        Raise OSError if the program cannot be started.
        """
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return self._begin()
        if ahead.process.poll() is None:
            return ahead
        ahead.forget()
        return self._begin()

    def close(self) -> None:
        """End the process that no task took."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.end()
            ahead.forget()

    def _begin(self) -> Begun:
        ours, theirs = socket.socketpair()
        try:
            process = subprocess.Popen(  # noqa: S603  our own program
                [*self._command, "--control-fd", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                # A secret that the worker has from a variable comes with the task's first message,
                # because any process of the same user can read variables.
                env={name: text for name, text in os.environ.items() if not is_secret(name)}
                | self._environment
                | {"DBLOG_HERDER_PID": str(os.getpid())},
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        if process.stderr is not None:
            os.set_blocking(process.stderr.fileno(), False)
        return Begun(process, ours)
