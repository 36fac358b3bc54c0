"""Settings, TLS stores, and what an error of driver or server means."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
import socket
import ssl
import struct
import threading
from dataclasses import replace
from pathlib import Path

import pymysql
import pytest
import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    pkcs12,
)
from dblog.abort import Abort
from dblog.dialects.mysql.wire import check, connect
from dblog.dialects.mysql.wire.connect import ConnectSettings, PrivilegeError, meaning, settings_of, split_statements, translate
from dblog.dialects.mysql.wire.log import end_of_log
from dblog.dialects.mysql.wire.session import read_facts
from dblog.errors import ConfigError, DefiniteError, NoConnectionsError, PositionLostError, TableChangedError, TransientError, discreet
from dblog.runtime.policy import trace_of
from support.authority import Authority
from support.false_server import OK, SALT, FalseServer, greeting

SETTINGS = ConnectSettings(host="db.example", user="reader", password="open sesame")


# -- settings -----------------------------------------------------------------------------------------------------------------------------


def test_a_tutorial_configuration_is_enough():
    found = settings_of(
        {"database.hostname": "mysql", "database.port": 3306, "database.user": "debezium", "database.password": "dbz", "topic.prefix": "x"}
    )

    assert found == ConnectSettings(host="mysql", port=3306, user="debezium", password="dbz")
    assert "dbz" not in repr(found)


def test_every_option_reaches_its_setting():
    found = settings_of(
        {
            "database.hostname": "h", "database.user": "u", "database.ssl.mode": "VERIFY_CA", "database.ssl.truststore": "t",
            "database.ssl.truststore.password": "tp", "database.ssl.keystore": "k", "database.ssl.keystore.password": "kp",
            "connect.timeout.ms": 1500, "connect.keep.alive": False, "connect.keep.alive.interval.ms": 500,
            "database.initial.statements": "SET a = 1;;; SET b = 2;",
        }
    )  # fmt: skip

    assert found == ConnectSettings(
        host="h", user="u", ssl_mode="verify_ca", truststore="t", truststore_password="tp", keystore="k", keystore_password="kp",
        connect_timeout_s=1.5, keep_alive=False, keep_alive_interval_s=1, initial_statements=("SET a = 1;", "SET b = 2"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "statements"), [("", ()), (" ; ", ()), ("a", ("a",)), ("a;b", ("a", "b")), ("a;;b", ("a;b",)), ("a;;;b", ("a;", "b"))]
)
def test_initial_statements_are_separated_by_single_semicolons(text, statements):
    assert split_statements(text) == statements


# -- what is no server --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "greeting",
    [
        b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n" * 500,
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n" * 1000,
        b"\x01\0\0\0\x0a",
        b"\x05\0\0\0\x0a8.0\0",
        b"\0\0\0\0",
    ],
)
def test_what_does_not_speak_the_protocol_is_definite_or_lost_with_its_address(greeting):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]

        def greet() -> None:
            with listener.accept()[0] as peer, contextlib.suppress(OSError):
                peer.sendall(greeting)

        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises((DefiniteError, TransientError), match=f"127.0.0.1:{port}"):
            connect.open_wire(ConnectSettings(host="127.0.0.1", port=port, user="u", connect_timeout_s=5.0))
        thread.join(10)


# -- cutting a connection from another thread ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ssl_mode", ["preferred", "required"])
def test_a_database_that_is_away_for_long_leaves_nothing_behind_with_who_may_cut_its_connections(ssl_mode):
    abort = Abort()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    for _ in range(3):
        with pytest.raises(TransientError, match="nothing listens"):
            connect.open_wire(ConnectSettings(host="127.0.0.1", port=port, user="u", ssl_mode=ssl_mode, abort=abort))

    assert len(abort) == 0


def test_a_connection_is_cut_while_it_is_open_and_forgotten_once_it_is_closed():
    abort = Abort()
    with FalseServer() as server:
        settings = ConnectSettings(host="127.0.0.1", port=server.port, user="u", connect_timeout_s=5.0, abort=abort)
        first, second = (connect.open_wire(settings) for _ in range(2))
        first.close()
        first.close()
        assert len(abort) == 1

        abort.call()
        with pytest.raises(TransientError):
            second.query("SELECT 1")
        second.close()

    assert len(abort) == 0


# -- servers that want the password, or a file ------------------------------------------------------------------------------------------------

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PEM = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def hostile(plugin: bytes, *answers: bytes, **settings) -> tuple[Exception | None, list[bytes]]:
    """What comes of a connection to a server that sends these packets in turn, and what it was sent."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with listener.accept()[0] as peer, contextlib.suppress(OSError, struct.error):
                peer.settimeout(10)
                file = peer.makefile("rb")
                number = 0
                for packet in (greeting(plugin), *answers):
                    peer.sendall(struct.pack("<I", len(packet))[:3] + bytes([number]) + packet)
                    (head,) = struct.unpack("<I", file.read(4))
                    heard.append(file.read(head & 0xFFFFFF))
                    number = ((head >> 24) + 1) % 256

        thread = threading.Thread(target=serve)
        thread.start()
        failure: Exception | None = None
        where = ConnectSettings(host="127.0.0.1", port=listener.getsockname()[1], user="u", password="pass-canary", connect_timeout_s=5.0)
        try:
            connect.open_wire(replace(where, **settings)).close()
        except Exception as e:  # noqa: BLE001  what it is, is the question
            failure = e
        thread.join(10)
    return failure, heard


