"""Makes the Spark session, and a pool of separate sessions for tables that are written in parallel.

Delta takes the transaction id of a MERGE only from the session's configuration, which all threads
of a session share. Two merges in one session would commit under each other's id (Delta's PROTOCOL,
"Transaction Identifiers"). So every table in progress borrows a separate session.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

from pyspark.sql import SparkSession

from dblog_sink.delta import internals
from dblog_sink.delta.jars import PACKAGES, jars
from dblog_sink.delta.jvm_classes import remember_classes
from dblog_sink.errors import DefiniteError

REQUIRED: Mapping[str, str] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Otherwise wall clocks and instants would shift with the machine's time zone.
    "spark.sql.session.timeZone": "UTC",
    # A failed cast must raise instead of writing NULL (delta#1551).
    "spark.sql.ansi.enabled": "true",
    # Dates before 1582 are proleptic Gregorian in Debezium and in Delta.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.avro.datetimeRebaseModeInRead": "CORRECTED",
    # The default, INT96, ends at the year 2262 for readers that use nanoseconds, and has no
    # statistics.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A union with a checkpointed frame can have constraints on columns that it lacks, which breaks
    # their inference (Spark 4.1, "key not found" in UnionBase.rewriteConstraints). The sink does
    # not need them: conditions that skip files are written explicitly.
    "spark.sql.constraintPropagation.enabled": "false",
    # Names and defaults of source columns are part of statements and expressions. In every text
    # that it parses Spark would replace ${env:NAME} by an environment variable, a JVM property or a
    # setting such as a store's key, so anybody who names a column could read it in the lake.
    "spark.sql.variable.substitute": "false",
    # Backslashes and quotes of texts are escaped in statements; the rules of Spark 1.6 would change
    # the text.
    "spark.sql.parser.escapedStringLiterals": "false",
    # An upsert depends on a file's row count and key ranges.
    "spark.databricks.delta.stats.collect": "true",
}
"""Settings that correctness needs; a configuration cannot change them."""

PREFERRED: Mapping[str, str] = {
    "spark.scheduler.mode": "FAIR",
    # Cached batches are read a few times and discarded; compressing them costs more than it saves.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # Plans of micro-batches contain fresh literals and are used once: a third of all CPU went into
    # generating and compiling code for them, some of it once a task (Delta's snapshot encoders).
    # The JVM compiles interpreted expressions once. Measured on batches of 22 rows: from 5.4 to 3.5
    # CPU-seconds together with the plan texts below. ``fit`` reverses this for many rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Number of generated classes that are kept, by default 100. A batch of a large table needs 150,
    # so each was generated and compiled again in every batch (a hot batch of a million rows took 17
    # s, now 14).
    "spark.sql.codegen.cache.maxEntries": "2000",
    # Every job's plan is printed for the listeners. The formatted form is the most expensive, and
    # schema texts make it long.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "20000",
    "spark.sql.streaming.noDataProgressEventInterval": "2000",
    "spark.sql.streaming.stopTimeout": "120s",
    # A streaming job runs for months, so the listeners' memory of finished jobs is limited, with or
    # without UI.
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "50",
    "spark.cleaner.periodicGC.interval": "10min",
    "spark.ui.showConsoleProgress": "false",
    # Spark's page listens on every interface without a login. It shows the job's plans and
    # settings, and can end its stages.
    "spark.ui.enabled": "false",
    # Applies from the first line of the context on; the job's own lines report its work.
    "spark.log.level": "WARN",
}
"""Settings for speed and a quiet log. ``spark.*`` options and spark-submit's ``--conf`` override
them.
"""

ON_ONE_MACHINE: Mapping[str, str] = {
    # Batches are small and their sizes known, so planning again between stages costs more than it
    # gains. It gains if rows cross the network and uneven partitions hold up many cores; there
    # Spark's default stays.
    "spark.sql.adaptive.enabled": "false",
    # No executor of another machine connects to this driver, and its ports take objects of Java from
    # anyone who reaches them (Spark documentation, "Spark Security": RPC without authentication).
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""Further preferred settings if ``spark.master`` is local."""
_ADDRESSES = ("spark.driver.host", "spark.driver.bindAddress")
"""Settings that belong together: a configuration with one of them has both to itself."""

