"""The source task that the supervisor runs, for any dialect. Its two phases, starting and running,
are separate types.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

import structlog

from dblog.clock import Clock
from dblog.config.options import Settings
from dblog.core.dumprequests import DumpRequest
from dblog.errors import DblogError, discreet
from dblog.model import Batch, Headers, OffsetMap
from dblog.readers.contract import Source
from dblog.readers.log.history import StoredHistory
from dblog.readers.records import Records
from dblog.readers.run.dumpdesk import DumpDesk
from dblog.readers.run.offset import SourceOffset
from dblog.readers.run.running import Running
from dblog.readers.run.starting import Starting
from dblog.readers.signals.signal_file import SignalFileSettings
from dblog.readers.signals.signal_topic import SignalTopicSettings
from dblog.readers.standing_warnings import StandingWarnings
from dblog.readers.tally import TABLES_MAX

log = structlog.get_logger(__name__)


class ReaderTask:
    """The only task of one connector. Implements the supervisor's ``SourceTask``.

    ``requests`` are the requested dumps. ``signal_topic`` and ``signal_file`` are further channels
    of signals. ``tables_max`` is the number of tables and topics with metrics of their own.
    ``warnings`` collects warnings for an operator; None discards them.
    """

    def __init__(
        self,
        *,
        connector: str,
        settings: Settings,
        source: Source,
        records: Records,
        history: StoredHistory,
        clock: Clock,
        tables_max: int = TABLES_MAX,
        requests: Sequence[DumpRequest] = (),
        warnings: StandingWarnings | None = None,
        signal_topic: SignalTopicSettings | None = None,
        signal_file: SignalFileSettings | None = None,
    ) -> None:
        self._starting = Starting(
            connector=connector,
            run=uuid.uuid4().hex[:12],
            settings=settings,
            source=source,
            records=records,
            history=history,
            clock=clock,
            tables_max=tables_max,
            warnings=warnings or StandingWarnings(),
            signal_topic=signal_topic,
            signal_file=signal_file,
        )
        self._source = source
        self._requests = requests
        self._running: Running | None = None
        self.partition: Mapping[str, str] = {"server": settings.text("topic.prefix")}
        self.context_headers: Headers = records.context_headers

    @property
    def running(self) -> Running:
        """The running task; valid after ``start``."""
        assert self._running is not None, "asked only of a task that has started"
        return self._running

    @property
    def fold(self) -> SourceOffset:
        """Fold of the acknowledged steps into an offset; valid after ``start``."""
        return self.running.fold

    @property
    def desk(self) -> DumpDesk | None:
        """Access to the task's dumps; None before ``start``."""
        return None if self._running is None else self._running.desk

    def start(self, offset: OffsetMap | None) -> None:
        """Connect, check, recover, and start the threads.

        Raise the error if the database, Kafka or the configuration make that impossible.
        """
        self._running = self._starting.prepare(offset, self._requests)
        self._running.begin()

    def poll(self, *, timeout_s: float, records_max: int, bytes_max: int) -> list[Batch]:
        """Return finished batches; raise the first error of any thread."""
        return self.running.poll(timeout_s=timeout_s, records_max=records_max, bytes_max=bytes_max)

    def commit(self, offset: OffsetMap) -> None:
        """Note that the offset is stored."""
        self.running.commit(offset)

    def stop(self) -> None:
        """End the threads and close the connections. May be called in any state, and twice.

        A start that fails has closed what it opened.
        """
        if self._running is not None:
            self._running.stop()

    def leave(self) -> None:
        """Stop as ordered after everything is stored, and release what the server keeps for the
        connector.

        It is released only if configured, and a failure is logged.
        """
        give_up = self._source.leaving()
        if give_up is None:
            return  # stopping here would wait for a log thread that waits for something else
        self.stop()
        try:
            give_up()
        except DblogError as e:
            log.warning("resources that the server keeps for the connector were not released", reason=discreet(e))

    def take_topics_ahead(self) -> list[str]:
        """Return the topics that will be needed soon, since the last call."""
        return self.running.take_topics_ahead()

    def waits_for(self) -> str | None:
        """Return a sentence that says why the log is not read; None while it is."""
        return None if self._running is None else self._running.waits_for

    def metrics(self) -> dict[str, float]:
        """Return the metrics by name; none before ``start``."""
        return {} if self._running is None else self._running.metrics()
