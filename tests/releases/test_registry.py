"""The client of registries: what breaks is sent again from where it broke, logins go nowhere else, and refusals say what to do."""

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from release.address import Address
from release.layout import Descriptor
from release.login import Login, find_login
from release.publish import with_layers_of
from release.registry import Registry
from release.signing import make_key, read_key, verify
from stack.errors import StackError

HOST = "registry.example"
PLACE = f"{HOST}/team"
CONTENT = os.urandom(40 << 20)
"""More than two pieces of an upload that broke."""
Handler = Callable[[httpx.Request], httpx.Response]


class Uploads:
    """A registry's uploads, in memory: breaks where it is told to, keeps what has arrived or forgets it."""

    def __init__(self, *, break_at: set[int], keeps: bool = True) -> None:
        self.break_at, self.keeps = break_at, keeps
        self.arrived, self.blobs = bytearray(), {}
        self.received, self.opened, self.requests = 0, 0, []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(f"{request.method} {request.url.path}")
        match request.method:
            case "HEAD":
                return httpx.Response(200 if request.url.path.rpartition("/")[2] in self.blobs else 404)
            case "POST":
                self.opened += 1
                self.arrived = bytearray()
                return httpx.Response(202, headers={"Location": f"/v2/team/dblog/blobs/uploads/{self.opened}?_state=secret"})
            case "PATCH":
                return self.take(request)
            case "GET":
                if not self.keeps or not self.arrived:
                    return httpx.Response(404)
                return httpx.Response(204, headers={"Range": f"0-{len(self.arrived) - 1}", "Location": str(request.url)})
            case "PUT":
                assert request.url.params["_state"] == "secret"
                digest = f"sha256:{hashlib.sha256(self.arrived).hexdigest()}"
                if digest != request.url.params["digest"]:
                    return httpx.Response(400, json={"errors": [{"code": "DIGEST_INVALID", "message": "not that"}]})
                self.blobs[digest] = bytes(self.arrived)
                return httpx.Response(201)
        raise AssertionError(request.method)

    def take(self, request: httpx.Request) -> httpx.Response:
        start, end = map(int, request.headers["Content-Range"].split("-"))
        assert start == len(self.arrived)
        for piece in request.stream:
            self.received += len(piece)
            if any(len(self.arrived) <= at < len(self.arrived) + len(piece) for at in self.break_at):
                self.break_at = {at for at in self.break_at if not len(self.arrived) <= at < len(self.arrived) + len(piece)}
                raise httpx.ReadError("Connection reset by peer")
            self.arrived += piece
        assert len(self.arrived) == end + 1
        return httpx.Response(202, headers={"Location": str(request.url)})


class Direct(httpx.BaseTransport):
    """Hands a request over before its body has been read, so that a handler may break in the middle."""

    def __init__(self, handler: Handler) -> None:
        self.handle_request = handler


def client(handler: Handler, *, login: Login | None = None, place: str = PLACE) -> Registry:
    waits: list[float] = []
    return Registry(Address.parse(place), login, transport=Direct(handler), wait=waits.append, log=lambda _text: None)


@pytest.fixture(scope="module")
def blob(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Descriptor]:
    file = tmp_path_factory.mktemp("blob") / "blob"
    file.write_bytes(CONTENT)
    return file, Descriptor("application/octet-stream", f"sha256:{hashlib.sha256(CONTENT).hexdigest()}", len(CONTENT))


def test_a_blob_goes_out_whole_and_once(blob):
    uploads = Uploads(break_at=set())

    with client(uploads) as registry:
        assert registry.push_blob("dblog", *blob)
        assert not registry.push_blob("dblog", *blob)

    assert uploads.blobs == {blob[1].digest: CONTENT}
    assert [each.split()[0] for each in uploads.requests] == ["HEAD", "POST", "PATCH", "PUT", "HEAD"]


def test_an_upload_that_breaks_goes_on_where_it_broke(blob):
    uploads = Uploads(break_at={10 << 20, 30 << 20})

    with client(uploads) as registry:
        registry.push_blob("dblog", *blob)

    assert uploads.blobs == {blob[1].digest: CONTENT}
    assert uploads.opened == 1
    assert uploads.received <= len(CONTENT) + (2 << 20)


