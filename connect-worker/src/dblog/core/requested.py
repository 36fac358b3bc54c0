"""The requested dumps, apart from the connector's own one: how far each has come, which table is
read next, and the text that stores this in the source offset.

A request holds what is wanted, as its owner stored it; this module holds its progress. A table is
read for one dump at a time. The request with the highest priority goes first, then the oldest. The
connector's own dump counts as a request of priority 0 that is older than all others. Two requests
that name the same table are carried out one after the other, each completely: each has an end to
report, and rows that come twice do no harm (I2).

The offset holds progress only; the requests come with the message that starts the task. An end
stays in the offset until the owner of the request has noted it. A request made by a signal is known
to nobody else once the signal's row has been read. So the offset also holds these requests, and how
far each topic of signals has been read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import chain
from typing import Any

from dblog.config.regex import any_of
from dblog.core.dumprequests import INITIAL, DumpRequest, Order, Wanted, listed, request_from_json, selects
from dblog.core.dumps import TEXT_CHARS_MAX, Dump, dump_from_text, dump_of, dump_to_text, stored_bytes
from dblog.core.table_dump import TableDump
from dblog.errors import DefiniteError
from dblog.model import TableId

FORMAT = 1

READERS_MAX = 32
"""Number of readers of one task; each holds two connections."""

FAULTS_MAX = 20
"""Number of tables that the reason of a failed request names."""

SIGNALS_MAX = 50
"""Number of requests from signals that have not ended; each offset holds them all. # I6"""

SIGNALS_BYTES_MAX = 150_000
"""Bytes that the requests from signals take in an offset without their progress. Progress can be
left out; the requests cannot.
"""

ENDED_KEPT = 100
"""Number of ended requests from signals that are kept if nobody notes their ends."""

ENDS_BYTES_MAX = 100_000
"""Bytes that those ended requests may take."""

REASON_BYTES_MAX = 1000
"""Bytes of an end's reason in the offset. The owner gets the whole reason unless the task restarts
before it notes the end.
"""

STOPPED = "stopped by request"
"""Reason of a dump, or of one of its tables, that was stopped."""


class NoTableError(DefiniteError):
    """A request matches no captured table."""


class NoRoomError(DefiniteError):
    """The offset has no room for the progress of another dump."""


class End(StrEnum):
    """The way a request ended."""

    DONE = "DONE"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, kw_only=True)
class RequestedDump:
    """A request with its progress. The class has no slots, so that its text is cached on the
    instance.
    """

    request: DumpRequest
    dump: Dump
    end: End | None = None
    reason: str | None = None
    failed_before: int = 0
    """Number of tables that failed, for a request whose end an earlier run has stored."""
    checked: bool = True
    """False for a signal's request until the database has confirmed that its filters are conditions
    and nothing else.
    """

    @cached_property
    def text(self) -> str:
        """JSON that the offset holds for this request. It is cached, because it may name thousands
        of tables and is part of each offset, whichever dump has moved.
        """
        return _json(_to_json(self))

    @cached_property
    def stored_bytes(self) -> int:
        """Bytes that the text takes in the offset."""
        return stored_bytes(self.text)

    @cached_property
    def request_bytes(self) -> int:
        """Bytes that the text takes in the offset without the progress."""
        return stored_bytes(_without_progress(self))

    @property
    def by_signal(self) -> bool:
        """True if a signal requested the dump."""
        return self.request.signal is not None

    @property
    def tables_failed(self) -> int:
        """Number of tables that failed or were stopped."""
        return self.failed_before + len(self.dump.failed)

    @property
    def runs(self) -> bool:
        """True if the tables of this request may be read now."""
        return self.end is None and self.checked and self.request.wanted is Wanted.RUNNING

    def reads(self, table: TableId) -> bool:
        """Return True if this table may be read now for this request."""
        return self.runs and str(table) not in self.request.tables_wanted and not self.request.stops(str(table))

    def with_dump(self, dump: Dump) -> RequestedDump:
        """Return the request with this progress. The request ends when no table is left."""
        return self._with(dump if dump.arrivals == self.dump.arrivals else self._without_stopped(dump))

    def with_stops(self) -> RequestedDump:
        """Return the request with its stopped tables ended."""
        return self._with(self._without_stopped(self.dump))

    def _with(self, dump: Dump) -> RequestedDump:
        if self.end is not None or not dump.ended:
            return replace(self, dump=dump)
        faults = [progress for progress in dump.failed if progress.fault != STOPPED]
        if not faults and dump.failed and not dump.has_read_any:
            return replace(self, dump=dump, end=End.STOPPED, reason=STOPPED)
        if not faults:
            return replace(self, dump=dump, end=End.DONE)
        named = "; ".join(f"{progress.fault}" for progress in faults[:FAULTS_MAX])
        more = f"; and {len(faults) - FAULTS_MAX} more" if len(faults) > FAULTS_MAX else ""
        return replace(
            self, dump=dump, end=End.FAILED, reason=f"{len(faults)} of {dump.tables_total} tables could not be dumped: {named}{more}"
        )

    def with_request(self, request: DumpRequest) -> RequestedDump:
        """Return the request after its owner has changed it. An older revision changes nothing, and
        an ended request stays as it is.
        """
        if request.revision < self.request.revision or self.end is not None:
            return self
        if request.wanted is Wanted.STOPPED:
            return replace(self, request=request, end=End.STOPPED, reason=STOPPED)
        return replace(self, request=request).with_stops()

    def _without_stopped(self, dump: Dump) -> Dump:
        """Return the dump with all stopped tables ended. A table ends under the stopped name even
        if a rename gave it that name: nobody would read it.
        """
        request = self.request
        named = {table for name, wanted in request.tables_wanted.items() if wanted is Wanted.STOPPED for table in _spelt(name)}
        matching = (table for table in dump.left if request.stops(str(table))) if request.tables_stopped else ()
        return dump.all_given_up((*named, *matching), STOPPED)


