"""Follows up on whole dumps: removes their ghosts, or compares the table with them.

A dump's turn comes when everything of its table that had landed by then is merged. That merge is
due at once (``schedule.due``), since somebody waits for the outcome. This is a ``Strategy`` around
the one that merges: its jobs run in the scheduler's threads, and a table has one writer at a time,
as with merges.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from dblog_sink.batches.failures import pause_s
from dblog_sink.batches.merge_by_batches import PAUSE_MAX_S
from dblog_sink.batches.parts import Parts
from dblog_sink.batches.scheduler import MergeJob, Strategy
from dblog_sink.delta.merge import Txn
from dblog_sink.errors import DefiniteError
from dblog_sink.reconcile.arrivals import KEPT, REMOVED, WAITS, Arrivals
from dblog_sink.reconcile.dump_chains import VERIFY, WHOLE_TABLE, Dump
from dblog_sink.reconcile.verifications import of_dump
from dblog_sink.tables.verify import unknown

log = logging.getLogger(__name__)

_ATTEMPTS_MAX = 5
"""Consecutive failures after which a dump waits for the next start of the job."""


@dataclass(slots=True)
class _Turn:
    """A dump that waits for its turn.

    ``upto`` is the last batch of its table that had landed when the dump was whole, and must be
    merged first.
    """

    upto: int
    attempts: int = 0
    not_before_s: float = 0.0
    reported: bool = False


class AfterDumps:
    """The ``Strategy`` that runs the jobs of ``merges`` and those that follow dumps."""

    def __init__(self, merges: Strategy, parts: Parts, arrivals: Arrivals, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._merges = merges
        self._parts = parts
        self._book = parts.book
        self._arrivals = arrivals
        self._verifications = arrivals.verifications
        self._now_s = now_s
        self._turns: dict[Dump, _Turn] = {}

    def due(self, *, slots: int, now_s: float, everything: bool) -> list[MergeJob]:
        """Return jobs that may start now.

        Those that follow dumps come first, because they are few.
        """
        jobs: list[MergeJob] = []
        for dump in self._whole():
            if len(jobs) < slots and self._ready(dump, now_s):
                self._book.table(dump.topic).busy = True
                jobs.append(_Following(self, dump))
        return jobs + self._merges.due(slots=slots - len(jobs), now_s=now_s, everything=everything)

    def drain_started(self) -> None:
        """Pass the start of a drain on to the merges."""
        self._merges.drain_started()

    def drained(self) -> bool:
        """Return True if nothing is left to do.

        A parked table keeps its ghosts, and one that failed too often keeps them until the next
        start.
        """
        return self._merges.drained() and not any(map(self._goes_on, self._whole()))

    def restarted(self) -> None:
        """Clear failures, so that everything is tried again."""
        self._merges.restarted()
        self._turns.clear()

    def lands_everything(self, *, repeated: bool) -> bool:
        """Return the decision of the merges."""
        return self._merges.lands_everything(repeated=repeated)

    def _whole(self) -> list[Dump]:
        return [*list(self._arrivals.whole.values()), *list(self._verifications.whole.values())]

    # -- one dump -----------------------------------------------------------------------------------------------------------------------------

    def _turn(self, dump: Dump) -> _Turn:
        if dump not in self._turns:
            table = self._book.table(dump.topic)
            self._turns[dump] = _Turn(table.waiting[-1].sequence if table.waiting else -1)
            table.awaited = max(table.awaited, self._turns[dump].upto)
        return self._turns[dump]

    def _ready(self, dump: Dump, now_s: float) -> bool:
        turn, table = self._turn(dump), self._book.table(dump.topic)
        if table.parked is not None and not turn.reported:
            turn.reported = True
            self._report_waiting(dump, f"the table is parked: {table.parked}")
        if table.busy or now_s < turn.not_before_s or not self._goes_on(dump):
            return False
        return not table.waiting or table.waiting[0].sequence > turn.upto

    def _goes_on(self, dump: Dump) -> bool:
        return self._book.table(dump.topic).parked is None and self._turn(dump).attempts < _ATTEMPTS_MAX

    def follow(self, dump: Dump) -> None:
        """Remove the ghosts of a dump, or compare the table with it, and record the outcome.

        The caller must own the table.
        """
        if dump.mode == VERIFY:
            self._compare(dump)
        else:
            self._remove(dump)

    def _compare(self, dump: Dump) -> None:
        path = self._verifications.path
        verdict = self._parts.applier.verify(
            dump.topic,
            lambda session: of_dump(session, path, dump),
            low=dump.low,
            whole=dump.scope == WHOLE_TABLE,
            log_ends=self._parts.control.log_ends(dump.topic),
        )
        self._parts.reached("compared")
        self._verifications.ended(dump, verdict)

    def _remove(self, dump: Dump) -> None:
        name = self._parts.settings["name"]
        outcome = self._parts.applier.remove_ghosts(
            dump.topic,
            low=dump.low,
            ts_ms=dump.ts_ms,
            txn=Txn(f"{name}/ghosts/{dump.dump}/{dump.low[0]}.{dump.low[1]}", 1),
            log_ends=self._parts.control.log_ends(dump.topic),
        )
        if isinstance(outcome, str):
            self._arrivals.ended(dump, KEPT, why=outcome)
        else:
            self._arrivals.ended(dump, REMOVED, rows=outcome)

    def _report_waiting(self, dump: Dump, why: str) -> None:
        if dump.mode == VERIFY:
            self._verifications.report(dump, unknown(why), waits=True)
        else:
            self._arrivals.report_dump(dump, WAITS, why=why)

    def ended(self, dump: Dump, error: Exception | None) -> None:
        """Take note of the outcome of a dump's job.

        A failure stops nothing, since no row depends on what follows a dump.
        """
        self._book.table(dump.topic).busy = False
        if error is None:
            self._turns.pop(dump, None)
            return
        if self._parts.ending.is_set():
            return
        turn, reason = self._turn(dump), str(error).splitlines()[0] if str(error) else type(error).__name__
        turn.attempts = _ATTEMPTS_MAX if isinstance(error, DefiniteError) else turn.attempts + 1
        turn.not_before_s = self._now_s() + pause_s(turn.attempts, pause_max_s=PAUSE_MAX_S)
        if turn.attempts < _ATTEMPTS_MAX:
            what = "the table was not compared with dump" if dump.mode == VERIFY else "ghosts were not removed after dump"
            log.warning("%s: %s %s, attempt %d: %s", dump.table, what, dump.dump, turn.attempts, reason)
        else:
            self._report_waiting(dump, f"{reason}; the next start of the job tries again")


@dataclass(slots=True)
class _Following:
    """The ``MergeJob`` that follows up on a dump."""

    _by: AfterDumps
    _dump: Dump

    def run(self) -> None:
        self._by.follow(self._dump)

    def ended(self, error: Exception | None) -> Exception | None:
        self._by.ended(self._dump, error)
        return None
