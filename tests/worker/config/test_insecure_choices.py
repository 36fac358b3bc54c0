"""Settings that leave a connection open are named, with what to use instead, and never refused."""

import pytest
from dblog.config.connector import MARIADB_OPTIONS, MYSQL_OPTIONS
from dblog.config.infos import config_infos
from dblog.config.insecure_choices import described, insecure_choices, insecure_worker_choices

MYSQL = {"database.hostname": "db.example", "database.ssl.mode": "verify_identity"}


@pytest.mark.parametrize("mode", ["preferred", "required", "Preferred", None])
def test_a_mode_that_checks_no_certificate_is_named_unless_the_database_is_on_this_machine(mode):
    config = {"database.hostname": "db.example", **({} if mode is None else {"database.ssl.mode": mode})}

    assert insecure_choices(MYSQL_OPTIONS, config)["database.ssl.mode"].safer == ("verify_ca", "verify_identity")
    for host in ("localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]", "LOCALHOST.", ""):
        assert not insecure_choices(MYSQL_OPTIONS, {**config, "database.hostname": host})


def test_the_modes_of_mariadb_are_known_too():
    config = {"database.hostname": "10.0.0.1", "database.ssl.mode": "trust"}

    assert insecure_choices(MARIADB_OPTIONS, config)["database.ssl.mode"].safer == ("verify-ca", "verify-full")
    assert not insecure_choices(MARIADB_OPTIONS, {**config, "database.ssl.mode": "verify-full"})


@pytest.mark.parametrize("config", [{"database.ssl.mode": "disable"}, {}])
def test_a_mode_without_tls_is_named_like_those_that_are_better(config):
    over_a_network = {"database.hostname": "10.0.0.1", **config}

    assert (
        insecure_choices(MARIADB_OPTIONS, over_a_network)["database.ssl.mode"].reason
        == "with disable anybody who can read the traffic gets all rows"
    )
    assert not insecure_choices(MARIADB_OPTIONS, {**over_a_network, "database.hostname": "localhost"})
    assert insecure_choices(MARIADB_OPTIONS, {"database.hostname": "localhost", "dblog.dump.hostname": "10.0.0.2", **config})


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"schema.registry.url": "http://r.example:8081", "basic.auth.user.info": "a:b"}, True),
        ({"schema.registry.url": "https://r.example,http://a:b@r.example:8081"}, True),
        ({"schema.registry.url": "http://r.example:8081"}, False),
        ({"schema.registry.url": "http://localhost:8081", "basic.auth.user.info": "a:b"}, False),
        ({"schema.registry.url": "https://r.example:8081", "basic.auth.user.info": "a:b"}, False),
    ],
)
def test_a_login_of_a_registry_that_travels_without_tls_is_named(config, named):
    config = {f"value.converter.{name}": text for name, text in config.items()}

    assert (insecure_choices(MYSQL_OPTIONS, {**MYSQL, **config}).keys() == {"value.converter.schema.registry.url"}) is named
    assert (insecure_worker_choices(config).keys() == {"value.converter.schema.registry.url"}) is named


@pytest.mark.parametrize(("mechanism", "named"), [("PLAIN", True), ("SCRAM-SHA-512", False)])
def test_a_password_for_brokers_that_travels_without_tls_is_named(mechanism, named):
    config = {"producer.override.security.protocol": "SASL_PLAINTEXT", "producer.override.sasl.mechanism": mechanism}

    assert (insecure_choices(MYSQL_OPTIONS, {**MYSQL, **config}).keys() == {"producer.override.security.protocol"}) is named


@pytest.mark.parametrize(("options", "mode"), [(MARIADB_OPTIONS, "disable"), (MYSQL_OPTIONS, "Disabled")])
@pytest.mark.parametrize("host", ["db.example", "localhost"])
def test_a_store_beside_a_mode_without_tls_is_named(options, mode, host):
    config = {"database.hostname": host, "database.ssl.mode": mode, "database.ssl.truststore": "/x/ca.pem"}

    choice = insecure_choices(options, config)["database.ssl.mode"]

    assert choice.reason == "the connection is not encrypted, and database.ssl.truststore not used"
    assert len(choice.safer) == 2
    without = insecure_choices(options, {**config, "database.ssl.truststore": ""})
    assert not any("not used" in choice.reason for choice in without.values())


@pytest.mark.parametrize(
    ("key", "value", "safer"),
    [
        ("driver.allowPublicKeyRetrieval", "true", "false"),
        ("producer.override.enable.ssl.certificate.verification", "False", "true"),
        ("schema.history.internal.consumer.ssl.endpoint.identification.algorithm", "", "https"),
        ("schema.history.internal.producer.ssl.endpoint.identification.algorithm", "none", "https"),
    ],
)
def test_an_insecure_choice_is_named_with_a_safer_one(key, value, safer):  # number 36 of the worker's safety
    found = insecure_choices(MYSQL_OPTIONS, {**MYSQL, key: value})

    assert {name: choice.safer for name, choice in found.items()} == {key: (safer,)}
    assert not insecure_choices(MYSQL_OPTIONS, {**MYSQL, key: safer})


def test_the_sentence_names_key_reason_and_remedy():
    assert described(
        insecure_worker_choices({"producer.enable.ssl.certificate.verification": "false", "ssl.endpoint.identification.algorithm": ""})
    ) == (
        "ssl.endpoint.identification.algorithm: a certificate of any host is taken for the broker's; use https; "
        "producer.enable.ssl.certificate.verification: anybody can answer as a broker and is trusted; use true"
    )


def test_the_validate_answer_recommends_the_safer_value_first_and_counts_no_error():
    algorithm = "schema.history.internal.producer.ssl.endpoint.identification.algorithm"
    config = {"database.hostname": "db.example", "driver.allowPublicKeyRetrieval": "true", algorithm: ""}

    answer = config_infos("x", MYSQL_OPTIONS, config, {}, unknown={})

    shown = {entry["value"]["name"]: entry["value"] for entry in answer["configs"]}
    assert answer["error_count"] == 0
    assert shown["database.ssl.mode"]["recommended_values"] == ["verify_ca", "verify_identity", "disabled", "preferred", "required"]
    assert shown["driver.allowPublicKeyRetrieval"]["recommended_values"] == ["false"]
    assert (shown[algorithm]["recommended_values"], shown[algorithm]["errors"]) == (["https"], [])
