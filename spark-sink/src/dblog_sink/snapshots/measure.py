"""Measures with Spark what has landed, for the rule of snapshots.

The driver receives counts, and single transactions only if they are incomplete. ``landed`` opens a
range of the landing table with the log positions of its rows; ``transactions`` groups the
transaction topic's records in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.batches.landing import SEQUENCE, Landing, looked_up
from dblog_sink.batches.schedule import LandedBatch
from dblog_sink.errors import DefiniteError
from dblog_sink.records.decode import OP, SEQ1, SEQ2, LogEnd
from dblog_sink.records.log_positions import FILE, INTERLEAVED, LSN, ORDER, POS, TX, positions_by_schema, transactions, with_positions
from dblog_sink.schema.writer_schemas import Envelope
from dblog_sink.snapshots.conditions import at_or_before, at_or_below, before, landed_after, merged_before
from dblog_sink.snapshots.rule import Extent, Facts, Incomplete, LastTransaction, Leftover, prefix_of
from dblog_sink.state.snapshot import NOWHERE, Frontier, LandedOffset, Snapshot
from dblog_sink.tables.apply import Applier
from dblog_sink.tables.profile import TopicStats, profile

_SHOWN = 200
"""Maximum number of incomplete transactions that the driver looks at, earliest first."""
_ROW = (SEQUENCE, "topic", "partition", "offset", "timestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """The records that wait in the landing table up to a batch sequence."""

    raw: DataFrame
    to: int
    stats: Mapping[str, TopicStats]
    schemas: Mapping[str, Mapping[bytes, Envelope]]
    """Topic to the schemas for reading positions, without the transaction topic."""
    sequences: Mapping[str, int]
    """Topic to its last batch sequence."""
    first: Mapping[str, int]
    """Topic to the first batch sequence that waits."""
    rows: DataFrame
    """Rows with their positions."""
    transactions: DataFrame
    """BEGIN and END records of transactions."""


@dataclass(slots=True, kw_only=True)
class TopicCounts:
    """The rows of a topic that a snapshot takes, and those that it leaves."""

    left: dict[int, int]
    """Batch sequence to the number of rows left in it."""
    taken: int = 0
    dumped_ms: int | None = None
    """Kafka timestamp of the newest dump row taken, in milliseconds; None if there is none."""
    logged: bool = False
    """True if a change from the log is taken."""


class SnapshotMeasure:
    """The measurements of one job's landing table and transaction topic."""

    def __init__(self, landing: Landing, applier: Applier, transaction_topic: str) -> None:
        self._landing = landing
        self._applier = applier
        self._topic = transaction_topic
        self._prefix = prefix_of(transaction_topic)

    @contextmanager
    def landed(self, waiting: Mapping[str, Sequence[LandedBatch]], to: int) -> Iterator[Landed]:
        """Open the waiting records up to batch sequence ``to``.

        Raise DefiniteError if they are not those of one source, or its transaction topic has
        several partitions.
        """
        sequences = {topic: [one.sequence for one in some if one.sequence <= to] for topic, some in waiting.items()}
        sequences = {topic: found for topic, found in sequences.items() if found}
        first = {topic: found[0] for topic, found in sequences.items()}
        rows = sum(one.rows for some in waiting.values() for one in some if one.sequence <= to)
        raw = self._landing.window(after=min(first.values(), default=to) - 1, to=to, rows=rows)
        raw = raw.where(F.col(SEQUENCE) >= looked_up(first)) if first else raw.where("false")
        stats = {one.topic: one for one in profile(raw, self._applier.logs.highs)}
        own = stats.get(self._topic)
        if own is not None and set(own.last) != {0}:
            msg = f"topic {self._topic} has several partitions, so the order of its transactions is lost; recreate it with one partition"
            raise DefiniteError(msg)
        schemas = {topic: self._applier.position_schemas(one) for topic, one in stats.items() if topic != self._topic}
        self._check_prefix(schemas)
        together = {schema_id: envelope for found in schemas.values() for schema_id, envelope in found.items()}
        others = raw.where(F.col("topic") != self._topic)
        frames = list(positions_by_schema(others, together, _ROW)) or [with_positions(raw.where("false"), {}, _ROW)]
        positions = reduce(DataFrame.unionByName, frames).persist(StorageLevel.MEMORY_AND_DISK)
        writers = {} if own is None else self._applier.transaction_schemas(own)
        borders = transactions(raw.where(F.col("topic") == self._topic), writers, (SEQUENCE, "offset", "timestamp", "value_schema_id"))
        borders = borders.where(F.col("value_schema_id").isNotNull()).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            yield Landed(
                raw=raw,
                to=to,
                stats=stats,
                schemas=schemas,
                sequences={topic: found[-1] for topic, found in sequences.items()},
                first=first,
                rows=positions,
                transactions=borders,
            )
        finally:
            positions.unpersist()
            borders.unpersist()

    @contextmanager
    def transactions(self, landed: Landed, after: Frontier) -> Iterator[Transactions]:
        """Open the transactions that landed after a frontier."""
        at = F.struct(SEQUENCE, "offset")
        ended, begun = F.col("status") == "END", F.col("status") == "BEGIN"
        found = (
            landed.transactions.where(landed_after(after.transactions_to))
            .groupBy(TX)
            .agg(
                F.min(F.when(begun, at)).alias("begin"),
                F.min(F.when(ended, at)).alias("end"),
                F.max_by("counts", F.when(ended, at)).alias("counts"),
                F.max(F.when(ended, F.col("ts_ms"))).alias("ts_ms"),
                F.min(F.when(ended, F.unix_millis("timestamp"))).alias("kafka_ms"),
            )
            .persist(StorageLevel.MEMORY_AND_DISK)
        )
        try:
            yield Transactions(self, landed, found)
        finally:
            found.unpersist()

    def in_former_snapshots(self, frontier: Frontier) -> DataFrame:
        """Return the ids of transactions that ended at or before a frontier.

        Only those whose landed records are kept are found.
        """
        raw = self._landing.records(self._topic, after=-1, to=frontier.transactions_to[0])
        writers: dict[bytes, str] = {}
        for stats in profile(raw):
            writers |= self._applier.transaction_schemas(stats)
        borders = transactions(raw, writers, (SEQUENCE, "offset"))
        return borders.where((F.col("status") == "END") & ~landed_after(frontier.transactions_to)).select(TX).distinct()

    def leftover(self, landed: Landed, next_one: Snapshot) -> Leftover:
        """Count the landed records that belong to no new transaction.

        ``next_one`` is the snapshot that would take them.
        """
        inside, dumped = at_or_below(next_one.before), F.col(OP) == "r"
        found = landed.rows.agg(
            F.count_if(inside & ~merged_before(next_one)).alias("below"),
            F.count_if(~inside & ~dumped).alias("logged"),
            F.count_if(~inside & dumped).alias("dumped"),
            F.max(F.when(~inside & dumped, F.struct(SEQ1, SEQ2))).alias("at"),
        ).collect()[0]
        return Leftover(
            below=found["below"],
            logged=found["logged"],
            dumped=found["dumped"],
            position=_pair(found["at"]),
            transactions=not landed.transactions.where(landed_after(next_one.before.transactions_to)).isEmpty(),
        )

    def has_changes(self, landed: Landed) -> bool:
        """Return True if a change of the log has landed."""
        return not landed.rows.where((F.col(OP) != "r") & F.col(SEQ1).isNotNull()).isEmpty()

    def counts(self, landed: Landed, snapshot: Snapshot) -> dict[str, TopicCounts]:
        """Count, by topic, the rows that the snapshot takes and leaves.

        It takes nothing that landed late, after it was chosen. Of the transaction topic only the
        rows left matter.
        """
        counts = {topic: TopicCounts(left={}) for topic in landed.stats}
        inside = _inside(snapshot)
        taken = inside & ~merged_before(snapshot)
        nothing = F.lit(0).cast("long")
        borders = landed.transactions.groupBy(F.lit(self._topic).alias("topic"), SEQUENCE).agg(
            nothing.alias("taken"),
            F.count_if(landed_after(snapshot.frontier.transactions_to)).alias("left"),
            F.lit(None).cast("long").alias("dumped_ms"),
            nothing.alias("logged"),
        )
        rows = landed.rows.groupBy("topic", SEQUENCE).agg(
            F.count_if(taken).alias("taken"),
            F.count_if(~inside).alias("left"),
            F.max(F.when(taken & (F.col(OP) == "r"), F.unix_millis("timestamp"))).alias("dumped_ms"),
            F.count_if(taken & F.col(TX).isNotNull()).alias("logged"),
        )
        for row in rows.unionByName(borders).collect():
            one = counts[row["topic"]]
            one.taken += row["taken"]
            one.logged |= row["logged"] > 0
            one.dumped_ms = max((ms for ms in (one.dumped_ms, row["dumped_ms"]) if ms is not None), default=None)
            if row["left"]:
                one.left[row[SEQUENCE]] = row["left"]
        return counts

    def log_ends(self, landed: Landed, snapshot: Snapshot, topic: str) -> dict[int, LogEnd]:
        """Return, by partition, the last of the topic's changes that the snapshot takes.

        A table in append mode has the log up to there after the snapshot.
        """
        change = F.struct(SEQ1, SEQ2, (F.col(OP) == "c").cast("int").alias("insert"))
        logged = (F.col("topic") == topic) & (F.col(OP) != "r") & F.col(SEQ1).isNotNull()
        rows = landed.rows.where(logged & _inside(snapshot)).groupBy("partition").agg(F.max(change).alias("last")).collect()
        return {row["partition"]: tuple(row["last"]) for row in rows}

    def _check_prefix(self, schemas: Mapping[str, Mapping[bytes, Envelope]]) -> None:
        for topic, found in schemas.items():
            if found and self._prefix and not topic.startswith(f"{self._prefix}."):
                msg = (
                    f"topic {topic} holds rows, and its name is not {self._prefix}.<db>.<table>, as topics.transaction={self._topic} requires: a "
                    "manifest is of one source, under its own names; give the topic to another job, or exclude it with topics.exclude"
                )
                raise DefiniteError(msg)


