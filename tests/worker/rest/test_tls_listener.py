"""A worker whose REST interface speaks TLS: its own tasks, its other listeners, and a certificate that is renewed while it runs."""

import socket
import ssl
import time

import httpx
import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID
from demo.rest import NO_TLS
from stack.process import free_port
from support.authority import DAY, NOW, Authority
from support.json_lines import json_lines
from support.worker import Worker, until

NAMED = {"host": "connect.example"}
"""The one name that the worker goes by; its tasks and whoever only reads have others."""


def trusting(authority):
    context = ssl.create_default_context(cafile=authority.path)
    certificate, key = authority.identity("ann", purpose=ExtendedKeyUsageOID.CLIENT_AUTH)
    file = authority.folder / "ann.pem"
    file.write_bytes(key + certificate)
    context.load_cert_chain(file)
    return context


def write_keystore(authority, **of_certificate):
    certificate, key = authority.identity("the worker", **of_certificate)
    (authority.folder / "keystore.new").write_bytes(key + certificate)
    (authority.folder / "keystore.new").rename(authority.folder / "keystore.pem")


@pytest.fixture(scope="module")
def secured(kafka, servers_folder):
    """A worker that only clients with a certificate reach, with a listener for /admin, one that only reads, and a connector `a`."""
    authority = Authority(servers_folder)
    write_keystore(authority)
    ports = {name: free_port() for name in ("admin", "reading")}
    settings = {
        "listeners.https.ssl.keystore.location": f"{servers_folder}/keystore.pem",
        "listeners.https.ssl.client.auth": "required",
        "listeners.https.ssl.truststore.location": str(authority.path),
        "admin.listeners": f"http://127.0.0.1:{ports['admin']}",
        "dblog.rest.readonly.listener": f"http://127.0.0.1:{ports['reading']}",
        "dblog.rest.allowed.hosts": NAMED["host"],
        "rest.advertised.host.name": NAMED["host"],
    }
    with Worker(kafka, servers_folder, "secured", tls=trusting(authority), **settings) as worker:
        worker.client.headers.update(NAMED)
        worker.create("a", dummy_echo=f"{servers_folder}/secured-echo")
        worker.wait_for("a", "RUNNING", "RUNNING")
        yield worker, authority, ports


def test_only_a_client_with_a_certificate_is_served(secured):  # number 21 of the worker's safety
    worker, authority, _ = secured

    assert worker.client.get("/connectors").json() == ["a"]
    assert worker.client.post("/connectors", json={"name": "b", "config": {}}).status_code == 400
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{worker.url}/health", verify=ssl.create_default_context(cafile=authority.path))
    with pytest.raises(httpx.TransportError):
        httpx.get(worker.url.replace("https", "http") + "/health", verify=NO_TLS)


def test_a_task_reaches_the_registry_of_such_a_worker_with_its_token_on_loopback(secured, servers_folder):
    start = json_lines(servers_folder / "secured-echo")[0]
    own = start["worker"]["dblog.rest.own.url"]

    with httpx.Client(base_url=own, verify=NO_TLS, headers={"authorization": f"Bearer {start['worker']['dblog.rest.own.token']}"}) as task:
        assert task.post("/subjects/t/versions", json={"schema": '"long"'}).status_code == 200
        assert task.get("/subjects").json() == ["t"]
        assert task.get("/connectors").status_code == 401
    assert own.startswith("http://127.0.0.1:")
    assert httpx.get(own + "/subjects", verify=NO_TLS).status_code == 401
    assert httpx.post(own + "/subjects/u/versions", json={"schema": '"int"'}, verify=NO_TLS).status_code == 401


def test_loggers_are_at_the_listener_of_admin_alone(secured):
    worker, _, ports = secured
    admin = f"http://127.0.0.1:{ports['admin']}"

    assert httpx.get(f"{admin}/admin/loggers/root", verify=NO_TLS, headers=NAMED).json()["level"] == "INFO"
    assert worker.client.get("/admin/loggers").status_code == 404
    assert httpx.get(f"{admin}/connectors", verify=NO_TLS, headers=NAMED).status_code == 404
    assert httpx.get(f"http://127.0.0.1:{ports['reading']}/health", verify=NO_TLS).status_code == 200


def test_a_client_that_does_not_end_its_handshake_is_cut(secured):
    worker, _, _ = secured
    began_s = time.monotonic()

    with socket.create_connection(("127.0.0.1", worker.port), timeout=30) as silent:
        silent.sendall(b"\x16\x03\x01")
        assert silent.recv(100) == b""

    assert time.monotonic() - began_s < 25


def test_a_renewed_certificate_is_shown_without_a_restart(secured):
    worker, authority, _ = secured

    def ends():
        plain = socket.create_connection(("127.0.0.1", worker.port), timeout=30)
        with trusting(authority).wrap_socket(plain, server_hostname="127.0.0.1") as tls:
            return tls.getpeercert()["notAfter"]

    first = ends()
    write_keystore(authority, until=NOW + 90 * DAY)

    until(lambda: ends() != first, limit_s=60, what=lambda: "the renewed certificate")
    assert worker.client.get("/connectors").json() == ["a"]
    assert "certificate of the listeners changed and was read again" in worker.log.read_text()
