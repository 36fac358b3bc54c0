"""Brokers of the history and registries that do not answer are named before a connector is made."""

import os
import time

import pytest
from dblog.config.connector import MYSQL_OPTIONS, parse_connector
from dblog.config.worker import read_worker_config
from dblog.errors import ConfigError
from dblog.readers.run import reachable
from dblog.readers.run.reachable import check_reachable, history_client
from stack.process import free_port
from support.registry_server import RegistryServer
from support.worker import connector_config

BOOTSTRAP = "schema.history.internal.kafka.bootstrap.servers"
AVRO = "io.confluent.connect.avro.AvroConverter"


def errors_of(kafka, *, worker=None, **config):
    properties = {
        "bootstrap.servers": kafka.bootstrap,
        "group.id": "g",
        "key.converter": AVRO,
        "value.converter": AVRO,
        **{f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")},
        **(worker or {}),
    }
    settings = parse_connector(MYSQL_OPTIONS, connector_config(name="c") | {BOOTSTRAP: kafka.bootstrap} | config)
    try:
        check_reachable(settings, read_worker_config(properties), limit_s=4)
    except ConfigError as e:
        return {name: "; ".join(texts) for name, texts in e.errors.items()}
    return {}


def test_what_answers_is_no_error(kafka):
    with RegistryServer() as registry:
        assert errors_of(kafka) == {}
        assert errors_of(kafka, **{BOOTSTRAP: f"127.0.0.1:{free_port()},{kafka.bootstrap}"}) == {}
        assert errors_of(kafka, worker={"value.converter.schema.registry.url": registry.url}) == {}
        two = f"http://127.0.0.1:{free_port()},{registry.url}"
        assert errors_of(kafka, worker={"value.converter.schema.registry.url": two}) == {}


def test_brokers_and_registry_that_are_away_are_named_together_with_their_keys(kafka):
    away, began_s = f"127.0.0.1:{free_port()}", time.monotonic()
    url = f"http://127.0.0.1:{free_port()}"

    errors = errors_of(kafka, **{BOOTSTRAP: away, "value.converter": AVRO, "value.converter.schema.registry.url": url})

    assert time.monotonic() - began_s < 10
    assert set(errors) == {BOOTSTRAP, "value.converter.schema.registry.url"}
    assert away in errors[BOOTSTRAP]
    assert "No broker of the schema history answers" in errors[BOOTSTRAP]
    assert url in errors["value.converter.schema.registry.url"]


def test_a_file_of_signals_needs_a_folder_that_the_worker_s_owner_has_named(kafka):
    channels = {"signal.enabled.channels": "source,file"}

    assert "dblog.signal.files.folder" in errors_of(kafka, **channels)["signal.enabled.channels"]
    assert errors_of(kafka, worker={"dblog.signal.files.folder": "/signals"}, **channels) == {}


def test_a_registry_of_the_worker_and_a_refused_login_are_named_too(kafka):
    with RegistryServer(auth="u:p") as registry:
        errors = errors_of(kafka, worker={"key.converter.schema.registry.url": registry.url})
        assert set(errors) == {"key.converter.schema.registry.url"}
        assert "refuses the login" in errors["key.converter.schema.registry.url"]
        right = {"key.converter.schema.registry.url": registry.url.replace("//", "//u:p@")}
        assert errors_of(kafka, worker=right) == {}


def test_each_converters_own_login_is_tried_and_the_remedy_named(kafka):
    with RegistryServer(auth="u:p") as registry:

        def login(part, **settings):
            prefix = f"{part}.converter"
            return {prefix: AVRO, f"{prefix}.schema.registry.url": registry.url} | {
                f"{prefix}.{k.replace('_', '.')}": v for k, v in settings.items()
            }

        right = {"basic_auth_credentials_source": "USER_INFO", "basic_auth_user_info": "u:p"}
        assert errors_of(kafka, **login("key", **right), **login("value", **right)) == {}

        errors = errors_of(kafka, **login("key", **right), **login("value", **right | {"basic_auth_user_info": "u:canary"}))
        assert set(errors) == {"value.converter.schema.registry.url"}
        assert "refuses the login of this converter (HTTP 401). Set basic.auth.credentials.source=USER_INFO" in str(errors)
        assert "canary" not in str(errors)
        unread = errors_of(kafka, **login("key", basic_auth_user_info="u:p"))
        assert "without the first, the second is not read" in unread["key.converter.schema.registry.url"]


def test_a_login_for_the_workers_own_registry_is_tried_too(kafka):
    """Without one the worker's tasks come in by their token, and nobody is asked."""
    with RegistryServer(auth="u:p") as registry:
        own = {"rest.advertised.host.name": "127.0.0.1", "rest.advertised.port": registry.url.rpartition(":")[2]}
        config = {"value.converter": AVRO, "value.converter.schema.registry.url": registry.url}
        assert errors_of(kafka, worker=own, **config) == {}
        wrong = {"value.converter.basic.auth.credentials.source": "USER_INFO", "value.converter.basic.auth.user.info": "u:canary"}
        assert set(errors_of(kafka, worker=own, **config, **wrong)) == {"value.converter.schema.registry.url"}


def test_a_wrong_login_of_the_brokers_is_an_answer_in_time_without_the_password(kafka):
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="canary-word";'
    prefix = "schema.history.internal.producer."
    config = {f"{prefix}security.protocol": "SASL_PLAINTEXT", f"{prefix}sasl.mechanism": "PLAIN", f"{prefix}sasl.jaas.config": login}

    errors = errors_of(kafka, **config)

    assert set(errors) == {BOOTSTRAP}
    assert "canary-word" not in errors[BOOTSTRAP]


@pytest.mark.parametrize(("protocol", "seen"), [("SSL", "a listener without TLS"), ("SASL_PLAINTEXT", "no login at this port")])
def test_a_broker_that_speaks_another_protocol_is_not_taken_for_one_that_is_away(kafka, protocol, seen):
    prefix = "schema.history.internal.producer."
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="canary-word";'

    errors = errors_of(
        kafka, **{f"{prefix}security.protocol": protocol, f"{prefix}sasl.mechanism": "PLAIN", f"{prefix}sasl.jaas.config": login}
    )

    assert set(errors) == {BOOTSTRAP}
    assert f"the broker at {kafka.bootstrap}" in errors[BOOTSTRAP]
    assert seen in errors[BOOTSTRAP]
    assert f"security.protocol={protocol}" in errors[BOOTSTRAP]


def test_brokers_of_a_configuration_get_none_of_the_workers_login(kafka):  # found behind number 1 of the worker's safety
    worker = read_worker_config(
        {
            **{f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")},
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "g",
            "key.converter": AVRO,
            "value.converter": AVRO,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": 'a.PlainLoginModule required username="w" password="canary";',
        }
    )

    def client(**config):
        return str(history_client(parse_connector(MYSQL_OPTIONS, connector_config(name="c") | config), worker))

    assert "canary" in client(**{BOOTSTRAP: kafka.bootstrap})
    assert "canary" not in client(**{BOOTSTRAP: "127.0.0.1:1"})
    for setting, text in (
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanism", "PLAIN"),
        ("ssl.endpoint.identification.algorithm", ""),
    ):
        assert "canary" not in client(**{BOOTSTRAP: kafka.bootstrap, f"schema.history.internal.producer.{setting}": text})


def test_a_store_that_cannot_be_read_is_named_by_its_key(kafka):
    errors = errors_of(kafka, **{"schema.history.internal.producer.ssl.truststore.location": "/x.jks"})

    assert any("truststore" in name for name in errors)


@pytest.mark.parametrize(
    "setting", ["ssl.ca.location", "ssl.truststore.location", "ssl.certificate.location", "ssl.key.location", "ssl.crl.location"]
)
def test_no_answer_shows_what_a_file_of_the_brokers_login_is(kafka, tmp_path, setting):  # number 4 of the worker's safety
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "other").write_text("no certificate")
    prefix = "schema.history.internal.producer."
    paths = ["/dev/zero", *(str(tmp_path / name) for name in ("pipe", "other", "missing"))]
    security = {f"{prefix}security.protocol": "SSL", f"{prefix}ssl.truststore.type": "PEM"}

    found = [errors_of(kafka, **security, **{prefix + setting: path}) for path in paths]

    assert {(*errors, *(text.replace(path, "PATH") for text in errors.values())) for path, errors in zip(paths, found, strict=True)} == {
        (prefix + setting, found[0][prefix + setting].replace(paths[0], "PATH"))
    }


def test_the_files_of_the_registrys_login_are_read_likewise(kafka, tmp_path):  # number 4
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "other").write_text("no certificate")
    (tmp_path / "empty").write_text("\n")
    url = {"value.converter": AVRO, "value.converter.schema.registry.url": "https://127.0.0.1:1"}
    for store in ("truststore", "keystore"):
        key = f"value.converter.schema.registry.ssl.{store}"
        texts = set()
        for path in ("/dev/zero", *(str(tmp_path / name) for name in ("pipe", "other", "missing", "empty"))):
            errors = errors_of(kafka, **url, **{f"{key}.type": "PEM", f"{key}.location": path})
            assert list(errors) == [f"{key}.location"]
            texts.add(errors[f"{key}.location"].replace(path, "PATH"))
        assert len(texts) == 1


def test_settings_that_http_cannot_carry_are_named_when_a_connector_is_made(kafka):  # number 17 of the worker's safety
    key = "value.converter."
    url = {"value.converter": AVRO, f"{key}schema.registry.url": "http://127.0.0.1:1", f"{key}proxy.host": "127.0.0.1"}
    wrong = {f"{key}bearer.auth.token": "tök", f"{key}request.header.X-Team": "café", f"{key}proxy.port": "x"}

    assert set(errors_of(kafka, **url, **wrong)) == set(wrong)


def test_a_bug_in_one_of_the_questions_is_not_lost(kafka, monkeypatch):  # number 17
    class Bug(Exception):  # noqa: N818
        pass

    def ask(*_given, **_named):
        raise Bug

    monkeypatch.setattr(reachable, "converter_of", ask)

    with pytest.raises(Bug):
        errors_of(kafka)
