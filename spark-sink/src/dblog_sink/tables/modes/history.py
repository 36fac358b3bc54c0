"""History mode (SCD2): keeps every version of a row, with the positions and times of its validity.

A version is opened by an insert, update or dump row, and closed by the next event of its key: a
newer version, a delete or a truncate. So a key's history is a function of the set of its events,
and is computed as such. The batch's events, the versions that they can affect and the recorded
deletes of these keys are sorted by position; each version ends where the next event begins; only
differences from the table are written. Late events split versions and repeated events change
nothing, in any order of arrival (I2, I8).

A dump row shows the state of its row at its position, not that it changed there. It is left out if
it equals the version valid then; else it opens a version, because nothing older is known. If the
log's own event comes later, the dump row's version turns out equal to it and is removed.

A dump row that is left out leaves no trace in the table. So its key and position are recorded
separately before the rows are committed: once a dump is whole, an open version that is older and
was not confirmed by it is a ghost (``tables/ghosts.py``).
"""

from __future__ import annotations

from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.delta.merge import in_ranges, merge_versions, one_range, update
from dblog_sink.delta.target import CURRENT, FROM, TO, TO1, TO2
from dblog_sink.delta.tombstones import Position
from dblog_sink.delta.transaction import Transaction, begun
from dblog_sink.delta.upsert import inserted, upsert
from dblog_sink.records.decode import BAD, OP, SEQ1, SEQ2, TS_MS, decoded
from dblog_sink.records.latest import last_of_each_position
from dblog_sink.records.moved_keys import without_overtaken
from dblog_sink.schema.types import orderable, quote
from dblog_sink.tables.modes import missing_values
from dblog_sink.tables.modes import rows as rows_of
from dblog_sink.tables.modes.work import SMALL_ROWS, Applied, Work

_RANK, _ENDS, _ACTION = "_dblog_rank", "_dblog_ends", "_dblog_action"
_CONFIRMED = "confirmed"
_BATCH, _STORED, _DELETED, _DUMPED, _STORED_DUMP, _IMPLIED = 5, 4, 3, 2, 1, 0
"""Ranks of events of one key at one position, highest first: the batch's event of the log, the
table's event of the log, a recorded delete, a dump row (its position is where the log was before it
was read), and an end that only follows from the table.
"""


def apply(work: Work) -> Applied:
    """Apply these records to one table's history."""
    assert work.tombstones is not None
    target, tombstones = work.target, work.tombstones
    applied = Applied(table=target.name, topic=work.topic, records=work.records)
    given = decoded(work.raw, work.decoding)
    if work.decoding.keys_of_value:
        given = without_overtaken(given, target.keys, target.others)
    if work.nulls:
        given = given.persist(StorageLevel.MEMORY_AND_DISK)
    rows, held = missing_values.completed(rows_of.deletes(given, work), target, work.session, tombstones, left_out=applied.leave_out)
    rows = rows_of.ambiguous(last_of_each_position(rows, target.keys), work)
    rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        groups = rows_of.groups(rows, work)
        truncated = rows_of.truncated(work, groups)
        rows_of.quarantine(work, rows, groups, applied)
        if truncated is not None:
            for truncate in (
                rows.where((F.col(OP) == "t") & F.col(BAD).isNull()).select(SEQ1, SEQ2, TS_MS).distinct().orderBy(SEQ1, SEQ2).collect()
            ):
                _truncate(work, (truncate[0], truncate[1]), truncate[2])
        applied.deletes = groups["d"]["n"] if "d" in groups else 0
        applied.upserts = sum(group["n"] for op, group in groups.items() if op != "d")
        applied.source_ts_ms = max((group["ts"] for group in groups.values() if group["ts"] is not None), default=None)
        good = rows.where(F.col(BAD).isNull() & (F.col(OP) != "t"))
        if "d" in groups:
            tombstones.write(work.session, good.where(F.col(OP) == "d"), groups["d"]["last"], work.txn.of("tombstones"))
            work.reached("tombstones_written")
        if groups:
            _write(work, good, groups, applied)
    finally:
        for frame in (rows, *held, given):
            frame.unpersist()
    applied.rows = target.rows
    return applied


