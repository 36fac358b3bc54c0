"""The state of all dumps of a running task, for any thread: reads, changes, and waiting.

The rules are ``core/dump_book.py``'s; here are the lock, the log lines, and the notices of changes
that the next batch carries into the offset. # I1

Windows (``open_windows.py``) and progress share one lock, ``changed``: a chunk that closes moves a
frontier, and a table that is read again discards windows. Each such pair is seen as one change. Who
waits, waits for ``changed``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from dblog.core.dump_book import DumpBook
from dblog.core.dumps import Dump
from dblog.core.notices import Notice, of_own, of_request
from dblog.core.pressure import FREE, Pace
from dblog.core.requested import RequestedDump, Requests
from dblog.core.table_dump import TableDump
from dblog.model import TableId

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Changes of dumps that no batch has carried yet."""

    own: Dump | None = None
    """The connector's own dump, if it has changed."""
    requests: Requests | None = None
    """The requested dumps, if one of them has changed."""
    notices: tuple[Notice, ...] = ()


class DumpProgress:
    """Progress of a task's dumps. Any thread may call it.

    ``notifies`` is False if nobody wants notices of changes.
    """

    def __init__(self, *, notifies: bool = False) -> None:
        self.changed = threading.Condition()
        """Lock and wake-up call of dumps and windows. Calls under it may nest."""
        self.stopping = False
        """True once ``stop`` was called."""
        self.pace = FREE
        """Pace that dumps have to keep now."""
        self._notifies = notifies
        self._book = DumpBook()
        self._notices: list[Notice] = []
        self._own_moved = self._requests_moved = False

    # ---- reading

    @property
    def book(self) -> DumpBook:
        """State of all dumps now. A change that another thread is making is not seen by half."""
        with self.changed:
            return self._book

    @property
    def own(self) -> Dump | None:
        """Connector's own dump, running or finished; None before the first one."""
        return self.book.own

    @property
    def requests(self) -> Requests:
        """Requested dumps."""
        return self.book.requests

    def table(self, table: TableId) -> TableDump | None:
        """Return the table's progress in the dump that it is read for; None if it is not in that
        dump.
        """
        return self.book.table(table)

    def is_paused(self, table: TableId) -> bool:
        """Return True if all dumps are held, or the table's dump, or the table in it, is paused or
        stopped.
        """
        return self.pace.held or self.book.is_paused(table)

    # ---- changing

    def begin(self, own: Dump | None, requests: Requests, *, known: Requests, own_is_new: bool) -> None:
        """Set the state of dumps at the start. ``known`` are the requests in the offset, so the
        others are news.
        """
        with self.changed:
            self._book = DumpBook(own=own, requests=known)
            if own_is_new and self._notifies:
                self._notices += of_own(None, own)
            self._set(self._book.with_requests(requests), None)
            self._own_moved, self._requests_moved = own is not None, True

    def change(self, change: Callable[[DumpBook], DumpBook], *, table: TableId | None = None) -> DumpBook:
        """Replace the state of dumps and return it; the next batch carries it into the offset.

        ``table`` is given if nothing but its progress changes, in one dump.
        """
        with self.changed:
            self._set(change(self._book), table)
            self.changed.notify_all()
            return self._book

    def change_own(self, change: Callable[[Dump | None], Dump | None]) -> None:
        """Replace the state of the connector's own dump."""
        self.change(lambda book: book.with_own(change(book.own)))

    def change_requests(self, change: Callable[[Requests], Requests]) -> None:
        """Replace the state of the requested dumps."""
        self.change(lambda book: book.with_requests(change(book.requests)))

    def change_table(self, table: TableId, change: Callable[[Dump], Dump]) -> None:
        """Change the table's progress in the dump that it is read for."""
        self.change(lambda book: book.changed(book.identity_of(table), change), table=table)

    def drop(self, table: TableId) -> None:
        """Note that the table is gone from the source (``core.dump_book.DumpBook.dropped``)."""
        self.change(lambda book: book.dropped(table))

    def create(self, table: TableId) -> None:
        """Note that an empty table of that name was created: the log brings all its rows."""
        self.change(lambda book: book.all_changed(lambda dump: dump.created(table)))

    def fail(self, table: TableId, fault: str, *, dump: str | None = None) -> None:
        """End the table with an error in one dump; its other tables continue.

        ``dump`` is the dump's id, None for the one that the table is read for.
        """
        log.error("the table cannot be dumped", table=str(table), reason=fault)
        self.change(
            lambda book: book.changed(book.identity_of(table) if dump is None else dump, lambda d: d.given_up(table, fault)), table=table
        )

    def _set(self, book: DumpBook, table: TableId | None) -> None:
        before, self._book = self._book, book
        own, was = book.own, before.own
        if own is not was:
            if own is not None and own.ended and was is not None and not was.ended:
                log.info("dump done", rows=own.rows, tables=len(own.tables), failed=[str(t.table) for t in own.failed])
            if self._notifies:
                self._notices += of_own(was, own, table)
            self._own_moved = True
        if book.requests is not before.requests:
            for identity, one in book.requests.by_id.items():
                known = before.requests.get(identity)
                if one is known:
                    continue
                if one.end is not None and known is not None and known.end is None:
                    _log_end(one)
                if self._notifies:
                    self._notices += of_request(known, one, table)
            self._requests_moved = True

    # ---- pace and end

    def set_pace(self, pace: Pace) -> None:
        """Set how hard dumps may read from now on."""
        with self.changed:
            self.pace = pace
            self.changed.notify_all()

    def rest(self, table: TableId, rest_s: float) -> bool:
        """Wait before a window of the table. Return False if the request that it is read for has
        changed.

        The rest that the request asks for may have changed with it.
        """
        with self.changed:
            before = self._request_now(table)

            def changed() -> bool:
                return self.stopping or self.pace.held or self._request_now(table) is not before

            return not self.changed.wait_for(changed, timeout=rest_s)

    def _request_now(self, table: TableId) -> object:
        one = self._book.request_of(table)
        return None if one is None else one.request

    def stop(self) -> None:
        """Stop for good, and wake every waiting thread."""
        with self.changed:
            self.stopping = True
            self.changed.notify_all()

    # ---- the log thread

    @property
    def moved(self) -> bool:
        """True if no batch has carried the newest state of dumps yet.

        An empty table is done without any row.
        """
        return self._own_moved or self._requests_moved

    def take_moved(self) -> Moved:
        """Return the changes since the last call; the caller's batch carries them."""
        with self.changed:
            own = self._book.own if self._own_moved else None
            requests = self._book.requests if self._requests_moved else None
            self._own_moved = self._requests_moved = False
            notices, self._notices = tuple(self._notices), []
            return Moved(own=own, requests=requests, notices=notices)


def _log_end(one: RequestedDump) -> None:
    dump = one.dump
    log.info(
        "requested dump ended",
        dump=one.request.id,
        state=one.end,
        rows=dump.rows,
        tables_done=dump.tables_done,
        tables_total=dump.tables_total,
        failed=one.tables_failed,
    )
