"""Writing into Delta by its own commands: append, MERGE with literal bounds, overwrite, UPDATE and DELETE, each idempotent.

All carry a transaction id (application id and batch number): a batch that was committed before a crash is skipped when it is replayed,
and two drivers with one id exclude each other (Delta's PROTOCOL, "Transaction Identifiers"). MERGE prunes files only by conditions on the target alone,
hence the literal key ranges.
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
    """One write's identity: who writes, and which batch. A batch number never falls under one application id."""

    app_id: str
    version: int

    def of(self, role: str) -> Txn:
        """The identity of one of several writes of a batch, in a table of its own or beside the rows."""
        return Txn(f"{self.app_id}:{role}", self.version)

    @property
    def rows(self) -> Txn:
        """The identity of the one commit of rows, after which the batch is done with the table, whatever way it took."""
        return self.of("written")


def written(session: SparkSession, path: str, txn: Txn) -> int:
    """The last batch whose rows the table has; -1: none.

    Exact, where a note may lag: Delta commits it with the rows. There is no public name for it (Snapshot.transactions).
    """
    jvm: Any = session._jvm  # noqa: SLF001
    with active(session):  # where the log was not read yet, this reads it
        snapshot = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, path).unsafeVolatileSnapshot()  # noqa: SLF001
        found = snapshot.transactions().get(txn.rows.app_id)
    return int(found.get()) if found.isDefined() else -1


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Least and greatest value of each key column that file statistics can prune by; None: there is no such bound."""

    low: Mapping[str, Any]
    high: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Merged:
    """What a MERGE did to the target."""

    inserted: int
    updated: int
    deleted: int


def bounded(keys: Columns) -> Columns:
    """Key columns worth a literal range; statistics of floats, booleans and binaries do not help."""
    return tuple((name, kind) for name, kind in keys if isinstance(kind, _BOUNDED))


def in_ranges(ranges: Sequence[KeyRange], keys: Columns, alias: str = "") -> Column | None:
    """The condition that a key lies in one of the ranges, in literals only; None if it may lie anywhere."""
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
    """The least or greatest value of a key column, as an aggregate of ``to_aggregate`` gives it.

    A date comes as its number: Python has none outside of the years 1 to 9999, and PostgreSQL does; there is no bound then.
    """
    if value is None or not isinstance(kind, t.DateType):
        return value
    day = value + _EPOCH
    return date.fromordinal(day) if date.min.toordinal() <= day <= date.max.toordinal() else None


_EPOCH = date(1970, 1, 1).toordinal()


def to_aggregate(name: str, kind: t.DataType) -> Column:
    """What the bounds of a key column are aggregated of (``bound_of``)."""
    return F.unix_date(quote(name)) if isinstance(kind, t.DateType) else F.col(quote(name))


_BITS: Mapping[type[t.DataType], int] = {t.ByteType: 8, t.ShortType: 16, t.IntegerType: 32, t.LongType: 64}


def one_range(ranges: Sequence[KeyRange], keys: Columns) -> list[KeyRange]:
    """One range around all of them, whole numbers in it rounded outwards to an eighth of their span: the same for many batches (``file_skipping.py``)."""
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
    """D7's comparison, the same one everywhere: the position of ``one`` is at or after that of ``other`` (both are column prefixes).

    At, because the second of two rows of one position may come in a later batch (compressed transactions that Debezium wrote); a re-sent row then
    writes the same values again, and the second one follows it in the topic. A replay, which nothing follows, decides by itself (``rows.ambiguous``).
    """
    n1, n2, o1, o2 = F.col(f"{one}{SEQ1}"), F.col(f"{one}{SEQ2}"), F.col(f"{other}{SEQ1}"), F.col(f"{other}{SEQ2}")
    return (n1 > o1) | ((n1 == o1) & (n2 >= o2))


def append(rows: DataFrame, path: str, columns: Sequence[str], txn: Txn) -> None:
    """Append ``rows`` as they are; nothing happens if this batch was appended before."""
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
    """The same outcome as ``merge`` by rewriting the whole table: one join, one job, one commit, whatever the number of changes.

    A MERGE is a dozen jobs; for a table of a few megabytes all of them cost more than its rows do. It also leaves no small files behind.
    """
    written = overlaid(session.read.format("delta").load(path), rows, keys=keys, columns=columns, soft=soft)
    writer = written.coalesce(files).write.format("delta").mode("overwrite")
    # Whatever the session has: where overwrites are dynamic, a partition that none of the rows is in any more would keep its old ones.
    writer = writer.option("partitionOverwriteMode", "static").option("txnAppId", txn.app_id).option("txnVersion", txn.version)
    writer.save(path)


def overlaid(table: DataFrame, rows: DataFrame, *, keys: Columns, columns: Sequence[str], soft: str | None) -> DataFrame:
    """The table as it is after ``rows``, one for each key, have been upserted and deleted."""
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
    if soft is not None:  # a deleted row stays, and is marked
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
    """Upsert and delete by key, never replacing a newer row (I2); nothing happens if this batch was merged before. The session is ours alone.

    Where ``delta/upsert.py`` can write, it is several times faster.
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
    """Commits of this session carry the transaction id meanwhile; the session is ours alone."""
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
    """Write a history's versions as their ``action`` asks: ``delete`` deletes, ``set`` sets, ``new`` adds. A version is its key and its position.

    MERGE reads the table again: what somebody else took away since the actions were computed is not brought back, and what was added is not added twice.
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
    """Set columns of the target's rows that meet the condition; nothing happens if this batch did so before."""
    with _with_transaction_id(session, txn):
        DeltaTable.forPath(session, path).update(condition, {quote(name): value for name, value in values.items()})


def delete(session: SparkSession, *, path: str, condition: Column, txn: Txn) -> None:
    """Delete the target's rows that meet the condition; nothing happens if this batch did so before."""
    with _with_transaction_id(session, txn):
        DeltaTable.forPath(session, path).delete(condition)


def is_conflict(error: Exception) -> bool:
    """Whether a write failed only because somebody else committed in between: the same write may then be tried again."""
    return any(text in str(error) for text in _CONFLICTS)
