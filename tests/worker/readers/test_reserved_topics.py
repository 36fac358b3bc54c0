"""A connector writes no topic of its worker: neither one that its configuration names, nor one that a table's name makes."""

from __future__ import annotations

import pytest
from dblog.cluster.validation import Validator
from dblog.config.worker import own_topics, read_worker_config
from dblog.dialects.tasks import parts_of
from dblog.errors import ConfigError, DefiniteError
from dblog.kafka.topics import TopicCreator
from dblog.runtime.stop import Stop
from support.worker import connector_config, postgres_config

WORKER = {
    "bootstrap.servers": "b:9092",
    "group.id": "g",
    "config.storage.topic": "own-configs",
    "offset.storage.topic": "own-offsets",
    "status.storage.topic": "own-status",
    "dblog.registry.topic": "own-c-schemas",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "listeners": "http://127.0.0.1:0",
}
OWN = own_topics(read_worker_config(WORKER).settings)

NAMED = [
    ({"topic.prefix": "own-configs"}, "topic.prefix", "config.storage.topic"),
    ({"topic.heartbeat.name": "own-status"}, "topic.heartbeat.name", "status.storage.topic"),
    (
        {"topic.heartbeat.prefix": "own", "topic.delimiter": "-", "topic.prefix": "offsets"},
        "topic.heartbeat.prefix",
        "offset.storage.topic",
    ),
    (
        {"topic.prefix": "own", "topic.delimiter": "-", "topic.transaction": "configs-dumps"},
        "topic.transaction",
        "dblog.dumps.storage.topic",
    ),
    ({"dblog.chunk.marker.topic": "own-c-schemas"}, "dblog.chunk.marker.topic", "dblog.registry.topic"),
    (
        {"notification.sink.topic.name": "own-configs", "notification.enabled.channels": "sink"},
        "notification.sink.topic.name",
        "config.storage.topic",
    ),
    ({"signal.kafka.topic": "own-offsets"}, "signal.kafka.topic", "offset.storage.topic"),
    (
        {"errors.deadletterqueue.topic.name": "own-status", "errors.tolerance": "all"},
        "errors.deadletterqueue.topic.name",
        "status.storage.topic",
    ),
]
OF_HISTORY = [
    (connector_config(), "schema.history.internal.kafka.topic"),
    (postgres_config(), "dblog.history.topic"),
]


def test_a_worker_has_six_topics_of_its_own():
    assert OWN == {
        "own-configs": "config.storage.topic",
        "own-offsets": "offset.storage.topic",
        "own-status": "status.storage.topic",
        "own-configs-dumps": "dblog.dumps.storage.topic",
        "own-c-schemas": "dblog.registry.topic",
        "__dblog-sinks": "dblog.sinks.topic",
    }
    assert "" not in own_topics(read_worker_config({**WORKER, "dblog.dumps.storage.topic": ""}).settings)


@pytest.mark.parametrize("base", [connector_config(), postgres_config()], ids=["mysql", "postgres"])
@pytest.mark.parametrize(("given", "key", "workers"), NAMED, ids=[key for _, key, _ in NAMED])
def test_a_configuration_that_names_one_is_refused_with_both_keys(base, given, key, workers):  # number 13 of the worker's safety
    errors = Validator(providers={}, check_database=None, worker_topics=OWN).validate({**base, "name": "a", **given}).errors

    assert set(errors) == {key}
    assert f"the worker's own topic ({workers} in its file)" in errors[key][0]


@pytest.mark.parametrize(("base", "key"), OF_HISTORY)
def test_so_is_a_schema_history_in_one(base, key):
    given = {**base, "name": "a", key: "own-configs"}

    errors = Validator(providers={}, check_database=None, worker_topics=OWN).validate(given).errors

    assert set(errors) == {key}


def test_other_topics_are_not_refused():
    for base in (connector_config(), postgres_config()):
        assert Validator(providers={}, check_database=None, worker_topics=OWN).validate({**base, "name": "a"}).errors == {}


def test_a_task_does_not_start_on_one_either():
    with pytest.raises(ConfigError, match="the worker's own topic"):
        parts_of(connector_config(name="a") | {"topic.heartbeat.name": "own-status"}, WORKER, task=0)


def test_a_topic_that_a_tables_name_makes_is_refused_before_its_first_record():
    topics = TopicCreator((), {}, stop=Stop(), worker_topics=OWN)

    topics.ensure(["own-c-tables"])
    with pytest.raises(DefiniteError, match=r"own-c-schemas is the worker's own topic \(dblog\.registry\.topic.*table\.exclude\.list"):
        topics.ensure(["own-c-tables", "own-c-schemas"])
