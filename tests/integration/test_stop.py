"""A task that is ordered to stop ends well within its limit while it waits for somebody who does not answer."""

from __future__ import annotations

import pytest
from stack import Kafka, MariaDb
from support.servers import execute, new_database
from support.task_process import configured, silent, task_process

PROMPTLY_S = 3.5
"""The limit is 5 s."""


@pytest.fixture
def config(kafka: Kafka, mariadb: MariaDb) -> dict[str, str]:
    """A connector of a table with three rows."""
    database = new_database(mariadb, "stop")
    execute(mariadb, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2), (3)", database=database)
    return configured(kafka, mariadb, database)


def test_a_task_that_waits_for_the_brokers_of_its_history_ends_when_it_is_ordered_to_stop(kafka: Kafka, config: dict[str, str]) -> None:
    with silent() as brokers, task_process() as task:
        task.start({**config, "schema.history.internal.kafka.bootstrap.servers": brokers.address}, bootstrap=kafka.bootstrap)
        brokers.wait_asked()

        assert task.seconds_to_stop() < PROMPTLY_S


def test_a_task_that_cannot_store_where_it_begins_ends_when_it_is_ordered_to_stop(config: dict[str, str]) -> None:
    with silent() as brokers, task_process() as task:
        task.start(config, bootstrap=brokers.address)
        task.wait_logged("schemas read")

        assert task.seconds_to_stop() < PROMPTLY_S


def test_a_task_whose_registry_does_not_answer_ends_when_it_is_ordered_to_stop(kafka: Kafka, config: dict[str, str]) -> None:
    """Its log thread waits for the registry longer than anybody may wait for the thread."""
    with silent() as registry, task_process() as task:
        avro = {
            "value.converter": "io.confluent.connect.avro.AvroConverter",
            "value.converter.schema.registry.url": f"http://{registry.address}",
        }
        task.start({**config, **avro}, bootstrap=kafka.bootstrap)
        task.wait_sending()
        registry.wait_asked()

        assert task.seconds_to_stop() < PROMPTLY_S


def test_a_task_that_waits_for_a_topic_to_be_made_ends_when_it_is_ordered_to_stop(kafka: Kafka, config: dict[str, str]) -> None:
    with silent() as brokers, task_process() as task:
        made = {"topic.creation.default.replication.factor": "1", "topic.creation.default.partitions": "1"}
        task.start({**config, **made, "admin.override.bootstrap.servers": brokers.address}, bootstrap=kafka.bootstrap)
        brokers.wait_asked()

        assert task.seconds_to_stop() < PROMPTLY_S
