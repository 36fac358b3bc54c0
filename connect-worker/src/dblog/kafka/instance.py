"""Identifies a worker as the same group member over its runs on one machine, and proves which of
these runs have ended.

Brokers keep the place of a killed member for a session (session.timeout.ms), and the next leader
waits as long for the lease of the last claim. A restarted worker needs neither: it joins as the
same member (group.instance.id, KIP-345 "static membership"), and ignores claims of runs that have
ended for certain. # I7

The proof is a lock on a file in the directory for temporary files. The kernel releases it when the
process ends for any reason, and kills its tasks at the same moment (``__main__``). The file lists
the runs that have held the lock; they have ended when another run gets it. A copy of the file, an
image of the machine, or a file from before a boot proves nothing. So the file records its own
identity and the boot, and a file that records others is replaced. A worker without a lock is an
ordinary member and waits for a session.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

_log = structlog.get_logger("dblog.kafka.group")

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_RUNS_MAX = 32
"""Number of runs to remember. A claim of an older run has long been replaced, or is waited for."""
_BYTES_MAX = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """The identity of one run. The process holds the lock as long as it runs."""

    id: str
    """The group.instance.id, the same for every run."""
    run: str
    """Identity of this run alone."""
    ended: frozenset[str]
    """Runs that have ended together with all their tasks."""


def take_instance(*names: str, directory: Path | None = None) -> Instance | None:
    """Return the instance of the worker that ``names`` identify on this machine.

    Return None if another process holds it, or if the end of a run cannot be proved here.
    """
    key = hashlib.sha256("\0".join(names).encode()).hexdigest()[:16]
    path: Path | None = None
    try:
        path = (directory or Path(tempfile.gettempdir())) / f"dblog-worker-{os.geteuid()}-{key}"
        boot = _BOOT.read_text().strip()
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as e:
        _report(e.strerror or str(e), path)
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held = os.fstat(file)
        if not _is_ours(held, path):
            os.close(file)
            _report("it is not a file of this user's alone", path)
            return None
        self = {"boot": boot, "device": held.st_dev, "inode": held.st_ino}
        known = _read(file)
        runs: list[str] = []
        identity = f"dblog-{uuid.uuid4().hex}"
        if known is not None and all(known.get(name) == value for name, value in self.items()):
            identity, runs = known["id"], known["runs"]
        run = uuid.uuid4().hex
        # Written before the run's first claim: a claim of a run that is not listed is waited for.
        _write(file, {**self, "id": identity, "runs": [*runs, run][-_RUNS_MAX:]})
    except OSError as e:
        os.close(file)
        _report("another process of the same worker holds it" if isinstance(e, BlockingIOError) else e.strerror or str(e), path)
        return None
    return Instance(id=identity, run=run, ended=frozenset(runs))


def _report(reason: str, path: Path | None) -> None:
    _log.info("a killed worker will be waited for, since its end cannot be shown", reason=reason, file=str(path or ""))


def _is_ours(held: os.stat_result, path: Path) -> bool:
    """Return True if only this user has the file, and it still has that name."""
    named = path.stat(follow_symlinks=False)
    return (
        stat.S_ISREG(held.st_mode)
        and held.st_uid == os.geteuid()
        and held.st_nlink == 1
        and (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)
    )


def _read(file: int) -> dict[str, Any] | None:
    """Return what the last run wrote. None if it did not finish, or another program wrote it."""
    try:
        known = json.loads(os.pread(file, _BYTES_MAX, 0))
    except ValueError:
        return None
    match known:
        case {"id": str(), "runs": list(runs)} if all(isinstance(run, str) for run in runs):
            return dict(known)
    return None


def _write(file: int, content: dict[str, Any]) -> None:
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps(content).encode(), 0)
