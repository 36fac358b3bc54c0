"""How long an answer about the server's log holds, and how often it is asked for."""

from __future__ import annotations

from typing import Any

import pytest
from dblog.errors import TransientError
from dblog.readers.contract import LogState
from dblog.readers.dump_progress import DumpProgress
from dblog.readers.items import LogCounts
from dblog.readers.log.logwatch import RowEstimates, Watch

INTERVAL_S = 10.0
STATE: Any = LogState(
    behind_bytes=5,
    behind_files=0,
    stored_behind_files=0,
    margin_files=0,
    margin_bytes=0,
    purged=False,
    retention_s=None,
    uses_gtids=True,
)


class SlowServer:
    """Server, connection, clock and the wait between two questions in one: what takes time moves the clock, and each second is looked at."""

    def __init__(self, *takes_s: float | None) -> None:
        """``takes_s``: of each answer in turn; None for one that fails."""
        self.takes_s = list(takes_s)
        self.now_s = 1000.0
        self.waits_s: list[float] = []
        self.fresh: list[bool] = []
        any_: Any = self
        self.watch = Watch(
            any_,
            stream=any_,
            stored=any_,
            progress=DumpProgress(),
            estimates=RowEstimates(),
            stopped=any_,
            interval_s=INTERVAL_S,
            clock=any_,
        )

    progress = None

    def counts(self) -> LogCounts:
        return LogCounts()

    def pass_s(self, seconds: float) -> None:
        for _ in range(int(seconds * 10)):
            self.now_s += 0.1
            self.fresh.append(self.watch.state is not None)

    def open_watch(self, _abort: object) -> Any:
        return self

    def look(self, _read: object, _stored: object) -> LogState:
        takes_s = self.takes_s.pop(0)
        if takes_s is None:
            message = "the server is away"
            raise TransientError(message)
        self.pass_s(takes_s)
        return STATE  # type: ignore[no-any-return]

    def close(self) -> None:
        pass

    def is_set(self) -> bool:
        return not self.takes_s

    def wait(self, seconds: float) -> None:
        self.waits_s.append(seconds)
        self.pass_s(seconds)

    def monotonic_s(self) -> float:
        return self.now_s

    def now_us(self) -> int:
        return int(self.now_s * 1_000_000)


@pytest.mark.parametrize("takes_s", [0.1, 1.6, 9.0])
def test_an_answer_holds_until_the_next_one_is_there_however_slow_the_server_is(takes_s: float) -> None:
    server = SlowServer(*[takes_s] * 5)
    server.watch.run()

    first = server.fresh.index(True)
    assert all(server.fresh[first:])
    assert server.waits_s == pytest.approx([max(INTERVAL_S, takes_s * 20)] * 5)


def test_a_server_that_has_become_slow_is_waited_for_and_one_that_fails_is_not() -> None:
    server = SlowServer(0.1, 9.0, None)
    server.watch.run()

    assert all(server.fresh[1 : 1 + int((INTERVAL_S + 9.0) * 10)])
    assert not server.fresh[-1]


def test_without_a_further_answer_the_last_one_does_not_hold_for_ever() -> None:
    server = SlowServer(0.1)
    server.watch.run()
    assert server.watch.state is not None

    server.pass_s(3 * INTERVAL_S)

    assert server.watch.state is None
