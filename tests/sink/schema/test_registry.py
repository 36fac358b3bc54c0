import contextlib
import itertools
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID
from dblog_sink.config.tables import TableSpec
from dblog_sink.errors import DefiniteError, TransientError
from dblog_sink.schema import registry as registry_module
from dblog_sink.schema.registry import Registry, tls_context
from dblog_sink.schema.resolve import Schemas
from dblog_sink.schema.writer_schemas import Envelope, Reading, value_schema
from support.authority import Authority
from support.registry_server import RegistryServer


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self, *, on_sleep=lambda: None) -> None:
        self.now_s = 0.0
        self._on_sleep = on_sleep

    def sleep(self, pause_s: float) -> None:
        self.now_s += pause_s
        self._on_sleep()


def client(server: RegistryServer, clock: Clock, **settings) -> Registry:
    return Registry(server.url, sleep=clock.sleep, now_s=lambda: clock.now_s, **settings)


def test_a_schema_is_asked_for_once(registry: RegistryServer) -> None:
    schema_id = registry.register('{"type":"string"}')
    reader = client(registry, Clock())

    assert [reader.schema(schema_id) for _ in range(3)] == ['{"type":"string"}'] * 3
    assert registry.requests == [f"GET /schemas/ids/{schema_id}"]


def test_a_restart_asks_its_folder_first(registry: RegistryServer, tmp_path: Path) -> None:
    schema_id = registry.register('"long"')
    client(registry, Clock(), cache_path=tmp_path / "schemas").schema(schema_id)
    registry.away = True

    assert client(registry, Clock(), cache_path=tmp_path / "schemas").schema(schema_id) == '"long"'


def test_a_registry_that_is_away_is_waited_for(registry: RegistryServer) -> None:
    schema_id = registry.register('"int"')
    registry.away = True
    clock = Clock(on_sleep=lambda: setattr(registry, "away", len(registry.requests) < 4))

    assert client(registry, clock).schema(schema_id) == '"int"'
    assert clock.now_s > 0


def test_the_outcome_of_each_request_is_reported(registry: RegistryServer) -> None:
    schema_id = registry.register('"int"')
    registry.away = True
    clock = Clock(on_sleep=lambda: setattr(registry, "away", len(registry.requests) < 3))
    outcomes: list[str] = []
    reader = client(registry, clock, asked=outcomes.append, unknown_wait_s=0)

    reader.schema(schema_id)
    reader.schema(schema_id + 1)

    assert outcomes == ["away", "away", "away", "ok", "unknown"]


def test_a_registry_that_stays_away_stops_the_job_and_nothing_is_skipped(registry: RegistryServer) -> None:
    registry.away = True
    clock = Clock()

    with pytest.raises(TransientError, match="checkpoint is intact"):
        client(registry, clock, wait_max_s=60).schema(1)

    assert 60 <= clock.now_s < 90


def test_a_registry_that_is_away_for_long_is_reported_again(registry: RegistryServer, caplog: pytest.LogCaptureFixture) -> None:
    registry.away = True

    with pytest.raises(TransientError):
        client(registry, Clock(), wait_max_s=150).schema(1)

    waits = [record.getMessage() for record in caplog.records if "waiting for the schema registry at" in record.getMessage()]
    assert len(waits) == 3
    assert "for 0 s so far" in waits[0]


def test_a_stop_ends_the_wait(registry: RegistryServer) -> None:
    registry.away = True

    with pytest.raises(TransientError, match="stopped"):
        client(registry, Clock(), stopping=lambda: True).schema(1)


def test_an_id_that_the_registry_does_not_know_is_asked_for_a_while(registry: RegistryServer) -> None:
    clock = Clock()

    assert client(registry, clock, unknown_wait_s=20).schema(77) is None
    assert clock.now_s >= 20
    assert len(registry.requests) > 3


def test_many_ids_that_nobody_knows_share_one_wait(registry: RegistryServer) -> None:  # number 37 of the sink's safety
    clock = Clock()
    reader = client(registry, clock, unknown_wait_s=20)

    assert [reader.schema(unknown) for unknown in range(1000, 1500)] == [None] * 500
    assert clock.now_s < 40, "whoever writes a topic may put any number into a record"

    clock.now_s += 1000
    waiting_since_s = clock.now_s
    assert reader.schema(77) is None
    assert clock.now_s - waiting_since_s >= 20, "a replica of the registry may lag again"


def test_an_id_registered_meanwhile_is_found(registry: RegistryServer) -> None:
    clock = Clock(on_sleep=lambda: registry.register('"bytes"'))

    assert client(registry, clock).schema(1) == '"bytes"'


