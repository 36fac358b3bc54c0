"""A MySQL or MariaDB binlog stream: events with headers and checksums, in protocol packets.

It is written from the protocol's description alone, so that the decoders are not tested against our
own code.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

from backports import zstd
from dblog.dialects.mysql.binlog.event_types import FLAG_ARTIFICIAL, EventType

QUERY = EventType.QUERY
STOP = EventType.STOP
ROTATE = EventType.ROTATE
FORMAT = EventType.FORMAT_DESCRIPTION
XID = EventType.XID
TABLE_MAP = EventType.TABLE_MAP
WRITE_V1 = EventType.WRITE_ROWS_V1
UPDATE_V1 = EventType.UPDATE_ROWS_V1
WRITE = EventType.WRITE_ROWS
UPDATE = EventType.UPDATE_ROWS
DELETE = EventType.DELETE_ROWS
HEARTBEAT = EventType.HEARTBEAT
ROWS_QUERY = EventType.ROWS_QUERY
GTID = EventType.GTID
ANONYMOUS_GTID = EventType.ANONYMOUS_GTID
PREVIOUS_GTIDS = EventType.PREVIOUS_GTIDS
XA_PREPARE = EventType.XA_PREPARE
TRANSACTION_PAYLOAD = EventType.TRANSACTION_PAYLOAD
GTID_TAGGED = EventType.GTID_TAGGED
QUERY_COMPRESSED = EventType.MARIADB_QUERY_COMPRESSED
WRITE_COMPRESSED_V1 = EventType.MARIADB_WRITE_ROWS_COMPRESSED_V1
WRITE_COMPRESSED = EventType.MARIADB_WRITE_ROWS_COMPRESSED
CHECKPOINT = EventType.MARIADB_BINLOG_CHECKPOINT
MARIADB_GTID = EventType.MARIADB_GTID
GTID_LIST = EventType.MARIADB_GTID_LIST
ARTIFICIAL = FLAG_ARTIFICIAL
PACKET_MAX = 0xFFFFFF


@dataclass
class Stream:
    """A stream under construction; each event advances the log position."""

    flavor: str = "mysql"
    file: str = "binlog.000007"
    pos: int = 4
    checksum: bool = True
    server_id: int = 11
    timestamp: int = 1_700_000_000
    sequence: int = 0
    out: list[bytes] = field(default_factory=list)
    starts: list[tuple[int, int, int]] = field(default_factory=list)
    """The (type, start, next) of each logged event."""

    def event(self, type_code: int, body: bytes, *, flags: int = 0, artificial: bool = False, pos: int | None = None) -> Stream:
        """Append an event."""
        size = 19 + len(body) + (4 if self.checksum or type_code == FORMAT else 0)
        if artificial:
            next_pos = 0
            flags |= ARTIFICIAL
        else:
            self.starts.append((type_code, self.pos, self.pos + size))
            self.pos += size
            next_pos = self.pos
        if pos is not None:
            next_pos = pos
        head = struct.pack("<IBIIIH", 0 if artificial else self.timestamp, type_code, self.server_id, size, next_pos & 0xFFFFFFFF, flags)
        raw = head + body
        if self.checksum or type_code == FORMAT:
            raw += struct.pack("<I", zlib.crc32(raw))
        self.packet(b"\x00" + raw)
        return self

    def packet(self, payload: bytes) -> Stream:
        """Append a payload as a packet, or as several if it is too long for one."""
        at = 0
        while True:
            part = payload[at : at + PACKET_MAX]
            self.out.append(len(part).to_bytes(3, "little") + bytes([self.sequence & 0xFF]) + part)
            self.sequence += 1
            at += len(part)
            if len(part) < PACKET_MAX:
                return self

    def hello(self) -> Stream:
        """Append the beginning of a stream: an artificial rotate and the format description."""
        self.event(ROTATE, struct.pack("<Q", self.pos) + self.file.encode(), artificial=True)
        return self.format()

    def format(self) -> Stream:
        body = struct.pack("<H50sIB", 4, b"9.7.0", 0, 19) + bytes(40) + bytes([1 if self.checksum else 0])
        return self.event(FORMAT, body)

    def rotate(self, file: str) -> Stream:
        self.event(ROTATE, struct.pack("<Q", 4) + file.encode())
        self.file, self.pos = file, 4
        self.event(ROTATE, struct.pack("<Q", 4) + file.encode(), artificial=True)
        return self.format()

    def query(self, text: str, *, thread: int = 77, database: str = "shop") -> Stream:
        status = b"\x00\x00\x00\x00\x00"
        head = struct.pack("<IIBHH", thread, 0, len(database), 0, len(status))
        return self.event(QUERY, head + status + database.encode() + b"\x00" + text.encode())

    def gtid(
        self, uuid: str, number: int, *, commit_us: int = 1_700_000_000_123_456, original_us: int | None = None, rows_only: bool = True
    ) -> Stream:
        sid = bytes.fromhex(uuid.replace("-", ""))
        body = (b"\x00" if rows_only else b"\x01") + sid + struct.pack("<qBqq", number, 2, 0, 1)
        if original_us is None:
            body += commit_us.to_bytes(7, "little")
        else:
            body += (commit_us | 1 << 55).to_bytes(7, "little") + original_us.to_bytes(7, "little")
        return self.event(GTID, body + b"\xfa" + struct.pack("<I", 90700))

    def anonymous_gtid(self, *, commit_us: int) -> Stream:
        body = bytes(1) + bytes(16) + struct.pack("<qBqq", 0, 2, 0, 1) + commit_us.to_bytes(7, "little")
        return self.event(ANONYMOUS_GTID, body + b"\xfa" + struct.pack("<I", 90700))

    def tagged_gtid(self, uuid: str, tag: str, number: int, *, commit_us: int, original_us: int | None = None) -> Stream:
        sid = b"".join(varlen(byte) for byte in bytes.fromhex(uuid.replace("-", "")))
        fields = varlen(0) + varlen(1) + varlen(1) + sid + varlen(2) + varlen(number << 1)
        fields += varlen(3) + varlen(len(tag)) + tag.encode() + varlen(4) + varlen(0) + varlen(5) + varlen(2)
        fields += varlen(6) + varlen(commit_us)
        if original_us is not None:
            fields += varlen(7) + varlen(original_us)
        fields += varlen(8) + varlen(300) + varlen(9) + varlen(90700)
        size = len(fields) + 4
        return self.event(GTID_TAGGED, varlen(1) + size_varlen(size) + varlen(9) + fields)

    def mariadb_gtid(self, domain: int, number: int, *, standalone: bool = False) -> Stream:
        return self.event(MARIADB_GTID, struct.pack("<QIB", number, domain, 1 if standalone else 12) + bytes(6))

    def xid(self) -> Stream:
        return self.event(XID, struct.pack("<Q", 9))

    def begin(self, *, number: int = 1, uuid: str = "11111111-2222-3333-4444-555555555555", domain: int = 0) -> Stream:
        """Append the beginning of a transaction in the stream's flavor."""
        if self.flavor == "mariadb":
            return self.mariadb_gtid(domain, number)
        return self.gtid(uuid, number).query("BEGIN")

    def table_map(self, table_id: int, database: str, table: str, types: bytes, meta: bytes, *, optional: bytes = b"") -> Stream:
        return self.event(TABLE_MAP, table_map_body(table_id, database, table, types, meta, optional=optional))

    def rows(self, type_code: int, table_id: int, columns: int, images: bytes) -> Stream:
        return self.event(type_code, rows_body(type_code, table_id, columns, images))

    def packed(self, fill: Callable[[Stream], object], *, frames: int = 1, compressed: bool = True, gno: int | None = None) -> Stream:
        """Append a compressed transaction: a GTID event if it has a number, then one payload.

        The payload has the events that ``fill`` appends.
        """
        if gno is not None:
            self.gtid("11111111-2222-3333-4444-555555555555", gno)
        inner = Stream(checksum=False, timestamp=self.timestamp, server_id=self.server_id)
        fill(inner)
        return self.event(TRANSACTION_PAYLOAD, payload_body(b"".join(p[5:] for p in inner.out), frames=frames, compressed=compressed))

    def compressed_query(self, text: str, *, database: str = "shop") -> Stream:
        """Append a compressed query event of MariaDB (log_bin_compress)."""
        head = struct.pack("<IIBHH", 77, 0, len(database), 0, 0)
        return self.event(QUERY_COMPRESSED, head + database.encode() + b"\x00" + deflated(text.encode()))

    def compressed_rows(self, type_code: int, table_id: int, columns: int, images: bytes) -> Stream:
        """Append the compressed form of a plain rows event of MariaDB."""
        plain = rows_body(type_code, table_id, columns, b"")
        shift = WRITE_COMPRESSED_V1 - WRITE_V1 if type_code < WRITE else WRITE_COMPRESSED - WRITE
        return self.event(type_code + shift, plain + deflated(images))

    def bytes(self) -> bytes:
        return b"".join(self.out)