@pytest.mark.parametrize(("method", "prompt"), [(b"mysql_clear_password", b""), (b"dialog", b"\x04Password: ")])
@pytest.mark.parametrize("mode", ["preferred", "disabled"])
def test_the_password_is_not_sent_in_clear_text_without_tls(method, prompt, mode):  # number 2 of the worker's safety
    failure, heard = hostile(b"mysql_native_password", b"\xfe" + method + b"\0" + prompt, OK, ssl_mode=mode)

    assert isinstance(failure, DefiniteError)
    assert method.decode() in str(failure)
    assert "database.ssl.mode" in str(failure)
    assert not any(b"pass-canary" in packet for packet in heard)


LOGINS = {
    "clear": (b"mysql_native_password", b"\xfemysql_clear_password\0"),
    "dialog": (b"mysql_native_password", b"\xfedialog\0\x04Password: "),
    "sha2": (b"caching_sha2_password", b"\x01\x04"),
    "switch to sha2": (b"mysql_native_password", b"\xfecaching_sha2_password\0" + b"".join(SALT) + b"\0", b"\x01\x04"),
    "sha256": (b"sha256_password", b"\xfesha256_password\0" + b"".join(SALT) + b"\0", b"\x01" + PEM),
}
"""By the methods of a liar's greeting, and what it answers to get the password."""


@pytest.mark.parametrize("login", LOGINS)
@pytest.mark.parametrize("mode", ["preferred", "required", "trust", "verify_ca"])
def test_in_tls_the_password_goes_to_no_server_that_is_not_verified_but_by_mysqls_full_login(login, mode, tmp_path):  # number 2
    authority = Authority(tmp_path)
    plugin, *asks = LOGINS[login]
    failure: Exception | None = None

    with FalseServer(tls=authority.server(), greeting=greeting(plugin, tls=True), asks=asks) as server:
        where = ConnectSettings(host="127.0.0.1", port=server.port, user="u", password="pass-canary", ssl_mode=mode, connect_timeout_s=5.0)
        try:
            connect.open_wire(replace(where, truststore=str(authority.path) if mode == "verify_ca" else None)).close()
        except Exception as e:  # noqa: BLE001  what it is, is the question
            failure = e

    sent = any(b"pass-canary" in packet for packet in server.heard)
    is_full_login = "sha" in login
    assert sent is (mode == "verify_ca" or (is_full_login and mode != "trust"))
    if not sent:
        assert isinstance(failure, DefiniteError)
        assert "TLS whose certificate is not verified" in str(failure)
        assert "verify_identity" in str(failure)


