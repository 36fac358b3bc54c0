"""The connections of one task to its server: a session for questions, the log by two replica ids,
and chunks. All of them must reach the same server.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from dblog.codecs.rowplan import RowEncoder
from dblog.config.options import Settings
from dblog.dialects.idle_session import IdleSession
from dblog.dialects.mysql.binlog._fast import LogDecoder
from dblog.dialects.mysql.binlog.identity import KnownLog
from dblog.dialects.mysql.binlog.items import IgnoredForNow, LogOffset, RowsParked
from dblog.dialects.mysql.binlog.offset import LogProgress
from dblog.dialects.mysql.catalog.information_schema import read_table
from dblog.dialects.mysql.task.dialect import BinlogDialect, gtid_filter, writes_watermarks
from dblog.dialects.mysql.task.lookahead import LogBytes
from dblog.dialects.mysql.wire.dump import DumpConnection
from dblog.dialects.mysql.wire.log import LogConnection, end_of_log
from dblog.dialects.mysql.wire.session import ConnectSettings, Session, settings_of
from dblog.dialects.mysql.wire.state_watermarks import LogLock
from dblog.dialects.opening import Opening
from dblog.errors import ServerChangedError, TransientError
from dblog.model import Table, TableId
from dblog.readers.standing_warnings import StandingWarnings

_IDS_OFFSET = "database.server.id.offset"
_IDS = 1 << 32
_SECOND_READER = 0x4000_0000
"""The bit that is flipped in the replica id of a second log connection. The result is an id that
nobody reaches by counting up.
"""


def second_server_id(settings: Settings) -> int:
    """Return the replica id of a second log connection. It must differ from the task's own, because
    the server ends the older of two connections with one id.

    If database.server.id.offset is set, the id is that much above the first one.
    """
    first = settings.integer("database.server.id")
    if _IDS_OFFSET not in settings.originals:
        return first ^ _SECOND_READER
    return (first + settings.integer(_IDS_OFFSET)) % _IDS or 1


def chunk_settings_of(settings: Settings) -> ConnectSettings:
    """Return the server that chunks are read from in read-only mode: the replica, if one is
    configured.
    """
    where = settings_of(settings)
    port = settings["dblog.dump.port"]
    return replace(
        where, host=settings.text_or_none("dblog.dump.hostname") or where.host, port=port if isinstance(port, int) else where.port
    )


class BytesAhead:
    """The bytes that second log connections have read so far, to look ahead. Only the log thread
    writes ``total``.
    """

    def __init__(self) -> None:
        self.total = 0


class _LogAhead:
    """A second log connection whose bytes are counted. Implements ``lookahead.LogBytes``."""

    def __init__(self, connection: LogConnection, count: BytesAhead) -> None:
        self._connection = connection
        self._count = count

    def recv(self, timeout_s: float) -> bytes:
        """Return the bytes that have arrived."""
        data = self._connection.recv(timeout_s)
        self._count.total += len(data)
        return data

    @property
    def is_silent(self) -> bool:
        """True if the server's heartbeats are overdue."""
        return self._connection.is_silent

    def wake(self) -> None:
        """End a wait inside ``recv``."""
        self._connection.wake()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Connections:
    """The connections of one task. The session serves the starting thread, then the log thread,
    which closes it while it has nothing to ask. The log and each dump thread have their own
    connections.
    """

    def __init__(
        self,
        dialect: BinlogDialect,
        settings: Settings,
        session: Session,
        *,
        watermark_table: TableId,
        signal_tables: frozenset[TableId] = frozenset(),
        warnings: StandingWarnings | None = None,
    ) -> None:
        """Keep an open session. ``warnings`` receives what an operator must know while the task
        runs; None if nobody reads them.
        """
        self.dialect = dialect
        self.settings = settings
        self.session = session
        self.warnings = warnings or StandingWarnings()
        self.opening = Opening(self.warnings)
        """The context in which each connection of the task is opened."""
        self._idle = IdleSession()
        self._identity = session.identity
        self._watermark_table = watermark_table
        self._signal_tables = signal_tables
        self._log_lock = LogLock()
        self.ahead = BytesAhead()
        self.absent_gtids: Any = None
        """The GTIDs of the stored offset that this server lacked at the start; None if there were
        none.
        """

    @property
    def identity(self) -> str:
        """The server that all connections must reach."""
        return self._identity

    @property
    def watermark_table(self) -> TableId:
        """The watermark table as the log names it. A server with lower-case names logs it so,
        regardless of the option's spelling.
        """
        return self._as_logged(self._watermark_table)

    @property
    def signal_tables(self) -> frozenset[TableId]:
        """The signal tables as the log names them."""
        return frozenset(map(self._as_logged, self._signal_tables))

    def _as_logged(self, table: TableId) -> TableId:
        return TableId(table.database.lower(), table.name.lower()) if self.session.facts.lower_case_table_names == 1 else table

    def live_session(self) -> Session:
        """Return the session for questions of the log thread. It is opened again if it was closed,
        or if the server dropped it while idle.
        """
        self._idle.used()
        try:
            self.session.query("SELECT 1")
        except TransientError:
            self.session.close()
            with self.opening():
                self.session = self.dialect.connect(settings_of(self.settings), again=True)
            self._idle.opened()
            if self.session.identity != self._identity:
                message = f"another server answers at {self.session.settings.address} now; the connector starts again"
                raise ServerChangedError(message) from None
        return self.session

    def close_idle_session(self) -> None:
        """Close the session if nothing was asked for a while; the next question opens it again. The
        log thread calls this repeatedly.
        """
        if self._idle.is_due():
            self.session.close()

    def table_now(self, table: TableId) -> Table | None:
        """Return the table's current definition, or None if it is gone (log thread only)."""
        return read_table(self.live_session().execute, table)

    def end_of_log(self, code: int, body: bytes, where: str) -> Exception:
        """Return the error of a packet that ends the log; ``where`` is the position before it."""
        return end_of_log(code, body, self.session.settings, where)

    def known(self, at: LogProgress) -> KnownLog:
        """Return the log that a position belongs to. GTIDs are left out if the offset does not name
        its server, since they may be of any server.
        """
        compares = self.dialect.compares_gtids and at.server is not None and bool(at.gtids)
        return KnownLog(
            server=at.server,
            file=at.file,
            pos=at.pos,
            gtids=at.gtids.text() if compares and at.gtids is not None else None,
            all_sources=gtid_filter(self.settings) is None,
        )

    def open_chunks(self) -> DumpConnection:
        """Open connections for chunks and watermarks to the task's server; in read-only mode chunks
        may come from a replica.
        """
        settings = settings_of(self.settings)
        with self.opening():
            if writes_watermarks(self.settings):
                return DumpConnection.open(settings, self.watermark_table, server=self._identity)
            return DumpConnection.open_read_only(
                chunk_settings_of(self.settings),
                settings,
                server=self._identity,
                marks=partial(self.dialect.marks, lock=self._log_lock, status=self.session.status_statement, absent=self.absent_gtids),
            )

    def decoder(
        self, resolve: Callable[[bytes, LogOffset], RowEncoder | IgnoredForNow | RowsParked | None], *, transactions: bool = False
    ) -> LogDecoder:
        """Return a log decoder that is not started yet."""
        return self.dialect.decoder(resolve, {self.watermark_table, *self.signal_tables}, self.settings, transactions=transactions)

    def statements_decoder(self) -> LogDecoder:
        """Return a decoder without tables."""
        return self.decoder(lambda _map, _position: None)

    def ends_decoder(self) -> LogDecoder:
        """Return a decoder without tables that reports what ends transactions."""
        return self.dialect.decoder(lambda _map, _position: None, (), self.settings, ends=True)

    def rows_decoder(self, tables: Iterable[TableId]) -> LogDecoder:
        """Return a decoder that returns the rows events of these tables as events, and no other
        rows.
        """
        return self.dialect.decoder(lambda _map, _position: None, tables, self.settings)

    def open_log(self, at: LogProgress) -> LogConnection:
        """Open the task's own log connection."""
        lock = None if writes_watermarks(self.settings) else f"dblog-{uuid.uuid4().hex}"
        with self.opening():
            connection = self.session.open_log(
                server_id=self.settings.integer("database.server.id"),
                file=at.file,
                pos=at.pos,
                gtids=None if at.gtids is None else at.gtids.text(),
                known=self.known(at),
                wanted=gtid_filter(self.settings),
                lock=lock,
            )
        self._log_lock.name = lock
        return connection

    def open_second_log(self, file: str, pos: int) -> LogBytes:
        """Open a second log connection, with another server id: the server ends the older of two
        with one id.
        """
        known = KnownLog(server=self._identity, file=file, pos=pos)
        with self.opening():
            connection = self.session.open_log(server_id=second_server_id(self.settings), file=file, pos=pos, gtids=None, known=known)
        return _LogAhead(connection, self.ahead)
