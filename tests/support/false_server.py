"""A listener that behaves like a MySQL or MariaDB server, as far as a test does not change that."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

SALT = b"12345678", b"901234567890"
OK = b"\0\0\0\x02\0\0\0"
EOF = b"\xfe\0\0\2\0"
COM_QUERY = 3
TLS_REQUEST_BYTES = 32
_CLIENT_SSL = 0x0800

Answer = Callable[[bytes], Iterable[bytes | None]]
"""A function from a command's payload to the payloads of the answer; None ends the connection."""


def greeting(plugin: bytes = b"mysql_native_password", *, tls: bool = False, version: bytes = b"8.4.0") -> bytes:
    """Return the server's greeting: protocol 4.1, secure connection, login methods."""
    capabilities = 0x0000_0200 | 0x0000_8000 | 0x0008_0000 | 0x0000_0001 | (_CLIENT_SSL if tls else 0)
    low, high = struct.pack("<H", capabilities & 0xFFFF), struct.pack("<H", capabilities >> 16)
    return (
        b"\x0a"
        + version
        + b"\0\x07\0\0\0"
        + SALT[0]
        + b"\0"
        + low
        + b"\xff\x02\0"
        + high
        + b"\x15"
        + bytes(10)
        + SALT[1]
        + b"\0"
        + plugin
        + b"\0"
    )


def lenenc(value: bytes | None) -> bytes:
    """Return a value of a text row."""
    if value is None:
        return b"\xfb"
    return (bytes([len(value)]) if len(value) < 251 else b"\xfe" + struct.pack("<Q", len(value))) + value


def column(name: bytes, type_code: int = 253) -> bytes:
    """Return a column definition in utf8mb4."""
    return (
        b"".join(lenenc(part) for part in (b"def", b"", b"t", b"t", name, name))
        + b"\x0c"
        + struct.pack("<HIBHB", 45, 1024, type_code, 0, 0)
        + b"\0\0"
    )


def rows(columns: int, values: Iterable[Iterable[bytes | None]]) -> Iterator[bytes]:
    """Return the packets of a result set of texts."""
    yield bytes([columns])
    yield from (column(b"c%d" % n) for n in range(columns))
    yield EOF
    yield from (b"".join(map(lenenc, row)) for row in values)
    yield EOF


def obliging(payload: bytes) -> Iterable[bytes | None]:
    """Answer every command of a session's set-up so that it succeeds."""
    if payload[:1] == bytes([COM_QUERY]) and payload[1:].startswith(b"SHOW SESSION VARIABLES LIKE 'binlog_format'"):
        return rows(2, [(b"binlog_format", b"ROW")])
    return [OK]


class FalseServer:
    """A listener on loopback with a thread for each connection.

    ``heard`` has all received payloads, ``sent_bytes`` the number of bytes that clients received.
    ``answer`` is called for every command. The packets of ``asks`` are sent one by one during the
    login, each before the client's next packet; ``login`` follows them (by default an OK). ``tls``
    is the context with the server's certificate, None without TLS. ``raw`` is sent in place of
    everything.
    """

    def __init__(
        self,
        answer: Answer = obliging,
        *,
        greeting: bytes | None = None,
        asks: Iterable[bytes] = (),
        login: Iterable[bytes] = (OK,),
        tls: ssl.SSLContext | None = None,
        raw: Iterable[bytes] | None = None,
    ) -> None:
        self._answer, self._greeting, self._login, self._tls, self._raw = answer, greeting, login, tls, raw
        self._asks = list(asks)
        self.heard: list[bytes] = []
        self.sent_bytes = 0
        self._threads: list[threading.Thread] = []
        self._peers: list[socket.socket] = []

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for peer in self._peers:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()
        for peer in self._peers:
            peer.close()

    def _start(self, target: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer = self._listener.accept()[0]
                peer.settimeout(10)
                self._peers.append(peer)
                self._start(self._serve, peer)

    def _serve(self, peer: socket.socket) -> None:
        with contextlib.suppress(OSError, struct.error):
            if self._raw is not None:
                for data in self._raw:
                    self._send_raw(peer, data)
                peer.shutdown(socket.SHUT_RDWR)
                return
            self._send(peer, 0, [greeting(tls=self._tls is not None) if self._greeting is None else self._greeting])
            packet, number = self._read(peer)
            if self._tls is not None and len(packet) == TLS_REQUEST_BYTES:
                peer = self._tls.wrap_socket(peer, server_side=True)
                self._peers.append(peer)
                packet, number = self._read(peer)
            for ask in self._asks:
                self._send(peer, number + 1, [ask])
                packet, number = self._read(peer)
            self._send(peer, number + 1, self._login)
            while True:
                packet, number = self._read(peer)
                self._send(peer, number + 1, self._answer(packet))

    def _read(self, peer: socket.socket) -> tuple[bytes, int]:
        (head,) = struct.unpack("<I", self._exactly(peer, 4))
        packet = self._exactly(peer, head & 0xFFFFFF)
        self.heard.append(packet)
        return packet, head >> 24

    @staticmethod
    def _exactly(peer: socket.socket, count: int) -> bytes:
        out = b""
        while len(out) < count:
            data = peer.recv(count - len(out))
            if not data:
                raise ConnectionError
            out += data
        return out

    def _send(self, peer: socket.socket, number: int, payloads: Iterable[bytes | None]) -> None:
        """Send each payload as a packet; one of 0xFFFFFF bytes continues in the next packet."""
        buffer = bytearray()
        for payload in payloads:
            if payload is None:
                self._send_raw(peer, buffer)
                peer.shutdown(socket.SHUT_RDWR)
                raise ConnectionError
            buffer += struct.pack("<I", len(payload))[:3] + bytes([number % 256]) + payload
            number += 1
            if len(buffer) > 1 << 16:
                self._send_raw(peer, buffer)
                buffer.clear()
        self._send_raw(peer, buffer)

    def _send_raw(self, peer: socket.socket, data: bytes | bytearray) -> None:
        peer.sendall(data)
        self.sent_bytes += len(data)
