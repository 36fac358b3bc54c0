"""The rows of closed windows on their way out: encoded at the low watermark's position, part by
part, and at the end the marker of the chunk.

Chunk rows are encoded after their window has closed: only then is the position of the low watermark
known, which every dump row carries. A window whose rows may not be sent is discarded instead, and
its range is read again. # I2 I9
"""

from __future__ import annotations

from dataclasses import dataclass

from dblog.clock import Clock
from dblog.codecs.fingerprint import verified_schemas
from dblog.codecs.plan import distinguishes_rows
from dblog.core.dumprequests import INITIAL, Mode, Scope
from dblog.core.table_dump import Key
from dblog.core.watermark import Closed, Why
from dblog.model import Segment, TableId
from dblog.readers.chunk_read import ChunkMarker, ChunkRead
from dblog.readers.contract import LogSource
from dblog.readers.dump.chunknotes import ChunkNotes, Proof
from dblog.readers.dump.closed_windows import ClosedWindow, ClosedWindows, WindowRecords
from dblog.readers.dump.open_windows import OpenWindows
from dblog.readers.dump_progress import DumpProgress
from dblog.readers.log.removed_rows import RemovedRows
from dblog.readers.log.schemas import Schemas
from dblog.readers.records import Records
from dblog.readers.retrying import Retrying
from dblog.readers.standing_warnings import StandingWarnings
from dblog.readers.tally import Tally

STUCK_TRIES_MAX = 100
"""Maximum number of windows over the same rows, if the message key does not distinguish rows or the
log leaves out values. A table that changed in each of them will not rest, so its dump fails.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The next rows of a closed window, to be sent now."""

    rows: Segment | None
    """Records of the rows; None if the log has changed each of them since the SELECT."""
    size_bytes: int
    is_last: bool
    """True if the window has no more rows; ``ChunkRows.end`` follows once these are sent."""


