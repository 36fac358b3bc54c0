"""The packets of a log connection, split in plain Python, without the log decoder."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dblog.dialects.mysql.binlog import events
from dblog.dialects.mysql.binlog.events import EventType
from dblog.dialects.mysql.wire.log import LogConnection


@dataclass(frozen=True)
class LoggedEvent:
    """An event: header, and body without checksum.

    ERR and EOF packets have only a type code as header.
    """

    type_code: int
    body: bytes
    server_id: int = 0
    next_pos: int = 0

    @property
    def name(self) -> str:
        return events.type_name(self.type_code)


class LogReader:
    """A reader of a connection's events in order."""

    def __init__(self, connection: LogConnection, *, checksum: bool = True) -> None:
        self.connection = connection
        self._data = b""
        self._checksum = checksum

    def read_until(self, found: Callable[[LoggedEvent], bool], *, limit_s: float = 20.0) -> list[LoggedEvent]:
        """Return the events up to and including the first for which ``found`` is true."""
        out = []
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            for event in self._events():
                out.append(event)
                if found(event):
                    return out
            self._data += self.connection.recv(0.5)
        raise AssertionError(f"not found within {limit_s} s among {[event.name for event in out]}")

    def _events(self) -> Iterator[LoggedEvent]:
        while len(self._data) >= 4:
            n = int.from_bytes(self._data[:3], "little")
            if len(self._data) < 4 + n:
                return
            payload, self._data = self._data[4 : 4 + n], self._data[4 + n :]
            if payload[0] == 0xFF:
                yield LoggedEvent(EventType.ERR_PACKET, payload)
            elif payload[0] == 0xFE:
                yield LoggedEvent(EventType.EOF_PACKET, payload)
            else:
                type_code, server_id, _, next_pos = struct.unpack_from("<BIII", payload, 5)
                end = len(payload) - (4 if self._checksum else 0)
                yield LoggedEvent(type_code, payload[20:end], server_id, next_pos)