def test_an_id_that_was_unknown_is_asked_for_again_with_growing_pauses_and_found(registry: RegistryServer) -> None:
    clock = Clock()
    reader = client(registry, clock, unknown_wait_s=20)
    assert reader.schema(1) is None
    registry.requests.clear()

    for _ in range(60):
        clock.now_s += 5
        slept_until_s = clock.now_s
        assert reader.schema(1) is None
        assert clock.now_s == slept_until_s, "nobody waits for it again"
    assert len(registry.requests) == 4, "after 20, 40, 80 and 160 s"

    registry.register('"int"')
    clock.now_s += 600
    assert reader.schema(1) == '"int"'
    registry.away = True
    assert reader.schema(1) == '"int"'


def test_wrong_credentials_name_the_option_and_not_the_password() -> None:
    with RegistryServer(auth="user:right") as server:
        schema_id = server.register('"int"')

        assert client(server, Clock(), auth="user:right").schema(schema_id) == '"int"'
        with pytest.raises(DefiniteError, match=r"registry\.auth") as caught:
            client(server, Clock(), auth="user:wrong").schema(schema_id)
    assert "wrong" not in str(caught.value)


def test_a_schema_that_refers_to_others_comes_with_them(registry: RegistryServer) -> None:
    registry.refer("geo/x", '{"type":"record","name":"X","namespace":"geo","fields":[{"name":"v","type":"double"}]}')
    point = {"type": "record", "name": "Point", "namespace": "geo", "fields": [{"name": "x", "type": "geo.X"}]}
    registry.refer("point", json.dumps(point), [("geo.X", "geo/x", 1)])
    row = {"type": "record", "name": "Row", "fields": [{"name": "at", "type": "geo.Point"}, {"name": "x", "type": ["null", "geo.X"]}]}
    schema_id = registry.refer("row", json.dumps(row), [("geo.Point", "point", 1), ("geo.X", "geo/x", 1)])

    found = client(registry, Clock()).schema(schema_id)

    assert found is not None
    made = value_schema(schema_id, found, Reading(records="unwrapped"))
    assert isinstance(made, Envelope)
    assert [field.conversion.type.simpleString() for field in made.fields] == ["struct<x:struct<v:double>>", "struct<v:double>"]


def test_a_registry_with_an_own_authority_is_trusted_by_its_file_and_may_ask_for_a_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pem, key = authority.identity("a sink", purpose=ExtendedKeyUsageOID.CLIENT_AUTH)
    certificate = tmp_path / "sink.pem"
    certificate.write_bytes(key + pem)
    demanding = authority.server()
    demanding.verify_mode = ssl.CERT_REQUIRED
    demanding.load_verify_locations(authority.path)

    with RegistryServer(tls=demanding) as server:
        schema_id = server.register('"int"')
        known = tls_context(ca=str(authority.path), certificate=str(certificate), key=None)
        assert client(server, Clock(), tls=known).schema(schema_id) == '"int"'
        for tls in (None, tls_context(ca=str(authority.path), certificate=None, key=None)):
            with pytest.raises(TransientError, match="has been away"):
                client(server, Clock(), tls=tls, wait_max_s=1).schema(schema_id)


def test_files_that_are_no_certificates_are_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")

    with pytest.raises(DefiniteError, match=r"ca\.pem\) cannot be read as certificates"):
        tls_context(ca=str(tmp_path / "ca.pem"), certificate=None, key=None)
    with pytest.raises(DefiniteError, match=r"none\.pem\) cannot be read"):
        tls_context(ca=None, certificate=str(tmp_path / "none.pem"), key=None)


def test_a_token_is_sent_instead_of_a_password() -> None:
    with RegistryServer(auth="a:b") as server:
        server._auth = "Bearer t0ken"
        schema_id = 1
        with pytest.raises(DefiniteError, match=r"registry\.token"):
            client(server, Clock(), auth="a:b").schema(schema_id)
        assert client(server, Clock(), token="t0ken", unknown_wait_s=0).schema(schema_id) is None


class Answering:
    """A server that answers every request with what a test has it answer, in pieces, and notes what it was asked."""

    def __init__(self, status: int, body: Callable[[int], Iterable[bytes]], **headers: str) -> None:
        self.asked: list[tuple[str, str | None]] = []
        own = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                own.asked.append((self.path, self.headers.get("authorization")))
                self.send_response(status)
                for name, text in headers.items():
                    self.send_header(name, text)
                self.end_headers()
                with contextlib.suppress(OSError):
                    for piece in body(len(own.asked)):
                        self.wfile.write(piece)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def asking(server: Answering, **settings: Any) -> Registry:
    clock = Clock()
    return Registry(server.url, sleep=clock.sleep, now_s=lambda: clock.now_s, wait_max_s=1, **settings)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_and_leads_no_password_elsewhere(status: int) -> None:  # number 37 of the sink's safety
    schema = [b'{"schema": "\\"int\\""}']
    with (
        Answering(200, lambda _: schema) as elsewhere,
        Answering(status, lambda _: [], location=f"{elsewhere.url}/schemas/ids/1") as server,
        pytest.raises(TransientError, match=r"a redirect, which is not followed: let registry\.url name where it leads"),
    ):
        asking(server, auth="user:canary").schema(1)

    assert server.asked
    assert elsewhere.asked == []


