"""A listener that behaves like a PostgreSQL server during the login, and no further."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterable
from typing import Self

CLEAR_PASSWORD = struct.pack(">cII", b"R", 8, 3)
MD5_PASSWORD = struct.pack(">cII", b"R", 12, 5) + b"salt"
NO_PASSWORD = struct.pack(">cII", b"R", 8, 0)
_FIELDS = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0"
STARTING = struct.pack(">cI", b"E", 4 + len(_FIELDS)) + _FIELDS
_SSL_REQUEST = 80877103
_GSS_REQUEST = 80877104
_CLIENT_HELLO = b"\x16"
"""First byte of a TLS handshake, which opens the connection with sslnegotiation=direct."""


class FalsePostgres:
    """A listener on loopback that refuses every login.

    ``login`` is the authentication request. The client's answers are in ``heard``; each gets the
    error that the server is starting up. ``tls`` is the context with the server's certificate, None
    without TLS. ``certificates`` has the certificates that clients sent.
    """

    def __init__(self, login: bytes = NO_PASSWORD, *, tls: ssl.SSLContext | None = None) -> None:
        self._login, self._tls = login, tls
        self.heard: list[bytes] = []
        self.certificates: list[object] = []
        self.connections = 0

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(15)
        assert not self._thread.is_alive()

    def _accept(self) -> None:
        while True:
            try:
                peer = self._listener.accept()[0]
            except OSError:
                return
            self.connections += 1
            peer.settimeout(10)
            with contextlib.ExitStack() as open_sockets, contextlib.suppress(OSError, struct.error):
                open_sockets.enter_context(peer)
                self._serve(peer, open_sockets)

    def _serve(self, peer: socket.socket, open_sockets: contextlib.ExitStack) -> None:
        if self._tls is not None and peer.recv(1, socket.MSG_PEEK) == _CLIENT_HELLO:
            peer = open_sockets.enter_context(self._tls.wrap_socket(peer, server_side=True, do_handshake_on_connect=False))
            peer.do_handshake()
        while True:
            length, code = struct.unpack(">II", peer.recv(8))
            if code == _SSL_REQUEST and self._tls is not None:
                peer.sendall(b"S")
                peer = open_sockets.enter_context(self._tls.wrap_socket(peer, server_side=True, do_handshake_on_connect=False))
                peer.do_handshake()
                self.certificates.append(peer.getpeercert())
            elif code in (_SSL_REQUEST, _GSS_REQUEST):
                peer.sendall(b"N")
            else:
                break
        self.heard.append(peer.recv(length - 8))
        self._after_greeting(peer)

    def _after_greeting(self, peer: socket.socket) -> None:
        peer.sendall(self._login)
        if self._login != NO_PASSWORD and (answer := peer.recv(1024)):
            self.heard.append(answer)
        peer.sendall(STARTING)
        peer.recv(1024)


def message(kind: bytes, body: bytes) -> bytes:
    """Return a message of the protocol."""
    return kind + struct.pack(">I", 4 + len(body)) + body


READY = message(b"Z", b"I")
DONE = message(b"C", b"SELECT 1\0") + READY
COLUMN = message(b"T", struct.pack(">H", 1) + b"c\0" + struct.pack(">IhIhih", 0, 0, 25, -1, -1, 0))
SETTINGS = {
    b"server_version": b"17.0",
    b"server_encoding": b"UTF8",
    b"client_encoding": b"UTF8",
    b"DateStyle": b"ISO, MDY",
    b"standard_conforming_strings": b"on",
}


def row(*values: bytes | None) -> bytes:
    """Return a message with a row of a result."""
    fields = b"".join(struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value for value in values)
    return message(b"D", struct.pack(">H", len(values)) + fields)


def setting(name: bytes, value: bytes) -> bytes:
    """Return a message in which the server reports a setting."""
    return message(b"S", name + b"\0" + value + b"\0")


class AnsweringPostgres(FalsePostgres):
    """A server that accepts every login and answers statements.

    ``answers`` returns the messages for a statement, or None for no answer. ``greets`` is sent
    first, ``syncs`` in answer to a statement of the extended protocol.
    """

    def __init__(
        self, answers: Callable[[bytes], Iterable[bytes] | None], *, greets: Iterable[bytes] = (), syncs: Iterable[bytes] = ()
    ) -> None:
        super().__init__()
        self._syncs = syncs
        self._answers = answers
        self._greets = greets
        self._peer: socket.socket | None = None
        self.sent_bytes = 0

    def __exit__(self, *exception: object) -> None:
        if self._peer is not None:
            # The peer may still be sending.
            with contextlib.suppress(OSError):
                self._peer.shutdown(socket.SHUT_RDWR)
        super().__exit__(*exception)

    def _after_greeting(self, peer: socket.socket) -> None:
        self._peer = peer
        self._send(peer, [NO_PASSWORD, *(setting(*pair) for pair in SETTINGS.items())])
        self._send(peer, self._greets)
        self._send(peer, [message(b"K", bytes(8)), READY])
        stream = peer.makefile("rb")
        while head := stream.read(5):
            body = stream.read(int.from_bytes(head[1:], "big") - 4)
            if head[:1] == b"X":
                return
            if head[:1] == b"S":
                self._send(peer, [message(b"1", b""), message(b"2", b""), message(b"n", b"")])
                self._send(peer, self._syncs)
            if head[:1] != b"Q":
                continue
            pieces = self._answers(body.rstrip(b"\0"))
            self._send(peer, [message(b"C", b"SET\0") + READY] if pieces is None else pieces)

    def _send(self, peer: socket.socket, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            peer.sendall(piece)
            self.sent_bytes += len(piece)
