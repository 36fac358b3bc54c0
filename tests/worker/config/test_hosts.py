"""Which hosts connectors may name: every address of a configuration is looked at, and only what the list has is allowed."""

from itertools import product

import pytest
from dblog.config.clients import CONNECTOR_CLIENTS
from dblog.config.framework import BINARY_CONVERTER_CLASSES
from dblog.config.hosts import OPTION, check_hosts
from dblog.errors import ConfigError
from dblog.kafka.converters import converter_of

CONFIG = {
    "database.hostname": "db.example",
    "database.port": "3307",
    "dblog.dump.hostname": "replica.example",
    "schema.history.internal.kafka.bootstrap.servers": "k1.example:9092,k2.example:9092",
    "producer.override.bootstrap.servers": "[::1]:9092",
    "value.converter.schema.registry.url": "https://user:pw@registry.example/path,http://169.254.169.254",
    "key.converter.proxy.host": "proxy.example",
}


def test_without_a_list_everything_is_allowed_but_a_metadata_service():
    assert set(check_hosts(CONFIG, ())) == {"value.converter.schema.registry.url"}
    assert check_hosts({**CONFIG, "value.converter.schema.registry.url": "https://registry.example"}, ()) == {}


def test_every_address_of_a_configuration_is_looked_at():  # number 5 of the worker's safety
    refused = check_hosts(CONFIG, ("nowhere",))

    assert set(refused) == set(CONFIG) - {"database.port"}
    assert all(OPTION in text for texts in refused.values() for text in texts)
    assert "pw" not in str(refused)


HANDS_ON = dict.fromkeys(BINARY_CONVERTER_CLASSES, "delegate.converter.type") | {"io.debezium.converters.CloudEventsConverter": "avro"}


@pytest.mark.parametrize("of", ["key.converter", "value.converter"])
def test_no_converter_inside_others_leads_to_a_host_that_nobody_looked_at(of):  # number 5
    """A converter may hand records on to another one, whose registry stands below a longer key."""
    made = 0
    for depth in range(4):
        for classes in product(HANDS_ON, repeat=depth):
            config, key = {"data.serializer.type": "avro"}, of
            for each in classes:
                config |= {key: each, f"{key}.data.serializer.type": "avro"}
                key = f"{key}.{HANDS_ON[each]}"
            config |= {key: "io.confluent.connect.avro.AvroConverter", f"{key}.schema.registry.url": "http://169.254.169.254"}
            try:
                converter = converter_of({}, config, is_key=of == "key.converter", own_registry=None)
            except ConfigError:
                continue
            made += 1
            assert converter.registry is not None
            assert list(check_hosts(config, [])) == [f"{key}.schema.registry.url"], classes

    assert made >= 3, "the converter itself, and as the delegate of both kinds"


@pytest.mark.parametrize(
    ("entry", "host", "port", "allowed"),
    [
        ("db.example", "db.example", "3306", True),
        ("DB.example", "db.EXAMPLE", "3306", True),
        ("db.example:3306", "db.example", "3306", True),
        ("db.example:3306", "db.example", "3307", False),
        ("*.example", "db.example", "3306", True),
        ("*.example", "example", "3306", False),
        ("*.example", "db.example.evil", "3306", False),
        ("*.example", "evilexample", "3306", False),
        ("10.1.0.0/16", "10.1.2.3", "3306", True),
        ("10.1.0.0/16", "10.2.2.3", "3306", False),
        ("10.1.0.0/16", "10.1.2.3.example", "3306", False),
        ("fd00::/8", "fd00::7", "3306", True),
        ("127.0.0.1", "2130706433", "3306", True),
        ("2130706433", "127.1", "3306", True),
        ("db.example", "db.example.", "3306", True),
        ("*.example", "db.example.", "3306", True),
        ("10.1.0.0/16", "167838211", "3306", True),
        ("10.1.0.0/16", "::ffff:10.1.2.3", "3306", True),
        ("10.1.2.3", "::ffff:a01:203", "3306", True),
        ("fd00::1:7", "fd00::1:7", "3306", True),
        ("[fd00::1:7]:3306", "fd00::1:7", "3306", True),
        ("[fd00::1:7]:3306", "fd00::1:7", "3307", False),
        ("db.example", "ｄb.example", "3306", True),
    ],
)
def test_an_entry_is_a_host_a_suffix_or_a_network(entry, host, port, allowed):  # number 5
    assert (check_hosts({"database.hostname": host, "database.port": port}, (entry,)) == {}) is allowed


