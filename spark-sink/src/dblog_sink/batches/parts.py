"""The objects shared by all code that writes tables, built once (``job/build.py``)."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from dblog_sink.batches.failures import Failures
from dblog_sink.batches.landing import Landing
from dblog_sink.batches.table_book import TableBook
from dblog_sink.config.job_options import Settings
from dblog_sink.observe.progress import Progress
from dblog_sink.state.control_table import ControlTable
from dblog_sink.state.crash_points import Reached
from dblog_sink.tables.apply import Applier


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The shared objects of one job."""

    settings: Settings
    applier: Applier
    landing: Landing
    control: ControlTable
    book: TableBook
    progress: Progress
    reached: Reached
    batch_failures: Failures
    """Failures of tables in batches."""
    merge_failures: Failures
    """Failures of merges, by whichever strategy."""
    ending: threading.Event = field(default_factory=threading.Event)
    """Set when no merge may begin any more."""
