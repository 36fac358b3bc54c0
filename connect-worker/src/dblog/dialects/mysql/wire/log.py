"""The connection on which a server sends its log: opened at a position, then only read.

It returns the bytes of the socket. The log decoder (dialects/mysql/binlog/_fast.pyx) cuts and
checks packets, and returns ERR and EOF packets as events, which ``end_of_log`` turns into errors.
Rule sources: MySQL sql/rpl_binlog_sender.cc (session variables it reads, heartbeats, error 1236),
MariaDB sql/sql_repl.cc (``@mariadb_slave_capability``, ``@slave_connect_state``).
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import threading
import time

from dblog.dialects.mysql.wire import protocol
from dblog.dialects.mysql.wire.connect import DENIED, ConnectSettings, PrivilegeError, Wire, meaning, server_message
from dblog.dialects.mysql.wire.guarded import no_server
from dblog.dialects.mysql.wire.protocol import SMALL_PACKET_BYTES_MAX
from dblog.errors import LOST_REMEDY, DblogError, PositionLostError, TransientError

RECV_BYTES_MAX = 256 * 1024
"""The size of socket reads in bytes. Larger ones gained nothing (measured on a local server)."""

HEARTBEATS_MISSED_MAX = 18
"""The number of consecutive missing heartbeats after which a connection counts as dead. No packet
reports a cut cable or a vanished host.

It is large because MariaDB restarts the wait for its heartbeat, on all log connections, whenever a
reader is ended for another one with its server id. Two readers that ended each other every ten
seconds kept heartbeats of 30 s from all others.
"""

HEARTBEAT_OVERDUE = 2.4

SAME_SERVER_ID = (
    "If this repeats, another connector, replica or binlog reader uses that id, or workers with another group.id use the same storage topics and run this "
    "connector too. Give each connector its own database.server.id, which no replica of the server has, and each group of workers its own storage topics"
)
"""The reason why a server ends one log connection for another, with the remedies."""

_WRONG_POSITION = 1236

PASSING_TEXTS = ("memory", "could not open", "cannot open", "error reading", "i/o error", "io error")
"""Texts of error 1236 for a log that exists but cannot be read now: the server lacks memory, or its
disk or log folder does not answer.
"""


class LogConnection:
    """The server's log as it arrives. One thread receives; ``close`` may be called from another."""

    def __init__(self, wire: Wire, *, heartbeat_s: float) -> None:
        self._wire = wire
        self._heartbeat_s = heartbeat_s
        self._heard_at_s = time.monotonic()
        self._socket = wire.socket
        self._socket.setblocking(False)
        self._buffer = memoryview(bytearray(RECV_BYTES_MAX))
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._wake_lock = threading.Lock()
        self._wake_fd: int | None = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll.register(self._wake_fd, select.POLLIN)

    @property
    def settings(self) -> ConnectSettings:
        """The settings of the server that is connected."""
        return self._wire.settings

    def recv(self, timeout_s: float) -> bytes:
        """Return the bytes that have arrived, at most 256 KiB; b"" if there were none within
        ``timeout_s``. Raise TransientError if the connection is lost.
        """
        try:
            data = self._read()
            if data is None and timeout_s > 0:
                self._poll.poll(timeout_s * 1000)
                self._woken()
                data = self._read()
        except OSError as e:
            message = f"the log connection to {self.settings.address} broke ({e.strerror or type(e).__name__})"
            raise TransientError(message) from e
        except ValueError as e:  # a closed socket has no file descriptor
            message = f"the log connection to {self.settings.address} was closed"
            raise TransientError(message) from e
        if data == b"":
            message = (
                f"the server at {self.settings.address} ended the log connection: it restarts, the connection was killed, or another reader came "
                f"with this connector's database.server.id. {SAME_SERVER_ID}"
            )
            raise TransientError(message)
        if data is not None:
            self._heard_at_s = time.monotonic()
        elif self.silence_s > self._heartbeat_s * HEARTBEATS_MISSED_MAX:
            message = (
                f"the server at {self.settings.address} has sent nothing for {self.silence_s:.0f} s, not even the heartbeats that were asked for every "
                f"{self._heartbeat_s:g} s; the connection counts as dead"
            )
            raise TransientError(message)
        return data or b""

    @property
    def silence_s(self) -> float:
        """Seconds since the server last sent something."""
        return time.monotonic() - self._heard_at_s

    @property
    def is_silent(self) -> bool:
        """True if a heartbeat is overdue, so that newer events of the server are unknown here."""
        return self.silence_s > self._heartbeat_s * HEARTBEAT_OVERDUE

    def _read(self) -> bytes | None:
        """Read without waiting; return None if nothing is there, b"" at the end.

        Reads all available bytes, not those of one call. Under TLS one call returns a record of 16
        KiB, and a reader slower than the server would handle the log in pieces of that size
        (measured: 13 MB/s instead of 84 at half a millisecond a piece).
        """
        buffer, filled = self._buffer, 0
        try:
            while filled < RECV_BYTES_MAX:
                count = self._socket.recv_into(buffer[filled:])
                if not count:
                    break
                filled += count
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return bytes(buffer[:filled]) if filled else None
        except ssl.SSLEOFError:
            pass
        return bytes(buffer[:filled])

    def wake(self) -> None:
        """End a wait inside ``recv``, or the next one, from any thread."""
        with self._wake_lock:
            if self._wake_fd is not None:
                os.eventfd_write(self._wake_fd, 1)

    def _woken(self) -> None:
        with self._wake_lock, contextlib.suppress(BlockingIOError):
            if self._wake_fd is not None:
                os.eventfd_read(self._wake_fd)

    def close(self) -> None:
        """End the connection; a thread inside ``recv`` gets a TransientError."""
        self._wire.abort()
        self._wire.close()
        with self._wake_lock:
            fd, self._wake_fd = self._wake_fd, None
            if fd is not None:
                os.close(fd)


