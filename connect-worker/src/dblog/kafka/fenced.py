"""One writer at a time for a topic that several processes write, enforced by Kafka.

All writers of a topic share one transactional id (KIP-98). Taking the id fences every other writer,
and their open transactions are committed or aborted by then. So a read after ``take`` sees
everything that was ever written, and a ``write`` succeeds only if no other writer has taken the id
since, however late the network delivers it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from dblog.errors import DblogError, DefiniteError, TransientError
from dblog.kafka.clientlog import ClientLog
from dblog.kafka.writer import UNPROVED, Write, failure_of

_TRANSACTION_LIMIT_MS = 30000
_FENCED = {
    KafkaError._FENCED,  # noqa: SLF001  its public name
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.INVALID_TXN_STATE,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
    KafkaError.CONCURRENT_TRANSACTIONS,
    # A broker's answer to a commit that meets another writer's ``take``. Only reading shows whether
    # it was committed.
    KafkaError.UNKNOWN,
}
_EXPECTED = re.compile(r"old epoch|fenced by a newer instance|another concurrent operation")
_FORBIDDEN = {KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}


class Overtaken(DblogError):  # noqa: N818  not a failure: the caller decides again
    """Raised if another writer has taken the topic, perhaps during a write.

    Take it, read it and decide again.
    """


class _Quiet(ClientLog):
    """Drops the log lines that only show that the fence worked."""

    def line(self, line: str) -> None:
        """Write one log line of librdkafka, unless the fence explains it."""
        if _EXPECTED.search(line) is None:
            super().line(line)


class FencedWriter:
    """Writes to one topic. The caller holds a lock, so that one thread uses it at a time."""

    def __init__(self, topic: str, settings: Mapping[str, str]) -> None:
        self._topic = topic
        self._id = f"dblog-writer-{topic}"
        self._settings = settings
        self._client_log = _Quiet(f"topic {topic}")
        self._producer: Producer | None = None

    def take(self, *, limit_s: float) -> bool:
        """Fence all other writers. Return True if that was necessary.

        A writer whose writes have succeeded so far does not fence again; it learns at the next
        write whether it was fenced. Raise Overtaken, TransientError, or DefiniteError if not
        authorized.
        """
        if self._producer is not None:
            return False
        producer = Producer(
            {
                "linger.ms": "0",
                "partitioner": "murmur2_random",
                "reconnect.backoff.max.ms": "2000",
                **self._settings,
                "delivery.timeout.ms": str(_TRANSACTION_LIMIT_MS),
                "transaction.timeout.ms": str(_TRANSACTION_LIMIT_MS),
                "transactional.id": self._id,
                "acks": "all",
                "enable.idempotence": "true",
            },
            logger=self._client_log,
        )
        try:
            producer.init_transactions(limit_s)
        except KafkaException as e:
            error = e.args[0]
            if error.code() in _FORBIDDEN:
                raise DefiniteError(
                    f"the topic {self._topic} may not be written: {error.str()}; grant the worker's principal WRITE and DESCRIBE on the "
                    f"transactional id {self._id}"
                ) from e
            if error.code() in _FENCED:
                raise Overtaken(f"another worker writes the topic {self._topic}") from e
            raise TransientError(f"the topic {self._topic} cannot be taken for writing: {error.str()}; are the brokers reachable?") from e
        self._producer = producer
        return True

    def write(self, writes: Sequence[Write], *, limit_s: float) -> list[tuple[int, int]]:
        """Write all records or none. Return the partition and offset of each.

        After an error the next ``take`` and a read show which of the two happened.
        """
        producer = self._producer
        if producer is None:
            raise Overtaken(f"another worker writes the topic {self._topic}")
        deadline = time.monotonic() + limit_s
        written: list[tuple[int, int]] = []
        errors: list[KafkaError | str] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            failure, partition, offset = failure_of(error, message), message.partition(), message.offset()
            if failure is not None or partition is None or offset is None:
                errors.append(failure or UNPROVED)
            else:
                written.append((partition, offset))

        # This writer is not used again until the commit is known; the next one fences whatever of
        # it is still on its way.
        self._producer = None
        try:
            producer.begin_transaction()
            for write in writes:
                producer.produce(self._topic, key=write.key, value=write.value, on_delivery=delivered)
            producer.flush(limit_s)
            producer.commit_transaction(max(0.1, deadline - time.monotonic()))
        except (BufferError, KafkaException) as e:
            raise self._failure([e.args[0], *errors]) from e
        if errors:
            raise self._failure(errors)
        if len(written) < len(writes):
            raise TransientError(f"writing to the topic {self._topic} took longer than {limit_s:.0f} s; are the brokers reachable?")
        self._producer = producer
        return written

    def close(self) -> None:
        """Drop the client. The transactional id stays as it is; no transaction is open."""
        self._producer = None

    def _failure(self, reasons: Sequence[object]) -> DblogError:
        # Records that were produced in spite of the fence fail as purged; one of the errors has the
        # reason.
        if any(isinstance(error, KafkaError) and error.code() in _FENCED for error in reasons):
            return Overtaken(f"another worker writes the topic {self._topic}")
        return TransientError(f"writing to the topic {self._topic} failed: {reasons[-1]}")
