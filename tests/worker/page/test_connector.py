"""The views of one connector: what they show, to whom, and that hostile texts stay texts."""

import html
import json
import re
import time

import pytest
from dblog.cluster.dumprecords import KnownDump, dump_record
from dblog.cluster.records import TopicUse, topic_use_record
from dblog.config.roles import Grant, Grants, Role
from dblog.core.dumprequests import DumpRequest, Mode
from dblog.kafka.log import LogRecord

SECRET = "sesame-open"
VIEWS = ["", "/tables", "/dumps", "/offsets", "/config"]
HOSTILE = "<b onmouseover=alert(1)>\u202e'\"&"


def role(page, wanted):
    page.caller.grants = Grants((Grant(wanted),))


def topics(page, name, *tables):
    for number, table in enumerate(tables):
        use = TopicUse(topic=f"{name}.{table}", connector=name, task=0, discovered_ms=number)
        page.herder.statuses.log.take(LogRecord(0, 0, *topic_use_record(use.topic, name, use)))


def dump(page, name, id_="d1", *, state="RUNNING", **numbers):
    request = DumpRequest(id=id_, connector=name, created_ms=1_790_000_000_000, requested_by="rest", mode=Mode.ROWS, tables=("shop\\..*",))
    status = {
        "id": id_,
        "state": state,
        "tables_total": 2,
        "tables_done": 1,
        "tables_failed": 0,
        "rows": 500,
        "rows_estimated": 1000,
        "bytes": 9000,
        "chunks": 3,
        "rows_per_s": 50.0,
        "eta_s": 10.0,
        "eta_error": 0.1,
        "started_ms": 1,
        "ended_ms": 5,
        "reason": None,
        "tables": [
            {
                "table": "shop.<i>",
                "state": "FAILED",
                "rows": 500,
                "bytes": 1,
                "chunks": 1,
                "rows_estimated": 1000,
                "fault": HOSTILE,
                "reason": None,
            }
        ],
        **numbers,
    }
    page.herder.dumps.log.take(LogRecord(0, 0, *dump_record((name, id_), KnownDump(request, status))))


def test_a_connector_shows_its_way_from_the_source_to_the_topics(page):
    now_s = time.time()
    numbers = {
        "lag_ms": 1500.0,
        "log_behind_bytes": 2048.0,
        "log_purge_margin_bytes": 3 * 1024.0**3,
        "log_race_left_seconds": 7200.0,
        "log_last_record_timestamp_seconds": now_s,
        "queue_fill_ratio": 0.25,
        "records_acknowledged_total": 1234567.0,
    }
    page.connector("shop", numbers=numbers)
    topics(page, "shop", "a.b", "a.c")

    text = page.get("/ui/connectors/shop").text

    for shown in ("1.5\u202fs", "2\u202fKiB", "3\u202fGiB", "2\u202fh", "25\u202f%", "1\u202f234\u202f567"):
        assert shown in text
    assert text.index(">Source<") < text.index(">Worker<") < text.index(">Topics<")


@pytest.mark.parametrize("rest", VIEWS)
def test_hostile_texts_stay_texts_in_every_view(page, rest):
    name = "a/<script>b"
    page.connector(name, "RUNNING", "FAILED", trace=f"DefiniteError: {HOSTILE}", numbers={}, config={"note": HOSTILE})
    topics(page, name, f"x.{HOSTILE}")
    dump(page, name, state="FAILED", reason=HOSTILE)

    answer = page.get(f"/ui/connectors/a%2F%3Cscript%3Eb{rest}")

    assert answer.status_code == 200
    assert "<script>b" not in answer.text
    assert "<b onmouseover" not in answer.text
    assert html.escape("<script>b") in answer.text


def test_a_connector_that_is_not_there_and_one_that_is_not_for_the_caller_say_so(page):
    page.connector("shop", numbers={})

    assert page.get("/ui/connectors/none").status_code == 404
    assert "There is no connector none" in page.get("/ui/connectors/none").text
    page.caller.grants = Grants((Grant(Role.READER),))
    assert page.get("/ui/connectors/shop").status_code == 200
    refused = page.get("/ui/connectors/shop/config")
    assert (refused.status_code, "This takes the role viewer of the connector shop, which eve does not have" in refused.text) == (403, True)


def test_only_operators_get_actions_and_only_administrators_may_delete_and_edit(page):
    page.connector("shop", numbers={})
    seen = {}
    for wanted in (Role.READER, Role.VIEWER, Role.OPERATOR, Role.ADMIN):
        role(page, wanted)
        text = page.get("/ui/connectors/shop").text + page.get("/ui/connectors/shop/config").text
        seen[wanted.name] = ["/confirm/pause" in text, "/confirm/delete" in text, "/config/edit" in text]

    assert seen == {
        "READER": [False, False, False], "VIEWER": [False, False, False], "OPERATOR": [True, False, False], "ADMIN": [True, True, True],
    }  # fmt: skip


# number 29 of the worker's safety
@pytest.mark.parametrize("rest", ["/config", "/config/edit"])
def test_no_secret_is_in_a_page(page, rest):
    page.connector("shop", numbers={}, config={"database.password": SECRET, "producer.override.sasl.jaas.config": SECRET})

    text = page.get(f"/ui/connectors/shop{rest}").text

    assert "database.password" in text
    assert SECRET not in text


