"""The dumps that were asked for, beside the connector's own one: how far each has come, which table is read next, and their text in the source offset.

A request says what is wanted and stays as its owner stored it; here is what has become of it. A table is read for one dump at a time. A request of higher
priority goes first, then the older one; the connector's own dump counts as a request of priority 0 that is older than all. Two requests that name one table
are carried out one after the other, each wholly: each has an end of its own to report, and rows that come twice do no harm (I2).

What the offset holds is progress alone; the requests come with the task's start order. An end stays in it until its owner has noted it. What a signal has
asked for is known to nobody else when its row has been read, so the offset has that request too, and how far a topic of signals has been read.
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
from dblog.core.dumps import TEXT_CHARS_MAX, Dump, TableDump, dump_from_text, dump_of, dump_to_text, stored_bytes
from dblog.errors import DefiniteError
from dblog.model import TableId

FORMAT = 1

READERS_MAX = 32
"""Of one task: each holds two connections."""

FAULTS_MAX = 20
"""Tables that are named in the reason of a request that failed."""

SIGNALS_MAX = 50
"""Requests of signals that have not ended: they are in each offset. # I6"""

SIGNALS_BYTES_MAX = 150_000
"""What their requests take in an offset, without their progress: it can be left out, and they cannot."""

ENDED_KEPT = 100
"""Ends of theirs, should nobody note them."""

ENDS_BYTES_MAX = 100_000
"""What those take."""

REASON_BYTES_MAX = 1000
"""Of the reason of an end, in the offset. Whoever notes the end gets all of it, but for a restart in between."""

STOPPED = "stopped by request"
"""The reason of a dump, or of one table of it."""


class NoTableError(DefiniteError):
    """A request means no captured table."""


class NoRoomError(DefiniteError):
    """The offset has no room for the progress of one more."""


class End(StrEnum):
    """How a request ended."""

    DONE = "DONE"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, kw_only=True)
class RequestedDump:
    """One request with its progress. It has no slots: its text stays with it, as long as nothing of it changes."""

    request: DumpRequest
    dump: Dump
    end: End | None = None
    reason: str | None = None
    failed_before: int = 0
    """Tables that could not be dumped, of a request whose end an earlier run has stored."""
    checked: bool = True
    """False: of a signal, and the database has not been asked yet whether its filters are conditions and nothing else."""

    @cached_property
    def text(self) -> str:
        """What an offset has of it, as JSON: it may name thousands of tables, and stands in each offset, whichever dump has moved."""
        return _json(_to_json(self))

    @cached_property
    def stored_bytes(self) -> int:
        """What that takes in the offset."""
        return stored_bytes(self.text)

    @cached_property
    def request_bytes(self) -> int:
        """The same without the progress."""
        return stored_bytes(_without_progress(self))

    @property
    def by_signal(self) -> bool:
        """Whether a signal has asked for it."""
        return self.request.signal is not None

    @property
    def tables_failed(self) -> int:
        """Tables that could not be dumped, or were stopped."""
        return self.failed_before + len(self.dump.failed)

    @property
    def runs(self) -> bool:
        """Whether its tables may be read now."""
        return self.end is None and self.checked and self.request.wanted is Wanted.RUNNING

    def reads(self, table: TableId) -> bool:
        """The same of one table."""
        return self.runs and str(table) not in self.request.tables_wanted and not self.request.stops(str(table))

    def with_dump(self, dump: Dump) -> RequestedDump:
        """It has come so far; the last table ends it."""
        return self._with(dump if dump.arrivals == self.dump.arrivals else self._without_stopped(dump))

    def with_stops(self) -> RequestedDump:
        """Tables that were stopped end, whatever has changed: the request, or the run."""
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
        """Its owner has changed it. An older revision changes nothing, and nothing changes what has ended."""
        if request.revision < self.request.revision or self.end is not None:
            return self
        if request.wanted is Wanted.STOPPED:
            return replace(self, request=request, end=End.STOPPED, reason=STOPPED)
        return replace(self, request=request).with_stops()

    def _without_stopped(self, dump: Dump) -> Dump:
        """Tables that were stopped by their names end, also one that another has taken its name from or given it to: nobody would read it."""
        request = self.request
        named = {table for name, wanted in request.tables_wanted.items() if wanted is Wanted.STOPPED for table in _spelt(name)}
        matching = (table for table in dump.left if request.stops(str(table))) if request.tables_stopped else ()
        return dump.all_given_up((*named, *matching), STOPPED)