@dataclass(frozen=True, slots=True)
class Requests:
    """All known requests, oldest first. Immutable: each step returns a new value."""

    by_id: Mapping[str, RequestedDump] = field(default_factory=dict)
    signals_read: Mapping[str, int] = field(default_factory=dict)
    """Progress in the signals: by topic the offset of the next signal, and by file how much has
    been read.
    """

    @property
    def has_state(self) -> bool:
        """True if an offset has to hold anything about requests."""
        return bool(self.by_id or self.signals_read)

    def __iter__(self) -> Iterator[RequestedDump]:
        return iter(self.by_id.values())

    def get(self, identity: str) -> RequestedDump | None:
        """Return the request with this id, or None."""
        return self.by_id.get(identity)

    def added(self, request: DumpRequest, tables: Iterable[TableId], *, checked: bool = True) -> Requests:
        """Return the requests with one more, for these tables in this order. A known request takes
        the newer revision and keeps its tables.
        """
        known = self.by_id.get(request.id)
        if known is not None:
            return self._with(known.with_request(request))
        made = RequestedDump(request=request, dump=dump_of(request.id, tables), checked=checked)
        if not made.dump.left:
            made = replace(made, end=End.FAILED, reason=f"no captured table matches {listed(request.tables)}")
        return self.put(made.with_request(request))

    def put(self, one: RequestedDump) -> Requests:
        """Return the requests with this one added or replaced, sorted by age."""
        by_id = {**self.by_id, one.request.id: one}
        return replace(self, by_id=dict(sorted(by_id.items(), key=lambda item: (item[1].request.created_ms, item[0]))))

    def changed(self, identity: str, change: Callable[[Dump], Dump]) -> Requests:
        """Return the requests after ``change`` was applied to the progress of one of them."""
        known = self.by_id.get(identity)
        return self if known is None else self._with(known.with_dump(change(known.dump)))

    def all_changed(self, change: Callable[[Dump], Dump]) -> Requests:
        """Return the requests after ``change`` was applied to the progress of each that has not
        ended.
        """
        out = self
        for one in self:
            if one.end is None and (dump := change(one.dump)) is not one.dump:
                out = out._with(one.with_dump(dump))
        return out

    def all_renamed(self, pairs: Sequence[tuple[TableId, TableId]], wanted: Callable[[TableId], bool]) -> Requests:
        """Return the requests after one statement's renames.

        A predicate belongs to a name. A table whose new name has another predicate, or none, fails:
        otherwise rows would be sent that nobody requested. A requested name keeps its predicate,
        whichever table has it now.
        """
        out = self.all_changed(lambda d: d.renamed(pairs, wanted)[0])
        for one in out:
            if one.end is not None or not one.request.predicate:
                continue
            known = self.by_id[one.request.id].dump
            came = [(old, new) for old, new in pairs if new in one.dump.left and known.table(new) is None]
            if not came:
                continue
            where = one.request.predicate_of
            dump = one.dump
            for old, new in came:
                if where(str(old)) != where(str(new)):
                    dump = dump.given_up(
                        new, f"{old} has become {new}, for which the request has no such predicate; request a dump of it by that name"
                    )
            if dump is not one.dump:
                out = out.put(one.with_dump(dump))
        return out

    def forgotten(self, identity: str) -> Requests:
        """Return the requests without one whose end its owner has noted."""
        return replace(self, by_id={name: one for name, one in self.by_id.items() if name != identity})

    def with_check(self, identity: str, fault: str | None) -> Requests:
        """Return the requests after the database has checked one: it may run if ``fault`` is None,
        else all its tables fail.
        """
        known = self.by_id.get(identity)
        if known is None or known.checked:
            return self
        if fault is not None:
            return self.refused(identity, fault)
        return self._with(replace(known, checked=True).with_dump(known.dump))

    def refused(self, identity: str, fault: str) -> Requests:
        """Return the requests after one of them was refused: all tables that it has left fail with
        ``fault``.
        """
        known = self.by_id.get(identity)
        if known is None or known.end is not None:
            return self
        return self._with(replace(known, checked=True).with_dump(known.dump.all_given_up(tuple(known.dump.left), fault)))

    def with_signals_read(self, topic: str, offset: int) -> Requests:
        """Return the requests with the topic of signals read up to ``offset``."""
        return replace(self, signals_read={**self.signals_read, topic: offset})

    def without_signals_read(self, name: str) -> Requests:
        """Return the requests without the progress in one topic or file of signals, which is read
        no longer.
        """
        return replace(self, signals_read={known: offset for known, offset in self.signals_read.items() if known != name})

    def of_signals(self) -> list[RequestedDump]:
        """Return the requests from signals that have not ended."""
        return [one for one in self if one.by_signal and one.end is None]

    def without_old_ends(self) -> Requests:
        """Return the requests without the oldest ends of signals' requests that nobody has noted,
        beyond the limits.
        """
        ended = [name for name, one in self.by_id.items() if one.by_signal and one.end is not None]
        kept, size = 0, 0
        for name in reversed(ended):
            size += self.by_id[name].stored_bytes
            if kept >= ENDED_KEPT or size > ENDS_BYTES_MAX:
                break
            kept += 1
        if kept == len(ended):
            return self
        forgotten = set(ended[: len(ended) - kept])
        return replace(self, by_id={name: one for name, one in self.by_id.items() if name not in forgotten})

    def _with(self, one: RequestedDump) -> Requests:
        return replace(self, by_id={**self.by_id, one.request.id: one})


