"""Counts dumped rows in each batch, reads chunk markers, and keeps both in a small Delta table
(I9).

``chunk_ledger.py`` has the rules; this module feeds its book and stores its verdicts. A batch with
dumped rows or markers makes one commit: the number of rows by topic and position, and the counts of
the markers. The commit carries the batch's transaction id, so a repeated batch adds nothing (I8).
The table is the truth: the book is rebuilt from it after a restart, and no shortfall is reported
before the chunk's counts have been read from the table again. Verdicts are appended too, and
deleted together with other entries of their age.

Counting decodes no column of a row. It reads ``op``, ``source.sequence`` and ``source.lsn`` alone,
and only of records that contain the text ``incremental``, as dumped rows do.

The marker's digest is not checked. It covers the Avro bytes of each row that the worker read,
including rows that it did not send, so checking it would mean decoding and encoding every dumped
row a second time.

Markers of repair dumps are also links of chains (``dump_chains.py``). A whole repair dump waits in
``whole`` until its landed records are merged and its ghosts removed (``batches/after_dumps.py``).
That outcome is appended here; a dump without an outcome is decided again after a restart.

Markers of verify dumps go to ``verifications.py``.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as t

from dblog_sink.config.job_options import Settings, listed
from dblog_sink.delta.merge import Txn
from dblog_sink.kafka.source import reads
from dblog_sink.observe.progress import Progress
from dblog_sink.reconcile.chunk_ledger import (
    ALL_BATCHES,
    COMPLETE,
    FIRST,
    LATE,
    OWN,
    PART,
    SHORT,
    UNPROVEN,
    WHOLE,
    Book,
    Group,
    Loss,
    Marker,
    ReadTo,
    Verdict,
)
from dblog_sink.reconcile.dump_chains import IN_QUARANTINE, REPAIR, VERIFY, WHOLE_TABLE, ChainKey, Chains, Dump, Kept, Link
from dblog_sink.reconcile.dump_coverage import Covered, Position, Range, TableDump
from dblog_sink.reconcile.verifications import Verifications
from dblog_sink.records.lsn_positions import is_numbered, quoted_part
from dblog_sink.records.small_frame import small_frame
from dblog_sink.schema.avro import read_avro
from dblog_sink.schema.types import quote, type_sql
from dblog_sink.schema.wire_format import maybe_dumped
from dblog_sink.schema.writer_schemas import UNWRAPPED, Envelope
from dblog_sink.state.crash_points import Reached
from dblog_sink.state.new_table import make_for
from dblog_sink.tables.apply import Applier
from dblog_sink.tables.profile import TopicStats
from dblog_sink.tables.verify import MARKS

log = logging.getLogger(__name__)

_GROUPS_MAX = 200_000
"""Maximum number of groups in the book and of links in the chains; each takes some hundred
bytes.
"""
_COMPACT_EVERY = 50
_ARRIVED, _MARKER, _UNREADABLE, _JUDGED, _LATE, _FLOOR, _BEGIN, _FINAL, _OWED, _COVERED, _LOST, GHOSTS = (
    "arrived",
    "marker",
    "unreadable",
    "judged",
    "late",
    "floor",
    "begin",
    "final",
    "owed",
    "covered",
    "lost",
    "ghosts",
)
_FOREVER = (_FLOOR, _BEGIN, _FINAL, _OWED, _COVERED, GHOSTS)
"""Kinds of entries that are never deleted, because no later record repeats them."""
REMOVED, KEPT, WAITS = "removed", "kept", "waits"
"""Outcomes for the ghosts of a repair dump. ``waits`` is reported, but is not final."""
_SCHEMA = t.StructType(
    [
        t.StructField(name, kind)
        for kind, names in (
            (t.StringType(), ("kind", "topic", "name", "chunk_id", "ends", "result", "why")),
            (t.LongType(), ("sequence", "seq1", "seq2", "rows", "missing", "unreadable")),
            (t.BooleanType(), ("exact",)),
            (t.StringType(), ("dump", "scope", "server", "source", "after", "upto")),
            (t.LongType(), ("high", "dropped", "ts_ms")),
            (t.BooleanType(), ("begins", "final")),
            (t.LongType(), ("low_ts_ms", "low1", "low2")),
            (t.StringType(), ("mode",)),
        )
        for name in names
    ]
)
_POSITION = "STRUCT<sequence_high: BIGINT, sequence_low: BIGINT>"
_MARKER_FIELDS = {
    "topic": "STRING",
    "chunk_id": "STRING",
    "final": "BOOLEAN",
    "low": _POSITION,
    "high": _POSITION,
    "rows_read": "BIGINT",
    "rows_dropped": "BIGINT",
    "offsets": "ARRAY<STRUCT<partition: INT, last_offset: BIGINT>>",
    "server": "STRING",
    "table": "STRING",
    "range_after": "STRING",
    "range_upto": "STRING",
    "ts_ms": "BIGINT",
    "dump": "STRING",
    "mode": "STRING",
    "begins": "BOOLEAN",
    "scope": "STRING",
    "low_ts_ms": "BIGINT",
    "own_left": "BOOLEAN",
    "rows_passed": "BIGINT",
}
"""Fields read from a marker. A field that an older worker does not write is NULL."""
_MARKS = {"fingerprints": "BINARY", "schemas": "STRUCT<key: STRING, row: STRING>"}
"""Further fields of a verify dump's marker. They go from Kafka to Delta and never to the driver."""

