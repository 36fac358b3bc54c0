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
from dblog.readers.stream import LogStream
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
