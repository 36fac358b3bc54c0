"""The check of a configuration waits for others for a bounded time, cuts what it waits for, and leaves no thread behind."""

import json
import threading
import time

import pytest
import structlog
from dblog.cluster.requests import RequestError
from dblog.cluster.validation import Validator
from dblog.config.options import Settings
from dblog.config.providers import FileProvider
from dblog.config.worker import read_worker_config
from dblog.dialects.mysql.wire.connect import open_wire, settings_of
from dblog.errors import DefiniteError
from dblog.readers.run.reachable import check_reachable
from support.authority import Authority
from support.false_server import FalseServer
from support.worker import connector_config, postgres_config


def checked(check, **config):
    return Validator(providers={}, check_database=check).validate(connector_config(name="a", **config)).errors


def test_a_timeout_of_any_length_is_capped():  # number 11 of the worker's safety
    limits = []

    checked(lambda _flavor, _settings, limit_s, _abort: limits.append(limit_s), connection_validation_timeout_ms=str(10**12))

    assert limits == [60.0]


def test_a_check_that_is_cut_has_ended_when_the_answer_comes():  # number 11
    before = set(threading.enumerate())
    cut = threading.Event()

    def wait(_flavor, _settings, _limit_s, abort):
        abort.on(cut.set)
        cut.wait(60)

    errors = checked(wait, connection_validation_timeout_ms="50")

    assert "did not answer within 50 ms" in errors["database.hostname"][0]
    assert set(threading.enumerate()) <= before


PASSWORDS = {f"producer.override.password{number}": f"word{number}" for number in range(50_000)}


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (PASSWORDS, "at most 5000 are allowed"),
        (
            {"database.initial.statements": "".join(f"token=t{number};" for number in range(50_000))},
            "secrets, and at most 2000 are allowed",
        ),
        ({"table.include.list": "a," * 1_500_000}, "characters, and at most 2097152"),
    ],
)
def test_a_configuration_whose_check_would_hold_up_all_others_is_refused_at_once(config, reason):  # number 11
    validator = Validator(providers={}, check_database=None)
    began_s = time.process_time()

    with pytest.raises(RequestError, match=reason) as refused:
        validator.validate(connector_config(name="a") | config)

    assert refused.value.status == 400
    assert time.process_time() - began_s < 10, "hours without the bounds"


def test_a_configuration_within_the_bounds_is_checked_in_seconds():
    config = connector_config(name="a") | dict(list(PASSWORDS.items())[:300]) | {f"producer.override.x{n}": "y" * 300 for n in range(700)}
    began_s = time.process_time()

    errors = Validator(providers={}, check_database=None).validate(config).errors

    assert len(errors) == 1000
    assert time.process_time() - began_s < 20


def test_a_required_key_that_is_missing_is_named_with_the_key_that_is_misspelt():
    config = connector_config(name="a", databse_hostname="db")
    del config["database.hostname"]

    errors = Validator(providers={}, check_database=None).validate(config).errors

    assert errors["database.hostname"] == [
        "The 'database.hostname' value is invalid: A value is required (there is databse.hostname, which is not a key; is database.hostname meant?)"
    ]


def test_the_line_about_a_file_that_cannot_be_used_names_the_connector(kafka):
    worker = read_worker_config(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "g",
            **{f"{part}.converter": "org.apache.kafka.connect.json.JsonConverter" for part in ("key", "value")},
            **{f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")},
        }
    )
    validator = Validator(
        providers={"file": FileProvider(())},
        check_database=lambda _flavor, settings, _limit_s, _abort: open_wire(settings_of(settings)).close(),
        check_reachable=lambda settings, limit_s: check_reachable(settings, worker, limit_s=limit_s),
    )
    of_brokers = {
        "schema.history.internal.producer.ssl.truststore.type": "PEM",
        "schema.history.internal.producer.ssl.truststore.location": "/nowhere/1",
    }
    of_database = {"database.ssl.mode": "verify_ca", "database.ssl.truststore": "/nowhere/2"}

    with structlog.testing.capture_logs([structlog.contextvars.merge_contextvars]) as lines:
        outside = validator.validate(connector_config(name="shop-orders") | of_brokers | of_database).errors
        placeholder = validator.validate(connector_config(name="shop-orders") | {"database.user": "${file:/nowhere/3:a}"}).errors

    assert (len(outside), len(placeholder)) == (2, 1)
    files = {(line["path"], line.get("connector")) for line in lines if "cannot be used" in line["event"]}
    assert files == {(f"/nowhere/{number}", "shop-orders") for number in (1, 2, 3)}


