"""Tier A: the raw records of tables that are not merged at once, one append a batch for all of them.

Kafka's own bytes, not rows: landing then needs neither schema nor registry, and the merge, the view, a parked table and a replay all decode with the
same code. One table for all topics, because the price of a commit is what many small tables cannot pay (delta-sink.md 3.3). Each record
carries its lot, and files of one commit hold one lot, so that file statistics lead a merge straight to the lots it wants; within
a lot the records are sorted by topic, which Parquet's own page statistics use. Partitions are groups of lots: dropping what is merged
touches no file that stays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as t

from dblog_sink.frames import RECORD, headed
from dblog_sink.merge import Txn, append
from dblog_sink.plan import GENERATION_SHIFT, Lot, group
from dblog_sink.session import MANY_ROWS, another, fit
from dblog_sink.skipping import admitted, newest, unwritten
from dblog_sink.steps import Reached
from dblog_sink.target import identity
from dblog_sink.types import quote

GROUP, LOT = "lot_group", "lot"
_COLUMNS = (GROUP, LOT, "generation", *RECORD, "landed_at")
_SCHEMA = t.StructType(
    [
        t.StructField(name, kind)
        for name, kind in (
            (GROUP, t.LongType()),
            (LOT, t.LongType()),
            ("generation", t.StringType()),
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
_NUMBER = "dblog.generation"
"""Property: the number of the last checkpoint, and its query id."""
_UNKNOWN = 1 << 20
"""A number of a checkpoint that no sink has come to, one start at a time; there is room for eight times as many (``plan.lot``)."""


class Landing:
    """The landing table at ``path``. One thread appends; others read."""

    def __init__(self, session: SparkSession, path: str, *, keep_h: float, reached: Reached) -> None:
        self._session = session
        self._for_many = another(session)
        self.path = path
        self._keep_h = keep_h
        self._reached = reached
        self.id = identity(session, path)
        """Delta's own id of the table, None as long as there is none: lots count within it."""
        self._numbered = self._noted()

    def append(self, raw: DataFrame, topics: Collection[str], *, lot: int, generation: str, rows: int, txn: Txn) -> None:
        """Land the records of ``topics``; nothing happens if this lot has landed before."""
        self._ensure()
        landed = raw.where(F.col("topic").isin(list(topics))).withColumns(
            {
                GROUP: F.lit(group(lot)).cast("long"),
                LOT: F.lit(lot).cast("long"),
                "generation": F.lit(generation),
                "landed_at": F.current_timestamp(),
            }
        )
        if rows < _ONE_FILE_ROWS:
            landed = landed.coalesce(1)
        append(landed.sortWithinPartitions("topic", "partition", "offset"), self.path, _COLUMNS, txn)
        self._reached("landed")

    def topics_of(self, lot: int) -> frozenset[str]:
        """The topics that have rows of this lot here: what a repeated batch must not apply by another way."""
        if self.id is None:
            return frozenset()
        return frozenset(row[0] for row in self._lots(lot - 1, lot).select("topic").distinct().collect())

    def generations(self) -> dict[str, int]:
        """The checkpoints whose lots are here, or were, by query id: should the notes be lost, their lots must keep their numbers, and new ones get others.

        Of lots that have expired the last checkpoint is known, which has the highest number. A table made by an earlier version of the sink does not tell it:
        empty, it says that there was one of a number that none can have had. A number that was used before would let tables take new lots for merged ones.
        """
        if self.id is None:
            return {}
        number = F.shiftright(F.col(LOT), GENERATION_SHIFT).alias("number")
        rows = self._session.read.format("delta").load(self.path).select("generation", number).distinct().collect()
        return {row["generation"]: row["number"] for row in rows} | self._numbered or {"": _UNKNOWN}

    def number(self, query_id: str, number: int) -> None:
        """Keep the number of the checkpoint whose lots come next, beside the notes and beyond the lots."""
        if self._numbered != {query_id: number}:
            self._numbered = {query_id: number}
            if self.id is not None:
                self._session.sql(f"ALTER TABLE delta.{quote(self.path)} SET TBLPROPERTIES ('{_NUMBER}' = '{number} {query_id}')")

    def _noted(self) -> dict[str, int]:
        if self.id is None:
            return {}
        _, snapshot = newest(self._session, self.path)
        found = snapshot.metadata().configuration().get(_NUMBER)
        if not found.isDefined():
            return {}
        number, _, query_id = str(found.get()).partition(" ")
        return {query_id: int(number)}

    def waiting(self, settled: Mapping[str, int]) -> dict[str, list[Lot]]:
        """What has landed and is not merged, by topic: asked once, after a start."""
        if self.id is None:
            return {}
        found: dict[str, list[Lot]] = {}
        rows = (
            self._session.read.format("delta")
            .load(self.path)
            .where(F.col(LOT) > F.coalesce(looked_up(settled).cast("long"), F.lit(-1)))
            .groupBy("topic", LOT)
            .agg(F.count("*").alias("n"), F.unix_timestamp(F.min("landed_at")).alias("at"))
            .orderBy(LOT)
            .collect()
        )
        for row in rows:
            found.setdefault(row["topic"], []).append(Lot(row[LOT], row["n"], float(row["at"])))
        return found

    def records(self, topic: str, *, after: int, to: int, rows: int = 0) -> DataFrame:
        """The topic's records of lots in (after, to], as a batch has them, and their lots; ``rows``: about how many."""
        return self._window(after, to, rows, topic).where(F.col("topic") == topic)

    def window(self, *, after: int, to: int, rows: int = 0) -> DataFrame:
        """All topics' records of lots in (after, to]."""
        return self._window(after, to, rows, None)

    def expire(self, first_group: int) -> None:
        """Drop groups of lots before ``first_group`` that are older than they must be kept; whole files, nothing is read."""
        if self.id is None:
            return
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
        if old and old[0][0] is not None:
            DeltaTable.forPath(self._session, self.path).delete(F.col(GROUP) <= old[0][0])
            self._reached("expired")

    def _window(self, after: int, to: int, rows: int, topic: str | None) -> DataFrame:
        session = self._session
        if rows >= MANY_ROWS:
            session = self._for_many
            fit(session, rows)
        return headed(self._lots(after, to, session, topic), LOT)

    def _lots(self, after: int, to: int, session: SparkSession | None = None, topic: str | None = None) -> DataFrame:
        """Records of the lots, and of other topics too."""
        inside = (F.col(GROUP) >= max(group(after), 0)) & (F.col(GROUP) <= group(to)) & (F.col(LOT) > after) & (F.col(LOT) <= to)
        if topic is not None:
            inside &= F.col("topic") == topic
        first, last = unwritten((after, to), F.col("partition"))
        return admitted(session or self._session, self.path, inside).where((F.col(LOT) > first) & (F.col(LOT) <= last))

    def _ensure(self) -> None:
        if self.id is not None:
            return
        builder = (
            DeltaTable.createIfNotExists(self._session)
            .location(self.path)
            .addColumns(_SCHEMA)
            .partitionedBy(GROUP)
            .property("delta.checkpointInterval", "50")
            .property("delta.dataSkippingStatsColumns", f"{LOT},topic")
        )
        for query_id, number in self._numbered.items():
            builder = builder.property(_NUMBER, f"{number} {query_id}")
        builder.execute()
        self.id = identity(self._session, self.path)


def looked_up(values: Mapping[str, Any], key: Column | None = None) -> Column:
    """The value of a key (the topic), NULL for others."""
    if not values:
        return F.lit(None).cast("string")
    pairs = [F.lit(part) for pair in sorted(values.items()) for part in pair]
    return F.try_element_at(F.create_map(*pairs), F.col("topic") if key is None else key)
