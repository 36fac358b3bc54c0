"""The events that the log decoder leaves to its caller: statements here, and types and table maps
re-exported.

Bodies come without the 19-byte header and without checksum (``LogEvent.body``). Types are defined
in binlog/event_types.py, table maps in binlog/table_map.py. The decoder itself reads the events
around transactions: formats, rotations, GTIDs, heartbeats. Rule sources: MySQL
libs/mysql/binlog/event/*.h (formerly libbinlogevents), sql/log_event.h of MariaDB, MySQL internals
"Binary Log Event".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from dblog.dialects.mysql.binlog.event_types import (
    DELETE_TYPES,
    FLAG_ARTIFICIAL,
    FLAG_IGNORABLE,
    HARMLESS_TYPES,
    REMEDIES,
    ROWS_TYPES,
    ROWS_V2_TYPES,
    UPDATE_TYPES,
    WRITE_TYPES,
    EventType,
    type_name,
    unsupported,
)
from dblog.dialects.mysql.binlog.table_map import MapColumn, TableMap, WireType, read_table_map, read_table_name, watermark_rows

__all__ = [
    "DELETE_TYPES",
    "FLAG_ARTIFICIAL",
    "FLAG_IGNORABLE",
    "HARMLESS_TYPES",
    "REMEDIES",
    "ROWS_TYPES",
    "ROWS_V2_TYPES",
    "UPDATE_TYPES",
    "WRITE_TYPES",
    "EventType",
    "MapColumn",
    "Query",
    "TableMap",
    "WireType",
    "read_query",
    "read_table_map",
    "read_table_name",
    "rows_kind",
    "type_name",
    "unsupported",
    "watermark_rows",
]


def rows_kind(type_code: int) -> tuple[int, str]:
    """Return version and operation of a rows event, as the decoders pass them, compressed or not.
    Version 3 is an update with differences of JSON documents.
    """
    if type_code == EventType.PARTIAL_UPDATE_ROWS:
        return 3, "u"
    op = "c" if type_code in WRITE_TYPES else "u" if type_code in UPDATE_TYPES else "d"
    return 2 if type_code in ROWS_V2_TYPES else 1, op


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A statement in the log: DDL, or a transaction's BEGIN and COMMIT."""

    database: str
    """The session's default database, "" for none."""
    text: bytes
    """The statement in the client's charset (``client_collation``)."""
    thread_id: int
    execution_s: int
    error_code: int
    flags2: int | None = None
    sql_mode: int | None = None
    explicit_timestamps: bool | None = None
    """The session's explicit_defaults_for_timestamp if MySQL writes it, else None. MariaDB has a
    bit of ``flags2`` for it.
    """
    client_collation: int | None = None
    """The collation id of character_set_client; None if the event lacks it."""
    server_collation: int | None = None
    default_collation: int | None = None
    """The collation of a CREATE DATABASE without a charset (MySQL)."""
    ddl_xid: int | None = None
    time_zone: str | None = None
    microseconds: int = 0
    status_complete: bool = True
    """False if a status variable of unknown length ended the reading, so that later ones are
    unknown.
    """

    @property
    def ansi_quotes(self) -> bool:
        """True if ``"x"`` is an identifier in the text."""
        return bool((self.sql_mode or 0) & SQL_MODE_ANSI_QUOTES)


SQL_MODE_ANSI_QUOTES = 1 << 2


def read_query(body: bytes) -> Query:
    """Read the body of a QUERY event."""
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
"""Lengths of the status variables of fixed length: flags2, sql_mode, auto_increment, lc_time_names,
charset_database, table_map_for_update, master_data_written, microseconds,
explicit_defaults_for_timestamp, ddl_xid, default_collation, require_primary_key,
default_table_encryption; MariaDB's hrnow and xid.
"""


def read_status_variables(data: bytes) -> dict[str, int]:
    """Return the variables that affect how a statement is read. Reading stops at one of unknown
    length (key ``unknown``), as in the server.
    """
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
        elif code == 2:  # noqa: PLR2004 - catalog with a NUL after it (5.0.0 to 5.0.3)
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
