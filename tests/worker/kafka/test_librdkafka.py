"""The batch producer over a real broker: what arrives, what is counted, what is refused. The client library's own consumer and producer are the oracle."""

import os
import subprocess
import sys
import time

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from dblog.kafka._librdkafka import QUEUE_FULL, BatchProducer, RecordHeaders
from dblog.kafka.producer import record_producer
from support.worker import until
from worker.kafka.test_log import make


@pytest.fixture
def topic(kafka, own_folder):
    make(AdminClient({"bootstrap.servers": kafka.bootstrap}), own_folder.name, 3)
    return own_folder.name


@pytest.fixture
def producer(kafka):
    opened = record_producer("test", {"bootstrap.servers": kafka.bootstrap})
    yield opened
    opened.close()


def read(kafka, topic, partitions, count):
    """All records of a topic by partition, in order."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "unused", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found = {partition: [] for partition in range(partitions)}
    limit_s = time.monotonic() + 60
    while sum(map(len, found.values())) < count:
        assert time.monotonic() < limit_s
        for message in consumer.consume(1000, 0.2):
            assert message.error() is None
            found[message.partition()].append(message)
    consumer.close()
    return found


def all_acknowledged(producer, count):
    counts = {}
    failed = []

    def done():
        acknowledged, failures, _ = producer.serve(50)
        for tag, records in acknowledged.items():
            counts[tag] = counts.get(tag, 0) + records
        failed.extend(failures)
        return sum(counts.values()) == count

    until(done)
    return counts, failed


def test_keys_values_headers_and_partitions_are_those_of_the_ordinary_producer(kafka, topic):
    keys = [None if n % 11 == 0 else b"" if n % 13 == 0 else b"key-%d" % n for n in range(1500)]
    values = [None if n % 7 == 0 else b"" if n % 5 == 0 else b"value-%d" % n * (n % 40) for n in range(1500)]
    headers = [("a", b"1"), ("none", None), ("bytes", b"\x00\xff")]
    other = f"{topic}-ordinary"
    make(AdminClient({"bootstrap.servers": kafka.bootstrap}), other, 3)
    # Without idempotence a retry, as the first batch of a new topic may need, changes the order or doubles records.
    ordinary = Producer({"bootstrap.servers": kafka.bootstrap, "partitioner": "murmur2_random", "enable.idempotence": True})
    for key, value in zip(keys, values, strict=True):
        ordinary.produce(other, value, key, headers=headers)
    ordinary.flush()

    producer = record_producer("test", {"bootstrap.servers": kafka.bootstrap}, headers)
    assert producer.produce(topic, -1, keys, values, 0, len(keys), True, 1) == (1500, 0)

    counts, failed = all_acknowledged(producer, 1500)
    producer.close()
    assert (counts, failed) == ({1: 1500}, [])
    ours, theirs = read(kafka, topic, 3, 1500), read(kafka, other, 3, 1500)

    def keyed(records):  # a record without a key may go anywhere
        return [(m.key(), m.value(), m.headers()) for m in records if m.key()]

    def keyless(found):
        return sorted(
            (m.key() is None, m.value() or b"", m.value() is None, m.headers())
            for records in found.values()
            for m in records
            if not m.key()
        )

    assert [keyed(ours[p]) for p in range(3)] == [keyed(theirs[p]) for p in range(3)]
    assert keyless(ours) == keyless(theirs)
    assert all(ours[p] for p in range(3))


def test_acknowledgements_are_counted_by_batch_over_all_partitions(kafka, topic, producer):
    sizes = {tag: 1 + tag * 37 % 300 for tag in range(1, 60)}
    for tag, size in sizes.items():
        keys = [b"%d" % (tag * 1000 + n) for n in range(size)]
        producer.produce(topic, -1, keys, keys, 0, size, False, tag)

    counts, failed = all_acknowledged(producer, sum(sizes.values()))

    assert counts == sizes
    assert failed == []
    assert len(producer) == 0


def test_a_part_of_a_list_goes_to_the_partition_that_is_asked_for(kafka, topic, producer):
    keys = [b"%d" % n for n in range(10)]

    assert producer.produce(topic, 2, keys, keys, 3, 7, False, 1) == (7, 0)

    all_acknowledged(producer, 4)
    assert [m.key() for m in read(kafka, topic, 3, 4)[2]] == keys[3:7]


def test_lent_headers_own_headers_and_none_live_side_by_side(kafka, topic):
    producer = record_producer("test", {"bootstrap.servers": kafka.bootstrap}, [("lent", b"yes")])
    for n in range(300):
        key = [b"%d" % n]
        if n % 3 == 0:
            assert producer.produce_one(topic, 0, key[0], None, [("own", b"%d" % n), ("lent", b"yes")], 1) == 0
        else:
            assert producer.produce(topic, 0, key, key, 0, 1, n % 3 == 1, 1) == (1, 0)

    all_acknowledged(producer, 300)
    producer.close()

    expected = [[("own", b"%d" % n), ("lent", b"yes")] if n % 3 == 0 else [("lent", b"yes")] if n % 3 == 1 else None for n in range(300)]
    assert [m.headers() for m in read(kafka, topic, 3, 300)[0]] == expected


def test_a_producer_closed_with_records_at_every_stage_gives_lent_headers_back_once(kafka, topic):
    for wait_ms in (0, 0, 1, 5, 20):
        producer = record_producer("test", {"bootstrap.servers": kafka.bootstrap, "linger.ms": 2}, [("lent", b"yes")])
        keys = [b"%d" % n for n in range(20_000)]
        producer.produce(topic, -1, keys, keys, 0, len(keys), True, 1)
        producer.produce_one(topic, -1, b"k", b"v", [("own", b"yes")], 1)
        producer.serve(wait_ms)

        producer.close()

        assert len(producer) == 0


def test_a_full_queue_shows_the_record_to_go_on_from_and_nothing_is_lost(kafka, topic):
    producer = record_producer("test", {"bootstrap.servers": kafka.bootstrap, "queue.buffering.max.messages": 100, "linger.ms": 0})
    keys = [b"%d" % n for n in range(5000)]
    at, full, counted = 0, 0, 0
    while at < len(keys):
        at, code = producer.produce(topic, 0, keys, keys, at, len(keys), False, 1)
        assert code in {0, QUEUE_FULL}
        full += code == QUEUE_FULL
        counted += sum(producer.serve(50)[0].values())
    if counted < 5000:
        all_acknowledged(producer, 5000 - counted)
    producer.close()

    assert full > 10
    assert [m.key() for m in read(kafka, topic, 3, 5000)[0]] == keys


def test_a_record_that_is_too_large_is_refused_at_its_position(kafka, topic, producer):
    values = [b"small", b"x" * 2_000_000, b"small"]

    at, code = producer.produce(topic, -1, [b"k"] * 3, values, 0, 3, False, 1)

    assert (at, code) == (1, KafkaError.MSG_SIZE_TOO_LARGE)
    assert all_acknowledged(producer, 1) == ({1: 1}, [])


def test_headers_that_are_lent_to_a_tag_are_on_its_records_alone_and_come_back(kafka, topic):
    producer = record_producer("test", {"bootstrap.servers": kafka.bootstrap}, [("context", b"1")])
    for tag in range(1, 301):
        keys = [b"%d" % tag] * 3
        if tag % 3:
            step = [("step", b"%d" % tag)]
            producer.lend(tag, RecordHeaders([("context", b"1"), *step]), RecordHeaders(step))
        assert producer.produce(topic, 0, keys, keys, 0, 2, tag % 2 == 0, tag) == (2, 0)
        assert producer.produce(topic, 1, keys, keys, 2, 3, tag % 2 == 1, tag) == (3, 0)
        assert producer.produce_one(topic, 2, b"own", b"own", [("own", b"2")], tag) == 0
        if tag % 50 == 0:
            counts, failed = all_acknowledged(producer, 4 * 50)
            assert failed == []
            for acknowledged in counts:
                producer.take_back(acknowledged)
    producer.close()

    found = read(kafka, topic, 3, 1200)
    for partition, odd in ((0, False), (1, True)):
        for message in found[partition]:
            tag = int(message.key())
            context = [("context", b"1")] if (tag % 2 == 1) == odd else []
            assert (message.headers() or []) == context + ([("step", b"%d" % tag)] if tag % 3 else [])
    assert {tuple(message.headers()) for message in found[2]} == {(("own", b"2"),)}


def test_a_producer_that_is_dropped_with_lent_headers_under_way_ends_in_order():
    producer = record_producer("test", {"bootstrap.servers": "127.0.0.1:1"}, [("context", b"1")])
    for tag in range(1, 50):
        producer.lend(tag, RecordHeaders([("step", b"1")]), RecordHeaders([]))
        producer.produce("nowhere", -1, [b"k"] * 100, [b"v"] * 100, 0, 100, tag % 2 == 0, tag)

    producer.close()

    assert len(producer) == 0


COLLECTED = """
import gc
from dblog.kafka._librdkafka import BatchProducer, RecordHeaders

