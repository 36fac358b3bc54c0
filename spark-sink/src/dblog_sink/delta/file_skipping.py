"""Selects the files of a Delta table that can match a condition, and makes frames over these files.

Spark writes a plan's numbers into the code that it generates, and every new text is compiled again,
first by Janino and then by the JVM. A filter by batch sequences or keys differs in each merge, and
cost seconds of both cores each time, among others for the stage that decodes all records. So files
are selected by the exact condition before there is a plan. The condition on rows is then either
rough and seldom changes, or takes its numbers from an array, which does not become part of the
code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame


def admitted(session: SparkSession, path: str, condition: Column) -> DataFrame:
    """Return all rows of the files that can match the condition, by statistics and partitions.

    The files are those of the table's newest version. Rows that do not match are included.
    """
    log, snapshot = newest(session, path)
    files = snapshot.filesForScan(scala_seq(session, [resolved(session, path, condition)]), False).files()
    return frame_of(session, log, snapshot, files)


def newest(session: SparkSession, path: str) -> tuple[Any, Any]:
    """Return Delta's log of the table and the snapshot of its newest version.

    The snapshot is lazy: it reads only what the caller asks for.
    """
    jvm: Any = session._jvm  # noqa: SLF001
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, path)  # noqa: SLF001
    nothing = jvm.scala.Option.empty()
    return log, log.update(False, nothing, nothing)


def row_count(session: SparkSession, path: str) -> int:
    """Return the number of rows of the table.

    The count comes from the files listed in the checksum of the newest version, if there are any
    (Delta: up to 100 files), else from a Spark job.
    """
    try:
        checksum = newest(session, path)[1].checksumOpt()
        listed = checksum.get().allFiles() if checksum.isDefined() else None
        if listed is not None and listed.isDefined():
            files = listed.get()
            counts = [files.apply(n).numLogicalRecords() for n in range(files.size())]
            if all(count.isDefined() for count in counts):
                return sum(int(count.get()) for count in counts)
    except Py4JError as e:
        if isinstance(e, Py4JJavaError):
            raise
        # Another Delta, whose checksums list no files.
    return int(session.read.format("delta").load(path).count())


def frame_of(session: SparkSession, log: Any, snapshot: Any, files: Any) -> DataFrame:
    """Return the rows of these files."""
    return ClassicDataFrame(log.createDataFrame(snapshot, files, False, option(session, "batch")), session)


def resolved(session: SparkSession, path: str, condition: Column) -> Any:
    """Return the condition bound to the table's columns, with literals that Delta can use.

    Delta's data skipping needs it in this form.
    """
    analyzed = session.read.format("delta").load(path).where(condition)._jdf.queryExecution().analyzed()  # noqa: SLF001
    return session._jvm.org.apache.spark.sql.catalyst.optimizer.ConstantFolding.apply(analyzed).condition()  # type: ignore[union-attr]  # noqa: SLF001


def unwritten(numbers: Sequence[int], beside: Column) -> list[Column]:
    """Return numbers as columns that are not literals, so that Spark reuses generated code.

    ``beside`` is a numeric column without NULL; it prevents constant folding.
    """
    array = F.array(*(F.lit(number).cast("long") for number in numbers))
    first = (beside * 0 + 1).cast("int")
    return [F.element_at(array, first + n) for n in range(len(numbers))]


def scala_seq(session: SparkSession, values: Sequence[Any]) -> Any:
    """Return values as a Scala sequence."""
    return session._jvm.PythonUtils.toSeq(list(values))  # type: ignore[union-attr]  # noqa: SLF001


def option(session: SparkSession, value: Any) -> Any:
    """Return a value as a Scala option, empty for None."""
    return session._jvm.scala.Option.apply(value)  # type: ignore[union-attr]  # noqa: SLF001
