"""A compacted topic as a dictionary, on a real broker: backlog, following, own writes read back, brokers away."""

import threading

import dblog.kafka.log
import dblog.kafka.writer
import pytest
import structlog
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from dblog.errors import DefiniteError, TransientError
from dblog.kafka.admin import TopicWanted, ensure_topics, wait_for_brokers
from dblog.kafka.failures import FailuresHeard
from dblog.kafka.log import CompactedLog, TopicReplacedError, UnreadableRecordError
from dblog.kafka.standstill import Standstill
from dblog.kafka.writer import Write
from dblog.observe.logs import configure_logs
from stack import Kafka
from structlog.testing import capture_logs
from support.servers import started
from support.standing_consumers import standing_consumers, standing_producers
from support.worker import until


@pytest.fixture
def topic(admin, own_folder):
    make(admin, own_folder.name, 3, **{"cleanup.policy": "compact"})
    return own_folder.name


def log_of(kafka, topic, on_record=None, **producer):
    client = {"bootstrap.servers": kafka.bootstrap}
    return CompactedLog(
        topic=topic, consumer_settings=client, producer_settings={**client, **producer}, admin_settings=client, on_record=on_record
    )


@pytest.fixture
def log(kafka, topic):
    opened = log_of(kafka, topic)
    opened.start(limit_s=30)
    yield opened
    opened.stop()


def test_a_write_is_in_the_dictionary_when_it_returns(log):
    log.put(b"a", b"1", limit_s=30)
    log.put(b"b", b"2", limit_s=30)
    log.put(b"a", None, limit_s=30)

    assert log.items() == {b"b": b"2"}
    assert log.get(b"b") == b"2"
    assert log.get(b"a") is None


def test_the_backlog_is_read_before_start_returns_and_is_distinguished_from_what_comes_later(kafka, topic, log):
    log.put_all([Write(b"k%d" % number, b"v") for number in range(2000)], limit_s=30)
    seen = []

    later = log_of(kafka, topic, seen.append)
    later.start(limit_s=30)
    try:
        assert len(seen) == 2000
        assert not any(record.live for record in seen)
        log.put(b"new", b"v", limit_s=30)
        until(lambda: len(seen) == 2001)
        assert seen[-1].live
        assert later.items() == log.items()
    finally:
        later.stop()


def test_the_end_of_a_topic_whose_last_record_is_a_transactions_marker_is_found(kafka, topic):
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for commit in (True, False):
        producer.begin_transaction()
        producer.produce(topic, key=b"committed" if commit else b"aborted", value=b"1", partition=0)
        producer.flush(30)
        producer.commit_transaction(30) if commit else producer.abort_transaction(30)

    follower = log_of(kafka, topic)
    follower.start(limit_s=30)
    try:
        assert follower.items() == {b"committed": b"1"}
        follower.read_to_end(limit_s=30)
    finally:
        follower.stop()


def test_a_record_that_its_reader_cannot_take_is_skipped_with_its_topic_key_and_offset(kafka, topic, log, capsys):
    seen = []

    def take(record):
        if record.key == b"odd\n\xff":
            raise RecursionError
        if record.key == b"k" * 5000:
            raise UnreadableRecordError("this version does not know its kind, or cannot read its value")
        seen.append(record.key)

    for key in (b"a", b"odd\n\xff", b"k" * 5000, b"b"):
        log.put(key, b"v", limit_s=30)
    configure_logs(format="plain")
    later = log_of(kafka, topic, take)
    try:
        later.start(limit_s=30)
        log.put(b"c", b"v", limit_s=30)
        until(lambda: b"c" in seen)
    finally:
        later.stop()
        structlog.reset_defaults()

    assert (sorted(seen), later.skipped, later.ended) == ([b"a", b"b", b"c"], 2, None)
    lines = [line for line in capsys.readouterr().out.splitlines() if "record skipped" in line]
    assert all(" ERROR " in line and f" topic={topic} " in line and " offset=" in line for line in lines)
    assert any(r"key=odd\n� reason=it cannot be read (RecursionError)" in line for line in lines)
    assert any(f"key={'k' * 120} reason=this version does not know its kind, or cannot read its value" in line for line in lines)


