"""Replays quarantined records: sends them through the job again.

That helps after a cause was repaired, a policy changed, or the sink learned to read them. A replay
takes the quarantine at one Delta version, applies its records like any others (the guards make that
safe, however late), and removes them. Records that are still bad are quarantined again with the
current reason. Its transaction ids come from its command, and so does the version; a replay that a
crash interrupted is therefore repeated as the same one (I8).

A record of a topic that was recreated since stays in quarantine if only its offset shows from which
of the source's logs it comes, because the topic now has other offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from delta.tables import DeltaTable
from pyspark import StorageLevel
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.batches.landing import looked_up
from dblog_sink.batches.table_book import TableBook
from dblog_sink.delta.merge import Txn
from dblog_sink.job.commands import Command
from dblog_sink.records.decode import NO_LOG_ENDS
from dblog_sink.records.source_epochs import PartitionLogs
from dblog_sink.schema.wire_format import with_schema_ids
from dblog_sink.tables.apply import Applier
from dblog_sink.tables.profile import profile
from dblog_sink.tables.quarantine import Quarantine

log = logging.getLogger(__name__)


_KEPT = ("topic", "partition", "offset", "timestamp", "at")


@dataclass(frozen=True, slots=True)
class Replayed:
    """The number of replayed records, and of those that are still bad."""

    records: int
    still_bad: int


def version_of(session: SparkSession, path: str) -> int | None:
    """Return the quarantine's newest version, or None if it never existed."""
    if not DeltaTable.isDeltaTable(session, path):
        return None
    return int(DeltaTable.forPath(session, path).history(1).select("version").first()[0])  # type: ignore[index]


def replay(
    session: SparkSession,
    quarantine: Quarantine,
    applier: Applier,
    book: TableBook,
    *,
    command: Command,
    topics: frozenset[str] | None,
    version: int,
    txn: Txn,
    source_logs: Mapping[str, Mapping[int, PartitionLogs]],
) -> Replayed:
    """Replay what the quarantine held at ``version``.

    ``topics`` None selects all topics. ``source_logs`` has the logs from which the records of each
    topic partition come.
    """
    chosen: list[Column] = [F.lit(True)]
    if topics is not None:
        chosen.append(F.col("topic").isin(sorted(topics)))
    if command.reason is not None:
        chosen.append(F.col("reason").contains(command.reason))
    asked = reduce(lambda a, b: a & b, chosen)
    former = _former(source_logs)
    wanted = asked & ~former
    stored = session.read.format("delta").option("versionAsOf", version).load(quarantine.path)
    left = stored.where(asked & former).count()
    if left:
        log.warning(
            "%d records in quarantine are of topics that were recreated since, so the sink cannot know which of the source's logs they come from; they stay: "
            "dump their tables again, then delete them from %s",
            left,
            quarantine.path,
        )
    kept = stored.where(wanted)
    if kept.isEmpty():
        return Replayed(left, left)
    raw = with_schema_ids(kept).persist(StorageLevel.MEMORY_AND_DISK)
    records = bad = left
    try:
        for stats in profile(raw):
            with book.alone(stats.topic):
                applied = applier.apply(stats, raw, txn, log_ends=NO_LOG_ENDS, repeated=True, replayed=True)
            records += stats.records
            bad += 0 if applied is None else applied.bad
    finally:
        raw.unpersist()
    # Records are matched by the time at which they were quarantined. One that is still bad was
    # quarantined again just now, by a clock that may be behind the earlier one.
    taken = kept.select(*_KEPT).dropDuplicates().alias("taken")
    same = reduce(lambda a, b: a & b, (F.col(f"quarantine.{name}").eqNullSafe(F.col(f"taken.{name}")) for name in _KEPT))
    with quarantine.alone():
        DeltaTable.forPath(session, quarantine.path).alias("quarantine").merge(taken, same).whenMatchedDelete().execute()
    return Replayed(records, bad)


def _former(source_logs: Mapping[str, Mapping[int, PartitionLogs]]) -> Column:
    """Return a condition for records older than their recreated topic with several logs."""
    recreated_ms = {
        topic: max(logs.recreated_ms for logs in partitions.values())
        for topic, partitions in source_logs.items()
        if any(logs.epoch for logs in partitions.values()) and any(logs.recreated_ms for logs in partitions.values())
    }
    # One map instead of a condition for each topic, since Catalyst cannot plan thousands of
    # conditions.
    return F.coalesce(F.unix_millis(F.least("timestamp", "at")) < looked_up(recreated_ms).cast("long"), F.lit(False))