@pytest.mark.parametrize(
    "answers", [(b"\x01\x04", b"\x01" + PEM, OK), (b"\xfesha256_password\0" + b"".join(SALT) + b"\0", b"\x01" + PEM, OK)]
)
def test_the_password_is_not_encrypted_with_a_key_that_just_anybody_sends(answers):  # number 2
    failure, heard = hostile(b"caching_sha2_password", *answers)

    assert isinstance(failure, DefiniteError)
    assert "driver.allowPublicKeyRetrieval" in str(failure)
    assert not any(len(packet) >= 256 for packet in heard[1:])  # nothing that was encrypted with it


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param((b"\xfe",), id="the login of servers before 4.1"),
        pytest.param((b"\xfemysql_old_password\0" + SALT[0],), id="the same by its name"),
        pytest.param((b"\xfe\xff\xfe\0" + SALT[0],), id="a login method that is not a text"),
        pytest.param((b"\x00",), id="half an OK"),
        pytest.param((OK, b"\x00"), id="half an OK to the first statement"),
        pytest.param((OK, b"\xfc"), id="half a number of columns"),
        pytest.param((OK, b"\x01", b"\x03def\xff"), id="half a column"),
        pytest.param((OK, b"\xff"), id="half an error"),
        pytest.param((b"\xff\x15\x04#28000\xff\xfe",), id="an error that is not a text"),
    ],
)
def test_whatever_the_driver_makes_of_bytes_that_no_server_sends_is_a_sentence(answers):
    failure, _ = hostile(b"mysql_native_password", *answers, OK)

    assert isinstance(failure, DefiniteError | TransientError), repr(failure)
    assert "127.0.0.1:" in str(failure)


def test_a_greeting_that_is_no_text_is_a_sentence():
    failure, _ = hostile(b"\xff\xfe")

    assert isinstance(failure, DefiniteError), repr(failure)
    assert "is not a MySQL or MariaDB server" in str(failure)


def test_a_user_who_trusts_the_network_may_allow_the_key():  # number 2
    _, heard = hostile(b"caching_sha2_password", b"\x01\x04", b"\x01" + PEM, OK, takes_public_key=True)

    encrypted = next(packet for packet in heard if len(packet) == 256)
    mixed = KEY.decrypt(encrypted, padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None))  # noqa: S303  the protocol's
    assert bytes(a ^ b for a, b in zip(mixed, b"".join(SALT) * 2, strict=False)) == b"pass-canary\0"


# number 32 of the worker's safety
def test_a_server_that_asks_for_a_file_gets_nothing(tmp_path):  # S24
    (tmp_path / "secret").write_text("file-canary")

    failure, heard = hostile(b"mysql_native_password", OK, OK, b"\xfb" + str(tmp_path / "secret").encode(), OK)

    assert isinstance(failure, DefiniteError)
    assert "not a MySQL or MariaDB server" in str(failure)
    assert not any(b"file-canary" in packet for packet in heard)


# -- TLS ----------------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def identity():
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "reader")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return key, certificate