def test_writers_in_many_threads_all_see_their_own_writes(log):
    failures = []

    def write(number):
        for turn in range(20):
            log.put(b"t%d" % number, b"%d" % turn, limit_s=30)
            if log.get(b"t%d" % number) != b"%d" % turn:
                failures.append((number, turn))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert len(log.items()) == 8


def test_what_is_put_later_arrives(log):
    log.put_later(b"a", b"1")

    until(lambda: log.get(b"a") == b"1")


@pytest.mark.parametrize("limit", ["producer", "topic"])
def test_a_record_that_never_fits_is_a_definite_error_and_is_not_sent_again(
    kafka, admin, own_folder, limit
):  # number 10 of the worker's safety
    topic = f"{own_folder.name}-{limit}"
    make(admin, topic, 1, **{"cleanup.policy": "compact"} | ({"max.message.bytes": "10000"} if limit == "topic" else {}))
    small = log_of(kafka, topic, **({"message.max.bytes": "10000"} if limit == "producer" else {}))
    small.start(limit_s=30)
    try:
        with pytest.raises(DefiniteError, match="larger than the topic"):
            small.put(b"a", b"x" * 20_000, limit_s=30)
        with capture_logs() as lines:
            small.put_later(b"b", b"x" * 20_000)
            small.put(b"c", b"1", limit_s=30)
            until(lambda: refusals(lines), what=lambda: "the large record to be refused")
        assert [line["again"] for line in refusals(lines)] == [False]
        assert small.items() == {b"c": b"1"}
    finally:
        small.stop()


@pytest.mark.parametrize("limit", ["producer", "topic"])
def test_of_a_record_that_never_fits_a_smaller_one_takes_the_place(kafka, admin, own_folder, limit):
    topic = f"{own_folder.name}-smaller-{limit}"
    make(admin, topic, 1, **{"cleanup.policy": "compact"} | ({"max.message.bytes": "10000"} if limit == "topic" else {}))
    small = log_of(kafka, topic, **({"message.max.bytes": "10000"} if limit == "producer" else {}))
    small.start(limit_s=30)
    try:
        small.put_later(b"a", b"x" * 20_000, smaller=(b"y" * 15_000, b"z", b"too small"))
        small.put_later(b"b", b"x" * 20_000, smaller=(b"y",))
        small.put_later(b"b", b"newer")
        until(lambda: small.items() == {b"a": b"z", b"b": b"newer"})
        small.put(b"c", b"1", limit_s=30)
        assert small.items() == {b"a": b"z", b"b": b"newer", b"c": b"1"}
    finally:
        small.stop()


def refusals(lines):
    return [line for line in lines if line["event"] == "record not written"]


def remake(admin, topic, partitions=1):
    for future in admin.delete_topics([topic]).values():
        future.result(30)

    def made():
        try:
            make(admin, topic, partitions)
        except Exception as e:  # the old one is still being deleted
            if "ALREADY_EXISTS" in str(e) or "already exists" in str(e):
                return None
            raise
        return True

    until(made, what=lambda: f"{topic} to be made again")


def test_a_topic_that_was_made_again_ends_the_following_with_the_reason(admin, log, topic):  # number 14 of the worker's safety
    log.put(b"a", b"1", limit_s=30)

    remake(admin, topic, 3)

    until(lambda: log.ended, what=lambda: "the new topic to be noticed")
    assert isinstance(log.ended, TopicReplacedError)
    assert topic in str(log.ended)
    with pytest.raises((TopicReplacedError, TransientError)):
        log.put(b"b", b"2", limit_s=5)


def test_a_topic_that_was_deleted_ends_the_following_with_the_reason(admin, log, topic):  # number 14
    log.put(b"a", b"1", limit_s=30)

    for future in admin.delete_topics([topic]).values():
        future.result(30)

    until(lambda: log.ended, limit_s=60, what=lambda: "the lost topic to be noticed")
    assert isinstance(log.ended, TopicReplacedError)


def test_what_is_abandoned_before_the_brokers_took_it_never_arrives(kafka, topic):
    slow = log_of(kafka, topic, **{"linger.ms": "20000", "batch.num.messages": "1000"})  # a full batch does not linger
    slow.start(limit_s=30)
    try:
        slow.put_later(b"untrue", b"1")
        slow.abandon()
        slow.put_later(b"true", b"2")
        slow.flush(limit_s=30)

        until(lambda: slow.get(b"true"))
        slow.read_to_end(limit_s=30)
        assert slow.items() == {b"true": b"2"}
    finally:
        slow.stop()


