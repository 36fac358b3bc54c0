"""A log that is looked through ahead of its reading: damage in it can be left out there too, and its bytes count as life."""

from __future__ import annotations

import struct
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from dblog.dialects.mysql.binlog._fast import LogDecoder
from dblog.dialects.mysql.binlog.items import LogOffset
from dblog.dialects.mysql.binlog.offset import sequence_of
from dblog.dialects.mysql.task.connections import BytesAhead, Connections
from dblog.dialects.mysql.task.endings import Endings
from dblog.dialects.mysql.task.lookahead import LogBytes, LookAhead
from dblog.errors import DamagedLogError, TransientError
from dblog.model import TableId
from support.mysql_log import WRITE_V1, Stream, image


class ReadOnce:
    """A log connection that gives these bytes."""

    is_silent = False

    def __init__(self, data: bytes) -> None:
        self._data = data

    def recv(self, timeout_s: float) -> bytes:
        del timeout_s
        data, self._data = self._data, b""
        return data

    def wake(self) -> None:
        """Nobody waits."""

    def close(self) -> None:
        """Nothing is open."""


def new_decoder(*, ends: bool = True) -> Any:
    return LogDecoder(flavor="mariadb", resolve=lambda _map, _position: None, pass_through=frozenset(), ends=ends)


def damaged() -> tuple[bytes, LogOffset, tuple[str, int], LogOffset]:
    """A log with a transaction whose first rows event is damaged, where the transaction begins, where the event is, and where the log ends."""
    stream = Stream(flavor="mariadb").hello()
    begin = LogOffset(file=stream.file, pos=stream.pos)
    stream.begin().table_map(5, "shop", "t", bytes([3]), b"")
    at, first = stream.pos, len(stream.bytes())
    stream.rows(WRITE_V1, 5, 1, image([struct.pack("<i", 1)])).query("SAVEPOINT `a`")
    stream.rows(WRITE_V1, 5, 1, image([struct.pack("<i", 2)])).query("ROLLBACK TO `a`").xid()
    spoilt = bytearray(stream.bytes())
    spoilt[first + 30] ^= 1
    return bytes(spoilt), begin, (stream.file, at), LogOffset(file=stream.file, pos=stream.pos)


def logs_of(open_log: Any) -> Any:
    """Second log connections that ``open_log`` opens."""
    return SimpleNamespace(
        open_second_log=open_log,
        statements_decoder=lambda: new_decoder(ends=False),
        ends_decoder=new_decoder,
        end_of_log=lambda code, _body, where: TransientError(f"{code} at {where}"),
    )


def endings(open_log: Any) -> Endings:
    return Endings(logs_of(open_log), stopped=threading.Event())


def test_damage_in_a_transaction_that_is_read_for_its_end_first_can_be_left_out() -> None:
    data, begin, at, _ = damaged()
    looks = endings(lambda _file, _pos: ReadOnce(data))

    with pytest.raises(DamagedLogError) as found:
        looks.undone(begin, frozenset())
    assert found.value.event_at == at

    ((low, high),) = looks.undone(begin, frozenset({at}))
    assert at[1] < low < high


def test_damage_in_a_log_that_is_looked_through_for_statements_can_be_left_out() -> None:
    data, begin, at, end = damaged()
    statements: Any = SimpleNamespace(text_of=lambda _: "", parse_statement=lambda *_: ())
    ahead = LookAhead(logs_of(lambda _file, _pos: ReadOnce(data)), statements, stopped=threading.Event(), epoch=0)
    upto = sequence_of(epoch=0, file=end.file, pos=end.pos)
    with pytest.raises(DamagedLogError) as found:
        ahead.touches(TableId("shop", "t"), begin, (0, 4), upto)
    assert found.value.event_at == at

    ahead.unreadable = frozenset({at})
    assert not ahead.touches(TableId("shop", "t"), begin, (0, 4), upto)


def test_bytes_that_a_second_connection_reads_ahead_are_counted() -> None:
    """Else a transaction of hours counts as a task in which nothing moves."""
    data, begin, at, _ = damaged()
    session: Any = SimpleNamespace(identity="1", open_log=lambda **_: ReadOnce(data))
    settings: Any = SimpleNamespace(integer=lambda _: 5, originals={})
    connections = Connections(SimpleNamespace(), settings, session, watermark_table=TableId("dblog", "watermark"))  # type: ignore[arg-type]
    assert isinstance(connections.ahead, BytesAhead)
    opened: LogBytes = connections.open_second_log(begin.file, begin.pos)

    endings(lambda _file, _pos: opened).undone(begin, frozenset({at}))

    assert connections.ahead.total == len(data)
