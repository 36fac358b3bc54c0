"""A trace collector for tests: receives OTLP over HTTP as protobuf, and keeps the spans."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Span:
    """A received span, with ids as in a ``traceparent``."""

    name: str
    service: str
    trace: str
    id: str
    parent: str
    kind: int
    start_ns: int
    end_ns: int
    error: str | None
    attributes: dict[str, Any]
    links: list[tuple[str, str]] = field(default_factory=list)

    def has_in_it(self, other: Span) -> bool:
        return self.start_ns <= other.start_ns <= other.end_ns <= self.end_ns


class Collector:
    """A collector's received spans. ``answer`` is the HTTP status of its responses, ``location``
    where they lead to.
    """

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.answer = 200
        self.location = ""
        self.requests = 0
        self.bodies = b""
        self._spans: list[Span] = []
        self._changed = threading.Condition()

    @property
    def spans(self) -> list[Span]:
        with self._changed:
            return list(self._spans)

    def wait_for(self, wanted: Callable[[list[Span]], Any], limit_s: float = TIMEOUT_S) -> Any:
        """Return the first true result of ``wanted`` for the spans so far.

        Raise AssertionError after the limit.
        """
        with self._changed:
            found = self._changed.wait_for(lambda: wanted(self._spans), limit_s)
            assert found, f"these spans came: {[(span.service, span.name, span.attributes) for span in self._spans]}"
            return found

    def take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        with self._changed:
            self.requests += 1
            if self.answer == 200:
                self.bodies += body
                for of_resource in request.resource_spans:
                    service = values(of_resource.resource.attributes)["service.name"]
                    self._spans += [spanned(service, one) for scope in of_resource.scope_spans for one in scope.spans]
            self._changed.notify_all()

    def wait_asked(self, requests: int) -> None:
        """Wait until that many requests have come, whatever the responses were."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.requests >= requests, TIMEOUT_S), f"{self.requests} requests came"


def spanned(service: str, one: Any) -> Span:
    return Span(
        name=one.name,
        service=service,
        trace=one.trace_id.hex(),
        id=one.span_id.hex(),
        parent=one.parent_span_id.hex(),
        kind=one.kind,
        start_ns=one.start_time_unix_nano,
        end_ns=one.end_time_unix_nano,
        error=one.status.message if one.status.code == 2 else None,
        attributes=values(one.attributes),
        links=[(link.trace_id.hex(), link.span_id.hex()) for link in one.links],
    )


def values(pairs: Any) -> dict[str, Any]:
    def value(pair: KeyValue) -> Any:
        return getattr(pair.value, pair.value.WhichOneof("value"))

    return {pair.key: value(pair) for pair in pairs}


@contextmanager
def collector(port: int = 0) -> Iterator[Collector]:
    """Run a collector on this machine, on a free port unless ``port`` is given."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            assert (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
            made.take(body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(made.answer)
            if made.location:
                self.send_header("Location", made.location)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    made = Collector(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