def test_tables_are_searched_and_paged_on_the_server_ten_thousand_of_them_too(page):
    page.connector("shop", numbers={"tables_captured": 10_000.0, "topic_records_total|shop.inventory.t00007": 42.0})
    topics(page, "shop", *(f"inventory.t{number:05}" for number in range(10_000)))

    began_s = time.process_time()
    first = page.get("/ui/connectors/shop/tables")
    took_s = time.process_time() - began_s

    assert took_s < 1.0
    assert first.text.count("<tr>") == 51
    assert "Page 1 of 200" in first.text
    assert len(first.content) < 150_000
    found = page.get("/ui/connectors/shop/tables?q=T00007").text
    assert (found.count("<tr>"), ">42<" in found) == (2, True)
    assert "No table matches" in page.get("/ui/connectors/shop/tables?q=none").text


def test_a_table_has_a_view_of_its_own_and_an_unknown_one_says_so(page):
    page.connector("shop", numbers={"topic_records_total|shop.a.<b>": 7.0})
    topics(page, "shop", "a.<b>")

    found = page.get("/ui/connectors/shop/tables/a.%3Cb%3E")
    assert (found.status_code, "shop.a.&lt;b&gt;" in found.text, "<b>" in found.text.partition("<main")[2]) == (200, True, False)
    assert "No schema in this worker" in found.text
    assert page.get("/ui/connectors/shop/tables/none").status_code == 404


def test_a_large_part_is_packed_for_the_pages_script_alone(page):
    for number in range(30):
        page.connector(f"shop-{number}", numbers={})

    part, whole = page.get("/ui", script=True), page.get("/ui")
    plain = page.get("/ui", script=True, headers={"Accept-Encoding": "identity"})

    assert part.headers["content-encoding"] == "gzip"
    assert part.text == plain.text
    assert "content-encoding" not in whole.headers
    assert "content-encoding" not in plain.headers


def test_a_dump_shows_its_progress_and_the_reason_of_a_table_that_failed(page):
    page.connector("shop", numbers={})
    dump(page, "shop", state="DONE")

    listed, text = page.get("/ui/connectors/shop/dumps").text, page.get("/ui/connectors/shop/dumps/d1").text
    tables = page.get("/ui/connectors/shop/tables").text

    assert "500 of about 1\u202f000 rows, 1 of 2 tables" in listed
    for shown in ("of about 1\u202f000", "wrong by 10\u202f% so far", html.escape("onmouseover=alert(1)"), "<rect"):
        assert shown in text
    assert 'href="/ui/connectors/shop/dumps/d1"' in tables
    assert page.get("/ui/connectors/shop/dumps/none").status_code == 404


def test_the_stored_position_is_in_words_and_hides_keys_of_rows_from_readers(page):
    page.connector("shop", numbers={"offset_last_commit_timestamp_seconds": time.time()})
    offset = {"file": "bin.000003", "pos": 1234567, "gtids": "0-1-99", "ts_sec": 1_790_000_000, "dblog_dump": '{"after":[471147114711]}'}
    page.herder.offsets.log.take(
        LogRecord(0, 0, json.dumps(["shop", {"server": "shop"}], separators=(",", ":")).encode(), json.dumps(offset).encode())
    )

    whole = page.get("/ui/connectors/shop/offsets").text
    role(page, Role.READER)
    hidden = page.get("/ui/connectors/shop/offsets").text

    assert "bin.000003, byte 1\u202f234\u202f567" in whole
    assert "2026-09-21 14:13:20 UTC" in whole
    assert ("471147114711" in whole, "471147114711" in hidden) == (True, False)


def test_a_confirmation_says_the_effect_in_numbers(page):
    page.connector("shop", numbers={"offset_last_commit_timestamp_seconds": time.time() - 30, "log_purge_margin_bytes": 1024.0**3})
    topics(page, "shop", "a.b", "a.c", "a.d")

    def said(what):
        return page.get(f"/ui/connectors/shop/confirm/{what}", script=True).text

    assert "1 task reads nothing more" in said("pause")
    assert "1\u202fGiB of older log go first" in said("stop")
    assert re.search(r"That was stored 3\d\u202fs ago: what was sent since then may be sent twice\.", said("restart"))
    assert "3 topics with the records stay" in said("delete")
    assert page.get("/ui/connectors/shop/confirm/none", script=True).status_code == 404
    role(page, Role.READER)
    assert page.get("/ui/connectors/shop/confirm/pause", script=True).status_code == 403


# number 6 of the worker's safety
def test_a_change_takes_the_header_that_no_other_page_can_send(page):
    page.connector("shop", numbers={})
    path = "/ui/connectors/shop/do/pause"

    plain = page.request("POST", path)
    form = page.request("POST", path, script=True, data={"a": "b"})
    foreign = page.request("POST", path, script=True, headers={"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"})

    assert (plain.status_code, "Only this page itself" in plain.text) == (403, True)
    assert form.status_code == 415
    assert (foreign.status_code, "A page of another origin" in foreign.text) == (403, True)
    assert page.herder.configs.view("shop").target.value == "STARTED"
