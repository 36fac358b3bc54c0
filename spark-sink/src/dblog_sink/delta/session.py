"""The Spark session, and sessions of their own for tables written side by side.

Delta takes the transaction id of a MERGE from the session's configuration only, and a session's threads share it: two merges in one session
would commit under each other's id (Delta's PROTOCOL, "Transaction Identifiers"). So every table in flight borrows a session of its own.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from queue import SimpleQueue

from pyspark.sql import SparkSession

from dblog_sink.delta import internals
from dblog_sink.delta.jars import PACKAGES, jars
from dblog_sink.delta.jvm_classes import remember_classes
from dblog_sink.errors import DefiniteError

REQUIRED: Mapping[str, str] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Wall clocks and instants would otherwise shift with the machine's zone.
    "spark.sql.session.timeZone": "UTC",
    # A cast that fails must raise, not write NULL (delta#1551).
    "spark.sql.ansi.enabled": "true",
    # Dates before 1582 are proleptic Gregorian in Debezium and in Delta.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.avro.datetimeRebaseModeInRead": "CORRECTED",
    # INT96, the default, ends at the year 2262 for readers that use nanoseconds, and has no statistics.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A union of a checkpointed frame can have constraints on columns that it does not have, and their inference then fails (Spark 4.1, "key not found" in
    # UnionBase.rewriteConstraints). Nothing here needs it: where files are to be left out, the condition is written.
    "spark.sql.constraintPropagation.enabled": "false",
    # Names and defaults of a source's columns are in statements and expressions. Spark would put a variable of the process, of the JVM, or a setting such
    # as a store's key where one of them reads ${env:NAME}, in every text that it parses, and whoever names columns would find it in the lake.
    "spark.sql.variable.substitute": "false",
    # A text's backslashes and quotes are escaped in statements: with the rules of Spark 1.6 it would not be the same text.
    "spark.sql.parser.escapedStringLiterals": "false",
    # How many rows a file has, and where its keys lie, is what an upsert goes by.
    "spark.databricks.delta.stats.collect": "true",
}
"""What correctness needs; a configuration cannot change these."""

PREFERRED: Mapping[str, str] = {
    "spark.scheduler.mode": "FAIR",
    # Cached batches are read a few times and thrown away: compressing them costs more than it saves.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # Micro-batches run plans of fresh literals, used once: a third of all CPU went into generating and compiling code for them, some of
    # it once a task (Delta's snapshot encoders). Interpreted expressions are compiled by the JVM once. Measured on batches of 22 rows: 5.4 to
    # 3.5 CPU-seconds together with the plan texts below. ``fit`` reverses this for many rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Classes of generated code that are kept, 100 by default: a batch of a large table asks for 150, so that each one was generated, and then compiled by
    # the JVM, again in every batch (a hot batch of a million took 17 s, and 14 since).
    "spark.sql.codegen.cache.maxEntries": "2000",
    # Every job's plan is printed for the listeners; the formatted form is the dearest, and schema texts make it long.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "20000",
    "spark.sql.streaming.noDataProgressEventInterval": "2000",
    "spark.sql.streaming.stopTimeout": "120s",
    # A streaming job runs for months: what the listeners remember of finished jobs is bounded, UI or not.
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "50",
    "spark.cleaner.periodicGC.interval": "10min",
    "spark.ui.showConsoleProgress": "false",
    # Spark's page listens on every interface and asks nobody who he is; it shows the job's plans and settings, and can end its stages.
    "spark.ui.enabled": "false",
    # From the first line of the context on; the job's own lines report what it does.
    "spark.log.level": "WARN",
}
"""What speed and quiet want; ``spark.*`` options and spark-submit's ``--conf`` override them."""

ON_ONE_MACHINE: Mapping[str, str] = {
    # Batches are small and their sizes known: planning again between stages costs more than it gains. Where rows go over the network, and partitions of very
    # different sizes hold up many cores, it gains: there Spark's own default stays.
    "spark.sql.adaptive.enabled": "false",
}
"""Preferred too, where ``spark.master`` is local."""

_UNDER_SUBMIT = "PYSPARK_GATEWAY_PORT"
"""The variable in which spark-submit gives Python the address of its JVM."""
_SHUFFLE, _SNAPSHOT = "spark.sql.shuffle.partitions", "spark.databricks.delta.snapshotPartitions"
_LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
"""Tasks of a listing, such as a VACUUM's of a whole folder."""
_LISTING_PER_CORE = 4
"""A listing waits for the store."""
_FOLLOWED = "spark.dblog.followed"
"""Which of the three the configuration leaves to the number of cores, separated by commas."""
_SNAPSHOT_MAX = 50

_COMPILED: Mapping[str, str] = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
MANY_ROWS = 20_000
"""From so many rows of one table on, a plan with classes of its own is worth its compilation: interpreted, a row of ten columns costs 20 us more."""

_FITTED = "spark.dblog.fitted"
"""Set where the configuration leaves it to ``fit`` whether plans are compiled."""


