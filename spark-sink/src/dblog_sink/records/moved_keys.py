"""Drops the delete of a key that another row has just taken, for ``table.<rule>.keys``.

There the key columns are columns of the row, and an update of them is a delete of the old key and a
new row. The source need not enforce the key row by row: for ``UPDATE t SET k = 3 - k`` it logs 1 to
2 before 2 to 1, so the delete of key 2 comes after the row that got it. The old image tells the two
apart. If its values differ from the row that the batch has put there, it is another row's image,
and that row stays.

A delete dropped by mistake leaves a row for ever. So only columns with certain values count. The
update left them unchanged (an image with the replica identity alone has NULL elsewhere, or a
default if the column is NOT NULL), and the row that was put there has a value (a row of a schema
without the column, or of a dump of some columns, has none). A delete by the source itself is always
kept.

Rows that are equal in all these columns cannot be told apart, nor can rows whose changes come in
different batches; there the delete is kept.
"""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Window

# Spark's own idiom.
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.records.decode import BAD, OFFSET, OP, SEQ1, SEQ2, STEADY, UNAVAILABLE, Columns
from dblog_sink.schema.types import orderable, quote

_LAST = "_dblog_last_put"


def without_overtaken(rows: DataFrame, keys: Columns, columns: Columns) -> DataFrame:
    """Return the decoded rows without deletes of a key that follow the row of another old image.

    ``columns`` are the data columns that are not keys.
    """
    names = [name for name, kind in columns if orderable(kind)]
    kinds = [kind for _, kind in columns if orderable(kind)]
    if not names:
        return rows.drop(STEADY)
    is_put = F.col(BAD).isNull() & F.col(OP).isin("c", "r", "u")
    image = F.struct(*(_certain(name, rows).alias(f"c{at}") for at, name in enumerate(names)))
    uncertain = F.when(F.col(BAD).isNotNull(), F.struct(*(F.lit(None).cast(kind).alias(f"c{at}") for at, kind in enumerate(kinds))))
    before = Window.partitionBy(*(F.col(quote(name)) for name, _ in keys)).orderBy(SEQ1, SEQ2, OFFSET)
    last = F.last(F.when(is_put, image).otherwise(uncertain), ignorenulls=True).over(before.rowsBetween(Window.unboundedPreceding, -1))
    others = reduce(or_, (_differs(name, F.col(_LAST)[f"c{at}"]) for at, name in enumerate(names)))
    overtaken = F.col(BAD).isNull() & (F.col(OP) == "d") & F.col(_LAST).isNotNull() & others
    return rows.withColumn(_LAST, last).where(~F.coalesce(overtaken, F.lit(False))).drop(_LAST, STEADY)


def _certain(name: str, rows: DataFrame) -> Column:
    """Return the column's value, NULL if the record lacks it."""
    value = F.col(quote(name))
    if UNAVAILABLE not in rows.columns:
        return value
    return F.when(F.coalesce(F.array_contains(UNAVAILABLE, F.lit(name)), F.lit(False)), F.lit(None)).otherwise(value)


def _differs(name: str, put: Column) -> Column:
    old = F.col(quote(name))
    return F.array_contains(STEADY, F.lit(name)) & old.isNotNull() & put.isNotNull() & (old != put)
