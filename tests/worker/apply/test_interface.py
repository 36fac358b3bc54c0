"""Where the commands' requests go when a worker names another one as its leader."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from dblog.apply.interface import Interface
from dblog.errors import TransientError

LOGIN = ("ann", "canary")


class Heard(list[tuple[str, str, bytes]]):
    """The path, the Authorization header and the body of each request."""

    def __init__(self, status: int, answer: Callable[[], object]) -> None:
        super().__init__()
        heard = self

        class Answering(http.server.BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                heard.append((self.path, self.headers.get("authorization", ""), body))
                text = json.dumps(answer()).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  the library's name
                """Leave the test's output alone."""

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Answering)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@contextmanager
def listening(*served: Heard) -> Iterator[None]:
    threads = [threading.Thread(target=each.server.serve_forever, kwargs={"poll_interval": 0.05}) for each in served]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for each, thread in zip(served, threads, strict=True):
            each.server.shutdown()
            thread.join()
            each.server.server_close()


@pytest.fixture
def named() -> Heard:
    return Heard(200, dict)


@pytest.fixture
def standby(named: Heard) -> Heard:
    return Heard(409, lambda: {"error_code": 409, "message": f"This worker is a standby: {named.url} runs the connectors of the group g."})


def test_a_login_goes_to_no_address_that_an_answer_names(named: Heard, standby: Heard) -> None:  # number 22 of the worker's safety
    refused = pytest.raises(TransientError, match=f"hand this request on to {named.url}.*name the leader with --url")
    with listening(named, standby), Interface(standby.url, login=LOGIN) as interface, refused:
        interface.put_config({"name": "c", "database.password": "inline"})

    assert (len(standby), named) == (1, [])


def test_without_a_login_the_leader_is_asked_where_the_standby_cannot_hand_on(named: Heard, standby: Heard) -> None:
    with listening(named, standby), Interface(standby.url, login=None) as interface:
        interface.put_config({"name": "c"})

    assert [(path, authorization) for path, authorization, _ in named] == [("/connectors/c/config", "")]
