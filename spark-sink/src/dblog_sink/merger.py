"""Tier B: what has landed is merged in threads of its own, while batches go on landing.

``plan.py`` says which table is due; here are the threads, the book of what waits, and the rule that a table is in one place at a time: a
batch that applies a table and a merge of the same table exclude each other. A merge that fails is tried again with pauses; after the
last attempt the job stops, or the table is parked by policy: it is written no more, its records go on landing, and nothing is lost.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame

from dblog_sink import plan
from dblog_sink.apply import Applier, inventory
from dblog_sink.config import Settings
from dblog_sink.errors import DefiniteError
from dblog_sink.landing import Landing
from dblog_sink.marks import Marks
from dblog_sink.merge import Txn
from dblog_sink.modes.work import Applied
from dblog_sink.plan import Decision, Due, Lot, Table
from dblog_sink.progress import Progress

log = logging.getLogger(__name__)

_TICK_S = 0.25
_PAUSE_MAX_S = 60.0
_STOP_WAIT_S = 10.0
_CUT_RETRIES = 5
_LOOKS = 3
"""Looks in a row that find nothing to be cut, before a drain ends: what is forgiven, or seen to rest, is so at the third at the latest."""


def notes_of(applied: Iterable[Applied]) -> dict[str, Any]:
    """What the marks must know of tables that were written."""
    known = [one for one in applied if one.table_id is not None]
    return {
        "targets": {one.topic: one.table_id for one in known},
        "appending": {one.topic: one.appending for one in known},
        "positions": {one.topic: one.positions for one in known if one.positions},
        "versions": {one.topic: [one.table_id, one.version] for one in known if one.version is not None},
    }


class Merger:
    """The book of all tables, and the threads that merge."""

    def __init__(
        self,
        *,
        settings: Settings,
        applier: Applier,
        landing: Landing,
        marks: Marks,
        progress: Progress,
        cancel: Callable[[], None],
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._name: str = settings["name"]
        self._policy = settings.policy
        self._applier = applier
        self._landing = landing
        self._marks = marks
        self._progress = progress
        self._cancel = cancel
        self._now_s = now_s
        self._tables: dict[str, Table] = {}
        self._quiet_since_s: float | None = now_s()
        self._attempts: dict[str, int] = {}
        self._looked: set[str] = set()
        self._turn = threading.Condition()
        self._slots: int = settings["merge.background.threads"]
        self._threads = ThreadPoolExecutor(max_workers=self._slots, thread_name_prefix="dblog-merge")
        self._running = 0
        self._ended = threading.Event()
        self._clock: threading.Thread | None = None
        self.failure: Exception | None = None
        """Why a table could not be merged; the job stops on it."""
        self.cut: Callable[[], bool] | None = None
        """With a manifest: one cut, and whether there was one. All merges are its then; whoever builds the parts sets it."""
        self.uncut: Callable[[str, DataFrame], DataFrame] = lambda _topic, raw: raw
        """A topic's records without those that a cut has merged."""
        self._cutting = False
        self._cut_at_s = 0.0
        self._cut_not_before_s = 0.0
        self._cut_attempts = 0
        for topic, waiting in landing.waiting(marks.state.settled).items():
            self._table(topic).waiting = waiting
        for topic, reason in marks.state.parked.items():
            self._table(topic).parked = reason
            progress.say("parked", table=self._named(topic), topic=topic, reason=reason)

    # -- what a batch asks ----------------------------------------------------------------------------------------------------------

    @contextmanager
    def batch(self) -> Iterator[None]:
        """A batch is written meanwhile: the source is not quiet."""
        self._quiet_since_s = None
        try:
            yield
        finally:
            self._quiet_since_s = self._now_s()

    def claim(self, rows: Mapping[str, int], *, landed: frozenset[str] | None) -> Decision:
        """What becomes of a batch's topics; tables to be applied are the caller's until ``release``.

        ``landed``: this batch may have been tried before, and these topics of it have landed then: they land again, which does nothing. A table
        in append mode, or one of which nothing is known, was applied then, if anything: only on that way its transaction id knows the batch.
        """
        with self._turn:
            known = self._marks.state
            if self._by_cuts(repeated=landed is not None):
                return Decision((), tuple(rows))
            fixed = () if landed is None else [topic for topic in rows if topic not in known.targets or topic in known.appending]
            again = [topic for topic in rows if landed is not None and topic in landed]
            apply = [topic for topic in fixed if topic not in again and self._table(topic).parked is None]
            free = {topic: count for topic, count in rows.items() if topic not in again and topic not in apply}
            decision = plan.decide(free, self._tables, self._policy)
            decision = Decision((*apply, *decision.apply), (*again, *decision.land))
            for topic in decision.apply:
                while self._table(topic).busy:
                    self._turn.wait()
                self._table(topic).busy = True
            return decision

    def release(self, topic: str, *, rows: int, applied: Applied | None, seconds: float) -> None:
        """The batch is done with a table; ``applied`` None: it failed, or had no rows for it."""
        with self._turn:
            table = self._table(topic)
            table.busy = False
            if applied is not None:
                table.rows = applied.rows
                self._learn(table, applied, rows, seconds)
            self._turn.notify_all()

    def settle(self, topics: Iterable[str]) -> None:
        """Merge what waits of tables that a repeated batch will apply although something waits: those in append mode know what they have by the
        position in the log, so a batch must not overtake what landed before it.
        """
        for topic in () if self._by_cuts(repeated=True) else topics:
            with self._turn:
                appending = topic in self._marks.state.appending or topic not in self._marks.state.targets
                table = self._table(topic)
            while appending and table.parked is None and table.waiting:
                with self.alone(topic):
                    if not table.waiting:
                        break
                    to, rows = plan.prefix(table.waiting, self._policy.rows_max)
                    try:
                        self._one(Due(topic, to, rows))
                    except Exception as e:
                        self._looked.discard(topic)
                        if not self.failed(topic, e):
                            raise
                    else:
                        with self._turn:
                            table.waiting = [one for one in table.waiting if one.number > to]

    def _by_cuts(self, *, repeated: bool) -> bool:
        """Whether a batch lands whatever it holds. One that may have been tried without a manifest goes on as it was begun."""
        state = self._marks.state
        return self._policy.cuts and not (repeated and state.cut is None and state.targets)

    def landed(self, lot: int, rows: Mapping[str, int]) -> None:
        """A batch's rows are in the landing table."""
        with self._turn:
            for topic, count in rows.items():
                table = self._table(topic)
                if all(one.number != lot for one in table.waiting) and lot > self._marks.state.settled.get(topic, -1):
                    table.waiting.append(Lot(lot, count, self._now_s()))

    @contextmanager
    def alone(self, topic: str) -> Iterator[None]:
        """Nobody else writes the topic's table meanwhile."""
        with self._turn:
            while self._table(topic).busy:
                self._turn.wait()
            self._table(topic).busy = True
        try:
            yield
        finally:
            self.release(topic, rows=0, applied=None, seconds=0.0)

    def park(self, topic: str, reason: str) -> None:
        """Write the topic's table no more; its records go on landing."""
        with self._turn:
            self._table(topic).parked = reason
        self._marks.say({"parked": {topic: reason}}, "marked", at_once=True)
        self._progress.say("parked", table=self._named(topic), topic=topic, reason=reason)
        log.error("topic %s is parked, its records go on landing: %s", topic, reason)

    def unpark(self, topic: str) -> None:
        """Write the topic's table again, from what has landed since."""
        with self._turn:
            self._table(topic).parked = None
            self._attempts.pop(topic, None)
        note: dict[str, Any] = {"parked": {topic: None}}
        if self._policy.cuts:  # what is missing of it held no cut back meanwhile: it is complete in cuts behind this moment
            note["dumped"] = {topic: round(self._now_s() * 1000)}
        self._marks.say(note, "marked", at_once=True)
        self._progress.say("resumed", table=self._named(topic), topic=topic)
        log.info("topic %s is resumed", topic)

    def topics(self) -> frozenset[str]:
        """Every topic that the sink has ever met."""
        with self._turn:
            return frozenset(self._tables) | {topic for topic, _ in self._marks.state.partitions}

    def rows_waiting(self) -> int:
        """Landed and not merged, parked tables left out."""
        with self._turn:
            return sum(table.rows_waiting for table in self._tables.values() if table.parked is None)

    # -- what a cut asks --------------------------------------------------------------------------------------------------------------

    def waiting(self) -> dict[str, list[Lot]]:
        """What has landed and is not merged, by topic, parked tables included."""
        with self._turn:
            return {table.topic: list(table.waiting) for table in self._tables.values() if table.waiting}

    def parked(self) -> dict[str, str]:
        """Parked topics, and why."""
        with self._turn:
            return {table.topic: table.parked for table in self._tables.values() if table.parked is not None}

    @property
    def ending(self) -> bool:
        """Whether nothing is to begin any more."""
        return self._ended.is_set()

    def mend(self, topic: str) -> int:
        """Note the merge of lots that the table has by its own word; the lot up to which the topic is merged by lots. The caller has the table alone."""
        app_id = f"{self._name}/{self._landing.id}"
        settled = self._marks.state.settled.get(topic, -1)
        begun = self._applier.begun(topic, Txn(app_id, 0))
        if begun > settled:
            self._lots(topic, Txn(app_id, begun), self._landing.records(topic, after=settled, to=begun), repeated=True)
        return max(begun, settled)

    def was_cut(self, topic: str, left: Mapping[int, int], upto: int) -> None:
        """Of the topic's lots up to ``upto`` only ``left`` (rows by lot) still waits."""
        with self._turn:
            self._done(topic, left, upto)

    def _done(self, topic: str, left: Mapping[int, int], upto: int) -> None:
        table = self._table(topic)
        kept = [
            Lot(one.number, left.get(one.number, one.rows), one.at_s) for one in table.waiting if one.number > upto or one.number in left
        ]
        table.waiting = kept

    def failed(self, topic: str, error: Exception) -> bool:
        """Whether a table that failed in a cut, or before the batch that would overtake it, is parked for it now: then these go on without it."""
        with self._turn:
            table = self._table(topic)
            attempt = self._attempts[topic] = self._attempts.get(topic, 0) + 1
            spec = self._settings.table(topic)
            if self._ended.is_set() or (
                not isinstance(error, DefiniteError) and attempt < 1 + (0 if spec is None else spec.failure_retries)
            ):
                return False
            return self._parked_by_policy(table, error)

    # -- merging --------------------------------------------------------------------------------------------------------------------

    def resume(self) -> None:
        """Forget why merging stopped, and try again."""
        with self._turn:
            self.failure = None
            self._attempts.clear()
            self._cut_attempts, self._cut_not_before_s = 0, 0.0

    def start(self) -> None:
        """Begin to merge what is due, until ``stop``."""
        self._clock = threading.Thread(target=self._tick, name="dblog-merger", daemon=True)
        self._clock.start()

    def begin_no_more(self) -> None:
        """Let no further merge begin; those that run go on."""
        self._ended.set()

    def stop(self, *, wait_s: float = _STOP_WAIT_S) -> None:
        """Begin no merge any more, and wait for those that run, but not for long: the next start finds what waits, and repeats what was broken off."""
        self._ended.set()
        if self._clock is not None:
            self._clock.join()
        with self._turn:
            if not self._turn.wait_for(lambda: self._running == 0, timeout=max(0.0, wait_s)):
                log.warning("a merge takes too long to be waited for; it is broken off and will be repeated")
                self._cancel()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def drain(self, stopping: Callable[[], bool] = lambda: False) -> None:
        """Merge everything that has landed, unless asked to stop before; raises what a merge failed with."""
        missed = 0
        while self.failure is None and not stopping():
            if self.cut is not None:
                cutting = self._begin_cut()
                if cutting is None:
                    if self._ended.wait(_TICK_S):
                        return
                    continue
                missed = 0 if cutting.result() or self._cut_attempts else missed + 1
                if missed >= _LOOKS and self._policy.cuts:
                    break  # what waits is of transactions that are not complete
                continue
            with self._turn:
                if not self._running and all(table.parked is not None or not table.waiting for table in self._tables.values()):
                    return
                if not self._begin(plan.due(self._tables.values(), self._policy, now_s=self._now_s(), everything=True)):
                    self._turn.wait(_TICK_S)
        if self.failure is not None:
            raise self.failure

    def expire(self, newest: int) -> None:
        """Drop landed rows that are merged and old; ``newest`` is the lot of the next batch."""
        with self._turn:
            first = plan.expirable(self._tables.values(), newest=newest)
        self._landing.expire(first)

    def _tick(self) -> None:
        while not self._ended.wait(_TICK_S):
            if self.cut is not None:
                if self.failure is None and self._now_s() - self._cut_at_s >= self._settings["manifest.interval.s"]:
                    self._begin_cut()
                continue
            with self._turn:
                if self.failure is None:
                    now_s, since_s = self._now_s(), self._quiet_since_s
                    quiet_s = 0.0 if since_s is None else now_s - since_s
                    self._begin(plan.due(self._tables.values(), self._policy, now_s=now_s, quiet_s=quiet_s))

    def _begin(self, due: Iterable[Due]) -> list[Future[None]]:
        begun = []
        for one in due:
            if self._running >= self._slots:
                break
            self._table(one.topic).busy = True
            self._running += 1
            begun.append(self._threads.submit(self._merge, one))
        return begun

    def _begin_cut(self) -> Future[bool] | None:
        """None: one runs already, or the last one failed a moment ago."""
        with self._turn:
            if self._cutting or self._ended.is_set() or self._now_s() < self._cut_not_before_s:
                return None
            self._cutting = True
            self._running += 1
            self._cut_at_s = self._now_s()
        return self._threads.submit(self._cut)

    def _cut(self) -> bool:
        assert self.cut is not None
        done, error = False, None
        try:
            done = self.cut()
        except Exception as e:  # noqa: BLE001  a thread's failure is judged below
            error = e
        with self._turn:
            self._cutting = False
            self._running -= 1
            if error is None:
                self._cut_attempts = 0
                if not done:  # what waits grows while a transaction holds the cuts back: looking at it takes half of the time at most
                    self._cut_not_before_s = 2 * self._now_s() - self._cut_at_s
                if not done and not self._policy.cuts:
                    self.cut = None  # the last one of a manifest that is kept no more is finished
            elif not self._ended.is_set():
                self._cut_attempts += 1
                if isinstance(error, DefiniteError) or self._cut_attempts > _CUT_RETRIES:
                    self.failure = error
                else:
                    self._cut_not_before_s = self._now_s() + min(0.5 * 2**self._cut_attempts, _PAUSE_MAX_S)
                    log.warning("the cut failed, attempt %d: %s", self._cut_attempts, str(error).splitlines()[0])
            self._turn.notify_all()
        return done

    def _merge(self, due: Due) -> None:
        error: Exception | None = None
        applied: Applied | None = None
        started_s = time.monotonic()
        try:
            applied = self._one(due)
        except Exception as e:  # noqa: BLE001  a thread's failure is judged below
            error = e
        with self._turn:
            table = self._table(due.topic)
            self._running -= 1
            table.busy = False
            if error is None:
                table.waiting = [one for one in table.waiting if one.number > due.to]
                self._attempts.pop(due.topic, None)
                if applied is not None:
                    table.rows = applied.rows
                    self._learn(table, applied, due.rows, time.monotonic() - started_s)
            else:
                self._looked.discard(due.topic)
                if not self._ended.is_set():  # else it was broken off by our own stop, and the table is not to blame
                    self._failed(table, error)
            self._turn.notify_all()
        if error is None and applied is not None:
            self._progress.merge(applied, lot=due.to)

    @staticmethod
    def _learn(table: Table, applied: Applied, rows: int, seconds: float) -> None:
        if applied.path != "done":
            table.learn(rows, seconds, merged=applied.merged > 0)

    def _one(self, due: Due) -> Applied | None:
        app_id = f"{self._name}/{self._landing.id}"
        applied = None
        settled = self._marks.state.settled.get(due.topic, -1)
        if due.topic not in self._looked:
            # The note may lag behind the table: what it has by its own word is told first, for a merge up to another lot would write those rows again.
            begun = self._applier.begun(due.topic, Txn(app_id, due.to))
            if begun > settled:
                raw = self._uncut(due.topic, settled, begun, due.rows)
                applied = self._lots(due.topic, Txn(app_id, begun), raw, repeated=True)
                settled = begun
            self._looked.add(due.topic)
            if begun >= due.to:
                return applied
        return self._lots(due.topic, Txn(app_id, due.to), self._uncut(due.topic, settled, due.to, due.rows), repeated=False)

    def _uncut(self, topic: str, after: int, to: int, rows: int) -> DataFrame:
        return self.uncut(topic, self._landing.records(topic, after=after, to=to, rows=rows))

    def _lots(self, topic: str, txn: Txn, raw: DataFrame, *, repeated: bool) -> Applied | None:
        """Merge the topic's records of lots up to the transaction's."""
        applied = None
        for share in inventory(raw):
            applied = self._applier.apply(share, raw, txn, log_marks=self._marks.log_marks(topic), repeated=repeated)
        tables = [] if applied is None else [applied]
        note = {"settled": {topic: txn.version}, **notes_of(tables)}
        self._marks.say(note, "settled", at_once=bool(note["positions"]))
        return applied

    def _failed(self, table: Table, error: Exception) -> None:
        attempt = self._attempts[table.topic] = self._attempts.get(table.topic, 0) + 1
        spec = self._settings.table(table.topic)
        attempts_max = 1 if spec is None else 1 + spec.failure_retries
        if not isinstance(error, DefiniteError) and attempt < attempts_max:
            table.not_before_s = self._now_s() + min(0.5 * 2**attempt, _PAUSE_MAX_S)
            log.warning("topic %s: merge failed, attempt %d of %d: %s", table.topic, attempt, attempts_max, str(error).splitlines()[0])
            return
        if not self._parked_by_policy(table, error):
            self.failure = error

    def _parked_by_policy(self, table: Table, error: Exception) -> bool:
        spec = self._settings.table(table.topic)
        if spec is None or not spec.parks(error):
            return False
        self.park(table.topic, str(error).splitlines()[0])
        return True

    def _named(self, topic: str) -> str:
        spec = self._settings.table(topic)
        return topic if spec is None else spec.name

    def _table(self, topic: str) -> Table:
        return self._tables.setdefault(topic, Table(topic))
