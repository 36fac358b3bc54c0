"""Append mode: keeps a table as the list of its changes, in order of arrival.

It is the default for a table without a key, since nothing then matches rows for a mirror.
``_dblog_op`` is the kind of change: ``r`` dumped, ``c`` inserted, ``u`` the new and ``b`` the old
row of an update, ``d`` the deleted row, ``t`` a truncate of all rows. ``_dblog_seq1`` and
``_dblog_seq2`` are the position that orders them.

A log record that the source sends again is recognized by the log position of its topic partition
and left out. A dump row that is sent again is appended again.
"""

from __future__ import annotations

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.delta.file_skipping import row_count
from dblog_sink.delta.merge import append
from dblog_sink.records.decode import BAD, OFFSET, OP, OWN, PARTITION, RESENT, SEQ1, SEQ2, TS_MS, decoded
from dblog_sink.tables.modes import rows as rows_of
from dblog_sink.tables.modes.work import SMALL_ROWS, Applied, Work

_SAME_RECORD = "_dblog_same_record"


def apply(work: Work) -> Applied:
    """Append one batch of changes."""
    target = work.target
    applied = Applied(table=target.name, topic=work.topic, records=work.records, path="append")
    rows = decoded(work.raw, work.decoding).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        logged = F.when(F.col(OP) != "r", F.struct(SEQ1, SEQ2, (F.col(OP) == "c").cast("int").alias("insert")))
        found = (
            rows.groupBy(F.col(BAD).isNotNull().alias("bad"), RESENT, PARTITION)
            .agg(F.count("*").alias("n"), F.max(TS_MS).alias("ts"), F.max(logged).alias("last"))
            .collect()
        )
        bad = sum(row["n"] for row in found if row["bad"])
        good = [row for row in found if not row["bad"] and not row[RESENT]]
        applied.positions = {row[PARTITION]: tuple(row["last"]) for row in good if row["last"] is not None}
        if work.truncate == "park" and not rows.where((F.col(OP) == "t") & F.col(BAD).isNull()).isEmpty():
            raise rows_of.park_on_truncate(work)
        if bad:
            rows_of.keep_bad(work, rows, bad, applied)
        if good:
            count = sum(row["n"] for row in good)
            applied.source_ts_ms = max((row["ts"] for row in good if row["ts"] is not None), default=None)
            shown = F.lit(True) if work.truncate == "apply" else F.col(OP) != "t"
            fresh = _once(rows.where(F.col(BAD).isNull() & ~F.col(RESENT) & shown))
            append(fresh.coalesce(1) if count < SMALL_ROWS else fresh, target.path, target.column_names, work.txn.rows)
            work.reached("appended")
            before, target.rows = target.rows, row_count(work.session, target.path)
            applied.appended = target.rows - before
            target.commits += 1
    finally:
        rows.unpersist()
    applied.rows = target.rows
    return applied


def _once(rows: DataFrame) -> DataFrame:
    """Return the rows without repetitions of log records.

    They are recognized by their position if it belongs to one record alone.
    """
    kafka_offset = F.when(F.col(OWN) & (F.col(OP) != "r"), F.lit(-1)).otherwise(F.col(OFFSET))
    return rows.withColumn(_SAME_RECORD, kafka_offset).dropDuplicates([PARTITION, SEQ1, SEQ2, OP, _SAME_RECORD]).drop(_SAME_RECORD)
