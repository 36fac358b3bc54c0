"""Follows a binlog: bytes from the server through the log decoder to the interleaver, across lost connections.

One thread. The decoder hands out rows that are finished already and, in their place in the order, every event it does not deal with by itself; here each of
those is known by name or stops the task: nothing is skipped in silence. A lost connection is opened again at the place of the last item, inside a
transaction too, so nothing is lost or sent twice by a reconnect; unless another server's log answers, where no place of the old one means anything: then
the task ends, to start again from its offset. # I4 I5
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import structlog

from dblog.clock import Clock
from dblog.codecs.logitems import LogEvent, LogOffset, LogRows
from dblog.codecs.rowplan import RowEncoder
from dblog.codecs.transactions import TransactionBorder
from dblog.core.backoff import Backoff
from dblog.core.changes import Change, Ignored
from dblog.core.timeline import Position
from dblog.core.watermark import MarkPosition
from dblog.dialects.mysql import events
from dblog.dialects.mysql.connect import TableChangedError
from dblog.dialects.mysql.offset import POSITION_BITS, LogProgress, schema_position, sequence_of
from dblog.errors import BadRowsError, DamagedLogError, DefiniteError, ServerChangedError, TransientError
from dblog.model import Segment, TableId
from dblog.readers.interleaved import Interleaver
from dblog.readers.prepared import Ended, Prepared
from dblog.readers.queue import QueueClosedError
from dblog.readers.reread import Reread, counted
from dblog.readers.schemas import Schemas

log = structlog.get_logger(__name__)

RECV_TIMEOUT_S = 0.2
RECV_FULL_BYTES = 64 * 1024
"""A read of this size means that more is waiting: rows are not pushed out for latency yet."""

GATHER_S = 0.002
"""Rows are pushed out at most this often: the first of a quiet log at once, those of a busy one some at a time. At thousands of small transactions a second
a push for each would cost more than all the rest, in this process and in the broker (runtime/sender.py pushes them on)."""

POSITION_INTERVAL_S = 1.0
"""A quiet log still moves the offset this often."""

DAMAGED_TRIES_MAX = 3
"""A damaged event is read again so often, from the last good place: a cable may be at fault. Then it is so at the source."""

MARKS_OVERDUE_S = 60.0
"""A high mark that has not come after this time may be lost, by a crash of the server or a failover: the server is asked how far its log goes."""

MARKS_QUIET_S = 5.0
"""A log that has nothing more for so long has been read to its end, also where its place does not say so, for the server sends nothing of old GTIDs."""

UNHEARD_S = 5.0
"""When nothing has been heard of the log for so long, what it holds by now is not known, and counts as lag."""

RECOVERED_S = 60.0
"""A connection that has lasted so long ends a series of failures."""


class LogSource(Protocol):
    """An open log connection."""

    def recv(self, timeout_s: float) -> bytes:
        """Bytes, b"" when none came in time; TransientError when the connection is lost."""

    @property
    def is_silent(self) -> bool:
        """Whether the server's heartbeats are overdue."""

    def close(self) -> None:
        """Give up the connection, also from another thread."""


StatementRecords = Callable[[LogEvent, events.Query, str, tuple[Change, ...]], list[Segment]]
"""The records that one DDL statement leaves: schema changes, truncates."""

BorderRecords = Callable[[tuple[TransactionBorder, ...]], Segment]
"""The records of transactions that begin and end."""