@dataclass(frozen=True, slots=True)
class Requests:
    """All that are known, oldest first. Values: each step gives a new one."""

    by_id: Mapping[str, RequestedDump] = field(default_factory=dict)
    signals_read: Mapping[str, int] = field(default_factory=dict)
    """By topic, the offset of the next signal; and how much of a file is read, by what that is."""

    @property
    def has_state(self) -> bool:
        """Whether an offset has anything to say of them."""
        return bool(self.by_id or self.signals_read)

    def __iter__(self) -> Iterator[RequestedDump]:
        return iter(self.by_id.values())

    def get(self, identity: str) -> RequestedDump | None:
        """One of them."""
        return self.by_id.get(identity)

    def added(self, request: DumpRequest, tables: Iterable[TableId], *, checked: bool = True) -> Requests:
        """One more, of these tables in this order; one that is known takes the newer revision and keeps its tables."""
        known = self.by_id.get(request.id)
        if known is not None:
            return self._with(known.with_request(request))
        made = RequestedDump(request=request, dump=dump_of(request.id, tables), checked=checked)
        if not made.dump.left:
            made = replace(made, end=End.FAILED, reason=f"no captured table matches {listed(request.tables)}")
        return self.put(made.with_request(request))

    def put(self, one: RequestedDump) -> Requests:
        """With this one, in its place."""
        by_id = {**self.by_id, one.request.id: one}
        return replace(self, by_id=dict(sorted(by_id.items(), key=lambda item: (item[1].request.created_ms, item[0]))))

    def changed(self, identity: str, change: Callable[[Dump], Dump]) -> Requests:
        """The progress of one of them."""
        known = self.by_id.get(identity)
        return self if known is None else self._with(known.with_dump(change(known.dump)))

    def all_changed(self, change: Callable[[Dump], Dump]) -> Requests:
        """What the log shows of a table means the same for each that has not ended."""
        out = self
        for one in self:
            if one.end is None and (dump := change(one.dump)) is not one.dump:
                out = out._with(one.with_dump(dump))
        return out

    def all_renamed(self, pairs: Sequence[tuple[TableId, TableId]], wanted: Callable[[TableId], bool]) -> Requests:
        """One statement's renames in each that has not ended. A condition belongs to a name: a table that would lose or change its own by a new name is given
        up, for other rows than those that were asked for would go out. A name that was asked for keeps its own, whatever table has it now.
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
        """Its owner has noted its end."""
        return replace(self, by_id={name: one for name, one in self.by_id.items() if name != identity})

    def with_check(self, identity: str, fault: str | None) -> Requests:
        """The database was asked about one: it may be read, or none of its tables can be."""
        known = self.by_id.get(identity)
        if known is None or known.checked:
            return self
        if fault is not None:
            return self.refused(identity, fault)
        return self._with(replace(known, checked=True).with_dump(known.dump))

    def refused(self, identity: str, fault: str) -> Requests:
        """One of them ends: none of the tables that it has left can be read."""
        known = self.by_id.get(identity)
        if known is None or known.end is not None:
            return self
        return self._with(replace(known, checked=True).with_dump(known.dump.all_given_up(tuple(known.dump.left), fault)))

    def with_signals_read(self, topic: str, offset: int) -> Requests:
        """The topic has been read up to there."""
        return replace(self, signals_read={**self.signals_read, topic: offset})

    def without_signals_read(self, name: str) -> Requests:
        """It is not read any more."""
        return replace(self, signals_read={known: offset for known, offset in self.signals_read.items() if known != name})

    def of_signals(self) -> list[RequestedDump]:
        """Those that signals have asked for, and that have not ended."""
        return [one for one in self if one.by_signal and one.end is None]

    def without_old_ends(self) -> Requests:
        """Ends of signals that nobody has noted are forgotten in the end, the oldest first."""
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
    """The tables that may be written so: a database's name may have a full stop, and so may a table's."""
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
    """The dump and the table that a free reader takes; None where none waits. ``taken``: what is read now, and for which dump. ``readers``: how many of so
    many readers may read now. ``sharing``: how many read a table, where that is not one. A table that waits goes before a part of one that is read, which
    nobody reads (``has_part``).
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
    )  # of one priority the oldest first, as they stand
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
    """How many readers the dumps want at the same time, as many as tables are left at most, and ``parts`` of tables by the dump that they are read for.
    ``readers``: how many of so many may read now.
    """
    known = parts or {}
    own_wanted = 0 if own is None else min(readers(own_readers_max), len(own.left) + known.get(INITIAL, 0))
    asked = (min(readers(one.request.parallelism), len(one.dump.left) + known.get(one.request.id, 0)) for one in requests if one.runs)
    return min(READERS_MAX, own_wanted + sum(asked))


