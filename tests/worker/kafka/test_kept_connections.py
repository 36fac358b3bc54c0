"""Requests share connections for a while, and a connection that the server has closed fails none."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from dblog.abort import Abort
from dblog.errors import TransientError
from dblog.kafka import kept_connections
from dblog.kafka.registry import RegistryAccess, RegistryClient

TIMEOUT_S = 120.0


class Registry(ThreadingHTTPServer):
    """Gives every schema an id. ``drops``: so many requests are read and left without an answer, their connection closed."""

    daemon_threads = True

    def __init__(self) -> None:
        self.connections = 0
        self.requests = 0
        self.drops = 0
        self.answers = threading.Event()
        self.answers.set()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Registry

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.requests += 1
        self.server.answers.wait(TIMEOUT_S)
        if self.server.drops:
            self.server.drops -= 1
            self.close_connection = True
            return
        body = b'{"id": 7}'
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.answers.set()
            server.shutdown()
            thread.join(TIMEOUT_S)


def until(condition: object) -> None:
    until_s = time.monotonic() + TIMEOUT_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < until_s
        threading.Event().wait(0.01)


def loops() -> int:
    return sum(thread.name == "http" for thread in threading.enumerate())


def test_requests_one_after_the_other_use_one_connection_and_several_at_a_time_one_each(registry: Registry) -> None:
    client = RegistryClient(RegistryAccess(urls=(registry.url,)))

    assert {client.register(f"one{n}", '"int"') for n in range(20)} == {7}
    assert (registry.connections, registry.requests) == (1, 20)

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda n: client.register(f"four{n}", '"int"'), range(40))) == {7}
    assert registry.requests == 60
    assert registry.connections <= 5


def test_a_connection_that_is_closed_without_an_answer_has_the_question_asked_once_more(registry: Registry) -> None:
    client = RegistryClient(RegistryAccess(urls=(registry.url,)))
    client.register("a", '"int"')

    registry.drops = 1
    assert client.register("b", '"int"') == 7

    registry.drops = 2
    with pytest.raises(TransientError, match="RemoteProtocolError"):
        client.register("c", '"int"')
    assert client.register("c", '"int"') == 7


def test_the_loop_ends_when_nobody_has_asked_for_a_while_and_begins_again(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    until(lambda: loops() == 0)  # those of other tests
    monkeypatch.setattr(kept_connections, "KEPT_S", 0.05)
    client = RegistryClient(RegistryAccess(urls=(registry.url,)))

    for n in range(3):
        assert client.register(f"t{n}", '"int"') == 7
        until(lambda: loops() == 0)

    assert registry.connections == 3


def test_a_request_that_takes_longer_than_connections_are_kept_is_waited_for(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_connections, "KEPT_S", 0.01)
    registry.answers.clear()
    timer = threading.Timer(0.2, registry.answers.set)
    timer.start()

    assert RegistryClient(RegistryAccess(urls=(registry.url,))).register("slow", '"int"') == 7


def test_who_cuts_the_waiting_ends_the_request(registry: Registry) -> None:
    client, abort = RegistryClient(RegistryAccess(urls=(registry.url,))), Abort()
    client.cut_by(abort, limit_s=TIMEOUT_S)
    client.register("a", '"int"')
    registry.answers.clear()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.register, "b", '"int"')
        until(lambda: registry.requests == 2)
        abort.call()
        with pytest.raises(TransientError, match="ReadTimeout"):
            waiting.result(TIMEOUT_S)
    assert len(abort) == 0
