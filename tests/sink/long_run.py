"""Weeks of commits to a table's Delta log, in minutes: what a look at the log costs a store, by count and not by time.

``make sink-month``, or a few days of it among the tests (job/test_log_cleanup.py). Commits are files written by hand, with the times that they would have had:
Delta reads them, and cleans them, as its own. The clock of the job's cleaning is the simulated one. The cost of a look is counted as stores count it: a store
that lists whole folders lists all names of the log, in pages of 1 000; S3 lists from the last checkpoint on.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dblog_sink.config.log_retention import OWN_LOG_H
from dblog_sink.delta import log_cleanup
from dblog_sink.delta.file_skipping import newest
from dblog_sink.job.log_cleanup import HOT_COMMITS, HOT_TURN_H, LogCleanup
from dblog_sink.state.new_table import new_table
from dblog_sink.state.notes import State
from pyspark.sql import SparkSession
from sink.harness import local_session

HOUR_S, PAGE = 3600.0, 1000
CHECKPOINT_EVERY = 50


@dataclass
class Month:
    """One table at ``path`` that is committed to each ``every_s``, for ``days``; ``log_h``: hours of log that it keeps."""

    session: SparkSession
    path: Path
    days: float
    every_s: float
    log_h: float = OWN_LOG_H
    name: str = "_dblog/control"
    cleaned: bool = True
    """False: nobody cleans the log, as Delta does for 30 days."""
    now_s: float = 0.0
    version: int = 0
    state: State = field(default_factory=State)
    names_most: int = 0
    """The most names that the log has had."""
    since_checkpoint_most: int = 0
    """The most names from the last checkpoint on."""
    deleted_most: int = 0
    """The most names that went in one step."""

    @property
    def log(self) -> Path:
        """The folder of the log."""
        return self.path / "_delta_log"

    def __call__(self) -> None:
        """Let the days pass."""
        new_table(self.session, str(self.path), log_h=self.log_h).addColumn("n", "INT").execute()
        newest(self.session, str(self.path))[0].checkpoint()
        self.checksum = (self.log / f"{0:020}.crc").read_bytes()
        self.checkpoint = (self.log / f"{0:020}.checkpoint.parquet").read_bytes()
        real_s = time.time()
        self.now_s = real_s - self.days * 24 * HOUR_S
        control = SimpleNamespace(state=self.state, record=lambda notes, _step: [self.state.take(note) for note in notes])

        def clean(session: SparkSession, path: str, older_than_h: float) -> None:
            before = len(self.names)
            log_cleanup.clean(session, path, older_than_h + (time.time() - self.now_s) / HOUR_S)
            self.deleted_most = max(self.deleted_most, before - len(self.names))

        cleanup = LogCleanup(
            self.session,
            keep_h=lambda _name, _path: self.log_h,
            checked=dict,
            control=control,
            now_s=lambda: self.now_s,
            clean=clean,
        )
        while self.now_s < real_s - self.every_s:
            self.hour(min(self.now_s + HOT_TURN_H * HOUR_S, real_s))
            self.look()
            if self.cleaned:
                newest(self.session, str(self.path))  # the driver knows the commits, for they are its own
                cleanup.look({self.name: str(self.path)})

    def hour(self, until_s: float) -> None:
        """Commit until then."""
        self.touch(f"{self.version:020}.json", self.now_s)
        while self.now_s < until_s:
            self.now_s += self.every_s
            self.version += 1
            commit = {"commitInfo": {"timestamp": round(self.now_s * 1000), "operation": "WRITE", "operationParameters": {}}}
            self.write(f"{self.version:020}.json", json.dumps(commit).encode())
            self.write(f"{self.version:020}.crc", self.checksum)
            if self.version % CHECKPOINT_EVERY == 0:
                self.write(f"{self.version:020}.checkpoint.parquet", self.checkpoint)
                self.write("_last_checkpoint", json.dumps({"version": self.version, "size": 2}).encode())

    def write(self, name: str, content: bytes) -> None:
        """Write a file of the log as of now."""
        (self.log / name).write_bytes(content)
        (self.log / f".{name}.crc").unlink(missing_ok=True)
        self.touch(name, self.now_s)

    def touch(self, name: str, at_s: float) -> None:
        """Set the file's time, if it is there."""
        if (self.log / name).exists():
            os.utime(self.log / name, (at_s, at_s))

    @property
    def names(self) -> list[str]:
        """The names in the log, without the sums that the local file system keeps beside."""
        return [one.name for one in self.log.iterdir() if not one.name.startswith(".")]

    def look(self) -> None:
        """Count what a look at the log lists now."""
        names = self.names
        last = f"{self.version // CHECKPOINT_EVERY * CHECKPOINT_EVERY:020}"
        self.names_most = max(self.names_most, len(names))
        self.since_checkpoint_most = max(self.since_checkpoint_most, sum(last <= name < "_" for name in names))

    @property
    def bound(self) -> int:
        """The most names that the log may have: those of its retention, those until it is cleaned, and three checkpoints."""
        commits = self.log_h * HOUR_S / self.every_s + self.commits_between_turns + 3 * CHECKPOINT_EVERY
        return round(commits * (2 + 1 / CHECKPOINT_EVERY)) + 10

    @property
    def commits_between_turns(self) -> int:
        """The most commits until a hot table has its next turn; times are cut to whole hours."""
        return round(HOT_COMMITS + 3 * HOT_TURN_H * HOUR_S / self.every_s)

    @property
    def facts(self) -> dict[str, Any]:
        """What was counted."""
        return {
            "commits": self.version,
            "names at most": self.names_most,
            "pages of a whole listing": -(-self.names_most // PAGE),
            "names from the last checkpoint on": self.since_checkpoint_most,
            "deleted in one step at most": self.deleted_most,
        }


def main() -> int:
    """A month of the control table's commits, and one of a hot table's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=30.0)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two commits")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="dblog-month-"))
    session = local_session(folder / "spark")
    wrong = 0
    for name, log_h in (("_dblog/control", OWN_LOG_H), ("shop.hot", 192.0)):
        month = Month(session, folder / name, days=given.days, every_s=given.every, log_h=log_h, name=name)
        if name == "shop.hot":
            month.name = "_dblog/hot"  # asked for its version as a table of the sink's own is
        month()
        ok = month.names_most <= month.bound
        wrong += not ok
        print(f"{name}: {'bounded' if ok else f'more than {month.bound} names'}: {month.facts}", flush=True)
    session.stop()
    shutil.rmtree(folder)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
