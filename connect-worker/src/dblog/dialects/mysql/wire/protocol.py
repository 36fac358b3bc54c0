"""The client side of MySQL's wire protocol, bytes in and bytes out: commands, error packets, result
sets of prepared statements.

Rule sources: MySQL internals "Client/Server Protocol" (COM_BINLOG_DUMP, COM_BINLOG_DUMP_GTID,
COM_REGISTER_SLAVE, COM_STMT_PREPARE, COM_STMT_EXECUTE, Binary Protocol Resultset),
sql/rpl_source.cc for the dump commands, MariaDB knowledge base "Replication Protocol". Nothing here
touches a socket: log.py and dump.py send and receive.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dblog.errors import TransientError

PACKET_BYTES_MAX = 0xFFFFFF
"""The largest packet, in bytes. The next packet continues one of exactly this length."""

SMALL_PACKET_BYTES_MAX = 64 * 1024
"""The most bytes of a packet without row data: an error has a sentence, a column definition six
names.
"""

COLUMNS_MAX = 4096
"""The most columns of a table or an answer (MySQL manual, Limits on Table Column Count)."""

BINARY_COLLATION = 63
UNSIGNED_FLAG = 0x20

COM_BINLOG_DUMP = 0x12
COM_REGISTER_SLAVE = 0x15
COM_STMT_PREPARE = 0x16
COM_STMT_EXECUTE = 0x17
COM_STMT_CLOSE = 0x19
COM_BINLOG_DUMP_GTID = 0x1E

_TYPE_DOUBLE = 5
_TYPE_NULL = 6
_TYPE_LONGLONG = 8
_TYPE_DATE = 10
_TYPE_TIME = 11
_TYPE_DATETIME = 12
_TYPE_NEWDECIMAL = 246
_TYPE_BLOB = 252
_TYPE_VAR_STRING = 253


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerError:
    """An ERR packet. ``text`` is the server's: it may contain data of rows, so only known texts may
    be shown.
    """

    code: int
    sqlstate: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultColumn:
    """A column definition of a result set: its wire type, collation number, flags and decimals."""

    name: str
    type_code: int
    collation: int
    length: int
    flags: int
    decimals: int

    @property
    def unsigned(self) -> bool:
        """True if the integer's top bit is part of its magnitude."""
        return bool(self.flags & UNSIGNED_FLAG)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The answer to COM_STMT_PREPARE."""

    statement_id: int
    columns: int
    parameters: int


# -- commands --------------------------------------------------------------------------------------


def packets(payload: bytes) -> bytes:
    """Return a command as packets: 3 bytes of length and a sequence number from 0 before every 16
    MiB.
    """
    out = []
    at = sequence = 0
    while True:
        part = payload[at : at + PACKET_BYTES_MAX]
        out.append(struct.pack("<I", len(part))[:3] + bytes((sequence & 0xFF,)) + part)
        at += len(part)
        sequence += 1
        if len(part) < PACKET_BYTES_MAX:
            return b"".join(out)


def register_replica(*, server_id: int, hostname: str, port: int = 0) -> bytes:
    """Return COM_REGISTER_SLAVE, which makes us visible in SHOW REPLICAS. User and password stay
    empty, since they are only displayed.
    """
    host = hostname.encode("utf-8", "replace")[:60]
    return struct.pack("<BIB", COM_REGISTER_SLAVE, server_id, len(host)) + host + struct.pack("<BBHII", 0, 0, port & 0xFFFF, 0, 0)


def binlog_dump(*, server_id: int, file: str, pos: int, flags: int = 0) -> bytes:
    """Return COM_BINLOG_DUMP, which asks for the log from an offset of a file. The offset has 32
    bits.
    """
    return struct.pack("<BIHI", COM_BINLOG_DUMP, pos, flags, server_id) + file.encode()


def binlog_dump_gtid(*, server_id: int, gtid_set: bytes, file: str = "", pos: int = 4, flags: int = 0) -> bytes:
    """Return COM_BINLOG_DUMP_GTID, which asks for every transaction outside the (encoded) set, from
    the oldest file that can have one.
    """
    name = file.encode()
    head = struct.pack("<BHII", COM_BINLOG_DUMP_GTID, flags, server_id, len(name))
    return head + name + struct.pack("<QI", pos, len(gtid_set)) + gtid_set


def prepare(sql: str) -> bytes:
    """Return COM_STMT_PREPARE."""
    return bytes((COM_STMT_PREPARE,)) + sql.encode()


def close_statement(statement_id: int) -> bytes:
    """Return COM_STMT_CLOSE; the server does not answer it."""
    return struct.pack("<BI", COM_STMT_CLOSE, statement_id)


def execute(statement_id: int, parameters: Sequence[Any]) -> bytes:
    """Return COM_STMT_EXECUTE without a cursor. Parameters may be None, int, float, str, bytes,
    Decimal, date, datetime or timedelta.
    """
    head = struct.pack("<BIBI", COM_STMT_EXECUTE, statement_id, 0, 1)
    if not parameters:
        return head
    nulls = bytearray((len(parameters) + 7) // 8)
    types = bytearray()
    values = bytearray()
    for i, parameter in enumerate(parameters):
        if parameter is None:
            nulls[i >> 3] |= 1 << (i & 7)
        type_code, unsigned, body = _bind(parameter)
        types += struct.pack("<BB", type_code, unsigned)
        values += body
    return head + bytes(nulls) + b"\x01" + bytes(types) + bytes(values)


def _bind(value: object) -> tuple[int, int, bytes]:
    """Return wire type, unsigned flag and bytes of one parameter."""
    match value:
        case None:
            return _TYPE_NULL, 0, b""
        case bool():
            return _TYPE_LONGLONG, 0, struct.pack("<q", int(value))
        case int() if value >= 1 << 63:
            return _TYPE_LONGLONG, 0x80, struct.pack("<Q", value)
        case int():
            return _TYPE_LONGLONG, 0, struct.pack("<q", value)
        case float():
            return _TYPE_DOUBLE, 0, struct.pack("<d", value)
        case str():
            return _TYPE_VAR_STRING, 0, length_encoded(value.encode())
        case bytes():
            return _TYPE_BLOB, 0, length_encoded(value)
        case Decimal():
            return _TYPE_NEWDECIMAL, 0, length_encoded(format(value, "f").encode())
        case dt.datetime():
            clock = struct.pack("<BBBI", value.hour, value.minute, value.second, value.microsecond)
            return _TYPE_DATETIME, 0, struct.pack("<BHBB", 11, value.year, value.month, value.day) + clock
        case dt.date():
            return _TYPE_DATE, 0, struct.pack("<BHBB", 4, value.year, value.month, value.day)
        case dt.timedelta():
            return _TYPE_TIME, 0, _time_bytes(value)
        case _:
            message = f"a statement parameter of type {type(value).__name__}"
            raise AssertionError(message)


def _time_bytes(value: dt.timedelta) -> bytes:
    micros = value // dt.timedelta(microseconds=1)
    negative, micros = int(micros < 0), abs(micros)
    seconds, micros = divmod(micros, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return struct.pack("<BBIBBBI", 12, negative, days, hour, minute, second, micros)


def length_encoded(data: bytes) -> bytes:
    """Return the bytes after their length-encoded length."""
    n = len(data)
    if n < 251:  # noqa: PLR2004 - the protocol's own bounds
        return bytes((n,)) + data
    if n < 1 << 16:
        return struct.pack("<BH", 0xFC, n) + data
    if n < 1 << 24:
        return b"\xfd" + struct.pack("<I", n)[:3] + data
    return struct.pack("<BQ", 0xFE, n) + data


# -- answers ---------------------------------------------------------------------------------------


def read_error(payload: bytes) -> ServerError:
    """Read an ERR packet's payload, first byte 0xFF included. Errors during the handshake lack the
    SQL state.
    """
    code = int.from_bytes(payload[1:3], "little")
    if payload[3:4] == b"#":
        return ServerError(code=code, sqlstate=payload[4:9].decode("ascii", "replace"), text=payload[9:].decode("utf-8", "replace"))
    return ServerError(code=code, sqlstate="", text=payload[3:].decode("utf-8", "replace"))


def read_prepared(payload: bytes) -> Prepared:
    """Read the first packet of the answer to COM_STMT_PREPARE."""
    _, statement_id, columns, parameters = struct.unpack_from("<BIHH", payload)
    return Prepared(statement_id=statement_id, columns=columns, parameters=parameters)


def read_length(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return a length-encoded integer and the offset after it."""
    first = data[at]
    if first < 251:  # noqa: PLR2004
        return first, at + 1
    width = {0xFC: 2, 0xFD: 3, 0xFE: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + width], "little"), at + 1 + width


