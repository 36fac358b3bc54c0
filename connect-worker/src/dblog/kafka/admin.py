"""The worker's internal topics: created if missing, refused if their settings would lose state.

Kafka Connect's rules (Kafka's documentation, Running Kafka Connect): the config topic has exactly
one partition, because its order is the order of decisions. All three topics have
``cleanup.policy=compact`` and nothing else, because a topic that deletes forgets connectors and
offsets.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from dblog.core.backoff import Backoff
from dblog.errors import DefiniteError, TransientError
from dblog.kafka.failures import FailuresHeard

_log = structlog.get_logger("dblog.kafka.admin")

_CALL_S = 10.0
_FIRST_CALL_S = 2.0
_STALLED_S = 30.0
_FINAL = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.POLICY_VIOLATION,
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.TOPIC_EXCEPTION,
)
"""Errors of a topic's creation that another try cannot change. The client's own retriable flag
calls too many errors final.
"""
_BACKOFF = Backoff(first_s=0.5, max_s=15.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicWanted:
    """An internal topic that must exist with cleanup.policy=compact."""

    name: str
    setting: str
    """The worker's option that names the topic, for messages."""
    partitions: int
    replication_factor: int
    partitions_exactly: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


def admin_client(settings: Mapping[str, str], heard: FailuresHeard) -> AdminClient:
    """Return a client that keeps trying to reach the brokers and reports failures to ``heard``."""
    return AdminClient({"reconnect.backoff.max.ms": "2000", **settings, "log_level": FailuresHeard.LEVEL}, logger=heard)


def wait_for_brokers(
    settings: Mapping[str, str],
    heard: FailuresHeard,
    *,
    servers: str,
    stopped: threading.Event,
    clock: Callable[[], float] = time.monotonic,
) -> str:
    """Return the cluster's id once a broker answers, or an empty string once ``stopped`` is set.

    Logs one line for each failed try. Replaces a client that gets no answer for long, because a new
    one may reach the brokers.
    """
    failures = 0
    started_s = made_s = clock()
    client = admin_client(settings, heard)
    while not stopped.is_set():
        if clock() - made_s >= _STALLED_S:
            made_s, client = clock(), admin_client(settings, heard)
        heard.forget()
        try:
            metadata = client.list_topics(timeout=_FIRST_CALL_S)
        except KafkaException as e:
            if stopped.is_set():
                break
            client.poll(0)  # passes the client's log lines to ``heard``
            failures += 1
            wait_s = _BACKOFF.delay_s(failures, chance=random.random())  # noqa: S311  jitter
            _log.warning(
                "no broker answers; trying again",
                bootstrap_servers=servers,
                reason=heard.reason() or str(e.args[0].str() if e.args else e),
                for_s=round(clock() - started_s, 1),
                next_try_s=round(wait_s, 1),
            )
            stopped.wait(wait_s)
        else:
            return str(metadata.cluster_id)
    return ""


def ensure_topics(client: AdminClient, wanted: Sequence[TopicWanted], *, create: bool) -> None:
    """Create missing topics, then check all of them.

    Raise DefiniteError for settings that would lose state, TransientError if a broker does not
    answer.
    """
    try:
        existing = client.list_topics(timeout=_CALL_S).topics
    except KafkaException as e:
        raise TransientError(f"the topics cannot be listed: {e}") from e
    missing = [topic for topic in wanted if topic.name not in existing]
    if missing and not create:
        names = ", ".join(f"{topic.name} ({topic.setting})" for topic in missing)
        raise DefiniteError(f"topics are missing and internal.topics.automatic.creation.enable=false: {names}; create them compacted")
    _create(client, missing)
    _check(client, wanted)


def _create(client: AdminClient, missing: Sequence[TopicWanted]) -> None:
    if not missing:
        return
    new = [
        NewTopic(
            topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            config={**topic.settings, "cleanup.policy": "compact"},
        )
        for topic in missing
    ]
    futures = client.create_topics(new, request_timeout=_CALL_S, operation_timeout=_CALL_S)
    for topic in missing:
        try:
            futures[topic.name].result(timeout=_CALL_S * 2)
            _log.info("topic created", topic=topic.name, partitions=topic.partitions, replication_factor=topic.replication_factor)
        except KafkaException as e:
            error = e.args[0]
            if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                continue
            if error.code() == KafkaError.INVALID_REPLICATION_FACTOR:
                key = topic.setting.rsplit(".", 1)[0] + ".replication.factor"
                raise DefiniteError(
                    f"the topic {topic.name} cannot be made with {topic.replication_factor} replicas: {error.str()}; "
                    f"lower {key} (1 on a single broker) or start more brokers"
                ) from e
            if error.code() in _FINAL:
                message = f"the topic {topic.name} ({topic.setting}) cannot be made: {error.str()}; create it by hand, compacted"
                raise DefiniteError(message) from e
            raise TransientError(f"the topic {topic.name} cannot be made now: {error.str()}") from e


def _check(client: AdminClient, wanted: Sequence[TopicWanted]) -> None:
    deadline = time.monotonic() + _CALL_S
    pending = list(wanted)
    while pending:
        try:
            found = client.list_topics(timeout=_CALL_S).topics
        except KafkaException as e:
            raise TransientError(f"the topics cannot be listed: {e}") from e
        for topic in list(pending):
            metadata = found.get(topic.name)
            if metadata is None or metadata.error is not None or not metadata.partitions:
                continue
            count = len(metadata.partitions)
            if topic.partitions_exactly is not None and count != topic.partitions_exactly:
                raise DefiniteError(
                    f"the topic {topic.name} ({topic.setting}) has {count} partitions but must have exactly {topic.partitions_exactly}: "
                    f"its order is the order of all changes; name another topic or create it again with one partition"
                )
            pending.remove(topic)
        if pending and time.monotonic() > deadline:
            raise TransientError(f"the topic {pending[0].name} was made but has no leader yet")
        if pending:
            time.sleep(0.05)
    _check_cleanup(client, wanted)


def _check_cleanup(client: AdminClient, wanted: Sequence[TopicWanted]) -> None:
    resources = {ConfigResource(ResourceType.TOPIC, topic.name): topic for topic in wanted}
    futures = client.describe_configs(list(resources), request_timeout=_CALL_S)
    for resource, future in futures.items():
        topic = next(t for r, t in resources.items() if r.name == resource.name)
        try:
            policy = future.result(timeout=_CALL_S * 2)["cleanup.policy"].value
        except KafkaException as e:
            error = e.args[0]
            if error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED):
                # Like Connect: a principal without the right to look is trusted to have created the
                # topic well.
                _log.warning("the cleanup policy cannot be checked", topic=topic.name, reason=error.str())
                continue
            raise TransientError(f"the settings of the topic {topic.name} cannot be read: {e}") from e
        if policy != "compact":
            raise DefiniteError(
                f"the topic {topic.name} ({topic.setting}) has cleanup.policy={policy} but must have exactly 'compact': another policy "
                f"would forget connectors, offsets and status in time; run kafka-configs --alter --entity-type topics "
                f"--entity-name {topic.name} --add-config cleanup.policy=compact"
            )
