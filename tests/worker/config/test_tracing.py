"""Who is traced, and what a worker and a connector answer that are asked for it without the packages."""

import pytest
from dblog.config import tracing
from dblog.config.connector import MYSQL_OPTIONS
from dblog.config.options import check_properties, parse
from dblog.config.tracing import TRACING, is_traced
from dblog.config.worker_options import WORKER_OPTIONS

WORKER = tuple(option for option in WORKER_OPTIONS if option.name == TRACING)
CONNECTOR = tuple(option for option in MYSQL_OPTIONS if option.name == TRACING)


@pytest.mark.parametrize(
    ("of_worker", "of_connector", "traced"),
    [
        (None, None, False),
        ("true", None, True),
        ("true", "", True),
        ("true", "false", False),
        ("false", "true", True),
        (None, " TRUE ", True),
    ],
)
def test_a_connectors_key_counts_before_the_workers_and_off_is_the_default(of_worker, of_connector, traced):
    worker = parse(WORKER, {} if of_worker is None else {TRACING: of_worker})

    assert is_traced({} if of_connector is None else {TRACING: of_connector}, worker) is traced


@pytest.mark.parametrize("options", [WORKER, CONNECTOR], ids=["worker", "connector"])
@pytest.mark.parametrize("missing", ["no_such_package", "no_such_package.sdk.trace"])
def test_whoever_asks_for_traces_without_the_packages_gets_the_remedy(monkeypatch, options, missing):
    monkeypatch.setattr(tracing, "PACKAGES", (missing,))

    assert "pip install 'dblog[tracing]'" in str(check_properties(options, {TRACING: "true"}).errors[TRACING])
    assert not check_properties(options, {TRACING: "false"}).errors


@pytest.mark.parametrize("options", [WORKER, CONNECTOR], ids=["worker", "connector"])
def test_with_the_packages_there_is_no_complaint(options):
    assert not check_properties(options, {TRACING: "true"}).errors