@pytest.fixture
def stores(identity, tmp_path: Path) -> dict[str, str]:
    key, certificate = identity
    pem = certificate.public_bytes(Encoding.PEM)
    (tmp_path / "trust.pem").write_bytes(pem)
    (tmp_path / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + pem)
    (tmp_path / "key.p12").write_bytes(pkcs12.serialize_key_and_certificates(b"me", key, certificate, None, BestAvailableEncryption(b"pw")))
    (tmp_path / "trust.p12").write_bytes(
        pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(certificate, b"ca")], BestAvailableEncryption(b"pw"))
    )
    (tmp_path / "old.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    (tmp_path / "other").write_bytes(b"something else")
    return {path.name: str(path) for path in tmp_path.iterdir()}


@pytest.mark.parametrize("mode", ["verify_ca", "verify_identity"])
@pytest.mark.parametrize("store", ["trust.pem", "trust.p12"])
def test_with_a_truststore_only_its_certificates_count(stores, store, mode):  # number 3 of the worker's safety
    settings = replace(SETTINGS, ssl_mode=mode, truststore=stores[store], truststore_password="pw")

    trusted = connect.tls_arguments(settings)["ssl"].get_ca_certs()

    assert [dict(part[0] for part in each["subject"]) for each in trusted] == [{"commonName": "reader"}]


@pytest.mark.parametrize("store", ["trust.pem", "trust.p12"])
def test_a_truststore_may_be_pem_or_pkcs12(stores, store):
    settings = replace(SETTINGS, ssl_mode="verify_identity", truststore=stores[store], truststore_password="pw")

    context = connect.tls_arguments(settings)["ssl"]

    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert any(dict(rdn[0] for rdn in ca["subject"]).get("commonName") == "reader" for ca in context.get_ca_certs())


@pytest.mark.parametrize("store", ["key.pem", "key.p12"])
def test_a_keystore_may_be_pem_or_pkcs12(stores, store):
    password = "pw" if store == "key.p12" else None

    assert "ssl" in connect.tls_arguments(replace(SETTINGS, ssl_mode="required", keystore=stores[store], keystore_password=password))


TRUSTSTORE = {"truststore": "?", "truststore_password": "wrong"}
KEYSTORE = {"keystore": "?", "keystore_password": "wrong"}


@pytest.mark.parametrize(("option", "changes"), [("database.ssl.truststore", TRUSTSTORE), ("database.ssl.keystore", KEYSTORE)])
def test_a_store_that_cannot_be_used_is_named_and_nothing_shows_why_but_the_log(stores, tmp_path, option, changes):  # number 4
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "begins.pem").write_bytes(b"-----BEGIN CERTIFICATE-----\nnone\n")
    names = ["old.jks", "other", "missing", "empty", "begins.pem", "pipe", "trust.p12", "key.p12"]
    paths = ["/dev/zero", str(tmp_path), "a\0b", *(stores.get(name, str(tmp_path / name)) for name in names)]
    texts, reasons = set(), []

    for path in paths:
        given = {name: value if value == "wrong" else path for name, value in changes.items()}
        with structlog.testing.capture_logs() as lines, pytest.raises(ConfigError) as caught:
            connect.tls_arguments(replace(SETTINGS, ssl_mode="verify_ca", **given))
        assert list(caught.value.errors) == [option]
        texts.add(str(caught.value).replace(path, "PATH"))
        reasons += [line["reason"] for line in lines]

    assert len(texts) == 1
    text = texts.pop()
    assert len(text) < 300
    assert all(word in text for word in ("PEM", f"{option}.password", "keytool -importkeystore", "regular file", "worker's log"))
    assert len(reasons) == len(paths)
    assert any(reason.startswith("it is a JKS store, which only Java reads; run keytool -importkeystore") for reason in reasons)
    assert {"it is empty", "it is not a regular file", "No such file or directory"} <= set(reasons)


@pytest.mark.parametrize(("content", "reason"), [("", "it is empty"), ("\n \n", "it is empty"), ("key.pem", "it holds no certificate")])
def test_a_truststore_without_certificates_is_reported_by_the_log(stores, tmp_path, content, reason):
    key, begin, _certificate = Path(stores["key.pem"]).read_text().partition("-----BEGIN CERTIFICATE-----")
    assert begin
    (tmp_path / "store.pem").write_text(key if content == "key.pem" else content)

    with structlog.testing.capture_logs() as lines, pytest.raises(ConfigError):
        connect.tls_arguments(replace(SETTINGS, ssl_mode="verify_ca", truststore=str(tmp_path / "store.pem")))

    assert [line["reason"] for line in lines] == [reason]


def test_a_keystore_without_a_key_is_reported_by_the_log(stores):
    for store, password, reason in (("trust.p12", "pw", "no private key"), ("trust.pem", None, "does not fit its certificate")):
        with structlog.testing.capture_logs() as lines, pytest.raises(ConfigError):
            connect.tls_arguments(replace(SETTINGS, ssl_mode="verify_ca", keystore=stores[store], keystore_password=password))
        assert reason in lines[0]["reason"]


@pytest.mark.parametrize(
    ("mode", "verify", "hostname"),
    [
        ("required", ssl.CERT_NONE, False), ("trust", ssl.CERT_NONE, False), ("verify_ca", ssl.CERT_REQUIRED, False),
        ("verify-ca", ssl.CERT_REQUIRED, False), ("verify_identity", ssl.CERT_REQUIRED, True), ("verify-full", ssl.CERT_REQUIRED, True),
    ],
)  # fmt: skip
def test_ssl_modes_of_both_flavors_verify_what_their_names_promise(mode, verify, hostname):
    context = connect.tls_arguments(replace(SETTINGS, ssl_mode=mode))["ssl"]

    assert (context.verify_mode, context.check_hostname) == (verify, hostname)


