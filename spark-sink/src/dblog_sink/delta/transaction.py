"""A read of a Delta table and the write that follows from it, in one transaction of Delta's own: what is written never comes from an older state than it
replaces.

A frame that is loaded by itself is read at a version of its own, and the writer's transaction begins later, at another: what somebody else commits in between
is in the version that is replaced and not in what replaces it. Here the rows come from the transaction's snapshot, so Delta finds every commit after it
and refuses ours where the two touch the same rows (Delta documentation, "Concurrency control"); the whole step is then done again. There is no public name
for it in Python; what is called is public in the JVM (OptimisticTransaction), and the version of Delta is pinned.

A table with a feature that is not named below is left to Delta's own commands: features add duties to a writer (row tracking). So is one whose owner has a
change data feed on, or deletion vectors off.
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
"""Table features with which this way of writing keeps every duty of a writer (Delta protocol, "Table Features"); a change data feed only while it is off."""
_ENABLED, _FEED = "delta.enableDeletionVectors", "delta.enableChangeDataFeed"


def feeds(session: SparkSession, path: str) -> bool:
    """Whether the table's owner has switched its change data feed on, as of the newest version that this process has met."""
    delta: Any = session._jvm.org.apache.spark.sql.delta  # type: ignore[union-attr]  # noqa: SLF001
    log = delta.DeltaLog.forTable(session._jsparkSession, path)  # noqa: SLF001
    return _is_on(log.unsafeVolatileSnapshot().metadata().configuration(), _FEED)


def _is_on(properties: Any, name: str) -> bool:
    value = properties.get(name)
    return bool(value.isDefined() and value.get().lower() == "true")


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction that has begun. ``write`` is Delta's OptimisticTransaction, ``log`` its DeltaLog."""

    session: SparkSession
    path: str
    log: Any
    write: Any

    def has(self, app_id: str, version: int) -> bool:
        """Whether the table has this batch, or a later one, under this application id. It becomes part of what was read: two drivers exclude each other."""
        return bool(self.write.txnVersion(app_id) >= version)

    @property
    def writable(self) -> bool:
        """Whether the table has no feature that only Delta's own commands know. A feature is what a table may have; whether deletion vectors and a change data
        feed are on is in its properties, which its owner can change.
        """
        features = set(filter(None, self.write.protocol().readerAndWriterFeatureNames().mkString(",").split(",")))
        properties = self.write.metadata().configuration()
        return (
            "deletionVectors" in features and features <= _KNOWN_FEATURES and _is_on(properties, _ENABLED) and not _is_on(properties, _FEED)
        )

    @property
    def mapped(self) -> bool:
        """Whether columns have other names in the files, and in their statistics."""
        mode = self.write.metadata().configuration().get("delta.columnMapping.mode")
        return bool(mode.isDefined() and mode.get() != "none")

    def thrown_away(self, actions: Any) -> None:
        """Delete files that no commit names; a file that stays for whatever reason goes with the next VACUUM."""
        log = self.log
        files = log.dataPath().getFileSystem(log.newDeltaHadoopConf())
        for n in range(actions.size()):
            files.delete(actions.apply(n).absolutePath(log), False)

    def predicate(self, condition: Column | None) -> Any:
        """The condition as Delta reads it; None for none."""
        return None if condition is None else resolved(self.session, self.path, condition)

    def files(self, predicate: Any) -> Any:
        """The files whose statistics admit the predicate, all for None."""
        with _questions(self.session, self.log):
            return self.write.filterFiles(scala_seq(self.session, [] if predicate is None else [predicate]), True)

    def rows(self, files: Any) -> DataFrame:
        """All rows of these files."""
        return frame_of(self.session, self.log, self.write.snapshot(), files)

    def commit(self, actions: Any, operation: Any, *, app_id: str, version: int) -> None:
        """Commit file actions as this batch; Delta's conflict errors if somebody else changed what was read (``merge.is_conflict``)."""
        session = self.session
        delta: Any = session._jvm.org.apache.spark.sql.delta  # type: ignore[union-attr]  # noqa: SLF001
        now = session._jvm.java.lang.System.currentTimeMillis()  # type: ignore[union-attr]  # noqa: SLF001
        with _questions(session, self.log):
            self.write.commit(actions.appended(delta.actions.SetTransaction(app_id, version, option(session, now))), operation)


@contextmanager
def begun(session: SparkSession, path: str) -> Iterator[Transaction]:
    """A transaction on the table's newest version; nothing is committed unless ``commit`` is called. The session is ours alone meanwhile."""
    delta: Any = session._jvm.org.apache.spark.sql.delta  # type: ignore[union-attr]  # noqa: SLF001
    with active(session):
        log = delta.DeltaLog.forTable(session._jsparkSession, path)  # noqa: SLF001
        with _questions(session, log):
            write = log.startTransaction()
        yield Transaction(session, path, log, write)


def _questions(session: SparkSession, log: Any) -> AbstractContextManager[None]:
    """Delta's own queries of its log are interpreted meanwhile, where the table is known to have few files."""
    known = log.unsafeVolatileSnapshot().checksumOpt()
    few = known.isDefined() and known.get().numFiles() < MANY_ROWS
    return fitted(session, 0) if few else nullcontext()


@contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """Make this session the thread's: Delta takes the session from the thread, and without this it is the one that was made first."""
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
