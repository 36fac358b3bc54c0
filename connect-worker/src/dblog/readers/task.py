"""The source task that the supervisor runs, of any dialect: it starts, or it runs, and each of the
two is a type of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence

import structlog

from dblog.clock import Clock
from dblog.config.options import Settings
from dblog.core.dumprequests import DumpRequest
from dblog.errors import DblogError, discreet
from dblog.model import Batch, Headers, OffsetMap
from dblog.readers.contract import Source
from dblog.readers.dumpdesk import DumpDesk
from dblog.readers.history import SchemaHistory
from dblog.readers.offset import SourceOffset
from dblog.readers.records import Records
from dblog.readers.running import Running
from dblog.readers.signal_file import SignalFileSettings
from dblog.readers.signal_topic import SignalTopicSettings
from dblog.readers.standing_warnings import StandingWarnings
from dblog.readers.starting import Starting
from dblog.readers.tally import TABLES_MAX

log = structlog.get_logger(__name__)


class ReaderTask:
    """One connector's only task. Implements the supervisor's ``SourceTask``."""

    def __init__(
        self,
        *,
        connector: str,
        settings: Settings,
        source: Source,
        records: Records,
        history_of: Callable[[], SchemaHistory],
        clock: Clock,
        tables_max: int = TABLES_MAX,
        requests: Sequence[DumpRequest] = (),
        warnings: StandingWarnings | None = None,
        signal_topic: SignalTopicSettings | None = None,
        signal_file: SignalFileSettings | None = None,
    ) -> None:
        """``requests``: the dumps that are asked for. ``signal_topic``, ``signal_file``: where signals are read besides. ``tables_max``: how many tables and
        topics have numbers of their own in the metrics. ``warnings`` takes what an operator has to know while the task runs; None: nobody reads them.
        """
        self._starting = Starting(
            connector=connector,
            run=uuid.uuid4().hex[:12],
            settings=settings,
            source=source,
            records=records,
            history_of=history_of,
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
        """The task once it has started."""
        assert self._running is not None, "asked only of a task that has started"
        return self._running

    @property
    def fold(self) -> SourceOffset:
        """How far it has come; valid once started."""
        return self.running.fold

    @property
    def desk(self) -> DumpDesk | None:
        """Where it is asked about dumps; None before it has started."""
        return None if self._running is None else self._running.desk

    def start(self, offset: OffsetMap | None) -> None:
        """Connect, check, recover, run. Raises what the database, Kafka or the configuration make impossible."""
        self._running = self._starting.prepare(offset, self._requests)
        self._running.begin()

    def poll(self, *, timeout_s: float, records_max: int, bytes_max: int) -> list[Batch]:
        """Finished batches; raises the first error of any thread."""
        return self.running.poll(timeout_s=timeout_s, records_max=records_max, bytes_max=bytes_max)

    def commit(self, offset: OffsetMap) -> None:
        """The offset is stored."""
        self.running.commit(offset)

    def stop(self) -> None:
        """End the threads and close the connections. From any state, also twice: a start that fails has closed what it opened."""
        if self._running is not None:
            self._running.stop()

    def leave(self) -> None:
        """Stop as ordered, with all stored. What the server keeps for the connector is given up where it is configured so, and if it can be."""
        give_up = self._source.leaving()
        if give_up is None:
            return  # a log thread that waits for somebody would be waited for
        self.stop()
        try:
            give_up()
        except DblogError as e:
            log.warning("what the server keeps for the connector stays there", reason=discreet(e))

    def take_topics_ahead(self) -> list[str]:
        """Topics whose first records come soon, since the last call."""
        return self.running.take_topics_ahead()

    def waits_for(self) -> str | None:
        """What keeps the log from being read, None while nothing does."""
        return None if self._running is None else self._running.waits_for

    def metrics(self) -> dict[str, float]:
        """Numbers for the herder; none before it has started."""
        return {} if self._running is None else self._running.metrics()
