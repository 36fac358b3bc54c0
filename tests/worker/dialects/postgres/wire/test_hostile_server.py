"""What libpq is given: files as they were read, one host, and a login that shows the password to nobody whom it does not know."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID
from dblog.dialects.postgres.wire.connect import ConnectSettings, open_wire
from dblog.errors import ConfigError, DefiniteError, TransientError
from support.authority import Authority
from support.false_postgres import CLEAR_PASSWORD, MD5_PASSWORD, FalsePostgres

VERIFYING = ["verify-ca", "verify-full"]
OPTIONS = {"ssl_root": "database.sslrootcert", "ssl_certificate": "database.sslcert", "ssl_key": "database.sslkey"}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def settings_for(server: FalsePostgres, **more: object) -> ConnectSettings:
    known = ConnectSettings(host="127.0.0.1", port=server.port, user="u", database="d", password="pass-canary", connect_timeout_s=5.0)
    return replace(known, **more)  # type: ignore[arg-type]


def logged_in(server: FalsePostgres, **more: object) -> bool:
    """Whether the server was told who comes: it is starting up then."""
    with pytest.raises(TransientError, match="is starting up"):
        open_wire(settings_for(server, **more))
    return server.heard[0].startswith(b"user\0u\0")


@pytest.fixture
def identity(authority: Authority, tmp_path: Path) -> dict[str, str]:
    """A client's certificate and key, where a mount of Kubernetes has them: behind links, and open to a group."""
    (tmp_path / "..2026").mkdir()
    (tmp_path / "..data").symlink_to("..2026")
    certificate, key = authority.identity("the client", purpose=ExtendedKeyUsageOID.CLIENT_AUTH)
    for name, pem in (("tls.crt", certificate), ("tls.key", key)):
        (tmp_path / "..2026" / name).write_bytes(pem)
        (tmp_path / "..2026" / name).chmod(0o644)
        (tmp_path / name).symlink_to(f"..data/{name}")
    return {"ssl_certificate": str(tmp_path / "tls.crt"), "ssl_key": str(tmp_path / "tls.key")}


def demanding(authority: Authority) -> ssl.SSLContext:
    context = authority.server()
    context.load_verify_locations(authority.path)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


# -- files ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["require", *VERIFYING])
def test_files_of_a_mount_reach_the_server_as_certificates(authority, identity, mode):
    with FalsePostgres(tls=demanding(authority)) as server:
        assert logged_in(server, ssl_mode=mode, ssl_root=str(authority.path), **identity)

    assert "the client" in str(server.certificates)


@pytest.mark.parametrize("mode", VERIFYING)
def test_a_certificate_of_another_authority_is_refused_before_the_login(authority, tmp_path, mode):  # number 3 of the worker's safety
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")

    with FalsePostgres(tls=other.server()) as server, pytest.raises(DefiniteError, match="do not agree on TLS"):
        open_wire(settings_for(server, ssl_mode=mode, ssl_root=str(authority.path)))

    assert server.heard == []


@pytest.mark.parametrize("mode", ["allow", "prefer", "require"])
def test_a_key_that_names_an_engine_loads_nothing(identity, mode, tmp_path):  # number 1 of the worker's safety
    with FalsePostgres() as server, pytest.raises(ConfigError) as refused:
        open_wire(settings_for(server, ssl_mode=mode, **{**identity, "ssl_key": f"{tmp_path}/evil.so:x"}))

    assert set(refused.value.errors) == {"database.sslkey"}
    assert "engine" not in str(refused.value)
    assert server.connections == 0


@pytest.mark.parametrize("field", OPTIONS)
def test_a_file_at_fault_is_told_in_one_form_whatever_is_there(authority, identity, tmp_path, field):  # number 4 of the worker's safety
    text = tmp_path / "text"
    text.write_text("not PEM")
    said = set()

    with FalsePostgres(tls=demanding(authority)) as server:
        for path in ("/etc/no-such-file", "/dev/zero", str(tmp_path), str(text)):
            given = {"ssl_root": str(authority.path), **identity, field: path}
            with pytest.raises(ConfigError) as refused:
                open_wire(settings_for(server, ssl_mode="verify-ca", **given))
            ((option, (reason,)),) = refused.value.errors.items()
            assert option == OPTIONS[field]
            said.add(reason.replace(path, "PATH"))

    assert len(said) == 1
    assert server.heard == []


def test_a_mode_that_verifies_asks_for_the_authorities(identity):
    with FalsePostgres() as server, pytest.raises(ConfigError, match=r"sslrootcert=system for the machine's own"):
        open_wire(settings_for(server, ssl_mode="verify-full", **identity))
    assert server.connections == 0