def payload_body(raw: bytes, *, frames: int = 1, compressed: bool = True, unpacked: int | None = None) -> bytes:
    """Return TRANSACTION_PAYLOAD's body: fields (type, length, value), end mark, packed events."""
    step = len(raw) // frames + 1
    parts = [raw[at : at + step] for at in range(0, len(raw), step)] or [b""]
    packed = b"".join(zstd.compress(part) for part in parts) if compressed else raw
    head = b""
    for kind, value in ((2, 0 if compressed else 255), (3, len(raw) if unpacked is None else unpacked), (1, len(packed))):
        number = lenenc(value)
        head += lenenc(kind) + lenenc(len(number)) + number
    return head + b"\x00" + packed


def deflated(raw: bytes) -> bytes:
    """Return data compressed as MariaDB does: a byte with the length's width, the length, zlib."""
    width = max(1, (len(raw).bit_length() + 7) // 8)
    return bytes([0x80 | width]) + len(raw).to_bytes(width, "big") + zlib.compress(raw)


def varlen(value: int) -> bytes:
    """Return an unsigned integer in the form of MySQL's serialization library.

    The number of trailing ones in the first byte is the number of bytes that follow.
    """
    for more in range(8):
        if value < 1 << (7 * (more + 1)):
            return ((value << (more + 1)) | ((1 << more) - 1)).to_bytes(more + 1, "little")
    return b"\xff" + value.to_bytes(8, "little")


def size_varlen(size: int) -> bytes:
    """Return the message size in two bytes, even if one would do."""
    return ((size << 2) | 1).to_bytes(2, "little")


def lenenc(value: int) -> bytes:
    if value < 0xFB:
        return bytes([value])
    if value < 1 << 16:
        return b"\xfc" + value.to_bytes(2, "little")
    if value < 1 << 24:
        return b"\xfd" + value.to_bytes(3, "little")
    return b"\xfe" + value.to_bytes(8, "little")


def table_map_body(table_id: int, database: str, table: str, types: bytes, meta: bytes, *, optional: bytes = b"") -> bytes:
    head = table_id.to_bytes(6, "little") + b"\x01\x00"
    names = b"".join(bytes([len(name.encode())]) + name.encode() + b"\x00" for name in (database, table))
    nulls = b"\xff" * ((len(types) + 7) // 8)
    return head + names + lenenc(len(types)) + types + lenenc(len(meta)) + meta + nulls + optional


def rows_body(type_code: int, table_id: int, columns: int, images: bytes, *, extra: bytes = b"", present: bytes | None = None) -> bytes:
    """Return the body of a rows event with full images."""
    head = table_id.to_bytes(6, "little") + b"\x01\x00"
    if type_code >= WRITE:
        head += (2 + len(extra)).to_bytes(2, "little") + extra
    full = ((1 << columns) - 1).to_bytes((columns + 7) // 8, "little") if present is None else present
    return head + lenenc(columns) + full * (2 if type_code in (UPDATE, UPDATE_V1) else 1) + images


def image(fields: list[bytes | None]) -> bytes:
    """Return a row image: null bitmap, then the fields that are not NULL."""
    bits = sum(1 << i for i, f in enumerate(fields) if f is None)
    return bits.to_bytes((len(fields) + 7) // 8, "little") + b"".join(f for f in fields if f is not None)


def result_row(fields: list[bytes | None], *, sequence: int = 0) -> bytes:
    """Return a row of a binary result set in its packet or packets."""
    bits = sum(1 << (i + 2) for i, f in enumerate(fields) if f is None)
    payload = b"\x00" + bits.to_bytes((len(fields) + 9) // 8, "little") + b"".join(f for f in fields if f is not None)
    out, at = b"", 0
    while True:
        part = payload[at : at + PACKET_MAX]
        out += len(part).to_bytes(3, "little") + bytes([sequence & 0xFF]) + part
        at += len(part)
        if len(part) < PACKET_MAX:
            return out
