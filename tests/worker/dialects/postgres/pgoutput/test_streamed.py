"""Transactions that come in pieces while they are under way: the decoder gets what it would have got of them without streaming."""

from __future__ import annotations

import io
import itertools
import random
import struct
from pathlib import Path
from typing import BinaryIO

import pytest
from dblog.dialects.postgres.pgoutput.messages import copy_messages
from dblog.dialects.postgres.pgoutput.streamed import StreamedTransactions
from dblog.errors import DamagedLogError, TransientError
from support.pgoutput_log import Stream, copy_message, logged, relation_body
from support.pgoutput_tables import change_of

COMMIT_TS = 777
LETTER = 25
"""Where a copy message has the letter of its message of the log."""


def row(letter: bytes, number: int, id_: int) -> bytes:
    values = {"id": str(id_)}
    return struct.pack(">cI", letter, number) + change_of(values if letter == b"D" else None, None if letter == b"D" else values)


def numbered(message: bytes, xid: int) -> bytes:
    """A message of a transaction under way."""
    return message if message[:1] == b"O" else message[:1] + struct.pack(">I", xid) + message[1:]


def started(xid: int, *, first: bool = True) -> bytes:
    return logged(struct.pack(">cIB", b"S", xid, first))


def committed(xid: int, commit_lsn: int) -> bytes:
    return logged(struct.pack(">cIBQQq", b"c", xid, 0, commit_lsn, commit_lsn + 48, COMMIT_TS))


def aborted(xid: int, subtransaction: int) -> bytes:
    return logged(struct.pack(">cII", b"A", xid, subtransaction))


STOPPED = logged(b"E")


def taken(streamed: StreamedTransactions, *arrived: bytes) -> list[bytes]:
    """The messages of the log that the decoder gets."""
    found = b"".join(piece for data in arrived for piece in streamed.take(data))
    messages = [found[start:end] for start, end in copy_messages(found)]
    return [message[LETTER:] if message[:1] == b"w" else message for message in messages]


def whole(xid: int, commit_lsn: int, *messages: bytes) -> list[bytes]:
    begin = struct.pack(">cQqI", b"B", commit_lsn, COMMIT_TS, xid)
    return [begin, *messages, struct.pack(">cBQQq", b"C", 0, commit_lsn, commit_lsn + 48, COMMIT_TS)]


def test_without_a_transaction_under_way_what_arrives_is_passed_on_as_it_is() -> None:
    log = Stream().begin().relation(1, "t", ["id:int4"]).insert(1, {"id": "1"}).commit().keepalive().bytes()

    assert list(StreamedTransactions(io.BytesIO).take(log)) == [log]


@pytest.mark.parametrize("seed", range(200))
def test_the_decoder_gets_each_transaction_whole_when_it_commits(seed: int) -> None:
    dice = random.Random(seed)
    left = {
        xid: [
            logged(numbered(message, subtransaction), lsn)
            for lsn, (subtransaction, message) in enumerate(
                [(xid, b"O" + bytes(8) + b"elsewhere\0"), (xid, relation_body(xid, "t", ["id:int4"]))]
                + [(dice.choice([xid, xid + 1]), row(dice.choice([b"I", b"U", b"D"]), xid, n)) for n in range(dice.randrange(30))]
            )
        ]
        for xid in (100, 200, 300)
    }
    fates = {xid: dice.choice(["committed", "aborted", "in part"]) for xid in left}
    expected: list[bytes] = []
    arrived: list[bytes] = []
    sent: dict[int, list[bytes]] = {xid: [] for xid in left}
    while left:
        xid = dice.choice(list(left))
        count = dice.randrange(1, 12)
        piece, left[xid] = left[xid][:count], left[xid][count:]
        keepalive = copy_message(struct.pack(">cQqB", b"k", 5, 0, 0))
        arrived += [started(xid), *itertools.chain.from_iterable((message, keepalive) for message in piece), STOPPED]
        sent[xid] += piece
        if not left[xid]:
            del left[xid]
            if fates[xid] == "aborted":
                arrived.append(aborted(xid, xid))
                continue
            if fates[xid] == "in part":
                arrived.append(aborted(xid, xid + 1))
            arrived.append(committed(xid, 1000 + xid))
            bodies = [message[4 + LETTER :] for message in sent[xid]]
            kept = [
                body if body[:1] == b"O" else body[:1] + body[5:]
                for body in bodies
                if body[:1] == b"O" or fates[xid] == "committed" or struct.unpack(">I", body[1:5])[0] == xid
            ]
            expected += whole(xid, 1000 + xid, *kept)
    # As they arrive: any number of whole messages at a time.
    groups = []
    while arrived:
        count = dice.randrange(1, 9)
        groups.append(b"".join(arrived[:count]))
        arrived = arrived[count:]

    assert taken(StreamedTransactions(io.BytesIO), *groups) == expected


