"""Requests of the REST interface as clients send them, damaged by number: in their path, query, headers and body, each as JSON or as bytes.

A request is sent as it stands, so a client's library does not repair it. Everything follows from the dice that are given.
"""

from __future__ import annotations

import json
import random
import re
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

JSON = "application/json"
_CONFIG = {
    "connector.class": "io.debezium.connector.mysql.MySqlConnector", "database.hostname": "127.0.0.1", "database.port": "1", "database.user": "u",
    "database.password": "p", "database.server.id": "5", "topic.prefix": "p", "schema.history.internal.kafka.bootstrap.servers": "127.0.0.1:1",
    "schema.history.internal.kafka.topic": "h", "table.include.list": "a\\.b", "connection.validation.timeout.ms": "50",
}  # fmt: skip
_SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "int"], "default": None}]}
SEEDS: tuple[tuple[str, str, Any], ...] = (
    ("GET", "/connectors?expand=status&expand=info", None),
    ("POST", "/connectors", {"name": "damaged", "config": _CONFIG, "initial_state": "STOPPED"}),
    ("PUT", "/connectors/damaged/config", _CONFIG),
    ("PATCH", "/connectors/damaged/config", {"tasks.max": "1", "table.include.list": None}),
    ("GET", "/connectors/damaged/status?expand=a", None),
    ("POST", "/connectors/damaged/restart?includeTasks=true&onlyFailed=false", None),
    ("POST", "/connectors/damaged/tasks/0/restart", None),
    ("PATCH", "/connectors/damaged/offsets", {"offsets": [{"partition": {"server": "p"}, "offset": {"file": "b.000001", "pos": 4, "gtids": None}}]}),
    ("GET", "/connectors/damaged/offsets", None),
    ("PUT", "/connectors/damaged/topics/reset", None),
    ("POST", "/connectors/missing/ddl/explain", {"statement": "ALTER TABLE t ADD COLUMN b INT DEFAULT 1", "database": "a"}),
    ("POST", "/connectors/damaged/dumps", {"tables": ["a\\.b"], "filter": "id > 1", "chunk": {"rows": 100}, "reason": "why"}),
    ("GET", "/connectors/damaged/dumps/1?map=true", None),
    ("PATCH", "/connectors/damaged/dumps/1", {"rows.per.second": 100}),
    ("POST", "/connectors/damaged/signals", {"type": "execute-snapshot", "data": {"data-collections": ["a.b"], "type": "incremental"}}),
    ("GET", "/connector-plugins?connectorsOnly=true", None),
    ("GET", "/connector-plugins/MySql/config?version=1.0", None),
    ("PUT", "/connector-plugins/MySql/config/validate", _CONFIG),
    ("PUT", "/admin/loggers/dblog.readers?scope=worker", {"level": "INFO"}),
    ("POST", "/subjects/damaged-value/versions?normalize=true", {"schema": json.dumps(_SCHEMA), "schemaType": "AVRO", "references": []}),
    ("POST", "/subjects/damaged-value?deleted=true", {"schema": json.dumps(_SCHEMA)}),
    ("POST", "/compatibility/subjects/damaged-value/versions/latest?verbose=true", {"schema": json.dumps(_SCHEMA)}),
    ("PUT", "/config/damaged-value", {"compatibility": "BACKWARD"}),
    ("PUT", "/mode/damaged-value?force=true", {"mode": "READWRITE"}),
    ("GET", "/schemas?subjectPrefix=d&latestOnly=true&offset=0&limit=10&deleted=true", None),
    ("GET", "/schemas/ids/1?format=a&subject=b&fetchMaxId=true", None),
    ("GET", "/schemas/ids/1/versions?deleted=true", None),
    ("GET", "/subjects?subjectPrefix=d&deleted=true&deletedOnly=true&offset=0&limit=-1", None),
    ("DELETE", "/subjects/damaged-value/versions/1?permanent=true", None),
    ("GET", "/metrics", None),
)  # fmt: skip
"""Method, path with query, and body of requests that are right, at least in their form."""
HEADERS: tuple[tuple[str, str], ...] = (
    ("accept", "*/*"), ("user-agent", "a/1"), ("origin", "http://127.0.0.1"), ("x-forwarded-for", "10.0.0.1, 10.0.0.2"), ("authorization", "Basic dTpw"),
    ("authorization", "Bearer eyJhbGciOiJub25lIn0.e30."), ("accept-encoding", "gzip"), ("if-none-match", '"a"'), ("expect", "100-continue"),
    ("cookie", "a=b"), ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), ("access-control-request-method", "PUT"),
    ("transfer-encoding", "chunked"), ("range", "bytes=0-1"), ("x-http-method-override", "DELETE"),
)  # fmt: skip
ODD_VALUES: Sequence[Any] = (
    None, True, False, 0, -1, 1 << 63, 1 << 200, 1.5, 1e308, float("nan"), "", " ", "a" * 5000, "\0", "\ud800", "\u202e", "é", "${a:b}", "${", "%s", "'; --", "1e999",
    "2147483648", "-1", "\r\nx: y", [], {}, [[]], {"": ""}, [None] * 50, "(" * 200, "[a-", ".*", "..", "a,b,,c", "١", "-",
)  # fmt: skip
ODD_BYTES = (
    b"%00",
    b"%",
    b"%zz",
    b"%ff",
    b"%2e%2e%2f",
    b"%ed%a0%80",
    b"//",
    b"?",
    b"#",
    b"&",
    b"=",
    b"+",
    b";",
    b"%0d%0aa:b",
    b"a" * 3000,
    b"-1",
    b"9" * 400,
    b"\xff",
    b"[]",
)


