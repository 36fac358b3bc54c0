"""The input of a mode for one table and batch, and its result."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from dblog_sink.config.job_options import Settings
from dblog_sink.delta.merge import Txn
from dblog_sink.delta.target import Target
from dblog_sink.delta.tombstones import Tombstones
from dblog_sink.records.decode import Decoding, LogEnd
from dblog_sink.state.crash_points import Reached
from dblog_sink.tables.quarantine import Quarantine

SMALL_ROWS = 20_000
"""Batches with fewer rows are written as one file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The part of a batch that belongs to one table.

    ``raw`` has its records, without null values unless ``nulls``. ``session`` belongs to this work
    alone.
    """

    topic: str
    target: Target
    tombstones: Tombstones | None
    confirmed: Tombstones | None
    """Keys whose rows a dump has confirmed, with the dump's positions; None unless in history
    mode.
    """
    raw: DataFrame
    decoding: Decoding
    records: int
    value_bytes: int
    """Size of the records' values, including envelopes."""
    session: SparkSession
    settings: Settings
    quarantine: Quarantine
    txn: Txn
    reached: Reached
    truncate: str = "apply"
    """Effect of a truncate of the source table: ``apply``, ``ignore`` or ``park``."""
    unordered: str | None = None
    """Reason why a truncate cannot be ordered among the rows of other partitions, None if it
    can.
    """
    unordered_from: int = 0
    """First number of a position. Truncates applied before cannot be ordered if they are at or
    above it.
    """
    replayed: bool = False
    """True for records from quarantine; other records of their keys may have been applied since."""
    merge_only: bool = False
    """True if this Delta lacks methods that ``delta/upsert.py`` calls, so that MERGE must write."""
    nulls: bool = False
    """True if there are null values and the topic is compacted, so that a delete before one may be
    missing.
    """


@dataclass(slots=True, kw_only=True)
class Applied:
    """The result for one table's part of a batch."""

    table: str
    topic: str
    records: int
    upserts: int = 0
    deletes: int = 0
    bad: int = 0
    left_out: int = 0
    """Number of dumped rows of some columns only without an older row in the table."""
    appended: int = 0
    merged: int = 0
    path: str = ""
    rows: int = 0
    seconds: float = 0.0
    source_ts_ms: int | None = None
    changes: list[str] = field(default_factory=list)
    table_id: str | None = None
    """Delta's id of the table."""
    version: int | None = None
    """Version up to which its commits were checked before anything was written."""
    appending: bool = False
    """True if the table is in append mode."""
    positions: dict[int, LogEnd] = field(default_factory=dict)
    """Topic partition to the highest log position, for a table in append mode."""

    def leave_out(self, count: int) -> None:
        """Count rows that were left out."""
        self.left_out += count