@pytest.mark.parametrize(
    ("ports", "port"),
    [
        ({"dblog.dump.port": "1", "database.port": "2"}, "1"),
        ({"database.port": "2"}, "2"),
        ({"connector.class": "PostgresConnector"}, "5432"),
        ({"connector.class": "MySqlConnector"}, "3306"),
    ],
)
def test_the_replica_that_chunks_are_read_from_is_looked_at_with_its_port(ports, port):
    config = {"dblog.dump.hostname": "replica.example", **ports}

    assert check_hosts(config, (f"replica.example:{port}",)) == {}
    assert set(check_hosts(config, ("replica.example:7",))) == {"dblog.dump.hostname"}
    assert set(check_hosts({"dblog.dump.hostname": "169.254.169.254"}, ())) == {"dblog.dump.hostname"}


SPELLINGS = (
    "169.254.169.254",
    "169.254.169.254.",
    "2852039166",
    "0xA9FEA9FE",
    "0xa9.0xfe.0xa9.0xfe",
    "0251.0376.0251.0376",
    "0251.254.43518",
    "169.16689662",
    "::ffff:169.254.169.254",
    "::FFFF:A9FE:A9FE",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "１６９．２５４。169｡254",
    "169.254.169\u00ad.254",
    "fe80::1",
    "fe80::1%eth0",
    "febf::7",
    "fd00:ec2::254",
    "FD00:0EC2:0::0254",
    "metadata.google.internal",
    "Metadata.Google.Internal.",
    "ｍetadata.google.internal",
    "169.254.0.1",
    "100.100.100.200",
)


@pytest.mark.parametrize("host", SPELLINGS)
def test_a_metadata_service_is_refused_in_every_spelling_and_under_every_key(host):  # number 5
    in_url = f"[{host}]" if ":" in host else host
    servers = ("schema.history.internal.kafka.bootstrap.servers", *(f"{prefix}bootstrap.servers" for prefix in CONNECTOR_CLIENTS))
    config = {"database.hostname": host, **dict.fromkeys(servers, f"{in_url}:80")}
    for part in ("key", "value"):
        config[f"{part}.converter.proxy.host"] = in_url
        if host.isascii():
            config[f"{part}.converter.schema.registry.url"] = f"http://ok.example, http://u:p@{in_url}:8081/x"

    for allowed in ((), ("*.internal", "*.internal.", "*.254", "0.0.0.0/0", "::/0", "*.example", "ok.example")):
        assert set(check_hosts(config, allowed)) == set(config)


@pytest.mark.parametrize("server", ["{}", "{}:9092", "PLAINTEXT://{}:9092", "plaintext://{}/path", "ok.example:9092, {}:1"])
def test_a_broker_is_read_as_the_client_reads_it(server):  # number 5
    key = "schema.history.internal.kafka.bootstrap.servers"

    assert set(check_hosts({key: server.format("169.254.169.254")}, ())) == {key}
    assert set(check_hosts({key: server.format("evil.example")}, ("ok.example", "localhost"))) == {key}
    assert check_hosts({key: server.format("broker.example")}, ("ok.example", "broker.example")) == {}
    assert set(check_hosts({key: server.format("[fe80::1]")}, ())) == {key}


@pytest.mark.parametrize(
    ("entry", "host"),
    [
        ("169.254.169.254", "2852039166"),
        ("169.254.0.0/16", "169.254.7.7"),
        ("169.254.7.7:3306", "169.254.7.7"),
        ("fe80::/64", "fe80::1"),
        ("fd00:ec2::254", "fd00:ec2::254"),
        ("metadata.google.internal", "metadata.google.internal"),
    ],
)
def test_a_list_that_names_such_an_address_allows_it(entry, host):  # number 5
    assert check_hosts({"connector.class": "MySqlConnector", "database.hostname": host}, (entry,)) == {}


@pytest.mark.parametrize(("kind", "port"), [("MySql", "3306"), ("MariaDb", "3306"), ("Postgres", "5432")])
def test_a_database_without_a_port_has_that_of_its_kind(kind, port):
    for given in ({}, {"database.port": " "}):
        config = {"connector.class": f"{kind}Connector", "database.hostname": "db.example", **given}
        assert check_hosts(config, (f"db.example:{port}",)) == {}
        assert set(check_hosts(config, ("db.example:3307",))) == {"database.hostname"}


@pytest.mark.parametrize(
    "host", ["169.254.169.254.example", "db", "metadata.example", "a.metadata.google.internal", "fd00:ec2::253", "localhost"]
)
def test_other_hosts_need_no_list(host):
    assert check_hosts({"database.hostname": host}, ()) == {}
