"""The progress of all dumps of a task as one value: the connector's own dump, the requested dumps,
and for which of them each table is read now.

Each step returns a new value, so what several threads see is always one state. The rules that need
more than one dump are here: for which dump a chunk counts, whether it is the next one there (I9),
which dumps start a table again, and which rows an update may move past all chunks. Locks, log lines
and notices are in ``readers/dump_progress.py``. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from dblog.core.dumprequests import INITIAL, DumpRequest
from dblog.core.dumps import Dump
from dblog.core.requested import STOPPED, End, RequestedDump, Requests
from dblog.core.table_dump import Key, TableDump
from dblog.model import TableId


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRange:
    """The part of a table that one chunk has read, as the progress of its dump counts it."""

    dump: str
    """Dump that the chunk was read for."""
    table: TableId
    key: tuple[str, ...]
    """Columns of the range's ends; empty for a table that is read as a whole."""
    after: Key | None
    upto: Key | None
    """End of the range (after, upto]."""
    final: bool
    """True if the reader's range has no more rows."""
    begins: bool = False
    """True for the table's first chunk, whose snapshot has shown ``greatest``."""
    greatest: Key | None = None
    """Key where the table's dump ends; None for an empty table."""
    rows: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpBook:
    """All dumps of a task. Immutable: each step returns a new value, or this one if nothing
    changes.
    """

    own: Dump | None = None
    """The connector's own dump, running or finished; None before the first one."""
    requests: Requests = field(default_factory=Requests)
    reading: Mapping[TableId, str] = field(default_factory=dict)
    """Requested dump by table that is read for it. Other tables are read for the own dump."""

    # ---- the dump that a table is read for

    def identity_of(self, table: TableId) -> str:
        """Return the id of the dump that the table is read for."""
        return self.reading.get(table, INITIAL)

    def request_of(self, table: TableId) -> RequestedDump | None:
        """Return the requested dump that the table is read for; None for the connector's own."""
        return self.requests.get(self.identity_of(table))

    def dump_of(self, table: TableId) -> Dump | None:
        """Return the dump that the table is read for; None if it is forgotten already."""
        return self.dump(self.identity_of(table))

    def table(self, table: TableId) -> TableDump | None:
        """Return the table's progress in the dump that it is read for; None if it is not part of
        that dump.
        """
        dump = self.dump_of(table)
        return None if dump is None else dump.table(table)

    def is_paused(self, table: TableId) -> bool:
        """Return True if the request that the table is read for, or the table in it, is paused or
        stopped.

        A dump that has ended may be forgotten while its last SELECT runs. Its reader must not go on
        as if it read for the connector's own dump.
        """
        one = self.request_of(table)
        return self.identity_of(table) != INITIAL if one is None else not one.reads(table)

    def is_done(self, table: TableId, upto: Key | None) -> bool:
        """Return True if the table has ended in the dump that it is read for, or its range up to
        ``upto`` has been read. None means the table's only range.
        """
        progress = self.table(table)
        return progress is None or progress.ended or (upto is not None and progress.range_to(upto) is None)

    # ---- any dump

    def dump(self, identity: str) -> Dump | None:
        """Return a dump by its id."""
        if identity == INITIAL:
            return self.own
        one = self.requests.get(identity)
        return None if one is None else one.dump

    @property
    def left(self) -> Collection[TableId]:
        """Tables that some dump has left to read."""
        own = {} if self.own is None else self.own.left
        if not self.requests.by_id:
            return own
        return {table: None for dump in (own, *(one.dump.left for one in self.requests)) for table in dump}

    def is_next(self, chunk: ChunkRange) -> bool:
        """Return True if the chunk is what its dump needs next.

        A chunk that was read before its table was restarted, or its dump stopped, is not. # I9
        """
        one = self.requests.get(chunk.dump)
        if chunk.dump != INITIAL and (one is None or one.end is End.STOPPED):
            return False
        dump = self.own if one is None else one.dump
        progress = None if dump is None else dump.table(chunk.table)
        if progress is not None and progress.fault == STOPPED:
            return False
        return progress is None or not chunk.key or progress.goes_on(chunk.after, begins=chunk.begins)

    def has_read(self, identity: str, table: TableId) -> bool:
        """Return True if the dump has read the table to its end."""
        one = self.requests.get(identity)
        dump = self.own if one is None else one.dump
        progress = None if dump is None else dump.table(table)
        return progress is not None and progress.done

    def own_left(self, table: TableId) -> bool:
        """Return True if the connector's own dump has rows of the table still to read.

        A table that failed counts: the next run reads it.
        """
        progress = None if self.own is None else self.own.table(table)
        return progress is not None and not progress.done

    def moving(self, table: TableId) -> Iterator[RequestedDump]:
        """Yield the requested dumps whose chunks an update can move a row past.

        The chunks of such a dump are bounded by a column other than the key, or a condition chooses
        their rows. Between two windows, a row may move from a range that is still to be read into
        one that was read, or start to fulfil the condition there. Then no chunk contains it.
        """
        for one in self.requests:
            request = one.request
            if one.end is None and table in one.dump.left and (request.surrogate_key is not None or request.predicate_of(str(table))):
                yield one

    def moves_rows(self, table: TableId) -> bool:
        """Return True if an update can move a row of the table past all chunks of an unfinished
        dump (``moving``).
        """
        own = None if self.own is None else self.own.left.get(table)
        return (own is not None and own.chosen) or any(True for _ in self.moving(table))

    # ---- steps

    def with_own(self, own: Dump | None) -> DumpBook:
        """Return the book with this state of the connector's own dump."""
        return self if own is self.own else replace(self, own=own)

    def with_requests(self, requests: Requests) -> DumpBook:
        """Return the book with these requests."""
        return self if requests is self.requests else replace(self, requests=requests)

    def read_for(self, table: TableId, identity: str) -> DumpBook:
        """Return the book with the table assigned to the dump that it is read for from now on.

        No reader may read the table, and none of its windows may be open.
        """
        if identity == self.identity_of(table):
            return self
        others = {other: of for other, of in self.reading.items() if other != table}
        return replace(self, reading=others if identity == INITIAL else {**others, table: identity})

    def changed(self, identity: str, change: Callable[[Dump], Dump]) -> DumpBook:
        """Return the book after ``change`` was applied to one dump, if it is known."""
        if identity != INITIAL:
            return self.with_requests(self.requests.changed(identity, change))
        return self if self.own is None else self.with_own(change(self.own))

    def all_changed(self, change: Callable[[Dump], Dump]) -> DumpBook:
        """Return the book after ``change`` was applied to the connector's own dump and to every
        requested dump that has not ended.
        """
        own = None if self.own is None else change(self.own)
        return self.with_own(own).with_requests(self.requests.all_changed(change))

    def advanced(self, chunk: ChunkRange) -> DumpBook:
        """Return the book after all rows of a chunk were sent, or dropped for newer changes."""

        def after(dump: Dump) -> Dump:
            if dump.table(chunk.table) is None:
                return dump
            if chunk.begins:
                dump = dump.started(chunk.table, key=chunk.key, upto=chunk.greatest)
            dump = dump.advanced(chunk.table, behind=chunk.after, after=chunk.upto, rows=chunk.rows, done=chunk.final)
            return dump.weighed(chunk.table, chunk.size_bytes)

        return self.changed(chunk.dump, after)

    def dropped(self, table: TableId) -> DumpBook:
        """Return the book after the table is gone from the source.

        The connector's own dump has nothing left to read of it. Requested dumps end it with an
        error, since its rows did not come.
        """
        own = None if self.own is None else self.own.dropped(table)
        return self.with_own(own).with_requests(self.requests.all_changed(lambda dump: _failed(dump, table, f"{table} was dropped")))

    def not_known(self, table: TableId) -> DumpBook:
        """Return the book with the table ended in the dump that it is read for, because its schema
        is unknown at the log's position: it was dropped, or is parked.
        """
        if self.request_of(table) is None:
            return self.changed(self.identity_of(table), lambda dump: dump.dropped(table))
        fault = f"{table} is not known at the log's position: it was dropped, or its schema could not be followed (the log has the reason)"
        return self.changed(self.identity_of(table), lambda dump: _failed(dump, table, fault))

    def restarted(self, table: TableId, *, only: Callable[[DumpRequest], bool] | None = None, own_repair: bool = False) -> DumpBook:
        """Return the book with the table to be read from its beginning in every dump that has begun
        and not finished it.

        ``only`` limits this to dumps with certain requests; ``own_repair`` adds the connector's own
        dump if that repairs the table. A list of keys has its own order, so reading it continues as
        long as the keys are valid.
        """
        own = self.own
        if own is not None and (only is None or (own_repair and own.repairs_table(table))):
            own = _again(own, table)
        requests = self.requests
        for one in self.requests:
            if one.end is None and one.request.keys is None and (only is None or only(one.request)):
                requests = _restarted(requests, one, table)
        return self.with_own(own).with_requests(requests)

    def requests_renamed(
        self, pairs: Sequence[tuple[TableId, TableId]], wanted: Callable[[TableId], bool]
    ) -> tuple[DumpBook, tuple[TableId, ...]]:
        """Return the book after the renames of one statement in the requested dumps, and the tables
        whose readers have to go back to the beginning: another table has their name.
        """
        book = self.with_requests(self.requests.all_renamed(pairs, wanted))
        again = []
        for table in dict.fromkeys(chain.from_iterable(pairs)):
            known, now = self.request_of(table), book.request_of(table)
            if known is not None and now is not None and known.dump.table(table) != now.dump.table(table):
                again.append(table)
        return book, tuple(again)


def _failed(dump: Dump, table: TableId, fault: str) -> Dump:
    return dump.given_up(table, fault) if table in dump.left else dump


def _restarted(requests: Requests, one: RequestedDump, table: TableId) -> Requests:
    dump = _again(one.dump, table)
    return requests if dump is one.dump else requests.changed(one.request.id, lambda _: dump)


def _again(dump: Dump, table: TableId) -> Dump:
    progress = dump.table(table)
    return dump.restarted(table) if progress is not None and progress.started and not progress.ended else dump