def _truncate(work: Work, position: Position, ts_ms: int | None) -> None:
    assert work.tombstones is not None
    role = f"{position[0]}.{position[1]}"
    work.tombstones.write_floor(work.session, position, work.txn.of(f"floor:{role}"), ts_ms=ts_ms)
    work.reached("truncate_recorded")
    if not work.target.rows:
        return
    seq1, seq2, to1, to2 = (F.col(name) for name in (SEQ1, SEQ2, TO1, TO2))
    begun = (seq1 < position[0]) | ((seq1 == position[0]) & (seq2 < position[1]))
    not_ended = to1.isNull() | (to1 > position[0]) | ((to1 == position[0]) & (to2 > position[1]))
    closed = {TO1: F.lit(position[0]).cast("long"), TO2: F.lit(position[1]).cast("long"), TO: _time(F.lit(ts_ms)), CURRENT: F.lit(False)}
    update(work.session, path=work.target.path, condition=begun & not_ended, values=closed, txn=work.txn.of(f"truncate:{role}"))
    work.reached("truncated")


def _write(work: Work, rows: DataFrame, groups: dict[str, rows_of.Group], applied: Applied) -> None:
    """Write the changes in the transaction in which the affected versions are read.

    What is computed from a version must never be written over another one. If only MERGE can write,
    its transaction begins later, and the sink must be the table's only writer.
    """
    if work.merge_only:
        _write_within(None, work, rows, groups, applied)
        return
    with begun(work.session, work.target.path) as transaction:
        if transaction.has(work.txn.rows.app_id, work.txn.rows.version):
            applied.path = "done"
        else:
            _write_within(transaction, work, rows, groups, applied)


def _write_within(transaction: Transaction | None, work: Work, rows: DataFrame, groups: dict[str, rows_of.Group], applied: Applied) -> None:
    assert work.tombstones is not None
    target, session = work.target, work.session
    first = min(group["first"] for group in groups.values())
    spans = [rows_of.span(group, work) for group in groups.values()]
    bounds = in_ranges(spans, target.keys)
    keys = [quote(name) for name in target.key_names]
    touched = rows.select(*keys).distinct()
    reaches = F.col(TO1).isNull() | (F.col(TO1) > first[0]) | ((F.col(TO1) == first[0]) & (F.col(TO2) >= first[1]))
    wanted = reaches if bounds is None else reaches & bounds
    stored: DataFrame | None = None
    if transaction is None:
        stored = session.read.format("delta").load(target.path)
    elif (files := transaction.files(transaction.predicate(wanted))).nonEmpty():
        stored = transaction.rows(files)
    if stored is not None:
        stored = stored.where(wanted).join(touched, list(target.key_names), "left_semi")
    deleted = work.tombstones.later(session, first)
    if deleted is not None:
        deleted = deleted.join(touched, list(target.key_names), "left_semi")
    changed = folded(rows, stored, deleted, work, first).localCheckpoint()
    # A checkpoint instead of a cache: a cached frame that reads the table would be recomputed after
    # the commit, from the new version.
    counted = (
        changed.groupBy(_ACTION, F.col(TO1).isNull()).agg(F.count("*").alias("n"), F.max(F.struct(SEQ1, SEQ2)).alias("last")).collect()
    )
    counts = {(row[0], row[1]): row["n"] for row in counted}
    total = sum(count for (action, _), count in counts.items() if action != _CONFIRMED)
    if total < sum(counts.values()):
        assert work.confirmed is not None
        confirmed = changed.where(F.col(_ACTION) == _CONFIRMED).withColumn(TS_MS, F.lit(None).cast("long"))
        last = max((row["last"][0], row["last"][1]) for row in counted if row[0] == _CONFIRMED)
        work.confirmed.write(session, confirmed, last, work.txn.of("confirmed"))
        work.reached("confirmed")
        changed = changed.where(F.col(_ACTION) != _CONFIRMED)
    if not total:
        applied.path = "nothing"
        return
    if total < SMALL_ROWS:
        changed = changed.coalesce(1)
    written = sum(count for (action, _), count in counts.items() if action == "new")
    if transaction is not None and written == total and transaction.writable:
        inserted(transaction, changed, count=total, columns=target.column_names, one_file=total < SMALL_ROWS, txn=work.txn.rows)
        work.reached("appended")
        applied.appended, applied.path = written, "append"
        target.rows += written
    else:
        outcome = None
        if transaction is not None:
            outcome = upsert(
                session,
                path=target.path,
                rows=changed,
                count=total,
                # A version is identified by its key and position.
                on=(*target.key_names, SEQ1, SEQ2),
                deletes=F.col(_ACTION) == "delete",
                wins=F.lit(True),
                compared=(),
                columns=target.column_names,
                bounds=bounds,
                near=in_ranges(one_range(spans, target.keys), target.keys),
                broadcast=rows_of.fits(work, total),
                one_file=total < SMALL_ROWS,
                txn=work.txn.rows,
                transaction=transaction,
            )
        if outcome is None:
            outcome = merge_versions(
                session,
                path=target.path,
                rows=changed,
                action=_ACTION,
                keys=target.keys,
                columns=target.column_names,
                bounds=in_ranges(spans, target.keys, "t."),
                txn=work.txn.rows,
            )
        work.reached("versioned")
        applied.merged, applied.path = outcome.inserted + outcome.updated + outcome.deleted, "versions"
        target.rows += outcome.inserted - outcome.deleted
    target.commits += 1


