"""Upserts with one join: marks old rows as deleted and adds new ones, in one Delta transaction.

Delta's MERGE copies the batch and then joins it with the table three times (for the touched files,
the rows to write, and the rows to mark), twice with whole rows. Here only keys and positions are
joined, once. That shows which rows of the table are replaced, and which rows of the batch are too
old to be written. The rest of the commit is Delta's own code: candidate files by statistics,
deletion vectors, constraints, the conflict check against other writers, the transaction id
(``delta/transaction.py``). Python has no public API for it; the called methods are public in the
JVM (DMLWithDeletionVectorsHelper, DeletionVectorBitmapGenerator), and Delta's version is pinned.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from decimal import Decimal
from functools import reduce
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as t

from dblog_sink.delta.file_skipping import option, scala_seq
from dblog_sink.delta.merge import KeyRange, Merged, Txn, bounded, in_ranges
from dblog_sink.delta.transaction import Transaction, begun
from dblog_sink.records.decode import SEQ1, SEQ2, Columns
from dblog_sink.schema.types import quote

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
"""Matches a date in statistics whose text sorts like the date, in the years 1 to 9999. Other dates
begin with a sign, which sorts before all digits.
"""
_FILE, _INDEX, _DELETES, _WINS = "_dblog_file", "_dblog_index", "_dblog_deletes", "_dblog_wins"


def upsert(
    session: SparkSession,
    *,
    path: str,
    rows: DataFrame,
    count: int,
    on: Sequence[str],
    deletes: Column,
    wins: Column,
    compared: Sequence[str],
    columns: Sequence[str],
    bounds: Column | None,
    near: Column | None,
    broadcast: bool,
    one_file: bool,
    txn: Txn,
    transaction: Transaction | None = None,
) -> Merged | None:
    """Replace the table's rows by ``rows``, unless this batch was merged before.

    ``rows`` has ``count`` rows, one for each value of the columns ``on``. ``deletes`` is true for a
    row that only deletes. ``wins`` is true if a row ``s`` replaces the table's row ``t``, by the
    columns ``compared``. ``bounds`` is a condition in literals that all matching rows of the table
    meet, and ``near`` a rougher one. ``broadcast`` is True if keys and positions of ``rows`` fit
    into a task. ``transaction`` is one in progress if ``rows`` were computed from what it read.

    Return None, having written nothing, if the table has a feature that only MERGE supports.
    """
    with begun(session, path) if transaction is None else nullcontext(transaction) as own:
        if own.has(txn.app_id, txn.version):
            return Merged(0, 0, 0)
        if not own.writable:
            return None
        predicate = own.predicate(bounds)
        files = own.files(predicate)
        found = None
        updated = deleted = stale = 0
        try:
            if files.nonEmpty():
                there = own.rows(files)
                found = _matched(there if near is None else there.where(near), rows, on, deletes, wins, compared, broadcast=broadcast)
                for row in found.groupBy(_WINS, _DELETES).count().collect():
                    if not row[_WINS]:
                        stale += row["count"]
                    elif row[_DELETES]:
                        deleted += row["count"]
                    else:
                        updated += row["count"]
            written = rows.where(~deletes)
            if found is not None and stale:
                written = written.join(found.where(~F.col(_WINS)).select(*_columns_of(on)), _same(on), "left_anti")
            actions = own.write.writeFiles(_laid(written, columns, one_file=one_file)._jdf)  # noqa: SLF001
            inserted = _rows(actions) - updated
            if found is not None and updated + deleted:
                actions = actions.appendedAll(_marked(session, own.write, files, found.where(_WINS)))
        finally:
            if found is not None:
                found.unpersist()
        merged = Merged(inserted, updated, deleted)
        _committed(own, actions, merged, count=count, predicate=predicate, txn=txn)
        return merged


def inserted(transaction: Transaction, rows: DataFrame, *, count: int, columns: Sequence[str], one_file: bool, txn: Txn) -> Merged:
    """Add rows that the table lacks, as the transaction has read.

    The caller must know that the transaction is ``writable``.
    """
    actions = transaction.write.writeFiles(_laid(rows, columns, one_file=one_file)._jdf)  # noqa: SLF001
    merged = Merged(_rows(actions), 0, 0)
    _committed(transaction, actions, merged, count=count, predicate=None, txn=txn)
    return merged


def added(
    session: SparkSession,
    *,
    path: str,
    rows: DataFrame,
    count: int,
    keys: Columns,
    columns: Sequence[str],
    wanted: Callable[[tuple[int, int]], bool],
    txn: Txn,
) -> int | None:
    """Append rows if no file of the table can hold one of their keys.

    ``rows`` has ``count`` rows, one for each key. Between write and commit ``wanted`` is called
    with a position that none of them precedes; it returns True if they may be committed. Return the
    number of rows added, 0 if this batch was written before. Return None if they were not committed
    for one of these reasons; their files are then deleted.
    """
    with begun(session, path) as own:
        if own.has(txn.app_id, txn.version):
            return 0
        if not own.writable or own.mapped:
            return None
        actions = own.write.writeFiles(_laid(rows, columns, one_file=False)._jdf)  # noqa: SLF001
        alone = False
        try:
            found = [json.loads(actions.apply(n).stats() or "{}", parse_float=Decimal) for n in range(actions.size())]
            first = _least(found, (SEQ1, SEQ2))
            alone = _rows(actions) == count and first is not None and wanted((first[SEQ1], first[SEQ2])) and _apart(own, found, keys)
        finally:
            if not alone:
                own.thrown_away(actions)
        if not alone:
            return None
        _committed(own, actions, Merged(count, 0, 0), count=count, predicate=None, txn=txn)
        return count


def _apart(transaction: Transaction, found: Sequence[Mapping[str, Any]], keys: Columns) -> bool:
    """Return True if no file of the table can hold a key of the files with these statistics."""
    names = [name for name, _ in bounded(keys)]
    low, high = _least(found, names), _greatest(found, names)
    dates = [name for name, kind in keys if isinstance(kind, t.DateType)]
    if low is None or high is None or not all(_DATE.fullmatch(str(one[name])) for one in (low, high) for name in dates):
        return not transaction.files(None).nonEmpty()
    return not transaction.files(transaction.predicate(in_ranges([KeyRange(low, high)], keys))).nonEmpty()


def _least(found: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any] | None:
    values = [one.get("minValues", {}) for one in found]
    return {name: min(one[name] for one in values) for name in names} if all(set(names) <= one.keys() for one in values) else None


def _greatest(found: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any] | None:
    values = [one.get("maxValues", {}) for one in found]
    return {name: max(one[name] for one in values) for name in names} if all(set(names) <= one.keys() for one in values) else None


def _committed(transaction: Transaction, actions: Any, merged: Merged, *, count: int, predicate: Any, txn: Txn) -> None:
    session = transaction.session
    delta: Any = session._jvm.org.apache.spark.sql.delta  # type: ignore[union-attr]  # noqa: SLF001
    _metrics(session, transaction.write, merged, count)
    nothing = scala_seq(session, [])
    operation = getattr(getattr(delta, "DeltaOperations$Merge$"), "MODULE$").apply(option(session, predicate), nothing, nothing, nothing)
    transaction.commit(actions, operation, app_id=txn.app_id, version=txn.version)


def _matched(
    there: DataFrame, rows: DataFrame, on: Sequence[str], deletes: Column, wins: Column, compared: Sequence[str], *, broadcast: bool
) -> DataFrame:
    """Return the location of the table's rows that share a key with ``rows``, and which one stays.

    The result is cached, since it is read several times.
    """
    narrow = rows.select(*(quote(name) for name in dict.fromkeys((*on, *compared))), deletes.alias(_DELETES)).alias("s")
    wanted = [F.col(quote(name)) for name in dict.fromkeys((*on, *compared))]
    row_address = (F.col("_metadata.file_path").alias(_FILE), F.col("_metadata.row_index").alias(_INDEX))
    table = there.select(*wanted, *row_address).alias("t")
    same = reduce(lambda a, b: a & b, (F.col(f"t.{quote(name)}") == F.col(f"s.{quote(name)}") for name in on))
    joined = table.join(F.broadcast(narrow) if broadcast else narrow, same)
    keys = (F.col(f"s.{quote(name)}").alias(f"_dblog_key_{n}") for n, name in enumerate(on))
    return joined.select(_FILE, _INDEX, _DELETES, wins.alias(_WINS), *keys).persist(StorageLevel.MEMORY_AND_DISK)


def _columns_of(on: Sequence[str]) -> list[str]:
    return [f"_dblog_key_{n}" for n in range(len(on))]


def _same(on: Sequence[str]) -> Column:
    return reduce(lambda a, b: a & b, (F.col(quote(name)) == F.col(f"_dblog_key_{n}") for n, name in enumerate(on)))


def _laid(rows: DataFrame, columns: Sequence[str], *, one_file: bool) -> DataFrame:
    selected = rows.select(*(quote(name) for name in columns))
    return selected.coalesce(1) if one_file else selected


def _marked(session: SparkSession, write: Any, files: Any, giving_way: DataFrame) -> Any:
    """Return file actions that mark rows as deleted, or remove files without remaining rows."""
    jvm: Any = session._jvm  # noqa: SLF001
    delta = jvm.org.apache.spark.sql.delta
    helper, jsession = delta.commands.DMLWithDeletionVectorsHelper, session._jsparkSession  # noqa: SLF001
    always = jvm.org.apache.spark.sql.catalyst.expressions.Literal.TrueLiteral()
    row_address = [option(session, F.col(name)._jc) for name in (_FILE, _INDEX)]  # noqa: SLF001
    matches = giving_way._jdf  # noqa: SLF001
    vectors = delta.commands.DeletionVectorBitmapGenerator.buildRowIndexSetsForFilesMatchingCondition(
        jsession, write, True, matches, files, always, *row_address
    )
    by_path = helper.generateCandidateFileMap(write.deltaLog().dataPath(), files)
    touched = helper.findFilesWithMatchingRows(write, by_path, vectors)
    prefix = delta.stats.StatsCollectionUtils.getDataSkippingStringPrefixLength(jsession, write.metadata())
    return helper.processUnmodifiedData(jsession, touched, write.snapshot(), prefix).productElement(0)


def _rows(actions: Any) -> int:
    """Return the number of rows in written files; Delta counts them as it writes."""
    return sum(int(actions.apply(n).numPhysicalRecords().get()) for n in range(actions.size()))


def _metrics(session: SparkSession, write: Any, merged: Merged, count: int) -> None:
    """Register the numbers that DESCRIBE HISTORY shows for the commit."""
    jvm: Any = session._jvm  # noqa: SLF001
    context = session.sparkContext._jsc.sc()  # noqa: SLF001
    counted: Mapping[str, int] = {
        "operationNumSourceRows": count,
        "numTargetRowsCopied": 0,
        "numTargetRowsInserted": merged.inserted,
        "numTargetRowsUpdated": merged.updated,
        "numTargetRowsDeleted": merged.deleted,
    }
    metrics = {}
    for name, value in counted.items():
        metrics[name] = jvm.org.apache.spark.sql.execution.metric.SQLMetrics.createMetric(context, name)
        metrics[name].set(value)
    write.registerSQLMetrics(session._jsparkSession, jvm.PythonUtils.toScalaMap(metrics))  # noqa: SLF001