def read_column_count(payload: bytes) -> int:
    """Read the first packet of a result set.

    Raise ValueError for any other packet: a statement's success without rows, a request for a file
    (0xFB), or more columns than any server has.
    """
    count, end = read_length(payload, 0) if payload and payload[0] != 0xFB else (0, 0)  # noqa: PLR2004
    if not 0 < count <= COLUMNS_MAX or end != len(payload):
        message = "no number of columns"
        raise ValueError(message)
    return count


def read_column(payload: bytes) -> ResultColumn:
    """Read a ColumnDefinition41 packet."""
    at = 0
    texts = []
    for _ in range(6):  # catalog, schema, table, original table, name, original name
        n, at = read_length(payload, at)
        texts.append(payload[at : at + n])
        at += n
    _, at = read_length(payload, at)
    collation, length, type_code, flags, decimals = struct.unpack_from("<HIBHB", payload, at)
    return ResultColumn(
        name=texts[4].decode("utf-8", "replace"), type_code=type_code, collation=collation, length=length, flags=flags, decimals=decimals
    )


def join_row(rows: bytes | memoryview, at: int) -> bytes:
    """Return the payload of the row packet at ``at``, joined with its continuation packets, without
    headers.
    """
    parts = []
    while True:
        n = int.from_bytes(rows[at : at + 3], "little")
        parts.append(bytes(rows[at + 4 : at + 4 + n]))
        at += 4 + n
        if n < PACKET_BYTES_MAX:
            return b"".join(parts)