def folded(rows: DataFrame, stored: DataFrame | None, deleted: DataFrame | None, work: Work, first: Position) -> DataFrame:
    """Compute the rows to write so that the table holds the history of all these events.

    Each row has an action: ``new``, ``set`` or ``delete``. Rows with the action ``confirmed`` are
    not written; they are dump rows that show a version to be valid.
    """
    target = work.target
    names = [name for name, _ in target.columns]
    keys = [quote(name) for name in target.key_names]
    data = [quote(name) for name in names]
    ends = F.col(OP) == "d"
    events = rows.select(*data, OP, SEQ1, SEQ2, _time(F.col(TS_MS)).alias(FROM), _rank(_BATCH, _DUMPED), ends.alias(_ENDS), *_no_version())
    if stored is not None:
        had = [F.col(TO1).alias("_dblog_was_to1"), F.col(TO2).alias("_dblog_was_to2"), F.lit(True).alias("_dblog_was")]
        events = events.unionByName(
            stored.select(*data, OP, SEQ1, SEQ2, FROM, _rank(_STORED, _STORED_DUMP), F.lit(False).alias(_ENDS), *had)
        )
        implied = stored.where(F.col(TO1).isNotNull()).select(*keys, F.col(TO1).alias(SEQ1), F.col(TO2).alias(SEQ2), F.col(TO).alias(FROM))
        events = events.unionByName(_ending(implied, _IMPLIED, target.columns))
    if deleted is not None:
        events = events.unionByName(_ending(deleted.select(*keys, SEQ1, SEQ2, _time(F.col(TS_MS)).alias(FROM)), _DELETED, target.columns))
    values = [F.col(quote(name)) for name in names if name not in target.key_names] or [F.lit(0).alias("_dblog_none")]
    content = F.struct(*values)
    events = events.withColumn("_dblog_content", content if all(orderable(kind) for _, kind in target.columns) else F.to_json(content))
    # One event for each key and position. The table's event there is kept with it, since it may
    # have to be deleted.
    at = Window.partitionBy(*keys, SEQ1, SEQ2)
    events = (
        events.withColumn("_dblog_best", F.row_number().over(at.orderBy(F.desc(_RANK))))
        .withColumn("_dblog_was_op", F.max(F.when(F.col("_dblog_was"), F.col(OP))).over(at))
        .withColumn("_dblog_was_content", F.max(F.when(F.col("_dblog_was"), F.col("_dblog_content"))).over(at))
        .withColumn("_dblog_was", F.max("_dblog_was").over(at))
        .withColumn("_dblog_was_to1", F.max("_dblog_was_to1").over(at))
        .withColumn("_dblog_was_to2", F.max("_dblog_was_to2").over(at))
        .where("_dblog_best = 1")
    )
    line = Window.partitionBy(*keys).orderBy(SEQ1, SEQ2)
    same = (F.lag("_dblog_content").over(line).eqNullSafe(F.col("_dblog_content"))) & (~F.lag(_ENDS).over(line))
    for seq1, seq2 in work.tombstones.floors if work.tombstones is not None else ():
        # A truncate in between has ended the equal version.
        if (seq1, seq2) >= first:
            same &= ~(_before(F.lag(SEQ1).over(line), F.lag(SEQ2).over(line), seq1, seq2) & ~_before(F.col(SEQ1), F.col(SEQ2), seq1, seq2))
    events = events.withColumn("_dblog_left_out", F.coalesce((F.col(OP) == "r") & ~F.col(_ENDS) & same, F.lit(False)))
    stale = (
        events.where("_dblog_left_out")
        .where("_dblog_was")
        .select(*data, OP, SEQ1, SEQ2, FROM, _RANK, _ENDS, "_dblog_was", "_dblog_was_to1", "_dblog_was_to2")
    )
    following = events.where("NOT _dblog_left_out").withColumns(
        {TO1: F.lead(SEQ1).over(line), TO2: F.lead(SEQ2).over(line), TO: F.lead(FROM).over(line)}
    )
    following = _truncated(following, work, first)
    differs = (F.col("_dblog_was_op") != F.col(OP)) | ~F.col("_dblog_was_content").eqNullSafe(F.col("_dblog_content"))
    changed = (
        F.col("_dblog_was").isNull()
        | differs
        | ~F.col(TO1).eqNullSafe(F.col("_dblog_was_to1"))
        | ~F.col(TO2).eqNullSafe(F.col("_dblog_was_to2"))
    )
    written = following.where(~F.col(_ENDS) & changed).withColumn(_ACTION, F.when(F.col("_dblog_was"), "set").otherwise("new"))
    ended = following.where(F.col(_ENDS) & F.col("_dblog_was")).withColumn(_ACTION, F.lit("delete"))
    nothing = {TO1: F.lit(None).cast("long"), TO2: F.lit(None).cast("long"), TO: F.lit(None).cast("timestamp")}
    gone = stale.withColumns(nothing | {_ACTION: F.lit("delete")})
    shown = events.where("_dblog_left_out").withColumns(nothing | {_ACTION: F.lit(_CONFIRMED)})
    together = [
        frame.withColumn(CURRENT, F.col(TO1).isNull()).select(*map(quote, target.column_names), _ACTION)
        for frame in (written, ended, gone, shown)
    ]
    return reduce(DataFrame.unionByName, together)


