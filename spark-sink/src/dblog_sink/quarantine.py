"""Records that cannot be applied, kept whole with the reason (I5): one Delta table for all topics.

A bad record never stops the others and is never lost: its bytes, its place in Kafka and the reason are committed in the same batch, under a
transaction id like every other write. Many bad records in one batch are no bad records but a mistake (a wrong registry, a foreign
format): past the limit the job stops, after having kept them.
"""

from __future__ import annotations

import logging
import threading

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.errors import DefiniteError
from dblog_sink.frames import RECORD
from dblog_sink.merge import Txn, append

log = logging.getLogger(__name__)

COLUMNS = (*RECORD, "reason", "batch_id", "at")


class Quarantine:
    """The quarantine table of one pipeline. Appends of several tables take turns: the first one creates the table."""

    def __init__(self, path: str, *, rows_max: int, fraction_max: float) -> None:
        self.path = path
        self._rows_max = rows_max
        self._fraction_max = fraction_max
        self._turn = threading.Lock()
        self.replaying = False
        """A replay meets bad records only, and many of them are no news."""

    def keep(self, records: DataFrame, *, topic: str, txn: Txn) -> None:
        """Append raw records that have a ``reason`` column, but for those that are there.

        The transaction id knows a batch that is repeated, but not a record that comes another way: landed and merged after an attempt to apply it, merged
        up to another lot, sent again. Its place in Kafka and its time there do. A replay keeps its records anew, the old ones being removed by it (I8).
        """
        rows = records.select(
            *RECORD,
            "reason",
            F.lit(txn.version).cast("long").alias("batch_id"),
            F.current_timestamp().alias("at"),
        )
        place = ["topic", "partition", "offset", "timestamp"]
        rows = rows.dropDuplicates(place)
        session = records.sparkSession
        with self._turn:
            if not self.replaying and DeltaTable.isDeltaTable(session, self.path):
                there = session.read.format("delta").load(self.path).where(F.col("topic") == topic)
                rows = rows.join(there.select(*place), place, "left_anti").select(*COLUMNS)
            append(rows.coalesce(1), self.path, COLUMNS, txn.of(f"quarantine:{topic}"))

    def oldest_ms(self, session: SparkSession, topic: str) -> int | None:
        """The time of the topic's oldest record here, in milliseconds: Kafka's, which a replay that keeps it anew does not change. None if there is none."""
        if not DeltaTable.isDeltaTable(session, self.path):
            return None
        kept = session.read.format("delta").load(self.path).where(F.col("topic") == topic)
        found = kept.agg(F.min(F.unix_millis(F.least("timestamp", "at")))).collect()[0][0]
        return None if found is None else int(found)

    def topics(self, session: SparkSession, version: int | None) -> set[str]:
        """Of which there are records here, or were at that version."""
        if not DeltaTable.isDeltaTable(session, self.path):
            return set()
        reader = session.read.format("delta")
        kept = (reader if version is None else reader.option("versionAsOf", version)).load(self.path)
        return {row[0] for row in kept.select("topic").distinct().collect()}

    def check(self, *, topic: str, bad: int, records: int, reasons: list[str]) -> None:
        """Tell what was kept; raise DefiniteError when too much of a batch is bad."""
        if self.replaying:
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
