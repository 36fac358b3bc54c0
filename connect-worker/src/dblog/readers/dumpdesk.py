"""Takes requests for dumps of a running task, checks them, and reports the state of each dump.

The end of a dump is reported once the offset with it is stored, and repeated until its owner has
recorded it. Otherwise a person could read "done" about rows that a kill would take back. # I1
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol

from dblog.clock import Clock
from dblog.config.regex import Pattern
from dblog.core.dumprequests import INITIAL, DumpRequest
from dblog.core.dumps import Dump
from dblog.core.requested import End, NoTableError, RequestedDump, Requests, require_room, tables_of
from dblog.core.signals import Signal
from dblog.core.surrogate import keyed_by
from dblog.errors import DefiniteError
from dblog.model import Table, TableId
from dblog.readers.contract import RequestCheck
from dblog.readers.dumping import Dumping
from dblog.readers.dumpreport import bounded
from dblog.readers.dumpstatus import Statuses
from dblog.readers.interleaved import Interleaver
from dblog.readers.modes import Modes

NAMED_MAX = 10
"""Maximum number of tables named in a message."""


class TakesSignals(Protocol):
    """Receiver of signals (``signals.SignalDesk``)."""

    def take(self, signal: Signal) -> None:
        """Take a signal."""


class DumpDesk:
    """Requests for dumps in one run. Any thread may call it, but ``statuses`` and ``stored`` belong
    to one thread.

    ``estimates`` returns rows of tables by the server's statistics; ``learn`` adds some.
    ``governor`` returns how hard dumps may read, and why.
    """

    def __init__(
        self,
        *,
        interleaver: Interleaver,
        dumping: Dumping,
        captured: Callable[[], Iterable[TableId]],
        table_of: Callable[[TableId], Table | None],
        estimates: Callable[[], Mapping[TableId, int]],
        learn: Callable[[Mapping[TableId, int]], None],
        server: RequestCheck,
        modes: Modes,
        governor: Callable[[], dict[str, Any]] = dict,
        ends_after_dump: bool,
        clock: Clock,
    ) -> None:
        self._modes = modes
        self._interleaver = interleaver
        self._dumping = dumping
        self._captured = captured
        self._table_of = table_of
        self._estimates = estimates
        self._learn = learn
        self._server = server
        self._ends_after_dump = ends_after_dump
        self._stored = interleaver.requests
        self._end_stored = interleaver.dump is not None and interleaver.dump.ended
        self.signals: TakesSignals | None = None
        self._statuses = Statuses(interleaver, estimates=estimates, governor=governor, clock=clock)

    # ---- requests

    def take(self, request: DumpRequest) -> None:
        """Take a new request, or one that its owner has changed."""
        known = self._interleaver.requests.get(request.id)
        tables = self.tables_of(request) if known is None else []
        self._interleaver.change_requests(lambda requests: requests.added(request, tables))
        self._dumping.start_readers()

    def forget(self, identity: str) -> None:
        """Forget a request: its owner has recorded its end."""
        self._interleaver.change_requests(lambda requests: requests.forgotten(identity))
        self._statuses.forget(identity)

    def tables_of(self, request: DumpRequest) -> list[TableId]:
        """Return the captured tables that a request selects, in its order."""
        return tables_of(request, self._captured(), rows_of=self._estimates())

    def named(self, request: DumpRequest, name: str) -> list[TableId]:
        """Return the tables of a request with this name, ignoring case.

        If the dump continues from an earlier run, the tables finished then are looked for among the
        tables captured now.
        """
        lowered, known = name.lower(), self._interleaver.requests.get(request.id)
        found = {} if known is None else {table: None for table in chain(known.dump.left, known.dump.over) if str(table).lower() == lowered}
        if known is None or known.dump.finished:
            found |= {table: None for table in self.tables_of(request) if str(table).lower() == lowered}
        return list(found)

    def check(self, request: DumpRequest) -> list[TableId]:
        """Check a request, and return the tables that it would dump.

        Raise DefiniteError with the reason if it cannot be carried out. The server is asked, but
        nothing is changed there.
        """
        if self._ends_after_dump:
            message = "the connector has snapshot.mode=initial_only and ends with its own dump; set another mode, such as initial"
            raise DefiniteError(message)
        tables = self.tables_of(request)
        if not tables:
            message = (
                f"no captured table matches {', '.join(request.tables)}; a pattern matches the whole of database.table (schema.table with PostgreSQL), "
                "and the connector captures what its include and exclude lists select"
            )
            raise NoTableError(message)
        if request.keys is not None and len(tables) > 1:
            message = f"keys belong to one table, and {request.tables[0]} matches {len(tables)}; name one"
            raise DefiniteError(message)
        require_room(self._interleaver.requests, request, tables)
        self._modes.require_own_topics(tables, request.mode, self._captured())
        known = [table for table in map(self._table_of, tables) if table is not None]  # a table dropped meanwhile ends at once
        self._learn(self._server.prepare_dump(known))
        _require_use(request, tables)
        for table in known:
            self._modes.encoder(table, request.mode, request.columns)
            keyed_by(table, request.surrogate_key)
            if request.keys is not None:
                self._server.check_keys(table, request.keys)
                self._server.try_keys(table, request.keys)
        if request.surrogate_key is not None:
            self._server.check_surrogate(known, request.surrogate_key)
        chosen = [(table, where) for table in known if (where := request.predicate_of(str(table.id))) is not None]
        if chosen:
            self._server.check_conditions(chosen)
        return tables

    def signal(self, signal: Signal) -> None:
        """Take a signal that was sent by REST."""
        if self.signals is not None:
            self.signals.take(signal)

    # ---- progress

    def stored(self, requests: Requests, *, dump_ended: bool) -> None:
        """Note that the offset with these requests is stored.

        ``dump_ended`` is True if that offset says that the connector's own dump has ended.
        """
        self._stored, self._end_stored = requests, dump_ended

    def eta_error(self) -> float | None:
        """Return the error of past estimates of the own dump's end; see
        ``core.outlook.Outlook.error``.
        """
        return self._statuses.eta_error(INITIAL)

    def statuses(self) -> list[dict[str, Any]]:
        """Return the status of the connector's own dump and of each request, within the size limit
        of the herder.
        """
        own = self._interleaver.dump
        out = [] if own is None else [self._statuses.of(INITIAL, own, _own_state(own, stored=self._end_stored), None)]
        for one in self._interleaver.requests:
            stored = self._stored.get(one.request.id)
            end = None if stored is None else stored.end
            state = _state(one, end, rows_leave=bool(self._interleaver.rows_leave(one.request.id)))
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


def _require_use(request: DumpRequest, tables: Sequence[TableId]) -> None:
    """Raise DefiniteError if a predicate matches no table: all rows of its table would
    be dumped.
    """
    names = [str(table) for table in tables]
    for text in request.predicate:
        pattern = Pattern(text, ignore_case=True)
        if not any(map(pattern.fullmatch, names)):
            message = f"the predicate's pattern {text} matches none of the dump's tables ({', '.join(names[:NAMED_MAX])}); it is the whole of {names[0]}"
            raise DefiniteError(message)
