"""The dumps of the tasks that run on this worker: the reports of their processes, and the messages
to them.

A task gets all unended requests with its first message (``startorder.py``), and each new or changed
one when its record is read back. It reports a status of each dump it knows. The final status is
stored first; once it has been read back, the task is told to forget the dump. Whatever is lost in
between happens again: the task reports the final status until it is told to forget the dump, and
one that is already stored is answered at once.

Only the task knows a signal's request at first. It reports the request with its status, and the
request is stored here, so that it can be listed and changed like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import structlog

from dblog.clock import Clock
from dblog.cluster.dumprecords import BLANK_STATUS, ENDED, DumpKey, DumpStatus, KnownDump, read_requests, read_statuses
from dblog.cluster.dumpstore import DumpStore
from dblog.cluster.processes import ProcessTable
from dblog.cluster.records import TaskId
from dblog.cluster.requests import RequestError
from dblog.cluster.role import WorkerRole
from dblog.core.dumprequests import INITIAL, DumpRequest
from dblog.core.signals import Signal
from dblog.errors import TransientError

_log = structlog.get_logger("dblog.cluster.dumps")

_CHECKS_MAX = 8
"""Checks of one task at a time. Each keeps a connection to its database."""
_TABLES_MAX = 100_000
_REFUSALS = range(400, 600)


@dataclass(frozen=True, slots=True)
class Reported:
    """The reports of a connector's task about its dumps."""

    statuses: Mapping[str, DumpStatus] = field(default_factory=dict)
    """Statuses by dump id, in the task's order."""
    fresh: bool = False
    """True if they come from the process that runs now."""


@dataclass(slots=True)
class _Run:
    """One run of a task's process."""

    connector: str
    hide: Callable[[str], str]
    checks: dict[int, Future[list[str]]] = field(default_factory=dict)


