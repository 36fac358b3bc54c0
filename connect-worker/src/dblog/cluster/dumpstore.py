"""The topic of dump requests as a view: the requests for each connector, and their outcomes.

Kafka keeps the requests over restarts and changes of the leading worker. The view is bounded: of
ended requests it keeps each connector's newest. The leading worker repairs the topic
(``tidy_later``) if it has more than that, or records of a worker that was overtaken.
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
"""Ended requests kept for each connector."""
OPEN_MAX = 50
"""Unended requests of one connector. Each start of its task gets all of them."""
_REASON_CHARS = 100
"""Characters of a reason in a record that has no room for more."""
_END_BYTES = 16 * 1024
"""Bytes reserved for the final status without its tables: some numbers and a reason."""


class DumpStore:
    """Requests and their final statuses, by connector and id."""

    def __init__(self, topic: str, make_log: MakeLog, *, on_change: Callable[[DumpKey], None], record_bytes_max: int) -> None:
        """Create the view. The log's thread calls ``on_change`` for each live record."""
        self._lock = threading.Lock()
        self._known: dict[str, dict[str, KnownDump]] = {}
        self._overtaken: set[DumpKey] = set()
        """Requests whose newest record in the topic is older than the known request."""
        self._tidying: set[DumpKey] = set()
        """Requests whose records are being repaired."""
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
            self._overtaken.add(key)  # written by a worker that had already lost the lead
        else:
            of_connector[dump] = new

    def of(self, connector: str) -> list[KnownDump]:
        """Return all known requests of a connector, oldest first."""
        with self._lock:
            return _oldest_first(self._known.get(connector, {}).values())

    def open(self, connector: str) -> list[DumpRequest]:
        """Return the unended requests of a connector, oldest first."""
        return [known.request for known in self.of(connector) if known.end is None]

    def get(self, key: DumpKey) -> KnownDump | None:
        """Return one request, or None."""
        with self._lock:
            return self._known.get(key[0], {}).get(key[1])

    def connectors(self) -> list[str]:
        """Return the connectors that have requests."""
        with self._lock:
            return list(self._known)

    def size_left(self, request: DumpRequest) -> int:
        """Return the bytes left in a request's record, besides those of a short final status."""
        key, value = dump_record((request.connector, request.id), KnownDump(request))
        return self._record_bytes_max - _END_BYTES - len(key) - len(value or b"")

    def write(self, request: DumpRequest) -> None:
        """Write a new request or its next revision. Return when it has been read back."""
        self._write([dump_record((request.connector, request.id), KnownDump(request))])

    def write_later(self, request: DumpRequest) -> None:
        """Write a request or its next revision without waiting.

        ``on_change`` reports the read-back.
        """
        self.log.put_later(*dump_record((request.connector, request.id), KnownDump(request)))

    def end_later(self, known: KnownDump, end: DumpStatus) -> None:
        """Write a request's final status without waiting. ``on_change`` reports the read-back.

        The topic may accept less than the worker sends. Then the status is written without its
        tables, then with the start of its reason, and at last as a tombstone; otherwise the task
        would report forever an end that cannot be stored.
        """
        key, value = dump_record(known.key, KnownDump(known.request, end), bytes_max=self._record_bytes_max)
        bare = {**end, "tables": []}
        less = {**bare, "reason": str(end["reason"])[:_REASON_CHARS]} if end.get("reason") else bare
        smaller = [dump_record(known.key, KnownDump(known.request, each))[1] for each in (bare, less)]
        self.log.put_later(key, value, smaller=(*smaller, None))

    def forget(self, connector: str) -> None:
        """Remove all requests of a connector. Return when they are gone."""
        if removed := [dump_record(known.key, None) for known in self.of(connector)]:
            self._write(removed)

    def tidy_later(self, *, exists: Callable[[str], bool]) -> None:
        """Repair the topic without waiting. Only the leading worker may do so.

        Removes surplus requests and those of deleted connectors, and writes overtaken ones again.
        """
        with self._lock:
            records = {key: record for key, record in self._untidy(exists).items() if key not in self._tidying}
            self._tidying |= records.keys()
        for key, value in records.values():
            self.log.put_later(key, value)

    def is_untidy(self, *, exists: Callable[[str], bool]) -> bool:
        """Return True if ``tidy_later`` would write anything."""
        with self._lock:
            return not self._untidy(exists).keys() <= self._tidying

    def abandon(self) -> None:
        """Drop unacknowledged records, because this worker no longer leads."""
        self.log.abandon()
        with self._lock:
            self._tidying.clear()

    def _untidy(self, exists: Callable[[str], bool]) -> dict[DumpKey, KeyValue]:
        """Return the records that repair the topic."""
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
    """Return True if a record that arrived later is older all the same.

    A final status stays. Of two records with the same revision the first counts, because the task
    has it.
    """
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
