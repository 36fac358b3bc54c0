"""Follows a log: passes items from the dialect's reader to schemas and output, across lost
connections.

It is one thread. The dialect's reader yields finished rows and, in their order, everything that
needs a decision; nothing is skipped silently. After a lost connection the next one begins at the
position of the last item, even inside a transaction, so a reconnect neither loses nor repeats
anything. If another server's log answers, positions of the old log mean nothing. Then the task
ends, and starts again from its offset. # I4 I5
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

import structlog

from dblog.clock import Clock
from dblog.core.backoff import Backoff
from dblog.core.changes import Ignored, TruncateTable
from dblog.core.retries import Retries, RetryPolicy
from dblog.core.timeline import Position
from dblog.core.watermark import WatermarkPosition
from dblog.errors import DamagedLogError, DefiniteError, ServerChangedError, TransientError
from dblog.model import TableId
from dblog.readers.contract import LogReader, LogSource, Progress
from dblog.readers.items import Held, LogCounts, LogItem, LogRows, Moved, OnlyByDump, OtherRecord, Signals, Statement, Unusable, Watermarks
from dblog.readers.log.debezium_history import LoggedStatement
from dblog.readers.log.schemas import StatementDone
from dblog.readers.queue import QueueClosedError

log = structlog.get_logger(__name__)

RECV_TIMEOUT_S = 0.2
RECV_FULL_BYTES = 64 * 1024
"""Number of bytes in one read that shows that more is waiting, so rows are not yet pushed for
latency.
"""

GATHER_S = 0.002
"""Minimum seconds between two pushes of rows: the first rows of a quiet log leave at once, those of
a busy one several at a time. With thousands of small transactions a second, a push for each would
cost more than all the rest, in this process and in the broker (runtime/sender.py pushes them on).
"""

CHUNK_ROOM_WAIT_S, CHUNK_ROOM_WAIT_MAX_S = 0.001, 0.004
"""Shortest and longest wait for the log while rows of chunks wait for the sender. The wait doubles
while the sender has no room, because a broker may need seconds for new topics. The sender needs
more than the longest wait for what the queue holds then, so it never idles.
"""

CHUNK_ROWS_WAIT_MAX_S = 0.05
"""Maximum seconds between two parts of a chunk if the log fills the queue all the time."""

POSITION_INTERVAL_S = 1.0
"""Seconds after which a quiet log still moves the offset."""

DAMAGED_TRIES_MAX = 3
"""Number of times that a damaged event is read from the last good position: the network may be at
fault. After that it is damaged at the source.
"""

WATERMARKS_OVERDUE_S = 60.0
"""Seconds after which a missing high watermark may be lost, by a crash of the server or a failover.
Then the server is asked where its log ends.
"""

WATERMARKS_QUIET_S = 5.0
"""Seconds without data after which a log counts as read to its end. Its position may not show that,
because what was read before is not sent again.
"""

UNHEARD_S = 5.0
"""Seconds without any sign of the log after which its present content is unknown; they count as
lag.
"""

RECOVERED_S = 60.0
"""Seconds of hearing the server over one connection that end a series of failures. Progress in the
log also ends it.
"""
BACKOFF = Backoff(first_s=0.2, max_s=15.0)


_BETWEEN_PARTS = (LogRows, Moved, Watermarks)
"""Items between which rows of one chunk may leave."""


class SchemaPort(Protocol):
    """Source of table schemas (``schemas.Schemas``).

    The log reader asks for encoders by itself, through ``contract.TableResolver``.
    """

    @property
    def waits_for_end(self) -> bool:
        """True if some parked table gets a schema at a later position; read for every item of the
        log.
        """

    def take_ended(self, position: Position) -> dict[TableId, str]:
        """Return the tables whose parking ends up to this position, and why they must be dumped."""

    def statement(
        self, query: Any, text: str, *, position: Position, note: dict[str, object], begin: Any, logged: LoggedStatement | None = None
    ) -> StatementDone:
        """Apply one statement of the log, valid from ``position`` on, and return when the history
        has it.

        ``logged`` is the statement's form for Debezium's history.
        """


class Output(Protocol):
    """Destination of the log's content (``output.LogOutput``)."""

    @property
    def dump_moved(self) -> bool:
        """True if no batch has carried the newest state of dumps yet."""

    def first(self) -> None:
        """Send the records that come before the log's, once."""

    def moved(self, position: object) -> None:
        """Note the position that the log has reached; the next batch carries it."""

    def rows(self, item: LogRows) -> None:
        """Send rows in the order of the log."""

    def watermark(self, name: str, token: str, at: WatermarkPosition) -> None:
        """Take a row of the watermark table."""

    @property
    def chunk_rows_wait(self) -> bool:
        """True while rows of closed windows have not left."""

    def send_chunk_rows(self, *, waited_max_s: float | None = None) -> bool:
        """Send rows of closed windows if there is room, or if none has left for ``waited_max_s``.

        Return True if some were sent.
        """

    def send_all_chunk_rows(self) -> None:
        """Send all rows of closed windows."""

    def signals(self, item: Signals) -> None:
        """Take the rows of a signal table; the batch with their position carries what
        they ask for.
        """

    def passed(self, at: Progress, *, between: bool, quiet: bool, not_before: Mapping[TableId, Position]) -> None:
        """Note that everything up to ``at`` has been passed on.

        ``between`` is True if nothing after it has been, not even a part of a transaction.
        ``quiet`` is True if the log has nothing more at the moment. ``not_before`` are tables with
        a dump that has to show everything up to a later position.
        """

    def other(self, item: OtherRecord) -> None:
        """Send a record that belongs to no table."""

    def statement(self, statement: Statement, done: StatementDone) -> None:
        """Pass on that tables have changed."""

    def heartbeat(self) -> None:
        """Send a heartbeat."""

    def push(self) -> None:
        """Send the position without a record."""

    def hold(self, tables: frozenset[TableId], reason: str) -> None:
        """Replace the set of held tables: discard their windows and refuse new ones."""

    def must_dump(self, tables: Iterable[TableId] | None, why: str, *, repairs: bool = False) -> None:
        """Dump tables whose rows only a dump can bring or, with ``repairs``, remove.

        Raise DefiniteError if they may not be dumped.
        """

    def tables_back(self, tables: Mapping[TableId, str]) -> None:
        """Note that tables have a schema again after their rows were skipped."""

    def has_overdue(self, *, submitted_before_s: float) -> bool:
        """Return True if a window submitted before ``submitted_before_s`` waits for its high
        watermark.
        """

    def read_overdue_again(self, *, submitted_before_s: float) -> None:
        """Discard the windows submitted before ``submitted_before_s``; their watermarks will not
        come.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """Connector options of the stream; ``heartbeat_interval_s`` 0 sends no heartbeats."""

    heartbeat_interval_s: float = 0.0
    skips_bad_events: bool = False
    skips_unreadable: bool = False
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)


@dataclass(frozen=True, slots=True)
class _Awaited:
    """Deadline for overdue watermarks: they are lost once the log has been read up to ``end``.

    It covers windows submitted before ``submitted_before_s``; ``end`` was asked for at
    ``asked_at_s``.
    """

    end: Position
    submitted_before_s: float
    asked_at_s: float


class OpenLog:
    """The log reader that is open now, if any. Any thread may wake it."""

    def __init__(self) -> None:
        self.reader: LogReader | None = None

    def wake(self) -> None:
        """Wake the log thread if it waits for the log."""
        reader = self.reader
        if reader is not None:
            reader.wake()


class LogStream:
    """Log thread. It reads from ``progress`` and advances it. ``log`` holds its open reader."""

    def __init__(
        self,
        source: LogSource,
        progress: Progress,
        *,
        schemas: SchemaPort,
        output: Output,
        clock: Clock,
        options: StreamOptions,
        log: OpenLog | None = None,
    ) -> None:
        self._log = log or OpenLog()
        self._source = source
        self._at = progress
        self._schemas = schemas
        self._output = output
        self._clock = clock
        self._options = options
        self._unreadable: frozenset[Any] = frozenset()
        self._dumped_behind: dict[TableId, Position] = {}
        """Tables that are dumped again, with the end of the log when that was ordered."""
        self._awaited: _Awaited | None = None
        self._damaged = 0
        self._damaged_at: object = None
        self._stop = threading.Event()
        self._data_at_s = 0.0
        self._looked_for_watermarks_s = 0.0
        self._moved_at_s = 0.0
        self._beat_at_s = 0.0
        self._unsent = False
        self._room_wait_s = CHUNK_ROOM_WAIT_S
        self._caught_up = False
        self._caught_up_at_s = clock.monotonic_s()
        self._end_reached = False
        """True once this run has read the log to its end."""
        self._heard_at_s = clock.monotonic_s()
        self._connected_at_s: float | None = None
        self.connected = False
        self._waits: str | None = None
        self._silent_since_us: int | None = None
        self.reconnects_total = 0
        self.records_total = 0
        self.skipped_total = 0
        self.source_ts_us: int | None = None
        self.damaged_total = 0
        """Number of damaged events that were skipped."""
        self.ddl_total = 0
        self.truncates_total = 0
        self.ddl_at_us: int | None = None
        self.heard_at_us = clock.now_us()
        self.event_at_us: int | None = None
        self.record_at_us: int | None = None
        self.beat_at_us: int | None = None
        self._counted = LogCounts()

    @property
    def silent(self) -> bool:
        """True if a connected server has missed its heartbeats."""
        reader = self._log.reader
        return reader is not None and reader.is_silent

    @property
    def waits(self) -> str | None:
        """Sentence that says why the log is not read; None while it is.

        The connection is lost, or the server does not answer on it.
        """
        since_us = self._silent_since_us
        if self._waits is not None or since_us is None:
            return self._waits
        # Name the moment, not the duration: a text that changes each second would be written to the
        # status topic each second.
        since = datetime.fromtimestamp(since_us / 1_000_000, UTC)
        return (
            f"the log is not read: the server does not answer (overdue since {since:%Y-%m-%d %H:%M:%S} UTC); it hangs, or something between "
            "drops packets, or it reads through a large transaction that has nothing for this connector. The connector goes on when it answers"
        )

    def counts(self) -> LogCounts:
        """Return the counts over all connections of this run."""
        reader = self._log.reader
        return self._counted if reader is None else self._counted.plus(reader.counts)

    @property
    def progress(self) -> Progress:
        """Progress of the reader, which advances while the log thread runs."""
        return self._at

    def lag_ms(self) -> float:
        """Return the lag in milliseconds: the age of the newest row read, 0 once the log has
        nothing more.

        Whatever is unread after an end of the log was committed after that end. So the lag is at
        most the time since then: an idle server's own events do not make old rows late.

        While nothing is heard of the log (no connection, signs of life overdue, a full queue), the
        lag is at least as long as that.
        """
        unheard_s = self._clock.monotonic_s() - self._heard_at_s
        least_ms = unheard_s * 1000 if unheard_s > UNHEARD_S else 0.0
        # Rows of tables that are not captured count too; there may be no others.
        newest_us = max(self.source_ts_us or 0, self._at.source_ts_us)
        if self._caught_up or not newest_us:
            return least_ms
        age_ms = (self._clock.now_us() - newest_us) / 1000
        if self._end_reached:
            age_ms = min(age_ms, (self._clock.monotonic_s() - self._caught_up_at_s) * 1000)
        return max(least_ms, age_ms)

    def behind_ms(self) -> float:
        """Return for how many milliseconds the end of the log has not been reached.

        The value is at most the lag, so that differing clocks do not raise it.
        """
        return min(self.lag_ms(), (self._clock.monotonic_s() - self._caught_up_at_s) * 1000)

    def run(self) -> None:
        """Read until stopped. Raise DefiniteError, or ServerChangedError, which needs a restart of
        the task.

        Every log line of this thread gets the position; its text is made when the line is.
        """
        with structlog.contextvars.bound_contextvars(position=self._at):
            self._run()

    def _run(self) -> None:
        retries = Retries(self._options.retry_policy.with_backoff(BACKOFF))
        self._beat_at_s = self._moved_at_s = self._clock.monotonic_s()
        while not self._stop.is_set():
            self._connected_at_s, began_at = None, self._at.resume_point
            try:
                self._output.first()
                self._read()
            except QueueClosedError:
                return
            except ServerChangedError:
                if self._stop.is_set():
                    return
                raise
            except DamagedLogError as e:
                if self._stop.is_set():
                    return
                self._count_damage(e)
                self._connect_again(e, BACKOFF.delay_s(self._damaged + 1, chance=random.random()))  # noqa: S311 - jitter, no secret
            except TransientError as e:
                if self._stop.is_set():
                    return
                if self._at.resume_point != began_at or self._heard_for_s() > RECOVERED_S:
                    retries.succeeded()
                self._connect_again(e, retries.failed(e, now_s=self._clock.monotonic_s(), chance=random.random()))  # noqa: S311
            finally:
                self.disconnect()

    def stop(self) -> None:
        """Make ``run`` return soon."""
        self._stop.set()
        self.disconnect()

    def _heard_for_s(self) -> float:
        """Return the seconds over which the last connection has heard the server."""
        return 0.0 if self._connected_at_s is None else self._heard_at_s - self._connected_at_s

    def _connect_again(self, error: Exception, delay_s: float) -> None:
        self.reconnects_total += 1
        self._waits = f"the log is not read: {error}"
        self._silent_since_us = None
        log.warning("log connection lost, connecting again", reason=str(error), delay_s=round(delay_s, 2))
        self._stop.wait(delay_s)

    def disconnect(self) -> None:
        """Close the connection; a running stream opens the next one. Any thread may call it."""
        reader, self._log.reader = self._log.reader, None
        self.connected = False
        if reader is not None:
            self._counted = self._counted.plus(reader.counts)
            reader.close()

    def _read(self) -> None:
        reader = self._log.reader = self._source.open(self._at, unreadable=self._unreadable)
        self.connected = True
        self._connected_at_s = self._data_at_s = self._looked_for_watermarks_s = self._clock.monotonic_s()
        pushed_at_s = -GATHER_S
        while not self._stop.is_set():
            rest_s = pushed_at_s + GATHER_S - self._clock.monotonic_s()
            if rest_s > 0:
                self._stop.wait(rest_s)
            wait_s = self._wait_s()
            received_bytes = reader.receive(wait_s)
            # Checked only if nothing has arrived: a thread that waits for room in the queue reads
            # nothing either.
            if received_bytes or not reader.is_silent:
                self._silent_since_us = None
            elif self._silent_since_us is None:
                self._silent_since_us = self._clock.now_us()
            # Silence for a moment, while rows of chunks wait, does not mean the end of the log.
            if received_bytes or wait_s >= RECV_TIMEOUT_S or self._clock.monotonic_s() - self._data_at_s >= RECV_TIMEOUT_S:
                self._caught_up = not received_bytes
            if received_bytes or not reader.is_silent:
                self._heard_at_s = self._clock.monotonic_s()
                if self._caught_up:
                    self._caught_up_at_s, self._end_reached = self._heard_at_s, True
                self.heard_at_us = self._clock.now_us()
            if received_bytes:
                self._data_at_s = self._heard_at_s
                self._waits = None
                self._take(reader, reader.items())
            # A catch-up takes hours; heartbeats and offsets are due during it as well.
            if received_bytes < RECV_FULL_BYTES or self._duties_are_due():
                self._take(reader, reader.flush())
                self._output.passed(self._at, between=self._at.is_between, quiet=not received_bytes, not_before=self._dumped_behind)
                self._duties()
                if received_bytes:
                    pushed_at_s = self._clock.monotonic_s()

    def _wait_s(self) -> float:
        """Return the seconds to wait for the log, after sending as many chunk rows as the sender
        takes.

        The log does not wait for the sender.
        """
        if not self._output.chunk_rows_wait:
            self._room_wait_s = CHUNK_ROOM_WAIT_S
            return RECV_TIMEOUT_S
        if self._output.send_chunk_rows(waited_max_s=CHUNK_ROWS_WAIT_MAX_S):
            self._room_wait_s = CHUNK_ROOM_WAIT_S
            return 0.0
        wait_s, self._room_wait_s = self._room_wait_s, min(2 * self._room_wait_s, CHUNK_ROOM_WAIT_MAX_S)
        return wait_s

    def _count_damage(self, error: DamagedLogError) -> None:
        """Count a read of a damaged event from the same position.

        After enough reads raise the error, or skip the event from now on if that is configured and
        harms no other event.
        """
        point = self._at.resume_point
        self._damaged = self._damaged + 1 if point == self._damaged_at else 1
        self._damaged_at = point
        skips = self._options.skips_unreadable and error.event_at is not None and error.event_at not in self._unreadable
        if self._damaged > DAMAGED_TRIES_MAX and skips:
            self._unreadable |= {error.event_at}
            self._damaged = 0
            self.skipped_total += 1
            self.damaged_total += 1
            log.warning(
                "a damaged event is skipped (event.deserialization.failure.handling.mode)", reason=str(error), skipped=self.skipped_total
            )
        elif self._damaged > DAMAGED_TRIES_MAX:
            message = f"{error} (read {self._damaged} times from {self._at})"
            raise DamagedLogError(message) from error

    def _take(self, reader: LogReader, items: Iterator[LogItem]) -> None:
        for item in items:
            self.event_at_us = self.heard_at_us
            if not isinstance(item, _BETWEEN_PARTS):
                self._output.send_all_chunk_rows()  # the item may change the tables of their windows
            match item:
                case LogRows():
                    self._move(reader, item.position, moves=item.moves)
                    self._rows(item)
                case Moved():
                    self._move(reader, item.position, moves=True)
                case Watermarks():
                    self._move(reader, item.position, moves=item.moves)
                    for name, token in item.rows:
                        self._output.watermark(name, token, item.at)
                case Signals():
                    self._move(reader, item.position, moves=item.moves)
                    if item.moves:  # otherwise this run has taken them before
                        self._output.signals(item)
                case OtherRecord():
                    self._move(reader, item.position, moves=item.moves)
                    self._output.other(item)
                    self._sent()
                case Statement():
                    self._move(reader, item.position, moves=item.moves)
                    self._statement(reader, item)
                case Held():
                    self._output.hold(item.tables, item.reason)
                case OnlyByDump():
                    self._only_by_dump(item)
                case Unusable():
                    self._unusable(item)
            # Items before this position (a table released, rows that only a dump brings) count as
            # passed once the position is passed.
            moved = isinstance(item, Moved) or getattr(item, "moves", False)
            self._output.passed(self._at, between=moved and self._at.is_between, quiet=False, not_before=self._dumped_behind)

    def _move(self, reader: LogReader, position: Any, *, moves: bool) -> None:
        """Advance to the position of an item if ``moves``, that is, if a restart can begin there.

        Before that, order dumps of the tables whose parking ends up to there. A kill does not lose
        the order, because the position is not passed yet.
        """
        if self._schemas.waits_for_end:
            ended = self._schemas.take_ended(self._at.sequence_of(position))
            if ended:
                self._output.send_all_chunk_rows()
                reader.forget_tables()
                self._output.tables_back(ended)
        if moves:
            self._at.advance(position)
            self._output.moved(position)
            self._unsent = True

    def _rows(self, item: LogRows) -> None:
        if item.source_ts_us:
            self.source_ts_us = item.source_ts_us
        if not item.records:
            return
        self.records_total += item.records
        self.record_at_us = self.heard_at_us
        self._output.rows(item)
        self._sent()

    def _statement(self, reader: LogReader, item: Statement) -> None:
        logged = LoggedStatement(
            text=item.text, database=item.database, after=self._at, ts_ms=(self._at.source_ts_us or self.heard_at_us) // 1000
        )
        try:
            done = self._schemas.statement(
                item.statement, item.text, position=item.valid_from, note=item.note, begin=item.begin, logged=logged
            )
        except DefiniteError as e:
            message = f"{e} (statement at {item.where})"
            raise DefiniteError(message) from e
        if all(isinstance(change, Ignored) for change in done.changes):
            return
        self.ddl_total += 1
        self.ddl_at_us = self.heard_at_us
        self.truncates_total += sum(isinstance(change, TruncateTable) for change in done.changes)
        log.info("schema change in the log", tables=[str(t) for t in done.touched], position=item.where)
        reader.forget_tables()
        self._output.statement(item, done)
        self._sent()

    def _only_by_dump(self, item: OnlyByDump) -> None:
        """Order a dump for rows that only a dump can bring.

        If the configuration excludes it, end the task or skip the rows, as configured.
        """
        tables = None if item.tables is None else list(item.tables)
        if item.behind is not None and tables is not None:
            tables = [table for table in tables if item.behind > self._dumped_behind.get(table, (0, 0))]
            if not tables:
                return  # the dump that was ordered reads after this row
            self._dumped_behind.update(dict.fromkeys(tables, max(item.behind, self._log_end() or item.behind)))
        try:
            self._output.must_dump(tables, item.reason, repairs=item.repairs)
        except DefiniteError as e:
            self._unusable(Unusable(error=e))

    def _unusable(self, item: Unusable) -> None:
        """Skip an item that cannot become a record, if configured so; else raise its error. # I5"""
        if self._options.skips_bad_events:
            option = "event.processing.failure.handling.mode"
        elif not item.decoded and self._options.skips_unreadable:
            option = "event.deserialization.failure.handling.mode"
        else:
            raise item.error
        self.skipped_total += 1
        log.warning("an event is skipped", option=option, reason=str(item.error), skipped=self.skipped_total)

    def _sent(self) -> None:
        self._unsent = False
        self._moved_at_s = self._clock.monotonic_s()

    def _duties_are_due(self) -> bool:
        """Return True if a heartbeat or a position is due in a log that always has more to read."""
        now_s = self._clock.monotonic_s()
        return self._heartbeat_is_due(now_s) or now_s - self._moved_at_s >= POSITION_INTERVAL_S

    def _heartbeat_is_due(self, now_s: float) -> bool:
        interval_s = self._options.heartbeat_interval_s
        return bool(interval_s) and now_s - self._beat_at_s >= interval_s

    def _duties(self) -> None:
        """Do what is due by time: discard windows with lost watermarks, send a heartbeat or the
        position.
        """
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_for_watermarks_s >= POSITION_INTERVAL_S:
            self._looked_for_watermarks_s = now_s
            self._look_for_watermarks(now_s)
        if self._heartbeat_is_due(now_s):
            self._beat_at_s = now_s
            self.beat_at_us = self._clock.now_us()
            self._output.heartbeat()
            self._source.beat()
            self._sent()
        elif (self._unsent or self._output.dump_moved) and now_s - self._moved_at_s >= POSITION_INTERVAL_S:
            self._output.push()
            self._sent()

    def _look_for_watermarks(self, now_s: float) -> None:
        """Discard windows whose watermark is lost, so that no wait for a watermark is endless.

        If watermarks are overdue, ask the server where its log ends. A watermark that is not found
        up to there will never come. The age of the newest row cannot show that, because clocks
        differ.
        """
        if self._awaited is None:
            overdue_s = now_s - WATERMARKS_OVERDUE_S
            if not self._output.has_overdue(submitted_before_s=overdue_s):
                return
            end = self._log_end()
            if end is None:
                return
            self._awaited = _Awaited(end, overdue_s, now_s)
        awaited = self._awaited
        quiet = self._caught_up and now_s - max(awaited.asked_at_s, self._data_at_s) > WATERMARKS_QUIET_S
        if quiet or self._at.sequence >= awaited.end:
            self._awaited = None
            self._output.read_overdue_again(submitted_before_s=awaited.submitted_before_s)

    def _log_end(self) -> Position | None:
        """Return the end of the server's log, None if nobody answers. Another server's answer is an
        error.
        """
        try:
            return self._source.end(epoch=self._at.epoch)
        except ServerChangedError:
            raise
        except TransientError as e:
            log.info("the server does not report how far its log goes", reason=str(e))
            return None
