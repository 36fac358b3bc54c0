"""The topic of dump requests as a view: which record counts, what is kept, and what the worker that leads puts right."""

import json

import pytest
from dblog.cluster.dumprecords import KnownDump, dump_record, read_dump_record, read_status, read_statuses
from dblog.cluster.dumpstore import ENDED_KEPT, DumpStore
from dblog.core.dumprequests import DumpRequest, Mode, Wanted, changed, with_wanted
from dblog.kafka.log import LogRecord, UnreadableRecordError
from support.held_herder import HeldLog


def request(dump="d1", connector="c", created_ms=1, **more):
    return DumpRequest(id=dump, connector=connector, created_ms=created_ms, requested_by="rest", mode=Mode.ROWS, tables=(".*",), **more)


def end(dump="d1", state="DONE", ended_ms=5, **more):
    return {"id": dump, "state": state, "ended_ms": ended_ms, "rows": 7, "tables": [], **more}


@pytest.fixture
def seen():
    return []


@pytest.fixture
def store(seen):
    return DumpStore("dumps", HeldLog, on_change=seen.append, record_bytes_max=1_000_000)


def read(store, known, key=("c", "d1"), *, live=True):
    store.log.take(LogRecord(0, 0, *dump_record(known.key if known else key, known), live))


def test_a_record_survives_its_bytes():
    for known in (KnownDump(request()), KnownDump(request(keys=((1, b"\xff"),)), end(reason="über"))):
        assert read_dump_record(*dump_record(known.key, known)) == (known.key, known)
    assert read_dump_record(*dump_record(("c", "d1"), None)) == (("c", "d1"), None)
    assert dump_record(("c", "d1"), None)[0] == b'["c","d1"]'


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"c", b"{}"),
        (b'["c"]', b"{}"),
        (b'["c","d1"]', b"["),
        (b'["c","d1"]', b'{"request":{}}'),
        (b'["c","\\ud800"]', None),
        (b'["c","d2"]', dump_record(("c", "d1"), KnownDump(request()))[1]),
        (b'["c","d1"]', json.dumps({"request": request().to_json(), "end": {"id": "d1", "state": "GONE"}}).encode()),
        (b'["c","d1"]', json.dumps({"request": request().to_json(), "end": {"id": "d1", "state": ["DONE"]}}).encode()),
        (b'["c","d1"]', b"[" * 100_000),
    ],
)
def test_what_is_no_record_of_a_dump_is_reported_and_skipped(store, key, value):
    with pytest.raises(UnreadableRecordError):
        store.log.take(LogRecord(0, 0, key, value))

    assert store.connectors() == []


def test_a_status_is_bounded_and_keeps_what_this_version_does_not_know():
    status = read_status(
        {**end(reason="x" * 9000), "colour": "blue", "tables": [{"table": f"t{n}", "fault": "y" * 9000} for n in range(500)]}
    )

    assert (len(status["reason"]), status["colour"], len(status["tables"]), len(status["tables"][0]["fault"])) == (2000, "blue", 200, 2000)
    assert read_statuses([end("a"), 7, {}, {"id": "b"}, end("b", "NEVER"), {"id": 1, "state": "DONE"}, end("b", "RUNNING")]).keys() == {
        "a",
        "b",
    }
    assert read_statuses(None) == {}


def test_the_newest_revision_counts_and_what_has_not_ended_is_listed_oldest_first(store, seen):
    later, first = request("d1", created_ms=2), request("d2", created_ms=1)
    for each in (later, changed(later, {"priority": 1}), first, request("d3", created_ms=3)):
        read(store, KnownDump(each))
    read(store, KnownDump(request("d3", created_ms=3), end("d3")))

    assert [(each.id, each.revision) for each in store.open("c")] == [("d2", 1), ("d1", 2)]
    assert [known.request.id for known in store.of("c")] == ["d2", "d1", "d3"]
    assert store.get(("c", "d3")).end["state"] == "DONE"
    assert (store.open("other"), store.get(("other", "d1")), store.get(("c", "d9"))) == ([], None, None)
    assert set(seen) == {("c", "d1"), ("c", "d2"), ("c", "d3")}


