"""Keeps the fingerprints of verify dumps in one Delta table and the verdicts in another.

A marker of a verify dump has a fingerprint of each row in place of the row (schemas/README.md),
hundreds of megabytes for a large table. They go from Kafka to the table ``fingerprints`` without
passing through the driver, which keeps only the chain of chunks (``dump_chains.py``). The table has
one row for each marker, written with the batch's transaction id before anything else of the batch
is recorded. So a repeated batch adds nothing (I8), and the chains can be rebuilt from the table. A
dump's fingerprints are deleted once it has a final verdict.

A verdict in ``verified`` that is not final may change, since missing parts of the dump may come.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as t

from dblog_sink.config.job_options import Settings
from dblog_sink.config.log_retention import OWN_LOG_H
from dblog_sink.delta.merge import Txn
from dblog_sink.observe.progress import Progress
from dblog_sink.reconcile.chunk_ledger import Marker, ReadTo
from dblog_sink.reconcile.dump_chains import VERIFY, ChainKey, Chains, Dump, Kept, Link
from dblog_sink.schema.types import quote, type_sql
from dblog_sink.state.new_table import make_for
from dblog_sink.tables.verify import COUNTS, DIFFERING, MARKS, UNKNOWN, Verdict, unknown

log = logging.getLogger(__name__)

WAITS = "waits"
"""Result that is reported, but is no verdict."""
_LINKS_MAX = 200_000
"""Maximum number of links of dumps that have not ended; each takes some hundred bytes."""
_COMPACT_EVERY = 20

_FACTS: tuple[tuple[str, t.DataType], ...] = tuple(
    (name, kind)
    for kind, names in (
        (t.StringType(), ("topic", "name", "chunk_id", "dump", "scope", "server", "source", "after", "upto", "ends")),
        (t.LongType(), ("seq1", "seq2", "high", "dropped", "ts_ms", "low_ts_ms")),
        (t.BooleanType(), ("exact", "begins", "final")),
    )
    for name in names
)
_MARKER = ("topic", "chunk_id", "upto")
"""Columns that identify a marker."""
_KEPT = t.StructType([t.StructField("sign", t.StringType()), *(t.StructField(name, t.StringType()) for name in ("key", "after", "upto"))])
_VERDICT = t.StructType(
    [
        *(t.StructField(name, t.StringType()) for name in ("table", "topic", "dump", "scope", "result", "why")),
        *(t.StructField(name, t.LongType()) for name in ("seq1", "seq2", *COUNTS)),
        t.StructField("keys", t.ArrayType(_KEPT)),
        t.StructField("last", t.BooleanType()),
    ]
)


class Verifications:
    """The tables ``fingerprints`` and ``verified`` below state.path.

    Call all methods but ``ended`` while holding the lock of ``Arrivals``.
    """

    def __init__(
        self, session: SparkSession, settings: Settings, progress: Progress, other: Chains, *, now_s: Callable[[], float] = time.time
    ) -> None:
        """Rebuild the chains from the tables.

        ``other`` holds the repair dumps' chains; lost records and shared topics known there count
        here too.
        """
        self._session = session
        self.path, self._verdicts_path = fingerprints_path(settings.state_path), verdicts_path(settings.state_path)
        self._progress = progress
        self._now_s = now_s
        self._log_h = settings.log_h
        self._wait_s: float = settings["chunks.wait.s"]
        # Before that, the delete that explains a missing row may have been forgotten.
        self._keep_s = min(settings["chunks.keep.h"], settings["tombstones.keep.h"]) * 3600.0
        self._turn = threading.Lock()
        self._made: set[str] = set()
        """Paths of tables that exist."""
        self._commits = 0
        self.whole: dict[ChainKey, Dump] = {}
        """Whole dumps that are not compared yet. Other threads read it."""
        self.chains = self._read(other)

    # -- what a batch brings ----------------------------------------------------------------------------------------------------------------

    def take(self, markers: DataFrame, facts: Sequence[dict[str, Any]], txn: Txn) -> None:
        """Store the markers of a batch and add them to the chains.

        ``markers`` has the columns ``_MARKER`` and ``MARKS``; ``facts`` has the same markers by
        ``_FACTS``.
        """
        kind = t.ArrayType(t.StructType([t.StructField(name, one) for name, one in _FACTS]))
        rows = self._session.range(1).select(F.explode(F.from_json(F.lit(json.dumps(facts)), kind)).alias("one")).select("one.*").distinct()
        same = [F.col(f"facts.{name}").eqNullSafe(F.col(f"marks.{name}")) for name in _MARKER]
        joined = F.broadcast(rows.alias("facts")).join(markers.dropDuplicates(list(_MARKER)).alias("marks"), same, "inner")
        columns = [F.col(f"facts.{name}") for name, _ in _FACTS] + [F.col(f"marks.{name}") for name in MARKS]
        found = joined.select(*columns, F.current_timestamp().alias("at"))
        self._make(found, self.path, OWN_LOG_H)
        found.write.format("delta").mode("append").option("txnAppId", txn.app_id).option("txnVersion", txn.version).save(self.path)
        self._commits += 1
        now_s = self._now_s()
        for one in facts:
            self.chains.name(one["topic"], one["source"])
            self.chains.link(_link(one, now_s))
        self._keep(self.chains.forget(_LINKS_MAX))

    def _make(self, rows: DataFrame, path: str, log_h: float) -> None:
        if path not in self._made:
            make_for(rows, path, log_h=log_h)
            self._made.add(path)

    # -- between batches ----------------------------------------------------------------------------------------------------------------------

    def decide(self, read_to: ReadTo) -> None:
        """Move dumps that became whole to ``whole``, and record those that cannot be compared."""
        if not self.chains.open:
            return
        found = self.chains.decide(
            read_to, now_s=self._now_s(), wait_s=self._wait_s, keep_s=self._keep_s, uncounted=lambda _topic, _low: False
        )
        self.whole.update({one.key: one for one in found if isinstance(one, Dump)})
        self._keep([one for one in found if isinstance(one, Kept)])

    def _keep(self, found: Iterable[Kept]) -> None:
        for one in found:
            last = one.dump.key not in self.chains.open
            if last:
                self.chains.done[one.dump.key] = one.dump.low
            self.ended(one.dump, unknown(one.why), last=last)

    def ended(self, dump: Dump, verdict: Verdict, *, last: bool = True) -> None:
        """Record and report a verdict. ``last`` is False if missing parts of the dump may still
        come.
        """
        entry = {"table": dump.table, "topic": dump.topic, "dump": dump.dump, "scope": dump.scope, "seq1": dump.low[0], "seq2": dump.low[1]}
        with self._turn:
            text = json.dumps([entry | verdict.facts | {"keys": list(verdict.keys), "last": last}])
            rows = self._session.range(1).select(F.explode(F.from_json(F.lit(text), t.ArrayType(_VERDICT))).alias("one")).select("one.*")
            rows = rows.withColumn("at", F.current_timestamp())
            self._make(rows, self._verdicts_path, self._log_h)
            rows.coalesce(1).write.format("delta").mode("append").save(self._verdicts_path)
            if self.whole.get(dump.key) == dump:
                del self.whole[dump.key]
        # Anybody who asked for the dump waits for the report, not for the deletion.
        self.report(dump, verdict)
        if last:
            with self._turn:
                self._forget(dump)

    def report(self, dump: Dump, verdict: Verdict, *, waits: bool = False) -> None:
        """Report the verdict as a progress line and in the log.

        ``waits`` is True if there is no verdict yet.
        """
        facts = {"table": dump.table, "topic": dump.topic, "dump": dump.dump, "scope": dump.scope, "position": list(dump.low)}
        self._progress.emit("verified", **facts, **verdict.facts | ({"result": WAITS} if waits else {}))
        counts = dict(zip(COUNTS, verdict.counts, strict=True))
        if verdict.result == DIFFERING:
            log.error(
                "%s: dump %s shows that Delta differs from the source: %d rows differ, %d are missing, %d are invented; see `dblog-sink verified %s`",
                dump.table, dump.dump, counts["differing"], counts["missing"], counts["invented"], dump.table,
            )  # fmt: skip
        elif verdict.result == UNKNOWN:
            log.warning("%s: dump %s does not show whether Delta equals the source: %s", dump.table, dump.dump, verdict.why)
        else:
            log.info("%s: dump %s shows %d rows that are as in the source, and none that is not", dump.table, dump.dump, counts["equal"])

    def _forget(self, dump: Dump) -> None:
        """Delete the dump's fingerprints, together with those that are too old."""
        if not DeltaTable.isDeltaTable(self._session, self.path):
            return
        table = DeltaTable.forPath(self._session, self.path)
        own = (F.col("topic") == dump.topic) & (F.col("dump") == dump.dump)
        table.delete(own | (F.col("at") < F.current_timestamp() - F.make_interval(secs=F.lit(2 * self._keep_s))))
        self._commits += 1
        if self._commits >= _COMPACT_EVERY:
            self._commits = 0
            for path in (self.path, self._verdicts_path):
                DeltaTable.forPath(self._session, path).optimize().executeCompaction()

    # -- the tables ---------------------------------------------------------------------------------------------------------------------------

    def _follow_columns(self) -> None:
        """Add the columns that a table of fingerprints from an earlier version lacks."""
        there = self._session.read.format("delta").load(self.path).columns
        missing = [f"{quote(name)} {type_sql(kind)}" for name, kind in _FACTS if name not in there]
        if missing:
            self._session.sql(f"ALTER TABLE delta.{quote(self.path)} ADD COLUMNS ({', '.join(missing)})")

    def _read(self, other: Chains) -> Chains:
        """Rebuild the chains of dumps without a final verdict, and count earlier verdicts as
        metrics.
        """
        chains = Chains(mode=VERIFY, sources=other.sources, lost_s=other.lost_s)
        reported: dict[ChainKey, str] = {}
        for row in newest(self._session, self._verdicts_path, ("topic", "dump")):
            key = (row["topic"], row["dump"])
            if row["last"]:
                chains.done[key] = (row["seq1"], row["seq2"])
            else:
                reported[key] = row["why"]
        for row in newest(self._session, self._verdicts_path, judged=True):
            counts = {name: row[name] for name in COUNTS}
            self._progress.count("verified_before", table=row["table"], at_s=row["at"].timestamp(), **counts)
        if not DeltaTable.isDeltaTable(self._session, self.path):
            return chains
        self._follow_columns()
        at = F.unix_timestamp("at").cast("double").alias("at_s")
        kept = self._session.read.format("delta").load(self.path).select(*(name for name, _ in _FACTS), at)
        for row in kept.orderBy("seq1", "seq2").toLocalIterator():
            chains.name(row["topic"], row["source"])
            chains.link(_link(row.asDict(), row["at_s"]))
        for key, why in reported.items():
            if key in chains.open:
                chains.open[key].reported = why
        return chains


