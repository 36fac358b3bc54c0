"""Wire protocol as bytes: commands, error packets, binary rows, the walk over a result set and its compiled form."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal

import pytest
from dblog.dialects.mysql.wire import protocol
from dblog.dialects.mysql.wire.protocol import PACKET_BYTES_MAX, ResultColumn, ServerError
from dblog.errors import TransientError
from hypothesis import given
from hypothesis import strategies as st

EOF_PACKET = b"\x05\0\0\x01\xfe\0\0\x02\0"
ERR_PACKET = b"\x0d\0\0\x01\xff\x84\x05#HY000gone"


def walks():
    yield "plain", protocol.walk_rows
    try:
        from dblog.dialects.mysql.binlog import _fast
    except ImportError:
        return
    yield "compiled", _fast.scan_rows


walk_of = pytest.mark.parametrize("walk", [walk for _, walk in walks()], ids=[name for name, _ in walks()])
payloads = st.lists(st.binary(max_size=20).map(lambda tail: b"\0" + tail), max_size=8)


@walk_of
@given(payloads=payloads, cut=st.integers(0, 300), ends=st.booleans())
def test_a_walk_passes_whole_rows_only_and_can_go_on(walk, payloads, cut, ends):
    rows = [protocol.packets(payload) for payload in payloads]
    whole = b"".join(rows) + (EOF_PACKET if ends else b"")
    data = whole[:cut]
    ends_at = [sum(map(len, rows[: i + 1])) for i in range(len(rows))]

    complete, count, last, at = walk(data, 0)
    rest_complete, rest_count, rest_last, end = walk(whole, at) if not complete else (True, 0, -1, at)

    assert count == sum(end <= len(data) for end in ends_at)
    assert last == (ends_at[count - 1] - len(rows[count - 1]) if count else -1)
    assert complete == (ends and len(data) == len(whole))
    assert count + rest_count == len(rows)
    assert end == len(whole)
    assert rest_complete == (ends or complete)
    assert rest_last == (ends_at[-1] - len(rows[-1]) if rest_count else -1)


@walk_of
@pytest.mark.parametrize("size", [PACKET_BYTES_MAX - 1, PACKET_BYTES_MAX, PACKET_BYTES_MAX + 1, 2 * PACKET_BYTES_MAX])
def test_a_row_of_several_packets_is_one_row_and_its_inner_bytes_are_never_taken_for_an_end(walk, size):
    row = protocol.packets(b"\0" + b"\xfe" * (size - 1))
    data = protocol.packets(b"\0a") + row + protocol.packets(b"\0b") + EOF_PACKET

    assert walk(data, 0) == (True, 3, 6 + len(row), len(data))
    assert walk(data[: 6 + len(row) - 1], 0) == (False, 1, 0, 6)
    assert protocol.join_row(data, 6) == b"\0" + b"\xfe" * (size - 1)


@walk_of
def test_an_error_among_the_rows_is_transient_and_can_be_asked_for(walk):
    data = protocol.packets(b"\0a") + ERR_PACKET

    with pytest.raises(TransientError, match="1412"):
        walk(data, 0)
    assert protocol.error_among_rows(data) == ServerError(code=1412, sqlstate="HY000", text="gone")
    assert protocol.error_among_rows(data[:6]) is None


def test_an_error_behind_a_long_row_is_found():
    data = protocol.packets(b"\0" + b"\xff" * PACKET_BYTES_MAX) + ERR_PACKET

    assert protocol.error_among_rows(data).code == 1412


def test_an_error_of_the_handshake_has_no_sql_state():
    assert protocol.read_error(b"\xff\x10\x04Too many connections") == ServerError(code=1040, sqlstate="", text="Too many connections")


@pytest.mark.parametrize("size", [0, 1, 250, 251, 65_535, 65_536, (1 << 24) - 1, 1 << 24])
def test_lengths_are_written_as_they_are_read(size):
    encoded = protocol.length_encoded(b"x" * size)

    assert protocol.read_length(encoded, 0) == (size, len(encoded) - size)


@pytest.mark.parametrize("size", [0, 5, PACKET_BYTES_MAX - 1, PACKET_BYTES_MAX, PACKET_BYTES_MAX + 3])
def test_commands_are_cut_at_16_mib_with_rising_numbers(size):
    data = protocol.packets(b"x" * size)

    at = number = total = 0
    while at < len(data):
        n = int.from_bytes(data[at : at + 3], "little")
        assert data[at + 3] == number
        total, at, number = total + n, at + 4 + n, number + 1
    assert total == size
    assert n < PACKET_BYTES_MAX


def test_dump_commands_have_the_servers_layout():
    assert protocol.binlog_dump(server_id=7, file="b.1", pos=4, flags=2) == b"\x12\x04\0\0\0\x02\0\x07\0\0\0b.1"
    assert protocol.binlog_dump_gtid(server_id=7, gtid_set=b"set") == b"\x1e\0\0\x07\0\0\0\0\0\0\0\x04" + bytes(7) + b"\x03\0\0\0set"
    registered = protocol.register_replica(server_id=7, hostname="h" * 100)
    assert registered == b"\x15\x07\0\0\0\x3c" + b"h" * 60 + bytes(12)


def column(type_code: int, *, flags: int = 0, collation: int = 63) -> ResultColumn:
    return ResultColumn(name="c", type_code=type_code, collation=collation, length=0, flags=flags, decimals=0)


def text_of(value: str) -> bytes:
    return protocol.length_encoded(value.encode())


VALUES = [
    (column(1), b"\xff", -1),
    (column(1, flags=protocol.UNSIGNED_FLAG), b"\xff", 255),
    (column(2), b"\0\x80", -32768),
    (column(13), b"\xe4\x07", 2020),
    (column(9), b"\xff\xff\xff\xff", -1),
    (column(3, flags=protocol.UNSIGNED_FLAG), b"\xff\xff\xff\xff", (1 << 32) - 1),
    (column(8), struct.pack("<q", -(1 << 63)), -(1 << 63)),
    (column(8, flags=protocol.UNSIGNED_FLAG), b"\xff" * 8, (1 << 64) - 1),
    (column(4), struct.pack("<f", 0.1), struct.unpack("<f", struct.pack("<f", 0.1))[0]),
    (column(5), struct.pack("<d", 0.1), 0.1),
    (column(246), text_of("-12.340"), Decimal("-12.340")),
    (column(253, collation=45), text_of("größer"), "größer"),
    (column(253), protocol.length_encoded(b"\xff\0"), b"\xff\0"),
    (column(254, collation=45), text_of("x" * 300), "x" * 300),
    (column(16), protocol.length_encoded(b"\x01\x02"), 258),
    (column(10), b"\x04\xe4\x07\x02\x1d", dt.date(2020, 2, 29)),
    (column(10), b"\0", "0000-00-00"),
    (column(10), b"\x04\xe4\x07\x02\x1f", "2020-02-31"),
    (column(12), b"\x04\xe4\x07\x01\x02", dt.datetime(2020, 1, 2)),  # noqa: DTZ001 - as in the table
    (column(12), b"\x07\xe4\x07\x01\x02\x03\x04\x05", dt.datetime(2020, 1, 2, 3, 4, 5)),  # noqa: DTZ001
    (column(7), b"\x0b\xe4\x07\x01\x02\x03\x04\x05\x40\x42\x0e\0", dt.datetime(2020, 1, 2, 3, 4, 5, 934_464)),  # noqa: DTZ001
    (column(12), b"\0", "0000-00-00 00:00:00.000000"),
    (column(12), b"\x0b\xe4\x07\0\0\x03\x04\x05\x01\0\0\0", "2020-00-00 03:04:05.000001"),
    (column(11), b"\0", dt.timedelta()),
    (column(11), b"\x08\0\x22\0\0\0\x16\x3b\x3b", dt.timedelta(hours=838, minutes=59, seconds=59)),
    (column(11), b"\x0c\x01\0\0\0\0\x01\x02\x03\x01\0\0\0", -dt.timedelta(hours=1, minutes=2, seconds=3, microseconds=1)),
]


@pytest.mark.parametrize(("definition", "wire", "value"), VALUES)
def test_values_of_binary_rows_are_read(definition, wire, value):
    row = b"\0\0" + wire

    (found,) = protocol.row_values(row, [definition], [0])

    assert found == value
    assert type(found) is type(value)


def test_wanted_columns_are_picked_in_the_order_asked_for_and_nulls_take_no_bytes():
    columns = [definition for definition, _, _ in VALUES[:9]]
    wires = [wire for _, wire, _ in VALUES[:9]]
    nulls = 1 << (3 + 2)
    row = b"\0" + nulls.to_bytes(2, "little") + b"".join(wire for i, wire in enumerate(wires) if i != 3)

    assert protocol.row_values(row, columns, [7, 3, 0]) == ((1 << 64) - 1, None, -1)
    assert protocol.row_values(row, columns, []) == ()


@pytest.mark.parametrize(
    ("value", "type_code", "unsigned", "wire"),
    [
        (5, 8, 0, struct.pack("<q", 5)),
        (-(1 << 63), 8, 0, struct.pack("<q", -(1 << 63))),
        (1 << 63, 8, 0x80, struct.pack("<Q", 1 << 63)),
        (True, 8, 0, struct.pack("<q", 1)),
        (0.5, 5, 0, struct.pack("<d", 0.5)),
        ("ä", 253, 0, b"\x02\xc3\xa4"),
        (b"\xff", 252, 0, b"\x01\xff"),
        (Decimal("1E+3"), 246, 0, b"\x041000"),
        (Decimal("-0.00001"), 246, 0, b"\x08-0.00001"),
        (dt.date(2020, 1, 2), 10, 0, b"\x04\xe4\x07\x01\x02"),
        (dt.datetime(2020, 1, 2, 3, 4, 5, 1), 12, 0, b"\x0b\xe4\x07\x01\x02\x03\x04\x05\x01\0\0\0"),  # noqa: DTZ001
        (-dt.timedelta(days=34, hours=22, microseconds=1), 11, 0, b"\x0c\x01\x22\0\0\0\x16\0\0\x01\0\0\0"),
    ],
)
def test_parameters_are_bound_with_their_types(value, type_code, unsigned, wire):
    assert protocol.execute(9, [value]) == b"\x17\x09\0\0\0\0\x01\0\0\0" + b"\0\x01" + bytes((type_code, unsigned)) + wire


def test_null_parameters_are_bits_and_no_parameters_are_nothing():
    assert protocol.execute(9, []) == b"\x17\x09\0\0\0\0\x01\0\0\0"
    bound = protocol.execute(9, [None] * 9)
    assert bound[10:13] == b"\xff\x01\x01"
    assert len(bound) == 10 + 2 + 1 + 18


def test_what_cannot_be_bound_is_our_bug_and_shows_no_value():
    with pytest.raises(AssertionError, match="type set"):
        protocol.execute(9, [{"secret"}])
