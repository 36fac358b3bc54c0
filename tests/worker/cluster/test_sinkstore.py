"""The fold of the sinks' reports: several sinks, gone ones, other versions, hostile records, and its bounds."""

import json
import threading
import time
from types import SimpleNamespace

import pytest
from dblog.cluster import sinkstore
from dblog.cluster.sinkrecords import SinkId, read_key, read_sink, read_table
from dblog.cluster.sinkstore import SinkTopic, SinkView
from dblog.errors import DefiniteError, TransientError
from dblog.kafka.log import LogRecord, UnreadableRecordError

SHOP = SinkId("shop", "/lake/_dblog")
NOW_S = 1_000_000.0


def key(sink=SHOP, topic=None):
    return json.dumps({"sink": sink.name, "state": sink.state_path, "topic": topic}).encode()


def record(key, value, *, live=True):
    return LogRecord(0, 0, key, None if value is None else json.dumps(value).encode(), live)


def report(**more):
    return {"version": 1, "at_ms": int(NOW_S * 1000), "program": "1.2", "interval_s": 10, "state": "running", "lag_s": 2.5} | more


def table(**more):
    return {"version": 1, "at_ms": 5, "name": "shop.orders", "path": "/lake/shop/orders", "mode": "auto", "rows": 7, "parked": None} | more


@pytest.fixture
def now():
    return [NOW_S]


@pytest.fixture
def view(now):
    return SinkView(SimpleNamespace(now_us=lambda: round(now[0] * 1_000_000)))


def test_each_sink_has_its_own_tables_and_a_topic_may_be_of_several(view):
    other = SinkId("shop", "/other/_dblog")
    for sink in (SHOP, other):
        view.take(record(key(sink), {**report(), "at_ms": 7}))
    view.take(record(key(topic="p.shop.orders"), table()))
    view.take(record(key(other, "p.shop.orders"), table(rows=9, parked="its key changed")))

    assert [(each.id, each.tables, each.parked) for each in view.sinks()] == [(SHOP, 1, 0), (other, 1, 1)]
    assert [(each.sink, each.table.rows) for each in view.of_topics(["p.shop.orders", "p.shop.none"])] == [(SHOP, 7), (other, 9)]


def test_a_sink_that_does_not_report_any_more_is_gone_and_its_lag_grows(view, now):
    view.take(record(key(), report()))
    assert (view.sink(SHOP).word(now[0]), view.sink(SHOP).lag_s(now[0])) == ("RUNNING", 2.5)

    now[0] += 31.0

    found = view.sink(SHOP)
    assert (found.word(now[0]), found.lag_s(now[0]), found.seen_s) == ("GONE", 33.5, NOW_S)


@pytest.mark.parametrize("state", ["stopped", "failed"])
def test_a_sink_that_said_how_it_ended_is_not_gone(view, now, state):
    view.take(record(key(), report(state=state)))
    now[0] += 3600.0

    assert view.sink(SHOP).word(now[0]) == state.upper()


def test_a_report_of_the_backlog_was_seen_when_it_was_made_and_one_of_a_clock_that_is_ahead_now(view, now):
    view.take(record(key(), {**report(), "at_ms": 5000}, live=False))
    assert view.sink(SHOP).seen_s == 5.0

    view.take(record(key(), {**report(), "at_ms": int((NOW_S + 9999) * 1000)}, live=False))
    assert view.sink(SHOP).seen_s == NOW_S


def test_fields_that_are_not_known_are_ignored_and_an_unknown_version_is_named(view, now):
    view.take(record(key(), {**report(), "at_ms": 5, "invented": {"a": 1}}))
    assert view.sink(SHOP).word(now[0]) == "RUNNING"

    view.take(record(key(), {"version": 2, "at_ms": 5, "program": "9.0", "state": {"new": "shape"}}))
    view.take(record(key(topic="p.shop.orders"), {"version": 2, "at_ms": 5}))

    found = view.sink(SHOP)
    assert (found.word(now[0]), found.report.version, found.report.program, found.report.is_known) == ("UNKNOWN", 2, "9.0", False)
    assert view.of_topics(["p.shop.orders"]) == []


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"{",
        b"[" * 100_000,
        b'{"version":1}',
        b'{"version":true,"at_ms":1}',
        b'{"version":1,"at_ms":"x"}',
        json.dumps(report(reason="x" * 20_000)).encode(),
    ],
)
def test_a_value_that_is_no_report_is_refused(view, value):
    with pytest.raises(UnreadableRecordError):
        view.take(LogRecord(0, 0, key(), value))

    assert view.sinks() == []


@pytest.mark.parametrize("bad", [b"", None, b"7", b'{"sink":1,"state":"s"}', b'{"sink":"a","state":"b","topic":3}'])
def test_a_key_of_something_else_is_refused(view, bad):
    assert read_key(bad) is None
    with pytest.raises(UnreadableRecordError):
        view.take(LogRecord(0, 0, bad, b"{}"))


