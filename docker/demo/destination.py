"""Where the changes end up: the run only asks whether everything has arrived and whether a table is the same there.

The lake, behind the Spark job, is the demo's; tests of the worker alone use the topics themselves instead.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import time
from pathlib import Path
from typing import Any, Protocol

from stack import Kafka

from demo import source
from demo.compare import TableResult, compare_table
from demo.connection import Connect
from demo.lake import Lake
from demo.load import SENTINELS
from demo.pipeline import Sink, Worker
from demo.progress import Numbers
from demo.shop import DATABASE, TABLES

SAMPLE_INTERVAL_S = 4.0
OPEN_MAX = dt.timedelta(hours=2)
"""The shop is never open as long as this."""
SINK_COLUMNS_PREFIX = "_dblog_"
"""Columns that the sink adds to every table begin so."""


class RunFailedError(Exception):
    """The run could not come to its comparison; the text names the step and the log to look into."""


class Destination(Protocol):
    """The far end of a run."""

    def start(self, ending: contextlib.ExitStack, worker: Worker) -> None:
        """Begin to receive; what is started is ended by ``ending``."""

    def check(self) -> None:
        """Raise RunFailedError when nothing will arrive any more."""

    def arrived(self) -> bool:
        """The last row of every table is here."""

    def moved(self) -> int:
        """A number that changes whenever something arrives: as long as it does, there is no reason to give up."""

    def kill(self) -> int | None:
        """SIGKILL what receives, and start it again; its former process."""

    def compare(self, connect: Connect, table: str) -> TableResult:
        """Compare one table of the source with what is here."""

    def sample(self, numbers: Numbers) -> None:
        """Fill in what can be shown."""


class DeltaLake:
    """Delta tables, written by the Spark job that this starts."""

    def __init__(self, kafka: Kafka, folder: Path, *, prefix: str) -> None:
        self._kafka, self._folder, self._prefix = kafka, folder, prefix
        self._sink: Sink | None = None
        self._lake = Lake(folder / "lake")
        self._sampled_at_s = 0.0

    def start(self, ending: contextlib.ExitStack, worker: Worker) -> None:
        """Submit the Spark job."""
        sink = Sink(self._kafka, self._folder, registry_url=worker.url, prefix=self._prefix, database=DATABASE, name=self._prefix)
        ending.enter_context(sink)
        self._sink, self._lake = sink, Lake(sink.lake, sink.jars)

    def check(self) -> None:
        """The job must not have ended."""
        if self._sink is None or not self._sink.running:
            raise RunFailedError(f"the Spark job has ended by itself\n{self._sink.log_end() if self._sink else ''}")

    def arrived(self) -> bool:
        """Look for the sentinels."""
        return all(self._lake.count_rows(DATABASE, table, where) > 0 for table, (_, where) in SENTINELS.items())

    def moved(self) -> int:
        """Commits of all tables."""
        return sum(self._lake.version(DATABASE, table) for table in TABLES)

    def kill(self) -> int | None:
        """Kill the job with its JVM, and submit it again with the same configuration."""
        assert self._sink is not None, "killed after its start"
        pid = self._sink.pid
        self._sink.kill()
        self._sink.start()
        return pid

    def damage(self, table: str, column: str) -> str:
        """Change a text in one row, as a stranger to the sink may; which row."""
        return self._lake.damage(DATABASE, table, column)

    def outcome(self, kind: str, dump: str) -> dict[str, Any] | None:
        """What the job has reported of a dump's end, by its progress file; None as long as it has not."""
        assert self._sink is not None, "asked after its start"
        lines = self._sink.progress_file.read_text().splitlines() if self._sink.progress_file.exists() else []
        found = (json.loads(line) for line in reversed(lines) if dump in line and line.endswith("}"))
        return next(
            (line for line in found if line.get("kind") == kind and line.get("dump") == dump and line.get("result") != "waits"), None
        )

    def show_verified(self, table: str) -> list[str]:
        """What ``dblog-sink verified`` prints of a table."""
        assert self._sink is not None, "asked after its start"
        return self._sink.ask("verified", table)

    def compare(self, connect: Connect, table: str) -> TableResult:
        """Read the Delta table with delta-rs."""
        return compare_with_lake(connect, self._lake, DATABASE, table)

    def sample(self, numbers: Numbers) -> None:
        """Rows in all tables, and how much newer the source's newest order is than the lake's: orders are placed all the time."""
        if time.monotonic() - self._sampled_at_s < SAMPLE_INTERVAL_S:
            return
        numbers.rows_lake = sum(self._lake.count_rows(DATABASE, table) for table in TABLES)
        newest = self._lake.newest(DATABASE, "orders", "placed")
        if newest is not None and numbers.newest_order_at is not None:
            lag = numbers.newest_order_at - newest.replace(tzinfo=dt.UTC)
            # Before the first live order has arrived there are only those of years ago.
            numbers.lag_s = max(0.0, lag.total_seconds()) if lag < OPEN_MAX else None
        self._sampled_at_s = time.monotonic()


def compare_with_lake(connect: Connect, lake: Lake, database: str, table: str) -> TableResult:
    """Compare one table of the source with its Delta table; one that is not there yet has no rows."""
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
