"""Reads tables in key ranges while the log flows: low mark, snapshot, proof, SELECT, high mark, next range.

One ``ChunkReader`` is one thread with its own connection; it takes tables from the dump one after the other. It runs ahead of the log by at most
``windows_max`` windows, so the database works on the next chunk while the last one waits for its high mark.

Each window proves itself: the mark row is selected inside the chunk's own snapshot and must show the low mark. A replica that lags, or a snapshot
taken too early, shows another token, and the chunk is read again. # I2
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Protocol

import structlog

from dblog.core.backoff import Backoff
from dblog.core.dumps import Dump, Key, TableDump
from dblog.core.governor import ChunkLimits, rows_after_overflow, rows_next
from dblog.core.watermark import Ticket
from dblog.errors import DefiniteError, TransientError
from dblog.model import Table, TableId
from dblog.ports import ChunkRows, DumpConnection
from dblog.readers.interleaved import ChunkRead, Interleaver
from dblog.readers.proof import read_behind_mark, snapshot

log = structlog.get_logger(__name__)

KEYLESS_TRIES_MAX = 10
"""A table without a key fits one window or none: tried so often, then refused with a sentence."""

KEYLESS_ROWS_MAX = 5_000_000

Statement = tuple[str, Key]


class ChunkSql(Protocol):
    """The dialect's statements: each gives its text and its parameters (dialects/mysql/sql.py is one)."""

    def chunk_select(self, table: Table, after: Key | None, upto: Key | None, rows_max: int) -> Statement:
        """The first rows of the range (after, upto], in key order."""

    def max_key(self, table: Table) -> Statement:
        """The row with the greatest key."""

    def full_scan(self, table: Table, rows_max: int) -> Statement:
        """The whole of a table without a key."""

    def key_indexes(self, table: Table) -> tuple[int, ...]:
        """Where the key columns stand in the select list, in key order."""


