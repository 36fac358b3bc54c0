"""Reads the log on a replication connection: a walsender decodes a slot with pgoutput.

The server needs signs of life: a status message at least every half of its wal_sender_timeout, even
while nobody here reads (a full queue, an unreachable registry). So a separate thread sends them,
under a lock; nothing else is ever sent while the log flows. The confirmed position is what the
runtime has stored, and nothing beyond it, because the server drops its log up to there. # I1
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import struct
import threading
import time
from dataclasses import dataclass

import psycopg2

from dblog.dialects.postgres.catalog.sql import quote
from dblog.dialects.postgres.pgoutput.messages import POSTGRES_EPOCH_US
from dblog.dialects.postgres.pgoutput.position import lsn_text
from dblog.dialects.postgres.wire import _libpq
from dblog.dialects.postgres.wire.connect import PublicationMissingError, UnconvertedTextError, Wire, translate, translate_server
from dblog.errors import DblogError, TransientError

RECEIVED_BYTES_MAX = 1 << 20
"""Number of bytes returned by one ``receive``. A single message can be longer."""

STATUS_INTERVAL_S = 5.0
OVERDUE_S = 12.0
"""Seconds after which answers of the server are overdue. It answers each status at once, so two
answers are missing then. The exception is a server that decodes a large transaction of unpublished
tables: it does not answer before it reaches the end.
"""
SILENT_S = 60.0
"""Seconds of silence after which the connection is given up. The server sends a keepalive at least
every half of wal_sender_timeout, a minute by default, when it is asked to answer.
"""

FLOWS_S = 0.005
GATHERED_S = 0.0003
"""Seconds for which messages are gathered while the log flows. The server sends each with a
separate call, and a reader that waits for every one doubles the work.
"""

FAST_BYTES = 4096
FAST_GATHERED_S = 0.002
PIECE_BYTES = 1 << 16
"""Bytes of a large piece. If much arrives in a moment, as in a backlog of small transactions,
larger pieces are gathered, since each piece costs the same whatever its size.
"""

_STATUS = struct.Struct(">cQQQqB")

_NOT_IN_ITS_STATE = b"55000"


def heard_within_s(wire: Wire) -> float:
    """Return the seconds after which the walsender gives up a silent client (wal_sender_timeout,
    which a role may set for itself); infinity if it never does.
    """
    setting = wire.one(
        "SELECT setting FROM pg_catalog.pg_settings WHERE name = 'wal_sender_timeout'", doing="asking how long a walsender waits"
    )
    return int(setting or 0) / 1000 or math.inf


_UNCONVERTED = (
    "the log cannot be read past that row: correct it in its table (a dump names the table), then drop the slot and dump again (snapshot.mode=when_needed does "
    "behind SELECT pg_drop_replication_slot)"
)


@dataclass(slots=True)
class ConfirmedLsn:
    """The LSN up to which everything is stored, as the committing thread reported last. Any thread
    may read it.
    """

    lsn: int


class LogConnection:
    """The stream of the log. One thread calls ``receive``; ``wake`` and ``close`` may come from
    another. ``confirmed`` has the LSN before which everything is stored.
    """

    def __init__(self, wire: Wire, alarm: _libpq.Alarm, *, confirmed: ConfirmedLsn, status_interval_s: float = STATUS_INTERVAL_S) -> None:
        """Take over a connection on which the stream has started. ``alarm`` must be of this
        connection; it reports that the server decodes without the publication.
        """
        self._wire = wire
        self._alarm = alarm
        self._confirmed = confirmed
        self._interval_s = status_interval_s
        self._woken, self._wakes = os.pipe()
        os.set_blocking(self._wakes, False)
        self._lock = threading.Lock()
        self._closed = False
        self._received_bytes = 0
        self._failed: DblogError | None = None
        self._heard_at_s = time.monotonic()
        self._pacemaker = threading.Thread(target=self._keep_alive, name="log-status", daemon=True)
        self._stopped = threading.Event()

    @classmethod
    def open(
        cls, wire: Wire, *, slot: str, publication: str, options: str, lsn: int, confirmed: ConfirmedLsn, status_interval_s: float
    ) -> LogConnection:
        """Start the stream. Raise TransientError while another process reads the slot.

        From version 18 on, a publication that does not exist at a position is no error: the server
        sends a warning within the stream, and leaves out what follows (pgoutput.c,
        LoadPublications). # I5
        """
        alarm = _libpq.Alarm(wire.pointer, _NOT_IN_ITS_STATE, publication.encode())
        try:
            with wire.bounded(), wire.connection.cursor() as cursor:
                cursor.start_replication_expert(f"START_REPLICATION SLOT {quote(slot)} LOGICAL {lsn_text(lsn)} ({options})", decode=False)
        except psycopg2.Error as e:
            raise translate(e, wire.settings, f"reading the slot {slot}") from e
        connection = cls(wire, alarm, confirmed=confirmed, status_interval_s=status_interval_s)
        connection._pacemaker.start()
        return connection

    @property
    def is_silent(self) -> bool:
        """True if answers of the server are overdue, so that it may have logged more than is known
        here.
        """
        return time.monotonic() - self._heard_at_s > OVERDUE_S

    def receive(self, timeout_s: float) -> bytes:
        """Return the messages that have arrived, or b"" if none came in time. Raise TransientError
        if the connection is lost. Raise PublicationMissingError after the last message that was
        decoded with the publication.
        """
        if self._failed is not None:
            raise self._failed
        flows = time.monotonic() - self._heard_at_s < FLOWS_S
        data = self._arrived()
        if not data and timeout_s > 0:
            self._wait(timeout_s)
            if flows:
                time.sleep(GATHERED_S)
            data = self._arrived()
        if self._received_bytes >= FAST_BYTES and 0 < len(data) < PIECE_BYTES:
            time.sleep(FAST_GATHERED_S)
            try:
                data += self._arrived()
            except DblogError as e:  # raised after the data that has arrived
                self._failed = e
        self._received_bytes = len(data)
        if data:
            self._heard_at_s = time.monotonic()
        elif time.monotonic() - self._heard_at_s > SILENT_S:
            message = f"nothing has been heard of the server at {self._wire.settings.address} for {SILENT_S:.0f} s, though it was asked; connecting again"
            raise TransientError(message)
        return data

    def wake(self) -> None:
        """End a waiting ``receive``, or the next one."""
        with contextlib.suppress(OSError):
            os.write(self._wakes, b"x")

    def close(self) -> None:
        """Confirm to the server what is stored, and close the connection."""
        with contextlib.suppress(DblogError):
            self._send_status()
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._stopped.set()
        self.wake()
        self._wire.abort()
        if self._pacemaker.is_alive() and threading.current_thread() is not self._pacemaker:
            self._pacemaker.join(1.0)
        with self._lock:
            self._wire.close()
            os.close(self._woken)
            os.close(self._wakes)

    def _arrived(self) -> bytes:
        with self._lock:
            if self._closed:
                message = "the log connection is closed"
                raise TransientError(message)
            try:
                data, goes_on = _libpq.received(self._wire.pointer, RECEIVED_BYTES_MAX, self._alarm)
            except _libpq.AlarmError as e:
                message = f"reading the log at {self._wire.settings.address} failed ({e.primary})"
                raise PublicationMissingError(message) from e
            except _libpq.ServerError as e:
                error = translate_server(e, self._wire.settings, "reading the log")
                if isinstance(error, UnconvertedTextError):
                    message = f"{error}; {_UNCONVERTED}"
                    raise UnconvertedTextError(message) from e
                raise error from e
        if not goes_on and not data:
            message = f"the server at {self._wire.settings.address} ended the log connection"
            raise TransientError(message)
        # After the last message, the next call gets the server's reason.
        return data

    def _wait(self, timeout_s: float) -> None:
        try:
            descriptor = self._wire.connection.fileno()
            ready, _, _ = select.select([descriptor, self._woken], [], [], timeout_s)
            if self._woken in ready:
                os.read(self._woken, 4096)
        except (OSError, ValueError, psycopg2.Error) as e:
            message = "the log connection is closed"
            raise TransientError(message) from e

    def _keep_alive(self) -> None:
        while not self._stopped.wait(self._interval_s):
            with contextlib.suppress(DblogError):
                self._send_status()

    def _send_status(self) -> None:
        """Send a standby status update (PostgreSQL manual, 55.4): written, flushed and applied up
        to where everything is stored. It asks the server to answer.
        """
        lsn = self._confirmed.lsn
        now_us = time.time_ns() // 1000 - POSTGRES_EPOCH_US
        with self._lock:
            if self._closed:
                return
            try:
                _libpq.send(self._wire.pointer, _STATUS.pack(b"r", lsn, lsn, lsn, now_us, 1))
            except _libpq.ServerError as e:
                raise translate_server(e, self._wire.settings, "confirming the log") from e
