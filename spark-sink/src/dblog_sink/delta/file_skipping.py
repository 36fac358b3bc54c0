"""Which files of a Delta table can hold what is asked, and frames over just these, whose plans read the same from batch to batch.

Spark writes numbers of a plan into the code that it generates, and a new text is compiled again, first by Janino and then by the JVM: a filter by
batch sequences or by keys that differs in each merge cost seconds of both cores each time, for the stage that decodes all records among others.

So files are chosen by the exact condition, before there is a plan. The condition on rows is then either rough and seldom changes, or it reads its numbers
from an array, which does not become text of the code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame


def admitted(session: SparkSession, path: str, condition: Column) -> DataFrame:
    """All rows of the files of the table's newest version whose statistics and partitions admit the condition; rows that do not meet it are among them."""
    log, snapshot = newest(session, path)
    files = snapshot.filesForScan(scala_seq(session, [resolved(session, path, condition)]), False).files()
    return frame_of(session, log, snapshot, files)


def newest(session: SparkSession, path: str) -> tuple[Any, Any]:
    """Delta's log of the table, and the snapshot of its newest version, which reads only what the caller asks of it."""
    jvm: Any = session._jvm  # noqa: SLF001
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, path)  # noqa: SLF001
    nothing = jvm.scala.Option.empty()
    return log, log.update(False, nothing, nothing)


def row_count(session: SparkSession, path: str) -> int:
    """How many rows the table has: of the files that the checksum of its newest version lists, where it does (Delta: up to 100 files), else by a job."""
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
    """The rows of these files."""
    return ClassicDataFrame(log.createDataFrame(snapshot, files, False, option(session, "batch")), session)


def resolved(session: SparkSession, path: str, condition: Column) -> Any:
    """The condition as Delta's data skipping reads it: bound to the table's columns, with plain literals."""
    analyzed = session.read.format("delta").load(path).where(condition)._jdf.queryExecution().analyzed()  # noqa: SLF001
    return session._jvm.org.apache.spark.sql.catalyst.optimizer.ConstantFolding.apply(analyzed).condition()  # type: ignore[union-attr]  # noqa: SLF001


def unwritten(numbers: Sequence[int], beside: Column) -> list[Column]:
    """Numbers as columns that are not literals, so that Spark reuses generated code for others. ``beside``: a numeric column without NULL, against folding."""
    array = F.array(*(F.lit(number).cast("long") for number in numbers))
    first = (beside * 0 + 1).cast("int")
    return [F.element_at(array, first + n) for n in range(len(numbers))]


def scala_seq(session: SparkSession, values: Sequence[Any]) -> Any:
    """A sequence for the JVM."""
    return session._jvm.PythonUtils.toSeq(list(values))  # type: ignore[union-attr]  # noqa: SLF001


def option(session: SparkSession, value: Any) -> Any:
    """An option for the JVM; None is none."""
    return session._jvm.scala.Option.apply(value)  # type: ignore[union-attr]  # noqa: SLF001
