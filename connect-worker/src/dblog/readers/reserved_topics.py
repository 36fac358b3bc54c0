"""Keeps a connector's records out of the worker's own topics.

A connector's producer uses the worker's login, so it may write to any topic that the worker may
write to. In one of the worker's own topics a record would be taken for the worker's: a deleted
schema, a configuration, an offset. Topics named in a configuration are compared when it is checked
and when its task starts; topics derived from table names are compared when the producer gets their
first record (kafka/topics.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dblog.codecs.topic_naming import own_topic
from dblog.config.options import Settings
from dblog.config.worker import reserved
from dblog.readers.options import history_topic_of
from dblog.readers.topics import naming_of


def check_topics(settings: Settings, worker_topics: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the errors by option of the connector.

    ``worker_topics`` maps each topic of the worker to the option that names it.
    """
    return {key: [reserved(topic, worker_topics[topic])] for key, topic in _fixed(settings) if topic in worker_topics}


def state_topics(settings: Settings) -> dict[str, str]:
    """Return the topics that only the connector itself, or anybody who sends it signals, writes to,
    each with the option that names it.

    A row that came into one of them would be taken for the connector's state: a table's name or a
    transform may make its topic of what writers of the source choose.
    """
    prefix = settings.text("topic.prefix")
    history = name if (name := "schema.history.internal.kafka.topic") in settings else "dblog.history.topic"
    named = {
        history: history_topic_of(settings),
        "dblog.chunk.marker.topic": settings.text_or_none("dblog.chunk.marker.topic") or own_topic("chunks", prefix),
        "signal.kafka.topic": settings.text_or_none("signal.kafka.topic"),
        "errors.deadletterqueue.topic.name": settings.text_or_none("errors.deadletterqueue.topic.name"),
    }
    return {topic: key for key, topic in named.items() if topic}


def _fixed(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield (option, topic) for each topic that is known without a table, including topics only
    read.
    """
    naming, prefix = naming_of(settings), settings.text("topic.prefix")
    yield "topic.prefix", naming.schema_changes
    yield ("topic.heartbeat.name" if naming.heartbeat_name else "topic.heartbeat.prefix"), naming.heartbeat
    yield "topic.transaction", naming.transactions
    yield "dblog.chunk.marker.topic", settings.text_or_none("dblog.chunk.marker.topic") or own_topic("chunks", prefix)
    yield (name if (name := "schema.history.internal.kafka.topic") in settings else "dblog.history.topic"), history_topic_of(settings)
    for key in ("notification.sink.topic.name", "signal.kafka.topic", "errors.deadletterqueue.topic.name"):
        if topic := settings.text_or_none(key):
            yield key, topic
