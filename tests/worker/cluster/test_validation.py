"""The check of a configuration waits for others for a bounded time, cuts what it waits for, and leaves no thread behind."""

import threading

from dblog.cluster.validation import Validator
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


def test_hosts_that_are_not_allowed_are_refused_before_they_are_asked():  # number 5 of the worker's safety
    asked = []
    validator = Validator(providers={}, check_database=lambda *given: asked.append(given), allowed_hosts=("other.example",))

    errors = validator.validate(connector_config(name="a")).errors

    assert {"database.hostname", "schema.history.internal.kafka.bootstrap.servers"} <= set(errors)
    assert not asked
