"""What a log is made of: event types of MySQL 5.7 to 9.x and MariaDB 10.5 to 12, and the bodies of those that are not rows.

Bodies come without the 19-byte header and without checksum, as the log decoder hands them out (``LogEvent.body``). Rows are not read here
(image.py and the row plans do), but for the watermark table's. Rule sources: MySQL libs/mysql/binlog/event/*.h (formerly
libbinlogevents), sql/log_event.h of MariaDB, MySQL internals "Binary Log Event".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from dblog.dialects.mariadb.position import Gtid as MariaDbGtid
from dblog.dialects.mariadb.position import GtidPosition
from dblog.dialects.mysql.position import GtidSet, uuid_text
from dblog.errors import DefiniteError
from dblog.model import TableId

HEADER_BYTES = 19
CHECKSUM_BYTES = 4
FLAG_ARTIFICIAL = 0x20
"""Made by the sender, not read from the file: positions in such an event mean nothing."""
FLAG_IGNORABLE = 0x80
"""A reader that does not know the type may pass over it (the server says so, not us)."""


class EventType(IntEnum):
    """Type codes; MariaDB's own start at 160."""

    ERR_PACKET = -1
    EOF_PACKET = -2
    UNKNOWN = 0
    START_V3 = 1
    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    LOAD = 6
    SLAVE = 7
    CREATE_FILE = 8
    APPEND_BLOCK = 9
    EXEC_LOAD = 10
    DELETE_FILE = 11
    NEW_LOAD = 12
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    PRE_GA_WRITE_ROWS = 20
    PRE_GA_UPDATE_ROWS = 21
    PRE_GA_DELETE_ROWS = 22
    WRITE_ROWS_V1 = 23
    UPDATE_ROWS_V1 = 24
    DELETE_ROWS_V1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    IGNORABLE = 28
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    TRANSACTION_CONTEXT = 36
    VIEW_CHANGE = 37
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    GTID_TAGGED = 42
    MARIADB_ANNOTATE_ROWS = 160
    MARIADB_BINLOG_CHECKPOINT = 161
    MARIADB_GTID = 162
    MARIADB_GTID_LIST = 163
    MARIADB_START_ENCRYPTION = 164
    MARIADB_QUERY_COMPRESSED = 165
    MARIADB_WRITE_ROWS_COMPRESSED_V1 = 166
    MARIADB_UPDATE_ROWS_COMPRESSED_V1 = 167
    MARIADB_DELETE_ROWS_COMPRESSED_V1 = 168
    MARIADB_WRITE_ROWS_COMPRESSED = 169
    MARIADB_UPDATE_ROWS_COMPRESSED = 170
    MARIADB_DELETE_ROWS_COMPRESSED = 171
    MARIADB_PARTIAL_ROW_DATA = 172


WRITE_TYPES = frozenset({EventType.WRITE_ROWS_V1, EventType.WRITE_ROWS})
UPDATE_TYPES = frozenset({EventType.UPDATE_ROWS_V1, EventType.UPDATE_ROWS})
DELETE_TYPES = frozenset({EventType.DELETE_ROWS_V1, EventType.DELETE_ROWS})
ROWS_TYPES = WRITE_TYPES | UPDATE_TYPES | DELETE_TYPES
ROWS_V2_TYPES = frozenset({EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS, EventType.PARTIAL_UPDATE_ROWS})

HARMLESS_TYPES = frozenset(
    {
        EventType.STOP, EventType.INTVAR, EventType.RAND, EventType.USER_VAR, EventType.HEARTBEAT, EventType.HEARTBEAT_V2,
        EventType.IGNORABLE, EventType.ROWS_QUERY, EventType.PREVIOUS_GTIDS, EventType.TRANSACTION_CONTEXT, EventType.VIEW_CHANGE,
        EventType.MARIADB_ANNOTATE_ROWS, EventType.MARIADB_BINLOG_CHECKPOINT, EventType.MARIADB_GTID_LIST, EventType.MARIADB_START_ENCRYPTION,
    }
)  # fmt: skip
"""Known types that change no table. INTVAR, RAND and USER_VAR prepare a statement of statement-based logging, which the QUERY event
itself shows; START_ENCRYPTION stands in an encrypted file, but the server decrypts what it sends."""


