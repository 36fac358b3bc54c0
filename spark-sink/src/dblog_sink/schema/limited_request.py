"""Sends HTTP requests to an untrusted server, with a deadline for the whole response.

The timeout of Python's client starts again with each byte. A server that sends its head a byte at a
time would hold the job for ever, without a line in the log.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Treats a redirect as an answer, so that its sender never receives the registry's password."""

    def redirect_request(self, *_: object) -> None:
        """Follow no redirect."""
        return


@contextlib.contextmanager
def answered(request: urllib.request.Request, *, tls: ssl.SSLContext | None, timeout_s: float, limit_s: float) -> Iterator[Any]:
    """Give the answer, and cut the connection after ``limit_s``.

    Raise TimeoutError for an answer that has not ended by then, and what ``urllib.request`` raises
    otherwise. No redirect is followed, and no proxy of the environment asked.
    """
    cut = _Cut()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects, _Http(cut), _Https(cut, tls))
    timer = threading.Timer(limit_s, cut.now)
    timer.daemon = True
    timer.start()
    try:
        with opener.open(request, timeout=timeout_s) as response:
            yield response
        if cut.is_done:  # what is cut off may look like an end
            raise TimeoutError
    except (OSError, http.client.HTTPException) as e:
        if cut.is_done:
            msg = f"its answer takes more than {limit_s:.0f} s"
            raise TimeoutError(msg) from e
        raise
    finally:
        timer.cancel()
        cut.forget()


class _Cut:
    """Ends the connection of one request from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self.is_done = False

    def take(self, connected: socket.socket) -> None:
        """Remember the connection, by a descriptor of its own: TLS takes the other one over."""
        with self._lock:
            self._socket = connected.dup()
            if self.is_done:
                self._shut_down()

    def now(self) -> None:
        """End it. One that is not there yet ends when it is."""
        with self._lock:
            self.is_done = True
            self._shut_down()

    def _shut_down(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def forget(self) -> None:
        """Close the descriptor."""
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None


class _Http(urllib.request.HTTPHandler):
    def __init__(self, cut: _Cut) -> None:
        super().__init__()
        self._cut = cut

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_watched(http.client.HTTPConnection, self._cut), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, cut: _Cut, tls: ssl.SSLContext | None) -> None:
        super().__init__(context=tls)
        self._cut = cut
        self._tls = tls

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_watched(http.client.HTTPSConnection, self._cut), req, context=self._tls)


def _watched(kind: type[http.client.HTTPConnection], cut: _Cut) -> Any:
    """Return a function that makes a connection whose socket ``cut`` gets, before TLS begins."""

    def made(host: str, **arguments: Any) -> http.client.HTTPConnection:
        connection: Any = kind(host, **arguments)

        def connected(*where: Any) -> socket.socket:
            made = socket.create_connection(*where)
            cut.take(made)
            return made

        connection._create_connection = connected  # noqa: SLF001  where the client lets one look at its socket
        return connection  # type: ignore[no-any-return]

    return made
