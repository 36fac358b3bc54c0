"""Runs servers in the background until they are stopped: `make servers`, `make servers-stop`.

They outlive the shell that started them. One process runs `up` in a separate session, writes the
addresses to `build/servers.json` and holds a lock on `build/servers.lock` while it runs. A taken
lock means that the servers run, because the kernel frees it however the process ends.
"""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from stack.errors import StackError
from stack.process import wait_until

_START_S = 300.0
_STOP_S = 90.0


class BackgroundServers:
    """The servers of one folder (a clone's `build`).

    `start` and `stop` may be called in any state.
    """

    def __init__(self, folder: Path) -> None:
        self.addresses_file = folder / "servers.json"
        self._lock_file = folder / "servers.lock"
        self._log_file = folder / "servers.log"

    @property
    def running(self) -> bool:
        """True if a process started here runs."""
        if not self._lock_file.exists():
            return False
        with self._lock_file.open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def start(self, names: Sequence[str]) -> dict[str, object]:
        """Start the servers, wait until they take connections, and return their addresses.

        Running ones are left alone. Raise StackError if other servers than these run, or these do
        not start.
        """
        if self.running:
            addresses = self.addresses()
            if missing := sorted(set(names) - set(addresses)):
                raise StackError(f"other servers are running, without {', '.join(missing)}; stop them first: make servers-stop")
            return addresses
        self.addresses_file.parent.mkdir(parents=True, exist_ok=True)
        # Opened without truncating: until the lock is ours, the file belongs to another start.
        with self._lock_file.open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StackError("another start of these servers is under way; wait for it, or stop them: make servers-stop") from None
            lock.truncate(0)
            self._start_locked(names, lock)
        return self.addresses()

    def _start_locked(self, names: Sequence[str], lock: TextIO) -> None:
        self.addresses_file.unlink(missing_ok=True)
        with self._log_file.open("w") as log, self.addresses_file.open("w") as addresses_out:
            process = subprocess.Popen(
                [sys.executable, "-m", "stack", "up", *names],
                stdin=subprocess.DEVNULL,
                stdout=addresses_out,
                stderr=log,
                start_new_session=True,
                # The process inherits the lock and holds it until it ends.
                pass_fds=[lock.fileno()],
            )
            lock.write(str(process.pid))
            lock.flush()
            _wait_for_addresses(process, self.addresses_file, self._log_file)

    def stop(self) -> bool:
        """Stop the servers and remove their data. Return False if none ran."""
        if not self.running:
            self.addresses_file.unlink(missing_ok=True)
            return False
        pid = self._lock_file.read_text()
        if not pid:
            raise StackError("a start of the servers is under way and has no process yet; try again in a moment: make servers-stop")
        if not _has_open(int(pid), self._lock_file):
            raise StackError(
                f"process {pid} is none of these servers, and is left alone: they are just being started or ended, or run in another container."
                " Try again in a moment, or there: make servers-stop"
            )
        os.kill(int(pid), signal.SIGTERM)
        wait_until(lambda: not self.running, timeout_s=_STOP_S, what="the servers to end")
        self.addresses_file.unlink(missing_ok=True)
        return True

    def addresses(self) -> dict[str, object]:
        """Return the addresses of the running servers."""
        try:
            found: dict[str, object] = json.loads(self.addresses_file.read_text())
        except (OSError, ValueError) as error:
            raise StackError("the servers are still starting, or their start was broken off; stop them: make servers-stop") from error
        return found


def _has_open(pid: int, file: Path) -> bool:
    """Return True if the process has the file open.

    A process id from an earlier run, or from another container, may belong to another process.
    """
    if not Path("/proc/self").exists():
        return True
    opened = []
    for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
        # The file was closed meanwhile.
        with contextlib.suppress(OSError):
            opened.append(descriptor.readlink())
    return file.resolve() in opened


def _wait_for_addresses(process: "subprocess.Popen[bytes]", addresses: Path, log: Path) -> None:
    def printed_or_ended() -> bool:
        if process.poll() is not None:
            raise StackError(f"the servers could not be started: {log.read_text().strip() or 'no reason was given'}")
        return addresses.read_text().endswith("\n}\n")

    try:
        wait_until(printed_or_ended, timeout_s=_START_S, what="the servers to start")
    except BaseException:
        if process.poll() is None:
            process.terminate()
            process.wait()
        raise
