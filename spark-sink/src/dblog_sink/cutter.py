"""Cuts: what has landed is merged up to the end of one transaction in every table, and the versions that come of it are published together.

``cuts.py`` has the rule, ``places.py`` reads where records stand; here Spark counts what has landed, so that the driver sees only what is not complete.
One cut: choose it, note it (``chosen``), merge each table up to it, side by side and by the code that merges lots, publish it (``published``), and note how far
the tables are (``settled``). A cut that was noted is carried out before anything else, as it was noted, however often the process ends meanwhile:
every commit of it carries its number (I8). Readers see the versions of the last published cut all the time.

A lot with a record above the cut is not settled and is met again; a record is merged by one cut only, for the line of the cut before tells which were.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from delta.tables import DeltaTable
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink import plan, promise
from dblog_sink import target as targets
from dblog_sink.apply import Applier, Share, inventory
from dblog_sink.config import Settings
from dblog_sink.cuts import (
    APPLIED,
    BEFORE_ALL,
    EXPIRED,
    NOWHERE,
    Cut,
    Facts,
    Incomplete,
    Line,
    Place,
    Position,
    Verdict,
    judged,
    prefix_of,
    topic_of,
)
from dblog_sink.decode import OP, SEQ1, SEQ2
from dblog_sink.errors import DefiniteError, TransientError
from dblog_sink.frames import HEADED
from dblog_sink.landing import LOT, Landing, looked_up
from dblog_sink.manifest import Entry, Manifest
from dblog_sink.marks import Marks
from dblog_sink.merge import Txn
from dblog_sink.merger import Merger, notes_of
from dblog_sink.modes.work import Applied
from dblog_sink.places import FILE, LSN, ORDER, POS, TX, index, placed, transactions
from dblog_sink.plan import Lot
from dblog_sink.progress import Progress
from dblog_sink.schemas import Envelope
from dblog_sink.source import reads
from dblog_sink.steps import Reached

log = logging.getLogger(__name__)

_SHOWN = 200
"""Incomplete transactions that the driver looks at, the earliest."""
_ROW = (LOT, "topic", "partition", "offset", "timestamp")

Offsets = Mapping[str, Mapping[int, int]]
Kafka = Callable[[Collection[str]], tuple[Offsets, Offsets, Offsets]]
"""Of topics, by partition: the first offset there is, the end, and how far the sink has read. A topic that is not there is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Landed:
    """What waits in the landing table up to a lot."""

    raw: DataFrame
    to: int
    shares: Mapping[str, Share]
    envelopes: Mapping[str, Mapping[bytes, Envelope]]
    lots: Mapping[str, int]
    """By topic, the last lot."""
    first: Mapping[str, int]
    """By topic, the first lot that waits."""
    rows: DataFrame
    """Places of rows."""
    told: DataFrame
    """Begins and ends of transactions."""


@dataclass(slots=True, kw_only=True)
class _Counts:
    """What a cut takes of a topic, and what it leaves."""

    taken: int = 0
    left: dict[int, int]
    dumped_ms: int | None = None
    logged: bool = False


