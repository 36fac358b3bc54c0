"""Keeps the positions of deleted keys, so that no older row restores a deleted key (I2).

They are in a table beside each mirror.

The mirror has live rows only, so any Delta reader sees a clean copy of the source. A hidden row for
each deleted key in the mirror would save a commit, but every reader would have to filter
(docs/decisions.md). The tombstones are written before the mirror: after a crash in between, the
replayed batch finds its tombstones there already and deletes again.

Rows are only appended. A key may occur several times; its highest position counts. Rows come in the
order of positions, so file statistics skip almost everything when looking for tombstones that are
later than a batch's oldest row. A row with NULL in all key columns is a truncate floor: every row
before that position is deleted.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as t

from dblog_sink.delta.file_skipping import unwritten
from dblog_sink.delta.merge import Txn, append, not_older
from dblog_sink.delta.session import fitted
from dblog_sink.records.decode import OFFSET, PARTITION, SEQ1, SEQ2, TS_MS, Columns
from dblog_sink.schema import evolve
from dblog_sink.schema.types import quote
from dblog_sink.state.new_table import new_table

AT = "_dblog_at"
NULL_AT = "_dblog_null_at"
"""Partition and offset of a Kafka null value whose delete event is lost. Together with the null's
Kafka timestamp they identify it.
"""
Position = tuple[int, int]


@dataclass(slots=True)
class Tombstones:
    """The tombstones of a table.

    ``last`` is the highest position of a delete, None without tombstones. ``floors`` has the
    truncates.
    """

    path: str
    keys: Columns
    exists: bool
    last: Position | None = None
    floors: dict[Position, int | None] = field(default_factory=dict)
    """Position of a truncate to its time on the source in milliseconds."""

    @property
    def floor(self) -> Position | None:
        """Position of the last truncate, None without one."""
        return max(self.floors, default=None)

    def write(self, session: SparkSession, deletes: DataFrame, last: Position, txn: Txn) -> None:
        """Record the positions of deletes; ``last`` is the highest of them."""
        self._ensure(session)
        (now,) = unwritten([round(time.time() * 1e6)], F.col(SEQ1))
        null_at = F.col(NULL_AT) if NULL_AT in deletes.columns else F.lit(None).cast("string").alias(NULL_AT)
        rows = deletes.select(*(quote(name) for name, _ in self.keys), SEQ1, SEQ2, TS_MS, F.timestamp_micros(now).alias(AT), null_at)
        append(rows.coalesce(1), self.path, [*(name for name, _ in self.keys), SEQ1, SEQ2, TS_MS, AT, NULL_AT], txn)
        self.last = last if self.last is None else max(self.last, last)

    def write_floor(self, session: SparkSession, position: Position, txn: Txn, *, ts_ms: int | None = None) -> None:
        """Record a truncate. ``ts_ms`` is its time on the source."""
        self._ensure(session)
        nulls = [F.lit(None).cast(kind).alias(name) for name, kind in self.keys]
        row = session.range(1).select(
            *nulls,
            F.lit(position[0]).cast("long").alias(SEQ1),
            F.lit(position[1]).cast("long").alias(SEQ2),
            F.lit(ts_ms).cast("long").alias(TS_MS),
            F.current_timestamp().alias(AT),
        )
        append(row, self.path, [*(name for name, _ in self.keys), SEQ1, SEQ2, TS_MS, AT], txn)
        self.floors[position] = ts_ms

    def alive(self, session: SparkSession, rows: DataFrame, oldest: Position) -> DataFrame:
        """Return ``rows`` without those that a later truncate or delete has removed.

        ``oldest`` is their lowest position.
        """
        if self.floor is not None and oldest < self.floor:
            rows = rows.where((F.col(SEQ1) > self.floor[0]) | ((F.col(SEQ1) == self.floor[0]) & (F.col(SEQ2) >= self.floor[1])))
        if self.last is None or oldest >= self.last:
            return rows
        names = [name for name, _ in self.keys]
        later = (
            session.read.format("delta")
            .load(self.path)
            .where((F.col(SEQ1) > oldest[0]) | ((F.col(SEQ1) == oldest[0]) & (F.col(SEQ2) > oldest[1])))
            .where(F.col(quote(names[0])).isNotNull())
            .select(
                *(F.col(quote(name)).alias(f"_dblog_dead_{n}") for n, name in enumerate(names)),
                F.col(SEQ1).alias(f"_dblog_dead{SEQ1}"),
                F.col(SEQ2).alias(f"_dblog_dead{SEQ2}"),
            )
        )
        same_key = [F.col(quote(name)) == F.col(f"_dblog_dead_{n}") for n, name in enumerate(names)]
        return rows.join(later, [*same_key, ~not_older("", "_dblog_dead")], "left_anti")

    def none_behind(self, oldest: Position) -> bool:
        """Return True if no truncate or delete after this position is known.

        ``alive`` then has nothing to look up.
        """
        return (self.floor is None or oldest >= self.floor) and (self.last is None or oldest >= self.last)

    def later(self, session: SparkSession, first: Position) -> DataFrame | None:
        """Return deletes at or after ``first`` with key columns, position and time, or None if
        there are none.
        """
        if self.last is None or first > self.last:
            return None
        found = session.read.format("delta").load(self.path)
        found = found.where((F.col(SEQ1) > first[0]) | ((F.col(SEQ1) == first[0]) & (F.col(SEQ2) >= first[1])))
        return found.where(F.col(quote(self.keys[0][0])).isNotNull()).select(*(quote(name) for name, _ in self.keys), SEQ1, SEQ2, TS_MS)

    def of_nulls(self, session: SparkSession, nulls: DataFrame) -> DataFrame:
        """Return ``nulls`` with the position that each got earlier, NULL for new ones.

        The columns of ``nulls`` are those of the key, ``OFFSET``, ``PARTITION`` and ``TS_MS``.
        """
        names = [quote(name) for name, _ in self.keys]
        null_at = F.concat_ws(":", PARTITION, OFFSET).alias(NULL_AT)
        asked = nulls.select("*", null_at)
        if not self.exists:
            return asked.withColumns({SEQ1: F.lit(None).cast("long"), SEQ2: F.lit(None).cast("long")})
        found = session.read.format("delta").load(self.path).where(F.col(NULL_AT).isNotNull()).select(*names, SEQ1, SEQ2, TS_MS, NULL_AT)
        return asked.join(found.distinct(), [*(name for name, _ in self.keys), TS_MS, NULL_AT], "left")

    def evolved(self, session: SparkSession, table: str, keys: Columns) -> None:
        """Follow key columns whose types grew."""
        if self.exists:
            evolve.apply(session, self.path, evolve.changes(table, self.keys, keys))
        self.keys = keys

    def compact(self, session: SparkSession, keep_h: float, *, oldest_ms: int | None = None) -> None:
        """Delete old tombstones and compact small files. Truncate floors stay.

        ``oldest_ms`` is the time of the table's oldest quarantined record. Its replay must find the
        deletes that would have applied then.
        """
        if not self.exists:
            return
        table = DeltaTable.forPath(session, self.path)
        first = F.col(quote(self.keys[0][0]))
        now = (
            F.current_timestamp()
            if oldest_ms is None
            else F.least(F.current_timestamp(), F.timestamp_millis(F.lit(oldest_ms).cast("long")))
        )
        table.delete(first.isNotNull() & (F.col(AT) < now - F.make_interval(secs=F.lit(keep_h * 3600.0))))
        table.optimize().executeCompaction()

    def _ensure(self, session: SparkSession) -> None:
        if self.exists:
            return
        fields = [
            *self.keys,
            (SEQ1, t.LongType()),
            (SEQ2, t.LongType()),
            (TS_MS, t.LongType()),
            (AT, t.TimestampType()),
            (NULL_AT, t.StringType()),
        ]
        builder = new_table(session, self.path)
        builder = builder.addColumns(t.StructType([t.StructField(name, kind) for name, kind in fields])).property(
            "delta.checkpointInterval", "50"
        )
        if any(evolve.needs_mapping(name, kind) for name, kind in self.keys):
            builder = builder.property(*evolve.MAPPED)
        with fitted(session, 0):
            builder.execute()
        self.exists = True


def opened(session: SparkSession, *, path: str, keys: Columns) -> Tombstones:
    """Open the tombstones at ``path``. The table may not exist yet; the first delete creates it."""
    if not DeltaTable.isDeltaTable(session, path):
        return Tombstones(path=path, keys=keys, exists=False)
    table = session.read.format("delta").load(path)
    missing = [f"{name} {kind}" for name, kind in ((TS_MS, "BIGINT"), (NULL_AT, "STRING")) if name not in table.columns]
    # The table was created by an earlier version of the sink.
    if missing:
        session.sql(f"ALTER TABLE delta.{quote(path)} ADD COLUMNS ({', '.join(missing)})")
        table = session.read.format("delta").load(path)
    # Key types are taken from the table as it is, because an attempt may have been interrupted
    # between widening the key of the mirror and that of its tombstones (evolved).
    held = {field.name: field.dataType for field in table.schema.fields}
    keys = tuple((name, held.get(name, kind)) for name, kind in keys)
    first = F.col(quote(keys[0][0]))
    last = table.where(first.isNotNull()).agg(F.max(F.struct(SEQ1, SEQ2))).collect()[0][0]
    floors = table.where(first.isNull()).select(SEQ1, SEQ2, TS_MS).collect()
    return Tombstones(
        path=path,
        keys=keys,
        exists=True,
        last=None if last is None else (last[0], last[1]),
        floors={(row[0], row[1]): row[2] for row in floors},
    )
