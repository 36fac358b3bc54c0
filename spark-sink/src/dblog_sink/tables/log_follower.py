"""Follows the logs of the source in each topic partition, for records without D7's numbers.

The rule is in ``records/source_epochs.py``. This module finds the needed records with Spark, singly
if they are few and summarized if many, and records the outcome before anything is written by it.
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
    """The possibility of ordering a truncate, which comes in one partition, among the rows of
    all.
    """

    reason: str | None = None
    """Reason why it cannot be ordered, None if it can."""
    from_seq1: int = 0
    """First number of a position. Truncates applied before cannot be ordered if they are at or
    above it.
    """


class LogFollower:
    """The source epochs of each topic partition's records.

    ``record`` records notes, at once if its second argument is True.
    """

    def __init__(self, settings: Settings, state: State, record: Callable[[Sequence[Note], bool], None]) -> None:
        self._settings = settings
        self._state = state
        self._record = record
        self._sequenced: set[str] = set()
        """Topics whose examined records all have ``source.sequence``."""
        self._followed: set[str] = set()
        """Topics whose records were all examined since the table was opened, so that everything
        that dblog wrote among them is taken in.
        """
        self.highs: dict[str, int] = {}
        """PostgreSQL topic to the greatest first number in its last batch, if that was all dblog's.
        A record with the same number is dblog's too, and of a known epoch (``profile``).
        """
        self._foreign: set[str] = set()
        """PostgreSQL topics whose last batch had records of Debezium."""

    def follow(self, stats: TopicStats, spec: TableSpec, read: ReadRecords, session: SparkSession) -> list[str]:
        """Record which logs the records come from, and return messages about logs that begin.

        Raise ParkError if a person must judge.
        """
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
        """Return the logs of the topic's partitions after these records, and logs that begin.

        Return None if every record has its own position.
        """
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
            # Every record has its own position. Later ones of the topic are assumed to have one
            # until one seems to have none.
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
            # Snapshot rows alone begin no log.
            if partition in partitions or partition in dblogs or not all(one.selected for one in one_by_one[partition])
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
        """Return the epoch for records of partitions that were not seen before.

        Add to ``partitions`` what dblog has written since the topic was followed.
        """
        newest = 0
        if topic not in self._followed and read.opened is not None:
            newest = _epoch_of(session, read.opened, above=max((logs.epoch for logs in partitions.values()), default=-1))
            if newest and not partitions:
                # Records of the topic were read before, and no log of Debezium's was recorded, so
                # all were dblog's. If the control table was lost, it shows no records as read; then
                # the current log is not older than the table's newest row.
                partitions.update({partition: PartitionLogs() for one, partition in list(self._state.high_water_marks) if one == topic})
            source_epochs.hand_over_all(partitions, newest)
        return max((logs.epoch for logs in partitions.values()), default=newest)

    def _handed_over(self, stats: TopicStats, read: ReadRecords, session: SparkSession) -> dict[int, PartitionLogs] | None:
        """Return partitions of a PostgreSQL topic whose records without D7's numbers get a new
        epoch.

        Return None if nothing changes.
        """
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
            # If the control table was lost: what Debezium writes now is not older than the table's
            # newest row.
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
        """Return whether a truncate among the records can be ordered.

        ``tombstones_path`` is that of the table's tombstones, for the message.
        """
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
            # dblog's numbers have one order across partitions.
            return TruncateOrder()
        if len(epochs) > 1:
            reason = (
                f"{spec.name} was truncated in the source while its partitions were at different logs of the source: which rows are older is unknown; "
                f"set {way_out}"
            )
            return TruncateOrder(reason, (min(epochs) + 1) << source_epochs.EPOCH_SHIFT)
        return TruncateOrder()

    def _begins_sequenced(self, stats: TopicStats, read: ReadRecords) -> bool:
        """Return True if every record of a sample has its own position.

        A sample is taken only of many records of one schema; then all are assumed to have one.
        """
        if stats.records < MANY_ROWS or len(read.known.envelopes) > 1:
            return False
        (schema_id,) = read.known.envelopes
        sample = read.records.where(F.col("value_schema_id") == F.lit(bytearray(schema_id))).limit(_SAMPLE_ROWS)
        return unsequenced(sample, read.known.envelopes).isEmpty()


def _of_one_log(topic: str, partition: int, offset: int) -> DefiniteError:
    """Return the error about another writer's records in a job that publishes snapshots."""
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
    """Return the epoch of the newest row, delete or truncate of a table.

    Return 0 if none is above the given epoch, which file statistics show.
    """
    frame: DataFrame = session.read.format("delta").load(opened.target.path)
    rows = frame.where(F.col(SEQ1) >= F.lit((above + 1) << source_epochs.EPOCH_SHIFT)) if above >= 0 else frame
    newest = rows.agg(F.max(SEQ1)).collect()[0][0] or 0
    if opened.tombstones is not None:
        newest = max(newest, *(at[0] for at in (opened.tombstones.last, opened.tombstones.floor) if at is not None), 0)
    return int(newest) >> source_epochs.EPOCH_SHIFT
