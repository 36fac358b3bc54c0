"""A worker whose certificate an authority of one's own has signed: the commands that ask it take the authority, and name what is not trusted."""

import io
import json
from uuid import uuid4

import fastavro
import pytest
from confluent_kafka import Producer
from cryptography import x509
from dblog.cli import app
from dblog.errors import DefiniteError, TransientError
from dblog.kafka.registry import RegistryAccess, RegistryClient
from dblog.tail import brokers_of
from dblog.trust import trusting
from support.authority import DAY, NOW, Authority
from support.registry_server import RegistryServer
from support.worker import Worker
from typer.testing import CliRunner

SCHEMA = '{"type": "record", "name": "Value", "fields": [{"name": "n", "type": "long"}]}'


@pytest.fixture(scope="module")
def signed(kafka, servers_folder):
    """A worker with TLS, its authority, and a topic with a record of a schema in its registry."""
    folder = servers_folder / "signed"
    folder.mkdir()
    authority = Authority(folder)
    certificate, key = authority.identity("the worker")
    (folder / "keystore.pem").write_bytes(key + certificate)
    settings = {"listeners.https.ssl.keystore.location": f"{folder}/keystore.pem"}
    with Worker(kafka, folder, "signed", tls=trusting(authority.path), **settings) as worker:
        schema_id = worker.client.post("/subjects/t/versions", json={"schema": SCHEMA}).raise_for_status().json()["id"]
        value = io.BytesIO()
        fastavro.schemaless_writer(value, json.loads(SCHEMA), {"n": 7})
        topic = f"t{uuid4().hex[:8]}"
        producer = Producer({"bootstrap.servers": kafka.bootstrap})
        producer.produce(topic, value=b"\0" + schema_id.to_bytes(4, "big") + value.getvalue())
        producer.flush()
        yield worker, authority, topic


@pytest.fixture
def run(signed, kafka):
    """Runs a command against the worker: exit status, output, errors."""
    worker, _, topic = signed
    words = {
        "check": ["connectors", "check", "--url", worker.url],
        "explain": ["ddl", "explain", "--connector", "nobody", "--url", worker.url, "DROP TABLE t"],
        "tail": ["tail", topic, "--bootstrap", kafka.bootstrap, "--registry", worker.url],
    }

    def run(command, *more):
        done = CliRunner().invoke(app, [*words[command], *map(str, more)])
        return done.exit_code, done.stdout, done.stderr

    return run


REACHED = {"check": "configurations are validated", "explain": "Connector nobody not found", "tail": '"value": {"n": 7}'}


@pytest.mark.parametrize("command", REACHED)
def test_a_command_reaches_a_worker_by_the_authority_that_it_is_given_or_by_that_of_the_environment(signed, run, monkeypatch, command):
    _, authority, _ = signed

    _, said, wrong = run(command, "--ca", authority.path)
    assert REACHED[command] in said + wrong
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    _, said, wrong = run(command)
    assert REACHED[command] in said + wrong


@pytest.mark.parametrize("command", REACHED)
def test_a_command_says_that_the_certificate_is_not_trusted_and_not_that_nobody_answers(signed, run, tmp_path, command):
    worker, _, _ = signed

    status, said, wrong = run(command)

    assert (status, said) == (1, "")
    what = "registry" if command == "tail" else "worker"
    assert f"the certificate of the {what} at {worker.url} is not trusted: unable to get local issuer certificate; " in wrong
    assert wrong.endswith("name the authorities that signed it with --ca\n")
    assert "answers" not in wrong
    (tmp_path / "empty.pem").write_text("")
    status, _, wrong = run(command, "--ca", tmp_path / "empty.pem")
    assert (status, "empty.pem cannot be used" in wrong) == (1, True)


