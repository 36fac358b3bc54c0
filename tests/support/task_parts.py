"""The parts of a running task that bring log rows and chunk rows into one order, put together as ``readers/run/running.py`` does it, for tests without a source."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from dblog.clock import SystemClock
from dblog.core.watermark import Windows
from dblog.model import Table, TableId
from dblog.readers.chunk_read import ChunkRead
from dblog.readers.dump.chunk import ChunkReader
from dblog.readers.dump.chunk_rows import ChunkRows
from dblog.readers.dump.chunknotes import ChunkNotes
from dblog.readers.dump.closed_windows import ClosedWindows
from dblog.readers.dump.open_windows import OpenWindows
from dblog.readers.dump.order import RecordOrder
from dblog.readers.dump.sharing import Share
from dblog.readers.dump.table_restarts import TableRestarts
from dblog.readers.dump_progress import DumpProgress
from dblog.readers.log.logwatch import RowEstimates
from dblog.readers.queue import BlockingQueue
from dblog.readers.standing_warnings import StandingWarnings
from dblog.readers.tally import Tally
from support.chunk_context import chunk_context


class TaskParts:
    """``encoders`` are those of the tables at the log's position, and ``markers`` gets the marker of each chunk."""

    def __init__(self, *, queue: BlockingQueue, keys_max: int, encoders: Mapping[TableId, Any], markers: list[Any]) -> None:
        any_: Any = SimpleNamespace
        self.clock = SystemClock()
        self.tally = Tally(self.clock)
        self.progress = DumpProgress()
        self.notes = ChunkNotes(self.progress, self.clock)
        self.closed: ClosedWindows[ChunkRead] = ClosedWindows()
        self.windows = OpenWindows(
            windows=Windows(run="run", keys_max=keys_max),
            closed=self.closed,
            progress=self.progress,
            notes=self.notes,
            clock=self.clock,
            warnings=StandingWarnings(),
        )
        retrying: Any = lambda call: call()  # noqa: E731
        chunk_rows = ChunkRows(
            closed=self.closed,
            windows=self.windows,
            progress=self.progress,
            notes=self.notes,
            schemas=any_(encoder=encoders.get),
            records=any_(chunk_context=chunk_context, marker=markers.append),
            log_source=any_(shows=lambda _shown, _table, _low: True),
            retrying=retrying,
            removed=any_(repaired=lambda _dump, _table: None),
            warnings=StandingWarnings(),
            tally=self.tally,
            run="run",
            clock=self.clock,
        )
        self.order = RecordOrder(
            queue=queue,
            windows=self.windows,
            closed=self.closed,
            chunk_rows=chunk_rows,
            progress=self.progress,
            tally=self.tally,
            notifications=None,
            retrying=retrying,
            clock=self.clock,
        )
        self.restarts = TableRestarts(progress=self.progress, windows=self.windows)

    def reader(self, number: int, *, connect: Callable[[], Any], sql: Any, tables: Mapping[TableId, Table], **options: Any) -> ChunkReader:
        """A dump thread over a source that checks nothing: tables are read whole, in every version that ``tables`` has."""
        any_: Any = SimpleNamespace
        given = {
            "server": any_(open_chunks=connect, chunk_sql=sql, own_condition=lambda _table: None),
            "schemas": any_(table=tables.get, prepare=lambda _table: None),
            "modes": WHOLE_TABLES,
            "estimates": RowEstimates(),
            "watermark_name": f"m{number}",
            **options,
        }
        return ChunkReader(number, progress=self.progress, windows=self.windows, notes=self.notes, tally=self.tally, **given)


WHOLE_TABLES: Any = SimpleNamespace(encoder=lambda _table, _mode, _columns: None, can_be_repaired=lambda _table: False)
"""``Modes`` of dumps that send whole rows and remove none."""


class OneByOne:
    """``Shares`` of tables that are read whole, each by one reader."""

    def __init__(self, tables: list[TableId]) -> None:
        self._tables = tables
        self._lock = threading.Lock()

    def next_share(self, number: int) -> Share | None:
        with self._lock:
            return Share(self._tables.pop(0)) if self._tables else None

    def put_back(self, share: Share) -> None:
        pass

    def gives_way(self, share: Share) -> bool:
        return False

    def lets_others_pass(self, share: Share) -> bool:
        return False

    def take_together(self, number: int, tables_max: int) -> list[TableId]:
        return []

    def give_back_together(self, number: int, tables: Any, *, alone: bool) -> None:
        assert not list(tables)

    def wants_part(self, share: Share) -> bool:
        return False


class Threads:
    """``TaskThreads`` whose errors are collected."""

    def __init__(self, run: Callable[[Callable[[], None]], None]) -> None:
        self._run = run

    def spawn(self, name: str, work: Callable[[], None]) -> None:
        threading.Thread(target=self._run, args=(work,), daemon=True).start()


def no_threads() -> Any:
    """``TaskThreads`` that run nothing."""
    return Mock()
