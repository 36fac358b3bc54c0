"""The bodies of a log's events but for rows: format, rotation, transactions, statements, heartbeats.

Bodies come without the 19-byte header and without checksum, as the log decoder hands them out (``LogEvent.body``). Types are in
eventtypes.py, table maps in tablemap.py; both can be had from here. Rule sources: MySQL libs/mysql/binlog/event/*.h (formerly
libbinlogevents), sql/log_event.h of MariaDB, MySQL internals "Binary Log Event".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from dblog.dialects.mariadb.position import Gtid as MariaDbGtid
from dblog.dialects.mariadb.position import GtidPosition
from dblog.dialects.mysql.eventtypes import (
    CHECKSUM_BYTES,
    DELETE_TYPES,
    FLAG_ARTIFICIAL,
    FLAG_IGNORABLE,
    HARMLESS_TYPES,
    HEADER_BYTES,
    REMEDIES,
    ROWS_TYPES,
    ROWS_V2_TYPES,
    UPDATE_TYPES,
    WRITE_TYPES,
    EventType,
    type_name,
    unsupported,
)
from dblog.dialects.mysql.position import GtidSet, uuid_text
from dblog.dialects.mysql.tablemap import MapColumn, TableMap, WireType, mark_rows, packed, read_table_map, read_table_name
from dblog.errors import DefiniteError

__all__ = [
    "CHECKSUM_BYTES",
    "DELETE_TYPES",
    "FLAG_ARTIFICIAL",
    "FLAG_IGNORABLE",
    "HARMLESS_TYPES",
    "HEADER_BYTES",
    "REMEDIES",
    "ROWS_TYPES",
    "ROWS_V2_TYPES",
    "UPDATE_TYPES",
    "WRITE_TYPES",
    "EventType",
    "FormatDescription",
    "Header",
    "Heartbeat",
    "Incident",
    "MapColumn",
    "MariaDbGtidEvent",
    "MySqlGtid",
    "Query",
    "Rotate",
    "StartEncryption",
    "TableMap",
    "WireType",
    "mark_rows",
    "read_format_description",
    "read_gtid",
    "read_header",
    "read_heartbeat",
    "read_incident",
    "read_mariadb_gtid",
    "read_mariadb_gtid_list",
    "read_previous_gtids",
    "read_query",
    "read_rotate",
    "read_start_encryption",
    "read_statement_text",
    "read_table_map",
    "read_table_name",
    "read_xid",
    "rows_kind",
    "type_name",
    "unsupported",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """An event's 19 bytes. ``next_pos`` is 32 bits wide and 0 in artificial events."""

    timestamp_s: int
    type_code: int
    server_id: int
    length: int
    next_pos: int
    flags: int


def rows_kind(type_code: int) -> tuple[int, str]:
    """Version (3: an update with differences of JSON documents) and operation of a rows event, compressed or not, as the decoders give it."""
    if type_code == EventType.PARTIAL_UPDATE_ROWS:
        return 3, "u"
    op = "c" if type_code in WRITE_TYPES else "u" if type_code in UPDATE_TYPES else "d"
    return 2 if type_code in ROWS_V2_TYPES else 1, op


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
        length, start = packed(body, at + 1)
        value = body[start : start + length]
        at = start + length
        if field == 1:
            file = value.decode("utf-8", "surrogateescape")
        elif field == 2:  # noqa: PLR2004 - the position, itself a packed number
            pos = packed(value, 0)[0]
    return Heartbeat(file=file, pos=pos)


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
            transaction_bytes, at = packed(body, at)
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
    flags2: int | None = None
    sql_mode: int | None = None
    explicit_timestamps: bool | None = None
    """The session's explicit_defaults_for_timestamp, where MySQL says it; MariaDB has a bit of ``flags2`` for it."""
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
        flags2=variables.get("flags2"),
        sql_mode=variables.get("sql_mode"),
        explicit_timestamps=None if "explicit_timestamps" not in variables else bool(variables["explicit_timestamps"]),
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
            name = {
                0: "flags2",
                1: "sql_mode",
                13: "microseconds",
                16: "explicit_timestamps",
                17: "ddl_xid",
                18: "default_collation",
                128: "microseconds",
            }.get(code)
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
