"""Decides which of its source's logs a record belongs to if it has no ``source.sequence``. Pure.

After a failover another server's log begins. Debezium's MySQL and MariaDB records have only file
and offset, and the new server counts its files from 1 again, so its records would look older than
all existing rows. The epoch rises when another log begins, and precedes the file number, as in the
worker's positions (schemas/README.md).

Within one log positions rise from record to record of a topic partition. They fall only if the
source sends records again or another log has begun. These facts tell the two apart, best first:

- the GTID: a transaction seen before is sent again, another one is new (numbers of one source, or
  of MariaDB's domain and server, rise);
- the server id: an event of a server that no log has shown is new (the id is that of the event's
  first server, so a log may contain many);
- the time: what is sent again is not later than what was seen.

Time alone is no proof, so the table is then parked: a connector that reads replicas in turn, or a
log that was reset, looks the same, and nobody knows which changes were missed. Rows of Debezium's
first snapshot (server id 0) are judged by their time. Rows of an incremental snapshot are judged by
their server alone: they are read again after a restart, and their position is that of the log at
that time. Records that the former server's log sends late keep the former epoch.

dblog's numbers have an epoch, from the clock at its first start; Debezium's records have none, for
any database. If Debezium continues where dblog has written, its records would look older. So
records without D7's numbers that follow a record of dblog in its partition get the next epoch
(``hand_over``), after everything that dblog has sent. A change that dblog had sent already comes
again there, and a transaction that it had sent in part comes whole. When dblog continues, its own
epoch rises (schemas/README.md).

What Debezium had sent before dblog and sends again after it keeps its epoch if that is certain. If
not, it counts as later, and everything that followed it is sent again as well. PostgreSQL's LSNs
need nothing else: they mean the same for every writer, and continue when a standby takes over.

The result is recorded by Kafka offset (``PartitionLogs.epoch_runs``) before anything is written, so
a repeated batch, a merge and a replay find the same epochs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

EPOCH_SHIFT = 32
"""Bits to shift the epoch by in a position's first number."""

_GTID = re.compile(r"(.+)[:-](\d+)")
"""Matches ``uuid:number``, ``uuid:tag:number`` and ``domain-server-number``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRecord:
    """The position of a record in its source's log: file number, then offset and row.

    ``server`` is 0 if unknown.
    """

    offset: int
    position: tuple[int, int]
    ts_ms: int
    server: int = 0
    gtid: str | None = None
    dumped: bool = False
    selected: bool = False
    """True for a row of an incremental snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRange:
    """A summary of many records of one partition.

    ``regressions`` counts records with a lower position than the record before.
    """

    first_offset: int
    last_offset: int
    first: tuple[int, int]
    last: tuple[int, int] | None
    """Highest position of a change; None if there are only rows of a first snapshot."""
    regressions: int
    ts_min_ms: int | None
    """Earliest time of a change; None if there are only rows of a first snapshot."""
    ts_max_ms: int | None
    servers: frozenset[int]
    gtids: Mapping[str, int]
    gtid: str | None
    """GTID of the last record."""


@dataclass(slots=True)
class Log:
    """The known facts of one log in one topic partition."""

    epoch: int
    last: tuple[int, int]
    ts_ms: int = 0
    """Latest time of a change in the log."""
    servers: list[int] = field(default_factory=list)
    gtid: str | None = None
    """GTID of the last record's transaction."""
    handed_over_at: int = -1
    """Kafka offset from which on the log is Debezium's, after records of dblog; -1 if no record of
    dblog precedes it.
    """


@dataclass(frozen=True, slots=True)
class LogSwitch:
    """The beginning of another log at a record. ``proven`` is True if nothing else explains it."""

    offset: int
    epoch: int
    before: tuple[int, int]
    after: tuple[int, int]
    proven: bool


@dataclass(slots=True)
class PartitionLogs:
    """The logs of a topic partition up to ``offset``.

    The last of ``logs`` is the current one. ``epoch_runs`` has the epochs of records, as first
    offset and epoch.
    """

    offset: int = -1
    logs: list[Log] = field(default_factory=list)
    gtids: dict[str, int] = field(default_factory=dict)
    """Source of a GTID, which is the text before its number, to the highest number seen."""
    epoch_runs: list[tuple[int, int]] = field(default_factory=list)
    recreated_ms: int = 0
    """Time when the sink found the topic recreated, in milliseconds by its own clock; 0 if never.
    Records that Kafka had before have other offsets.
    """

    @property
    def epoch(self) -> int:
        """Epoch of the current log."""
        return self.logs[-1].epoch if self.logs else 0

    @property
    def former_ts_ms(self) -> int:
        """Latest time of the former logs; -1 without one.

        A record that is not later may have been sent late by a former server.
        """
        return max((log.ts_ms for log in self.logs[:-1]), default=-1)


def follow(known: PartitionLogs, logged_records: Iterable[LoggedRecord], *, epoch: int = 0) -> list[LogSwitch]:
    """Take in a partition's records in order, and return the beginnings of other logs.

    Records at or below the known offset are skipped. ``epoch`` is the table's, for a partition
    without known logs.
    """
    found = []
    for one in logged_records:
        if one.offset > known.offset:
            switch = _take_record(known, one, epoch)
            if switch is not None:
                found.append(switch)
    return found