def announce(wire: Wire, *, server_id: int, hostname: str) -> None:
    """Send COM_REGISTER_SLAVE, which shows us to administrators. Raise PrivilegeError if the
    account may not replicate.
    """
    sock = wire.socket
    sock.sendall(protocol.packets(protocol.register_replica(server_id=server_id, hostname=hostname)))
    payload = read_packet(sock, wire.settings)
    if payload[:1] == b"\xff":
        error = protocol.read_error(payload)
        if error.code in DENIED:  # MariaDB answers 1045, as for a wrong password
            message = f"user '{wire.settings.user}' lacks the privilege REPLICATION SLAVE at {wire.settings.address} (error {error.code})"
            raise PrivilegeError(message)
        raise meaning(error.code, error.text, wire.settings, "registering as a replica")


def read_packet(sock: socket.socket, settings: ConnectSettings) -> bytes:
    """Return the payload of one small packet, an answer to our commands. Raise DefiniteError if no
    server would send it.
    """
    size = int.from_bytes(_exactly(sock, 4, settings)[:3], "little")
    if not 0 < size <= SMALL_PACKET_BYTES_MAX:
        raise no_server(settings.address)
    return _exactly(sock, size, settings)


def _exactly(sock: socket.socket, count: int, settings: ConnectSettings) -> bytes:
    out = bytearray()
    while len(out) < count:
        try:
            data = sock.recv(count - len(out))
        except OSError as e:
            message = f"the connection to {settings.address} broke ({e.strerror or type(e).__name__})"
            raise TransientError(message) from e
        if not data:
            message = f"the server at {settings.address} ended the connection"
            raise TransientError(message)
        out += data
    return bytes(out)


def end_of_log(type_code: int, body: bytes, settings: ConnectSettings, position: str) -> DblogError:
    """Return the error for the decoder's event -1 (an ERR packet's payload) or -2 (EOF).
    ``position`` names the position that we asked for.
    """
    if type_code != -1:
        return TransientError(
            f"the server at {settings.address} ended the log at {position} (it is shutting down, or the connection was killed)"
        )
    # The first byte 0xFF may be missing: the SQL state's sign shows the position of the number.
    error = protocol.read_error(b"\xff" + body if body[2:3] == b"#" else body)
    text = error.text.lower()
    # 1236 on MySQL, a number of its own on MariaDB
    if "same server_uuid/server_id" in text or "same server uuid/server id" in text:
        return TransientError(
            f"another reader has connected to {settings.address} with this connector's database.server.id, so the server ended our log connection. "
            f"{SAME_SERVER_ID}"
        )
    if error.code != _WRONG_POSITION:
        return meaning(error.code, error.text, settings, f"reading the log from {position}")
    if "max_allowed_packet" in text:
        return meaning(error.code, error.text, settings, f"reading the log from {position}")
    if any(passing in text for passing in PASSING_TEXTS):
        return TransientError(
            f"the server at {settings.address} cannot read its log from {position} now ({server_message(error.code, error.text)}); its error log has the "
            f"cause. If the file is gone for good, PURGE BINARY LOGS TO the next one takes it out of the server's list, and the position is lost: {LOST_REMEDY}"
        )
    return PositionLostError(
        f"the server at {settings.address} cannot send its log from {position} ({server_message(error.code, error.text)}); "
        f"the log is purged, belongs to another history, or has no event that begins there; {LOST_REMEDY}"
    )
