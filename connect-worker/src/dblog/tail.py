"""``dblog tail``: prints the records of a topic, decoded with the registry, as one JSON object a
line.

Standard output gets only the records. A record that cannot be decoded is shown as its bytes in
base64 with the reason: the command must not fail at the very record that one looks for. Avro is
recognised by Confluent's frame (a zero byte, then four bytes of the schema id). Anything else is
read as JSON, and if that fails as text.
"""

from __future__ import annotations

import base64
import io
import json
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import httpx
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from dblog.config.properties import read_properties
from dblog.config.worker import read_worker_config
from dblog.config.worker_file import resolve_worker_file
from dblog.errors import ConfigError, DefiniteError
from dblog.trust import distrusted, trusting

TIMEOUT_S = 30.0
DEFAULT_BOOTSTRAP = "localhost:9092"
_FRAME_BYTES = 5
_ANSWER_BYTES_MAX = 16 * 1024 * 1024
"""Limit of a schema's size. Any other program at the registry's address may answer without end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Selection of records of one topic; ``count`` 0 means all."""

    topic: str
    brokers: Mapping[str, str] = field(repr=False)
    """librdkafka's settings for the connection, among them bootstrap.servers."""
    registry: str
    authorities: Path | None = None
    """CA certificates to trust for the registry; None trusts those of the machine."""
    from_beginning: bool
    count: int


def brokers_of(bootstrap: str | None, worker_file: Path | None) -> dict[str, str]:
    """Return the settings to reach the brokers: those of a worker's file, with its login and TLS.

    ``bootstrap`` replaces the file's addresses. Raise DefiniteError if the file cannot be used.
    """
    named = {"bootstrap.servers": bootstrap} if bootstrap else {}
    if worker_file is None:
        return {"bootstrap.servers": DEFAULT_BOOTSTRAP, **named}
    written = read_properties(worker_file)
    try:
        file = resolve_worker_file(written)
        return {**read_worker_config(file.texts, shown=file.placeholders).client_settings("consumer"), **named}
    except ConfigError as e:
        raise DefiniteError(f"{worker_file} is not a worker's file that could be used: {e}") from e


def lines(wanted: Wanted) -> Iterator[str]:
    """Yield records as JSON lines: the oldest in the order of their partitions, or the newest by
    time.

    Raise DefiniteError if the records cannot be read.
    """
    schemas = _Schemas(wanted.registry, trusting(wanted.authorities))
    consumer = _consumer(wanted)
    try:
        found = _newest(consumer, wanted) if not wanted.from_beginning else _oldest(consumer, wanted)
        for record in found:
            yield json.dumps(_shown(record, schemas), ensure_ascii=False, default=_plain)
    except KafkaException as e:
        raise _unreadable(wanted, e) from e
    finally:
        consumer.close()
        schemas.close()


def _consumer(wanted: Wanted) -> Consumer:
    try:
        return Consumer(
            {
                **wanted.brokers,
                "group.id": "dblog-tail",  # required by the client; neither joined nor committed to
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "log_level": 0,
            }
        )
    except KafkaException as e:  # a file of certificates is missing or damaged
        raise DefiniteError(f"the brokers cannot be asked with the settings of the worker's file ({e.args[0].str()}); correct them") from e


def _unreadable(wanted: Wanted, error: KafkaException) -> DefiniteError:
    addresses = wanted.brokers["bootstrap.servers"]
    return DefiniteError(
        f"the brokers at {addresses} cannot be read ({error.args[0].str()}); name them with --bootstrap, or with --worker a worker's file that has "
        "their addresses, login and TLS"
    )


def _oldest(consumer: Consumer, wanted: Wanted) -> Iterator[Message]:
    starts = {partition: low for partition, (low, _) in _bounds(consumer, wanted).items()}
    for n, record in enumerate(_records(consumer, wanted.topic, starts)):
        if wanted.count and n == wanted.count:
            return
        yield record


def _newest(consumer: Consumer, wanted: Wanted) -> list[Message]:
    starts = {
        partition: max(low, high - wanted.count) if wanted.count else low for partition, (low, high) in _bounds(consumer, wanted).items()
    }
    found = sorted(
        _records(consumer, wanted.topic, starts), key=lambda record: (record.timestamp()[1], record.partition(), record.offset())
    )
    return found[-wanted.count :] if wanted.count else found


