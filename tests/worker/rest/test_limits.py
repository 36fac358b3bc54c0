"""What one client can do to the others: nothing. Limits of size, time and number, and where a request may come from."""

import contextlib
import json
import socket
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from dblog.rest.bodies import BODY_BYTES_MAX
from dblog.rest.connections import CONNECTIONS_MAX, HEAD_S
from stack.process import free_port
from support.worker import connector_config, running_worker, until

JSON = {"content-type": "application/json"}
CONFIG = connector_config()


def raw(worker) -> socket.socket:
    """A connection that we write to byte by byte."""
    return socket.create_connection(("127.0.0.1", worker.port), timeout=30)


def assert_error(answer, code, *words):
    assert answer.status_code == code, answer.text
    assert answer.headers["content-type"].endswith("json")
    assert answer.json()["error_code"] == code
    for word in words:
        assert word in answer.json()["message"]


# Sizes.


@pytest.mark.parametrize("path", ["/connectors", "/subjects/s/versions"])
def test_a_body_beyond_the_limit_is_refused_before_it_is_read(worker, path):  # number 15 of the worker's safety
    assert_error(worker.client.post(path, content=b" " * (BODY_BYTES_MAX + 1), headers=JSON), 413, "10 MiB")


def test_a_body_without_a_length_is_counted_while_it_comes(worker):  # number 15
    pieces = (b" " * 65536 for _ in range(200))

    assert_error(worker.client.post("/connectors", content=pieces, headers=JSON), 413, "10 MiB")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b"[" + b"1," * 300_000 + b"1]", id="many values"),
        pytest.param(b'{"name": "a\\ud800", "config": {}}', id="half a pair"),
        pytest.param(b'{"name": "\xff"}', id="no UTF-8"),
        pytest.param(b'{"name": "a", "config": {"a": ' + b"9" * 5000 + b"}}", id="long number"),
        pytest.param(b'{"name": {"a": 1}, "config": {}}', id="name is an object"),
        pytest.param(b'{"name": true, "config": {}}', id="name is true"),
        pytest.param(b"", id="nothing"),
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/connectors"),
        ("PUT", "/connectors/nobody/config"),
        ("PATCH", "/connectors/nobody/config"),
        ("PATCH", "/connectors/nobody/offsets"),
        ("PUT", "/connector-plugins/MySql/config/validate"),
        ("PUT", "/admin/loggers/dblog"),
        ("POST", "/connectors/nobody/ddl/explain"),
        ("POST", "/subjects/s/versions"),
        ("PUT", "/config"),
    ],
)
def test_no_body_is_a_fault_of_the_worker(worker, method, path, body):  # numbers 15 and 17
    answer = worker.client.request(method, path, content=body, headers=JSON)

    assert 400 <= answer.status_code < 500, answer.text
    assert set(answer.json()) == {"error_code", "message"}


@pytest.mark.parametrize("path", ["/connectors/a/tasks/{}/status", "/schemas/ids/{}", "/subjects/a/versions/{}"])
def test_a_number_of_5000_digits_is_not_found(worker, path):  # number 15
    answer = worker.client.get(path.format("9" * 5000))

    assert answer.status_code in (404, 422), answer.text
    assert "error_code" in answer.json()


@pytest.mark.parametrize("given", [{"a": 1}, True, ["a"]])
def test_a_name_is_a_text(worker, given):  # number 17
    assert_error(worker.client.post("/connectors", json={"name": given, "config": CONFIG}), 400, "must be a string")


