"""What answers at the address of a database may be anything: it gets no memory without bound, and whatever it sends becomes an error with a sentence."""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest
from dblog.dialects.answer_budget import AnswerBudget
from dblog.dialects.mysql.wire import dump, guarded
from dblog.dialects.mysql.wire.connect import ConnectSettings, open_wire
from dblog.dialects.mysql.wire.dump import DumpConnection
from dblog.dialects.mysql.wire.log import announce
from dblog.errors import DblogError, DefiniteError, TransientError
from dblog.model import TableId
from support.false_server import EOF, OK, Answer, FalseServer, column, greeting, lenenc, obliging, rows

FULL = b"\xff\xff\xff"
SENT_MAX = 24 << 20
"""What the server's thread may send before it learns that nobody reads: the buffers of both sockets. It stops by itself at three times that."""

PREPARED = struct.pack("<BIHHBH", 0, 1, 1, 0, 0, 0)
MARKS = TableId("dblog", "watermark")


def settings_for(server: FalseServer, **more: object) -> ConnectSettings:
    return replace(ConnectSettings(host="127.0.0.1", port=server.port, user="u", password="pass-canary", connect_timeout_s=5.0), **more)  # type: ignore[arg-type]


def endless(part: bytes) -> Iterator[bytes]:
    return itertools.repeat(part, 3 * SENT_MAX // len(part))


def to(statement: bytes, answer: Iterable[bytes]) -> Answer:
    """Obliging, but for one statement (or command)."""
    return lambda payload: answer if payload[1:].startswith(statement) else obliging(payload)


# -- while we log in --------------------------------------------------------------------------------------------------------------------


def test_a_greeting_without_end_is_not_read_further_than_any_greeting_goes():
    numbered = (FULL + bytes([number % 256]) + bytes(0xFFFFFF) for number in range(3 * SENT_MAX >> 24))

    with (
        FalseServer(raw=numbered) as server,
        pytest.raises(DefiniteError, match=rf"127\.0\.0\.1:{server.port} is not a MySQL or MariaDB server"),
    ):
        open_wire(settings_for(server))

    assert server.sent_bytes < SENT_MAX


def test_a_login_without_end_is_not_read_further_than_any_login_goes():
    with (
        FalseServer(login=endless(b"\xfe" + bytes(0xFFFFFE))) as server,
        pytest.raises(DefiniteError, match="is not a MySQL or MariaDB server"),
    ):
        open_wire(settings_for(server))

    assert server.sent_bytes < SENT_MAX


def test_a_login_method_that_is_no_text_is_not_called_a_wrong_host_name():
    with FalseServer(greeting=greeting(b"\xff\xfe")) as server, pytest.raises(DefiniteError, match="is not a MySQL or MariaDB server"):
        open_wire(settings_for(server))


# -- answers to statements ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [b"", b"1", bytes(10_000), bytes(0xFFFFFF)], ids=["empty", "small", "long", "longer than a packet"])
def test_rows_without_end_are_not_kept(value):  # number 32 of the worker's safety
    part = lenenc(value)[:0xFFFFFF]
    answer = itertools.chain([b"\x01", column(b"c"), EOF], endless(part))

    with FalseServer(to(b"SELECT", answer)) as server:
        wire = open_wire(settings_for(server))
        with pytest.raises(DefiniteError, match=rf"127\.0\.0\.1:{server.port} answers a statement with more than 1 MiB"):
            wire.query("SELECT 1", bytes_max=1 << 20)
        wire.close()

    assert server.sent_bytes < SENT_MAX


def test_a_statement_that_names_no_limit_has_one():
    with FalseServer(to(b"SELECT", itertools.chain([b"\x01", column(b"c"), EOF], itertools.repeat(lenenc(bytes(8 << 20)), 40)))) as server:
        wire = open_wire(settings_for(server))
        with pytest.raises(DefiniteError, match="more than 256 MiB"):
            wire.query("SELECT 1")
        wire.close()


def test_columns_without_end_are_no_servers():
    answer = itertools.chain([b"\xfe" + struct.pack("<Q", 1 << 40)], endless(column(b"c")))

    with FalseServer(to(b"SELECT", answer)) as server:
        wire = open_wire(settings_for(server))
        with pytest.raises(DefiniteError, match="is not a MySQL or MariaDB server"):
            wire.query("SELECT 1")
        wire.close()

    assert server.sent_bytes < SENT_MAX


def test_a_catalog_of_15000_tables_with_100_columns_is_within_its_limit():
    row = (
        b"orders_of_customer_00001", b"a_column_with_a_long_name_01", b"CURRENT_TIMESTAMP", b"YES", b"varchar", b"255", b"10", b"2", b"6", b"utf8mb4",
        b"utf8mb4_general_ci", b"varchar(255)", b"on update CURRENT_TIMESTAMP", b"what the column is for", b"",
    )  # fmt: skip

    with FalseServer(to(b"SELECT", rows(len(row), itertools.repeat(row, 1000)))) as server:
        wire = open_wire(settings_for(server))
        assert len(wire.query("SELECT 1", bytes_max=guarded.CATALOG_BYTES_MAX // 1500)) == 1000
        wire.close()


def test_what_several_servers_answer_is_bounded_together_until_their_connections_close():
    budget = AnswerBudget(3 << 20)
    statement = to(b"SELECT", [b"\x01", column(b"c"), EOF, lenenc(bytes(1500 * 1024)), EOF])

    with FalseServer(statement) as server:
        first, second = (open_wire(settings_for(server, budget=budget)) for _ in range(2))
        assert len(first.query("SELECT 1")) == 1
        with pytest.raises(TransientError, match=rf"the check of 127\.0\.0\.1:{server.port} was given up; try again"):
            second.query("SELECT 1")
        second.close()
        first.close()
        first.close()
        third = open_wire(settings_for(server, budget=budget))
        assert len(third.query("SELECT 1")) == 1
        third.close()

    assert budget.take(3 << 20)


def test_a_dict_as_parameter_is_refused():
    with FalseServer() as server:
        wire = open_wire(settings_for(server))
        before = len(server.heard)
        with pytest.raises(TypeError, match="dict can not be used as parameter"):
            wire.query("SELECT %s", ({"a": 1},))
        wire.close()

    assert not any(b"SELECT" in packet for packet in server.heard[before:])


# -- chunks -------------------------------------------------------------------------------------------------------------------------------

COLUMN_COUNTS = {
    "a wish for a file": b"\xfb/etc/passwd",
    "success without rows": OK,
    "nothing": b"",
    "more columns than any table": b"\xfc\x01\x10",
    "columns without end": b"\xfe" + bytes([255] * 8),
    "half a number": b"\xfc\x01",
}


def select(answer: Iterable[bytes], *, bytes_max: int = 0, prepared: Iterable[bytes] = (PREPARED, column(b"c"), EOF)) -> int:
    """What a chunk is refused with; gives how much the server got rid of."""

    def answered(payload: bytes) -> Iterable[bytes]:
        return prepared if payload[:1] == b"\x16" else answer if payload[:1] == b"\x17" else obliging(payload)

    with FalseServer(answered) as server:
        connection = DumpConnection.open(settings_for(server), MARKS)
        try:
            with pytest.raises(DefiniteError, match=rf"127\.0\.0\.1:{server.port} is not a MySQL or MariaDB server"):
                connection.select("SELECT c FROM t", bytes_max=bytes_max, key=[0])
            with pytest.raises(TransientError):  # nothing behind it would be read rightly
                connection.begin_snapshot()
        finally:
            connection.close()
    return server.sent_bytes


@pytest.mark.parametrize("head", COLUMN_COUNTS.values(), ids=COLUMN_COUNTS)
def test_an_answer_to_a_chunk_that_is_no_result_is_no_servers(head):
    select([head, *[column(b"c")] * 10, EOF])


@pytest.mark.parametrize(
    "answer",
    [
        [b"\x01", b"\xff\xff\xff", EOF],
        [b"\x01", b"\x03def", EOF],
        [b"\x01", bytes(70_000), EOF],
        [b"\x01", column(b"c", 246), EOF, b"\0\0\x03a.b", EOF],
        [b"\x01", column(b"c", 12), EOF, b"\0\0\x0c" + bytes(12), EOF],
        [b"\x01", column(b"c"), EOF, b"\0\0\xff", EOF],
        [b"\x01", column(b"c"), EOF, b"\0\0\x01a", b"\xfe"],
    ],
    ids=["no column", "half a column", "a long column", "no decimal", "a time too long", "no length", "another end"],
)  # fmt: skip
def test_a_chunk_that_cannot_be_read_is_no_servers(answer):
    select(answer)


@pytest.mark.parametrize("prepared", [[b"\0"], [b""], [bytes(70_000)]])
def test_a_statement_that_is_prepared_as_no_server_does_it_is_no_servers(prepared):
    select([], prepared=prepared)


@pytest.mark.parametrize("bytes_max", [0, 1000])
def test_a_row_without_end_is_not_kept(monkeypatch, bytes_max):
    monkeypatch.setattr(dump, "ROW_BYTES_MAX", 17 << 20)

    assert select(itertools.chain([b"\x01", column(b"c"), EOF], endless(bytes(0xFFFFFF))), bytes_max=bytes_max) < 2 * SENT_MAX


def test_rows_without_end_where_one_is_expected_are_not_kept(monkeypatch):
    monkeypatch.setattr(dump, "ROW_BYTES_MAX", 1 << 20)

    assert select(itertools.chain([b"\x01", column(b"c"), EOF], endless(b"\0\0\x03abc" + bytes(1000)))) < SENT_MAX


# -- other commands, and chance -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packet", [b"", bytes(1 << 20)], ids=["nothing", "too much"])
def test_the_answer_to_a_replica_that_registers_is_short(packet):
    with FalseServer(lambda payload: [packet] if payload[:1] == b"\x15" else obliging(payload)) as server:
        wire = open_wire(settings_for(server))
        with pytest.raises(DefiniteError, match="is not a MySQL or MariaDB server"):
            announce(wire, server_id=7, hostname="h")
        wire.close()


def chance(random_: random.Random) -> list[bytes]:
    """Packets of a result set, each of them now and then another one, or with a byte changed."""
    packets = list(rows(2, [(b"a", b"1"), (None, b"2")]))
    for _ in range(random_.randint(1, 4)):
        at = random_.randrange(len(packets))
        kind = random_.randrange(4)
        if kind == 0:
            packets[at] = random_.randbytes(random_.randrange(40))
        elif kind == 1 and packets[at]:
            changed = bytearray(packets[at])
            changed[random_.randrange(len(changed))] = random_.randrange(256)
            packets[at] = bytes(changed)
        elif kind == 2:
            packets[at] = packets[at][: random_.randrange(len(packets[at]) + 1)]
        else:
            packets.insert(at, bytes([random_.choice([0, 0xFB, 0xFC, 0xFE, 0xFF])]) + random_.randbytes(random_.randrange(12)))
    return packets


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_answered_by_chance_is_an_answer_or_an_error_with_a_sentence(seed):
    random_ = random.Random(seed)
    outcomes = set()

    with FalseServer(lambda payload: [*chance(random_), None] if payload[1:].startswith(b"SELECT") else obliging(payload)) as server:
        for _ in range(50):
            wire = open_wire(settings_for(server))
            try:
                wire.query("SELECT 1")
                outcomes.add("answer")
            except DblogError as e:
                outcomes.add(type(e).__name__ if f"127.0.0.1:{server.port}" in str(e) else "an error without the address")
            wire.close()

    assert {"answer", "DefiniteError"} <= outcomes <= {"answer", "DefiniteError", "TransientError", "TableChangedError"}


@pytest.mark.parametrize("seed", range(3))
def test_whatever_a_login_meets_by_chance_is_a_login_or_an_error_with_a_sentence(seed):
    random_ = random.Random(seed)
    outcomes = set()

    for _ in range(40):
        changed = bytearray(greeting())
        for _ in range(random_.randrange(3)):
            changed[random_.randrange(len(changed))] = random_.randrange(256)
        login = [bytes([random_.choice([0, 1, 0xFB, 0xFE, 0xFF])]) + random_.randbytes(random_.randrange(40)) for _ in range(2)]
        with FalseServer(greeting=bytes(changed[: random_.randrange(40, 200)]), login=[*random_.choice([[OK], login]), None]) as server:
            try:
                open_wire(settings_for(server)).close()
                outcomes.add("login")
            except DblogError as e:
                outcomes.add(type(e).__name__ if f"127.0.0.1:{server.port}" in str(e) else "an error without the address")

    assert {"DefiniteError"} <= outcomes <= {"login", "DefiniteError", "TransientError"}
