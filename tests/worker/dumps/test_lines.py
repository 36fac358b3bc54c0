"""What is printed of dumps."""

import json

import pytest
from dblog.dumps.lines import bar, details_of, duration, headline, picture_of, progress_of, share, table_line, table_of
from dblog.dumps.printable import json_of

TABLE = {
    "table": "shop.orders",
    "state": "RUNNING",
    "rows": 5_000_000,
    "chunks": 610,
    "rows_estimated": 9_800_000,
    "chunk_rows": 8192,
    "reason": None,
    "fault": None,
}
STATUS = {
    "state": "RUNNING",
    "tables_total": 10,
    "tables_done": 3,
    "tables_failed": 1,
    "rows": 10_400_000,
    "rows_estimated": 20_000_000,
    "rows_per_s": 32_000.4,
    "eta_s": 300.0,
    "reason": None,
    "tables": [TABLE, {**TABLE, "table": "shop.items", "state": "FAILED", "rows_estimated": None, "fault": "it has no key"}],
}
DUMP = {
    "id": "aaaabbbbcccc",
    "connector": "shop",
    "requested_by": "rest",
    "mode": "rows",
    "tables": [r"shop\.orders", r"shop\.items"],
    "predicate": {r"shop\.orders": "status = 'open'"},
    "keys": None,
    "columns": None,
    "chunk_rows": None,
    "delay_ms": 0,
    "parallelism": 4,
    "priority": 0,
    "order": "name",
    "wanted": "RUNNING",
    "status": STATUS,
}
OWN = {
    "id": "initial",
    "connector": "shop",
    "requested_by": "connector",
    "mode": "rows",
    "status": {**STATUS, "state": "DONE", "tables": []},
}


def test_a_list_has_a_line_for_each_dump():
    assert list(table_of([OWN, DUMP])) == [
        "ID            MODE  STATE    DONE   TABLES   ROWS        PATTERNS",
        "initial       rows  DONE     100 %  3 of 10  10 400 000  (the connector's own)",
        r"aaaabbbbcccc  rows  RUNNING  52 %   3 of 10  10 400 000  shop\.orders, shop\.items",
    ]


def test_the_details_have_what_was_asked_how_far_it_is_and_the_tables():
    assert list(details_of(DUMP)) == [
        "dump aaaabbbbcccc of shop (rows): RUNNING",
        r"  tables: shop\.orders, shop\.items",
        r"  predicate: shop\.orders: status = 'open'",
        "  delay_ms: 0",
        "  parallelism: 4",
        "  priority: 0",
        "  order: name",
        "  wanted: RUNNING",
        "  52 %, 10 400 000 of about 20 000 000 rows, 3 of 10 tables, 1 failed, 32 000 rows/s, 5 min left",
        "    shop.orders  RUNNING  5 000 000 of about 9 800 000 rows, 610 chunks, 8 192 rows a chunk",
        "    shop.items  FAILED  5 000 000 rows, 610 chunks, it has no key",
    ]
    assert "  keys: 2" in list(details_of({**DUMP, "keys": [[1], [2]]})), "keys are rows' values: their number does"


def test_the_picture_has_a_bar_for_the_dump_and_for_each_table():
    assert picture_of(DUMP, width=200, height=24) == [
        "dump aaaabbbbcccc of shop (rows): RUNNING",
        "[############............] 52 %, 10 400 000 of about 20 000 000 rows, 3 of 10 tables, 1 failed, 32 000 rows/s, 5 min left",
        "  [######......] shop.orders  RUNNING  5 000 000 of about 9 800 000 rows, 610 chunks, 8 192 rows a chunk",
        "  [............] shop.items   FAILED  5 000 000 rows, 610 chunks, it has no key",
        "  and 8 more tables",
    ]


def test_a_rate_has_its_time_to_the_end_how_wrong_that_was_and_what_makes_it_slow():
    governor = {"state": "held", "reason": "threads.running is 41, the limit 40 (dblog.dump.limit.threads.running)", "measured": 41}

    assert progress_of({**STATUS, "bytes": 1_300_000_000, "eta_error": 0.18, "governor": governor}) == (
        "52 %, 10 400 000 of about 20 000 000 rows, 1.21 GiB, 3 of 10 tables, 1 failed, 32 000 rows/s, 5 min left ± 18 %, "
        "held: threads.running is 41, the limit 40 (dblog.dump.limit.threads.running)"
    )
    assert "free" not in progress_of({**STATUS, "governor": {"state": "free", "reason": None}})
    assert table_line({**TABLE, "chunks_open": 2, "chunks_read_again": 3, "eta_s": 60.0, "eta_error": None}, width=0) == (
        "shop.orders  RUNNING  5 000 000 of about 9 800 000 rows, 610 chunks, 2 open, 3 read again, 60 s left, 8 192 rows a chunk"
    )