def spark_session(name: str, given: Mapping[str, str]) -> SparkSession:
    """The job's session; ``given`` are the configuration's ``spark.*`` options. spark-submit's own settings win over PREFERRED.

    Without spark-submit the jars that ``submit`` knows are added. Raises DefiniteError if Delta, Kafka or Avro is missing.
    """
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415

    refuse_connect(given, os.environ)
    if _UNDER_SUBMIT in os.environ:
        SparkContext._ensure_initialized()  # noqa: SLF001  until Python has met spark-submit's JVM, a SparkConf is empty
    submitted = SparkConf()
    builder = SparkSession.builder.appName(name)
    master = given.get("spark.master", submitted.get("spark.master", "local[*]") or "")
    preferred = {**PREFERRED, **ON_ONE_MACHINE} if is_one_machine(master) else PREFERRED
    settings = {key: value for key, value in preferred.items() if not submitted.contains(key)}
    settings[_FOLLOWED] = ",".join(key for key in (_SHUFFLE, _SNAPSHOT, _LISTING) if key not in given and not submitted.contains(key))
    if not any(name in given or submitted.contains(name) for name in _COMPILED):
        settings[_FITTED] = "true"
    if not submitted.contains("spark.master"):
        builder = builder.master(master)
    if _UNDER_SUBMIT not in os.environ and not {"spark.jars", "spark.jars.packages"} & given.keys():
        with contextlib.suppress(DefiniteError):  # they may be in Spark's own folder
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
    _quieten(session)
    follow(session)
    return session


_REMOTE = ("spark.remote", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
_API_MODES = ("spark.api.mode", "SPARK_API_MODE")


def refuse_connect(given: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Raise DefiniteError where Python would have no JVM beside it: Spark Connect (PySpark, ``is_remote``), and with it Databricks' shared and serverless
    compute.
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
    """Whether tasks run in the driver, by ``spark.master``; ``local-cluster`` starts processes instead."""
    return master == "local" or master.startswith("local[")


def partitions(cores: int) -> dict[str, str]:
    """Partitions for so many cores. 200 for a batch of a few thousand rows, and 50 for the log of a small table, would be all overhead: most of a small
    commit's time (Delta documentation, "Optimizations"); so would 10,000 tasks for the listing of a small folder (Spark documentation, "Performance Tuning").
    """
    return {
        _SHUFFLE: str(max(1, cores)),
        _SNAPSHOT: str(min(_SNAPSHOT_MAX, max(1, cores // 4))),
        _LISTING: str(_LISTING_PER_CORE * max(1, cores)),
    }


def follow(session: SparkSession) -> None:
    """Plan for the cores that there are now: executors register after the start, come and go."""
    followed = (session.conf.get(_FOLLOWED, "") or "").split(",")
    for name, value in partitions(session.sparkContext.defaultParallelism).items():
        if name in followed:
            session.conf.set(name, value)


_TALKATIVE = (
    "org.apache.spark.sql.catalyst.util.StringUtils",  # a plan was shortened, once a job
    "org.apache.spark.scheduler.FairSchedulableBuilder",  # a pool without a file of its own, once a table
    "org.apache.spark.rdd.MapPartitionsRDD",  # Delta's own checkpoints, once a merge
    "org.apache.spark.scheduler.DAGScheduler",  # nothing to cancel, at every stop
    "org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor",  # a batch took longer than its interval
)


_ENDED = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"
"""It logs in a hundred lines why a query ended, also when it was asked to stop; the job logs the reason itself."""


def _quieten(session: SparkSession) -> None:
    """Keep warnings that mean nothing to the reader out of the log, so that the others are seen."""
    logging = session.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]  # noqa: SLF001  PySpark sets one level for all
    for name in _TALKATIVE:
        logging.core.config.Configurator.setLevel(name, logging.Level.ERROR)
    logging.core.config.Configurator.setLevel(_ENDED, logging.Level.OFF)


def another(session: SparkSession) -> SparkSession:
    """Make a session of the same context with settings of its own, which begin as those of the context, and as ``REQUIRED``."""
    fresh = session.newSession()
    for name, value in REQUIRED.items():
        if fresh.conf.isModifiable(name):  # a context that was there before the job has not all of them
            fresh.conf.set(name, value)
    follow(fresh)
    return fresh


def fit(session: SparkSession, rows: int) -> None:
    """Have the session compile its plans for so many rows, or interpret them, for the cores that there are; a configuration that sets it is left alone."""
    follow(session)
    if session.conf.get(_FITTED, "false") == "true":
        for name, compiled in _COMPILED.items():
            session.conf.set(name, compiled if rows >= MANY_ROWS else PREFERRED[name])


@contextmanager
def fitted(session: SparkSession, rows: int) -> Iterator[None]:
    """``fit`` for a while: for Delta's own queries of a table's log, which have one row for each file and would compile many large classes."""
    before = {name: session.conf.get(name) for name in _COMPILED}
    fit(session, rows)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is not None:
                session.conf.set(name, value)


class SessionPool:
    """Sessions lent out one at a time; made once, because a session's own state takes a while to build."""

    def __init__(self, session: SparkSession, size: int) -> None:
        self._free: SimpleQueue[SparkSession] = SimpleQueue()
        for _ in range(size):
            self._free.put(another(session))

    @contextmanager
    def borrow(self, rows: int = 0) -> Iterator[SparkSession]:
        """A session that nobody else uses meanwhile, for so many rows."""
        session = self._free.get()
        try:
            fit(session, rows)
            yield session
        finally:
            self._free.put(session)
