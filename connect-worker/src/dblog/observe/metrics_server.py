"""Serves metrics over HTTP to untrusted clients: few at a time, each for a short time.

The library's own server has a thread for each connection and waits for ever. A client could open
thousands of connections, send nothing, and leave the worker without threads.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

CONNECTIONS_MAX = 32
"""Connections served at a time; further ones are closed at once."""
CONNECTION_S = 10.0
"""Seconds from a connection's first byte to the end of its answer."""


class MetricsServer(ThreadingMixIn, WSGIServer):
    """Answers scrapes in threads that hold up no exit."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, registry: CollectorRegistry, host: str, port: int, *, limit_s: float = CONNECTION_S) -> None:
        """Listen, and serve in a separate thread. Raise OSError if the address cannot be used."""
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        self.address_family = found[0]
        self._limit_s = limit_s
        self._places = threading.BoundedSemaphore(CONNECTIONS_MAX)
        super().__init__((str(found[4][0]), port), _Quiet)
        self.set_app(make_wsgi_app(registry))
        threading.Thread(target=self.serve_forever, name="metrics", daemon=True).start()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, or close it if there are too many."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # the process has no thread left
            self._places.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection until its end, which comes at the limit."""
        end = threading.Timer(self._limit_s, _cut, (request,))
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that was cut off, or went away."""


class _Quiet(WSGIRequestHandler):
    """Writes no line for each request."""

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  the library's name
        """Write nothing."""


def _cut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
