"""Defines the notes of the control table, their codec, and the ``State`` that results from them.
Pure.

A note is about one topic, partition or table. It is recorded after the commits that it describes
and never runs ahead of them. Applying the same note twice changes nothing.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any

from dblog_sink.records.decode import LogEnd
from dblog_sink.records.source_epochs import PartitionLogs
from dblog_sink.state.snapshot import Frontier, Position, Snapshot

EXPIRED = "its records had expired in Kafka before the sink's first record of the topic"
APPLIED = "its records were applied before there was a manifest"
"""Reasons why the manifest does not know a topic from its beginning."""


@dataclass(frozen=True, slots=True)
class CheckpointEpoch:
    """The epoch under which the query with this id writes. Epochs count checkpoints."""

    query_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class HighWaterMark:
    """The Kafka offset up to which a partition's records are applied or landed.

    It holds while the topic has this id: a recreated topic counts from 0 again.
    """

    topic: str
    partition: int
    offset: int
    topic_id: str


@dataclass(frozen=True, slots=True)
class TableWritten:
    """The Delta table that the topic's notes describe.

    Notes about a table that was moved away are void. ``appending`` is True in append mode.
    """

    topic: str
    table_id: str
    appending: bool


@dataclass(frozen=True, slots=True)
class AppendPosition:
    """The position up to which an append-mode table has the partition's log."""

    topic: str
    partition: int
    position: LogEnd


@dataclass(frozen=True, slots=True)
class HistoryChecked:
    """The version up to which a Delta table's commits were checked (``delta/restored.py``)."""

    topic: str
    table_id: str
    version: int


@dataclass(frozen=True, slots=True)
class MergedUpTo:
    """The batch sequence up to which the topic's landed rows are in its table."""

    topic: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Parked:
    """The fact that the topic's table is no longer written, while its records go on landing."""

    topic: str
    reason: str


@dataclass(frozen=True, slots=True)
class Resumed:
    """The fact that the topic's table is written again."""

    topic: str


@dataclass(frozen=True, slots=True)
class ColumnsRenamed:
    """The columns of a table that the source renamed, old name to new."""

    table: str
    names: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RenameStatement:
    """A source statement that renames columns, with its record in the schema-change topic."""

    topic: str
    table: str
    """``db.table`` in lower case."""
    offset: int
    renames: tuple[tuple[str, str], ...]
    """Pairs of old and new names."""
    topic_id: str = ""
    """Id of the topic, as in ``HighWaterMark``; empty in notes of an earlier version."""
    source: str = ""
    """Position of the statement in the source's log, the same for a statement that is sent twice.
    Empty if the record does not have it.
    """


@dataclass(frozen=True, slots=True)
class SourceLogs:
    """The logs of the source from which a topic partition's records come
    (``records/source_epochs.py``).
    """

    topic: str
    partition: int
    logs: PartitionLogs


@dataclass(frozen=True, slots=True)
class TruncatedFirst:
    """The position of the last truncate among the topic's first records, which were truncates only.

    The table that is created later from its rows must have no older row.
    """

    topic: str
    position: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """The time at which old files of a table were deleted."""

    table: str
    at_s: float


@dataclass(frozen=True, slots=True)
class Compacted:
    """The version at which the topic's table was compacted, or first seen."""

    topic: str
    version: int


@dataclass(frozen=True, slots=True)
class CountedFromStart:
    """The fact that dumped rows have been counted from the first record on."""


