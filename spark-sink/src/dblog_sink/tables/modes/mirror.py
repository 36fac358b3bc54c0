"""Mirror mode (SCD1): keeps exactly the source's live rows.

Steps of a batch: decode, keep the latest row of each key, quarantine, truncates, tombstones, write.
Four guards make every step safe to repeat and safe against rows out of order (I8): Kafka offsets in
the checkpoint, a transaction id on every commit, the row position in the mirror, the tombstones
beside it. Tombstones are committed before rows. After a crash in between the batch is repeated:
what was committed is skipped, or written again with the same values (I8).

A small table is rewritten in one job. Into an empty or larger one rows are upserted, which is an
append if by statistics no file has any of their keys (``delta/upsert.py``).
"""

from __future__ import annotations

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.delta.file_skipping import row_count
from dblog_sink.delta.merge import delete, in_ranges, merge, not_older, one_range, rewrite, update
from dblog_sink.delta.session import MANY_ROWS
from dblog_sink.delta.tombstones import Tombstones
from dblog_sink.delta.transaction import feeds
from dblog_sink.delta.upsert import upsert
from dblog_sink.records.decode import BAD, OP, SEQ1, SEQ2, decoded
from dblog_sink.records.latest import RESOLVED, distinct, latest, shared_keys, ties, with_keys, without_earlier
from dblog_sink.records.moved_keys import without_overtaken
from dblog_sink.tables.modes import missing_values
from dblog_sink.tables.modes import rows as rows_of
from dblog_sink.tables.modes.new_rows import straight
from dblog_sink.tables.modes.work import SMALL_ROWS, Applied, Work


def apply(work: Work) -> Applied:
    """Apply one batch to the table."""
    assert work.tombstones is not None
    target, tombstones = work.target, work.tombstones
    applied = Applied(table=target.name, topic=work.topic, records=work.records)
    if straight(work, tombstones, applied):
        return applied
    given = decoded(work.raw, work.decoding)
    if work.decoding.keys_of_value:
        given = without_overtaken(given, target.keys, target.others)
    if work.nulls:
        given = given.persist(StorageLevel.MEMORY_AND_DISK)
    rows, cached = _latest(rows_of.deletes(given, work), work, applied)
    try:
        groups = rows_of.groups(rows, work)
        truncate = rows_of.truncated(work, groups)
        rows_of.quarantine(work, rows, groups, applied)
        if truncate is not None:
            _truncate(work, tombstones, truncate)
        applied.deletes = groups["d"]["n"] if "d" in groups else 0
        applied.upserts = sum(group["n"] for op, group in groups.items() if op != "d")
        applied.source_ts_ms = max((group["ts"] for group in groups.values() if group["ts"] is not None), default=None)
        if groups:
            _write(work, tombstones, rows.where(F.col(BAD).isNull() & (F.col(OP) != "t")), groups, applied)
    finally:
        for frame in (*cached, given):
            frame.unpersist()
    applied.rows = target.rows
    target.growing = applied.merged == 0 and applied.deletes == 0 and applied.bad == 0
    return applied


def _latest(rows: DataFrame, work: Work, applied: Applied) -> tuple[DataFrame, list[DataFrame]]:
    """Return one cached row for each key, and the frames to release at the end."""
    rows, held = missing_values.completed(rows, work.target, work.session, work.tombstones, left_out=applied.leave_out)
    rows, cached = last_of_each_key(rows, work)
    return rows, [*cached, *held]


def last_of_each_key(rows: DataFrame, work: Work) -> tuple[DataFrame, list[DataFrame]]:
    """Return the last row of each key like ``latest``, and the frames that the caller unpersists.

    Of many rows it does not sort all.
    """
    keys, soft = work.target.keys, work.target.soft
    if soft is not None:
        rows = rows.withColumn(soft, F.lit(False))
    if work.records < MANY_ROWS or work.replayed:
        rows = rows_of.ambiguous(latest(rows, keys), work).persist(StorageLevel.MEMORY_AND_DISK)
        return rows, [rows]
    # It pays to find first which keys occur more than once, and where: then most of their rows need
    # no sorting, and all others none.
    rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
    if not work.target.repeats and distinct(rows, keys):
        return rows, [rows]
    shared = shared_keys(rows, keys).persist(StorageLevel.MEMORY_AND_DISK)
    (found,) = shared.agg(F.count("*").alias("n"), F.count_if(F.col(RESOLVED)).alias("resolved")).collect()
    work.target.repeats = found["n"] > 0
    if found["n"] == 0:
        return rows, [rows, shared]
    if found["n"] > work.settings["merge.broadcast.rows.max"]:
        winners = latest(rows, keys).persist(StorageLevel.MEMORY_AND_DISK)
        return winners, [winners, rows, shared]
    resolved, others = F.broadcast(shared.where(RESOLVED)), F.broadcast(shared.where(~F.col(RESOLVED)))
    if found["resolved"] and ties(rows, resolved, keys).count() == found["resolved"]:
        left = without_earlier(rows, resolved, keys)
        if found["resolved"] == found["n"]:
            return left, [rows, shared]
    else:
        left, others = rows, F.broadcast(shared)
    winners = latest(with_keys(rows, others, keys, how="left_semi"), keys).persist(StorageLevel.MEMORY_AND_DISK)
    return with_keys(left, others, keys, how="left_anti").unionByName(winners), [winners, rows, shared]


