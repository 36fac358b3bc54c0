"""The tables as the log shows them: table maps, DDL statements, and a test whether the server's
current schema was valid at a position of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dblog.core.changes import Change
from dblog.core.crosscheck import Seen
from dblog.core.timeline import Position, Timeline
from dblog.dialects.mysql.binlog.events import Query
from dblog.dialects.mysql.binlog.items import LogOffset
from dblog.dialects.mysql.binlog.offset import sequence_of
from dblog.dialects.mysql.task.connections import Connections
from dblog.dialects.mysql.task.lookahead import LookAhead
from dblog.dialects.mysql.wire.check import require_readable
from dblog.errors import TransientError
from dblog.model import Table, TableId
from dblog.readers.contract import Advice, Merge, Reading, TaskContext

CATALOG_TRIES_MAX = 20
"""The most reads of a table until two agree."""

ADVICE = Advice(
    name_columns="set binlog_row_metadata=FULL on the server so that the log names its columns",
    name_columns_in_future="Run SET GLOBAL binlog_row_metadata = 'FULL'",
    log_rows="run SET GLOBAL binlog_format = 'ROW', let sessions reconnect",
    disagreement="as after an ALTER with sql_log_bin=0",
)


class BinlogSchemas:
    """The schemas of one task's log. Implements ``readers.contract.LogSchemas``; used by the log
    thread.
    """

    advice = ADVICE

    def __init__(self, connections: Connections, timeline: Timeline, context: TaskContext, *, epoch: int) -> None:
        session = connections.session
        self._connections = connections
        self._dialect = connections.dialect
        self._version = session.facts.version
        self._charsets = self._dialect.charsets(session)
        self._parse = self._dialect.statement_parser(session.facts, timeline)
        self._ahead = LookAhead(connections, self, stopped=context.stopped, epoch=epoch)

    def leave_out(self, unreadable: frozenset[tuple[str, int]]) -> None:
        """Leave these damaged events out when the log is searched."""
        self._ahead.unreadable = unreadable

    def text_of(self, query: Query) -> str:
        """Return a statement's text."""
        return self._dialect.statement_text(query, self._charsets)

    def read_table_map(self, table_map: bytes) -> tuple[TableId, Seen, Merge]:
        """Return name and columns of a table map, and a function that merges them with known
        columns.
        """
        return self._dialect.read_table_map(table_map, self._charsets)

    def parse_statement(self, statement: Query, text: str, position: Position) -> Iterable[Change]:
        """Return the changes of a statement."""
        return self._parse(statement, text, position)

    def rewritten(self, changes: Iterable[Change], before: Callable[[TableId], Table | None]) -> dict[TableId, str]:
        """Return the tables whose old rows the changes alter without row events, with the reason."""
        return self._dialect.rewritten(changes, before)

    def row_change(self, statement: Query, text: str) -> tuple[str, frozenset[TableId]] | None:
        """Return the kind and tables of a statement that changes rows; None for any other."""
        return self._dialect.row_change(statement, text, self._version)

    def read_table(self, table: TableId, position: Position, begin: LogOffset) -> Reading:
        """Return the server's current table, and whether a statement since ``position`` touches it.
        The table is read before and after the search, as at the start.
        """
        for _ in range(CATALOG_TRIES_MAX):
            session = self._connections.live_session()
            before = session.read_catalog(lambda other: other == table)
            require_readable(session, table)
            file, pos, _ = session.current_position()
            end = sequence_of(epoch=position[0] >> 32, file=file, pos=pos)
            touched = self._ahead.touches(table, begin, position, end)
            if before == session.read_catalog(lambda other: other == table):
                return Reading(table=next(iter(before), None), position=end, touched=touched)
        message = f"{table} keeps being altered while its schema is read"
        raise TransientError(message)
