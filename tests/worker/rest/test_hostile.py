"""Hostile requests by seed, beside a client who only wants to know whether the worker is there: it is, within 200 ms, throughout.

`make test` sends a quarter of them, the long trial a thousand.

A machine that is busy with other tests is late by itself. So each question to the worker is put to a server that does nothing as well, at the same moment; what
is late there shows nothing of the worker. And where more processes want to run than there are cores, the worker gets its share of one, and the limit grows by that,
up to LATE_MOST_S: who is not answered within that is kept waiting on any machine. Four of ten requests are right ones that are damaged in a place or two.
"""

import contextlib
import http.client
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from dblog.rest.bodies import BODY_BYTES_MAX
from demo.rest import NO_TLS
from fuzz.requests import answer_to, damaged
from stack.process import free_port
from support.worker import connector_config, running_worker, until

REQUESTS = int(os.environ.get("DBLOG_FUZZ_CASES", "1000"))
SEED = int(os.environ.get("DBLOG_FUZZ_SEED", "20261124"))
"""`make fuzz ARGS=--rest` gives others."""
LATE_S = 0.5
LATE_MOST_S = 3.0
ANSWERED_S = 20.0
"""A request that nobody can answer is given up after ten seconds."""
CONTROL_LATE_S = 0.05
RESIDENT_MAX = 250 * 1024 * 1024

CONTROL = """
import asyncio, sys

async def answer(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    writer.write(b"HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\nconnection: close\\r\\n\\r\\n{}")
    await writer.drain()
    writer.close()

async def main():
    async with await asyncio.start_server(answer, "127.0.0.1", int(sys.argv[1])) as server:
        await server.serve_forever()

asyncio.run(main())
"""

SEGMENTS = (
    "a", "..", "%2e%2e", "%00", "%2F", "%ed%a0%80", "%ff", "9" * 5000, "-1", "é".encode().hex(), "'--", "%3Cimg%20onerror%3D1%3E", "x" * 8000, "latest",
    "%0d%0aset-cookie:a", "{}", "~", "*", "a%20b", "%E2%80%AE",
)  # fmt: skip
VALIDATE = "/connector-plugins/MySql/config/validate"
PATHS = (
    "/", "/health", "/metrics", "/connectors", "/connectors/{}", "/connectors/{}/config", "/connectors/{}/status", "/connectors/{}/restart",
    "/connectors/{}/pause", "/connectors/{}/resume", "/connectors/{}/stop", "/connectors/{}/tasks", "/connectors/{}/tasks/{}/status",
    "/connectors/{}/tasks/{}/restart", "/connectors/{}/offsets", "/connectors/{}/topics", "/connectors/{}/topics/reset", "/connectors/{}/fence",
    "/connectors/{}/ddl/explain", "/connectors/{}/dumps", "/connectors/{}/dumps/{}", "/connectors/{}/dumps/{}/tables/{}/stop", "/connector-plugins", "/connector-plugins/{}/config", VALIDATE, "/admin/loggers",
    "/admin/loggers/{}", "/subjects", "/subjects/{}", "/subjects/{}/versions", "/subjects/{}/versions/{}", "/schemas/ids/{}", "/schemas", "/config",
    "/config/{}", "/mode", "/mode/{}", "/compatibility/subjects/{}/versions", "/compatibility/subjects/{}/versions/{}", "/{}", "//{}//",
)  # fmt: skip
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "PROPFIND")
TYPES = (
    "application/json",
    "application/json",
    "application/json",
    "text/plain",
    "",
    "application/vnd.schemaregistry.v1+json",
    "a/b; charset=utf-16",
    "\x7f",
)


TRAPS = (
    r"a\.(a|aa)+!", r"(a+)+$", "(" * 9000, "((a{0,30}){0,30}){0,30}" * 400, ",".join(f"shop\\.t{number}" for number in range(20_000)), "(?!a)" * 1500,
    ",".join([r"(.*a){20}!"] * 2000), "[a-\\x{10ffff}]{1000}" * 400, "${" * 300_000, "${file:/dev/zero:a}" * 5000, "${file:PIPE:a}", "${file:/proc/kmsg:a}",
    "".join(f"${{file:/{number}:a}}" for number in range(5000)), "\\Q" * 4000, "a" * 900_000,
)  # fmt: skip
TRAPPED = (
    "table.include.list",
    "column.exclude.list",
    "message.key.columns",
    "datatype.propagate.source.type",
    "database.ssl.truststore",
    "topic.prefix",
)


def trap(chance: random.Random, pipe: Path) -> bytes:
    """A configuration that keeps a careless reader of patterns, files or placeholders busy for ever."""
    text = chance.choice(TRAPS).replace("PIPE", str(pipe))
    key = chance.choice(TRAPPED)
    config = connector_config(name="h", database_hostname="a" * 60) | {key: f"{text}:id" if key == "message.key.columns" else text}
    return json.dumps(config | {"topic.creation.groups": "g", "topic.creation.g.include": text}).encode()


