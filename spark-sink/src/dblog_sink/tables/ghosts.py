"""Removes ghosts: rows of a table that the source lacks, as a whole dump has shown.

Every row of the source has a record at or after the dump's low watermark
(``reconcile/dump_chains.py``), and all of them are merged when this is called. So the rule is one
comparison of positions, without keys or bounds: older rows are removed (I2). A mirror gets a floor
at the watermark, as after a truncate, so no late older change restores a row, whether the table had
it or not. A history closes open versions that began before, unless a dump has confirmed them
(``tables/modes/history.py``), and records their keys as deleted.

Each step may be repeated: the transaction ids are the dump's own, and the ghosts are a function of
the table (I8).
"""

from __future__ import annotations

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.config.job_options import Settings
from dblog_sink.delta.file_skipping import row_count
from dblog_sink.delta.merge import Txn, delete, merge_versions, update
from dblog_sink.delta.target import APPEND, CURRENT, HISTORY, TO, TO1, TO2
from dblog_sink.delta.tombstones import Position
from dblog_sink.records.decode import SEQ1, SEQ2, TS_MS
from dblog_sink.schema.types import quote
from dblog_sink.schema.writer_schemas import UNWRAPPED
from dblog_sink.state.crash_points import Reached
from dblog_sink.tables.open_tables import OpenTable

_ACTION = "_dblog_action"


def kept_reason(opened: OpenTable, settings: Settings) -> str | None:
    """Return why no row of the table may be removed by its position, or None if rows may be."""
    target = opened.target
    if target.mode == APPEND:
        return "the table is a list of changes (mode append), which has no ghosts"
    if target.kind == UNWRAPPED or settings["position"] == "topic":
        return "its rows are ordered by their topic, so they have no position of the log"
    return None


def remove(opened: OpenTable, session: SparkSession, *, low: Position, ts_ms: int, txn: Txn, reached: Reached, floor: bool = True) -> int:
    """Remove rows older than ``low``, the position of a low watermark, and return their number.

    ``ts_ms`` is the watermark's time. ``floor`` is True if a mirror's floor may stand for the keys;
    else each key is recorded.
    """
    assert opened.tombstones is not None
    target, tombstones = opened.target, opened.tombstones
    table = session.read.format("delta").load(target.path)
    ghosts = _older(low)
    if target.mode == HISTORY:
        return _closed(opened, session, low=low, ts_ms=ts_ms, txn=txn, reached=reached)
    if target.soft is not None:
        ghosts &= ~F.col(quote(target.soft))
    if floor:
        tombstones.write_floor(session, low, txn.of("floor"), ts_ms=ts_ms)
        reached("ghosts_recorded")
    count = table.where(ghosts).count()
    if not count:
        return 0
    if not floor:
        tombstones.write(session, table.where(ghosts).withColumns(_at(low, ts_ms)), low, txn.of("tombstones"))
        reached("ghosts_recorded")
    if target.soft is None:
        delete(session, path=target.path, condition=ghosts, txn=txn)
    else:
        values = {target.soft: F.lit(True), SEQ1: F.lit(low[0]), SEQ2: F.lit(low[1])}
        update(session, path=target.path, condition=ghosts, values=values, txn=txn)
    reached("ghosts_removed")
    target.rows = row_count(session, target.path)
    target.commits += 1
    return count


def _closed(opened: OpenTable, session: SparkSession, *, low: Position, ts_ms: int, txn: Txn, reached: Reached) -> int:
    assert opened.tombstones is not None
    target = opened.target
    keys = list(target.key_names)
    open_ones = session.read.format("delta").load(target.path).where(F.col(TO1).isNull() & _older(low))
    confirmed = None if opened.confirmed is None else opened.confirmed.later(session, low)
    if confirmed is not None:
        open_ones = open_ones.join(confirmed.select(*map(quote, keys)), keys, "left_anti")
    # A checkpoint, because it is read again after the table was written.
    ghosts = open_ones.select(*map(quote, target.column_names)).localCheckpoint()
    count = ghosts.count()
    if not count:
        return 0
    opened.tombstones.write(session, ghosts.withColumns(_at(low, ts_ms)), low, txn.of("tombstones"))
    reached("ghosts_recorded")
    ended = {TO1: F.lit(low[0]).cast("long"), TO2: F.lit(low[1]).cast("long"), TO: F.timestamp_millis(F.lit(ts_ms).cast("long"))}
    merge_versions(
        session,
        path=target.path,
        rows=ghosts.withColumns(ended | {CURRENT: F.lit(False), _ACTION: F.lit("set")}),
        action=_ACTION,
        keys=target.keys,
        columns=target.column_names,
        bounds=F.col(f"t.{TO1}").isNull(),
        txn=txn,
    )
    reached("ghosts_removed")
    target.commits += 1
    return count


def _older(low: Position) -> Column:
    return (F.col(SEQ1) < low[0]) | ((F.col(SEQ1) == low[0]) & (F.col(SEQ2) < low[1]))


def _at(low: Position, ts_ms: int) -> dict[str, Column]:
    return {SEQ1: F.lit(low[0]).cast("long"), SEQ2: F.lit(low[1]).cast("long"), TS_MS: F.lit(ts_ms).cast("long")}