class ChunkRows:
    """Rows of one task's closed windows. The log thread calls it."""

    def __init__(
        self,
        *,
        closed: ClosedWindows[ChunkRead],
        windows: OpenWindows,
        progress: DumpProgress,
        notes: ChunkNotes,
        schemas: Schemas,
        records: Records,
        log_source: LogSource,
        retrying: Retrying,
        removed: RemovedRows,
        warnings: StandingWarnings,
        tally: Tally,
        run: str,
        clock: Clock,
    ) -> None:
        self._closed = closed
        self._windows = windows
        self._progress = progress
        self._notes = notes
        self._schemas = schemas
        self._records = records
        self._log_source = log_source
        self._retrying = retrying
        self._removed = removed
        self._warnings = warnings
        self._tally = tally
        self._run = run
        self._clock = clock
        self._stuck: dict[tuple[TableId, int], tuple[Key | None, int]] = {}
        """Range start and number of tries, by table and lane, of chunks that are read again and
        again because their rows keep changing.
        """

    def leave_whole(self, closed: Closed[ChunkRead]) -> bool:
        """Return True if log keys cannot show which of the window's rows have changed.

        Then no log row may come between its rows.
        """
        encoder = self._schemas.encoder(closed.table)
        return not closed.rows.table.key or (encoder is not None and not distinguishes_rows(encoder.plan))

    def next_part(self, *, records_max: int, bytes_max: int) -> Part | None:
        """Return the next rows of the first window. Return None if its rows may not leave; then the
        window is gone.
        """
        window = self._closed.first
        records = self._records_of(window) if self._may_go_on(window) else None
        if records is None:
            with self._progress.changed:
                self._closed.end_first()
                self._progress.changed.notify_all()
            return None
        keys, values = records.part(window.left_out, records_max=records_max, bytes_max=bytes_max)
        rows = Segment(records.topic, keys, values, window.closed.table, schemas=records.unwritten_schemas) if keys else None
        size_bytes = sum(len(k) for k in keys if k) + sum(len(v) for v in values if v)
        return Part(rows=rows, size_bytes=size_bytes, is_last=records.is_out)

    def count_passed(self, records: int) -> None:
        """Count records of the first window that the chain of transforms has let through, or that
        passed none.
        """
        of_window = self._closed.first.records
        assert of_window is not None, "some of them have been sent"
        of_window.passed += records

    def end(self) -> list[Segment] | None:
        """Advance the dump after the last part of the first window was sent, and return the
        marker's record, if any.

        Return None if the chunk is no longer what its dump needs next; then its range is read
        again.
        """
        window = self._closed.first
        closed, chunk, records = window.closed, window.closed.rows, window.records
        assert records is not None, "its last part has been sent"
        made = self._marker(closed, records)
        with self._progress.changed:
            self._closed.end_first()
            moves = self._progress.book.is_next(chunk.range)
            if moves:
                proof = Proof(low=closed.low, high=closed.high, at_us=self._clock.now_us(), rows=chunk.row_count)
                self._notes.sent(chunk.extent.dump, closed.table, proof)
                self._progress.change(lambda book: book.advanced(chunk.range), table=closed.table)
            self._progress.changed.notify_all()
        if not moves:
            self._discard_restarted(closed)
            return None
        self._tally.chunk(dropped=records.dropped)
        if chunk.extent.mode is Mode.REPAIR and chunk.extent.scope is Scope.TABLE:
            if made.begins:
                self._warnings.repair_begins(chunk.extent.dump, closed.table, closed.found_before)
            if self._progress.book.has_read(chunk.extent.dump, closed.table):
                self._removed.repaired(chunk.extent.dump, closed.table)
        marker = self._retrying(lambda: self._records.marker(made))
        return [] if marker is None else [marker]

    def _marker(self, closed: Closed[ChunkRead], records: WindowRecords) -> ChunkMarker:
        chunk = closed.rows
        by_list = chunk.extent.keys is not None  # their range counts keys of the list
        return ChunkMarker(
            chunk_id=f"{self._run}/{closed.number}",
            table=closed.table,
            topic=records.topic,
            after=None if by_list else chunk.after,
            upto=None if by_list else chunk.upto,
            final=chunk.final and not chunk.inside,
            low=closed.low,
            high=closed.high,
            rows_read=chunk.row_count,
            rows_dropped=records.dropped,
            digest=records.digest,
            dump=chunk.extent.dump,
            mode=chunk.extent.mode.value,
            begins=chunk.begins or not chunk.by,
            scope=chunk.extent.scope.value,
            fingerprints=records.fingerprints,
            schemas=records.schemas,
            opened_ms=closed.opened_ms,
            own_left=None if chunk.extent.dump == INITIAL else self._progress.book.own_left(closed.table),
            rows_passed=None if records.unwritten_schemas is None else records.passed,
        )

    def _may_go_on(self, window: ClosedWindow[ChunkRead]) -> bool:
        """Return True if the window's rows may still leave; otherwise discard them.

        They may not if the dump was stopped or the table restarted, since the SELECT or between
        parts.
        """
        if self._progress.book.is_next(window.closed.rows.range):
            return True
        self._discard_restarted(window.closed)
        return False

    def _records_of(self, window: ClosedWindow[ChunkRead]) -> WindowRecords | None:
        """Return the window's records. Return None if they cannot be sent; then its range is read
        again, or its table has failed.
        """
        if window.records is not None:
            return window.records
        closed = window.closed
        chunk = closed.rows
        encoder = self._schemas.encoder(closed.table)
        if encoder is None or encoder.plan.table != chunk.table:
            self._windows.discard_closed(closed, f"the columns of {closed.table} changed between its SELECT and its high watermark")
            return None
        low = closed.low
        if chunk.shown is not None and not self._log_source.shows(chunk.shown, closed.table, (low.sequence_high, low.sequence_low)):
            self._tally.proof_retried()
            self._windows.count_unproven(closed.table, closed.lane)
            self._windows.discard_closed(
                closed, f"the snapshot of a chunk of {closed.table} lacks a transaction that the log has before its low watermark"
            )
            return None
        if chunk.fault is not None:
            self._progress.fail(closed.table, chunk.fault, dump=chunk.extent.dump)
            return None
        context = self._records.chunk_context(closed.low, self._clock.now_us())
        sends_rows = chunk.extent.mode is not Mode.VERIFY
        records = WindowRecords(
            encoder.plan.topic,
            (chunk.encoder or encoder) if sends_rows else None,
            context,
            unwritten_schemas=encoder.plan.unwritten_schemas,
        )
        by_key = distinguishes_rows(encoder.plan)
        if not sends_rows:
            records.fingerprints, records.dropped, records.digest = encoder.fingerprint_chunk(chunk.rows, window.left_out)
            records.schemas = verified_schemas(encoder.plan)
        else:
            records.rows = chunk.rows
            if not by_key:
                records.make(window.left_out)
            elif closed.lacking:
                records.make(window.left_out - closed.lacking)
                if not closed.lacking.isdisjoint(records.keys):
                    self._discard_incomplete(closed)
                    return None
        if records.dropped and not by_key:
            self._discard_mixed_up(closed)
            return None
        self._stuck.pop((closed.table, closed.lane), None)
        self._windows.count_proven(closed.table, closed.lane)
        window.records = records
        return records

    # ---- rows that may not be sent

    def _discard_restarted(self, closed: Closed[ChunkRead]) -> None:
        self._windows.discard_closed(closed, f"the dump of {closed.table} has begun again, or ended, since its SELECT")

    def _discard_mixed_up(self, closed: Closed[ChunkRead]) -> None:
        """Have the chunk read again, in smaller parts, because a change in the window has a row's
        message key.

        The change may be of that row or of another one. The number of tries is limited.
        """
        self._discard_for_smaller(
            closed,
            "a change inside the window has the message key of a row, and message.key.columns does not distinguish rows",
            "message.key.columns gives several rows one message key, so rows cannot be distinguished from changes; have message.key.columns name "
            f"{', '.join(closed.rows.table.key)} too, or leave the table out of it, or restart the task while the table rests",
            why=Why.MESSAGE_KEY,
        )

    def _discard_incomplete(self, closed: Closed[ChunkRead]) -> None:
        """Have the chunk read again, in smaller parts, because the log changed a row but lacks some
        of its values.
        """
        self._discard_for_smaller(
            closed,
            "a change inside the window leaves out large values of a row that it has not changed",
            "the log leaves out large values that a change leaves alone, so only the dump has them; have the log hold whole rows (REPLICA IDENTITY FULL, "
            "binlog_row_image=FULL), or restart the task while the table rests",
            why=Why.LACKING,
        )

    def _discard_for_smaller(self, closed: Closed[ChunkRead], reason: str, in_the_end: str, *, why: Why) -> None:
        """Have the chunk read again, in smaller parts; after ``STUCK_TRIES_MAX`` windows fail the
        dump.
        """
        chunk, lane = closed.rows, closed.lane
        after, tries = self._stuck.get((closed.table, lane), (None, 0))
        tries = tries + 1 if after == chunk.after else 1
        self._stuck[closed.table, lane] = chunk.after, tries
        if tries >= STUCK_TRIES_MAX:
            fault = f"{closed.table} changed inside each of {tries} windows over the same rows, and {in_the_end}"
            self._progress.fail(closed.table, fault, dump=chunk.extent.dump)
        else:
            self._windows.discard_closed(closed, reason, why=why, smaller=True)
