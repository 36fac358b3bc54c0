"""Which of its source's logs a record belongs to, where it has no ``source.sequence``: after a failover another server's log begins.

Debezium's MySQL and MariaDB records have file and offset only, and the new server counts its files from 1 again, so its records would look older than all
rows there are. The epoch rises when another log begins and stands before the file number, as the worker writes it (schemas/README.md).

Within one log, positions rise from record to record of a topic partition. They fall only where the source sends records again or another log has begun.
What distinguishes the two, best first:

- the GTID: a transaction that was seen before is sent again, one that was not is new (numbers of one source, or of MariaDB's domain and server, rise);
- the server id: an event of a server that no log has shown so far is new (the id is that of the event's first server, so a log may hold many);
- the time: what is sent again is not later than what was seen.

Time alone is no proof, so the table is parked: a connector that reads replicas in turn, or a log that was reset, looks the same, and nobody knows what was
missed meanwhile. Rows of Debezium's first snapshot (server id 0) are judged by their time. Rows of an incremental snapshot are judged by their server alone:
they are read again after a restart, and their position is that of the log then. What the former log's server sends late keeps the former epoch.

dblog's numbers have an epoch, from the clock at its first start, and Debezium's records have none, of no database: if Debezium goes on where dblog has
written, its records would look older. So what follows a record of dblog in its partition and does not carry D7's numbers is of the next epoch
(``hand_over``), after everything that dblog has sent: a change that dblog had sent already comes again there, and a transaction that it had sent in part
comes whole. When dblog goes on, its own epoch rises (schemas/README.md). What Debezium had sent before dblog and sends again after it keeps its epoch where
that is certain; where it is not, it counts as later, and all that followed it is sent again as well. LSNs of PostgreSQL need nothing else, for they mean
the same whoever writes, and go on when a standby takes over.

Pure. The outcome is recorded by Kafka offset (``PartitionLogs.epoch_runs``) before anything is written, so a repeated batch, a merge and a replay find the
same epochs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

EPOCH_SHIFT = 32
"""Of the epoch in a position's first number."""

_GTID = re.compile(r"(.+)[:-](\d+)")
"""``uuid:number``, ``uuid:tag:number``, ``domain-server-number``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRecord:
    """One record's position in its source's log: file number, then offset and row. ``server`` 0: unknown."""

    offset: int
    position: tuple[int, int]
    ts_ms: int
    server: int = 0
    gtid: str | None = None
    dumped: bool = False
    selected: bool = False
    """Of an incremental snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRange:
    """Many records of one partition, counted by Spark. ``regressions``: how many have a lower position than the record before them."""

    first_offset: int
    last_offset: int
    first: tuple[int, int]
    last: tuple[int, int] | None
    """The highest position of a change; None: there are only rows of a first snapshot."""
    regressions: int
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
    handed_over_at: int = -1
    """The Kafka offset from which on it is Debezium's, after records of dblog; -1: no record of dblog comes before it."""


@dataclass(frozen=True, slots=True)
class LogSwitch:
    """Another log begins with this record. ``proven``: nothing else explains it."""

    offset: int
    epoch: int
    before: tuple[int, int]
    after: tuple[int, int]
    proven: bool


@dataclass(slots=True)
class PartitionLogs:
    """A topic partition up to ``offset``: its logs, with the one read now at the end, and the epochs of its records (``epoch_runs``: first offset, epoch)."""

    offset: int = -1
    logs: list[Log] = field(default_factory=list)
    gtids: dict[str, int] = field(default_factory=dict)
    """The highest number seen, by what stands before it."""
    epoch_runs: list[tuple[int, int]] = field(default_factory=list)
    recreated_ms: int = 0
    """When the sink found the topic recreated, by its own clock; 0: never. Records that Kafka had before have other offsets."""

    @property
    def epoch(self) -> int:
        """Of the log that is read now."""
        return self.logs[-1].epoch if self.logs else 0

    @property
    def former_ts_ms(self) -> int:
        """A record that is not later may have been sent late by a former server; -1: there is none."""
        return max((log.ts_ms for log in self.logs[:-1]), default=-1)


def follow(known: PartitionLogs, logged_records: Iterable[LoggedRecord], *, epoch: int = 0) -> list[LogSwitch]:
    """Take in a partition's records in their order; those at or below its offset are known. ``epoch``: the table's, where nothing is known yet."""
    found = []
    for one in logged_records:
        if one.offset > known.offset:
            switch = _take_record(known, one, epoch)
            if switch is not None:
                found.append(switch)
    return found


