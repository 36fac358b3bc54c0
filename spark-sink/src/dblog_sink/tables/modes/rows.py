"""Evaluates a batch's decoded rows for modes with a key: counts, ranges, positions, bad rows."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as t

from dblog_sink.delta.merge import KeyRange, bound_of, bounded, to_aggregate
from dblog_sink.delta.target import CURRENT, HISTORY
from dblog_sink.delta.tombstones import NULL_AT
from dblog_sink.errors import ParkError
from dblog_sink.records.decode import BAD, BAD_AT, NULL, OFFSET, OP, OWN, PARTITION, SEQ1, SEQ2, TS_MS
from dblog_sink.schema.types import quote
from dblog_sink.tables.modes.work import Applied, Work
from dblog_sink.tables.quarantine import NO_VALUE

BROADCAST_BYTES_MAX = 768 << 20
"""Maximum size of a batch's records for a broadcast of text keys, which are a fraction of it: an
envelope holds the row twice and its source. The driver holds the keys too.
"""

Group = dict[str, Any]
"""Facts of the rows of one operation: count ``n``, ``first`` and ``last`` position, newest source
time ``ts``, and ``low0``, ``high0`` of each bounded key column.
"""


def groups(rows: DataFrame, work: Work) -> dict[str, Group]:
    """Return the facts of each operation's rows, in one job that also fills the cache.

    It groups by the position's first number too, so that only numbers are aggregated (except text
    keys); for the greatest pair Spark would sort the rows.
    """
    spans = [
        aggregate
        for n, one in enumerate(bounded(work.target.keys))
        for aggregate in (F.min(to_aggregate(*one)).alias(f"low{n}"), F.max(to_aggregate(*one)).alias(f"high{n}"))
    ]
    kind = F.when(F.col(BAD).isNotNull(), "bad").otherwise(F.col(OP)).alias("kind")
    found: dict[str, Group] = {}
    counted = rows.groupBy(kind, SEQ1).agg(
        F.count("*").alias("n"), F.min(SEQ2).alias("first"), F.max(SEQ2).alias("last"), F.max(TS_MS).alias("ts"), *spans
    )
    for row in counted.collect():
        one = row.asDict()
        one["first"], one["last"] = ((row[SEQ1] or 0, row[name] or 0) for name in ("first", "last"))
        known = found.setdefault(row["kind"], one)
        if known is not one:
            known["n"] += one["n"]
            for name, value in one.items():
                if name in ("last", "ts") or name.startswith("high"):
                    known[name] = max((v for v in (known[name], value) if v is not None), default=None)
                elif name == "first" or name.startswith("low"):
                    known[name] = min((v for v in (known[name], value) if v is not None), default=None)
    return found


def deletes(rows: DataFrame, work: Work) -> DataFrame:
    """Return ``rows`` with a delete for each null value whose delete record was compacted away.

    Compaction keeps only the last record of a key. If there are nulls, ``rows`` are read several
    times, so the caller should cache them.

    A null means that everything of its key before it in the topic is deleted, and has no position.
    Its delete comes after all of that in the source's log, so it gets the latest of those
    positions, among the rows before it in the batch and the table's row. In a mirror that suffices:
    of one position the record later in the topic wins, and if a topic is read a second time, the
    record that restored the row is not older. In a history it gets the next position, because the
    version would be replaced otherwise. If the table's row comes from a record after the null, the
    null has no effect any more. A null that was seen before keeps its position, whatever came
    since.
    """
    if not work.nulls or work.tombstones is None:
        return rows
    target = work.target
    names = [quote(name) for name in target.key_names]
    null = (F.col(OP) == NULL) & F.col(BAD).isNull()
    at = F.struct(SEQ1, SEQ2)
    events = rows.where(F.col(BAD).isNull() & (F.col(OP) != "t")).select(*names, OP, OFFSET, SEQ1, SEQ2)
    asked = rows.where(null).groupBy(*names).agg(F.max(F.struct(OFFSET, PARTITION, TS_MS)).alias("_dblog_null"))
    row, before, after = F.col(OP) != NULL, F.col(OFFSET) < F.col("_dblog_null")[OFFSET], F.col(OFFSET) > F.col("_dblog_null")[OFFSET]
    lone = (
        events.join(asked, list(target.key_names), "inner")
        .groupBy(*names, "_dblog_null")
        .agg(
            F.max(F.when(row & before, at)).alias("_dblog_before"),
            F.max_by(OP, F.when(row & before, F.col(OFFSET))).alias("_dblog_last_op"),
            F.min(F.when(row & after, at)).alias("_dblog_after"),
        )
        .where("_dblog_last_op IS NULL OR _dblog_last_op <> 'd'")
        .localCheckpoint()
    )
    others = rows.where(~F.coalesce(null, F.lit(False)))
    count = lone.count()
    if not count:
        return others

    def sent(frame: DataFrame) -> DataFrame:
        return F.broadcast(frame) if count <= work.settings["merge.broadcast.rows.max"] else frame

    there = work.session.read.format("delta").load(target.path)
    if target.mode == HISTORY:
        there = there.where(CURRENT)
    there = there.select(*names, at.alias("_dblog_row")).join(sent(lone.select(*names)), list(target.key_names), "left_semi")
    # Checkpointed, because it reads the table that is written (as in ``ambiguous``).
    later = 1 if target.mode == HISTORY else 0
    latest = F.greatest("_dblog_before", "_dblog_row")
    with_position = (
        work.tombstones.of_nulls(work.session, lone.select(*names, "_dblog_null.*", "_dblog_before", "_dblog_after"))
        .join(there, list(target.key_names), "left")
        .where(f"{SEQ1} IS NOT NULL OR _dblog_after IS NULL OR _dblog_row IS NULL OR _dblog_row < _dblog_after")
        .select(
            *names,
            OFFSET,
            NULL_AT,
            F.coalesce(SEQ1, latest[SEQ1]).alias("_dblog_null_seq1"),
            F.coalesce(SEQ2, latest[SEQ2] + later).alias("_dblog_null_seq2"),
        )
        .where("_dblog_null_seq1 IS NOT NULL")
        .localCheckpoint()
    )
    made = rows.where(null).join(sent(with_position), [*target.key_names, OFFSET], "inner")
    made = made.withColumns({OP: F.lit("d"), SEQ1: F.col("_dblog_null_seq1"), SEQ2: F.col("_dblog_null_seq2")}).drop(
        "_dblog_null_seq1", "_dblog_null_seq2"
    )
    return others.unionByName(made, allowMissingColumns=True)


def ambiguous(rows: DataFrame, work: Work) -> DataFrame:
    """Mark rows of a replay as bad if they cannot be ordered.

    That is so if the table has a row or a delete of the same key and position. Of two records of
    one position the later one is known by its Kafka offset (``records/latest.py``), which the table
    does not keep. Debezium's rows in an envelope share a position if they come from one compressed
    transaction; a position of the worker belongs to one record.
    """
    if not work.replayed or work.tombstones is None:
        return rows
    names = [*(quote(name) for name in work.target.key_names), SEQ1, SEQ2]
    there = work.session.read.format("delta").load(work.target.path).select(*names)
    if work.tombstones.exists:
        there = there.unionByName(work.session.read.format("delta").load(work.tombstones.path).select(*names))
    asked = rows.where(F.col(BAD).isNull() & ~F.col(OWN)).select(*names)
    plain = [*work.target.key_names, SEQ1, SEQ2]
    # Checkpointed: a cache would be recomputed, from the new version, when these rows are read
    # after the table was written.
    tied = there.join(F.broadcast(asked), plain, "left_semi").distinct().withColumn(_TIED, F.lit(True)).localCheckpoint()
    is_tied = F.col(_TIED) & F.col(BAD).isNull() & ~F.col(OWN)
    found = rows.join(F.broadcast(tied), plain, "left")
    kafka_offset = F.concat_ws(":", PARTITION, OFFSET)
    return found.withColumns(
        {BAD: F.when(is_tied, F.lit(_AMBIGUOUS)).otherwise(F.col(BAD)), BAD_AT: F.when(is_tied, kafka_offset).otherwise(F.col(BAD_AT))}
    ).drop(_TIED)


_TIED = "_dblog_tied"
_AMBIGUOUS = (
    "the table has a row or a delete of the same key and position, and which of the two is later is unknown; dump the table again, then delete the "
    "record from the quarantine"
)


def quarantine(work: Work, rows: DataFrame, found: dict[str, Group], applied: Applied) -> None:
    """Quarantine the bad rows and remove their group from ``found``."""
    bad = found.pop("bad", None)
    if bad is None:
        return
    keep_bad(work, rows, bad["n"], applied)


def keep_bad(work: Work, rows: DataFrame, count: int, applied: Applied) -> None:
    """Quarantine the records of the bad ones among ``rows``, ``count`` in all.

    Raise DefiniteError if they are too many.
    """
    applied.bad = count
    reasons = rows.where(F.col(BAD).isNotNull()).select(F.col(BAD).alias("reason"), F.col(BAD_AT).alias("bad_at")).distinct()
    is_bad = F.concat_ws(":", "partition", "offset") == F.col("bad_at")
    work.quarantine.keep(work.raw.join(F.broadcast(reasons), is_bad), topic=work.topic, txn=work.txn, replayed=work.replayed)
    work.reached("quarantined")
    names = [row[0] for row in reasons.select("reason").distinct().limit(3).collect()]
    lacking = rows.where(F.col(BAD).endswith(NO_VALUE)).count() if work.decoding.unavailable else 0
    work.quarantine.check(
        topic=work.topic, bad=applied.bad - lacking, lacking=lacking, records=work.records, reasons=names, replayed=work.replayed
    )


def truncated(work: Work, found: dict[str, Group]) -> Group | None:
    """Remove the group of truncates from ``found`` and return it.

    Return None if none is to be applied. Raise ParkError if a person must decide.
    """
    truncate = found.pop("t", None)
    floors = () if work.tombstones is None else work.tombstones.floors
    if (
        work.unordered is not None
        and work.truncate != "ignore"
        and (truncate is not None or any(at[0] >= work.unordered_from for at in floors))
    ):
        raise ParkError(work.unordered)
    if truncate is None or work.truncate == "ignore":
        return None
    if work.truncate == "park":
        raise park_on_truncate(work)
    return truncate


def park_on_truncate(work: Work) -> ParkError:
    """Return the error about a truncate on which a person must decide."""
    return ParkError(
        f"{work.target.name} was truncated in the source, and table.<rule>.truncate=park; set it to apply or ignore, start the sink again and resume the table"
    )


def span(group: Group, work: Work) -> KeyRange:
    """Return the key range of a group."""
    columns = bounded(work.target.keys)
    low: dict[str, Any] = {name: bound_of(group[f"low{n}"], kind) for n, (name, kind) in enumerate(columns)}
    high: dict[str, Any] = {name: bound_of(group[f"high{n}"], kind) for n, (name, kind) in enumerate(columns)}
    return KeyRange(low, high)


def fits(work: Work, count: int) -> bool:
    """Return True if keys and positions of ``count`` rows may be broadcast to every task.

    The table's rows then need no shuffle.
    """
    numbers = all(isinstance(kind, t.NumericType | t.DatetimeType) for _, kind in work.target.keys)
    return count <= work.settings["merge.broadcast.rows.max"] and (numbers or work.value_bytes <= BROADCAST_BYTES_MAX)