def extended(known: PartitionLogs, records: LoggedRange, *, epoch: int = 0) -> bool:
    """Take in many records at once if they only continue the current log.

    Return False, having changed nothing, if they must be examined one by one.
    """
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
    """Return True if incremental snapshot rows must be examined one by one.

    They may belong to another log than the current one after ``records``. ``selected`` has their
    lowest position by server.
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
    # Rows of a first snapshot have the server's position at that time, and reading continues where
    # it was. So theirs is no position of a change.
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
    """Return the logs that a record which is sent late may belong to.

    Without a GTID a record from before dblog's is recognized by its position: the same server may
    be read after them, and a transaction that was open meanwhile has an old time.
    """
    since = _since_hand_over(known)
    return [log for n, log in enumerate(known.logs[:-1]) if by_gtid or n >= since or one.position <= log.last]


def _since_hand_over(known: PartitionLogs) -> int:
    """Return the index of the first log since dblog's last records."""
    return max((n for n, log in enumerate(known.logs) if log.handed_over_at >= 0), default=0)


def _take_snapshot_row(known: PartitionLogs, one: LoggedRecord) -> LogSwitch | None:
    """Take in an incremental snapshot row, which has the server id of the event read before it."""
    if not known.logs or not one.server or one.server in known.logs[-1].servers:
        return None
    now = known.logs[-1]
    if now.handed_over_at >= 0 and not now.servers:
        # Nothing was read since dblog's records, so the row is later than they are.
        return None
    if one.position < now.last and not any(one.server in log.servers for log in known.logs):
        # No change of it was read, and reading may restart before this position; whatever comes
        # continues in this log.
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
    """Take in that dblog wrote at this offset in this epoch.

    Return True if later records of Debezium get another epoch than before.
    """
    if epoch + 1 <= known.epoch:
        return False
    _begin(known, epoch + 1, offset)
    known.logs[-1].handed_over_at = offset
    return True


def follow_both(
    known: PartitionLogs, logged_records: Sequence[LoggedRecord], dblogs: Iterable[tuple[int, int]], *, epoch: int = 0
) -> list[LogSwitch]:
    """Take in a partition's records like ``follow``, with records of dblog in between.

    ``dblogs`` has the first offset of each of dblog's epochs, and the epoch.
    """
    found, rest = [], logged_records
    for offset, of_dblog in sorted(dblogs):
        found += follow(known, [one for one in rest if one.offset < offset], epoch=epoch)
        rest = [one for one in rest if one.offset > offset]
        hand_over(known, epoch=of_dblog, offset=offset)
    return found + follow(known, rest, epoch=epoch)


def hand_over_all(partitions: Mapping[int, PartitionLogs], newest: int) -> bool:
    """Take in that dblog may have written since each partition's last record.

    ``newest`` is the epoch of the table's newest row. An epoch that no partition has shown is
    dblog's. Without one dblog may still have written in each partition that was not handed over
    yet. Return True if anything changed.
    """
    last = max((log.epoch - 1 for logs in partitions.values() for log in logs.logs if log.handed_over_at >= 0), default=-1)
    epoch = newest if newest > max((logs.epoch for logs in partitions.values()), default=0) else last
    begun = [hand_over(logs, epoch=epoch, offset=logs.offset + 1) for logs in partitions.values()]
    return any(begun)


def follows_dblog(known: PartitionLogs) -> bool:
    """Return True if a record of Debezium came after one of dblog."""
    return any(0 <= log.handed_over_at <= known.offset for log in known.logs)


def seeded(known: PartitionLogs, epoch: int) -> None:
    """Give all records of a partition without known logs this epoch."""
    if epoch:
        _begin(known, epoch, 0)


def _begin(known: PartitionLogs, epoch: int, offset: int) -> None:
    known.logs.append(Log(epoch, (0, 0)))
    known.epoch_runs.append((offset, epoch))


def epoch_sql(partitions: Mapping[int, PartitionLogs]) -> str:
    """Return SQL of a record's epoch by ``partition`` and ``offset``, shifted to its place.

    It precedes the file number. The text is empty if all records are of the first log.
    """
    cases = []
    for partition, known in sorted(partitions.items()):
        if known.epoch_runs:
            # As decimal numbers, which a text is not: the notes come from a table that others may write.
            whens = " ".join(f"WHEN offset >= {offset:d}L THEN {epoch << EPOCH_SHIFT:d}L" for offset, epoch in reversed(known.epoch_runs))
            cases.append(f"WHEN {partition:d} THEN CASE {whens} ELSE 0L END")
    return f"CASE partition {' '.join(cases)} ELSE 0L END" if cases else ""


def recreated(known: PartitionLogs, *, now_ms: int) -> PartitionLogs:
    """Return the logs of a recreated topic, whose offsets count from 0 while its source
    continues.
    """
    return PartitionLogs(-1, known.logs, known.gtids, [(0, known.epoch)] if known.epoch else [], now_ms)


def described(table: str, topic: str, partition: int, switch: LogSwitch) -> str:
    """Return the message about another log, which a person must judge."""
    return (
        f"{table}: positions in topic {topic} fell from {_file_and_offset(switch.before)} to {_file_and_offset(switch.after)} "
        f"at partition {partition}, offset {switch.offset}, "
        "while the source's time went on: its connector reads another log (another replica, a server restored, its log reset), and changes may be missing. "
        "Records from there on count as later than all before: resume the table, then dump it again"
    )


def _file_and_offset(position: Sequence[int]) -> str:
    return f"file {position[0]} offset {position[1] >> 23}"
