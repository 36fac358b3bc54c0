"""The worker's own properties: which of their placeholders are resolved, by what, and what of it is never shown."""

import pytest
from dblog.cli import start_worker
from dblog.config.properties import parse_properties
from dblog.config.providers import resolve
from dblog.config.worker_file import resolve_worker_file
from dblog.errors import ConfigError
from dblog.observe.hidden import Hidden
from structlog.testing import capture_logs

EXAMPLE = """
bootstrap.servers=localhost:9092
group.id=connect-cluster
key.converter=JsonConverter
value.converter=JsonConverter
offset.storage.topic=connect-offsets
config.storage.topic=connect-configs
status.storage.topic=connect-status
listeners=http://127.0.0.1:0
"""
PROVIDERS = """
config.providers=file,env
config.providers.file.class=FileConfigProvider
config.providers.file.param.allowed.paths=FOLDER
config.providers.env.class=EnvVarConfigProvider
config.providers.env.param.allowlist.pattern=DBLOG_TEST_.*
"""


@pytest.fixture
def written(tmp_path, monkeypatch):
    """The keys of a worker whose providers may read this test's folder and variables, and these keys of the test."""
    monkeypatch.setenv("DBLOG_TEST_BROKERS", "broker-7:9092")
    (tmp_path / "x.properties").write_text("password=canary-sings\n", encoding="utf-8")

    def with_keys(**keys):
        texts = parse_properties(EXAMPLE + PROVIDERS.replace("FOLDER", str(tmp_path)))
        return texts | {name.replace("_", "."): text.replace("FOLDER", str(tmp_path)) for name, text in keys.items()}

    return with_keys


@pytest.fixture
def start(tmp_path, capsys):
    """Start a worker with these keys, which must not succeed: what it writes."""

    def start_with(texts):
        file = tmp_path / "worker.properties"
        file.write_text("".join(f"{name}={text}\n" for name, text in texts.items()), encoding="utf-8")
        assert start_worker(file, task_command=["/nowhere"], check_database=None) == 1
        return capsys.readouterr()

    return start_with


def test_placeholders_of_the_workers_own_keys_are_resolved_by_the_providers_that_it_names(written, tmp_path):
    texts = written(bootstrap_servers="${env:DBLOG_TEST_BROKERS},b:9", sasl_password="${file:FOLDER/x.properties:password}")

    file = resolve_worker_file(texts)

    assert file.texts == texts | {"bootstrap.servers": "broker-7:9092,b:9", "sasl.password": "canary-sings"}
    assert list(file.texts) == list(texts)
    assert set(file.providers) == {"file", "env"}
    assert file.placeholders == {name: texts[name] for name in ("bootstrap.servers", "sasl.password")}


def test_a_providers_value_is_hidden_and_what_the_worker_shows_itself_is_not(written, tmp_path):
    placeholder = f"${{file:{tmp_path}/x.properties:password}}"
    jaas = f'a.PlainLoginModule required username="u" password="{placeholder}";'

    hide = Hidden(
        resolve_worker_file(
            written(bootstrap_servers="${env:DBLOG_TEST_BROKERS}", sasl_jaas_config=jaas, ssl_key_password="inline-sings")
        ).hidden
    ).out_of

    assert hide("canary-sings at broker-7:9092") == f"{placeholder} at broker-7:9092"
    assert hide("inline-sings") == "[hidden]"


@pytest.mark.parametrize("word", ["true", "PLAIN", "snappy", "SASL_SSL", "SCRAM-SHA-512", "read_committed", "30000000", "12345678.5"])
def test_an_ordinary_word_of_a_provider_is_hidden_only_under_the_key_of_a_secret(written, monkeypatch, word):
    monkeypatch.setenv("DBLOG_TEST_WORD", word)
    hidden = {
        key: Hidden(resolve_worker_file(written(**{key: "${env:DBLOG_TEST_WORD}"})).hidden).out_of(f"a {word} b")
        for key in ("producer_compression_type", "admin_x", "producer_sasl_password")
    }

    assert hidden["producer_compression_type"] == hidden["admin_x"] == f"a {word} b"
    assert hidden["producer_sasl_password"] == ("a true b" if word == "true" else "a ${env:DBLOG_TEST_WORD} b")


