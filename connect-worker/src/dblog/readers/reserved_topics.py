"""Keeps a connector's records out of the worker's own topics.

The producer of a connector has the worker's login, so a record may go to any topic that the worker may write. A record in one of the worker's own is taken for
its own: a schema that is deleted, a configuration, an offset. Topics that a configuration names are compared when it is checked and when its task starts;
topics that are made of names of tables are compared when the producer gets their first record (kafka/topics.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dblog.codecs.topic_naming import own_topic
from dblog.config.options import Settings
from dblog.config.worker import reserved
from dblog.readers.options import history_topic_of
from dblog.readers.topics import naming_of


def check_topics(settings: Settings, worker_topics: Mapping[str, str]) -> dict[str, list[str]]:
    """Return what is wrong, by key of the connector. ``worker_topics``: the key of the worker's file, by topic."""
    return {key: [reserved(topic, worker_topics[topic])] for key, topic in _fixed(settings) if topic in worker_topics}


def _fixed(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield each topic that is known without a table, with the key that names it; topics that are only read are among them."""
    naming, prefix = naming_of(settings), settings.text("topic.prefix")
    yield "topic.prefix", naming.schema_changes
    yield ("topic.heartbeat.name" if naming.heartbeat_name else "topic.heartbeat.prefix"), naming.heartbeat
    yield "topic.transaction", naming.transactions
    yield "dblog.chunk.marker.topic", settings.text_or_none("dblog.chunk.marker.topic") or own_topic("chunks", prefix)
    yield (name if (name := "schema.history.internal.kafka.topic") in settings else "dblog.history.topic"), history_topic_of(settings)
    for key in ("notification.sink.topic.name", "signal.kafka.topic"):
        if topic := settings.text_or_none(key):
            yield key, topic