@dataclass(frozen=True, slots=True)
class SnapshotChosen:
    """The next snapshot, recorded before the first merge for it."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class SnapshotPublished:
    """The number of a snapshot that is merged and published in the manifest.

    ``held`` maps topics whose tables are not in it, because they were parked, to the frontier up to
    which they are merged.
    """

    number: int
    held: Mapping[str, Frontier] | None = None


@dataclass(frozen=True, slots=True)
class MergedWithoutSnapshots:
    """The fact that tables may have been merged without snapshots since the last one.

    For some time there was no manifest.
    """

    value: bool


@dataclass(frozen=True, slots=True)
class DumpMerged:
    """Kafka timestamp of the newest dump row merged by a snapshot, or of the last merge made
    outside snapshots (resume, replay).
    """

    topic: str
    kafka_ms: int


@dataclass(frozen=True, slots=True)
class KnownLate:
    """The fact that the manifest does not know the topic from its beginning.

    ``reason`` is None once a snapshot contains a transaction of the topic.
    """

    topic: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class RecordsMissing:
    """The Kafka timestamp and log position up to which records of the topic were lost.

    A later dump of the whole table repairs the loss.
    """

    topic: str
    kafka_ms: int
    position: Position | None = None


Note = (
    CheckpointEpoch
    | HighWaterMark
    | TableWritten
    | AppendPosition
    | HistoryChecked
    | MergedUpTo
    | Parked
    | Resumed
    | ColumnsRenamed
    | RenameStatement
    | SourceLogs
    | TruncatedFirst
    | Vacuumed
    | Compacted
    | CountedFromStart
    | SnapshotChosen
    | SnapshotPublished
    | MergedWithoutSnapshots
    | DumpMerged
    | KnownLate
    | RecordsMissing
)


@dataclass(slots=True)
class State:
    """The result of applying all notes."""

    checkpoint_epochs: dict[str, int] = field(default_factory=dict)
    high_water_marks: dict[tuple[str, int], HighWaterMark] = field(default_factory=dict)
    table_ids: dict[str, str] = field(default_factory=dict)
    appending: set[str] = field(default_factory=set)
    append_positions: dict[str, dict[int, LogEnd]] = field(default_factory=dict)
    history_checked: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Topic to Delta's table id and the checked version."""
    merged_up_to: dict[str, int] = field(default_factory=dict)
    parked: dict[str, str] = field(default_factory=dict)
    renames: dict[str, dict[str, str]] = field(default_factory=dict)
    """Table to renamed columns without the order of statements, from an earlier version of the
    sink.
    """
    rename_statements: dict[tuple[str, str], dict[tuple[str, int], RenameStatement]] = field(default_factory=dict)
    """Schema-change topic and table to statements by topic id and offset. Statements of a recreated
    topic follow those of the former one.
    """
    source_logs: dict[str, dict[int, PartitionLogs]] = field(default_factory=dict)
    truncated_first: dict[str, tuple[int, int]] = field(default_factory=dict)
    vacuumed_s: dict[str, float] = field(default_factory=dict)
    compacted_at: dict[str, int] = field(default_factory=dict)
    counted_from_start: bool = False
    snapshot: Snapshot | None = None
    """Last snapshot that was chosen."""
    snapshot_published: int = -1
    held: dict[str, Frontier] = field(default_factory=dict)
    merged_without_snapshots: bool = False
    dumped_ms: dict[str, int] = field(default_factory=dict)
    late: dict[str, str] = field(default_factory=dict)
    missing: dict[str, RecordsMissing] = field(default_factory=dict)

    @property
    def snapshot_unfinished(self) -> Snapshot | None:
        """Recorded snapshot that is not published yet, None if there is none."""
        last = self.snapshot
        return last if last is not None and last.number > self.snapshot_published else None

    def take(self, note: Note) -> None:
        """Apply a note. Applying it twice changes nothing."""
        match note:
            case CheckpointEpoch(query_id, epoch):
                self.checkpoint_epochs[query_id] = epoch
            case HighWaterMark(topic, partition):
                self.high_water_marks[topic, partition] = note
            case TableWritten(topic, table_id, appending):
                if self.table_ids.get(topic, table_id) != table_id:
                    self.append_positions.pop(topic, None)
                self.table_ids[topic] = table_id
                (self.appending.add if appending else self.appending.discard)(topic)
            case AppendPosition(topic, partition, position):
                known = self.append_positions.setdefault(topic, {})
                known[partition] = max(position, known.get(partition, position))
            case HistoryChecked(topic, table_id, version):
                self.history_checked[topic] = (table_id, version)
            case MergedUpTo(topic, sequence):
                self.merged_up_to[topic] = max(sequence, self.merged_up_to.get(topic, -1))
            case Parked(topic, reason):
                self.parked[topic] = reason
            case Resumed(topic):
                self.parked.pop(topic, None)
            case ColumnsRenamed(table, names):
                self.renames.setdefault(table, {}).update(names)
            case RenameStatement(topic, table, offset):
                self.rename_statements.setdefault((topic, table), {})[note.topic_id, offset] = note
            case SourceLogs(topic, partition, logs):
                self.source_logs.setdefault(topic, {})[partition] = logs
            case TruncatedFirst(topic, position):
                self.truncated_first[topic] = max(position, self.truncated_first.get(topic, position))
            case Vacuumed(table, at_s):
                self.vacuumed_s[table] = at_s
            case Compacted(topic, version):
                self.compacted_at[topic] = version
            case CountedFromStart():
                self.counted_from_start = True
            case SnapshotChosen(snapshot):
                if self.snapshot is None or snapshot.number >= self.snapshot.number:
                    self.snapshot = snapshot
            case SnapshotPublished(number, held):
                self.snapshot_published = max(number, self.snapshot_published)
                self.held = self.held if held is None else dict(held)
            case MergedWithoutSnapshots(value):
                self.merged_without_snapshots = value
            case DumpMerged(topic, kafka_ms):
                self.dumped_ms[topic] = max(kafka_ms, self.dumped_ms.get(topic, kafka_ms))
            case KnownLate(topic, late_reason):
                if late_reason is None:
                    self.late.pop(topic, None)
                else:
                    self.late[topic] = late_reason
            case RecordsMissing(topic):
                self.missing[topic] = note
            case _:
                typing.assert_never(note)

    def has(self, note: Note) -> bool:
        """Return True if applying the note would change nothing.

        Only kinds of notes that every batch has for each table are checked; others return False.
        """
        match note:
            case TableWritten(topic, table_id, appending):
                return self.table_ids.get(topic) == table_id and (topic in self.appending) == appending
            case HistoryChecked(topic, table_id, version):
                return self.history_checked.get(topic) == (table_id, version)
            case HighWaterMark(topic, partition):
                return self.high_water_marks.get((topic, partition)) == note
            case _:
                return False

    def notes(self) -> Iterator[Note]:
        """Yield notes that turn an empty state into this one."""
        for query_id, epoch in self.checkpoint_epochs.items():
            yield CheckpointEpoch(query_id, epoch)
        yield from self.high_water_marks.values()
        for topic, table_id in self.table_ids.items():
            yield TableWritten(topic, table_id, topic in self.appending)
        for topic, positions in self.append_positions.items():
            for partition, position in positions.items():
                yield AppendPosition(topic, partition, position)
        for topic, (table_id, version) in self.history_checked.items():
            yield HistoryChecked(topic, table_id, version)
        for topic, sequence in self.merged_up_to.items():
            yield MergedUpTo(topic, sequence)
        for topic, reason in self.parked.items():
            yield Parked(topic, reason)
        for table, names in self.renames.items():
            yield ColumnsRenamed(table, names)
        for statements in self.rename_statements.values():
            yield from statements.values()
        for topic, partitions in self.source_logs.items():
            for partition, logs in partitions.items():
                yield SourceLogs(topic, partition, logs)
        for topic, truncated in self.truncated_first.items():
            yield TruncatedFirst(topic, truncated)
        for table, at_s in self.vacuumed_s.items():
            yield Vacuumed(table, at_s)
        for topic, version in self.compacted_at.items():
            yield Compacted(topic, version)
        if self.counted_from_start:
            yield CountedFromStart()
        if self.snapshot is not None:
            yield SnapshotChosen(self.snapshot)
        if self.snapshot_published >= 0 or self.held:
            yield SnapshotPublished(self.snapshot_published, self.held)
        if self.merged_without_snapshots:
            yield MergedWithoutSnapshots(value=True)
        for topic, kafka_ms in self.dumped_ms.items():
            yield DumpMerged(topic, kafka_ms)
        for topic, reason in self.late.items():
            yield KnownLate(topic, reason)
        yield from self.missing.values()


