"""What a signal asks for, read from its texts."""

from __future__ import annotations

import json

import pytest
from dblog.core.dumprequests import Order, SignalOrigin, request_from_json
from dblog.core.requested import Requests, StoredRequests, requests_from_text, requests_to_text, resumed
from dblog.core.signals import Execute, LogText, Nothing, Pause, Resume, Signal, SignalError, Stop, action_of, signal_from_json
from dblog.model import TableId

A, B = TableId("shop", "a"), TableId("shop", "b")


def signal(kind: str, data: object = None) -> Signal:
    return Signal("1", kind, "" if data is None else json.dumps(data), "here")


def execute(**data: object) -> Execute:
    action = action_of(signal("execute-snapshot", {"data-collections": ["shop.a"], **data}))
    assert isinstance(action, Execute)
    return action


def test_each_type_is_an_action_and_case_and_blanks_are_debeziums() -> None:
    assert action_of(signal("execute-snapshot", {"data-collections": [" shop.a "], "type": "Incremental"})) == Execute(
        ("shop.a",), {}, blocking=False, surrogate_key=None
    )
    assert execute(type="BLOCKING").blocking
    assert execute(**{"surrogate-key": " id "}).surrogate_key == "id"
    assert execute(**{"surrogate-key": " "}).surrogate_key is None
    assert action_of(signal("stop-snapshot", {"type": "incremental"})) == Stop(None)
    assert action_of(signal("stop-snapshot", {"data-collections": ["shop.a"]})) == Stop(("shop.a",))
    assert action_of(signal("pause-snapshot")) == Pause()
    assert action_of(signal("resume-snapshot", {})) == Resume()
    assert action_of(signal("log", {"message": "at {}"})) == LogText("at {}")
    assert isinstance(action_of(signal("schema-changes", {"changes": []})), Nothing)
    assert isinstance(action_of(signal("snapshot-window-open", {})), Nothing)


def test_the_first_filter_of_a_pattern_counts_and_an_empty_one_is_none() -> None:
    conditions = [{"data-collection": "shop.a", "filter": sql} for sql in (" ", "v = 1", "v = 2")]

    assert execute(**{"additional-conditions": conditions}).filters == {"shop.a": "v = 1"}


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("secret", {}),
        ("execute-snapshot", {}),
        ("execute-snapshot", {"data-collections": []}),
        ("execute-snapshot", {"data-collections": ["secret", 7]}),
        ("execute-snapshot", {"data-collections": ["(secret"]}),
        ("execute-snapshot", {"data-collections": ["secret"] * 1001}),
        ("execute-snapshot", {"data-collections": ["a"], "type": "secret"}),
        ("execute-snapshot", {"data-collections": ["a"], "type": ["secret"]}),
        ("execute-snapshot", {"data-collections": ["a"], "surrogate-key": ["secret"]}),
        ("execute-snapshot", {"data-collections": ["a"], "surrogate-key": "secret" * 11}),
        ("execute-snapshot", {"data-collections": ["a"], "additional-condition": "secret"}),
        ("execute-snapshot", {"data-collections": ["a"], "additional-conditions": ["secret"]}),
        ("execute-snapshot", {"data-collections": ["a"], "additional-conditions": [{"data-collection": "(secret", "filter": "x"}]}),
        ("execute-snapshot", {"data-collections": ["a"], "additional-conditions": [{"data-collection": "a", "filter": "secret\0"}]}),
        (
            "execute-snapshot",
            {"data-collections": ["a"], "type": "blocking", "additional-conditions": [{"data-collection": "a", "filter": "SELECT secret"}]},
        ),
        ("stop-snapshot", {"data-collections": ["secret", None]}),
        ("pause-snapshot", {"type": "secret"}),
        ("log", {"message": ["secret"]}),
        ("set-binlog-position", {"binlog_filename": "secret"}),
        ("execute-snapshot", ["secret"]),
        ("execute-snapshot", "secret" * 2000),
    ],
)
def test_what_is_no_signal_gets_a_reason_that_quotes_nothing_of_it(kind: str, data: object) -> None:  # number 25 of the worker's safety
    with pytest.raises(SignalError) as error:
        action_of(signal(kind, data))

    assert "secret" not in str(error.value)


def test_text_that_is_no_json_or_could_not_be_stored_is_refused() -> None:
    for text in ("{", "nonsense", '{"a": "\\ud800"}', "[" * 5000):
        with pytest.raises(SignalError, match="is not JSON"):
            action_of(Signal("1", "log", text, "here"))
    for value in (None, [], {"id": 1, "type": "log"}, {"id": "1"}):
        with pytest.raises(SignalError):
            signal_from_json(value, "here")
    assert signal_from_json({"id": "1", "type": "log", "data": {"message": "m"}}, "here").data == '{"message": "m"}'


def test_the_same_place_is_the_same_request_and_another_one_is_another() -> None:
    assert Signal("1", "log", "", "here").request_id == Signal("1", "log", "", "here").request_id
    assert Signal("1", "log", "", "here").request_id != Signal("1", "log", "", "there").request_id


def test_a_request_of_a_signal_is_in_the_offset_with_its_progress_its_check_and_its_end() -> None:
    request = execute().request(SignalOrigin("s", blocking=True), id="ab" * 6, connector="c", created_ms=7, chunk_rows=5)
    assert request_from_json(request.to_json()) == request
    assert (request.order, request.requested_by, request.chunk_rows) == (Order.AS_GIVEN, "signal", 5)
    fresh = Requests().added(request, [A, B], checked=False).with_signals_read("topic", 4)

    def again(requests: Requests) -> Requests:
        _, now = resumed([], requests_from_text(requests_to_text(requests)), tables=lambda _: [B], captured=lambda _: True)
        return now

    assert again(fresh) == fresh
    read = fresh.with_check(request.id, None).changed(
        request.id, lambda d: d.started(A, key=("id",), upto=(9,)).advanced(A, after=(5,), rows=5, done=False)
    )
    assert again(read) == read
    ended = read.changed(request.id, lambda d: d.dropped(A).dropped(B))
    (one,) = again(ended)
    assert (one.end, one.request) == (ended.by_id[request.id].end, request)
    assert again(ended.forgotten(request.id)).signals_read == {"topic": 4}
    # Where its progress has no room it begins again, and is checked again.
    without = json.loads(requests_to_text(read))
    del without["dumps"][request.id]["dump"]
    _, (begun,) = resumed([], requests_from_text(json.dumps(without)), tables=lambda _: [B], captured=lambda _: True)
    assert (list(begun.dump.left), begun.checked) == ([B], False)
    assert resumed([], StoredRequests(), tables=lambda _: [], captured=lambda _: True) == (Requests(), Requests())
