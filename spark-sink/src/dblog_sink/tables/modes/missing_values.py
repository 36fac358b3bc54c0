"""Completes records that lack values because these did not change (``records/unavailable.py``).

The batch's rows, the table's row and the tombstones of a key are ordered by position. A missing
value is copied from the nearest earlier row that has it, but not across a delete. If there is none,
the record goes to quarantine, since only part of its row is known. In a mirror only the key's last
row counts, so an incomplete row is left out if a whole row, the table's row or a delete follows it.

A dumped row of some columns only (mode ``columns``) is completed in the same way. In a mirror it
sets those columns and keeps the position of the row before: it shows nothing of the other columns,
so an older whole row of a dump may still replace it. It is left out if there is no row before,
because the table's row is newer or the source has deleted it.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.delta.target import HISTORY, MIRROR, TO1, TO2, Target
from dblog_sink.delta.tombstones import Tombstones
from dblog_sink.records.decode import BAD, BAD_AT, OFFSET, OP, PARTIAL, PARTITION, SEQ1, SEQ2, UNAVAILABLE
from dblog_sink.records.latest import with_keys
from dblog_sink.schema.types import quote
from dblog_sink.tables.quarantine import NO_VALUE

_RANK, _DELETES_BEFORE, _LATER = "_dblog_rank", "_dblog_deletes_before", "_dblog_later"
_ALONE, _BEFORE, _FOLLOWED = "_dblog_alone", "_dblog_before", "_dblog_followed"
_ENDED, _STORED, _BATCH = 0, 1, 2


def completed(
    rows: DataFrame,
    target: Target,
    session: SparkSession,
    tombstones: Tombstones | None,
    *,
    left_out: Callable[[int], None] = lambda _count: None,
) -> tuple[DataFrame, list[DataFrame]]:
    """Return the decoded rows with all values, and the frames to release at the end.

    A row is marked as bad if no earlier row has a missing value. ``left_out`` receives the number
    of dumped rows of some columns only that have no row before them.
    """
    if UNAVAILABLE not in rows.columns:
        return rows, []
    rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
    incomplete = rows.where(F.col(UNAVAILABLE).isNotNull() & F.col(BAD).isNull())
    found = incomplete.select(F.explode(UNAVAILABLE).alias("name"), SEQ1, SEQ2).groupBy("name").agg(F.min(F.struct(SEQ1, SEQ2))).collect()
    names = sorted(row[0] for row in found)
    if not names:
        return rows.drop(UNAVAILABLE, PARTIAL), [rows]
    keys = target.keys
    touched = incomplete.select(*(F.col(quote(name)).alias(f"_dblog_k{n}") for n, (name, _) in enumerate(keys))).distinct()
    mine = with_keys(rows, touched, keys, how="left_semi").withColumn(_RANK, F.lit(_BATCH))
    line = mine
    deletes = None if tombstones is None else tombstones.later(session, min((row[1][0], row[1][1]) for row in found))
    for stored in _stored(target, session, names, deletes):
        line = line.unionByName(with_keys(stored, touched, keys, how="left_semi"), allowMissingColumns=True)
    by = [quote(name) for name, _ in keys]
    order = [SEQ1, SEQ2, _RANK, OFFSET]
    whole = Window.partitionBy(*by).orderBy(*order)
    line = line.withColumn(
        _DELETES_BEFORE, F.coalesce(F.sum((F.col(OP) == "d").cast("int")).over(whole.rowsBetween(Window.unboundedPreceding, -1)), F.lit(0))
    )
    until_deleted = Window.partitionBy(*by, _DELETES_BEFORE).orderBy(*order).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    missing = {name: F.coalesce(F.array_contains(UNAVAILABLE, F.lit(name)), F.lit(False)) for name in names}
    last = {
        name: F.last(F.when(~missing[name], F.struct(F.col(quote(name)).alias("v"))), ignorenulls=True).over(until_deleted)
        for name in names
    }
    line = line.withColumns({f"_dblog_last{n}": last[name] for n, name in enumerate(names)})
    none = [F.when(missing[name] & F.col(f"_dblog_last{n}").isNull(), F.lit(name)) for n, name in enumerate(names)]
    line = line.withColumn(UNAVAILABLE, F.array_compact(F.array(*none)))
    for n, name in enumerate(names):
        line = line.withColumn(name, F.when(F.col(f"_dblog_last{n}").isNull(), F.col(quote(name))).otherwise(F.col(f"_dblog_last{n}")["v"]))
    open_ = F.size(UNAVAILABLE) > 0
    line = _on_their_rows(line, target, until_deleted, open_)
    line = line.withColumn(
        _LATER, F.coalesce(F.max(~open_ | (F.col(_RANK) != _BATCH)).over(whole.rowsBetween(1, Window.unboundedFollowing)), F.lit(False))
    ).where(F.col(_RANK) == _BATCH)
    if target.mode == MIRROR:
        later = F.col(_LATER)
        if tombstones is not None and tombstones.floor is not None:
            later |= (F.col(SEQ1) < tombstones.floor[0]) | ((F.col(SEQ1) == tombstones.floor[0]) & (F.col(SEQ2) < tombstones.floor[1]))
        line = line.where(~(open_ & later) | F.col(_ALONE))
    reason = F.concat(F.lit("column "), F.array_join(UNAVAILABLE, ", "), F.lit(NO_VALUE))
    line = line.withColumns(
        {
            BAD_AT: F.when(open_, F.concat_ws(":", PARTITION, OFFSET)).otherwise(F.col(BAD_AT)),
            BAD: F.when(open_, reason).otherwise(F.col(BAD)),
        }
    )
    plain = [quote(name) for name in rows.columns if name not in (UNAVAILABLE, PARTIAL)]
    # A checkpoint instead of a cache: a cached frame that reads the table would be recomputed after
    # the commit, from the new version.
    done = line.select(*plain, _ALONE).localCheckpoint()
    if partial := done.where(_ALONE).count():
        left_out(partial)
    done = done.where(~F.col(_ALONE)).select(*plain)
    return with_keys(rows, touched, keys, how="left_anti").select(*plain).unionByName(done), [rows]


def _on_their_rows(line: DataFrame, target: Target, until_deleted: WindowSpec, open_: Column) -> DataFrame:
    """Put rows of some columns only on the rows before them, replacing those in a mirror.

    ``_ALONE`` marks rows without a row before.
    """
    partial = F.coalesce(F.col(PARTIAL), F.lit(False))
    before = F.last(F.when(~partial & (F.col(OP) != "d"), F.struct(SEQ1, SEQ2)), ignorenulls=True).over(until_deleted)
    line = line.withColumn(_BEFORE, before)
    line = line.withColumn(_ALONE, partial & (F.col(_BEFORE).isNull() | open_))
    if target.mode != MIRROR:
        return line.drop(_BEFORE)
    follows = F.max(partial & ~F.col(_ALONE)).over(until_deleted.rowsBetween(1, Window.unboundedFollowing))
    line = line.withColumn(_FOLLOWED, F.coalesce(follows, F.lit(False)) & (F.col(OP) != "d") & (F.col(_RANK) == _BATCH))
    at = {name: F.when(partial, F.col(_BEFORE)[name]).otherwise(F.col(name)) for name in (SEQ1, SEQ2)}
    return line.where(~F.col(_FOLLOWED)).withColumns(at).drop(_BEFORE, _FOLLOWED)


def _stored(target: Target, session: SparkSession, names: list[str], deletes: DataFrame | None) -> list[DataFrame]:
    """Return the table's rows in these columns, and the positions at which keys were deleted."""
    fault = F.lit(None).cast("string").alias(BAD_AT)
    ended = (SEQ1, SEQ2, F.lit("d").alias(OP), fault, F.lit(_ENDED).alias(_RANK))
    keys = [quote(name) for name in target.key_names]
    tombstones = [] if deletes is None else [deletes.select(*keys, *ended)]
    if not target.rows:
        return tombstones
    table = session.read.format("delta").load(target.path)
    columns = [quote(name) for name in dict.fromkeys((*target.key_names, *names))]
    deleted = F.col(quote(target.soft)) if target.soft is not None else F.lit(False)
    rows = table.select(*columns, SEQ1, SEQ2, F.when(deleted, "d").otherwise("u").alias(OP), fault, F.lit(_STORED).alias(_RANK))
    if target.mode != HISTORY:
        return [rows, *tombstones]
    ends = table.where(F.col(TO1).isNotNull()).select(*keys, F.col(TO1).alias(SEQ1), F.col(TO2).alias(SEQ2)).select(*keys, *ended)
    return [rows, ends, *tombstones]
