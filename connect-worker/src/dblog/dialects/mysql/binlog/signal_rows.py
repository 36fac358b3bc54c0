"""The rows inserted into a signal table: their first three columns as texts.

They are read without a row plan, because a signal table is not captured and only three texts of it
are needed. Further columns may have any usual type. Rule sources: as in table_map.py; field sizes
by Field::pack (sql/field.cc).
"""

from __future__ import annotations

from dblog.dialects.mysql.binlog.event_types import ROWS_V2_TYPES, WRITE_TYPES
from dblog.dialects.mysql.binlog.table_map import MapColumn, TableMap, WireType, packed
from dblog.dialects.mysql.values.binary_json import text_of_binary
from dblog.dialects.mysql.values.decimals import packed_size
from dblog.errors import DefiniteError

TEXTS = 3
"""The columns id, type and data, by position: Debezium ignores names too."""

_SIZES = {
    WireType.TINY: 1,
    WireType.SHORT: 2,
    WireType.INT24: 3,
    WireType.LONG: 4,
    WireType.LONGLONG: 8,
    WireType.FLOAT: 4,
    WireType.DOUBLE: 8,
    WireType.YEAR: 1,
    WireType.DATE: 3,
    WireType.TIMESTAMP: 4,
    WireType.DATETIME: 8,
}
_FRACTIONS = {WireType.TIME2: 3, WireType.TIMESTAMP2: 4, WireType.DATETIME2: 5}
_STRINGS = frozenset({WireType.VARCHAR, WireType.VAR_STRING, WireType.STRING})
_BLOBS = frozenset({WireType.BLOB, WireType.TINY_BLOB, WireType.MEDIUM_BLOB, WireType.LONG_BLOB, WireType.GEOMETRY})
_ONE_LENGTH_BYTE_MAX = 255

SignalRow = tuple[str | None, str | None, str | None]


def signal_rows(type_code: int, body: bytes, table_map: TableMap) -> list[SignalRow]:
    """Return (id, type, data) of each row that an event inserts; an UPDATE or DELETE is no signal.
    Raise DefiniteError for columns that no signal table has.
    """
    if type_code not in WRITE_TYPES:
        return []
    columns = table_map.columns
    if len(columns) < TEXTS or not all(column.type_code in _STRINGS | _BLOBS | {WireType.JSON} for column in columns[:TEXTS]):
        message = f"{table_map.table} is no signal table: its first three columns must be texts (id, type, data)"
        raise DefiniteError(message)
    at = 8
    if type_code in ROWS_V2_TYPES:
        at += int.from_bytes(body[8:10], "little")
    width, at = packed(body, at)
    there = int.from_bytes(body[at : at + (width + 7) // 8], "little")
    at += (width + 7) // 8
    present = [index for index in range(width) if there >> index & 1]
    rows = []
    while at < len(body):
        nulls = int.from_bytes(body[at : at + (len(present) + 7) // 8], "little")
        at += (len(present) + 7) // 8
        row: list[str | None] = [None] * TEXTS
        for bit, index in enumerate(present):
            if nulls >> bit & 1:
                continue
            start, end = _field(table_map, columns[index], body, at)
            if index < TEXTS:
                row[index] = _text(columns[index], body[start:end])
            at = end
        rows.append((row[0], row[1], row[2]))
    return rows


def _field(table_map: TableMap, column: MapColumn, body: bytes, at: int) -> tuple[int, int]:
    """Return the start and end of the bytes of the field at this offset."""
    code = column.type_code
    if code in _STRINGS:
        prefix = 1 if column.meta <= _ONE_LENGTH_BYTE_MAX else 2
    elif code in _BLOBS or code == WireType.JSON:
        prefix = column.meta
    elif code in _SIZES:
        return at, at + _SIZES[WireType(code)]
    elif code in _FRACTIONS:
        return at, at + _FRACTIONS[WireType(code)] + (column.meta + 1) // 2
    elif code == WireType.NEWDECIMAL:
        return at, at + packed_size(column.meta >> 8, column.meta & 255)
    else:
        message = f"{table_map.table} has a column of a type that no signal table has; signals need id, type and data alone"
        raise DefiniteError(message)
    start = at + prefix
    return start, start + int.from_bytes(body[at:start], "little")


def _text(column: MapColumn, raw: bytes) -> str:
    if column.type_code == WireType.JSON:
        return text_of_binary(raw)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