def test_hosts_that_are_not_allowed_are_refused_before_they_are_asked():  # number 5 of the worker's safety
    asked = []
    validator = Validator(providers={}, check_database=lambda *given: asked.append(given), allowed_hosts=("other.example",))

    errors = validator.validate(connector_config(name="a")).errors

    assert {"database.hostname", "schema.history.internal.kafka.bootstrap.servers"} <= set(errors)
    assert not asked


def test_of_a_configuration_that_lacks_its_name_alone_the_database_is_asked_and_both_are_reported():
    def refuses(_flavor, _settings, _limit_s, _abort):
        raise DefiniteError("the login is refused")

    def errors(**config):
        return Validator(providers={}, check_database=refuses).validate(connector_config(**config)).errors

    found = errors()
    assert set(found) == {"name", "database.hostname"}
    assert "the login is refused" in found["database.hostname"][0]
    assert set(errors(snapshot_mode="sometimes")) == {"name", "snapshot.mode"}, "nobody is asked about what is wrong already"
    assert set(errors(name="")) == {"name"}


LEFT_OVER = {
    "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
    "schema.history.internal.kafka.topic": "no such ? name",
    "schema.history.internal.kafka.bootstrap.servers": "127.0.0.1:1,metadata.google.internal:9092",
    "schema.history.internal.producer.ssl.truststore.location": "${file:/nowhere:store}",
    "schema.history.internal.consumer.sasl.jaas.config": "a.B required password='sings-aloud';",
}
"""Of a connector for MySQL, in a configuration that was copied from it."""


def test_what_is_left_of_a_schema_history_refuses_no_connector_that_has_none_and_is_named():
    asked: list[Settings] = []
    validator = Validator(
        providers={}, check_database=lambda _flavor, settings, *_: asked.append(settings), check_reachable=lambda *_: None
    )

    outcome = validator.validate(postgres_config(name="a") | LEFT_OVER)

    assert outcome.errors == {}
    assert [text.split(":")[0] for text in outcome.warnings if "keeps no such history" in text] == list(LEFT_OVER)
    assert "sings-aloud" not in repr(outcome)
    assert not asked[0].originals.keys() & LEFT_OVER.keys()
    assert not validator.resolved(postgres_config(name="a") | LEFT_OVER)[0].keys() & LEFT_OVER.keys()


WORKER_SECRETS = {
    "sunshine7": "[hidden]",
    'quo"ted-sings': "[hidden]",
    "sings-by-provider": "${file:/s:k}",
}


@pytest.mark.parametrize("secret", WORKER_SECRETS)
@pytest.mark.parametrize("form", [str, str.upper, lambda text: json.dumps(text)[1:-1]])
def test_an_echo_of_the_request_does_not_show_which_of_its_words_is_a_secret_of_the_worker(secret, form):
    def validated(word):
        asked = connector_config(name="a") | {
            "topic.prefix": f"no {word} prefix",
            "max.batch.size": word,
            "database.include.list": f"({word}",
        }
        outcome = Validator(providers={}, hidden=WORKER_SECRETS, check_database=None).validate(asked)
        return [text.replace(word, "WORD").replace(json.dumps(word)[1:-1], "WORD") for texts in outcome.errors.values() for text in texts]

    assert validated(form(secret)) == validated("any-other-word")


def test_an_echo_in_which_the_request_is_read_does_not_show_a_secret_of_the_worker_either():
    validator = Validator(providers={}, hidden={"sings,with,commas": "[hidden]"}, check_database=None)

    (text,) = validator.validate(connector_config(name="a") | {"database.include.list": r"(sings\,with\,commas"}).errors[
        "database.include.list"
    ]

    assert "'(sings,with,commas'" in text


def test_what_a_database_reports_of_the_request_does_not_show_which_of_its_words_is_a_secret_of_the_worker():
    def check(_flavor, settings, _limit_s, _abort):
        if settings.text("database.hostname") == "fails":
            raise DefiniteError(f"the user {settings.text('database.user')} is unknown")
        return [f"no database matches {settings.text('database.user')}"]

    validator = Validator(providers={}, hidden=WORKER_SECRETS, check_database=check)
    asked = connector_config(name="a") | {"database.user": "sunshine7"}

    assert validator.validate(asked).warnings[0] == "no database matches sunshine7"
    (text,) = validator.validate(asked | {"database.hostname": "fails"}).errors["database.hostname"]
    assert text.endswith("the user sunshine7 is unknown")