@pytest.mark.parametrize(("width", "height"), [(20, 4), (1, 1), (80, 5)])
def test_the_picture_never_outgrows_its_terminal(width, height):
    many = {**DUMP, "status": {**STATUS, "tables": [TABLE] * 200}}

    lines = picture_of(many, width=width, height=height)

    assert len(lines) < max(height, 4)
    assert max(map(len, lines)) <= max(1, width - 1)


@pytest.mark.parametrize(
    ("changes", "done"),
    [
        ({}, 0.52),
        ({"state": "DONE"}, 1.0),
        ({"rows_estimated": 100}, 0.99),
        ({"rows_estimated": 0}, 0.3),
        ({"rows_estimated": None}, 0.3),
        ({"rows_estimated": None, "tables_total": None}, None),
        ({"rows": 0}, 0.0),
    ],
)
def test_the_share_that_is_done_is_an_estimate_until_the_end(changes, done):
    assert share({**STATUS, **changes}) == done


def test_what_is_not_known_is_not_made_up():
    status = {"state": "WAITING", "tables_total": None, "tables_done": 0, "rows": 0, "rows_estimated": None, "tables": []}

    assert progress_of(status) == "?, 0 rows, 0 of ? tables"
    assert headline({**DUMP, "status": {**status, "reason": "the connector is paused"}}) == (
        "dump aaaabbbbcccc of shop (rows): WAITING, the connector is paused"
    )
    assert headline(OWN) == "the connector's own dump of shop (rows): DONE"
    assert bar(None, 4) == "[....]"


@pytest.mark.parametrize(
    ("wanted", "state", "text"),
    [
        ("PAUSED", "RUNNING", "RUNNING (asked to be PAUSED)"),
        ("PAUSED", "PAUSED", "PAUSED"),
        ("RUNNING", "PAUSED", "PAUSED (asked to go on)"),
        ("STOPPED", "WAITING", "WAITING (asked to be STOPPED)"),
        ("STOPPED", "DONE", "DONE"),
    ],
)
def test_what_was_asked_for_and_is_not_yet_is_said(wanted, state, text):
    assert headline({**DUMP, "wanted": wanted, "status": {**STATUS, "state": state}}).endswith(f"(rows): {text}")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0 s"), (0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (9000, "2 h 30 min"), (200_000, "2 days")],
)
def test_times_are_written_as_people_say_them(seconds, text):
    assert duration(seconds) == text


def test_names_and_sentences_of_others_do_not_write_to_the_terminal():
    """Whoever may create a table in a captured database names it as they like."""
    name, told = "shop.\x1b[2J\x9b1mO\u202er\x7f\n", r"shop.\u001b[2J\u009b1mO\u202er\u007f\n"
    table = {**TABLE, "table": name, "state": "FAILED", "fault": f"{name} is gone"}
    governor = {"state": "held", "reason": name}
    status = {**STATUS, "state": "FAILED", "reason": f"{name} is gone", "tables": [table], "governor": governor}
    dump = {**DUMP, "tables": [name], "predicate": {name: "a\tb"}, "status": status}

    lines = [*table_of([dump]), *details_of(dump), *picture_of(dump, width=400, height=24)]

    assert all(line.isprintable() for line in lines)
    assert sum(told in line for line in lines) == len([line for line in lines if "shop." in line]) == 9
    assert table_line({**TABLE, "table": "shop.größe_表"}, width=0).startswith("shop.größe_表  "), "letters of all languages are no danger"


def test_json_has_the_same_meaning_without_what_is_not_printed():
    value = {"tables": ["a\x1b\x9b\x7f\u202e\U000e0041b", "größe"]}

    text = json_of(value)

    assert json.loads(text) == value
    assert all(line.isprintable() for line in text.split("\n"))
    assert "größe" in text
