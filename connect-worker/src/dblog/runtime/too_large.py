"""Errors and rules for records that are larger than Kafka accepts.

Debezium has no rule of its own for them: Kafka Connect's producer fails with
RecordTooLargeException, and the task with it, unless ``errors.tolerance`` is ``all`` (Kafka,
AbstractWorkerSourceTask). The same happens here, and the message names the record's topic, table
and size, and the settings to raise. The offset stays before the record, so it is sent again once
there is room for it.

A broker refuses a whole request because of one large record, or because the request is larger than
the topic accepts. Java's client then splits the request, but librdkafka reports every record of it
as refused. So the first refusal leads to a new run with small requests, and if a small request of
several records is refused, to a run with requests of one record each. Only a record that is refused
alone is too large.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum

from confluent_kafka import KafkaError

from dblog.errors import DefiniteError, TransientError
from dblog.model import TableId

CODES = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})

SMALL_REQUEST_BYTES = 16384
"""Size of a small request, the default of Java's ``batch.size``, so that topics accept the same
records as from Kafka Connect. A larger record is then alone in its request.
"""

_SIZE, _COUNT = "batch.size", "batch.num.messages"


class Requests(IntEnum):
    """The greatest requests that a producer sends, in the order in which they get smaller."""

    ANY = 0
    SMALL = 1
    """Requests of at most ``SMALL_REQUEST_BYTES``, or of one record."""
    SINGLE = 2
    """Requests of one record each."""


class RequestRefusedError(TransientError):
    """A broker refused a request as too large that may have had several records.

    A run with ``next_requests`` shows which of them is too large, if one is.
    """

    def __init__(self, message: str, next_requests: Requests) -> None:
        super().__init__(message)
        self.next_requests = next_requests


def requests_of(settings: Mapping[str, object]) -> Requests:
    """Return the greatest requests of a producer with these librdkafka settings."""
    if str(settings.get(_COUNT)) == "1":
        return Requests.SINGLE
    size = int(str(settings.get(_SIZE, SMALL_REQUEST_BYTES + 1)))
    return Requests.SMALL if size <= SMALL_REQUEST_BYTES else Requests.ANY


def with_requests(settings: Mapping[str, object], wanted: Requests) -> dict[str, object]:
    """Return the settings of a producer, changed so that its requests are no greater than wanted."""
    if wanted is Requests.ANY or requests_of(settings) >= wanted:
        return {**settings}
    return {**settings, **({_COUNT: "1"} if wanted is Requests.SINGLE else {_SIZE: str(SMALL_REQUEST_BYTES)})}


def is_alone(requests: Requests, record_bytes: int) -> bool:
    """Return True if a record of this size was certainly alone in its request."""
    return requests is Requests.SINGLE or (requests is Requests.SMALL and record_bytes >= SMALL_REQUEST_BYTES)


def next_requests(requests: Requests, *, tolerate: bool) -> Requests:
    """Return the requests of the next run after a refusal. # I5

    With ``tolerate`` refused records are skipped, so no good record may be in the request of a bad
    one.
    """
    return Requests.SMALL if requests is Requests.ANY and not tolerate else Requests.SINGLE


def small_requests_warning(reason: str) -> str:
    """Return the standing warning of a connector whose requests are small."""
    return f"{reason}. The connector sends small requests until its task is restarted, which is slower: raise max.message.bytes of the topic, then restart it"


def request_refused(topic: str, bytes_max: int, smaller: Requests) -> RequestRefusedError:
    """Return the error for a request whose largest refused record has ``bytes_max`` bytes."""
    return RequestRefusedError(
        f"a broker refused records for topic {topic} as too large, the largest of {bytes_max} bytes: one of them, or their request, is larger than the "
        "topic takes (max.message.bytes)",
        smaller,
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