def _truncated(events: DataFrame, work: Work, first: Position) -> DataFrame:
    """End the versions that began before a truncate, including late ones."""
    assert work.tombstones is not None
    for (seq1, seq2), ts_ms in sorted(work.tombstones.floors.items()):
        if (seq1, seq2) < first:
            continue
        begun = _before(F.col(SEQ1), F.col(SEQ2), seq1, seq2)
        not_ended = F.col(TO1).isNull() | (F.col(TO1) > seq1) | ((F.col(TO1) == seq1) & (F.col(TO2) > seq2))
        hit = begun & not_ended
        new = {TO1: F.lit(seq1).cast("long"), TO2: F.lit(seq2).cast("long"), TO: _time(F.lit(ts_ms))}
        # All columns are set at once, because the condition needs their old values.
        events = events.withColumns({name: F.when(hit, value).otherwise(F.col(name)) for name, value in new.items()})
    return events


def _ending(positions: DataFrame, rank: int, columns: tuple[tuple[str, object], ...]) -> DataFrame:
    missing = {name: F.lit(None).cast(kind) for name, kind in columns if name not in positions.columns}  # type: ignore[arg-type]
    return positions.withColumns(missing | {OP: F.lit("d"), _RANK: F.lit(rank), _ENDS: F.lit(True)}).withColumns(
        {"_dblog_was_to1": F.lit(None).cast("long"), "_dblog_was_to2": F.lit(None).cast("long"), "_dblog_was": F.lit(None).cast("boolean")}
    )


def _before(own1: Column, own2: Column, seq1: int, seq2: int) -> Column:
    return (own1 < seq1) | ((own1 == seq1) & (own2 < seq2))


def _no_version() -> list[Column]:
    return [
        F.lit(None).cast("long").alias("_dblog_was_to1"),
        F.lit(None).cast("long").alias("_dblog_was_to2"),
        F.lit(None).cast("boolean").alias("_dblog_was"),
    ]


def _rank(log: int, dump: int) -> Column:
    return F.when(F.col(OP) == "r", dump).otherwise(log).alias(_RANK)


def _time(ms: Column) -> Column:
    return F.timestamp_millis(ms.cast("long"))
