"""When the certificates end that the worker's file and the connectors name."""

import datetime as dt
from types import SimpleNamespace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, pkcs12
from cryptography.x509.oid import NameOID
from dblog.cluster.certificates import BUNDLE_MIN, LOOKED_AGAIN_S, Certificates
from dblog.config.providers import FileProvider

NOW = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
KEY = ec.generate_private_key(ec.SECP256R1())


class HeldClock:
    at_s = 0.0

    def monotonic_s(self):
        return self.at_s

    def now_us(self):
        return 0


def certificate(days):
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{days} days")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(KEY.public_key()).serial_number(days + 1)
    return made.not_valid_before(NOW - dt.timedelta(days=1)).not_valid_after(NOW + dt.timedelta(days=days)).sign(KEY, hashes.SHA256())


def pem(*days):
    return b"".join(certificate(each).public_bytes(Encoding.PEM) for each in days)


def ends(found):
    return {(c.use, c.connector, c.name): round((c.ends_s - NOW.timestamp()) / 86_400) for c in found}


def certificates_of(properties, clock, providers=None):
    """Return the certificates that these properties name, by connector; the worker's have an empty name."""
    return Certificates({}, SimpleNamespace(configurations=lambda: properties), clock, providers=providers or {})


@pytest.fixture
def clock():
    return HeldClock()


def test_the_first_end_of_each_file_is_found_by_whoever_names_it(tmp_path, clock):
    for name, data in (("ca.pem", pem(30, 9)), ("client.pem", pem(5))):
        (tmp_path / name).write_bytes(data)
    (tmp_path / "store.p12").write_bytes(
        pkcs12.serialize_key_and_certificates(b"me", KEY, certificate(3), None, BestAvailableEncryption(b"pw"))
    )
    properties = {
        "": {
            "ssl.truststore.location": str(tmp_path / "ca.pem"),
            "listeners.https.ssl.keystore.location": str(tmp_path / "client.pem"),
            "key.converter.schema.registry.ssl.truststore.location": str(tmp_path / "ca.pem"),
            "ssl.keystore.certificate.chain": pem(7).decode(),
        },
        "shop": {"database.ssl.keystore": str(tmp_path / "store.p12"), "database.ssl.keystore.password": "pw"},
        "bank": {"database.sslcert": str(tmp_path / "client.pem"), "database.sslrootcert": str(tmp_path / "ca.pem")},
    }

    assert ends(certificates_of(properties, clock).all()) == {
        ("kafka", "", "ca.pem"): 9,
        ("listener", "", "client.pem"): 5,
        ("registry", "", "ca.pem"): 9,
        ("kafka", "", "ssl.keystore.certificate.chain"): 7,
        ("database", "shop", "store.p12"): 3,
        ("database", "bank", "client.pem"): 5,
        ("database", "bank", "ca.pem"): 9,
    }


def test_a_file_that_cannot_be_read_and_a_bundle_of_authorities_are_left_out(tmp_path, clock):
    (tmp_path / "bundle.pem").write_bytes(pem(*range(BUNDLE_MIN)))
    (tmp_path / "text").write_text("no certificate")
    (tmp_path / "locked.p12").write_bytes(
        pkcs12.serialize_key_and_certificates(b"me", KEY, certificate(3), None, BestAvailableEncryption(b"pw"))
    )
    names = {"a": "missing.pem", "b": "bundle.pem", "c": "text", "d": "locked.p12"}
    properties = {connector: {"database.ssl.truststore": str(tmp_path / name)} for connector, name in names.items()}

    assert certificates_of(properties, clock).all() == []


def test_placeholders_are_resolved_and_nothing_that_they_stand_for_is_shown(tmp_path, clock):
    store = pkcs12.serialize_key_and_certificates(b"me", KEY, certificate(3), None, BestAvailableEncryption(b"pw"))
    (tmp_path / "store.p12").write_bytes(store)
    (tmp_path / "secret.properties").write_text(f"password=pw\nstore={tmp_path}/store.p12\n")
    providers = {"file": FileProvider((tmp_path,))}
    of = f"${{file:{tmp_path}/secret.properties:"
    properties = {
        "": {"ssl.keystore.location": f"{of}store}}", "ssl.keystore.password": f"{of}password}}"},
        "a": {"database.ssl.keystore": f"{tmp_path}/store.p12", "database.ssl.keystore.password": f"{of}password}}"},
        "b": {"database.ssl.keystore": f"{of}store}}", "database.ssl.keystore.password": "pw"},
        "c": {"database.ssl.keystore": f"{of}nothing}}", "database.ssl.keystore.password": "pw"},
    }

    found = certificates_of(properties, clock, providers).all()

    assert ends(found) == {("database", "a", "store.p12"): 3, ("database", "b", "database.ssl.keystore"): 3}


def test_what_two_keys_or_two_folders_have_by_one_name_is_one_number_the_first_end(tmp_path, clock):
    for folder, days in (("a", 90), ("b", 4)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "ca.crt").write_bytes(pem(days))
    converters = {f"{each}.converter.schema.registry.ssl.truststore.location": f"{tmp_path}/a/ca.crt" for each in ("key", "value")}
    clients = {"ssl.ca.location": f"{tmp_path}/a/ca.crt", "consumer.ssl.ca.location": f"{tmp_path}/b/ca.crt"}

    found = certificates_of({"": {**converters, **clients}}, clock).all()

    assert ends(found) == {("registry", "", "ca.crt"): 90, ("kafka", "", "ca.crt"): 4}
    assert len(found) == 2


def test_a_renewed_certificate_is_seen_after_a_while_and_a_connector_that_is_gone_is_forgotten(tmp_path, clock):
    file = tmp_path / "ca.pem"
    file.write_bytes(pem(1))
    properties = {"": {"ssl.ca.location": str(file)}}
    certificates = certificates_of(properties, clock)
    before = ends(certificates.all())
    file.write_bytes(pem(90))
    held = ends(certificates.all())
    clock.at_s += LOOKED_AGAIN_S + 1
    renewed = ends(certificates.all())
    properties.clear()

    assert [list(found.values()) for found in (before, held, renewed)] == [[1], [1], [90]]
    assert certificates.all() == []
