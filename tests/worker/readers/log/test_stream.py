"""What the log thread does by time, beside the items of the log: heartbeats, positions, and watermarks that do not come. # I1"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from dblog.core.retries import RetryPolicy
from dblog.errors import DamagedLogError, DefiniteError, TransientError
from dblog.readers.items import LogCounts, Moved
from dblog.readers.log.stream import (
    CHUNK_ROOM_WAIT_MAX_S,
    CHUNK_ROOM_WAIT_S,
    DAMAGED_TRIES_MAX,
    RECV_FULL_BYTES,
    RECV_TIMEOUT_S,
    LogStream,
    StreamOptions,
)
from support.fake_database.dialect import FakeProgress

NOTHING: Any = iter(())


class ScriptedLog:
    """A log source, its reader, the clock and the output in one: each step of the script is what happens before one read."""

    def beat(self) -> None:
        """Nothing is done at the source."""

    def __init__(self, steps: Iterator[Callable[[], int]], **options: Any) -> None:
        self.steps = steps
        self.connect: Callable[[], None] = lambda: None
        self.unreadable: Any = frozenset()
        self.now_s = 100.0
        self.wall_ahead_s = 0.0
        self.sent: list[Any] = []
        self.dump_moved = True
        self.chunk_rows_wait = False
        self.has_room = False
        self.waited_s: list[float] = []
        self.waits_for_end = False
        self.is_silent = False
        self.counts = LogCounts()
        self.end_entries = 0
        self.ends_asked = 0
        self.submitted_at_s: float | None = None
        self.thrown_away: list[float] = []
        self.progress = FakeProgress(server="s", number=1, entries=500, epoch=1)
        any_: Any = self
        self.stream = LogStream(
            any_, self.progress, schemas=any_, output=any_, clock=any_, options=StreamOptions(heartbeat_interval_s=3.0, **options)
        )

    def run(self) -> None:
        self.stream.run()

    # the source and its reader

    def open(self, _at: object, *, unreadable: object) -> Any:
        self.unreadable = unreadable
        self.connect()
        return self

    def receive(self, timeout_s: float) -> int:
        self.waited_s.append(timeout_s)
        step = next(self.steps, None)
        if step is None:
            self.stream.stop()
            return 0
        return step()

    def items(self) -> Any:
        return NOTHING

    def flush(self) -> Any:
        return NOTHING

    def end(self, *, epoch: int) -> tuple[int, int]:
        self.ends_asked += 1
        return FakeProgress(server="s", number=1, entries=self.end_entries, epoch=epoch).sequence

    def close(self) -> None:
        pass

    # the clock

    def monotonic_s(self) -> float:
        self.now_s += 0.00001
        return self.now_s

    def now_us(self) -> int:
        return int((self.now_s + self.wall_ahead_s) * 1_000_000)

    # the output

    def first(self) -> None:
        pass

    def heartbeat(self) -> None:
        self.sent.append("heartbeat")

    def push(self) -> None:
        self.sent.append("position")

    def send_chunk_rows(self, *, waited_max_s: float) -> bool:
        return self.has_room

    def passed(self, at: object, *, between: bool, quiet: bool, not_before: object) -> None:
        pass

    def wake(self) -> None:
        pass

    def has_overdue(self, *, submitted_before_s: float) -> bool:
        return self.submitted_at_s is not None and self.submitted_at_s < submitted_before_s and not self.thrown_away

    def read_overdue_again(self, *, submitted_before_s: float) -> None:
        self.thrown_away.append(submitted_before_s)


def test_rows_that_wait_leave_before_a_table_is_dumped_again_that_has_a_schema_again(monkeypatch: pytest.MonkeyPatch) -> None:
    log = ScriptedLog(iter([lambda: 1]))
    log.waits_for_end = log.chunk_rows_wait = True
    items = iter([[Moved(position=501)]])
    monkeypatch.setattr(log, "items", lambda: iter(next(items, [])))
    for name, takes in (("send_all_chunk_rows", 0), ("forget_tables", 0), ("tables_back", 1), ("moved", 1)):
        monkeypatch.setattr(
            ScriptedLog, name, lambda self, *arguments, name=name, takes=takes: self.sent.append((name, *arguments[:takes])), raising=False
        )
    monkeypatch.setattr(ScriptedLog, "take_ended", lambda _self, _position: {"t": "why"}, raising=False)

    log.run()

    calls = [one for one in log.sent if isinstance(one, tuple)]
    assert calls[:4] == [("send_all_chunk_rows",), ("forget_tables",), ("tables_back", {"t": "why"}), ("moved", 501)]


def test_heartbeats_and_positions_go_out_while_there_is_always_more_to_read() -> None:
    """A catch-up may last for hours: without them a consumer takes the source for dead, and a restart begins where the catch-up began."""

    def read() -> int:
        log.now_s += 0.03
        return RECV_FULL_BYTES

    log = ScriptedLog(iter([read] * 400))

    log.run()

    assert log.sent.count("heartbeat") in (3, 4)
    assert log.sent.count("position") >= 6


def test_a_log_that_has_more_to_read_is_not_pushed_for_each_read() -> None:
    def read() -> int:
        log.now_s += 0.0001
        return RECV_FULL_BYTES

    log = ScriptedLog(iter([read] * 400))

    log.run()

    assert log.sent == []


def test_the_log_is_looked_at_after_each_part_of_a_chunk_and_often_while_the_sender_has_no_room_for_one() -> None:
    def read(*, waits: bool, has_room: bool) -> Callable[[], int]:
        def read() -> int:
            log.chunk_rows_wait, log.has_room = waits, has_room
            return 0

        return read

    room, none = read(waits=True, has_room=True), read(waits=True, has_room=False)
    log = ScriptedLog(iter([room, *[none] * 5, room, none, read(waits=False, has_room=False)]))

    log.run()

    longer_s = [CHUNK_ROOM_WAIT_S, 2 * CHUNK_ROOM_WAIT_S, *[CHUNK_ROOM_WAIT_MAX_S] * 3]
    assert log.waited_s == [RECV_TIMEOUT_S, 0.0, *longer_s, 0.0, CHUNK_ROOM_WAIT_S, RECV_TIMEOUT_S]


def test_an_event_of_an_idle_server_does_not_make_the_last_row_late() -> None:
    """Rotations, heartbeats and transactions of other tables come without rows: between their bytes and the next look the lag is asked for."""
    lags_ms: list[float] = []

    def read(received_bytes: int, *, after_s: float) -> Callable[[], int]:
        def read() -> int:
            lags_ms.append(log.stream.lag_ms())
            log.now_s += after_s
            return received_bytes

        return read

    quiet = [read(0, after_s=1.0)] * 190
    log = ScriptedLog(
        iter([read(100, after_s=0.001), *quiet, read(60, after_s=0.2), read(60, after_s=0.5), read(0, after_s=0.2), *quiet[:2]])
    )
    log.now_s = 10_000.0
    log.stream.source_ts_us = int((log.now_s - 5) * 1_000_000)

    log.run()

    assert lags_ms[1] > 5000, "before the first end of the log the age of its newest row is all that is known"
    assert max(lags_ms[2:]) < 1000


def test_a_moment_without_bytes_beside_rows_of_chunks_is_not_the_end_of_the_log() -> None:
    """The governor slows dumps by the log's lag, and the log is looked at for a moment only while rows of chunks wait."""
    lags_ms: list[float] = []

    def read(received_bytes: int) -> Callable[[], int]:
        def read() -> int:
            log.now_s += 0.004
            log.chunk_rows_wait = True
            log.stream.source_ts_us = int((log.now_s - 7200) * 1_000_000)
            lags_ms.append(log.stream.lag_ms())
            return received_bytes

        return read

    log = ScriptedLog(iter([read(100), read(0), read(0), read(100), *[read(0)] * 60]))
    log.now_s = 10_000.0

    log.run()

    assert min(lags_ms[1:40]) > 7_000_000
    assert lags_ms[-1] == 0


