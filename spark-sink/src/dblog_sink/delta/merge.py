"""Writes to Delta with its own commands, idempotently: append, MERGE, overwrite, UPDATE, DELETE.

Each commit carries a transaction id of application id and batch number. A batch that was committed
before a crash is skipped when it is replayed, and two drivers with one id exclude each other
(Delta's PROTOCOL, "Transaction Identifiers"). MERGE prunes files only by conditions on the target
alone, hence the literal key ranges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import reduce
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as t

from dblog_sink.delta.transaction import active
from dblog_sink.records.decode import OP, SEQ1, SEQ2, Columns
from dblog_sink.schema.types import quote

_TXN_APP = "spark.databricks.delta.write.txnAppId"
_TXN_VERSION = "spark.databricks.delta.write.txnVersion"
_BOUNDED = (t.ByteType, t.ShortType, t.IntegerType, t.LongType, t.DecimalType, t.DateType, t.StringType)
_CONFLICTS = ("DELTA_CONCURRENT", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED", "ConcurrentModificationException")


@dataclass(frozen=True, slots=True)
class Txn:
    """The identity of a write: writer and batch number. A writer's batch numbers never decrease."""

    app_id: str
    version: int

    def of(self, role: str) -> Txn:
        """Return the identity of one of several writes of a batch."""
        return Txn(f"{self.app_id}:{role}", self.version)

    @property
    def rows(self) -> Txn:
        """Identity of the commit of rows, after which the table has the whole batch."""
        return self.of("written")


def written(session: SparkSession, path: str, txn: Txn) -> int:
    """Return the last batch whose rows the table has, -1 for none.

    This is exact, while a note may lag, because Delta commits it with the rows. Python has no
    public API for it (Snapshot.transactions).
    """
    jvm: Any = session._jvm  # noqa: SLF001
    # If the log has not been read yet, this reads it.
    with active(session):
        snapshot = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, path).unsafeVolatileSnapshot()  # noqa: SLF001
        found = snapshot.transactions().get(txn.rows.app_id)
    return int(found.get()) if found.isDefined() else -1


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Smallest and greatest value of each key column that file statistics can prune by; None for no
    bound.
    """

    low: Mapping[str, Any]
    high: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Merged:
    """Numbers of the target's rows that a MERGE changed."""

    inserted: int
    updated: int
    deleted: int


def bounded(keys: Columns) -> Columns:
    """Return key columns worth a literal range.

    Statistics of floats, booleans and binaries do not help.
    """
    return tuple((name, kind) for name, kind in keys if isinstance(kind, _BOUNDED))


def in_ranges(ranges: Sequence[KeyRange], keys: Columns, alias: str = "") -> Column | None:
    """Return a condition in literals that a key lies in one of the ranges.

    Return None if a key may lie anywhere.
    """
    spans = []
    for span in ranges:
        parts = []
        for name, kind in bounded(keys):
            column, low, high = F.col(f"{alias}{quote(name)}"), span.low[name], span.high[name]
            parts += [] if low is None else [column >= F.lit(low).cast(kind)]
            parts += [] if high is None else [column <= F.lit(high).cast(kind)]
        if not parts:
            return None
        spans.append(reduce(lambda a, b: a & b, parts))
    return reduce(lambda a, b: a | b, spans) if spans else None


def bound_of(value: Any, kind: t.DataType) -> Any:
    """Return a bound of a key column from the result of an aggregate over ``to_aggregate``.

    A date is aggregated as a number, because PostgreSQL has dates outside Python's years 1 to 9999.
    For these the bound is None.
    """
    if value is None or not isinstance(kind, t.DateType):
        return value
    day = value + _EPOCH
    return date.fromordinal(day) if date.min.toordinal() <= day <= date.max.toordinal() else None


_EPOCH = date(1970, 1, 1).toordinal()


def to_aggregate(name: str, kind: t.DataType) -> Column:
    """Return the column to aggregate for the bounds of a key column (``bound_of``)."""
    return F.unix_date(quote(name)) if isinstance(kind, t.DateType) else F.col(quote(name))


_BITS: Mapping[type[t.DataType], int] = {t.ByteType: 8, t.ShortType: 16, t.IntegerType: 32, t.LongType: 64}