def row_values(payload: bytes, columns: Sequence[ResultColumn], wanted: Sequence[int]) -> tuple[Any, ...]:
    """Return the wanted columns of one binary row as Python values that can be bound again with the
    same meaning.

    A date or time that Python's types cannot hold (zero dates, day 0) becomes the server's text,
    which compares the same. A text that is not UTF-8 becomes its bytes.
    """
    out: dict[int, Any] = {}
    bits = (len(columns) + 9) // 8
    at = 1 + bits
    last = max(wanted, default=-1)
    for i, column in enumerate(columns[: last + 1]):
        if payload[1 + ((i + 2) >> 3)] >> ((i + 2) & 7) & 1:
            out[i] = None
            continue
        out[i], at = _value(payload, at, column)
    return tuple(out[i] for i in wanted)


_INTEGERS = {1: (1, "b"), 2: (2, "h"), 13: (2, "h"), 3: (4, "i"), 9: (4, "i"), 8: (8, "q")}

FIXED_BYTES = {1: 1, 2: 2, 13: 2, 3: 4, 9: 4, 8: 8, 4: 4, _TYPE_DOUBLE: 8}
"""Bytes of a value of these wire types in a binary row; all others have a length prefix."""


def _value(data: bytes, at: int, column: ResultColumn) -> tuple[Any, int]:
    code = column.type_code
    if code in _INTEGERS:
        width, _ = _INTEGERS[code]
        return int.from_bytes(data[at : at + width], "little", signed=not column.unsigned), at + width
    if code == 4:  # noqa: PLR2004 - FLOAT
        return struct.unpack_from("<f", data, at)[0], at + 4
    if code == _TYPE_DOUBLE:
        return struct.unpack_from("<d", data, at)[0], at + 8
    n, at = read_length(data, at)
    body = data[at : at + n]
    at += n
    if code in (7, _TYPE_DATE, _TYPE_DATETIME):
        return _date_time(body, date_only=code == _TYPE_DATE), at
    if code == _TYPE_TIME:
        return _time(body), at
    if code in (0, _TYPE_NEWDECIMAL):
        return Decimal(body.decode()), at
    if code == 16:  # noqa: PLR2004 - BIT: as its number, since a text would be compared as text
        return int.from_bytes(body, "big"), at
    return (bytes(body) if column.collation == BINARY_COLLATION else _text(body)), at