def test_a_topic_that_does_not_exist_cannot_be_opened_and_can_be_tried_again(kafka, admin, own_folder):
    missing = log_of(kafka, f"{own_folder.name}-missing")

    with pytest.raises(TransientError, match="cannot be opened"):
        missing.start(limit_s=0.5)
    assert not missing.is_open

    make(admin, missing.topic, 1)
    missing.start(limit_s=30)
    assert missing.is_open
    missing.stop()


def test_a_broker_that_goes_and_comes_back_loses_nothing(own_folder):
    with started(Kafka(own_folder / "kafka")) as own:
        ensure_topics(AdminClient({"bootstrap.servers": own.bootstrap}), [wanted("t")], create=True)
        log = log_of(own, "t", **{"delivery.timeout.ms": "1000", "linger.ms": "0"})
        log.start(limit_s=30)
        try:
            until(lambda: put_works(log, value=b"1"))
            own.stop()
            with pytest.raises(TransientError):
                log.put(b"a", b"2", limit_s=2)
            assert log.items() == {b"a": b"1"}
            log.put_later(b"old", b"1")
            log.put_later(b"old", b"2")
            log.put_later(b"gone", b"1")
            log.put_later(b"gone", None)
            own.start()
            until(lambda: put_works(log), limit_s=60)
            until(lambda: log.items() == {b"a": b"3", b"old": b"2"})
        finally:
            log.stop()


def test_a_reader_that_stands_still_is_replaced_and_no_record_is_missed_or_doubled(kafka, topic, monkeypatch):
    monkeypatch.setattr("dblog.kafka.log._ASKED_S", 0.1)
    monkeypatch.setattr("dblog.kafka.log._STANDSTILL_S", 1.0)
    readers = standing_consumers(monkeypatch, dblog.kafka.log)
    seen = []
    log = log_of(kafka, topic, seen.append)
    log.start(limit_s=30)
    try:
        log.put_all([Write(b"k%d" % number, b"1") for number in range(30)], limit_s=30)
        readers[0].stands_still.set()
        until(readers[0].stood_still.is_set)
        with capture_logs() as lines:
            log.put_all([Write(b"k%d" % number, b"2") for number in range(30)], limit_s=30)

        assert len(readers) == 2
        assert [record.value for record in seen].count(b"1") == [record.value for record in seen].count(b"2") == 30
        assert set(log.items().values()) == {b"2"}
        (line,) = [line for line in lines if "stalled" in line["event"]]
        assert line["topic"] == topic
        # Those that had more by then: the records of one may arrive before those of another are written.
        assert set() < set(line["partitions"]) <= {record.partition for record in seen}
    finally:
        log.stop()


def test_a_reader_behind_the_marker_of_a_transaction_counts_as_at_the_end(kafka, topic, monkeypatch):
    monkeypatch.setattr("dblog.kafka.log._ASKED_S", 0.0)
    behind = []
    seen = Standstill.seen

    def seen_and_noted(self, reached, ends, now_s):
        behind.append({partition for partition, end in ends.items() if reached[partition] < end} if ends else None)
        return seen(self, reached, ends, now_s)

    monkeypatch.setattr(Standstill, "seen", seen_and_noted)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"{topic}-marker"})
    producer.init_transactions()
    log = log_of(kafka, topic)
    log.start(limit_s=30)
    try:
        for number in range(5):
            producer.begin_transaction()
            producer.produce(topic, key=b"k%d" % number, value=b"v")
            producer.commit_transaction()
        until(lambda: len(log.items()) == 5)
        behind.clear()
        until(lambda: len(behind) >= 5 and behind[-5:] == [set()] * 5)
    finally:
        log.stop()


