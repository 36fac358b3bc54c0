"""Reads Delta tables for the comparison with delta-rs, which shares no code with the Spark job.

A table whose protocol delta-rs does not support, for example with type widening, is read by a local
Spark session instead; values and comparison are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError


@dataclass(frozen=True, slots=True)
class Lake:
    """The folder of the sink's Delta tables, ``<database>/<table>``."""

    base: Path
    spark_jars: tuple[Path, ...] = ()
    _counted: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """Rows of each table, with the version that was counted."""

    def path(self, database: str, table: str) -> Path:
        """Return the path of the table in the sink's default template."""
        return self.base / database / table

    def column_names(self, database: str, table: str) -> list[str]:
        """Return the columns of the table's newest version, empty if there is no table."""
        if not self._exists(database, table):
            return []
        return [field.name for field in DeltaTable(self.path(database, table)).schema().fields]

    def version(self, database: str, table: str) -> int:
        """Return the number of commits of the table, 0 if there is no table."""
        commits = (self.path(database, table) / "_delta_log").glob("*.json")
        return max((int(commit.stem) + 1 for commit in commits if commit.stem.isdecimal()), default=0)

    def count_rows(self, database: str, table: str, where: str = "1 = 1") -> int:
        """Return the number of rows that meet an SQL condition, 0 if there is no table.

        Deletion vectors are applied.
        """
        try:
            rows = next(iter(self._select(database, table, f"SELECT COUNT(*) AS n FROM t WHERE {where}")), (0,))
        # This also happens while its first version is being written.
        except TableNotFoundError:
            return 0
        return int(rows[0])

    def rows(self, database: str, table: str) -> int:
        """Return the number of rows, counted again only after a commit; 0 if there is no table."""
        version = self.version(database, table)
        before, rows = self._counted.get((database, table), (0, 0))
        if version != before:
            rows = self.count_rows(database, table)
            self._counted[database, table] = version, rows
        return rows

    def wrong_rows(self, dump: str) -> list[str]:
        """Return the keys of the wrong rows, as JSON, in the sink's verdict on a verify dump.

        They are in a table of the sink's state, which ``dblog-sink verified`` prints.
        """
        found = DeltaTable(self.base / "_dblog" / "verified").to_pyarrow_table(columns=["dump", "keys"]).to_pylist()
        return [str(one["key"]) for row in found if row["dump"] == dump for one in row["keys"] or ()]

    def newest(self, database: str, table: str, column: str) -> Any:
        """Return the greatest value of a column, None if there is no row."""
        try:
            return next(iter(self._select(database, table, f"SELECT MAX({column}) AS n FROM t")), (None,))[0]
        except TableNotFoundError:
            return None

    def damage(self, database: str, table: str, column: str) -> str:
        """Write another text into one row and keep its position.

        Return the SQL condition of that row.
        """
        delta = DeltaTable(self.path(database, table))
        key = delta.schema().fields[0].name
        (value,) = next(iter(self._select(database, table, f"SELECT MIN({key}) FROM t")))
        where = f"{key} = '{str(value).replace(chr(39), chr(39) * 2)}'"
        delta.update(predicate=where, updates={column: "'damaged'"})
        return where

    def read_rows(self, database: str, table: str, names: Sequence[str]) -> Iterator[Sequence[Any]]:
        """Yield every row in the order of ``names``."""
        return self._select(database, table, f"SELECT {', '.join(quoted(name) for name in names)} FROM t")

    def _exists(self, database: str, table: str) -> bool:
        """Return True if the table has a commit; its folder appears a moment earlier."""
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
    """Return a column's name quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'
