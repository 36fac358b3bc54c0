"""The lake on the page: the fourth step of each connector, its tables' copies, the sinks, and who may see which."""

import time

import pytest
from dblog.cluster.sinkrecords import SinkId, SinkTable
from dblog.cluster.sinkstore import TABLES_MAX, SinkOfTable
from dblog.config.regex import Pattern
from dblog.config.roles import Grant, Grants, Role
from dblog.page.lake import resume_command

TOPIC = "shop.inventory.orders"


def now_ms():
    return int(time.time() * 1000)


@pytest.fixture
def shop(page):
    page.connector("shop", numbers={"lag_ms": 100.0, "log_last_record_timestamp_seconds": time.time()})
    page.topic("shop", TOPIC)
    return page


def test_without_a_sink_nothing_is_claimed_of_the_lake_and_the_list_says_what_to_do(shop):
    assert "Kafka to lake" not in shop.get("/ui/connectors/shop").text
    text = shop.get("/ui/sinks").text
    assert "No sink has reported yet" in text
    assert "__dblog-sinks" in text


def test_the_fourth_step_shows_the_lag_the_rows_and_the_newest_change(shop):
    shop.sink(lag_s=7.0, records_behind=3)
    shop.sink_table(TOPIC, rows=41, source_ts_ms=now_ms(), verified={"result": "equal", "at_ms": now_ms(), "equal": 41})

    text = shop.get("/ui/connectors/shop").text

    assert "Kafka to lake" in text
    assert "<b>7" in text
    assert ["<dt>Rows</dt><dd>41</dd>" in text, "1 equal" in text] == [True, True]
    assert "Rows in the lake" in shop.get("/ui/connectors/shop/tables").text
    assert ">41<" in shop.get("/ui/connectors/shop/tables").text
    assert f"/lake/{TOPIC}" in shop.get("/ui/connectors/shop/tables/inventory.orders").text


def test_a_parked_table_and_its_remedy_are_on_every_view_that_it_concerns(shop):
    shop.sink()
    shop.sink_table(TOPIC, parked="column total would lose digits <b>")

    for path in ("/ui/connectors/shop", "/ui/connectors/shop/tables/inventory.orders", "/ui/sinks/lake?state=/lake/_dblog"):
        text = shop.get(path).text
        assert "column total would lose digits &lt;b&gt;" in text
        assert "dblog-sink resume inventory.orders" in text
    assert "1 parked in the lake" in shop.get("/ui").text


@pytest.mark.parametrize(
    ("fields", "word", "sentence"),
    [
        ({"age_s": 3600.0}, "GONE", "It has not reported for a while"),
        ({"state": "failed", "reason": "no space is left"}, "FAILED", "no space is left"),
        ({"version": 7}, "UNKNOWN", "reports in version 7"),
        ({"state": "restarting", "reason": "a broker was away"}, "RESTARTING", "a broker was away"),
    ],
)
def test_a_sink_that_is_not_well_says_why_and_what_to_do(shop, fields, word, sentence):
    shop.sink(**fields)
    shop.sink_table(TOPIC)

    for path in ("/ui/sinks", "/ui/connectors/shop", "/ui/sinks/lake"):
        text = shop.get(path).text
        assert f">{word}<" in text or f"</i>{word}" in text
        assert sentence in text


def test_several_sinks_of_one_name_have_each_their_own_view(shop):
    shop.sink()
    shop.sink(state_path="/other/_dblog")
    shop.sink_table(TOPIC, rows=1)
    shop.sink_table(TOPIC, state_path="/other/_dblog", rows=2)

    assert ">2<" in shop.get("/ui/sinks/lake?state=/other/_dblog").text
    assert shop.get("/ui/sinks/lake?state=/none").status_code == 404
    assert shop.get("/ui/connectors/shop/tables/inventory.orders").text.count("In the lake") == 2


def test_a_user_of_some_connectors_sees_their_tables_alone_and_no_reason_that_may_name_others(shop):
    shop.connector("secret", numbers={})
    shop.topic("secret", "secret.hr.pay")
    shop.sink(state="failed", reason="table hr.pay is broken", work=["hr.pay"], lake="s3a://hr-bucket")
    shop.sink_table(TOPIC)
    shop.sink_table("secret.hr.pay", parked="hr.pay lost its key")
    shop.sink("theirs", state_path="/hr")
    shop.sink_table("secret.hr.pay", "theirs", state_path="/hr")
    shop.caller.grants = Grants((Grant(Role.READER, Pattern("shop")),))

    for path in ("/ui", "/ui/sinks", "/ui/sinks/lake", "/ui/connectors/shop", "/ui/connectors/shop/tables"):
        answer = shop.get(path)
        assert answer.status_code == 200
        assert not any(text in answer.text for text in ("hr.pay", "hr-bucket", "theirs"))
    assert shop.get("/ui/sinks/theirs").status_code == 404


@pytest.mark.parametrize("name", ['<script>alert("1")</script>', "\u202eright-to-left", "{{ 7*7 }}", "a/b%2F?#c"])
def test_hostile_names_of_sinks_and_tables_are_text(page, name):
    page.connector("shop", numbers={})
    page.topic("shop", f"shop.{name}")
    page.sink(name, reason=name, state="failed", lake=name)
    page.sink_table(f"shop.{name}", name, name=name, path=name, parked=name)

    for path in ("/ui/sinks", "/ui/connectors/shop", "/ui/connectors/shop/tables"):
        text = page.get(path).text
        assert "<script>alert" not in text
        assert ">49<" not in text


def test_the_views_stay_fast_with_ten_thousand_tables_of_a_sink(page):
    page.connector("shop", numbers={})
    page.sink()
    for number in range(10_000):
        page.topic("shop", f"shop.inventory.t{number}")
        page.sink_table(f"shop.inventory.t{number}", rows=number)
    assert TABLES_MAX >= 10_000

    began_s = time.process_time()
    for path in ("/ui", "/ui/sinks", "/ui/sinks/lake?q=t99", "/ui/connectors/shop", "/ui/connectors/shop/tables?q=t99"):
        assert page.get(path).status_code == 200

    assert time.process_time() - began_s < 15.0


def test_the_command_that_resumes_a_table_quotes_its_name_for_a_shell():
    """Whoever may create tables chooses names, and an operator copies the command."""
    table = SinkOfTable(sink=SinkId("s", "/state"), topic="t", table=SinkTable(at_ms=0, name="a.b; touch x"))

    assert resume_command(table).startswith("dblog-sink resume 'a.b; touch x' --config ")