def truncate(*numbers: int) -> bytes:
    return struct.pack(f">cIB{len(numbers)}I", b"T", len(numbers), 0, *numbers)


def test_a_table_that_only_a_subtransaction_has_described_that_was_taken_back_is_described_where_a_row_or_a_truncate_needs_it() -> None:
    described = {number: relation_body(number, f"t{number}", ["id:int4"]) for number in range(1, 7)}
    again = relation_body(3, "t3", ["id:int4", "more:int4"])
    piece = b"".join(
        logged(numbered(message, xid))
        for xid, message in [
            *((101, message) for message in described.values()),
            (101, row(b"I", 1, 1)),
            (100, row(b"I", 1, 2)),
            (100, again),
            (100, row(b"I", 3, 3)),
        ]
    )
    streamed = StreamedTransactions(io.BytesIO)

    found = taken(streamed, started(100) + piece + STOPPED + aborted(100, 101) + committed(100, 900))

    assert found == whole(100, 900, described[1], row(b"I", 1, 2), again, row(b"I", 3, 3))
    # The server does not describe the others again, in no later transaction either.
    keepalive = copy_message(struct.pack(">cQqB", b"k", 5, 0, 0))
    later = taken(
        streamed,
        Stream().begin(xid=200, commit_lsn=1000).bytes()
        + logged(row(b"I", 1, 4))
        + keepalive
        + logged(row(b"D", 2, 5))
        + logged(row(b"I", 2, 6)),
        logged(truncate(1, 4, 5)),
    )
    assert later[1:] == [
        row(b"I", 1, 4),
        keepalive[4:],
        described[2],
        row(b"D", 2, 5),
        row(b"I", 2, 6),
        described[4],
        described[5],
        truncate(1, 4, 5),
    ]
    other = relation_body(6, "t6", ["id:int4", "more:int4"])
    assert taken(streamed, logged(other) + logged(row(b"I", 6, 7))) == [other, row(b"I", 6, 7)]
    streamed_later = started(300) + logged(numbered(truncate(6, 1), 300)) + STOPPED + committed(300, 1200)
    assert taken(streamed, streamed_later) == whole(300, 1200, truncate(6, 1))


def test_pieces_larger_than_a_feed_come_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dblog.dialects.postgres.pgoutput.streamed.PIECE_BYTES_MAX", 100)
    rows = [row(b"I", 1, n) for n in range(50)]
    streamed = StreamedTransactions(io.BytesIO)
    for message in rows:
        assert not list(streamed.take(started(100) + logged(numbered(message, 100)) + STOPPED))

    pieces = list(streamed.take(committed(100, 900)))

    assert len(pieces) > 10
    assert taken(streamed, *pieces) == whole(100, 900, *rows)


def test_a_full_disk_is_named_with_the_way_out() -> None:
    def spool() -> BinaryIO:
        return Path("/dev/full").open("w+b")  # the buffer's rest finds no room when it is closed, too

    streamed = StreamedTransactions(spool)
    rows = b"".join(logged(numbered(row(b"I", 1, n), 100)) for n in range(1000))
    with pytest.raises(TransientError, match=r"TMPDIR\): No space left on device; have room there .* or set dblog\.log\.streaming=false"):
        taken(streamed, started(100) + rows + STOPPED)
    taken(streamed, started(200) + logged(numbered(row(b"I", 1, 1), 200)) + STOPPED)
    streamed.close()


def test_a_connection_that_is_closed_while_a_transaction_is_given_out_ends_it() -> None:
    streamed = StreamedTransactions(io.BytesIO)
    taken(streamed, started(100) + logged(numbered(row(b"I", 1, 1), 100)) + STOPPED + started(200))
    streamed.close()

    with pytest.raises(DamagedLogError, match="of which it has sent nothing"):
        taken(streamed, committed(100, 900))


@pytest.mark.parametrize("letter", [b"S", b"A", b"c"])
def test_a_message_that_is_cut_off_is_damage(letter: bytes) -> None:
    with pytest.raises(DamagedLogError, match="cut off"):
        taken(StreamedTransactions(io.BytesIO), logged(letter + b"\0\0"))


def test_a_row_under_way_that_is_cut_off_is_damage() -> None:
    with pytest.raises(DamagedLogError, match="cut off"):
        taken(StreamedTransactions(io.BytesIO), started(100) + logged(b"I\0\0") + STOPPED + committed(100, 900))