def _bounds(consumer: Consumer, wanted: Wanted) -> dict[int, tuple[int, int]]:
    """Return the first offset and the end of each partition."""
    topic = consumer.list_topics(wanted.topic, timeout=TIMEOUT_S).topics[wanted.topic]
    if topic.error is not None:
        raise DefiniteError(
            f"topic {wanted.topic} cannot be read ({topic.error.str()}); a table's topic is <topic.prefix>.<database>.<table>"
        )
    return {
        partition: consumer.get_watermark_offsets(TopicPartition(wanted.topic, partition), timeout=TIMEOUT_S)
        for partition in topic.partitions
    }


def _records(consumer: Consumer, topic: str, starts: dict[int, int]) -> Iterator[Message]:
    """Yield all records from the start offsets to the present end of each partition.

    The end may follow markers of transactions, which are not records, so the client's EOF event
    decides.
    """
    consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in starts.items()])
    reading = set(starts)
    limit_s = time.monotonic() + TIMEOUT_S
    while reading:
        record = consumer.poll(1.0)
        if record is None:
            if time.monotonic() > limit_s:
                raise DefiniteError(f"topic {topic}: the brokers sent nothing for {TIMEOUT_S:.0f} s; look at their state, then ask again")
            continue
        limit_s = time.monotonic() + TIMEOUT_S
        error = record.error()
        if error is None:
            if record.partition() in reading:
                yield record
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  librdkafka's name
            reading.discard(record.partition())
        elif error.fatal() or not error.retriable():
            raise KafkaException(error)


def _shown(record: Message, schemas: _Schemas) -> dict[str, Any]:
    return {
        "partition": record.partition(),
        "offset": record.offset(),
        "timestamp": record.timestamp()[1],
        "key": schemas.decoded(record.key()),
        "value": schemas.decoded(record.value()),
    }


class _Schemas:
    """Schemas of the registry by id; each is requested once."""

    def __init__(self, url: str, trust: ssl.SSLContext) -> None:
        self._url = url.rstrip("/")
        self._client = httpx.Client(timeout=TIMEOUT_S, verify=trust, trust_env=False, follow_redirects=False)
        self._known: dict[int, Any] = {}

    def close(self) -> None:
        self._client.close()

    def decoded(self, given: str | bytes | None) -> Any:
        """Return the decoded form of a key's or value's bytes."""
        if given is None:
            return None
        data = given.encode() if isinstance(given, str) else given
        if data[:1] == b"\x00" and len(data) >= _FRAME_BYTES:
            schema_id = int.from_bytes(data[1:_FRAME_BYTES], "big")
            schema = self._schema(schema_id)
            try:
                return fastavro.schemaless_reader(io.BytesIO(data[_FRAME_BYTES:]), schema, None)
            except Exception as e:  # noqa: BLE001  damaged bytes may raise anything in the decoder
                return {"bytes": base64.b64encode(data).decode(), "reason": f"not of schema {schema_id} ({type(e).__name__})"}
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return {"bytes": base64.b64encode(data).decode(), "reason": "neither Avro with a schema id nor text"}
        try:
            return json.loads(text)
        except ValueError:
            return text

    def _schema(self, schema_id: int) -> Any:
        if schema_id not in self._known:
            try:
                self._known[schema_id] = fastavro.parse_schema(json.loads(self._asked(f"{self._url}/schemas/ids/{schema_id}")["schema"]))
            except (httpx.HTTPError, httpx.InvalidURL, ValueError, TypeError, KeyError) as e:
                address = httpx.URL(self._url).copy_with(userinfo=b"") if "@" in self._url else self._url
                if reason := distrusted("registry", address, e):
                    raise DefiniteError(f"schema {schema_id} cannot be had: {reason}") from e
                raise DefiniteError(
                    f"schema {schema_id} cannot be had from the registry at {address} ({type(e).__name__}); name the one that the records were "
                    "written with: --registry"
                ) from e
        return self._known[schema_id]

    def _asked(self, url: str) -> dict[str, Any]:
        """Return the registry's answer.

        Raise ValueError if it is too large or not a JSON object.
        """
        data = bytearray()
        with self._client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as answer:
            answer.raise_for_status()
            for piece in answer.iter_raw():
                data += piece
                if len(data) > _ANSWER_BYTES_MAX:
                    raise ValueError("too large")
        return dict(json.loads(data))


def _plain(value: Any) -> str:
    """Return JSON text for an Avro value that JSON cannot hold: bytes in base64, decimals and times
    as text.
    """
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