def one_range(ranges: Sequence[KeyRange], keys: Columns) -> list[KeyRange]:
    """Return one range around all ranges, so that many batches have the same
    (``file_skipping.py``).

    Whole numbers are rounded outwards to an eighth of their span.
    """
    if not ranges:
        return []
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    for name, kind in bounded(keys):
        lows, highs = [one.low[name] for one in ranges], [one.high[name] for one in ranges]
        low[name], high[name] = None if None in lows else min(lows), None if None in highs else max(highs)
        if (bits := _BITS.get(type(kind))) is not None:
            grid = 1 << max(0, (high[name] - low[name]).bit_length() - 3)
            low[name] = max(low[name] // grid * grid, -(1 << bits - 1))
            high[name] = min((high[name] // grid + 1) * grid, 1 << bits - 1) - 1
    return [KeyRange(low, high)]


def not_older(one: str, other: str) -> Column:
    """Return the condition that the position of ``one`` is at or after that of ``other``.

    Both are column prefixes. D7's comparison is this one everywhere. It includes equality, because
    the second of two rows with one position may come in a later batch (compressed transactions that
    Debezium wrote). A row that is sent again writes the same values, and the second row follows it
    in the topic. A replay, which nothing follows, decides such cases itself (``rows.ambiguous``).
    """
    n1, n2, o1, o2 = F.col(f"{one}{SEQ1}"), F.col(f"{one}{SEQ2}"), F.col(f"{other}{SEQ1}"), F.col(f"{other}{SEQ2}")
    return (n1 > o1) | ((n1 == o1) & (n2 >= o2))


def append(rows: DataFrame, path: str, columns: Sequence[str], txn: Txn) -> None:
    """Append ``rows`` as they are, unless this batch was appended before."""
    selected = rows.select(*(quote(name) for name in columns))
    selected.write.format("delta").mode("append").option("txnAppId", txn.app_id).option("txnVersion", txn.version).save(path)


def rewrite(
    session: SparkSession,
    *,
    path: str,
    rows: DataFrame,
    keys: Columns,
    columns: Sequence[str],
    files: int,
    txn: Txn,
    soft: str | None = None,
) -> None:
    """Get the result of ``merge`` by rewriting the whole table: one join, one job, one commit.

    A MERGE takes a dozen jobs, which cost more than the rows of a table of a few megabytes. A
    rewrite also leaves no small files.
    """
    written = overlaid(session.read.format("delta").load(path), rows, keys=keys, columns=columns, soft=soft)
    writer = written.coalesce(files).write.format("delta").mode("overwrite")
    # Set explicitly, whatever the session has: with dynamic overwrites a partition without rows
    # would keep its old ones.
    writer = writer.option("partitionOverwriteMode", "static").option("txnAppId", txn.app_id).option("txnVersion", txn.version)
    writer.save(path)


def overlaid(table: DataFrame, rows: DataFrame, *, keys: Columns, columns: Sequence[str], soft: str | None) -> DataFrame:
    """Return the table with ``rows``, one for each key, upserted and deleted."""
    same_key = reduce(lambda a, b: a & b, (F.col(f"t.{quote(name)}") == F.col(f"s.{quote(name)}") for name, _ in keys))
    changed = F.col(f"s.{SEQ1}").isNotNull() & (F.col(f"t.{SEQ1}").isNull() | not_older("s.", "t."))
    deleted = F.col(f"s.{OP}") == "d"

    def value(name: str) -> Column:
        new, old = F.col(f"s.{quote(name)}"), F.col(f"t.{quote(name)}")
        if soft is None or name in (SEQ1, SEQ2):
            return F.when(changed, new).otherwise(old).alias(name)
        if name == soft:
            return F.when(changed, deleted).otherwise(old).alias(name)
        return F.when(changed & ~deleted, new).otherwise(old).alias(name)

    stays = ~changed | ~deleted
    # A soft-deleted row stays and is marked.
    if soft is not None:
        stays |= F.col(f"t.{SEQ1}").isNotNull()
    return table.alias("t").join(rows.alias("s"), same_key, "full_outer").where(stays).select(*(value(name) for name in columns))


def merge(
    session: SparkSession,
    *,
    path: str,
    rows: DataFrame,
    keys: Columns,
    columns: Sequence[str],
    ranges: Sequence[KeyRange],
    txn: Txn,
    soft: str | None = None,
) -> Merged:
    """Upsert and delete by key, unless this batch was merged before.

    A newer row is never replaced (I2).

    The caller must own the session. If ``delta/upsert.py`` can write, it is several times faster.
    """
    same_key = reduce(lambda a, b: a & b, (F.col(f"t.{quote(name)}") == F.col(f"s.{quote(name)}") for name, _ in keys))
    bounds = in_ranges(ranges, keys, "t.")
    condition = same_key if bounds is None else same_key & bounds
    deleted = F.col(f"s.{OP}") == "d"
    wins = not_older("s.", "t.")
    values: dict[str, str | Column] = {quote(name): F.col(f"s.{quote(name)}") for name in columns}
    with _with_transaction_id(session, txn):
        builder = DeltaTable.forPath(session, path).alias("t").merge(rows.alias("s"), condition)
        if soft is None:
            builder = builder.whenMatchedDelete(deleted & wins)
        else:
            positions: dict[str, str | Column] = {name: F.col(f"s.{name}") for name in (SEQ1, SEQ2)}
            builder = builder.whenMatchedUpdate(deleted & wins, set={**positions, quote(soft): F.lit(True)})
        builder = builder.whenMatchedUpdate(wins, set=values)
        outcome = builder.whenNotMatchedInsert(~deleted, values=values).execute().collect()
    return _counted(outcome)


@contextmanager
def _with_transaction_id(session: SparkSession, txn: Txn) -> Iterator[None]:
    """Make the session's commits carry the transaction id inside the block.

    The caller must own the session.
    """
    session.conf.set(_TXN_APP, txn.app_id)
    session.conf.set(_TXN_VERSION, str(txn.version))
    try:
        yield
    finally:
        session.conf.unset(_TXN_APP)
        session.conf.unset(_TXN_VERSION)


def _counted(outcome: list[Row]) -> Merged:
    if not outcome:
        return Merged(0, 0, 0)
    row = outcome[0].asDict()
    return Merged(*(int(row.get(f"num_{what}_rows") or 0) for what in ("inserted", "updated", "deleted")))


def merge_versions(
    session: SparkSession,
    *,
    path: str,
    rows: DataFrame,
    action: str,
    keys: Columns,
    columns: Sequence[str],
    bounds: Column | None,
    txn: Txn,
) -> Merged:
    """Write a history's versions by their ``action``: ``delete``, ``set`` or ``new``.

    A version is identified by key and position. MERGE reads the table again: a version that
    somebody deleted since the actions were computed is not restored, and one that was added is not
    added twice.
    """
    same = [F.col(f"t.{quote(name)}") == F.col(f"s.{quote(name)}") for name in (*(name for name, _ in keys), SEQ1, SEQ2)]
    condition = reduce(lambda a, b: a & b, same if bounds is None else [*same, bounds])
    deleted = F.col(f"s.{action}") == "delete"
    values: dict[str, str | Column] = {quote(name): F.col(f"s.{quote(name)}") for name in columns}
    with _with_transaction_id(session, txn):
        outcome = (
            DeltaTable.forPath(session, path)
            .alias("t")
            .merge(rows.alias("s"), condition)
            .whenMatchedDelete(deleted)
            .whenMatchedUpdate(~deleted, set=values)
            .whenNotMatchedInsert(F.col(f"s.{action}") == "new", values=values)
            .execute()
            .collect()
        )
    return _counted(outcome)


def update(session: SparkSession, *, path: str, condition: Column, values: Mapping[str, Column], txn: Txn) -> None:
    """Set columns of the target's matching rows, unless this batch did so before."""
    with _with_transaction_id(session, txn):
        DeltaTable.forPath(session, path).update(condition, {quote(name): value for name, value in values.items()})


def delete(session: SparkSession, *, path: str, condition: Column, txn: Txn) -> None:
    """Delete the target's matching rows, unless this batch did so before."""
    with _with_transaction_id(session, txn):
        DeltaTable.forPath(session, path).delete(condition)


def is_conflict(error: Exception) -> bool:
    """Return True if a write failed only because of another commit, so that it may be retried."""
    return any(text in str(error) for text in _CONFLICTS)