def test_a_certificate_asks_for_its_key(identity):
    with FalsePostgres() as server, pytest.raises(ConfigError, match=r"database\.sslkey does not name the file with its private key"):
        open_wire(settings_for(server, ssl_mode="require", ssl_certificate=identity["ssl_certificate"]))


def test_no_file_of_the_home_folder_is_read(authority, identity, tmp_path, monkeypatch):
    """The library looks there for authorities, a certificate and passwords that nobody has named."""
    home = tmp_path / "home" / ".postgresql"
    home.mkdir(parents=True)
    (home / "root.crt").write_text("not PEM")
    (home / "postgresql.crt").write_bytes(Path(identity["ssl_certificate"]).read_bytes())
    (home / "postgresql.key").write_bytes(Path(identity["ssl_key"]).read_bytes())
    (home / "postgresql.key").chmod(0o600)
    passes = tmp_path / "home" / ".pgpass"
    passes.write_text("*:*:*:*:of-the-home-folder")
    passes.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    optional = demanding(authority)
    optional.verify_mode = ssl.CERT_OPTIONAL

    with FalsePostgres(MD5_PASSWORD, tls=optional) as server, pytest.raises(DefiniteError, match="the password is wrong"):
        open_wire(settings_for(server, ssl_mode="require", password=""))

    assert server.certificates == [None]


def test_no_file_is_read_where_there_is_no_tls():
    with FalsePostgres() as server:
        assert logged_in(server, ssl_mode="disable", ssl_root="/etc/no-such-file", ssl_certificate="/x", ssl_key="/y.so:z")


@pytest.mark.parametrize("host", ["127.0.0.1,127.0.0.1", "/run/postgresql", "@abstract", "", "127.0.0.1 service=x", "a\n"])
def test_a_host_is_one_host(host):
    with FalsePostgres() as server, pytest.raises(DefiniteError, match="is not a host name"):
        open_wire(settings_for(server, host=host))
    assert server.connections == 0


# -- the login --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["disable", "allow", "prefer", "require"])
def test_a_password_in_clear_is_given_to_no_server_that_is_not_verified(authority, mode):  # number 2 of the worker's safety
    tls = authority.server() if mode == "require" else None
    with (
        FalsePostgres(CLEAR_PASSWORD, tls=tls) as server,
        pytest.raises(DefiniteError, match=r"asks for the password in clear.*verify-full"),
    ):
        open_wire(settings_for(server, ssl_mode=mode))

    assert b"pass-canary" not in b"".join(server.heard)


@pytest.mark.parametrize("mode", VERIFYING)
def test_a_server_that_is_verified_gets_the_password_as_it_asks_for_it(authority, mode):
    with FalsePostgres(CLEAR_PASSWORD, tls=authority.server()) as server:
        assert logged_in(server, ssl_mode=mode, ssl_root=str(authority.path))

    assert b"pass-canary" in server.heard[1]


def test_an_md5_login_is_given_unless_scram_alone_is_wanted():
    with FalsePostgres(MD5_PASSWORD) as server:
        assert logged_in(server)
    with FalsePostgres(MD5_PASSWORD) as server, pytest.raises(DefiniteError, match=r"driver\.requireAuth=scram-sha-256"):
        open_wire(settings_for(server, login_methods="scram-sha-256"))
    assert len(server.heard) == 1


@pytest.mark.parametrize("login", [CLEAR_PASSWORD, MD5_PASSWORD])
def test_a_login_that_is_bound_to_no_channel_is_refused_where_one_is_required(authority, login):
    with FalsePostgres(login, tls=authority.server()) as server, pytest.raises(DefiniteError, match=r"driver\.channelBinding=require"):
        open_wire(settings_for(server, ssl_mode="require", channel_binding="require"))

    assert b"pass-canary" not in b"".join(server.heard)


def test_tls_may_begin_with_the_first_byte_so_that_nothing_is_asked_in_clear(authority):
    tls = authority.server()
    tls.set_alpn_protocols(["postgresql"])
    with FalsePostgres(tls=tls) as server:
        assert logged_in(server, ssl_mode="verify-full", ssl_root=str(authority.path), ssl_negotiation="direct")
    with FalsePostgres() as server, pytest.raises((DefiniteError, TransientError)):
        open_wire(settings_for(server, ssl_mode="require", ssl_negotiation="direct"))
    assert not any(b"user" in heard or b"pass-canary" in heard for heard in server.heard)
