"""By which names a listener may be called: where no login is asked for, by none that a stranger can point at it."""

import pytest
from dblog.config.login import Logins
from dblog.config.worker import read_worker_config
from dblog.rest.connections import PEER
from dblog.rest.hosts import Hosts, cluster_suffixes
from dblog.rest.identity import Identity

PROPERTIES = {
    "bootstrap.servers": "a:1",
    "group.id": "g",
    "key.converter": "JsonConverter",
    "value.converter": "JsonConverter",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
}


def settings(**changes):
    return read_worker_config(PROPERTIES | {name.replace("_", "."): text for name, text in changes.items()}).settings


OURS = (
    "127.0.0.1:8083", "10.0.0.7:8083", "[::1]:8083", "[fd00::7]", "localhost:8083", "localhost.", "worker.localhost:8083", "connect:8083",
    "laptop.local:8083", "connect.internal", "connect.kafka.svc:8083", "connect.kafka-1.svc.cluster.local:8083", "connect.kafka-1:8083", "", "me.example:8083",
)  # fmt: skip
FOREIGN = (
    "evil.example:8083", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8083", "evil.svc.example", "evil.kafka-1.example", "a.b.kafka-1",
    "me.example.evil.example", "8083", "1.2.3.4.5",
)  # fmt: skip


def takes(host, *, client="127.0.0.1", identity=None, listed=(), peer=None):
    hosts = Hosts(
        listed, own=("Me.example",), identity=identity or Identity(settings()), namespaces=(".kafka-1", ".kafka-1.svc.cluster.local")
    )
    scope = {"type": "http", "client": (client, 5), "server": ("10.0.0.1", 8083), "headers": [], "state": {PEER: peer} if peer else {}}
    return hosts.takes(scope, host)


@pytest.mark.parametrize("host", OURS)
def test_without_a_login_addresses_and_private_names_are_taken(host):
    assert takes(host)


@pytest.mark.parametrize("host", [host for host in FOREIGN if "." in host])
def test_without_a_login_a_name_that_a_stranger_can_own_is_refused_to_whoever_may_change_something(host):  # number 6 of the worker's safety
    assert not takes(host)
    assert not takes(host, client="10.0.0.7", identity=Identity(settings(dblog_rest_without_login="all")))
    assert takes(host, client="10.0.0.7"), "from another machine, where it only reads"


def test_with_a_login_or_a_certificate_every_name_is_taken():
    assert takes("evil.example", identity=Identity(settings(), logins=Logins({"ann": "s3cret"})))
    assert takes("evil.example", peer="ann")


def test_a_list_counts_for_everybody():
    for identity in (Identity(settings()), Identity(settings(), logins=Logins({"ann": "s3cret"}))):
        assert takes("worker.example:8083", identity=identity, listed=("Worker.example",))
        assert takes("me.example:8083", identity=identity, listed=("worker.example",)), "the worker's own name"
        assert not takes("127.0.0.1:8083", identity=identity, listed=("worker.example",))


def test_a_service_of_the_cluster_is_called_by_its_namespace(tmp_path):
    resolver = tmp_path / "resolv.conf"
    resolver.write_text("nameserver 10.96.0.10\nsearch kafka-1.svc.cluster.local svc.cluster.local cluster.local corp.example\n")

    assert cluster_suffixes({"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, resolver) == (".kafka-1.svc.cluster.local", ".kafka-1")
    assert cluster_suffixes({}, resolver) == ()
    assert cluster_suffixes({"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, tmp_path / "none") == ()


@pytest.mark.parametrize("namespace", ["dev", "app", "cloud", "kafka", "xn--p1ai"])
def test_a_namespace_that_is_called_as_a_public_domain_may_be_makes_no_stranger_s_name_a_service(namespace, tmp_path):  # number 6
    resolver = tmp_path / "resolv.conf"
    resolver.write_text(f"search {namespace}.svc.cluster.local svc.cluster.local cluster.local\n")
    suffixes = cluster_suffixes({"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, resolver)
    hosts = Hosts((), own=(), identity=Identity(settings()), namespaces=suffixes)
    scope = {"type": "http", "client": ("127.0.0.1", 5), "server": ("127.0.0.1", 8083), "headers": [], "state": {}}

    assert not hosts.takes(scope, f"evil.{namespace}:8083"), "whoever owns it may point it at a port-forward to the worker"
    assert hosts.takes(scope, f"connect.{namespace}.svc:8083")
    assert hosts.takes(scope, f"connect.{namespace}.svc.cluster.local:8083")