def test_a_password_within_a_jaas_text_is_hidden_however_ordinary_it_is_and_a_flag_there_is_not(written, monkeypatch):
    monkeypatch.setenv("DBLOG_TEST_WORD", "12345678")
    monkeypatch.setenv("DBLOG_TEST_FLAG", "true")
    jaas = 'a.PlainLoginModule required username="u" password="${env:DBLOG_TEST_WORD}" debug="${env:DBLOG_TEST_FLAG}";'

    hide = Hidden(resolve_worker_file(written(sasl_jaas_config=jaas)).hidden).out_of

    assert hide("login with 12345678, true") == "login with [hidden], true"


@pytest.mark.parametrize("key", ["producer_client_rack", "producer_any_key", "x_y"])
def test_a_longer_value_of_a_provider_is_hidden_whatever_its_key_is_called(written, monkeypatch, key):
    monkeypatch.setenv("DBLOG_TEST_WORD", "sunshine")

    assert Hidden(resolve_worker_file(written(**{key: "${env:DBLOG_TEST_WORD}"})).hidden).out_of("sunshine") == "${env:DBLOG_TEST_WORD}"


def test_a_value_that_is_both_a_secret_and_an_address_is_hidden(written):
    file = resolve_worker_file(written(producer_sasl_password="${env:DBLOG_TEST_BROKERS}", bootstrap_servers="${env:DBLOG_TEST_BROKERS}"))

    assert Hidden(file.hidden).out_of("broker-7:9092") == "${env:DBLOG_TEST_BROKERS}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("${env:DBLOG_TEST_NONE}", "the worker has no environment variable DBLOG_TEST_NONE; set it where the worker is started"),
        ("${env:PATH}", "the variable PATH is not in the provider's allowlist.pattern; name one that is, or widen it"),
        (
            "${vault:a:b}",
            "the worker has no config provider 'vault' (config.providers: file, env); use one that it has, or name this one there",
        ),
        (
            "${file:/etc/passwd:root}",
            "the path /etc/passwd is outside the provider's allowed.paths; move the file, or add its folder there",
        ),
        (
            "${file:FOLDER/none:a}",
            "the file FOLDER/none cannot be used (No such file or directory): it has to be a properties file with the key a",
        ),
        (
            "${file:FOLDER/x.properties:a}",
            "the file FOLDER/x.properties cannot be used (it has no such key): it has to be a properties file with the key a",
        ),
    ],
)
def test_what_cannot_be_resolved_ends_the_start_with_one_sentence_of_key_reason_and_remedy(written, start, tmp_path, text, reason):
    output = start(written(bootstrap_servers=text))

    placeholder = text.replace("FOLDER", str(tmp_path))
    sentence = (
        f"dblog cannot start with {tmp_path}/worker.properties: bootstrap.servers: {placeholder} of bootstrap.servers cannot be resolved: "
    )
    assert output.err.startswith(sentence + reason.replace("FOLDER", str(tmp_path)))
    assert (output.err.count("\n"), output.out) == (1, "")


def test_without_providers_a_placeholder_ends_the_start_too(start):
    output = start(parse_properties(EXAMPLE) | {"bootstrap.servers": "${env:DBLOG_TEST_BROKERS}"})

    assert "the worker has no config provider 'env' (config.providers: none)" in output.err


@pytest.mark.parametrize("key", ["config.providers", "config.providers.file.param.allowed.paths", "config.providers.env.class"])
def test_the_keys_that_make_the_providers_take_no_placeholders(written, key):
    with pytest.raises(ConfigError, match="these keys make the config providers; write the value itself") as caught:
        resolve_worker_file(written() | {key: "${env:DBLOG_TEST_BROKERS}"})
    assert list(caught.value.errors) == [key]


