"""The stream of Kafka records: one query over a list or a pattern of topics.

``failOnDataLoss`` is on: records that expired before they were read are a loss to report and are
never skipped (``data_loss.py``). Only committed records are read. Topics that appear later and
match the pattern are read from their beginning.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from dblog_sink.config.job_options import Settings, listed
from dblog_sink.errors import DefiniteError
from dblog_sink.kafka import brokers
from dblog_sink.state.notes import State

_FIXED = {"failOnDataLoss": "true", "includeHeaders": "false"}
_DEFAULTS = {
    "kafka.isolation.level": "read_committed",
    "fetchOffset.numRetries": "10",
    "fetchOffset.retryIntervalMs": "500",
    # After each poll Spark asks the brokers for a partition's first and last offset, and waits for
    # both. With Kafka's default of 500 records a poll, that was two thirds of the reading time.
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(4 << 20),
    # These questions wait until the consumer's next fetch is answered, which happens when there is
    # something to fetch or after this time. With the default of half a second each partition
    # without new records took that long, so a hundred small tables took half a minute.
    "kafka.fetch.max.wait.ms": "5",
}


def topic_of(settings: Settings, state: State, table: str) -> str:
    """Return the topic of ``db.table``, or the topic itself, among those that the job has read.

    Raise DefiniteError if there is none.
    """
    return _topic_of(settings, _met(state), table)


def topic_to_read(settings: Settings, state: State, table: str) -> str:
    """Return the topic of a table for readers beside the job.

    The job's notes follow its tables by some seconds, so configured topics count too.
    """
    return _topic_of(settings, _met(state) | listed(settings["topics"] or ""), table)


def _met(state: State) -> set[str]:
    return {*state.table_ids, *(topic for topic, _ in state.high_water_marks)}


def _topic_of(settings: Settings, topics: Collection[str], table: str) -> str:
    named = [topic for topic in sorted(topics) if names(settings, topic, table)]
    if len(named) > 1:
        msg = f"{len(named)} sources have a table {table}: name one of {', '.join(named)}"
        raise DefiniteError(msg)
    if named:
        return named[0]
    met = ", ".join(sorted({spec.name for topic in topics if (spec := settings.table(topic)) is not None})[:20])
    msg = f"the sink has no table {table}; it has {met or 'none yet'}"
    raise DefiniteError(msg)


def names(settings: Settings, topic: str, table: str) -> bool:
    """Return True if ``table`` names the topic's table: by topic, name, or name in the source."""
    spec = settings.table(topic)
    return table == topic or (spec is not None and table in (spec.name, spec.source_name))


def stream(session: SparkSession, settings: Settings) -> DataFrame:
    """Return the unbounded frame of records for the query."""
    options = _DEFAULTS | dict(settings.kafka) | _FIXED
    if settings["topics"] is not None:
        options["subscribe"] = settings["topics"]
    else:
        options["subscribePattern"] = settings["topics.pattern"]
    options["startingOffsets"] = settings["topics.start"]
    options["maxOffsetsPerTrigger"] = str(settings["batch.records.max"])
    options["includeHeaders"] = str(settings["tracing.enabled"]).lower()
    return session.readStream.format("kafka").options(**options).load()


def batch(session: SparkSession, settings: Settings, topic: str) -> DataFrame:
    """Return the current records of one topic."""
    options = _DEFAULTS | dict(settings.kafka) | _FIXED | {"subscribe": topic, "startingOffsets": "earliest", "endingOffsets": "latest"}
    return session.read.format("kafka").options(**options).load()


def so_far(settings: Settings, session: SparkSession, topic: str) -> DataFrame | None:
    """Return the current records of one of the job's topics.

    Return None if the job does not read it, or it is empty.
    """
    if not reads(session, settings, topic):
        return None
    first, end = brokers.ends(session, settings, [topic])
    if all(first[topic][partition] >= offset for partition, offset in end.get(topic, {}).items()):
        return None
    return batch(session, settings, topic)


def reads(session: SparkSession, settings: Settings, topic: str) -> bool:
    """Return True if the topic is one of the job's.

    Markers and transactions may be about tables that the job does not read.
    """
    if settings.excludes(topic) and not settings.may_be_table(topic):
        return False
    if settings["topics"] is not None:
        return topic in listed(settings["topics"])
    jvm: Any = session._jvm  # noqa: SLF001  the pattern is Java's
    return bool(jvm.java.util.regex.Pattern.matches(settings["topics.pattern"], topic))


def topic_ids(session: SparkSession, settings: Settings, topics: Collection[str]) -> dict[str, str]:
    """Return Kafka's id of each topic, from the brokers; a recreated topic has another one."""
    jvm = session.sparkContext._jvm  # noqa: SLF001  PySpark has no client of its own
    assert jvm is not None
    properties, names = jvm.java.util.Properties(), jvm.java.util.ArrayList()
    for key, value in settings.kafka.items():
        properties.setProperty(key.removeprefix("kafka."), value)
    for topic in topics:
        names.add(topic)
    admin = jvm.org.apache.kafka.clients.admin.Admin.create(properties)
    try:
        described = admin.describeTopics(names).allTopicNames().get()
        return {topic: described.get(topic).topicId().toString() for topic in topics}
    finally:
        admin.close()


@dataclass(frozen=True, slots=True)
class BatchSize:
    """The size of a batch by its ranges of offsets. All is 0 for a frame that is not Kafka's."""

    records: int = 0
    records_max: int = 0
    """Number of records of the largest topic."""
    partitions: int = 0
    """Number of the frame's partitions, one for each topic partition with records."""


def batch_size(frame: DataFrame) -> BatchSize:
    """Return the size of a batch before anything is read.

    foreachBatch passes on the partitions of the Kafka source.
    """
    records: dict[str, int] = {}
    partitions = frame._jdf.queryExecution().toRdd().partitions()  # noqa: SLF001
    if not len(partitions) or not partitions[0].getClass().getName().endswith(".DataSourceRDDPartition"):
        return BatchSize()
    # Each call goes to the JVM, so there are few of them.
    for partition in partitions:
        ranges = partition.inputPartitions()
        for at in range(ranges.size()):
            offsets = ranges.apply(at).offsetRange()
            records[offsets.topic()] = records.get(offsets.topic(), 0) + offsets.size()
    return BatchSize(sum(records.values()), max(records.values(), default=0), len(partitions))


def read_to(progress: Mapping[str, Any]) -> dict[str, dict[int, int]]:
    """Return the offsets up to which the query has committed, from its progress report."""
    return _offsets(progress, "endOffset")


def there(progress: Mapping[str, Any]) -> dict[str, dict[int, int]]:
    """Return the ends of Kafka's partitions at the query's last look, from its progress report."""
    return _offsets(progress, "latestOffset")


def _offsets(progress: Mapping[str, Any], name: str) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for source in progress.get("sources", ()):
        offsets = source.get(name)
        for topic, partitions in offsets.items() if isinstance(offsets, dict) else ():
            found[topic] = {int(partition): offset for partition, offset in partitions.items()}
    return found


def records_behind(progress: Mapping[str, Any] | None) -> int | None:
    """Return the number of records that waited in Kafka at the query's last look, None before
    it.
    """
    if progress is None:
        return None
    behind = 0
    for source in progress.get("sources", ()):
        latest, end = source.get("latestOffset"), source.get("endOffset") or {}
        if not isinstance(latest, dict):
            return None
        for topic, partitions in latest.items():
            for partition, offset in partitions.items():
                behind += max(0, offset - end.get(topic, {}).get(partition, 0))
    return behind