_UNDER_SUBMIT = "PYSPARK_GATEWAY_PORT"
"""Environment variable in which spark-submit passes the address of its JVM to Python."""
_SHUFFLE, _SNAPSHOT = "spark.sql.shuffle.partitions", "spark.databricks.delta.snapshotPartitions"
_LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
"""Tasks of a listing, such as that of a whole folder by VACUUM."""
_LISTING_PER_CORE = 4
"""Tasks per core, since a listing mostly waits for the store."""
_FOLLOWED = "spark.dblog.followed"
"""Setting with those of the three above that follow the number of cores, separated by commas."""
_SNAPSHOT_MAX = 50

_COMPILED: Mapping[str, str] = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
MANY_ROWS = 20_000
"""Number of rows of a table from which on compiling a plan pays: interpreted, a row of ten columns
costs 20 us more.
"""

_FITTED = "spark.dblog.fitted"
"""Setting that is true if ``fit`` decides whether plans are compiled."""


def spark_session(name: str, given: Mapping[str, str]) -> SparkSession:
    """Return the job's session.

    ``given`` has the configuration's ``spark.*`` options. spark-submit's own settings override
    PREFERRED. Without spark-submit the jars that ``submit`` knows are added. Raise DefiniteError if
    Delta, Kafka or Avro is missing.
    """
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415

    refuse_connect(given, os.environ)
    if _UNDER_SUBMIT in os.environ:
        # A SparkConf is empty until Python has connected to spark-submit's JVM.
        SparkContext._ensure_initialized()  # noqa: SLF001
    submitted = SparkConf()
    builder = SparkSession.builder.appName(name)
    master = given.get("spark.master", submitted.get("spark.master", "local[*]") or "")
    preferred = {**PREFERRED, **ON_ONE_MACHINE} if is_one_machine(master) else PREFERRED
    settings = {key: value for key, value in preferred.items() if not submitted.contains(key)}
    if any(key in given or submitted.contains(key) for key in _ADDRESSES):
        settings = {key: value for key, value in settings.items() if key not in _ADDRESSES}
    settings[_FOLLOWED] = ",".join(key for key in (_SHUFFLE, _SNAPSHOT, _LISTING) if key not in given and not submitted.contains(key))
    if not any(name in given or submitted.contains(name) for name in _COMPILED):
        settings[_FITTED] = "true"
    if not submitted.contains("spark.master"):
        builder = builder.master(master)
    if _UNDER_SUBMIT not in os.environ and not {"spark.jars", "spark.jars.packages"} & given.keys():
        # The jars may be in Spark's own folder.
        with contextlib.suppress(DefiniteError):
            settings["spark.jars"] = ",".join(map(str, jars(os.environ)))
    for key, value in {**settings, **given, **REQUIRED}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if missing := internals.missing_jars(session):
        session.stop()
        msg = (
            f"Spark runs without the jars of {', '.join(missing)}; start the job with `dblog-sink submit`, or with spark-submit and what `dblog-sink jars` "
            f"prints in --jars, or with --packages {','.join(PACKAGES)}"
        )
        raise DefiniteError(msg)
    remember_classes(session.sparkContext._jvm)  # noqa: SLF001  PySpark hands it to nobody
    _forget_java(session)
    _quieten(session)
    follow(session)
    return session


