"""Checks at start that the methods of Delta and Spark without a public Python API exist.

They are public in the JVM but not guaranteed: another Delta version, or a platform's own build, may
lack some or change their arguments. Methods that only make writes faster (``UPSERT``) are replaced
by Delta's MERGE. Without the others (``NEEDED``) the sink could not see what it has written, so it
does not start. Methods are compared by name and argument types, as reflection prints them, without
packages (Delta's source, tag v4.4.0).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from dblog_sink.errors import DefiniteError

_DELTA = "org.apache.spark.sql.delta"

NEEDED: Mapping[str, tuple[str, ...]] = {
    f"{_DELTA}.DeltaLog": (
        "forTable(SparkSession,String)",
        "startTransaction()",
        "dataPath()",
        "logPath()",
        "store()",
        "newDeltaHadoopConf()",
        "unsafeVolatileSnapshot()",
        "update(boolean,Option,Option)",
        "createDataFrame(SnapshotDescriptor,Seq,boolean,Option)",
        "deltaRetentionMillis(Metadata)",
        "cleanUpExpiredLogs(Snapshot,Option,Option,Value)",
    ),
    f"{_DELTA}.Snapshot": ("version()", "timestamp()", "transactions()", "metadata()", "filesForScan(Seq,boolean)"),
    f"{_DELTA}.OptimisticTransaction": ("metadata()", "snapshot()", "deltaLog()", "commit(Seq,Operation)"),
    f"{_DELTA}.DeltaHistoryManager": ("getCommitInfoOpt(LogStore,Path,Configuration)",),
    f"{_DELTA}.stats.DeltaScan": ("files()",),
    f"{_DELTA}.actions.Metadata": ("id()", "configuration()"),
    f"{_DELTA}.TransactionExecutionObserver$": (
        "threadObserver()",
        "org$apache$spark$sql$delta$ThreadStorageExecutionObserver$_setter_$threadObserver_$eq(ThreadLocal)",
    ),
    "org.apache.spark.sql.catalyst.expressions.Literal": ("create(Object,DataType)",),
    "org.apache.spark.sql.classic.ExpressionUtils": ("column(Expression)",),
    "org.apache.spark.sql.catalyst.optimizer.ConstantFolding": ("apply(LogicalPlan)",),
    "org.apache.spark.api.python.PythonUtils": ("toSeq(List)", "toScalaMap(Map)"),
}
"""Methods by class that ``merge.written``, ``target``, ``file_skipping``, ``fence`` and
``schema/avro`` call.
"""

UPSERT: Mapping[str, tuple[str, ...]] = {
    f"{_DELTA}.Snapshot": ("checksumOpt()",),
    f"{_DELTA}.VersionChecksum": ("numFiles()",),
    f"{_DELTA}.OptimisticTransaction": (
        "txnVersion(String)",
        "protocol()",
        "filterFiles(Seq,boolean)",
        "writeFiles(Dataset)",
        "registerSQLMetrics(SparkSession,Map)",
    ),
    f"{_DELTA}.actions.Protocol": ("readerAndWriterFeatureNames()",),
    f"{_DELTA}.actions.AddFile": ("numPhysicalRecords()", "stats()", "absolutePath(DeltaLog)"),
    f"{_DELTA}.actions.SetTransaction": ("SetTransaction(String,long,Option)",),
    f"{_DELTA}.DeltaOperations$Merge$": ("apply(Option,Seq,Seq,Seq)",),
    f"{_DELTA}.commands.DMLWithDeletionVectorsHelper": (
        "generateCandidateFileMap(Path,Seq)",
        "findFilesWithMatchingRows(OptimisticTransaction,Map,Seq)",
        "processUnmodifiedData(SparkSession,Seq,Snapshot,int)",
    ),
    f"{_DELTA}.commands.DeletionVectorBitmapGenerator": (
        "buildRowIndexSetsForFilesMatchingCondition(SparkSession,OptimisticTransaction,boolean,Dataset,Seq,Expression,Option,Option)",
    ),
    f"{_DELTA}.stats.StatsCollectionUtils": ("getDataSkippingStringPrefixLength(SparkSession,Metadata)",),
    "org.apache.spark.sql.catalyst.expressions.Literal": ("TrueLiteral()",),
    "org.apache.spark.sql.classic.SparkSession": ("getActiveSession()", "setActiveSession(SparkSession)", "clearActiveSession()"),
    "org.apache.spark.sql.execution.metric.SQLMetrics": ("createMetric(SparkContext,String)",),
}
"""Further methods by class that ``upsert`` calls."""

_METHOD = re.compile(r"([\w$]+)\(([^()]*)\)")
"""Matches a method in the output of java.lang.reflect: ``public long a.B.of(java.lang.String,int)
throws ...``.
"""


def missing(session: SparkSession, wanted: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the methods that this JVM lacks, as ``class.method(types)``."""
    found: list[str] = []
    for name, methods in wanted.items():
        existing = _methods(session, name)
        found += [f"{name}.{method}" for method in methods if method not in existing]
    return found


_JARS: Mapping[str, str] = {
    "Delta": "io.delta.sql.DeltaSparkSessionExtension",
    "Kafka": "org.apache.spark.sql.kafka010.KafkaSourceProvider",
    "Kafka's clients": "org.apache.kafka.clients.admin.AdminClient",
    "Avro": "org.apache.spark.sql.avro.AvroDataToCatalyst",
}


def missing_jars(session: SparkSession) -> list[str]:
    """Return the names of the projects whose jars this Spark lacks."""
    return [name for name, one in _JARS.items() if not _methods(session, one)]


def require(session: SparkSession) -> None:
    """Raise DefiniteError if a method that the sink needs is missing."""
    if absent := missing(session, NEEDED):
        msg = (
            f"this Delta is not one that the sink can write with: it has no {absent[0]}; submit the job with Spark 4.1 and the jars of Delta 4.4.0 "
            "(spark-sink/README.md, Run it; spark-sink/docs/managed-spark.md lists what works where)"
        )
        raise DefiniteError(msg)


def _methods(session: SparkSession, name: str) -> frozenset[str]:
    """Return a class's public methods and constructors as ``method(types)``.

    Return an empty set if there is no such class.
    """
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001
    try:
        kind = jvm.java.lang.Class.forName(name, False, jvm.java.lang.Thread.currentThread().getContextClassLoader())
        # Fetched as one text, because each element of an array would be a separate call.
        printed = " ".join(
            jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(found).mkString(" ")
            for found in (kind.getMethods(), kind.getConstructors())
        )
    # There is no such class, or it is one of another Scala that cannot be linked.
    except Py4JError:
        return frozenset()
    return frozenset(f"{method}({','.join(_short(kind) for kind in kinds.split(','))})" for method, kinds in _METHOD.findall(printed))


def _short(name: str) -> str:
    """Return a class name without package and outer class."""
    return re.split(r"[.$]", name)[-1]
