"""The table of what a dump's detail has, in the worker's page about dumps, has the fields of the answers and no others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from dblog.cluster.decisions import Phase
from dblog.cluster.dumprecords import KnownDump, read_statuses
from dblog.cluster.dumpview import DumpView
from dblog.cluster.localdumps import Reported
from dblog.cluster.records import State, Target
from dblog.core.dumprequests import DumpRequest, SignalOrigin, parse_request
from dblog.model import TableId
from docs.pages import ROOT
from support.fake_database.database import FakeDatabase
from support.fake_database.follower import DATABASE, FakeFollower

PAGE = (ROOT / "connect-worker/docs/dumps.md").read_text(encoding="utf-8")
T = TableId(DATABASE, "t")


def documented() -> set[tuple[str, str]]:
    """(of what, field)."""
    table = PAGE[PAGE.index("| field | of | meaning |") :].split("\n\n")[0]
    rows = re.findall(r"^\| (`.*?) \| ([a-z, ]+) \|", table, re.MULTILINE)
    return {(of, field) for fields, ofs in rows for of in ofs.split(", ") for field in re.findall(r"`(\w+)`", fields)}


def fields_of(detail: dict[str, Any]) -> set[tuple[str, str]]:
    parts = {"dump": [detail], "status": [detail["status"]], "table": detail["status"]["tables"]}
    return {(of, field) for of, each in parts.items() for part in each for field in part}


@pytest.fixture
def follower() -> Iterator[FakeFollower]:
    database = FakeDatabase()
    database.execute("CREATE TABLE t (id int, PRIMARY KEY (id))")
    database.insert(T, (1,), (2,))
    follower = FakeFollower(database)
    yield follower
    follower.task.stop()


def answers(follower: FakeFollower, known: dict[str, DumpRequest]) -> dict[str, dict[str, Any]]:
    """What the worker that leads answers of the dumps of a task that runs."""
    desk = follower.task.desk
    assert desk is not None
    view = DumpView(
        SimpleNamespace(of=lambda _: [KnownDump(request) for request in known.values()]),  # type: ignore[arg-type]
        SimpleNamespace(reported=lambda _: Reported(read_statuses(desk.statuses()), fresh=True)),  # type: ignore[arg-type]
        configs=SimpleNamespace(view=lambda name: SimpleNamespace(name=name, target=Target.STARTED)),  # type: ignore[arg-type]
        tasks=SimpleNamespace(get=lambda _: SimpleNamespace(phase=Phase.ALIVE, run=1, state=State.RUNNING)),  # type: ignore[arg-type]
    )
    return {dump: view.detail("c", dump, maps=True) for dump in ("initial", *known)}


def test_the_fields_of_a_dumps_detail_are_those_of_the_page(follower: FakeFollower) -> None:
    follower.start()
    follower.until_dumped()
    follower.until_state(follower.ask(r"d\.t"), "DONE")
    waiting = parse_request({"tables": ["a.b"]}, id="f" * 12, connector="c", created_ms=1, requested_by="signal")
    signalled = {waiting.id: replace(waiting, signal=SignalOrigin("s"), tables_stopped=("a.b",))}

    found = answers(follower, {**follower.requests, **signalled})

    assert {field for detail in found.values() for field in fields_of(detail)} == documented()
    assert len({frozenset(detail["status"]) for detail in found.values()}) == 1, "each has all fields, whatever has become of it"