def without_overtaken(notes: Iterable[Note]) -> list[Note]:
    """Drop notes that a later one makes void, so that one row can hold those of many batches.

    The others keep their order.
    """
    kept: dict[object, Note] = {}
    written: dict[str, tuple[int, TableWritten]] = {}
    """Topic to the number of Delta tables in its notes, and the last such note."""
    for at, note in enumerate(notes):
        key: object = at
        match note:
            case TableWritten(topic):
                count, last = written.get(topic, (0, None))
                if last == note:
                    continue
                written[topic] = (count + 1, note)
            case AppendPosition(topic, partition, position):
                key = (AppendPosition, topic, partition, written[topic][0] if topic in written else 0)
                known = kept.get(key)
                if isinstance(known, AppendPosition) and known.position > position:
                    continue
            case MergedUpTo(topic, sequence):
                key, known = (MergedUpTo, topic), kept.get((MergedUpTo, topic))
                if isinstance(known, MergedUpTo) and known.sequence > sequence:
                    continue
            case DumpMerged(topic, kafka_ms):
                key, known = (DumpMerged, topic), kept.get((DumpMerged, topic))
                if isinstance(known, DumpMerged) and known.kafka_ms > kafka_ms:
                    continue
            case HighWaterMark(topic, partition) | SourceLogs(topic, partition):
                key = (type(note), topic, partition)
            case HistoryChecked(topic) | Compacted(topic) | KnownLate(topic) | RecordsMissing(topic):
                key = (type(note), topic)
            case Vacuumed(table):
                key = (Vacuumed, table)
            case Parked(topic) | Resumed(topic):
                key = (Parked, topic)
            case _:
                pass
        kept.pop(key, None)
        kept[key] = note
    return list(kept.values())


