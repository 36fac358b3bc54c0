"""Keeps records that cannot be applied, whole and with the reason (I5), in one Delta table.

A bad record never stops the others and is never lost: its bytes, its Kafka offset and the reason
are committed in the same batch, with a transaction id like every other write. Many bad records in a
batch suggest a mistake, such as a wrong registry or a foreign format. If they exceed the limit, the
job stops after quarantining them.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.config.log_retention import OWN, OWN_LOG_H
from dblog_sink.delta import log_cleanup
from dblog_sink.delta.merge import Txn, append
from dblog_sink.errors import DefiniteError
from dblog_sink.schema.wire_format import RECORD
from dblog_sink.state.new_table import make_for

log = logging.getLogger(__name__)

QUARANTINE = f"{OWN}quarantine"
"""Name of the table in ``Settings.paths`` and in the note of its last compaction."""
COLUMNS = (*RECORD, "reason", "batch_id", "at")
NO_VALUE = (
    ": the record has no value (unchanged in the source, which logs no such values), and the table has no row to keep it from; dump the table, then "
    "replay the record, and set REPLICA IDENTITY FULL in the source"
)
"""End of a reason, after the names of columns. Such records are no alarm, least of all during a
first dump, which sends the whole row after them (the worker reads a chunk again if a row in it has
changed in that way). So they make no dump doubtful. They need no tombstones, because they create no
row.
"""


class Quarantine:
    """The quarantine of one pipeline.

    A lock serializes appends; the first one creates the table.
    """

    def __init__(self, path: str, *, rows_max: int, fraction_max: float, log_h: float = OWN_LOG_H) -> None:
        """Open the quarantine at ``path``.

        ``log_h`` is the retention of its log in hours, used if it is created; a reader creates
        none.
        """
        self.path = path
        self._rows_max = rows_max
        self._fraction_max = fraction_max
        self._log_h = log_h
        self._turn = threading.Lock()
        self._commits = 1
        """Commits since the last call of ``compact``; 1 at first, because another process may have
        made some.
        """

    def keep(self, records: DataFrame, *, topic: str, txn: Txn, replayed: bool) -> None:
        """Append raw records that have a ``reason`` column, except those that are here already.

        The transaction id recognizes a repeated batch, but not a record that comes in another way:
        landed and merged after an attempt to apply it, merged up to another batch, or sent again.
        Its Kafka offset and time do. A replay quarantines its bad records again and then removes
        the old ones (I8).
        """
        rows = records.select(
            *RECORD,
            "reason",
            F.lit(txn.version).cast("long").alias("batch_id"),
            F.current_timestamp().alias("at"),
        )
        record = ["topic", "partition", "offset", "timestamp"]
        rows = rows.dropDuplicates(record)
        session = records.sparkSession
        with self._turn:
            exists = DeltaTable.isDeltaTable(session, self.path)
            if not replayed and exists:
                # Only records in this range of offsets are compared. If the topic has millions
                # here, statistics skip the other files.
                low, high = rows.agg(F.min("offset"), F.max("offset")).collect()[0]
                stored = session.read.format("delta").load(self.path).where((F.col("topic") == topic) & F.col("offset").between(low, high))
                rows = rows.join(stored.select(*record), record, "left_anti").select(*COLUMNS)
            if not exists:
                make_for(rows.select(*COLUMNS), self.path, log_h=self._log_h, partition_by="topic")
            append(rows.coalesce(1), self.path, COLUMNS, txn.of(f"quarantine:{topic}"))
            self._commits += 1

    def alone(self) -> AbstractContextManager[Any]:
        """Return the lock that excludes other writers of the table."""
        return self._turn

    def compact(self, session: SparkSession, commits: int, *, since: int | None) -> int | None:
        """Compact small files after ``commits`` commits, never if that is 0.

        Full files are left alone.

        ``since`` is the version returned last, by this process or an earlier one, None if there was
        none. Return the version from which to count, or None if that stays as it is.
        """
        met, self._commits = self._commits, 0
        if not commits or not met or not DeltaTable.isDeltaTable(session, self.path):
            return None
        version = log_cleanup.version(session, self.path)
        # The table was created again.
        if since is not None and since > version:
            since = None
        if version - (since or 0) < commits:
            return None
        with self._turn:
            DeltaTable.forPath(session, self.path).optimize().executeCompaction()
            return log_cleanup.version(session, self.path)

    def oldest_ms(self, session: SparkSession, topic: str) -> int | None:
        """Return Kafka's time of the topic's oldest record that may make a row, in milliseconds.

        A replay that quarantines it again does not change that time. Return None without one.
        """
        if not DeltaTable.isDeltaTable(session, self.path):
            return None
        kept = session.read.format("delta").load(self.path).where((F.col("topic") == topic) & _in_doubt())
        found = kept.agg(F.min(F.unix_millis(F.least("timestamp", "at")))).collect()[0][0]
        return None if found is None else int(found)

    def count_since(self, session: SparkSession, topic: str, since_ms: int) -> int:
        """Return the number of the topic's records here with a Kafka time from ``since_ms`` on.

        Records that a dump makes good do not count.
        """
        if not DeltaTable.isDeltaTable(session, self.path):
            return 0
        kept = session.read.format("delta").load(self.path).where((F.col("topic") == topic) & _in_doubt())
        return kept.where(F.unix_millis("timestamp") >= F.lit(since_ms)).count()

    def topics_between(self, session: SparkSession, times: Mapping[str, tuple[int, int]]) -> set[str]:
        """Return topics with a record here whose Kafka time is between two times, in ms by topic.

        Records that a dump makes good do not count.
        """
        if not DeltaTable.isDeltaTable(session, self.path):
            return set()
        text = json.dumps([{"topic": topic, "since": since, "until": until} for topic, (since, until) in times.items()])
        kind = "ARRAY<STRUCT<topic: STRING, since: BIGINT, until: BIGINT>>"
        asked = session.range(1).select(F.explode(F.from_json(F.lit(text), kind)).alias("one")).select("one.*")
        kept = session.read.format("delta").load(self.path).where(_in_doubt()).select("topic", F.unix_millis("timestamp").alias("ms"))
        found = kept.join(F.broadcast(asked), "topic").where(F.col("ms").between(F.col("since"), F.col("until")))
        return {row[0] for row in found.select("topic").distinct().collect()}

    def topics(self, session: SparkSession, version: int | None) -> set[str]:
        """Return the topics with records here, now or at that version."""
        if not DeltaTable.isDeltaTable(session, self.path):
            return set()
        reader = session.read.format("delta")
        kept = (reader if version is None else reader.option("versionAsOf", version)).load(self.path)
        return {row[0] for row in kept.select("topic").distinct().collect()}

    def check(self, *, topic: str, bad: int, records: int, reasons: list[str], replayed: bool, lacking: int = 0) -> None:
        """Log what was quarantined, and raise DefiniteError if too much of a batch is bad.

        A replay has bad records only, so it gives no alarm. ``lacking`` counts further records that
        only lack values, with no row in the table to take them from.
        """
        if replayed:
            return
        if lacking:
            log.warning(
                "%d of %d records of topic %s do not have all values of their rows, which the table does not have either: they are kept in quarantine. A dump "
                "of the table brings the rows; `dblog-sink replay` then takes the records out",
                lacking,
                records,
                topic,
            )
        if not bad:
            return
        if bad > self._rows_max and bad > self._fraction_max * records:
            msg = (
                f"{bad} of {records} records of topic {topic} cannot be applied ({'; '.join(reasons)}); they are kept in {self.path}. "
                "Repair the cause and start the sink again, or raise quarantine.rows.max to go on without them"
            )
            raise DefiniteError(msg)
        log.warning(
            "%d of %d records of topic %s cannot be applied and are kept in quarantine (%s); `dblog-sink show quarantine` lists them, `replay` tries again",
            bad,
            records,
            topic,
            "; ".join(reasons),
        )


def _in_doubt() -> Column:
    return ~F.col("reason").endswith(NO_VALUE)