def test_a_secret_of_the_worker_that_a_client_quotes_is_hidden():  # number 29 of the worker's safety
    def raises(_flavor, _settings, _limit_s, _abort):
        raise DefiniteError("login with sunshine7 refused, sings-by-provider too")

    outcome = Validator(providers={}, hidden=WORKER_SECRETS, check_database=raises).validate(connector_config(name="a"))

    assert outcome.errors["database.hostname"][0].endswith("login with [hidden] refused, ${file:/s:k} too")


def test_a_long_value_is_cut_in_its_error_and_its_secrets_are_hidden_before():
    words = " ".join(f"word{number}" for number in range(50_000))
    login = "http://u:sings-in-front-" + "x" * 200 + "@h"

    outcome = Validator(providers={}, check_database=None).validate(
        connector_config(name="a") | {"topic.prefix": words, "max.batch.size": login}
    )

    (prefix,), (size,) = outcome.errors["topic.prefix"], outcome.errors["max.batch.size"]
    assert f"{words[:100]}..." in prefix
    assert len(prefix) < 600
    assert "sings" not in size


def test_a_statement_that_is_asked_about_does_not_show_which_of_its_words_is_a_secret_of_the_worker():
    validator = Validator(providers={}, hidden=WORKER_SECRETS, check_database=None)

    _, hide = validator.resolved(connector_config(name="a"), asked=("ALTER TABLE sunshine7 ADD a INT",))

    assert hide("the table sunshine7 is unknown; the brokers refuse sings-by-provider") == (
        "the table sunshine7 is unknown; the brokers refuse ${file:/s:k}"
    )


def test_secrets_that_are_written_out_are_one_warning_with_their_keys_and_the_remedy(tmp_path):
    (tmp_path / "x.properties").write_text("a=from-a-file\n")
    files = {"file": FileProvider((tmp_path,))}
    registry = {
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": "https://me:my-own@r:1",
    }
    asked = connector_config(name="a") | {"database.hostname": "localhost"} | registry

    (none_there,) = Validator(providers={}, check_database=None).validate(asked).warnings
    (there,) = Validator(providers=files, check_database=None).validate(asked).warnings
    behind = {"database.password": f"${{file:{tmp_path}/x.properties:a}}", "value.converter.schema.registry.url": "http://r:1"}

    assert none_there == (
        "database.password, value.converter.schema.registry.url: written out, so it is stored as it is in the worker's topic of configurations; "
        "name a provider in config.providers of the worker's file, and write its placeholder, such as ${file:/path:key}, instead"
    )
    assert there.endswith("; write a placeholder of a config provider instead (file)")
    assert "sesame-open" not in there + none_there
    assert "my-own" not in there + none_there
    assert Validator(providers=files, check_database=None).validate(asked | behind).warnings == ()


def test_many_secrets_that_are_written_out_are_still_one_warning():
    asked = connector_config(name="a") | {f"my.secret.{number}": "x-y-z" for number in range(30)}

    (warning,) = (text for text in Validator(providers={}, check_database=None).validate(asked).warnings if "written out" in text)

    assert warning.startswith("database.password, my.secret.0, my.secret.1, my.secret.2, my.secret.3 and 26 more: written out")


def test_what_a_placeholder_stands_for_is_in_no_name_of_the_answer_and_in_no_line_of_the_log(tmp_path):  # number 28 of the worker's safety
    (tmp_path / "secrets").write_text("password=/Canary/Secret-Pa55word\ngroup=CanarySecretPa55word\n")
    files = {"file": FileProvider()}
    validator = Validator(
        providers=files,
        check_database=lambda _flavor, settings, _limit_s, _abort: open_wire(settings_of(settings)).close(),
    )
    made_of = {"topic.creation.groups": f"${{file:{tmp_path}/secrets:group}}"}
    named = {"database.ssl.truststore": f"${{file:{tmp_path}/secrets:password}}", "database.ssl.mode": "required"}

    with structlog.testing.capture_logs() as lines, FalseServer(tls=Authority(tmp_path).server()) as server:
        address = {"database.hostname": "127.0.0.1", "database.port": str(server.port)}
        outcomes = [validator.validate(connector_config(name="a") | address | more) for more in (made_of, named)]

    assert all(outcome.errors for outcome in outcomes)
    assert "Canary" not in str(outcomes)
    assert any("cannot be used" in line["event"] for line in lines)
    assert "Canary" not in str(lines)
