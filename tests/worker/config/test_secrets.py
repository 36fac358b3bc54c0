"""Which texts of a configuration are secrets, and that they leave every text that may carry them."""

import json

import pytest
from dblog.cluster.validation import hider
from dblog.config.plugins import find_connector
from dblog.config.providers import resolve
from dblog.observe.hidden import Hidden
from support.worker import connector_config

PLUGIN = find_connector("io.debezium.connector.mysql.MySqlConnector")
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="canary-{}\\"x";'
SECRETS = {
    "database.password": "canary-01",
    "databse.pasword.password": "canary-02",
    "database.ssl.keystore.password": "canary-03",
    "database.ssl.truststore.password": "canary-04",
    "producer.override.sasl.jaas.config": JAAS.format("05"),
    "schema.history.internal.producer.sasl.jaas.config": "a.B required username='u' password='canary-06' ;",
    "schema.history.internal.consumer.sasl.jaas.config": "a.B required password=canary-07;",
    "producer.override.sasl.password": "canary-08",
    "producer.override.ssl.key.pem": "canary-09",
    "schema.history.internal.producer.ssl.keystore.key": "canary-10",
    "producer.override.ssl.key.password": "canary-11",
    "value.converter.bearer.auth.token": "canary-12",
    "value.converter.basic.auth.user.info": "user:canary-13",
    "key.converter.request.header.X-Api": "canary-14",
    "value.converter.schema.registry.url": "http://user:canary-15@h:1,https://v:canary%2D16@i",
    "key.converter.proxy.host": "http://u:canary-17@proxy",
    "my.api.key": "canary-18",
    "Some.SECRET": "canary-19",
    "value.converter.schema.registry.ssl.key.password": "canary-20",
}


@pytest.mark.parametrize("key", SECRETS)
def test_a_secret_is_taken_out_of_a_text_whole_and_in_part(key):
    properties = connector_config(name="a") | SECRETS
    hide = hider(resolve(properties, {}), properties, PLUGIN)

    for text in (
        f"failed with {SECRETS[key]} at x",
        json.dumps({"trace": SECRETS[key]}),
        "parts " + " ".join(f"canary-{number:02}" for number in range(1, 21)),
    ):
        assert "canary" not in hide(text).replace("canary-05 ", "")
    assert hide("nothing of it, user u stays") == "nothing of it, user u stays"


def test_what_a_provider_gave_becomes_its_placeholder_again():
    class Known:
        def get(self, path, key):
            return f'canary"{key}'

    properties = connector_config(name="a") | {
        "database.password": "${v:one}",
        "value.converter.schema.registry.url": "http://u:${v:two}@h",
    }
    hide = hider(resolve(properties, {"v": Known()}), properties, PLUGIN)

    assert hide('login canary"one, url http://u:canary"two@h') == "login ${v:one}, url http://u:${v:two}@h"
    assert hide(json.dumps('canary"one')) == '"${v:one}"'


def test_the_longest_secret_is_taken_out_first():
    assert Hidden({"abcd": "1", "abcdef": "2"}).out_of("abcdef abcd") == "2 1"
