"""Slow bodies, many bodies and answers that nobody takes, over real sockets, with limits that a test can wait for."""

import contextlib
import socket
import threading

import httpx
import pytest
import uvicorn
from dblog.rest import connections, guard
from dblog.rest.app import RequestError, on_request_error
from dblog.rest.connections import BoundedProtocol
from dblog.rest.guard import Bodies
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route
from support.worker import until

LARGE = 50_000_000


class Served:
    """The guard before two resources, on a port of its own."""

    def __init__(self):
        app = Starlette(
            routes=[Route("/count", self._count, methods=["POST"]), Route("/large", self._large)],
            middleware=[Middleware(Bodies)],
            exception_handlers={RequestError: on_request_error},
        )
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.server = uvicorn.Server(
            uvicorn.Config(app, http=BoundedProtocol, ws="none", log_config=None, access_log=False, lifespan="off")
        )
        self._thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self._listener]})

    @staticmethod
    async def _count(request):
        return Response(str(len(await request.body())))

    @staticmethod
    async def _large(_request):
        return Response(bytes(LARGE))

    @property
    def connections(self):
        """How many clients are connected."""
        return len(self.server.server_state.connections)

    def raw(self):
        """A connection that we write to byte by byte."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def post(self, size):
        return httpx.post(f"http://127.0.0.1:{self.port}/count", content=b"x" * size, timeout=10)

    def __enter__(self):
        self._thread.start()
        until(lambda: self.server.started)
        return self

    def __exit__(self, *_):
        self.server.should_exit = True
        self._thread.join(10)
        self._listener.close()


@pytest.fixture
def served():
    with Served() as started:
        yield started


def begin_post(client, length, body=b""):
    client.sendall(b"POST /count HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % length + body)


def answer_of(client, *, trickling=False):
    """Head and JSON of what is answered while the request is still coming."""
    client.settimeout(0.05)
    answer = bytearray()

    def complete():
        if trickling:
            with contextlib.suppress(OSError):
                client.sendall(b"x")
        with contextlib.suppress(OSError):
            answer.extend(client.recv(65536))
        return answer.endswith(b"}")

    until(complete, limit_s=60, what=lambda: f"an answer, not {bytes(answer)!r}")
    return bytes(answer)


@pytest.mark.parametrize("trickle", [False, True])
def test_a_body_that_does_not_arrive_in_time_is_408_and_the_next_one_is_served(
    served, monkeypatch, trickle
):  # number 15 of the worker's safety
    monkeypatch.setattr(guard, "BODY_S", 0.3)
    with served.raw() as client:
        begin_post(client, 1000, b"x")
        answer = answer_of(client, trickling=trickle)

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"did not arrive within 0.3 s" in answer
    until(lambda: served.connections == 0, limit_s=60)
    assert served.post(1000).text == "1000"


def test_bodies_that_are_more_than_all_together_may_be_are_503_until_one_is_done(served, monkeypatch):  # number 15
    monkeypatch.setattr(guard, "BODIES_BYTES_MAX", 100_000)
    with served.raw() as client:
        begin_post(client, 90_001, b"x" * 90_000)

        refused = until(lambda: answer if (answer := served.post(20_000)).status_code == 503 else None, limit_s=60)
        assert refused.headers["retry-after"] == "1"
        assert "large bodies" in refused.json()["message"]
        assert served.post(0).status_code == 200, "a request without a body is served meanwhile"

        client.sendall(b"x")
        assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
    assert served.post(20_000).text == "20000"


def test_what_a_client_held_is_free_when_it_breaks_off(served, monkeypatch):  # number 15
    monkeypatch.setattr(guard, "BODIES_BYTES_MAX", 100_000)
    with served.raw() as client:
        begin_post(client, 90_001, b"x" * 90_000)
        until(lambda: served.post(20_000).status_code == 503, limit_s=60)

    until(lambda: served.post(20_000).status_code == 200, limit_s=60)


def test_a_client_that_takes_none_of_a_large_answer_is_cut(served, monkeypatch):  # number 15
    monkeypatch.setattr(connections, "ANSWER_S", 0.3)
    with served.raw() as client:
        client.sendall(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n")
        until(lambda: served.connections == 1, limit_s=60)

        until(lambda: served.connections == 0, limit_s=60, what=lambda: "the connection to be cut")
        taken = 0
        with contextlib.suppress(ConnectionError):
            while piece := client.recv(1_000_000):
                taken += len(piece)
    assert taken < LARGE


def test_a_client_that_takes_a_large_answer_slowly_gets_all_of_it(served, monkeypatch):  # number 15
    monkeypatch.setattr(connections, "ANSWER_S", 0.3)
    with served.raw() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        client.sendall(b"GET /large HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        pause = threading.Event()
        taken = 0
        while piece := client.recv(1_000_000):
            taken += len(piece)
            pause.wait(0.002)

    assert taken > LARGE
