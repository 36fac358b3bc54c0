"""The connections of a dump: watermarks are committed on one, chunks are read in a snapshot on
another.

A window proves itself (D5). The low watermark is written and committed first, and the snapshot
opened after that. If the watermark can be read inside the snapshot, the snapshot shows everything
that the log has before the watermark. This requires commits to become visible in the order of the
log, which MariaDB always ensures and MySQL with ``binlog_order_commits=ON`` (check.py verifies it).
In read-only mode nothing is written, and the second connection answers for the log's server instead
(marks.py).

Chunk rows arrive in the binary protocol of prepared statements and stay as the server sent them:
the row plan reads them (D4).
"""

from __future__ import annotations

import contextlib
import importlib
import socket
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from dblog.dialects.mysql.binlog.offset import LogMark, LogProgress
from dblog.dialects.mysql.catalog import sql
from dblog.dialects.mysql.wire import json_kinds, protocol
from dblog.dialects.mysql.wire.connect import (
    WAIT_TIMEOUT_S,
    ConnectSettings,
    PrivilegeError,
    ReadOnlyError,
    Wire,
    check_identity,
    meaning,
    open_wire,
)
from dblog.dialects.mysql.wire.guarded import no_server
from dblog.dialects.mysql.wire.protocol import ResultColumn
from dblog.dialects.mysql.wire.state_watermarks import SnapshotMarks
from dblog.errors import DblogError, DefiniteError, TableChangedError, TableDeniedError, TransientError, chunk_would_write, discreet
from dblog.model import Table, TableId
from dblog.ports import ChunkRows

Walk = Callable[[Any, int], tuple[bool, int, int, int]]
"""The type of protocol.walk_rows and of its compiled form."""

Doubtful = Callable[[bytes, bytes], list[tuple[int, int]]]
"""The type of json_kinds.doubtful_rows and of its compiled form."""

ROW_BYTES_MAX = (1 << 30) + (1 << 16)
"""The longest row in bytes. A server's max_allowed_packet is 1 GiB at most, so the log could not
have a longer one.
"""

SILENCE_S = 60
"""The longest silence of a worker within a snapshot, in seconds. After it, or if the worker stops
reading a chunk's rows, the server ends the snapshot: while it lasts, an ALTER of the table waits
for it, and all writers wait for the ALTER.
"""

_KILL_LIMIT_S = 10.0
"""The time limit of the statement that ends another."""

_RECV_BYTES = 256 * 1024
_STATEMENTS_MAX = 16
"""Prepared statements kept for reuse; a table's chunks need seven."""


