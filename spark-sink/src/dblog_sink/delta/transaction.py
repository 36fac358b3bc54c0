"""Reads a Delta table and writes the result in one of Delta's transactions.

What is written is therefore never computed from an older state than it replaces. A frame that is
loaded separately is read at its own version, and the writer's transaction starts later at another
one. A commit in between would be in the version that is replaced, but not in what replaces it. Here
the rows come from the transaction's snapshot, so Delta finds every later commit and refuses ours if
both touch the same rows (Delta documentation, "Concurrency control"). The whole step is then
repeated. Python has no public API for this; the called methods are public in the JVM
(OptimisticTransaction), and Delta's version is pinned.

A table with a feature that is not listed here is left to Delta's own commands, because features add
duties for a writer, such as row tracking. So is a table whose owner has enabled the change data
feed or disabled deletion vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession

from dblog_sink.delta.file_skipping import frame_of, option, resolved, scala_seq
from dblog_sink.delta.session import MANY_ROWS, fitted

_KNOWN_FEATURES = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "clustering",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "generatedColumns",
        "invariants",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantType",
        "variantType-preview",
    }
)
"""Table features with which this way of writing fulfils all duties of a writer (Delta protocol,
"Table Features"); a change data feed only while it is disabled.
"""
_ENABLED, _FEED = "delta.enableDeletionVectors", "delta.enableChangeDataFeed"


def feeds(session: SparkSession, path: str) -> bool:
    """Return True if the table's change data feed is enabled, by the newest version known here."""
    delta: Any = session._jvm.org.apache.spark.sql.delta  # type: ignore[union-attr]  # noqa: SLF001
    log = delta.DeltaLog.forTable(session._jsparkSession, path)  # noqa: SLF001
    return _is_on(log.unsafeVolatileSnapshot().metadata().configuration(), _FEED)


def _is_on(properties: Any, name: str) -> bool:
    value = properties.get(name)
    return bool(value.isDefined() and value.get().lower() == "true")


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction in progress.

    ``write`` is Delta's OptimisticTransaction and ``log`` its DeltaLog.
    """

    session: SparkSession
    path: str
    log: Any
    write: Any

    def has(self, app_id: str, version: int) -> bool:
        """Return True if the table has this batch, or a later one, under this application id.

        The check becomes part of what the transaction has read, so two drivers exclude each other.
        """
        return bool(self.write.txnVersion(app_id) >= version)

    @property
    def writable(self) -> bool:
        """True if the transaction may write by itself, without Delta's commands.

        It requires that only features listed here are in use, deletion vectors are enabled and the
        change data feed is not.

        The protocol lists features that a table may use; its properties, which the owner can
        change, say whether deletion vectors and the change data feed are enabled.
        """
        features = set(filter(None, self.write.protocol().readerAndWriterFeatureNames().mkString(",").split(",")))
        properties = self.write.metadata().configuration()
        return (
            "deletionVectors" in features and features <= _KNOWN_FEATURES and _is_on(properties, _ENABLED) and not _is_on(properties, _FEED)
        )

    @property
    def mapped(self) -> bool:
        """True if columns have other names in files and statistics."""
        mode = self.write.metadata().configuration().get("delta.columnMapping.mode")
        return bool(mode.isDefined() and mode.get() != "none")

    def thrown_away(self, actions: Any) -> None:
        """Delete files that no commit names. If one stays, the next VACUUM removes it."""
        log = self.log
        files = log.dataPath().getFileSystem(log.newDeltaHadoopConf())
        for n in range(actions.size()):
            files.delete(actions.apply(n).absolutePath(log), False)

    def predicate(self, condition: Column | None) -> Any:
        """Return the condition in Delta's form, None for None."""
        return None if condition is None else resolved(self.session, self.path, condition)

    def files(self, predicate: Any) -> Any:
        """Return files that can match the predicate by their statistics, all files for None."""
        with _questions(self.session, self.log):
            return self.write.filterFiles(scala_seq(self.session, [] if predicate is None else [predicate]), True)

    def rows(self, files: Any) -> DataFrame:
        """Return all rows of these files."""
        return frame_of(self.session, self.log, self.write.snapshot(), files)

    def commit(self, actions: Any, operation: Any, *, app_id: str, version: int) -> None:
        """Commit file actions as this batch.

        Raise Delta's conflict error if somebody else changed what was read (``merge.is_conflict``).
        """
        session = self.session
        delta: Any = session._jvm.org.apache.spark.sql.delta  # type: ignore[union-attr]  # noqa: SLF001
        now = session._jvm.java.lang.System.currentTimeMillis()  # type: ignore[union-attr]  # noqa: SLF001
        with _questions(session, self.log):
            self.write.commit(actions.appended(delta.actions.SetTransaction(app_id, version, option(session, now))), operation)


@contextmanager
def begun(session: SparkSession, path: str) -> Iterator[Transaction]:
    """Start a transaction on the table's newest version.

    Nothing is committed unless ``commit`` is called. The caller must own the session.
    """
    delta: Any = session._jvm.org.apache.spark.sql.delta  # type: ignore[union-attr]  # noqa: SLF001
    with active(session):
        log = delta.DeltaLog.forTable(session._jsparkSession, path)  # noqa: SLF001
        with _questions(session, log):
            write = log.startTransaction()
        yield Transaction(session, path, log, write)


def _questions(session: SparkSession, log: Any) -> AbstractContextManager[None]:
    """Make Delta interpret its queries of the log inside the block if the table has few files."""
    known = log.unsafeVolatileSnapshot().checksumOpt()
    few = known.isDefined() and known.get().numFiles() < MANY_ROWS
    return fitted(session, 0) if few else nullcontext()


@contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """Make this session the thread's active one inside the block.

    Delta uses the thread's session; without this it would be the first one created.
    """
    sessions: Any = session._jvm.org.apache.spark.sql.classic.SparkSession  # type: ignore[union-attr]  # noqa: SLF001
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)  # noqa: SLF001
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
