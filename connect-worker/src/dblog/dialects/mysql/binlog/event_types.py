"""The types of log events of MySQL 5.7 to 9.x and MariaDB 10.5 to 12: numbers, names, and remedies
for unsupported ones.

No event that may hold changes is skipped (I5): a type is handled, or harmless, or an error with its
remedy. Rule sources: MySQL libs/mysql/binlog/event/binlog_event.h, sql/log_event.h of MariaDB.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from dblog.errors import DefiniteError

FLAG_ARTIFICIAL = 0x20
"""The flag of an event made by the sender, not read from the file. Its positions have no meaning.
"""
FLAG_IGNORABLE = 0x80
"""The flag of an event that a reader may skip if it does not know the type. The server sets it."""


class EventType(IntEnum):
    """Type codes. Those of MariaDB alone start at 160."""

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
UPDATE_TYPES = frozenset({EventType.UPDATE_ROWS_V1, EventType.UPDATE_ROWS, EventType.PARTIAL_UPDATE_ROWS})
DELETE_TYPES = frozenset({EventType.DELETE_ROWS_V1, EventType.DELETE_ROWS})
ROWS_TYPES = WRITE_TYPES | UPDATE_TYPES | DELETE_TYPES
ROWS_V2_TYPES = frozenset({EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS, EventType.PARTIAL_UPDATE_ROWS})

HARMLESS_TYPES = frozenset(
    {
        EventType.STOP, EventType.INTVAR, EventType.RAND, EventType.USER_VAR, EventType.HEARTBEAT, EventType.HEARTBEAT_V2,
        EventType.IGNORABLE, EventType.ROWS_QUERY, EventType.PREVIOUS_GTIDS, EventType.TRANSACTION_CONTEXT, EventType.VIEW_CHANGE,
        EventType.MARIADB_ANNOTATE_ROWS, EventType.MARIADB_BINLOG_CHECKPOINT, EventType.MARIADB_GTID_LIST,
        EventType.MARIADB_START_ENCRYPTION,
    }
)  # fmt: skip
"""Known types that change no table. INTVAR, RAND and USER_VAR prepare a statement of
statement-based logging, which the QUERY event itself shows. START_ENCRYPTION is in an encrypted
file, but the server decrypts what it sends.
"""


def type_name(type_code: int) -> str:
    """Return the type's name and number for a message."""
    try:
        return f"{EventType(type_code).name} ({type_code})"
    except ValueError:
        return f"unknown event type ({type_code})"


_STATEMENT = (
    "the change was logged as a statement, not as rows; run SET GLOBAL binlog_format = 'ROW'; there and dump the affected tables again"
)

REMEDIES: Mapping[int, str] = {
    EventType.INCIDENT: "the server reports that changes are missing from its log at this position; dump the captured tables again",
    EventType.MARIADB_PARTIAL_ROW_DATA: (
        "a rows event is sent in pieces, which is not supported yet; set binlog_row_event_fragment_threshold to its maximum there"
    ),
    EventType.BEGIN_LOAD_QUERY: _STATEMENT,
    EventType.EXECUTE_LOAD_QUERY: _STATEMENT,
    EventType.APPEND_BLOCK: _STATEMENT,
    EventType.DELETE_FILE: _STATEMENT,
}
"""Unsupported types that carry changes, with a remedy. # I5"""


def unsupported(type_code: int, *, file: str, pos: int, flags: int = 0) -> DefiniteError | None:
    """Return the error for an event that the reader does not handle; None if it may be skipped.

    An unknown type that the server marks as ignorable (``flags``) may be skipped too. Any other
    unknown type is an error, because it may hold changes. # I5
    """
    if type_code in HARMLESS_TYPES:
        return None
    remedy = REMEDIES.get(type_code)
    if remedy is None:
        if flags & FLAG_IGNORABLE:
            return None
        remedy = "this version of dblog does not know it and must not pass over it; update dblog, or report the server's version"
    return DefiniteError(f"{type_name(type_code)} at {file}:{pos}: {remedy}")
