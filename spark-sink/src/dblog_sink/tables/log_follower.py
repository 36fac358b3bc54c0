"""Follows the logs of the source, topic partition by topic partition, through records that do not carry D7's numbers.

The rule is ``records/source_epochs.py``. Here Spark finds the records that it needs, few of them one by one and many of them counted, and the outcome is
recorded before anything is written by it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.config.job_options import Settings
from dblog_sink.config.tables import TableSpec
from dblog_sink.delta.session import MANY_ROWS
from dblog_sink.errors import DefiniteError, ParkError
from dblog_sink.records import source_epochs
from dblog_sink.records.decode import SEQ1
from dblog_sink.records.log_positions import (
    logged_ranges,
    logged_records,
    sequenced,
    snapshot_positions,
    unsequenced,
    writers,
)
from dblog_sink.records.source_epochs import LoggedRange, LoggedRecord, LogSwitch, PartitionLogs
from dblog_sink.state.notes import Note, Parked, SourceLogs, State
from dblog_sink.tables.open_tables import OpenTable
from dblog_sink.tables.profile import TopicStats
from dblog_sink.tables.read import ReadRecords

log = logging.getLogger(__name__)

_SAMPLE_ROWS = 64


@dataclass(frozen=True, slots=True)
class TruncateOrder:
    """Whether a truncate, which comes in one partition, can be ordered among the rows of all."""

    reason: str | None = None
    """Why it cannot; None: it can."""
    from_seq1: int = 0
    """Of truncates that were applied before, only those at or above this first number of a position cannot be ordered."""


class LogFollower:
    """Finds the epoch of the records of each topic partition. ``record`` takes notes, and whether they are written at once."""

    def __init__(self, settings: Settings, state: State, record: Callable[[Sequence[Note], bool], None]) -> None:
        self._settings = settings
        self._state = state
        self._record = record
        self._sequenced: set[str] = set()
        """Topics whose records all have ``source.sequence``, as far as they were looked at."""
        self._followed: set[str] = set()
        """Topics of which every record was looked at since the table was: what dblog wrote among them is taken in."""
        self.highs: dict[str, int] = {}
        """Topics of PostgreSQL whose last batch was all dblog's, and the greatest first number in it: a record that has it is dblog's, too, and of an epoch
        that is known (``profile``).
        """
        self._foreign: set[str] = set()
        """Topics of PostgreSQL whose last batch had records of Debezium."""

    def follow(self, stats: TopicStats, spec: TableSpec, read: ReadRecords, session: SparkSession) -> list[str]:
        """Record which logs the records come from; returns the messages about logs that begin. ParkError where a person must judge."""
        topic = stats.topic
        found = self.logs_of(stats, read, session)
        if found is None:
            return []
        partitions, switches = found
        messages = [source_epochs.described(spec.name, topic, partition, switch) for partition, switch in switches]
        if switches and self._settings.snapshots:
            msg = f"{messages[0]}. A manifest is of one log: give the job a new state.path and target.path, or set manifest.interval.s=0"
            raise DefiniteError(msg)
        before = self._state.source_logs.get(topic, {})
        begun = any(logs.epoch != (before[partition].epoch if partition in before else 0) for partition, logs in partitions.items())
        notes: list[Note] = [SourceLogs(topic, partition, logs) for partition, logs in partitions.items()]
        unproven = [message for message, (_, switch) in zip(messages, switches, strict=True) if not switch.proven]
        if unproven:
            notes.append(Parked(topic, unproven[0]))
        self._record(notes, bool(switches) or begun)
        if topic not in self._sequenced:
            self._followed.add(topic)
        if unproven:
            raise ParkError(unproven[0])
        for message in messages:
            log.warning("%s", message)
        for partition, logs in partitions.items():
            if source_epochs.follows_dblog(logs) and (partition not in before or logs.epoch != before[partition].epoch):
                log.info(
                    "topic %s, partition %d: Debezium's connector goes on after dblog; its records are later than dblog's", topic, partition
                )
        return messages

    def logs_of(
        self, stats: TopicStats, read: ReadRecords, session: SparkSession
    ) -> tuple[dict[int, PartitionLogs], list[tuple[int, LogSwitch]]] | None:
        """The logs of the topic's partitions with these records taken in, and which logs begin in them; None where every record has its own position."""
        topic = stats.topic
        if read.unwrapped or self._settings["position"] == "topic":
            return None
        if any(one.by_lsn for one in read.known.envelopes.values()):
            partitions = self._handed_over(stats, read, session)
            return None if partitions is None else (partitions, [])
        if not any(one.derived for one in read.known.envelopes.values()):
            return None
        if not stats.maybe_derived and (topic in self._sequenced or self._begins_sequenced(stats, read)):
            self._sequenced.add(topic)
            self._followed.discard(topic)
            return None
        found = unsequenced(read.records, read.known.envelopes)
        partitions = {partition: deepcopy(logs) for partition, logs in self._state.source_logs.get(topic, {}).items()}
        one_by_one: dict[int, list[LoggedRecord]] = {}
        counted: dict[int, LoggedRange] = {}
        rows: dict[int, dict[int, tuple[int, int]]] = {}
        many = stats.records >= MANY_ROWS
        if many:
            counted = logged_ranges(found)
            rows = snapshot_positions(found) if stats.maybe_dumped else {}
        else:
            one_by_one = _by_partition(logged_records(found))
        if not (one_by_one or counted or rows):
            # Every record has its own position: later ones of the topic are assumed to have one until one seems to have none.
            if found.isEmpty():
                self._sequenced.add(topic)
            self._followed.discard(topic)
            return None
        self._sequenced.discard(topic)
        seed = self._seed(topic, partitions, read, session)
        dblogs = sequenced(read.records, read.known.envelopes) if stats.maybe_sequenced else {}
        if many:
            unclear = []
            for partition in counted.keys() | (rows.keys() & partitions.keys()):
                logs, records = partitions.setdefault(partition, PartitionLogs()), counted.get(partition)
                if (
                    partition in dblogs
                    or source_epochs.may_reveal_switch(logs, rows.get(partition, {}), records)
                    or (records is not None and not source_epochs.extended(logs, records, epoch=seed))
                ):
                    unclear.append(partition)
            if unclear:
                one_by_one = _by_partition(logged_records(found.where(F.col("partition").isin(unclear))))
        switches = [
            (partition, switch)
            for partition in sorted(one_by_one.keys() | dblogs.keys())
            if partition in partitions or partition in dblogs or not all(one.selected for one in one_by_one[partition])  # begin nothing
            for switch in source_epochs.follow_both(
                partitions.setdefault(partition, PartitionLogs()), one_by_one.get(partition, []), dblogs.get(partition, ()), epoch=seed
            )
        ]
        met = sorted(partitions.keys() & (one_by_one.keys() | counted.keys()))
        behind = [partition for partition in met if source_epochs.follows_dblog(partitions[partition])]
        if behind and self._settings.snapshots:
            raise _of_one_log(topic, behind[0], partitions[behind[0]].offset)
        return partitions, switches

    def _seed(self, topic: str, partitions: dict[int, PartitionLogs], read: ReadRecords, session: SparkSession) -> int:
        """The epoch of records in partitions that were not met before; takes into ``partitions`` what dblog has written since the topic was followed."""
        newest = 0
        if topic not in self._followed and read.opened is not None:
            newest = _epoch_of(session, read.opened, above=max((logs.epoch for logs in partitions.values()), default=-1))
            if newest and not partitions:
                # Records of the topic were read before, and no log of Debezium's was recorded: all were dblog's. In case the control table is lost nothing
                # was read as far as it shows; then the log that is read now is not older than the table's newest row.
                partitions.update({partition: PartitionLogs() for one, partition in list(self._state.high_water_marks) if one == topic})
            source_epochs.hand_over_all(partitions, newest)
        return max((logs.epoch for logs in partitions.values()), default=newest)

    def _handed_over(self, stats: TopicStats, read: ReadRecords, session: SparkSession) -> dict[int, PartitionLogs] | None:
        """The partitions of a topic of PostgreSQL in which records without D7's numbers are of another epoch than was known; None where nothing changes."""
        topic = stats.topic
        if topic in self.highs and not stats.maybe_derived:
            return None
        rows = writers(read.records, read.known.envelopes)
        foreign = [row for row in rows if row["epoch"] is None]
        known = {partition: deepcopy(logs) for partition, logs in self._state.source_logs.get(topic, {}).items()}
        changed: set[int] = set()
        if foreign:
            self._foreign.add(topic)
            self.highs.pop(topic, None)
            # In case the control table is lost: what Debezium writes now is not older than the table's newest row.
            epoch = (
                max((logs.epoch for logs in known.values()), default=0) if known or read.opened is None else _epoch_of(session, read.opened)
            )
            for row in foreign:
                if row["partition"] not in known:
                    changed.add(row["partition"])
                    source_epochs.seeded(known.setdefault(row["partition"], PartitionLogs()), epoch)
        elif rows:
            self._foreign.discard(topic)
            self.highs[topic] = max(row["high"] for row in rows)
        for row in rows:
            if row["epoch"] is not None:
                logs = known.setdefault(row["partition"], PartitionLogs())
                if source_epochs.hand_over(logs, epoch=row["epoch"], offset=row["first"]):
                    changed.add(row["partition"])
        behind = [row for row in foreign if any(row["last"] >= offset and epoch for offset, epoch in known[row["partition"]].epoch_runs)]
        if behind and self._settings.snapshots:
            raise _of_one_log(topic, behind[0]["partition"], behind[0]["last"])
        return {partition: known[partition] for partition in changed} or None

    def truncate_order(self, stats: TopicStats, spec: TableSpec, read: ReadRecords, tombstones_path: str) -> TruncateOrder:
        """Whether a truncate among the records can be ordered. ``tombstones_path``: of the table of its tombstones."""
        way_out = f"table.<rule>.truncate=ignore and resume it, or move {spec.path} and {tombstones_path} away, resume it and dump it again"
        if read.unwrapped or self._settings["position"] == "topic":
            met = {partition for topic, partition in list(self._state.high_water_marks) if topic == stats.topic}
            if len({*stats.first, *met}) == 1:
                return TruncateOrder()
            return TruncateOrder(
                f"{spec.name} was truncated in the source, and its rows are ordered by the offsets of topic {stats.topic}, which has several partitions: "
                f"which rows are older is unknown; set {way_out}"
            )
        epochs = {logs.epoch for logs in self._state.source_logs.get(stats.topic, {}).values()}
        if any(one.by_lsn for one in read.known.envelopes.values()) and stats.topic not in self._foreign:
            return TruncateOrder()  # dblog's numbers are of one order, whatever partition they are in
        if len(epochs) > 1:
            reason = (
                f"{spec.name} was truncated in the source while its partitions were at different logs of the source: which rows are older is unknown; "
                f"set {way_out}"
            )
            return TruncateOrder(reason, (min(epochs) + 1) << source_epochs.EPOCH_SHIFT)
        return TruncateOrder()

    def _begins_sequenced(self, stats: TopicStats, read: ReadRecords) -> bool:
        """Whether every record of a sample has its own position, where there are many records, all of one schema: then all are assumed to have one."""
        if stats.records < MANY_ROWS or len(read.known.envelopes) > 1:
            return False
        (schema_id,) = read.known.envelopes
        sample = read.records.where(F.col("value_schema_id") == F.lit(bytearray(schema_id))).limit(_SAMPLE_ROWS)
        return unsequenced(sample, read.known.envelopes).isEmpty()


