"""Removes the ghosts of repair dumps that are whole, beside the merges: a table's turn comes when all that had landed by then is merged.

A ``Strategy`` around the one that merges. Its jobs run in the scheduler's threads, and a table has one writer at a time, as for merges.
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
from dblog_sink.reconcile.dump_chains import Dump

log = logging.getLogger(__name__)

_ATTEMPTS_MAX = 5
"""In a row; the next start of the job tries again."""


@dataclass(slots=True)
class _Turn:
    """One dump that waits. ``upto``: the last batch of its table that had landed when it was whole, and must be merged first."""

    upto: int
    attempts: int = 0
    not_before_s: float = 0.0
    reported: bool = False


class RemoveGhosts:
    """A ``Strategy``: that of ``merges``, and the removal of ghosts."""

    def __init__(self, merges: Strategy, parts: Parts, arrivals: Arrivals, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._merges = merges
        self._parts = parts
        self._book = parts.book
        self._arrivals = arrivals
        self._now_s = now_s
        self._turns: dict[Dump, _Turn] = {}

    def due(self, *, slots: int, now_s: float, everything: bool) -> list[MergeJob]:
        """Ghosts first: they are few, and cheap."""
        jobs: list[MergeJob] = []
        for dump in list(self._arrivals.whole.values()):
            if len(jobs) < slots and self._ready(dump, now_s):
                self._book.table(dump.topic).busy = True
                jobs.append(_Removal(self, dump))
        return jobs + self._merges.due(slots=slots - len(jobs), now_s=now_s, everything=everything)

    def drain_started(self) -> None:
        """As of the merges."""
        self._merges.drain_started()

    def drained(self) -> bool:
        """Whether nothing is left: a parked table keeps its ghosts, and one that failed too often keeps them until the next start."""
        return self._merges.drained() and not any(self._goes_on(dump) for dump in list(self._arrivals.whole.values()))

    def restarted(self) -> None:
        """Try again."""
        self._merges.restarted()
        self._turns.clear()

    def lands_everything(self, *, repeated: bool) -> bool:
        """As of the merges."""
        return self._merges.lands_everything(repeated=repeated)

    # -- one dump -----------------------------------------------------------------------------------------------------------------------------

    def _turn(self, dump: Dump) -> _Turn:
        if dump not in self._turns:
            waiting = self._book.table(dump.topic).waiting
            self._turns[dump] = _Turn(waiting[-1].sequence if waiting else -1)
        return self._turns[dump]

    def _ready(self, dump: Dump, now_s: float) -> bool:
        turn, table = self._turn(dump), self._book.table(dump.topic)
        if table.parked is not None and not turn.reported:
            turn.reported = True
            self._arrivals.report_dump(dump, WAITS, why=f"the table is parked: {table.parked}")
        if table.busy or now_s < turn.not_before_s or not self._goes_on(dump):
            return False
        return not table.waiting or table.waiting[0].sequence > turn.upto

    def _goes_on(self, dump: Dump) -> bool:
        return self._book.table(dump.topic).parked is None and self._turn(dump).attempts < _ATTEMPTS_MAX

    def remove(self, dump: Dump) -> None:
        """Remove the ghosts of one dump and record the outcome. The caller has the table alone."""
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

    def ended(self, dump: Dump, error: Exception | None) -> None:
        """Take note of the outcome. A failure stops nothing: the ghosts stay for now, and no other row depends on them."""
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
            log.warning("%s: ghosts were not removed, attempt %d: %s", dump.table, turn.attempts, reason)
        else:
            self._arrivals.report_dump(dump, WAITS, why=f"{reason}; the next start of the job tries again")


@dataclass(slots=True)
class _Removal:
    """A ``MergeJob``."""

    _by: RemoveGhosts
    _dump: Dump

    def run(self) -> None:
        self._by.remove(self._dump)

    def ended(self, error: Exception | None) -> Exception | None:
        self._by.ended(self._dump, error)
        return None
