"""Takes requests for dumps of a running task, checks them, and reports the state of each dump.

The end of a dump is reported once the offset with it is stored, and repeated until its owner has
recorded it. Otherwise a person could read "done" about rows that a kill would take back. # I1
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from dblog.clock import Clock
from dblog.core.dumprequests import INITIAL, DumpRequest
from dblog.core.dumps import Dump
from dblog.core.requested import End, RequestedDump, Requests
from dblog.core.signals import Signal
from dblog.model import TableId
from dblog.readers.dump.chunknotes import ChunkNotes
from dblog.readers.dump.dumping import Dumping
from dblog.readers.dump.dumpreport import bounded
from dblog.readers.dump.dumpstatus import Statuses
from dblog.readers.dump.governing import Governing
from dblog.readers.dump.open_windows import OpenWindows
from dblog.readers.dump.request_checks import RequestChecks
from dblog.readers.dump_progress import DumpProgress
from dblog.readers.log.logwatch import RowEstimates
from dblog.readers.signals.signals import SignalDesk


class DumpDesk:
    """Requests for dumps in one run. Any thread may call it, but ``statuses`` and ``stored`` belong
    to one thread.
    """

    def __init__(
        self,
        *,
        progress: DumpProgress,
        windows: OpenWindows,
        notes: ChunkNotes,
        dumping: Dumping,
        checks: RequestChecks,
        signals: SignalDesk,
        estimates: RowEstimates,
        governing: Governing,
        clock: Clock,
    ) -> None:
        self._progress = progress
        self._windows = windows
        self._dumping = dumping
        self._checks = checks
        self._signals = signals
        self._stored = progress.requests
        self._end_stored = progress.own is not None and progress.own.ended
        self._statuses = Statuses(windows=windows, notes=notes, estimates=estimates, governing=governing, clock=clock)

    # ---- requests

    def take(self, request: DumpRequest) -> None:
        """Take a new request, or one that its owner has changed."""
        known = self._progress.requests.get(request.id)
        tables = self._checks.tables_of(request) if known is None else []
        self._progress.change_requests(lambda requests: requests.added(request, tables))
        self._dumping.start_readers()

    def forget(self, identity: str) -> None:
        """Forget a request: its owner has recorded its end."""
        self._progress.change_requests(lambda requests: requests.forgotten(identity))
        self._statuses.forget(identity)

    def named(self, request: DumpRequest, name: str) -> list[TableId]:
        """Return the tables of a request with this name, ignoring case.

        If the dump continues from an earlier run, the tables finished then are looked for among the
        tables captured now.
        """
        lowered, known = name.lower(), self._progress.requests.get(request.id)
        found = {} if known is None else {table: None for table in chain(known.dump.left, known.dump.over) if str(table).lower() == lowered}
        if known is None or known.dump.finished:
            found |= {table: None for table in self._checks.tables_of(request) if str(table).lower() == lowered}
        return list(found)

    def check(self, request: DumpRequest) -> list[TableId]:
        """Check a request; see ``request_checks.RequestChecks.check``."""
        return self._checks.check(request)

    def signal(self, signal: Signal) -> None:
        """Take a signal that was sent by REST."""
        self._signals.take(signal)

    # ---- progress

    def stored(self, requests: Requests, *, dump_ended: bool) -> None:
        """Note that the offset with these requests is stored.

        ``dump_ended`` is True if that offset says that the connector's own dump has ended.
        """
        self._stored, self._end_stored = requests, dump_ended

    def eta_error(self) -> float | None:
        """Return the error of past estimates of the own dump's end; see
        ``core.estimates.EndEstimate.error``.
        """
        return self._statuses.eta_error(INITIAL)

    def statuses(self) -> list[dict[str, Any]]:
        """Return the status of the connector's own dump and of each request, within the size limit
        of the herder.
        """
        own = self._progress.own
        out = [] if own is None else [self._statuses.of(INITIAL, own, _own_state(own, stored=self._end_stored), None)]
        for one in self._progress.requests:
            stored = self._stored.get(one.request.id)
            end = None if stored is None else stored.end
            state = _state(one, end, rows_leave=bool(self._windows.rows_leave(one.request.id)))
            out.append(self._statuses.of(one.request.id, one.dump, state, one.reason if end is not None else None, one=one))
        return bounded(out)


def _own_state(dump: Dump, *, stored: bool) -> str:
    """Return the state of the connector's own dump.

    Its end counts once it is stored: after a kill before that, the dump continues.
    """
    if not dump.ended or not stored:
        return "RUNNING"
    return "FAILED" if dump.failed else "DONE"


def _state(one: RequestedDump, stored: End | None, *, rows_leave: bool) -> str:
    if stored is not None:
        return stored.value
    if one.end is not None:
        return "RUNNING"  # its end is not stored
    if not one.runs:
        return one.request.wanted.value if one.checked else "WAITING"
    has_begun = rows_leave or one.dump.rows or any(progress.started for progress in one.dump.left.values())
    return "RUNNING" if has_begun else "WAITING"
