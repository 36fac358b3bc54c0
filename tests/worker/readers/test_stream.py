"""Which places a reader takes after it has connected again: none that it had left behind, and no finished transaction is forgotten; and which events stop
it. # I1 I5
"""

from __future__ import annotations

from typing import Any
from unittest.mock import sentinel

import pytest
from dblog.clock import SystemClock
from dblog.codecs._fast import LogDecoder
from dblog.codecs.logitems import LogEvent, LogOffset
from dblog.dialects.mysql.offset import LogProgress
from dblog.errors import DefiniteError
from dblog.readers.stream import RECV_FULL_BYTES, LogStream
from support.mysql_log import Stream

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def stream_at(*, gtids: str | None, event: int = 0) -> LogStream:
    """A stream whose connection is new."""
    nothing: Any = sentinel.unused
    return LogStream(
        open_log=nothing,
        new_decoder=nothing,
        end_of_log=nothing,
        progress=LogProgress(flavor="mysql", file="binlog.000002", pos=500, gtids=gtids, event=event),
        schemas=nothing,
        interleaver=nothing,
        mark_name="m",
        statement_records=nothing,
        heartbeat=None,
        heartbeat_interval_s=0,
        clock=SystemClock(),
        on_tables_changed=nothing,
        on_tables_back=nothing,
        dump_again=nothing,
    )


def place(pos: int, *, event: int = 0, delta: Any = (), file: str = "binlog.000002") -> LogOffset:
    return LogOffset(file=file, pos=pos, event=event, in_transaction=event > 0, gtids_delta=list(delta))


def test_the_first_bytes_of_the_file_are_no_place_to_go_back_to() -> None:
    by_gtid, by_file = stream_at(gtids=f"{UUID}:1-9", event=3), stream_at(gtids=None, event=3)

    assert [by_gtid._came_to(place(pos)) for pos in (4, 158)] == [False, False]
    assert [by_file._came_to(place(pos)) for pos in (4, 500)] == [False, False]
    assert by_gtid._at.event == by_file._at.event == 3


def test_events_of_the_open_transaction_that_are_passed_over_again_are_no_place() -> None:
    stream = stream_at(gtids=f"{UUID}:1-9", event=3)

    assert [stream._came_to(place(500, event=n)) for n in (1, 3, 4)] == [False, False, True]
    assert stream._at.event == 4


def test_a_transaction_that_ended_is_not_forgotten_though_the_next_one_has_only_begun() -> None:
    stream = stream_at(gtids=f"{UUID}:1-9", event=5)

    assert stream._came_to(place(900, event=2, delta=[(UUID, "", 10, 10)]))

    assert stream._at.to_map()["gtids"] == f"{UUID}:1-10"
    assert stream._at.event == 2


def test_without_gtids_a_later_transaction_is_a_new_place_whatever_its_event() -> None:
    stream = stream_at(gtids=None, event=5)

    assert stream._came_to(place(900, event=2))
    assert stream._at.pos == 900


def test_without_gtids_the_next_file_is_a_new_place() -> None:
    assert stream_at(gtids=None)._came_to(place(4, file="binlog.000003"))


INCIDENT, START_ENCRYPTION = 26, 164


def events_of(type_code: int, body: bytes) -> list[Any]:
    """What the decoder gives of one such event."""
    decoder = LogDecoder(flavor="mariadb", resolve=lambda *_: None)
    decoder.start("binlog.000002", 4, now_us=lambda: 0)
    found = decoder.feed(Stream(file="binlog.000002").hello().event(type_code, body).bytes())
    return [item for item in found if isinstance(item, LogEvent) and item.type_code == type_code]


def test_an_incident_ends_the_task_with_its_place_and_remedy() -> None:
    """Only debug builds of the server write one on demand."""
    (incident,) = events_of(INCIDENT, b"\1\0\x0bLOST_EVENTS")

    with pytest.raises(
        DefiniteError,
        match=rf"INCIDENT \(26\) at binlog\.000002:{incident.start_pos}: .*changes are missing.*dump the captured tables anew",
    ):
        stream_at(gtids=None)._event(incident)


def test_the_beginning_of_encryption_is_passed_over() -> None:
    """The server decrypts what it sends; the event itself (scheme, key version, nonce) stands in an encrypted file."""
    (begun,) = events_of(START_ENCRYPTION, b"\1" + bytes(16))

    stream_at(gtids=None)._event(begun)


