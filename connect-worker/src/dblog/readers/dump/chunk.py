"""Reads tables in key ranges while the log flows: low watermark, snapshot, proof, SELECT, high
watermark, next range.

A ``ChunkReader`` is one thread with its own connection; it takes one table of the dump after the
other. It runs at most ``windows_max`` windows of the table ahead of the log, so the database works
on the next chunk while the last one waits for its high watermark.

Small tables are read many at a time (``small_tables.py``) before any table is read on its own.
Several readers may share a large table, each in its own ranges (``sharing.py``).

Each window proves itself: the watermark row is selected in the chunk's own snapshot and must show
the low watermark. A replica that lags, or a snapshot taken too early, shows another token, and the
chunk is read again. # I2
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import structlog

from dblog.clock import Clock, SystemClock
from dblog.codecs.rowplan import RowEncoder
from dblog.core.backoff import Backoff
from dblog.core.chunk_size import ChunkLimits, rows_after_overflow, rows_next
from dblog.core.dumprequests import INITIAL
from dblog.core.retries import Retries, RetryPolicy
from dblog.core.surrogate import keyed_by
from dblog.core.table_dump import Key, KeyRange, TableDump
from dblog.core.watermark import Ticket
from dblog.errors import (
    DefiniteError,
    RowsMovedError,
    ServerChangedError,
    TableChangedError,
    TableDeniedError,
    TableLockedError,
    TransientError,
    UnknownKeyError,
    discreet,
)
from dblog.model import Table, TableId
from dblog.ports import ChunkRows, DumpConnection
from dblog.readers.chunk_read import ChunkRead
from dblog.readers.contract import Server
from dblog.readers.dump.chunknotes import ChunkNotes, Trouble
from dblog.readers.dump.marks import MarkExchange, ReadMarks, WindowMarks, WrittenMarks
from dblog.readers.dump.modes import Modes
from dblog.readers.dump.open_windows import OpenWindows
from dblog.readers.dump.sharing import Share, Shares, halved, walked
from dblog.readers.dump.small_tables import SmallTables
from dblog.readers.dump_progress import DumpProgress
from dblog.readers.extent import Extent
from dblog.readers.log.logwatch import RowEstimates
from dblog.readers.log.schemas import Schemas
from dblog.readers.tally import Tally

log = structlog.get_logger(__name__)

KEYLESS_TRIES_MAX = 10
"""Maximum number of tries to read a table without a key, which has to fit one window; then its dump
fails.
"""

KEYLESS_ROWS_MAX = 5_000_000

FIRST_ROWS = 2048
"""Rows of a table's first chunk, before anything is known of its rows."""

CONDITION_ASKED_AFTER = 5
"""Number of consecutive tries with a changed table after which the server is asked if it still
takes the dump's condition.
"""

NOT_READ_TRIES, NOT_READ_S = 3, 600.0
"""Number of consecutive failures, and the seconds over which they must be spread, after which a
requested dump gives a table up.
"""

CHUNKS_MIN = 2
"""Number of chunks that both halves must have for a range to be split."""

ROWS_FOUND_MAX = 2
"""Maximum number of rows of one key that a look-up returns."""

KEYS_MAX = 200
"""Maximum number of listed keys in one statement, whose text grows with them."""
_BACKOFF = Backoff()

UNPROVEN_AT_ONCE = 3
"""Number of immediate tries for a chunk that lacks a transaction of the log: most transactions are
visible a moment after they are logged.
"""

_UNPROVEN_BACKOFF = Backoff(first_s=0.05, max_s=2.0)
"""Delay between further tries, which may go on for hours."""

Statement = tuple[str, Key]

Found = TypeVar("Found")


