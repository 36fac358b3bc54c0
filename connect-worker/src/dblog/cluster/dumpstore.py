"""The topic of dump requests as a view: what was asked of each connector's dumps, and what became of it.

Kept in Kafka, so requests survive restarts and a change of the worker that leads. Bounded: of ended requests the newest ones of each connector stay. What is in
the topic beyond that, and what a worker wrote that was overtaken, the worker that leads puts right (``tidy_later``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence

from dblog.cluster.dumprecords import DumpKey, DumpStatus, KnownDump, dump_record, read_dump_record
from dblog.cluster.records import KeyValue
from dblog.cluster.stores import WRITE_LIMIT_S, MakeLog
from dblog.core.dumprequests import DumpRequest
from dblog.kafka.log import LogRecord, UnreadableRecordError
from dblog.kafka.writer import Write

ENDED_KEPT = 100
"""Of each connector."""
OPEN_MAX = 50
"""Requests of one connector that have not ended: each start of its task gets them all."""
_REASON_CHARS = 100
"""Of a reason that has no room for more."""
_END_BYTES = 16 * 1024
"""What an end takes without its tables: some numbers and a reason."""


class DumpStore:
    """Requests and their ends, by connector and id."""

    def __init__(self, topic: str, make_log: MakeLog, *, on_change: Callable[[DumpKey], None], record_bytes_max: int) -> None:
        """``on_change`` is called in the log's thread for each record that comes live."""
        self._lock = threading.Lock()
        self._known: dict[str, dict[str, KnownDump]] = {}
        self._overtaken: set[DumpKey] = set()
        """Those whose newest record in the topic is older than what is known."""
        self._tidying: set[DumpKey] = set()
        """Those that are being put right."""
        self._on_change = on_change
        self._record_bytes_max = record_bytes_max
        self.log = make_log(topic, self._take)

    def _take(self, record: LogRecord) -> None:
        read = read_dump_record(record.key, record.value)
        if read is None:
            raise UnreadableRecordError("this version does not know its kind, or cannot read its value")
        key, new = read
        with self._lock:
            self._apply(key, new)
        if record.live:
            self._on_change(key)

    def _apply(self, key: DumpKey, new: KnownDump | None) -> None:
        connector, dump = key
        of_connector = self._known.setdefault(connector, {})
        known = of_connector.get(dump)
        self._overtaken.discard(key)
        self._tidying.discard(key)
        if new is None:
            of_connector.pop(dump, None)
            if not of_connector:
                del self._known[connector]
        elif known is not None and _is_behind(new, known):
            self._overtaken.add(key)  # of a worker that led no longer when its record arrived
        else:
            of_connector[dump] = new

    def of(self, connector: str) -> list[KnownDump]:
        """All that is known of a connector's requests, oldest first."""
        with self._lock:
            return _oldest_first(self._known.get(connector, {}).values())

    def open(self, connector: str) -> list[DumpRequest]:
        """The requests of a connector that have not ended, oldest first."""
        return [known.request for known in self.of(connector) if known.end is None]

    def get(self, key: DumpKey) -> KnownDump | None:
        """One request."""
        with self._lock:
            return self._known.get(key[0], {}).get(key[1])

    def connectors(self) -> list[str]:
        """Those with requests."""
        with self._lock:
            return list(self._known)

    def size_left(self, request: DumpRequest) -> int:
        """How many bytes a record of it would still have room for, with an end without tables."""
        key, value = dump_record((request.connector, request.id), KnownDump(request))
        return self._record_bytes_max - _END_BYTES - len(key) - len(value or b"")

    def write(self, request: DumpRequest) -> None:
        """A new request, or its next revision; returns when it has been read back."""
        self._write([dump_record((request.connector, request.id), KnownDump(request))])

    def write_later(self, request: DumpRequest) -> None:
        """Send a request, or its next revision, without waiting; ``on_change`` reports that it has been read back."""
        self.log.put_later(*dump_record((request.connector, request.id), KnownDump(request)))

    def end_later(self, known: KnownDump, end: DumpStatus) -> None:
        """Send the end of a request without waiting; ``on_change`` reports that it has been read back. A topic may take less than the worker sends: then the
        end comes without its tables, with the beginning of its reason, or the request goes. A task would report an end for ever that nobody can note.
        """
        key, value = dump_record(known.key, KnownDump(known.request, end), bytes_max=self._record_bytes_max)
        bare = {**end, "tables": []}
        less = {**bare, "reason": str(end["reason"])[:_REASON_CHARS]} if end.get("reason") else bare
        smaller = [dump_record(known.key, KnownDump(known.request, each))[1] for each in (bare, less)]
        self.log.put_later(key, value, smaller=(*smaller, None))

    def forget(self, connector: str) -> None:
        """Remove all requests of a connector; returns when they are gone."""
        if removed := [dump_record(known.key, None) for known in self.of(connector)]:
            self._write(removed)

    def tidy_later(self, *, exists: Callable[[str], bool]) -> None:
        """Remove what is beyond what is kept, and what belongs to no connector; write again what was overtaken. Without waiting, and by the worker that leads
        alone.
        """
        with self._lock:
            records = {key: record for key, record in self._untidy(exists).items() if key not in self._tidying}
            self._tidying |= records.keys()
        for key, value in records.values():
            self.log.put_later(key, value)

    def is_untidy(self, *, exists: Callable[[str], bool]) -> bool:
        """Whether ``tidy_later`` would do anything."""
        with self._lock:
            return not self._untidy(exists).keys() <= self._tidying

    def abandon(self) -> None:
        """Drop what was sent without waiting: this worker leads no longer."""
        self.log.abandon()
        with self._lock:
            self._tidying.clear()

    def _untidy(self, exists: Callable[[str], bool]) -> dict[DumpKey, KeyValue]:
        """The records that put right what the topic has."""
        right: dict[DumpKey, KeyValue] = {}
        for connector, dump in self._overtaken:
            if (known := self._known.get(connector, {}).get(dump)) is not None:
                right[known.key] = dump_record(known.key, known, bytes_max=self._record_bytes_max)
        for connector, of_connector in self._known.items():
            removed = _surplus(of_connector.values()) if exists(connector) else of_connector.values()
            right |= {known.key: dump_record(known.key, None) for known in removed}
        return right

    def _write(self, records: Sequence[KeyValue]) -> None:
        self.log.put_all([Write(key, value) for key, value in records], limit_s=WRITE_LIMIT_S)


def _is_behind(new: KnownDump, known: KnownDump) -> bool:
    """Whether a record that arrived later is older all the same. An end stays; of two that have the same revision the first counts, for the task has it."""
    if new.end is not None:
        return False
    return known.end is not None or (new.request.revision <= known.request.revision and new.request != known.request)


def _oldest_first(dumps: Iterable[KnownDump]) -> list[KnownDump]:
    return sorted(dumps, key=lambda known: (known.request.created_ms, known.request.id))


def _surplus(dumps: Collection[KnownDump]) -> list[KnownDump]:
    if len(dumps) <= ENDED_KEPT:
        return []
    ended = sorted((known for known in dumps if known.end is not None), key=_ended_ms)
    return ended[: max(0, len(ended) - ENDED_KEPT)]


def _ended_ms(known: KnownDump) -> tuple[int, int, str]:
    ended_ms = (known.end or {}).get("ended_ms")
    return ended_ms if isinstance(ended_ms, int) else known.request.created_ms, known.request.created_ms, known.request.id
