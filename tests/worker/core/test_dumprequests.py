"""A request for a dump is read strictly, survives JSON, and changes by revisions."""

from __future__ import annotations

import datetime as dt
import json
import re
from decimal import Decimal

import pytest
from dblog.core.dumprequests import (
    KEYS_MAX,
    REQUEST_BYTES_MAX,
    DumpRequest,
    DumpStateError,
    Mode,
    Scope,
    Wanted,
    changed,
    parse_request,
    request_from_json,
    scope_of,
    selects,
    supersedes,
    with_table_wanted,
    with_wanted,
)
from dblog.errors import DefiniteError
from hypothesis import given
from hypothesis import strategies as st

ORDERS = {"tables": [r"inventory\.orders"]}


def parsed(body: object) -> DumpRequest:
    return parse_request(body, id="aaaabbbbcccc", connector="shop", created_ms=1764170000000, requested_by="rest")


def test_what_is_left_out_has_a_default_and_the_rest_is_kept() -> None:
    plain = parsed(ORDERS)
    whole = parsed(
        {
            **ORDERS,
            "mode": "columns",
            "predicate": {r"inventory\..*": "status = 'open'"},
            "columns": ["a", "b"],
            "surrogate_key": " at ",
            "chunk_rows": 8192,
            "delay_ms": 5,
            "parallelism": 4,
            "priority": -3,
            "order": "as_given",
            "wanted": "PAUSED",
        }
    )

    assert plain.to_json() == {
        "id": "aaaabbbbcccc",
        "connector": "shop",
        "revision": 1,
        "created_ms": 1764170000000,
        "requested_by": "rest",
        "mode": "rows",
        "tables": [r"inventory\.orders"],
        "predicate": {},
        "keys": None,
        "columns": None,
        "surrogate_key": None,
        "chunk_rows": None,
        "delay_ms": 0,
        "parallelism": 1,
        "priority": 0,
        "order": "name",
        "wanted": "RUNNING",
        "tables_wanted": {},
    }
    assert (whole.mode, whole.columns, whole.surrogate_key, whole.chunk_rows, whole.priority, whole.wanted) == (
        Mode.COLUMNS,
        ("a", "b"),
        "at",
        8192,
        -3,
        Wanted.PAUSED,
    )
    assert request_from_json(json.loads(json.dumps(whole.to_json()))) == whole