class Damaged(NamedTuple):
    """A request, and what to call it in a report."""

    raw: bytes
    shown: str


def damaged(chance: random.Random, host: str) -> Damaged:
    """One of the requests with something wrong in one or two places, rarely in none."""
    method, target, body = chance.choice(SEEDS)
    path, content = target.encode(), b"" if body is None else json.dumps(body).encode()
    headers = [(b"host", host.encode()), (b"content-type", JSON.encode()), (b"connection", b"close")]
    for _ in range(chance.choice((0, 1, 1, 1, 2, 2))):
        match chance.randrange(6):
            case 0:
                path = _in_target(chance, path)
            case 1 | 2 if body is not None:
                content = (
                    json.dumps(_in_value(chance, json.loads(content))).encode() if content[:1] == b"{" and _is_json(content) else content
                )
            case 3 if content:
                content = _in_bytes(chance, content)
            case 4:
                name, value = chance.choice(HEADERS)
                headers.append((name.encode(), _in_bytes(chance, value.encode()) if chance.random() < 0.5 else value.encode()))
            case _:
                at = chance.randrange(len(headers))
                headers[at] = (
                    headers[at][0],
                    chance.choice((b"", b"\xff", b"a" * 9000, b"text/plain", b"application/json; charset=utf-16", b"a b", b"close")),
                )
    if chance.random() < 0.95:
        headers.append((b"content-length", b"%d" % len(content)))
    head = (
        b"%s %s HTTP/1.1\r\n" % (method.encode(), path.replace(b" ", b"%20")) + b"".join(b"%s: %s\r\n" % pair for pair in headers) + b"\r\n"
    )
    return Damaged(head + content, f"{head[:300]!r} {content[:300]!r}")


def _is_json(content: bytes) -> bool:
    try:
        return isinstance(json.loads(content), dict)
    except (ValueError, RecursionError):
        return False


def _in_target(chance: random.Random, target: bytes) -> bytes:
    parts = target.replace(b"?", b"/?").split(b"/")
    at = chance.randrange(1, len(parts))
    odd = chance.choice(ODD_BYTES)
    match chance.randrange(4):
        case 0:
            parts[at] = odd
        case 1:
            parts[at] += odd
        case 2:
            parts.insert(at, odd)
        case _:
            key, equals, _ = parts[at].rpartition(b"=")
            parts[at] = key + equals + odd
    return b"/".join(parts).replace(b"/?", b"?")


def _in_value(chance: random.Random, value: Any) -> Any:
    """A value of JSON with something else in one place of it."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        key = chance.choice(list(value))
        match chance.randrange(8):
            case 0:
                return {other: one for other, one in value.items() if other != key}
            case 1:
                return {**value, str(chance.choice(ODD_VALUES))[:300]: value[key]}
            case _:
                return {**value, key: _in_value(chance, value[key])}
    if isinstance(value, list) and value and chance.random() < 0.7:
        return [_in_value(chance, value[0]), *value[1:]] if chance.random() < 0.7 else value * 3
    return chance.choice(ODD_VALUES)


def _in_bytes(chance: random.Random, raw: bytes) -> bytes:
    out = bytearray(raw)
    at = chance.randrange(len(out))
    match chance.randrange(5):
        case 0:
            out[at] = chance.randrange(256)
        case 1:
            del out[at:]
        case 2:
            del out[at : at + chance.randrange(1, 9)]
        case 3:
            out[at:at] = out[at : at + 64] * chance.randrange(1, 4)
        case _:
            out[at:at] = struct.pack("<I", chance.randrange(1 << 32))
    return bytes(out)


def answer_to(request: bytes, port: int, *, limit_s: float) -> tuple[int | None, bytes, float]:
    """Send a request and return status, answer and seconds; the status is None where the connection ended without an answer, or nothing came in time."""
    began_s = time.monotonic()
    data = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=limit_s) as client:
            client.sendall(request)
            if b"transfer-encoding" in request:
                client.shutdown(socket.SHUT_WR)  # the body is no chunk: there is nothing to wait for
            while not _is_whole(data) and (piece := client.recv(65536)):
                data = (data + piece).removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
    except OSError:
        pass
    words = data.split(None, 2)
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else None, data, time.monotonic() - began_s


def _is_whole(data: bytes) -> bool:
    head, ended, body = data.partition(b"\r\n\r\n")
    if ended and head[9:12] in (b"204", b"304"):
        return True
    length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    return bool(ended) and length is not None and len(body) >= int(length[1])
