"""Creates Delta tables, even after an earlier attempt was killed before its first commit.

Such an attempt leaves a ``_delta_log`` without a commit. Delta takes the non-empty folder for a
table, does not create one, and then does not find it (DeltaCatalog.tableExists, CREATE TABLE IF NOT
EXISTS), so the table could never be created.

A log store with locks keeps a commit under another name until it is done (S3DynamoDBLogStore:
``_delta_log/.tmp``), and finishes it when the log is next read. So a log with any file in a
subfolder is kept.
"""

from __future__ import annotations

import re
from typing import Any

from delta.tables import DeltaTable, DeltaTableBuilder
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from dblog_sink.config.log_retention import OWN_LOG_H, log_properties

_LOG = "_delta_log"
_COMMITTED = re.compile(r"\d{20}\..*|_last_checkpoint")


def new_table(session: SparkSession, path: str, *, log_h: float = OWN_LOG_H) -> DeltaTableBuilder:
    """Return a builder that creates the table at ``path`` if it does not exist.

    ``log_h`` is its log retention in hours.
    """
    _drop_unfinished(session, path)
    builder = DeltaTable.createIfNotExists(session).location(path)
    for name, value in log_properties(log_h).items():
        builder = builder.property(name, value)
    return builder


def make_for(rows: DataFrame, path: str, *, log_h: float = OWN_LOG_H, partition_by: str | None = None) -> None:
    """Create a table for these rows if it does not exist.

    Writing rows could create it too, but Delta would keep only its own ones of the properties.
    """
    columns = _nullable(rows.schema)
    assert isinstance(columns, t.StructType)
    builder = new_table(rows.sparkSession, path, log_h=log_h).addColumns(columns)
    (builder if partition_by is None else builder.partitionedBy(partition_by)).execute()


def _nullable(kind: t.DataType) -> t.DataType:
    """Return the type with NULL allowed everywhere, as when rows are written to a new table.

    Later rows may have NULL where these have none.
    """
    match kind:
        case t.StructType():
            return t.StructType([t.StructField(field.name, _nullable(field.dataType)) for field in kind.fields])
        case t.ArrayType():
            return t.ArrayType(_nullable(kind.elementType))
        case t.MapType():
            return t.MapType(kind.keyType, _nullable(kind.valueType))
    return kind


def _drop_unfinished(session: SparkSession, path: str) -> None:
    """Remove the log of a table without a commit and without other files.

    Nobody else can be creating it, since the sink is the only writer of its tables.
    """
    jvm: Any = session._jvm  # noqa: SLF001  PySpark has no file system of its own
    hadoop: Any = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
    folder = jvm.org.apache.hadoop.fs.Path(path)
    system = folder.getFileSystem(hadoop)

    def names(of: Any) -> list[str]:
        return [str(status.getPath().getName()) for status in system.listStatus(of)]

    if not system.exists(folder) or names(folder) != [_LOG]:
        return
    log = jvm.org.apache.hadoop.fs.Path(folder, _LOG)
    inner = [status.getPath() for status in system.listStatus(log) if status.isDirectory()]
    if any(map(_COMMITTED.fullmatch, names(log))) or any(names(one) for one in inner):
        return
    system.delete(log, True)