def test_an_upload_that_the_registry_gave_up_begins_again(blob):
    uploads = Uploads(break_at={10 << 20}, keeps=False)

    with client(uploads) as registry:
        registry.push_blob("dblog", *blob)

    assert uploads.blobs == {blob[1].digest: CONTENT}
    assert uploads.opened == 2


def test_an_upload_that_always_breaks_ends_with_what_to_do(blob):
    def broken(request: httpx.Request) -> httpx.Response:
        if request.method == "PATCH":
            return httpx.Response(503)
        return httpx.Response(202, headers={"Location": "/v2/x"}) if request.method == "POST" else httpx.Response(404)

    with (
        client(broken) as registry,
        pytest.raises(StackError, match=r"broke 6 times: status 503. What has arrived stays; run make publish again"),
    ):
        registry.push_blob("dblog", *blob)


def answering(*answers: httpx.Response | Exception) -> Handler:
    given = iter(answers)

    def handler(_request: httpx.Request) -> httpx.Response:
        answer = next(given)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return handler


def test_what_passes_is_waited_for_as_long_as_the_registry_asks():
    waits: list[float] = []
    handler = answering(
        httpx.Response(429, headers={"Retry-After": "7"}), httpx.ConnectError("refused"), httpx.Response(503), httpx.Response(404)
    )
    with Registry(Address.parse(PLACE), None, transport=Direct(handler), wait=waits.append, log=lambda _text: None) as registry:
        assert registry.manifest("dblog", "1.4.0") is None

    assert waits == [7.0, 4.0, 8.0]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            httpx.Response(403, json={"errors": [{"code": "DENIED", "message": "no\x1b[2J"}]}),
            r"status 403 \(DENIED: no\?\[2J\). This login may not",
        ),
        (httpx.Response(413), "takes no bodies of this size"),
        (httpx.Response(405), "status 405. Run make publish again"),
    ],
)
def test_a_refusal_names_request_reason_and_remedy(answer: httpx.Response, message: str):
    with client(answering(answer)) as registry, pytest.raises(StackError, match=message) as refused:
        registry.push_manifest("dblog", "1.4.0", b"{}", "application/json")

    assert f"{HOST} refused: PUT /v2/team/dblog/manifests/1.4.0" in str(refused.value)


def test_a_certificate_that_is_not_trusted_is_not_tried_again():
    error = httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate")

    with client(answering(error)) as registry, pytest.raises(StackError, match="Name the file of its authority in SSL_CERT_FILE"):
        registry.tags("dblog")


def test_a_token_is_asked_for_with_the_login_and_the_login_goes_to_the_token_service_alone():
    seen: list[tuple[str, str]] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append((request.url.host, request.headers.get("Authorization", "")))
        if request.url.host == "auth.example":
            assert dict(request.url.params) == {"service": "r", "scope": "repository:team/dblog:pull,push"}
            return httpx.Response(200, json={"token": "of-an-hour"})
        if request.url.host == "store.example":
            return (
                httpx.Response(202, headers={"Location": "https://store.example/more"})
                if request.method == "PATCH"
                else httpx.Response(201)
            )
        if not request.headers.get("Authorization"):
            return httpx.Response(401, headers={"WWW-Authenticate": 'Bearer realm="https://auth.example/token",service="r"'})
        return (
            httpx.Response(202, headers={"Location": "https://store.example/up?sig=x"}) if request.method == "POST" else httpx.Response(404)
        )

    content = b"content"
    descriptor = Descriptor("x", f"sha256:{hashlib.sha256(content).hexdigest()}", len(content))
    with client(handler, login=Login("me", "secret")) as registry:
        registry.push_blob("dblog", Path(os.devnull), Descriptor("x", descriptor.digest, 0))

    assert {host for host, _ in seen} == {HOST, "auth.example", "store.example"}
    assert {given.split()[0] for host, given in seen if host == "auth.example"} == {"Basic"}
    assert {given for host, given in seen if host == HOST} == {"", "Bearer of-an-hour"}
    assert {given for host, given in seen if host == "store.example"} == {""}


