"""What a worker does with what its tasks report of their dumps, and what it tells them. The processes are the test's."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from dblog.cluster.dumprecords import KnownDump, dump_record
from dblog.cluster.dumpstore import DumpStore
from dblog.cluster.localdumps import LocalDumps
from dblog.cluster.records import TaskId
from dblog.cluster.requests import RequestError
from dblog.core.dumprequests import DumpRequest, Mode, SignalOrigin, Wanted
from dblog.errors import TransientError
from dblog.kafka.log import LogRecord
from support.held_herder import HeldLog


def request(dump="d1", connector="c"):
    return DumpRequest(id=dump, connector=connector, created_ms=1, requested_by="rest", mode=Mode.ROWS, tables=(".*",))


class Held:
    """A store, and local dumps with one task whose run is 1."""

    def __init__(self):
        self.sent = []
        self.role = SimpleNamespace(leads=True)
        processes = SimpleNamespace(send=lambda run, message: self.sent.append((run, message)))
        self.store = DumpStore("dumps", HeldLog, on_change=self.changed, record_bytes_max=1_000_000)
        self.dumps = LocalDumps(self.store, processes, self.role, SimpleNamespace(now_us=lambda: 4_711_000))
        self.dumps.begun(TaskId("c", 0), 1)

    def changed(self, key):
        self.dumps.changed(key)

    def read(self, known):
        self.store.log.take(LogRecord(0, 0, *dump_record(known.key, known)))

    def report(self, run=1, **states):
        self.dumps.take(run, {"type": "dumps", "dumps": [{"id": dump, "state": state, "rows": 5} for dump, state in states.items()]})

    def forgotten(self):
        return [message["id"] for _, message in self.sent if message["type"] == "dump_forget"]


@pytest.fixture
def held():
    return Held()


def test_a_request_that_is_read_back_is_told_to_the_task_of_its_connector_alone(held):
    held.dumps.begun(TaskId("other", 0), 2)

    held.read(KnownDump(request()))

    assert held.sent == [(1, {"type": "dump", "request": request().to_json()})]


def test_the_newest_process_of_a_task_is_told(held):
    held.dumps.begun(TaskId("c", 0), 2)

    held.read(KnownDump(request()))

    assert [run for run, _ in held.sent] == [2]


def test_the_tables_of_a_dump_are_known_where_its_status_shows_all_of_them(held):
    def report(total):
        tables = [{"table": "shop.Orders"}, {"table": "shop.items"}]
        held.dumps.take(
            1, {"type": "dumps", "dumps": [{"id": "d1", "state": "RUNNING", "rows": 0, "tables_total": total, "tables": tables}]}
        )

    assert held.dumps.tables_of("c", "d1") is None
    report(2)
    assert held.dumps.tables_of("c", "d1") == ["shop.Orders", "shop.items"]
    report(3)
    assert held.dumps.tables_of("c", "d1") is None


def test_the_task_is_asked_for_a_table_while_it_can_answer(held):
    asked = held.dumps.find_table(request(), "SHOP.orders")

    run, message = held.sent[-1]
    assert (run, message["type"], message["table"], message["request"]) == (1, "dump_table", "SHOP.orders", request().to_json())
    held.dumps.take(1, {"type": "dump_checked", "call": message["call"], "error": None, "tables": ["shop.orders"]})
    assert asked.result(0) == ["shop.orders"]
    held.dumps.ended(1)
    assert held.dumps.find_table(request(), "shop.orders") is None


def test_an_end_is_stored_before_the_task_may_forget_it(held):
    held.read(KnownDump(request()))

    held.report(d1="DONE")
    held.report(d1="DONE")

    assert (held.forgotten(), len(held.store.log.put)) == ([], 1)
    held.store.log.read_back()
    end = held.store.get(("c", "d1")).end
    assert (held.forgotten(), end["rows"], end["ended_ms"]) == (["d1"], 5, 4711)


@pytest.mark.parametrize(("bytes_max", "tables", "reason"), [(30_000, 20, 2000), (3_000, 0, 2000), (700, 0, 100), (100, None, None)])
def test_an_end_that_the_topic_has_no_room_for_ends_the_dump_all_the_same(held, bytes_max, tables, reason):
    held.read(KnownDump(request()))
    held.store.log.value_bytes_max = bytes_max

    status = {"id": "d1", "state": "FAILED", "reason": "r" * 2000, "tables": [{"table": f"t{n}", "fault": "f" * 900} for n in range(20)]}
    held.dumps.take(1, {"type": "dumps", "dumps": [status]})
    held.store.log.read_back()

    known = held.store.get(("c", "d1"))
    shown = None if known is None else (len(known.end["tables"]), len(known.end["reason"]), known.end["state"])
    assert shown == (None if tables is None else (tables, reason, "FAILED"))
    assert held.forgotten() == ["d1"]
    held.report(d1="FAILED")
    assert (held.forgotten(), held.store.log.put) == (["d1", "d1"], []), "it is answered, and not written again"


def test_an_end_that_is_known_already_or_belongs_to_no_request_is_answered_at_once(held):
    held.read(KnownDump(request(), {"id": "d1", "state": "DONE", "tables": []}))
    held.sent.clear()

    held.report(d1="DONE", d9="STOPPED")

    assert (held.forgotten(), held.store.log.put) == (["d1", "d9"], [])


def test_the_end_of_the_connectors_own_dump_is_neither_stored_nor_forgotten(held):
    held.report(initial="DONE")

    assert (held.sent, held.store.log.put, list(held.dumps.reported("c").statuses)) == ([], [], ["initial"])


def test_a_worker_that_leads_no_longer_stores_no_end(held):
    held.read(KnownDump(request()))
    held.role.leads = False

    held.report(d1="DONE")

    assert held.store.log.put == []


def test_an_end_that_was_dropped_because_another_worker_led_is_sent_again(held):
    held.read(KnownDump(request()))
    held.report(d1="DONE")
    held.dumps.abandon()
    held.store.log.put.clear()

    held.report(d1="DONE")

    assert len(held.store.log.put) == 1


def test_what_a_task_reported_stays_after_its_end_and_is_not_fresh_any_more(held):
    held.report(d1="RUNNING")
    assert held.dumps.reported("c").fresh

    held.dumps.ended(1)

    known = held.dumps.reported("c")
    assert (known.fresh, known.statuses["d1"]["state"]) == (False, "RUNNING")
    held.dumps.begun(TaskId("c", 0), 2)
    assert not held.dumps.reported("c").fresh
    held.report(2, d1="PAUSED")
    assert held.dumps.reported("c").fresh
    held.dumps.forget("c")
    assert held.dumps.reported("c").statuses == {}


def test_messages_of_a_process_that_has_ended_and_of_another_form_change_nothing(held):
    held.dumps.ended(1)
    held.report(d1="RUNNING")
    held.dumps.begun(TaskId("c", 0), 2)
    for message in (
        {"type": "dumps"},
        {"type": "dumps", "dumps": {}},
        {"type": "dump_checked"},
        {"type": "dump_checked", "call": 99, "tables": []},
    ):
        held.dumps.take(2, message)

    assert held.dumps.reported("c").statuses == {}


# ---- checks


def answer(held, future_call, **body):
    held.dumps.take(1, {"type": "dump_checked", "call": future_call, **body})


def test_a_check_gives_the_tables_that_the_task_has_found(held):
    first, second = held.dumps.check(request("d1")), held.dumps.check(request("d2"))
    calls = [message["call"] for _, message in held.sent]
    assert [message["request"]["id"] for _, message in held.sent] == ["d1", "d2"]

    answer(held, calls[1], error=None, tables=["shop.b"])
    answer(held, calls[0], error=None, tables=["shop.a"])

    assert (first.result(0), second.result(0)) == (["shop.a"], ["shop.b"])
    answer(held, calls[0], error=None, tables=["shop.c"])  # twice: nobody waits


@pytest.mark.parametrize(("status", "answered"), [(400, 400), (404, 404), (503, 503), (200, 400), ("x", 400), (None, 400)])
def test_what_the_task_refuses_is_refused_with_its_words(held, status, answered):
    future = held.dumps.check(request())

    answer(held, held.sent[0][1]["call"], error={"status": status, "message": "no key"}, tables=[])

    with pytest.raises(RequestError, match="no key") as raised:
        future.result(0)
    assert raised.value.status == answered


def test_an_answer_of_another_form_is_no_permission(held):
    future = held.dumps.check(request())

    answer(held, held.sent[0][1]["call"], error="no")

    with pytest.raises(TransientError, match="does not know"):
        future.result(0)


def test_whoever_waits_for_a_check_learns_that_the_task_has_ended(held):
    future = held.dumps.check(request())

    held.dumps.ended(1)

    with pytest.raises(TransientError, match="ended while it checked"):
        future.result(0)
    with pytest.raises(RequestError, match="does not run yet") as raised:
        held.dumps.check(request())
    assert (raised.value.status, raised.value.retry_after_s) == (503, 5)


def test_a_task_checks_few_requests_at_a_time_and_those_that_nobody_waits_for_make_room(held):
    futures = [held.dumps.check(request()) for _ in range(8)]
    with pytest.raises(RequestError, match="still checks 8 other requests"):
        held.dumps.check(request())

    futures[3].cancel()

    held.dumps.check(request())
    answer(held, held.sent[3][1]["call"], error=None, tables=[])  # of the one that was given up
    assert futures[3].cancelled()


def test_secrets_are_taken_out_of_what_the_task_says(held):
    held.dumps.begun(TaskId("c", 0), 2, lambda text: text.replace("sesame", "***"))
    status = {"id": "d1", "state": "FAILED", "reason": "login with sesame refused", "tables": [{"table": "a.sesame", "fault": "sesame?"}]}
    held.dumps.take(2, {"type": "dumps", "dumps": [status]})
    future = held.dumps.check(request())
    held.dumps.take(2, {"type": "dump_checked", "call": held.sent[-1][1]["call"], "error": {"status": 400, "message": "sesame is wrong"}})

    shown = held.dumps.reported("c").statuses["d1"]
    assert (shown["reason"], shown["tables"][0]) == ("login with *** refused", {"table": "a.sesame", "fault": "***?"})
    with pytest.raises(RequestError, match=r"\*\*\* is wrong"):
        future.result(0)


def signalled(**changes):
    made = DumpRequest(
        id="d7",
        connector="c",
        created_ms=1,
        requested_by="signal",
        mode=Mode.ROWS,
        tables=(".*",),
        predicate={".*": "secret = 1"},
        signal=SignalOrigin("s"),
    )
    return replace(made, **changes)


def report_signalled(held, state, made=None):
    made = made or signalled()
    held.dumps.take(1, {"type": "dumps", "dumps": [{"id": made.id, "state": state, "rows": 5, "request": made.to_json()}]})


def test_what_a_signal_asked_for_is_stored_once_and_shown_without_its_request_in_the_status(held):
    report_signalled(held, "RUNNING")
    report_signalled(held, "RUNNING")

    assert len(held.store.log.put) == 1
    held.store.log.read_back()
    assert held.store.get(("c", "d7")) == KnownDump(signalled())
    assert held.sent == [(1, {"type": "dump", "request": signalled().to_json()})]
    assert "secret" not in str(held.dumps.reported("c"))


def test_a_dump_of_a_signal_that_has_ended_is_stored_with_its_end_and_forgotten_then(held):
    report_signalled(held, "DONE")

    assert (held.forgotten(), len(held.store.log.put)) == ([], 1)
    held.store.log.read_back()
    assert (held.store.get(("c", "d7")).end["rows"], held.forgotten()) == (5, ["d7"])


def test_one_that_ends_while_its_request_is_on_its_way_is_neither_forgotten_early_nor_run_again(held):
    report_signalled(held, "RUNNING")
    report_signalled(held, "DONE")

    assert held.forgotten() == []
    held.store.log.read_back()
    held.store.log.read_back()
    assert held.store.get(("c", "d7")).end["state"] == "DONE"
    assert held.forgotten() == ["d7"]


def test_a_change_that_a_signal_makes_is_stored_and_an_older_one_is_not(held):
    held.read(KnownDump(signalled(revision=3)))
    report_signalled(held, "RUNNING", signalled(revision=2))
    assert held.store.log.put == []

    report_signalled(held, "PAUSED", signalled(revision=4, wanted=Wanted.PAUSED))
    held.store.log.read_back()

    assert held.store.get(("c", "d7")).request.wanted is Wanted.PAUSED


def test_a_request_that_no_signal_has_made_or_of_another_connector_is_not_taken_from_a_task(held):
    report_signalled(held, "RUNNING", signalled(signal=None))
    report_signalled(held, "RUNNING", signalled(connector="other"))
    held.dumps.take(1, {"type": "dumps", "dumps": [{"id": "d7", "state": "RUNNING", "request": ["nonsense"]}]})

    assert held.store.log.put == []
