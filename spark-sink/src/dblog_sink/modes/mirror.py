"""Mirror mode (SCD1): the Delta table holds exactly the source's live rows.

Steps of one batch: decode, latest row per key, quarantine, truncates, tombstones, then the write. Four guards make every step safe to repeat
and safe against rows out of order (delta-sink.md 5.2): Kafka offsets in the checkpoint, a transaction id on every commit, the row position
in the mirror, the tombstones beside it. Order of commits: tombstones, append, merge. A crash between any two is mended by the replay: what
was committed is skipped or written again with the same values (I8).

Ways to write, cheapest first: an empty table takes everything as an append; a small table is written anew in one job; of a larger one, dump
rows and inserts are appended if their keys are not there (found by a join on the keys of the files that can hold them, often none), and only
the rest is merged.
"""

from __future__ import annotations

from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.decode import BAD, OP, SEQ1, SEQ2, decoded
from dblog_sink.latest import latest, shared_keys, with_keys
from dblog_sink.merge import LAST, KeyRange, append, delete, merge, not_older, rewrite, update, within
from dblog_sink.modes import rows as rows_of
from dblog_sink.modes.work import Applied, Work
from dblog_sink.session import MANY_ROWS
from dblog_sink.tombstones import Tombstones
from dblog_sink.types import quote

_SMALL_ROWS = 20_000
"""A batch of fewer rows is written as one file."""

_BROADCAST_ROWS_MAX = 200_000
"""Keys of that many rows are some megabytes."""

_BROADCAST_BYTES_MAX = 768 << 20
"""Of envelopes, which hold the row twice and its source: the rows are a third of that, and the driver holds them too."""


def apply(work: Work) -> Applied:
    """Bring one table up to this batch."""
    assert work.tombstones is not None
    target, tombstones = work.target, work.tombstones
    applied = Applied(table=target.name, topic=work.topic, records=work.records)
    rows, cached = _latest(decoded(work.raw, work.decoding), work)
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
        for frame in cached:
            frame.unpersist()
    applied.rows = target.rows
    return applied


def _latest(rows: DataFrame, work: Work) -> tuple[DataFrame, list[DataFrame]]:
    """One row a key, from a cache; and what is to be given back in the end."""
    keys, soft = work.target.keys, work.target.soft
    if soft is not None:
        rows = rows.withColumn(soft, F.lit(False))
    if work.records < MANY_ROWS or work.replayed:
        rows = rows_of.undecided(latest(rows, keys), work).persist(StorageLevel.MEMORY_AND_DISK)
        return rows, [rows]
    # It pays to find out first which keys come more than once: only their rows are sorted then.
    rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
    shared = shared_keys(rows, keys).persist(StorageLevel.MEMORY_AND_DISK)
    count = shared.count()
    if count == 0:
        return rows, [rows, shared]
    if count > work.settings["merge.broadcast.rows.max"]:
        winners = latest(rows, keys).persist(StorageLevel.MEMORY_AND_DISK)
        return winners, [winners, rows, shared]
    winners = latest(with_keys(rows, F.broadcast(shared), keys, how="left_semi"), keys).persist(StorageLevel.MEMORY_AND_DISK)
    return with_keys(rows, F.broadcast(shared), keys, how="left_anti").unionByName(winners), [winners, rows, shared]


def _truncate(work: Work, tombstones: Tombstones, truncate: rows_of.Group) -> None:
    """A truncate deletes what is older than itself, never the table: rows written after it may have come first (delta-sink.md 5.3)."""
    position = truncate["last"]
    tombstones.write_floor(work.session, position, work.txn.of("floor"), ts_ms=truncate["ts"])
    work.reached("floored")
    older = (F.col(SEQ1) < position[0]) | ((F.col(SEQ1) == position[0]) & (F.col(SEQ2) < position[1]))
    if work.target.rows:
        if work.target.soft is None:
            delete(work.session, path=work.target.path, condition=older, txn=work.txn.of("truncate"))
        else:
            values = {work.target.soft: F.lit(True), SEQ1: F.lit(position[0]), SEQ2: F.lit(position[1])}
            update(work.session, path=work.target.path, condition=older, values=values, txn=work.txn.of("truncate"))
        work.reached("truncated")
        work.target.rows = work.session.read.format("delta").load(work.target.path).count()


def _write(work: Work, tombstones: Tombstones, rows: DataFrame, groups: dict[str, rows_of.Group], applied: Applied) -> None:
    target, session, txn = work.target, work.session, work.txn
    deletes = groups.get("d")
    if deletes is not None:
        tombstones.write(session, rows.where(F.col(OP) == "d"), deletes["last"], txn.of("tombstones"))
        work.reached("buried")
    alive = tombstones.alive(session, rows, min(group["first"] for group in groups.values()))
    counted, rows = alive is rows, alive
    if target.rows == 0:
        if applied.upserts:
            _append(work, rows.where(F.col(OP) != "d"), applied.upserts, applied, step=LAST)
        applied.path = "append"
    elif target.rows + applied.upserts <= work.settings["rewrite.rows.max"] and not work.partly and not target.clusters:
        # An overwrite takes a table's clustering away, whether it names it or not (seen with Delta 4.4.0): a clustered table is merged into.
        _rewrite(work, rows, groups, applied)
    else:
        _merge(work, rows, groups, applied, counted=counted)