def type_name(type_code: int) -> str:
    """The type's name for a message, with its number."""
    try:
        return f"{EventType(type_code).name} ({type_code})"
    except ValueError:
        return f"unknown event type ({type_code})"


_COMPRESSED_MARIADB = "the server compresses its log; run SET GLOBAL log_bin_compress = OFF; there and dump the affected tables anew"
_STATEMENT = "the change was logged as a statement, not as rows; run SET GLOBAL binlog_format = 'ROW'; there and dump the affected tables anew"

REMEDIES: Mapping[int, str] = {
    EventType.TRANSACTION_PAYLOAD: (
        "the transaction is compressed, which is not supported yet; run SET GLOBAL binlog_transaction_compression = OFF; there, let sessions "
        "reconnect, and dump the affected tables anew"
    ),
    EventType.PARTIAL_UPDATE_ROWS: (
        "the update holds differences of JSON documents instead of whole rows; run SET GLOBAL binlog_row_value_options = ''; there and dump "
        "the affected tables anew"
    ),
    EventType.INCIDENT: "the server says that changes are missing from its log at this place; dump the captured tables anew",
    EventType.MARIADB_QUERY_COMPRESSED: _COMPRESSED_MARIADB,
    EventType.MARIADB_WRITE_ROWS_COMPRESSED_V1: _COMPRESSED_MARIADB,
    EventType.MARIADB_UPDATE_ROWS_COMPRESSED_V1: _COMPRESSED_MARIADB,
    EventType.MARIADB_DELETE_ROWS_COMPRESSED_V1: _COMPRESSED_MARIADB,
    EventType.MARIADB_WRITE_ROWS_COMPRESSED: _COMPRESSED_MARIADB,
    EventType.MARIADB_UPDATE_ROWS_COMPRESSED: _COMPRESSED_MARIADB,
    EventType.MARIADB_DELETE_ROWS_COMPRESSED: _COMPRESSED_MARIADB,
    EventType.MARIADB_PARTIAL_ROW_DATA: "a rows event is sent in pieces, which is not supported yet; set binlog_row_event_fragment_threshold to its maximum there",
    EventType.BEGIN_LOAD_QUERY: _STATEMENT,
    EventType.EXECUTE_LOAD_QUERY: _STATEMENT,
    EventType.APPEND_BLOCK: _STATEMENT,
    EventType.DELETE_FILE: _STATEMENT,
}
"""Types that carry changes we cannot take, and what to do about them. # I5"""


