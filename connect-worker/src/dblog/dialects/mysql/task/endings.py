"""The end of a transaction that is too long to wait for in memory, found before its first row is
returned.

A second log connection reads the transaction from its beginning, with rows undecoded, and notes
which parts of it are undone (``binlog/undone.py``). Only transactions of more than
LOOK_AHEAD_BYTES_MAX are read twice, and only if the server may undo rows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from dblog.dialects.mysql.binlog import events
from dblog.dialects.mysql.binlog.event_types import EventType
from dblog.dialects.mysql.binlog.items import LogEvent, LogOffset
from dblog.dialects.mysql.binlog.undone import Undone
from dblog.dialects.mysql.task.lookahead import SILENCE_MAX_S, SecondLogs
from dblog.errors import DefiniteError, TransientError

_ENDS = frozenset({EventType.XID, EventType.XA_PREPARE})


class Endings:
    """A search for the ends of transactions, used by the log thread. It ends once ``stopped`` is
    set.
    """

    def __init__(self, logs: SecondLogs, *, stopped: threading.Event) -> None:
        self._logs = logs
        self._stopped = stopped
        self._last: tuple[tuple[str, int], Sequence[tuple[int, int]]] | None = None

    def undone(self, begin: LogOffset, unreadable: AbstractSet[tuple[str, int]]) -> Sequence[tuple[int, int]]:
        """Return the parts whose rows are undone, of the transaction that begins at ``begin.pos``.
        Damaged events at the positions ``unreadable`` are left out.

        The last answer is kept. The server may end the task's log connection during the search, and
        the next connection asks again.
        """
        at = begin.file, begin.pos
        if self._last is None or self._last[0] != at:
            self._last = at, self._read(*at, unreadable)
        return self._last[1]

    def _read(self, file: str, pos: int, unreadable: AbstractSet[tuple[str, int]]) -> Sequence[tuple[int, int]]:
        connection = self._logs.open_second_log(file, pos)
        try:
            decoder = self._logs.ends_decoder()
            decoder.start(file, pos, now_us=lambda: 0, unreadable=frozenset(unreadable))
            undone = Undone(pos)
            heard_s = time.monotonic()
            while True:
                data = connection.recv(0.2)
                items = decoder.feed(data) if data else []
                while True:
                    if any(isinstance(item, LogEvent) and self._ends(item, undone, file, pos) for item in items):
                        return undone.parts
                    if not decoder.held:
                        break
                    items = decoder.feed(b"")
                if data:
                    heard_s = time.monotonic()
                if self._stopped.is_set() or time.monotonic() - heard_s > SILENCE_MAX_S:
                    message = f"the transaction that begins at {file}:{pos} has no end in the log"
                    raise TransientError(message)
        finally:
            connection.close()

    def _ends(self, event: LogEvent, undone: Undone, file: str, pos: int) -> bool:
        if event.type_code < 0:
            raise self._logs.end_of_log(event.type_code, event.body, f"{file}:{pos}")
        if event.file != file:
            undone.cut()
            return True
        if event.type_code in _ENDS:
            return True
        if event.type_code != EventType.QUERY:
            return False
        try:
            return undone.statement(events.read_query(event.body).text, event.start_pos)
        except ValueError as error:
            message = f"the log at {file}:{event.start_pos} holds {error}; check it with mysqlbinlog, and reset the connector's offsets"
            raise DefiniteError(message) from error