def test_preferred_leaves_it_to_the_server_disabled_does_without_and_others_are_refused():
    assert connect.tls_arguments(replace(SETTINGS, ssl_mode="preferred")) == {}
    assert connect.tls_arguments(replace(SETTINGS, ssl_mode="disable")) == {"ssl_disabled": True}
    with pytest.raises(DefiniteError, match=r"database\.ssl\.mode is 'perhaps'"):
        connect.tls_arguments(replace(SETTINGS, ssl_mode="perhaps"))


# -- what errors mean ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "text", "kind", "sentence"),
    [
        (1045, "Access denied for user 'reader'@'h' (using password: YES)", DefiniteError, "the password is wrong"),
        (1698, "Access denied", DefiniteError, "the password is wrong"),
        (1130, "Host 'h' is not allowed to connect", DefiniteError, "include this machine"),
        (1129, "Host 'h' is blocked", DefiniteError, "FLUSH HOSTS"),
        (2059, "Authentication plugin", DefiniteError, "login method"),
        (3159, "Connections using insecure transport are prohibited", DefiniteError, r"TLS only, and database\.ssl\.mode=preferred .*verify_identity"),
        (2013, "Lost connection", TransientError, "connection was lost"),
        (1053, "Server shutdown in progress", TransientError, "connection was lost"),
        (1927, "Connection was killed", TransientError, "connection was lost"),
        (4031, "The client was disconnected", TransientError, "connection was lost"),
        (1040, "Too many connections", NoConnectionsError, "raise max_connections"),
        (1203, "User reader already has more than 'max_user_connections' active connections", NoConnectionsError, "'reader' has as many as max_user_conn"),
        (1226, "User 'reader' has exceeded the 'max_user_connections' resource (current value: 1)", NoConnectionsError, "MAX_USER_CONNECTIONS 0"),
        (1226, "User 'reader' has exceeded the 'max_connections_per_hour' resource", NoConnectionsError, "MAX_CONNECTIONS_PER_HOUR 0"),
        (1226, "User 'reader' has exceeded the 'max_questions' resource (current value: 1)", TransientError, "for now"),
        (1205, "Lock wait timeout exceeded", TransientError, "somebody locks the table"),
        (1213, "Deadlock found", TransientError, "for now"),
        (1412, "Table definition has changed", TableChangedError, "has changed"),
        (1146, "Table 'd.t' doesn't exist", TableChangedError, r"d\.t"),
        (1054, "Unknown column 'x' in 'field list'", TableChangedError, "x"),
        (1267, "Illegal mix of collations (utf8mb4_bin,IMPLICIT) and (ujis_bin,EXPLICIT) for operation '>'", TableChangedError, "has changed"),
        (1227, "Access denied; you need (at least one of) the BINLOG MONITOR privilege(s) for this operation", PrivilegeError, "BINLOG MONITOR"),
        (1142, "SELECT command denied to user 'reader'@'h' for table 't'", PrivilegeError, "lacks a privilege"),
        (1792, "Cannot execute statement in a READ ONLY transaction", DefiniteError, "read-only"),
        (1290, "The MySQL server is running with the --read-only option", DefiniteError, "read-only"),
        (1064, "You have an error in your SQL syntax near 'x'", DefiniteError, "error 1064"),
        (1292, "Incorrect DATETIME value: 'secret'", DefiniteError, "error 1292: Incorrect DATETIME value: '...'"),
        (1062, "Duplicate entry 'secret' for key 'PRIMARY'", DefiniteError, "error 1062"),
    ],
)  # fmt: skip
def test_server_errors_are_passing_or_definite_with_a_sentence(code, text, kind, sentence):
    failure = meaning(code, text, SETTINGS, "reading shop.t")

    assert isinstance(failure, kind)
    assert isinstance(failure, TransientError) == issubclass(kind, TransientError)
    assert re.search(sentence, str(failure))
    assert "db.example:3306" in str(failure)
    assert "secret" not in str(failure)
    assert "open sesame" not in str(failure)


