"""Where a running task is asked about dumps: it takes requests, reports how each comes on, and checks one before it is taken.

An end is reported once the offset that holds it is stored, and again until its owner has noted it: whoever asked must not read "done" of rows that a kill
could still take back. # I1
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
"""Tables in a message."""


class TakesSignals(Protocol):
    """Carries signals out (``signals.SignalDesk``)."""

    def take(self, signal: Signal) -> None:
        """One of them."""


class DumpDesk:
    """One run's. Any thread may ask; ``statuses`` and ``stored`` are one thread's."""

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
        """``estimates``: rows of tables by the server's statistics; ``learn`` adds some. ``governor``: how hard dumps may read, and why."""
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
        """A new request, or one that its owner has changed."""
        known = self._interleaver.requests.get(request.id)
        tables = self.tables_of(request) if known is None else []
        self._interleaver.change_requests(lambda requests: requests.added(request, tables))
        self._dumping.start_readers()

    def forget(self, identity: str) -> None:
        """Its owner has noted its end."""
        self._interleaver.change_requests(lambda requests: requests.forgotten(identity))
        self._statuses.forget(identity)

    def tables_of(self, request: DumpRequest) -> list[TableId]:
        """The captured tables that a request means, in its order."""
        return tables_of(request, self._captured(), rows_of=self._estimates())

    def named(self, request: DumpRequest, name: str) -> list[TableId]:
        """The tables of a request that have this name, in whatever case. Of one that goes on from an earlier run, the tables that were done then are looked
        for among those that are captured now.
        """
        lowered, known = name.lower(), self._interleaver.requests.get(request.id)
        found = {} if known is None else {table: None for table in chain(known.dump.left, known.dump.over) if str(table).lower() == lowered}
        if known is None or known.dump.finished:
            found |= {table: None for table in self.tables_of(request) if str(table).lower() == lowered}
        return list(found)

    def check(self, request: DumpRequest) -> list[TableId]:
        """The tables that a request would dump. DefiniteError with what is wrong with it; the server is asked, nothing is changed there."""
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
        known = [table for table in map(self._table_of, tables) if table is not None]  # one that has gone meanwhile ends at once
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
        """A signal that came by REST."""
        if self.signals is not None:
            self.signals.take(signal)

    # ---- progress

    def stored(self, requests: Requests, *, dump_ended: bool) -> None:
        """Note that the offset is stored which holds these requests. ``dump_ended``: it says that the connector's own dump has ended."""
        self._stored, self._end_stored = requests, dump_ended

    def eta_error(self) -> float | None:
        """How wrong the times to the end of the connector's own dump have been."""
        return self._statuses.eta_error(INITIAL)

    def statuses(self) -> list[dict[str, Any]]:
        """Return the status of the connector's own dump and of each request, together no larger than the herder takes."""
        own = self._interleaver.dump
        out = [] if own is None else [self._statuses.of(INITIAL, own, _own_state(own, stored=self._end_stored), None)]
        for one in self._interleaver.requests:
            stored = self._stored.get(one.request.id)
            end = None if stored is None else stored.end
            state = _state(one, end, rows_leave=bool(self._interleaver.rows_leave(one.request.id)))
            out.append(self._statuses.of(one.request.id, one.dump, state, one.reason if end is not None else None, one=one))
        return bounded(out)


def _own_state(dump: Dump, *, stored: bool) -> str:
    """Return the state of the connector's own dump. Its end counts once it is stored: a kill before that has the dump go on."""
    if not dump.ended or not stored:
        return "RUNNING"
    return "FAILED" if dump.failed else "DONE"


def _state(one: RequestedDump, stored: End | None, *, rows_leave: bool) -> str:
    if stored is not None:
        return stored.value
    if one.end is not None:
        return "RUNNING"  # its end is not stored yet
    if not one.runs:
        return one.request.wanted.value if one.checked else "WAITING"
    has_begun = rows_leave or one.dump.rows or any(progress.started for progress in one.dump.left.values())
    return "RUNNING" if has_begun else "WAITING"


def _require_use(request: DumpRequest, tables: Sequence[TableId]) -> None:
    """A predicate that chooses rows of no table would leave all of them in."""
    names = [str(table) for table in tables]
    for text in request.predicate:
        pattern = Pattern(text, ignore_case=True)
        if not any(map(pattern.fullmatch, names)):
            message = f"the predicate's pattern {text} matches none of the dump's tables ({', '.join(names[:NAMED_MAX])}); it is the whole of {names[0]}"
            raise DefiniteError(message)