def test_a_reader_of_which_one_partition_stands_still_beside_another_one_is_replaced_without_a_record_twice(kafka, topic, monkeypatch):
    monkeypatch.setattr("dblog.kafka.log._ASKED_S", 0.05)
    monkeypatch.setattr("dblog.kafka.log._STANDSTILL_S", 0.5)
    readers = standing_consumers(monkeypatch, dblog.kafka.log, partitions={0})
    seen = []
    log = log_of(kafka, topic, seen.append)
    log.start(limit_s=30)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 0})
    try:
        for round_ in range(3):
            readers[-1].stands_still.set()
            until(readers[-1].stood_still.is_set)
            producer.produce(topic, key=b"still", value=b"%d" % round_, partition=0)
            count = len(readers)

            def replaced(count=count):
                producer.produce(topic, key=b"moves", value=b"v", partition=1)
                producer.poll(0)
                return len(readers) > count

            until(replaced, pause_s=0.002)
        producer.flush(30)
        until(lambda: log.get(b"still") == b"2")
        log.read_to_end(limit_s=30)
        assert log.ended is None
        for partition in (0, 1):
            offsets = [record.offset for record in seen if record.partition == partition]
            assert offsets == list(range(len(offsets)))
    finally:
        log.stop()


def test_a_reader_that_stands_still_behind_a_brokers_restart_is_replaced(own_folder, monkeypatch):
    monkeypatch.setattr("dblog.kafka.log._ASKED_S", 0.1)
    monkeypatch.setattr("dblog.kafka.log._STANDSTILL_S", 1.0)
    readers = standing_consumers(monkeypatch, dblog.kafka.log)
    with started(Kafka(own_folder / "kafka")) as own:
        ensure_topics(AdminClient({"bootstrap.servers": own.bootstrap}), [wanted("t")], create=True)
        log = log_of(own, "t")
        log.start(limit_s=30)
        try:
            log.put(b"a", b"1", limit_s=30)
            own.stop()
            readers[0].stands_still.set()
            until(readers[0].stood_still.is_set)
            # Its admin client would ask with the epoch of before.
            own.start()
            log.put_later(b"a", b"3")
            until(lambda: log.items() == {b"a": b"3"})
            assert len(readers) == 2
        finally:
            log.stop()


@pytest.mark.parametrize("reports", [True, False])
def test_a_writer_that_stands_still_though_the_brokers_answer_is_replaced(kafka, topic, monkeypatch, reports):
    monkeypatch.setattr("dblog.kafka.log._ASKED_S", 0.1)
    monkeypatch.setattr("dblog.kafka.log._UNREPORTED_S", 1.0)
    writers = standing_producers(monkeypatch, dblog.kafka.writer, reports=reports)
    log = log_of(kafka, topic, **{"delivery.timeout.ms": "1000", "linger.ms": "0"})
    log.start(limit_s=30)
    try:
        writers[0].stands_still.set()
        with capture_logs() as lines:
            for number in range(20):
                log.put_later(b"k%d" % (number % 4), b"%d" % number)
            until(lambda: log.items() == {b"k0": b"16", b"k1": b"17", b"k2": b"18", b"k3": b"19"})
        assert [line["topic"] for line in lines if "the writer of a topic stalled" in line["event"]] == [topic] * (len(writers) - 1)
        writers[-1].stands_still.set()
        with pytest.raises(TransientError):
            log.put(b"config", b"1", limit_s=3)
        until(lambda: not writers[-1].stands_still.is_set())
        until(lambda: put_works(log, b"config", b"2"))
    finally:
        log.stop()


@pytest.mark.parametrize("reports", [True, False])
def test_a_writer_whose_records_are_waited_for_less_than_their_timeout_is_replaced_too(kafka, topic, monkeypatch, reports):
    monkeypatch.setattr("dblog.kafka.log._ASKED_S", 0.1)
    monkeypatch.setattr("dblog.kafka.log._UNREPORTED_S", 1.0)
    writers = standing_producers(monkeypatch, dblog.kafka.writer, reports=reports)
    log = log_of(kafka, topic, **{"delivery.timeout.ms": "3000", "linger.ms": "0"})
    log.start(limit_s=30)
    try:
        until(lambda: put_works(log, value=b"1"))
        writers[0].stands_still.set()
        with pytest.raises(TransientError, match="took longer than"):
            log.put(b"a", b"2", limit_s=0.5)
        until(lambda: len(writers) == 2)

        until(lambda: put_works(log))
        assert log.items() == {b"a": b"3"}
    finally:
        log.stop()


