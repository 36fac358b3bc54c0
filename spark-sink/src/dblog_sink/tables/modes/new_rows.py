"""Appends a large batch of new rows to a mirror while it is decoded.

Most rows of a first dump, and of a table that only grows, are new: nothing has to be looked up, and
no copy of the decoded rows is needed. Before, the keys alone are checked for duplicates; everything
else is counted during the write. If a record is bad, a delete or a truncate, if a later delete is
known, or if a file of the table may have one of the keys, the written files are deleted and the
batch is written in the normal way.
"""

from __future__ import annotations

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.delta.session import MANY_ROWS
from dblog_sink.delta.tombstones import Tombstones
from dblog_sink.delta.upsert import added
from dblog_sink.records.decode import BAD, OP, TS_MS, UNAVAILABLE, decoded
from dblog_sink.records.latest import distinct
from dblog_sink.schema.types import quote
from dblog_sink.tables.modes.work import Applied, Work

_PAUSE_BATCHES = 20
_OTHERS, _NEWEST = "others", "newest"


def straight(work: Work, tombstones: Tombstones, applied: Applied) -> bool:
    """Write the batch if it has new rows only, and complete ``applied``.

    Return False, having written nothing, if it has others.
    """
    target = work.target
    plain = target.soft is None and not work.decoding.keys_of_value and not work.decoding.partial and not work.merge_only and not work.nulls
    if work.records < MANY_ROWS or work.replayed or not plain or not target.growing:
        return False
    if target.declined:
        target.declined -= 1
        return False
    rows = decoded(work.raw, work.decoding)
    keys = rows.select(*(quote(name) for name in target.key_names))
    if not distinct(keys, target.keys, where="true"):
        return False
    seen = Observation()
    other = F.col(BAD).isNotNull() | F.col(OP).isin("d", "t")
    if UNAVAILABLE in rows.columns:
        other |= F.col(UNAVAILABLE).isNotNull()
    observed = rows.observe(seen, F.count_if(other).alias(_OTHERS), F.max(TS_MS).alias(_NEWEST))
    written = added(
        work.session,
        path=target.path,
        rows=observed,
        count=work.records,
        keys=target.keys,
        columns=target.column_names,
        wanted=lambda first: seen.get[_OTHERS] == 0 and tombstones.none_behind(first),
        txn=work.txn.rows,
    )
    # Keys within the range of the table's, such as random ones, will be so again.
    if written is None:
        target.declined = _PAUSE_BATCHES
        return False
    work.reached("appended")
    applied.upserts = applied.appended = written
    applied.source_ts_ms = seen.get[_NEWEST] if written else None
    applied.path = "append"
    target.rows += written
    target.commits += 1
    applied.rows = target.rows
    return True