class LocalDumps:
    """Dumps of this worker's tasks.

    Changed only in the herder's thread; any thread may call ``reported``.
    """

    def __init__(self, store: DumpStore, processes: ProcessTable, role: WorkerRole, clock: Clock) -> None:
        self._store = store
        self._processes = processes
        self._role = role
        self._clock = clock
        self._runs: dict[int, _Run] = {}
        self._reported: dict[str, Reported] = {}
        self._calls = count(1)
        self._ending: set[DumpKey] = set()
        """Dumps whose final status is on its way to the topic."""
        self._storing: set[DumpKey] = set()
        """Requests of signals that are on their way to the topic."""

    def reported(self, connector: str) -> Reported:
        """Return a task's reports about a connector's dumps.

        After the task has ended, its last ones.
        """
        return self._reported.get(connector, Reported())

    def tables_of(self, connector: str, dump: str) -> list[str] | None:
        """Return the names of a dump's tables. None if unknown or more than a status shows."""
        status = self.reported(connector).statuses.get(dump)
        tables = [] if status is None else status.get("tables") or []
        if status is None or status.get("tables_total") != len(tables):
            return None
        return [str(table.get("table")) for table in tables]

    # Processes.

    def begun(self, task: TaskId, run: int, hide: Callable[[str], str] = str) -> None:
        """Note that a process was started with all unended requests.

        ``hide`` removes secrets from its texts.
        """
        self._runs[run] = _Run(task.connector, hide)
        self._stale(task.connector)

    def ended(self, run: int) -> None:
        """Note that a process has ended. Pending checks fail."""
        ended = self._runs.pop(run, None)
        if ended is None:
            return
        self._stale(ended.connector)
        for future in ended.checks.values():
            _fail(
                future,
                TransientError(
                    f"The task of connector {ended.connector} ended while it checked the request; see the connector's status, and try again"
                ),
            )

    def abandon(self) -> None:
        """Drop everything, because this worker no longer leads.

        The next leader learns from its own tasks.
        """
        self._ending.clear()
        self._storing.clear()
        self._reported.clear()

    def _stale(self, connector: str) -> None:
        if (known := self._reported.get(connector)) is not None:
            self._reported[connector] = Reported(known.statuses)

    def _run_of(self, connector: str) -> int | None:
        return next((run for run, each in reversed(self._runs.items()) if each.connector == connector), None)

    # Messages to tasks.

    def check(self, request: DumpRequest) -> Future[list[str]]:
        """Let the task check a request on its server.

        The future gives the tables that the task would dump, or raises RequestError or
        TransientError.
        """
        future: Future[list[str]] = Future()
        run = self._run_of(request.connector)
        if run is None:
            raise RequestError(
                503,
                f"The task of connector {request.connector} does not run yet, so nobody can check the request; see the connector's status, and try again",
                retry_after_s=5,
            )
        checks = self._runs[run].checks
        # The caller of a cancelled check has gone, but the task's answer may still come.
        for call in [call for call, waiting in checks.items() if waiting.cancelled()]:
            del checks[call]
        if len(checks) >= _CHECKS_MAX:
            raise RequestError(
                503,
                f"The task of connector {request.connector} still checks {len(checks)} other requests for dumps; try again later",
                retry_after_s=5,
            )
        self._call(run, future, {"type": "dump_check", "request": request.to_json()})
        return future

    def find_table(self, request: DumpRequest, table: str) -> Future[list[str]] | None:
        """Let the task find the names of a dump's tables that match this one.

        None if no task can answer soon.
        """
        run = self._run_of(request.connector)
        if run is None or len(self._runs[run].checks) >= _CHECKS_MAX:
            return None
        future: Future[list[str]] = Future()
        self._call(run, future, {"type": "dump_table", "request": request.to_json(), "table": table})
        return future

    def _call(self, run: int, future: Future[list[str]], message: Mapping[str, Any]) -> None:
        call = next(self._calls)
        self._runs[run].checks[call] = future
        self._processes.send(run, {**message, "call": call})

    def signal(self, connector: str, signal: Signal) -> None:
        """Send a signal to the task. Raise RequestError if none runs."""
        run = self._run_of(connector)
        if run is None:
            raise RequestError(
                503,
                f"The task of connector {connector} does not run yet, so nobody can carry the signal out; see the connector's status, and try again",
                retry_after_s=5,
            )
        self._processes.send(run, {"type": "signal", "id": signal.id, "kind": signal.type, "data": signal.data, "source": signal.source})

    # Messages from tasks.

    def take(self, run: int, message: Mapping[str, Any]) -> None:
        """Process a task's message about dumps. Ignore any other."""
        known = self._runs.get(run)
        if known is None:
            return
        match message:
            case {"type": "dump_checked", "call": int(call)}:
                if (future := known.checks.pop(call, None)) is not None:
                    _answer(future, message, known.hide)
            case {"type": "dumps", "dumps": list(dumps)}:
                statuses = read_statuses(dumps, known.hide)
                self._reported[known.connector] = Reported(statuses, fresh=True)
                for identity, request in read_requests(dumps, known.connector).items():
                    if identity in statuses:
                        self._take_request(request, statuses[identity])
                for status in statuses.values():
                    if status["state"] in ENDED and status["id"] != INITIAL:
                        self._take_end(run, (known.connector, status["id"]), status)

    def _take_request(self, request: DumpRequest, status: DumpStatus) -> None:
        """Store a request that a signal has made or changed.

        Include its final status if it has one.
        """
        key = request.connector, request.id
        known = self._store.get(key)
        if key in self._storing or not self._role.leads:
            return
        if known is None:
            _log.info("dump requested", connector=key[0], dump=key[1], mode=request.mode.value, patterns=len(request.tables), by="signal")
        elif known.end is not None or known.request.revision >= request.revision:
            return
        self._storing.add(key)
        if known is None and status["state"] in ENDED:
            self._ending.add(key)
            self._store.end_later(KnownDump(request), self._end_of(status))
        else:
            self._store.write_later(request)

    def _end_of(self, status: DumpStatus) -> DumpStatus:
        return {**status, "ended_ms": status.get("ended_ms") or self._clock.now_us() // 1000}

    def _take_end(self, run: int, key: DumpKey, end: DumpStatus) -> None:
        known = self._store.get(key)
        if known is None and key in self._storing:
            return  # reported again after the request has been read back
        if known is None or known.end is not None:
            self._processes.send(run, {"type": "dump_forget", "id": key[1]})
        elif key not in self._ending and self._role.leads:
            self._ending.add(key)
            level = _log.warning if end["state"] == "FAILED" else _log.info
            level("dump ended", connector=key[0], dump=key[1], state=end["state"], rows=end.get("rows"), reason=end.get("reason"))
            self._store.end_later(known, self._end_of(end))

    def changed(self, key: DumpKey) -> None:
        """Pass a changed record on: the task gets the request, or learns that its end is stored.

        A task that starts gets all requests anyway.
        """
        known = self._store.get(key)
        is_open = known is not None and known.end is None
        was_stored = key in self._storing
        self._storing.discard(key)
        if not is_open:
            self._ending.discard(key)
        if (run := self._run_of(key[0])) is not None:
            order = {"type": "dump", "request": known.request.to_json()} if known and is_open else {"type": "dump_forget", "id": key[1]}
            self._processes.send(run, order)
            status = self.reported(key[0]).statuses.get(key[1])
            if was_stored and is_open and status is not None and status["state"] in ENDED:
                self._take_end(run, key, status)

    def offsets_changed(self, connector: str) -> None:
        """Note that offsets were reset or altered by request.

        The progress of the connector's own dump is unknown until its next process reports.
        """
        known = self._reported.get(connector)
        if known is not None and INITIAL in known.statuses:
            begins = {"id": INITIAL, **BLANK_STATUS, "reason": "the connector's offsets were changed, and its task has not started since"}
            self._reported[connector] = Reported({**known.statuses, INITIAL: begins})

    def forget(self, connector: str) -> None:
        """Drop the reports of a deleted connector."""
        self._reported.pop(connector, None)


def _answer(future: Future[list[str]], message: Mapping[str, Any], hide: Callable[[str], str]) -> None:
    match message:
        case {"error": {"message": str(text), **rest}}:
            status = rest.get("status")
            _fail(future, RequestError(status if isinstance(status, int) and status in _REFUSALS else 400, hide(text)))
        case {"tables": list(tables)}:
            if future.set_running_or_notify_cancel():
                future.set_result([str(table) for table in tables[:_TABLES_MAX]])
        case _:
            _fail(future, TransientError("the task has answered the check of a dump in a form that this worker does not know"))


def _fail(future: Future[list[str]], error: Exception) -> None:
    if future.set_running_or_notify_cancel():
        future.set_exception(error)
