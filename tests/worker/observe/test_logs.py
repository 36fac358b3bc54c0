"""Log lines: one JSON object or one plain line each, levels by logger, and no secret by mistake."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import structlog
from dblog.observe import logs
from dblog.observe.logs import LevelTable, configure_logs, set_levels


@pytest.fixture(autouse=True)
def own_table(monkeypatch):
    monkeypatch.setattr(logs, "TABLE", LevelTable())
    yield
    structlog.reset_defaults()


def test_a_json_line_has_time_level_logger_and_fields(capsys):
    configure_logs(format="json")

    structlog.get_logger("dblog.rest").warning("something", connector="größe", number=1)

    line = json.loads(capsys.readouterr().out)
    assert list(line)[:4] == ["timestamp", "level", "logger", "event"]
    assert (line["level"], line["logger"], line["event"]) == ("warning", "dblog.rest", "something")
    assert (line["connector"], line["number"]) == ("größe", 1)


def test_a_plain_line_is_for_reading(capsys):
    configure_logs(format="plain")

    structlog.get_logger("dblog.rest").info("something", connector="a")

    assert capsys.readouterr().out.endswith("INFO    something connector=a [dblog.rest]\n")


@pytest.mark.parametrize("form", ["json", "plain"])
def test_an_exception_comes_with_its_trace(capsys, form):
    configure_logs(format=form)
    try:
        raise ValueError("no luck")
    except ValueError as e:
        structlog.get_logger("dblog.rest").error("failed", exc_info=e)
        structlog.get_logger("dblog.rest").exception("failed")

    assert capsys.readouterr().out.count("ValueError: no luck") == 2


@pytest.mark.parametrize("form", ["json", "plain"])
def test_no_text_begins_a_line_of_its_own_or_moves_the_cursor(capsys, form):
    configure_logs(format=form)
    hostile = "a\n2026-01-01T00:00:00Z INFO    forged\r\x1b[2J\x07\x85\u2028\x9b"
    try:
        raise ValueError(hostile)
    except ValueError as e:
        structlog.get_logger("dblog.rest").error(hostile, field=hostile, exc_info=e)

    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.startswith("2026-01-01")] == []
    assert set("\r\x1b\x07\x85\u2028\x9b") & set(out) == set()
    assert out.count("\n") == 1 if form == "json" else all(line.startswith("    ") for line in out.splitlines()[1:])


@pytest.mark.parametrize("form", ["json", "plain"])
def test_what_is_hidden_in_this_process_is_in_no_line(capsys, form):
    configure_logs(format=form)
    logs.HIDDEN_IN_LOG.take({'canary"x': "${file:a:b}"})
    try:
        raise ValueError('login with canary"x refused')
    except ValueError as e:
        structlog.get_logger("dblog.rest").error('canary"x', reason='canary"x', exc_info=e)
    finally:
        logs.HIDDEN_IN_LOG.take({})

    out = capsys.readouterr().out
    assert ("canary" in out, out.count("${file:a:b}")) == (False, 4)


def test_a_number_that_is_hidden_leaves_a_line_that_is_json(capsys):
    configure_logs(format="json")
    logs.HIDDEN_IN_LOG.take({"16384": "${env:BATCH}"})
    try:
        structlog.get_logger("dblog.test").info("sending", bytes=16384, parts=[1, 16384], on=True)
    finally:
        logs.HIDDEN_IN_LOG.take({})

    line = json.loads(capsys.readouterr().out)
    assert (line["bytes"], line["parts"], line["on"]) == ("${env:BATCH}", "[1, ${env:BATCH}]", True)


@pytest.mark.parametrize("form", ["json", "plain"])
def test_a_trace_of_thousands_of_lines_is_its_beginning_and_its_end(capsys, form):
    def even(number):
        return odd(number + 1)

    def odd(number):
        return even(number + 1)

    configure_logs(format=form)
    try:
        even(0)
    except RecursionError as e:
        structlog.get_logger("dblog.rest").error("failed", exc_info=e)
    try:
        raise ValueError("x" * 5_000_000 + "the end")
    except ValueError as e:
        structlog.get_logger("dblog.rest").error("failed", exc_info=e)

    out = capsys.readouterr().out
    assert "even(0)" in out
    assert "RecursionError: maximum recursion depth exceeded" in out
    assert "xthe end" in out
    assert len(out.replace("\\n", "\n").splitlines()) < 130
    assert len(out) < 60_000


@pytest.mark.parametrize("form", ["json", "plain"])
def test_a_name_that_is_no_unicode_is_written_with_its_bytes_as_numbers(form, tmp_path, monkeypatch):
    file = tmp_path / "out"
    with file.open("w", encoding="utf-8") as out:
        monkeypatch.setattr("sys.stdout", out)
        configure_logs(format=form)
        structlog.get_logger("dblog.rest").info("failed", column=b"b\xff".decode(errors="surrogateescape"))

    assert "b\\udcff" in file.read_text(encoding="utf-8")


def test_fields_that_are_named_like_secrets_are_hidden(capsys):
    configure_logs()

    structlog.get_logger("dblog").info("x", database_password="a1", sasl_jaas_config="b2", user="u")

    line = json.loads(capsys.readouterr().out)
    assert (line["database_password"], line["sasl_jaas_config"], line["user"]) == ("[hidden]", "[hidden]", "u")


def test_levels_hold_for_a_logger_and_all_below_it(capsys):
    configure_logs(level="WARN")
    rest, cluster = structlog.get_logger("dblog.rest.connectors"), structlog.get_logger("dblog.cluster.herder")

    rest.info("1")
    logs.TABLE.set("dblog.rest", "DEBUG")
    rest.debug("2")
    cluster.info("3")
    cluster.error("4")
    logs.TABLE.set("dblog", "OFF")
    cluster.error("5")
    rest.error("6")
    logs.TABLE.set("root", "INFO")
    rest.info("7")

    assert [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines()] == ["2", "4", "7"]


def test_what_was_set_is_reported_with_its_time():
    table = LevelTable("INFO")

    assert table.get("root") == ("INFO", None)
    assert table.get("dblog.rest") == ("INFO", None)
    assert table.get("no.such") is None
    assert "dblog.cluster.herder" in table.set("dblog.cluster", "DEBUG")
    level, modified_ms = table.get("dblog.cluster.herder")
    assert level == "DEBUG"
    assert modified_ms > 1_700_000_000_000


# number 35 of the worker's safety
def test_a_name_with_line_breaks_begins_no_line_of_its_own(capsys):  # S23
    for form in ("plain", "json"):
        configure_logs(format=form)
        structlog.get_logger("dblog.rest").info("something", connector="a\n2026-01-01 ERROR forged\r2026")

        first, *others = capsys.readouterr().out.splitlines()
        assert "something" in first
        if form == "json":
            assert json.loads(first)["connector"] == "a\n2026-01-01 ERROR forged\r2026"
            assert others == []
        else:
            assert [line.partition("forged")[0] for line in others] == ["    2026-01-01 ERROR "], (
                "it goes on in a line that begins with blanks"
            )


def test_a_logger_that_does_not_exist_is_not_made(own_table):  # number 17 of the worker's safety
    table = LevelTable()

    assert table.set("no.such", "DEBUG") == []
    assert table.set("dblog.dialects.mysql.task.log", "DEBUG") == ["dblog.dialects.mysql.task.log"]
    before = table.all()
    for name in ("dblog.kafka.invented", "dblog.kafka.log.more", "dblog.dialects.mysql.nothing", "dblog.kafka...", "dblog.kafka./log"):
        assert table.set(name, "DEBUG") == []
        assert table.get(name) is None
    assert table.set("dblog.dialects.mysql.wire.session", "DEBUG") == ["dblog.dialects.mysql.wire.session"]
    assert set(table.all()) - set(before) == {"dblog.dialects.mysql.wire.session"}
    assert "no.such" not in table.all()
    assert {"dblog", "dblog.kafka.log", "dblog.readers", "root"} <= set(table.all())


def test_every_logger_of_the_source_is_known():  # number 17
    source = Path(logs.__file__).parents[1]
    table = LevelTable()
    for file in source.rglob("*.py"):
        for name in re.findall(r"structlog.get_logger\(([^)]+)\)", file.read_text()):
            module = "dblog." + ".".join(file.relative_to(source).with_suffix("").parts)
            assert table.get(module if name == "__name__" else name.strip('"')) is not None, (file, name)


def test_levels_of_another_process_are_taken_as_they_are():  # number 17
    here, there = LevelTable("WARN"), LevelTable()
    here.set("dblog.readers", "DEBUG")

    there.take(here.own())

    assert there.own() == {"root": "WARN", "dblog.readers": "DEBUG"}
    assert there.passes("dblog.readers.log.stream", 10)


def test_a_level_may_be_written_small_and_one_that_does_not_exist_changes_nothing(capsys):
    configure_logs()

    assert "root" in logs.TABLE.set("root", "debug")
    structlog.get_logger("dblog.rest").debug("1")
    for level in ("LOUD", "", "37"):
        assert logs.TABLE.set("root", level) == []
    structlog.get_logger("dblog.rest").debug("2")

    assert [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines()] == ["1", "2"]
    assert logs.TABLE.own()["root"] == "DEBUG"


def test_levels_of_single_loggers_are_set_from_the_start():
    unknown = set_levels("dblog.readers=DEBUG, dblog.kafka.registry = warn,dblog.nothing=INFO,dblog.rest=LOUD")

    assert unknown == ["dblog.nothing", "dblog.rest"]
    assert (logs.TABLE.get("dblog.readers.log.stream"), logs.TABLE.get("dblog.kafka.registry")[0]) == (("DEBUG", None), "WARN")


def test_the_programs_start_without_the_libraries_of_coloured_traces():
    asked = "import dblog.task, dblog.cli, sys; print({'rich', 'pygments'} & {*sys.modules}); import rich.console"

    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)

    assert done.stdout == "set()\n"