def test_no_proxy_of_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with Answering(200, lambda _: [b'{"schema": "\\"int\\""}']) as server, Answering(200, lambda _: [b'{"schema": "\\"long\\""}']) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "")

        assert asking(server).schema(1) == '"int"'

    assert proxy.asked == []


def test_an_answer_without_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "_ANSWER_BYTES_MAX", 1 << 20)
    with (
        Answering(200, lambda _: itertools.repeat(b" " * 65536, 4096)) as server,
        pytest.raises(TransientError, match="more than 1048576 bytes"),
    ):
        asking(server).schema(1)


def test_an_answer_that_trickles_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "_ANSWER_S", 0.2)
    enough = threading.Event()

    def trickle(_: int) -> Iterator[bytes]:
        while not enough.wait(0.05):
            yield b" "

    with Answering(200, trickle) as server:
        try:
            with pytest.raises(TransientError, match="its answer takes more than"):
                asking(server).schema(1)
        finally:
            enough.set()


@pytest.mark.parametrize("began", [b"", b"HTTP/1.1 200 OK\r\nx: ", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"])
def test_a_head_that_trickles_is_given_up_too(monkeypatch: pytest.MonkeyPatch, began: bytes) -> None:  # number 37
    monkeypatch.setattr(registry_module, "_ANSWER_S", 0.2)
    enough = threading.Event()

    def trickle(listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while not enough.is_set():
                connection, _ = listening.accept()
                with connection, contextlib.suppress(OSError):
                    connection.sendall(began)
                    while not enough.wait(0.05):
                        connection.sendall(b"1")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(30)
        serving = threading.Thread(target=trickle, args=(listening,), daemon=True)
        serving.start()
        clock = Clock()
        registry = Registry(f"http://127.0.0.1:{listening.getsockname()[1]}", sleep=clock.sleep, now_s=lambda: clock.now_s, wait_max_s=1)
        try:
            with pytest.raises(TransientError, match="its answer takes more than"):
                registry.schema(1)
        finally:
            enough.set()
    serving.join(30)


@pytest.mark.parametrize("body", [b"[" * 100_000, b"[]", b"{}", b'{"schema": "{", "references": [{}]}', b"\xff", b""])
def test_an_answer_that_is_no_schema_counts_as_away(body: bytes) -> None:
    with Answering(200, lambda _: [body]) as server, pytest.raises(TransientError, match="checkpoint is intact"):
        asking(server).schema(1)


def test_a_schema_that_is_no_avro_makes_its_records_bad_and_stops_nobody() -> None:  # number 37 of the sink's safety
    of_another_program = b"\x00\x00\x00\x00\x63"

    with Answering(200, lambda _: [b'{"schemaType": "JSON", "schema": "{}"}']) as server:
        known = Schemas(asking(server)).known(TableSpec(name="shop.t", path="", topic="p.shop.t"), [of_another_program], [], {}, kind=None)

    assert known.unreadable_ids == {of_another_program: "schema 99 is of type JSON; the sink reads Avro: use Debezium's Avro converter"}


def test_a_version_without_end_counts_as_no_answer() -> None:
    answer = b'{"schema": "\\"int\\"", "references": [{"name": "n", "subject": "s", "version": Infinity}]}'

    with Answering(200, lambda _: [answer]) as server, pytest.raises(TransientError, match="checkpoint is intact"):
        asking(server).schema(1)


def test_references_without_end_are_refused_in_a_sentence() -> None:
    def one_more(number: int) -> list[bytes]:
        return [json.dumps({"schema": '"int"', "references": [{"name": "n", "subject": f"s{number}", "version": 1}]}).encode()]

    with (
        Answering(200, one_more) as server,
        pytest.raises(DefiniteError, match=r"schema 1 of the registry .* refers to more than 1000 others, or over more than 50"),
    ):
        asking(server).schema(1)

    assert len(server.asked) < 60


def test_references_without_number_are_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "_REFERENCES_MAX", 20)
    many = json.dumps({"schema": '"int"', "references": [{"name": "n", "subject": f"s{n}", "version": 1} for n in range(100)]}).encode()

    def answer(number: int) -> list[bytes]:
        return [many if number == 1 else b'{"schema": "\\"int\\""}']

    with Answering(200, answer) as server, pytest.raises(DefiniteError, match="refers to more than 20 others"):
        asking(server).schema(1)

    assert len(server.asked) < 25
