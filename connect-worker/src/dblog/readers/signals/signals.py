"""Carries out signals from any channel: snapshot signals create requests for dumps, or change those
that signals have created.

A request created here is part of the state that the next batch carries into the offset. A channel
that is read in order (the log thread reads the signal table) sends the signal's position with the
same batch. So no kill loses a signal or makes it be carried out twice. # I1

Filters of a signal are SQL written by anybody who may write to the channel. A separate thread first
asks the database if they are conditions and nothing else; before that, none of the tables is read.
A signal that cannot be carried out is counted and logged, without its content, and changes nothing.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog

from dblog.clock import Clock
from dblog.config.regex import any_of
from dblog.core.backoff import Backoff
from dblog.core.dumprequests import DumpRequest, SignalOrigin, Wanted, with_tables_stopped, with_wanted
from dblog.core.requested import SIGNALS_BYTES_MAX, SIGNALS_MAX, RequestedDump, Requests, signals_bytes
from dblog.core.signals import (
    FILTERS_OFF,
    WATERMARKS,
    Action,
    Execute,
    LogText,
    Nothing,
    Pause,
    Resume,
    Signal,
    SignalError,
    Stop,
    action_of,
    signal_from_json,
)
from dblog.errors import DefiniteError, ServerChangedError, TransientError
from dblog.readers.contract import Progress
from dblog.readers.dump.dumping import Dumping
from dblog.readers.dump.request_checks import RequestChecks
from dblog.readers.dump_progress import DumpProgress
from dblog.readers.items import Signals as SignalItem
from dblog.readers.task_threads import TaskThreads

log = structlog.get_logger(__name__)

BACKOFF = Backoff(first_s=0.5, max_s=30.0)
_LOOK_S = 0.2
"""Seconds between two looks for new requests while the known ones wait for another try."""
JSON_BYTES_MAX = 64 * 1024
FILTER_REFUSED = "a filter of the signal cannot be used on the table; try it as the predicate of POST /connectors/NAME/dumps, whose answer has the reason"


Read = Callable[[Requests], Requests]


def _as_before(requests: Requests) -> Requests:
    return requests


class SignalDesk:
    """Signals of one run. Any thread may submit a signal; they are carried out in the order of the
    calls.

    ``chunk_rows`` is the size of chunks in dumps that signals request, None to adapt it.
    ``filters`` is True if signals may contain SQL conditions. ``log_progress`` is the log's
    position, for people.
    """

    def __init__(
        self,
        *,
        connector: str,
        chunk_rows: int | None,
        filters: bool = True,
        progress: DumpProgress,
        checks: RequestChecks,
        dumping: Dumping,
        threads: TaskThreads,
        stopped: threading.Event,
        log_progress: Progress,
        clock: Clock,
    ) -> None:
        self._connector = connector
        self._chunk_rows = chunk_rows
        self._filters = filters
        self._progress = progress
        self._checks = checks
        self._dumping = dumping
        self._threads = threads
        self._stopped = stopped
        self._log_progress = log_progress
        self._clock = clock
        self._lock = threading.Lock()
        self._checking = False
        self.taken_total = 0
        self.refused_total = 0

    def begin(self) -> None:
        """Check the requests that an earlier run left unchecked.

        End dumps with filters first if filters are now switched off.
        """
        for one in [] if self._filters else [one for one in self._progress.requests.of_signals() if one.request.predicate]:
            log.warning("a dump that a signal asked for ends", dump=one.request.id, reason=FILTERS_OFF)
            self._progress.change_requests(lambda requests, identity=one.request.id: requests.refused(identity, FILTERS_OFF))  # type: ignore[misc]
        self._check_soon()

    def of_table(self, item: SignalItem) -> None:
        """Take rows of a signal table."""
        if item.fault is not None:
            self.refused(item.fault)
        for number, (identity, kind, data) in enumerate(item.rows):
            if identity is None or kind is None:
                self.refused("its id or its type is NULL")
            else:
                self.take(Signal(identity, kind, data or "", f"{item.at.sequence_high}:{item.at.sequence_low}:{number}"))

    def take(self, signal: Signal, read: Read | None = None) -> None:
        """Carry out a signal, or log why that is impossible.

        ``read`` updates how far the channel has been read; it is applied together with the signal's
        own change.
        """
        read = read or _as_before
        if signal.type in WATERMARKS:
            self._progress.change_requests(read)
            return
        try:
            action = action_of(signal)
            self._obey(signal, action, read)
        except SignalError as e:
            self.refused(str(e), read, signal=signal.request_id)
            return
        self.taken_total += 1
        log.info("signal", type=signal.type, signal=signal.request_id, note=action.why if isinstance(action, Nothing) else None)

    def take_json(self, text: bytes, source: str, read: Read) -> None:
        """Carry out a signal in JSON form; see ``take``."""
        try:
            if len(text) > JSON_BYTES_MAX:
                raise SignalError(f"it has more than {JSON_BYTES_MAX} bytes")
            signal = signal_from_json(json.loads(text), source)
        except SignalError as e:
            self.refused(str(e), read)
        except (ValueError, RecursionError):
            self.refused("it is not JSON", read)
        else:
            self.take(signal, read)

    def refused(self, why: str, read: Read | None = None, *, signal: str | None = None) -> None:
        """Count and log a signal that cannot be carried out."""
        self._progress.change_requests(read or _as_before)
        self.refused_total += 1
        log.warning("a signal is left out", reason=why, signal=signal, position=str(self._log_progress))

    def _obey(self, signal: Signal, action: Action, read: Read) -> None:
        match action:
            case Execute():
                self._execute(signal, action, read)
            case Pause():
                self._change(lambda one: _wanted(one, Wanted.PAUSED), read)
            case Resume():
                self._change(lambda one: _wanted(one, Wanted.RUNNING), read)
            case Stop(None):
                self._change(lambda one: with_wanted(one.request, Wanted.STOPPED), read)
            case Stop(tuple(patterns)):
                selected = any_of(patterns, ignore_case=True)
                self._change(lambda one: _without_tables(one, selected, patterns), read, grows=True)
            case LogText(message):
                log.info(message.replace("{}", str(self._log_progress), 1), signal=signal.request_id)
                self._progress.change_requests(read)
            case Nothing():
                self._progress.change_requests(read)

    def _execute(self, signal: Signal, action: Execute, read: Read) -> None:
        if action.filters and not self._filters:
            raise SignalError(FILTERS_OFF)
        known = self._progress.requests
        if known.get(signal.request_id) is not None:
            self._progress.change_requests(read)
            return
        if len(known.of_signals()) >= SIGNALS_MAX:
            raise SignalError(f"{SIGNALS_MAX} dumps that signals asked for have not ended; wait for them, or stop them by a stop-snapshot")
        created_ms, taken = self._clock.now_us() // 1000, {one.request.created_ms for one in known}
        while created_ms in taken:
            created_ms += 1  # so that two requests of one millisecond keep their order
        origin = SignalOrigin(signal.id, action.blocking)
        request = action.request(
            origin, id=signal.request_id, connector=self._connector, created_ms=created_ms, chunk_rows=self._chunk_rows
        )
        tables = self._checks.tables_of(request)
        _require_room(known, known.added(request, tables, checked=False))
        self._progress.change_requests(lambda requests: read(requests.added(request, tables, checked=False).without_old_ends()))
        self._check_soon()

    def _change(self, change: Callable[[RequestedDump], DumpRequest], read: Read, *, grows: bool = False) -> None:
        """Change all dumps that signals have requested, and no others.

        A writer of signals need not be allowed to control other people's dumps. ``grows`` is True
        if the requests may need noticeably more room in the offset. An older version may have left
        more there than is allowed now; pausing, resuming or stopping such dumps must still work.
        """

        def changed(requests: Requests) -> Requests:
            for one in requests.of_signals():
                if (request := change(one)) is not one.request:
                    requests = requests.added(request, ())
            return requests

        if grows:
            _require_room(self._progress.requests, changed(self._progress.requests))
        self._progress.change_requests(lambda requests: read(changed(requests)))
        self._dumping.start_readers()

    # ---- checks

    def _unchecked(self) -> list[RequestedDump]:
        return [one for one in self._progress.requests.of_signals() if not one.checked]

    def _check_soon(self) -> None:
        with self._lock:
            if self._checking or not self._unchecked():
                return
            self._checking = True
        self._threads.spawn("signal-check", self._check_all)

    def _check_all(self) -> None:
        """Check the requests one by one until none is unchecked.

        A request that cannot be checked now, for example because its table is locked, does not hold
        up the others.
        """
        failures: dict[str, int] = {}
        due_s: dict[str, float] = {}
        while not self._stopped.is_set():
            with self._lock:
                unchecked = self._unchecked()
                if not unchecked:
                    self._checking = False
                    return
            now_s = self._clock.monotonic_s()
            one = next((one for one in unchecked if due_s.get(one.request.id, now_s) <= now_s), None)
            if one is None:
                self._stopped.wait(_LOOK_S)
                continue
            identity = one.request.id
            try:
                fault = self._fault_of(one.request)
            except ServerChangedError:
                raise
            except TransientError as e:
                failures[identity] = failures.get(identity, 0) + 1
                delay_s = BACKOFF.delay_s(failures[identity], chance=random.random())  # noqa: S311 - jitter, no secret
                due_s[identity] = self._clock.monotonic_s() + delay_s
                log.warning("a dump that a signal asked for waits to be checked", dump=identity, reason=str(e), delay_s=round(delay_s, 2))
                continue
            if self._stopped.is_set():
                return
            if fault is not None:
                log.warning("a dump that a signal asked for cannot begin", dump=identity, reason=fault)
            self._progress.change_requests(lambda requests, identity=identity, fault=fault: requests.with_check(identity, fault))  # type: ignore[misc]
            self._dumping.start_readers()

    def _fault_of(self, request: DumpRequest) -> str | None:
        """Return why a request cannot be carried out; None if it can.

        The database's message about a filter may quote it, so it is left out.
        """
        try:
            self._checks.check(replace(request, predicate={}))
        except DefiniteError as e:
            return str(e)
        if not request.predicate:
            return None
        try:
            self._checks.check(request)
        except DefiniteError:
            return FILTER_REFUSED
        return None


def _wanted(one: RequestedDump, wanted: Wanted) -> DumpRequest:
    return with_wanted(one.request, wanted)


def _without_tables(one: RequestedDump, selected: Callable[[str], bool], patterns: Sequence[str]) -> DumpRequest:
    """Return the request with these patterns stopped, if they match tables that are
    left to read.
    """
    return with_tables_stopped(one.request, patterns) if any(selected(str(table)) for table in one.dump.left) else one.request


def _require_room(before: Requests, requests: Requests) -> None:
    """Raise SignalError if the offset has no room for the requests of signals. # I6

    Each offset contains them until they have ended. A change that needs no more room is allowed.
    """
    size = signals_bytes(requests)
    if size > SIGNALS_BYTES_MAX and size > signals_bytes(before):
        raise SignalError(
            f"with it the dumps that signals asked for would take {size} bytes in the connector's offset, and no more than {SIGNALS_BYTES_MAX} are "
            "kept; wait for some to end, or stop them by a stop-snapshot without data-collections, and use fewer and shorter patterns"
        )
