"""Stores raw records of tables that are not merged at once (tier A), in one append a batch.

The table holds Kafka's bytes instead of rows. So landing needs neither schema nor registry, and the
merge, the freshest state, a parked table and a replay all decode with the same code. There is one
table for all topics, because many small tables cannot each pay for a commit (``docs/decisions.md``,
D12).

Each record carries its batch sequence, and each file has records of one batch, so file statistics
lead a merge straight to its batches. In a batch records are sorted by topic, which Parquet's page
statistics use. Partitions are groups of batches, so deleting merged records touches no file that
stays.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as t

from dblog_sink.batches.schedule import CHECKPOINT_EPOCH_SHIFT, LandedBatch, group
from dblog_sink.delta.file_skipping import admitted, newest, unwritten
from dblog_sink.delta.merge import Txn, append
from dblog_sink.delta.session import MANY_ROWS, another, fit
from dblog_sink.delta.target import identity
from dblog_sink.schema.types import quote
from dblog_sink.schema.wire_format import RECORD, with_schema_ids
from dblog_sink.state.crash_points import Reached
from dblog_sink.state.new_table import new_table

GROUP, SEQUENCE = "sequence_group", "sequence"
_COLUMNS = (GROUP, SEQUENCE, "query_id", *RECORD, "landed_at")
_SCHEMA = t.StructType(
    [
        t.StructField(name, kind)
        for name, kind in (
            (GROUP, t.LongType()),
            (SEQUENCE, t.LongType()),
            ("query_id", t.StringType()),
            ("topic", t.StringType()),
            ("partition", t.IntegerType()),
            ("offset", t.LongType()),
            ("timestamp", t.TimestampType()),
            ("key", t.BinaryType()),
            ("value", t.BinaryType()),
            ("landed_at", t.TimestampType()),
        )
    ]
)
_ONE_FILE_ROWS = 50_000
_EPOCH = "dblog.checkpoint.epoch"
"""Property with the epoch and the query id of the last checkpoint."""
_UNKNOWN = 1 << 20
"""Checkpoint epoch that no sink can have reached by counting. ``schedule.sequence_of`` has room for
eight times as many.
"""


class Landing:
    """The landing table at ``path``. One thread appends; others read."""

    def __init__(self, session: SparkSession, path: str, *, keep_h: float, reached: Reached) -> None:
        self._session = session
        self._for_many = another(session)
        self.path = path
        self._keep_h = keep_h
        self._reached = reached
        self.id = identity(session, path)
        """Delta's id of the table, None while it does not exist. Batch sequences count within
        it.
        """
        self._known_epoch = self._stored_epoch()
        self._thinned: tuple[int, frozenset[str]] = (-1, frozenset())
        """Last group that was reduced to rows of these topics."""

    def append(self, raw: DataFrame, topics: Collection[str], *, sequence: int, query_id: str, rows: int, txn: Txn) -> None:
        """Land the records of ``topics``, unless this batch has landed before."""
        self._ensure()
        landed = raw.where(F.col("topic").isin(list(topics))).withColumns(
            {
                GROUP: F.lit(group(sequence)).cast("long"),
                SEQUENCE: F.lit(sequence).cast("long"),
                "query_id": F.lit(query_id),
                "landed_at": F.current_timestamp(),
            }
        )
        if rows < _ONE_FILE_ROWS:
            landed = landed.coalesce(1)
        append(landed.sortWithinPartitions("topic", "partition", "offset"), self.path, _COLUMNS, txn)
        self._reached("landed")

    def topics_of(self, sequence: int) -> frozenset[str]:
        """Return topics with landed rows of this batch.

        If the batch is repeated, these must not be applied in another way.
        """
        if self.id is None:
            return frozenset()
        return frozenset(row[0] for row in self._batches(sequence - 1, sequence).select("topic").distinct().collect())

    def checkpoint_epochs(self) -> dict[str, int]:
        """Return the epochs of known checkpoints by query id.

        If the control table is lost, these checkpoints keep their epochs, and new ones get others.
        Of deleted batches only the last checkpoint is known, which has the highest epoch. If even
        that is unknown, the result is an epoch that no checkpoint can have had; with a reused epoch
        tables would take new batches for merged ones.
        """
        if self.id is None:
            return {}
        epoch = F.shiftright(F.col(SEQUENCE), CHECKPOINT_EPOCH_SHIFT).alias("epoch")
        rows = self._session.read.format("delta").load(self.path).select("query_id", epoch).distinct().collect()
        return {row["query_id"]: row["epoch"] for row in rows} | self._known_epoch or {"": _UNKNOWN}

    def keep_epoch(self, query_id: str, epoch: int) -> None:
        """Keep the epoch of the current checkpoint in a property.

        It survives the loss of the control table and the deletion of landed batches.
        """
        if self._known_epoch != {query_id: epoch}:
            self._known_epoch = {query_id: epoch}
            if self.id is not None:
                self._session.sql(f"ALTER TABLE delta.{quote(self.path)} SET TBLPROPERTIES ('{_EPOCH}' = '{epoch} {query_id}')")

    def _stored_epoch(self) -> dict[str, int]:
        if self.id is None:
            return {}
        _, snapshot = newest(self._session, self.path)
        found = snapshot.metadata().configuration().get(_EPOCH)
        if not found.isDefined():
            return {}
        epoch, _, query_id = str(found.get()).partition(" ")
        return {query_id: int(epoch)}

    def waiting(self, merged_up_to: Mapping[str, int], *, now_s: float) -> dict[str, list[LandedBatch]]:
        """Return landed batches that are not merged, by topic. Called once after a start.

        ``now_s`` is the clock by which merges become due.
        """
        if self.id is None:
            return {}
        found: dict[str, list[LandedBatch]] = {}
        rows = (
            self._session.read.format("delta")
            .load(self.path)
            .where(F.col(SEQUENCE) > F.coalesce(looked_up(merged_up_to).cast("long"), F.lit(-1)))
            .groupBy("topic", SEQUENCE)
            .agg(F.count("*").alias("n"), F.unix_timestamp(F.min("landed_at")).alias("at"))
            .orderBy(SEQUENCE)
            .collect()
        )
        for row in rows:
            age_s = max(0.0, time.time() - float(row["at"]))
            found.setdefault(row["topic"], []).append(LandedBatch(row[SEQUENCE], row["n"], now_s - age_s))
        return found

    def records(self, topic: str, *, after: int, to: int, rows: int = 0) -> DataFrame:
        """Return the topic's records of batches in (after, to], with schema ids and batch sequence.

        ``rows`` is their approximate number.
        """
        return self._window(after, to, rows, topic).where(F.col("topic") == topic)

    def window(self, *, after: int, to: int, rows: int = 0) -> DataFrame:
        """Return the records of all topics and batches in (after, to]."""
        return self._window(after, to, rows, None)

    def expire(self, first_group: int) -> None:
        """Delete groups before ``first_group`` whose retention has passed.

        Whole files are removed and nothing is read.
        """
        last = self._last_old_group(first_group)
        if last is not None:
            DeltaTable.forPath(self._session, self.path).delete(F.col(GROUP) <= last)
            self._reached("expired")

    def thin(self, first_group: int, topics: frozenset[str]) -> None:
        """Keep only rows of ``topics`` in old groups before ``first_group``.

        A parked table then keeps its own rows alone. Files are rewritten, once for each group while
        the topics stay the same. No other topic waits in these groups.
        """
        last = self._last_old_group(first_group)
        if last is None or self._thinned == (last, topics):
            return
        before, of = self._thinned
        inside = F.col(GROUP) <= last
        if of == topics:
            inside &= F.col(GROUP) > before
        DeltaTable.forPath(self._session, self.path).delete(inside & ~F.col("topic").isin(sorted(topics)))
        self._thinned = (last, topics)
        self._reached("expired")

    def _last_old_group(self, first_group: int) -> int | None:
        """Return the last group before ``first_group`` whose retention has passed, or None."""
        if self.id is None:
            return None
        old = (
            self._session.read.format("delta")
            .load(self.path)
            .where(F.col(GROUP) < first_group)
            .groupBy(GROUP)
            .agg(F.max("landed_at").alias("last"))
            .where(F.col("last") < F.current_timestamp() - F.make_interval(secs=F.lit(self._keep_h * 3600.0)))
            .agg(F.max(GROUP))
            .collect()
        )
        return None if not old or old[0][0] is None else int(old[0][0])

    def _window(self, after: int, to: int, rows: int, topic: str | None) -> DataFrame:
        session = self._session
        if rows >= MANY_ROWS:
            session = self._for_many
            fit(session, rows)
        return with_schema_ids(self._batches(after, to, session, topic), SEQUENCE)

    def _batches(self, after: int, to: int, session: SparkSession | None = None, topic: str | None = None) -> DataFrame:
        """Return the records of the batches.

        ``topic`` only narrows the files to read; records of other topics remain.
        """
        inside = (F.col(GROUP) >= max(group(after), 0)) & (F.col(GROUP) <= group(to)) & (F.col(SEQUENCE) > after) & (F.col(SEQUENCE) <= to)
        if topic is not None:
            inside &= F.col("topic") == topic
        first, last = unwritten((after, to), F.col("partition"))
        return admitted(session or self._session, self.path, inside).where((F.col(SEQUENCE) > first) & (F.col(SEQUENCE) <= last))

    def _ensure(self) -> None:
        if self.id is not None:
            return
        builder = (
            new_table(self._session, self.path)
            .addColumns(_SCHEMA)
            .partitionedBy(GROUP)
            .property("delta.checkpointInterval", "50")
            .property("delta.dataSkippingStatsColumns", f"{SEQUENCE},topic")
        )
        for query_id, epoch in self._known_epoch.items():
            builder = builder.property(_EPOCH, f"{epoch} {query_id}")
        builder.execute()
        self.id = identity(self._session, self.path)


def looked_up(values: Mapping[str, Any], key: Column | None = None) -> Column:
    """Return the value of a key (the topic by default) as a column, NULL if there is none."""
    if not values:
        return F.lit(None).cast("string")
    pairs = [F.lit(part) for pair in sorted(values.items()) for part in pair]
    return F.try_element_at(F.create_map(*pairs), F.col("topic") if key is None else key)
