"""What stands at the leader's address cannot fill a standby's memory, whatever it answers."""

from __future__ import annotations

import asyncio
import gzip
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from dblog.config.roles import EVERYTHING
from dblog.rest import bounded_answers
from dblog.rest.forward import Forward
from dblog.rest.identity import PRINCIPAL, Principal, Way

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
ENDLESS = HEAD + b"transfer-encoding: chunked\r\n\r\n"


def through_a_standby(head: bytes, piece: bytes, path: str, method: str = "GET", *, pieces: int | None = None) -> httpx.Response:
    """The standby's answer where the leader sends a head and then a piece again and again, or that many."""
    sent = 0

    async def leads(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head)
        try:
            while pieces is None or sent < pieces:
                writer.write(piece)
                await writer.drain()
                sent += 1
        except ConnectionError:
            pass
        writer.close()

    async def own(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 299, "headers": []})
        await send({"type": "http.response.body", "body": b"its own view"})

    async def run() -> httpx.Response:
        async with await asyncio.start_server(leads, "127.0.0.1", 0) as server:
            leader = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            role = SimpleNamespace(leader=leader, leads=False, stands_by=True)
            settings = SimpleNamespace(items_of=lambda name: (), originals={})
            services: Any = SimpleNamespace(
                worker=SimpleNamespace(advertised_url="http://127.0.0.1:1", settings=settings),
                herder=SimpleNamespace(role=role, ready=SimpleNamespace(is_set=lambda: True)),
            )
            forward = Forward(own, services=services)

            async def with_login(scope: Any, receive: Any, send: Any) -> None:
                await forward({**scope, PRINCIPAL: Principal("root", Way.PASSWORD, EVERYTHING)}, receive, send)

            transport = httpx.ASGITransport(with_login)
            async with httpx.AsyncClient(transport=transport, base_url="http://standby", timeout=60) as client:
                return await client.request(method, path)

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_answers, "ANSWER_BYTES_MAX", 1 << 20)


@pytest.mark.parametrize(
    ("head", "piece", "reason"),
    [
        (ENDLESS, b"10000\r\n" + b"x" * (1 << 16) + b"\r\n", "its answer is larger than 1048576 bytes"),
        (HEAD + b"\r\n", b"x" * (1 << 16), "its answer is larger than 1048576 bytes"),
        (HEAD + b"content-encoding: gzip\r\n\r\n", gzip.compress(b"x" * (1 << 24)), "its answer is packed"),
    ],
    ids=["in chunks", "to the end of the connection", "packed"],
)
def test_an_answer_without_end_is_refused_and_the_standby_says_why(head: bytes, piece: bytes, reason: str) -> None:
    answer = through_a_standby(head, piece, "/connectors/a/restart", "POST")

    assert answer.status_code == 500
    assert reason in answer.json()["message"]
    assert "it is not known whether" in answer.json()["message"]


def test_a_view_without_end_is_answered_with_the_standbys_own() -> None:
    answer = through_a_standby(HEAD + b"\r\n", b"x" * (1 << 16), "/connectors/a/status")

    assert (answer.status_code, answer.text) == (299, "its own view")


def test_an_answer_of_usual_size_is_handed_back_whole() -> None:
    answer = through_a_standby(HEAD + b"content-length: 131072\r\n\r\n", b"x" * (1 << 16), "/connectors/a/dumps", pieces=2)

    assert (answer.status_code, answer.text) == (200, "x" * (1 << 17))
