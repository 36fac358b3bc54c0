"""A few rows of facts as a frame to join with, in place of a condition for each of them.

Catalyst works on conditions as trees: an OR of a condition for each of a thousand topic partitions is a thousand levels deep, which ends in a
StackOverflowError, or takes minutes. Inline rows are one relation without a Spark job, and a broadcast join looks each record up once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, SparkSession

from dblog_sink.schema.types import text_sql


def small_frame(session: SparkSession, names: Sequence[str], rows: Iterable[Sequence[str | int]]) -> DataFrame:
    """Return the rows as a frame; numbers are BIGINT. There must be at least one row."""
    values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
    return session.sql(f"SELECT * FROM VALUES {values} AS facts({', '.join(names)})")


def _literal(value: str | int) -> str:
    if isinstance(value, int):
        # BIGINT's least value is no literal: its digits without the sign are too large.
        return f"{value}L" if value > -(1 << 63) else f"({value + 1}L - 1L)"
    return text_sql(value)
