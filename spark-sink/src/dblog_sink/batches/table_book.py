"""The book of all tables: what has landed and waits, who writes which table now, which tables are parked.

A table has one writer at a time: a batch that applies a table, a merge, a snapshot, a replay and a compaction exclude each other by ``busy``. ``turn`` is
the lock of everything in the book, and is notified of every change.
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
    """Safe to use from several threads. ``now_s``: a clock that nobody sets back; the scheduler and its strategies read the same one."""

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
        """The topic's page. The caller has the turn, or nobody else runs yet."""
        return self.tables.setdefault(topic, Table(topic))

    # -- a batch ----------------------------------------------------------------------------------------------------------------------------

    @contextmanager
    def batch_running(self) -> Iterator[None]:
        """A batch is written meanwhile: the source is not quiet."""
        self._quiet_since_s = None
        try:
            yield
        finally:
            self._quiet_since_s = self._now_s()

    def quiet_s(self) -> float:
        """Since the last batch ended; 0 while one runs."""
        since_s = self._quiet_since_s
        return 0.0 if since_s is None else self._now_s() - since_s

    def claim(self, rows: Mapping[str, int], *, landed: frozenset[str] | None) -> Decision:
        """What becomes of a batch's topics; tables to be applied are the caller's until ``release``.

        ``landed``: this batch may have been tried before, and these topics of it landed then: they land again, which does nothing. Another topic whose table
        is in append mode, or unknown, is applied: if it was written before, only its transaction id on that way guards it.
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
        """The caller is done with a table; ``applied`` None: it failed, or had no rows for it."""
        with self.turn:
            self.table(topic).busy = False
            if applied is not None:
                self.learn(applied, rows, seconds)
            self.turn.notify_all()

    def learn(self, applied: Applied, rows: int, seconds: float) -> None:
        """What a write has shown of the table and its cost. The caller has the turn."""
        table = self.table(applied.topic)
        table.rows = applied.rows
        if applied.path != "done":
            table.learn(rows, seconds, merged=applied.merged > 0)

    def landed(self, sequence: int, rows: Mapping[str, int]) -> None:
        """A batch's rows are in the landing table."""
        with self.turn:
            for topic, count in rows.items():
                table = self.table(topic)
                known = any(one.sequence == sequence for one in table.waiting)
                if not known and sequence > self._control.state.merged_up_to.get(topic, -1):
                    table.waiting.append(LandedBatch(sequence, count, self._now_s()))

    # -- merges -----------------------------------------------------------------------------------------------------------------------------

    @contextmanager
    def alone(self, topic: str) -> Iterator[None]:
        """Nobody else writes the topic's table meanwhile."""
        with self.turn:
            self._occupy(topic)
        try:
            yield
        finally:
            self.release(topic)

    def merged(self, topic: str, upto: int, left: Mapping[int, int] | None = None) -> None:
        """Of the topic's batches up to this sequence only ``left`` (rows by sequence) still waits."""
        left = left or {}
        with self.turn:
            table = self.table(topic)
            table.waiting = [
                LandedBatch(one.sequence, left.get(one.sequence, one.rows), one.at_s)
                for one in table.waiting
                if one.sequence > upto or one.sequence in left
            ]

    def waiting(self) -> dict[str, list[LandedBatch]]:
        """What has landed and is not merged, by topic, parked tables included."""
        with self.turn:
            return {table.topic: list(table.waiting) for table in self.tables.values() if table.waiting}

    def rows_waiting(self) -> int:
        """Landed and not merged, parked tables left out."""
        with self.turn:
            return sum(table.rows_waiting for table in self.tables.values() if table.parked is None)

    def waited_s(self) -> float | None:
        """How long the oldest rows wait that have landed and are not merged, parked tables left out; None: none wait."""
        with self.turn:
            landed = [one.at_s for table in self.tables.values() if table.parked is None for one in table.waiting]
        return self._now_s() - min(landed) if landed else None

    def first_kept_group(self, newest: int) -> int:
        """The first landing group that must stay; ``newest``: the sequence of the next batch."""
        with self.turn:
            return schedule.expirable(self.tables.values(), newest=newest)

    def kept_for_parked(self, newest: int) -> tuple[int, frozenset[str]]:
        """Return the first landing group that must stay whole, and the topics whose rows before it must stay; ``newest``: the sequence of the next batch."""
        with self.turn:
            return schedule.kept_for_parked(self.tables.values(), newest=newest)

    # -- parking ----------------------------------------------------------------------------------------------------------------------------

    def park(self, topic: str, reason: str) -> None:
        """Stop writing the topic's table; its records go on landing."""
        with self.turn:
            self.table(topic).parked = reason
        # Before it is recorded: the store may be what fails.
        log.error("topic %s is parked, its records go on landing: %s", topic, reason)
        self._progress.emit("parked", table=self._settings.table_name(topic), topic=topic, reason=reason)
        self._control.record([Parked(topic, reason)], "recorded", at_once=True)

    def unpark(self, topic: str) -> None:
        """Write the topic's table again, from what has landed since."""
        with self.turn:
            self.table(topic).parked = None
        notes: list[Note] = [Resumed(topic)]
        if self._settings.snapshots:  # its missing records blocked no snapshot meanwhile: it is complete in snapshots after this moment
            notes.append(DumpMerged(topic, round(time.time() * 1000)))
        self._control.record(notes, "recorded", at_once=True)
        self._progress.emit("resumed", table=self._settings.table_name(topic), topic=topic)
        log.info("topic %s is resumed", topic)

    def parked(self) -> dict[str, str]:
        """Parked topics, and why."""
        with self.turn:
            return {table.topic: table.parked for table in self.tables.values() if table.parked is not None}

    def topics(self) -> frozenset[str]:
        """Every topic that the sink has ever met."""
        with self.turn:
            return frozenset(self.tables) | {topic for topic, _ in self._control.state.high_water_marks}

    def _occupy(self, topic: str) -> None:
        while self.table(topic).busy:
            self.turn.wait()
        self.table(topic).busy = True