@pytest.mark.parametrize("waits", [True, False])
def test_a_writer_that_takes_nothing_more_is_replaced_at_once(kafka, topic, monkeypatch, waits):
    writers = standing_producers(monkeypatch, dblog.kafka.writer)
    log = log_of(kafka, topic, **{"linger.ms": "0"})
    log.start(limit_s=30)
    try:
        writers[0].has_ended.set()
        if waits:
            with pytest.raises(TransientError, match="Fatal error"):
                log.put(b"a", b"1", limit_s=30)
            until(lambda: len(writers) == 2)
            log.put(b"a", b"2", limit_s=30)
        else:
            log.put_later(b"a", b"2")
        until(lambda: log.items() == {b"a": b"2"})
        assert len(writers) == 2
    finally:
        log.stop()


def test_a_writer_is_kept_while_the_brokers_are_away(own_folder, monkeypatch):
    monkeypatch.setattr("dblog.kafka.log._ASKED_S", 0.1)
    writers = standing_producers(monkeypatch, dblog.kafka.writer)
    with started(Kafka(own_folder / "kafka")) as own:
        ensure_topics(AdminClient({"bootstrap.servers": own.bootstrap}), [wanted("t")], create=True)
        log = log_of(own, "t", **{"delivery.timeout.ms": "2000", "linger.ms": "0"})
        log.start(limit_s=30)
        try:
            own.stop()
            with capture_logs() as lines:
                log.put_later(b"a", b"1")
                until(lambda: any(line["event"] == "record not written" for line in lines))
            own.start()
            until(lambda: log.items() == {b"a": b"1"})
            assert len(writers) == 1
        finally:
            log.stop()


def put_works(log, key=b"a", value=b"3"):
    """Whether it was written: to a busy broker, not always within the short time that these writers give a record."""
    try:
        log.put(key, value, limit_s=5)
    except TransientError:
        return False
    return True


# The worker's topics.


def wanted(name, **changes):
    return TopicWanted(**{"name": name, "setting": "config.storage.topic", "partitions": 1, "replication_factor": 1} | changes)


@pytest.fixture
def admin(kafka):
    return AdminClient({"bootstrap.servers": kafka.bootstrap})


def make(admin, name, partitions, **config):
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(timeout=30)


def test_missing_topics_are_made_compacted_and_existing_ones_kept(admin, own_folder):
    topics = [wanted(f"{own_folder.name}-a"), wanted(f"{own_folder.name}-b", partitions=4, settings={"segment.ms": "600000"})]

    ensure_topics(admin, topics, create=True)
    ensure_topics(admin, topics, create=False)

    made = admin.list_topics(timeout=10).topics
    assert [len(made[topic.name].partitions) for topic in topics] == [1, 4]


def test_topics_are_not_made_when_that_is_off(admin, own_folder):
    with pytest.raises(DefiniteError, match=rf"{own_folder.name}-a \(config.storage.topic\)"):
        ensure_topics(admin, [wanted(f"{own_folder.name}-a")], create=False)


def test_a_second_partition_of_the_config_topic_is_refused(admin, own_folder):
    make(admin, own_folder.name, 2, **{"cleanup.policy": "compact"})

    with pytest.raises(DefiniteError, match="has 2 partitions but must have exactly 1"):
        ensure_topics(admin, [wanted(own_folder.name, partitions_exactly=1)], create=True)


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_policy_that_forgets_is_refused_with_the_remedy(admin, own_folder, policy):
    make(admin, own_folder.name, 1, **{"cleanup.policy": policy})

    with pytest.raises(DefiniteError, match=r"must have exactly 'compact'.*kafka-configs --alter"):
        ensure_topics(admin, [wanted(own_folder.name)], create=True)


def test_too_few_brokers_for_the_replication_are_named(admin, own_folder):
    with pytest.raises(DefiniteError, match=r"3 replicas.*lower config\.storage\.replication\.factor"):
        ensure_topics(admin, [wanted(own_folder.name, replication_factor=3)], create=True)


def test_waiting_for_brokers_ends_when_it_is_stopped():
    stopped = threading.Event()
    waiting = threading.Thread(
        target=wait_for_brokers,
        args=({"bootstrap.servers": "127.0.0.1:9"}, FailuresHeard()),
        kwargs={"servers": "127.0.0.1:9", "stopped": stopped},
    )
    waiting.start()

    stopped.set()

    waiting.join(30)
    assert not waiting.is_alive()
