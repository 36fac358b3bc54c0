"""What the control table records: each note a frozen value, one codec for all, and ``State``, which takes them in. Pure.

A note is about one topic, partition or table. Notes are recorded after the commits that they are about and are never ahead of them; taking in
the same note twice changes nothing.
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
"""Why the manifest does not know a topic from its beginning."""


@dataclass(frozen=True, slots=True)
class CheckpointEpoch:
    """The query with this id writes under this epoch: checkpoints, counted."""

    query_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class HighWaterMark:
    """Everything of the partition up to this Kafka offset is applied or landed, while the topic has this id: a recreated topic counts from 0 again."""

    topic: str
    partition: int
    offset: int
    topic_id: str


@dataclass(frozen=True, slots=True)
class TableWritten:
    """The Delta table that the topic's notes are about; notes about a table that was moved away are void. ``appending``: it is in append mode."""

    topic: str
    table_id: str
    appending: bool


@dataclass(frozen=True, slots=True)
class AppendPosition:
    """Up to where the partition's log is in a table in append mode."""

    topic: str
    partition: int
    position: LogEnd


@dataclass(frozen=True, slots=True)
class HistoryChecked:
    """The commits of the Delta table with this id were checked up to this version (``delta/restored.py``)."""

    topic: str
    table_id: str
    version: int


@dataclass(frozen=True, slots=True)
class MergedUpTo:
    """The topic's table has its landed rows up to this batch sequence."""

    topic: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Parked:
    """The topic's table is not written any more; its records go on landing."""

    topic: str
    reason: str


@dataclass(frozen=True, slots=True)
class Resumed:
    """The topic's table is written again."""

    topic: str


@dataclass(frozen=True, slots=True)
class ColumnsRenamed:
    """The source renamed columns of a table, old name to new."""

    table: str
    names: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RenameStatement:
    """A statement of the source that renames columns of a table, by its record in the schema-change topic."""

    topic: str
    table: str
    """``db.table``, in lower case."""
    offset: int
    renames: tuple[tuple[str, str], ...]
    """Old name and new."""
    topic_id: str = ""
    """The topic's, as in ``HighWaterMark``; empty in notes of an earlier version."""
    source: str = ""
    """Where the statement stands in the source's log; a statement that is sent twice has the same. Empty where the record does not have it."""


@dataclass(frozen=True, slots=True)
class SourceLogs:
    """The logs of the source that the records of a topic partition come from (``records/source_epochs.py``)."""

    topic: str
    partition: int
    logs: PartitionLogs


@dataclass(frozen=True, slots=True)
class TruncatedFirst:
    """The topic's first records were truncates, the last of them at this position: the table that its rows make later holds none that is older."""

    topic: str
    position: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """Old files of a table were deleted at this time."""

    table: str
    at_s: float


@dataclass(frozen=True, slots=True)
class Compacted:
    """The topic's table was compacted at this version, or first met there."""

    topic: str
    version: int


@dataclass(frozen=True, slots=True)
class CountedFromStart:
    """Rows of dumps have been counted from the first record on."""


@dataclass(frozen=True, slots=True)
class SnapshotChosen:
    """The next snapshot, before the first merge for it."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class SnapshotPublished:
    """This snapshot is in the manifest, and merged. ``held``: topics whose tables are not in it, for they were parked, and up to where they are merged."""

    number: int
    held: Mapping[str, Frontier] | None = None


@dataclass(frozen=True, slots=True)
class MergedWithoutSnapshots:
    """Tables may have been merged without snapshots since the last one: for a while there was no manifest."""

    value: bool


@dataclass(frozen=True, slots=True)
class DumpMerged:
    """Kafka's time of the last dump row that a snapshot merged, or of what was done beside the snapshots."""

    topic: str
    kafka_ms: int


@dataclass(frozen=True, slots=True)
class KnownLate:
    """The manifest does not know the topic from its beginning. ``reason`` None: a snapshot holds a transaction of it now."""

    topic: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class RecordsMissing:
    """Records of the topic never came, up to this time of Kafka's, and to this position of the log: a later dump of the whole table repairs it."""

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
    """All notes, taken in."""

    checkpoint_epochs: dict[str, int] = field(default_factory=dict)
    high_water_marks: dict[tuple[str, int], HighWaterMark] = field(default_factory=dict)
    table_ids: dict[str, str] = field(default_factory=dict)
    appending: set[str] = field(default_factory=set)
    append_positions: dict[str, dict[int, LogEnd]] = field(default_factory=dict)
    history_checked: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By topic, the Delta table's id and the version."""
    merged_up_to: dict[str, int] = field(default_factory=dict)
    parked: dict[str, str] = field(default_factory=dict)
    renames: dict[str, dict[str, str]] = field(default_factory=dict)
    """By table, without the statements' order: of an earlier version of the sink."""
    rename_statements: dict[tuple[str, str], dict[tuple[str, int], RenameStatement]] = field(default_factory=dict)
    """By schema-change topic and table, and by topic id and offset; a topic that was made again comes after the former one."""
    source_logs: dict[str, dict[int, PartitionLogs]] = field(default_factory=dict)
    truncated_first: dict[str, tuple[int, int]] = field(default_factory=dict)
    vacuumed_s: dict[str, float] = field(default_factory=dict)
    compacted_at: dict[str, int] = field(default_factory=dict)
    counted_from_start: bool = False
    snapshot: Snapshot | None = None
    """The one that was chosen last."""
    snapshot_published: int = -1
    held: dict[str, Frontier] = field(default_factory=dict)
    merged_without_snapshots: bool = False
    dumped_ms: dict[str, int] = field(default_factory=dict)
    late: dict[str, str] = field(default_factory=dict)
    missing: dict[str, RecordsMissing] = field(default_factory=dict)

    @property
    def snapshot_unfinished(self) -> Snapshot | None:
        """The snapshot that was recorded and is not published."""
        last = self.snapshot
        return last if last is not None and last.number > self.snapshot_published else None

    def take(self, note: Note) -> None:
        """Take in one note."""
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
        """Whether taking the note in would change nothing, of those that each batch has for each of its tables."""
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
        """The notes that turn an empty state into this one."""
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
    """Notes in their order, without those that a later one makes void: what many batches record is written in one row."""
    kept: dict[object, Note] = {}
    written: dict[str, tuple[int, TableWritten]] = {}
    """By topic, how many Delta tables its notes are about, and the last of them."""
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
    """The note as JSON: its kind, and its fields."""
    return {"note": _kind(type(note)), **_plain(note)}


def decoded(given: Mapping[str, Any]) -> Note:
    """The note of its JSON. ValueError, KeyError or TypeError if that is not a note."""
    kind = _KINDS.get(given["note"])
    if kind is None:
        msg = f"unknown note {given['note']}; this sink is older than the control table"
        raise ValueError(msg)
    note: Note = _reader(kind)({name: value for name, value in given.items() if name != "note"})
    return note


def encode_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    """The snapshot as JSON, as its note and the manifest hold it."""
    found: dict[str, Any] = _plain(snapshot)
    return found


def decode_snapshot(given: Mapping[str, Any]) -> Snapshot:
    """The snapshot of its JSON."""
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
    """Makes a value of a type of its JSON. A control table of many tables holds millions of values, so types are looked into once."""
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