def readers_max(requests: Requests, identity: str, *, own_readers_max: int) -> int:
    """How many readers a dump may have."""
    if identity == INITIAL:
        return own_readers_max
    one = requests.get(identity)
    return 0 if one is None or not one.runs else one.request.parallelism


# ---- which tables, and in which order


def tables_of(request: DumpRequest, captured: Iterable[TableId], *, rows_of: Mapping[TableId, int] | None = None) -> list[TableId]:
    """The captured tables that a request means, in its order. ``rows_of``: by the server's statistics, for the order by size, smallest first; what has none
    comes last.
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
class Kept:
    """What an offset knows of a request: its progress, or how it ended."""

    dump: Dump | None
    """None: it had no room."""
    end: End | None = None
    reason: str | None = None
    failed: int = 0
    request: DumpRequest | None = None
    """Of a signal: nobody else may know it."""
    checked: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRequests:
    """All that an offset knows of requests."""

    dumps: Mapping[str, Kept] = field(default_factory=dict)
    signals_read: Mapping[str, int] = field(default_factory=dict)


def requests_to_text(requests: Requests, *, bytes_max: int | None = None) -> str:
    """One line of JSON: the progress of each that runs, the numbers of each that has ended. Where that takes more than ``bytes_max`` in an offset, the longest
    begin again after a restart. ``bytes_max`` None: half of what Kafka takes.
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
    """Return what the requests of signals that have not ended take in each offset at least."""
    return sum(one.request_bytes for one in requests.of_signals())


def require_room(requests: Requests, request: DumpRequest, tables: Iterable[TableId]) -> None:
    """NoRoomError where the offset could not keep the progress of a new request of these tables beside that of all others: it is stored again and again, and
    what has no room in it begins again after a restart. One that is alone is taken at any size.
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


def requests_from_text(text: str) -> KeptRequests:
    """The reverse; a text that is not one raises DefiniteError naming the offset field."""
    try:
        value = json.loads(text)
        if value["format"] != FORMAT:
            message = (
                f"the offset's field dblog_dumps has format {value['format']}, this version reads {FORMAT}; use the version that wrote it"
            )
            raise DefiniteError(message)
        return KeptRequests(
            dumps={str(identity): _from_json(str(identity), kept) for identity, kept in value["dumps"].items()},
            signals_read={str(topic): int(offset) for topic, offset in value.get("signals", {}).items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        message = "the offset's field dblog_dumps is not the progress of dumps; reset the connector's offsets"
        raise DefiniteError(message) from e


def resumed(
    requests: Iterable[DumpRequest],
    kept: KeptRequests,
    *,
    tables: Callable[[DumpRequest], Iterable[TableId]],
    captured: Callable[[TableId], bool],
) -> tuple[Requests, Requests]:
    """What the offset knows of the requests, and all of them as they are at the start of a task: each where the offset has come to, or from its beginning
    (``tables`` finds out which). What the offset has of others is gone, for their owner has noted their ends; unless a signal has asked for them, and
    the offset alone knows it.
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
        if each.request is not None and now.get(identity) is None:  # its progress had no room in the offset
            now = now.added(each.request, tables(each.request), checked=False)
    for request in given.values():
        now = now.added(request, tables(request) if now.get(request.id) is None else ())
    for one in tuple(now):
        if one.end is None and (not one.dump.left or one.request.tables_stopped or one.request.tables_wanted):
            now = now.put(one.with_stops())
    return known, now


def _without_uncaptured(dump: Dump, captured: Callable[[TableId], bool]) -> Dump:
    """Whoever asked for their rows is told that these did not come."""
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
    """As much of it as has room."""
    while stored_bytes(reason) > REASON_BYTES_MAX:
        reason = reason[: min(len(reason) - 1, len(reason) * REASON_BYTES_MAX // stored_bytes(reason))]
    return reason


def _without_progress(one: RequestedDump) -> str:
    return _json(_to_json(one, progress=False))


def _from_json(identity: str, value: Mapping[str, Any]) -> Kept:
    request = request_from_json(value["request"]) if "request" in value else None
    checked = value.get("checked", True) is True
    if "end" not in value:
        dump = dump_from_text(value["dump"], {}) if "dump" in value or request is None else None
        return Kept(dump=dump, request=request, checked=checked)  # none of them has a list
    dump = dump_of(identity, (), finished=value["done"], finished_rows=value["rows"], finished_bytes=value.get("bytes", 0))
    return Kept(dump=dump, end=End(value["end"]), reason=value.get("reason"), failed=value["failed"], request=request)


_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
