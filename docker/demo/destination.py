"""The far end of a run: waits until everything has arrived, and compares tables.

The demo uses the lake, written by the Spark job. Tests of the worker alone use the topics instead.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from stack import Kafka
from stack.process import GuardedProcess

from demo import source
from demo.compare import TableResult, compare_table
from demo.connection import Connect
from demo.lake import Lake
from demo.load import SENTINELS
from demo.pipeline import Sink, Worker
from demo.screen import Numbers
from demo.shop import DATABASE, TABLES

SAMPLE_INTERVAL_S = 2.0
OPEN_MAX = dt.timedelta(hours=2)
"""Upper bound on the time that the shop is open."""
SINK_COLUMNS_PREFIX = "_dblog_"
"""Prefix of columns that the sink adds to every table."""


class RunFailedError(Exception):
    """Raised when a run cannot reach its comparison.

    The text names the step and the log to look into.
    """


class Destination(Protocol):
    """The far end of a run."""

    @property
    def programs(self) -> Sequence[GuardedProcess]:
        """Programs that it has started, to be stopped."""

    def start(self, worker: Worker) -> None:
        """Start receiving. The worker and the broker need not run yet."""

    def check(self) -> None:
        """Raise RunFailedError if nothing will arrive any more."""

    def missing(self) -> Sequence[str]:
        """Return the tables whose last row has not arrived."""

    def moved(self) -> int:
        """Return a number that changes whenever something arrives, as a reason to keep waiting."""

    def kill(self) -> int | None:
        """Kill the receiver with SIGKILL and start it again. Return its former process id."""

    def compare(self, connect: Connect, table: str) -> TableResult:
        """Compare one table of the source with this end."""

    def sample(self, numbers: Numbers) -> None:
        """Fill in the numbers that can be shown."""


class DeltaLake:
    """The Delta tables, written by a Spark job that this class starts."""

    def __init__(self, kafka: Kafka, folder: Path, *, prefix: str) -> None:
        self._kafka, self._folder, self._prefix = kafka, folder, prefix
        self._sink: Sink | None = None
        self._lake = Lake(folder / "lake")
        self._sampled_at_s = 0.0
        self._looked: dict[str, tuple[int, bool]] = {}
        """Version of each table in which its last row was looked for, and whether it was there."""

    @property
    def programs(self) -> Sequence[GuardedProcess]:
        """The Spark job, once it was submitted."""
        return [] if self._sink is None else [self._sink]

    def start(self, worker: Worker) -> None:
        """Submit the Spark job."""
        sink = Sink(self._kafka, self._folder, registry_url=worker.url, prefix=self._prefix, database=DATABASE, name=self._prefix)
        self._sink, self._lake = sink, Lake(sink.lake, sink.jars)
        sink.start()

    def check(self) -> None:
        """Raise RunFailedError if the Spark job has ended."""
        if self._sink is None or not self._sink.running:
            raise RunFailedError(f"the Spark job has ended by itself\n{self._sink.log_end() if self._sink else ''}")

    def missing(self) -> Sequence[str]:
        """Return the tables of the lake without their sentinel row."""
        for table, (_, where) in SENTINELS.items():
            version, was_there = self._lake.version(DATABASE, table), self._looked.get(table, (0, False))
            if not was_there[1] and version != was_there[0]:
                self._looked[table] = version, self._lake.count_rows(DATABASE, table, where) > 0
        return [table for table in SENTINELS if not self._looked.get(table, (0, False))[1]]

    def moved(self) -> int:
        """Return the number of commits of all tables."""
        return sum(self._lake.version(DATABASE, table) for table in TABLES)

    def kill(self) -> int | None:
        """Kill the job with its JVM, and submit it again with the same configuration."""
        assert self._sink is not None, "killed after its start"
        pid = self._sink.pid
        self._sink.kill()
        self._sink.start()
        return pid

    def damage(self, table: str, column: str) -> str:
        """Change a text in one row, as a stranger might. Return the condition of that row."""
        return self._lake.damage(DATABASE, table, column)

    def outcome(self, kind: str, dump: str) -> dict[str, Any] | None:
        """Return what the job's progress file reports of a dump's end, or None before that."""
        assert self._sink is not None, "asked after its start"
        lines = self._sink.progress_file.read_text().splitlines() if self._sink.progress_file.exists() else []
        found = (json.loads(line) for line in reversed(lines) if dump in line and line.endswith("}"))
        return next(
            (line for line in found if line.get("kind") == kind and line.get("dump") == dump and line.get("result") != "waits"), None
        )

    def wrong_rows(self, dump: str) -> list[str]:
        """Return the keys of the wrong rows in the verdict on a verify dump."""
        return self._lake.wrong_rows(dump)

    def compare(self, connect: Connect, table: str) -> TableResult:
        """Compare one table of the source with its Delta table, read by delta-rs."""
        return compare_with_lake(connect, self._lake, DATABASE, table)

    def sample(self, numbers: Numbers) -> None:
        """Fill in the rows of all tables and the lag.

        The lag is how much newer the source's newest order is than the lake's; orders are placed
        all the time.
        """
        if time.monotonic() - self._sampled_at_s < SAMPLE_INTERVAL_S:
            return
        numbers.commits = self.moved()
        numbers.rows_by_table = {table: self._lake.rows(DATABASE, table) for table in TABLES}
        numbers.rows_lake = sum(numbers.rows_by_table.values())
        newest = self._lake.newest(DATABASE, "orders", "placed")
        if newest is not None and numbers.newest_order_at is not None:
            lag = numbers.newest_order_at - newest.replace(tzinfo=dt.UTC)
            # Before the first live order has arrived, the newest ones are years old.
            numbers.lag_s = max(0.0, lag.total_seconds()) if lag < OPEN_MAX else None
        self._sampled_at_s = time.monotonic()


def compare_with_lake(connect: Connect, lake: Lake, database: str, table: str) -> TableResult:
    """Compare one table of the source with its Delta table.

    A table that does not exist has no rows.
    """
    described = source.describe(connect, database, table)
    names = lake.column_names(database, table)
    return compare_table(
        table,
        columns=described.columns,
        key=described.key,
        source_rows=source.read_rows(connect, database, table, described.columns),
        lake_names=names,
        lake_rows=lake.read_rows(database, table, names) if names else (),
        ignored=frozenset(name for name in names if name.startswith(SINK_COLUMNS_PREFIX)),
    )