class Cutter:
    """Chooses and carries out cuts, one at a time."""

    def __init__(
        self,
        session: SparkSession,
        *,
        settings: Settings,
        applier: Applier,
        landing: Landing,
        marks: Marks,
        merger: Merger,
        manifest: Manifest,
        progress: Progress,
        kafka: Kafka,
        undumped: Callable[[Position], Mapping[str, str]],
        reached: Reached,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._session = session
        self._settings = settings
        self._applier = applier
        self._landing = landing
        self._marks = marks
        self._merger = merger
        self._manifest = manifest
        self._progress = progress
        self._kafka = kafka
        self._undumped = undumped
        self._reached = reached
        self._now_s = now_s
        self._topic: str = settings["topics.transaction"] or ""
        self._prefix = prefix_of(self._topic)
        self._app_id = f"{settings['name']}/{landing.id}/cuts"
        self._kept_topics: dict[str, str | None] = {}
        self._kept_tables: set[str] = set()
        self._committed_ms: dict[str, int] = {}
        """By topic, when the version was committed that the last cut names."""
        self._entries: dict[str, Entry] = {}
        self._asked: dict[str, tuple[Mapping[int, int], Place]] = {}
        self._forgiven: dict[str, Place] = {}
        self._blocker: Incomplete | None = None
        self._blocked_at_s = 0.0
        self._reported_at_s: float | None = None
        self._looked_back = ""
        self._quiet: tuple[Any, ...] | None = None
        self._looked = False
        self._begun: int | None = None
        self._published_at_s: float | None = None

    def cut(self) -> bool:
        """Carry out one cut; whether there was one to be made."""
        if self._landing.id is None:
            return False
        self._app_id = f"{self._settings['name']}/{self._landing.id}/cuts"
        if not self._looked:
            self._look()
        parked = self._merger.parked()
        waiting = {topic: lots for topic, lots in self._merger.waiting().items() if topic not in parked}
        open_cut = self._open()
        if open_cut is not None:
            log.info("cut %d was begun before; it is finished first", open_cut.number)
            with self._landed(waiting, max(open_cut.line.lots.values(), default=-1)) as landed:
                self._carry_out(open_cut, landed, began_s=time.monotonic(), repeated=True)
            return True
        if not self._settings.cuts or not (waiting or self._rests()):
            return False
        sums: dict[int, int] = {}
        for lots in waiting.values():
            for lot in lots:
                sums[lot.number] = sums.get(lot.number, 0) + lot.rows
        together = [Lot(number, rows, 0.0) for number, rows in sorted(sums.items())] or [Lot(-1, 0, 0.0)]
        rows_max: int = self._settings["merge.rows.max"]
        while True:
            to, _ = plan.prefix(together, rows_max)
            began_s = time.monotonic()
            with self._landed(waiting, to) as landed:
                chosen = self._chosen(landed, whole=to == together[-1].number)
                if chosen is not None:
                    self._marks.say({"cut": chosen.note()}, "chosen", at_once=True)
                    self._carry_out(chosen, landed, began_s=began_s, repeated=False)
                    return True
            if to == together[-1].number:
                return False
            rows_max *= 2  # a transaction is longer than that, or a topic lies behind the others

    def uncut(self, topic: str, raw: DataFrame) -> DataFrame:
        """A topic's landed records without those that a cut has merged: for merges by lots, when there is no manifest any more."""
        last = self._last()
        if last is None:
            return raw
        line = self._held().get(topic, last.line)
        shares = {share.topic: share for share in inventory(raw)}
        if topic not in shares:
            return raw
        found = placed(raw, self._applier.placed(shares[topic]), (LOT, *HEADED))
        return found.where(~_merged(line, topic)).select(LOT, *HEADED)

    # -- what was --------------------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Once in a process: what the manifest says, should the notes be lost; and what must be known of tables that were written without one."""
        state = self._marks.state
        newest = self._manifest.last()
        if newest is not None:
            number, note, self._entries = newest
            self._published_at_s = self._now_s() - 3600.0 * self._manifest.newest_age_h()
            for topic in state.targets if self._settings.cuts else ():
                if (entry := self._entries.get(self._name(topic))) is not None:
                    self._readable(topic, entry)
            if state.cut is None or state.cut["number"] < number:
                log.warning("the notes do not know cut %d, which the manifest has; they go on from it", number)
                self._marks.say({"cut": json.loads(note), "cut_done": number}, "marked", at_once=True)
        if not self._settings.cuts:
            if state.cut is not None and not state.uncut:
                self._marks.say({"uncut": True}, "marked", at_once=True)
        elif state.uncut or (state.cut is None and state.targets):
            # The tables may show more than the first cut will: they are complete when it lies behind all that was written before it.
            now_ms = round(self._now_s() * 1000)
            note_of = {"dumped": dict.fromkeys(state.targets, now_ms), "late": dict.fromkeys(state.targets, APPLIED), "uncut": False}
            log.info("from now on tables are merged by cuts; those that are there are complete in cuts behind what was merged before")
            self._marks.say(note_of, "marked", at_once=True)
        self._looked = True

    def _rests(self) -> bool:
        """Whether the newest cut is so old that it is published again, with versions that are younger."""
        return self._published_at_s is not None and promise.rests((self._now_s() - self._published_at_s) / 3600.0)

    def _last(self) -> Cut | None:
        note = self._marks.state.cut
        return None if note is None else Cut.of(note)

    def _open(self) -> Cut | None:
        """The cut that was noted and is not done."""
        last = self._last()
        return last if last is not None and last.number > self._marks.state.cut_done else None

    def _held(self) -> dict[str, Line]:
        return {topic: Line.of(note) for topic, note in self._marks.state.held.items()}

    def _number(self, last: Cut | None, topics: Iterable[str]) -> int:
        """The next cut's number: above the last one's, and above that of any cut of which a table has the rows, should the notes be lost."""
        if self._begun is None:
            self._begun = max(
                (self._applier.begun(topic, Txn(self._app_id, 0)) for topic in {*topics, *self._marks.state.targets}), default=-1
            )
        return max(self._begun, -1 if last is None else last.number) + 1

    # -- what has landed -------------------------------------------------------------------------------------------------------------

    @contextmanager
    def _landed(self, waiting: Mapping[str, Sequence[Lot]], to: int) -> Iterator[_Landed]:
        lots = {topic: [lot.number for lot in some if lot.number <= to] for topic, some in waiting.items()}
        lots = {topic: numbers for topic, numbers in lots.items() if numbers}
        first = {topic: numbers[0] for topic, numbers in lots.items()}
        rows = sum(lot.rows for some in waiting.values() for lot in some if lot.number <= to)
        raw = self._landing.window(after=min(first.values(), default=to) - 1, to=to, rows=rows)
        raw = raw.where(F.col(LOT) >= looked_up(first)) if first else raw.where("false")
        shares = {share.topic: share for share in inventory(raw)}
        own = shares.get(self._topic)
        if own is not None and set(own.last) != {0}:
            msg = f"topic {self._topic} has several partitions, so the order of its transactions is lost; make it anew with one partition"
            raise DefiniteError(msg)
        envelopes = {topic: self._applier.placed(share) for topic, share in shares.items() if topic != self._topic}
        for topic, found in envelopes.items():
            if found and self._prefix and not topic.startswith(f"{self._prefix}."):
                msg = (
                    f"topic {topic} holds rows and is not named as topics.transaction={self._topic} lets expect ({self._prefix}.<db>.<table>): a "
                    "manifest is of one source, under its own names; give the topic to another job, or exclude it with topics.exclude"
                )
                raise DefiniteError(msg)
        by_head = {frame: envelope for found in envelopes.values() for frame, envelope in found.items()}
        frames = list(index(raw.where(F.col("topic") != self._topic), by_head, _ROW)) or [placed(raw.where("false"), {}, _ROW)]
        indexed = reduce(DataFrame.unionByName, frames).persist(StorageLevel.MEMORY_AND_DISK)
        writers = {} if own is None else self._applier.transactions(own)
        told = transactions(raw.where(F.col("topic") == self._topic), writers, (LOT, "offset", "timestamp", "value_head"))
        told = told.where(F.col("value_head").isNotNull()).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            yield _Landed(
                raw=raw,
                to=to,
                shares=shares,
                envelopes=envelopes,
                lots={topic: numbers[-1] for topic, numbers in lots.items()},
                first=first,
                rows=indexed,
                told=told,
            )
        finally:
            indexed.unpersist()
            told.unpersist()

    # -- the choice ------------------------------------------------------------------------------------------------------------------

    def _chosen(self, landed: _Landed, *, whole: bool) -> Cut | None:
        """The next cut, None if no transaction is complete that was not before. ``whole``: all that has landed is looked at."""
        last = self._last()
        line = BEFORE_ALL if last is None else last.line
        place = F.struct(LOT, "offset")
        ended, begun = F.col("status") == "END", F.col("status") == "BEGIN"
        known = (
            landed.told.where(_after(line.place))
            .groupBy(TX)
            .agg(
                F.min(F.when(begun, place)).alias("begin"),
                F.min(F.when(ended, place)).alias("end"),
                F.max_by("counts", F.when(ended, place)).alias("counts"),
                F.max(F.when(ended, F.col("ts_ms"))).alias("ts_ms"),
                F.min(F.when(ended, F.unix_millis("timestamp"))).alias("kafka_ms"),
            )
            .persist(StorageLevel.MEMORY_AND_DISK)
        )
        try:
            collections = F.flatten(F.collect_set(F.transform("counts", lambda one: one["data_collection"])))
            newest, names = known.agg(F.max("end"), collections).collect()[0]
            verdict, short, forgiven = self._judged(known, landed, line, sorted({name for name in names or () if name is not None}))
            complete = known.where(F.col("end").isNotNull())
            until = _place(newest)
            if verdict.barrier is not None:
                complete = complete.where(_below(F.col("end"), verdict.barrier))
                until = _place(complete.agg(F.max("end")).collect()[0][0])
            if whole:
                self._noted(verdict.blocker or (self._nameless(landed) if until is None else None))
            if until is None:
                return self._between(landed, last, blocked=verdict.blocker is not None) if whole else None
            self._quiet = None
            lacking = self._lacking(None if forgiven is None else short.where(forgiven & _upto(F.col("end"), until)), verdict)
            return self._made(landed, complete.select(TX, "end", "ts_ms", "kafka_ms"), until, last, lacking)
        finally:
            known.unpersist()

    def _judged(
        self, known: DataFrame, landed: _Landed, line: Line, collections: Iterable[str]
    ) -> tuple[Verdict, DataFrame, Column | None]:
        """The verdict; by transaction and topic what is missing; and which of that is forgiven, if anything."""
        counted = known.where(F.col("end").isNotNull()).select(TX, "end", F.explode("counts").alias("each"))
        topics = {name: topic for name in collections if (topic := self._kept(name)) is not None}
        of_topic = looked_up(topics, F.col("each.data_collection")).alias("topic")
        expected = counted.select(TX, "end", of_topic, F.col("each.event_count").alias("n")).where("topic IS NOT NULL")
        seen = landed.rows.where(F.col(TX).isNotNull()).groupBy(TX, "topic").agg(F.count_distinct(ORDER).alias("seen"))
        short = expected.join(seen, [TX, "topic"], "left")
        short = short.withColumn("missing", F.col("n") - F.coalesce("seen", F.lit(0))).where("missing > 0")
        facts = self._facts()
        # cuts.judged's own rule, for what may be many.
        some = [F.col("topic") == topic for topic in facts.parked]
        some += [
            (F.col("topic") == topic) & _upto(F.col("end"), facts.forgiven[topic]) for topic in facts.late.keys() & facts.forgiven.keys()
        ]
        forgiven = reduce(lambda a, b: a | b, some) if some else None
        pairs = F.map_from_entries(F.collect_list(F.struct("topic", "missing"))).alias("lacks")
        incomplete = known.join((short if forgiven is None else short.where(~forgiven)).groupBy(TX).agg(pairs), TX, "left").where(
            "end IS NULL OR lacks IS NOT NULL"
        )
        verdict = self._verdict(incomplete, facts)
        if verdict.blocker is not None and self._blocker is not None and verdict.blocker.id == self._blocker.id != self._looked_back:
            # It holds the cuts back a second time. Was it in one before, and the source sent of it again?
            self._looked_back = verdict.blocker.id
            verdict = self._verdict(incomplete.join(self._cut_before(line), TX, "left_anti"), facts)
        if verdict.blocker is not None and verdict.blocker.missing:
            self._ask(verdict.blocker, landed)
        return verdict, short, forgiven

    @staticmethod
    def _verdict(incomplete: DataFrame, facts: Facts) -> Verdict:
        rows = incomplete.orderBy(F.least("begin", "end")).limit(_SHOWN).select(TX, "begin", "end", "lacks").collect()
        found = [Incomplete(id=row[TX], begin=_place(row["begin"]), end=_place(row["end"]), missing=row["lacks"] or {}) for row in rows]
        return judged(found, facts)

    def _facts(self) -> Facts:
        return Facts(
            late=dict(self._marks.state.late),
            forgiven=dict(self._forgiven),
            parked=tuple(self._merger.parked()),
            passed=self._settings["manifest.pass"] or frozenset(),
        )

    def _cut_before(self, line: Line) -> DataFrame:
        """The ids of transactions that ended at or before the last cut, as far as their landed records are kept."""
        raw = self._landing.records(self._topic, after=-1, to=line.place[0])
        writers: dict[bytes, str] = {}
        for share in inventory(raw):
            writers |= self._applier.transactions(share)
        told = transactions(raw, writers, (LOT, "offset"))
        return told.where((F.col("status") == "END") & ~_after(line.place)).select(TX).distinct()

    def _kept(self, collection: str) -> str | None:
        """The topic of a data collection, None if it is none of the job's."""
        if collection not in self._kept_topics:
            topic = topic_of(collection, self._prefix)
            self._kept_topics[collection] = topic if reads(self._session, self._settings, topic) else None
        return self._kept_topics[collection]

    def _ask(self, blocker: Incomplete, landed: _Landed) -> None:
        """Find out whether what is missing can still come: not when the sink has read the topic up to the end that it had after the END landed."""
        met = {topic for topic, _ in self._marks.state.partitions}
        topics = [topic for topic in blocker.missing if blocker.begin is None or topic in self._marks.state.late or topic not in met]
        if not topics:
            return
        first, end, read = self._kafka(topics)
        for topic in topics:
            if topic not in met and all(offset == end[topic][partition] > 0 for partition, offset in first.get(topic, {}).items()):
                self._marks.say({"late": {topic: EXPIRED}}, "marked", at_once=False)
            asked, upto = self._asked.get(topic, (None, NOWHERE))
            if asked is None or upto < blocker.place:
                newest = landed.told.agg(F.max(F.struct(LOT, "offset"))).collect()[0][0]
                self._asked[topic] = (end.get(topic, {}), (newest[0], newest[1]))
            elif all(read.get(topic, {}).get(partition, 0) >= offset for partition, offset in asked.items()):
                self._forgiven[topic] = upto
                del self._asked[topic]

    def _nameless(self, landed: _Landed) -> Incomplete | None:
        """What holds the cuts back where rows of the log have landed and no transaction has ended: one without a name."""
        if landed.rows.where((F.col(OP) != "r") & F.col(SEQ1).isNotNull()).isEmpty():
            return None
        return Incomplete(id=f"(none in {self._topic}; the source writes it with provide.transaction.metadata=true)", begin=None, end=None)

    def _noted(self, blocker: Incomplete | None) -> None:
        """Remember what holds the cuts back, and report it when it does so for long."""
        now_s = self._now_s()
        if blocker is None or self._blocker is None or blocker.id != self._blocker.id:
            if self._reported_at_s is not None and self._blocker is not None:
                self._progress.say("completed", transaction=self._blocker.id)
            self._blocked_at_s, self._reported_at_s = now_s, None
        self._blocker = blocker
        limit_s: float = self._settings["manifest.incomplete.max.s"]
        if (
            blocker is None
            or now_s - self._blocked_at_s < limit_s
            or (self._reported_at_s is not None and now_s - self._reported_at_s < limit_s)
        ):
            return
        self._reported_at_s = now_s
        seconds = round(now_s - self._blocked_at_s, 3)
        missing = {self._name(topic): count for topic, count in blocker.missing.items()}
        self._progress.say("incomplete", transaction=blocker.id, seconds=seconds, ended=blocker.end is not None, missing=missing)
        told = (
            "its END has not come"
            if blocker.end is None
            else ", ".join(f"{count} records of {table}" for table, count in missing.items()) + " are missing"
        )
        log.error(
            "transaction %s has held the cuts back for %.0f s: %s. If they are lost, name it in manifest.pass, and dump the tables again",
            blocker.id,
            seconds,
            told,
        )

    def _lacking(self, forgiven: DataFrame | None, verdict: Verdict) -> dict[str, str]:
        """Topics of which something is missing in the cut that was forgiven, and why; told once for each."""
        reasons: dict[str, str] = {}
        facts = self._facts()
        rows = [] if forgiven is None else forgiven.groupBy("topic").agg(F.count_distinct(TX).alias("n"), F.min(TX).alias("one")).collect()
        for row in rows:
            reason = "the table is parked" if row["topic"] in facts.parked else facts.late[row["topic"]]
            reasons[row["topic"]] = reason
            log.warning(
                "%s: records of %d transactions (%s) are missing in this cut: %s", self._name(row["topic"]), row["n"], row["one"], reason
            )
        for one, by_topic in verdict.forgiven:
            for topic, reason in by_topic.items():
                reasons[topic] = reason
                log.warning(
                    "%s: %d records of transaction %s are missing in this cut: %s", self._name(topic), one.missing[topic], one.id, reason
                )
            if one.end is None:
                log.warning("transaction %s has no END: manifest.pass names it", one.id)
        return reasons

    def _made(self, landed: _Landed, complete: DataFrame, until: Place, last: Cut | None, lacking: Mapping[str, str]) -> Cut:
        """The cut behind the transactions that are complete. It is named by the one whose rows come last: an END that the source sent again names none."""
        before = BEFORE_ALL if last is None else last.line
        at = F.struct(SEQ1, SEQ2)
        found = (
            landed.rows.where(F.col(TX).isNotNull())
            .join(complete, TX)
            .groupBy(TX, "end", "ts_ms", "kafka_ms")
            .agg(F.max(at).alias("at"), F.max_by(F.struct(FILE, POS, LSN), at).alias("source"))
            # In PostgreSQL's log rows interleave: there the order is that of the ENDs.
            .withColumn(
                "order",
                F.when(F.col("source")[LSN].isNull(), F.col("at")).otherwise(
                    F.struct(F.col("end")[LOT].alias(SEQ1), F.col("end")["offset"].alias(SEQ2))
                ),
            )
            .agg(
                F.max("at").alias("at"),
                F.max_by(F.struct(TX, "ts_ms", "kafka_ms", "source"), "order").alias("named"),
                F.max(F.col("source")[LSN].isNotNull()).alias("interleaved"),
            )
            .collect()[0]
        )
        at_last = NOWHERE if found["at"] is None else (int(found["at"][0]), int(found["at"][1]))
        position = max(before.position, at_last)
        lots = {**before.lots, **{topic: lot for topic, lot in landed.lots.items() if topic != self._topic}}
        cut = Cut(
            number=self._number(last, landed.lots),
            line=Line(position=position, place=until, lots=lots),
            before=before,
            held=self._held(),
            lacking=lacking,
        )
        if found["interleaved"]:
            cut = replace(cut, line=replace(cut.line, open=self._interleaved(landed, complete, cut)))
        if found["named"] is None or (found["named"]["source"][LSN] is None and at_last <= before.position):
            return cut if last is None else _named_as(cut, last)
        named = found["named"]
        source = named["source"]
        lsn = None if source[LSN] is None else position[1]  # of all rows, so that it rises from cut to cut
        return replace(
            cut, transaction=named[TX], ts_ms=named["ts_ms"], kafka_ms=named["kafka_ms"], file=source[FILE], pos=source[POS], lsn=lsn
        )

    def _interleaved(self, landed: _Landed, complete: DataFrame, cut: Cut) -> tuple[str, ...]:
        """Transactions with rows below the cut that are not in it; PostgreSQL's only."""
        below = landed.rows.where(F.col(LSN).isNotNull() & F.col(TX).isNotNull() & _within(cut.line) & ~_merged_before(cut))
        others = below.select(TX).distinct().join(complete, TX, "left_anti")
        if others.isEmpty():
            return ()
        others = others.join(self._cut_before(cut.before), TX, "left_anti")
        return tuple(sorted(row[0] for row in others.collect()))

    def _between(self, landed: _Landed, last: Cut | None, *, blocked: bool) -> Cut | None:
        """A cut without a new transaction: of what belongs to the last one and came since (dump rows, a table that was resumed), or of a source that rests.

        Where a source rests, dump rows would wait for its next transaction. Nothing of the log waits, and nothing came while all that Kafka had when we
        looked first was read: then they belong to the cut. Where nothing is cut for long, whatever holds the next cut back, the last one is published
        again: what it names must not grow old.
        """
        before = BEFORE_ALL if last is None else last.line
        lots = {topic: lot for topic, lot in landed.lots.items() if topic != self._topic}
        line = replace(before, lots={**before.lots, **lots})
        cut = Cut(number=self._number(last, lots), line=line, before=before, held=self._held())
        within, dumped = _within(before), F.col(OP) == "r"
        found = landed.rows.agg(
            F.count_if(within & ~_merged_before(cut)).alias("below"),
            F.count_if(~within & ~dumped).alias("logged"),
            F.count_if(~within & dumped).alias("dumped"),
            F.max(F.when(~within & dumped, F.struct(SEQ1, SEQ2))).alias("at"),
        ).collect()[0]
        if last is not None and (found["below"] or self._rests()):
            return _named_as(cut, last)
        if blocked or found["logged"] or not found["dumped"] or not landed.told.where(_after(before.place)).isEmpty():
            self._quiet = None
            return None
        topics = sorted({topic for topic, _ in self._marks.state.partitions} | {self._topic})
        _, end, read = self._kafka(topics)
        seen = (found["at"], found["dumped"])
        if self._quiet is None or self._quiet[0] != seen:
            self._quiet = (seen, end)
            return None
        if any(
            read.get(topic, {}).get(partition, 0) < offset for topic, ends in self._quiet[1].items() for partition, offset in ends.items()
        ):
            return None
        self._quiet = None
        cut = replace(cut, line=replace(line, position=(int(found["at"][0]), int(found["at"][1]))))
        return cut if last is None else _named_as(cut, last)

    # -- carrying out ----------------------------------------------------------------------------------------------------------------

    def _carry_out(self, cut: Cut, landed: _Landed, *, began_s: float, repeated: bool) -> None:
        counts = self._counts(cut, landed)
        parked = set(self._merger.parked())
        works: dict[str, Future[Applied | None]] = {}
        txn = Txn(self._app_id, cut.number)
        with ThreadPoolExecutor(max_workers=self._settings["merge.threads"], thread_name_prefix="dblog-cut") as threads:
            for topic in sorted(landed.envelopes, key=lambda topic: -landed.shares[topic].records):
                lot = cut.line.lots.get(topic, -1)
                fresh = lot > cut.merged_before(topic).lots.get(topic, -1)
                unplaced = landed.shares[topic].nulls or landed.shares[topic].value_heads.keys() - landed.envelopes[topic].keys()
                if topic not in parked and (counts[topic].taken or (fresh and unplaced)):
                    works[topic] = threads.submit(self._merge, cut, topic, landed, counts[topic], txn, repeated=repeated)
            wait(works.values())
        applied = []
        failures = []
        for topic, work in works.items():
            error = work.exception()
            if error is None:
                result = work.result()
                if result is not None:
                    applied.append(result)
            elif isinstance(error, Exception) and self._merger.failed(topic, error):
                parked.add(topic)
            else:
                failures.append(error)
        if failures:
            raise min(failures, key=lambda e: not isinstance(e, DefiniteError))
        taken = {topic: one for topic, one in counts.items() if topic not in parked}
        note = self._done(cut, landed, taken, parked, applied)
        tables = self._tables(cut, note, {one.topic for one in applied}, parked)
        self._manifest.publish(
            number=cut.number,
            position=cut.line.position,
            source={"transaction": cut.transaction, "file": cut.file, "pos": cut.pos, "lsn": cut.lsn},
            ts_ms=cut.ts_ms,
            tables=tables,
            note=json.dumps(cut.note(), separators=(",", ":")),
            txn=(f"{self._app_id}:manifest", cut.number),
        )
        self._reached("published")
        self._entries, self._published_at_s = tables, self._now_s()
        self._marks.say(note, "settled", at_once=bool(note["positions"]))
        for topic, one in taken.items():
            self._merger.was_cut(topic, one.left, landed.to)
        for one_applied in applied:
            self._progress.merge(one_applied, lot=cut.line.lots.get(one_applied.topic, -1))
        self._progress.say(
            "cut",
            number=cut.number,
            transaction=cut.transaction,
            position=list(cut.line.position),
            source_ts_ms=cut.ts_ms,
            seconds=round(time.monotonic() - began_s, 3),
            tables=len(tables),
            incomplete=sorted(name for name, entry in tables.items() if not entry.complete),
        )

    def _counts(self, cut: Cut, landed: _Landed) -> dict[str, _Counts]:
        """By topic; the transaction topic too, of which only what is left matters."""
        counts = {topic: _Counts(left={}) for topic in landed.shares}
        within = _within(cut.line)
        taken = within & ~_merged_before(cut)
        nothing = F.lit(0).cast("long")
        told = landed.told.groupBy(F.lit(self._topic).alias("topic"), LOT).agg(
            nothing.alias("taken"),
            F.count_if(_after(cut.line.place)).alias("left"),
            F.lit(None).cast("long").alias("dumped_ms"),
            nothing.alias("logged"),
        )
        rows = landed.rows.groupBy("topic", LOT).agg(
            F.count_if(taken).alias("taken"),
            F.count_if(~within).alias("left"),
            F.max(F.when(taken & (F.col(OP) == "r"), F.unix_millis("timestamp"))).alias("dumped_ms"),
            F.count_if(taken & F.col(TX).isNotNull()).alias("logged"),
        )
        for row in rows.unionByName(told).collect():
            one = counts[row["topic"]]
            one.taken += row["taken"]
            one.logged |= row["logged"] > 0
            one.dumped_ms = max((ms for ms in (one.dumped_ms, row["dumped_ms"]) if ms is not None), default=None)
            if row["left"]:
                one.left[row[LOT]] = row["left"]
        return counts

    def _merge(self, cut: Cut, topic: str, landed: _Landed, counts: _Counts, txn: Txn, *, repeated: bool) -> Applied | None:
        """One table, up to the cut."""
        if self._merger.ending:
            msg = "the job is being stopped; the cut is finished at the next start"
            raise TransientError(msg)
        merged = cut.merged_before(topic)
        raw = landed.raw.where((F.col("topic") == topic) & (F.col(LOT) <= cut.line.lots.get(topic, -1)))
        shares = [landed.shares[topic]]
        if counts.left or landed.first[topic] <= merged.lots.get(topic, -1) or cut.line.lots.get(topic, -1) < landed.lots[topic]:
            raw = (
                placed(raw, landed.envelopes[topic], (LOT, *HEADED)).where(_within(cut.line) & ~_merged(merged, topic)).select(LOT, *HEADED)
            )
            shares = inventory(raw)
        applied = None
        with self._merger.alone(topic):
            if cut.before == BEFORE_ALL and (mended := self._merger.mend(topic)) >= landed.first[topic]:
                raw = raw.where(F.col(LOT) > mended)
                shares = inventory(raw)
            for share in shares:
                applied = self._applier.apply(share, raw, txn, log_marks=self._marks.log_marks(topic), repeated=repeated)
        return applied

    def _done(
        self, cut: Cut, landed: _Landed, taken: Mapping[str, _Counts], parked: Collection[str], applied: Sequence[Applied]
    ) -> dict[str, Any]:
        """What the marks must know when the cut is published."""
        settled = {}
        for topic, one in taken.items():
            upto = landed.lots[topic]
            settled[topic] = min(one.left) - 1 if one.left else upto
        lacking = {topic: reason for topic, reason in cut.lacking.items() if reason != APPLIED and topic not in parked}
        in_log = [topic for topic, one in taken.items() if one.logged and topic not in cut.lacking and topic in self._marks.state.late]
        return {
            "cut_done": cut.number,
            "settled": settled,
            "held": {topic: cut.merged_before(topic).note() for topic in parked},
            "dumped": {topic: one.dumped_ms for topic, one in taken.items() if one.dumped_ms is not None},
            "lacking": dict.fromkeys(lacking, cut.kafka_ms or 0),
            "late": dict.fromkeys(in_log),
            **notes_of(applied),
        }

    def _tables(self, cut: Cut, note: Mapping[str, Any], written: Collection[str], parked: Collection[str]) -> dict[str, Entry]:
        """What the manifest says of each table."""
        state = self._marks.state
        reasons = self._merger.parked()
        undumped = self._undumped(cut.line.position)
        found: dict[str, Entry] = {}
        for topic in sorted({*state.targets, *note["targets"]}):
            name = self._name(topic)
            known = self._entries.get(name)
            if topic in parked:
                if known is not None and self._readable(topic, known):  # of what it has now a part may be of this cut
                    found[name] = replace(known, complete=False, reason=f"parked: {reasons.get(topic, 'a moment ago')}")
                continue
            age_h = (self._now_s() - self._committed_ms.get(topic, 0) / 1000.0) / 3600.0
            if known is None or topic in written or topic not in self._kept_tables or promise.rests(age_h):
                opened = self._applier.found(topic, self._session)
                if opened is None:
                    continue
                target = opened.target
                # Before a commit of ours, that of a table which rests among them: else the log ends one day between the last look and the next.
                try:
                    looked = self._applier.looked(topic, target, self._marks.log_marks(topic), self._session)
                except DefiniteError as e:
                    log.warning("%s", e)
                    if known is not None and self._readable(topic, known):
                        found[name] = replace(known, complete=False, reason="somebody restored an older version of the table")
                    continue
                self._marks.say({"versions": {topic: list(looked)}}, "marked", at_once=False)
                keep_h: float = self._settings["manifest.keep.h"]
                targets.kept(self._session, target.path, keep_h=keep_h, now_s=self._now_s(), refresh=True)
                self._kept_tables.add(topic)
                version, self._committed_ms[topic] = targets.version_of(self._session, target.path)
                known = Entry(path=target.path, version=version, mode=targets.OPTION_OF[target.mode], complete=True)
            reason = self._not_complete(cut, note, topic) or undumped.get(topic)
            found[name] = replace(known, complete=reason is None, reason=reason)
        return found

    def _readable(self, topic: str, entry: Entry) -> bool:
        """Whether the table's version in the last cut, which need not be its newest, can be read as long as a cut of now is kept; what that needs is set. It
        cannot where the table is gone.
        """
        if topic not in self._committed_ms:
            committed_ms = targets.committed_ms(self._session, entry.path, entry.version)
            if committed_ms is None:
                return False
            self._committed_ms[topic] = committed_ms
        if not DeltaTable.isDeltaTable(self._session, entry.path):
            return False
        keep_h: float = self._settings["manifest.keep.h"]
        targets.kept(self._session, entry.path, keep_h=keep_h, now_s=self._now_s(), since_ms=self._committed_ms[topic])
        return True

    def _not_complete(self, cut: Cut, note: Mapping[str, Any], topic: str) -> str | None:
        state = self._marks.state
        if topic in cut.lacking:
            return cut.lacking[topic]
        dumped = max(state.dumped.get(topic, -1), note["dumped"].get(topic, -1))
        lacking = max(state.lacking.get(topic, -1), note["lacking"].get(topic, -1))
        if lacking >= 0 and dumped <= lacking:
            return "records of the source never came; dump the table again"
        if dumped >= 0 and (cut.kafka_ms is None or dumped >= cut.kafka_ms):
            return "rows of a dump, or what was done beside the cuts (resume, replay, merges before there was a manifest), may lie behind the cut"
        return None

    def _name(self, topic: str) -> str:
        spec = self._settings.table(topic)
        return topic if spec is None else spec.name


def _named_as(cut: Cut, last: Cut) -> Cut:
    """The cut under the name of the one before: nothing of the log came between."""
    return replace(cut, transaction=last.transaction, ts_ms=last.ts_ms, kafka_ms=last.kafka_ms, file=last.file, pos=last.pos, lsn=last.lsn)


def _place(given: Row | None) -> Place | None:
    return None if given is None else (int(given[0]), int(given[1]))


def _within(line: Line) -> Column:
    """The record lies at or below the line. One that has no position is no readable row: it waits for nothing."""
    one, two = line.position
    below = (F.col(SEQ1) < one) | ((F.col(SEQ1) == one) & (F.col(SEQ2) <= two))
    if line.open:
        below &= ~F.coalesce(F.col(TX).isin(list(line.open)), F.lit(False))
    return F.coalesce(below, F.lit(True))


def _merged(line: Line, topic: str) -> Column:
    """The topic's record was merged by the cut of this line, or one before it."""
    return (F.col(LOT) <= line.lots.get(topic, -1)) & _within(line)


def _merged_before(cut: Cut) -> Column:
    """The same for records of all topics."""
    lots = {topic: lot for topic, lot in cut.before.lots.items() if topic not in cut.held}
    merged = F.coalesce(F.col(LOT) <= looked_up(lots).cast("long"), F.lit(False)) & _within(cut.before)
    for topic, line in cut.held.items():
        merged |= (F.col("topic") == topic) & _merged(line, topic)
    return merged


def _after(place: Place) -> Column:
    """The record of the transaction topic stands after the place."""
    return (F.col(LOT) > place[0]) | ((F.col(LOT) == place[0]) & (F.col("offset") > place[1]))


def _upto(at: Column, place: Place) -> Column:
    return (at[LOT] < place[0]) | ((at[LOT] == place[0]) & (at["offset"] <= place[1]))


def _below(at: Column, place: Place) -> Column:
    return (at[LOT] < place[0]) | ((at[LOT] == place[0]) & (at["offset"] < place[1]))
