"""The worker's properties: Kafka Connect's file is taken, what cannot be done is refused, and clients get librdkafka's spelling."""

import pytest
from dblog.assembly import internal_topics
from dblog.config.overrides import OverridePolicy, override_policy
from dblog.config.properties import parse_properties
from dblog.config.worker import dumps_topic, read_worker_config
from dblog.errors import ConfigError

# The distributed worker's example that comes with Kafka, without its comments.
EXAMPLE = """
bootstrap.servers=localhost:9092
group.id=connect-cluster
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=true
value.converter.schemas.enable=true
offset.storage.topic=connect-offsets
offset.storage.replication.factor=1
config.storage.topic=connect-configs
config.storage.replication.factor=1
status.storage.topic=connect-status
status.storage.replication.factor=1
offset.flush.interval.ms=10000
plugin.path=/usr/local/share/java,/usr/local/share/kafka/plugins
"""


def config(**changes):
    return read_worker_config(parse_properties(EXAMPLE) | {name.replace("_", "."): text for name, text in changes.items()})


def errors(**changes):
    with pytest.raises(ConfigError) as raised:
        config(**changes)
    return raised.value.errors


def test_kafkas_own_example_is_taken():
    worker = config()

    assert worker.advertised_port == 8083
    assert worker.settings["offset.flush.interval.ms"] == 10000
    assert worker.settings["offset.storage.partitions"] == 25
    assert worker.settings["status.storage.partitions"] == 5
    assert worker.settings["task.shutdown.graceful.timeout.ms"] == 5000
    assert worker.settings["dblog.task.restart.max"] == -1


def test_requests_for_dumps_have_a_topic_unless_it_is_left_empty():
    named = {key: config(**{"dblog.dumps.storage.topic": key}).settings for key in ("own-dumps", "")}

    assert [dumps_topic(settings) for settings in (config().settings, *named.values())] == ["connect-configs-dumps", "own-dumps", ""]
    made = [
        {topic.name: (topic.partitions, topic.replication_factor) for topic in internal_topics(s)} for s in (config().settings, named[""])
    ]
    assert made[0]["connect-configs-dumps"] == (1, 1)
    assert made[0].keys() - made[1].keys() == {"connect-configs-dumps"}


def test_the_worker_is_known_by_its_advertised_address():
    assert config(listeners="http://10.0.0.5:9000").worker_id == "10.0.0.5:9000"
    assert config(listeners="http://[::1]:9000").worker_id == "[::1]:9000"
    advertised = {"rest.advertised.host.name": "connect-1", "rest.advertised.port": "80"}
    assert config(**advertised).advertised_url == "http://connect-1:80"
    assert config(listeners="http://:8083").worker_id.endswith(":8083")
    assert not config(listeners="http://0.0.0.0:8083").worker_id.startswith("0.")


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("listeners", "tcp://:8443", "https://host:port"),
        ("listeners", "http://a:1,http://b", "http://host:port"),
        ("admin.listeners", "http://a:1,b:2", "http://host:port"),
        ("listeners", "8083", "http://host:port"),
        ("exactly.once.source.support", "enabled", "does not have exactly once"),
        ("rest.advertised.listener", "https", "none of that scheme"),
        ("rest.extension.classes", "org.example.Auth", "Java classes"),
        ("key.converter", "org.example.Mine", "could not be found"),
        ("offset.storage.partitions", "0", "must be -1 or larger"),
        ("group.id", "", "must be non-empty"),
        ("config.storage.topic", "connect-offsets", "three different topics"),
        ("dblog.dumps.storage.topic", "connect-offsets", "need one of their own"),
    ],
)
def test_what_cannot_be_done_is_refused(key, value, reason):
    assert reason in errors(**{key: value})[key][0]


def test_missing_keys_are_all_named():
    with pytest.raises(ConfigError) as raised:
        read_worker_config({})

    assert raised.value.errors["config.storage.topic"] == [
        'Missing required configuration "config.storage.topic" which has no default value.'
    ]
    assert {"bootstrap.servers", "group.id", "key.converter", "value.converter"} <= set(raised.value.errors)


def test_clients_get_the_workers_connection_and_their_own_settings():
    changes = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": 'org.apache.kafka.common.security.scram.ScramLoginModule required username="w" password="p\\"q";',
        "producer.linger.ms": "7",
        "producer.max.request.size": "2000000",
        "consumer.max.poll.records": "5",
    }

    producer = config(**changes).client_settings("producer")

    assert producer == {
        "bootstrap.servers": "localhost:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "w",
        "sasl.password": 'p"q',
        "linger.ms": "7",
        "message.max.bytes": "2000000",
    }
    assert "max.poll.records" not in config(**changes).client_settings("consumer")


def test_admin_listeners_is_not_a_setting_of_the_admin_client():
    assert "listeners" not in config(**{"admin.listeners": "", "admin.retries": "3"}).client_settings("admin")


@pytest.mark.parametrize("name", ["All", "Allowlist", "None", "Principal"])
def test_an_override_policy_is_known_by_its_alias_and_by_its_class(name):
    simple = f"{name}ConnectorClientConfigOverridePolicy"
    for given in (name, name.lower(), simple, f"org.apache.kafka.connect.connector.policy.{simple}"):
        changes = {"connector.client.config.override.policy": given, "connector.client.config.override.allowlist": "linger.ms, acks"}
        assert override_policy(config(**changes).settings) == OverridePolicy(name, frozenset({"linger.ms", "acks"}))
    assert override_policy(config().settings) == OverridePolicy("All", frozenset())


def test_an_unknown_override_policy_is_refused():
    assert set(errors(**{"connector.client.config.override.policy": "com.example.Mine"})) == {"connector.client.config.override.policy"}


@pytest.mark.parametrize("key", ["sasl.jaas.config", "consumer.sasl.jaas.config", "admin.ssl.truststore.location"])
def test_a_login_that_is_none_ends_the_workers_start_with_its_key(key):
    found = errors(**{key: "canary"})

    assert set(found) == {key}
    assert "canary" not in str(found)