REFUSED = [
    # body, field, part of the reason and remedy
    ([], "body", "must be a JSON object"),
    ({}, "tables", "at least one"),
    ({"tables": []}, "tables", "at least one"),
    ({"tables": "inventory.orders"}, "tables", "must be a list of patterns"),
    ({"tables": [" "]}, "tables", "at least one"),
    ({"tables": ["a("]}, "tables", "not a regular expression that can be used"),
    ({"tables": ["a"] * 1001}, "tables", "1001 patterns"),
    ({**ORDERS, "chunk_rows": 0}, "chunk_rows", "whole number from 1 to"),
    ({**ORDERS, "chunk_rows": True}, "chunk_rows", "whole number from 1 to"),
    ({**ORDERS, "chunk_rows": 1.5}, "chunk_rows", "whole number from 1 to"),
    ({**ORDERS, "delay_ms": -1}, "delay_ms", "whole number from 0 to"),
    ({**ORDERS, "parallelism": 0}, "parallelism", "whole number from 1 to 64"),
    ({**ORDERS, "priority": 10**400}, "priority", "whole number from -1000 to 1000"),
    ({**ORDERS, "priority": None}, "priority", "whole number"),
    ({**ORDERS, "mode": "fix"}, "mode", "one of rows, repair, columns, verify"),
    ({**ORDERS, "mode": ["rows"]}, "mode", "one of rows"),
    ({**ORDERS, "order": "random"}, "order", "one of name, size, as_given"),
    ({**ORDERS, "wanted": "STOPPED"}, "wanted", "RUNNING or PAUSED"),
    ({**ORDERS, "table": "x"}, "table", "there is no such field; there are chunk_rows, columns"),
    ({**ORDERS, "id": "x"}, "id", "it is set by the worker; leave it out"),
    ({**ORDERS, "tables_wanted": {}}, "tables_wanted", "set by the worker"),
    ({**ORDERS, "predicate": "a = 1"}, "predicate", "must be a JSON object of SQL by pattern"),
    ({**ORDERS, "predicate": {"a": " "}}, "predicate", "must be a JSON object of SQL by pattern"),
    ({**ORDERS, "predicate": {"a(": "b = 1"}}, "predicate", "not a regular expression that can be used"),
    ({**ORDERS, "predicate": {"a": "b = '\0'"}}, "predicate", "NUL"),
    ({**ORDERS, "predicate": {"a": "b = 1", " a": "b = 2"}}, "predicate", "two of its patterns are the same but for blanks"),
    ({**ORDERS, "keys": []}, "keys", "a list of keys"),
    ({**ORDERS, "keys": [1, 2]}, "keys", "a list of keys"),
    ({**ORDERS, "keys": [[1], [1, 2]]}, "keys", "a value for each column"),
    ({**ORDERS, "keys": [[None]]}, "keys", "a number or a text"),
    ({**ORDERS, "keys": [[True]]}, "keys", "a number or a text"),
    ({**ORDERS, "keys": [[{"bytes": "x"}]]}, "keys", "a number or a text"),
    ({**ORDERS, "keys": [[{"bytes": "", "date": ""}]]}, "keys", "a number or a text"),
    ({**ORDERS, "keys": [[{"set": "x"}]]}, "keys", "bytes, decimal, datetime, date, micros"),
    ({**ORDERS, "keys": [[1]] * (KEYS_MAX + 1)}, "keys", "request several dumps"),
    ({"tables": ["a", "b"], "keys": [[1]]}, "keys", "name that table alone"),
    ({**ORDERS, "keys": [[1]], "predicate": {"a": "b = 1"}}, "predicate", "leave one of the two out"),
    ({**ORDERS, "mode": "repair", "keys": [[1]]}, "keys", "the sink could not know which of its rows are out of scope"),
    ({**ORDERS, "mode": "repair", "predicate": {"a": "b = 1"}}, "predicate", "the sink could not know which of its rows are out of scope"),
    ({**ORDERS, "mode": "verify", "predicate": {"a": "b = 1"}}, "predicate", "use the mode rows"),
    ({**ORDERS, "surrogate_key": " "}, "surrogate_key", "the name of a column"),
    ({**ORDERS, "surrogate_key": ["a"]}, "surrogate_key", "the name of a column"),
    ({**ORDERS, "surrogate_key": "a" * 65}, "surrogate_key", "at most 64 characters"),
    ({**ORDERS, "surrogate_key": "a", "keys": [[1]]}, "surrogate_key", "leave one of the two out"),
    ({**ORDERS, "surrogate_key": "a", "mode": "verify"}, "surrogate_key", "would be compared twice"),
    ({**ORDERS, "columns": ["a"]}, "columns", "use the mode columns"),
    ({**ORDERS, "mode": "columns"}, "columns", "name at least one"),
    ({**ORDERS, "mode": "columns", "columns": []}, "columns", "at least one"),
    ({**ORDERS, "mode": "columns", "columns": ["a", "A"]}, "columns", "named twice"),
    ({**ORDERS, "mode": "columns", "columns": ["a" * 65]}, "columns", "more than 64 characters"),
]


@pytest.mark.parametrize(("body", "name", "reason"), REFUSED)
def test_a_request_that_cannot_be_is_refused_with_field_reason_and_remedy(body: object, name: str, reason: str) -> None:
    with pytest.raises(DefiniteError) as raised:
        parsed(body)

    assert f" {name}: " in str(raised.value)
    assert reason in str(raised.value)


def test_all_that_is_wrong_is_in_one_answer() -> None:
    with pytest.raises(DefiniteError) as raised:
        parsed({"tables": ["a"], "chunk_rows": 0, "mode": "x", "tabels": []})

    assert re.findall(r"\. (\w+): ", str(raised.value)) == ["tabels", "mode", "chunk_rows"]