@pytest.mark.parametrize("realm", ["http://auth.example/token", "", "ftp://auth.example"])
def test_a_login_is_not_sent_to_a_token_service_without_tls(realm: str):
    handler = answering(httpx.Response(401, headers={"WWW-Authenticate": f'Bearer realm="{realm}"'}))

    with (
        client(handler, login=Login("me", "secret")) as registry,
        pytest.raises(StackError, match="without TLS, which is refused") as refused,
    ):
        registry.tags("dblog")
    assert "secret" not in str(refused.value)


def test_an_upload_is_not_handed_over_to_an_address_without_tls(blob):
    handler = answering(httpx.Response(404), httpx.Response(202, headers={"Location": "http://store.example/up"}))

    with client(handler) as registry, pytest.raises(StackError, match="names no place by TLS"):
        registry.push_blob("dblog", *blob)


# ---- addresses and logins


@pytest.mark.parametrize(
    ("text", "url", "repository", "name"),
    [
        ("ghcr.io/example/dblog", "https://ghcr.io/v2/", "example/dblog/x", "ghcr.io/example/dblog"),
        ("oci://ghcr.io/example/", "https://ghcr.io/v2/", "example/x", "ghcr.io/example"),
        ("127.0.0.1:5000/a", "http://127.0.0.1:5000/v2/", "a/x", "127.0.0.1:5000/a"),
        ("localhost:5000", "http://localhost:5000/v2/", "x", "localhost:5000"),
        ("https://localhost:5000/a", "https://localhost:5000/v2/", "a/x", "localhost:5000/a"),
        ("docker.io/example", "https://registry-1.docker.io/v2/", "example/x", "docker.io/example"),
    ],
)
def test_an_address_is_host_and_path(text: str, url: str, repository: str, name: str):
    address = Address.parse(text)

    assert (address.url, address.repository("x"), address.name) == (url, repository, name)


@pytest.mark.parametrize(
    "text", ["", "host/UPPER", "me:secret@host/path", "host/a b", "host//a", "host/a/../b", "ftp://host/a", "host/$(id)"]
)
def test_an_address_that_is_none_is_refused_without_its_login(text: str):
    with pytest.raises(StackError, match="it has to be host/path") as refused:
        Address.parse(text)

    assert "secret" not in str(refused.value)


def test_a_connection_without_tls_is_for_the_loopback_interface_alone():
    with pytest.raises(StackError, match="whoever sees the network would get the login"):
        Address.parse("http://registry.example/a")


def settings(folder: Path, document: object) -> dict[str, str]:
    (folder / ".docker").mkdir(exist_ok=True)
    (folder / ".docker" / "config.json").write_text(document if isinstance(document, str) else json.dumps(document))
    return {"HOME": str(folder)}


def test_a_login_comes_from_variables_then_from_docker_s_file(tmp_path: Path):
    of_docker = settings(tmp_path, {"auths": {HOST: {"auth": "bWU6b2Y6ZG9ja2Vy"}, "https://index.docker.io/v1/": {"auth": "aHViOng="}}})
    (tmp_path / "password").write_text("of a file\n")

    assert find_login(HOST, of_docker) == Login("me", "of:docker")
    assert find_login("docker.io", of_docker) == Login("hub", "x")
    assert find_login("other.example", of_docker) is None
    assert find_login(HOST, {"HOME": str(tmp_path / "none")}) is None
    assert find_login(HOST, {**of_docker, "DBLOG_REGISTRY_USER": "ci", "DBLOG_REGISTRY_PASSWORD": "p"}) == Login("ci", "p")
    from_file = {"DBLOG_REGISTRY_USER": "ci", "DBLOG_REGISTRY_PASSWORD_FILE": str(tmp_path / "password")}
    assert find_login(HOST, from_file) == Login("ci", "of a file")


