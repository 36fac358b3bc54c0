"""Makes a small frame of facts to join with, in place of a condition for each fact.

Catalyst works on conditions as trees. An OR of conditions for a thousand topic partitions is a
thousand levels deep, which ends in a StackOverflowError or takes minutes. Inline rows are one
relation without a Spark job, and a broadcast join looks each record up once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, SparkSession

from dblog_sink.schema.types import text_sql


def small_frame(session: SparkSession, names: Sequence[str], rows: Iterable[Sequence[str | int]]) -> DataFrame:
    """Return the rows as a frame; numbers are BIGINT. At least one row is required."""
    values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
    return session.sql(f"SELECT * FROM VALUES {values} AS facts({', '.join(names)})")


def _literal(value: str | int) -> str:
    if isinstance(value, int):
        # BIGINT's smallest value has no literal, because its digits without the sign are too large.
        return f"{value}L" if value > -(1 << 63) else f"({value + 1}L - 1L)"
    return text_sql(value)
