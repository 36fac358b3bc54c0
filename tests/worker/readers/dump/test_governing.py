"""A task in memory whose source is pressed: dumps are slowed and held, leave nothing open, and go on."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from dblog.core.pressure import FREE, Limit, Pace
from dblog.errors import TransientError
from dblog.readers.contract import Load
from dblog.readers.dump.governing import Governing

THREADS, HISTORY = Limit.THREADS_RUNNING, Limit.HISTORY_LENGTH


class Source:
    """Server, its connection, clock and event in one: each look takes a second."""

    def __init__(self, *, limits: Mapping[Limit, float]) -> None:
        self.now_s = 100.0
        self.answers: float | None = 0.0
        self.opened = self.closed = 0
        self.dumps = True
        self.here: dict[Limit, float] = {}
        self.missing: dict[Limit, str] = {}
        self.paces: list[Pace] = []
        any_: Any = self
        self.governing = Governing(
            any_, limits=limits, load=any_, dumping=SimpleNamespace(pace=self.paces.append), stopped=any_, clock=any_
        )

    @property
    def has_dumps(self) -> bool:
        return self.dumps

    log_left_s = None

    def measured(self) -> dict[Limit, float]:
        return dict(self.here)

    def monotonic_s(self) -> float:
        return self.now_s

    def open_load(self, _abort: object) -> Any:
        self.opened += 1
        return self

    def measure(self, wanted: Any) -> Load:
        if self.answers is None:
            message = "nobody answers"
            raise TransientError(message)
        return Load(measured={limit: self.answers for limit in wanted if limit not in self.missing}, missing=self.missing)

    def close(self) -> None:
        self.closed += 1

    def looks(self, seconds: int) -> str:
        for _ in range(seconds):
            self.now_s += 1
            self.governing.look()
        return str(self.governing.status()["state"])


@pytest.fixture
def source() -> Source:
    return Source(limits={THREADS: 10.0, HISTORY: 1000.0})


def test_a_limit_is_named_in_the_status_with_what_was_measured_and_passes(source: Source) -> None:
    source.answers = 12
    source.looks(1)
    status = source.governing.status()
    source.answers = 0

    assert (status["state"], status["measured"], status["limit"], status["missing"]) == ("held", 12, 10.0, [])
    assert "threads.running is 12" in status["reason"]
    assert source.looks(60) == "free"
    assert [pace.state for pace in source.paces] == ["held", *["slowed"] * 4, "free"]
    assert source.governing.numbers()["dump_governor_seconds_total|held"] == pytest.approx(10, abs=2)


def test_a_server_that_does_not_answer_is_left_alone_until_it_does(source: Source) -> None:
    assert source.looks(5) == "free"
    source.answers = None
    assert source.looks(6) == "free"
    assert source.looks(6) == "held"
    assert "has not answered" in source.governing.status()["reason"]
    source.answers = 0
    assert source.looks(60) == "free"


def test_what_may_not_be_asked_is_said_and_limits_nothing(source: Source) -> None:
    source.missing = {HISTORY: "the PROCESS privilege is missing"}
    source.answers = 9

    source.looks(1)

    assert source.governing.status()["missing"] == ["history.list.length: the PROCESS privilege is missing"]
    assert source.governing.status()["state"] == "slowed", "the other limit counts"


def test_without_dumps_nothing_is_asked_and_no_connection_is_kept(source: Source) -> None:
    source.answers = 12
    source.looks(3)
    source.dumps = False

    assert source.looks(3) == "free"
    assert (source.opened, source.closed) == (1, 1)
    assert source.paces[-1] == FREE
    assert not any(name.startswith("dump_limit_measured") for name in source.governing.numbers())


def test_a_task_without_limits_of_the_server_asks_it_nothing_and_heeds_its_own() -> None:
    source = Source(limits={Limit.LOG_LAG: 1000.0})
    source.here = {Limit.LOG_LAG: 2000.0, THREADS: 1e9}

    assert source.looks(1) == "held"
    assert source.opened == 0


def test_of_the_server_s_statements_and_the_own_selects_the_slower_count() -> None:
    source = Source(limits={Limit.STATEMENT_P95: 100.0})
    source.answers, source.here = 5.0, {Limit.STATEMENT_P95: 120.0}
    assert source.looks(1) == "held"
    source.here = {}
    assert source.looks(60) == "free"
    source.answers = 130.0
    assert source.looks(1) == "held"
