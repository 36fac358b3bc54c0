"""Keeps downloads in one folder per machine, whatever the number of clones and concurrent runs.

An entry is a folder named after its content (with versions or a hash of its recipe, so a new recipe
is a new entry). It is filled under a temporary name and renamed when complete, so an existing entry
is complete even after a crash. A file lock for each entry makes a second run wait for the first
instead of downloading again.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path


def cache_folder() -> Path:
    """Return `DBLOG_CACHE`, or `dblog` in the user's cache folder (XDG Base Directory
    Specification).
    """
    if chosen := os.environ.get("DBLOG_CACHE"):
        return Path(chosen).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "dblog"


def cached(name: str, fill: Callable[[Path], None]) -> Path:
    """Return the complete entry `name`. If there is none, `fill` is called with an empty folder."""
    entry = cache_folder() / name
    if entry.is_dir():
        return entry
    with locked(name):
        # Another run filled it while this one waited for the lock.
        if entry.is_dir():
            return entry
        partial = entry.with_name(f"{name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        fill(partial)
        partial.rename(entry)
    return entry


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the machine-wide lock `name` inside the block.

    The kernel frees it if this process dies.
    """
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