def _of_one_log(topic: str, partition: int, offset: int) -> DefiniteError:
    """The error about another writer's records in a job that publishes snapshots."""
    return DefiniteError(
        f"topic {topic}, partition {partition}: records of Debezium's connector follow those of dblog's (up to offset {offset}), and a manifest is of "
        "one log: give the job a new state.path and target.path, or set manifest.interval.s=0"
    )


def _by_partition(found: Iterable[tuple[int, LoggedRecord]]) -> dict[int, list[LoggedRecord]]:
    records: dict[int, list[LoggedRecord]] = {}
    for partition, one in found:
        records.setdefault(partition, []).append(one)
    return records


def _epoch_of(session: SparkSession, opened: OpenTable, *, above: int = -1) -> int:
    """The epoch of the newest row in a table, or of the newest delete or truncate; 0 where none is above this one, which statistics show."""
    frame: DataFrame = session.read.format("delta").load(opened.target.path)
    rows = frame.where(F.col(SEQ1) >= F.lit((above + 1) << source_epochs.EPOCH_SHIFT)) if above >= 0 else frame
    newest = rows.agg(F.max(SEQ1)).collect()[0][0] or 0
    if opened.tombstones is not None:
        newest = max(newest, *(at[0] for at in (opened.tombstones.last, opened.tombstones.floor) if at is not None), 0)
    return int(newest) >> source_epochs.EPOCH_SHIFT
