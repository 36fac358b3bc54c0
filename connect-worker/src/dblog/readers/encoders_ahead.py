"""Builds the encoders of tables before their rows have to be sent: each may cost the schema registry two answers, so several are asked for at a time, or
those of many tables with one request where the registry takes that.

Dump threads say which tables they are about to read; the log thread, which sends the rows, takes what has been built. It builds what is not there itself, and
what failed too: it alone knows how long to be patient, and how to say what is wrong.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dblog.codecs.rowplan import RowEncoder
from dblog.model import Table, TableId

THREADS = 8
"""At the most, where each asks for one table."""

TOGETHER_THREADS = 2
"""Where they ask for many: while one waits for an answer the other makes the next schemas."""

TOGETHER_MAX = 32
"""Tables of one request: whoever waits for the first waits for them all."""

KEPT_MAX = 1024
"""Encoders that were asked for and not taken; the oldest go first. # I6"""


@dataclass(slots=True, eq=False)
class _Ahead:
    table: Table
    begun: bool = False
    wanted: bool = True
    ended: threading.Event = field(default_factory=threading.Event)
    encoder: RowEncoder | None = None


class EncodersAhead:
    """One task's. ``build`` asks the registry, ``together`` for many tables at a time. Whoever calls ``begin`` and ``forget`` holds a lock, so that the
    version it names is the table's.
    """

    def __init__(
        self, build: Callable[[Sequence[Table]], Sequence[RowEncoder | None]], *, together: bool = False, threads: int | None = None
    ) -> None:
        self._build = build
        self._tables_max = TOGETHER_MAX if together else 1
        self._threads_max = threads or (TOGETHER_THREADS if together else THREADS)
        self._threads = 0
        """That run now: each ends when nothing is left to be built."""
        self._todo: deque[_Ahead] = deque()
        self._ahead: OrderedDict[TableId, _Ahead] = OrderedDict()
        self._lock = threading.Lock()
        self._stopped = False

    def begin(self, table: Table) -> None:
        """Have the encoder of this version built, unless that was asked for already."""
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
                # The connector's name in log lines is a context variable, and a new thread begins with none.
                threading.Thread(target=contextvars.copy_context().run, args=(self._work,), name="schemas", daemon=True).start()

    def take(self, table: Table) -> RowEncoder | None:
        """The encoder of this version, once it is built; None where that was not asked for, has not begun, or has failed."""
        ahead = self._forgotten(table.id)
        return None if ahead is None or ahead.table != table else ahead.encoder

    def forget(self, table: TableId) -> None:
        """The table has another version now. One that is being registered is registered when this returns, so versions are registered in the log's order."""
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
        """Build none any more; who waits for one gets None."""
        with self._lock:
            self._stopped = True
            for ahead in self._ahead.values():
                ahead.wanted = False
            self._ahead.clear()
            self._todo.clear()

    def _work(self) -> None:
        while some := self._next():
            # Whatever fails here fails again where it is taken, and is said there.
            with contextlib.suppress(Exception):
                for ahead, encoder in zip(some, self._build([ahead.table for ahead in some]), strict=True):
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