class BusyLog:
    """A connection that has more to give at every read, and a decoder that makes nothing of it; the clock goes on by itself."""

    def __init__(self, reads: int) -> None:
        self.reads = reads
        self.stream: LogStream | None = None
        self.now_s = 100.0
        self.held = False
        self.is_silent = False
        self.sent: list[list[Any]] = []
        self.dump_moved = True
        self.open_total = 0

    def recv(self, _timeout_s: float) -> bytes:
        self.reads -= 1
        if not self.reads:
            assert self.stream is not None
            self.stream.stop()
        return bytes(RECV_FULL_BYTES)

    def monotonic_s(self) -> float:
        self.now_s += 0.01
        return self.now_s

    def extra(self, segments: list[Any]) -> None:
        self.sent.append(segments)

    def feed(self, _data: bytes) -> list[Any]:
        return []

    def flush(self) -> list[Any]:
        return []

    def __getattr__(self, _name: str) -> Any:
        return lambda *_args, **_more: None


def test_heartbeats_and_places_go_out_while_there_is_always_more_to_read() -> None:
    """A catch-up may last for hours: without them a consumer takes the source for dead, and a restart begins where the catch-up began."""
    nothing: Any = sentinel.unused
    busy: Any = BusyLog(reads=400)
    stream = busy.stream = LogStream(
        open_log=lambda _at: busy,
        new_decoder=lambda: busy,
        end_of_log=nothing,
        progress=LogProgress(flavor="mysql", file="binlog.000002", pos=500, gtids=None),
        schemas=nothing,
        interleaver=busy,
        mark_name="m",
        statement_records=nothing,
        heartbeat=lambda: "heartbeat",  # type: ignore[arg-type,return-value]
        heartbeat_interval_s=3.0,
        clock=busy,
        on_tables_changed=nothing,
        on_tables_back=nothing,
        dump_again=nothing,
    )

    stream.run()

    beats = sum(segments == ["heartbeat"] for segments in busy.sent)
    places = sum(segments == [] for segments in busy.sent)
    assert beats >= 2
    assert places >= 4


class OverdueWindows:
    """An interleaver with a window whose high mark was due long ago."""

    open_total = 1
    dump_moved = False

    def __init__(self) -> None:
        self.thrown_away: list[float] = []

    def read_overdue_again(self, *, handed_in_before_s: float) -> None:
        self.thrown_away.append(handed_in_before_s)

    def has_overdue(self, *, handed_in_before_s: float) -> bool:
        del handed_in_before_s
        return not self.thrown_away


@pytest.mark.parametrize("ahead_s", [-7200, 0, 7200], ids=["clock behind", "clock right", "clock ahead"])
def test_marks_count_as_lost_when_the_log_is_read_beyond_them_whatever_the_server_s_clock_says(ahead_s: int) -> None:
    """The age of rows tells nothing of how much of the log is unread: clocks differ, and a row may have been long under way."""
    stream, windows = stream_at(gtids=None), OverdueWindows()
    asked: list[tuple[str, int]] = []

    def server_place() -> tuple[str, int]:
        asked.append(("binlog.000003", 700))
        return asked[-1]

    stream._interleaver = windows  # type: ignore[assignment]
    stream._server_place = server_place
    stream.source_ts_us = stream._clock.now_us() + ahead_s * 1_000_000
    now_s = 1000.0

    def look(file: str, pos: int) -> list[float]:
        stream._at.file, stream._at.pos = file, pos
        stream._look_for_marks(now_s)
        return windows.thrown_away

    assert look("binlog.000002", 500) == []
    assert look("binlog.000002", 900) == []
    assert look("binlog.000003", 699) == []
    now_s += 5000.0
    assert look("binlog.000003", 700) == [now_s - 5060.0], "only windows whose marks stand in front of the place that was asked for"
    assert len(asked) == 1
    assert look("binlog.000003", 700) == [now_s - 5060.0]
    assert len(asked) == 1, "nothing is asked while no window waits"


def test_marks_count_as_lost_in_a_log_that_has_nothing_more_though_its_place_stays_in_front_of_the_server_s() -> None:
    """A reader by GTIDs gets nothing of what is behind them, and so does not come to places of it."""
    stream, windows = stream_at(gtids=f"{UUID}:1-9"), OverdueWindows()
    stream._interleaver = windows  # type: ignore[assignment]
    stream._server_place = lambda: ("binlog.000003", 700)
    stream._caught_up, stream._data_at_s = True, 900.0

    stream._look_for_marks(1000.0)
    stream._look_for_marks(1004.0)
    assert windows.thrown_away == []
    stream._look_for_marks(1006.0)

    assert windows.thrown_away == [940.0]
