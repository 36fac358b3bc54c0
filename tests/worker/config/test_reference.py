"""The reference page names every option with its default and its values."""

import pytest
from dblog.cli import app
from dblog.config.connector import MARIADB_OPTIONS, POSTGRES_OPTIONS
from dblog.config.reference import reference_page
from dblog.config.worker_options import WORKER_OPTIONS
from typer.testing import CliRunner


@pytest.mark.parametrize("options", [WORKER_OPTIONS, MARIADB_OPTIONS, POSTGRES_OPTIONS])
def test_every_option_has_its_line(options):
    lines = reference_page(options).splitlines()[2:]

    assert [line.split("`")[1] for line in lines] == [option.name for option in options]


def test_a_line_has_type_default_and_choices():
    page = reference_page(MARIADB_OPTIONS)

    assert "| `heartbeat.interval.ms` | int, ms | `0` |" in page
    assert "| `topic.prefix` | string | required |" in page
    assert "One of: precise, string, double." in page
    assert "Also written heartbeat.topics.prefix." in page


def test_the_command_prints_it():
    done = CliRunner().invoke(app, ["options", "worker"])

    assert done.exit_code == 0
    assert "`dblog.task.restart.max`" in done.output
    assert "| `slot.name` | string | `debezium` |" in CliRunner().invoke(app, ["options", "postgres"]).output
    assert CliRunner().invoke(app, ["options", "nothing"]).exit_code == 2
    assert CliRunner().invoke(app, ["version"]).exit_code == 0


def test_the_version_is_an_option_and_a_command():
    by_option, by_command = (CliRunner().invoke(app, [word]) for word in ("--version", "version"))

    assert (by_option.exit_code, by_option.output) == (0, by_command.output)
    assert by_option.output.strip()


def test_the_storage_topics_are_named_in_plain_english():
    page = reference_page(WORKER_OPTIONS)

    assert [f"Topic of the {kind} of all connectors" in page for kind in ("configs", "offsets", "statuses")] == [True] * 3