CANARIES = [
    (1062, "Duplicate entry 'O'canary-tail' for key 'PRIMARY'", "error 1062: Duplicate entry '...'"),
    (1062, "Duplicate entry 'it''s-canary' for key 'a'b'", "error 1062: Duplicate entry '...'"),
    (1292, "Incorrect DATETIME value: 'O'canary", "error 1292: Incorrect DATETIME value: '...'"),  # a long value is cut short with the text
    (1292, "canary", "error 1292"),
    (1644, "order of canary refused", "error 1644, whose text may hold values of rows"),
    (3140, "Invalid JSON text: \"Invalid value.\" at position 1 in value for column 't.canary'", "error 3140, whose text may hold"),
    (1690, "BIGINT UNSIGNED value is out of range in '(canary - 1)'", "error 1690, whose text"),
    (64000, "canary", "error 64000, whose text"),
]


@pytest.mark.parametrize(("code", "text", "shown"), CANARIES)
def test_no_part_of_a_value_is_in_an_error_whatever_quotes_it_holds(code, text, shown):
    for failure in (
        meaning(code, text, SETTINGS, "reading shop.t"),
        translate(pymysql.err.OperationalError(code, text), SETTINGS, "reading shop.t"),
        end_of_log(-1, err_packet(code, text), SETTINGS, "b.7:4"),
    ):
        assert f"failed: {shown}" in str(failure)
        assert "canary" not in str(failure)


@pytest.mark.parametrize("code", [1064, 1236])
def test_a_text_of_a_server_is_one_line_and_no_longer_than_servers_have_them(code):
    text = "near\x1b[31m\n" + "x" * 100_000

    for failure in (meaning(code, text, SETTINGS, "reading shop.t"), end_of_log(-1, err_packet(code, text), SETTINGS, "b.7:4")):
        assert str(failure).isprintable()
        assert len(str(failure)) < 1000


@pytest.mark.parametrize(
    ("code", "text", "kind", "shown"),
    [
        (1064, "You have an error in your SQL syntax; ... near 'IDENTIFIED BY \\'canary\\''", DefiniteError, "failed: error 1064"),
        (1231, "Variable 'a' can't be set to the value of 'canary'", DefiniteError, "failed: error 1231"),
        (1644, "canary", DefiniteError, "failed: error 1644"),
        (1146, "Table 'canary.t' doesn't exist", TableChangedError, r"\(error 1146\)"),
        (1227, "Access denied; you need (at least one of) the canary privilege(s)", PrivilegeError, r"\(error 1227\)"),
    ],
)
def test_of_an_initial_statement_an_error_shows_its_ordinal_and_the_number_only(code, text, kind, shown):
    def answer(payload: bytes) -> list[bytes]:
        return [err_packet(code, text)] if payload[1:].startswith(b"SET @p = ") else [OK]

    with FalseServer(answer) as server:
        settings = ConnectSettings(host="127.0.0.1", port=server.port, user="u", initial_statements=("SET a = 1", "SET @p = 'canary'"))
        with pytest.raises(kind) as caught:
            connect.open_wire(settings)

    assert str(caught.value).startswith(f"statement 2 of database.initial.statements at 127.0.0.1:{server.port} failed: ")
    assert re.search(rf"{shown}$", str(caught.value))
    assert "canary" not in trace_of(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (1064, "You have an error in your SQL syntax; ... near 'canary'"),
        (1054, "Unknown column 'canary' in 'where clause'"),
        (1370, "execute command denied to user 'u'@'h' for routine 'd.canary'"),
    ],
)
def test_what_may_quote_its_statement_has_a_form_that_does_not(code, text):
    failure = meaning(code, text, SETTINGS, "reading a chunk")

    assert "canary" in str(failure)
    assert "canary" not in discreet(failure)
    assert f"error {code}" in discreet(failure)
    assert discreet(meaning(1213, "canary", SETTINGS, "reading a chunk")) == str(meaning(1213, None, SETTINGS, "reading a chunk"))


def refused(original: BaseException) -> pymysql.err.OperationalError:
    error = pymysql.err.OperationalError(2003, "Can't connect")
    error.original_exception = original
    return error


