"""Many connections of one address leave room for others and for probes, and nobody tells whom a request is from but a proxy that the owner has named."""

import asyncio
import contextlib
import socket
import threading
from types import SimpleNamespace

import httpx
import pytest
from dblog.config.proxies import PROXIES, Proxies, proxies
from dblog.rest import connections
from dblog.rest.server import Server
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

LIMIT = 3


async def _client(request):
    return PlainTextResponse(request.client.host)


@contextlib.contextmanager
def served(*named):
    """The address of a server that answers with whom a request is from."""
    app = Starlette(routes=[Route("/", _client), Route("/health", _client)])
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(app, SimpleNamespace(socket=listener, context=None), proxies=Proxies(named))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    try:
        yield "127.0.0.1", listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def get(address, path="/", **headers):
    answer = httpx.get(f"http://{address[0]}:{address[1]}{path}", headers=headers, trust_env=False)
    return answer.status_code, answer.text


@pytest.fixture
def crowd(monkeypatch):
    """Opens idle connections."""
    monkeypatch.setattr(connections, "ADDRESS_CONNECTIONS_MAX", LIMIT)
    monkeypatch.setattr(connections, "_is_loopback", lambda _address: False)
    with contextlib.ExitStack() as stack:
        yield lambda address, count: [stack.enter_context(socket.create_connection(address, timeout=10)) for _ in range(count)]


def test_an_address_that_holds_its_share_gets_503_and_probes_are_answered(crowd):  # number 23 of the worker's safety
    with served() as address:
        held = crowd(address, LIMIT)

        status, text = get(address)
        assert (status, "of one address; try again" in text) == (503, True)
        assert get(address, "/health")[0] == 200
        held[0].close()
        held[1].sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        assert held[1].recv(100).startswith(b"HTTP/1.1 200 ")


def test_whoever_only_waits_beyond_the_share_is_answered_soon_and_many_at_once(crowd, monkeypatch):
    monkeypatch.setattr(connections, "SPARE_HEAD_S", 0.05)
    with served() as address:
        more = crowd(address, LIMIT + connections.ADDRESS_SPARE_MAX + 2)

        for waiting in more[LIMIT:]:
            assert waiting.recv(4096).startswith(b"HTTP/1.1 503 ")


def test_probes_are_answered_when_all_connections_are_taken(crowd, monkeypatch):
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", LIMIT)
    monkeypatch.setattr(connections, "_is_loopback", lambda _address: True)
    with served() as address:
        crowd(address, LIMIT)

        assert get(address)[0] == 503
        assert get(address, "/health")[0] == 200


def test_a_proxy_that_is_named_has_no_share(crowd):
    with served("127.0.0.0/8") as address:
        crowd(address, 2 * LIMIT)

        assert get(address)[0] == 200


def test_whom_a_request_is_from_is_told_by_named_proxies_alone(monkeypatch):  # number 22 of the worker's safety
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    told = {"x-forwarded-for": "203.0.113.7"}

    with served() as address:
        assert get(address, **told) == (200, "127.0.0.1")
    with served("127.0.0.0/8", "::1") as address:
        assert get(address, **told) == (200, "203.0.113.7")
        assert get(address, **{"x-forwarded-for": "1.1.1.1, 203.0.113.7"}) == (200, "203.0.113.7"), "what the proxy itself has added"


@pytest.mark.parametrize(("texts", "taken"), [(("10.0.0.0/8", "::1"), True), (("*",), False), (("proxy.example",), False), ((), True)])
def test_a_proxy_is_named_by_its_address(texts, taken):
    assert (proxies(texts, {}) is None) is taken
    assert PROXIES == "dblog.rest.proxies"
