"""One micro-batch of many topics: read once, sorted out by topic; each table is brought up to date in a thread of its own, or lands.

What comes out is a function of the batch's Kafka offsets alone: nothing below depends on order of arrival or on who runs it. A repeated batch meets the
same rows under the same transaction ids (I8); a mirror may land in one attempt and be applied in the other, a list of changes takes the way that it took.
A table that fails does not stop the others of the batch; then the batch fails as a whole, its offsets are not committed, and the next attempt finds the
finished tables done.

Records at or below the high-water mark of their topic partition were applied before, by another checkpoint: they are left out (the third guard).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink import plan, source
from dblog_sink.apply import Applier, Share, inventory
from dblog_sink.arrivals import Arrivals
from dblog_sink.config import Settings
from dblog_sink.cuts import EXPIRED
from dblog_sink.errors import DefiniteError, TransientError
from dblog_sink.frames import headed
from dblog_sink.landing import Landing
from dblog_sink.marks import Marks
from dblog_sink.merge import Txn
from dblog_sink.merger import Merger, notes_of
from dblog_sink.modes.work import Applied
from dblog_sink.progress import Progress
from dblog_sink.quarantine import Quarantine
from dblog_sink.session import fit

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.1
_TASK_RECORDS = 100_000
"""Of a batch over many topic partitions: fewer are not worth a task, of which every job on the batch would have as many as there are partitions."""
_STOP_WAIT_S = 10.0

TopicIds = Callable[[Collection[str]], dict[str, str]]
"""The id that Kafka gave each topic when it was made; a topic made anew has another one."""


class BatchWriter:
    """The foreachBatch function. ``running`` is held while a batch is being written: whoever holds it stops the query between batches, having said so by
    ``stopped``.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        applier: Applier,
        quarantine: Quarantine,
        landing: Landing,
        marks: Marks,
        merger: Merger,
        arrivals: Arrivals,
        progress: Progress,
        generation: Callable[[DataFrame], str],
        topic_ids: TopicIds,
    ) -> None:
        self._settings = settings
        self.applier = self._applier = applier
        self.quarantine = quarantine
        self._landing = landing
        self.marks = self._marks = marks
        self._merger = merger
        self.arrivals = self._arrivals = arrivals
        self._progress = progress
        self._generation = generation
        self._topic_ids = topic_ids
        self._ids: dict[str, str] = {}
        self._threads = ThreadPoolExecutor(max_workers=settings["merge.threads"], thread_name_prefix="dblog-table")
        self._same_target: dict[str, bool] = {}
        self._expired_group = -1
        self._tried: int | None = None
        self._attempts: dict[str, int] = {}
        self.running = threading.Lock()
        self.stopped = threading.Event()
        self.batches_done = 0
        self.last_batch_id = -1
        self.failure: Exception | None = None

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write one batch; raises if any table could not be written."""
        self._begin()
        try:
            if self._merger.failure is not None:
                raise self._merger.failure
            with self._merger.batch():
                self._write(frame, batch_id)
            self.batches_done += 1
            self.last_batch_id = batch_id
        except Exception as e:
            self.failure = e
            self._applier.forget()
            raise
        finally:
            self.running.release()

    def _begin(self) -> None:
        """Wait for the turn. A query that is being stopped begins no batch: its stop waits for the thread that called us."""
        while not self.stopped.is_set():
            if self.running.acquire(timeout=_LOOK_EVERY_S):
                if not self.stopped.is_set():
                    return
                self.running.release()
        msg = "the query is being stopped"
        raise TransientError(msg)

    def paths(self) -> dict[str, str]:
        """Every Delta table that the job writes, by its name (``config.Settings.paths``)."""
        return self._settings.paths(self._marks.state.targets)

    def look(self) -> None:
        """Note up to where every table's history was looked at; what is wrong with one is told in its turn."""
        noted = {}
        for topic in self._marks.state.targets:
            with suppress(DefiniteError):
                looked = self._applier.seen(topic, self._marks.log_marks(topic))
                if looked is not None:
                    noted[topic] = list(looked)
        if noted:
            self._marks.say({"versions": noted}, "marked", at_once=True)

    def close(self, *, wait_s: float = _STOP_WAIT_S) -> None:
        """End the threads, a merge that runs after ``wait_s`` at the latest; what has landed stays for the next start."""
        self.abandon(wait_s=wait_s)
        self._marks.flush()

    def abandon(self, *, wait_s: float = _STOP_WAIT_S) -> None:
        """End the threads and write down nothing."""
        self._merger.stop(wait_s=wait_s)
        self._threads.shutdown(wait=True)

    def _write(self, frame: DataFrame, batch_id: int) -> None:
        started_s = time.monotonic()
        query_id = self._generation(frame)
        first = query_id not in self._marks.state.generations and query_id not in self._landing.generations()
        if first and batch_id == 0 and not self._marks.state.partitions and self._settings["topics.start"] == "earliest":
            self._marks.say({"counting": True}, "marked", at_once=False)
        number = self._marks.generation(query_id, self._generations)
        self._landing.number(query_id, number)
        lot = plan.lot(number, batch_id)
        if first:  # the checkpoint's very first batch: its number was noted just now, before anything else
            self._tried = lot - 1
        app_id = f"{self._settings['name']}/{query_id}"
        ahead = source.ahead(frame)
        fit(frame.sparkSession, ahead.records_max)
        raw = headed(_gathered(frame, ahead)).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            fresh, shares, resent = self._fresh(raw, self._wanted(raw))
            fit(frame.sparkSession, max((share.records for share in shares), default=0))
            markers = [share for share in shares if self._arrivals.of_markers(share.topic)]
            shares = [share for share in shares if not self._excluded(share.topic) and share not in markers]
            # Before the tables: their records may be those of after a change that another topic tells of.
            shares = [share for share in shares if self._settings.table(share.topic) is not None or not self._only_told(share, fresh)]
            txn = Txn(app_id, batch_id)
            applied = self._sorted_out(fresh, shares, lot, query_id, txn)
            self._arrivals.count(fresh, shares, markers, lot, txn)
        finally:
            raw.unpersist()
        self._mark([*shares, *markers], applied)
        if plan.group(lot) > self._expired_group:
            self._merger.expire(lot + 1)
            self._expired_group = plan.group(lot)
        records = sum(share.records for share in shares)
        if records or resent:
            self._progress.batch(batch_id, applied, seconds=time.monotonic() - started_s, records=records, resent=resent)

    def _generations(self) -> dict[str, int]:
        """What is known of checkpoints apart from the notes, should those be lost: by query id, or of any that counted rows of dumps."""
        return {"": self._arrivals.book.lot >> plan.GENERATION_SHIFT} | self._landing.generations()

    def _only_told(self, share: Share, raw: DataFrame) -> bool:
        """Note what the records say of the source's schema; whether that is all that there is to them."""
        renames, nothing_else = self._applier.told(share, raw)
        if renames:
            self._marks.say({"renames": renames}, "marked", at_once=True)
        return nothing_else

    def _sorted_out(self, raw: DataFrame, shares: list[Share], lot: int, generation: str, txn: Txn) -> list[Applied]:
        """Land what lands, apply the others side by side."""
        rows = {share.topic: share.records for share in shares}
        # The first batch after a start, and one that failed, may be a repetition.
        landed = None if self._known_new(lot) else self._landing.topics_of(lot)
        if landed is not None:
            self._merger.settle(set(rows) - landed)
        decision = self._merger.claim(rows, landed=landed)
        self._tried = lot
        todo = [share for share in shares if share.topic in set(decision.apply)]
        unfinished = {share.topic for share in todo}
        works: list[tuple[Share, Future[tuple[Applied | None, float]]]] = []
        try:
            land = {topic: rows[topic] for topic in decision.land}
            absent = [topic for topic in land if topic not in (landed or ())]
            commits = [(absent, "landing")] if absent else []
            if landed:  # a second commit of the lot under the same name would be taken for done
                commits = [([topic], f"landing:{topic}") for topic in absent]
            for topics, role in commits:
                count = sum(land[topic] for topic in topics)
                self._landing.append(raw, topics, lot=lot, generation=generation, rows=count, txn=txn.of(role))
            if land:
                self._merger.landed(lot, land)
            works += [(share, self._threads.submit(self._timed, share, raw, txn, repeated=landed is not None)) for share in todo]
            failures = []
            applied = [Applied(table=self._table_name(topic), topic=topic, records=count, path="land") for topic, count in land.items()]
            for share, work in works:
                error = work.exception()
                one, seconds = (None, 0.0) if error is not None else work.result()
                self._merger.release(share.topic, rows=share.records, applied=one, seconds=seconds)
                unfinished.discard(share.topic)
                if error is not None and self._parks(share.topic, error):
                    # Where it failed after its last commit, a list of changes would get all of it twice.
                    if not self._applier.done(share.topic, txn):
                        alone = txn.of(f"landing:{share.topic}")
                        self._landing.append(raw, [share.topic], lot=lot, generation=generation, rows=share.records, txn=alone)
                        self._merger.landed(lot, {share.topic: share.records})
                    self._merger.park(share.topic, str(error).splitlines()[0])
                    name = self._table_name(share.topic)
                    applied.append(Applied(table=name, topic=share.topic, records=share.records, path="parked"))
                elif error is not None:
                    failures.append(error)
                elif one is not None:
                    self._attempts.pop(share.topic, None)
                    applied.append(one)
            if failures:
                # A definite failure first: it is the one that a person must read.
                raise min(failures, key=lambda e: not isinstance(e, DefiniteError))
        finally:
            wait([work for _, work in works])  # nobody else may have a table that is still written
            for topic in unfinished:
                self._merger.release(topic, rows=0, applied=None, seconds=0.0)
        return applied

    def _table_name(self, topic: str) -> str:
        spec = self._settings.table(topic)
        return topic if spec is None else spec.name

    def _parks(self, topic: str, error: BaseException) -> bool:
        """Whether a table that failed is parked now: by its policy, when trying again cannot help or has been tried often enough."""
        spec = self._settings.table(topic)
        if spec is None or not spec.parks(error) or self.stopped.is_set():  # what our own stop broke off is not the table's fault
            return False
        self._attempts[topic] = self._attempts.get(topic, 0) + 1
        return isinstance(error, DefiniteError) or self._attempts[topic] > spec.failure_retries

    def _timed(self, share: Share, raw: DataFrame, txn: Txn, *, repeated: bool) -> tuple[Applied | None, float]:
        started_s = time.monotonic()
        applied = self._applier.apply(share, raw, txn, log_marks=self._marks.log_marks(share.topic), repeated=repeated)
        return applied, time.monotonic() - started_s

    def _known_new(self, lot: int) -> bool:
        return self._tried is not None and lot > self._tried

    def _fresh(self, raw: DataFrame, shares: list[Share]) -> tuple[DataFrame, list[Share], int]:
        """The batch without records that lie at or below their high-water marks, and how many those are: none as long as the checkpoint lives."""
        marks = self._marks.state.partitions
        # A topic below its marks may have been made anew while the job ran: what was known of it is asked again.
        behind = {
            share.topic
            for share in shares
            for at, first in share.first.items()
            if (share.topic, at) in marks and first <= marks[share.topic, at].offset
        }
        asked = [share.topic for share in shares if share.topic in behind or share.topic not in self._ids]
        if asked:
            self._ids.update(self._topic_ids(asked))
            for topic in asked:
                if any(one == topic and mark.topic_id != self._ids[topic] for (one, _), mark in marks.items()):
                    self._marks.made_anew(topic)
        below = []
        for share in shares:
            for partition, first in share.first.items():
                mark = self._marks.state.partitions.get((share.topic, partition))
                if mark is not None and mark.topic_id == self._ids[share.topic] and first <= mark.offset and self._kept(share.topic):
                    below.append((F.col("topic") == share.topic) & (F.col("partition") == partition) & (F.col("offset") <= mark.offset))
        if not below:
            return raw, shares, 0
        fresh = raw.where(~reduce(lambda a, b: a | b, below))
        left = self._wanted(fresh)
        resent = sum(share.records for share in shares) - sum(share.records for share in left)
        log.info("%d records were applied before, by another checkpoint: left out", resent)
        return fresh, left, resent

    def _kept(self, topic: str) -> bool:
        """Whether the target is still the table that the marks speak of: one that was moved away must be filled from the beginning."""
        if topic not in self._same_target:
            self._same_target[topic] = self._applier.table_id(topic) == self._marks.state.targets.get(topic)
            if not self._same_target[topic]:
                log.warning("topic %s: its Delta table was made anew; what the marks say of the former one is void", topic)
        return self._same_target[topic]

    def _mark(self, shares: list[Share], applied: list[Applied]) -> None:
        """Note how far the batch went. At once if a table has no other guard against records that are sent again."""
        if not shares:
            return
        partitions = {
            share.topic: {str(partition): [last, self._ids[share.topic]] for partition, last in share.last.items()} for share in shares
        }
        note = {"partitions": partitions, **notes_of(applied)}
        if self._settings.cuts:
            note["late"] = {share.topic: EXPIRED for share in shares if self._begins_late(share)}
        self._same_target.update(dict.fromkeys(note["targets"], True))
        self._marks.say(note, "marked", at_once=bool(note["positions"]))

    def _wanted(self, raw: DataFrame) -> list[Share]:
        """What the records are, those of topics aside that are none of the job's business."""
        return [share for share in inventory(raw) if not self._excluded(share.topic) or self._arrivals.of_markers(share.topic)]

    def _begins_late(self, share: Share) -> bool:
        """Whether these are the first records that the sink ever met of a partition, and there were others before."""
        known = self._marks.state.partitions
        return any(first > 0 and (share.topic, partition) not in known for partition, first in share.first.items())

    def _excluded(self, topic: str) -> bool:
        return self._settings["topics.exclude"].fullmatch(topic) is not None


def _gathered(frame: DataFrame, ahead: source.Ahead) -> DataFrame:
    """The frame in so many partitions as its records are worth, one for each core at least; Kafka's source makes one of each topic partition."""
    wanted = max(frame.sparkSession.sparkContext.defaultParallelism, ahead.records // _TASK_RECORDS)
    return frame.coalesce(wanted) if ahead.partitions > wanted else frame