# -- the codec ------------------------------------------------------------------------------------------------------------------------------


def encoded(note: Note) -> dict[str, Any]:
    """Return the note as a JSON object with its kind and fields."""
    return {"note": _kind(type(note)), **_plain(note)}


def decoded(given: Mapping[str, Any]) -> Note:
    """Return the note of a JSON object.

    Raise ValueError, KeyError or TypeError if it is not a note.
    """
    kind = _KINDS.get(given["note"])
    if kind is None:
        msg = f"unknown note {given['note']}; this sink is older than the control table"
        raise ValueError(msg)
    note: Note = _reader(kind)({name: value for name, value in given.items() if name != "note"})
    return note


def encode_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    """Return the snapshot as a JSON object, as in its note and the manifest."""
    found: dict[str, Any] = _plain(snapshot)
    return found


def decode_snapshot(given: Mapping[str, Any]) -> Snapshot:
    """Return the snapshot of a JSON object."""
    found: Snapshot = _reader(Snapshot)(given)
    return found


def _kind(note: type) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", note.__name__).lower()


_KINDS: Mapping[str, type] = {_kind(note): note for note in typing.get_args(Note)}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """Return a function that makes a value of this type from JSON.

    The control table of many tables has millions of values, so each type is analysed once.
    """
    if is_dataclass(kind):
        assert isinstance(kind, type)
        readers = {name: read for name, of in typing.get_type_hints(kind).items() if (read := _reader(of)) is not _as_it_is}
        if not readers:
            return lambda given: kind(**given)
        return lambda given: kind(**{name: readers[name](one) if name in readers else one for name, one in given.items()})
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType or origin is typing.Union:  # every union here is "or None"
        (wanted,) = (one for one in arguments if one is not type(None))
        read = _reader(wanted)
        return _as_it_is if read is _as_it_is else lambda given: None if given is None else read(given)
    if origin in (dict, Mapping):
        name, read = arguments[0], _reader(arguments[1])
        return lambda given: {name(key): read(one) for key, one in given.items()}
    if origin is list:
        read = _reader(arguments[0])
        return lambda given: [read(one) for one in given]
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            read = _reader(arguments[0])
            return lambda given: tuple(map(read, given))
        each = tuple(map(_reader, arguments))
        return lambda given: tuple(read(part) for read, part in zip(each, given, strict=True))
    return _as_it_is


def _as_it_is(given: Any) -> Any:
    return given
