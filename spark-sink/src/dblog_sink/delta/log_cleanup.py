"""The Delta log of one table: brought to its retention, cleaned of what is older, and asked for a next commit without a listing.

Delta decides what may go: commits, checksums and checkpoints before the newest checkpoint that is older than the cutoff, in the order of their names, so that
every later version can still be built (MetadataCleanup, BufferingLogDeletionIterator). What is called has no public name in Python; it is public in the JVM.
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
    """Have an existing table keep its log for ``log_h``, and leave the cleaning to the job; return whether that took a commit.

    Call it while nobody writes the table: a commit of properties makes open transactions fail. ``before`` is called before that commit, which replaces the
    newest version. ``own``: the table is one of the sink's own state (``log_changes``).
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
    """Return the hours that the table's properties keep its log."""
    log = _log_of(session, path)
    return float(log.deltaRetentionMillis(_known(session, log).metadata())) / _HOUR_MS


def may_clean(session: SparkSession, path: str) -> bool:
    """Return whether the table's log is the job's to clean: not where its owner has turned all cleaning off."""
    return is_cleaned(_given(_known(session, _log_of(session, path)).metadata()))


def clean(session: SparkSession, path: str, older_than_h: float) -> None:
    """Delete the log of versions that were replaced longer ago than these hours, cut to whole hours."""
    jvm: Any = session._jvm  # noqa: SLF001
    delta = jvm.org.apache.spark.sql.delta
    nothing = jvm.scala.Option.empty()
    hour = getattr(getattr(delta, "TruncationGranularity$"), "MODULE$").HOUR()
    with active(session):
        log = _log_of(session, path)
        snapshot = log.update(False, nothing, nothing)
        # py4j would give a small number as an Integer, which Scala does not take for a Long.
        boxed = jvm.java.util.stream.LongStream.of(round(older_than_h * _HOUR_MS)).boxed().findFirst()
        retention = jvm.scala.jdk.javaapi.OptionConverters.toScala(boxed)
        log.cleanUpExpiredLogs(snapshot, nothing, retention, hour)


def version(session: SparkSession, path: str) -> int:
    """Return the newest version that this driver has met."""
    return int(_known(session, _log_of(session, path)).version())


def has_next(session: SparkSession, log: Any, version: int) -> bool:
    """Return whether the table may have a version after this one, without a listing: False is certain, True asks for a listing.

    The next commit is asked for first, and this one after it. A log is cleaned from its beginning on, in the order of versions. So while this commit is there,
    the next one has not been cleaned away: it was not there because there was none.
    """
    names: Any = session._jvm.org.apache.spark.sql.delta.util.FileNames  # type: ignore[union-attr]  # noqa: SLF001
    hadoop = log.newDeltaHadoopConf()
    after, this = names.unsafeDeltaFile(log.logPath(), version + 1), names.unsafeDeltaFile(log.logPath(), version)
    return not (_is_there(after, hadoop) is False and _is_there(this, hadoop) is True)


def _is_there(path: Any, hadoop: Any) -> bool | None:
    """Return whether there is a file, by opening it: in S3 that is one HEAD, where the question for its status lists besides. None: it could not be asked."""
    try:
        path.getFileSystem(hadoop).open(path).close()
    except Py4JJavaError as e:
        absent = e.java_exception is not None and e.java_exception.getClass().getName() == "java.io.FileNotFoundException"
        return False if absent else None
    return True


def _log_of(session: SparkSession, path: str) -> Any:
    return session._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, path)  # type: ignore[union-attr]  # noqa: SLF001


def _known(session: SparkSession, log: Any) -> Any:
    """Return the snapshot that this driver met last; the log was read when it was opened."""
    with active(session):
        return log.unsafeVolatileSnapshot()


def _given(metadata: Any) -> dict[str, str]:
    found = metadata.configuration()
    return {name: str(found.get(name).get()) for name in _names(found) if name.startswith(("delta.", "dblog."))}


def _names(configuration: Any) -> list[str]:
    return [str(name) for name in configuration.keys().mkString("\n").split("\n") if name]