def unsupported(type_code: int, *, file: str, pos: int, flags: int = 0) -> DefiniteError | None:
    """What stops the task at an event that is not one of ours: None for an event that may be passed over.

    Also None for a type that nobody knows but the server itself marks as ignorable (``flags``). Every other unknown type is an error:
    it may hold changes. # I5
    """
    if type_code in HARMLESS_TYPES:
        return None
    remedy = REMEDIES.get(type_code)
    if remedy is None:
        if flags & FLAG_IGNORABLE:
            return None
        remedy = "this version of dblog does not know it and must not pass over it; update dblog, or report the server's version"
    return DefiniteError(f"{type_name(type_code)} at {file}:{pos}: {remedy}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """An event's 19 bytes. ``next_pos`` is 32 bits wide and 0 in artificial events."""

    timestamp_s: int
    type_code: int
    server_id: int
    length: int
    next_pos: int
    flags: int


def read_header(data: bytes | memoryview) -> Header:
    """The header at the beginning of an event."""
    timestamp_s, type_code, server_id, length, next_pos, flags = struct.unpack_from("<IBIIIH", data)
    return Header(timestamp_s=timestamp_s, type_code=type_code, server_id=server_id, length=length, next_pos=next_pos, flags=flags)


# -- control events ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatDescription:
    """The first event of every file. ``checksum`` tells whether events of this file end with a CRC32."""

    log_version: int
    server_version: str
    created_s: int
    header_bytes: int
    post_header_lengths: bytes
    checksum: bool


def read_format_description(body: bytes) -> FormatDescription:
    """FORMAT_DESCRIPTION's body, with or without the checksum field behind it.

    Behind the fixed part stand one length for each event type, and the checksum algorithm. How many types there are follows from the
    event's own entry, which counts the fixed part and the lengths.
    """
    log_version, version, created_s, header_bytes = struct.unpack_from("<H50sIB", body)
    lengths_at = 57
    types = body[lengths_at + EventType.FORMAT_DESCRIPTION - 1] - lengths_at
    algorithm = body[lengths_at + types : lengths_at + types + 1]
    return FormatDescription(
        log_version=log_version,
        server_version=version.rstrip(b"\0").decode("ascii", "replace"),
        created_s=created_s,
        header_bytes=header_bytes,
        post_header_lengths=body[lengths_at : lengths_at + types],
        checksum=algorithm == b"\x01",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotate:
    """The log goes on in another file."""

    file: str
    pos: int


def read_rotate(body: bytes) -> Rotate:
    """ROTATE's body."""
    (pos,) = struct.unpack_from("<Q", body)
    return Rotate(file=body[8:].rstrip(b"\0").decode("utf-8", "surrogateescape"), pos=pos)


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """The server's confession that its log has a gap."""

    number: int
    message: str


def read_incident(body: bytes) -> Incident:
    """INCIDENT's body."""
    number = int.from_bytes(body[:2], "little")
    length = body[2] if len(body) > 2 else 0  # noqa: PLR2004 - the message is optional
    return Incident(number=number, message=body[3 : 3 + length].decode("utf-8", "replace"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """Nothing new up to this place."""

    file: str
    pos: int | None
    """None in version 1, whose position is the header's ``next_pos`` (32 bits)."""


def read_heartbeat(type_code: int, body: bytes) -> Heartbeat:
    """HEARTBEAT and HEARTBEAT_V2 (8.0.26: fields of type, length, value; positions beyond 4 GiB)."""
    if type_code != EventType.HEARTBEAT_V2:
        return Heartbeat(file=body.rstrip(b"\0").decode("utf-8", "surrogateescape"), pos=None)
    at, file, pos = 0, "", None
    while at < len(body) and body[at]:
        field = body[at]
        length, start = _packed(body, at + 1)
        value = body[start : start + length]
        at = start + length
        if field == 1:
            file = value.decode("utf-8", "surrogateescape")
        elif field == 2:  # noqa: PLR2004 - the position, itself a packed number
            pos = _packed(value, 0)[0]
    return Heartbeat(file=file, pos=pos)


def _packed(data: bytes, at: int) -> tuple[int, int]:
    """The server's packed integer (net_field_length) and the offset behind it."""
    first = data[at]
    if first < 251:  # noqa: PLR2004 - the format's own bounds
        return first, at + 1
    width = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + width], "little"), at + 1 + width


# -- transactions -----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MySqlGtid:
    """GTID, GTID_TAGGED and ANONYMOUS_GTID. Times are 0 where the server does not write them (before 8.0.1)."""

    uuid: str
    tag: str
    gno: int
    """0 for an anonymous transaction."""
    original_commit_us: int = 0
    immediate_commit_us: int = 0
    transaction_bytes: int = 0

    def __str__(self) -> str:
        return f"{self.uuid}:{self.tag}:{self.gno}" if self.tag else f"{self.uuid}:{self.gno}"


_TIMESTAMP_HAS_ORIGINAL = 1 << 55


def read_gtid(type_code: int, body: bytes) -> MySqlGtid:
    """A transaction's GTID event of MySQL."""
    if type_code == EventType.GTID_TAGGED:
        return _read_tagged(body)
    uuid = uuid_text(body[1:17])
    (gno,) = struct.unpack_from("<q", body, 17)
    original = immediate = transaction_bytes = 0
    at = 25 + 1 + 16  # logical timestamp: type code, last_committed, sequence_number
    if len(body) >= at + 7 and body[25] == 2:  # noqa: PLR2004 - LOGICAL_TIMESTAMP_TYPECODE; commit times since 8.0.1
        immediate = int.from_bytes(body[at : at + 7], "little")
        at += 7
        original = immediate
        if immediate & _TIMESTAMP_HAS_ORIGINAL:
            immediate &= ~_TIMESTAMP_HAS_ORIGINAL
            original = int.from_bytes(body[at : at + 7], "little")
            at += 7
        if at < len(body):
            transaction_bytes, at = _packed(body, at)
    return MySqlGtid(
        uuid=uuid,
        tag="",
        gno=0 if type_code == EventType.ANONYMOUS_GTID else gno,
        original_commit_us=original,
        immediate_commit_us=immediate,
        transaction_bytes=transaction_bytes,
    )


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """mysql::serialization's unsigned integer: as many low one-bits as further bytes, then the value (least significant byte first)."""
    first = data[at]
    extra = 0
    while extra < 8 and first >> extra & 1:  # noqa: PLR2004 - at most eight further bytes
        extra += 1
    whole = int.from_bytes(data[at : at + 1 + extra], "little")
    return whole >> min(extra + 1, 8), at + 1 + extra


def _signed_varint(data: bytes, at: int) -> tuple[int, int]:
    """The signed integer: the sign is the lowest bit, negative values are stored as -(v + 1)."""
    value, at = _varint(data, at)
    return (-(value >> 1) - 1 if value & 1 else value >> 1), at


def _read_tagged(body: bytes) -> MySqlGtid:
    """GTID_TAGGED (8.3): a serialized message of numbered fields, those with default values left out.

    Field 0 flags, 1 UUID (16 integers), 2 gno, 3 tag, 4 last_committed, 5 sequence_number, 6 immediate and 7 original commit time,
    8 transaction length, 9 and 10 server versions, 11 commit group ticket (control_events.h, ``Gtid_event::define_fields``).
    """
    version, at = _varint(body, 0)
    size, at = _varint(body, at)
    needed, at = _varint(body, at)
    if version != 1 or needed > 12:  # noqa: PLR2004 - one more than the last field number that we know
        message = "a tagged GTID event has a format that dblog does not know; this server is newer than dblog"
        raise DefiniteError(message)
    end = min(size, len(body))
    numbers: dict[int, int] = {}
    uuid, tag = "", ""
    while at < end:
        field, at = _varint(body, at)
        if field == 1:
            parts = bytearray()
            for _ in range(16):
                part, at = _varint(body, at)
                parts.append(part)
            uuid = uuid_text(bytes(parts))
        elif field == 3:  # noqa: PLR2004
            length, at = _varint(body, at)
            tag = body[at : at + length].decode("ascii", "replace")
            at += length
        elif field in (2, 4, 5):
            numbers[field], at = _signed_varint(body, at)
        elif field <= 11:  # noqa: PLR2004
            numbers[field], at = _varint(body, at)
        else:
            break  # newer fields, which the message says may be ignored
    immediate = numbers.get(6, 0)
    return MySqlGtid(
        uuid=uuid,
        tag=tag,
        gno=numbers.get(2, 0),
        original_commit_us=numbers.get(7, immediate),
        immediate_commit_us=immediate,
        transaction_bytes=numbers.get(8, 0),
    )


def read_previous_gtids(body: bytes) -> GtidSet:
    """PREVIOUS_GTIDS: what the log held before this file."""
    return GtidSet.decode(body)


GTID_FLAG_STANDALONE = 0x01
GTID_FLAG_DDL = 0x20


@dataclass(frozen=True, slots=True, kw_only=True)
class MariaDbGtidEvent:
    """MariaDB's GTID event, which also begins the transaction. ``standalone``: one event follows, no XID or COMMIT (DDL)."""

    gtid: MariaDbGtid
    flags: int

    @property
    def standalone(self) -> bool:
        """Whether the next event alone is the transaction."""
        return bool(self.flags & GTID_FLAG_STANDALONE)


def read_mariadb_gtid(body: bytes, *, server_id: int) -> MariaDbGtidEvent:
    """MARIADB_GTID; the server that made the transaction stands in the header."""
    sequence, domain, flags = struct.unpack_from("<QIB", body)
    return MariaDbGtidEvent(gtid=MariaDbGtid(domain, server_id, sequence), flags=flags)


def read_mariadb_gtid_list(body: bytes) -> GtidPosition:
    """MARIADB_GTID_LIST: the last GTID of each domain (and server) at the beginning of a file."""
    (word,) = struct.unpack_from("<I", body)
    out = GtidPosition()
    at = 4
    for _ in range(word & 0x0FFFFFFF):
        domain, server_id, sequence = struct.unpack_from("<IIQ", body, at)
        at += 16
        known = out.gtid(domain)
        if known is None or known.sequence < sequence:
            out.add(domain, server_id, sequence)
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class StartEncryption:
    """MARIADB_START_ENCRYPTION: the file is encrypted on the server's disk."""

    scheme: int
    key_version: int


def read_start_encryption(body: bytes) -> StartEncryption:
    """MARIADB_START_ENCRYPTION's body; the nonce is nobody's business."""
    scheme, key_version = struct.unpack_from("<BI", body)
    return StartEncryption(scheme=scheme, key_version=key_version)


def read_xid(body: bytes) -> int:
    """The transaction number of a commit."""
    return int.from_bytes(body[:8], "little")


def read_statement_text(type_code: int, body: bytes) -> bytes:
    """ROWS_QUERY (one byte of truncated length first) and MARIADB_ANNOTATE_ROWS: the statement behind the rows."""
    return body[1:] if type_code == EventType.ROWS_QUERY else body


# -- statements -------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A statement in the log: DDL, or a transaction's BEGIN and COMMIT."""

    database: str
    """The default database, "" for none."""
    text: bytes
    """In the client's charset (``client_collation``)."""
    thread_id: int
    execution_s: int
    error_code: int
    sql_mode: int | None = None
    client_collation: int | None = None
    """Number of character_set_client's collation; None when the event does not say."""
    server_collation: int | None = None
    default_collation: int | None = None
    """For CREATE DATABASE without a charset (MySQL)."""
    ddl_xid: int | None = None
    time_zone: str | None = None
    microseconds: int = 0
    status_complete: bool = True
    """False: a status variable of unknown length cut the reading short; what follows it is unknown."""

    @property
    def ansi_quotes(self) -> bool:
        """Whether ``"x"`` is an identifier in the text."""
        return bool((self.sql_mode or 0) & SQL_MODE_ANSI_QUOTES)

    @property
    def no_backslash_escapes(self) -> bool:
        r"""Whether ``\`` stands for itself in the text's strings."""
        return bool((self.sql_mode or 0) & SQL_MODE_NO_BACKSLASH_ESCAPES)


SQL_MODE_ANSI_QUOTES = 1 << 2
SQL_MODE_NO_BACKSLASH_ESCAPES = 1 << 20


def read_query(body: bytes) -> Query:
    """QUERY's body."""
    thread_id, execution_s, database_bytes, error_code, status_bytes = struct.unpack_from("<IIBHH", body)
    status = body[13 : 13 + status_bytes]
    at = 13 + status_bytes
    database = body[at : at + database_bytes].decode("utf-8", "surrogateescape")
    variables = read_status_variables(status)
    return Query(
        database=database,
        text=body[at + database_bytes + 1 :],
        thread_id=thread_id,
        execution_s=execution_s,
        error_code=error_code,
        sql_mode=variables.get("sql_mode"),
        client_collation=variables.get("client_collation"),
        server_collation=variables.get("server_collation"),
        default_collation=variables.get("default_collation"),
        ddl_xid=variables.get("ddl_xid"),
        time_zone=_text_of(status, variables.get("time_zone_at")),
        microseconds=variables.get("microseconds", 0),
        status_complete="unknown" not in variables,
    )


_FIXED_STATUS = {0: 4, 1: 8, 3: 4, 7: 2, 8: 2, 9: 8, 10: 4, 13: 3, 16: 1, 17: 8, 18: 2, 19: 1, 20: 1, 128: 3, 129: 8}
"""Status variables of fixed length: flags2, sql_mode, auto_increment, lc_time_names, charset_database, table_map_for_update,
master_data_written, microseconds, explicit_defaults_for_timestamp, ddl_xid, default_collation, require_primary_key,
default_table_encryption; MariaDB's hrnow and xid."""


def read_status_variables(data: bytes) -> dict[str, int]:
    """The variables that decide how a statement is read. Stops at one of unknown length (key ``unknown``), as the server does."""
    out: dict[str, int] = {}
    at = 0
    while at < len(data):
        code = data[at]
        at += 1
        if code in _FIXED_STATUS:
            length = _FIXED_STATUS[code]
            value = int.from_bytes(data[at : at + length], "little")
            name = {1: "sql_mode", 13: "microseconds", 17: "ddl_xid", 18: "default_collation", 128: "microseconds"}.get(code)
            if name:
                out[name] = value
            at += length
        elif code == 4:  # noqa: PLR2004 - charset: client, connection, server
            out["client_collation"], _, out["server_collation"] = struct.unpack_from("<HHH", data, at)
            at += 6
        elif code == 2:  # noqa: PLR2004 - catalog with a NUL behind (5.0.0 to 5.0.3)
            at += data[at] + 2
        elif code == 5:  # noqa: PLR2004 - time zone
            out["time_zone_at"] = at
            at += data[at] + 1
        elif code == 6:  # noqa: PLR2004 - catalog
            at += data[at] + 1
        elif code == 11:  # noqa: PLR2004 - invoker: user, host
            at += data[at] + 1
            at += data[at] + 1
        elif code == 12:  # noqa: PLR2004 - databases that the statement touches
            count = data[at]
            at += 1
            if count != 254:  # noqa: PLR2004 - OVER_MAX_DBS_IN_EVENT_MTS: too many to name
                for _ in range(count):
                    at = data.index(0, at) + 1
        else:
            out["unknown"] = code
            break
    return out


def _text_of(status: bytes, at: int | None) -> str | None:
    return None if at is None else status[at + 1 : at + 1 + status[at]].decode("utf-8", "replace")


# -- table maps -------------------------------------------------------------------------------------------------------------------------


class WireType(IntEnum):
    """Column types of a table map (enum_field_types; MariaDB adds 140, 141)."""

    DECIMAL = 0
    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    NULL = 6
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    NEWDATE = 14
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    TYPED_ARRAY = 20
    MARIADB_BLOB_COMPRESSED = 140
    MARIADB_VARCHAR_COMPRESSED = 141
    VECTOR = 242
    INVALID = 243
    BOOL = 244
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    TINY_BLOB = 249
    MEDIUM_BLOB = 250
    LONG_BLOB = 251
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


_NUMERIC = frozenset(
    {
        WireType.DECIMAL, WireType.TINY, WireType.SHORT, WireType.LONG, WireType.FLOAT, WireType.DOUBLE, WireType.LONGLONG, WireType.INT24,
        WireType.YEAR, WireType.NEWDECIMAL,
    }
)  # fmt: skip
_CHARACTER = frozenset(
    {
        WireType.VARCHAR, WireType.VAR_STRING, WireType.STRING, WireType.BLOB, WireType.TINY_BLOB, WireType.MEDIUM_BLOB, WireType.LONG_BLOB,
        WireType.MARIADB_BLOB_COMPRESSED, WireType.MARIADB_VARCHAR_COMPRESSED,
    }
)  # fmt: skip
_ENUM_SET = frozenset({WireType.ENUM, WireType.SET})


@dataclass(frozen=True, slots=True, kw_only=True)
class MapColumn:
    """A column of a table map. What optional metadata did not say is None (or empty)."""

    type_code: int
    """The real type: ENUM and SET come inside STRING, and are taken out of it."""
    meta: int
    """The type's metadata as the image reader needs it: bytes for strings, precision and scale, fraction digits, length bytes."""
    nullable: bool
    unsigned: bool | None = None
    name: str | None = None
    collation: int | None = None
    members: tuple[bytes, ...] | None = None
    """ENUM's and SET's texts, in the column's charset."""
    geometry: int | None = None
    visible: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMap:
    """One TABLE_MAP event. ``key`` holds column indexes with prefix lengths (0: the whole column); None when the log does not name it."""

    table_id: int
    flags: int
    table: TableId
    columns: tuple[MapColumn, ...]
    key: tuple[tuple[int, int], ...] | None = None

    @property
    def named(self) -> bool:
        """Whether the log names columns (binlog_row_metadata=FULL)."""
        return bool(self.columns) and self.columns[0].name is not None


_SIGNEDNESS, _DEFAULT_CHARSET, _COLUMN_CHARSET, _NAMES, _SET_MEMBERS, _ENUM_MEMBERS, _GEOMETRY, _KEY, _PREFIX_KEY = range(1, 10)
_ENUM_SET_DEFAULT_CHARSET, _ENUM_SET_CHARSET, _VISIBILITY, _VECTOR_DIMENSION = range(10, 14)


def read_table_name(body: bytes) -> tuple[int, TableId]:
    """Table number and name only: enough to pass over a table that is not captured."""
    at = 8
    n = body[at]
    database = body[at + 1 : at + 1 + n]
    at += n + 2
    n = body[at]
    name = body[at + 1 : at + 1 + n]
    return int.from_bytes(body[:6], "little"), TableId(database.decode("utf-8", "surrogateescape"), name.decode("utf-8", "surrogateescape"))


def read_table_map(body: bytes) -> TableMap:
    """TABLE_MAP's body (post-header of 8 bytes, as every server since 5.1.4 writes it)."""
    table_id, table = read_table_name(body)
    flags = int.from_bytes(body[6:8], "little")
    at = 8
    for _ in range(2):
        at += body[at] + 2
    count, at = _packed(body, at)
    types = body[at : at + count]
    at += count
    meta_bytes, at = _packed(body, at)
    real = _read_metas(types, body[at : at + meta_bytes])
    at += meta_bytes
    nulls = body[at : at + (count + 7) // 8]
    at += (count + 7) // 8
    optional = _Optional.read(body[at:], [code for code, _ in real])
    columns = tuple(
        MapColumn(
            type_code=code,
            meta=meta,
            nullable=bool(nulls[i >> 3] >> (i & 7) & 1),
            unsigned=optional.unsigned.get(i),
            name=optional.names[i] if i < len(optional.names) else None,
            collation=optional.collations.get(i),
            members=optional.members.get(i),
            geometry=optional.geometries.get(i),
            visible=optional.visible.get(i),
        )
        for i, (code, meta) in enumerate(real)
    )
    return TableMap(table_id=table_id, flags=flags, table=table, columns=columns, key=optional.key)


_META_ONE = frozenset(
    {
        WireType.FLOAT, WireType.DOUBLE, WireType.BLOB, WireType.TINY_BLOB, WireType.MEDIUM_BLOB, WireType.LONG_BLOB, WireType.JSON,
        WireType.GEOMETRY, WireType.TIMESTAMP2, WireType.DATETIME2, WireType.TIME2, WireType.MARIADB_BLOB_COMPRESSED, WireType.VECTOR,
    }
)  # fmt: skip


def _read_metas(types: bytes, metas: bytes) -> list[tuple[int, int]]:
    """(real type, metadata) of every column; for ENUM, SET and CHAR as Field::unpack does, with CHAR's byte length beyond 255 restored."""
    out = []
    at = 0
    for code in types:
        if code in _META_ONE:
            out.append((code, metas[at]))
            at += 1
        elif code in (WireType.VARCHAR, WireType.BIT, WireType.VAR_STRING, WireType.MARIADB_VARCHAR_COMPRESSED):
            out.append((code, metas[at] | metas[at + 1] << 8))
            at += 2
        elif code == WireType.NEWDECIMAL:
            out.append((code, metas[at] << 8 | metas[at + 1]))  # precision, scale
            at += 2
        elif code in (WireType.STRING, WireType.ENUM, WireType.SET):
            first, second = metas[at], metas[at + 1]
            at += 2
            if first & 0x30 != 0x30:  # noqa: PLR2004 - lengths over 255 hide two bits in the type's byte
                out.append((first | 0x30, second | ((first & 0x30) ^ 0x30) << 4))
            else:
                out.append((first, second))
        elif code == WireType.TYPED_ARRAY:
            message = "a table map names a typed array as a column, which no server writes"
            raise DefiniteError(message)
        else:
            out.append((code, 0))
    return out


@dataclass(slots=True)
class _Optional:
    """Optional metadata, by column index."""

    unsigned: dict[int, bool]
    collations: dict[int, int]
    names: list[str]
    members: dict[int, tuple[bytes, ...]]
    geometries: dict[int, int]
    visible: dict[int, bool]
    key: tuple[tuple[int, int], ...] | None = None

    @classmethod
    def read(cls, data: bytes, types: Sequence[int]) -> _Optional:
        """Fields of (type, length, value) up to the end; unknown fields are passed over, as the format intends."""
        out = cls({}, {}, [], {}, {}, {})
        # Signedness speaks of numeric columns, the charset fields of character (or ENUM and SET) columns: by their order among those.
        numeric = [i for i, code in enumerate(types) if code in _NUMERIC]
        character = [i for i, code in enumerate(types) if code in _CHARACTER]
        enum_set = [i for i, code in enumerate(types) if code in _ENUM_SET]
        at = 0
        while at < len(data):
            field = data[at]
            length, at = _packed(data, at + 1)
            value = data[at : at + length]
            at += length
            if field == _SIGNEDNESS:
                out.unsigned = dict(zip(numeric, _bits(value, len(numeric)), strict=False))
            elif field == _DEFAULT_CHARSET:
                out.collations |= _default_collations(value, character)
            elif field == _COLUMN_CHARSET:
                out.collations |= dict(zip(character, _numbers(value), strict=False))
            elif field == _NAMES:
                out.names = [text.decode("utf-8", "surrogateescape") for text in _texts(value)]
            elif field in (_SET_MEMBERS, _ENUM_MEMBERS):
                wanted = WireType.SET if field == _SET_MEMBERS else WireType.ENUM
                out.members |= dict(zip([i for i in enum_set if types[i] == wanted], _member_lists(value), strict=False))
            elif field == _GEOMETRY:
                out.geometries = dict(zip([i for i, code in enumerate(types) if code == WireType.GEOMETRY], _numbers(value), strict=False))
            elif field == _KEY:
                out.key = tuple((i, 0) for i in _numbers(value))
            elif field == _PREFIX_KEY:
                numbers = list(_numbers(value))
                out.key = tuple(zip(numbers[::2], numbers[1::2], strict=True))
            elif field == _ENUM_SET_DEFAULT_CHARSET:
                out.collations |= _default_collations(value, enum_set)
            elif field == _ENUM_SET_CHARSET:
                out.collations |= dict(zip(enum_set, _numbers(value), strict=False))
            elif field == _VISIBILITY:
                out.visible = dict(enumerate(_bits(value, len(types))))
        return out


def _bits(data: bytes, count: int) -> Iterable[bool]:
    """Flags, the highest bit first."""
    return (bool(data[i >> 3] << (i & 7) & 0x80) for i in range(min(count, len(data) * 8)))


def _numbers(data: bytes) -> Iterable[int]:
    at = 0
    while at < len(data):
        number, at = _packed(data, at)
        yield number


def _texts(data: bytes) -> Iterable[bytes]:
    at = 0
    while at < len(data):
        length, at = _packed(data, at)
        yield data[at : at + length]
        at += length


def _member_lists(data: bytes) -> Iterable[tuple[bytes, ...]]:
    at = 0
    while at < len(data):
        count, at = _packed(data, at)
        members = []
        for _ in range(count):
            length, at = _packed(data, at)
            members.append(data[at : at + length])
            at += length
        yield tuple(members)


def _default_collations(data: bytes, columns: Sequence[int]) -> dict[int, int]:
    """A default, then pairs of (place among these columns, collation) for those that differ."""
    numbers = list(_numbers(data))
    out = dict.fromkeys(columns, numbers[0])
    for place, collation in zip(numbers[1::2], numbers[2::2], strict=False):
        out[columns[place]] = collation
    return out


# -- rows of the watermark table --------------------------------------------------------------------------------------------------------


def mark_rows(type_code: int, body: bytes, table_map: TableMap) -> list[tuple[str, str]]:
    """(name, token) of each row that a rows event leaves in the watermark table; a DELETE leaves none.

    The table's two columns are VARCHAR NOT NULL (sql.create_mark_table); anything else is a DefiniteError.
    """
    if [column.type_code for column in table_map.columns] != [WireType.VARCHAR, WireType.VARCHAR]:
        message = f"{table_map.table} has been altered and is no watermark table any more; drop it and restart the connector, which creates it again"
        raise DefiniteError(message)
    if type_code in DELETE_TYPES:
        return []
    at = 8
    if type_code in ROWS_V2_TYPES:
        at += int.from_bytes(body[8:10], "little")
    width, at = _packed(body, at)
    bitmap_bytes = (width + 7) // 8
    images = 2 if type_code in UPDATE_TYPES else 1
    at += bitmap_bytes * images
    out = []
    while at < len(body):
        row: list[bytes] = []
        for _ in range(images):
            nulls = body[at]
            at += bitmap_bytes
            row = []
            for i, column in enumerate(table_map.columns):
                if nulls >> i & 1:
                    row.append(b"")
                    continue
                length_bytes = 1 if column.meta < 256 else 2  # noqa: PLR2004 - Field_varstring
                length = int.from_bytes(body[at : at + length_bytes], "little")
                at += length_bytes
                row.append(body[at : at + length])
                at += length
        out.append((row[0].decode("utf-8", "replace"), row[1].decode("utf-8", "replace")))
    return out
