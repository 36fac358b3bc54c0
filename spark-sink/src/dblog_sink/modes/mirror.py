"""Mirror mode (SCD1): the Delta table holds exactly the source's live rows.

Steps of one batch: decode, latest row per key, quarantine, truncates, tombstones, then the write. Four guards make every step safe to repeat
and safe against rows out of order (delta-sink.md 5.2): Kafka offsets in the checkpoint, a transaction id on every commit, the row position
in the mirror, the tombstones beside it. Order of commits: tombstones, append, merge. A crash between any two is mended by the replay: what
was committed is skipped or written again with the same values (I8).

Ways to write, cheapest first: an empty table takes everything as an append; a small table is written anew in one job; of a larger one, dump
rows and inserts in number are appended if their keys are not there (found by a join on the keys of the files that can hold them, often
none), and only the rest is merged.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.decode import BAD, BAD_AT, OP, SEQ1, SEQ2, TS_MS, decoded
from dblog_sink.latest import latest
from dblog_sink.merge import KeyRange, append, bounded, delete, merge, not_older, rewrite, within
from dblog_sink.modes.work import Applied, Work
from dblog_sink.tombstones import Position, Tombstones
from dblog_sink.types import quote

_SMALL_ROWS = 20_000
"""A batch of fewer rows is written as one file."""

_BROADCAST_ROWS_MAX = 200_000
"""Keys of that many rows are some megabytes."""


def apply(work: Work) -> Applied:
    """Bring one table up to this batch."""
    assert work.tombstones is not None
    target, tombstones = work.target, work.tombstones
    applied = Applied(table=target.name, records=work.records)
    rows = latest(decoded(work.raw, work.decoding), target.keys).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        groups = _groups(rows, work)
        _quarantine(work, rows, groups, applied)
        truncate = groups.pop("t", None)
        if truncate is not None:
            _truncate(work, tombstones, _position(truncate["last"]))
        applied.deletes = groups["d"]["n"] if "d" in groups else 0
        applied.upserts = sum(group["n"] for op, group in groups.items() if op != "d")
        applied.source_ts_ms = max((group["ts"] for group in groups.values() if group["ts"] is not None), default=None)
        if groups:
            _write(work, tombstones, rows.where(F.col(BAD).isNull() & (F.col(OP) != "t")), groups, applied)
    finally:
        rows.unpersist()
    applied.rows = target.rows
    return applied


def _groups(rows: DataFrame, work: Work) -> dict[str, Row]:
    """One job that fills the cache and says, for each operation, how many rows there are, where their keys lie, and their positions."""
    position = F.struct(SEQ1, SEQ2)
    spans = [
        aggregate
        for n, (name, _) in enumerate(bounded(work.target.keys))
        for aggregate in (F.min(quote(name)).alias(f"low{n}"), F.max(quote(name)).alias(f"high{n}"))
    ]
    kind = F.when(F.col(BAD).isNotNull(), "bad").otherwise(F.col(OP)).alias("kind")
    found = rows.groupBy(kind).agg(
        F.count("*").alias("n"), F.min(position).alias("first"), F.max(position).alias("last"), F.max(TS_MS).alias("ts"), *spans
    )
    return {row["kind"]: row for row in found.collect()}


def _quarantine(work: Work, rows: DataFrame, groups: dict[str, Row], applied: Applied) -> None:
    bad = groups.pop("bad", None)
    if bad is None:
        return
    applied.bad = bad["n"]
    reasons = rows.where(F.col(BAD).isNotNull()).select(F.col(BAD).alias("reason"), F.col(BAD_AT).alias("bad_at"))
    place = F.concat_ws(":", "partition", "offset") == F.col("bad_at")
    work.quarantine.keep(work.raw.join(F.broadcast(reasons), place), topic=work.topic, txn=work.txn)
    names = [row[0] for row in reasons.select("reason").distinct().limit(3).collect()]
    work.quarantine.check(topic=work.topic, bad=applied.bad, records=work.records, reasons=names)


def _truncate(work: Work, tombstones: Tombstones, position: Position) -> None:
    """A truncate deletes what is older than itself, never the table: rows written after it may have come first (delta-sink.md 5.3)."""
    tombstones.write_floor(work.session, position, work.txn.of("floor"))
    older = (F.col(SEQ1) < position[0]) | ((F.col(SEQ1) == position[0]) & (F.col(SEQ2) < position[1]))
    if work.target.rows:
        delete(work.session, path=work.target.path, condition=older, txn=work.txn.of("truncate"))
        work.target.rows = work.session.read.format("delta").load(work.target.path).count()


def _write(work: Work, tombstones: Tombstones, rows: DataFrame, groups: dict[str, Row], applied: Applied) -> None:
    target, session, txn = work.target, work.session, work.txn
    deletes = groups.get("d")
    if deletes is not None:
        tombstones.write(session, rows.where(F.col(OP) == "d"), _position(deletes["last"]), txn.of("tombstones"))
    rows = tombstones.alive(session, rows, min(_position(group["first"]) for group in groups.values()))
    if target.rows == 0:
        if applied.upserts:
            _append(work, rows.where(F.col(OP) != "d"), applied.upserts, applied)
        applied.path = "append"
        return
    if target.rows + applied.upserts <= work.settings["rewrite.rows.max"]:
        _rewrite(work, rows, groups, applied)
        return
    large = [op for op in ("r", "c") if op in groups and groups[op]["n"] >= work.settings["merge.split.rows.min"]]
    merged: list[DataFrame] = []
    ranges = [_span(group, work) for op, group in groups.items() if op not in large]
    if large:
        present = _append_new(work, rows.where(F.col(OP).isin(large)), [_span(groups[op], work) for op in large], applied)
        if present is not None:
            merged.append(present)
            ranges = [_span(group, work) for group in groups.values()]
    if len(groups) > len(large):
        merged.append(rows.where(~F.col(OP).isin(large)))
    if merged:
        source = reduce(DataFrame.unionByName, merged)
        outcome = merge(
            session, path=target.path, rows=source, keys=target.keys, columns=target.column_names, ranges=ranges, txn=txn.of("merge")
        )
        applied.merged = outcome.inserted + outcome.updated + outcome.deleted
        target.rows += outcome.inserted - outcome.deleted
        target.commits += 1
    applied.path = "merge" if not large else "append+merge" if merged else "append"


def _rewrite(work: Work, rows: DataFrame, groups: dict[str, Row], applied: Applied) -> None:
    target = work.target
    files = 1 if target.rows < _SMALL_ROWS else work.session.sparkContext.defaultParallelism
    rewrite(
        work.session, path=target.path, rows=rows, keys=target.keys, columns=target.column_names, files=files, txn=work.txn.of("rewrite")
    )
    target.rows = work.session.read.format("delta").load(target.path).count()  # from file statistics, no scan
    applied.merged = sum(group["n"] for group in groups.values())
    applied.path = "rewrite"


def _append_new(work: Work, inserts: DataFrame, spans: list[KeyRange], applied: Applied) -> DataFrame | None:
    """Append those of ``inserts`` whose keys are not in the table; returns the others, None if there are none.

    Which keys are there is found out once and held by a local checkpoint: a cached frame would be computed again, against the new version, as
    soon as the append commits, for Spark refreshes caches that read a path that was written.
    """
    target = work.target
    count = inserts.count()
    table = work.session.read.format("delta").load(target.path)
    bounds = within(spans, target.keys)
    if bounds is not None:
        table = table.where(bounds)
        if not table.inputFiles():  # no file's statistics admit any of these keys
            _append(work, inserts, count, applied)
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
        _append(work, inserts.join(_small(found, known), same_key, "left_anti") if known else inserts, count - known, applied)
    if not counts.get(True):
        return None
    return inserts.join(_small(found.where("newer"), known), same_key, "left_semi")


def _small(found: DataFrame, rows: int) -> DataFrame:
    """A checkpoint has no statistics: Spark must be told that its rows fit into a broadcast."""
    return F.broadcast(found) if rows <= _BROADCAST_ROWS_MAX else found


def _append(work: Work, rows: DataFrame, count: int, applied: Applied) -> None:
    if count < _SMALL_ROWS:
        rows = rows.coalesce(1)
    append(rows, work.target.path, work.target.column_names, work.txn.of("append"))
    work.target.rows += count
    work.target.commits += 1
    applied.appended += count


def _span(group: Row, work: Work) -> KeyRange:
    names = [name for name, _ in bounded(work.target.keys)]
    low: dict[str, Any] = {name: group[f"low{n}"] for n, name in enumerate(names)}
    high: dict[str, Any] = {name: group[f"high{n}"] for n, name in enumerate(names)}
    return KeyRange(low, high)


def _position(struct: Row) -> Position:
    return int(struct[0]), int(struct[1])