def test_a_request_is_bounded_in_bytes() -> None:
    with pytest.raises(DefiniteError, match=f"at most {REQUEST_BYTES_MAX} are allowed"):
        parsed({**ORDERS, "keys": [["k" * 100]] * (REQUEST_BYTES_MAX // 100)})


KEY_VALUES = st.one_of(
    st.integers(-(2**63), 2**64),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.datetimes(),
    st.dates(),
)


@given(st.lists(st.tuples(KEY_VALUES, KEY_VALUES), min_size=1, max_size=5))
def test_keys_of_every_type_survive_json(keys: list[tuple[object, ...]]) -> None:
    request = DumpRequest(id="a", connector="c", created_ms=1, requested_by="rest", mode=Mode.ROWS, tables=("a",), keys=tuple(keys))

    assert request_from_json(json.loads(json.dumps(request.to_json()))).keys == tuple(keys)


def test_keys_are_written_as_the_progress_of_a_dump_writes_them() -> None:
    body = {**ORDERS, "keys": [[1, {"decimal": "1.50"}, {"datetime": "2026-01-02T03:04:05"}, {"bytes": "q80="}]]}

    assert parsed(body).keys == ((1, Decimal("1.50"), dt.datetime(2026, 1, 2, 3, 4, 5), b"\xab\xcd"),)  # noqa: DTZ001  a column without a zone
    assert parsed(body).to_json()["keys"] == body["keys"]


@pytest.mark.parametrize(
    "value", [None, [], "x", {}, {"id": 1}, {**parsed(ORDERS).to_json(), "wanted": "GONE"}, {**parsed(ORDERS).to_json(), "id": ""}]
)
def test_what_is_no_request_is_not_read_as_one(value: object) -> None:
    with pytest.raises(DefiniteError, match=r"The request of a dump cannot be read\. "):
        request_from_json(value)


def test_fields_of_a_later_version_are_passed_over() -> None:
    assert request_from_json({**parsed(ORDERS).to_json(), "colour": "blue"}) == parsed(ORDERS)


# ---- changes


def test_a_change_gives_the_next_revision_and_one_without_effect_gives_none() -> None:
    request = parsed({**ORDERS, "chunk_rows": 10})

    faster = changed(request, {"chunk_rows": None, "parallelism": 4})

    assert (faster.revision, faster.chunk_rows, faster.parallelism, faster.delay_ms) == (2, None, 4, 0)
    assert changed(faster, {"parallelism": 4}) is faster
    assert supersedes(faster, request)
    assert not supersedes(request, faster)
    assert not supersedes(faster, faster)
    assert supersedes(request, None)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "there is nothing to change; give one or more of chunk_rows, delay_ms, parallelism, priority"),
        ([], "must be a JSON object"),
        ({"chunk_rows": 0}, "chunk_rows: it must be a whole number from 1 to"),
        ({"delay_ms": None}, "delay_ms: it must be a whole number"),
        ({"tables": ["a"]}, "tables: it stays as it is while the dump runs; stop this one and request another"),
        ({"mode": "repair"}, "mode: it stays as it is"),
        ({"wanted": "PAUSED"}, "wanted: it is not changed so; use pause, resume or stop"),
        ({"revision": 7}, "revision: there is no such field"),
    ],
)
def test_what_a_change_may_not_do_is_refused(body: object, reason: str) -> None:
    with pytest.raises(DefiniteError) as raised:
        changed(parsed(ORDERS), body)

    assert reason in str(raised.value)


def test_a_dump_is_paused_and_resumed_as_often_as_wanted_and_stopped_once() -> None:
    request = parsed(ORDERS)
    paused = with_wanted(request, Wanted.PAUSED)
    stopped = with_wanted(with_wanted(paused, Wanted.RUNNING), Wanted.STOPPED)

    assert (paused.revision, paused.wanted) == (2, Wanted.PAUSED)
    assert with_wanted(paused, Wanted.PAUSED) is paused
    assert (stopped.revision, with_wanted(stopped, Wanted.STOPPED)) == (4, stopped)
    for change in (
        lambda: with_wanted(stopped, Wanted.RUNNING),
        lambda: with_wanted(stopped, Wanted.PAUSED),
        lambda: changed(stopped, {"delay_ms": 1}),
        lambda: with_table_wanted(stopped, "inventory.orders", Wanted.PAUSED),
    ):
        with pytest.raises(DumpStateError, match="is being stopped, which cannot be taken back; request another one"):
            change()


