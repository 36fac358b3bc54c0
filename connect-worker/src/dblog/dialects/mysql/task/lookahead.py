"""A search for a statement that touches a table, between a position of the log and the server's
current end. It decides whether a schema read now was valid at the position.

A second log connection reads this part of the log, with rows undecoded. It stops at the first
statement that names the table, or that is not understood well enough to be sure. Only statements
after the position count. It is needed when neither the log's metadata nor its DDL text shows a
table's columns, which is rare.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
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


class LookAhead:
    """A search through the log. ``open_log`` connects at file and position with another server id;
    ``new_decoder`` decodes no table; ``parse`` reads one statement.
    """

    def __init__(
        self,
        *,
        open_log: Callable[[str, int], LogBytes],
        new_decoder: Callable[[], Any],
        parse: Callable[[events.Query, Position], Iterable[Change]],
        text_of: Callable[[events.Query], str],
        end_of_log: Callable[[int, bytes, str], Exception],
        stopped: Callable[[], bool],
        epoch: int,
    ) -> None:
        self._open_log = open_log
        self._new_decoder = new_decoder
        self._parse = parse
        self._text_of = text_of
        self._end_of_log = end_of_log
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
        connection = self._open_log(begin.file, begin.pos)
        try:
            decoder = self._new_decoder()
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
                if self._stopped() or time.monotonic() - heard_s > SILENCE_MAX_S:
                    message = f"the log from {begin.file}:{begin.pos} on did not reach the end that the server had reported"
                    raise TransientError(message)
        finally:
            connection.close()

    def _is_touch(self, event: LogEvent, table: TableId, after: Position) -> bool:
        if event.type_code < 0:
            raise self._end_of_log(event.type_code, event.body, f"{event.file}:{event.start_pos}")
        position = (event.sequence_high, event.next_pos << POSITION_BITS)
        if event.type_code != events.EventType.QUERY or position <= after:
            return False
        query = events.read_query(event.body)
        for change in self._parse(query, position):
            match change:
                case TruncateTable():
                    pass
                case DropDatabase(name) if name == table.database:
                    return True
                case Unknown(()):
                    return table.name.lower() in self._text_of(query).lower()
                case _ if table in tables_of(change):
                    return True
                case _:
                    pass
        return False
