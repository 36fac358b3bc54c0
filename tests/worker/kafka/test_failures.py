"""A client and a listener that do not fit are one sentence, seen with a real broker that has a listener of each protocol."""

import time

import pytest
from confluent_kafka import KafkaException
from cryptography import x509
from dblog.kafka.admin import admin_client
from dblog.kafka.failures import FailuresHeard, explained
from stack import Kafka
from stack.process import free_port
from support.authority import Authority
from support.servers import started

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
LOGIN = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "right-word"}
LOGIN_OF_BROKER = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_u="right-word";'


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("authority"))
    authority.server()
    return authority


@pytest.fixture(scope="module")
def ports(servers_folder, authority):
    """Of a broker's listeners, by protocol; of one more with TLS whose certificate is another host's, and of one that wants a certificate."""
    (authority.folder / "other").mkdir()
    other = Authority(authority.folder / "other")
    other.server(host=x509.DNSName("other.example"))
    names = (*PROTOCOLS, "CONTROLLER", "OTHER", "MUTUAL")
    ports = {name: free_port() for name in names}
    listeners = [f"{name}://127.0.0.1:{port}" for name, port in ports.items()]
    kinds = {name: name for name in PROTOCOLS} | {"CONTROLLER": "PLAINTEXT", "OTHER": "SSL", "MUTUAL": "SSL"}
    options = {
        "listeners": ",".join(listeners),
        "advertised.listeners": ",".join(each for each in listeners if not each.startswith("CONTROLLER")),
        "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in kinds.items()),
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{ports['CONTROLLER']}",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": authority.folder / "server.pem",
        "listener.name.other.ssl.keystore.type": "PEM",
        "listener.name.other.ssl.keystore.location": other.folder / "server.pem",
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.location": authority.path,
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": LOGIN_OF_BROKER,
        "listener.name.sasl_ssl.plain.sasl.jaas.config": LOGIN_OF_BROKER,
    }
    with started(Kafka(servers_folder / "listeners", options=options, heap="256m")):
        yield ports | {"OTHER.authority": other.path}


def heard_of(port, protocol, authority, **more):
    """The first sentence that a client gives, or an empty one where a broker answers."""
    settings = {"bootstrap.servers": f"127.0.0.1:{port}", "security.protocol": protocol, "ssl.ca.location": str(authority)}
    settings |= LOGIN if protocol.startswith("SASL") else {}
    heard = FailuresHeard()
    client = admin_client(settings | more, heard)
    until_s = time.monotonic() + 20
    while time.monotonic() < until_s:
        try:
            client.list_topics(timeout=0.2)
        except KafkaException:
            client.poll(0)
            if heard.reason() is not None:
                return heard.reason()
        else:
            return ""
    raise AssertionError("neither an answer nor a reason")


@pytest.mark.parametrize("listener", PROTOCOLS)
@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_client_at_a_listener_of_another_protocol_is_reported_with_the_one_to_set(ports, authority, client, listener):
    reason = heard_of(ports[listener], client, authority.path)

    if client == listener:
        assert reason == ""
        return
    assert f"the broker at 127.0.0.1:{ports[listener]} " in reason
    assert f"security.protocol={client}" in reason
    if client.endswith("SSL") != listener.endswith("SSL"):
        what = "a listener without TLS" if client.endswith("SSL") else "a listener with TLS"
    else:
        what = "no login at this port" if client.startswith("SASL") else "requires a login"
        assert f"set {listener}" in reason
    assert what in reason


def test_a_certificate_or_a_login_at_fault_is_reported_with_its_key(ports, authority):
    trusted = authority.path
    login = {"sasl.password": "wrong-word"}

    foreign = heard_of(ports["OTHER"], "SSL", trusted)
    other = heard_of(ports["OTHER"], "SSL", ports["OTHER.authority"])
    mutual = heard_of(ports["MUTUAL"], "SSL", trusted)
    refused = heard_of(ports["SASL_SSL"], "SASL_SSL", trusted, **login)
    mechanism = heard_of(ports["SASL_SSL"], "SASL_SSL", trusted, **{"sasl.mechanism": "SCRAM-SHA-256"})

    assert foreign == other
    assert all(word in other for word in ("for another host", "ssl.truststore.location", "by names"))
    assert "ssl.keystore.location" in mutual
    assert "refuses the login; correct sasl.jaas.config" in refused
    assert "wrong-word" not in refused
    assert mechanism.endswith("does not take this sasl.mechanism; set PLAIN")


def test_a_port_without_a_broker_is_reported_in_librdkafkas_words(authority):
    reason = heard_of(port := free_port(), "PLAINTEXT", authority.path)

    assert f"Connect to ipv4#127.0.0.1:{port} failed: Connection refused" in reason
    assert not reason.startswith(("FAIL", "["))


def test_what_a_broker_reports_itself_is_not_repeated():
    line = "sasl_ssl://b:1/bootstrap: SASL PLAIN mechanism handshake failed: Broker: Unsupported SASL mechanism: broker's supported mechanisms: {} (after 1ms in state AUTH_HANDSHAKE)"  # fmt: skip

    assert explained(line.format("PLAIN,GSSAPI")).endswith("set PLAIN,GSSAPI")
    assert explained(line.format("file-canary of somebody")).endswith("set one that its listener has")
    assert "canary" not in explained("ssl://b:1/1: SASL authentication error: canary (after 1ms in state AUTH_REQ)")


def test_a_very_long_line_is_searched_in_a_moment():
    started_s = time.process_time()

    assert explained("FAIL " + "a:1" * 20_000) is None
    assert time.process_time() - started_s < 0.5


def test_a_connection_that_was_in_use_and_ends_is_explained_only_where_nothing_was_ever_answered():
    line = "127.0.0.1:9092/1: Disconnected: connection closed by peer: receive 0 after POLLIN (after 600012ms in state UP)"
    heard = FailuresHeard()

    heard.log(6, f"FAIL [rdkafka#producer-1] [thrd:b]: {line}")

    assert explained(line) is None
    assert "set SASL_PLAINTEXT" in heard.reason()