@pytest.mark.parametrize(
    ("original", "kind", "kind_again", "sentence"),
    [
        (socket.gaierror(socket.EAI_NONAME, "x"), DefiniteError, TransientError, "'db.example' is not known"),
        (socket.gaierror(socket.EAI_AGAIN, "x"), TransientError, TransientError, "name service did not answer"),
        (ConnectionRefusedError(), TransientError, TransientError, "nothing listens at db.example:3306"),
        (TimeoutError(), TransientError, TransientError, "did not answer within 30 s"),
        (OSError(113, "No route to host"), TransientError, TransientError, "No route to host"),
        (ssl.SSLEOFError(8, "EOF occurred"), TransientError, TransientError, "no connection to db.example:3306"),
        (ssl.SSLError(1, "handshake"), DefiniteError, DefiniteError, "no TLS with db.example:3306"),
        (ssl.SSLCertVerificationError(1, "x"), DefiniteError, DefiniteError, "is not trusted"),
    ],
)
def test_network_errors_are_passing_or_definite_with_a_sentence(original, kind, kind_again, sentence):
    first = translate(refused(original), SETTINGS, "connecting")
    again = translate(refused(original), SETTINGS, "connecting", again=True)

    assert (type(first), type(again)) == (kind, kind_again)
    assert sentence in str(first)


@pytest.mark.parametrize("error", [pymysql.err.InterfaceError(0, ""), pymysql.err.OperationalError("no number")])
def test_a_driver_error_without_a_number_is_a_lost_connection(error):
    assert isinstance(translate(error, SETTINGS, "a query"), TransientError)


# -- the end of a log ---------------------------------------------------------------------------------------------------------------------


def err_packet(code: int, text: str) -> bytes:
    return b"\xff" + code.to_bytes(2, "little") + b"#HY000" + text.encode()


@pytest.mark.parametrize("strip", [False, True])
@pytest.mark.parametrize(
    ("code", "text", "kind", "sentence"),
    [
        (1236, "Could not find first log file name in binary log index file", PositionLostError, r"from b\.7:4 .*snapshot.mode=when_needed"),
        (1236, "binlog truncated in the middle of event; consider out of disk space", PositionLostError, r"from b\.7:4 "),
        (1236, "bogus data in log event", PositionLostError, r"from b\.7:4 "),
        (1236, "Could not open log file", TransientError, r"cannot read its log from b\.7:4 now .*Could not open log file"),
        (1236, "memory allocation failed reading log event", TransientError, r"cannot read its log from b\.7:4 now"),
        (1236, "error reading log entry", TransientError, r"cannot read its log from b\.7:4 now"),
        (1236, "I/O error reading log event", TransientError, r"cannot read its log from b\.7:4 now"),
        (1236, "A replica with the same server_uuid/server_id as this replica has connected", TransientError, r"database\.server\.id"),
        (1236, "log event entry exceeded max_allowed_packet; Increase max_allowed_packet", DefiniteError, "max_allowed_packet"),
        (1227, "you need (at least one of) the REPLICATION SLAVE privilege(s)", PrivilegeError, "REPLICATION SLAVE"),
        (1317, "Query execution was interrupted", TransientError, "lost"),
        (1053, "Server shutdown in progress", TransientError, "lost"),
    ],
)  # fmt: skip
def test_an_error_packet_at_the_end_of_a_log_states_what_to_do(strip, code, text, kind, sentence):
    body = err_packet(code, text)[1:] if strip else err_packet(code, text)

    failure = end_of_log(-1, body, SETTINGS, "b.7:4")

    assert type(failure) is kind
    assert re.search(sentence, str(failure))


def test_an_eof_packet_at_the_end_of_a_log_is_passing():
    failure = end_of_log(-2, b"\xfe\0\0\2\0", SETTINGS, "b.7:4")

    assert type(failure) is TransientError
    assert str(failure) == (f"the server at {SETTINGS.address} ended the log at b.7:4 (it is shutting down, or the connection was killed)")


# -- facts and settings of the server -----------------------------------------------------------------------------------------------------

GOOD_MYSQL = {
    "version": "8.0.36-28.1", "version_comment": "Percona Server", "log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL", "gtid_mode": "ON", "server_id": "1", "server_uuid": "u", "lower_case_table_names": "1",
    "binlog_transaction_compression": "OFF", "binlog_row_value_options": "", "binlog_order_commits": "ON", "log_replica_updates": "ON",
}  # fmt: skip
GOOD_MARIADB = {
    "version": "10.5.23-MariaDB-log", "log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL", "server_id": "1",
    "binlog_row_metadata": "NO_LOG", "log_bin_compress": "OFF",
}  # fmt: skip
OLD_MYSQL = {
    "version": "5.7.44-log",
    "log_bin": "ON",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "gtid_mode": "OFF",
    "server_id": "1",
}


