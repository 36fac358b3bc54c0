"""Keeps the state of all tables: landed batches that wait, current writers, parked tables.

A table has one writer at a time: batches, merges, snapshots, replays and compactions exclude each
other by ``busy``. ``turn`` is the lock of the whole book, and is notified of every change.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from dblog_sink.batches import schedule
from dblog_sink.batches.landing import Landing
from dblog_sink.batches.schedule import Decision, LandedBatch, Table
from dblog_sink.config.job_options import Settings
from dblog_sink.observe.progress import Progress
from dblog_sink.state.control_table import ControlTable
from dblog_sink.state.notes import DumpMerged, Note, Parked, Resumed
from dblog_sink.tables.modes.work import Applied

log = logging.getLogger(__name__)


class TableBook:
    """The tables by topic; threads may share it.

    ``now_s`` is a monotonic clock, the same that the scheduler and its strategies use.
    """

    def __init__(
        self,
        settings: Settings,
        landing: Landing,
        control: ControlTable,
        progress: Progress,
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._control = control
        self._progress = progress
        self._now_s = now_s
        self._quiet_since_s: float | None = now_s()
        self.turn = threading.Condition()
        self.tables: dict[str, Table] = {}
        for topic, waiting in landing.waiting(control.state.merged_up_to, now_s=now_s()).items():
            self.table(topic).waiting = waiting
        for topic, reason in control.state.parked.items():
            self.table(topic).parked = reason
            progress.emit("parked", table=settings.table_name(topic), topic=topic, reason=reason)

    def table(self, topic: str) -> Table:
        """Return the topic's entry, creating it if necessary.

        The caller must hold the lock, unless no other thread runs yet.
        """
        return self.tables.setdefault(topic, Table(topic))

    # -- a batch ----------------------------------------------------------------------------------------------------------------------------

    @contextmanager
    def batch_running(self) -> Iterator[None]:
        """Record inside the block that a batch is being written, so the source is not quiet."""
        self._quiet_since_s = None
        try:
            yield
        finally:
            self._quiet_since_s = self._now_s()

    def quiet_s(self) -> float:
        """Return the seconds since the last batch ended, 0 while one runs."""
        since_s = self._quiet_since_s
        return 0.0 if since_s is None else self._now_s() - since_s

    def claim(self, rows: Mapping[str, int], *, landed: frozenset[str] | None) -> Decision:
        """Decide which topics of a batch are applied and which land; mark the former as busy.

        They belong to the caller until ``release``. ``landed`` is not None if this batch may have
        been tried before; it then has the topics that landed. They land again, which has no effect.
        Another topic whose table is in append mode or unknown is applied: if it was written before,
        only its transaction id for that way guards it.
        """
        with self.turn:
            known = self._control.state
            fixed = () if landed is None else [topic for topic in rows if topic not in known.table_ids or topic in known.appending]
            again = [topic for topic in rows if landed is not None and topic in landed]
            apply = [topic for topic in fixed if topic not in again and self.table(topic).parked is None]
            free = {topic: count for topic, count in rows.items() if topic not in again and topic not in apply}
            decision = schedule.decide(free, self.tables, self._settings.policy)
            decision = Decision((*apply, *decision.apply), (*again, *decision.land))
            for topic in decision.apply:
                self._occupy(topic)
            return decision

    def release(self, topic: str, *, rows: int = 0, applied: Applied | None = None, seconds: float = 0.0) -> None:
        """Release a table. ``applied`` is None if the write failed or had no rows for it."""
        with self.turn:
            self.table(topic).busy = False
            if applied is not None:
                self.learn(applied, rows, seconds)
            self.turn.notify_all()

    def learn(self, applied: Applied, rows: int, seconds: float) -> None:
        """Update the table's state and cost from a write. The caller must hold the lock."""
        table = self.table(applied.topic)
        table.rows = applied.rows
        if applied.path != "done":
            table.learn(rows, seconds, merged=applied.merged > 0)

    def landed(self, sequence: int, rows: Mapping[str, int]) -> None:
        """Record that a batch's rows are in the landing table."""
        with self.turn:
            for topic, count in rows.items():
                table = self.table(topic)
                known = any(one.sequence == sequence for one in table.waiting)
                if not known and sequence > self._control.state.merged_up_to.get(topic, -1):
                    table.waiting.append(LandedBatch(sequence, count, self._now_s()))

    # -- merges -----------------------------------------------------------------------------------------------------------------------------

    @contextmanager
    def alone(self, topic: str) -> Iterator[None]:
        """Own the topic's table inside the block, so that no other thread writes it."""
        with self.turn:
            self._occupy(topic)
        try:
            yield
        finally:
            self.release(topic)

    def merged(self, topic: str, upto: int, left: Mapping[int, int] | None = None) -> None:
        """Record that the topic's batches up to a sequence are merged.

        Only ``left``, rows by batch sequence, still waits.
        """
        left = left or {}
        with self.turn:
            table = self.table(topic)
            table.waiting = [
                LandedBatch(one.sequence, left.get(one.sequence, one.rows), one.at_s)
                for one in table.waiting
                if one.sequence > upto or one.sequence in left
            ]

    def waiting(self) -> dict[str, list[LandedBatch]]:
        """Return landed batches that are not merged, by topic, including parked tables."""
        with self.turn:
            return {table.topic: list(table.waiting) for table in self.tables.values() if table.waiting}

    def rows_waiting(self) -> int:
        """Return the number of rows landed and not merged, without parked tables."""
        with self.turn:
            return sum(table.rows_waiting for table in self.tables.values() if table.parked is None)

    def waited_s(self) -> float | None:
        """Return how long the oldest landed rows have waited for a merge, in seconds.

        Parked tables do not count. Return None if no rows wait.
        """
        with self.turn:
            landed = [one.at_s for table in self.tables.values() if table.parked is None for one in table.waiting]
        return self._now_s() - min(landed) if landed else None

    def first_kept_group(self, newest: int) -> int:
        """Return the first landing group that must stay.

        ``newest`` is the next batch's sequence.
        """
        with self.turn:
            return schedule.expirable(self.tables.values(), newest=newest)

    def kept_for_parked(self, newest: int) -> tuple[int, frozenset[str]]:
        """Return the first landing group that must stay whole, and parked topics with older rows.

        ``newest`` is the next batch's sequence.
        """
        with self.turn:
            return schedule.kept_for_parked(self.tables.values(), newest=newest)

    # -- parking ----------------------------------------------------------------------------------------------------------------------------

    def park(self, topic: str, reason: str) -> None:
        """Stop writing the topic's table; its records go on landing."""
        with self.turn:
            self.table(topic).parked = reason
        # Logged before it is recorded, because the store may be what fails.
        log.error("topic %s is parked, its records go on landing: %s", topic, reason)
        self._progress.emit("parked", table=self._settings.table_name(topic), topic=topic, reason=reason)
        self._control.record([Parked(topic, reason)], "recorded", at_once=True)

    def unpark(self, topic: str) -> None:
        """Resume writing the topic's table, from the records that have landed since."""
        with self.turn:
            self.table(topic).parked = None
        notes: list[Note] = [Resumed(topic)]
        # The table's missing records blocked no snapshot meanwhile; it is complete in later
        # snapshots.
        if self._settings.snapshots:
            notes.append(DumpMerged(topic, round(time.time() * 1000)))
        self._control.record(notes, "recorded", at_once=True)
        self._progress.emit("resumed", table=self._settings.table_name(topic), topic=topic)
        log.info("topic %s is resumed", topic)

    def parked(self) -> dict[str, str]:
        """Return parked topics with the reason."""
        with self.turn:
            return {table.topic: table.parked for table in self.tables.values() if table.parked is not None}

    def topics(self) -> frozenset[str]:
        """Return every topic that the sink has read so far."""
        with self.turn:
            return frozenset(self.tables) | {topic for topic, _ in self._control.state.high_water_marks}

    def _occupy(self, topic: str) -> None:
        while self.table(topic).busy:
            self.turn.wait()
        self.table(topic).busy = True
