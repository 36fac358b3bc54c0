"""Finds records that Kafka no longer has although the sink never read them.

It compares the checkpoint with the brokers before each start. Without a checkpoint (lost, or
another one is configured) the high-water marks of the control table show how far each partition was
read. A recreated topic counts its offsets from 0. If it has grown past the next offset to read,
only its id, which the high-water marks have, shows that its first records were never read.

Spark stops on lost records too (``failOnDataLoss``), but with one sentence for all topics. Here
every partition is reported separately: its table, the wanted offset, and the offsets that exist.
The affected tables are parked, and the others go on (docs/when-something-changes.md). For that
the checkpoint is moved past the gap at those partitions only; the option stays on, so nothing else
is ever skipped. An open batch keeps the offsets of all other partitions, because what it has
committed already must be the same when it is repeated (I8).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dblog_sink.state.files import Folder

Offsets = Mapping[str, Mapping[int, int]]
"""Offsets by topic and partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRecords:
    """A topic partition with lost records.

    ``first`` and ``end`` are None if the partition no longer exists. ``begins_at`` is set if a
    query without a checkpoint begins there, at the partition's end, because topics.start is latest.
    """

    topic: str
    partition: int
    wanted: int
    first: int | None = None
    end: int | None = None
    begins_at: int | None = None
    recreated: bool = False
    """True if the topic's id shows that it was recreated, so that ``wanted`` is an offset of the
    former one.
    """

    def __str__(self) -> str:
        partition = f"topic {self.topic}, partition {self.partition}"
        if self.first is None or self.end is None:
            return f"{partition}: it does not exist any more, and offset {self.wanted} was to be read next"
        if self.end < self.wanted:
            return f"{partition}: offset {self.wanted} was to be read next, and the partition ends at {self.end}: the topic was recreated"
        if self.recreated:
            return (
                f"{partition}: the topic was recreated, and offset {self.wanted} was to be read next of the former one; what the former one had from there "
                f"on is lost, and this one is read from offset {self.first if self.begins_at is None else self.begins_at} on"
            )
        if self.begins_at is not None:
            lost = self.begins_at - self.wanted
            return (
                f"{partition}: {lost} records from offset {self.wanted} on are not read: there is no checkpoint, and topics.start is latest"
            )
        return f"{partition}: {self.first - self.wanted} records from offset {self.wanted} on have expired, the first one there is {self.first}"


def losses(wanted: Offsets, first: Offsets, end: Offsets, recreated: Collection[tuple[str, int]] = ()) -> list[LostRecords]:
    """Return the losses among the wanted offsets.

    ``first`` and ``end`` are the brokers' for the same topics; a partition that they lack is lost.
    ``recreated`` has partitions whose offset is one of a former topic.
    """
    found = []
    for topic, partitions in sorted(wanted.items()):
        for partition, offset in sorted(partitions.items()):
            low, high = first.get(topic, {}).get(partition), end.get(topic, {}).get(partition)
            if low is None or high is None:
                found.append(LostRecords(topic=topic, partition=partition, wanted=offset))
            elif low > offset or high < offset:
                found.append(LostRecords(topic=topic, partition=partition, wanted=offset, first=low, end=high))
            elif (topic, partition) in recreated and offset > low:
                found.append(LostRecords(topic=topic, partition=partition, wanted=offset, first=low, end=high, recreated=True))
    return found


def recreated(marks: Mapping[tuple[str, int], str], ids: Mapping[str, str]) -> frozenset[tuple[str, int]]:
    """Return partitions whose topic was recreated since it was read.

    Its id was another one then (``marks``) than now (``ids``).
    """
    return frozenset(partition for partition, was in marks.items() if was and ids.get(partition[0], was) != was)


def losses_at_the_end(wanted: Offsets, first: Offsets, end: Offsets, recreated: Collection[tuple[str, int]] = ()) -> list[LostRecords]:
    """Return the losses if reading begins at the partitions' ends."""
    found = {(one.topic, one.partition): one for one in losses(wanted, first, end, recreated)}
    for topic, partitions in wanted.items():
        for partition, offset in partitions.items():
            last = end.get(topic, {}).get(partition, offset)
            again = (topic, partition) in recreated
            if last > offset or (again and last > first[topic][partition]):
                low = first[topic][partition]
                found[topic, partition] = LostRecords(
                    topic=topic, partition=partition, wanted=offset, first=low, end=last, begins_at=last, recreated=again
                )
    return [found[key] for key in sorted(found)]


def led_past(text: str, found: Iterable[LostRecords]) -> str:
    """Return an offsets file of Spark's checkpoint with lost partitions moved past the gap.

    They move to their first existing record. The file has a line each for version, metadata and
    source.
    """
    *first, last = text.splitlines()
    offsets: dict[str, dict[str, int]] = json.loads(last)
    for one in found:
        partitions, partition = offsets.get(one.topic, {}), str(one.partition)
        if partition not in partitions:
            continue
        if one.first is None or one.end is None:
            del partitions[partition]
            if not partitions:
                del offsets[one.topic]
        elif one.end < one.wanted or one.recreated:
            partitions[partition] = one.first
        else:
            partitions[partition] = max(partitions[partition], one.first)
    return "\n".join([*first, json.dumps(offsets, separators=(",", ":"))])


def lead_past(commits: Folder, offsets: Folder, found: Sequence[LostRecords]) -> None:
    """Move a checkpoint past a gap.

    This changes the offsets with which the next batch begins, and those of an open batch.
    """
    last = max(int(name) for name in commits.names() if name.isdigit())
    for name in sorted((name for name in offsets.names() if name.isdigit() and int(name) >= last), key=int):
        text = offsets.read(name)
        if text is not None:
            offsets.replace(name, led_past(text, found))


def committed(commits: Folder, offsets: Folder) -> dict[str, dict[int, int]]:
    """Return the offsets with which the next batch begins, from Spark's checkpoint.

    These are the ends of the last committed batch, empty before the first one.
    """
    done = [int(name) for name in commits.names() if name.isdigit()]
    if not done:
        return {}
    text = offsets.read(str(max(done)))
    if text is None:
        return {}
    found: dict[str, dict[str, int]] = json.loads(text.splitlines()[-1])
    return {topic: {int(partition): offset for partition, offset in partitions.items()} for topic, partitions in found.items()}