def body_of(chance: random.Random, tarpit: int) -> bytes:
    """Something to parse, or to choke on."""
    text = chance.choice(["a", "\\ud800", "x" * 100_000, "\\u0000", "${file:/etc/passwd:x}", "é" * 1000, "$" * 50, "<img onerror=1>"])
    config = connector_config(name="h", database_hostname=chance.choice(["leaky", "away", "127.0.0.1", "no.such.host", text[:50]]))
    config |= {"database.port": str(tarpit), "connection.validation.timeout.ms": str(chance.choice([1, 50, 300]))}
    config |= {chance.choice(list(config)): text, text[:200]: text[:200]}
    return chance.choice(
        [
            lambda: b"",
            lambda: chance.randbytes(chance.randrange(2000)),
            lambda: b"[" * chance.randrange(100_000),
            lambda: b'{"a":' * chance.randrange(50_000),
            lambda: b"[" + b"1," * chance.randrange(400_000) + b"1]",
            lambda: b'"' + b"x" * chance.randrange(3_000_000) + b'"',
            lambda: b" " * (BODY_BYTES_MAX + 1),
            lambda: json.dumps({"name": chance.choice([text, 1, True, None, {}, []]), "config": config}).encode(),
            lambda: json.dumps(config).replace('"1"', chance.choice(["1", "null", "[]", "NaN", "1e999"])).encode(),
            lambda: json.dumps({"offsets": [{"partition": {"server": text}, "offset": {"pos": text}}]}).encode(),
            lambda: json.dumps(
                {"schema": chance.choice(['"int"', "[" * 5000, text, json.dumps({"type": "record", "name": "R", "fields": [[]]})])}
            ).encode(),
            lambda: json.dumps(
                {"schema": '"int"', "references": [{"name": text, "subject": text, "version": chance.choice([1, "9" * 5000, None])}]}
            ).encode(),
            lambda: json.dumps({"level": text, "mode": text, "compatibility": chance.choice([None, text, {}])}).encode(),
            lambda: json.dumps({"statement": "ALTER TABLE t ADD " + "(" * chance.randrange(20_000), "database": text}).encode(),
        ]
    )()


def raw_request(chance: random.Random, port: int) -> None:
    """A client that does not speak HTTP well, or not to the end."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        head = b"POST /connectors HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
        pieces = chance.choice(
            [
                [chance.randbytes(500)],
                [head],
                [head + b"content-length: 100\r\n\r\n{"],
                [head + b"transfer-encoding: chunked\r\n\r\n", b"ffffffff\r\n", b"x" * 1000],
                [head + b"content-length: 5\r\ncontent-length: 7\r\n\r\n{}"],
                [head + b"content-length: -1\r\n\r\n"],
                [head + b"content-length: " + b"9" * 400 + b"\r\n\r\n"],
                [b"GET / HTTP/1.1\r\nhost: a\r\n" + b"x: y\r\n" * 3000 + b"\r\n"],
                [b"GET / HTTP/1.1\r\nx: " + b"y" * 100_000 + b"\r\n\r\n"],
                [b"GET / HTTP/1.1\r\nhost: a\r\n\r\n" * 50],
                [b"GET / HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n"],
                [b"G", b"E", b"T", b" ", b"/"],
            ]
        )
        for piece in pieces:
            client.sendall(piece)
            client.settimeout(0.05)
            with contextlib.suppress(TimeoutError):
                client.recv(65536)


@pytest.fixture
def control():
    """The port of a server that does nothing."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", CONTROL, str(port)])
    try:
        until(lambda: asked(port) is not None, what=lambda: "the server that does nothing")
        yield port
    finally:
        process.kill()
        process.wait()


def asked(port: int) -> float | None:
    """How long GET / takes; None when nobody answers it with 200."""
    began_s = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/")
        answer = connection.getresponse()
        answer.read()
    except OSError:
        return None
    finally:
        connection.close()
    return time.monotonic() - began_s if answer.status == 200 else None


def slowness() -> float:
    """How many times longer the same work takes here than on the machine that LATE_S was measured on; 1 on a faster one."""
    began_s = time.process_time()
    for _ in range(2_000_000):
        pass
    return max(1.0, (time.process_time() - began_s) / 0.08)


def crowd() -> float:
    """How many processes want each core at this moment; 1 on a machine that is not busy."""
    running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
    return max(1.0, running / (os.cpu_count() or 1))


def waited_for_core_s(pid: int) -> float:
    """Return how long the threads of a process have been ready to run without a core to run on, in seconds (proc(5), ``schedstat``)."""
    delays = []
    for one in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):  # a thread that has ended
            delays.append(int(one.read_text().split()[1]))
    return sum(delays) / 1e9


