"""Scrapes are answered whoever else opens connections and sends nothing."""

from __future__ import annotations

import socket
import threading
import time
import urllib.request
from contextlib import ExitStack

import pytest
from dblog_sink.observe.metrics_server import CONNECTIONS_MAX, MetricsServer
from prometheus_client import CollectorRegistry, Gauge


@pytest.mark.parametrize("sent", [b"", b"GET /metrics HTTP/1.1\r\nx: "])
def test_connections_that_send_nothing_take_few_threads_and_end(sent: bytes) -> None:  # number 23 of the worker's safety
    registry = CollectorRegistry()
    Gauge("answered", "Whether somebody was answered.", registry=registry).set(1)
    before = threading.active_count()
    server = MetricsServer(registry, "127.0.0.1", 0, limit_s=1.0)

    with ExitStack() as opened:
        for _ in range(6 * CONNECTIONS_MAX):
            client = opened.enter_context(socket.create_connection(server.server_address, timeout=30))
            client.sendall(sent)
        assert threading.active_count() <= before + 1 + 2 * CONNECTIONS_MAX, "a thread and a timer for each that is served"
        deadline_s = time.monotonic() + 120
        while (text := scraped(server.server_port)) is None:
            assert time.monotonic() < deadline_s
    server.shutdown()
    server.server_close()

    assert "answered 1.0" in text


def scraped(port: int) -> str | None:
    """The numbers; None while nobody is served."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())
    except OSError:
        return None
