"""What a mode gets for one table and one batch, and what it reports back."""

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
"""Fewer rows of a batch are written as one file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One table's part of a batch. ``raw`` are its records, without null values unless ``nulls``; ``session`` is lent to this work alone."""

    topic: str
    target: Target
    tombstones: Tombstones | None
    confirmed: Tombstones | None
    """Of a history: the keys whose rows a dump has shown to be as the table has them, with the dump's positions."""
    raw: DataFrame
    decoding: Decoding
    records: int
    value_bytes: int
    """Of the records as they came, envelopes included."""
    session: SparkSession
    settings: Settings
    quarantine: Quarantine
    txn: Txn
    reached: Reached
    truncate: str = "apply"
    """What a truncate of the source table does: ``apply``, ``ignore`` or ``park``."""
    unordered: str | None = None
    """Why a truncate cannot be ordered among the rows of the table's other partitions; None: it can."""
    unordered_from: int = 0
    """Of truncates that were applied before, only those at or above this first number of a position cannot be ordered."""
    replayed: bool = False
    """The records come out of quarantine: others of their keys may have been applied since."""
    merge_only: bool = False
    """This Delta does not have what ``delta/upsert.py`` calls: MERGE writes instead."""
    nulls: bool = False
    """Null values are among the records, for the topic is compacted: a delete before one may be missing."""


@dataclass(slots=True, kw_only=True)
class Applied:
    """What became of one table's part of a batch."""

    table: str
    topic: str
    records: int
    upserts: int = 0
    deletes: int = 0
    bad: int = 0
    left_out: int = 0
    """Dumped rows of some columns only, of which the table has no row that is not newer."""
    appended: int = 0
    merged: int = 0
    path: str = ""
    rows: int = 0
    seconds: float = 0.0
    source_ts_ms: int | None = None
    changes: list[str] = field(default_factory=list)
    table_id: str | None = None
    """The Delta table's own id."""
    version: int | None = None
    """The version up to which its history was looked at, before anything was written."""
    appending: bool = False
    """The table is in append mode."""
    positions: dict[int, LogEnd] = field(default_factory=dict)
    """The highest log position by topic partition, of a table in append mode."""

    def leave_out(self, count: int) -> None:
        """So many rows were left out."""
        self.left_out += count
