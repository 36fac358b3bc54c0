"""Encoders that are built before their rows are sent: taken once, forgotten with their version, and in no way of the log thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from dblog.errors import TransientError
from dblog.model import Table, TableId
from dblog.readers.log import encoders_ahead
from dblog.readers.log.encoders_ahead import EncodersAhead

T = TableId("shop", "t")
LIMIT_S = 60.0


def version(comment: str = "", table: TableId = T) -> Table:
    return Table(id=table, columns=(), comment=comment)


class Registry:
    """Builds what stands for an encoder; ``open`` lets it answer."""

    def __init__(self) -> None:
        self.registered_together = False
        self.open = threading.Event()
        self.asked: list[Table] = []
        self.at_once = self.at_once_max = self.together_max = 0
        self.fails = False
        self._lock = threading.Lock()

    def encoders(self, tables: Sequence[Table]) -> list[Any]:
        with self._lock:
            self.asked += tables
            self.together_max = max(len(tables), self.together_max)
            self.at_once += 1
            self.at_once_max = max(self.at_once, self.at_once_max)
        assert self.open.wait(LIMIT_S)
        with self._lock:
            self.at_once -= 1
        if self.fails:
            raise TransientError("the registry is away")
        return [None if table.comment == "refused" else f"encoder of {table.comment}" for table in tables]

    def wait_asked(self, count: int) -> None:
        until(lambda: len(self.asked) >= count)


def until(condition: Callable[[], bool]) -> None:
    tick = threading.Event()
    for _ in range(int(LIMIT_S / 0.005)):
        if condition():
            return
        tick.wait(0.005)
    raise AssertionError("it never became true")


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def ahead(registry: Registry) -> Iterator[EncodersAhead]:
    made = EncodersAhead(registry, threads=3)
    yield made
    registry.open.set()
    made.stop()


def test_several_are_asked_for_at_a_time_and_each_once(ahead: EncodersAhead, registry: Registry) -> None:
    tables = [version(str(n), TableId("shop", f"t{n}")) for n in range(6)]
    for table in tables:
        ahead.begin(table)
        ahead.begin(table)
    registry.wait_asked(3)
    registry.open.set()
    until(lambda: len(registry.asked) == 6 and not registry.at_once)

    assert [ahead.take(table) for table in tables] == [f"encoder of {n}" for n in range(6)]
    assert registry.at_once_max == 3
    assert sorted(table.comment or "" for table in registry.asked) == [str(n) for n in range(6)]


def test_many_are_asked_for_together_and_one_that_is_refused_harms_no_other(registry: Registry) -> None:
    registry.registered_together = True
    ahead = EncodersAhead(registry, threads=1)
    tables = [version("refused" if n == 7 else str(n), TableId("shop", f"t{n}")) for n in range(21)]
    ahead.begin(tables[0])
    registry.wait_asked(1)
    for table in tables[1:]:
        ahead.begin(table)
    ahead.forget(tables[3].id)
    registry.open.set()

    taken = [ahead.take(table) for table in (tables[n] for n in range(21) if n != 3)]
    assert [encoder is None for encoder in taken].index(True) == 6, "the seventh of the others is the one that is refused"
    assert taken.count(None) == 1
    assert (registry.together_max, tables[3] in registry.asked) == (19, False)
    ahead.stop()


def test_one_that_has_not_begun_is_not_waited_for(ahead: EncodersAhead, registry: Registry) -> None:
    others = [version("other", TableId("shop", f"o{n}")) for n in range(3)]
    for table in [*others, version("late")]:
        ahead.begin(table)
    registry.wait_asked(3)

    assert ahead.take(version("late")) is None
    registry.open.set()
    assert [ahead.take(other) for other in others] == ["encoder of other"] * 3
    assert version("late") not in registry.asked


def test_a_version_that_is_being_registered_is_registered_before_the_next_one(ahead: EncodersAhead, registry: Registry) -> None:
    ahead.begin(version("first"))
    registry.wait_asked(1)
    forgetting = threading.Thread(target=ahead.forget, args=(T,))
    forgetting.start()
    forgetting.join(0.05)

    assert forgetting.is_alive()
    registry.open.set()
    forgetting.join(LIMIT_S)
    assert not forgetting.is_alive()
    assert ahead.take(version("first")) is None


def test_an_encoder_of_another_version_is_not_given(ahead: EncodersAhead, registry: Registry) -> None:
    registry.open.set()
    ahead.begin(version("first"))

    assert ahead.take(version("second")) is None
    ahead.begin(version("second"))
    registry.wait_asked(1)
    until(lambda: version("second") in registry.asked)
    assert ahead.take(version("second")) == "encoder of second"


def test_one_that_fails_is_left_to_whoever_takes_it(ahead: EncodersAhead, registry: Registry) -> None:
    registry.fails = True
    ahead.begin(version("first"))
    registry.wait_asked(1)
    registry.open.set()

    assert ahead.take(version("first")) is None


def test_those_that_nobody_takes_are_bounded(ahead: EncodersAhead, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:  # I6
    monkeypatch.setattr(encoders_ahead, "KEPT_MAX", 4)
    for n in range(20):
        ahead.begin(version(str(n), TableId("shop", f"t{n}")))
        registry.wait_asked(min(n + 1, 3))
    registry.open.set()
    until(lambda: not registry.at_once and len(registry.asked) >= 7)

    assert len(registry.asked) == 7, "three at once, and the four that are kept"


def test_nothing_is_built_once_it_has_stopped(ahead: EncodersAhead, registry: Registry) -> None:
    ahead.stop()

    ahead.begin(version("first"))

    assert ahead.take(version("first")) is None
    assert not registry.asked