class DumpConnection:
    """Watermarks and chunks of one reader thread; ``close`` may be called from another. Implements
    ``ports.DumpConnection``.
    """

    def __init__(
        self,
        snapshot: Wire,
        watermark_session: Wire,
        watermarks: TableId | None,
        walk: Walk = protocol.walk_rows,
        doubtful: Doubtful = json_kinds.doubtful_rows,
        marks: SnapshotMarks | None = None,
    ) -> None:
        """Wrap two open connections. ``marks`` is set in read-only mode, in which the second
        session answers for the log's server.
        """
        self._marks = marks
        self._snapshot = snapshot
        self._watermark_session = watermark_session
        self._watermarks = watermarks
        self._walk = walk
        self.doubtful = doubtful
        self._statements: OrderedDict[str, int] = OrderedDict()
        self.snapshot_id = snapshot.id
        """The server's number of the snapshot's connection."""
        self.columns: tuple[ResultColumn, ...] = ()
        """Column definitions of the last result set, with the table's types in the snapshot."""

    @classmethod
    def open(cls, settings: ConnectSettings, watermarks: TableId, *, server: str | None = None) -> DumpConnection:
        """Open both connections. ``server`` is the server whose log is read; ServerChangedError if
        either has reached another one.
        """
        snapshot = _open_snapshot(settings, server)
        try:
            watermark_session = open_wire(settings, again=True)
        except BaseException:
            snapshot.close()
            raise
        try:
            check_identity(watermark_session, server)
            _log_rows(watermark_session)
        except BaseException:
            snapshot.close()
            watermark_session.close()
            raise
        return cls(snapshot, watermark_session, watermarks, *_compiled())

    @classmethod
    def open_read_only(
        cls, settings: ConnectSettings, log_settings: ConnectSettings, *, server: str, marks: Callable[[Wire, Wire], SnapshotMarks]
    ) -> DumpConnection:
        """Open both connections for read-only mode. ``settings`` leads to the server for chunks,
        ``log_settings`` to ``server``, whose log is read.
        """
        snapshot = _open_snapshot(settings, None)
        try:
            log_server = open_wire(log_settings, again=True)
        except BaseException:
            snapshot.close()
            raise
        try:
            check_identity(log_server, server)
            for wire in (snapshot, log_server):
                wire.query("SET SESSION TRANSACTION READ ONLY", doing="preparing the dump")
        except BaseException:
            snapshot.close()
            log_server.close()
            raise
        return cls(snapshot, log_server, None, *_compiled(), marks=marks(snapshot, log_server))

    def write_watermark(self, name: str, token: str) -> None:
        """Commit the token to the watermark row ``name``, in a transaction of its own. Tokens are
        never used twice.
        """
        assert self._watermarks is not None, "nothing is written in read-only mode"
        if len(name) > sql.WATERMARK_NAME_CHARACTERS_MAX or len(token) > sql.WATERMARK_NAME_CHARACTERS_MAX:
            message = f"the watermark '{name[:50]}...' is longer than {sql.WATERMARK_NAME_CHARACTERS_MAX} characters; give the connector a shorter name"
            raise DefiniteError(message)
        try:
            self._watermark_session.query(
                sql.write_watermark(self._watermarks), (name, token, token), doing=f"writing a watermark to {self._watermarks}"
            )
        except TableChangedError as e:
            message = f"the watermark table {self._watermarks} is gone; restart the task, which creates it again"
            raise DefiniteError(message) from e
        except ReadOnlyError as e:
            # The start-up check has written here, so this is a failover in progress, or
            # maintenance.
            message = f"the server at {self._watermark_session.settings.address} has turned read-only; waiting until it, or its successor, takes watermarks"
            raise TransientError(message) from e

    def begin_snapshot(self) -> None:
        """Start a consistent snapshot, taken now and not at the first read. The server ends it
        after ``SILENCE_S`` without a statement.
        """
        self._snapshot.query(f"SET SESSION wait_timeout = {SILENCE_S}", doing="starting a snapshot")
        self._snapshot.query("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", doing="starting a snapshot")

    def snapshot_shown(self) -> None:
        """Do nothing: a snapshot that shows a watermark, or GTIDs, shows everything that the log
        has before it.
        """

    def limit_selects(self, limit_s: float) -> None:
        """Let the server end any later SELECT that takes longer than this; 0 for no limit. The
        error is a TransientError, and the snapshot continues.
        """
        try:
            # MySQL
            self._snapshot.query(f"SET SESSION max_execution_time = {limit_s * 1000:.0f}", doing="limiting SELECTs")
        except DefiniteError:
            # MariaDB
            self._snapshot.query(f"SET SESSION max_statement_time = {limit_s:g}", doing="limiting SELECTs")

    def begin_snapshot_behind(self, low: Any) -> bool:
        """Start a snapshot that provably shows everything in the log before ``low``. Return False
        if that cannot be proved yet.
        """
        assert self._marks is not None, "asked in read-only mode only"
        assert isinstance(low, LogProgress), "made by this dialect"
        if not self._marks.may_begin(low):
            return False
        self.begin_snapshot()
        if self._marks.shows(low):
            return True
        self.end_snapshot()
        return False

    def log_end(self) -> LogMark:
        """Return the current end of the log."""
        assert self._marks is not None, "asked in read-only mode only"
        return self._marks.end()

    def read_watermark(self, name: str) -> str | None:
        """Return the token that the snapshot sees in row ``name``."""
        assert self._watermarks is not None, "nothing is written in read-only mode"
        rows = self._snapshot.query(sql.read_watermark(self._watermarks), (name,), doing=f"reading a watermark of {self._watermarks}")
        return str(rows[0][0]) if rows else None

    def end_snapshot(self) -> None:
        """End the snapshot, in which nothing was changed. Between snapshots the connection may be
        silent without limit.
        """
        self._snapshot.query("ROLLBACK", doing="ending a snapshot")
        self._snapshot.query(f"SET SESSION wait_timeout = {WAIT_TIMEOUT_S}", doing="ending a snapshot")

    def select(
        self, statement: str, parameters: Sequence[Any] = (), *, bytes_max: int = 0, key: Sequence[int] = (), table: TableId | None = None
    ) -> ChunkRows:
        """Run one SELECT inside the snapshot and keep its row packets.

        With ``bytes_max`` rows are kept until they exceed it, at least one. The rest is received
        and discarded, so that memory stays bounded for rows of any size (I6). ``key`` has the
        indexes of the key columns, for ``last_key``. With ``table``, TableDeniedError names its
        GRANT.
        """
        sock = self._snapshot.socket
        sock.settimeout(self._snapshot.settings.statement_timeout_s)
        try:
            return self._select(sock, statement, parameters, bytes_max, key)
        except ReadOnlyError as e:  # our own SELECT writes nothing
            raise ReadOnlyError(chunk_would_write("reading a chunk", self._snapshot.settings.address, "error 1792")) from e
        except PrivilegeError as e:
            if table is None:
                raise
            try:
                user = str(self._watermark_session.query("SELECT CURRENT_USER()", doing="asking who we are")[0][0])
            except DblogError:
                raise e from None
            message = (
                f"{e}; run there: {sql.grant_select(table, user)} and restart the task, or leave the table out with table.exclude.list"
            )
            missing = TableDeniedError(message)
            missing.discreet = message.replace(str(e), discreet(e), 1)
            raise missing from e
        except TimeoutError as e:
            self._snapshot.close()
            self._end_statement()
            message = (
                f"a chunk from {self._snapshot.settings.address} took longer than {self._snapshot.settings.statement_timeout_s:g} s"
                " (database.query.timeout.ms)"
            )
            raise TransientError(message) from e
        except OSError as e:
            message = f"the connection to {self._snapshot.settings.address} broke while a chunk was read ({e.strerror or type(e).__name__})"
            raise TransientError(message) from e

    def complete(
        self,
        chunk: ChunkRows,
        table: Table,
        after: Sequence[Any] | None,
        *,
        keys: Sequence[Sequence[Any]] | None = None,
        where: str | None = None,
    ) -> ChunkRows:
        """Complete the chunk that was just selected: its JSON documents get the kinds of values
        that their text hides (json_kinds.py).
        """
        select = partial(self.select, table=table.id)
        if keys is not None:
            return json_kinds.rows_with_final_texts(chunk, table, keys, columns=self.columns, doubtful=self.doubtful, select=select)
        return json_kinds.chunk_with_final_texts(
            chunk, table, after, columns=self.columns, doubtful=self.doubtful, select=select, where=where
        )

    def close(self) -> None:
        """Close both connections, from any thread, even during a SELECT."""
        for wire in (self._snapshot, self._watermark_session):
            wire.abort()
        for wire in (self._snapshot, self._watermark_session):
            wire.close()

    def _end_statement(self) -> None:
        """Kill the statement that we stopped waiting for. The server would not notice before its
        first row, and would hold the table until then.

        Do nothing if the second session has reached another server, where the connection's number
        has no meaning.
        """
        if self._marks is not None and not self._marks.same_server:
            return
        with contextlib.suppress(DblogError):
            self._watermark_session.limit_answers(_KILL_LIMIT_S)
            self._watermark_session.query(f"KILL {self.snapshot_id}", doing="ending a chunk")

    # -- the prepared statement protocol -----------------------------------------------------------

    def _select(self, sock: socket.socket, statement: str, parameters: Sequence[Any], bytes_max: int, key: Sequence[int]) -> ChunkRows:
        answer = _Answer(sock, self._snapshot.settings)
        statement_id = self._prepared(answer, statement)
        sock.sendall(protocol.packets(protocol.execute(statement_id, parameters)))
        with self._read_as_a_servers():
            head = answer.packet()
            self._raise_if_error(head)
            self.columns = tuple(protocol.read_column(answer.packet()) for _ in range(protocol.read_column_count(head)))
            answer.packet()  # EOF after the definitions
            rows, row_count, last = answer.rows(self._walk, bytes_max)
            last_key = protocol.row_values(protocol.join_row(rows, last), self.columns, key) if row_count and key else None
        return ChunkRows(rows=rows, row_count=row_count, last_key=last_key)

    @contextlib.contextmanager
    def _read_as_a_servers(self) -> Iterator[None]:
        """Raise DefiniteError for bytes that no MySQL server would send; nothing after them can be
        read either.
        """
        try:
            yield
        except (struct.error, IndexError, KeyError, ValueError, ArithmeticError) as e:
            self._snapshot.abort()
            raise no_server(self._snapshot.settings.address) from e

    def _prepared(self, answer: _Answer, statement: str) -> int:
        known = self._statements.get(statement)
        if known is not None:
            self._statements.move_to_end(statement)
            return known
        while len(self._statements) >= _STATEMENTS_MAX:
            _, oldest = self._statements.popitem(last=False)
            answer.socket.sendall(protocol.packets(protocol.close_statement(oldest)))
        answer.socket.sendall(protocol.packets(protocol.prepare(statement)))
        with self._read_as_a_servers():
            head = answer.packet()
            self._raise_if_error(head)
            prepared = protocol.read_prepared(head)
            for definitions in (prepared.parameters, prepared.columns):
                # Each list ends with an EOF packet.
                for _ in range(definitions + 1 if definitions else 0):
                    answer.packet()
        self._statements[statement] = prepared.statement_id
        return prepared.statement_id

    def _raise_if_error(self, payload: bytes) -> None:
        if payload[:1] == b"\xff":
            error = protocol.read_error(payload)
            raise meaning(error.code, error.text, self._snapshot.settings, "reading a chunk")