class ChunkReader:
    """One dump thread. ``next_table`` hands out tables; ``table_of`` tells a table's version at the log's position."""

    def __init__(
        self,
        *,
        connect: Callable[[], DumpConnection],
        sql: ChunkSql,
        interleaver: Interleaver,
        next_table: Callable[[], TableId | None],
        table_of: Callable[[TableId], Table | None],
        mark_name: str,
        limits: ChunkLimits,
        windows_max: int = 2,
        keyless_bytes_max: int = 256 << 20,
        delay_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._connect = connect
        self._sql = sql
        self._interleaver = interleaver
        self._next_table = next_table
        self._table_of = table_of
        self._mark_name = mark_name
        self._limits = limits
        self._windows_max = windows_max
        self._keyless_bytes_max = keyless_bytes_max
        self._delay_s = delay_s
        self._stop = threading.Event()
        self._connection: DumpConnection | None = None

    def run(self) -> None:
        """Read tables until none is left; raises DefiniteError when a table cannot be read, returns early when stopped."""
        try:
            while not self._stop.is_set():
                table = self._next_table()
                if table is None:
                    return
                self._read_table(table)
        finally:
            self._disconnect()

    def stop(self) -> None:
        """Make ``run`` return soon, also out of a running SELECT."""
        self._stop.set()
        self._disconnect()

    def _read_table(self, table: TableId) -> None:
        backoff, failures = Backoff(), 0
        rows_asked = min(self._limits.rows_max, 2048)
        keyless_tries = 0
        while not self._stop.is_set():
            resets = self._interleaver.resets(table)
            progress = self._interleaver.table_dump(table)
            if progress is None or progress.done:
                return
            version = self._table_of(table)
            if version is None:
                log.info("the table is gone, its dump ends", table=str(table))
                self._interleaver.change_dump(lambda d: None if d is None else d.dropped(table))
                return
            if progress.started and progress.key != version.key:
                log.info("the table's key has changed, its dump begins again", table=str(table))
                self._interleaver.change_dump(lambda d: None if d is None else d.restarted(table))
                continue
            try:
                rows_asked = self._read_from_frontier(version, progress, resets, rows_asked)
                failures = 0
            except TransientError as e:
                if self._stop.is_set():
                    return
                failures += 1
                self._disconnect()
                delay_s = backoff.delay_s(failures, chance=random.random())  # noqa: S311 - jitter, no secret
                log.warning("dump waits before its next try", table=str(table), reason=str(e), delay_s=round(delay_s, 2))
                self._stop.wait(delay_s)
                continue
            if self._interleaver.wait_done(table, resets=resets):
                self._report_table(table)
                return
            if self._interleaver.take_shrink(table):
                rows_asked = rows_after_overflow(self._limits, rows_asked=rows_asked)
            if not version.key:
                keyless_tries += 1
                if keyless_tries >= KEYLESS_TRIES_MAX:
                    message = (
                        f"{table} has no key and changed during each of {keyless_tries} full scans, so its rows cannot be told apart from the "
                        "changes; add a primary key, or leave the table out of snapshot.include.collection.list"
                    )
                    raise DefiniteError(message)

    def _report_table(self, table: TableId) -> None:
        """The table has been read to its end."""
        dump = self._interleaver.dump
        progress = None if dump is None else dump.table(table)
        if dump is None or progress is None:
            return
        done = sum(other.done for other in dump.tables)
        log.info("table dumped", table=str(table), rows=progress.rows, tables_done=done, tables_total=len(dump.tables))

    def _read_from_frontier(self, version: Table, progress: TableDump, resets: int, rows_asked: int) -> int:
        """Open windows from the frontier to the table's end, or to the first reset. Returns the rows last asked for."""
        table = version.id
        connection = self._connected()
        if not version.key:
            self._read_keyless(connection, version, resets)
            return rows_asked
        upto = progress.upto
        if not progress.started:
            upto = found = self._greatest_key(connection, version)
            self._interleaver.change_dump(lambda d: _started(d, version, found))
            if upto is None:
                return rows_asked
        after = progress.after
        while not self._stop.is_set():
            self._stop.wait(self._delay_s())
            ticket = self._interleaver.declare(table, keyed=True, resets=resets, windows_max=self._windows_max)
            if ticket is None:
                return rows_asked
            started_s = time.monotonic()
            try:
                chunk = self._select(connection, ticket, self._sql.chunk_select(version, after, upto, rows_asked), version, after)
                cut_short = len(chunk.rows) > self._limits.bytes_max
                final = chunk.last_key == upto or (chunk.row_count < rows_asked and not cut_short)
                reached = upto if final else chunk.last_key
                read = ChunkRead(table=version, rows=chunk.rows, row_count=chunk.row_count, after=after, upto=reached, final=final)
                if not self._interleaver.hand_in(ticket, read):
                    return rows_asked
                connection.write_mark(self._mark_name, ticket.high_token)
            except BaseException as e:
                self._interleaver.give_up(ticket, f"its chunk could not be read: {type(e).__name__}")
                raise
            if final:
                return rows_asked
            after = reached
            rows_asked = rows_next(
                self._limits,
                rows_asked=rows_asked,
                rows_read=chunk.row_count,
                bytes_read=len(chunk.rows),
                elapsed_s=time.monotonic() - started_s,
            )
        return rows_asked

    def _read_keyless(self, connection: DumpConnection, version: Table, resets: int) -> None:
        """The whole table in one window; any change of it meanwhile spoils the window (there is no key to strike)."""
        table = version.id
        ticket = self._interleaver.declare(table, keyed=False, resets=resets, windows_max=self._windows_max)
        if ticket is None:
            return
        try:
            chunk = self._select(connection, ticket, self._sql.full_scan(version, KEYLESS_ROWS_MAX + 1), version, None)
            if len(chunk.rows) > self._keyless_bytes_max or chunk.row_count > KEYLESS_ROWS_MAX:
                message = (
                    f"{table} has no key and is too large to be dumped in one window ({self._keyless_bytes_max} bytes, {KEYLESS_ROWS_MAX} rows); "
                    "add a primary key, or leave the table out with snapshot.include.collection.list (its changes are still followed)"
                )
                raise DefiniteError(message)
            read = ChunkRead(table=version, rows=chunk.rows, row_count=chunk.row_count, after=None, upto=None, final=True)
            if self._interleaver.hand_in(ticket, read):
                connection.write_mark(self._mark_name, ticket.high_token)
        except BaseException as e:
            self._interleaver.give_up(ticket, f"its chunk could not be read: {type(e).__name__}")
            raise

    def _select(self, connection: DumpConnection, ticket: Ticket, statement: Statement, version: Table, after: Key | None) -> ChunkRows:
        """One SELECT in a snapshot that is proved to lie behind the low mark. # I2"""
        text, parameters = statement
        key = self._sql.key_indexes(version) if version.key else ()
        bytes_max = self._limits.bytes_max if version.key else self._keyless_bytes_max
        connection.write_mark(self._mark_name, ticket.low_token)
        return read_behind_mark(
            connection,
            lambda: connection.settle(connection.select(text, parameters, bytes_max=bytes_max, key=key), version, after),
            mark=self._mark_name,
            token=ticket.low_token,
            wanted_for=f"below a chunk of {ticket.table}",
            stopped=self._stop,
        )

    def _greatest_key(self, connection: DumpConnection, version: Table) -> Key | None:
        text, parameters = self._sql.max_key(version)
        with snapshot(connection):
            return connection.select(text, parameters, key=self._sql.key_indexes(version)).last_key

    def _connected(self) -> DumpConnection:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _started(dump: Dump | None, table: Table, upto: Key | None) -> Dump | None:
    return None if dump is None else dump.started(table.id, key=table.key, upto=upto)