def fingerprints_path(state_path: str) -> str:
    """Return the path of the table of fingerprints."""
    return f"{state_path}/fingerprints"


def verdicts_path(state_path: str) -> str:
    """Return the path of the table of verdicts."""
    return f"{state_path}/verified"


def newest(session: SparkSession, path: str, of: Sequence[str] = ("topic",), *, judged: bool = False) -> list[Row]:
    """Return the newest verdict of each topic, in the order of topics.

    ``of`` names other columns to group by. ``judged`` leaves out verdicts that are unknown.
    """
    if not DeltaTable.isDeltaTable(session, path):
        return []
    rows = session.read.format("delta").load(path).where(F.lit(not judged) | (F.col("result") != UNKNOWN))
    found = rows.groupBy(*of).agg(F.max_by(F.struct(*rows.columns), F.col("at")).alias("one")).select("one.*").collect()
    return sorted(found, key=lambda row: tuple(row[name] for name in of))


def of_dump(session: SparkSession, path: str, dump: Dump) -> DataFrame:
    """Return the stored markers of a whole dump."""
    at = F.struct(F.col("seq1"), F.col("seq2"))
    first, last = (
        F.struct(F.lit(one[0]).cast("long").alias("seq1"), F.lit(one[1]).cast("long").alias("seq2")) for one in (dump.low, dump.upto)
    )
    own = (F.col("topic") == dump.topic) & (F.col("dump") == dump.dump) & (at >= first) & (at <= last)
    return session.read.format("delta").load(path).where(own)


def _link(given: dict[str, Any], met_s: float) -> Link:
    marker = Marker(
        topic=given["topic"],
        position=(given["seq1"], given["seq2"]),
        chunk_id=f"{given['chunk_id']} {given.get('upto')}",
        table=given["name"],
        rows=0,
        ends={int(partition): end for partition, end in json.loads(given["ends"]).items()},
        exact=given["exact"],
        met_s=met_s,
    )
    return Link(
        marker=marker,
        dump=given["dump"],
        scope=given["scope"],
        server=given["server"],
        source=given["source"],
        after=given.get("after"),
        upto=given.get("upto"),
        begins=given["begins"],
        final=given["final"],
        high=given["high"],
        dropped=given["dropped"],
        ts_ms=given["ts_ms"],
        low_ts_ms=given.get("low_ts_ms"),
    )