class LogStream:
    """The log thread. ``open_log`` connects at a progress, ``new_decoder`` gives a decoder that has not been started, ``first`` are
    records ahead of the log's.
    """

    def __init__(
        self,
        *,
        open_log: Callable[[LogProgress], LogSource],
        new_decoder: Callable[[], Any],
        end_of_log: Callable[[int, bytes, str], Exception],
        progress: LogProgress,
        schemas: Schemas,
        interleaver: Interleaver,
        mark_name: str,
        statement_records: StatementRecords,
        heartbeat: Callable[[], Segment] | None,
        heartbeat_interval_s: float,
        clock: Clock,
        on_tables_changed: Callable[[Iterable[Change], dict[TableId, str]], None],
        on_tables_back: Callable[[dict[TableId, str]], None],
        dump_again: Callable[[Iterable[TableId] | None, str], None],
        border_records: BorderRecords | None = None,
        reread: Reread | None = None,
        tables_released: Callable[[], None] = lambda: None,
        server_place: Callable[[], tuple[str, int]] | None = None,
        first: Iterable[Segment] = (),
        skips_bad_events: bool = False,
        skips_unreadable: bool = False,
    ) -> None:
        self._open_log = open_log
        self._new_decoder = new_decoder
        self._end_of_log = end_of_log
        self._at = progress
        self._schemas = schemas
        self._interleaver = interleaver
        self._mark_name = mark_name
        self._statement_records = statement_records
        self._border_records = border_records
        self._heartbeat = heartbeat
        self._heartbeat_interval_s = heartbeat_interval_s
        self._clock = clock
        self._on_tables_changed = on_tables_changed
        self._on_tables_back = on_tables_back
        self._first = iter(first)
        self._skips_bad_events = skips_bad_events
        self._skips_unreadable = skips_unreadable
        self._unreadable: frozenset[tuple[str, int]] = frozenset()
        self._dump_again = dump_again
        self._reread = reread
        self._dumped_behind: dict[TableId, Position] = {}
        """Tables that are dumped again, with the end that the log had then."""
        self._prepared = Prepared(progress.prepared, complete=progress.epoch > 0)
        self._tables_released = tables_released
        self._server_place = server_place
        self._marks_by: tuple[tuple[int, int], float, float] | None = None
        self._damaged = 0
        self._damaged_at: tuple[str, int, int] | None = None
        self.skipped_total = 0
        self._stop = threading.Event()
        self._connection: LogSource | None = None
        self._decoder: Any = None
        self._data_at_s = 0.0
        self._looked_for_marks_s = 0.0
        self._moved_at_s = 0.0
        self._beat_at_s = 0.0
        self._unsent = False
        self._caught_up = False
        self._resumes = True
        self._heard_at_s = clock.monotonic_s()
        self.connected = False
        self.waits: str | None = None
        """Why the log is not read, while it is not."""
        self.reconnects_total = 0
        self.records_total = 0
        self.source_ts_us: int | None = None

    @property
    def place(self) -> tuple[str, int]:
        """File and position read up to."""
        return self._at.file, self._at.pos

    def lag_ms(self) -> float:
        """How far the reading is behind the source: the age of the newest row that was read, 0 once the log has nothing more.

        While nothing is heard of the log (no connection, heartbeats overdue, a full queue) it is at least as long as that lasts.
        """
        unheard_s = self._clock.monotonic_s() - self._heard_at_s
        least_ms = unheard_s * 1000 if unheard_s > UNHEARD_S else 0.0
        newest_us = max(self.source_ts_us or 0, self._at.ts_sec * 1_000_000)  # also of what is not captured, which may be all there is
        if self._caught_up or not newest_us:
            return least_ms
        return max(least_ms, (self._clock.now_us() - newest_us) / 1000)

    def left_out(self, table: TableId) -> None:
        """A table map has passed whose rows are not sent."""
        self._prepared.left_out(table)

    def run(self) -> None:
        """Read until stopped; raises DefiniteError, or ServerChangedError, which only a restart of the task can cure."""
        backoff, failures = Backoff(first_s=0.2, max_s=15.0), 0
        self._beat_at_s = self._moved_at_s = self._clock.monotonic_s()
        self._hold_prepared()
        while not self._stop.is_set():
            connected_at_s = self._clock.monotonic_s()
            try:
                for segment in self._first:
                    self._interleaver.extra([segment])
                self._read()
            except QueueClosedError:
                return
            except ServerChangedError:
                if self._stop.is_set():
                    return
                raise
            except (TransientError, DamagedLogError) as e:
                if self._stop.is_set():
                    return
                if isinstance(e, DamagedLogError):
                    self._count_damage(e)
                if self._clock.monotonic_s() - connected_at_s > RECOVERED_S:
                    failures = 0
                failures += 1
                self.reconnects_total += 1
                delay_s = backoff.delay_s(failures, chance=random.random())  # noqa: S311 - jitter, no secret
                self.waits = f"the log is not read: {e}"
                log.warning("log connection lost, connecting again", reason=str(e), delay_s=round(delay_s, 2), failures=failures)
                self._stop.wait(delay_s)
            finally:
                self._disconnect()

    def stop(self) -> None:
        """Make ``run`` return soon."""
        self._stop.set()
        self._disconnect()

    def _read(self) -> None:
        at = self._at
        connection = self._connection = self._open_log(at)
        decoder = self._decoder = self._new_decoder()
        decoder.start(
            at.file,
            at.pos,
            skip_events=at.skip_events,
            skip_rows=at.row,
            epoch=at.epoch,
            now_us=self._clock.now_us,
            unreadable=self._unreadable,
            transaction=at.transaction,
        )
        self._resumes = True
        self.connected = True
        self._data_at_s = self._looked_for_marks_s = self._clock.monotonic_s()
        log.info(
            "reading the log", file=at.file, pos=at.pos, gtids=None if at.gtids is None else at.gtids.text(), skip_events=at.skip_events
        )
        pushed_at_s = -GATHER_S
        while not self._stop.is_set():
            rest_s = pushed_at_s + GATHER_S - self._clock.monotonic_s()
            if rest_s > 0:
                self._stop.wait(rest_s)
            data = connection.recv(RECV_TIMEOUT_S)
            self._caught_up = not data
            if data or not connection.is_silent:
                self._heard_at_s = self._clock.monotonic_s()
            if data:
                self._data_at_s = self._heard_at_s
                self.waits = None
                if self._reread is not None:
                    self._reread.received()
                self._feed(data)
                while decoder.held:  # it stops behind an event that may change how the next ones are read
                    self._feed(b"")
            # A catch-up lasts for hours, and heartbeats and offsets are due in it as well.
            if len(data) < RECV_FULL_BYTES or self._duties_are_due():
                self._take(decoder.flush())
                self._duties()
                if data:
                    pushed_at_s = self._clock.monotonic_s()

    def _feed(self, data: bytes) -> None:
        try:
            items = self._decoder.feed(data)
        except BadRowsError as e:
            if not self._skips_bad_events and not self._skips_unreadable:
                raise
            option = "event.processing.failure.handling.mode" if self._skips_bad_events else "event.deserialization.failure.handling.mode"
            self.skipped_total += 1
            log.warning("a rows event is skipped", option=option, reason=str(e), skipped=self.skipped_total)
            self._decoder.leave_out()
            return
        self._take(items)

    def _count_damage(self, error: DamagedLogError) -> None:
        """When the log has been read again from the same place often enough: raise it, or leave the event out from now on if that is wanted and harms
        no other event.
        """
        place = (self._at.file, self._at.pos, self._at.skip_events)
        self._damaged = self._damaged + 1 if place == self._damaged_at else 1
        self._damaged_at = place
        if self._damaged > DAMAGED_TRIES_MAX and self._skips_unreadable and error.place is not None:
            self._unreadable |= {error.place}
            self._damaged = 0
            self.skipped_total += 1
            log.warning(
                "a damaged event is skipped (event.deserialization.failure.handling.mode)", reason=str(error), skipped=self.skipped_total
            )
        elif self._damaged > DAMAGED_TRIES_MAX:
            message = f"{error} (read {self._damaged} times from {self._at.file}:{self._at.pos})"
            raise DamagedLogError(message) from error

    def _take(self, items: list[LogRows | LogEvent]) -> None:
        partial = [item for item in items if isinstance(item, LogEvent) and item.encoder is not None]
        if partial and self._reread is not None:
            self._reread.expect(partial)
        for item in items:
            if self._schemas.waits_for_end:
                self._end_parkings(item.position)
            if isinstance(item, LogEvent) and item.encoder is not None:
                self._partial_rows(item, item.encoder)  # before the place is passed: they go out in parts
            came = self._came_to(item.position)
            if came:
                self._note_prepared(item.position)
                self._interleaver.moved(item.position)
                self._unsent = True
            if isinstance(item, LogRows):
                self._rows(item)
            else:
                self._event(item)
            if came and not item.position.in_transaction:
                self._prepared.outside()
            if came and isinstance(item, LogEvent):
                self._note_prepared(item.position)

    def _end_parkings(self, place: LogOffset) -> None:
        """Tables that have a schema again from here on are dumped anew; the dump is ordered before the place is passed, so that no kill loses it."""
        ended = self._schemas.take_ended(sequence_of(epoch=self._at.epoch, file=place.file, pos=place.pos))
        if ended:
            self._decoder.forget_tables()
            self._on_tables_back(ended)

    def _came_to(self, place: LogOffset) -> bool:
        """Take the place, unless a new connection has not come beyond where the last one was: it begins with the file's first bytes, and with
        events of the open transaction that are passed over, neither of which is a place to go back to.
        """
        if self._resumes:
            at = self._at
            if place.gtids_delta:
                behind = False  # a transaction has ended: its GTID must not get lost, or the server would send it again, behind newer ones
            elif place.in_transaction:
                same = at.gtids is not None or (place.file, place.pos) == (at.file, at.pos)
                behind = same and place.event + place.packed_event <= at.skip_events
            else:
                behind = at.gtids is not None or (place.file == at.file and place.pos <= at.pos)
            if behind:
                return False
            self._resumes = False
        self._at.advance(place)
        return True

    def _note_prepared(self, place: LogOffset) -> None:
        """Let the offset say which XA transactions are open; the place has not been sent yet."""
        text = self._prepared.take_changed()
        if text is not None:
            place.prepared = text

    def _rows(self, item: LogRows) -> None:
        if item.source_ts_us:
            self.source_ts_us = item.source_ts_us
        if not item.records:
            return
        self.records_total += item.records
        for encoder, *_ in item.segments:
            self._prepared.rows(encoder.plan.table.id)
        self._note_prepared(item.position)
        segments = [Segment(e.plan.topic, keys, values, e.plan.table.id, headers) for e, keys, values, headers in item.segments]
        size_bytes = item.bytes
        if item.borders:
            assert self._border_records is not None, "the decoder tells of transactions only where somebody asks"
            borders = self._border_records(item.borders)
            segments.append(borders)  # behind the rows: who meets an END finds most of its rows there
            size_bytes += sum(len(part) for part in (*borders.keys, *borders.values) if part is not None)
        self._interleaver.rows(segments, records=item.records, size_bytes=size_bytes, source_ts_us=item.source_ts_us)
        self._sent()

    def _partial_rows(self, event: LogEvent, encoder: RowEncoder) -> None:
        """Rows that lack columns: what the log says of them, then what the table has. Inside an XA transaction nothing can be read yet."""
        assert self._reread is not None, "the decoder gives such events only where they are read again"
        table = encoder.plan.table.id
        self._prepared.rows(table)
        if self._prepared.is_open:
            self._prepared.unread(table)
        records = 0
        try:
            for keys, values, headers in self._reread.records(event, read=not self._prepared.is_open):
                records += counted(values)
                if keys:
                    self.records_total += len(keys)
                    size_bytes = sum(len(part) for part in (*keys, *values) if part is not None)
                    segment = Segment(encoder.plan.topic, keys, values, table, headers)
                    self._interleaver.rows([segment], records=len(keys), size_bytes=size_bytes, source_ts_us=event.source_ts_us or None)
        except TableChangedError as e:
            here = (event.sequence_high, event.next_pos << POSITION_BITS)
            if here > self._dumped_behind.get(table, (0, 0)):  # else the dump that was ordered reads behind this row
                self._dumped_behind[table] = self._log_end_now(here)
                self._order_dump([table], str(e))
        except BadRowsError as e:
            self._skip(e)
        if event.transaction is not None:
            event.position.transaction = self._decoder.count(encoder, records)
        self.source_ts_us = event.source_ts_us or self.source_ts_us

    def _log_end_now(self, here: Position) -> Position:
        """The end that the server's log has now, in our sequence; ``here`` where nobody can be asked."""
        asked = self._log_end_asked()
        return here if asked is None else max(here, sequence_of(epoch=here[0] >> 32, file=asked[0], pos=asked[1]))

    def _log_end_asked(self) -> tuple[str, int] | None:
        """File and position at which the server's log ends; None where nobody answers. Another server's answer is an error."""
        if self._server_place is None:
            return None
        try:
            return self._server_place()
        except ServerChangedError:
            raise
        except TransientError as e:
            log.info("the server does not say how far its log goes", reason=str(e))
            return None

    def _skip(self, error: DefiniteError) -> None:
        """Pass over what cannot be told, if that is wished."""
        if not self._skips_bad_events:
            raise error
        self.skipped_total += 1
        log.warning("an event is skipped (event.processing.failure.handling.mode)", reason=str(error), skipped=self.skipped_total)

    def _sent(self) -> None:
        self._unsent = False
        self._moved_at_s = self._clock.monotonic_s()

    def _event(self, event: LogEvent) -> None:
        code = event.type_code
        if code == events.EventType.QUERY:
            self._statement(event)
        elif event.encoder is not None:
            pass
        elif code == events.EventType.MARIADB_GTID:
            self._prepared.begin()
            self._decoder.forget_tables()  # so that each table map of the transaction is told of
        elif code in events.ROWS_TYPES:
            self._marks(event)
        elif code == events.EventType.XA_PREPARE:
            self._xa_ended(self._prepared.prepare(event.body), f"{event.file}:{event.start_pos}")
            self._hold_prepared()
        elif code < 0:
            raise self._end_of_log(code, event.body, f"{event.file}:{event.start_pos}")
        elif code not in {events.EventType.ROTATE, events.EventType.FORMAT_DESCRIPTION}:
            problem = events.unsupported(code, file=event.file, pos=event.start_pos, flags=event.flags)
            if problem is not None:
                raise problem

    def _marks(self, event: LogEvent) -> None:
        """Rows of the watermark table; those of other connectors and earlier runs mean nothing to the windows."""
        assert event.table is not None, "pass-through rows come with their table map"
        at = MarkPosition(
            file=event.file, pos=event.start_pos, sequence_high=event.sequence_high, sequence_low=event.sequence_low, gtid=event.gtid
        )
        for name, token in events.mark_rows(event.type_code, event.body, events.read_table_map(event.table)):
            if name.startswith(self._mark_name):
                self._interleaver.mark(token, at)

    def _statement(self, event: LogEvent) -> None:
        query = events.read_query(event.body)
        text = self._schemas.text_of(query)
        where = f"{event.file}:{event.start_pos}"
        if self._xa_statement(text, where):
            return
        if event.position.in_transaction:
            position = schema_position(epoch=self._at.epoch, place=event.position)
        else:
            position = (event.sequence_high, event.next_pos << POSITION_BITS)
        note: dict[str, object] = {"file": event.file, "pos": event.next_pos}
        place = LogOffset(file=event.file, pos=event.next_pos)
        try:
            done = self._schemas.statement(query, text, position=position, note=note, place=place)
        except DefiniteError as e:
            message = f"{e} (statement at {where})"
            raise DefiniteError(message) from e
        if all(isinstance(change, Ignored) for change in done.changes):
            return
        log.info("DDL in the log", tables=[str(t) for t in done.touched], file=event.file, pos=event.start_pos)
        self._decoder.forget_tables()
        for table in {*done.touched, *done.rewritten}:
            self._interleaver.table_changed(table, "DDL inside the window")
        self._on_tables_changed(done.changes, done.rewritten)
        if done.unparked:
            self._on_tables_back(done.unparked)
        self._interleaver.extra(self._statement_records(event, query, text, done.changes))
        self._sent()

    def _xa_statement(self, text: str, where: str) -> bool:
        """Whether it is one."""
        try:
            ended = self._prepared.statement(text, where=where)
            if self._prepared.is_open:
                self._decoder.forget_tables()  # so that each table map of the transaction is told of
            if ended is not None:
                self._xa_ended(ended, where)
        except DefiniteError as e:
            self._skip(e)
            ended = Ended()
        if ended is not None:
            self._hold_prepared()
        return ended is not None

    def _hold_prepared(self) -> None:
        """A chunk of a table with prepared rows would show the rows as they were before: no window of it until the transaction has ended. # I2"""
        reason = "an XA transaction that changed it is prepared (XA RECOVER names it); it is dumped once that has ended by XA COMMIT or XA ROLLBACK"
        if self._interleaver.hold(self._prepared.tables, reason):
            self._tables_released()

    def _xa_ended(self, ended: Ended, where: str) -> None:
        """A prepared transaction that ends lets its tables be dumped again; rows that nobody has sent come by a dump."""
        if ended.unread:
            self._order_dump(ended.unread, f"an XA transaction was committed at {where} whose rows in the log lack columns")
        if left_out := {table for table in ended.left_out if self._schemas.includes(table)}:
            names = ", ".join(sorted(map(str, left_out)))
            self._order_dump(left_out, f"an XA transaction was committed at {where}, prepared while rows of {names} were not followed")
        if ended.unknown is not None:
            why = (
                f"the XA transaction {ended.unknown} was committed at {where}, prepared before the connector's first position, "
                "with rows that no dump could see"
            )
            self._order_dump(None, why)

    def _order_dump(self, tables: Iterable[TableId] | None, why: str) -> None:
        """Rows that only a dump can bring; where none may, the task ends or goes on without them, as is wished."""
        try:
            self._dump_again(tables, why)
        except DefiniteError as e:
            self._skip(e)

    def _duties_are_due(self) -> bool:
        """Whether something has waited for as long as it may, in a log that has more and more to read."""
        now_s = self._clock.monotonic_s()
        beats = self._heartbeat is not None and now_s - self._beat_at_s >= self._heartbeat_interval_s
        return beats or now_s - self._moved_at_s >= POSITION_INTERVAL_S

    def _duties(self) -> None:
        """What is due by time: windows whose marks are lost, a heartbeat, and a quiet log's place."""
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_for_marks_s >= POSITION_INTERVAL_S:
            self._looked_for_marks_s = now_s
            self._look_for_marks(now_s)
        if self._heartbeat is not None and now_s - self._beat_at_s >= self._heartbeat_interval_s:
            self._beat_at_s = now_s
            self._interleaver.extra([self._heartbeat()])
            self._sent()
        elif (self._unsent or self._interleaver.dump_moved) and now_s - self._moved_at_s >= POSITION_INTERVAL_S:
            self._interleaver.extra([])
            self._sent()

    def _look_for_marks(self, now_s: float) -> None:
        """Every wait for a watermark ends: with the mark, or here. Where marks are overdue, the server is asked how far its log goes: what is not found up to
        there will never be. How old the newest row is says nothing of that, for clocks differ.
        """
        if self._marks_by is None:
            overdue_s = now_s - MARKS_OVERDUE_S
            if not self._interleaver.has_overdue(handed_in_before_s=overdue_s):
                return
            asked = self._log_end_asked()
            if asked is None:
                return
            self._marks_by = sequence_of(epoch=0, file=asked[0], pos=asked[1]), overdue_s, now_s
        end, overdue_s, asked_at_s = self._marks_by
        quiet = self._caught_up and now_s - max(asked_at_s, self._data_at_s) > MARKS_QUIET_S
        if quiet or sequence_of(epoch=0, file=self._at.file, pos=self._at.pos) >= end:
            self._marks_by = None
            self._interleaver.read_overdue_again(handed_in_before_s=overdue_s)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self.connected = False
        if connection is not None:
            connection.close()
        if self._reread is not None:
            self._reread.close()
