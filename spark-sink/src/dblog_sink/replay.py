"""Records in quarantine go through the job again: after a cause was repaired, a policy changed, or the sink learned to read them.

A replay takes the quarantine as it is at one Delta version, applies its records as any others (the guards make that safe, however late it is), and
removes them; those that are still bad are kept anew, with today's reason. Its transaction ids come from the command that asked for it, and so
does the version: a replay that a crash cut short is done again as the same one (I8).

A record of a topic that was made anew since stays where it is, if its place among its source's logs is told by its offset: the topic's offsets are others now.
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

from dblog_sink.apply import Applier, inventory
from dblog_sink.commands import Command
from dblog_sink.decode import NO_LOG_MARKS
from dblog_sink.epochs import Line
from dblog_sink.frames import headed
from dblog_sink.merge import Txn
from dblog_sink.merger import Merger
from dblog_sink.quarantine import Quarantine

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of the records of a replay."""

    records: int
    still_bad: int


def version_of(session: SparkSession, path: str) -> int | None:
    """The quarantine's newest version, None if nothing ever was in it."""
    if not DeltaTable.isDeltaTable(session, path):
        return None
    return int(DeltaTable.forPath(session, path).history(1).select("version").first()[0])  # type: ignore[index]


def replay(
    session: SparkSession,
    quarantine: Quarantine,
    applier: Applier,
    merger: Merger,
    *,
    command: Command,
    topics: frozenset[str] | None,
    version: int,
    txn: Txn,
    logs: Mapping[str, Mapping[int, Line]],
) -> Replayed:
    """Apply what the quarantine held at ``version``; ``topics`` None: of all topics. ``logs``: of which logs the records of each topic partition are."""
    chosen: list[Column] = [F.lit(True)]
    if topics is not None:
        chosen.append(F.col("topic").isin(sorted(topics)))
    if command.reason is not None:
        chosen.append(F.col("reason").contains(command.reason))
    asked = reduce(lambda a, b: a & b, chosen)
    former = _former(logs)
    wanted = asked & ~former
    there = session.read.format("delta").option("versionAsOf", version).load(quarantine.path)
    left = there.where(asked & former).count()
    if left:
        log.warning(
            "%d records in quarantine are of topics that were made anew since, so of which of their source's logs they are cannot be told; they stay: "
            "dump their tables again, then delete them from %s",
            left,
            quarantine.path,
        )
    kept = there.where(wanted)
    last = kept.agg(F.max("at")).first()
    if last is None or last[0] is None:
        return Replayed(left, left)
    raw = headed(kept).persist(StorageLevel.MEMORY_AND_DISK)
    records = bad = left
    quarantine.replaying = True
    try:
        for share in inventory(raw):
            with merger.alone(share.topic):
                applied = applier.apply(share, raw, txn, log_marks=NO_LOG_MARKS, repeated=True, replayed=True)
            records += share.records
            bad += 0 if applied is None else applied.bad
    finally:
        quarantine.replaying = False
        raw.unpersist()
    # What is still bad was kept again a moment ago, and is younger than all that was taken.
    DeltaTable.forPath(session, quarantine.path).delete(wanted & (F.col("at") <= F.lit(last[0])))
    return Replayed(records, bad)


def _former(logs: Mapping[str, Mapping[int, Line]]) -> Column:
    """Whether a record is of a topic as it was before it was made anew, and had more than one log since."""
    found = F.lit(False)
    for topic, lines in logs.items():
        anew_ms = max((line.anew_ms for line in lines.values()), default=0)
        if anew_ms and any(line.epoch for line in lines.values()):
            found |= (F.col("topic") == topic) & (F.unix_millis(F.least("timestamp", "at")) < anew_ms)
    return found