class Transactions:
    """The transactions in a range of the landing table, as data frames that are not collected."""

    def __init__(self, measure: SnapshotMeasure, landed: Landed, found: DataFrame) -> None:
        self._measure = measure
        self._landed = landed
        self._found = found
        self._ended = found.where(F.col("end").isNotNull())
        self._short: DataFrame | None = None
        self._waived: Column | None = None

    def collections(self) -> list[str]:
        """Return the names of the data collections that ENDs count."""
        names = F.flatten(F.collect_set(F.transform("counts", lambda one: one["data_collection"])))
        return sorted(name for name in self._found.agg(names).collect()[0][0] or () if name is not None)

    def incomplete(self, topics: Mapping[str, str], facts: Facts, *, new_since: Frontier | None = None) -> list[Incomplete]:
        """Return the first incomplete transactions that are not entirely waived.

        ``topics`` maps the data collections that the job reads to their topics. ``new_since``
        leaves out transactions that are in a snapshot up to this frontier and were partly sent
        again.
        """
        counted = self._ended.select(TX, "end", F.explode("counts").alias("each"))
        of_topic = looked_up(topics, F.col("each.data_collection")).alias("topic")
        expected = counted.select(TX, "end", of_topic, F.col("each.event_count").alias("n")).where("topic IS NOT NULL")
        seen = self._landed.rows.where(F.col(TX).isNotNull()).groupBy(TX, "topic").agg(F.count_distinct(ORDER).alias("seen"))
        short = expected.join(seen, [TX, "topic"], "left")
        short = short.withColumn("missing", F.col("n") - F.coalesce("seen", F.lit(0))).where("missing > 0")
        # The same as rule.waiver, for many transactions at once.
        some = [F.col("topic").isin(sorted(facts.parked))] if facts.parked else []
        if late := {topic: facts.read_to[topic] for topic in facts.late.keys() & facts.read_to.keys()}:
            read = [looked_up({topic: offset[n] for topic, offset in late.items()}).cast("long") for n in (0, 1)]
            some.append(F.coalesce(at_or_before(F.col("end"), read), F.lit(False)))
        self._short, self._waived = short, reduce(lambda a, b: a | b, some) if some else None
        pairs = F.map_from_entries(F.collect_list(F.struct("topic", "missing"))).alias("missing")
        missing = (short if self._waived is None else short.where(~self._waived)).groupBy(TX).agg(pairs)
        found = self._found.join(missing, TX, "left").where("end IS NULL OR missing IS NOT NULL")
        if new_since is not None:
            found = found.join(self._measure.in_former_snapshots(new_since), TX, "left_anti")
        rows = found.orderBy(F.least("begin", "end")).limit(_SHOWN).select(TX, "begin", "end", "missing").collect()
        return [Incomplete(id=row[TX], begin=_pair(row["begin"]), end=_pair(row["end"]), missing=row["missing"] or {}) for row in rows]

    def waived(self, to: LandedOffset) -> list[tuple[str, int, str]]:
        """Return topic, number of transactions and an example of the waived records.

        These are records that ``incomplete`` left out, of transactions that ended up to the offset.
        """
        if self._short is None or self._waived is None:
            return []
        found = self._short.where(self._waived & at_or_before(F.col("end"), to))
        rows = found.groupBy("topic").agg(F.count_distinct(TX).alias("n"), F.min(TX).alias("one")).collect()
        return [(row["topic"], row["n"], row["one"]) for row in rows]

    def extent(self, barrier: LandedOffset | None) -> Extent | None:
        """Return the extent of the transactions that ended before the barrier, or None."""
        ended = self._complete(barrier)
        end = ended.agg(F.max("end").alias("to"), F.max("kafka_ms").alias("kafka_ms")).collect()[0]
        to = _pair(end["to"])
        if to is None:
            return None
        at = F.struct(SEQ1, SEQ2)
        found = (
            self._landed.rows.where(F.col(TX).isNotNull())
            .join(ended.select(TX, "end", "ts_ms", "kafka_ms"), TX)
            .groupBy(TX, "end", "ts_ms", "kafka_ms")
            .agg(F.max(at).alias("at"), F.max_by(F.struct(FILE, POS, LSN, INTERLEAVED), at).alias("source"))
            # If the rows of transactions interleave, transactions are ordered by their ENDs.
            .withColumn(
                "order",
                F.when(~F.col("source")[INTERLEAVED], F.col("at")).otherwise(
                    F.struct(F.col("end")[SEQUENCE].alias(SEQ1), F.col("end")["offset"].alias(SEQ2))
                ),
            )
            .agg(
                F.max("at").alias("at"),
                F.max_by(F.struct(TX, "ts_ms", "kafka_ms", "source"), F.struct(~F.col("source")[INTERLEAVED], "order")).alias("last"),
                F.max(F.col("source")[INTERLEAVED]).alias("interleaved"),
            )
            .collect()[0]
        )
        return Extent(
            transactions_to=to,
            position=_pair(found["at"]) or NOWHERE,
            last=None if found["last"] is None else _last(found["last"]),
            interleaved=bool(found["interleaved"]),
            ended_ms=end["kafka_ms"],
        )

    def interleaved(self, snapshot: Snapshot, barrier: LandedOffset | None) -> tuple[str, ...]:
        """Return transactions outside the snapshot that have rows below its position.

        Only Debezium's records of PostgreSQL can have them.
        """
        below = self._landed.rows.where(
            F.col(INTERLEAVED) & F.col(TX).isNotNull() & at_or_below(snapshot.frontier) & ~merged_before(snapshot)
        )
        others = below.select(TX).distinct().join(self._complete(barrier).select(TX), TX, "left_anti")
        if others.isEmpty():
            return ()
        others = others.join(self._measure.in_former_snapshots(snapshot.before), TX, "left_anti")
        return tuple(sorted(row[0] for row in others.collect()))

    def newest(self) -> LandedOffset:
        """Return the offset of the last landed record of the transaction topic."""
        found = _pair(self._landed.transactions.agg(F.max(F.struct(SEQUENCE, "offset"))).collect()[0][0])
        assert found is not None
        return found

    def _complete(self, barrier: LandedOffset | None) -> DataFrame:
        return self._ended if barrier is None else self._ended.where(before(F.col("end"), barrier))


def _inside(snapshot: Snapshot) -> Column:
    """Return a condition for records of any topic that are in the snapshot or an earlier one."""
    measured = F.coalesce(F.col(SEQUENCE) <= looked_up(snapshot.frontier.sequences).cast("long"), F.lit(False))
    return at_or_below(snapshot.frontier) & measured


def _last(row: Row) -> LastTransaction:
    source = row["source"]
    return LastTransaction(id=row[TX], ts_ms=row["ts_ms"], kafka_ms=row["kafka_ms"], file=source[FILE], pos=source[POS], lsn=source[LSN])


def _pair(given: Row | None) -> tuple[int, int] | None:
    return None if given is None else (int(given[0]), int(given[1]))
