"""Writes one micro-batch: reads it once, splits it by topic, and applies or lands each topic.

Each table is written in a separate thread. The outcome depends only on the batch's Kafka offsets,
not on the order of arrival or on who runs it. A repeated batch has the same rows under the same
transaction ids (I8). A mirror may land in one attempt and be applied in the next; an append-mode
table goes the way of the first attempt. A failed table does not stop the others of the batch, but
the batch as a whole fails and its offsets are not committed; the next attempt finds the finished
tables done.

Records at or below the high-water mark of their topic partition were applied before by another
checkpoint, and are left out (the third guard).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.batches import schedule
from dblog_sink.batches.merge_by_batches import MergeByBatches
from dblog_sink.batches.parts import Parts
from dblog_sink.batches.schedule import Decision
from dblog_sink.batches.scheduler import MergeScheduler
from dblog_sink.batches.table_notes import must_be_written, notes_of
from dblog_sink.delta.merge import Txn
from dblog_sink.delta.session import fit
from dblog_sink.errors import DefiniteError, TransientError
from dblog_sink.kafka import source, trace_headers
from dblog_sink.kafka.data_loss import Offsets
from dblog_sink.reconcile.arrivals import Arrivals
from dblog_sink.records.small_frame import small_frame
from dblog_sink.schema.wire_format import with_schema_ids
from dblog_sink.schema.writer_schemas import ENVELOPE
from dblog_sink.state.notes import EXPIRED, CountedFromStart, HighWaterMark, HistoryChecked, KnownLate, Note
from dblog_sink.tables.modes.work import Applied
from dblog_sink.tables.profile import TopicStats, profile

if TYPE_CHECKING:
    from dblog_sink.observe.traces import Traces

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.1
_TASK_RECORDS = 100_000
"""Number of records worth a task. Without this limit a job on a batch of many topic partitions
would have a task for each of them.
"""
_STOP_WAIT_S = 10.0
_TOPIC_IDS_S = 60.0
"""Interval in seconds at which a running job checks whether its topics were recreated."""

TopicIds = Callable[[Collection[str]], dict[str, str]]
"""Function from topics to Kafka's topic ids. A recreated topic has another id."""
QueryOffsets = Callable[[Collection[str]], tuple[Offsets, Offsets, Offsets]]
"""Function from topics to their first offsets, their ends, and the offsets that the query reads
next.
"""