def extended(known: PartitionLogs, records: LoggedRange, *, epoch: int = 0) -> bool:
    """Take in, all at once, records that only continue the log that is read; False: nothing was taken in, they must be looked at one by one."""
    now = known.logs[-1] if known.logs else None
    if records.regressions or records.first_offset <= known.offset or (now is not None and records.first < now.last):
        return False
    if records.ts_min_ms is not None and records.ts_min_ms <= known.former_ts_ms:
        return False
    follow(known, [LoggedRecord(offset=records.first_offset, position=records.first, ts_ms=0, dumped=True)], epoch=epoch)
    known.offset, now = records.last_offset, known.logs[-1]
    now.last = records.last or now.last
    now.ts_ms = max(now.ts_ms, records.ts_max_ms or 0)
    now.servers += sorted(records.servers.difference(now.servers))
    now.gtid = records.gtid
    for source, number in records.gtids.items():
        known.gtids[source] = max(number, known.gtids.get(source, -1))
    if known.epoch != (known.epoch_runs[-1][1] if known.epoch_runs else 0):
        known.epoch_runs.append((records.first_offset, known.epoch))
    return True


def may_reveal_switch(known: PartitionLogs, selected: Mapping[int, tuple[int, int]], records: LoggedRange | None) -> bool:
    """Whether rows of an incremental snapshot must be looked at one by one, for they may be of another log than the one that is read, ``records``
    included. ``selected``: their lowest position by server.
    """
    own = {0, *(known.logs[-1].servers if known.logs else ()), *(records.servers if records else ())}
    met = {server for log in known.logs for server in log.servers}
    last = max(known.logs[-1].last if known.logs else (0, 0), (records and records.last) or (0, 0))
    return any(server not in own and (position < last or server in met) for server, position in selected.items())


def _take_record(known: PartitionLogs, one: LoggedRecord, epoch: int) -> LogSwitch | None:
    known.offset = one.offset
    if one.selected:
        return _take_snapshot_row(known, one)
    if not known.logs:
        known.logs.append(Log(epoch, one.position))
        if epoch:
            known.epoch_runs.append((0, epoch))
    now = known.logs[-1]
    servers = {server for log in known.logs for server in log.servers}
    number = None if one.dumped else _source_and_number(one.gtid)
    by_gtid = number is not None and bool(known.gtids)
    if number is not None and by_gtid:
        seen = known.gtids.get(number[0], -1) >= number[1]
    else:
        seen = one.ts_ms <= max(log.ts_ms for log in known.logs) and (one.dumped or one.server == 0 or one.server in servers)
    switch = None
    log = now
    if one.position < now.last and not seen:
        strange = bool(servers) and one.server != 0 and one.server not in servers
        log = Log(max(log.epoch for log in known.logs) + 1, one.position)
        known.logs.append(log)
        switch = LogSwitch(one.offset, log.epoch, now.last, one.position, proven=one.dumped or by_gtid or strange)
    elif seen and not one.dumped and (by_gtid or one.server not in now.servers):
        same_transaction = one.position >= now.last and one.gtid is not None and one.gtid == now.gtid
        if not same_transaction:
            log = next((log for log in _former_logs(known, one, by_gtid=by_gtid) if one.ts_ms <= log.ts_ms), now)
    # Rows of a snapshot have the server's position at the time, and reading goes on where it was: theirs is no position of a change.
    if log is known.logs[-1] and not one.dumped:
        log.last = max(log.last, one.position)
        log.ts_ms = max(log.ts_ms, one.ts_ms)
        log.gtid = one.gtid
        if one.server and one.server not in log.servers:
            log.servers.append(one.server)
    if number is not None:
        known.gtids[number[0]] = max(number[1], known.gtids.get(number[0], -1))
    if log.epoch != (known.epoch_runs[-1][1] if known.epoch_runs else 0):
        known.epoch_runs.append((one.offset, log.epoch))
    return switch


def _former_logs(known: PartitionLogs, one: LoggedRecord, *, by_gtid: bool) -> Iterable[Log]:
    """The logs that a record which is sent late may be of. Without a GTID, one from before dblog's records is known by its position: the same server may
    be read after them, and a transaction that was open meanwhile has an old time.
    """
    since = _since_hand_over(known)
    return [log for n, log in enumerate(known.logs[:-1]) if by_gtid or n >= since or one.position <= log.last]


def _since_hand_over(known: PartitionLogs) -> int:
    """The index of the first log since dblog's last records."""
    return max((n for n, log in enumerate(known.logs) if log.handed_over_at >= 0), default=0)


