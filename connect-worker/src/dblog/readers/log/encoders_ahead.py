"""Builds the encoders of tables before their rows have to be sent.

Each encoder may need two answers of the schema registry. So several are requested at a time or, if
the registry supports it, those of many tables with one request.

Dump threads name the tables that they will read next; the log thread, which sends the rows, takes
the finished encoders. It builds missing ones itself, and also those that failed: only the log
thread knows how long to retry, and how to report the error.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections import OrderedDict, deque
from dataclasses import dataclass, field

from dblog.codecs.rowplan import RowEncoder
from dblog.model import Table, TableId
from dblog.readers.records import Records

THREADS = 8
"""Maximum number of threads if each asks for one table."""

TOGETHER_THREADS = 2
"""Maximum number of threads if each asks for many tables: while one waits for an answer, the other
prepares the next schemas.
"""

TOGETHER_MAX = 32
"""Maximum number of tables in one request; the first of them waits for all."""

KEPT_MAX = 1024
"""Maximum number of encoders that were requested and not taken; the oldest are dropped. # I6"""


@dataclass(slots=True, eq=False)
class _Ahead:
    table: Table
    begun: bool = False
    wanted: bool = True
    ended: threading.Event = field(default_factory=threading.Event)
    encoder: RowEncoder | None = None


class EncodersAhead:
    """Encoders of one task that are built ahead.

    ``records`` builds encoders, and asks the registry for many tables at a time if it can. Callers
    of ``begin`` and ``forget`` hold a lock, so that the version they name is the table's present
    one.
    """

    def __init__(self, records: Records, *, threads: int | None = None) -> None:
        self._records = records
        together = records.registered_together
        self._tables_max = TOGETHER_MAX if together else 1
        self._threads_max = threads or (TOGETHER_THREADS if together else THREADS)
        self._threads = 0
        """Number of running threads; each ends when nothing is left to build."""
        self._todo: deque[_Ahead] = deque()
        self._ahead: OrderedDict[TableId, _Ahead] = OrderedDict()
        self._lock = threading.Lock()
        self._stopped = False

    def begin(self, table: Table) -> None:
        """Start to build the encoder of this version, unless that has been requested already."""
        with self._lock:
            known = self._ahead.get(table.id)
        if known is not None and known.table == table:
            return
        self.forget(table.id)
        with self._lock:
            if self._stopped:
                return
            ahead = self._ahead[table.id] = _Ahead(table)
            while len(self._ahead) > KEPT_MAX:
                _, oldest = self._ahead.popitem(last=False)
                oldest.wanted = False
            self._todo.append(ahead)
            if self._threads < self._threads_max:
                self._threads += 1
                # The connector's name in log lines is a context variable, which a new thread does
                # not inherit.
                threading.Thread(target=contextvars.copy_context().run, args=(self._work,), name="schemas", daemon=True).start()

    def take(self, table: Table) -> RowEncoder | None:
        """Return the encoder of this version, waiting for it if it is being built.

        Return None if it was not requested, has not been started, or failed.
        """
        ahead = self._forgotten(table.id)
        return None if ahead is None or ahead.table != table else ahead.encoder

    def forget(self, table: TableId) -> None:
        """Drop the encoder of a table whose version has changed.

        If it is being registered, wait for that, so that versions are registered in the log's
        order.
        """
        self._forgotten(table)

    def _forgotten(self, table: TableId) -> _Ahead | None:
        with self._lock:
            ahead = self._ahead.pop(table, None)
            if ahead is None or not ahead.begun:
                if ahead is not None:
                    ahead.wanted = False
                return None
        ahead.ended.wait()
        return ahead

    def stop(self) -> None:
        """Stop building; a caller that waits for an encoder gets None."""
        with self._lock:
            self._stopped = True
            for ahead in self._ahead.values():
                ahead.wanted = False
            self._ahead.clear()
            self._todo.clear()

    def _work(self) -> None:
        while some := self._next():
            # A failure here repeats in the log thread, which reports it.
            with contextlib.suppress(Exception):
                for ahead, encoder in zip(some, self._records.encoders([ahead.table for ahead in some]), strict=True):
                    ahead.encoder = encoder
            for ahead in some:
                ahead.ended.set()

    def _next(self) -> list[_Ahead]:
        some: list[_Ahead] = []
        with self._lock:
            while self._todo and len(some) < self._tables_max:
                ahead = self._todo.popleft()
                if ahead.wanted:
                    ahead.begun = True
                    some.append(ahead)
            if not some:
                self._threads -= 1
            return some