def _spelt(name: str) -> Iterator[TableId]:
    """Return the tables that may be written as this name. The names of databases and tables may
    both contain dots.
    """
    return (TableId(name[:at], name[at + 1 :]) for at, character in enumerate(name) if character == ".")


def next_table(
    own: Dump | None,
    requests: Requests,
    *,
    taken: Mapping[TableId, str],
    held: Callable[[TableId], bool],
    own_readers_max: int,
    readers: Callable[[int], int] = lambda most: most,
    sharing: Mapping[TableId, int] | None = None,
    has_part: Callable[[TableId], bool] = lambda _: False,
) -> tuple[str, TableId] | None:
    """Return the dump and the table that a free reader takes next; None if no table waits.

    - ``taken``: the tables that are read now, with the id of the dump.
    - ``held``: returns True for tables that must not be read now.
    - ``readers``: returns how many readers of a maximum may read now.
    - ``sharing``: the number of readers of a table, if it is not one.
    - ``has_part``: returns True if a table that is read has a range without a reader. Such ranges
      come after tables that nobody reads.
    """
    counts: dict[str, int] = {}
    for table, identity in taken.items():
        counts[identity] = counts.get(identity, 0) + (sharing or {}).get(table, 1)

    def first(identity: str, left: Iterable[TableDump], readers_max: int, reads: Callable[[TableId], bool]) -> tuple[str, TableId] | None:
        if counts.get(identity, 0) >= readers(readers_max):
            return None
        free = (each.table for each in left if not each.ended and each.table not in taken and reads(each.table) and not held(each.table))
        parts = (table for table, of in taken.items() if of == identity and has_part(table) and reads(table) and not held(table))
        table = next(chain(free, parts), None)
        return None if table is None else (identity, table)

    running = sorted(
        (one for one in requests if one.runs), key=lambda one: -one.request.priority
    )  # within a priority the order stays oldest first
    urgent = [one for one in running if one.request.priority > 0]
    for one in (*urgent, None, *running[len(urgent) :]):
        if one is not None:
            found = first(one.request.id, one.dump.left.values(), one.request.parallelism, one.reads)
        else:
            found = first(INITIAL, () if own is None else own.left.values(), own_readers_max, lambda _: True)
        if found is not None:
            return found
    return None