@pytest.mark.parametrize("ahead_s", [-7200, 0, 7200], ids=["clock behind", "clock right", "clock ahead"])
def test_watermarks_count_as_lost_when_the_log_is_read_beyond_them_whatever_the_server_s_clock_says(ahead_s: int) -> None:
    """The age of rows does not show how much of the log is unread: clocks differ, and a row may have been long under way."""
    seen: list[tuple[int, int, int]] = []

    def read_up_to(entries: int, at_s: float) -> Callable[[], int]:
        def read() -> int:
            seen.append((log.progress.entries, len(log.thrown_away), log.ends_asked))
            log.progress.entries, log.now_s = entries, at_s
            return 1

        return read

    log = ScriptedLog(
        iter([read_up_to(500, 1000), read_up_to(900, 1002), read_up_to(1699, 6000), read_up_to(1700, 6002), read_up_to(1700, 6900)])
    )
    log.wall_ahead_s, log.submitted_at_s, log.end_entries = float(ahead_s), 100.0, 1700

    log.run()

    assert [thrown for _, thrown, _ in seen] == [0, 0, 0, 0, 1]
    assert seen[-1][0] == 1700, "not before the log was read up to the end that the server had"
    assert log.thrown_away == [pytest.approx(940.0, abs=0.1)], "only windows whose watermarks stand in front of the end that was asked for"
    assert log.ends_asked == 1, "nothing is asked while no window waits"


