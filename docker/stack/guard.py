"""Runs one program and ensures that it ends: when asked, when the parent dies, when the guard dies.

It is a separate script (`python -I -S guard.py PARENT GRACE_S STOP_SIGNAL LOG AFTERWARDS -- PROGRAM
...`), because only a separate process can act after a SIGKILL of the parent. Reasons for its means:

- The guard is the leader of a new session: Ctrl-C at the terminal reaches only the parent, which
  stops things in its order.
- It waits on the parent's pidfd; on a system without pidfds it checks its parent five times a
  second. PR_SET_PDEATHSIG alone would fire when the *thread* that started it ends.
- On Linux the program gets PR_SET_PDEATHSIG, because the guard can be killed too.
- The guard is a subreaper (prctl(2)): processes that the program leaves behind become its children
  and are killed at the end.

AFTERWARDS is a command line as JSON, or []. It runs when the program has ended, and removes what no
kill reaches. SIGTERM to the guard asks the program to end (STOP_SIGNAL, after GRACE_S seconds
SIGKILL). The death of the parent kills at once, since nobody is left who could use an orderly end.
The first line on standard output is the program's process id, or `error: ...`. The guard's exit
status is the program's, or 128 + the number of the signal that ended it.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_AFTERWARDS_S = 60.0
_LOOK_S = 0.2
_LINUX = sys.platform == "linux"
_libc = ctypes.CDLL(None, use_errno=True)


def main(parent: int, grace_s: float, stop_signal: int, log_path: str, afterwards: list[str], argv: list[str]) -> int:
    """Run `argv` to its end under guard. Return the exit status to give."""
    parent_fd = _pidfd(parent)
    # The parent died before the pidfd was open, and its id may belong to another process.
    if os.getppid() != parent:
        return 1
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    if _LINUX:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    guard = os.getpid()

    def die_with_the_guard() -> None:
        if _LINUX:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != guard:
            os._exit(1)

    with Path(log_path).open("ab") as log:
        try:
            child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_the_guard)  # noqa: PLW1509  no threads here
        except OSError as error:
            print(f"error: {argv[0]}: {error.strerror}", flush=True)
            return 127
    print(child.pid, flush=True)
    sys.stdout.close()

    child_fd = _pidfd(child.pid)
    waited_on = [each for each in (parent_fd, child_fd, wake_read) if each is not None]
    kill_at: float | None = None
    while True:
        limit = None if kill_at is None else max(0.0, kill_at - time.monotonic())
        if parent_fd is None:
            limit = _LOOK_S if limit is None else min(limit, _LOOK_S)
        ready, _, _ = select.select(waited_on, [], [], limit)
        if child_fd in ready or child.poll() is not None:
            break
        if parent_fd in ready or os.getppid() != parent or (kill_at is not None and time.monotonic() >= kill_at):
            child.kill()
            break
        if wake_read in ready:
            os.read(wake_read, 64)
            if kill_at is None:
                child.send_signal(stop_signal)
                kill_at = time.monotonic() + grace_s
    status = child.wait()
    if afterwards:
        with Path(log_path).open("ab") as log, contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(afterwards, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=_AFTERWARDS_S, check=False)
    _kill_what_is_left()
    return 128 - status if status < 0 else status


def _pidfd(pid: int) -> int | None:
    return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None


def _kill_what_is_left() -> None:
    """Kill the children that this process inherited as subreaper, until none is left."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    # The kernel lacks this file.
    with contextlib.suppress(OSError):
        while left := children.read_text().split():
            for pid in left:
                os.kill(int(pid), signal.SIGKILL)
            for pid in left:
                os.waitpid(int(pid), 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4], json.loads(sys.argv[5]), sys.argv[7:]))
