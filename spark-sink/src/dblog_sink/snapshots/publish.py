"""Publishes consistent snapshots: chooses one, merges every table up to it, names the versions.

``measure.py`` counts with Spark and ``rule.py`` decides; this module carries the decision out. The
snapshot is recorded ("snapshot_chosen"). Each table is merged up to it, in parallel and by the code
that merges batches. The manifest names the versions ("published"), and the control table records
the progress of the tables ("merged_recorded"). A recorded snapshot is carried out before anything
else and without change, however often the process ends meanwhile, since every commit for it carries
its number (I8). All the time readers see the versions of the last published snapshot.

A batch with a record above the snapshot still waits and is read again. A record is merged for one
snapshot only: the frontier of the snapshot before shows which records were merged.

The parked tables that a snapshot leaves out are determined once and recorded with it, because a
command may resume a table at any moment. A table that was in a snapshot for one step and not for
another would lose what landed while it was parked.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.batches import schedule
from dblog_sink.batches.landing import SEQUENCE
from dblog_sink.batches.merge_by_batches import MergeByBatches
from dblog_sink.batches.parts import Parts
from dblog_sink.batches.schedule import LandedBatch
from dblog_sink.batches.table_notes import must_be_written, notes_of
from dblog_sink.delta import retention
from dblog_sink.delta import target as targets
from dblog_sink.delta.merge import Txn
from dblog_sink.errors import DefiniteError, TransientError
from dblog_sink.kafka.source import reads
from dblog_sink.records.log_positions import with_positions
from dblog_sink.schema.wire_format import WITH_SCHEMA_IDS
from dblog_sink.snapshots import rule
from dblog_sink.snapshots.blockage import Blockage
from dblog_sink.snapshots.conditions import at_or_below, merged
from dblog_sink.snapshots.entries import DumpedSince, Entries
from dblog_sink.snapshots.manifest import Manifest
from dblog_sink.snapshots.measure import Landed, SnapshotMeasure, TopicCounts, Transactions
from dblog_sink.snapshots.rule import BlockedBy, Decision, Facts, Incomplete, Previous, Quiet, Verdict, judge
from dblog_sink.snapshots.waivers import Rest, TopicOffsets, Waivers
from dblog_sink.state.notes import (
    APPLIED,
    DumpMerged,
    KnownLate,
    MergedUpTo,
    MergedWithoutSnapshots,
    Note,
    RecordsMissing,
    SnapshotChosen,
    SnapshotPublished,
    decode_snapshot,
    encode_snapshot,
)
from dblog_sink.state.snapshot import BEFORE_ALL, Position, Snapshot
from dblog_sink.tables.modes.work import Applied
from dblog_sink.tables.profile import profile

log = logging.getLogger(__name__)


class SnapshotPublisher:
    """The maker of snapshots, one at a time."""

    def __init__(
        self,
        session: SparkSession,
        parts: Parts,
        *,
        by_batches: MergeByBatches,
        manifest: Manifest,
        offsets: TopicOffsets,
        dumps_incomplete: Callable[[Position, Mapping[str, int]], Mapping[str, str]],
        dumped_since: DumpedSince,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._session = session
        self._settings = parts.settings
        self._applier = parts.applier
        self._landing = parts.landing
        self._control = parts.control
        self._book = parts.book
        self._progress = parts.progress
        self._failures = parts.merge_failures
        self._ending = parts.ending
        self._reached = parts.reached
        self._by_batches = by_batches
        self._manifest = manifest
        self._now_s = now_s
        self._topic: str = parts.settings["topics.transaction"] or ""
        self._measure = SnapshotMeasure(parts.landing, parts.applier, self._topic)
        self._entries = Entries(session, parts, dumps_incomplete=dumps_incomplete, dumped_since=dumped_since, now_s=now_s)
        self._waivers = Waivers(parts.control, offsets)
        self._rest = Rest(offsets)
        self._blockage = Blockage(parts.settings, parts.progress, now_s)
        self._topic_of_collection: dict[str, str | None] = {}
        self._resent_checked = ""
        """Id of the last blocker that was looked up in earlier snapshots."""
        self._recovered = False
        self._last_written: int | None = None
        self._published_at_s: float | None = None

    def publish_next(self) -> bool:
        """Carry out one snapshot. Return False if there was none to carry out."""
        if self._landing.id is None:
            return False
        if not self._recovered:
            self._recover()
            self._recovered = True
        parked = frozenset(self._book.parked())
        unfinished = self._control.state.snapshot_unfinished
        if unfinished is not None:
            log.info("snapshot %d was begun before; it is finished first", unfinished.number)
            since = parked - {*unfinished.left_out}
            parked |= {*unfinished.left_out}
            waiting = self._waiting(parked - {topic for topic in since if self._is_in(unfinished, topic)})
            with self._measure.landed(waiting, max(unfinished.frontier.sequences.values(), default=-1)) as landed:
                self._carry_out(unfinished, landed, parked, began_s=time.monotonic(), repeated=True)
            return True
        waiting = self._waiting(parked)
        if not self._settings.snapshots or not (waiting or self._is_stale()):
            return False
        together = _together(waiting)
        rows_max: int = self._settings["merge.rows.max"]
        while True:
            to, _ = schedule.prefix(together, rows_max)
            everything = to == together[-1].sequence
            began_s = time.monotonic()
            with self._measure.landed(waiting, to) as landed:
                decision = self._decide(landed, parked, everything=everything)
                if isinstance(decision, Snapshot):
                    chosen = replace(decision, left_out=tuple(sorted(parked)))
                    self._control.record([SnapshotChosen(chosen)], "snapshot_chosen", at_once=True)
                    self._carry_out(chosen, landed, parked.union(self._book.parked()), began_s=began_s, repeated=False)
                    return True
            if everything:
                return False
            # A transaction has more rows than that, or a topic lags behind the others.
            rows_max *= 2

    # -- the state --------------------------------------------------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Prepare the state once in a process.

        Take over the manifest's newest snapshot if the control table lacks it, and record the
        tables that were merged without snapshots.
        """
        state = self._control.state
        newest = self._manifest.last()
        if newest is not None:
            number, text, self._entries.known = newest
            self._published_at_s = self._now_s() - 3600.0 * self._manifest.newest_age_h()
            for topic in list(state.table_ids) if self._settings.snapshots else ():
                if (entry := self._entries.known.get(self._settings.table_name(topic))) is not None:
                    self._entries.keep_readable(topic, entry)
            if state.snapshot is None or state.snapshot.number < number:
                log.warning("the control table does not know snapshot %d, which the manifest has; the job goes on from it", number)
                found = decode_snapshot(json.loads(text))
                self._control.record([SnapshotChosen(found), SnapshotPublished(number)], "recorded", at_once=True)
        if not self._settings.snapshots:
            if state.snapshot is not None and not state.merged_without_snapshots:
                self._control.record([MergedWithoutSnapshots(value=True)], "recorded", at_once=True)
        elif state.merged_without_snapshots or (state.snapshot is None and state.table_ids):
            # These tables may show more than the first snapshot. They are complete once a snapshot
            # is later than all that was written before it.
            now_ms = round(self._now_s() * 1000)
            notes: list[Note] = [MergedWithoutSnapshots(value=False)]
            for topic in list(state.table_ids):
                notes += [DumpMerged(topic, now_ms), KnownLate(topic, APPLIED)]
            log.info(
                "from now on tables are merged for snapshots; existing tables are complete in snapshots that are later than the earlier merges"
            )
            self._control.record(notes, "recorded", at_once=True)

    def _is_stale(self) -> bool:
        """Return True if the newest snapshot is so old that newer versions must be published."""
        return self._published_at_s is not None and retention.rests((self._now_s() - self._published_at_s) / 3600.0)

    def _waiting(self, parked: Collection[str]) -> dict[str, list[LandedBatch]]:
        """Return the landed batches that are not merged, by topic, without the parked topics."""
        return {topic: batches for topic, batches in self._book.waiting().items() if topic not in parked}

    def _previous(self, topics: Iterable[str]) -> Previous:
        """Return the state from which the next snapshot continues.

        In case the control table is lost, its number is above that of any snapshot that a table has
        rows of.
        """
        state = self._control.state
        if self._last_written is None:
            asked = {*topics, *state.table_ids}
            self._last_written = max((self._applier.last_written(topic, self._app_id) for topic in asked), default=-1)
        number = max(self._last_written, -1 if state.snapshot is None else state.snapshot.number) + 1
        return Previous(snapshot=state.snapshot, number=number, held=dict(state.held))

    @property
    def _app_id(self) -> str:
        return f"{self._settings['name']}/{self._landing.id}/snapshots"

    # -- the decision -----------------------------------------------------------------------------------------------------------------------

    def _decide(self, landed: Landed, parked: Collection[str], *, everything: bool) -> Decision:
        """Return the next snapshot or the reason for none.

        ``parked`` topics are left out. ``everything`` is True if all other landed records are
        measured.
        """
        previous = self._previous(landed.sequences)
        sequences = {topic: sequence for topic, sequence in landed.sequences.items() if topic != self._topic}
        with self._measure.transactions(landed, previous.frontier) as found:
            facts = self._facts(parked)
            verdict = self._judge(found, facts, previous)
            extent = found.extent(verdict.barrier)
            if everything:
                self._blockage.note(verdict.blocker or (self._nameless(landed) if extent is None else None))
            if extent is None:
                return self._without_transaction(landed, previous, sequences, verdict) if everything else Quiet()
            self._rest.moved()
            missing = self._waived(found, verdict, facts, to=extent.transactions_to)
            snapshot = rule.behind(extent, previous, sequences=sequences, missing=missing)
            if extent.interleaved:
                snapshot = rule.leaving_open(snapshot, found.interleaved(snapshot, verdict.barrier))
            return snapshot

    def _facts(self, parked: Collection[str]) -> Facts:
        return Facts(
            late=dict(self._control.state.late),
            read_to=dict(self._waivers.read_to),
            parked=parked,
            passed=self._settings["manifest.pass"] or frozenset(),
        )

    def _judge(self, found: Transactions, facts: Facts, previous: Previous) -> Verdict:
        topics = {name: topic for name in found.collections() if (topic := self._topic_of(name)) is not None}
        verdict = judge(found.incomplete(topics, facts), facts)
        blocker, before = verdict.blocker, self._blockage.blocker
        if blocker is not None and before is not None and blocker.id == before.id != self._resent_checked:
            # It blocks for the second time. Perhaps an earlier snapshot has it and the source sent
            # a part again.
            self._resent_checked = blocker.id
            verdict = judge(found.incomplete(topics, facts, new_since=previous.frontier), facts)
        if verdict.blocker is not None and verdict.blocker.missing:
            self._waivers.ask(verdict.blocker, found.newest)
        return verdict

    def _topic_of(self, collection: str) -> str | None:
        """Return the topic of a data collection, or None if the job does not read it."""
        if collection not in self._topic_of_collection:
            topic = rule.topic_of(collection, rule.prefix_of(self._topic))
            self._topic_of_collection[collection] = topic if reads(self._session, self._settings, topic) else None
        return self._topic_of_collection[collection]

    def _nameless(self, landed: Landed) -> Incomplete | None:
        """Return a nameless blocker if changes have landed but no transaction has ended, or
        None.
        """
        if not self._measure.has_changes(landed):
            return None
        return Incomplete(id=f"(none in {self._topic}; the source writes it with provide.transaction.metadata=true)", begin=None, end=None)

    def _without_transaction(self, landed: Landed, previous: Previous, sequences: Mapping[str, int], verdict: Verdict) -> Decision:
        next_one = rule.extended(previous, sequences)
        leftover = self._measure.leftover(landed, next_one)
        outcome = rule.without_transaction(leftover, previous, blocked=verdict.blocker is not None, stale=self._is_stale())
        if outcome == "again":
            return next_one
        if outcome == "at rest":
            topics = sorted({topic for topic, _ in self._control.state.high_water_marks} | {self._topic})
            if self._rest.shown(topics, (leftover.position, leftover.dumped)):
                return rule.extended(previous, sequences, leftover.position)
            return Quiet()
        self._rest.moved()
        return Quiet() if verdict.blocker is None else BlockedBy(verdict.blocker)

    def _waived(self, found: Transactions, verdict: Verdict, facts: Facts, *, to: tuple[int, int]) -> dict[str, str]:
        """Return topics whose records are missing in the snapshot and were waived, with the reason.

        Each waiver is logged.
        """
        reasons: dict[str, str] = {}
        for topic, count, one in found.waived(to):
            reason = reasons[topic] = "the table is parked" if topic in facts.parked else facts.late[topic]
            log.warning(
                "%s: records of %d transactions (%s) are missing in this snapshot: %s", self._settings.table_name(topic), count, one, reason
            )
        for transaction, by_topic in verdict.waived:
            for topic, reason in by_topic.items():
                reasons[topic] = reason
                log.warning(
                    "%s: %d records of transaction %s are missing in this snapshot: %s",
                    self._settings.table_name(topic),
                    transaction.missing[topic],
                    transaction.id,
                    reason,
                )
            if transaction.end is None:
                log.warning("transaction %s has no END: manifest.pass names it", transaction.id)
        return reasons

    # -- carrying out -----------------------------------------------------------------------------------------------------------------------

    def _carry_out(self, snapshot: Snapshot, landed: Landed, left_out: Collection[str], *, began_s: float, repeated: bool) -> None:
        """Merge and publish a recorded snapshot.

        ``left_out`` has the topics that the snapshot names and those parked since.
        """
        counts = self._measure.counts(landed, snapshot)
        parked = set(left_out)
        applied = self._merge_all(snapshot, landed, counts, parked, repeated=repeated)
        for topic in sorted(parked & landed.schemas.keys() - {*snapshot.left_out}):
            if self._is_in(snapshot, topic):
                applied.append(self._done(snapshot, landed, topic, counts[topic]))
                parked.discard(topic)
        taken = {topic: one for topic, one in counts.items() if topic not in parked}
        written = notes_of(applied)
        notes = [*self._outcome(snapshot, landed, taken, parked), *written]
        tables = self._entries.of(snapshot, notes, {one.topic for one in applied}, parked)
        self._manifest.publish(
            snapshot,
            tables=tables,
            note=json.dumps(encode_snapshot(snapshot), separators=(",", ":")),
            txn=(f"{self._app_id}:manifest", snapshot.number),
        )
        self._reached("published")
        self._entries.known, self._published_at_s = tables, self._now_s()
        # With the manifest switched off, batches may be applied at once from here on. A batch that
        # is repeated after a crash must not land then, as it would while a snapshot is unfinished.
        at_once = must_be_written(written) or not self._settings.snapshots
        self._control.record(notes, "merged_recorded", at_once=at_once)
        for topic, one in taken.items():
            self._book.merged(topic, _read_to(snapshot, landed, topic), one.left)
        for one_applied in applied:
            self._progress.merge(one_applied, sequence=snapshot.frontier.sequences.get(one_applied.topic, -1))
        self._progress.emit(
            "snapshot",
            number=snapshot.number,
            transaction=snapshot.transaction,
            position=list(snapshot.frontier.position),
            source_ts_ms=snapshot.ts_ms,
            seconds=round(time.monotonic() - began_s, 3),
            tables=len(tables),
            incomplete=sorted(name for name, entry in tables.items() if not entry.complete),
        )

    def _merge_all(
        self, snapshot: Snapshot, landed: Landed, counts: Mapping[str, TopicCounts], parked: set[str], *, repeated: bool
    ) -> list[Applied]:
        """Merge every table that the snapshot changes, in parallel.

        A table that is parked for its failure is added to ``parked``.
        """
        works: dict[str, Future[Applied | None]] = {}
        with ThreadPoolExecutor(max_workers=self._settings["merge.threads"], thread_name_prefix="dblog-snapshot") as threads:
            for topic in sorted(landed.schemas, key=lambda topic: -landed.stats[topic].records):
                sequence = snapshot.frontier.sequences.get(topic, -1)
                fresh = sequence > snapshot.merged_before(topic).sequences.get(topic, -1)
                stats = landed.stats[topic]
                unreadable = stats.nulls or stats.value_schema_ids.keys() - landed.schemas[topic].keys()
                if topic not in parked and (counts[topic].taken or (fresh and unreadable)):
                    works[topic] = threads.submit(self._merge, snapshot, topic, landed, counts[topic], repeated=repeated)
            wait(works.values())
        applied, failures = [], []
        for topic, work in works.items():
            error = work.exception()
            if error is None:
                self._failures.forget(topic)
                result = work.result()
                if result is not None:
                    applied.append(result)
            elif isinstance(error, Exception) and not self._ending.is_set() and self._failures.judge(topic, error) == "park":
                self._book.park(topic, str(error).splitlines()[0])
                parked.add(topic)
            else:
                failures.append(error)
        if failures:
            raise min(failures, key=lambda e: not isinstance(e, DefiniteError))
        return applied

    def _merge(self, snapshot: Snapshot, topic: str, landed: Landed, counts: TopicCounts, *, repeated: bool) -> Applied | None:
        """Merge one table up to the snapshot."""
        if self._ending.is_set():
            msg = "the job is being stopped; the snapshot is finished at the next start"
            raise TransientError(msg)
        txn = Txn(self._app_id, snapshot.number)
        before = snapshot.merged_before(topic)
        sequence = snapshot.frontier.sequences.get(topic, -1)
        raw = landed.raw.where((F.col("topic") == topic) & (F.col(SEQUENCE) <= sequence))
        profiled = [landed.stats[topic]]
        if counts.left or landed.first[topic] <= before.sequences.get(topic, -1) or sequence < landed.sequences[topic]:
            positions = with_positions(raw, landed.schemas[topic], (SEQUENCE, *WITH_SCHEMA_IDS))
            raw = positions.where(at_or_below(snapshot.frontier) & ~merged(before, topic)).select(SEQUENCE, *WITH_SCHEMA_IDS)
            profiled = profile(raw, self._applier.logs.highs)
        applied = None
        with self._book.alone(topic):
            if snapshot.before == BEFORE_ALL and (recovered := self._by_batches.recover(topic)) >= landed.first[topic]:
                raw = raw.where(F.col(SEQUENCE) > recovered)
                profiled = profile(raw, self._applier.logs.highs)
            for stats in profiled:
                applied = self._applier.apply(stats, raw, txn, log_ends=self._control.log_ends(topic), repeated=repeated)
        return applied

    def _is_in(self, snapshot: Snapshot, topic: str) -> bool:
        """Return True if a table that was parked after the snapshot was chosen has its commit.

        Only tables in append mode and unknown tables are checked: the next snapshot would append
        the same rows under its own number. Other tables may get a row twice.
        """
        state = self._control.state
        appending = topic in state.appending or topic not in state.table_ids
        return appending and self._applier.is_written(topic, Txn(self._app_id, snapshot.number))

    def _done(self, snapshot: Snapshot, landed: Landed, topic: str, counts: TopicCounts) -> Applied:
        """Return the result of a table whose commit exists although its merge failed afterwards."""
        opened = self._applier.found(topic, self._session)
        assert opened is not None
        target = opened.target
        return Applied(
            table=target.name,
            topic=topic,
            records=counts.taken,
            path="done",
            rows=target.rows,
            table_id=target.id,
            appending=target.mode == targets.APPEND,
            positions=self._measure.log_ends(landed, snapshot, topic),
        )

    def _outcome(self, snapshot: Snapshot, landed: Landed, taken: Mapping[str, TopicCounts], parked: Collection[str]) -> list[Note]:
        """Return the notes to record when the snapshot is published."""
        # A held table that was resumed stays held until some of it was read: the range measured for
        # a snapshot may end before its first batch.
        held = {*parked, *(topic for topic in snapshot.held if topic not in taken)}
        notes: list[Note] = [SnapshotPublished(snapshot.number, {topic: snapshot.merged_before(topic) for topic in sorted(held)})]
        for topic, one in taken.items():
            notes.append(MergedUpTo(topic, min([_read_to(snapshot, landed, topic), *(sequence - 1 for sequence in one.left)])))
            if one.dumped_ms is not None:
                notes.append(DumpMerged(topic, one.dumped_ms))
            if one.logged and topic not in snapshot.missing and topic in self._control.state.late:
                notes.append(KnownLate(topic, None))
        notes += [
            RecordsMissing(topic, max(snapshot.kafka_ms or 0, snapshot.ended_ms or 0), snapshot.frontier.position)
            for topic, reason in snapshot.missing.items()
            if reason != APPLIED and topic not in parked
        ]
        return notes


def _read_to(snapshot: Snapshot, landed: Landed, topic: str) -> int:
    """Return the topic's last batch that the snapshot has read, -1 for none.

    The transaction topic, which has no table, is read as far as it was measured.
    """
    if topic not in landed.schemas:
        return landed.sequences[topic]
    return min(landed.sequences[topic], snapshot.frontier.sequences.get(topic, -1))


def _together(waiting: Mapping[str, Sequence[LandedBatch]]) -> list[LandedBatch]:
    """Return the batches of all topics, each once, with the rows of all topics."""
    rows: dict[int, int] = {}
    for batches in waiting.values():
        for one in batches:
            rows[one.sequence] = rows.get(one.sequence, 0) + one.rows
    return [LandedBatch(sequence, count, 0.0) for sequence, count in sorted(rows.items())] or [LandedBatch(-1, 0, 0.0)]