class ChunkReader:
    """Dump thread that reads tables in chunks: the reader ``number`` of its task.

    ``shares`` hands out tables and parts of tables. ``windows_max`` is the number of windows of a
    table that may wait for the log, ``keyless_bytes_max`` the size of a table without a key that
    still fits one window. ``exchange`` gives windows their marks in read-only mode; None writes
    watermarks.
    """

    def __init__(
        self,
        number: int,
        *,
        shares: Shares,
        server: Server,
        progress: DumpProgress,
        windows: OpenWindows,
        notes: ChunkNotes,
        tally: Tally,
        schemas: Schemas,
        modes: Modes,
        estimates: RowEstimates,
        watermark_name: str,
        limits: ChunkLimits,
        exchange: MarkExchange | None = None,
        windows_max: int = 2,
        keyless_bytes_max: int = 256 << 20,
        retry_policy: RetryPolicy | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._number = number
        self._shares = shares
        self._server = server
        self._sql = server.chunk_sql
        self._progress = progress
        self._windows = windows
        self._notes = notes
        self._tally = tally
        self._schemas = schemas
        self._modes = modes
        self._estimates = estimates
        self._limits = limits
        self._windows_max = windows_max
        self._keyless_bytes_max = keyless_bytes_max
        self._retry_policy = retry_policy or RetryPolicy()
        self._clock = clock or SystemClock()
        self._stop = threading.Event()
        self._marks: WindowMarks = (
            WrittenMarks(watermark_name, self._stop, tally) if exchange is None else ReadMarks(exchange, self._stop, tally)
        )
        self._connection: DumpConnection | None = None
        self._small = SmallTables(
            number,
            shares=shares,
            reader=self,
            progress=progress,
            windows=windows,
            schemas=schemas,
            limits=limits,
            windows_max=windows_max,
        )

    def run(self) -> None:
        """Read tables until none is left, or the reader is stopped.

        Raise DefiniteError for an error that concerns every table.
        """
        try:
            while not self.ends():
                self._read_small()
                share = self._shares.next_share(self._number)
                if share is None:
                    return
                try:
                    self._read_table(share)
                finally:
                    self._shares.put_back(share)
        finally:
            self._disconnect()

    def stop(self) -> None:
        """Make ``run`` return soon, even during a SELECT."""
        self._stop.set()
        self._disconnect()

    def ends(self) -> bool:
        """Return True if this reader or its task stops, so that every further window would be
        refused.
        """
        return self._stop.is_set() or self._progress.stopping

    def rest(self) -> None:
        """Wait as the pace of dumps asks before a snapshot."""
        self._stop.wait(self._progress.pace.delay_s)

    def _read_small(self) -> None:
        """Read small tables until none waits. After a lost connection, read its tables again."""
        retries, done_at = Retries(self._retry_policy), -1
        while not self.ends():
            try:
                self._small.read()
            except ServerChangedError:
                if self.ends():
                    return
                raise
            except TransientError as e:
                if self.ends():
                    return
                self._disconnect()
                dump = self._progress.own
                if dump is not None and dump.tables_done != done_at:
                    retries.succeeded()  # some tables were finished since, so this error begins a new series
                    done_at = dump.tables_done
                delay_s = retries.failed(e, now_s=self._clock.monotonic_s(), chance=random.random())  # noqa: S311 - jitter, no secret
                log.warning("dump waits before its next try", reason=str(e), delay_s=round(delay_s, 2))
                self._stop.wait(delay_s)
            else:
                return

    def _read_table(self, share: Share) -> None:
        table, lane = share.table, share.lane
        retries, failed_at = Retries(self._retry_policy), None
        rows_asked = min(self._extent(table).limits(self._limits).rows_max, FIRST_ROWS)
        keyless_tries = changes = 0
        while not self.ends():
            resets = self._windows.settled(table, lane)
            progress = self._progress.table(table)
            if progress is None or progress.ended:
                return
            if self._windows.is_held(table):
                self._notes.not_tried(table)
                return
            if self._rests(share):
                return
            if (unproven := self._windows.unproven(table, lane) - UNPROVEN_AT_ONCE) > 0:
                self._stop.wait(_UNPROVEN_BACKOFF.delay_s(unproven, chance=random.random()))  # noqa: S311 - jitter, no secret
                if self.ends():
                    return
            version = self._schemas.table(table)
            if version is None:
                log.info("the table is gone, its dump ends", table=str(table))
                self._progress.change(lambda book: book.not_known(table), table=table)
                return
            extent = self._extent(table)
            try:
                by = keyed_by(version, extent.surrogate_key)
                if not by.key:
                    by = self._sql.by_place(by)
            except DefiniteError as e:
                self._progress.fail(table, str(e))
                return
            if progress.started and progress.key != by.key:
                if extent.keys is not None:
                    was, now = (", ".join(key) or "none" for key in (progress.key, version.key))
                    self._progress.fail(
                        table, f"the key of {table} was {was} when this dump of given keys began, and is {now} now; request another dump"
                    )
                    return
                log.info("the table's key has changed, its dump begins again", table=str(table))
                self._progress.change_table(table, lambda d: d.restarted(table))
                continue
            if share.upto is not None and progress.range_to(share.upto) is None:
                return  # already read, or the table restarts, which one reader does alone
            self._schemas.prepare(version)
            try:
                try:
                    if extent.keys is not None:
                        self._server.check_keys(version, extent.keys)
                    # An ALTER may have come since the request was checked.
                    if extent.surrogate_key is not None and not progress.started:
                        self._server.check_surrogate([version], extent.surrogate_key)
                    encoder = self._modes.encoder(version, extent.mode, extent.columns)
                except DefiniteError as e:
                    self._progress.fail(table, str(e))
                    return
                rows_asked = self._read_from_frontier(version, by, progress, share, resets, rows_asked, extent, encoder)
                retries.succeeded()
                changes = 0
            except TableChangedError as e:
                if self.ends():
                    return
                self._disconnect()
                changes += 1
                if extent.where is not None and changes % CONDITION_ASKED_AFTER == 0 and not self._still_takes(version, extent.where):
                    return
                reason = str(e) if extent.where is None else discreet(e)
                self._notes.waits(table, reason)
                log.warning("dump waits until the log reaches the change of its table", table=str(table), reason=reason)
                if self._shares.lets_others_pass(share):
                    return
                self._stop.wait(_BACKOFF.delay_s(changes, chance=random.random()))  # noqa: S311 - jitter, no secret
                continue
            except (ChosenRowsError, TableDeniedError) as e:
                self._disconnect()  # the error has left its snapshot open
                self._progress.fail(table, str(e))
                return
            except UnknownKeyError:
                log.info("the table's definition lacks the key that its dump has reached; the dump begins again", table=str(table))
                self._progress.change_table(table, lambda d: d.restarted(table))
                continue
            except RowsMovedError as e:
                log.info("the table's dump begins again", table=str(table), reason=str(e))
                self._progress.change_table(table, lambda d: d.restarted(table))
                continue
            except ServerChangedError:
                if self.ends():
                    return
                raise
            except TransientError as e:
                if self.ends():
                    return
                self._disconnect()
                if (frontier := self._progress.table(table)) != failed_at:
                    retries.succeeded()  # some chunks were read since, so this error begins a new series
                failed_at = frontier
                chance = random.random()  # noqa: S311 - jitter, no secret
                if isinstance(e, RowsNotReadError):
                    trouble = self._notes.not_read(table, str(e))
                    if self._ended_by(trouble, table):
                        return
                    delay_s = self._retry_policy.delay_s(trouble.tries, chance=chance)
                else:
                    self._notes.waits(table, str(e))
                    delay_s = retries.failed(e, now_s=self._clock.monotonic_s(), chance=chance)
                log.warning("dump waits before its next try", table=str(table), reason=str(e), delay_s=round(delay_s, 2))
                locked = isinstance(e.__cause__ if isinstance(e, RowsNotReadError) else e, TableLockedError)
                if locked and self._shares.lets_others_pass(share):
                    return
                self._stop.wait(delay_s)
                continue
            if self._windows.wait_done(table, resets=resets, lane=lane, upto=share.upto):
                self.report_table(table)
                return
            if self._windows.take_shrink(table, lane):
                rows_asked = rows_after_overflow(self._limits, rows_asked=rows_asked)
            if not version.key:
                reached = self._progress.table(table)
                if reached is None or reached.after != progress.after:
                    keyless_tries = 0  # some chunks were read since
                keyless_tries += 1
                rows_asked = rows_after_overflow(self._limits, rows_asked=rows_asked)
                if keyless_tries >= KEYLESS_TRIES_MAX:
                    self._progress.fail(table, _never_rests(version, by, keyless_tries))
                    return

    def _rests(self, share: Share) -> bool:
        """Return True if this thread must open no further windows of the table for now."""
        progress = self._progress.table(share.table)
        if progress is None or progress.ended:
            return True  # another reader has found that the table cannot be read
        if self._progress.is_paused(share.table):
            self._notes.not_tried(share.table)
            return True
        if self._shares.gives_way(share):
            self._notes.not_tried(share.table)
            return True
        return False

    def _ended_by(self, trouble: Trouble, table: TableId) -> bool:
        """End the table in a requested dump if its rows could not be read for too long; return True
        then.

        Nothing else waits for these rows, and each try costs the server work.
        """
        lasted_s = self._clock.monotonic_s() - trouble.since_s
        if trouble.tries < NOT_READ_TRIES or lasted_s < NOT_READ_S:
            return False
        message = (
            f"the rows of {table} could not be read in {trouble.tries} tries, in {lasted_s:.0f} s: {trouble.reason}; request another dump, with a predicate "
            "that an index helps or with fewer chunk_rows, or raise database.query.timeout.ms"
        )
        self._progress.fail(table, message)
        return True

    def _still_takes(self, version: Table, where: str) -> bool:
        """Return True if the server accepts the condition, or cannot be asked now.

        Otherwise end the table in its dump: no later statement of the log brings the condition's
        column back.
        """
        try:
            self._server.check_conditions([(version, where)])
        except TransientError:
            return True
        except DefiniteError as e:
            self._progress.fail(version.id, discreet(e))
            return False
        return True

    def _extent(self, table: TableId) -> Extent:
        """Return the extent of the table in the dump that it is read for."""
        book = self._progress.book
        one = book.request_of(table)
        if one is not None:
            return Extent.of(one, table)
        dump = book.dump_of(table)
        progress = None if dump is None else dump.table(table)
        where = self._server.own_condition(table) if progress is not None and progress.chosen else None
        version = self._schemas.table(table) if dump is not None and dump.repairs_table(table) else None
        return Extent.own(where, repairs=version is not None and self._modes.can_be_repaired(version))

    def report_table(self, table: TableId) -> None:
        """Log that the table has been dumped. A failure was logged already."""
        book = self._progress.book
        dump = book.dump_of(table)
        progress = None if dump is None else dump.table(table)
        if dump is None or progress is None or not progress.done:
            return
        log.info(
            "table dumped",
            table=str(table),
            rows=progress.rows,
            dump=book.identity_of(table),
            tables_done=dump.tables_done,
            tables_total=dump.tables_total,
        )

    def _read_from_frontier(
        self,
        version: Table,
        by: Table,
        progress: TableDump,
        share: Share,
        resets: int,
        rows_asked: int,
        extent: Extent,
        encoder: RowEncoder | None,
    ) -> int:
        """Read windows from the frontier to the end of the share, or until the first reset.

        Return the number of rows last asked for. The key of ``by`` consists of the columns that
        bound the chunks.
        """
        table = version.id
        connection = self.connected()
        if not by.key:
            self._read_keyless(connection, version, resets, extent)
            return rows_asked
        if not version.key and share.splits:
            self._shares.cannot_be_split(share)  # a change discards the windows of all its readers
        begins = not progress.started
        left, greatest = progress.range_to(share.upto), progress.upto
        after, upto = (None, None) if left is None else (left.after, left.upto)
        while not self.ends():
            extent = self._extent(table)
            pace = self._progress.pace
            limits = extent.limits(self._limits).part(pace.share)
            rows_asked = min(rows_asked, limits.rows_max)
            if self._rests(share):
                return rows_asked
            if after is not None and upto is not None:
                upto = self._shared(connection, by, share, KeyRange(after, upto), rows_asked, extent)
            rest_s = extent.delay_s + pace.delay_s
            if rest_s and not self._progress.rest(table, rest_s):
                continue
            ticket = self._windows.declare(table, keyed=bool(version.key), resets=resets, windows_max=self._windows_max, lane=share.lane)
            if ticket is None:
                return rows_asked
            started_s = time.monotonic()
            try:
                wanted = _Range(after, upto, begins, extent, inside=upto != greatest)
                if extent.keys is None:
                    read = self._select_chunk(connection, ticket, by, wanted, rows_asked, grouped=not version.key)
                    if by is not version:
                        read = replace(read, table=version, surrogate=by.key)
                else:
                    read = self._select_keys(connection, ticket, version, wanted, rows_asked)
                if encoder is not None:
                    read = replace(read, encoder=encoder)
                if not self._windows.submit(ticket, read):
                    return rows_asked
                self.mark_high(connection, ticket)
            except BaseException as e:
                self._windows.abandon(ticket, f"its chunk could not be read: {type(e).__name__}")
                raise
            if read.final or read.fault is not None:
                return rows_asked
            if begins:
                upto = greatest = read.greatest
            after, begins = read.upto, False
            rows_asked = rows_next(
                limits,
                rows_asked=rows_asked,
                rows_read=read.row_count,
                bytes_read=len(read.rows),
                elapsed_s=time.monotonic() - started_s,
            )
        return rows_asked

    def _shared(self, connection: DumpConnection, version: Table, share: Share, left: KeyRange, rows_asked: int, extent: Extent) -> Key:
        """Give a part of the share to another reader, if one is free. Return the new end of the
        share.
        """
        shares = self._shares
        if not share.splits or extent.keys is not None or not shares.wants_part(share):
            return left.upto
        progress = self._progress.table(version.id)
        if progress is None or not progress.started:
            return left.upto  # its first window has not closed, so there is no range to split
        after, estimate = left.after, self._estimates.rows.get(version.id)
        assert after is not None, "the first chunk of a table is read by one"
        rows_left = None if estimate is None else max(0, estimate - progress.rows)
        cut = halved(after, left.upto, rows_left=rows_left, rows_min=CHUNKS_MIN * rows_asked)
        if cut is None:
            cut = walked(connection, lambda rows: self._key_at(connection, version, left, rows, extent.where), rows_asked=rows_asked)
        if cut is None:
            shares.cannot_be_split(share)
            return left.upto
        shares.give_part(share, cut)
        return share.upto or left.upto

    def _key_at(self, connection: DumpConnection, version: Table, left: KeyRange, rows: int, where: str | None) -> Key | None:
        """Return the key ``rows`` rows after the start of ``left``, as a bound for ranges.

        Return None at the end of the range, or if the server does not find the key again.
        """
        found = self._select_key(connection, version, self._sql.last_key(version, left.after, left.upto, rows, where=where))
        if found is None or found == left.upto or self._found(connection, version, found, left.after, where) != 1:
            return None
        return found

    def _read_keyless(self, connection: DumpConnection, version: Table, resets: int, extent: Extent) -> None:
        """Read the whole table in one window. Any change of it meanwhile discards the window,
        because there is no key to drop.
        """
        table = version.id
        ticket = self._windows.declare(table, keyed=False, resets=resets, windows_max=self._windows_max)
        if ticket is None:
            return
        try:
            statement = self._sql.full_scan(version, KEYLESS_ROWS_MAX + 1, where=extent.where)

            def scan() -> tuple[ChunkRows, Any]:
                with _of_chosen_rows(version, extent):
                    rows = self._select(connection, statement, version, None, bytes_max=self._keyless_bytes_max, where=extent.where)
                return rows, connection.snapshot_shown()

            chunk, shown = self.behind_watermark(connection, ticket, scan)
            if len(chunk.rows) > self._keyless_bytes_max or chunk.row_count > KEYLESS_ROWS_MAX:
                message = (
                    f"{table} has no key and is too large to be dumped in one window ({self._keyless_bytes_max} bytes, {KEYLESS_ROWS_MAX} rows); "
                    "add a primary key and restart the task, or leave the table out with snapshot.include.collection.list (its changes are "
                    "still followed)"
                )
                self._windows.abandon(ticket, "the table does not fit one window")
                self._progress.fail(table, message)
                return
            read = ChunkRead(
                table=version, rows=chunk.rows, row_count=chunk.row_count, after=None, upto=None, final=True, extent=extent, shown=shown
            )
            if self._windows.submit(ticket, read):
                self.mark_high(connection, ticket)
        except BaseException as e:
            self._windows.abandon(ticket, f"its chunk could not be read: {type(e).__name__}")
            raise

    def _select_chunk(
        self, connection: DumpConnection, ticket: Ticket, version: Table, wanted: _Range, rows_asked: int, *, grouped: bool
    ) -> ChunkRead:
        """Read the first rows of the range, all in one proved snapshot.

        For the table's first chunk, also read where the range ends. A snapshot may not yet show a
        row that the log has before the low watermark; that row must not come after the greatest
        key. The server's keys may already follow a statement that the log has not reached, such as
        an ALTER that adds a member to an ENUM. That shows when the window closes, and the chunk is
        read again. ``grouped`` is True if several rows may have the same key, so that the chunk
        must not end between them.
        """
        after, where = wanted.after, wanted.extent.where

        def read() -> ChunkRead:
            upto = self._greatest_key(connection, version, where) if wanted.begins else wanted.upto
            if upto is None:
                return ChunkRead(
                    table=version, rows=b"", row_count=0, after=after, upto=None, final=True, begins=wanted.begins, extent=wanted.extent
                )
            if not wanted.begins:
                # Raises UnknownKeyError for older bounds that do not fit the present definition.
                self._sql.chunk_select(version, after, upto, rows_asked)
            try:
                return between(upto)
            except UnknownKeyError as e:
                return ChunkRead(
                    table=version,
                    rows=b"",
                    row_count=0,
                    after=after,
                    upto=None,
                    final=True,
                    begins=wanted.begins,
                    greatest=upto,
                    extent=wanted.extent,
                    fault=str(e),
                )

        def between(upto: Key) -> ChunkRead:
            if grouped:
                return self._select_groups(connection, version, _Range(after, upto, wanted.begins, wanted.extent), upto, rows_asked)
            statement = self._sql.chunk_select(version, after, upto, rows_asked, where=where)
            chunk = self._select(connection, statement, version, after, bytes_max=self._limits.bytes_max, where=where)
            last = self._last_key(connection, version, wanted, upto, chunk)
            cut_short = len(chunk.rows) > self._limits.bytes_max
            final = last == upto or (chunk.row_count < rows_asked and not cut_short)
            return ChunkRead(
                table=version,
                rows=chunk.rows,
                row_count=chunk.row_count,
                after=after,
                upto=upto if final else last,
                final=final,
                inside=wanted.inside,
                begins=wanted.begins,
                greatest=upto,
                extent=wanted.extent,
                fault=self._fault(connection, version, _Range(after, upto, wanted.begins, wanted.extent), last, final=final),
            )

        def chosen() -> ChunkRead:
            with _of_chosen_rows(version, wanted.extent):
                return replace(read(), shown=connection.snapshot_shown())

        return self.behind_watermark(connection, ticket, chosen)

    def _select_groups(self, connection: DumpConnection, version: Table, wanted: _Range, upto: Key, rows_asked: int) -> ChunkRead:
        """Read about ``rows_asked`` rows, up to the last row of a value.

        Nothing else distinguishes rows with the same value. If they are too many, read only the
        rows of the next value, as many as a table without a key may have.
        """
        after, where = wanted.after, wanted.extent.where
        for rows, bytes_max in ((rows_asked, self._limits.bytes_max), (1, self._keyless_bytes_max)):
            end = self._select_key(connection, version, self._sql.last_key(version, after, upto, rows, where=where)) or upto
            statement = self._sql.chunk_select(version, after, end, KEYLESS_ROWS_MAX + 1, where=where)
            chunk = self._select(connection, statement, version, after, bytes_max=bytes_max, where=where)
            fits = len(chunk.rows) <= bytes_max and chunk.row_count <= KEYLESS_ROWS_MAX
            if fits:
                break
        final = end == upto
        if fits:
            fault = self._fault(connection, version, wanted, end, final=final, grouped=True)
        else:
            fault = (
                f"{version.id} has no key, and more rows of one value of {', '.join(version.key)} than one window may have ({self._keyless_bytes_max} bytes, "
                f"{KEYLESS_ROWS_MAX} rows); name a column with fewer rows of each value, or add a primary key"
            )
        return ChunkRead(
            table=version,
            rows=chunk.rows if fits else b"",
            row_count=chunk.row_count if fits else 0,
            after=after,
            upto=end,
            final=final,
            begins=wanted.begins,
            greatest=upto,
            extent=wanted.extent,
            fault=fault,
        )

    def _fault(
        self, connection: DumpConnection, version: Table, wanted: _Range, last: Key | None, *, final: bool, grouped: bool = False
    ) -> str | None:
        """Return why the server and we may not mean the same rows by the range; None if all is
        well.

        The server is asked in the chunk's snapshot, because it alone compares keys. It must find
        every bound again as the one row that it came from (with ``grouped``, as one of several),
        and each chunk must end after the previous one. Then the ranges cover the table, whatever
        the key's type. A range that ended early must not leave out the row at its end.
        """
        after, upto, where = wanted.after, wanted.upto, wanted.extent.where
        assert upto is not None, "an empty table has no range"
        rows_max = ROWS_FOUND_MAX if grouped else 1
        if wanted.begins and not 1 <= self._found(connection, version, upto, None, where) <= rows_max:
            return _not_found(version, "its greatest key")
        if final and last != upto and self._found(connection, version, upto, last or after, where) != 0:
            return f"{version.id}: a chunk ended before the greatest key, which the table still has; {_REBUILD}"
        if final or last is None:
            return None
        if all(type(value) is int for value in (*last, *(after or ()))):
            follows = after is None or last > after
        else:
            follows = 1 <= self._found(connection, version, last, after, where) <= rows_max
        return None if follows else _not_found(version, "the last key of a chunk, after the one before,")

    def _found(self, connection: DumpConnection, version: Table, key: Key, after: Key | None, where: str | None) -> int:
        """Return the number of rows with this key, two at most; 0 unless the key is greater than
        ``after``.

        With two rows it is not a key.
        """
        text, parameters = self._sql.key_lookup(version, key, after, where=where)
        return connection.select(text, parameters, table=version.id).row_count

    def _select_keys(self, connection: DumpConnection, ticket: Ticket, version: Table, wanted: _Range, rows_asked: int) -> ChunkRead:
        """Read the rows of the next keys of a list.

        The range counts keys of the list from 0: all rows of these keys are read. If their rows are
        too large together, ask for half of the keys, since the order of the rows does not show
        which ones were dropped. # I6
        """
        keys, after, bytes_max = wanted.extent.keys or (), wanted.after, self._limits.bytes_max
        begin = 0 if after is None else int(after[0])

        def read() -> ChunkRead:
            asked = keys[begin : begin + min(rows_asked, KEYS_MAX)]
            with _of_chosen_rows(version, wanted.extent):
                while True:
                    text, parameters = self._sql.rows_by_key(version, asked)
                    found = connection.select(text, parameters, bytes_max=bytes_max, key=self._sql.key_indexes(version), table=version.id)
                    if len(found.rows) <= bytes_max or len(asked) == 1:
                        break
                    asked = asked[: len(asked) // 2]
                chunk = connection.complete(found, version, None, keys=asked)
            end = begin + len(asked)
            return ChunkRead(
                table=version,
                rows=chunk.rows,
                row_count=chunk.row_count,
                after=after,
                upto=(end,),
                final=end >= len(keys),
                begins=wanted.begins,
                greatest=(len(keys),),
                extent=wanted.extent,
                shown=connection.snapshot_shown(),
            )

        return self.behind_watermark(connection, ticket, read)

    def _select(
        self,
        connection: DumpConnection,
        statement: Statement,
        version: Table,
        after: Key | None,
        *,
        bytes_max: int,
        where: str | None = None,
    ) -> ChunkRows:
        text, parameters = statement
        key = self._sql.key_indexes(version) if version.key else ()
        began_s = time.monotonic()
        chunk = connection.select(text, parameters, bytes_max=bytes_max, key=key, table=version.id)
        self._tally.selected(time.monotonic() - began_s)
        return connection.complete(chunk, version, after, where=where)

    def read_whole(self, connection: DumpConnection, version: Table, limits: ChunkLimits) -> ChunkRead | None:
        """Return all rows of a table in the open snapshot; None if they exceed the limits.

        It is one range without bounds, so no key is compared.
        """
        extent = self._extent(version.id)
        statement = self._sql.chunk_select(version, None, None, limits.rows_max + 1, where=extent.where)
        with _of_chosen_rows(version, extent):
            chunk = self._select(connection, statement, version, None, bytes_max=limits.bytes_max, where=extent.where)
        if chunk.row_count > limits.rows_max or len(chunk.rows) > limits.bytes_max:
            return None
        last = self._last_key(connection, version, _Range(None, None, begins=True, extent=extent), None, chunk)
        return ChunkRead(
            table=version,
            rows=chunk.rows,
            row_count=chunk.row_count,
            after=None,
            upto=last,
            final=True,
            begins=True,
            greatest=last,
            extent=extent,
            shown=connection.snapshot_shown(),
        )

    def mark_high(self, connection: DumpConnection, ticket: Ticket) -> None:
        """Mark the high watermark of a window whose rows were submitted."""
        self._marks.high(connection, ticket)

    def behind_watermark(self, connection: DumpConnection, ticket: Ticket, read: Callable[[], Found]) -> Found:
        """Return the result of ``read`` in a snapshot that provably shows the low
        watermark. # I2
        """
        return self._marks.behind_low(connection, ticket, read)

    def _last_key(self, connection: DumpConnection, version: Table, wanted: _Range, upto: Key | None, chunk: ChunkRows) -> Key | None:
        if chunk.last_key is None:
            return None
        exact = self._sql.exact_key(version, chunk.last_key)
        if exact is not None:
            return exact
        statement = self._sql.last_key(version, wanted.after, upto, chunk.row_count, where=wanted.extent.where)
        return self._select_key(connection, version, statement)

    def _greatest_key(self, connection: DumpConnection, version: Table, where: str | None) -> Key | None:
        return self._select_key(connection, version, self._sql.max_key(version, where=where))

    def _select_key(self, connection: DumpConnection, version: Table, statement: Statement) -> Key | None:
        text, parameters = statement
        return connection.select(text, parameters, key=range(len(version.key)), table=version.id).last_key

    def connected(self) -> DumpConnection:
        """Return the reader's connection, opening one if there is none."""
        if self._connection is None:
            self._connection = self._server.open_chunks()
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


@dataclass(frozen=True, slots=True)
class _Range:
    """Keys after ``after`` up to ``upto``. The first range of a table ends at the greatest key,
    which is not known yet.
    """

    after: Key | None
    upto: Key | None
    begins: bool
    extent: Extent
    inside: bool = False
    """True if the range ends before the table's end, because another reader reads the rest."""


class ChosenRowsError(DefiniteError):
    """The server refuses to read the rows that a request or condition chooses.

    Some row may show that long after the dump was requested, and the log must not wait for it.
    """


class RowsNotReadError(TransientError):
    """The server answered, but the rows of a requested dump's chunk did not come: the SELECT took
    too long or too much of something.
    """


@contextlib.contextmanager
def _of_chosen_rows(version: Table, extent: Extent) -> Iterator[None]:
    """Convert errors of the enclosed statements of a chunk, which may come from a condition or
    keys.

    Statements outside this block are not affected by what chooses the rows.
    """
    try:
        yield
    except TableChangedError as e:
        if extent.where is None or e.discreet is None:
            raise
        raise TableChangedError(e.discreet) from e
    except ServerChangedError:
        raise
    except TransientError as e:
        if extent.dump == INITIAL:
            raise
        raise RowsNotReadError(str(e)) from e
    except DefiniteError as e:
        by = extent.chosen_by
        if (by is None and extent.dump == INITIAL) or (isinstance(e, UnknownKeyError) and extent.keys is None):
            raise
        what, remedy = (f" by {by[0]}", by[1]) if by is not None else ("", "then request another dump")
        message = f"the rows of {version.id} cannot be read{what}: {str(e) if extent.where is None else discreet(e)}; {remedy}"
        raise ChosenRowsError(message) from e


_REBUILD = (
    "so it cannot be read in ranges of its key without losing rows; rebuild the table (ALTER TABLE ... FORCE) or convert the key's text "
    "columns to utf8mb4, then restart the task"
)


def _never_rests(version: Table, by: Table, tries: int) -> str:
    if by.key:
        return (
            f"{version.id} has no key and changed inside each of {tries} windows over the same rows, so its rows cannot be distinguished from the changes; "
            "add a primary key, or request the dump when the table rests"
        )
    return (
        f"{version.id} has no key and changed during each of {tries} full scans, so its rows cannot be distinguished from the changes; add a primary key and "
        "restart the task, or leave the table out of snapshot.include.collection.list"
    )


def _not_found(version: Table, what: str) -> str:
    return f"{version.id}: the server does not find {what} again by {', '.join(version.key)}, {_REBUILD}"
