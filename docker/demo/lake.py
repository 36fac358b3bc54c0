"""Reads Delta tables for the comparison with delta-rs, which shares no code with the Spark job that wrote them.

A table whose protocol delta-rs does not know (type widening, for one) is read by a local Spark session of our own instead; the values and
the comparison are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError


@dataclass(frozen=True, slots=True)
class Lake:
    """The folder under which the sink keeps its tables, one Delta table a folder ``<database>/<table>``."""

    base: Path
    spark_jars: tuple[Path, ...] = ()

    def path(self, database: str, table: str) -> Path:
        """Where the sink puts the table (its default template)."""
        return self.base / database / table

    def column_names(self, database: str, table: str) -> list[str]:
        """The columns of the table's newest version; none when there is no table."""
        if not self._exists(database, table):
            return []
        return [field.name for field in DeltaTable(self.path(database, table)).schema().fields]

    def version(self, database: str, table: str) -> int:
        """Commits of the table so far; 0 when there is no table."""
        commits = (self.path(database, table) / "_delta_log").glob("*.json")
        return max((int(commit.stem) + 1 for commit in commits if commit.stem.isdecimal()), default=0)

    def count_rows(self, database: str, table: str, where: str = "1 = 1") -> int:
        """Rows that fulfil an SQL condition, 0 when there is no table; deletion vectors are applied."""
        try:
            rows = next(iter(self._select(database, table, f"SELECT COUNT(*) AS n FROM t WHERE {where}")), (0,))
        except TableNotFoundError:  # also while its first version is being written
            return 0
        return int(rows[0])

    def newest(self, database: str, table: str, column: str) -> Any:
        """The greatest value of a column; None when there is no row."""
        try:
            return next(iter(self._select(database, table, f"SELECT MAX({column}) AS n FROM t")), (None,))[0]
        except TableNotFoundError:
            return None

    def damage(self, database: str, table: str, column: str) -> str:
        """Write another text into one row, and keep its position: the SQL condition of that row."""
        delta = DeltaTable(self.path(database, table))
        key = delta.schema().fields[0].name
        (value,) = next(iter(self._select(database, table, f"SELECT MIN({key}) FROM t")))
        where = f"{key} = '{str(value).replace(chr(39), chr(39) * 2)}'"
        delta.update(predicate=where, updates={column: "'damaged'"})
        return where

    def read_rows(self, database: str, table: str, names: Sequence[str]) -> Iterator[Sequence[Any]]:
        """Every row in the order of ``names``."""
        return self._select(database, table, f"SELECT {', '.join(quoted(name) for name in names)} FROM t")

    def _exists(self, database: str, table: str) -> bool:
        """It has a first commit; the folder comes a moment earlier."""
        return any((self.path(database, table) / "_delta_log").glob("*.json"))

    def _select(self, database: str, table: str, sql: str) -> Iterator[Sequence[Any]]:
        delta = DeltaTable(self.path(database, table))
        try:
            batches = QueryBuilder().register("t", delta).execute(sql)
        except DeltaError as e:
            if "features" not in str(e) and "feature" not in str(e):
                raise
            yield from self._select_by_spark(database, table, sql)
            return
        for batch in batches:
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def _select_by_spark(self, database: str, table: str, sql: str) -> Iterator[Sequence[Any]]:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - a JVM is started only when there is no other way

        spark = (
            SparkSession.builder.master("local[2]")
            .appName("demo-comparison")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.variable.substitute", "false")  # columns of a source may be called ${...}
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.log.level", "ERROR")
            .config("spark.jars", ",".join(map(str, self.spark_jars)))
            .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
            .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
            .getOrCreate()
        )
        view = f"compared_{table}"
        spark.read.format("delta").load(str(self.path(database, table))).createOrReplaceTempView(view)
        yield from spark.sql(sql.replace(" FROM t", f" FROM {view}").replace('"', "`")).toLocalIterator(prefetchPartitions=True)


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'
