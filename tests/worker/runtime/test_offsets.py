"""How a task's offset is stored, on a real broker: answers that come late, what never fits, and refusals. # I1"""

from __future__ import annotations

import contextlib
import json
import uuid
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from dblog.errors import DefiniteError, TransientError
from dblog.kafka.producer import offset_writer
from dblog.kafka.writer import NotWrittenError
from dblog.readers.run.offset import OFFSET_BYTES_MAX
from dblog.runtime.offsets import OffsetNotStoredError, OffsetWriter
from dblog.runtime.policy import trace_of
from dblog.runtime.stop import Stop
from dblog.runtime.unacknowledged import Unacknowledged
from dblog.runtime.unstored import Unstored
from stack import Kafka
from support.worker import until


@pytest.fixture
def topic(kafka: Kafka) -> str:
    name = f"offsets-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    return name


def writer(kafka: Kafka, topic: str, *, timeout_s: float = 60, **settings: Any) -> OffsetWriter:
    given = {"bootstrap.servers": kafka.bootstrap, **settings}
    return OffsetWriter(offset_writer(topic, "c", given), connector="shop", partition={"server": "p"}, timeout_s=timeout_s, stop=Stop())


def test_an_answer_that_comes_late_counts_and_the_next_offset_follows(kafka: Kafka, topic: str) -> None:
    hasty = writer(kafka, topic, timeout_s=0)
    with pytest.raises(OffsetNotStoredError) as late:
        hasty.write({"n": 1})

    assert late.value.stalls
    until(lambda: hasty.stored_late() == {"n": 1})
    assert hasty.stored_late() is None
    assert not hasty.write({"n": 1}), "it is stored"


def test_a_late_refusal_stores_nothing_and_the_next_offset_follows(kafka: Kafka, topic: str) -> None:
    letters = "".join(uuid.uuid4().hex for _ in range(70_000))  # more than the topic takes
    hasty = writer(kafka, topic, timeout_s=0, **{"message.max.bytes": 10_000_000})
    with pytest.raises(OffsetNotStoredError):
        hasty.write({"n": letters})

    late = [hasty.stored_late()]
    # Until the answer is there, the next offset is not handed over, and the one before is waited for.
    until(lambda: late.append(hasty.stored_late()) or hasty._under_way is None)  # noqa: SLF001

    assert set(late) == {None}
    with contextlib.suppress(OffsetNotStoredError):
        hasty.write({"n": 1})
    until(lambda: hasty.stored_late() == {"n": 1})


@pytest.mark.parametrize("acks", ["0", "1"])
def test_an_offset_is_proved_whatever_the_acks_of_the_workers_producers(kafka: Kafka, topic: str, acks: str) -> None:
    assert writer(kafka, topic, acks=acks).write({"n": 1})


@pytest.mark.parametrize("limit", ["producer", "topic"])
@pytest.mark.parametrize("field", ["dblog_dumps", "gtids", "transaction_data_collection_order_a.b"])
def test_an_offset_that_never_fits_names_the_field_and_the_remedy(kafka: Kafka, topic: str, limit: str, field: str) -> None:
    letters = "".join(uuid.uuid4().hex for _ in range(70_000))
    large = writer(kafka, topic, **({"message.max.bytes": 10_000_000} if limit == "topic" else {}))
    assert large.write({"file": "binlog.1", field: "small"})

    with pytest.raises(DefiniteError) as never:
        large.write({"file": "binlog.1", field: letters})

    for part in ("connector shop", f"field {field}", topic, "producer.max.request.size", "max.message.bytes"):
        assert part in str(never.value)
    assert "bug" not in trace_of(never.value)
    assert large.write({"file": "binlog.1", field: "small again"}), "a smaller one goes on"


def test_the_largest_offset_that_is_made_is_taken_by_brokers_and_producers_as_they_come(kafka: Kafka, topic: str) -> None:
    quotes = '"' * ((OFFSET_BYTES_MAX - 100) // 2)  # each is two bytes in the record

    assert writer(kafka, topic).write({"dblog_dumps": quotes})


def test_a_refusal_is_no_stall_and_a_silence_is_one() -> None:
    refused, silent = KafkaError(KafkaError.INVALID_TIMESTAMP), KafkaError(KafkaError._MSG_TIMED_OUT)  # noqa: SLF001  spelled so
    fatal = KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "", True)
    for error, stalls in (
        (NotWrittenError(fatal), True),
        (NotWrittenError(KafkaError(KafkaError._FATAL)), True),  # noqa: SLF001
        (NotWrittenError(KafkaError(KafkaError._PURGE_QUEUE)), True),  # noqa: SLF001
        (NotWrittenError(KafkaError(KafkaError._PURGE_INFLIGHT)), True),  # noqa: SLF001
        (NotWrittenError(refused), False),
        (NotWrittenError(silent, unanswered=True), True),
        (NotWrittenError("it was acknowledged without an offset"), True),
    ):
        given = Mock(topic="t", hand_over=Mock(side_effect=error))
        with pytest.raises(OffsetNotStoredError) as failed:
            OffsetWriter(given, connector="c", partition={}, timeout_s=1, stop=Stop()).write({"n": 1})
        assert failed.value.stalls is stalls
        assert failed.value.ended is error.ended


def test_an_offset_that_was_refused_is_not_taken_for_stored_when_it_comes_again() -> None:
    given = Mock(topic="t", wait=Mock(side_effect=[NotWrittenError(KafkaError(KafkaError.NOT_ENOUGH_REPLICAS)), None]))
    offsets = OffsetWriter(given, connector="c", partition={}, timeout_s=1, stop=Stop())
    with pytest.raises(OffsetNotStoredError):
        offsets.write({"n": 1})

    assert offsets.write({"n": 1}), "it is written again"
    assert not offsets.write({"n": 1}), "it is stored now"


def test_a_producer_of_offsets_that_has_ended_is_replaced_without_waiting() -> None:
    unstored = Unstored("t", Unacknowledged(SimpleNamespace(are_led=lambda _: False)))
    unstored.failed(OffsetNotStoredError("a fatal error", stalls=True, ended=True))

    with pytest.raises(TransientError, match="a fatal error; the producer of offsets takes nothing more"):
        unstored.check()
    unstored.stored()
    unstored.check()


def test_since_when_no_offset_is_stored_is_that_of_the_last_one() -> None:
    unstored = Unstored("t", Unacknowledged(SimpleNamespace(are_led=lambda _: True)))
    assert unstored.waits is None
    unstored.failed(OffsetNotStoredError("no answer", stalls=True))
    first = unstored.waits
    unstored.failed(OffsetNotStoredError("no answer", stalls=True))

    assert first is not None
    assert first.startswith("no offset has been stored since 2")
    assert first.endswith("Z: no answer")
    assert unstored.waits == first
    unstored.stored()
    assert unstored.waits is None


def test_an_error_of_kafkas_client_is_not_called_a_bug() -> None:
    trace = trace_of(KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)))

    assert "bug" not in trace
    assert "Message size too large" in trace


def test_the_form_of_an_offset_is_connects(kafka: Kafka, topic: str) -> None:
    sent: list[Any] = []
    given = Mock(topic=topic, hand_over=lambda write, handed, limit: sent.append(write), wait=lambda handed, limit: None)
    OffsetWriter(given, connector="c", partition={"server": "p"}, timeout_s=1, stop=Stop()).write({"pos": 4, "gtids": "é"})

    assert (sent[0].key, sent[0].value) == (b'["c",{"server":"p"}]', '{"pos":4,"gtids":"é"}'.encode())
    assert json.loads(sent[0].value) == {"pos": 4, "gtids": "é"}
