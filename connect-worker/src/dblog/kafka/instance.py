"""Which member of its group a worker is over its runs on one machine, and which of these runs have ended.

Brokers keep the place of a member that was killed for a session (session.timeout.ms), and whoever leads next waits as long for the lease of the last
claim. A worker that is started again needs neither: it joins as the same member (group.instance.id, KIP-345 "static membership"), and passes over the
claims of runs that have ended for certain. # I7

That is shown by a lock on a file in the directory for temporary files. The kernel gives it up when the process has ended, whatever ended it, and kills its
tasks in the same moment (``__main__``). The file names the runs that have held the lock, and so have ended when another one gets it. A copy of the file, an
image of the machine or a file from before a boot shows nothing: so the file names itself and the boot, and one that names others is begun anew. Where no
lock can be had the worker is a member like any other, and waits for a session.
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
"""As many runs are remembered: a claim of an older one has long been replaced by theirs, or is waited for."""
_BYTES_MAX = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """Of one run. The lock is its process's as long as that runs."""

    id: str
    """The same for every run: group.instance.id."""
    run: str
    """This run's own."""
    ended: frozenset[str]
    """Runs that have ended, and all their tasks."""


def take_instance(*names: str, directory: Path | None = None) -> Instance | None:
    """The instance of the worker that these names distinguish on this machine; None where it is another process's, or nothing can be shown here."""
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
        # Written ahead of the run's first claim: a claim of a run that is not here is waited for.
        _write(file, {**self, "id": identity, "runs": [*runs, run][-_RUNS_MAX:]})
    except OSError as e:
        os.close(file)
        _report("another process of the same worker holds it" if isinstance(e, BlockingIOError) else e.strerror or str(e), path)
        return None
    return Instance(id=identity, run=run, ended=frozenset(runs))


def _report(reason: str, path: Path | None) -> None:
    _log.info("a killed worker will be waited for, since its end cannot be shown", reason=reason, file=str(path or ""))


def _is_ours(held: os.stat_result, path: Path) -> bool:
    """Whether it is a file of this user's alone, and still the one of that name."""
    named = path.stat(follow_symlinks=False)
    return (
        stat.S_ISREG(held.st_mode)
        and held.st_uid == os.geteuid()
        and held.st_nlink == 1
        and (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)
    )


def _read(file: int) -> dict[str, Any] | None:
    """What the last run wrote; None where it did not come to its end, or somebody else wrote it."""
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