def _text(body: bytes) -> str | bytes:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return bytes(body)


def _date_time(body: bytes, *, date_only: bool) -> dt.date | dt.datetime | str:
    padded = body.ljust(11, b"\0")
    year, month, day, hour, minute, second, micros = struct.unpack("<HBBBBBI", padded)
    try:
        return dt.date(year, month, day) if date_only else dt.datetime(year, month, day, hour, minute, second, micros)  # noqa: DTZ001 - naive as in the table
    except ValueError:
        date = f"{year:04}-{month:02}-{day:02}"
        return date if date_only else f"{date} {hour:02}:{minute:02}:{second:02}.{micros:06}"


def _time(body: bytes) -> dt.timedelta:
    negative, days, hour, minute, second, micros = struct.unpack("<BIBBBI", body.ljust(12, b"\0"))
    value = dt.timedelta(days=days, hours=hour, minutes=minute, seconds=second, microseconds=micros)
    return -value if negative else value


EOF_PACKET_BYTES = 9
"""Bytes of the packet after the rows: header, 0xFE, two bytes of warnings, two of status (we do not
announce CLIENT_DEPRECATE_EOF).
"""


def walk_rows(data: bytes | bytearray | memoryview, at: int = 0) -> tuple[bool, int, int, int]:
    """Step over the complete row packets of a binary result set from ``at``; the reference
    implementation of binlog/_fast.scan_rows.

    Return (whether the end was passed, rows passed, start of the last one or -1, offset after
    them). A row longer than 16 MiB spans packets; it counts once, when its last packet is there.
    Raise TransientError for an ERR packet, since the statement was cut short.
    """
    size = len(data)
    rows = 0
    last = -1
    while at + 5 <= size:
        length = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        end = at + 4 + length
        if end > size:
            break
        first = data[at + 4]
        if first == 0xFF:  # noqa: PLR2004 - ERR; a binary row starts with 0
            message = f"the server ended the rows of a statement with error {read_error(bytes(data[at + 4 : end])).code}"
            raise TransientError(message)
        if first == 0xFE:  # noqa: PLR2004 - EOF
            return True, rows, last, end
        while length == PACKET_BYTES_MAX:
            if end + 4 > size:
                return False, rows, last, at
            length = data[end] | data[end + 1] << 8 | data[end + 2] << 16
            end += 4 + length
            if end > size:
                return False, rows, last, at
        rows += 1
        last = at
        at = end
    return False, rows, last, at


def error_among_rows(data: bytes | bytearray) -> ServerError | None:
    """Return the ERR packet that ended a walk over ``data`` from its beginning; None if there is
    none.
    """
    at = 0
    while at + 5 <= len(data):
        end = at + 4 + int.from_bytes(data[at : at + 3], "little")
        if data[at + 4] == 0xFF:  # noqa: PLR2004 - ERR; a binary row starts with 0
            return read_error(bytes(data[at + 4 : end]))
        while end - at == 4 + PACKET_BYTES_MAX:
            at = end
            end = at + 4 + int.from_bytes(data[at : at + 3], "little")
        at = end
    return None