for _ in range(20):
    producer = BatchProducer({"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}, [("context", b"1")])
    producer.lend(1, RecordHeaders([("step", b"1")]), RecordHeaders([]))
    for tag in (1, 2):
        producer.produce("nowhere", -1, [b"k"] * 3, [b"v"] * 3, 0, 3, True, tag)
    held = [producer]
    held.append(held)
    del producer, held
    assert gc.collect()
print("in order")
"""


def test_a_producer_that_is_collected_in_a_cycle_frees_lent_headers_once():
    ended = subprocess.run([sys.executable, "-c", COLLECTED], capture_output=True, text=True, check=False, timeout=120)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "in order\n", "")


def test_a_setting_that_does_not_exist_is_named():
    with pytest.raises(KafkaException, match="no.such.setting"):
        BatchProducer({"no.such.setting": "1"})
    with pytest.raises(KafkaException, match="batch.size"):
        BatchProducer({"batch.size": "large"})


def test_brokers_that_are_away_are_reported_and_do_not_hold_up_the_end():
    producer = record_producer("test", {"bootstrap.servers": "127.0.0.1:1"})
    producer.produce("nowhere", -1, [b"k"], [b"v"], 0, 1, False, 1)
    heard = []

    def reported():
        acknowledged, failures, errors = producer.serve(100)
        assert (acknowledged, failures) == ({}, [])
        heard.extend(error.code() for error in errors)
        return KafkaError._ALL_BROKERS_DOWN in heard  # noqa: SLF001 - librdkafka's local codes are spelled so

    until(reported)
    began_s = time.monotonic()
    producer.close()
    producer.close()

    assert time.monotonic() - began_s < 10
    assert len(producer) == 0
    with pytest.raises(ValueError, match="closed"):
        producer.produce("nowhere", -1, [b"k"], [b"v"], 0, 1, False, 1)


def test_what_is_no_bytes_is_refused_before_anything_is_sent(producer, topic):
    with pytest.raises(TypeError, match="bytes or None, not str"):
        producer.produce(topic, -1, ["k"], [b"v"], 0, 1, False, 1)
    with pytest.raises(IndexError):
        producer.produce(topic, -1, [b"k"], [b"v"], 0, 2, False, 1)
    assert len(producer) == 0


def test_a_record_that_the_broker_refuses_is_a_failure_and_no_acknowledgement(kafka, own_folder):
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for made in admin.create_topics([NewTopic(own_folder.name, 1, 1, config={"max.message.bytes": "500"})]).values():
        made.result()
    producer = record_producer("test", {"bootstrap.servers": kafka.bootstrap})
    values = [b"v", os.urandom(5000), b"w"]
    counts, failed = {}, []

    for tag, value in enumerate(values):
        producer.produce(own_folder.name, 0, [b"k"], [value], 0, 1, False, tag)
        producer.flush(10_000)
        acknowledged, failures, _ = producer.serve(50)
        counts.update(acknowledged)
        failed += failures

    producer.close()
    assert counts == {0: 1, 2: 1}
    assert [(tag, topic, error.code(), error.retriable(), record_bytes) for tag, topic, error, record_bytes in failed] == [
        (1, own_folder.name, KafkaError.MSG_SIZE_TOO_LARGE, False, 5001)
    ]


def test_an_acknowledgement_without_an_offset_is_a_failure_that_passes(kafka, topic):
    settings = {"bootstrap.servers": kafka.bootstrap, "acks": "0", "enable.idempotence": "false"}
    producer = record_producer("test", settings)  # whose brokers acknowledge nothing, so there is no offset
    try:
        assert producer.produce(topic, -1, [b"k"] * 3, [b"v"] * 3, 0, 3, False, 1) == (3, 0)
        assert all_acknowledged(producer, 3) == ({1: 3}, [])

        producer.expects_offsets = True
        assert producer.produce(topic, -1, [b"k"] * 3, [b"v"] * 3, 0, 3, False, 2) == (3, 0)
        failed = []
        until(lambda: failed.extend(producer.serve(50)[1]) or len(failed) == 3)
        assert {(tag, name, error.code(), error.retriable()) for tag, name, error, _ in failed} == {
            (2, topic, KafkaError.DUPLICATE_SEQUENCE_NUMBER, True)
        }
    finally:
        producer.close()