def test_fields_of_the_wrong_kind_count_as_absent_and_long_ones_are_cut():
    wrong = {"lag_s": "x", "tables": 1.5, "work": {"a": 1}, "snapshot": [], "blocked": "t", "interval_s": float("nan"), "batches": 2**70}
    found = read_sink(json.dumps(report(at_ms=1, **wrong)).encode())
    assert (found.lag_s, found.tables, found.work, found.snapshot, found.blocked) == (None, None, (), {}, "")
    assert (found.interval_s, found.batches) == (1.0, None)

    cut = read_table(json.dumps(table(parked="p" * 5000, verified={"result": "differing", "missing": 3, "differing": None})).encode())
    assert (len(cut.parked), cut.verified.wrong, cut.verified.counts["differing"]) == (500, 3, 0)


def test_tombstones_remove_a_table_and_a_sink_with_its_tables(view):
    view.take(record(key(), {**report(), "at_ms": 1}))
    for topic in ("a", "b"):
        view.take(record(key(topic=topic), table()))

    view.take(record(key(topic="a"), None))
    assert view.topics_of(SHOP) == ["b"]

    view.take(record(key(), None))
    assert (view.sinks(), view.of_topics(["a", "b"])) == ([], [])


def test_the_view_is_bounded_in_sinks_and_tables(view, now, monkeypatch):
    monkeypatch.setattr(sinkstore, "SINKS_MAX", 2)
    monkeypatch.setattr(sinkstore, "TABLES_MAX", 3)
    for number in range(3):
        now[0] += 1.0
        sink = SinkId(f"s{number}", "/l")
        view.take(record(key(sink), {**report(), "at_ms": 1}))
        for topic in ("a", "b"):
            view.take(record(key(sink, topic), table()))

    assert [each.id.name for each in view.sinks()] == ["s1", "s2"], "the one that was seen longest ago gives way"
    assert len(view.of_topics(["a", "b"])) == 3
    assert view.left_out == 1, "the third table of s1; s0 then made room for those of s2"


def test_ten_thousand_tables_of_several_sinks_are_folded_quickly(view):
    records = [record(key(SinkId(f"s{number % 4}", "/l"), f"p.shop.t{number // 4}"), table()) for number in range(40_000)]
    began_s = time.process_time()

    for each in records:
        view.take(each)

    assert time.process_time() - began_s < 20.0
    assert len(view.of_topics(["p.shop.t9"])) == 4


class _Log:
    """A log that ends as the test says."""

    def __init__(self, take, failure):
        self.ended = None
        self._take = take
        self._failure = failure

    def start(self, *, limit_s):
        if self._failure is not None:
            raise self._failure
        self._take(record(key(), {**report(), "at_ms": 1}))

    def put_all(self, writes, *, limit_s):
        for each in writes:
            self._take(LogRecord(0, 0, each.key, each.value))

    def stop(self):
        pass


def test_a_topic_that_cannot_be_read_empties_the_view_says_why_and_is_opened_again(view, monkeypatch):
    monkeypatch.setattr(sinkstore, "_LOOK_S", 0.01)
    monkeypatch.setattr(sinkstore, "_BACKOFF", sinkstore.Backoff(first_s=0.01, max_s=0.01))
    logs, failures, moved = (
        [],
        [None, TransientError("the topic __dblog-sinks cannot be opened: it does not exist"), None],
        threading.Event(),
    )
    faults = []

    def make(take):
        faults.append(view.fault)
        logs.append(_Log(take, failures[len(logs)]))
        if len(logs) == 3:
            moved.set()
        return logs[-1]

    topic = SinkTopic(view, make, ensure=lambda: None)
    topic.start()
    deadline_s = time.monotonic() + 60.0
    while not view.sinks() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    logs[0].ended = TransientError("the topic was deleted")
    assert moved.wait(60.0)
    topic.stop()

    assert faults == ["", "the topic was deleted", "the topic __dblog-sinks cannot be opened: it does not exist"]


def test_a_sink_that_has_ended_is_removed_with_its_tables_and_one_that_reports_is_not(view, now):
    topic = SinkTopic(view, lambda take: _Log(take, None), ensure=lambda: None)
    with pytest.raises(TransientError):
        topic.forget(SHOP)
    topic.start()
    deadline_s = time.monotonic() + 60.0
    while not view.sinks() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    view.take(record(key(topic="p.shop.orders"), table()))
    view.take(record(key(), {**report(state="running"), "at_ms": 1}))
    now[0] = time.time()
    view.take(record(key(), {**report(state="running"), "at_ms": 1}))

    with pytest.raises(DefiniteError):
        topic.forget(SHOP)
    view.take(record(key(), {**report(state="stopped"), "at_ms": 1}))
    topic.forget(SHOP)
    topic.stop()

    assert (view.sinks(), view.of_topics(["p.shop.orders"])) == ([], [])
