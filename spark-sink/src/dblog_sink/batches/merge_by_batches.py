"""Merges landed batches table by table, each when ``schedule.py`` decides that a merge pays.

A failed merge is retried with pauses. After the last attempt the job stops, or the table is parked
by its policy: it is no longer written, its records go on landing, and nothing is lost.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from dblog_sink.batches import schedule
from dblog_sink.batches.failures import pause_s
from dblog_sink.batches.parts import Parts
from dblog_sink.batches.schedule import Due
from dblog_sink.batches.scheduler import MergeJob
from dblog_sink.batches.table_notes import must_be_written, notes_of
from dblog_sink.delta.merge import Txn
from dblog_sink.state.notes import MergedUpTo
from dblog_sink.tables.modes.work import Applied
from dblog_sink.tables.profile import profile

log = logging.getLogger(__name__)

PAUSE_MAX_S = 60.0


class MergeByBatches:
    """The ``Strategy`` that merges tables separately.

    ``outside_snapshots`` removes from a topic's landed records those that a snapshot has merged.
    ``policy`` has the limits of the decision, by default those of the configuration.
    """

    def __init__(
        self, parts: Parts, *, outside_snapshots: Callable[[str, DataFrame], DataFrame], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._parts = parts
        self._book = parts.book
        self.policy = parts.settings.policy
        self._outside_snapshots = outside_snapshots
        self._now_s = now_s
        self._caught_up: set[str] = set()
        """Topics whose notes agree with their tables' Delta logs."""

    # -- the strategy -----------------------------------------------------------------------------------------------------------------------

    def due(self, *, slots: int, now_s: float, everything: bool) -> list[MergeJob]:
        """Return jobs for the most overdue merges, and mark their tables as busy."""
        found = schedule.due(self._book.tables.values(), self.policy, now_s=now_s, quiet_s=self._book.quiet_s(), everything=everything)[
            : max(0, slots)
        ]
        for one in found:
            self._book.table(one.topic).busy = True
        return [_TableMerge(self, one) for one in found]

    def drain_started(self) -> None:
        """Do nothing."""

    def drained(self) -> bool:
        """Return True if no table waits that may be merged."""
        return all(table.parked is not None or not table.waiting for table in self._book.tables.values())

    def restarted(self) -> None:
        """Clear failures, so that all tables are tried again."""
        self._parts.merge_failures.clear()

    def lands_everything(self, *, repeated: bool) -> bool:  # noqa: ARG002  of the protocol
        """Return False: a batch that is worth a merge is applied at once."""
        return False

    # -- a batch, a snapshot ----------------------------------------------------------------------------------------------------------------

    def catch_up(self, topics: Iterable[str]) -> None:
        """Merge what waits for append-mode tables that a repeated batch is about to apply.

        An append-mode table knows its content only by its log position, so a batch must not
        overtake what landed before it.
        """
        for topic in topics:
            with self._book.turn:
                state, table = self._parts.control.state, self._book.table(topic)
                appending = topic in state.appending or topic not in state.table_ids
            while appending and table.parked is None and table.waiting:
                with self._book.alone(topic):
                    if not table.waiting:
                        break
                    to, rows = schedule.prefix(table.waiting, self.policy.rows_max)
                    try:
                        self.merge(Due(topic, to, rows))
                    except Exception as e:
                        self._caught_up.discard(topic)
                        if self._parts.ending.is_set() or self._parts.merge_failures.judge(topic, e) != "park":
                            raise
                        self._book.park(topic, _first_line(e))
                    else:
                        self._book.merged(topic, to)

    def recover(self, topic: str) -> int:
        """Record batches that the Delta log shows as merged but the control table does not.

        Return the sequence up to which the topic is merged by batches. The caller must own the
        table.
        """
        merged_up_to = self._parts.control.state.merged_up_to.get(topic, -1)
        written = self._parts.applier.last_written(topic, self._app_id)
        if written > merged_up_to:
            records = self._parts.landing.records(topic, after=merged_up_to, to=written)
            self._apply(topic, Txn(self._app_id, written), records, repeated=True)
        return max(written, merged_up_to)

    # -- one merge --------------------------------------------------------------------------------------------------------------------------

    def merge(self, due: Due) -> Applied | None:
        """Merge the topic's landed batches up to ``due.to``.

        Return None if there was no row of the table.

        The caller must own the table.
        """
        topic = due.topic
        merged_up_to = self._parts.control.state.merged_up_to.get(topic, -1)
        applied = None
        if topic not in self._caught_up:
            # The notes may lag behind the table. Batches that its Delta log shows come first: a
            # merge up to another batch would write their rows again.
            written = self._parts.applier.last_written(topic, self._app_id)
            if written > merged_up_to:
                records = self._records(topic, merged_up_to, written, due.rows)
                applied = self._apply(topic, Txn(self._app_id, written), records, repeated=True)
                merged_up_to = written
            self._caught_up.add(topic)
            if written >= due.to:
                return applied
        return self._apply(topic, Txn(self._app_id, due.to), self._records(topic, merged_up_to, due.to, due.rows), repeated=False)

    def ended(self, due: Due, applied: Applied | None, error: Exception | None, seconds: float) -> Exception | None:
        """Take note of a merge's outcome. Return the error on which the job must stop, or None."""
        table = self._book.table(due.topic)
        table.busy = False
        if error is None:
            self._book.merged(due.topic, due.to)
            self._parts.merge_failures.forget(due.topic)
            if applied is not None:
                self._book.learn(applied, due.rows, seconds)
                self._parts.progress.merge(applied, sequence=due.to)
            return None
        self._caught_up.discard(due.topic)
        # Our own stop interrupted the merge; the table is not to blame.
        if self._parts.ending.is_set():
            return None
        outcome = self._parts.merge_failures.judge(due.topic, error)
        if outcome == "stop":
            return error
        if outcome == "park":
            self._book.park(due.topic, _first_line(error))
            return None
        attempt = self._parts.merge_failures.attempts(due.topic)
        table.not_before_s = self._now_s() + pause_s(attempt, pause_max_s=PAUSE_MAX_S)
        log.warning("topic %s: merge failed, attempt %d: %s", due.topic, attempt, _first_line(error))
        return None

    @property
    def _app_id(self) -> str:
        return f"{self._parts.settings['name']}/{self._parts.landing.id}"

    def _records(self, topic: str, after: int, to: int, rows: int) -> DataFrame:
        return self._outside_snapshots(topic, self._parts.landing.records(topic, after=after, to=to, rows=rows))

    def _apply(self, topic: str, txn: Txn, raw: DataFrame, *, repeated: bool) -> Applied | None:
        """Apply the topic's records, and record its batches as merged up to the transaction's."""
        applied = None
        for stats in profile(raw, self._parts.applier.logs.highs):
            applied = self._parts.applier.apply(stats, raw, txn, log_ends=self._parts.control.log_ends(topic), repeated=repeated)
        notes = notes_of([] if applied is None else [applied])
        self._parts.control.record([MergedUpTo(topic, txn.version), *notes], "merged_recorded", at_once=must_be_written(notes))
        return applied


@dataclass(slots=True)
class _TableMerge:
    """The ``MergeJob`` of one table."""

    _by: MergeByBatches
    _due: Due
    _applied: Applied | None = None
    _seconds: float = 0.0

    def run(self) -> None:
        began_s = time.monotonic()
        self._applied = self._by.merge(self._due)
        self._seconds = time.monotonic() - began_s

    def ended(self, error: Exception | None) -> Exception | None:
        return self._by.ended(self._due, self._applied, error, self._seconds)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
