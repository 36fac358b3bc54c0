"""Reads Avro in the JVM with Spark's ``from_avro``, passing its options as a literal.

Spark's own Python function passes them as an expression, ``map('mode', ...)``, which builds the map
in a field of the expression whenever it is evaluated. That also happens while plans are compared,
which every query of the JVM does with every cached frame (Spark 4.1, CreateMap and
ArrayBasedMapBuilder; CacheManager; RuntimeReplaceable.canonicalized). Two threads at once break the
expression with DUPLICATED_MAP_KEY, and it stays broken: from then on every query fails, and the
frame cannot be removed from the cache. A literal has no state.
"""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.classic.column import Column as ClassicColumn


def read_avro(value: Column, writer: str, reader: str | None = None) -> Column:
    """Return a column that decodes ``value``, written with schema ``writer`` and read as
    ``reader``.

    All fields of a record that does not decode are NULL (mode PERMISSIVE).
    """
    options = {"mode": "PERMISSIVE"} if reader is None else {"mode": "PERMISSIVE", "avroSchema": reader}
    return F.call_function("from_avro", value, F.lit(writer), _literal(options))


def _literal(options: dict[str, str]) -> Column:
    context = SparkContext._active_spark_context  # noqa: SLF001  where F.call_function finds the JVM, too
    assert context is not None
    jvm: Any = context._jvm  # noqa: SLF001  PySpark has no literal of a map
    kind = jvm.org.apache.spark.sql.types.DataType.fromDDL("map<string,string>")
    literal = jvm.org.apache.spark.sql.catalyst.expressions.Literal.create(jvm.PythonUtils.toScalaMap(options), kind)
    return ClassicColumn(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(literal))