@pytest.mark.parametrize(
    "document",
    [
        "{",
        {"auths": {HOST: {"auth": "!secret!"}}},
        {"auths": {HOST: {"auth": "c2VjcmV0"}}},
        {"auths": {HOST: {"auth": "eDp5", "identitytoken": "secret"}}},
    ],
)
def test_a_login_that_cannot_be_used_is_told_with_the_ways_to_give_one_and_without_it(tmp_path: Path, document):
    with pytest.raises(StackError, match=re.escape("Log in: docker login, or DBLOG_REGISTRY_USER")) as refused:
        find_login(HOST, settings(tmp_path, document))

    assert "secret" not in str(refused.value)


def test_docker_s_helper_is_asked_where_it_keeps_the_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    helper = tmp_path / "docker-credential-vault"
    helper.write_text('#!/bin/sh\nread host\necho "{\\"Username\\": \\"me\\", \\"Secret\\": \\"for $host\\"}"\n')
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    assert find_login(HOST, settings(tmp_path, {"credHelpers": {HOST: "vault"}})) == Login("me", f"for {HOST}")
    assert find_login(HOST, settings(tmp_path, {"credsStore": "vault", "auths": {HOST: {}}})) == Login("me", f"for {HOST}")


# ---- keys


def test_a_new_key_is_readable_by_its_owner_alone_and_replaces_none(tmp_path: Path):
    public = make_key(tmp_path / "dblog.key")

    assert stat.S_IMODE((tmp_path / "dblog.key").stat().st_mode) == 0o600
    assert verify(public.read_bytes(), b"content", read_key(tmp_path / "dblog.key").sign(b"content"))
    with pytest.raises(StackError, match="no key is replaced"):
        make_key(tmp_path / "dblog.key")


def test_an_encrypted_key_needs_its_password_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DBLOG_SIGNING_PASSWORD", "right")
    make_key(tmp_path / "dblog.key")
    assert b"ENCRYPTED" in (tmp_path / "dblog.key").read_bytes()
    assert read_key(tmp_path / "dblog.key").public_pem == (tmp_path / "dblog.pub").read_bytes()

    monkeypatch.setenv("DBLOG_SIGNING_PASSWORD", "wrong")
    with pytest.raises(StackError, match="the password in DBLOG_SIGNING_PASSWORD is wrong"):
        read_key(tmp_path / "dblog.key")
    monkeypatch.delenv("DBLOG_SIGNING_PASSWORD")
    with pytest.raises(StackError, match="is encrypted. Give its password in the variable DBLOG_SIGNING_PASSWORD"):
        read_key(tmp_path / "dblog.key")


@pytest.mark.parametrize(
    ("pem", "message"),
    [
        ("-----BEGIN ENCRYPTED SIGSTORE" + " PRIVATE KEY-----\n", "encrypted in cosign's own way"),
        ("text", "is no private key in PEM. Make one: python -m release key NAME.key"),
    ],
)
def test_another_file_is_no_signing_key(tmp_path: Path, pem: str, message: str):
    (tmp_path / "file").write_text(pem)

    with pytest.raises(StackError, match=message):
        read_key(tmp_path / "file")
    with pytest.raises(StackError, match="cannot be read: No such file"):
        read_key(tmp_path / "none")


def test_a_signature_by_another_key_or_of_other_content_is_refused(tmp_path: Path):
    public = make_key(tmp_path / "a.key").read_bytes()
    make_key(tmp_path / "b.key")
    signed = read_key(tmp_path / "a.key").sign(b"content")

    assert verify(public, b"content", signed)
    assert not verify(public, b"contents", signed)
    assert not verify(public, b"content", read_key(tmp_path / "b.key").sign(b"content"))
    assert not verify(public, b"content", "not base64")
    assert not verify(b"not a key", b"content", signed)


def test_layers_that_a_registry_has_beside_ours_are_kept_in_their_order():
    ours = json.dumps({"config": "ours", "layers": [{"digest": "b"}, {"digest": "c"}]}).encode()
    theirs = json.dumps({"config": "theirs", "layers": [{"digest": "a"}, {"digest": "b"}]}).encode()

    assert json.loads(with_layers_of(ours, theirs)) == {"config": "theirs", "layers": [{"digest": "a"}, {"digest": "b"}, {"digest": "c"}]}
    assert with_layers_of(ours, ours) == ours
