"""Which of its source's logs a record is of, where it has no ``source.sequence``: after a failover another server's log begins, and its files count anew.

Debezium's MySQL and MariaDB records have file and offset only, so a log with lower file numbers would be older than all rows there are. The epoch, which
rises when another log begins, stands before the file number, as the worker writes it (schemas/README.md). It is told from the order of a topic partition:
positions rise in one log, and fall only where the source sends a stretch again, or another log has begun. What tells the two apart, best first:

- the GTID: a transaction that was seen is sent again, one that was not is news (numbers of one source, or MariaDB domain and server, rise);
- the server id: a log holds no event of a server that it never had one of (an id is that of the event's first server, so a log may hold many);
- the time: what is sent again is not later than what was seen.

Time alone is no proof, so the table is parked: a connector that reads replicas in turn or a log that was reset look like that, and what was missed meanwhile
nobody knows. Rows of Debezium's first snapshot (server id 0) tell by their time; those of an incremental one by their server alone, for they are read anew
after a restart and stand where the log is being read. What the former log's server sends late is known in the same way and keeps the former epoch.

Pure. The outcome is noted by Kafka offset (``Line.runs``) before anything is written, so a repeated batch, a merge and a replay find the same epochs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

EPOCH_SHIFT = 32
"""Of the epoch in a position's first number."""

_GTID = re.compile(r"(.+)[:-](\d+)")
"""``uuid:number``, ``uuid:tag:number``, ``domain-server-number``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """Where one record stands in its source's log. ``place``: file number, then offset and row; ``server`` 0: not told."""

    offset: int
    place: tuple[int, int]
    ts_ms: int
    server: int = 0
    gtid: str | None = None
    dumped: bool = False
    selected: bool = False
    """Of an incremental snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Many records of one partition, counted by Spark. ``falls``: how many stand before the one that came before them."""

    first_offset: int
    last_offset: int
    first: tuple[int, int]
    last: tuple[int, int] | None
    """The highest place of a change; None: there are only rows of a first snapshot."""
    falls: int
    ts_min_ms: int | None
    """Of changes; None: there are only rows of a first snapshot."""
    ts_max_ms: int | None
    servers: frozenset[int]
    gtids: Mapping[str, int]
    gtid: str | None
    """Of the last record."""


@dataclass(slots=True)
class Log:
    """What was seen of one log in one topic partition."""

    epoch: int
    last: tuple[int, int]
    ts_ms: int = 0
    """The latest time of a change in it."""
    servers: list[int] = field(default_factory=list)
    gtid: str | None = None
    """The transaction of its last record."""


@dataclass(frozen=True, slots=True)
class Begun:
    """Another log begins with this record. ``sure``: nothing else explains it."""

    offset: int
    epoch: int
    before: tuple[int, int]
    after: tuple[int, int]
    sure: bool


@dataclass(slots=True)
class Line:
    """A topic partition up to ``offset``: its logs, the one read now last, and from which offsets on records are of which epoch."""

    offset: int = -1
    logs: list[Log] = field(default_factory=list)
    gtids: dict[str, int] = field(default_factory=dict)
    """The highest number seen, by what stands before it."""
    runs: list[tuple[int, int]] = field(default_factory=list)
    anew_ms: int = 0
    """When the topic was found to be made anew, by the sink's clock; 0: never. Records that Kafka had before are of other offsets."""

    @property
    def epoch(self) -> int:
        """Of the log that is read now."""
        return self.logs[-1].epoch if self.logs else 0

    @property
    def former_ts_ms(self) -> int:
        """A record that is not later may have been sent late by a former server; -1: there is none."""
        return max((log.ts_ms for log in self.logs[:-1]), default=-1)


def followed(line: Line, sights: Iterable[Sight], *, epoch: int = 0) -> list[Begun]:
    """Take in a partition's records in their order; those at or below its offset are known. ``epoch``: the table's, where nothing is known yet."""
    found = []
    for one in sights:
        if one.offset > line.offset:
            begun = _met(line, one, epoch)
            if begun is not None:
                found.append(begun)
    return found


def went_on(line: Line, stretch: Stretch, *, epoch: int = 0) -> bool:
    """Take in records that only go on in the log that is read, all at once; False: nothing was taken in, they must be looked at one by one."""
    now = line.logs[-1] if line.logs else None
    if stretch.falls or stretch.first_offset <= line.offset or (now is not None and stretch.first < now.last):
        return False
    if stretch.ts_min_ms is not None and stretch.ts_min_ms <= line.former_ts_ms:
        return False
    followed(line, [Sight(offset=stretch.first_offset, place=stretch.first, ts_ms=0, dumped=True)], epoch=epoch)
    line.offset, now = stretch.last_offset, line.logs[-1]
    now.last = stretch.last or now.last
    now.ts_ms = max(now.ts_ms, stretch.ts_max_ms or 0)
    now.servers += sorted(stretch.servers.difference(now.servers))
    now.gtid = stretch.gtid
    for source, number in stretch.gtids.items():
        line.gtids[source] = max(number, line.gtids.get(source, -1))
    if line.epoch != (line.runs[-1][1] if line.runs else 0):
        line.runs.append((stretch.first_offset, line.epoch))
    return True


def may_tell(line: Line, selected: Mapping[int, tuple[int, int]], stretch: Stretch | None) -> bool:
    """Whether rows of an incremental snapshot, of which the lowest place by server is given, must be looked at one by one: they may be of another log than
    what is read, ``stretch`` included.
    """
    own = {0, *(line.logs[-1].servers if line.logs else ()), *(stretch.servers if stretch else ())}
    known = {server for log in line.logs for server in log.servers}
    last = max(line.logs[-1].last if line.logs else (0, 0), (stretch and stretch.last) or (0, 0))
    return any(server not in own and (place < last or server in known) for server, place in selected.items())


