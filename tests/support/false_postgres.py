"""What answers at a port as a PostgreSQL server does while somebody logs in, and not further."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from typing import Self

CLEAR_PASSWORD = struct.pack(">cII", b"R", 8, 3)
MD5_PASSWORD = struct.pack(">cII", b"R", 12, 5) + b"salt"
NO_PASSWORD = struct.pack(">cII", b"R", 8, 0)
_FIELDS = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0"
STARTING = struct.pack(">cI", b"E", 4 + len(_FIELDS)) + _FIELDS
_SSL_REQUEST = 80877103
_GSS_REQUEST = 80877104
_CLIENT_HELLO = b"\x16"
"""TLS begins with the first byte (sslnegotiation=direct)."""


class FalsePostgres:
    """Listens on loopback. ``login`` is what it asks for; whatever is answered ends up in ``heard``, and gets an error that the server is starting up.

    ``tls`` is the certificate's context, None for a server without TLS. ``certificates`` are those that clients showed.
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
        peer.sendall(self._login)
        if self._login != NO_PASSWORD and (answer := peer.recv(1024)):
            self.heard.append(answer)
        peer.sendall(STARTING)
        peer.recv(1024)