def test_a_value_that_a_provider_gave_is_in_no_error_of_the_start(written, start, tmp_path):
    placeholder = "${file:FOLDER/x.properties:password}"
    for keys in ({"listeners": placeholder}, {"listeners": f"http://{placeholder}:1"}, {"session_timeout_ms": placeholder},
                 {"dblog_rest_login_config": f"/{placeholder}"}):  # fmt: skip
        extension = {"rest_extension_classes": "BasicAuthSecurityRestExtension"} if "dblog_rest_login_config" in keys else {}
        output = start(written(ssl_key_password=placeholder, **keys, **extension))

        assert placeholder.replace("FOLDER", str(tmp_path)) in output.err
        assert "canary" not in output.err + output.out


def test_a_provider_for_the_worker_alone_resolves_its_file_and_no_connectors(written, tmp_path):
    placeholder = f"${{own:{tmp_path}/x.properties:password}}"
    own = {"config.providers": "file,own", "config.providers.own.class": "FileConfigProvider", "dblog.config.providers.own": "own"}

    with capture_logs() as lines:
        file = resolve_worker_file(written(sasl_password=placeholder) | own)
    of_connector = resolve(
        {"database.password": placeholder, "database.user": f"${{file:{tmp_path}/x.properties:password}}"}, file.providers
    )

    assert file.texts["sasl.password"] == "canary-sings"
    assert file.hidden["canary-sings"] == placeholder
    assert list(of_connector.errors) == ["database.password"]
    assert (
        "the worker keeps this config provider for its own file (dblog.config.providers.own)" in of_connector.errors["database.password"][0]
    )
    assert "canary-sings" not in of_connector.values["database.password"]
    assert of_connector.values["database.user"] == "canary-sings"
    assert lines == [], "without limits it gives nothing to whoever posts connectors"


def test_a_provider_for_the_worker_alone_has_to_be_one(written):
    with pytest.raises(ConfigError, match="config.providers has no onw; name here only what it names") as caught:
        resolve_worker_file(written() | {"dblog.config.providers.own": "onw,env"})
    assert list(caught.value.errors) == ["dblog.config.providers.own"]


def test_a_provider_class_that_is_misspelt_ends_the_start_with_one_sentence(written, start, tmp_path):
    output = start(written(config_providers_file_class="FileConfgProvider"))

    sentence = (
        f"dblog cannot start with {tmp_path}/worker.properties: config.providers.file.class: Class FileConfgProvider could not be found; "
    )
    assert output.err.startswith(sentence)
    assert output.err.count("\n") == 1


def test_level_and_format_of_the_log_may_come_from_a_provider(written, start, monkeypatch):
    monkeypatch.setenv("DBLOG_TEST_LEVEL", "OFF")

    output = start(written(dblog_log_level="${env:DBLOG_TEST_LEVEL}", ssl_endpoint_identification_algorithm="", listeners="tcp://a:1"))

    assert ("a listener is written as" in output.err, output.out) == (True, "")


def test_what_a_connector_names_is_logged_for_the_owner_as_ever(written, tmp_path):
    providers = resolve_worker_file(written()).providers

    with capture_logs() as lines, pytest.raises(ConfigError, match="the worker's log has the reason"):
        providers["file"].get(f"{tmp_path}/none", "a")
    assert [line["reason"] for line in lines] == ["No such file or directory"]


def test_a_file_is_checked_without_opening_anything(written, tmp_path, start, capsys):
    file = tmp_path / "checked.properties"
    file.write_text("".join(f"{name}={text}\n" for name, text in written(listeners="http://192.0.2.1:1").items()), encoding="utf-8")

    assert start_worker(file, task_command=["/nowhere"], check_database=None, only_check=True) == 0

    assert "can be used: a worker of group connect-cluster" in capsys.readouterr().out
    file.write_text("group.id=a\n", encoding="utf-8")
    assert start_worker(file, task_command=["/nowhere"], check_database=None, only_check=True) == 1
    assert "bootstrap.servers" in capsys.readouterr().err
