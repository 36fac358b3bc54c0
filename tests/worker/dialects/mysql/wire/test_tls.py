"""TLS with a database: each mode refuses what its name promises to refuse, before any byte of a login is sent."""

from __future__ import annotations

import ipaddress
import ssl
import struct
import warnings
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from dblog.dialects.mysql.wire.connect import ConnectSettings, open_wire
from dblog.errors import DefiniteError
from support.authority import DAY, NOW, Authority
from support.false_server import TLS_REQUEST_BYTES, FalseServer

VERIFYING = ["verify_ca", "verify-ca", "verify_identity", "verify-full"]
STRICT = ["required", "trust", *VERIFYING]
CLIENT_LOCAL_FILES, CLIENT_MULTI_STATEMENTS, CLIENT_SSL = 1 << 7, 1 << 16, 1 << 11


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def login(server: FalseServer, mode: str, authority: Authority) -> None:
    settings = ConnectSettings(
        host="127.0.0.1", port=server.port, user="user-canary", password="pass-canary", ssl_mode=mode, truststore=str(authority.path), connect_timeout_s=5.0
    )  # fmt: skip
    open_wire(settings).close()


def nothing_of_a_login(server: FalseServer) -> bool:
    """Whether nothing was sent but the wish for TLS."""
    return all(len(packet) == TLS_REQUEST_BYTES for packet in server.heard)


@pytest.mark.parametrize("mode", STRICT)
def test_a_server_without_tls_is_refused_before_anything_is_sent(authority, mode):
    with FalseServer() as server, pytest.raises(DefiniteError, match=rf"offers no TLS.* database\.ssl\.mode={mode}.*ssl_cert and ssl_key"):
        login(server, mode, authority)

    assert server.heard == []


@pytest.mark.parametrize("mode", [*STRICT, "preferred"])
def test_a_good_certificate_is_taken_and_the_login_is_encrypted(authority, mode):
    with FalseServer(tls=authority.server()) as server:
        login(server, mode, authority)

    request, answer = server.heard[:2]
    assert len(request) == TLS_REQUEST_BYTES
    assert b"user-canary" in answer


@pytest.mark.parametrize("mode", VERIFYING)
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"since": NOW - 3 * DAY, "until": NOW - DAY}, "expired.*renew"),
        ({"since": NOW + DAY, "until": NOW + 2 * DAY}, "not yet valid.*clock"),
        ({"self_signed": True}, r"self-signed.*database\.ssl\.truststore"),
        ({"purpose": ExtendedKeyUsageOID.CLIENT_AUTH}, "purpose.*made for servers"),
    ],
    ids=["expired", "not yet valid", "self-signed", "a client's"],
)
def test_a_certificate_at_fault_is_refused_by_the_modes_that_verify(authority, mode, fault, reason):  # number 3 of the worker's safety
    with (
        FalseServer(tls=authority.server(**fault)) as server,
        pytest.raises(DefiniteError, match=rf"certificate of 127\.0\.0\.1:{server.port} is not trusted .*{reason}") as caught,
    ):
        login(server, mode, authority)

    assert "lower" not in str(caught.value)
    assert nothing_of_a_login(server)


@pytest.mark.parametrize("mode", VERIFYING)
def test_a_certificate_of_a_foreign_authority_is_refused_and_the_remedy_is_the_truststore_alone(authority, tmp_path, mode):
    (tmp_path / "foreign").mkdir()
    with (
        FalseServer(tls=Authority(tmp_path / "foreign").server()) as server,
        pytest.raises(DefiniteError, match=r"is not trusted .*authority that signed it in database\.ssl\.truststore$"),
    ):
        login(server, mode, authority)

    assert nothing_of_a_login(server)


@pytest.mark.parametrize(
    "host", [x509.DNSName("127.0.0.1"), x509.DNSName("other.example"), x509.IPAddress(ipaddress.ip_address("127.0.0.2"))]
)
@pytest.mark.parametrize("mode", ["verify_identity", "verify-full"])
def test_a_certificate_of_another_host_is_refused_where_the_identity_is_verified_and_the_remedy_is_a_name(authority, mode, host):
    with (
        FalseServer(tls=authority.server(host=host)) as server,
        pytest.raises(
            DefiniteError, match=r"is for another host .*set database\.hostname .* certificate that holds '127\.0\.0\.1'"
        ) as caught,
    ):
        login(server, mode, authority)

    assert not any(word in str(caught.value) for word in ("truststore", "lower", "ssl.mode"))
    assert nothing_of_a_login(server)


@pytest.mark.parametrize("mode", ["required", "verify_ca", "verify-ca"])
def test_a_certificate_of_another_host_is_taken_where_only_the_authority_counts(authority, mode):
    with FalseServer(tls=authority.server(host=x509.DNSName("other.example"))) as server:
        login(server, mode, authority)


@pytest.mark.parametrize("mode", [*STRICT, "preferred"])
def test_tls_before_1_2_is_refused(authority, mode):
    context = authority.server()
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of the versions
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1

    with FalseServer(tls=context) as server, pytest.raises(DefiniteError, match=rf"no TLS with 127\.0\.0\.1:{server.port}"):
        login(server, mode, authority)

    assert nothing_of_a_login(server)


@pytest.mark.parametrize("mode", ["disabled", "preferred", "required"])
def test_the_server_may_ask_for_no_file_and_takes_one_statement_at_a_time(authority, mode):
    with FalseServer(tls=None if mode == "disabled" else authority.server()) as server:
        login(server, mode, authority)

    sent = server.heard[: 1 if mode == "disabled" else 2]
    for packet in sent:
        (flags,) = struct.unpack_from("<I", packet)
        assert not flags & (CLIENT_LOCAL_FILES | CLIENT_MULTI_STATEMENTS)
        assert bool(flags & CLIENT_SSL) == (mode != "disabled")