def test_a_converter_trusts_what_the_machine_of_the_worker_does_and_names_what_it_does_not(signed, monkeypatch):
    worker, authority, _ = signed
    access = RegistryAccess(urls=(worker.url,))

    with pytest.raises(TransientError, match="its certificate is not trusted: unable to get local issuer certificate"):
        RegistryClient(access).latest("t")
    with pytest.raises(TransientError, match="its certificate is not trusted"):
        RegistryClient(access).ask_whether_there(limit_s=30)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    assert json.loads(RegistryClient(access).latest("t")[1])["name"] == "Value"


@pytest.mark.parametrize(
    ("fault", "reason", "remedy"),
    [
        ({"host": x509.DNSName("elsewhere.example")}, "IP address mismatch", "name it by an address that its certificate is for"),
        ({"until": NOW - DAY / 2}, "certificate has expired", "renew it, or set the clock right"),
    ],
)
def test_the_remedy_fits_what_is_wrong_with_the_certificate(tmp_path, fault, reason, remedy):
    authority = Authority(tmp_path)
    with RegistryServer(tls=authority.server(**fault)) as server:
        url = server.url
        done = CliRunner().invoke(app, ["connectors", "check", "--url", url, "--ca", str(authority.path)])

    assert done.exit_code == 1
    assert f"the certificate of the worker at {url} is not trusted: {reason}" in done.stderr
    assert done.stderr.endswith(f"; {remedy}\n")


@pytest.fixture
def worker_file(kafka, tmp_path):
    """Writes a worker's file of this Kafka, with these keys beside."""

    def written(**more):
        keys = {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "g",
            **{f"{kind}.converter": "org.apache.kafka.connect.json.JsonConverter" for kind in ("key", "value")},
            **{f"{kind}.storage.topic": f"the-{kind}" for kind in ("config", "offset", "status")},
            **{name.replace("_", "."): text for name, text in more.items()},
        }
        file = tmp_path / "worker.properties"
        file.write_text("".join(f"{name}={text}\n" for name, text in keys.items()))
        return file

    return written


def test_a_topic_is_read_with_the_brokers_of_a_workers_file(signed):
    worker, authority, topic = signed

    words = ["tail", topic, "--registry", worker.url, "--ca", str(authority.path), "--worker", str(worker.write_properties())]
    done = CliRunner().invoke(app, words)

    assert (done.exit_code, json.loads(done.stdout)["value"]) == (0, {"n": 7}), done.stderr


def test_the_login_and_tls_of_a_workers_file_are_those_of_its_consumers_and_an_address_goes_before(worker_file, tmp_path):
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="canary-sings";'
    file = worker_file(security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=jaas)

    found = brokers_of("broker.example:9093", file)

    assert found["bootstrap.servers"] == "broker.example:9093"
    assert (found["security.protocol"].upper(), found["sasl.username"], found["sasl.password"]) == ("SASL_SSL", "ann", "canary-sings")
    assert brokers_of(None, None) == {"bootstrap.servers": "localhost:9092"}


def test_a_workers_file_that_cannot_be_used_is_a_sentence(worker_file, tmp_path):
    missing = CliRunner().invoke(app, ["tail", "t", "--worker", str(tmp_path / "none")])
    not_one = CliRunner().invoke(app, ["tail", "t", "--worker", str(worker_file(listeners="nowhere"))])
    file = worker_file(security_protocol="SSL", ssl_truststore_type="PEM", ssl_truststore_location=f"{tmp_path}/no-authorities.pem")
    without_authorities = CliRunner().invoke(app, ["tail", "t", "--worker", str(file)])

    for done, named in (
        (missing, "none"),
        (not_one, "worker.properties is not a worker's file that could be used: listeners"),
        (without_authorities, "the settings of the worker's file (Failed to create consumer: ssl.ca.location failed"),
    ):
        assert (done.exit_code, done.stdout) == (1, "")
        assert isinstance(done.exception, SystemExit)
        assert named in done.stderr


def test_authorities_that_are_none_are_named(tmp_path):
    with pytest.raises(DefiniteError, match=r"nowhere\.pem cannot be used \(FileNotFoundError\); name a file in PEM with --ca"):
        trusting(tmp_path / "nowhere.pem")