def readers_wanted(
    own: Dump | None,
    requests: Requests,
    *,
    own_readers_max: int,
    readers: Callable[[int], int] = lambda most: most,
    parts: Mapping[str, int] | None = None,
) -> int:
    """Return the number of readers that the dumps can use at the same time.

    Each dump uses at most one reader for each table left, plus one for each of the ``parts`` given
    by dump. ``readers`` returns how many readers of a maximum may read now.
    """
    known = parts or {}
    own_wanted = 0 if own is None else min(readers(own_readers_max), len(own.left) + known.get(INITIAL, 0))
    asked = (min(readers(one.request.parallelism), len(one.dump.left) + known.get(one.request.id, 0)) for one in requests if one.runs)
    return min(READERS_MAX, own_wanted + sum(asked))


def readers_max(requests: Requests, identity: str, *, own_readers_max: int) -> int:
    """Return the largest number of readers that a dump may have; 0 for a request that does
    not run.
    """
    if identity == INITIAL:
        return own_readers_max
    one = requests.get(identity)
    return 0 if one is None or not one.runs else one.request.parallelism


# ---- which tables, and in which order


def tables_of(request: DumpRequest, captured: Iterable[TableId], *, rows_of: Mapping[TableId, int] | None = None) -> list[TableId]:
    """Return the captured tables that match a request, in the request's order.

    ``rows_of`` are row counts by the server's statistics, for the order by size: smallest first,
    tables without a count last.
    """
    selected = selects(request)
    found = sorted((table for table in captured if selected(str(table))), key=str)
    match request.order:
        case Order.SIZE:
            sizes = rows_of or {}
            found.sort(key=lambda table: (table not in sizes, sizes.get(table, 0)))
        case Order.AS_GIVEN:
            each = [any_of([pattern], ignore_case=True) for pattern in request.tables]
            found.sort(key=lambda table: next(n for n, matches in enumerate(each) if matches(str(table))))
        case Order.NAME:
            pass
    return found


# ---- the text in the source offset


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRequest:
    """The stored state of one request in an offset: its progress, or its end."""

    dump: Dump | None
    """Progress of the request; None if the offset had no room for it."""
    end: End | None = None
    reason: str | None = None
    failed: int = 0
    request: DumpRequest | None = None
    """Request that a signal made, which nothing else may store; None for other requests."""
    checked: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRequests:
    """The stored state of all requests in an offset."""

    dumps: Mapping[str, StoredRequest] = field(default_factory=dict)
    signals_read: Mapping[str, int] = field(default_factory=dict)


def requests_to_text(requests: Requests, *, bytes_max: int | None = None) -> str:
    """Return the requests as one line of JSON: the progress of each running one and the totals of
    each ended one.

    If that takes more than ``bytes_max`` bytes in an offset, the largest ones lose their progress
    and start again after a restart. None stands for half of what Kafka accepts as a message.
    """
    room = TEXT_CHARS_MAX if bytes_max is None else min(bytes_max, TEXT_CHARS_MAX)
    texts = {one.request.id: one.text for one in requests}
    size = sum(one.stored_bytes for one in requests)
    for one in sorted(requests, key=lambda one: one.stored_bytes, reverse=True):
        if size <= room:
            break
        if one.end is None:
            size -= one.stored_bytes
            texts[one.request.id] = _without_progress(one) if one.by_signal else ""
            size += one.request_bytes if one.by_signal else 0
    dumps = ",".join(f"{_json(identity)}:{text}" for identity, text in texts.items() if text)
    signals = f',"signals":{_json(dict(requests.signals_read))}' if requests.signals_read else ""
    return f'{{"format":{FORMAT},"dumps":{{{dumps}}}{signals}}}'


def signals_bytes(requests: Requests) -> int:
    """Return the bytes that the open requests of signals take in each offset at least."""
    return sum(one.request_bytes for one in requests.of_signals())


def require_room(requests: Requests, request: DumpRequest, tables: Iterable[TableId]) -> None:
    """Raise NoRoomError if the offset has no room for the progress of a new request of these tables
    beside all others.

    The offset is stored again and again, and a request without room in it would start again after a
    restart. A single request is accepted at any size.
    """
    others = [one for one in requests if one.end is None and one.request.id != request.id]
    size = RequestedDump(request=request, dump=dump_of(request.id, tables)).stored_bytes
    if others and size + sum(one.stored_bytes for one in others) > TEXT_CHARS_MAX:
        left = sum(len(one.dump.left) for one in others)
        message = (
            f"{len(others)} dumps of the connector have not ended, with {left} tables left, and its offset has no room for the progress of this one "
            "beside theirs; wait for one to end, stop one, or ask for fewer tables"
        )
        raise NoRoomError(message)


