"""Topics are made by their rules, many with one request; those that are there already are used as they are."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from dblog.config.topic_creation import topic_rules
from dblog.errors import DefiniteError
from dblog.kafka import topics
from dblog.kafka.topics import TopicCreator
from dblog.runtime.stop import Stop
from stack import Kafka
from stack.process import wait_until


def creator(kafka: Kafka, **rules: str) -> TopicCreator:
    given = {"topic.creation.default.partitions": "2", "topic.creation.default.replication.factor": "1", **rules}
    return TopicCreator(topic_rules(given), {"bootstrap.servers": kafka.bootstrap}, stop=Stop())


def partitions(kafka: Kafka, prefix: str) -> dict[str, int]:
    known = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=30).topics
    return {name: len(topic.partitions) for name, topic in known.items() if name.startswith(prefix)}


def until_partitions(kafka: Kafka, prefix: str, wanted: dict[str, int]) -> None:
    """A topic is made a moment before it is listed."""
    wait_until(lambda: partitions(kafka, prefix) == wanted, timeout_s=30, what=f"the topics {sorted(wanted)}")


def test_a_hundred_topics_take_one_request_and_those_that_are_there_stay_as_they_are(
    kafka: Kafka, own_folder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = f"{own_folder.name}."
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(f"{prefix}7", 1, 1)])[f"{prefix}7"].result(30)
    requests: list[int] = []
    create = AdminClient.create_topics

    def counted(self: AdminClient, new: list[NewTopic], **options: Any) -> Any:
        requests.append(len(new))
        return create(self, new, **options)

    monkeypatch.setattr(AdminClient, "create_topics", counted)
    monkeypatch.setattr(topics, "CALL_TOPICS_MAX", 30)

    creator(kafka).ensure([f"{prefix}{n}" for n in range(50)])

    assert requests == [30, 20]
    until_partitions(kafka, prefix, {f"{prefix}{n}": 1 if n == 7 else 2 for n in range(50)})


def test_a_topic_that_cannot_be_made_is_named_though_others_of_its_request_are_made(kafka: Kafka, own_folder: Any) -> None:
    prefix = f"{own_folder.name}."
    rules = {
        "topic.creation.groups": "bad",
        "topic.creation.bad.include": r".*\.bad",
        "topic.creation.bad.replication.factor": "3",
    }

    with pytest.raises(DefiniteError, match=rf"topic {prefix}bad could not be created"):
        creator(kafka, **rules).ensure([f"{prefix}good", f"{prefix}bad"])

    until_partitions(kafka, prefix, {f"{prefix}good": 2})


def test_a_topic_that_was_begun_ahead_is_asked_for_once_and_its_failure_is_told_where_it_is_needed(
    kafka: Kafka, own_folder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = f"{own_folder.name}."
    made = creator(kafka)
    too_many = creator(kafka, **{"topic.creation.default.replication.factor": "3"})

    made.begin([f"{prefix}a", f"{prefix}b"])
    made.begin([f"{prefix}a"])
    until_partitions(kafka, prefix, {f"{prefix}a": 2, f"{prefix}b": 2})
    too_many.begin([f"{prefix}c"])
    monkeypatch.setattr(AdminClient, "create_topics", None)
    made.ensure([f"{prefix}b", f"{prefix}a"])

    with pytest.raises(DefiniteError, match=rf"topic {prefix}c could not be created"):
        too_many.ensure([f"{prefix}c"])


def test_without_rules_no_topic_is_made(kafka: Kafka, own_folder: Any) -> None:
    TopicCreator((), {"bootstrap.servers": kafka.bootstrap}, stop=Stop()).ensure([f"{own_folder.name}.t"])

    assert partitions(kafka, own_folder.name) == {}
