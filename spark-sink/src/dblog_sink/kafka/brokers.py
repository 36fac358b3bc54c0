"""Asks the brokers with the job's Kafka client in the JVM: cluster id, topics, offsets."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from dblog_sink.config.job_options import Settings, listed
from dblog_sink.errors import DefiniteError

log = logging.getLogger(__name__)

ANSWER_TIMEOUT_MS = 10_000
LOG_EVERY_S = 60.0
"""Seconds between two log lines that no broker answers."""
_SOME = 5
_CONNECTING = "org.apache.kafka.clients.NetworkClient"
"""Logger of each connection attempt, one a second, which would bury our own line."""
_REFUSED = re.compile("Authentication|SslHandshake")
_UNRESOLVED = "No resolvable bootstrap urls"

Ends = dict[str, dict[int, int]]
"""Offsets by topic and partition."""


def client_properties(settings: Settings) -> dict[str, str]:
    """Return the properties of the job's Kafka clients."""
    return {key.removeprefix("kafka."): value for key, value in settings.kafka.items()}


@contextmanager
def admin(session: SparkSession, settings: Settings) -> Iterator[tuple[Any, Any]]:
    """Open Kafka's admin client inside the block, and give it with the JVM."""
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001  PySpark has no client of its own
    properties = jvm.java.util.Properties()
    for key, value in client_properties(settings).items():
        properties.setProperty(key, value)
    client = jvm.org.apache.kafka.clients.admin.Admin.create(properties)
    try:
        yield jvm, client
    finally:
        client.close()


def cluster_id(session: SparkSession, settings: Settings) -> str:
    """Return the id of the Kafka cluster, empty if it has none."""
    with admin(session, settings) as (jvm, client):
        asked = jvm.org.apache.kafka.clients.admin.DescribeClusterOptions().timeoutMs(ANSWER_TIMEOUT_MS)
        return str(client.describeCluster(asked).clusterId().get() or "")


def first_answer(
    session: SparkSession, settings: Settings, stopping: threading.Event, *, unanswered: Callable[[], None] = lambda: None
) -> str | None:
    """Wait for a broker to answer, and return the id of the Kafka cluster.

    Return None if the job is stopped before. Configured topics that do not exist are logged.
    ``unanswered`` is called after each attempt without an answer. Raise DefiniteError if the
    brokers refuse access.
    """
    servers = settings.kafka["kafka.bootstrap.servers"]
    log4j: Any = session.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]  # noqa: SLF001
    level_of = log4j.core.config.Configurator.setLevel
    level_of(_CONNECTING, log4j.Level.ERROR)
    try:
        return _first_answer(session, settings, servers, stopping, unanswered)
    finally:
        level_of(_CONNECTING, log4j.Level.WARN)


def _first_answer(
    session: SparkSession, settings: Settings, servers: str, stopping: threading.Event, unanswered: Callable[[], None]
) -> str | None:
    began_s = log_again_s = time.monotonic()
    while not stopping.is_set():
        try:
            found = cluster_id(session, settings)
            if (unmet := _unmet(session, settings)) is not None:
                log.warning("there is %s yet", unmet)
        except Py4JError as e:
            name, reason = trouble(e)
            if _REFUSED.search(name):
                msg = f"the brokers at {servers} refuse the sink, see kafka.* in its configuration: {reason}"
                raise DefiniteError(msg) from e
            if name != "TimeoutException" and _UNRESOLVED not in reason:
                log.warning("the brokers at %s do not name their cluster: %s", servers, reason)
                return ""
            unanswered()
            now_s = time.monotonic()
            if now_s >= log_again_s:
                log.warning("waiting for a broker of kafka.bootstrap.servers %s, for %.0f s so far: %s", servers, now_s - began_s, reason)
                log_again_s = now_s + LOG_EVERY_S
            stopping.wait(1.0)
        else:
            return found
    return None


def _unmet(session: SparkSession, settings: Settings) -> str | None:
    """Return which configured topics do not exist.

    Return None if all named ones exist, or one matches the pattern.
    """
    with admin(session, settings) as (jvm, client):
        names = client.listTopics().names().get()
        if settings["topics"] is not None:
            absent = sorted(name for name in listed(settings["topics"]) if not names.contains(name))
            return f"no topic {', '.join(absent)}" if absent else None
        if names.stream().anyMatch(jvm.java.util.regex.Pattern.compile(settings["topics.pattern"]).asMatchPredicate()):
            return None
        some = ", ".join(str(name) for name in names.stream().sorted().limit(_SOME).toList())
        return f"no topic that matches topics.pattern {settings['topics.pattern']} (of {names.size()}, among them {some or 'none'})"


def trouble(error: Exception) -> tuple[str, str]:
    """Return the class of an error's innermost cause, and the class with its message."""
    if not isinstance(error, Py4JJavaError):
        return type(error).__name__, str(error).splitlines()[0]
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    name = str(cause.getClass().getSimpleName())
    return name, f"{name}: {cause.getMessage()}"


def compacted(session: SparkSession, settings: Settings, topic: str) -> bool:
    """Return True if the broker may delete a topic's records when later ones have their keys."""
    with admin(session, settings) as (jvm, client):
        resource = jvm.org.apache.kafka.common.config.ConfigResource(jvm.org.apache.kafka.common.config.ConfigResource.Type.TOPIC, topic)
        names = jvm.java.util.ArrayList()
        names.add(resource)
        policy = client.describeConfigs(names).all().get().get(resource).get("cleanup.policy")
        return policy is not None and "compact" in str(policy.value())


def ends(session: SparkSession, settings: Settings, topics: Collection[str]) -> tuple[Ends, Ends]:
    """Return first and end offsets of those of the topics that exist."""
    with admin(session, settings) as (jvm, client):
        there = set(client.listTopics().names().get()) & set(topics)
        names = jvm.java.util.ArrayList()
        for topic in sorted(there):
            names.add(topic)
        described = client.describeTopics(names).allTopicNames().get()
        partitions = [(topic, int(one.partition())) for topic in sorted(there) for one in described.get(topic).partitions()]
        found: list[Ends] = []
        for spec in (jvm.org.apache.kafka.clients.admin.OffsetSpec.earliest(), jvm.org.apache.kafka.clients.admin.OffsetSpec.latest()):
            wanted = jvm.java.util.HashMap()
            keys = {partition: jvm.org.apache.kafka.common.TopicPartition(*partition) for partition in partitions}
            for key in keys.values():
                wanted.put(key, spec)
            offsets = client.listOffsets(wanted)
            at: Ends = {}
            for (topic, partition), key in keys.items():
                at.setdefault(topic, {})[partition] = int(offsets.partitionResult(key).get().offset())
            found.append(at)
        return found[0], found[1]
