"""To which address of a leader a standby hands a request on: the login goes along, and the address is what the brokers say."""

import asyncio
import http.server
import threading
import time
from types import SimpleNamespace

import pytest
from dblog.config.roles import EVERYTHING
from dblog.rest.forward import Forward
from dblog.rest.identity import PRINCIPAL, Principal, Way
from dblog.rest.leaders import fault_of
from structlog.testing import capture_logs
from worker.rest.test_identity import header, settings

LOGIN = header("root", "root-canary")


@pytest.mark.parametrize(
    ("leader", "own", "listed", "is_taken"),
    [
        ("http://a:8083", "http://b:8083", (), True),
        ("https://a:8083", "http://b:8083", (), True),
        ("https://a:8083", "https://b:8083", (), True),
        ("http://a:8083", "https://b:8083", (), False),
        ("http://a:8083", "http://b:8083", ("a",), True),
        ("http://a:8083", "http://b:8083", ("A:8083",), True),
        ("http://a:8084", "http://b:8083", ("a:8083",), False),
        ("https://a", "http://b:8083", ("a:443",), True),
        ("http://a.evil:8083", "http://b:8083", ("a", "b"), False),
        ("http://c-1.workers:8083", "http://b:8083", ("*.workers",), True),
        ("http://10.1.2.3:8083", "http://b:8083", ("10.1.0.0/16",), True),
        ("http://10.2.2.3:8083", "http://b:8083", ("10.1.0.0/16",), False),
        ("http://[::1]:8083", "http://b:8083", ("::1",), True),
        ("http://a:8083@evil", "http://b:8083", ("a",), False),
        ("http://a:8083@evil", "http://b:8083", (), False),
        ("http://evil/a:8083", "http://b:8083", (), False),
        ("http://evil?a", "http://b:8083", (), False),
        ("http://a:99999", "http://b:8083", (), False),
        ("http://[a", "http://b:8083", (), False),
        ("ftp://a:8083", "http://b:8083", (), False),
        ("file:///etc/passwd", "http://b:8083", (), False),
        ("a:8083", "http://b:8083", (), False),
        ("", "http://b:8083", (), False),
    ],
)
def test_a_leader_gets_logins_by_a_scheme_as_good_as_ours_and_on_a_listed_host(
    leader, own, listed, is_taken
):  # number 22 of the worker's safety
    assert (fault_of(leader, own_url=own, listed=listed) is None) is is_taken


class Listening:
    """What a leader at an address would be sent."""

    def __init__(self, *, drips=False):
        heard = self.heard = []
        ended = self.ended = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_PUT(self):
                heard.append(self.headers.get("authorization"))
                self.send_response(200)
                self.send_header("content-length", "1000")
                self.end_headers()
                while drips and not ended.wait(0.05):
                    self.wfile.write(b" ")
                self.wfile.write(b" " * 1000)

            def do_GET(self):
                self.do_PUT()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()


def handed_on(leader, *, own="http://standby:8083", times=1, method="PUT", path="/connectors/a/config", **options):
    """Return the statuses of the answers; 0 for one that the standby gives itself."""
    ready = threading.Event()
    ready.set()
    role = SimpleNamespace(leader=leader, leads=False, stands_by=True)
    worker = SimpleNamespace(settings=settings(**options), advertised_url=own)
    answers = []

    async def own_answer(_scope, _receive, _send):
        answers.append(0)

    async def receive():
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message):
        if message["type"] == "http.response.start":
            answers.append(message["status"])

    forward = Forward(own_answer, services=SimpleNamespace(worker=worker, herder=SimpleNamespace(ready=ready, role=role)))
    scope = {
        "type": "http", "method": method, "path": path, "scheme": "http", "query_string": b"", "client": ("10.0.0.9", 1),
        "headers": [(b"authorization", LOGIN.encode())], PRINCIPAL: Principal("root", Way.PASSWORD, EVERYTHING),
    }  # fmt: skip
    for _ in range(times):
        asyncio.run(forward(scope, receive, send))
    return answers


def test_no_login_goes_to_a_leader_without_tls_or_off_the_list_and_the_log_has_one_line():  # number 22
    with Listening() as leader, capture_logs() as lines:
        host = leader.url.removeprefix("http://")
        assert handed_on(leader.url) == [200]
        assert handed_on(leader.url, dblog_rest_workers_allowed_hosts=f"other,{host}") == [200]
        assert leader.heard == [LOGIN, LOGIN]

        assert handed_on(leader.url, own="https://standby:8083", times=3) == [0, 0, 0]
        assert handed_on(leader.url, dblog_rest_workers_allowed_hosts="other,127.0.0.1:1") == [0]
        assert leader.heard == [LOGIN, LOGIN]

    refused = [line for line in lines if line["event"] == "requests are not handed on to the leader that the group names"]
    assert ["without TLS" in refused[0]["reason"], "dblog.rest.workers.allowed.hosts" in refused[1]["reason"], len(refused)] == [
        True,
        True,
        2,
    ]
    assert "canary" not in str(lines)


def test_a_leader_that_drips_its_answer_leaves_the_status_to_the_standby(monkeypatch):
    monkeypatch.setattr("dblog.rest.forward._VIEW_S", 0.5)
    began_s = time.monotonic()

    with Listening(drips=True) as leader:
        assert handed_on(leader.url, method="GET", path="/connectors/a/status") == [0]

    assert time.monotonic() - began_s < 30
