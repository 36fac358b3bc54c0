"""Downloads are made once per machine and kept in one folder, whatever the number of clones and of runs at once.

An entry is a folder named after what is in it (with versions or a hash of its recipe, so a new recipe is a new entry).
It is filled under a temporary name and renamed when complete: an entry that exists is complete, also after a crash.
A file lock per entry makes a second run wait for the first instead of downloading again.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path


def cache_folder() -> Path:
    """`DBLOG_CACHE`, or `dblog` in the user's cache folder (XDG Base Directory Specification)."""
    if chosen := os.environ.get("DBLOG_CACHE"):
        return Path(chosen).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "dblog"


def cached(name: str, fill: Callable[[Path], None]) -> Path:
    """The complete entry `name`; `fill` is called with an empty folder when there is none yet."""
    entry = cache_folder() / name
    if entry.is_dir():
        return entry
    with locked(name):
        if entry.is_dir():  # another run filled it while this one waited for the lock
            return entry
        partial = entry.with_name(f"{name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        fill(partial)
        partial.rename(entry)
    return entry


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the machine-wide lock `name`; it is released by the kernel when this process dies."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
