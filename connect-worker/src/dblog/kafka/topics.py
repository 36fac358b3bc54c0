"""Creates a connector's topics by its ``topic.creation.*`` rules before the first record. Without
rules the broker's auto-creation decides.

Source of the rule: KIP-158; config/topic_creation.py holds the rules themselves. An existing topic
is used as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from typing import Any, Protocol

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from dblog.config.named_files import files_in_memory
from dblog.config.topic_creation import TopicRule
from dblog.config.worker import reserved
from dblog.errors import DefiniteError, TransientError

log = structlog.get_logger(__name__)

TIMEOUT_S = 30.0
_ANSWER_S = 0.1
_TOPICS_NAMED_MAX = 20

CALL_TOPICS_MAX = 100
"""Topics of one request."""


class StopOrder(Protocol):
    """The order to stop a task."""

    def ordered(self) -> bool:
        """Return True if the task has to stop."""


class TopicCreator:
    """Creates topics before their first records.

    ``settings`` are librdkafka's for the admin client, with files as ``NamedFile``. No call waits
    for a topic once a ``stop`` is ordered. ``worker_topics`` maps the worker's own topics to the
    options that name them.
    """

    def __init__(
        self,
        rules: tuple[TopicRule, ...],
        settings: Mapping[str, Any],
        *,
        stop: StopOrder,
        worker_topics: Mapping[str, str] | None = None,
    ) -> None:
        self._stop = stop
        self._worker_topics = worker_topics or {}
        self._rules = rules
        self._settings = dict(settings)
        self._admin: AdminClient | None = None
        self._begun: dict[str, Future[None]] = {}
        """Requests to the broker that nobody has waited for yet."""

    def begin(self, topics: Iterable[str]) -> None:
        """Ask the broker to create the missing topics that have a rule.

        ``ensure`` shows the result. One request has many topics, because a hundred take a broker
        hardly longer than one.
        """
        rules = {
            topic: rule
            for topic in topics
            if topic not in self._begun
            and topic not in self._worker_topics
            and (rule := next((r for r in self._rules if r.matches(topic)), None)) is not None
        }
        wanted = list(rules)
        for start in range(0, len(wanted), CALL_TOPICS_MAX):
            self._begun |= self._asked({topic: rules[topic] for topic in wanted[start : start + CALL_TOPICS_MAX]})

    def ensure(self, topics: Iterable[str]) -> None:
        """Create missing topics and wait until they exist.

        Raise DefiniteError for one of the worker's own topics and for a refusal, TransientError if
        the broker does not answer.
        """
        wanted = list(topics)
        for topic in wanted:
            if (key := self._worker_topics.get(topic)) is not None:
                message = (
                    f"a table's name makes its topic {reserved(topic, key)}: change topic.prefix, topic.delimiter or topic.replacement, or leave the table out "
                    "with table.exclude.list"
                )
                raise DefiniteError(message)
        self.begin(wanted)
        answers = {topic: answer for topic in wanted if (answer := self._begun.pop(topic, None)) is not None}
        while wait(answers.values(), _ANSWER_S).not_done:
            if self._stop.ordered():
                message = f"the task stops while topic {next(iter(answers))} is created"
                raise TransientError(message)
        created = [topic for topic, answer in answers.items() if self._is_new(topic, answer)]
        if created:
            log.info("topics created", topics=created[:_TOPICS_NAMED_MAX], count=len(created))

    def _asked(self, rules: Mapping[str, TopicRule]) -> dict[str, Future[None]]:
        if self._admin is None:
            with files_in_memory(self._settings) as settings:
                self._admin = AdminClient({"log_level": 2, **settings})
        new = [
            NewTopic(topic, num_partitions=rule.partitions, replication_factor=rule.replication_factor, config=dict(rule.settings))
            for topic, rule in rules.items()
        ]
        made: dict[str, Future[None]] = self._admin.create_topics(new, request_timeout=TIMEOUT_S)
        return made

    def _is_new(self, topic: str, answer: Future[None]) -> bool:
        """Return True if the topic was created now, False if it existed."""
        try:
            answer.result()
        except KafkaException as e:
            error: KafkaError = e.args[0]
            if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            text = f"topic {topic} could not be created: {error.name()} ({error.str()})"
            if error.retriable() or error.code() in {KafkaError._TIMED_OUT, KafkaError._TRANSPORT}:  # noqa: SLF001 - spelled so
                raise TransientError(text) from e
            advice = "make sure that the task may create topics, or create it yourself, then restart the task"
            raise DefiniteError(f"{text}; {advice}") from e
        return True