def _truncate(work: Work, tombstones: Tombstones, truncate: rows_of.Group) -> None:
    """Delete rows older than the truncate.

    Others stay: rows written after it may have come first (I2).
    """
    position = truncate["last"]
    tombstones.write_floor(work.session, position, work.txn.of("floor"), ts_ms=truncate["ts"])
    work.reached("truncate_recorded")
    older = (F.col(SEQ1) < position[0]) | ((F.col(SEQ1) == position[0]) & (F.col(SEQ2) < position[1]))
    if work.target.rows:
        if work.target.soft is None:
            delete(work.session, path=work.target.path, condition=older, txn=work.txn.of("truncate"))
        else:
            values = {work.target.soft: F.lit(True), SEQ1: F.lit(position[0]), SEQ2: F.lit(position[1])}
            update(work.session, path=work.target.path, condition=older, values=values, txn=work.txn.of("truncate"))
        work.reached("truncated")
        work.target.rows = row_count(work.session, work.target.path)


def _write(work: Work, tombstones: Tombstones, rows: DataFrame, groups: dict[str, rows_of.Group], applied: Applied) -> None:
    target, session, txn = work.target, work.session, work.txn
    deletes = groups.get("d")
    # Before the batch's own deletes are written: each is the latest row of its key, so looking them
    # up would be in vain.
    alive = tombstones.alive(session, rows, min(group["first"] for group in groups.values()))
    if deletes is not None:
        tombstones.write(session, rows.where(F.col(OP) == "d"), deletes["last"], txn.of("tombstones"))
        work.reached("tombstones_written")
    if target.rows == 0 and not applied.upserts:
        applied.path = "append"
    elif 0 < target.rows <= work.settings["rewrite.rows.max"] - applied.upserts and not target.clusters and not feeds(session, target.path):
        # An overwrite removes a table's clustering, whether or not it names it (seen with Delta
        # 4.4.0), so a clustered table is merged into. A change data feed would show every row as
        # deleted and inserted.
        _rewrite(work, alive, groups, applied)
    else:
        _merge(work, alive, groups, applied)


def _rewrite(work: Work, rows: DataFrame, groups: dict[str, rows_of.Group], applied: Applied) -> None:
    target = work.target
    files = min(1 + target.rows // SMALL_ROWS, work.session.sparkContext.defaultParallelism)
    rewrite(
        work.session,
        path=target.path,
        rows=rows,
        keys=target.keys,
        columns=target.column_names,
        files=files,
        txn=work.txn.rows,
        soft=target.soft,
    )
    work.reached("rewritten")
    target.rows = row_count(work.session, target.path)
    applied.merged = sum(group["n"] for group in groups.values())
    applied.path = "rewrite"
    target.commits += 1


def _merge(work: Work, rows: DataFrame, groups: dict[str, rows_of.Group], applied: Applied) -> None:
    """Replace the table's rows of these keys, unless they have a later position; one commit."""
    target = work.target
    count = sum(group["n"] for group in groups.values())
    ranges = [rows_of.span(group, work) for group in groups.values()]
    outcome = None
    if not work.merge_only and (
        target.soft is None or "d" not in groups
        # A soft-deleted row keeps its values, and only MERGE reads them.
    ):
        outcome = upsert(
            work.session,
            path=target.path,
            rows=rows,
            count=count,
            on=target.key_names,
            deletes=F.col(OP) == "d",
            wins=not_older("s.", "t."),
            compared=(SEQ1, SEQ2),
            columns=target.column_names,
            bounds=in_ranges(ranges, target.keys),
            near=in_ranges(one_range(ranges, target.keys), target.keys),
            broadcast=rows_of.fits(work, count),
            one_file=count < SMALL_ROWS,
            txn=work.txn.rows,
        )
    if outcome is None:
        outcome = merge(
            work.session,
            path=target.path,
            rows=rows,
            keys=target.keys,
            columns=target.column_names,
            ranges=ranges,
            txn=work.txn.rows,
            soft=target.soft,
        )
    applied.appended, applied.merged = outcome.inserted, outcome.updated + outcome.deleted
    applied.path = "merge" if applied.merged else "append"
    work.reached("merged" if applied.merged else "appended")
    target.rows += outcome.inserted - outcome.deleted
    target.commits += 1