class BatchWriter:
    """The foreachBatch function.

    ``running`` is held while a batch is written. To stop the query between batches, set ``stopped``
    and acquire it. ``query_id_of`` returns the query id of a batch's frame, which belongs to the
    checkpoint. ``traces`` is None if tracing is off.
    """

    def __init__(
        self,
        parts: Parts,
        *,
        by_batches: MergeByBatches,
        scheduler: MergeScheduler,
        arrivals: Arrivals,
        query_id_of: Callable[[DataFrame], str],
        topic_ids: TopicIds,
        offsets: QueryOffsets,
        traces: Traces | None = None,
    ) -> None:
        self._traces = traces
        self._offsets = offsets
        self._settings = parts.settings
        self._applier = parts.applier
        self._landing = parts.landing
        self._control = parts.control
        self._book = parts.book
        self._progress = parts.progress
        self._by_batches = by_batches
        self._scheduler = scheduler
        self._arrivals = arrivals
        self._query_id_of = query_id_of
        self._topic_ids = topic_ids
        self._rows_in_excluded: dict[str, bool] = {}
        """Topics that topics.exclude matches although they have rows, with True if they are
        read.
        """
        self._ids: dict[str, str] = {}
        self._asked_s = time.monotonic()
        """Time of the last check of the ids of known topics."""
        self._threads = ThreadPoolExecutor(max_workers=parts.settings["merge.threads"], thread_name_prefix="dblog-table")
        self._failures = parts.batch_failures
        self._same_target: dict[str, bool] = {}
        self._expired_group = -1
        self._tried: int | None = None
        """Last batch sequence that this process has tried."""
        self.running = threading.Lock()
        self.stopped = threading.Event()
        self.batches_done = 0
        self.last_batch_id = -1
        self.failure: Exception | None = None

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write one batch. Raise if any table could not be written."""
        self._begin()
        try:
            if self._scheduler.failure is not None:
                raise self._scheduler.failure
            with self._book.batch_running():
                self._write(frame, batch_id)
            self.batches_done += 1
            self.last_batch_id = batch_id
            self._progress.count("batch_ended")
        except Exception as e:
            self.failure = e
            self._progress.count("batch_failed")
            self._applier.tables.forget()
            raise
        finally:
            self.running.release()

    def _begin(self) -> None:
        """Acquire ``running``, or raise if the query is being stopped.

        The stop waits for the thread that called us, so no batch may begin.
        """
        while not self.stopped.is_set():
            if self.running.acquire(timeout=_LOOK_EVERY_S):
                if not self.stopped.is_set():
                    return
                self.running.release()
        msg = "the query is being stopped"
        raise TransientError(msg)

    def paths(self) -> dict[str, str]:
        """Return every Delta table that the job writes by name (``Settings.paths``)."""
        return self._settings.paths(list(self._control.state.table_ids))

    def checked(self) -> dict[str, int]:
        """Return the version up to which each table's commits were checked, by the table's name."""
        return {self._settings.table_name(topic): version for topic, (_, version) in list(self._control.state.history_checked.items())}

    def check_histories(self) -> None:
        """Check the commits of every table and record the versions.

        Faults of a table are reported when it is written.
        """
        topics = list(self._control.state.table_ids)
        with ThreadPoolExecutor(max_workers=self._settings["merge.threads"], thread_name_prefix="dblog-history") as pool:
            notes: list[Note] = [note for note in pool.map(self._history_checked, topics) if note is not None]
        if notes:
            self._control.record(notes, "recorded", at_once=True)

    def _history_checked(self, topic: str) -> HistoryChecked | None:
        """Return a note about a table's commits, or None if there is nothing new."""
        known = self._control.log_ends(topic)
        with suppress(DefiniteError):
            checked = self._applier.check_history(topic, known)
            if checked is not None and checked != (known.table_id, known.version):
                return HistoryChecked(topic, *checked)
        return None

    def close(self, *, wait_s: float = _STOP_WAIT_S) -> None:
        """Stop the threads and record what is not written yet.

        A running merge is interrupted after ``wait_s``. Landed records stay for the next start.
        """
        self.abandon(wait_s=wait_s)
        self._control.flush()

    def abandon(self, *, wait_s: float = _STOP_WAIT_S) -> None:
        """Stop the threads without recording anything."""
        self._scheduler.stop(wait_s=wait_s)
        self._threads.shutdown(wait=True)

    # -- one batch --------------------------------------------------------------------------------------------------------------------------

    def _write(self, frame: DataFrame, batch_id: int) -> None:
        started_s, began_ns, phases = time.monotonic(), time.time_ns(), Phases()
        query_id = self._query_id_of(frame)
        sequence = self._sequence(query_id, batch_id)
        size = source.batch_size(frame)
        fit(frame.sparkSession, size.records_max)
        read = self._read(_gathered(frame, size)).persist(StorageLevel.MEMORY_AND_DISK)
        raw = read if self._traces is None else read.drop(trace_headers.TRACEPARENT)
        try:
            fresh, profiled, resent = self._without_resent(raw, self._wanted(raw))
            fit(frame.sparkSession, max((stats.records for stats in profiled), default=0))
            markers = [stats for stats in profiled if self._arrivals.of_markers(stats.topic)]
            profiled = [stats for stats in profiled if not self._excluded(stats) and stats not in markers]
            # Before the tables, because their records may follow a schema change that another topic
            # reports.
            profiled = [
                stats for stats in profiled if self._settings.table(stats.topic) is not None or not self._only_schema_changes(stats, fresh)
            ]
            txn = Txn(f"{self._settings['name']}/{query_id}", batch_id)
            self._trace(read, profiled, sequence, began_ns)
            phases.ended("read")
            applied = self._sorted_out(fresh, profiled, sequence, query_id, txn)
            phases.ended("write")
            self._arrivals.count(fresh, profiled, markers, sequence, txn)
            phases.ended("count")
        finally:
            read.unpersist()
        self._record([*profiled, *markers], applied)
        if schedule.group(sequence) > self._expired_group:
            self._landing.expire(self._book.first_kept_group(sequence + 1))
            self._landing.thin(*self._book.kept_for_parked(sequence + 1))
            self._expired_group = schedule.group(sequence)
        phases.ended("record")
        records = sum(stats.records for stats in profiled)
        if records or resent:
            seconds = time.monotonic() - started_s
            self._progress.batch(batch_id, applied, seconds=seconds, records=records, resent=resent, phases=phases.seconds)

    def _read(self, frame: DataFrame) -> DataFrame:
        """Return the records with schema ids, and with the trace column if tracing is on."""
        if self._traces is None:
            return with_schema_ids(frame)
        return with_schema_ids(frame.withColumn(trace_headers.TRACEPARENT, trace_headers.traceparent()), trace_headers.TRACEPARENT)

    def _trace(self, read: DataFrame, profiled: Sequence[TopicStats], sequence: int, began_ns: int) -> None:
        """Report the worker's spans in which these records were captured, if tracing is on.

        This takes one more job on cached records.
        """
        if self._traces is None:
            return
        found = trace_headers.steps(read.where(F.col("topic").isin([stats.topic for stats in profiled])))
        self._traces.batch_read(sequence, {self._settings.table_name(topic): steps for topic, steps in found.items()}, began_ns=began_ns)

    def _sequence(self, query_id: str, batch_id: int) -> int:
        """Return the batch sequence.

        The epoch of a new checkpoint is recorded before it is used.
        """
        state = self._control.state
        first = query_id not in state.checkpoint_epochs and query_id not in self._landing.checkpoint_epochs()
        if first and batch_id == 0 and not state.high_water_marks and self._settings["topics.start"] == "earliest":
            self._control.record([CountedFromStart()], "recorded")
        epoch = self._control.checkpoint_epoch(query_id, self._known_epochs)
        self._landing.keep_epoch(query_id, epoch)
        sequence = schedule.sequence_of(epoch, batch_id)
        # This is the checkpoint's first batch: its epoch was recorded just now, before anything
        # else.
        if first:
            self._tried = sequence - 1
        return sequence

    def _known_epochs(self) -> dict[str, int]:
        """Return checkpoint epochs by query id from tables other than the control table.

        They are needed if that is lost. The key is empty for the epoch of the last batch that
        counted dumped rows.
        """
        return {"": self._arrivals.book.sequence >> schedule.CHECKPOINT_EPOCH_SHIFT} | self._landing.checkpoint_epochs()

    def _only_schema_changes(self, stats: TopicStats, raw: DataFrame) -> bool:
        """Record renames that the topic's records report.

        Return True if there are no other records.
        """
        renames, nothing_else = self._applier.schema_changes.read(stats, raw, self._ids[stats.topic])
        if renames:
            self._control.record(renames, "recorded", at_once=True)
        return nothing_else

    def _sorted_out(self, raw: DataFrame, profiled: list[TopicStats], sequence: int, query_id: str, txn: Txn) -> list[Applied]:
        """Land the topics that must land, and apply the others in parallel."""
        rows = {stats.topic: stats.records for stats in profiled}
        # The first batch after a start, and one that failed, may be a repetition.
        landed = None if self._tried is not None and sequence > self._tried else self._landing.topics_of(sequence)
        if self._scheduler.lands_everything(repeated=landed is not None):
            decision = Decision((), tuple(rows))
        else:
            if landed is not None:
                self._by_batches.catch_up(set(rows) - landed)
            decision = self._book.claim(rows, landed=landed)
        self._tried = sequence
        todo = [stats for stats in profiled if stats.topic in set(decision.apply)]
        unfinished = {stats.topic for stats in todo}
        works: list[tuple[TopicStats, Future[tuple[Applied | None, float]]]] = []
        try:
            land = {topic: rows[topic] for topic in decision.land}
            self._land(raw, land, landed, sequence, query_id, txn)
            works += [(stats, self._threads.submit(self._timed, stats, raw, txn, repeated=landed is not None)) for stats in todo]
            failures = []
            applied = [
                Applied(table=self._settings.table_name(topic), topic=topic, records=count, path="land") for topic, count in land.items()
            ]
            for stats, work in works:
                error = work.exception()
                one, seconds = (None, 0.0) if error is not None else work.result()
                self._book.release(stats.topic, rows=stats.records, applied=one, seconds=seconds)
                unfinished.discard(stats.topic)
                if error is not None and self._parks(stats.topic, error):
                    self._park(raw, stats, error, sequence, query_id, txn)
                    name = self._settings.table_name(stats.topic)
                    applied.append(Applied(table=name, topic=stats.topic, records=stats.records, path="parked"))
                elif error is not None:
                    failures.append(error)
                elif one is not None:
                    self._failures.forget(stats.topic)
                    applied.append(one)
            if failures:
                # A DefiniteError comes first, because it needs a person.
                raise min(failures, key=lambda e: not isinstance(e, DefiniteError))
        finally:
            # No other thread may get a table that is still being written.
            wait([work for _, work in works])
            for topic in unfinished:
                self._book.release(topic)
        return applied

    def _land(self, raw: DataFrame, land: dict[str, int], landed: frozenset[str] | None, sequence: int, query_id: str, txn: Txn) -> None:
        """Land these topics, except those that landed in an earlier attempt."""
        absent = [topic for topic in land if topic not in (landed or ())]
        commits = [(absent, "landing")] if absent else []
        # A second commit of the batch under the same name would be taken for done.
        if landed:
            commits = [([topic], f"landing:{topic}") for topic in absent]
        for topics, role in commits:
            count = sum(land[topic] for topic in topics)
            self._landing.append(raw, topics, sequence=sequence, query_id=query_id, rows=count, txn=txn.of(role))
        if land:
            self._book.landed(sequence, land)

    def _parks(self, topic: str, error: BaseException) -> bool:
        # A failure caused by our own stop is not the table's fault.
        return not self.stopped.is_set() and self._failures.judge(topic, error) == "park"

    def _park(self, raw: DataFrame, stats: TopicStats, error: BaseException, sequence: int, query_id: str, txn: Txn) -> None:
        # If it failed after its last commit, an append-mode table would get all rows twice.
        if not self._applier.is_written(stats.topic, txn):
            alone = txn.of(f"landing:{stats.topic}")
            self._landing.append(raw, [stats.topic], sequence=sequence, query_id=query_id, rows=stats.records, txn=alone)
            self._book.landed(sequence, {stats.topic: stats.records})
        self._book.park(stats.topic, str(error).splitlines()[0])

    def _timed(self, stats: TopicStats, raw: DataFrame, txn: Txn, *, repeated: bool) -> tuple[Applied | None, float]:
        started_s = time.monotonic()
        applied = self._applier.apply(stats, raw, txn, log_ends=self._control.log_ends(stats.topic), repeated=repeated)
        return applied, time.monotonic() - started_s

    # -- high-water marks -------------------------------------------------------------------------------------------------------------------

    def _without_resent(self, raw: DataFrame, profiled: list[TopicStats]) -> tuple[DataFrame, list[TopicStats], int]:
        """Remove records at or below their high-water marks.

        Return the other records, their profile, and the number removed. It is 0 as long as the
        checkpoint exists.
        """
        marks = self._control.state.high_water_marks
        # A topic below its marks may have been recreated while the job ran, so its id is checked.
        behind = {
            stats.topic
            for stats in profiled
            for partition, first in stats.first.items()
            if (stats.topic, partition) in marks and first <= marks[stats.topic, partition].offset
        }
        again = time.monotonic() - self._asked_s > _TOPIC_IDS_S
        asked = [stats.topic for stats in profiled if again or stats.topic in behind or stats.topic not in self._ids]
        if asked:
            found = self._topic_ids(asked)
            if again:
                self._asked_s = time.monotonic()
            # Spark continues at the old offset of a recreated topic that has grown past it. The
            # next start finds what was never read.
            made_again = [topic for topic in asked if topic not in behind and self._ids.get(topic, found[topic]) != found[topic]]
            made_again += self._begun_late({topic: found[topic] for topic in asked if topic not in self._ids})
            if made_again:
                msg = f"topic {made_again[0]} was deleted and made again while it was read; the query starts again to read it from its beginning"
                raise TransientError(msg)
            self._ids.update(found)
            for topic in asked:
                if any(one == topic and mark.topic_id != self._ids[topic] for (one, _), mark in marks.items()):
                    self._control.topic_recreated(topic)
        below: list[tuple[str, int, int]] = []
        for stats in profiled:
            for partition, first in stats.first.items():
                mark = marks.get((stats.topic, partition))
                if (
                    mark is not None
                    and mark.topic_id == self._ids[stats.topic]
                    and first <= mark.offset
                    and self._has_same_target(stats.topic)
                ):
                    below.append((stats.topic, partition, mark.offset))
        if not below:
            return raw, profiled, 0
        marked = small_frame(raw.sparkSession, ("topic", "partition", "marked"), below).alias("marked")
        same = [F.col(f"given.{name}") == F.col(f"marked.{name}") for name in ("topic", "partition")]
        fresh = raw.alias("given").join(F.broadcast(marked), [*same, F.col("given.offset") <= F.col("marked.marked")], "left_anti")
        left = self._wanted(fresh)
        resent = sum(stats.records for stats in profiled) - sum(stats.records for stats in left)
        log.info("%d records were applied before, by another checkpoint: left out", resent)
        return fresh, left, resent

    def _begun_late(self, ids: dict[str, str]) -> list[str]:
        """Return recreated topics that are not read from their beginning.

        They were recreated since their high-water marks, and this process has not read them before.
        At a start the checkpoint was led to the beginning of those recreated before it.
        """
        marks = self._control.state.high_water_marks
        former = {partition for partition, mark in marks.items() if mark.topic_id and ids.get(partition[0], mark.topic_id) != mark.topic_id}
        if not former:
            return []
        first, _, read = self._offsets({topic for topic, _ in former})
        late = [topic for topic, partition in former if read.get(topic, {}).get(partition, 0) > first.get(topic, {}).get(partition, 0)]
        return sorted(set(late))

    def _has_same_target(self, topic: str) -> bool:
        """Return True if the target is still the table that the notes describe.

        If a table was moved away, a new one must be filled from the beginning.
        """
        if topic not in self._same_target:
            self._same_target[topic] = self._applier.table_id(topic) == self._control.state.table_ids.get(topic)
            if not self._same_target[topic]:
                log.warning("topic %s: its Delta table is another one than before; the notes about the former one are void", topic)
        return self._same_target[topic]

    def _record(self, profiled: Sequence[TopicStats], applied: list[Applied]) -> None:
        """Record the batch's high-water marks and notes.

        They are written at once if a table has no other guard against records that are sent again,
        or if a topic was recreated. A start that knows only the former topic's id would take what
        was read of the new one for lost.
        """
        if not profiled:
            return
        late = [stats.topic for stats in profiled if self._begins_late(stats)] if self._settings.snapshots else []
        written = notes_of(applied)
        notes: list[Note] = [KnownLate(topic, EXPIRED) for topic in late]
        marks = {
            (stats.topic, partition): HighWaterMark(stats.topic, partition, last, self._ids[stats.topic])
            for stats in profiled
            for partition, last in stats.last.items()
        }
        known = self._control.state.high_water_marks
        again = {at[0] for at, mark in marks.items() if at in known and known[at].topic_id != mark.topic_id}
        # Partitions without a record in this batch are read from their beginning too. Their offset may
        # rise without a record (an aborted transaction), and would be one of the former topic then.
        marks |= {at: HighWaterMark(*at, -1, self._ids[at[0]]) for at in list(known) if at[0] in again and at not in marks}
        self._same_target.update({one.topic: True for one in applied if one.table_id is not None})
        self._control.record([*notes, *marks.values(), *written], "recorded", at_once=bool(again) or must_be_written(written))

    def _begins_late(self, stats: TopicStats) -> bool:
        """Return True if a partition's first records known to the sink do not begin at offset 0."""
        known = self._control.state.high_water_marks
        return any(first > 0 and (stats.topic, partition) not in known for partition, first in stats.first.items())

    # -- which topics -----------------------------------------------------------------------------------------------------------------------

    def _wanted(self, raw: DataFrame) -> list[TopicStats]:
        """Return the profile of the records, without topics that the job does not read."""
        return [
            stats for stats in profile(raw, self._applier.logs.highs) if not self._excluded(stats) or self._arrivals.of_markers(stats.topic)
        ]

    def _excluded(self, stats: TopicStats) -> bool:
        """Return True if topics.exclude leaves the records out.

        A table may have any name, so rows are left out only if an operator chose the pattern.
        """
        topic = stats.topic
        if not self._settings.excludes(topic):
            return False
        if topic not in self._rows_in_excluded:
            named = self._settings.table(topic) is not None and not topic.startswith("__") and not self._arrivals.of_markers(topic)
            if not named or not any(one.kind == ENVELOPE for one in self._applier.row_schemas(stats).values()):
                return True
            self._rows_in_excluded[topic] = self._settings.may_be_table(topic)
            if self._rows_in_excluded[topic]:
                log.info("topic %s holds rows of a table: it is read, although the default of topics.exclude matches its name", topic)
                if any(stats.first.values()) and not self._has_read(topic):
                    log.warning("topic %s: earlier records were skipped: dump its table again", topic)
            else:
                log.warning(
                    "topic %s holds rows of a table, and topics.exclude leaves them out; if they are wanted, change topics.exclude and read the topic "
                    "from its beginning (a new checkpoint.path)",
                    topic,
                )
        return not self._rows_in_excluded[topic]

    def _has_read(self, topic: str) -> bool:
        state = self._control.state
        return topic in state.table_ids or any(one == topic for one, _ in state.high_water_marks)


class Phases:
    """The seconds of a batch's consecutive phases."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._began_s = time.monotonic()

    def ended(self, phase: str) -> None:
        """End a phase and begin the next."""
        now_s = time.monotonic()
        self.seconds[phase], self._began_s = now_s - self._began_s, now_s


def _gathered(frame: DataFrame, size: source.BatchSize) -> DataFrame:
    """Return the frame in as many partitions as its records are worth, at least one for each core.

    Kafka's source makes a partition of each topic partition.
    """
    wanted = max(frame.sparkSession.sparkContext.defaultParallelism, size.records // _TASK_RECORDS)
    return frame.coalesce(wanted) if size.partitions > wanted else frame
