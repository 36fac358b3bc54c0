"""The schema history on a real broker: the same contract as the fake, the topic it makes, and what a broker refuses."""

from __future__ import annotations

import itertools
import json
import random
import string

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from contracts.history_log import HistoryLogContract
from dblog.core.timeline import START, Timeline
from dblog.errors import DefiniteError, TransientError
from dblog.model import Column, Table, TableId
from dblog.readers.log.debezium_history import LoggedStatement
from dblog.readers.log.history import SchemaHistory
from dblog.readers.log.history_topic import KafkaHistoryLog
from dblog.readers.standing_warnings import StandingWarnings
from stack import Kafka

NUMBERS = itertools.count(1)
T = TableId("d", "t")
TABLE = Table(id=T, columns=(Column(name="id", type="int", type_text="int", nullable=False),), key=("id",))


class At:
    """A position."""

    def to_map(self) -> dict[str, object]:
        return {"file": "f.1", "pos": 4}


@pytest.fixture
def history_log(kafka: Kafka) -> KafkaHistoryLog:
    made = KafkaHistoryLog({"bootstrap.servers": kafka.bootstrap}, f"history-{next(NUMBERS)}")
    made.ensure_topic()
    return made


class TestKafkaHistoryLog(HistoryLogContract):
    """The fixture above makes an empty topic for each."""


def test_the_topic_is_made_once_with_one_partition_and_compacted(kafka: Kafka) -> None:
    name = f"history-{next(NUMBERS)}"
    history_log = KafkaHistoryLog({"bootstrap.servers": kafka.bootstrap}, name)

    assert list(history_log.read()) == []
    assert history_log.ensure_topic()
    assert not history_log.ensure_topic()

    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    resource = ConfigResource(ResourceType.TOPIC, name)
    settings = admin.describe_configs([resource])[resource].result(10)
    assert settings["cleanup.policy"].value == "compact"
    assert len(admin.list_topics(name, timeout=10).topics[name].partitions) == 1


def test_a_topic_of_several_partitions_is_refused(kafka: Kafka) -> None:
    name = f"history-{next(NUMBERS)}"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(name, 3, 1)])[name].result(10)

    with pytest.raises(DefiniteError, match="has 3 partitions"):
        KafkaHistoryLog({"bootstrap.servers": kafka.bootstrap}, name).ensure_topic()


def test_records_stand_beside_those_of_debezium_in_its_own_topic(kafka: Kafka) -> None:
    name = f"history-{next(NUMBERS)}"
    settings = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1, config=settings)])[name].result(10)
    history_log = KafkaHistoryLog({"bootstrap.servers": kafka.bootstrap}, name)
    history_log.ensure_topic()
    history_log.write([(None, b'{"source":{"server":"shop"},"ddl":"DROP TABLE t"}')])  # type: ignore[list-item]  # as Debezium writes
    timeline = Timeline()
    timeline.put(TABLE, START)

    SchemaHistory(history_log, server="shop").save_all(timeline)

    again = Timeline()
    assert SchemaHistory(history_log, server="shop").recover(again) == 1
    assert again.current_table(T) == TABLE


@pytest.mark.parametrize(("retention_ms", "warned"), [("-1", False), (str(2**63 - 1), False), (str(7 * 24 * 3600 * 1000), True)])
def test_a_topic_as_debezium_makes_it_keeps_its_records_and_no_advice_would_compact_them_away(
    kafka: Kafka, retention_ms: str, warned: bool
) -> None:
    name, warnings = f"history-{next(NUMBERS)}", StandingWarnings()
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    settings = {"cleanup.policy": "delete", "retention.ms": retention_ms, "retention.bytes": "-1"}
    admin.create_topics([NewTopic(name, 1, 1, config=settings)])[name].result(10)

    KafkaHistoryLog({"bootstrap.servers": kafka.bootstrap}, name, warnings=warnings).ensure_topic()

    assert ["retention.ms=-1" in text for text in warnings.texts()] == [True] * warned
    assert "compact" not in repr(warnings.texts())


def test_a_table_of_as_many_columns_as_there_can_be_fits_a_topic_with_kafkas_own_limit(kafka: Kafka) -> None:
    name = f"history-{next(NUMBERS)}"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1, config={"cleanup.policy": "compact"})])[name].result(10)
    chance = random.Random(1)
    columns = tuple(
        Column(name="".join(chance.choices(string.ascii_lowercase, k=64)), type="varchar", type_text="varchar(10)", nullable=True)
        for _ in range(4096)
    )
    wide = Table(id=T, columns=columns, key=(columns[0].name,))
    timeline = Timeline()
    timeline.put(wide, START)
    history_log = KafkaHistoryLog({"bootstrap.servers": kafka.bootstrap}, name)

    SchemaHistory(history_log, server="shop").save_all(timeline)

    again = Timeline()
    SchemaHistory(history_log, server="shop").recover(again)
    assert again.current_table(T) == wide


def test_a_statement_that_debeziums_topic_does_not_take_is_left_out_and_the_tables_are_kept(kafka: Kafka) -> None:
    name = f"history-{next(NUMBERS)}"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(10)
    history_log = KafkaHistoryLog({"bootstrap.servers": kafka.bootstrap}, name)
    history_log.write([(None, b'{"source":{"server":"shop"},"ddl":"DROP TABLE t"}')])  # type: ignore[list-item]  # as Debezium writes
    history, timeline = SchemaHistory(history_log, server="shop"), Timeline()
    history.recover(timeline)
    timeline.put(TABLE, START)
    noise = "".join(random.Random(1).choices(string.printable, k=2_000_000))

    for text in (f"CREATE TABLE t (id INT) /* {noise} */", "CREATE TABLE u (id INT)"):
        history.save(timeline, [T], statement=LoggedStatement(text=text, database="d", after=At(), ts_ms=5))

    again = Timeline()
    assert SchemaHistory(history_log, server="shop").recover(again) == 1
    assert again.current_table(T) == TABLE
    statements = [json.loads(value)["ddl"] for _, value in history_log.read() if value is not None and b'"ddl"' in value]
    assert statements == ["DROP TABLE t", "CREATE TABLE u (id INT)"]


def test_a_broker_that_is_away_is_a_transient_error() -> None:
    away = KafkaHistoryLog({"bootstrap.servers": "127.0.0.1:1"}, "history", request_timeout_s=0.5, idle_timeout_s=0.5)

    with pytest.raises(TransientError, match="history"):
        away.ensure_topic()
    with pytest.raises(TransientError, match="history"):
        list(away.read())
    with pytest.raises(TransientError, match="history"):
        away.write([(b"k", b"v")])


def test_a_record_larger_than_a_topic_of_others_takes_is_compressed(kafka: Kafka) -> None:
    name = f"history-{next(NUMBERS)}"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(10)
    history_log = KafkaHistoryLog({"bootstrap.servers": kafka.bootstrap}, name)
    wide = b'{"name":"a column among many"},' * 100_000

    history_log.write([(b"small", b"{}"), (b"wide", wide), (b"small", b"[]")])

    assert dict(history_log.read()) == {b"small": b"[]", b"wide": wide}