def requests_from_text(text: str) -> StoredRequests:
    """Read what ``requests_to_text`` wrote. Raise DefiniteError that names the offset field for any
    other text.
    """
    try:
        value = json.loads(text)
        if value["format"] != FORMAT:
            message = (
                f"the offset's field dblog_dumps has format {value['format']}, this version reads {FORMAT}; use the version that wrote it"
            )
            raise DefiniteError(message)
        return StoredRequests(
            dumps={str(identity): _from_json(str(identity), kept) for identity, kept in value["dumps"].items()},
            signals_read={str(topic): int(offset) for topic, offset in value.get("signals", {}).items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        message = "the offset's field dblog_dumps is not the progress of dumps; reset the connector's offsets"
        raise DefiniteError(message) from e


def resumed(
    requests: Iterable[DumpRequest],
    kept: StoredRequests,
    *,
    tables: Callable[[DumpRequest], Iterable[TableId]],
    captured: Callable[[TableId], bool],
) -> tuple[Requests, Requests]:
    """Return the requests that the offset knows, and all requests at the start of a task.

    Each request continues where the offset has stored it, or starts from its beginning with the
    tables that ``tables`` finds. Requests that only the offset has are dropped, since their owner
    has noted their ends. Requests of signals are kept, since only the offset has them.
    """
    given = {request.id: request for request in requests}
    known = Requests(signals_read=kept.signals_read)
    for identity, each in kept.dumps.items():
        request = each.request or given.get(identity)
        if request is None or (each.dump is None and each.end is None):
            continue
        dump = each.dump or dump_of(identity, ())
        dump = dump if each.end is not None else _without_uncaptured(dump, captured)
        known = known.put(
            RequestedDump(request=request, dump=dump, end=each.end, reason=each.reason, failed_before=each.failed, checked=each.checked)
        )
    now = known
    for identity, each in kept.dumps.items():
        # The offset had no room for the progress of these.
        if each.request is not None and now.get(identity) is None:
            now = now.added(each.request, tables(each.request), checked=False)
    for request in given.values():
        now = now.added(request, tables(request) if now.get(request.id) is None else ())
    for one in tuple(now):
        if one.end is None and (not one.dump.left or one.request.tables_stopped or one.request.tables_wanted):
            now = now.put(one.with_stops())
    return known, now


def _without_uncaptured(dump: Dump, captured: Callable[[TableId], bool]) -> Dump:
    """Return the dump with tables that are captured no longer marked as failed, so that the
    requester learns that their rows did not come.
    """
    for table in tuple(dump.left):
        if not captured(table):
            dump = dump.given_up(table, f"{table} is not captured any more")
    return dump


def _to_json(one: RequestedDump, *, progress: bool = True) -> dict[str, Any]:
    out: dict[str, Any] = {"request": one.request.to_json()} if one.by_signal else {}
    if one.end is None:
        return {**out, **({} if one.checked else {"checked": False}), **({"dump": dump_to_text(one.dump)} if progress else {})}
    out |= {"end": one.end.value, "done": one.dump.tables_done, "rows": one.dump.rows, "bytes": one.dump.bytes, "failed": one.tables_failed}
    return out if one.reason is None else {**out, "reason": _beginning(one.reason)}


def _beginning(reason: str) -> str:
    """Return the beginning of the reason that fits into ``REASON_BYTES_MAX``."""
    while stored_bytes(reason) > REASON_BYTES_MAX:
        reason = reason[: min(len(reason) - 1, len(reason) * REASON_BYTES_MAX // stored_bytes(reason))]
    return reason


def _without_progress(one: RequestedDump) -> str:
    return _json(_to_json(one, progress=False))


def _from_json(identity: str, value: Mapping[str, Any]) -> StoredRequest:
    request = request_from_json(value["request"]) if "request" in value else None
    checked = value.get("checked", True) is True
    if "end" not in value:
        dump = dump_from_text(value["dump"], {}) if "dump" in value or request is None else None
        # A requested dump has no list, so none has to be looked up.
        return StoredRequest(dump=dump, request=request, checked=checked)
    dump = dump_of(identity, (), finished=value["done"], finished_rows=value["rows"], finished_bytes=value.get("bytes", 0))
    return StoredRequest(dump=dump, end=End(value["end"]), reason=value.get("reason"), failed=value["failed"], request=request)


_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