class _Answer:
    """The server's answers on a socket, cut into packets; rows stay together."""

    def __init__(self, sock: socket.socket, settings: ConnectSettings) -> None:
        self.socket = sock
        self._settings = settings
        self._data = bytearray()
        self._at = 0

    def packet(self) -> bytes:
        """Return the next packet's payload, which holds no row. Raise ValueError if it is too long
        for that.
        """
        while True:
            data, at = self._data, self._at
            if len(data) - at >= 4:  # noqa: PLR2004 - the packet header
                end = at + 4 + int.from_bytes(data[at : at + 3], "little")
                if end - at - 4 > protocol.SMALL_PACKET_BYTES_MAX:
                    message = "a long packet where no row is"
                    raise ValueError(message)
                if len(data) >= end:
                    self._at = end
                    return bytes(data[at + 4 : end])
            self._more()

    def rows(self, walk: Walk, bytes_max: int) -> tuple[bytes, int, int]:
        """Read row packets up to the result's end. Return their bytes, their number, and the start
        of the last one.
        """
        del self._data[: self._at]
        self._at = at = 0
        count, last = 0, -1
        kept: int | None = None
        """The number of kept bytes, once they exceed the limit."""
        while True:
            try:
                complete, rows, newest, at = walk(self._data, at)
            except TransientError as e:
                error = protocol.error_among_rows(self._data)
                if error is None:
                    raise
                # The number decides: some errors need a person, others come from a DDL statement.
                raise meaning(error.code, error.text, self._settings, "reading a chunk") from e
            rows_end = at - protocol.EOF_PACKET_BYTES if complete else at
            if kept is None:
                count += rows
                last = newest if rows else last
                if bytes_max and rows_end > bytes_max:
                    kept = rows_end
            if complete:
                if self._data[rows_end : rows_end + 3] != b"\x05\0\0":
                    message = "rows that end with another packet than EOF"
                    raise ValueError(message)
                out = bytes(self._data[: rows_end if kept is None else kept])
                self._at = at
                return out, count, last
            if kept is not None and at > kept:
                # Beyond the limit rows are only counted. # I6
                del self._data[kept:at]
                at = kept
            if len(self._data) - at > ROW_BYTES_MAX or (not bytes_max and at > ROW_BYTES_MAX):
                message = "a row, or rows of a short answer, longer than any server has"
                raise ValueError(message)
            self._more()

    def _more(self) -> None:
        data = self.socket.recv(_RECV_BYTES)
        if not data:
            message = f"the server at {self._settings.address} ended the connection while a chunk was read"
            raise TransientError(message)
        self._data += data


