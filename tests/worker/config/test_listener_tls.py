"""TLS of the worker's listeners: which clients and servers come together, what a file at fault is answered, and what a renewed certificate changes."""

import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID
from dblog.config.listener_tls import ListenerTls, ServerContext
from dblog.config.listeners import ADMIN_PREFIX
from dblog.errors import ConfigError
from structlog.testing import capture_logs
from support.authority import DAY, NOW, Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def keystore(authority, name="the worker", **at_fault):
    """The keys of a PEM keystore with a certificate of that name."""
    certificate, key = authority.identity(name, **at_fault)
    file = authority.folder / "keystore.pem"
    file.write_bytes(key + certificate)
    return {"listeners.https.ssl.keystore.location": str(file), "listeners.https.ssl.keystore.type": "PEM"}


def context_of(properties):
    return ServerContext(ListenerTls.of(properties))


def client(authority, *, identity=None):
    context = ssl.create_default_context(cafile=authority.path)
    if identity is not None:
        file = authority.folder / "client.pem"
        file.write_bytes(identity[1] + identity[0])
        context.load_cert_chain(file)
    return context


def shaken(server, client_side):
    """Both sides of a connection after the handshake, over memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client_side.wrap_bio(to_client, to_server, server_hostname="127.0.0.1"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    waiting = list(sides)
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)
    assert not waiting
    return sides


def name_of(peer):
    return dict(part[0] for part in peer.getpeercert()["subject"])["commonName"]


def as_pem(authority, properties):
    return properties


def as_two_files(authority, _):
    certificate, key = authority.identity("the worker", password="open")
    (authority.folder / "tls.crt").write_bytes(certificate)
    (authority.folder / "tls.key").write_bytes(key)
    return {
        "listeners.https.ssl.certificate.location": f"{authority.folder}/tls.crt",
        "listeners.https.ssl.key.location": f"{authority.folder}/tls.key",
        "listeners.https.ssl.key.password": "open",
    }


def as_pkcs12(authority, _):
    certificate, key = authority.identity("the worker")
    file = authority.folder / "keystore.p12"
    loaded = load_pem_private_key(key, None), x509.load_pem_x509_certificate(certificate)
    file.write_bytes(pkcs12.serialize_key_and_certificates(b"w", *loaded, None, BestAvailableEncryption(b"changeit")))
    # A JVM's default type is JKS, and it reads PKCS12 under that name too.
    return {"ssl.keystore.location": str(file), "ssl.keystore.password": "changeit", "ssl.keystore.type": "JKS"}


@pytest.mark.parametrize("written", [as_pem, as_two_files, as_pkcs12])
def test_a_certificate_is_read_however_it_is_kept(authority, written):
    at_client, at_server = shaken(context_of(written(authority, keystore(authority))), client(authority))

    assert name_of(at_client) == "the worker"
    assert at_server.version() == "TLSv1.3"


def test_the_keys_of_the_listeners_count_alone_if_there_is_any_of_them(authority):
    own = keystore(authority)
    shared = {"ssl.keystore.location": "/nowhere", "ssl.client.auth": "required"}

    assert ListenerTls.of(shared | own).files() == {"listeners.https.ssl.keystore.location": own["listeners.https.ssl.keystore.location"]}
    assert not ListenerTls.of(shared | own).requires_certificates
    assert ListenerTls.of(shared).files() == {"ssl.keystore.location": "/nowhere"}
    assert ListenerTls.of(own | shared, ADMIN_PREFIX).requires_certificates


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_a_client_that_knows_only_old_versions_of_tls_is_refused(authority, version):
    old = client(authority)
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, version
    old.set_ciphers("ALL:@SECLEVEL=0")

    with pytest.raises(ssl.SSLError):
        shaken(context_of(keystore(authority)), old)


def test_versions_may_be_fewer(authority):
    newest = context_of(keystore(authority) | {"listeners.https.ssl.enabled.protocols": "TLSv1.3"})
    former = client(authority)
    former.maximum_version = ssl.TLSVersion.TLSv1_2

    with pytest.raises(ssl.SSLError):
        shaken(newest, former)
    assert shaken(context_of(keystore(authority)), former)[1].version() == "TLSv1.2"


def suites(authority, listed, **more):
    """A server's context with that list of suites, and its warnings of suites."""
    own = {"listeners.https.ssl.cipher.suites": listed} | {f"listeners.https.{name.replace('_', '.')}": text for name, text in more.items()}
    with capture_logs() as lines:
        context = context_of(keystore(authority) | own)
    return context, [line for line in lines if "suites" in line]


