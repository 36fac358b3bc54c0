"""Which hosts connectors may name: every address of a configuration is looked at, and only what the list has is allowed."""

import pytest
from dblog.config.hosts import OPTION, check_hosts

CONFIG = {
    "database.hostname": "db.example",
    "database.port": "3307",
    "schema.history.internal.kafka.bootstrap.servers": "k1.example:9092,k2.example:9092",
    "producer.override.bootstrap.servers": "[::1]:9092",
    "value.converter.schema.registry.url": "https://user:pw@registry.example/path,http://169.254.169.254",
    "key.converter.proxy.host": "proxy.example",
}


def test_without_a_list_everything_is_allowed():
    assert check_hosts(CONFIG, ()) == {}


def test_every_address_of_a_configuration_is_looked_at():  # number 5 of the worker's safety
    refused = check_hosts(CONFIG, ("nowhere",))

    assert set(refused) == set(CONFIG) - {"database.port"}
    assert all(OPTION in text for texts in refused.values() for text in texts)
    assert "pw" not in str(refused)


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
        ("127.0.0.1", "2130706433", "3306", False),
    ],
)
def test_an_entry_is_a_host_a_suffix_or_a_network(entry, host, port, allowed):  # number 5
    assert (check_hosts({"database.hostname": host, "database.port": port}, (entry,)) == {}) is allowed