def _rewrite(work: Work, rows: DataFrame, groups: dict[str, rows_of.Group], applied: Applied) -> None:
    target = work.target
    files = 1 if target.rows < _SMALL_ROWS else work.session.sparkContext.defaultParallelism
    rewrite(
        work.session,
        path=target.path,
        rows=rows,
        keys=target.keys,
        columns=target.column_names,
        files=files,
        txn=work.txn.step(LAST),
        soft=target.soft,
    )
    work.reached("rewritten")
    target.rows = work.session.read.format("delta").load(target.path).count()  # from file statistics, no scan
    applied.merged = sum(group["n"] for group in groups.values())
    applied.path = "rewrite"


def _merge(work: Work, rows: DataFrame, groups: dict[str, rows_of.Group], applied: Applied, *, counted: bool) -> None:
    """Append what is new, merge what is there. ``counted``: the groups count these very rows.

    A MERGE that may insert joins from the outside and shuffles every touched file of the target; one that only updates and deletes joins inside,
    and the batch is broadcast instead (delta-sink.md 2.3.2, 3.4.5). So inserts and dump rows are appended if their keys are not there, the rest
    is merged without inserts, and whoever was to be updated and was not there is appended at the end. What the MERGE says it did tells whether
    there is any.
    """
    target = work.target
    limit: int = work.settings["merge.broadcast.rows.max"]
    split = limit > 0 and sum(group["n"] for group in groups.values()) <= limit and work.value_bytes <= _BROADCAST_BYTES_MAX
    least = 1 if split else work.settings["merge.split.rows.min"]
    new = [op for op in ("r", "c") if op in groups and groups[op]["n"] >= least]
    merged: list[DataFrame] = []
    others = [op for op in groups if op not in new]
    ranges = [rows_of.span(groups[op], work) for op in others]
    count = sum(groups[op]["n"] for op in others)
    if new:
        last = LAST if not others else 0
        inserts = rows.where(F.col(OP).isin(new))
        number = sum(groups[op]["n"] for op in new) if counted else inserts.count()
        found = _append_new(work, inserts, number, [rows_of.span(groups[op], work) for op in new], applied, step=0, alone=last)
        if found is not None:
            merged.append(found[0])
            count += found[1]
            ranges = [rows_of.span(group, work) for group in groups.values()]
    rest = rows.where(F.col(OP).isin(others))
    if others:
        merged.append(rest)
    if merged:
        source = reduce(DataFrame.unionByName, merged)
        outcome = merge(
            work.session,
            path=target.path,
            rows=F.broadcast(source) if split else source,
            keys=target.keys,
            columns=target.column_names,
            ranges=ranges,
            inserting=not split,
            txn=work.txn.step(1 if split else LAST),
            soft=target.soft,
        )
        work.reached("merged")
        done = outcome.inserted + outcome.updated + outcome.deleted
        applied.merged = done
        target.rows += outcome.inserted - outcome.deleted
        target.commits += 1
        if split and done < count and (updates := [op for op in others if op != "d"]):
            spans = [rows_of.span(groups[op], work) for op in updates]
            inserts = rest.where(F.col(OP) != "d")
            number = sum(groups[op]["n"] for op in updates) if counted else inserts.count()
            _append_new(work, inserts, number, spans, applied, step=LAST, alone=LAST)
    applied.path = "merge" if not new else "append+merge" if merged else "append"


def _append_new(
    work: Work, inserts: DataFrame, count: int, spans: list[KeyRange], applied: Applied, *, step: int, alone: int
) -> tuple[DataFrame, int] | None:
    """Append those of the ``count`` rows ``inserts`` whose keys are not in the table; returns those that are newer than what is there and how many, or None.

    ``step`` is the number of this commit, ``alone`` its number if nothing is returned.

    Which keys are there is found out once and held by a local checkpoint: a cached frame would be computed again, against the new version, as
    soon as the append commits, for Spark refreshes caches that read a path that was written.
    """
    target = work.target
    table = work.session.read.format("delta").load(target.path)
    bounds = within(spans, target.keys)
    if bounds is not None:
        table = table.where(bounds)
        if not table.inputFiles():  # no file's statistics admit any of these keys
            _append(work, inserts, count, applied, step=alone)
            return None
    names = [quote(name) for name in target.key_names]
    keys = [F.col(name).alias(f"_there_{n}") for n, name in enumerate(names)]
    there = table.select(*keys, F.col(SEQ1).alias(f"_there{SEQ1}"), F.col(SEQ2).alias(f"_there{SEQ2}"))
    same_key = [F.col(name) == F.col(f"_there_{n}") for n, name in enumerate(names)]
    newer = not_older("", "_there").alias("newer")
    found = (
        inserts.select(*names, SEQ1, SEQ2)
        .join(there, same_key)
        .select(*(f"_there_{n}" for n in range(len(names))), newer)
        .localCheckpoint()
    )
    counts = {row["newer"]: row["count"] for row in found.groupBy("newer").count().collect()}
    known = sum(counts.values())
    if known < count:
        missing = inserts.join(_small(found, known), same_key, "left_anti") if known else inserts
        _append(work, missing, count - known, applied, step=step if counts.get(True) else alone)
    if not counts.get(True):
        return None
    return inserts.join(_small(found.where("newer"), known), same_key, "left_semi"), counts[True]


def _small(found: DataFrame, rows: int) -> DataFrame:
    """A checkpoint has no statistics: Spark must be told that its rows fit into a broadcast."""
    return F.broadcast(found) if rows <= _BROADCAST_ROWS_MAX else found


def _append(work: Work, rows: DataFrame, count: int, applied: Applied, *, step: int) -> None:
    if count < _SMALL_ROWS:
        rows = rows.coalesce(1)
    append(rows, work.target.path, work.target.column_names, work.txn.step(step))
    work.reached("appended")
    work.target.rows += count
    work.target.commits += 1
    applied.appended += count
