"""What Kafka or its registry refuses stops a worker's connector by name, and each remedy that is named lets it go on without a loss. # I5"""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from stack import Kafka, Postgres
from support.postgres import execute
from support.worker import Worker, postgres_config, until

LARGE = 2_000_000


def ids(kafka: Kafka, topic: str) -> list[int]:
    """The ids of the rows in a topic; none of one that brokers do not have yet."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": uuid.uuid4().hex, "fetch.message.max.bytes": 3 * LARGE})
    try:
        if not consumer.list_topics(topic, timeout=60).topics[topic].partitions:
            return []
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[int] = []
        while len(found) < end:
            found += [json.loads(m.key())["payload"]["id"] for m in consumer.consume(end - len(found), timeout=1.0)]
        return found
    finally:
        consumer.close()


def takes(kafka: Kafka, topic: str, bytes_max: int) -> None:
    entry = ConfigEntry("max.message.bytes", str(bytes_max), incremental_operation=AlterConfigOpType.SET)
    wanted = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for changed in admin.incremental_alter_configs([wanted]).values():
        changed.result(60)


def configured(postgres: Postgres, database: str, name: str, **config: str) -> dict[str, str]:
    """The configuration of a connector, whose slot and publication have its name."""
    server = {"database_hostname": postgres.host, "database_port": str(postgres.port), "database_user": postgres.user}
    names = {"topic_prefix": name, "slot_name": name, "publication_name": name}
    return postgres_config(**server, **names, database_password=postgres.password, database_dbname=database, **config)


def has_failed(worker: Worker, name: str, *texts: str) -> None:
    """Wait until the task fails with these texts: the status is that of the run before for a moment."""
    until(lambda: all(text in json.dumps(worker.status(name)) for text in texts), what=lambda: f"{texts} in {worker.status(name)}")


def restart(worker: Worker, name: str) -> None:
    worker.client.post(f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true").raise_for_status()


def test_a_row_and_a_message_that_are_too_large_stop_the_task_by_name_and_every_remedy_helps(
    kafka: Kafka, postgres: Postgres, database: str, tmp_path: Path
) -> None:
    """Neither is cut: both are data of an application. What comes after them waits."""
    name = f"large_{uuid.uuid4().hex[:8]}"
    topic = f"{name}.public.t"
    config = configured(postgres, database, name, producer_override_compression_type="none")
    execute(postgres, "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1)", database=database)

    def put(**changes: str) -> None:
        config.update({key.replace("_", "."): text for key, text in changes.items()})
        worker.client.put(f"/connectors/{name}/config", json=config).raise_for_status()

    with Worker(kafka, tmp_path, name, tasks="real") as worker:
        put()
        until(lambda: ids(kafka, topic) == [1] and not worker.status(name)["tasks"][0]["dump"]["running"])

        execute(postgres, f"INSERT INTO t VALUES (2, repeat('x', {LARGE}))", "INSERT INTO t VALUES (3)", database=database)
        has_failed(
            worker,
            name,
            f"bytes of table public.t for topic {topic} is larger than the producer takes",
            "producer.override.max.request.size",
        )
        put(producer_override_max_request_size=str(3 * LARGE))
        has_failed(
            worker,
            name,
            f"bytes of table public.t for topic {topic}: MSG_SIZE_TOO_LARGE",
            f"--alter --topic {topic} --add-config max.message.bytes=",
        )
        takes(kafka, topic, 3 * LARGE)
        restart(worker, name)
        until(lambda: ids(kafka, topic)[-2:] == [2, 3])  # what a broker had taken behind the refused row comes again
        assert ids(kafka, topic)[0] == 1

        emit = f"SELECT pg_logical_emit_message(true, 'of nobody', repeat('x', {LARGE}))"
        execute(postgres, emit, "INSERT INTO t VALUES (4)", database=database)
        has_failed(
            worker, name, f"for topic {name}.message", "leave messages with the prefix of nobody out with message.prefix.exclude.list"
        )
        put(message_prefix_exclude_list="of nobody")
        execute(postgres, "INSERT INTO t VALUES (5)", database=database)
        until(lambda: ids(kafka, topic)[-2:] == [4, 5])
        worker.gone(name)


def test_a_schema_that_the_registry_refuses_stops_the_task_by_name_and_the_remedy_helps(
    kafka: Kafka, postgres: Postgres, database: str, tmp_path: Path
) -> None:
    name = f"schema_{uuid.uuid4().hex[:8]}"
    topic = f"{name}.public.t"
    config = configured(postgres, database, name, value_converter="io.confluent.connect.avro.AvroConverter")
    execute(postgres, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1)", database=database)

    with Worker(kafka, tmp_path, name, tasks="real") as worker:
        worker.client.put(f"/connectors/{name}/config", json=config).raise_for_status()
        until(lambda: ids(kafka, topic) == [1])

        execute(postgres, "ALTER TABLE t ALTER v TYPE TEXT", "INSERT INTO t VALUES (2, 'x')", database=database)
        subject = f"{topic}-value"
        has_failed(worker, name, f"refuses the new schema of subject {subject}: not compatible", f"PUT {worker.url}/config/{subject}")
        execute(postgres, "INSERT INTO t VALUES (3)", database=database)
        worker.client.put(f"/config/{subject}", json={"compatibility": "NONE"}).raise_for_status()
        restart(worker, name)

        # A dump that had not ended reads all of them again.
        until(lambda: set(ids(kafka, topic)) == {1, 2, 3}, what=lambda: f"rows 1, 2 and 3, not {ids(kafka, topic)}")
        worker.gone(name)
