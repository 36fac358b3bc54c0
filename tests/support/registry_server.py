"""A schema registry on loopback: real HTTP, the few routes that tests need, and outages on demand.

Routes and bodies as in Confluent's REST API: POST /subjects/S/versions, GET /schemas/ids/N, error
40403 for an unknown id, basic authentication. While ``away`` is set, every request fails with
status 503.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote


class RegistryServer:
    """A registry: ``with RegistryServer() as registry``; ``url`` is its address."""

    def __init__(self, *, auth: str | None = None, first_id: int = 1, tls: ssl.SSLContext | None = None) -> None:
        self.away = False
        self.requests: list[str] = []
        self._auth = None if auth is None else "Basic " + base64.b64encode(auth.encode()).decode()
        self._schemas: dict[int, str] = {}
        self._ids: dict[str, int] = {}
        self._references: dict[int, list[dict[str, Any]]] = {}
        self._subjects: dict[tuple[str, int], int] = {}
        self._next_id = first_id
        self._turn = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """Address of the registry."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    def register(self, schema: str) -> int:
        """Return the id of a schema text; the same text keeps its id."""
        with self._turn:
            if schema not in self._ids:
                self._ids[schema] = self._next_id
                self._schemas[self._next_id] = schema
                self._next_id += 1
            return self._ids[schema]

    def refer(self, subject: str, schema: str, references: list[tuple[str, str, int]] | None = None) -> int:
        """Register a schema as version 1 of a subject, and return its id.

        ``references`` are (name, subject, version).
        """
        schema_id = self.register(schema)
        self._subjects[subject, 1] = schema_id
        if references:
            self._references[schema_id] = [{"name": name, "subject": of, "version": version} for name, of, version in references]
        return schema_id

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, method: str, path: str, body: bytes, auth: str | None) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON body for a request."""
        self.requests.append(f"{method} {path}")
        if self.away:
            return 503, {"error_code": 50301, "message": "away"}
        if self._auth is not None and auth != self._auth:
            return 401, {"error_code": 40101, "message": "Unauthorized"}
        parts = path.strip("/").split("/")
        if method == "GET" and parts[:2] == ["schemas", "ids"] and parts[2].isdigit():
            schema = self._schemas.get(int(parts[2]))
            if schema is None:
                return 404, {"error_code": 40403, "message": "Schema not found"}
            return 200, self._described(int(parts[2]))
        if method == "GET" and parts[0] == "subjects" and parts[2] == "versions" and (unquote(parts[1]), int(parts[3])) in self._subjects:
            return 200, self._described(self._subjects[unquote(parts[1]), int(parts[3])])
        if method == "POST" and parts[0] == "subjects" and parts[-1] == "versions":
            return 200, {"id": self.register(json.loads(body)["schema"])}
        return 404, {"error_code": 404, "message": "Not found"}

    def _described(self, schema_id: int) -> dict[str, Any]:
        answer: dict[str, Any] = {"schema": self._schemas[schema_id]}
        return answer | ({"references": self._references[schema_id]} if schema_id in self._references else {})

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                status, answer = server.answer(self.command, self.path, body, self.headers.get("Authorization"))
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = _serve  # noqa: N815  http.server's names

            def log_message(self, *_: object) -> None:
                """Log nothing: a failing test reports the reason itself."""

        return Handler
