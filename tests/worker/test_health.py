"""What `dblog health` asks, and whom."""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from dblog.health import ask


class Answers(BaseHTTPRequestHandler):
    """Says who answers."""

    def do_GET(self):
        self.server.asked.append(self.path)
        body = json.dumps({"message": self.server.says}).encode()
        self.send_response(self.server.status)
        if self.server.leads_to:
            self.send_header("Location", self.server.leads_to)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # who asks need not read to the end
            self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def listen():
    """Starts a server that answers every GET with this status and sentence."""
    servers = []

    def started(status, says, leads_to=None):
        server = HTTPServer(("127.0.0.1", 0), Answers)
        server.status, server.says, server.asked, server.leads_to = status, says, [], leads_to
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return server

    yield started
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_worker_is_asked_without_the_proxy_of_the_environment(listen, monkeypatch):
    worker, proxy = listen(200, "Worker is healthy."), listen(503, "no such host")
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.server_port}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)

    assert ask(f"http://127.0.0.1:{worker.server_port}", limit_s=10) == (True, "Worker is healthy.")
    assert (worker.asked, proxy.asked) == (["/health"], [])


def test_what_is_wrong_is_said_as_the_worker_says_it_or_as_nobody_does(listen):
    sick = listen(500, "Worker cannot reach Kafka.")

    assert ask(f"http://127.0.0.1:{sick.server_port}/", limit_s=10) == (False, "Worker cannot reach Kafka.")
    assert ask("file:///etc/passwd", limit_s=10)[0] is False
    healthy, reason = ask("http://127.0.0.1:1", limit_s=10)
    assert (healthy, reason.startswith("no worker answers at http://127.0.0.1:1")) == (False, True)


def test_a_redirect_is_not_followed_and_no_more_is_read_than_a_worker_says(listen):
    other = listen(200, "Worker is healthy.")
    astray = listen(302, "moved", leads_to=f"http://127.0.0.1:{other.server_port}/health")
    endless = listen(200, "x" * 10_000_000)

    assert ask(f"http://127.0.0.1:{astray.server_port}", limit_s=10) == (False, "moved")
    assert other.asked == []
    assert ask(f"http://127.0.0.1:{endless.server_port}", limit_s=10) == (True, "the program that answers is not a worker of dblog")