def test_a_configuration_whose_task_record_would_not_fit_is_refused_and_the_others_go_on(worker, name):  # number 10 of the worker's safety
    fill = 1_000_000 - len(json.dumps(CONFIG)) - 300
    answer = worker.client.put(f"/connectors/{name}-large/config", json={**CONFIG, "table.include.list": ("x" * 99 + ",") * (fill // 100)})

    assert_error(answer, 400, "takes", "max.message.bytes")
    worker.create(name)
    worker.wait_for(name, "RUNNING", "RUNNING")


# Slow and many clients.


def test_a_head_that_trickles_in_ends_its_connection(worker):  # number 15
    with raw(worker) as client:
        client.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n")
        client.settimeout(0.5)
        began_s = time.monotonic()
        while time.monotonic() - began_s < HEAD_S * 2:
            try:
                client.sendall(b"x: y\r\n")
                if not client.recv(100):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            pytest.fail("the connection is still open")
        assert time.monotonic() - began_s >= HEAD_S / 2


def test_connections_beyond_the_limit_get_503_and_the_others_are_served(worker):  # number 15
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(raw(worker)) for _ in range(CONNECTIONS_MAX + 5)]
        answer = b""
        for client in held[CONNECTIONS_MAX:]:
            client.settimeout(10)
            with contextlib.suppress(OSError):
                answer = answer or client.recv(4096)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1" in answer
        held[0].sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        assert held[0].recv(4096).startswith(b"HTTP/1.1 200 ")
    until(worker.healthy, what=lambda: "the connections to be free again")


def test_what_is_no_http_gets_the_error_body(worker):  # number 15
    with raw(worker) as client:
        client.sendall(b"\x00\x01\x02\r\n\r\n")
        head, _, body = client.makefile("rb").read().partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["error_code"] == 400


def test_a_client_that_breaks_off_in_its_body_writes_one_line(worker):  # number 15
    before = worker.log.read_text().count("\n")
    with raw(worker) as client:
        client.sendall(b"POST /connectors HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")

    until(lambda: "client went away" in worker.log.read_text(), what=lambda: "a line about it")
    lines = worker.log.read_text().splitlines()[before:]
    assert len([line for line in lines if "INFO" not in line]) == 0, lines
    assert len([line for line in lines if "went away" in line]) == 1


def resident_mib(pid):
    return next(int(line.split()[1]) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")) // 1024


def test_large_answers_that_nobody_takes_are_bounded_together_and_small_ones_are_served(kafka, servers_folder):
    with running_worker(kafka, servers_folder, "large-answers") as worker, contextlib.ExitStack() as stack:
        for number in range(12):
            schema = {"type": "record", "name": "R", "doc": f"{number}" + "x" * 900_000, "fields": []}
            assert worker.client.post("/subjects/large/versions", json={"schema": json.dumps(schema)}).status_code == 200
        whole = worker.client.get("/schemas").content
        before_mib = resident_mib(worker.process.pid)

        held = [stack.enter_context(raw(worker)) for _ in range(25)]
        heads = []
        for client in held:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.sendall(b"GET /schemas HTTP/1.1\r\nhost: a\r\n\r\n")
            client.settimeout(20)
            heads.append(client.recv(400))

        refused = [head for head in heads if head.startswith(b"HTTP/1.1 503 ")]
        assert len(refused) >= 18, len(refused)
        assert all(b"retry-after: 1" in head for head in refused)
        assert resident_mib(worker.process.pid) - before_mib < 100
        assert worker.client.get("/subjects").json() == ["large"]
        assert worker.client.get("/schemas?limit=0").json() == []
        assert worker.client.get("/schemas").status_code == 503

        stack.close()
        answer = until(lambda: answer if (answer := worker.client.get("/schemas")).status_code == 200 else None)
        assert answer.content == whole


def test_a_connection_that_stays_is_answered_without_a_pause(worker):
    """A body that waited for the confirmation of its head would take 40 ms, every time."""
    with httpx.Client(base_url=worker.url) as client:
        took_s = []
        for _ in range(30):
            began_s = time.monotonic()
            client.get("/")
            took_s.append(time.monotonic() - began_s)

    assert statistics.median(took_s) < 0.03


# Where a request comes from.


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/connectors"),
        ("PUT", "/admin/loggers/dblog"),
        ("POST", "/subjects/s/versions"),
        ("PUT", "/config"),
        ("PATCH", "/connectors/a/config"),
    ],
)
@pytest.mark.parametrize("given", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_body_must_state_that_it_is_json(worker, method, path, given):  # number 6 of the worker's safety
    headers = {} if given is None else {"content-type": given}

    assert_error(worker.client.request(method, path, content=b"{}", headers=headers), 415, "send Content-Type: application/json")


@pytest.mark.parametrize("headers", [{"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}])
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/connectors/a/restart"), ("PUT", "/connectors/a/pause"), ("DELETE", "/connectors/a")]
)
def test_a_page_of_another_origin_changes_nothing_even_without_a_body(worker, method, path, headers):  # number 6
    assert_error(worker.client.request(method, path, headers=headers), 403, "access.control.allow.origin")


def test_the_workers_own_page_and_the_allowed_one_may_change_things(worker):  # number 6
    for origin in (worker.url, "http://page.example"):
        assert worker.client.put("/connectors/nobody/pause", headers={"origin": origin}).status_code == 404


def test_a_name_that_is_not_the_workers_is_refused_when_names_are_listed(kafka, servers_folder):  # number 6
    reading = free_port()
    settings = {"dblog.rest.allowed.hosts": "worker.example:8083", "dblog.rest.readonly.listener": f"http://127.0.0.1:{reading}"}
    with running_worker(kafka, servers_folder, "named", settings) as worker:
        assert_error(worker.client.get("/connectors", headers={"host": "rebound.example"}), 421, "dblog.rest.allowed.hosts")
        assert_error(worker.client.get("/connectors", headers={"host": "worker.example:9999"}), 421)
        assert worker.client.get("/connectors", headers={"host": "worker.example:8083"}).status_code == 200
        assert worker.client.get("/connectors").status_code == 200, "by the name that it advertises, which its own tasks use"
        assert worker.client.get("/health", headers={"host": "10.0.0.7:8083"}).status_code == 200
        for host in ("10.0.0.7:8084", "worker.namespace.svc:8084"):
            for path in ("/metrics", "/subjects"):
                answer = httpx.get(f"http://127.0.0.1:{reading}{path}", headers={"host": host})
                assert answer.status_code == 200, f"the listener that only reads, as {host}"


def test_an_address_that_changes_too_much_waits_and_may_read_meanwhile(kafka, servers_folder):
    with running_worker(kafka, servers_folder, "writes", {"dblog.rest.writes.per.minute": "3"}) as worker:
        answers = [worker.client.put("/connectors/nothing/pause") for _ in range(5)]

        assert [answer.status_code for answer in answers] == [404] * 3 + [429] * 2
        assert_error(answers[-1], 429, "dblog.rest.writes.per.minute")
        assert 0 < int(answers[-1].headers["retry-after"]) <= 60
        assert worker.client.get("/connectors").status_code == 200


# Checks of configurations.


@contextlib.contextmanager
def tarpit():
    """A server that sends its greeting byte by byte and never ends it; its port, and how many are connected."""
    peers: dict[socket.socket, int] = {}
    greeting = b"\x00\x80\x00\x00\x0a" + b"8" * 32767  # no longer than a login may be, which would be refused at once
    with socket.create_server(("127.0.0.1", 0), backlog=200) as server:
        server.settimeout(0.05)
        stop = threading.Event()

        def drip():
            while not stop.is_set():
                with contextlib.suppress(TimeoutError):
                    peers[server.accept()[0]] = 0
                for peer in list(peers):
                    try:
                        peer.setblocking(False)
                        with contextlib.suppress(BlockingIOError):
                            if peer.recv(100) == b"":
                                raise ConnectionResetError
                        peers[peer] += peer.send(greeting[peers[peer] : peers[peer] + 1])
                    except OSError:
                        del peers[peer]
                        peer.close()

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            yield server.getsockname()[1], lambda: len(peers)
        finally:
            stop.set()
            thread.join(10)
            for peer in peers:
                peer.close()


def test_checks_of_a_server_that_never_ends_its_answer_leave_nothing_behind(worker):  # number 11 of the worker's safety
    with tarpit() as (port, connected), ThreadPoolExecutor(30) as pool:
        config = connector_config(name="a", database_hostname="127.0.0.1", database_port=str(port), connection_validation_timeout_ms="300")

        def check(_number):
            return httpx.put(f"{worker.url}/connector-plugins/MySql/config/validate", json=config, timeout=60)

        answers = list(pool.map(check, range(60)))

        assert {answer.status_code for answer in answers} <= {200, 503}
        assert all(int(answer.headers["retry-after"]) > 0 for answer in answers if answer.status_code == 503)
        until(lambda: not connected(), limit_s=60, what=lambda: f"{connected()} sockets to be closed")


def test_a_full_house_of_checks_is_503_and_opens_again(worker, name):  # number 11
    # More ask than there are slots, for what is asked here takes a slot as well.
    with tarpit() as (port, _), httpx.Client(base_url=worker.url, timeout=60) as client, ThreadPoolExecutor(30) as pool:
        config = connector_config(name="a", database_hostname="127.0.0.1", database_port=str(port), connection_validation_timeout_ms="8000")
        held = [pool.submit(client.put, "/connector-plugins/MySql/config/validate", json=config) for _ in range(30)]

        full = until(lambda: answer if (answer := worker.create(name)).status_code == 503 else None, what=lambda: "the house to be full")
        assert full.headers["retry-after"]
        assert {each.result(60).status_code for each in held} == {200, 503}
        assert worker.create(name).status_code in (201, 409)
