"""Checks of requests for dumps, before one is accepted: which tables it names, and whether they can
be dumped as it asks.
"""

from __future__ import annotations

from collections.abc import Sequence

from dblog.config.regex import Pattern
from dblog.core.dumprequests import DumpRequest
from dblog.core.requested import NoTableError, require_room, tables_of
from dblog.core.surrogate import keyed_by
from dblog.errors import DefiniteError
from dblog.model import TableId
from dblog.readers.contract import RequestCheck
from dblog.readers.dump.modes import Modes
from dblog.readers.dump_progress import DumpProgress
from dblog.readers.log.logwatch import RowEstimates
from dblog.readers.log.schemas import Schemas

NAMED_MAX = 10
"""Maximum number of tables named in a message."""


class RequestChecks:
    """Checks of one run. Any thread may call them."""

    def __init__(
        self,
        *,
        progress: DumpProgress,
        schemas: Schemas,
        estimates: RowEstimates,
        server: RequestCheck,
        modes: Modes,
        ends_after_dump: bool,
    ) -> None:
        self._progress = progress
        self._schemas = schemas
        self._estimates = estimates
        self._server = server
        self._modes = modes
        self._ends_after_dump = ends_after_dump

    def tables_of(self, request: DumpRequest) -> list[TableId]:
        """Return the captured tables that a request selects, in its order."""
        return tables_of(request, self._schemas.captured(), rows_of=self._estimates.rows)

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
        require_room(self._progress.requests, request, tables)
        self._modes.require_own_topics(tables, request.mode, self._schemas.captured())
        known = [table for table in map(self._schemas.table, tables) if table is not None]  # a table dropped meanwhile ends at once
        self._estimates.learn(self._server.prepare_dump(known))
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
