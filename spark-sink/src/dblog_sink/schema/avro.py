"""Reads Avro in the JVM, by Spark's ``from_avro`` with its options as a literal.

Spark's own function writes them as an expression, ``map('mode', ...)``, which builds the map in a field of its own each time that it is evaluated: also
while plans are compared, which every query of the JVM does with every cached frame (Spark 4.1, CreateMap and ArrayBasedMapBuilder; CacheManager;
RuntimeReplaceable.canonicalized). Two threads at once break it with DUPLICATED_MAP_KEY, and it stays broken: then each query fails, for ever, and the frame
cannot be removed from the cache. A literal has no state.
"""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.classic.column import Column as ClassicColumn


def read_avro(value: Column, writer: str, reader: str | None = None) -> Column:
    """What ``value`` holds, written with the schema ``writer`` and read as ``reader``; of a record that does not decode all fields are NULL (PERMISSIVE)."""
    options = {"mode": "PERMISSIVE"} if reader is None else {"mode": "PERMISSIVE", "avroSchema": reader}
    return F.call_function("from_avro", value, F.lit(writer), _literal(options))


def _literal(options: dict[str, str]) -> Column:
    context = SparkContext._active_spark_context  # noqa: SLF001  where F.call_function finds the JVM, too
    assert context is not None
    jvm: Any = context._jvm  # noqa: SLF001  PySpark has no literal of a map
    kind = jvm.org.apache.spark.sql.types.DataType.fromDDL("map<string,string>")
    literal = jvm.org.apache.spark.sql.catalyst.expressions.Literal.create(jvm.PythonUtils.toScalaMap(options), kind)
    return ClassicColumn(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(literal))