_REMOTE = ("spark.remote", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
_API_MODES = ("spark.api.mode", "SPARK_API_MODE")


def refuse_connect(given: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Raise DefiniteError if Python would have no JVM beside it.

    That is so with Spark Connect (PySpark, ``is_remote``), and hence with Databricks' shared and
    serverless compute.
    """
    found = {**environment, **given}
    reason = next((name for name in _REMOTE if found.get(name)), None)
    reason = reason or next((f"{name}=connect" for name in _API_MODES if found.get(name, "").lower() == "connect"), None)
    if reason is not None:
        msg = (
            f"the session would be one of Spark Connect ({reason}), which has no JVM beside Python, and the sink asks Delta's own classes there "
            "who may commit; start it by dblog-sink submit (spark-submit in classic mode) on a cluster that runs Spark 4.1 and Delta 4.4.0; "
            "spark-sink/docs/managed-spark.md lists what works where"
        )
        raise DefiniteError(msg)


def is_one_machine(master: str) -> bool:
    """Return True if tasks run in the driver, by ``spark.master``.

    With ``local-cluster`` they do not: it starts processes.
    """
    return master == "local" or master.startswith("local[")


def partitions(cores: int) -> dict[str, str]:
    """Return settings with numbers of partitions for this number of cores.

    The defaults are overhead: 200 partitions for a batch of a few thousand rows, 50 for the log of
    a small table, which take most of a small commit's time (Delta documentation, "Optimizations"),
    and 10,000 tasks to list a small folder (Spark documentation, "Performance Tuning").
    """
    return {
        _SHUFFLE: str(max(1, cores)),
        _SNAPSHOT: str(min(_SNAPSHOT_MAX, max(1, cores // 4))),
        _LISTING: str(_LISTING_PER_CORE * max(1, cores)),
    }


def follow(session: SparkSession) -> None:
    """Set the numbers of partitions by the current cores; executors register late, come and go."""
    followed = (session.conf.get(_FOLLOWED, "") or "").split(",")
    for name, value in partitions(session.sparkContext.defaultParallelism).items():
        if name in followed:
            session.conf.set(name, value)


_TALKATIVE = (
    # A plan was shortened, once a job.
    "org.apache.spark.sql.catalyst.util.StringUtils",
    "org.apache.spark.scheduler.FairSchedulableBuilder",  # a pool without a file of its own, once a table
    "org.apache.spark.rdd.MapPartitionsRDD",  # Delta's own checkpoints, once a merge
    "org.apache.spark.scheduler.DAGScheduler",  # nothing to cancel, at every stop
    "org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor",  # a batch took longer than its interval
)


_ENDED = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"
"""Logger that writes a hundred lines when a query ends, even at a requested stop. The job logs the
reason itself.
"""


def _quieten(session: SparkSession) -> None:
    """Suppress log lines that mean nothing to the reader, so that the others are seen."""
    logging = session.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]  # noqa: SLF001  PySpark sets one level for all
    for name in _TALKATIVE:
        logging.core.config.Configurator.setLevel(name, logging.Level.ERROR)
    logging.core.config.Configurator.setLevel(_ENDED, logging.Level.OFF)


_CALLS_OF_JAVA = ("java_method", "reflect", "try_reflect")
"""Functions of SQL that call any static method of Java, such as System.load and System.getenv."""


def _forget_java(session: SparkSession) -> None:
    """Take the functions that call Java from the session.

    A Delta log has expressions: constraints, and those of generated columns. Delta evaluates them
    at each write, and anybody who may write the lake's folder chooses them.
    """
    functions = session._jsparkSession.sessionState().functionRegistry()  # noqa: SLF001  PySpark has no way to drop one
    identifier: Any = session._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier  # type: ignore[union-attr]  # noqa: SLF001
    for name in _CALLS_OF_JAVA:
        functions.dropFunction(identifier(name))


def another(session: SparkSession) -> SparkSession:
    """Return a new session of the same context, with the context's settings and ``REQUIRED``."""
    fresh = session.newSession()
    _forget_java(fresh)
    for name, value in REQUIRED.items():
        # A context that existed before the job does not allow all of them.
        if fresh.conf.isModifiable(name):
            fresh.conf.set(name, value)
    follow(fresh)
    return fresh


def fit(session: SparkSession, rows: int) -> None:
    """Make the session compile its plans if there are many rows, else interpret them.

    Set the numbers of partitions too. Settings that the configuration makes are left alone.
    """
    follow(session)
    if session.conf.get(_FITTED, "false") == "true":
        for name, compiled in _COMPILED.items():
            session.conf.set(name, compiled if rows >= MANY_ROWS else PREFERRED[name])


@contextmanager
def fitted(session: SparkSession, rows: int) -> Iterator[None]:
    """Apply ``fit`` inside the block.

    It serves Delta's own queries of a table's log, which have one row for each file and would
    compile many large classes.
    """
    before = {name: session.conf.get(name) for name in _COMPILED}
    fit(session, rows)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is not None:
                session.conf.set(name, value)


class SessionPool:
    """A pool of sessions, created once because a session's state takes a while to build."""

    def __init__(self, session: SparkSession, size: int) -> None:
        self._free: SimpleQueue[SparkSession] = SimpleQueue()
        for _ in range(size):
            self._free.put(another(session))

    @contextmanager
    def borrow(self, rows: int = 0) -> Iterator[SparkSession]:
        """Lend a session to the caller alone, fitted for a batch of ``rows`` rows."""
        session = self._free.get()
        try:
            fit(session, rows)
            yield session
        finally:
            self._free.put(session)
