"""The overview and the seam that every view stands on: roles, headers, escaping, polling that costs little."""

import html
import time

import pytest
from dblog.config.regex import Pattern
from dblog.config.roles import NOTHING, Grant, Grants, Role
from dblog.page.views import ACTIONS, DATA, VIEWS
from dblog.rest.pageheaders import POLICY
from support.held_page import HeldPage

HOSTILE = ['<script>alert("1")</script>', "\u202eright-to-left", "x" * 200, "a'b\"c&d<e>", "{{ 7*7 }}", "a/b%2F?#c"]
TRACE = "DefiniteError: no such table <img src=x onerror=alert(1)>\nOnce the cause is gone: POST /connectors/x/restart"


def test_an_empty_worker_says_what_to_do_first(page):
    answer = page.get("/ui")

    assert answer.status_code == 200
    assert "No connector yet" in answer.text
    assert 'href="/ui/new"' in answer.text


def test_the_overview_shows_what_is_wrong_first_with_its_sentence_and_remedy(page):
    page.connector("shop", numbers={"lag_ms": 1500.0, "log_last_record_timestamp_seconds": time.time()})
    page.connector("billing", "RUNNING", "FAILED", trace="DefiniteError: the password is wrong\nOnce the cause is gone: POST /x")

    text = page.get("/ui").text

    assert text.index("the password is wrong") < text.index(">shop<")
    assert "Once the cause is gone, restart its failed parts." in text
    assert "1.5\u202fs" in text
    assert ["FAILED" in text, "RUNNING" in text] == [True, True]


# number 6 of the worker's safety
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_and_errors_are_text(page, name):
    page.connector(name, "RUNNING", "FAILED", trace=TRACE)

    text = page.get("/ui").text

    assert "<script>alert" not in text
    assert "<img" not in text
    assert ">49<" not in text
    assert html.escape(name, quote=False) in text or name in html.unescape(text)
    assert page.get("/ui", params={"q": name}).text.count("<script") == page.get("/ui").text.count("<script")


def test_every_answer_below_the_pages_address_forbids_scripts_from_elsewhere_and_frames(page):
    page.connector("shop", numbers={})
    paths = ["/ui", "/ui?q=<b>", "/ui/nothing", "/ui/connectors/none", "/ui/series", "/ui/assets/nothing.js"]

    for answer in map(page.get, paths):
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert page.get("/ui").headers["cache-control"] == "no-store"
    assert "content-security-policy" not in page.get("/connectors").headers


def test_no_template_has_inline_script_style_or_an_address_elsewhere(page):
    page.connector("shop", numbers={"log_last_record_timestamp_seconds": time.time(), "dump_running": 1.0, "dump_tables_total": 3.0})
    text = page.get("/ui").text

    assert "<script>" not in text
    assert "<style" not in text
    assert " style=" not in text
    assert " onclick" not in text
    assert "//" not in text.replace("http://127.0.0.1", "").partition("<body")[0].replace("<!doctype", "")


def test_a_part_that_has_not_changed_is_answered_without_a_body(page):
    page.connector("shop", numbers={"lag_ms": 5.0})
    first = page.get("/ui", script=True)
    assert first.status_code == 200
    assert "<html" not in first.text

    again = page.get("/ui", script=True, headers={"X-Dblog-Seen": first.headers["x-dblog-seen"]})
    assert (again.status_code, again.content) == (204, b"")

    page.connector("billing", numbers={"lag_ms": 5.0})
    changed = page.get("/ui", script=True, headers={"X-Dblog-Seen": first.headers["x-dblog-seen"]})
    assert (changed.status_code, "billing" in changed.text) == (200, True)


def test_a_caller_sees_only_the_connectors_that_are_its_own(page):
    for name in ("alpha", "beta"):
        page.connector(name, "RUNNING", "FAILED", numbers={}, trace="DefiniteError: lost")
    page.caller.grants = Grants((Grant(Role.READER, Pattern("b.*")),))

    text = page.get("/ui").text
    assert ("beta" in text, "alpha" in text) == (True, False)
    assert "<b>1</b><span>all</span>" in text
    assert "New connector" not in text
    assert page.get("/ui/series").status_code == 400

    page.caller.grants = NOTHING
    assert page.get("/ui").status_code == 403


def test_a_worker_that_starts_says_what_it_does_and_the_page_comes_back(page):
    page.herder.ready.clear()

    answer = page.get("/ui")
    assert (answer.status_code, "The worker is starting" in answer.text, "data-reload" in answer.text) == (503, True, True)
    assert page.get("/ui", script=True).status_code == 503

    page.herder.ready.set()
    assert page.get("/ui").status_code == 200


def test_a_standby_names_the_leader(monkeypatch):
    made = HeldPage(monkeypatch, leads=False)
    try:
        made.connector("shop")
        text = made.get("/ui").text
    finally:
        made.close()

    assert "This worker stands by" in text
    assert 'href="http://other:8083/ui"' in text


def test_a_thousand_connectors_are_listed_within_a_second_and_in_pages(page):
    for number in range(1000):
        page.connector(f"shop-{number:04}", numbers={"lag_ms": float(number), "log_last_record_timestamp_seconds": time.time()})
    page.get("/ui")

    took = []
    for query in ("?q=0500", "?page=20", "?state=running"):
        began_s = time.process_time()
        answer = page.get(f"/ui{query}")
        took.append(time.process_time() - began_s)
        assert answer.status_code == 200
        assert len(answer.content) < 150_000

    assert min(took) < 1.0
    assert page.get("/ui?q=0500").text.count("<tr>") == 2


def test_the_series_are_numbers_for_a_chart_and_a_wrong_reach_is_refused(page):
    page.connector("shop", numbers={"lag_ms": 5.0})
    page.recorder.record()

    answer = page.get("/ui/series?reach=1h").json()
    assert (answer["reach"], len(answer["series"]["lag_s"]), answer["series"]["lag_s"][-1]) == ("1h", 120, 0.005)
    wrong = page.get("/ui/series?reach=1y")
    assert (wrong.status_code, "there are 5m, 1h, 24h" in wrong.text) == (400, True)


def test_every_view_is_declared_once_with_its_role():
    paths = [each.path for each in (*VIEWS, *DATA)]

    assert len(paths) == len(set(paths))
    assert len({each.path for each in ACTIONS}) == len(ACTIONS)