Entry = dict[str, Any]
"""A row of the table, as column name to value."""
Ends = Callable[[Collection[str]], Mapping[str, Mapping[int, int]]]
"""Looks up the current end offsets of topics in Kafka, by partition."""


class Arrivals:
    """The table of counts at ``path`` and its book.

    The micro-batch calls ``count``; the job calls ``look`` between batches.
    """

    def __init__(
        self,
        session: SparkSession,
        path: str,
        *,
        settings: Settings,
        applier: Applier,
        progress: Progress,
        reached: Reached,
        ends: Ends,
        compacted: Callable[[str], bool],
        midway: Callable[[], bool],
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._session = session
        self.path = path
        self._settings = settings
        self._applier = applier
        self._progress = progress
        self._reached = reached
        self._ends = ends
        self._compacted = compacted
        self._midway = midway
        self._now_s = now_s
        self._keep_s = settings["chunks.keep.h"] * 3600.0
        names = settings["topics"]
        self.counts: bool = settings["topics.markers"].pattern != "" and (names is None or any(map(self.of_markers, listed(names))))
        """True if the job may read topics of chunk markers."""
        self._turn = threading.RLock()
        self._commits = 0
        self._exists = DeltaTable.isDeltaTable(session, path)
        self._follow_columns()
        self.book = self._read()
        self.chains = self._read_chains()
        self.whole: dict[ChainKey, Dump] = {}
        """Whole repair dumps whose ghosts are not removed yet. Other threads read it."""
        self._repaired: dict[str, Loss] = {}
        """Topic to the loss that was last found to be repaired."""
        self.verifications = Verifications(session, settings, progress, self.chains, now_s=now_s)

    # -- what a batch asks ----------------------------------------------------------------------------------------------------------

    def of_markers(self, topic: str) -> bool:
        """Return True if the topic carries chunk markers."""
        return self._settings["topics.markers"].fullmatch(topic) is not None

    def count(self, raw: DataFrame, profiled: Iterable[TopicStats], markers: Iterable[TopicStats], sequence: int, txn: Txn) -> None:
        """Append the batch's dumped rows and markers to the table, unless they are there
        already.
        """
        dumped = [stats for stats in profiled if stats.maybe_dumped] if self.counts else []
        markers = list(markers)
        with self._turn:
            if sequence <= self.book.sequence or not (dumped or markers):
                return
        entries = self._arrived(raw, dumped) if dumped else []
        entries += self._markers(raw, markers, txn) if markers else []
        if not entries:
            return
        with self._turn:
            if self._midway():
                entries += self._floors(entries)
            for entry in entries:
                entry["sequence"] = sequence
            self._append(entries, txn.of("chunks"))
            _take(self.book, self.chains, entries, self._now_s())
            for verdict in self.book.forget(_GROUPS_MAX):
                self._report_one(verdict)
                self._judge_link(verdict)
            if covered := self.book.coverage.decide():
                self._append([_covered_entry(one) for one in covered], None)
            self._keep(self.chains.forget(_GROUPS_MAX))
        self._reached("counted")

    def _arrived(self, raw: DataFrame, profiled: Sequence[TopicStats]) -> list[Entry]:
        """Count the batch's dumped rows by topic and position, and the undecodable ones by
        topic.
        """
        schema_ids: dict[bytes, Envelope] = {}
        for stats in profiled:
            schema_ids |= self._applier.row_schemas(stats)
        sequenced = {schema_id: one for schema_id, one in schema_ids.items() if one.may_be_numbered}
        rows = raw.where(F.col("topic").isin([stats.topic for stats in profiled]) & maybe_dumped())
        # A filter above the two projections would be pushed through them, and every record would be
        # decoded twice (records/decode.py).
        found = rows.select("topic", "value_schema_id", _dump_columns(sequenced).alias("dump")).select(
            "topic",
            (_has_schema_among(sequenced) & F.col("dump.op").isNull() | ~_has_schema_among(schema_ids)).alias("unreadable"),
            *_position_of_dump(),
        )
        counted = found.groupBy("topic", "unreadable", "seq1", "seq2").count().collect()
        unreadable = [{"kind": _UNREADABLE, "topic": row["topic"], "rows": row["count"]} for row in counted if row["unreadable"]]
        return unreadable + [
            {"kind": _ARRIVED, "topic": row["topic"], "seq1": row["seq1"], "seq2": row["seq2"], "rows": row["count"]}
            for row in counted
            if row["seq1"] is not None and row["seq2"] is not None
        ]

    def _markers(self, raw: DataFrame, profiled: Iterable[TopicStats], txn: Txn) -> list[Entry]:
        """Read the batch's chunk markers and return their entries.

        Leaves out markers of topics that the sink does not read. Writes the fingerprints of verify
        dumps to their own table at once.
        """
        found: list[Row] = []
        marks: list[DataFrame] = []
        for stats in profiled:
            schema_ids = self._applier.marker_schemas(stats)
            records = sum(count for schema_id, count in stats.value_schema_ids.items() if schema_id in schema_ids)
            for schema_id, writer in schema_ids.items():
                known = {field["name"] for field in json.loads(writer)["fields"]} if writer else {*_MARKER_FIELDS, *_MARKS}
                if writer:
                    read = read_avro(F.expr("substring(value, 6)"), writer)
                else:
                    fields = ", ".join(f"{name}: {kind}" for name, kind in (_MARKER_FIELDS | _MARKS).items())
                    read = F.from_json(F.col("value").cast("string"), f"payload STRUCT<{fields}>")["payload"]
                of_schema = raw.where((F.col("topic") == stats.topic) & (F.col("value_schema_id") == F.lit(bytearray(schema_id))))
                columns = [
                    (F.col(f"m.{name}") if name in known else F.lit(None).cast(kind)).alias(name) for name, kind in _MARKER_FIELDS.items()
                ]
                decoded = of_schema.select(read.alias("m")).where("m.chunk_id IS NOT NULL")
                here = decoded.select(*columns).collect()
                found += here
                if any(row["mode"] == VERIFY for row in here):
                    own = decoded.where(F.col("m.mode") == VERIFY)
                    marks.append(own.select("m.topic", "m.chunk_id", F.col("m.range_upto").alias("upto"), *_marks(known)))
            if stats.records > records:
                log.warning("topic %s: %d records are not chunk markers and are left out", stats.topic, stats.records - records)
        read_here = {topic for topic in {row["topic"] for row in found} if reads(self._session, self._settings, topic)}
        found = [row for row in found if row["topic"] in read_here]
        ends_of = self._ends_of(found)
        compared = [row for row in found if row["mode"] == VERIFY and row["dump"] is not None]
        if compared:
            # A verify dump sends no rows that could be counted.
            facts = [self._marker_facts(row, ends_of) | _link_facts(row) for row in compared]
            with self._turn:
                self.verifications.take(reduce(DataFrame.unionByName, marks), facts, txn.of("fingerprints"))
            self._reached("fingerprints_kept")
        # The table's first dump has rows still to read, although none of its chunks has come.
        first = {row["topic"]: {"kind": _OWED, "topic": row["topic"]} for row in found if row["own_left"]}
        with self._turn:
            owed: list[Entry] = [entry for topic, entry in first.items() if topic not in self.book.begun]
        markers = [row for row in found if row["mode"] != VERIFY]
        borders = [
            {
                "kind": kind,
                "topic": row["topic"],
                "source": row["table"],
                "seq1": row["low"]["sequence_high"],
                "seq2": row["low"]["sequence_low"],
                "ts_ms": row["ts_ms"] if kind == _FINAL or row["low_ts_ms"] is None else row["low_ts_ms"],
                # A worker that writes no dump id marks no beginning either: such a dump counts from
                # its end.
                "dump": row["dump"] or "",
                "exact": kind == _BEGIN and row["dump"] is not None,
            }
            for row in markers
            for kind in (_BEGIN, _FINAL)
            if _of(row["dump"], row["scope"]) != PART and (row["final"] if kind == _FINAL or row["dump"] is None else row["begins"])
        ]
        return [*owed, *borders] + [
            {"kind": _MARKER, "rows": _rows_sent(row), "result": _of(row["dump"], row["scope"])}
            | self._marker_facts(row, ends_of)
            | (_link_facts(row) if row["dump"] is not None and (row["mode"] == REPAIR or _of(row["dump"], row["scope"]) != PART) else {})
            for row in markers
        ]

    def _ends_of(self, markers: Iterable[Row]) -> Callable[[Row], str]:
        """Return a function from a marker to its end offsets, as JSON by partition.

        Every row that the marker counts lies before these offsets. A marker without offsets gets
        the current end offsets of its topic.
        """
        asked = {row["topic"] for row in markers if row["offsets"] is None}
        ends = self._ends(asked) if asked else {}

        def of(row: Row) -> str:
            given = row["offsets"]
            return json.dumps(ends.get(row["topic"], {}) if given is None else {one["partition"]: one["last_offset"] + 1 for one in given})

        return of

    def _marker_facts(self, row: Row, ends_of: Callable[[Row], str]) -> Entry:
        return {
            "topic": row["topic"],
            "name": self._named(row["topic"]),
            "chunk_id": row["chunk_id"],
            "seq1": row["low"]["sequence_high"],
            "seq2": row["low"]["sequence_low"],
            "ends": ends_of(row),
            "exact": row["offsets"] is not None,
        }

    def _floors(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return a floor for each topic that this batch shows for the first time.

        When counting begins in the middle of a topic, earlier batches may have had rows of that
        first chunk.
        """
        first: dict[str, Position] = {}
        for entry in entries:
            topic = entry["topic"]
            if entry["kind"] == _ARRIVED and topic not in self.book.floors:
                position = (entry["seq1"], entry["seq2"])
                first[topic] = min(position, first.get(topic, position))
        return [{"kind": _FLOOR, "topic": topic, "seq1": one[0], "seq2": one[1]} for topic, one in first.items()]

    # -- what a snapshot asks ------------------------------------------------------------------------------------------------------------

    def dumps_incomplete(self, upto: Position, read: Mapping[str, int] = ALL_BATCHES) -> dict[str, str]:
        """Return topics whose first dump is incomplete among records up to position ``upto``, with
        the reason.

        ``read`` maps a topic to its last batch whose records count; later batches may have landed
        since.
        """
        with self._turn:
            return self.book.dumps_incomplete(upto, read)

    def dumped_since(self, since: Mapping[str, Loss], upto: Position, read: Mapping[str, int] = ALL_BATCHES) -> Collection[str] | None:
        """Return topics whose tables were completely dumped after a loss and up to position
        ``upto``.

        Return None if the source writes no markers. ``read`` is as in ``dumps_incomplete``.
        """
        with self._turn:
            found = self.book.dumped_since(since, upto, read)
        if found is None:
            return None
        asked = {topic: times for topic, times in found.items() if self._repaired.get(topic) != since[topic]}
        # A quarantined row has arrived, but its table does not have it.
        bad = self._applier.topics_in_quarantine(asked) if asked else set()
        self._repaired |= {topic: since[topic] for topic in asked.keys() - bad}
        return found.keys() - bad

    # -- between batches ------------------------------------------------------------------------------------------------------------

    def look(self, read_to: ReadTo) -> list[Verdict]:
        """Judge the chunks that can be judged, report the verdicts and return them.

        ``read_to`` holds the offsets that the query has committed.
        """
        with self._turn:
            found = self._judged(read_to) if self.book.groups else []
            if any(one.result not in (COMPLETE, LATE) for one in found):
                # The book may hold a marker that came again long after its verdict. Only the table
                # knows that.
                self.book = self._read()
                found = self._judged(read_to)
            covered = self.book.coverage.decide()
            if found or covered:
                self._append([_judged_entry(one) for one in found] + [_covered_entry(one) for one in covered], None)
            if found:
                self._report(found)
                for verdict in found:
                    self._judge_link(verdict)
                self._compact()
            self._decide(read_to)
            self.verifications.decide(read_to)
            return found

    # -- repair dumps ---------------------------------------------------------------------------------------------------------------

    def lose(self, topics: Iterable[str]) -> None:
        """Record that records of these topics are lost.

        A dump that is running may lack changes that replaced rows of its chunks.
        """
        with self._turn:
            if self.counts and (entries := [{"kind": _LOST, "topic": topic} for topic in topics]):
                self._append(entries, None)
                for entry in entries:
                    self.chains.lose(entry["topic"], self._now_s())

    def ended(self, dump: Dump, result: str, *, rows: int = 0, why: str = "", final: bool = True) -> None:
        """Record and report the outcome for a dump's ghosts.

        ``final`` is False if the dump may still become whole.
        """
        entry = {"kind": GHOSTS, "topic": dump.topic, "name": dump.table, "dump": dump.dump, "seq1": dump.low[0], "seq2": dump.low[1]}
        with self._turn:
            self._append([entry | {"rows": rows, "result": result, "why": why, "exact": final}], None)
            if self.whole.get(dump.key) == dump:
                del self.whole[dump.key]
        self.report_dump(dump, result, rows=rows, why=why)

    def report_dump(self, dump: Dump, result: str, *, rows: int = 0, why: str = "") -> None:
        """Report the outcome for a dump's ghosts as a progress line and in the log."""
        facts = {"table": dump.table, "topic": dump.topic, "dump": dump.dump, "position": list(dump.low)}
        self._progress.emit("ghosts", result=result, rows=rows, why=why, **facts)
        if result == REMOVED:
            log.info("%s: dump %s is whole; %d rows that the source does not have were removed", dump.table, dump.dump, rows)
        elif result == WAITS:
            log.info("%s: dump %s is whole; rows that the source does not have are removed later: %s", dump.table, dump.dump, why)
        else:
            log.warning("%s: no row was removed after dump %s, for %s", dump.table, dump.dump, why)

    def _decide(self, read_to: ReadTo) -> None:
        """Move dumps that became whole to ``whole``, and report those after which no row is
        removed.
        """
        if not self.chains.open:
            return
        found = self.chains.decide(
            read_to,
            now_s=self._now_s(),
            wait_s=self._settings["chunks.wait.s"],
            keep_s=self._keep_s,
            uncounted=self._uncounted,
        )
        self.whole.update({one.key: one for one in found if isinstance(one, Dump)})
        self._keep([one for one in found if isinstance(one, Kept)])

    def _keep(self, found: Iterable[Kept]) -> None:
        for one in found:
            self.ended(one.dump, KEPT, why=one.why, final=False)

    def _uncounted(self, topic: str, position: Position) -> bool:
        floor = self.book.floors.get(topic)
        return self._midway() if floor is None else position <= floor

    def _judge_link(self, verdict: Verdict) -> None:
        marker = verdict.marker
        # The chunk is whole now if none of its rows is missing any more.
        if verdict.result == LATE:
            group = self.book.groups.get((marker.topic, marker.position))
            if group is None or marker.chunk_id not in group.missing_rows:
                self.chains.judge(marker.topic, marker.chunk_id, "")
        else:
            self.chains.judge(marker.topic, marker.chunk_id, _fault(verdict.result, verdict.missing, verdict.unreadable, verdict.why))

    def _judged(self, read_to: ReadTo) -> list[Verdict]:
        wait_s = self._settings["chunks.wait.s"]
        return self.book.judge(read_to, now_s=self._now_s(), wait_s=wait_s, doubt=self._doubt, midway=self._midway())

    def _doubt(self, topic: str) -> str | None:
        """Return a legitimate reason why rows of the topic may be missing, or None if there is
        none.
        """
        if self._applier.record_kind(topic) == UNWRAPPED:
            return "its rows are unwrapped and have no position"
        if self._compacted(topic):
            return "the topic is compacted, and later records may have replaced its rows"
        return None

    def _report(self, found: Sequence[Verdict]) -> None:
        by_topic: dict[str, list[Verdict]] = {}
        for verdict in found:
            by_topic.setdefault(verdict.marker.topic, []).append(verdict)
            if verdict.result != COMPLETE:
                self._report_one(verdict)
        for topic, verdicts in by_topic.items():
            done = [one for one in verdicts if one.result == COMPLETE]
            if done:
                rows = sum(one.marker.rows for one in done)
                self._progress.emit("chunks", table=done[0].marker.table, topic=topic, complete=len(done), rows=rows)

    def _report_one(self, verdict: Verdict) -> None:
        marker = verdict.marker
        facts = {"table": marker.table, "topic": marker.topic, "chunk_id": marker.chunk_id, "position": list(marker.position)}
        self._progress.emit(
            "chunk",
            result=verdict.result,
            expected=marker.rows,
            missing=verdict.missing,
            unreadable=verdict.unreadable,
            why=verdict.why,
            **facts,
        )
        chunk = f"{marker.table}, chunk {marker.chunk_id} at position {marker.position[0]}/{marker.position[1]}"
        if verdict.result == SHORT:
            log.error(
                "%s: %d of %d rows that its marker counts did not arrive in topic %s; dump the table again",
                chunk, verdict.missing, marker.rows, marker.topic,
            )  # fmt: skip
        elif verdict.result == LATE:
            log.warning("%s: %d rows that were reported as missing have arrived", chunk, verdict.missing)
        else:
            log.warning("%s: %d of %d rows were not met, which proves nothing: %s", chunk, verdict.missing, marker.rows, verdict.why)

    def _named(self, topic: str) -> str:
        spec = self._settings.table(topic)
        return topic if spec is None else spec.name

    # -- the table ------------------------------------------------------------------------------------------------------------------

    def _append(self, entries: Sequence[Entry], txn: Txn | None, *, columns: Sequence[str] | None = None) -> None:
        names = [field.name for field in _SCHEMA.fields]
        text = json.dumps([{name: entry.get(name) for name in names if entry.get(name) is not None} for entry in entries])
        # The JVM parses JSON text, as in the control table, so no Python worker is needed.
        rows = self._session.range(1).select(F.explode(F.from_json(F.lit(text), t.ArrayType(_SCHEMA))).alias("one")).select("one.*")
        rows = rows.withColumn("at", F.current_timestamp())
        if columns is not None:
            rows = rows.select(*columns)
        if not self._exists:
            make_for(rows, self.path)
        writer = rows.coalesce(1).write.format("delta").mode("append")
        if txn is not None:
            writer = writer.option("txnAppId", txn.app_id).option("txnVersion", txn.version)
        writer.save(self.path)
        self._exists = True
        self._commits += 1

    def _follow_columns(self) -> None:
        """Add the columns that a table written by an earlier version lacks.

        A table without the column ``dump`` comes from a version that did not record which rows a
        repair dump confirms (``tables/modes/history.py``). Its counts are treated as never made.
        """
        if not self._exists:
            return
        table = self._session.read.format("delta").load(self.path)
        missing = [f"{quote(field.name)} {type_sql(field.dataType)}" for field in _SCHEMA.fields if field.name not in table.columns]
        if not missing:
            return
        old = table if "dump" not in table.columns else table.where("false")
        counted = old.where("seq1 IS NOT NULL").groupBy("topic").agg(F.max(F.struct("seq1", "seq2")).alias("last")).collect()
        if counted:
            floors = [{"kind": _FLOOR, "topic": row["topic"], "seq1": row["last"][0], "seq2": row["last"][1]} for row in counted]
            self._append(floors, None, columns=table.columns)
        self._session.sql(f"ALTER TABLE delta.{quote(self.path)} ADD COLUMNS ({', '.join(missing)})")

    def _read_chains(self) -> Chains:
        """Rebuild the chains of repair dumps that have no final outcome in the table."""
        chains = Chains()
        if not self._exists:
            return chains
        table = self._session.read.format("delta").load(self.path)
        at = F.unix_timestamp("at").cast("double").alias("at_s")
        kinds = F.col("kind")
        links = (kinds == _MARKER) & F.col("dump").isNotNull() & (F.coalesce("mode", F.lit(REPAIR)) == REPAIR)
        rows = table.where(kinds.isin(_FINAL, _LOST, GHOSTS)).select("*", at).collect()
        ended: dict[ChainKey, list[Row]] = {}
        for row in sorted(rows, key=lambda row: row["at_s"]):
            match row["kind"]:
                case "final" if row["source"] is not None:
                    chains.name(row["topic"], row["source"])
                case "lost":
                    chains.lose(row["topic"], row["at_s"])
                case "ghosts":
                    ended.setdefault((row["topic"], row["dump"]), []).append(row)
                case _:
                    pass
        for key, found in ended.items():
            done = [(row["seq1"], row["seq2"]) for row in found if row["exact"]]
            if done:
                chains.done[key] = max(done)
        # Link by link, each with its verdict, so that most chunks of a large dump are folded on the
        # way.
        for row in self._judged_links(table.where(links).select("*", at)).toLocalIterator():
            given = row.asDict()
            chains.link(_link(_marker(row["topic"], (row["seq1"], row["seq2"]), given, row["at_s"]), given))
            if (judged := row["judged"]) is not None:
                missing = max(0, judged["missing"] - (row["late"] or 0))
                result = COMPLETE if judged["result"] == SHORT and not missing else judged["result"]
                chains.judge(row["topic"], row["chunk_id"], _fault(result, missing, judged["unreadable"], judged["why"]))
        for key, chain in chains.open.items():
            chain.reported = ended[key][-1]["why"] if key in ended else ""
        return chains

    def _judged_links(self, links: DataFrame) -> DataFrame:
        """Return markers in the order of their positions, each with its last verdict and late rows.

        ``judged`` is the last verdict, NULL if there is none; ``late`` counts rows that came after
        it.
        """
        table = self._session.read.format("delta").load(self.path).where(F.col("kind").isin(_JUDGED, _LATE))
        verdict = F.struct("at", "missing", "unreadable", "result", "why")
        of_chunk = table.groupBy("topic", "chunk_id").agg(
            F.max_by(F.when(F.col("kind") == _JUDGED, verdict), F.when(F.col("kind") == _JUDGED, F.col("at"))).alias("judged"),
            F.sum(F.when(F.col("kind") == _LATE, F.col("rows"))).alias("late"),
        )
        return links.join(of_chunk, ["topic", "chunk_id"], "left").orderBy("seq1", "seq2")

    def _read(self) -> Book:
        """Rebuild the book from the table, without the chunks that are judged."""
        book = Book()
        if not self._exists:
            return book
        table = self._session.read.format("delta").load(self.path)
        last = table.agg(F.max("sequence")).collect()[0][0]
        book.sequence = -1 if last is None else last
        grouped = table.groupBy("topic", "seq1", "seq2").agg(
            *(
                F.coalesce(F.sum(F.when(F.col("kind") == kind, F.col("rows"))), F.lit(0)).alias(kind)
                for kind in (_ARRIVED, _UNREADABLE, _LATE)
            ),
            F.max(F.col("kind") == _FLOOR).alias("floor"),
            F.max(F.col("kind") == _FINAL).alias("final"),
            F.max(F.col("kind") == _OWED).alias("owed"),
            F.collect_set(F.when(F.col("kind") == _BEGIN, F.struct("dump", "ts_ms", "exact"))).alias("begins"),
            F.collect_set(
                F.when(F.col("kind") == _COVERED, F.struct("source", "dump", "low1", "low2", "low_ts_ms", "ts_ms", "exact"))
            ).alias("covered"),
            F.collect_set(F.when(F.col("kind") == _FINAL, F.col("dump"))).alias("ends"),
            F.collect_list(
                F.when(
                    F.col("kind") == _MARKER,
                    F.struct("chunk_id", "name", "rows", "ends", "exact", "result", F.unix_timestamp("at").alias("met"), *_RANGE),
                )
            ).alias("markers"),
            F.collect_list(F.when(F.col("kind") == _JUDGED, F.struct("chunk_id", "rows", "missing", "unreadable", "result"))).alias(
                "judged"
            ),
        )
        used: dict[str, int] = {}
        # In order of positions, so that ranges of large dumps are folded on the way.
        for row in grouped.orderBy("seq1", "seq2").toLocalIterator():
            topic = row["topic"]
            for one in row["judged"]:
                used[topic] = used.get(topic, 0) + one["unreadable"]
            if row[_UNREADABLE]:
                book.cannot_read(topic, row[_UNREADABLE])
            if row["owed"]:
                book.owe(topic)
            if row["seq1"] is None:
                continue
            position = (row["seq1"], row["seq2"])
            if row[_ARRIVED]:
                book.dumped.add(topic)
            for one in row["markers"]:
                book.know(topic, _kind(one.asDict()))
            book.has_markers |= bool(row["markers"]) or row["final"]
            for one in row["begins"]:
                book.begin(topic, position, one["dump"], one["ts_ms"], ranged=bool(one["exact"]))
            if row["final"] and not row["ends"]:
                book.end(topic, position)
            for dump in row["ends"]:
                book.end(topic, position, dump)
            for one in row["covered"]:
                book.coverage.take(_covered(topic, position, one.asDict()))
            for one in row["markers"]:
                if _is_range(one.asDict()):
                    book.coverage.add(*_range(topic, position, one.asDict()))
            if row["floor"]:
                book.floors[topic] = max(position, book.floors.get(topic, position))
            group = _group(topic, position, row)
            # A quarantined record has arrived, but its table does not have it.
            whole = [one for one in row["judged"] if one["result"] in (COMPLETE, SHORT) and not one["unreadable"]]
            for one in whole:
                if one["chunk_id"] not in group.missing_rows:
                    book.coverage.prove(topic, one["chunk_id"])
            if group.arrived or group.markers or group.missing_rows:
                book.groups[topic, position] = group
        for topic, rows in used.items():
            book.unreadable[topic] = max(0, book.unreadable.get(topic, 0) - rows)
        return book

    def _compact(self) -> None:
        """Delete old entries, compact small files, and rebuild the book from the rest."""
        if self._commits < _COMPACT_EVERY:
            return
        self._commits = 0
        table = self._session.read.format("delta").load(self.path)
        position = ["topic", "seq1", "seq2"]
        # All entries of one low watermark are kept or deleted together; otherwise the remaining
        # ones would count too many or too few rows.
        newest = F.max("at").over(Window.partitionBy(*position))
        age_of = F.when(F.col("seq1").isNull(), F.col("at")).otherwise(F.col("newest"))
        young = age_of >= F.current_timestamp() - F.make_interval(secs=F.lit(self._keep_s))
        missing, since = self.book.unsettled()
        unsettled = [dict(zip(position, (topic, *at), strict=True)) for topic, at in sorted(missing)]
        kind = t.ArrayType(t.StructType([field for field in _SCHEMA.fields if field.name in position]))
        kept = self._session.range(1).select(F.explode(F.from_json(F.lit(json.dumps(unsettled)), kind)).alias("one")).select("one.*")
        rows = table.withColumn("newest", newest).join(kept.withColumn("unsettled", F.lit(True)), position, "left")
        owed = F.lit(False)
        if since:
            floors = small_frame(self._session, ("topic", "floor1", "floor2"), [(topic, *low) for topic, low in sorted(since.items())])
            rows = rows.join(F.broadcast(floors), "topic", "left")
            owed = F.coalesce(
                F.struct("seq1", "seq2") >= F.struct(F.col("floor1").alias("seq1"), F.col("floor2").alias("seq2")), F.lit(False)
            )
        rows = rows.where(F.col("kind").isin(*_FOREVER) | young | F.col("unsettled") | owed)
        rows.select(*table.columns).write.format("delta").mode("overwrite").save(self.path)
        sequence = self.book.sequence
        self.book = self._read()
        self.book.sequence = max(sequence, self.book.sequence)


def _dump_columns(envelopes: Mapping[bytes, Envelope]) -> Column:
    """Return a column with a record's sequence, LSN and operation; NULL for other schema ids.

    The LSN is NULL for sources that have none.
    """
    struct = "struct<source:struct<sequence:string,lsn:bigint>,op:string>"
    branches = []
    for schema_id, envelope in envelopes.items():
        if envelope.json_type is not None:
            read = F.from_json(F.col("value").cast("string"), f"payload {struct}")["payload"]
        else:
            whole = json.loads(envelope.reader_text)
            source = next(field["type"] for field in whole["fields"] if field["name"] == "source")
            only = [{"name": name, "type": ["null", kind], "default": None} for name, kind in (("sequence", "string"), ("lsn", "long"))]
            reader = {**whole, "fields": [{"name": "source", "type": {**source, "fields": only}}, {"name": "op", "type": "string"}]}
            read = read_avro(F.expr("substring(value, 6)"), envelope.writer_text, json.dumps(reader))
        branches.append((F.col("value_schema_id") == F.lit(bytearray(schema_id)), read))
    nothing = F.lit(None).cast(struct)
    return reduce(lambda other, one: F.when(one[0], one[1]).otherwise(other), branches, nothing)


def _has_schema_among(schema_ids: Collection[bytes]) -> Column:
    return F.col("value_schema_id").isin([bytearray(schema_id) for schema_id in schema_ids]) if schema_ids else F.lit(False)


def _position_of_dump() -> list[Column]:
    """Return the two numbers of a dumped row's position as columns.

    Both are NULL for other records, and for rows that Debezium read from PostgreSQL.
    """
    numbers = ((1, "seq1"), (3, "seq2"))
    counts = f"dump.op = 'r' AND {is_numbered('dump')}"
    return [F.expr(f"IF({counts}, {quoted_part('dump.source.sequence', at)}, NULL)").alias(name) for at, name in numbers]


def _take(book: Book, chains: Chains, entries: Iterable[Entry], now_s: float) -> None:
    for entry in entries:
        topic, position = entry["topic"], (entry.get("seq1", 0), entry.get("seq2", 0))
        match entry["kind"]:
            case "arrived":
                book.arrive(topic, position, entry["rows"], entry["sequence"])
            case "owed":
                book.owe(topic)
            case "unreadable":
                book.cannot_read(topic, entry["rows"])
            case "floor":
                book.floors[topic] = position
            case "begin":
                book.begin(topic, position, entry["dump"], entry["ts_ms"], ranged=entry["exact"])
            case "final":
                book.end(topic, position, entry["dump"])
                chains.name(topic, entry["source"])
            case _:
                marker = _marker(topic, position, entry, now_s)
                book.expect(marker)
                if entry.get("mode") == REPAIR:
                    chains.link(_link(marker, entry))
                if _is_range(entry):
                    book.coverage.add(*_range(topic, position, entry))
        book.sequence = entry["sequence"]


def _marks(known: Collection[str]) -> list[Column]:
    """Return the columns ``MARKS`` of a verify dump's marker; NULL if its schema lacks them."""
    paths = ("m.fingerprints", "m.schemas.key", "m.schemas.row")
    there = "fingerprints" in known and "schemas" in known
    return [
        (F.col(path) if there else F.lit(None).cast("binary" if path == paths[0] else "string")).alias(name)
        for path, name in zip(paths, MARKS, strict=True)
    ]


def _of(dump: str | None, scope: str | None) -> str:
    """Return FIRST, WHOLE or PART for a marker with this dump id and scope.

    The source's own dump is FIRST even when its options leave out some rows.
    """
    if dump in (None, OWN):
        return FIRST
    return WHOLE if scope == WHOLE_TABLE else PART


def _kind(given: Mapping[str, Any]) -> str:
    """Return the kind of dump of a stored marker, derived for entries of earlier versions."""
    recorded: str | None = given["result"]
    return recorded or _of(given.get("dump"), given.get("scope"))


def _rows_sent(row: Row) -> int:
    """Return the number of a chunk's rows that were sent, after the connector's transforms."""
    rows: int = row["rows_read"] - row["rows_dropped"] if row["rows_passed"] is None else row["rows_passed"]
    return rows


def _link_facts(row: Row) -> Entry:
    """Return the fields of a marker that a link of a chain needs."""
    return {
        "dump": row["dump"],
        "mode": row["mode"],
        "scope": row["scope"] or "",
        "server": row["server"],
        "source": row["table"],
        "after": row["range_after"],
        "upto": row["range_upto"],
        "begins": bool(row["begins"]),
        "final": bool(row["final"]),
        "high": row["high"]["sequence_high"],
        "dropped": row["rows_dropped"],
        "ts_ms": row["ts_ms"],
        "low_ts_ms": row["low_ts_ms"],
    }


_RANGE = ("dump", "scope", "source", "after", "upto", "begins", "final", "ts_ms", "low_ts_ms")
"""Columns of a stored marker that describe its chunk's range and dump."""


def _is_range(given: Mapping[str, Any]) -> bool:
    """Return True if ``Coverage`` keeps the ranges of this chunk's dump."""
    return given.get("dump") is not None and _kind(given) != PART


def _range(topic: str, position: Position, given: Mapping[str, Any]) -> tuple[TableDump, Range]:
    """Return the chunk's dump and its range."""
    return (topic, given["source"], given["dump"]), Range(
        chunk_id=given["chunk_id"],
        low=position,
        after=given["after"],
        upto=given["upto"],
        begins=given["begins"],
        final=given["final"],
        opened_ms=given["ts_ms"] if given["low_ts_ms"] is None else given["low_ts_ms"],
        ts_ms=given["ts_ms"],
        repairs=given["scope"] == WHOLE_TABLE,
    )


def _covered_entry(one: Covered) -> Entry:
    topic, source, dump = one.of
    facts = {"low1": one.low[0], "low2": one.low[1], "low_ts_ms": one.began_ms, "ts_ms": one.ended_ms, "exact": one.proven}
    return {"kind": _COVERED, "topic": topic, "source": source, "dump": dump, "seq1": one.upto[0], "seq2": one.upto[1]} | facts


def _covered(topic: str, position: Position, given: Mapping[str, Any]) -> Covered:
    return Covered(
        of=(topic, given["source"], given["dump"]),
        low=(given["low1"], given["low2"]),
        upto=position,
        began_ms=given["low_ts_ms"],
        ended_ms=given["ts_ms"],
        proven=given["exact"],
    )


def _link(marker: Marker, given: Mapping[str, Any]) -> Link:
    return Link(
        marker=marker,
        dump=given["dump"],
        scope=given["scope"],
        server=given["server"],
        source=given["source"],
        after=given["after"],
        upto=given["upto"],
        begins=given["begins"],
        final=given["final"],
        high=given["high"],
        dropped=given["dropped"],
        ts_ms=given["ts_ms"],
        low_ts_ms=given["low_ts_ms"],
    )


def _fault(result: str, missing: int, unreadable: int, why: str) -> str:
    """Return why a judged chunk keeps its dump from being whole; empty if it does not."""
    if result == SHORT:
        return f"{missing} rows of one of its chunks did not arrive"
    if result == UNPROVEN:
        return f"{missing} rows of one of its chunks were not met ({why})"
    return IN_QUARANTINE if unreadable else ""


def _marker(topic: str, position: Position, given: Mapping[str, Any], met_s: float) -> Marker:
    return Marker(
        topic=topic,
        position=position,
        chunk_id=given["chunk_id"],
        table=given["name"],
        rows=given["rows"],
        ends={int(partition): end for partition, end in json.loads(given["ends"]).items()},
        exact=given["exact"],
        met_s=met_s,
        of=_kind(given),
    )


def _group(topic: str, position: Position, row: Row) -> Group:
    """Return what the stored entries of one topic and position leave open."""
    group = Group(arrived=row[_ARRIVED] - row[_LATE])
    markers = {one["chunk_id"]: _marker(topic, position, one.asDict(), float(one["met"])) for one in row["markers"]}
    came = row[_LATE]
    for one in row["judged"]:
        group.arrived -= one["rows"] - one["missing"] - one["unreadable"]
        marker = markers.pop(one["chunk_id"], None)
        if one["result"] == SHORT and marker is not None:
            if one["unreadable"]:
                group.unreadable.add(one["chunk_id"])
            missing = max(0, one["missing"] - came)
            came -= one["missing"] - missing
            if missing:
                group.missing_rows[one["chunk_id"]] = (marker, missing)
    group.markers = markers
    return group


def _judged_entry(verdict: Verdict) -> Entry:
    marker = verdict.marker
    entry = {
        "topic": marker.topic,
        "name": marker.table,
        "chunk_id": marker.chunk_id,
        "seq1": marker.position[0],
        "seq2": marker.position[1],
    }
    if verdict.result == LATE:
        return {"kind": _LATE, "rows": verdict.missing, **entry}
    return {
        "kind": _JUDGED,
        "rows": marker.rows,
        "missing": verdict.missing,
        "unreadable": verdict.unreadable,
        "result": verdict.result,
        "why": verdict.why,
        **entry,
    }
