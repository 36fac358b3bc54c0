"""Which positions a binlog reader takes after it has connected again: none that it had left behind, and no finished transaction is forgotten; and which events
stop it. # I1 I5
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import sentinel

import pytest
from dblog.dialects.mysql.binlog._fast import LogDecoder
from dblog.dialects.mysql.binlog.items import LogEvent, LogOffset, LogRows
from dblog.dialects.mysql.binlog.offset import LogProgress
from dblog.dialects.mysql.task.connections import BytesAhead
from dblog.dialects.mysql.task.log import BinlogReader
from dblog.dialects.mysql.task.prepared import Prepared
from dblog.errors import DefiniteError
from dblog.readers.items import LogCounts, Moved
from support.mysql_log import Stream

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def progress_at(*, gtids: str | None, event: int = 0) -> LogProgress:
    return LogProgress(file="binlog.000002", pos=500, gtids=gtids, event=event)


def reader_of(at: LogProgress, *items: Any) -> BinlogReader:
    """A new connection whose decoder gives these items."""
    unused: Any = sentinel.unused
    decoder: Any = SimpleNamespace(flush=lambda: list(items), forget_tables=lambda: None)
    return BinlogReader(
        unused,
        decoder,
        at,
        schemas=unused,
        prepared=Prepared(),
        connections=unused,
        reread=None,
        selection=unused,
        signal_tables=frozenset(),
        moved_values=unused,
        endings=unused,
        take_back=unused,
        unreadable=frozenset(),
        ahead=BytesAhead(),
    )


def offset_at(pos: int, *, event: int = 0, delta: Any = (), file: str = "binlog.000002") -> LogOffset:
    return LogOffset(file=file, pos=pos, event=event, in_transaction=event > 0, gtids_delta=list(delta))


def moves(at: LogProgress, *positions: LogOffset) -> list[bool]:
    """For items at these positions, whether a restart may begin there; ``at`` moves on as the reader layer moves it."""
    found = []
    for item in reader_of(at, *(LogRows(segments=[], records=0, bytes=0, source_ts_us=None, position=p) for p in positions)).flush():
        assert isinstance(item, LogRows)
        found.append(item.moves)
        if item.moves:
            at.advance(item.position)
    return found


@pytest.mark.parametrize(("gtids", "positions"), [(f"{UUID}:1-9", (4, 158)), (None, (4, 500))])
def test_the_first_bytes_of_the_file_are_no_position_to_go_back_to(gtids: str | None, positions: tuple[int, ...]) -> None:
    at = progress_at(gtids=gtids, event=3)

    assert moves(at, *map(offset_at, positions)) == [False, False]
    assert at.event == 3


def test_events_of_the_open_transaction_that_are_passed_over_again_are_no_position() -> None:
    at = progress_at(gtids=f"{UUID}:1-9", event=3)

    assert moves(at, *(offset_at(500, event=n) for n in (1, 3, 4))) == [False, False, True]
    assert at.event == 4


def test_a_transaction_that_ended_is_not_forgotten_though_the_next_one_has_only_begun() -> None:
    at = progress_at(gtids=f"{UUID}:1-9", event=5)

    assert moves(at, offset_at(900, event=2, delta=[(UUID, "", 10, 10)])) == [True]

    assert at.to_map()["gtids"] == f"{UUID}:1-10"
    assert at.event == 2


def test_without_gtids_a_later_transaction_is_a_new_position_whatever_its_event() -> None:
    at = progress_at(gtids=None, event=5)

    assert moves(at, offset_at(900, event=2)) == [True]
    assert at.pos == 900


def test_without_gtids_the_next_file_is_a_new_position() -> None:
    assert moves(progress_at(gtids=None), offset_at(4, file="binlog.000003")) == [True]


INCIDENT, START_ENCRYPTION = 26, 164


def events_of(type_code: int, body: bytes) -> list[Any]:
    """What the decoder gives of one such event."""
    decoder = LogDecoder(flavor="mariadb", resolve=lambda *_: None)
    decoder.start("binlog.000002", 4, now_us=lambda: 0)
    found = decoder.feed(Stream(file="binlog.000002").hello().event(type_code, body).bytes())
    return [item for item in found if isinstance(item, LogEvent) and item.type_code == type_code]


def test_an_incident_ends_the_task_with_its_position_and_remedy() -> None:
    """Only debug builds of the server write one on demand."""
    (incident,) = events_of(INCIDENT, b"\1\0\x0bLOST_EVENTS")

    with pytest.raises(
        DefiniteError,
        match=rf"INCIDENT \(26\) at binlog\.000002:{incident.start_pos}: .*changes are missing.*dump the captured tables again",
    ):
        list(reader_of(progress_at(gtids=None), incident).flush())


def test_the_beginning_of_encryption_is_passed_over() -> None:
    """The server decrypts what it sends; the event itself (scheme, key version, nonce) stands in an encrypted file."""
    (begun,) = events_of(START_ENCRYPTION, b"\1" + bytes(16))

    found = list(reader_of(LogProgress(file="binlog.000002", pos=4, gtids=None), begun).flush())

    assert found == [Moved(position=begun.position)]


def test_bytes_that_were_read_ahead_count_as_the_log_s() -> None:
    unused: Any = sentinel.unused
    ahead = BytesAhead()
    ahead.total = 1000  # of an earlier connection
    reader = BinlogReader(
        unused,
        SimpleNamespace(counts=LogCounts(bytes=7, commits=1)),
        progress_at(gtids=None),
        schemas=unused,
        prepared=Prepared(),
        connections=unused,
        reread=None,
        selection=unused,
        signal_tables=frozenset(),
        moved_values=unused,
        endings=unused,
        take_back=unused,
        unreadable=frozenset(),
        ahead=ahead,
    )
    assert reader.counts == LogCounts(bytes=7, commits=1)
    ahead.total += 50
    assert reader.counts == LogCounts(bytes=57, commits=1)
