"""A search for a statement that touches a table, between a position of the log and the server's
current end. It decides whether a schema read now was valid at the position.

A second log connection reads this part of the log, with rows undecoded. It stops at the first
statement that names the table, or that is not understood well enough to be sure. Only statements
after the position count. It is needed when neither the log's metadata nor its DDL text shows a
table's columns, which is rare.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any, Protocol

from dblog.core.changes import Change, DropDatabase, TruncateTable, Unknown, tables_of
from dblog.core.timeline import Position
from dblog.dialects.mysql.binlog import events
from dblog.dialects.mysql.binlog.items import LOOK_AHEAD, LogEvent, LogOffset
from dblog.dialects.mysql.binlog.offset import POSITION_BITS, sequence_of
from dblog.errors import TransientError
from dblog.model import TableId

SILENCE_MAX_S = 30.0
"""The longest silence in seconds. The end existed when it was asked for, so bytes must come."""


class LogBytes(Protocol):
    """An open log connection."""

    def recv(self, timeout_s: float) -> bytes:
        """Return bytes of the log; b"" if none came in time. Raise TransientError if the connection
        is lost.
        """

    @property
    def is_silent(self) -> bool:
        """True if the server's heartbeats are overdue."""

    def wake(self) -> None:
        """End a wait inside ``recv``."""

    def close(self) -> None:
        """Close the connection, from any thread."""


class SecondLogs(Protocol):
    """Second log connections of a task, each with a decoder of what is looked for."""

    def open_second_log(self, file: str, pos: int) -> LogBytes:
        """Open a second log connection at file and position, with another server id."""

    def statements_decoder(self) -> Any:
        """Return a decoder without tables."""

    def ends_decoder(self) -> Any:
        """Return a decoder without tables that reports what ends transactions."""

    def rows_decoder(self, tables: Iterable[TableId]) -> Any:
        """Return a decoder that returns the rows events of these tables as events, and no other
        rows.
        """

    def end_of_log(self, code: int, body: bytes, where: str) -> Exception:
        """Return the error of a packet that ends the log; ``where`` is the position before it."""


class Statements(Protocol):
    """The statements of a log."""

    def text_of(self, query: events.Query) -> str:
        """Return a statement's text."""

    def parse_statement(self, statement: events.Query, text: str, position: Position) -> Iterable[Change]:
        """Return the changes of a statement."""


class LookAhead:
    """A search through the log, used by the log thread. It ends once ``stopped`` is set."""

    def __init__(self, logs: SecondLogs, statements: Statements, *, stopped: threading.Event, epoch: int) -> None:
        self._logs = logs
        self._statements = statements
        self._stopped = stopped
        self._epoch = epoch
        self.unreadable: frozenset[tuple[str, int]] = frozenset()
        """Positions of damaged events that are left out."""

    def touches(self, table: TableId, begin: LogOffset, position: Position, end: Position) -> bool:
        """Return whether a statement may have changed the table's columns, after ``position``
        (whose transaction begins at ``begin``) and up to ``end``.
        """
        if position >= end:
            return False
        connection = self._logs.open_second_log(begin.file, begin.pos)
        try:
            decoder = self._logs.statements_decoder()
            decoder.start(begin.file, begin.pos, epoch=self._epoch, now_us=lambda: 0, unreadable=self.unreadable)
            heard_s = time.monotonic()
            while True:
                data = connection.recv(0.2)
                items = [*decoder.feed(data)] if data else []
                while decoder.held:
                    items += decoder.feed(b"")
                items += decoder.flush()
                for item in items:
                    if isinstance(item, LogEvent) and item.type_code == LOOK_AHEAD:
                        decoder.told(())  # it asks about rows, which are not read here
                    elif isinstance(item, LogEvent) and self._is_touch(item, table, position):
                        return True
                    if sequence_of(epoch=self._epoch, file=item.position.file, pos=item.position.pos) >= end:
                        return False
                if data:
                    heard_s = time.monotonic()
                if self._stopped.is_set() or time.monotonic() - heard_s > SILENCE_MAX_S:
                    message = f"the log from {begin.file}:{begin.pos} on did not reach the end that the server had reported"
                    raise TransientError(message)
        finally:
            connection.close()

    def _is_touch(self, event: LogEvent, table: TableId, after: Position) -> bool:
        if event.type_code < 0:
            raise self._logs.end_of_log(event.type_code, event.body, f"{event.file}:{event.start_pos}")
        position = (event.sequence_high, event.next_pos << POSITION_BITS)
        if event.type_code != events.EventType.QUERY or position <= after:
            return False
        query = events.read_query(event.body)
        text = self._statements.text_of(query)
        for change in self._statements.parse_statement(query, text, position):
            match change:
                case TruncateTable():
                    pass
                case DropDatabase(name) if name == table.database:
                    return True
                case Unknown(()):
                    return table.name.lower() in text.lower()
                case _ if table in tables_of(change):
                    return True
                case _:
                    pass
        return False