def _open_snapshot(settings: ConnectSettings, server: str | None) -> Wire:
    """Open the connection for reading chunks."""
    snapshot = open_wire(settings, again=True)
    try:
        check_identity(snapshot, server)
        snapshot.query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", doing="preparing the dump")
        snapshot.query(f"SET SESSION net_write_timeout = {SILENCE_S}", doing="preparing the dump")
    except BaseException:
        snapshot.close()
        raise
    return snapshot


def _log_rows(watermark_session: Wire) -> None:
    """Make the session log its watermarks as rows. A new session has the server's current format,
    which may have changed since the connector started.
    """
    rows = watermark_session.query("SHOW SESSION VARIABLES LIKE 'binlog_format'", doing="asking how watermarks are logged")
    if not rows or rows[0][1] == "ROW":
        return
    try:
        watermark_session.query("SET SESSION binlog_format = 'ROW'", doing="having watermarks logged as rows")
    except PrivilegeError as e:
        message = (
            f"new sessions at {watermark_session.settings.address} log with binlog_format={rows[0][1]}, so watermarks would not be logged as "
            "rows, and no chunk can be read; run there: SET GLOBAL binlog_format = 'ROW'; the dump waits for it"
        )
        raise TransientError(message) from e


def _compiled() -> tuple[Walk, Doubtful]:
    """Return the compiled functions if the extension is installed; they give the same answers."""
    try:
        extension = importlib.import_module("dblog.dialects.mysql.binlog._fast")
    except ImportError:
        return protocol.walk_rows, json_kinds.doubtful_rows
    return extension.scan_rows, extension.json_doubts