@pytest.mark.parametrize("listed", ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"])
def test_a_suite_of_tls_1_2_is_the_only_one_there_by_javas_name_and_by_openssls(authority, listed):
    context, _ = suites(authority, listed)
    former = client(authority)
    former.maximum_version = ssl.TLSVersion.TLSv1_2

    assert shaken(context, former)[1].cipher()[0] == "ECDHE-ECDSA-AES128-GCM-SHA256"
    former.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
    with pytest.raises(ssl.SSLError):
        shaken(context, former)


def test_a_list_of_suites_of_tls_1_3_alone_keeps_to_tls_1_3(authority):
    context, _ = suites(authority, "TLS_AES_256_GCM_SHA384")
    former = client(authority)
    former.maximum_version = ssl.TLSVersion.TLSv1_2

    assert shaken(context, client(authority))[1].version() == "TLSv1.3"
    with pytest.raises(ssl.SSLError):
        shaken(context, former)


def test_suites_that_are_spoken_beside_the_list_are_named_once(authority):
    context, lines = suites(authority, "TLS_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384")
    with capture_logs() as later:
        context.refresh()

    assert [line["suites"] for line in lines] == ["TLS_AES_128_GCM_SHA256, TLS_CHACHA20_POLY1305_SHA256"]
    assert later == []
    assert suites(authority, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", ssl_enabled_protocols="TLSv1.2")[1] == []
    assert suites(authority, "TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256,TLS_CHACHA20_POLY1305_SHA256")[1] == []


CLIENTS = {"purpose": ExtendedKeyUsageOID.CLIENT_AUTH}


@pytest.mark.parametrize("asked", ["required", "requested"])
def test_a_client_with_a_certificate_of_the_authority_comes_in_and_is_known_by_it(authority, asked):
    own = keystore(authority) | {"listeners.https.ssl.client.auth": asked, "listeners.https.ssl.truststore.location": str(authority.path)}

    _, at_server = shaken(context_of(own), client(authority, identity=authority.identity("ann", **CLIENTS)))

    assert name_of(at_server) == "ann"


@pytest.mark.parametrize("asked", ["required", "requested"])
@pytest.mark.parametrize(
    "at_fault",
    [
        {**CLIENTS, "until": NOW - DAY / 2},
        {**CLIENTS, "since": NOW + DAY / 2},
        {**CLIENTS, "self_signed": True},
        {"purpose": ExtendedKeyUsageOID.SERVER_AUTH},
    ],
    ids=["expired", "not yet", "self-signed", "a server's"],
)
def test_a_client_with_a_certificate_at_fault_does_not_come_in(authority, asked, at_fault):  # number 21 of the worker's safety
    own = keystore(authority) | {"listeners.https.ssl.client.auth": asked, "listeners.https.ssl.truststore.location": str(authority.path)}

    with pytest.raises(ssl.SSLError):
        shaken(context_of(own), client(authority, identity=authority.identity("ann", **at_fault)))


def test_a_client_without_a_certificate_comes_in_unless_one_is_required(authority):
    own = keystore(authority) | {"listeners.https.ssl.truststore.location": str(authority.path)}

    for asked in ("none", "requested", ""):
        assert shaken(context_of(own | {"listeners.https.ssl.client.auth": asked}), client(authority))[1].getpeercert() in ({}, None)
    with pytest.raises(ssl.SSLError):
        shaken(context_of(own | {"listeners.https.ssl.client.auth": "required"}), client(authority))


@pytest.mark.parametrize(
    ("change", "key", "reason"),
    [
        ({"ssl.keystore.location": None}, "ssl.keystore.location", "is missing, and a listener with https needs a certificate"),
        ({"ssl.keystore.location": "/nowhere"}, "ssl.keystore.location", "cannot be used"),
        ({"ssl.keystore.location": "JKS"}, "ssl.keystore.location", "keytool -importkeystore"),
        ({"ssl.keystore.location": "HALF"}, "ssl.keystore.location", "does not fit its certificate"),
        ({"ssl.client.auth": "required"}, "ssl.truststore.location", "is missing"),
        ({"ssl.client.auth": "yes"}, "ssl.client.auth", "none, requested, required"),
        ({"ssl.client.atuh": "required"}, "ssl.client.atuh", "is not a key of a listener"),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.3"}, "ssl.enabled.protocols", "older ones are not safe"),
        ({"ssl.cipher.suites": "NONE_SUCH"}, "ssl.cipher.suites", "names no cipher suite"),
        (
            {"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384", "ssl.enabled.protocols": "TLSv1.2"},
            "ssl.cipher.suites",
            "of TLS 1.3 alone, which listeners.https.ssl.enabled.protocols leaves out",
        ),
        ({"ssl.certificate.location": "HALF"}, "ssl.key.location", "is missing"),
    ],
)
def test_what_cannot_be_served_is_refused_by_its_key(authority, change, key, reason):
    (authority.folder / "jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    (authority.folder / "half").write_bytes(authority.identity()[0])
    files = {"JKS": str(authority.folder / "jks"), "HALF": str(authority.folder / "half")}
    properties = keystore(authority)
    for name, text in change.items():
        properties[f"listeners.https.{name}"] = files.get(text, text)
    properties = {name: text for name, text in properties.items() if text is not None}

    with pytest.raises(ConfigError) as caught:
        context_of(properties)

    assert list(caught.value.errors) == [f"listeners.https.{key}"]
    assert reason in caught.value.errors[f"listeners.https.{key}"][0]


def test_a_renewed_certificate_is_used_for_the_next_connection_and_the_open_one_stays(authority):
    context = context_of(keystore(authority, until=NOW + DAY))
    first_end = context.certificate.expires_s
    open_client, open_server = shaken(context, client(authority))

    keystore(authority, name="the worker, renewed", until=NOW + 90 * DAY)
    context.refresh()

    assert name_of(shaken(context, client(authority))[0]) == "the worker, renewed"
    assert context.certificate.expires_s == first_end + 89 * DAY.total_seconds()
    assert context.certificate.subject == "CN=the worker\\, renewed"
    open_client.write(b"still here")
    assert open_server.read() == b"still here"


def test_a_link_that_is_laid_to_new_files_is_followed(authority, tmp_path):
    """As Kubernetes renews a secret."""
    for generation in ("one", "two"):
        keystore(authority, name=generation)
        (tmp_path / generation).mkdir()
        (tmp_path / "keystore.pem").rename(tmp_path / generation / "keystore.pem")
    (tmp_path / "data").symlink_to("one")
    context = context_of({"listeners.https.ssl.keystore.location": f"{tmp_path}/data/keystore.pem"})

    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").rename(tmp_path / "data")
    context.refresh()

    assert name_of(shaken(context, client(authority))[0]) == "two"


def test_a_renewed_certificate_that_cannot_be_used_is_reported_once_and_the_former_one_stays(authority):
    properties = keystore(authority)
    context = context_of(properties)
    file = Path(properties["listeners.https.ssl.keystore.location"])

    with capture_logs() as lines:
        file.write_bytes(file.read_bytes()[:-200])
        for _ in range(3):
            context.refresh()
        assert name_of(shaken(context, client(authority))[0]) == "the worker"
        keystore(authority, name="mended", until=NOW + 90 * DAY)
        context.refresh()

    assert [line["log_level"] for line in lines] == ["error", "info"]
    assert "listeners.https.ssl.keystore.location" in lines[0]["reason"]
    assert name_of(shaken(context, client(authority))[0]) == "mended"


def test_a_certificate_that_ends_soon_is_warned_of(authority):
    for until, event in ((NOW + 3 * DAY, "ends soon"), (NOW - DAY / 2, "has ended")):
        with capture_logs() as lines:
            context_of(keystore(authority, until=until))
        assert [event in line["event"] for line in lines] == [True]
