"""The stream of a real broker, before a batch of it is read."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from dblog_sink.config.job_options import parse
from dblog_sink.kafka import source
from pyspark.sql import DataFrame, SparkSession
from stack import Kafka


def test_what_a_batch_will_hold_is_known_before_it_is_read(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    counts = {f"size{uuid4().hex[:8]}": count for count in (3, 40)}
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for made in admin.create_topics([NewTopic(topic, 2, 1) for topic in counts]).values():
        made.result(30)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for topic, count in counts.items():
        for n in range(count):
            producer.produce(topic, partition=n % 2, value=b"x")
    producer.flush()
    settings = parse(
        {
            "name": "size",
            "topics": ",".join(counts),
            "kafka.bootstrap.servers": kafka.bootstrap,
            "registry.url": "http://127.0.0.1:9",
            "target.path": str(tmp_path / "lake"),
        }
    )
    found: list[source.BatchSize] = []

    def look(frame: DataFrame, _batch_id: int) -> None:
        found.append(source.batch_size(frame))

    writer = source.stream(spark, settings).writeStream.foreachBatch(look).option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()

    assert found == [source.BatchSize(records=43, records_max=40, partitions=4)]
    assert source.batch_size(spark.range(10).toDF("n")) == source.BatchSize(), "a frame of no query on Kafka"


def test_a_topic_of_the_job_is_read_to_its_end_and_no_other(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    full, empty, foreign = (f"past{uuid4().hex[:8]}" for _ in range(3))
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for made in admin.create_topics([NewTopic(topic, 1, 1) for topic in (full, empty, foreign)]).values():
        made.result(30)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for topic in (full, full, foreign):
        producer.produce(topic, value=b"x")
    producer.flush()
    settings = parse(
        {
            "topics": f"{full},{empty},never.made",
            "kafka.bootstrap.servers": kafka.bootstrap,
            "registry.url": "http://127.0.0.1:9",
            "target.path": str(tmp_path / "lake"),
        }
    )

    found = source.so_far(settings, spark, full)

    assert found is not None
    assert found.count() == 2
    assert [source.so_far(settings, spark, topic) for topic in (empty, foreign, "never.made")] == [None] * 3
