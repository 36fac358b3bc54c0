"""The check of a configuration waits for others for a bounded time, cuts what it waits for, and leaves no thread behind."""

import threading

import structlog
from dblog.cluster.validation import Validator
from dblog.config.providers import FileProvider
from dblog.config.worker import read_worker_config
from dblog.dialects.mysql.connect import open_wire, settings_of
from dblog.readers.reachable import check_reachable
from support.worker import connector_config


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
        placeholder = validator.validate(connector_config(name="shop-orders") | {"topic.prefix": "${file:/nowhere/3:a}"}).errors

    assert (len(outside), len(placeholder)) == (2, 1)
    files = {(line["path"], line.get("connector")) for line in lines if "cannot be used" in line["event"]}
    assert files == {(f"/nowhere/{number}", "shop-orders") for number in (1, 2, 3)}


def test_hosts_that_are_not_allowed_are_refused_before_they_are_asked():  # number 5 of the worker's safety
    asked = []
    validator = Validator(providers={}, check_database=lambda *given: asked.append(given), allowed_hosts=("other.example",))

    errors = validator.validate(connector_config(name="a")).errors

    assert {"database.hostname", "schema.history.internal.kafka.bootstrap.servers"} <= set(errors)
    assert not asked