def test_records_of_the_backlog_are_no_news(store, seen):
    read(store, KnownDump(request()), live=False)

    assert (len(store.open("c")), seen) == (1, [])


def exists(name):
    return name == "c"


def test_a_late_record_of_a_worker_that_was_overtaken_counts_for_nothing_and_is_written_over(store):
    old, new = request(), with_wanted(request(), Wanted.PAUSED)
    read(store, KnownDump(new))
    assert not store.is_untidy(exists=exists)
    read(store, KnownDump(old))
    assert store.open("c") == [new]

    assert store.is_untidy(exists=exists)
    store.tidy_later(exists=exists)
    store.tidy_later(exists=exists)

    assert len(store.log.put) == 1, "what is on its way is not sent again"
    store.log.read_back()
    assert (store.open("c"), store.is_untidy(exists=exists)) == ([new], False)


def test_of_two_workers_that_wrote_the_same_revision_the_first_counts(store):
    first, second = with_wanted(request(), Wanted.PAUSED), changed(request(), {"priority": 9})
    for each in (request(), first, second):
        read(store, KnownDump(each))

    assert store.open("c") == [first]
    store.tidy_later(exists=exists)
    store.log.read_back()
    assert (store.open("c"), store.is_untidy(exists=exists)) == ([first], False)


def test_an_end_stays_whatever_arrives_later(store):
    read(store, KnownDump(request(), end()))

    read(store, KnownDump(with_wanted(request(), Wanted.PAUSED)))

    assert (store.open("c"), store.get(("c", "d1")).end["state"]) == ([], "DONE")
    store.tidy_later(exists=exists)
    store.log.read_back()
    assert (store.open("c"), store.is_untidy(exists=exists)) == ([], False)


def test_of_what_has_ended_the_newest_of_each_connector_are_kept(store):
    for number in range(ENDED_KEPT + 2):
        read(store, KnownDump(request(f"d{number}", created_ms=number), end(f"d{number}", ended_ms=1000 - number)))
    read(store, KnownDump(request("open")))

    store.tidy_later(exists=exists)
    store.log.read_back()

    kept = {known.request.id for known in store.of("c")}
    assert kept == {"open"} | {f"d{number}" for number in range(ENDED_KEPT)}, "the last two ended first"
    assert not store.is_untidy(exists=exists)


def test_requests_of_a_connector_that_is_gone_are_removed(store):
    read(store, KnownDump(request(connector="gone")))
    read(store, KnownDump(request()))

    store.tidy_later(exists=exists)
    store.log.read_back()

    assert store.connectors() == ["c"]


def test_what_was_sent_and_dropped_because_another_worker_leads_is_sent_again_by_who_leads_again(store):
    read(store, KnownDump(request(connector="gone")))
    store.tidy_later(exists=exists)
    store.abandon()
    store.log.put.clear()

    store.tidy_later(exists=exists)

    assert len(store.log.put) == 1


def test_an_end_that_would_be_too_large_leaves_out_its_tables_and_a_request_leaves_room_for_it():
    small = DumpStore("dumps", HeldLog, on_change=lambda _key: None, record_bytes_max=20_000)
    asked = request(tables_wanted={})
    tables = [{"table": "t" * 1000} for _ in range(30)]

    small.end_later(KnownDump(asked), end(tables=tables))

    key, value = small.log.put[0]
    assert len(key) + len(value) <= 20_000
    assert read_dump_record(key, value)[1].end["tables"] == []
    assert small.size_left(asked) > 0
    assert small.size_left(request(columns=("c" * 4000,))) < 0, "4 000 bytes more and an end do not fit into 20 000"


def test_a_connectors_requests_are_forgotten_at_once(store):
    for number in range(3):
        read(store, KnownDump(request(f"d{number}")))

    store.forget("c")
    store.forget("nobody")

    assert store.connectors() == []
