"""The log and the timeline of a connector: what is kept, how much, for whom, and that no secret is in it."""

import json

import pytest
import structlog
from dblog.cluster.journal import Journal, kind_of
from dblog.config.roles import Grant, Grants, Role
from dblog.observe.hidden import HIDDEN_IN_LOG
from dblog.observe.lines import TEXT_MAX, ConnectorLines, Line, NewestLines, line_of
from dblog.observe.logs import TAP, configure_logs


def line(text, *, level="info", logger="dblog.readers.stream", at="2026-11-30T00:00:00Z"):
    return Line(at, level, logger, text)


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (line("change user=eve method=PUT path=/connectors/shop/pause", logger="dblog.audit"), "change"),
        (line("task state state=FAILED"), "state"),
        (line("log connection lost, connecting again reason=reset", level="warning"), "retry"),
        (line("another server answers; going on by GTIDs", level="warning"), "failover"),
        (line("schema change in the log tables=['a.b']"), "ddl"),
        (line("dump begins tables=3"), "dump"),
        (line("offsets altered by request"), "position"),
        (line("something nobody thought of", level="error"), "warning"),
        (line("reading signals from a topic"), ""),
    ],
)
def test_a_line_is_an_event_of_one_kind_or_none(found, kind):
    assert kind_of(found) == kind


def test_a_name_begins_no_line_and_moves_no_cursor():  # number 35 of the worker's safety
    made = line_of({"event": "table parked", "table": "a.b\n2026-11-30 ERROR forged\x1b[2J\u2028x", "exception": "Traceback\n  File"}, str)

    assert made.text == "table parked table=a.b\n    2026-11-30 ERROR forged\\u001b[2J\\u2028x\n    Traceback\n      File"


def test_lines_are_kept_by_connector_and_the_oldest_give_way():
    lines = ConnectorLines(bytes_each=1500, bytes_max=4000)
    for number in range(50):
        lines.add("a", line(f"line {number}"))
    kept = [each.text for each in lines.of("a")]
    assert kept[-1] == "line 49"
    assert sum(each.size for each in lines.of("a")) <= 1500
    assert kept == [f"line {number}" for number in range(50 - len(kept), 50)]

    for name in ("b", "c", "d"):
        for number in range(50):
            lines.add(name, line(f"line {number}"))
    assert lines.of("a") == [], "the connector that has logged nothing for the longest time gives way"
    lines.forget("d")
    assert lines.of("d") == []


def test_lines_are_found_by_level_and_text():
    lines = ConnectorLines()
    for level, text in (("debug", "one"), ("info", "Two"), ("warning", "three"), ("error", "two again")):
        lines.add("a", line(text, level=level))

    assert [each.text for each in lines.of("a", level="warning")] == ["three", "two again"]
    assert [each.text for each in lines.of("a", search="TWO")] == ["Two", "two again"]
    assert [each.text for each in lines.of("a", limit=1)] == ["two again"]


def test_a_task_keeps_a_bounded_number_of_lines_for_the_herder_and_counts_what_it_drops():
    newest = NewestLines(3)
    for number in range(5):
        newest.add(line(str(number)))

    assert [each["text"] for each in newest.take(2)] == ["2", "3"]
    assert [each["text"] for each in newest.take(2)] == ["4"]
    assert newest.dropped == 2


def test_what_a_task_sends_is_cut_hidden_and_read_only_if_it_is_a_line():
    journal = Journal()
    good = {"at": "2026-11-30T00:00:00Z", "level": "error", "logger": "dblog.x", "text": f"password hunter2 {'x' * 10_000}"}

    journal.sent("shop", [good, 7, None, {"at": 1}, {**good, "text": ["a"]}], lambda text: text.replace("hunter2", "[hidden]"))

    found = journal.lines.of("shop")
    assert len(found) == 1
    assert found[0].text.startswith("password [hidden] ")
    assert len(found[0].text) <= TEXT_MAX + 10
    assert [kind for kind, _ in journal.events("shop")] == ["warning"]


def test_a_line_has_the_fields_and_the_trace_of_its_event_without_secrets():
    event = {
        "timestamp": "t",
        "level": "error",
        "logger": "l",
        "event": "it failed",
        "connector": "shop",
        "rows": 3,
        "exception": "Trace hunter2",
    }

    assert line_of(event, lambda text: text.replace("hunter2", "[hidden]")) == Line(
        "t", "error", "l", "it failed rows=3\n    Trace [hidden]"
    )


def test_the_tap_gets_what_is_written_after_levels_and_with_secrets_hidden(capsys):
    journal = Journal()
    configure_logs(format="json", level="INFO")
    HIDDEN_IN_LOG.take({"hunter2-secret": "[hidden]"})
    TAP.set(journal.heard)
    try:
        log = structlog.get_logger("dblog.cluster")
        log.info("task state", connector="shop", state="RUNNING", password="x", note="has hunter2-secret in it")
        log.debug("not written", connector="shop")
        log.info("of nobody")
    finally:
        TAP.set(None)
        HIDDEN_IN_LOG.take({})

    assert len(capsys.readouterr().out.splitlines()) == 2
    text = [each.text for each in journal.lines.of("shop")]
    assert text == ["task state state=RUNNING password=[hidden] note=has [hidden] in it"]


def test_lines_about_connectors_that_do_not_exist_take_nobodys_room():
    journal = Journal(exists={"shop"}.__contains__)
    for name in ("shop", "nonsense"):
        journal.heard(line("change refused user=eve", logger="dblog.audit"), {"connector": name})

    assert [len(journal.lines.of(name)) for name in ("shop", "nonsense")] == [1, 0]


def heard(page, *lines):
    for each in lines:
        page.herder.journal.heard(each, {"connector": "shop"})


def test_the_views_show_lines_as_text_filtered_and_to_download(page):
    page.connector("shop")
    heard(page, line("task state state=RUNNING"), line("<script>alert(1)</script>", level="error"))

    text = page.get("/ui/connectors/shop/log").text
    assert "&lt;script&gt;alert(1)" in text
    assert "<script>alert" not in text
    assert "task state" not in page.get("/ui/connectors/shop/log?level=error").text
    assert "task state" in page.get("/ui/connectors/shop/events?kind=state").text
    assert "alert(1)" not in page.get("/ui/connectors/shop/events?kind=state").text
    answer = page.get("/connectors/shop/log?format=text")
    assert "attachment" in answer.headers["content-disposition"]
    assert answer.headers["content-type"].startswith("text/plain")
    assert "ERROR" in answer.text
    assert [each["kind"] for each in page.get("/connectors/shop/events").json()] == ["warning", "state"]
    assert page.get("/connectors/shop/log?level=nonsense").status_code == 400
    assert page.get("/connectors/shop/log?lines=0").status_code == 400
    assert page.get("/connectors/none/log").status_code == 404
    assert json.loads(page.get("/connectors/shop/log").text)[0]["text"] == "task state state=RUNNING"


@pytest.mark.parametrize(
    "path", ["/ui/connectors/shop/log", "/ui/connectors/shop/events", "/connectors/shop/log", "/connectors/shop/events"]
)
def test_logs_are_for_operators(page, path):
    page.connector("shop")
    page.caller.grants = Grants((Grant(Role.VIEWER),))
    assert page.get(path).status_code == 403
    assert "/connectors/shop/log" not in page.get("/ui/connectors/shop").text

    page.caller.grants = Grants((Grant(Role.OPERATOR),))
    assert page.get(path).status_code == 200
