"""Records that cannot be applied, kept whole with the reason (I5): one Delta table for all topics.

A bad record never stops the others and is never lost: its bytes, its offset in Kafka and the reason are committed in the same batch, under a
transaction id like every other write. Many bad records in one batch point to a mistake (a wrong registry, a foreign
format): past the limit the job stops, after having kept them.
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
"""The table's name in ``Settings.paths``, and in the note of its last compaction."""
COLUMNS = (*RECORD, "reason", "batch_id", "at")
NO_VALUE = (
    ": the record has no value (unchanged in the source, which logs no such values), and the table has no row to keep it from; dump the table, then "
    "replay the record, and set REPLICA IDENTITY FULL in the source"
)
"""The end of a reason, behind the columns' names. Such records are no alarm, least of all while a first dump runs: the dump brings the row whole, behind them
(the worker reads a chunk again in which a row has changed that way). So they make no dump doubtful, and need no tombstone, for they make no row where there is
none.
"""


class Quarantine:
    """The quarantine table of one pipeline. Appends of several tables take turns: the first one creates the table."""

    def __init__(self, path: str, *, rows_max: int, fraction_max: float, log_h: float = OWN_LOG_H) -> None:
        """``log_h``: hours of log that the table keeps; a reader makes none."""
        self.path = path
        self._rows_max = rows_max
        self._fraction_max = fraction_max
        self._log_h = log_h
        self._turn = threading.Lock()
        self._commits = 1
        """Commits since ``compact`` looked; another process may have left some."""

    def keep(self, records: DataFrame, *, topic: str, txn: Txn, replayed: bool) -> None:
        """Append raw records that have a ``reason`` column, except those that are here already.

        The transaction id recognises a batch that is repeated, but not a record that comes another way: landed and merged after an attempt to apply it, merged
        up to another batch, sent again. Its offset and time in Kafka do. A replay keeps its bad records again and then removes the old ones (I8).
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
                # Of these offsets only: where a topic has millions here, its other files are left out by their statistics.
                low, high = rows.agg(F.min("offset"), F.max("offset")).collect()[0]
                stored = session.read.format("delta").load(self.path).where((F.col("topic") == topic) & F.col("offset").between(low, high))
                rows = rows.join(stored.select(*record), record, "left_anti").select(*COLUMNS)
            if not exists:
                make_for(rows.select(*COLUMNS), self.path, log_h=self._log_h, partition_by="topic")
            append(rows.coalesce(1), self.path, COLUMNS, txn.of(f"quarantine:{topic}"))
            self._commits += 1

    def alone(self) -> AbstractContextManager[Any]:
        """Return the turn in which nobody else writes the table."""
        return self._turn

    def compact(self, session: SparkSession, commits: int, *, since: int | None) -> int | None:
        """Put small files together after so many commits, 0: never. Return the version to count from, None where that stays. Full files are left alone.

        ``since``: the version that was returned last, by this process or an earlier one; None: never.
        """
        met, self._commits = self._commits, 0
        if not commits or not met or not DeltaTable.isDeltaTable(session, self.path):
            return None
        version = log_cleanup.version(session, self.path)
        if since is not None and since > version:  # the table was made again
            since = None
        if version - (since or 0) < commits:
            return None
        with self._turn:
            DeltaTable.forPath(session, self.path).optimize().executeCompaction()
            return log_cleanup.version(session, self.path)

    def oldest_ms(self, session: SparkSession, topic: str) -> int | None:
        """The time of the topic's oldest record here that may make a row, in milliseconds: Kafka's time, which a replay that keeps it again does not change.

        None: no record.
        """
        if not DeltaTable.isDeltaTable(session, self.path):
            return None
        kept = session.read.format("delta").load(self.path).where((F.col("topic") == topic) & _in_doubt())
        found = kept.agg(F.min(F.unix_millis(F.least("timestamp", "at")))).collect()[0][0]
        return None if found is None else int(found)

    def count_since(self, session: SparkSession, topic: str, since_ms: int) -> int:
        """How many records of the topic are here that Kafka got at this time or later, in milliseconds, and that a dump does not make good."""
        if not DeltaTable.isDeltaTable(session, self.path):
            return 0
        kept = session.read.format("delta").load(self.path).where((F.col("topic") == topic) & _in_doubt())
        return kept.where(F.unix_millis("timestamp") >= F.lit(since_ms)).count()

    def topics_between(self, session: SparkSession, times: Mapping[str, tuple[int, int]]) -> set[str]:
        """The topics of which a record is here that Kafka got between two times, and that a dump does not make good. ``times``: both, in ms, by topic."""
        if not DeltaTable.isDeltaTable(session, self.path):
            return set()
        text = json.dumps([{"topic": topic, "since": since, "until": until} for topic, (since, until) in times.items()])
        kind = "ARRAY<STRUCT<topic: STRING, since: BIGINT, until: BIGINT>>"
        asked = session.range(1).select(F.explode(F.from_json(F.lit(text), kind)).alias("one")).select("one.*")
        kept = session.read.format("delta").load(self.path).where(_in_doubt()).select("topic", F.unix_millis("timestamp").alias("ms"))
        found = kept.join(F.broadcast(asked), "topic").where(F.col("ms").between(F.col("since"), F.col("until")))
        return {row[0] for row in found.select("topic").distinct().collect()}

    def topics(self, session: SparkSession, version: int | None) -> set[str]:
        """The topics that have records here, or had at that version."""
        if not DeltaTable.isDeltaTable(session, self.path):
            return set()
        reader = session.read.format("delta")
        kept = (reader if version is None else reader.option("versionAsOf", version)).load(self.path)
        return {row[0] for row in kept.select("topic").distinct().collect()}

    def check(self, *, topic: str, bad: int, records: int, reasons: list[str], replayed: bool, lacking: int = 0) -> None:
        """Log what was kept; raise DefiniteError when too much of a batch is bad. A replay meets bad records only, so many of them need no alarm.

        ``lacking``: more records, of which nothing is bad but that values are missing and the table has no row to keep them from.
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
