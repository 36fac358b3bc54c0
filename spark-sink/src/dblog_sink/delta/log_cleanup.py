"""Manages the Delta log of one table: its retention, its cleanup, and a check for a next commit.

Delta decides what may be deleted: commits, checksums and checkpoints before the newest checkpoint
that is older than the cutoff, in the order of their names, so that every later version can still be
reconstructed (MetadataCleanup, BufferingLogDeletionIterator). Python has no public API for this;
the called methods are public in the JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from dblog_sink.config.log_retention import is_cleaned, log_changes
from dblog_sink.delta.transaction import active
from dblog_sink.schema.types import quote

_HOUR_MS = 3_600_000


def follow(session: SparkSession, path: str, log_h: float, *, before: Callable[[], None] = lambda: None, own: bool = False) -> bool:
    """Set a table's log retention to ``log_h`` and leave its cleanup to the job.

    Return True if that took a commit. Call it while nobody writes the table, since a commit of
    properties fails open transactions. ``before`` is called before that commit, which replaces the
    newest version. ``own`` is True for tables of the sink's own state (``log_changes``).
    """
    if not _changes(session, path, log_h, own=own):
        return False
    before()
    changes = _changes(session, path, log_h, own=own)
    if changes:
        pairs = ", ".join(f"'{name}' = '{value}'" for name, value in changes.items())
        session.sql(f"ALTER TABLE delta.{quote(path)} SET TBLPROPERTIES ({pairs})")
    return bool(changes)


def _changes(session: SparkSession, path: str, log_h: float, *, own: bool) -> Mapping[str, str]:
    log = _log_of(session, path)
    metadata = _known(session, log).metadata()
    files_ms = session._jvm.org.apache.spark.sql.delta.DeltaLog.tombstoneRetentionMillis(metadata)  # type: ignore[union-attr]  # noqa: SLF001
    kept_ms = log.deltaRetentionMillis(metadata)
    return log_changes(_given(metadata), log_h, kept_h=kept_ms / _HOUR_MS, files_kept_h=files_ms / _HOUR_MS, own=own)


def kept_h(session: SparkSession, path: str) -> float:
    """Return the table's log retention in hours, by its properties."""
    log = _log_of(session, path)
    return float(log.deltaRetentionMillis(_known(session, log).metadata())) / _HOUR_MS


def may_clean(session: SparkSession, path: str) -> bool:
    """Return True if the job may clean the table's log.

    It may not if the owner has disabled cleanup.
    """
    return is_cleaned(_given(_known(session, _log_of(session, path)).metadata()))


def clean(session: SparkSession, path: str, older_than_h: float) -> None:
    """Delete the log of versions replaced more than ``older_than_h`` ago, in whole hours."""
    jvm: Any = session._jvm  # noqa: SLF001
    delta = jvm.org.apache.spark.sql.delta
    nothing = jvm.scala.Option.empty()
    hour = getattr(getattr(delta, "TruncationGranularity$"), "MODULE$").HOUR()
    with active(session):
        log = _log_of(session, path)
        snapshot = log.update(False, nothing, nothing)
        # py4j would pass a small number as an Integer, which Scala does not accept as a Long.
        boxed = jvm.java.util.stream.LongStream.of(round(older_than_h * _HOUR_MS)).boxed().findFirst()
        retention = jvm.scala.jdk.javaapi.OptionConverters.toScala(boxed)
        log.cleanUpExpiredLogs(snapshot, nothing, retention, hour)


def version(session: SparkSession, path: str) -> int:
    """Return the newest version that this driver knows."""
    return int(_known(session, _log_of(session, path)).version())


def has_next(session: SparkSession, log: Any, version: int) -> bool:
    """Return False if the table certainly has no version after this one; True asks for a listing.

    It looks for the next commit and then for this one. A log is cleaned from its beginning, in the
    order of versions. So if this commit exists, the next one was not cleaned away: it never
    existed.
    """
    names: Any = session._jvm.org.apache.spark.sql.delta.util.FileNames  # type: ignore[union-attr]  # noqa: SLF001
    hadoop = log.newDeltaHadoopConf()
    after, this = names.unsafeDeltaFile(log.logPath(), version + 1), names.unsafeDeltaFile(log.logPath(), version)
    return not (_is_there(after, hadoop) is False and _is_there(this, hadoop) is True)


def _is_there(path: Any, hadoop: Any) -> bool | None:
    """Return True if a file exists, False if not, None if the store could not be asked.

    Opening it takes one HEAD request in S3; asking for its status would list as well.
    """
    try:
        path.getFileSystem(hadoop).open(path).close()
    except Py4JJavaError as e:
        absent = e.java_exception is not None and e.java_exception.getClass().getName() == "java.io.FileNotFoundException"
        return False if absent else None
    return True


def _log_of(session: SparkSession, path: str) -> Any:
    return session._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, path)  # type: ignore[union-attr]  # noqa: SLF001


def _known(session: SparkSession, log: Any) -> Any:
    """Return the last snapshot that this driver knows. Opening the log has read one."""
    with active(session):
        return log.unsafeVolatileSnapshot()


def _given(metadata: Any) -> dict[str, str]:
    found = metadata.configuration()
    return {name: str(found.get(name).get()) for name in _names(found) if name.startswith(("delta.", "dblog."))}


def _names(configuration: Any) -> list[str]:
    return [str(name) for name in configuration.keys().mkString("\n").split("\n") if name]