def limit_s(slowness: float, crowd: float, waited_s: float) -> float:
    """Return how long the worker may take here, in seconds.

    A share of a core for each process that wants one, and the time that its threads waited for a core meanwhile, as one that waits may hold the
    interpreter's lock; but never more than LATE_MOST_S.
    """
    return min(LATE_MOST_S, LATE_S * slowness * crowd + waited_s)


class Watcher(threading.Thread):
    """Asks the worker and the other server again and again, and looks at the worker's memory."""

    def __init__(self, worker: int, pid: int, control: int) -> None:
        super().__init__(daemon=True)
        self.late: list[float | None] = []
        self.asked = 0
        self.resident = 0
        self._ports = (worker, control)
        self._slowness = slowness()
        self._pid = pid
        self._memory = Path(f"/proc/{pid}/statm")
        self._stop_it = threading.Event()

    def run(self) -> None:
        with ThreadPoolExecutor(2) as pool:
            while not self._stop_it.wait(0.05):
                crowded, waited_s = crowd(), waited_for_core_s(self._pid)
                took, control = pool.map(asked, self._ports)
                self.asked += 1
                limit = limit_s(self._slowness, max(crowded, crowd()), waited_for_core_s(self._pid) - waited_s)
                if (took is None or took > limit) and control is not None and control < CONTROL_LATE_S:
                    self.late.append(took)
                self.resident = max(self.resident, int(self._memory.read_text().split()[1]) * 4096)

    def stop(self) -> None:
        self._stop_it.set()
        self.join(30)


def test_no_machine_is_slow_or_busy_enough_for_a_limit_that_nothing_passes():
    assert [limit_s(*seen) for seen in ((1, 1, 0), (2, 2, 0), (1, 2, 0.5), (10, 100, 0), (1, 1, 100))] == pytest.approx(
        [0.5, 2.0, 1.5, LATE_MOST_S, LATE_MOST_S]
    )


@pytest.mark.parametrize("requests", [REQUESTS // 4, pytest.param(REQUESTS, marks=pytest.mark.long)])
def test_no_request_keeps_the_others_waiting_or_breaks_the_worker(kafka, own_folder, control, requests):  # number 15 of the worker's safety
    pipe = own_folder / "pipe"
    os.mkfifo(pipe)
    provided = {"config.providers": "file", "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider"}
    with (
        running_worker(kafka, own_folder, own_folder.name, provided) as worker,
        socket.create_server(("127.0.0.1", 0), backlog=500) as tarpit,
    ):
        watcher = Watcher(worker.port, worker.process.pid, control)
        faults = []

        def one(number: int) -> None:
            chance = random.Random(SEED * 10_000 + number)
            if chance.random() < 0.15:
                raw_request(chance, worker.port)
                return
            if chance.random() < 0.4:
                sent = damaged(chance, f"127.0.0.1:{worker.port}")
                status, answer, took_s = answer_to(sent.raw, worker.port, limit_s=60)
                if (status is not None and status >= 500 and status != 503) or took_s > ANSWERED_S * crowd():
                    faults.append((number, sent.shown, status, f"{took_s:.1f} s", answer[:200]))
                return
            path = chance.choice(PATHS)
            path = path.format(*(chance.choice(SEGMENTS) for _ in range(path.count("{}"))))
            headers = {"content-type": chance.choice(TYPES), "accept": chance.choice(["*/*", "*/*", "text/html", ""])}
            if chance.random() < 0.2:
                headers[chance.choice(["origin", "host", "sec-fetch-site", "x"])] = chance.choice(
                    ["null", "http://evil", "cross-site", "y" * 20_000]
                )
            method = chance.choice(METHODS)
            body = body_of(chance, tarpit.getsockname()[1]) if method in ("POST", "PUT", "PATCH") else b""
            if chance.random() < 0.1:
                method, path, headers, body = "PUT", VALIDATE, {"content-type": "application/json"}, trap(chance, pipe)
            with contextlib.suppress(httpx.TransportError):
                answer = httpx.request(method, worker.url + path, headers=headers, content=body, timeout=60, verify=NO_TLS)
                if (answer.status_code >= 500 and answer.status_code != 503) or (
                    answer.status_code >= 400 and method != "HEAD" and "error_code" not in answer.text and "status" not in answer.text
                ):
                    faults.append((number, method, path[:80], answer.status_code, answer.text[:200]))

        made = {"name": "damaged", "config": connector_config(name="damaged"), "initial_state": "STOPPED"}
        assert httpx.post(f"{worker.url}/connectors", json=made, timeout=60, verify=NO_TLS).status_code == 201
        watcher.start()
        with ThreadPoolExecutor(12) as pool:
            list(pool.map(one, range(requests)))
        watcher.stop()

        assert faults == []
        assert watcher.asked > requests // 25
        assert watcher.late == []
        assert watcher.resident < RESIDENT_MAX, f"{watcher.resident / 1024 / 1024:.0f} MiB"
        assert worker.healthy()
