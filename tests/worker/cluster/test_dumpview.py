"""What is shown of dumps: what the task reported, as far as it is true now."""

from types import SimpleNamespace

import pytest
from dblog.cluster.decisions import Phase
from dblog.cluster.dumprecords import KnownDump
from dblog.cluster.dumpview import DumpView
from dblog.cluster.localdumps import Reported
from dblog.cluster.records import State, Target
from dblog.cluster.requests import RequestError
from dblog.core.dumprequests import DumpRequest, Mode, Wanted

RUNNING = {"id": "d1", "state": "RUNNING", "rows": 7, "rows_per_s": 5.0, "eta_s": 9.0, "reason": None, "tables": [{"table": "a.b"}]}
ALIVE = SimpleNamespace(phase=Phase.ALIVE, run=1, state=State.RUNNING, waits=None)


def request(dump="d1", **more):
    return DumpRequest(id=dump, connector="c", created_ms=1, requested_by="rest", mode=Mode.ROWS, tables=(".*",), **more)


def view(*statuses, known=None, fresh=True, target=Target.STARTED, task=ALIVE, mode="initial"):
    reported = Reported({status["id"]: status for status in statuses}, fresh)
    return DumpView(
        SimpleNamespace(of=lambda _name: [KnownDump(request())] if known is None else known),
        SimpleNamespace(reported=lambda _name: reported),
        configs=SimpleNamespace(
            view=lambda name: SimpleNamespace(name=name, target=target, config={"snapshot.mode": mode}) if name == "c" else None
        ),
        tasks=SimpleNamespace(get=lambda _task: task),
    )


def test_what_a_running_task_reports_is_shown_as_it_is():
    shown = view(RUNNING).detail("c", "d1")

    assert shown == {
        **request().to_json(),
        "status": {"ended_ms": None, **{name: value for name, value in RUNNING.items() if name != "id"}},
    }


def test_with_maps_each_table_has_a_picture_of_what_was_read_of_it_and_without_it_has_none():
    tables = [
        {"table": "a.b", "state": "RUNNING", "rows": 250, "rows_estimated": 500},
        {"table": "a.c", "state": "DONE", "rows": 150, "rows_estimated": None},
        {"table": "a.d", "state": "WAITING", "rows": 0, "rows_estimated": None},
    ]
    one = view(RUNNING | {"tables": tables})

    maps = [table["map"] for table in one.detail("c", "d1", maps=True)["status"]["tables"]]
    assert maps == [[1, 1, 0.5, 0, 0], [1, 1], None]
    assert one.detail("c", "d1")["status"]["tables"] == tables


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"target": Target.STOPPED}, "the connector is stopped"),
        ({"target": Target.PAUSED}, "the connector is paused"),
        ({"task": None}, "does not run yet"),
        ({"task": SimpleNamespace(phase=Phase.WAITING, run=None, state=State.RESTARTING, waits=None)}, "does not run yet"),
        ({"task": SimpleNamespace(phase=Phase.FAILED, run=None, state=State.FAILED, waits=None)}, "the connector's task has failed"),
        ({"task": SimpleNamespace(phase=Phase.ALIVE, run=1, state=State.UNASSIGNED, waits="no broker")}, "task starts: no broker"),
        ({"fresh": False}, ""),
    ],
)
def test_of_a_task_that_does_not_dump_now_nothing_is_under_way_and_its_numbers_stay(changes, reason):
    shown = view(RUNNING, **changes).detail("c", "d1")["status"]

    assert (shown["state"], shown["rows"], shown["rows_per_s"], shown["eta_s"]) == ("WAITING", 7, None, None)
    assert reason in (shown["reason"] or "")


def test_an_end_and_a_pause_stay_what_they_are_whatever_becomes_of_the_task():
    ended, paused = RUNNING | {"state": "DONE"}, RUNNING | {"id": "d2", "state": "PAUSED"}
    shown = view(ended, paused, known=[KnownDump(request()), KnownDump(request("d2"))], task=None)

    assert [each["status"]["state"] for each in shown.listed("c")] == ["DONE", "PAUSED"]


@pytest.mark.parametrize(
    ("mode", "fresh", "state"),
    [("initial", False, "DONE"), ("always", False, "WAITING"), ("When_Needed", False, "WAITING"), ("always", True, "DONE")],
)
def test_an_own_dump_that_a_start_may_make_again_has_not_ended_before_the_start_has_decided(mode, fresh, state):
    ended = RUNNING | {"id": "initial", "state": "DONE"}

    assert view(ended, known=[], fresh=fresh, mode=mode).detail("c", "initial")["status"]["state"] == state


def test_a_stored_end_counts_more_than_what_a_task_reports():
    stored = {"id": "d1", "state": "STOPPED", "rows": 3, "ended_ms": 7, "tables": []}
    shown = view(RUNNING, known=[KnownDump(request(), stored)]).detail("c", "d1")["status"]

    assert shown == {"state": "STOPPED", "rows": 3, "ended_ms": 7, "tables": []}


def test_a_request_that_no_task_has_reported_waits_or_is_paused():
    shown = view(known=[KnownDump(request()), KnownDump(request("d2", wanted=Wanted.PAUSED))])

    assert [each["status"]["state"] for each in shown.listed("c")] == ["WAITING", "PAUSED"]


def test_the_connectors_own_dump_comes_first_then_those_of_signals_then_requests():
    others = [RUNNING | {"id": "s1", "mode": "repair"}, RUNNING | {"id": "initial"}]

    listed = view(*others).listed("c")

    assert [(each["id"], each["requested_by"], each["mode"]) for each in listed] == [
        ("initial", "connector", "rows"),
        ("s1", "signal", "repair"),
        ("d1", "rest", "rows"),
    ]
    assert not any("tables" in each["status"] for each in listed)


def test_what_there_is_not_is_not_found():
    for connector, dump, reason in (("x", "d1", "Connector x not found"), ("c", "d9", "has no dump d9")):
        with pytest.raises(RequestError, match=reason) as raised:
            view().detail(connector, dump)
        assert raised.value.status == 404
