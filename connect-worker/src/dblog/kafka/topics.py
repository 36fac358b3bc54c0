"""Creates a connector's topics by its ``topic.creation.*`` rules before the first record; without rules the broker's auto-creation decides.

Source of the rule: KIP-158. The first group whose include patterns match (and whose exclude patterns do not) gives partitions, replication factor and
topic settings; ``default`` is the last resort and lends the other groups what they leave out. An existing topic is used as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from dblog.errors import ConfigError, DefiniteError, TransientError
from dblog.kafka.producer import librdkafka_properties

log = structlog.get_logger(__name__)

PREFIX = "topic.creation."
TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicGroup:
    """One ``topic.creation`` group: which topics, and how they are made."""

    include: tuple[str, ...]
    exclude: tuple[str, ...]
    partitions: int
    replication_factor: int
    settings: Mapping[str, str]

    def takes(self, topic: str) -> bool:
        """Full match of any include pattern and of no exclude pattern."""
        return any(re.fullmatch(p, topic) for p in self.include) and not any(re.fullmatch(p, topic) for p in self.exclude)


def topic_groups(config: Mapping[str, str]) -> tuple[TopicGroup, ...]:
    """The groups in order, ``default`` last; () when the connector has no ``topic.creation.*`` key. ConfigError names what is missing."""
    keys = {k.removeprefix(PREFIX): v for k, v in config.items() if k.startswith(PREFIX)}
    if not keys:
        return ()
    errors: dict[str, list[str]] = {}
    for required in ("default.replication.factor", "default.partitions"):
        if required not in keys:
            errors[PREFIX + required] = [f'Missing required configuration "{PREFIX}{required}" which has no default value.']
    if errors:
        raise ConfigError(errors)
    names = [n.strip() for n in keys.get("groups", "").split(",") if n.strip() and n.strip() != "default"]
    return tuple(_group(name, keys) for name in [*names, "default"])


def _group(name: str, keys: Mapping[str, str]) -> TopicGroup:
    own = {k.removeprefix(f"{name}."): v for k, v in keys.items() if k.startswith(f"{name}.")}
    patterns = {kind: tuple(p.strip() for p in own.pop(kind, "").split(",") if p.strip()) for kind in ("include", "exclude")}
    default = name == "default"
    return TopicGroup(
        include=(".*",) if default else patterns["include"],
        exclude=() if default else patterns["exclude"],
        partitions=int(own.pop("partitions", keys["default.partitions"])),
        replication_factor=int(own.pop("replication.factor", keys["default.replication.factor"])),
        settings=own,
    )


class TopicCreator:
    """Makes topics lazily, once each."""

    def __init__(self, bootstrap_servers: str, groups: tuple[TopicGroup, ...], overrides: Mapping[str, str]) -> None:
        self._groups = groups
        self._bootstrap_servers = bootstrap_servers
        self._overrides = overrides
        self._admin: AdminClient | None = None

    @classmethod
    def of(cls, bootstrap_servers: str, worker: Mapping[str, str], config: Mapping[str, str]) -> TopicCreator:
        """By the worker's ``topic.creation.enable`` and the connector's rules."""
        enabled = worker.get("topic.creation.enable", "true").lower() == "true"
        overrides = {k.removeprefix("admin."): v for k, v in worker.items() if k.startswith("admin.")}
        overrides |= {k.removeprefix("admin.override."): v for k, v in config.items() if k.startswith("admin.override.")}
        return cls(bootstrap_servers, topic_groups(config) if enabled else (), overrides)

    def ensure(self, topic: str) -> None:
        """Make the topic if a rule says how and it is not there yet."""
        group = next((g for g in self._groups if g.takes(topic)), None)
        if group is None:
            return
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self._bootstrap_servers, **librdkafka_properties(self._overrides)})
        new = NewTopic(
            topic, num_partitions=group.partitions, replication_factor=group.replication_factor, config=dict(group.settings)
        )
        try:
            self._admin.create_topics([new], request_timeout=TIMEOUT_S)[topic].result()
            log.info("topic created", topic=topic, partitions=group.partitions)
        except KafkaException as e:
            error: KafkaError = e.args[0]
            if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return
            text = f"topic {topic} could not be created: {error.name()} ({error.str()})"
            if error.retriable() or error.code() in {KafkaError._TIMED_OUT, KafkaError._TRANSPORT}:  # noqa: SLF001
                raise TransientError(text) from e
            advice = "make sure that the task may create topics, or create it yourself, then restart the task"
            raise DefiniteError(f"{text}; {advice}") from e