def test_watermarks_count_as_lost_in_a_log_that_has_nothing_more_though_its_position_stays_in_front_of_the_server_s() -> None:
    """A reader by GTIDs gets nothing of what is behind them, and so does not come to positions of it."""
    seen: list[tuple[float, int]] = []

    def quiet_at(at_s: float) -> Callable[[], int]:
        def read() -> int:
            seen.append((log.now_s, len(log.thrown_away)))
            log.now_s = at_s
            return 0

        return read

    log = ScriptedLog(iter([quiet_at(1000), quiet_at(1004), quiet_at(1006), quiet_at(1008)]))
    log.submitted_at_s, log.end_entries = 100.0, 1700

    log.run()

    assert [thrown for _, thrown in seen] == [0, 0, 0, 1]
    assert log.thrown_away == [pytest.approx(940.0, abs=0.1)]


AT_ONCE = {"retriable.restart.connector.wait.ms": "1"}


def losses(log: ScriptedLog, count: int, *, lasts_s: float, moves: bool) -> Iterator[Callable[[], int]]:
    """Connections that are lost after some time each, and in the end the script's."""

    def lose() -> int:
        log.now_s += lasts_s
        log.progress.entries += moves
        raise TransientError("the connection is lost")

    for _ in range(count):
        yield lose


@pytest.mark.parametrize("limit", [{"errors.max.retries": "3"}, {"dblog.retry.timeout.ms": "100000"}])
def test_a_connection_that_is_lost_often_and_moves_on_in_between_is_no_series_of_failures(limit: dict[str, str]) -> None:
    log = ScriptedLog(iter(()), retry_policy=RetryPolicy.of(AT_ONCE | limit))
    log.steps = losses(log, 20, lasts_s=50.0, moves=True)

    log.run()

    assert log.progress.entries == 520


@pytest.mark.parametrize("limit", [{"errors.max.retries": "3"}, {"dblog.retry.timeout.ms": "1000000"}])
def test_attempts_that_take_long_and_reach_nobody_are_a_series_of_failures(limit: dict[str, str]) -> None:
    """As a name with several dead addresses does."""
    log = ScriptedLog(iter(()), retry_policy=RetryPolicy.of(AT_ONCE | limit))

    def unreachable() -> None:
        log.now_s += 90.0
        raise TransientError("nobody answers")

    log.connect = unreachable

    with pytest.raises(DefiniteError, match="gave up"):
        log.run()


def test_a_damaged_event_is_read_again_and_left_out_however_few_retries_a_lost_connection_has() -> None:
    def read() -> int:
        log.now_s += 1.0
        if not log.unreadable:
            raise DamagedLogError("a wrong checksum", event_at=("log.1", 4))
        return 1

    log = ScriptedLog(
        iter([read] * (DAMAGED_TRIES_MAX + 2)), skips_unreadable=True, retry_policy=RetryPolicy.of(AT_ONCE | {"errors.max.retries": "0"})
    )

    log.run()

    assert log.unreadable == {("log.1", 4)}
    assert log.stream.skipped_total == 1
