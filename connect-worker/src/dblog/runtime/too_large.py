"""Errors and rules for records that are larger than Kafka accepts.

Debezium has no rule of its own for them: Kafka Connect's producer fails with
RecordTooLargeException, and the task with it, unless ``errors.tolerance`` is ``all`` (Kafka,
AbstractWorkerSourceTask). The same happens here, and the message names the record's topic, table
and size, and the settings to raise. The offset stays before the record, so it is sent again once
there is room for it.

A broker refuses a whole request because of one large record, or because the request is larger than
the topic accepts. Java's client then splits the request, but librdkafka reports every record of it
as refused. So the first refusal leads to a new run with small requests. Only a record that is
refused then is too large.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaError

from dblog.errors import DefiniteError, TransientError
from dblog.model import TableId

CODES = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})

SMALL_REQUEST_BYTES = 16384
"""Size of a small request, the default of Java's ``batch.size``, so that topics accept the same
records as from Kafka Connect. A larger record is then alone in its request.
"""

_SIZE, _COUNT = "batch.size", "batch.num.messages"


class RequestRefusedError(TransientError):
    """A broker refused a request of several records as too large.

    A run with small requests shows which of them is too large, if one is.
    """


def sends_small_requests(settings: Mapping[str, object], *, alone: bool) -> bool:
    """Return True if a producer with these librdkafka settings already sends small requests.

    With ``alone``, small means one record per request.
    """
    if str(settings.get(_COUNT)) == "1":
        return True
    return not alone and int(str(settings.get(_SIZE, SMALL_REQUEST_BYTES + 1))) <= SMALL_REQUEST_BYTES


def with_small_requests(settings: Mapping[str, object], *, alone: bool) -> dict[str, object]:
    """Return the settings of a producer, changed so that its requests are small. # I5

    With ``alone`` each request has one record: if refused records are skipped, no good record may
    be in the request of a bad one.
    """
    if sends_small_requests(settings, alone=alone):
        return {**settings}
    return {**settings, **({_COUNT: "1"} if alone else {_SIZE: str(SMALL_REQUEST_BYTES)})}


def small_requests_warning(reason: str) -> str:
    """Return the standing warning of a connector whose requests are small."""
    return f"{reason}. The connector sends small requests until its task is restarted, which is slower: raise max.message.bytes of the topic, then restart it"


def request_refused(topic: str, bytes_max: int) -> RequestRefusedError:
    """Return the error for a request whose largest refused record has ``bytes_max`` bytes."""
    return RequestRefusedError(
        f"a broker refused records for topic {topic} as too large, the largest of {bytes_max} bytes: one of them, or their request, is larger than the "
        "topic takes (max.message.bytes)"
    )


def refused_by_producer(topic: str, tables: Iterable[TableId | None], record_bytes: int, way_out: str) -> DefiniteError:
    """Return the error for a record that the connector's own producer does not accept.

    ``way_out`` says what else helps; empty if nothing does.
    """
    return DefiniteError(
        f"a record of {record_bytes} bytes {_for(topic, tables)} is larger than the producer takes; raise producer.override.max.request.size of the connector "
        f"above that, and max.message.bytes of the topic{_or(way_out)}; then restart the task, which sends it again"
    )


def refused_by_broker(topic: str, tables: Iterable[TableId | None], record_bytes: int, reason: str, way_out: str) -> DefiniteError:
    """Return the error for a record that a broker does not accept."""
    return DefiniteError(
        f"Kafka did not take a record of {record_bytes} bytes {_for(topic, tables)}: {reason}; raise max.message.bytes of the topic above that "
        f"(kafka-configs.sh --bootstrap-server HOST:PORT --alter --topic {topic} --add-config max.message.bytes=BYTES){_or(way_out)}; then restart the task, "
        "which sends it again"
    )


def _for(topic: str, tables: Iterable[TableId | None]) -> str:
    names = ", ".join(sorted({str(table) for table in tables if table is not None}))
    return f"of table {names} for topic {topic}" if names else f"for topic {topic}"


def _or(way_out: str) -> str:
    return f", or {way_out}" if way_out else ""