def test_facts_of_servers_old_and_new():
    new, maria, old = read_facts(GOOD_MYSQL), read_facts(GOOD_MARIADB), read_facts(OLD_MYSQL)

    assert (new.flavor, new.version, new.uses_gtids, new.server_uuid, new.lower_case_table_names) == ("mysql", (8, 0, 36), True, "u", 1)
    assert (maria.flavor, maria.version, maria.uses_gtids, maria.server_uuid) == ("mariadb", (10, 5, 23), True, None)
    assert (old.flavor, old.version, old.uses_gtids, old.row_metadata, old.ordered_commits) == ("mysql", (5, 7, 44), False, "", True)
    assert not read_facts({**GOOD_MYSQL, "gtid_mode": "ON_PERMISSIVE"}).uses_gtids
    assert [read_facts({**GOOD_MYSQL, "innodb_native_foreign_keys": v}).cascades_logged for v in ("OFF", "ON")] == [True, False]
    assert not new.cascades_logged


@pytest.mark.parametrize("variables", [GOOD_MYSQL, GOOD_MARIADB, OLD_MYSQL])
def test_good_settings_have_no_fault(variables):
    assert check.setting_at_fault(read_facts(variables), "h:1", server_id=2) is None


@pytest.mark.parametrize(
    ("variables", "changes", "sentence"),
    [
        (GOOD_MYSQL, {"log_bin": "OFF"}, "writes no binary log"),
        (GOOD_MYSQL, {"binlog_format": "MIXED"}, "SET GLOBAL binlog_format = 'ROW';"),
        (GOOD_MYSQL, {"binlog_row_image": "MINIMAL"}, "SET GLOBAL binlog_row_image = 'FULL';"),
        (GOOD_MARIADB, {"binlog_row_image": "MINIMAL"}, "or set dblog.row.image.missing=reread"),
        (GOOD_MYSQL, {"server_id": "0"}, "SET GLOBAL server_id = 1;"),
        (GOOD_MYSQL, {"server_id": "2"}, "database.server.id=2 is the id of the server"),
        (GOOD_MYSQL, {"binlog_order_commits": "OFF"}, "SET GLOBAL binlog_order_commits = ON;"),
    ],
)
def test_each_setting_at_fault_is_named_with_its_remedy(variables, changes, sentence):
    assert sentence in (check.setting_at_fault(read_facts({**variables, **changes}), "h:1", server_id=2) or "")


@pytest.mark.parametrize("mode", ["OFF", "ON_PERMISSIVE", "OFF_PERMISSIVE"])
def test_a_server_without_gtids_is_at_fault_where_nothing_may_be_written(mode):
    facts = read_facts({**GOOD_MYSQL, "gtid_mode": mode})

    found = check.setting_at_fault(facts, "h:1", server_id=2, read_only=True)

    assert f"runs with gtid_mode={mode}; turn GTIDs on there" in (found or "")
    assert check.setting_at_fault(facts, "h:1", server_id=2) is None
    for good in (GOOD_MYSQL, GOOD_MARIADB):
        assert check.setting_at_fault(read_facts(good), "h:1", server_id=2, read_only=True) is None


def test_warnings_show_of_metadata_and_gtids():
    assert check.warnings(read_facts(GOOD_MYSQL), "h:1") == []
    assert [text.split(" at ")[0] for text in check.warnings(read_facts(OLD_MYSQL), "h:1")] == [
        "binlog_row_metadata is not available",
        "gtid_mode is OFF",
    ]
    assert len(check.warnings(read_facts(GOOD_MARIADB), "h:1")) == 1


def test_a_socket_is_closed_also_where_saying_goodbye_fails_and_its_number_is_free() -> None:
    class Connection:
        """PyMySQL's, whose server has gone."""

        def __init__(self, sock: socket.socket) -> None:
            self._sock = sock

        def close(self) -> None:
            raise OSError

        def release(self) -> None:
            """Nothing was taken."""

    ours, theirs = socket.socketpair()
    with theirs:
        theirs.settimeout(10)
        connect.Wire(Connection(ours), SETTINGS, lambda: None).close()

        assert ours.fileno() == -1
        assert theirs.recv(1) == b""
