"""What a mode gets for one table and one batch, and what it reports back."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from dblog_sink.config import Settings
from dblog_sink.decode import Decoding
from dblog_sink.merge import Txn
from dblog_sink.quarantine import Quarantine
from dblog_sink.target import Target
from dblog_sink.tombstones import Tombstones


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One table's share of a batch. ``raw`` are its records without tombstones (null values); ``session`` is lent to this work alone."""

    topic: str
    target: Target
    tombstones: Tombstones | None
    raw: DataFrame
    decoding: Decoding
    records: int
    session: SparkSession
    settings: Settings
    quarantine: Quarantine
    txn: Txn


@dataclass(slots=True, kw_only=True)
class Applied:
    """What became of one table's share of a batch."""

    table: str
    records: int
    upserts: int = 0
    deletes: int = 0
    bad: int = 0
    appended: int = 0
    merged: int = 0
    path: str = ""
    rows: int = 0
    seconds: float = 0.0
    source_ts_ms: int | None = None
    changes: list[str] = field(default_factory=list)
