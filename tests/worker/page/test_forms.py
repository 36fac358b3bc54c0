"""What the page makes of typed and pasted texts, without a worker."""

import json

import pytest
from dblog.cluster.requests import RequestError
from dblog.config.options import HIDDEN
from dblog.page.configuration import Change, changes_of, edited, form_of, pasted
from dblog.page.dumps import request_of
from dblog.page.formats import clock, count, duration, pattern, percent, rate, share, short, size
from dblog.page.tablelist import tables_of

STORED = {"connector.class": "io.debezium.connector.mysql.MySqlConnector", "database.password": "old-secret", "database.port": "3306"}


def test_a_pasted_configuration_may_be_json_of_a_request_or_alone_or_properties():
    config = {"connector.class": "x", "tasks.max": 1, "read.only": True}

    assert pasted(json.dumps({"name": "a", "config": config}), "") == ("a", {"connector.class": "x", "tasks.max": "1", "read.only": "true"})
    assert pasted(json.dumps({"name": "a", **config}), "b")[0] == "b"
    assert pasted("name=a\nconnector.class=x\n", "") == ("a", {"connector.class": "x"})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Paste a configuration"),
        ("{", "begins like JSON but is not valid"),
        ('{"connector.class": "x"}', "has no name"),
        ('{"name": "a", "config": {"x": {"y": 1}}}', "The value of x is not a text"),
    ],
)
def test_what_cannot_be_a_configuration_is_refused_with_the_reason(text, reason):
    with pytest.raises(RequestError, match=reason):
        pasted(text, "")


def test_an_empty_secret_keeps_the_stored_one_and_the_difference_hides_both():
    same = edited(STORED, {"f.database.password": "", "f.database.port": "3306"})
    other = edited(STORED, {"f.database.password": "new-secret", "f.database.port": "3307", "more": "a.b=c", "remove.connector.class": "1"})

    assert same == STORED
    assert changes_of(STORED, same) == []
    assert other == {"database.password": "new-secret", "database.port": "3307", "a.b": "c"}
    changes = {change.key: change for change in changes_of(STORED, {**other, "connector.class": STORED["connector.class"]})}
    assert changes["database.port"] == Change("database.port", "3306", "3307")
    assert changes["database.password"] == Change("database.password", HIDDEN, HIDDEN)
    assert changes["a.b"] == Change("a.b", None, "c")


def test_what_the_page_shows_in_place_of_a_secret_is_never_stored():  # number 29 of the worker's safety
    """A key may hold a salt, and a value a login: both come back as they were shown when another key is edited."""
    salted = {f"column.mask.hash.SHA-256.with.salt.{salt}": f"d.t.{salt[0]}" for salt in ("Alpine", "Brine")}
    stored = STORED | salted | {"value.converter.schema.registry.url": "http://u:pw123@registry:80"}
    form = form_of(stored, stored, {})
    shown = str(form)
    sent = {f"f.{field.key}": "" if field.is_secret else field.shown for field in form["fields"]}
    first, second = (name for name in sent if "salt" in name)

    assert not any(secret in shown for secret in ("Alpine", "Brine", "pw123", "old-secret"))
    assert edited(stored, sent) == stored
    other = edited(stored, {**sent, second: "d.t.x", f"remove.{first.removeprefix('f.')}": "1", "more": "a.b=c"})
    assert other == {
        **{k: v for k, v in stored.items() if "Alpine" not in k},
        "column.mask.hash.SHA-256.with.salt.Brine": "d.t.x",
        "a.b": "c",
    }
    assert not any(secret in str(changes_of(stored, other)) for secret in ("Alpine", "Brine", "pw123"))
    with pytest.raises(RequestError, match="type the whole value, or leave it as it was"):
        edited(stored, {"f.value.converter.schema.registry.url": f"http://{HIDDEN}@other:80"})
    added = {"more": "column.mask.hash.SHA-256.with.salt.Cairn=d.t.c", f"f.column.mask.hash.SHA-256.with.salt.{HIDDEN} (3)": "d.t.c"}
    assert set(edited(stored, added)) - set(stored) == {"column.mask.hash.SHA-256.with.salt.Cairn"}


def test_a_paste_with_too_many_levels_is_refused():
    with pytest.raises(RequestError, match="too many levels"):
        pasted('{"a":' * 100_000, "")


def test_a_dump_is_asked_for_in_the_words_of_the_rest_interface():
    fields = {"tables": " a\\.b \n\nc\\.d,e", "mode": "verify", "order": "size", "parallelism": "4", "chunk_rows": "", "wanted": "PAUSED"}

    assert request_of(fields) == {
        "tables": ["a\\.b", "c\\.d,e"], "mode": "verify", "order": "size", "parallelism": 4, "wanted": "PAUSED",
    }  # fmt: skip
    assert request_of({"tables": "a", "predicate": "n > 1"})["predicate"] == {"a": "n > 1"}
    for wrong, reason in (({"tables": " "}, "Name the tables"), ({"tables": "a", "parallelism": "many"}, "parallelism is a whole number")):
        with pytest.raises(RequestError, match=reason):
            request_of(wrong)


def test_a_table_whose_topic_has_another_name_is_one_table():
    dumps = [{"id": "d", "status": {"tables": [{"table": "a.b<c>", "state": "DONE", "rows": 1}]}}]

    found = tables_of(["p.a.b_c_", "p.a.d", "p"], "p", dumps, {"topic_records_total|p.a.b_c_": 5.0})

    assert [(each.name, each.topic, each.records, each.state) for each in found] == [
        ("a.b<c>", "p.a.b_c_", 5.0, "DONE"),
        ("a.d", "p.a.d", None, ""),
    ]


def test_numbers_are_written_for_people():
    assert [count(1234567), count(None), short(999), short(1234), short(0.26)] == ["1\u202f234\u202f567", "–", "999", "1.2\u202fk", "0.3"]
    assert [size(512), size(1536), size(20 * 1024**3), rate(35_000_000)] == ["512\u202fB", "1.5\u202fKiB", "20\u202fGiB", "35\u202fM/s"]
    assert [duration(0.0404), duration(3.2), duration(245), duration(7800), duration(273600), duration(None), duration(float("inf"))] == [
        "40\u202fms", "3.2\u202fs", "4\u202fmin 5\u202fs", "2\u202fh 10\u202fmin", "3\u202fd 4\u202fh", "–", "–",
    ]  # fmt: skip
    assert [percent(0.9999), percent(1.0), percent(0.5), share(5, 0), share(5, 10)] == ["99.9\u202f%", "100\u202f%", "50\u202f%", None, 0.5]
    assert clock(1_790_000_000) == "2026-09-21 14:13:20 UTC"
    assert pattern("in.a-b_ü") == "in\\.a\\-b_ü"