def _take_snapshot_row(known: PartitionLogs, one: LoggedRecord) -> LogSwitch | None:
    """A row of an incremental snapshot, which has the server id of the event that was read before it."""
    if not known.logs or not one.server or one.server in known.logs[-1].servers:
        return None
    now = known.logs[-1]
    if now.handed_over_at >= 0 and not now.servers:
        return None  # nothing was read yet since dblog's records: it is later than they are
    if one.position < now.last and not any(one.server in log.servers for log in known.logs):
        # No change was met in it, and reading may begin again before this position: whatever comes goes on in it.
        begun = Log(max(log.epoch for log in known.logs) + 1, (0, 0), servers=[one.server])
        known.logs.append(begun)
        known.epoch_runs.append((one.offset, begun.epoch))
        return LogSwitch(one.offset, begun.epoch, now.last, one.position, proven=True)
    formers = known.logs[_since_hand_over(known) : -1]
    former = next((log for log in formers if one.server in log.servers and now.last < one.position <= log.last), None)
    if former is not None and former.epoch != (known.epoch_runs[-1][1] if known.epoch_runs else 0):
        known.epoch_runs.append((one.offset, former.epoch))
    return None


def _source_and_number(gtid: str | None) -> tuple[str, int] | None:
    match = None if gtid is None else _GTID.fullmatch(gtid)
    return None if match is None else (match[1], int(match[2]))


def hand_over(known: PartitionLogs, *, epoch: int, offset: int) -> bool:
    """Take in that dblog wrote at this offset, in this epoch; whether later records of Debezium are of another epoch now."""
    if epoch + 1 <= known.epoch:
        return False
    _begin(known, epoch + 1, offset)
    known.logs[-1].handed_over_at = offset
    return True


def follow_both(
    known: PartitionLogs, logged_records: Sequence[LoggedRecord], dblogs: Iterable[tuple[int, int]], *, epoch: int = 0
) -> list[LogSwitch]:
    """Take in a partition's records, as ``follow`` does, among records of dblog. ``dblogs``: the first offset of each of dblog's epochs, and the epoch."""
    found, rest = [], logged_records
    for offset, of_dblog in sorted(dblogs):
        found += follow(known, [one for one in rest if one.offset < offset], epoch=epoch)
        rest = [one for one in rest if one.offset > offset]
        hand_over(known, epoch=of_dblog, offset=offset)
    return found + follow(known, rest, epoch=epoch)


def hand_over_all(partitions: Mapping[int, PartitionLogs], newest: int) -> bool:
    """Take in that dblog may have written since each partition's last record. ``newest``: the epoch of the table's newest row. Whether anything changed.

    An epoch that no partition has shown is dblog's. Where there is none, dblog may still have written in each partition that was not handed over yet.
    """
    last = max((log.epoch - 1 for logs in partitions.values() for log in logs.logs if log.handed_over_at >= 0), default=-1)
    epoch = newest if newest > max((logs.epoch for logs in partitions.values()), default=0) else last
    begun = [hand_over(logs, epoch=epoch, offset=logs.offset + 1) for logs in partitions.values()]
    return any(begun)


def follows_dblog(known: PartitionLogs) -> bool:
    """Whether a record of Debezium came after one of dblog."""
    return any(0 <= log.handed_over_at <= known.offset for log in known.logs)


def seeded(known: PartitionLogs, epoch: int) -> None:
    """Have all records of a partition of which nothing is known be of this epoch."""
    if epoch:
        _begin(known, epoch, 0)


def _begin(known: PartitionLogs, epoch: int, offset: int) -> None:
    known.logs.append(Log(epoch, (0, 0)))
    known.epoch_runs.append((offset, epoch))


def epoch_sql(partitions: Mapping[int, PartitionLogs]) -> str:
    """SQL of a record's epoch, already shifted to stand before the file number, by its ``partition`` and ``offset``; empty where all are of the first log."""
    cases = []
    for partition, known in sorted(partitions.items()):
        if known.epoch_runs:
            whens = " ".join(f"WHEN offset >= {offset}L THEN {epoch << EPOCH_SHIFT}L" for offset, epoch in reversed(known.epoch_runs))
            cases.append(f"WHEN {partition} THEN CASE {whens} ELSE 0L END")
    return f"CASE partition {' '.join(cases)} ELSE 0L END" if cases else ""


def recreated(known: PartitionLogs, *, now_ms: int) -> PartitionLogs:
    """The logs of a topic that was recreated under its name: its offsets count from 0, its source goes on."""
    return PartitionLogs(-1, known.logs, known.gtids, [(0, known.epoch)] if known.epoch else [], now_ms)


def described(table: str, topic: str, partition: int, switch: LogSwitch) -> str:
    """The message about another log, which a person must judge."""
    return (
        f"{table}: positions in topic {topic} fell from {_file_and_offset(switch.before)} to {_file_and_offset(switch.after)} "
        f"at partition {partition}, offset {switch.offset}, "
        "while the source's time went on: its connector reads another log (another replica, a server restored, its log reset), and changes may be missing. "
        "Records from there on count as later than all before: resume the table, then dump it again"
    )


def _file_and_offset(position: Sequence[int]) -> str:
    return f"file {position[0]} offset {position[1] >> 23}"