def _met(line: Line, one: Sight, epoch: int) -> Begun | None:
    line.offset = one.offset
    if one.selected:
        return _selected(line, one)
    if not line.logs:
        line.logs.append(Log(epoch, one.place))
        if epoch:
            line.runs.append((0, epoch))
    now = line.logs[-1]
    servers = {server for log in line.logs for server in log.servers}
    number = None if one.dumped else _numbered(one.gtid)
    by_gtid = number is not None and bool(line.gtids)
    if number is not None and by_gtid:
        seen = line.gtids.get(number[0], -1) >= number[1]
    else:
        seen = one.ts_ms <= max(log.ts_ms for log in line.logs) and (one.dumped or one.server == 0 or one.server in servers)
    begun = None
    log = now
    if one.place < now.last and not seen:
        strange = bool(servers) and one.server != 0 and one.server not in servers
        log = Log(max(log.epoch for log in line.logs) + 1, one.place)
        line.logs.append(log)
        begun = Begun(one.offset, log.epoch, now.last, one.place, sure=one.dumped or by_gtid or strange)
    elif seen and not one.dumped and (by_gtid or one.server not in now.servers):
        same_transaction = one.place >= now.last and one.gtid is not None and one.gtid == now.gtid
        if not same_transaction:
            log = next((log for log in line.logs[:-1] if one.ts_ms <= log.ts_ms), now)
    # A snapshot that was asked for while the log was read stands where the server is, and reading goes on where it was: it is no place of a change.
    if log is line.logs[-1] and not one.dumped:
        log.last = max(log.last, one.place)
        log.ts_ms = max(log.ts_ms, one.ts_ms)
        log.gtid = one.gtid
        if one.server and one.server not in log.servers:
            log.servers.append(one.server)
    if number is not None:
        line.gtids[number[0]] = max(number[1], line.gtids.get(number[0], -1))
    if log.epoch != (line.runs[-1][1] if line.runs else 0):
        line.runs.append((one.offset, log.epoch))
    return begun


def _selected(line: Line, one: Sight) -> Begun | None:
    """A row of an incremental snapshot, which has the server id of the event that was read before it."""
    if not line.logs or not one.server or one.server in line.logs[-1].servers:
        return None
    now = line.logs[-1]
    if one.place < now.last and not any(one.server in log.servers for log in line.logs):
        # No change was met in it, and reading may begin again before this place: whatever comes goes on in it.
        begun = Log(max(log.epoch for log in line.logs) + 1, (0, 0), servers=[one.server])
        line.logs.append(begun)
        line.runs.append((one.offset, begun.epoch))
        return Begun(one.offset, begun.epoch, now.last, one.place, sure=True)
    former = next((log for log in line.logs[:-1] if one.server in log.servers and now.last < one.place <= log.last), None)
    if former is not None and former.epoch != (line.runs[-1][1] if line.runs else 0):
        line.runs.append((one.offset, former.epoch))
    return None


def _numbered(gtid: str | None) -> tuple[str, int] | None:
    match = None if gtid is None else _GTID.fullmatch(gtid)
    return None if match is None else (match[1], int(match[2]))


def epoch_sql(lines: Mapping[int, Line]) -> str:
    """SQL of a record's epoch, in place before the file number, by its ``partition`` and ``offset``; empty where all are of the first log."""
    cases = []
    for partition, line in sorted(lines.items()):
        if line.runs:
            whens = " ".join(f"WHEN offset >= {offset}L THEN {epoch << EPOCH_SHIFT}L" for offset, epoch in reversed(line.runs))
            cases.append(f"WHEN {partition} THEN CASE {whens} ELSE 0L END")
    return f"CASE partition {' '.join(cases)} ELSE 0L END" if cases else ""


def note_of(line: Line) -> dict[str, Any]:
    """The line as JSON."""
    logs = [[log.epoch, *log.last, log.ts_ms, log.servers, log.gtid] for log in line.logs]
    return {"offset": line.offset, "logs": logs, "gtids": line.gtids, "runs": line.runs, "anew_ms": line.anew_ms}


def line_of(note: Mapping[str, Any]) -> Line:
    """The line of a note."""
    logs = [Log(epoch, (file, low), ts_ms, list(servers), gtid) for epoch, file, low, ts_ms, servers, gtid in note["logs"]]
    runs = [(offset, epoch) for offset, epoch in note["runs"]]
    return Line(note["offset"], logs, dict(note["gtids"]), runs, note.get("anew_ms", 0))


def made_anew(line: Line, *, now_ms: int) -> Line:
    """The line of a topic of the same name that was made anew: its offsets count from 0, its source goes on."""
    return Line(-1, line.logs, line.gtids, [(0, line.epoch)] if line.epoch else [], now_ms)


def sentence(table: str, topic: str, partition: int, begun: Begun) -> str:
    """What is told of another log that a person must judge."""
    return (
        f"{table}: positions in topic {topic} fell from {_shown(begun.before)} to {_shown(begun.after)} at partition {partition}, offset {begun.offset}, "
        "while the source's time went on: its connector reads another log (another replica, a server restored, its log reset), and changes may be missing. "
        "Records from there on count as later than all before: resume the table, then dump it again"
    )


def _shown(place: Sequence[int]) -> str:
    return f"file {place[0]} offset {place[1] >> 23}"
