"""Changelog mode: a table without a key is kept as the list of its changes, appended in order of arrival.

Without a key there is nothing to match a row by, so no mirror can be kept. ``_dblog_op`` tells what happened: ``r`` dumped, ``c`` inserted, ``u``
the new and ``b`` the old row of an update, ``d`` the deleted row. ``_dblog_seq1`` and ``_dblog_seq2`` are the position that orders them.
Records that the source sends twice (at least once) stand there twice, under one position.
"""

from __future__ import annotations

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.decode import BAD, BAD_AT, OP, TS_MS, decoded
from dblog_sink.merge import append
from dblog_sink.modes.work import Applied, Work


def apply(work: Work) -> Applied:
    """Append one batch of changes."""
    target = work.target
    applied = Applied(table=target.name, records=work.records, path="append")
    rows = decoded(work.raw, work.decoding).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        found = rows.groupBy(F.col(BAD).isNotNull().alias("bad")).agg(F.count("*").alias("n"), F.max(TS_MS).alias("ts")).collect()
        counts = {row["bad"]: row for row in found}
        if True in counts:
            applied.bad = counts[True]["n"]
            reasons = rows.where(F.col(BAD).isNotNull()).select(F.col(BAD).alias("reason"), F.col(BAD_AT).alias("bad_at")).distinct()
            place = F.concat_ws(":", "partition", "offset") == F.col("bad_at")
            work.quarantine.keep(work.raw.join(F.broadcast(reasons), place), topic=work.topic, txn=work.txn)
            names = [row[0] for row in reasons.select("reason").distinct().limit(3).collect()]
            work.quarantine.check(topic=work.topic, bad=applied.bad, records=work.records, reasons=names)
        if False in counts:
            applied.appended = counts[False]["n"]
            applied.source_ts_ms = counts[False]["ts"]
            good = rows.where(F.col(BAD).isNull() & (F.col(OP) != "t"))
            append(good.coalesce(1), target.path, target.column_names, work.txn.of("append"))
            target.rows += applied.appended
            target.commits += 1
    finally:
        rows.unpersist()
    applied.rows = target.rows
    return applied