def test_one_table_of_a_dump_is_paused_resumed_and_stopped_by_its_name() -> None:
    request = parsed({"tables": [r"inventory\..*"]})
    paused = with_table_wanted(request, "inventory.Orders", Wanted.PAUSED)
    stopped = with_table_wanted(paused, "inventory.items", Wanted.STOPPED)

    assert (stopped.revision, dict(stopped.tables_wanted)) == (3, {"inventory.Orders": Wanted.PAUSED, "inventory.items": Wanted.STOPPED})
    assert stopped.to_json()["tables_wanted"] == {"inventory.Orders": "PAUSED", "inventory.items": "STOPPED"}
    assert with_table_wanted(stopped, "inventory.Orders", Wanted.RUNNING).tables_wanted == {"inventory.items": Wanted.STOPPED}
    assert with_table_wanted(request, "inventory.a", Wanted.RUNNING) is request
    with pytest.raises(DumpStateError, match=r"inventory\.items of the dump aaaabbbbcccc is stopped"):
        with_table_wanted(stopped, "inventory.items", Wanted.RUNNING)
    with pytest.raises(
        DefiniteError, match=r"has no table shop\.a: none of its patterns matches that name, which is written database\.table"
    ):
        with_table_wanted(request, "shop.a", Wanted.RUNNING)


def test_a_table_is_meant_by_any_spelling_that_leaves_no_doubt() -> None:
    request = parsed({"tables": [r"inventory\..*"]})
    tables = ["inventory.Orders", "inventory.items", "inventory.ITEMS"]

    def paused(name: str) -> list[str]:
        return list(with_table_wanted(request, name, Wanted.PAUSED, tables=tables).tables_wanted)

    assert paused("INVENTORY.orders") == ["inventory.Orders"]
    assert paused("inventory.items") == ["inventory.items"]
    for name in ("inventory.Items", "inventory.nothing"):
        with pytest.raises(DefiniteError, match=rf"has no table {name}; GET /connectors/"):
            paused(name)


@pytest.mark.parametrize(
    ("whole", "table", "together"),
    [
        (Wanted.RUNNING, Wanted.PAUSED, Wanted.PAUSED),
        (Wanted.PAUSED, Wanted.RUNNING, Wanted.PAUSED),
        (Wanted.PAUSED, Wanted.STOPPED, Wanted.STOPPED),
        (Wanted.STOPPED, Wanted.PAUSED, Wanted.STOPPED),
        (Wanted.RUNNING, Wanted.RUNNING, Wanted.RUNNING),
    ],
)
def test_of_what_is_wanted_of_dump_and_table_the_lesser_counts(whole: Wanted, table: Wanted, together: Wanted) -> None:
    request = with_wanted(with_table_wanted(parsed(ORDERS), "inventory.orders", table), whole)

    assert request.wanted_of("inventory.orders") is together
    assert request.wanted_of("inventory.other") is whole


# ---- what it means for a table


def test_patterns_match_whole_names_without_case() -> None:
    of = selects(parsed({"tables": [r"inventory\.orders", r"shop\..*"]}))

    assert [of(name) for name in ("inventory.orders", "INVENTORY.Orders", "inventory.orders2", "shop.a", "ashop.a")] == [
        True,
        True,
        False,
        True,
        False,
    ]


def test_blanks_around_a_pattern_mean_nothing() -> None:
    request = parsed({"tables": [r" shop\.a "], "predicate": {r" shop\.a ": " x = 1 "}})

    assert (request.tables, request.predicate_of("shop.a")) == ((r"shop\.a",), " x = 1 ")


def test_the_first_predicate_that_matches_a_table_counts_and_decides_what_is_covered() -> None:
    request = parsed({"tables": [r"shop\..*"], "predicate": {r"shop\.a": "x = 1", r"shop\.[ab]": "y = 2"}})
    of = request.predicate_of

    assert [of(name) for name in ("shop.A", "shop.b", "shop.c")] == ["x = 1", "y = 2", None]
    assert [scope_of(request, of(name)) for name in ("shop.a", "shop.c")] == [Scope.PREDICATE, Scope.TABLE]
    assert scope_of(parsed({**ORDERS, "keys": [[1]]}), None) is Scope.KEYS
    assert scope_of(parsed({**ORDERS, "mode": "columns", "columns": ["a"], "predicate": {"a": "b"}}), "b") is Scope.COLUMNS
