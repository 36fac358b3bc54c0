"""Creates a connector's topics by its ``topic.creation.*`` rules before the first record; without rules the broker's auto-creation decides.

Source of the rule: KIP-158; the rules themselves are config/topic_creation.py's. An existing topic is used as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import wait
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from dblog.config.named_files import files_in_memory
from dblog.config.topic_creation import TopicRule
from dblog.errors import DefiniteError, TransientError

log = structlog.get_logger(__name__)

TIMEOUT_S = 30.0
_ANSWER_S = 0.1


class TopicCreator:
    """Makes topics lazily, once each; ``settings`` are librdkafka's, for the admin client, files as ``NamedFile``.

    Nobody waits for a topic any more once ``stopped``.
    """

    def __init__(self, rules: tuple[TopicRule, ...], settings: Mapping[str, Any], *, stopped: Callable[[], bool]) -> None:
        self._stopped = stopped
        self._rules = rules
        self._settings = dict(settings)
        self._admin: AdminClient | None = None

    def ensure(self, topic: str) -> None:
        """Make the topic if it has a rule and is not there yet."""
        rule = next((r for r in self._rules if r.matches(topic)), None)
        if rule is None:
            return
        if self._admin is None:
            with files_in_memory(self._settings) as settings:
                self._admin = AdminClient({"log_level": 2, **settings})
        new = NewTopic(topic, num_partitions=rule.partitions, replication_factor=rule.replication_factor, config=dict(rule.settings))
        try:
            made = self._admin.create_topics([new], request_timeout=TIMEOUT_S)[topic]
            while not wait([made], _ANSWER_S).done:
                if self._stopped():
                    message = f"the task stops while topic {topic} is created"
                    raise TransientError(message)
            made.result()
            log.info("topic created", topic=topic, partitions=rule.partitions)
        except KafkaException as e:
            error: KafkaError = e.args[0]
            if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return
            text = f"topic {topic} could not be created: {error.name()} ({error.str()})"
            if error.retriable() or error.code() in {KafkaError._TIMED_OUT, KafkaError._TRANSPORT}:  # noqa: SLF001 - spelled so
                raise TransientError(text) from e
            advice = "make sure that the task may create topics, or create it yourself, then restart the task"
            raise DefiniteError(f"{text}; {advice}") from e
