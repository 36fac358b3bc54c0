"""The decoding of row images and of binary result-set rows into values: the slow oracle of the
extension.

A row image is a null bitmap and the fields that are not NULL, without separators. Only the table's
schema shows where each field ends (MySQL internals, "Rows Event"; Field::pack in sql/field.cc). A
binary result-set row has the same structure with other widths ("Binary Protocol Resultset Row").
Only ``log_layout`` and ``result_layout`` know these widths; the extension calls them too. MySQL and
MariaDB share all of it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from dblog.codecs.plan import ColumnPlan, Source, TablePlan
from dblog.codecs.rowplan import PartialImageError, other_width, partial_image
from dblog.dialects.mysql.binlog import partial_images
from dblog.dialects.mysql.binlog.source_block import source_block as source_block  # noqa: PLC0414 - the encoders ask this module
from dblog.dialects.mysql.values import charsets, fields
from dblog.dialects.mysql.values.decimals import packed_size
from dblog.dialects.mysql.values.fields import Read
from dblog.dialects.mysql.values.types import canonical_type
from dblog.errors import DefiniteError
from dblog.model import Column

Row = tuple[Any, ...]
"""A value for each column of the image, in image order; None for NULL and for impossible values."""

LONGEST = 0xFFFFFF
"""The largest packet, in bytes. The next packet continues one of this length."""

ONE_LENGTH_BYTE_MAX = 255
"""The most bytes of a string column with one length byte in the image; a longer one has two."""

LENGTH_ENCODED = 0
DATE_PACKED = -1
_LENENC_2, _LENENC_3, _LENENC_8 = 0xFC, 0xFD, 0xFE


@dataclass(frozen=True, slots=True)
class Layout:
    """The length of a field: ``size`` bytes, or the number in its ``prefix`` leading bytes
    (little-endian).
    """

    prefix: int
    size: int


def log_layout(column: ColumnPlan, declared: Column, *, where: str) -> Layout:
    """Return the layout of a field in a row image. Raise DefiniteError for a charset of unknown
    width.
    """
    match column.source:
        case Source.INT8 | Source.YEAR:
            return Layout(0, 1)
        case Source.INT16:
            return Layout(0, 2)
        case Source.INT24 | Source.DATE | Source.TIME_OLD:
            return Layout(0, 3)
        case Source.INT32 | Source.FLOAT | Source.TIMESTAMP_OLD:
            return Layout(0, 4)
        case Source.INT64 | Source.DOUBLE | Source.DATETIME_OLD:
            return Layout(0, 8)
        case Source.DECIMAL:
            return Layout(0, packed_size(column.length, column.scale))
        case Source.TIME:
            return Layout(0, 3 + (column.length + 1) // 2)
        case Source.DATETIME:
            return Layout(0, 5 + (column.length + 1) // 2)
        case Source.TIMESTAMP:
            return Layout(0, 4 + (column.length + 1) // 2)
        case Source.BIT:
            return Layout(0, (column.length + 7) // 8)
        case Source.ENUM:
            return Layout(0, 1 if len(column.members) <= ONE_LENGTH_BYTE_MAX else 2)
        case Source.SET:
            size = (len(column.members) + 7) // 8
            return Layout(0, size if size <= 4 else 8)  # noqa: PLR2004 - 1, 2, 3, 4 or 8 bytes
        case Source.JSON | Source.GEOMETRY | Source.VECTOR:
            return Layout(4, 0)
        case Source.UUID | Source.INET4 | Source.INET6:
            return Layout(1, 0)
        case _:
            return Layout(_string_prefix(column, declared, where), 0)


_BLOB_PREFIX = {"tiny": 1, "medium": 3, "long": 4}


def _string_prefix(column: ColumnPlan, declared: Column, where: str) -> int:
    name = canonical_type(declared)
    if name in ("char", "varchar", "binary", "varbinary"):
        width = charsets.bytes_max(column.charset, where=where) if column.source is Source.TEXT else 1
        return 1 if (declared.length or 1) * width + column.compressed <= ONE_LENGTH_BYTE_MAX else 2
    return next((size for start, size in _BLOB_PREFIX.items() if name.startswith(start)), 2)


def result_layout(column: ColumnPlan) -> int:
    """Return the bytes of a field in a binary result-set row; LENGTH_ENCODED, or DATE_PACKED for
    one length byte.
    """
    match column.source:
        case Source.INT8:
            return 1
        case Source.INT16 | Source.YEAR:
            return 2
        case Source.INT24 | Source.INT32 | Source.FLOAT:
            return 4
        case Source.INT64 | Source.DOUBLE:
            return 8
        case Source.DATE | Source.TIME | Source.DATETIME | Source.TIMESTAMP | Source.TIME_OLD | Source.DATETIME_OLD | Source.TIMESTAMP_OLD:
            return DATE_PACKED
        case _:
            return LENGTH_ENCODED


def where_of(plan: TablePlan, index: int) -> str:
    """Return table and column for error messages."""
    return f"{plan.table.id}, column {plan.table.columns[index].name}"


def log_reader(plan: TablePlan, index: int) -> Read:
    """Return the reader of one column's field in the log."""
    where = where_of(plan, index)
    return _guarded(fields.log_value(plan.columns[index], plan.table.columns[index], where=where), where)


def result_reader(plan: TablePlan, index: int) -> Read:
    """Return the reader of one column's field in a result set."""
    where = where_of(plan, index)
    return _guarded(fields.result_value(plan.columns[index], plan.table.columns[index], where=where), where)


def _guarded(read: Read, where: str) -> Read:
    """Return the reader with an error that names the column for bytes that are no value of its
    type, whatever exception they cause.
    """

    def guarded(raw: bytes) -> Any:
        try:
            return read(raw)
        except (ArithmeticError, LookupError, ValueError, struct.error) as error:
            message = f"{where}: the bytes are not a value of its type; the known schema does not fit the data, or these are damaged"
            raise DefiniteError(message) from error

    return guarded


def column_layout(plan: TablePlan, index: int) -> Layout:
    """Return ``log_layout`` of one column of a plan."""
    return log_layout(plan.columns[index], plan.table.columns[index], where=where_of(plan, index))


# --- rows events ----------------------------------------------------------------------------------


class RowImages:
    """A reader of the rows events of one table version."""

    def __init__(self, plan: TablePlan, *, rereads: bool = False) -> None:
        needed = _needed(plan)
        self._plan = plan
        self._rereads = rereads
        self._layouts = [column_layout(plan, i) for i in range(len(plan.columns))]
        self._readers = [log_reader(plan, i) if i in needed else None for i in range(len(plan.columns))]

    def __call__(self, op: str, body: bytes, *, version: int | None = None) -> Iterator[tuple[Row | None, Row | None]]:
        """Yield (before, after) of each row. ``version`` is 1 or 2 of the event; None finds it by
        the body (see ``event_version``).
        """
        try:
            if version == partial_images.PARTIAL_UPDATE:
                raise partial_image(self._plan)
            at = rows_start(self._plan, op, body, version=version)
        except PartialImageError:
            body = whole_rows(self._plan, op, body, version=version, rereads=self._rereads)
            at = rows_start(self._plan, op, body, version=2)
        while at < len(body):
            before = after = None
            if op != "c":
                before, at = self._image(body, at)
            if op != "d":
                after, at = self._image(body, at)
            yield before, after

    def _image(self, body: bytes, at: int) -> tuple[Row, int]:
        count = len(self._layouts)
        bitmap, at = body[at : at + (count + 7) // 8], at + (count + 7) // 8
        if at > len(body):
            raise truncated(self._plan)
        row: list[Any] = []
        for index, (layout, read) in enumerate(zip(self._layouts, self._readers, strict=True)):
            if bitmap[index >> 3] >> (index & 7) & 1:
                row.append(None)
                continue
            size = layout.size
            if layout.prefix:
                size, at = int.from_bytes(body[at : at + layout.prefix], "little"), at + layout.prefix
            if at + size > len(body):
                raise truncated(self._plan, index)
            row.append(None if read is None else read(body[at : at + size]))
            at += size
        return tuple(row), at


def whole_rows(plan: TablePlan, op: str, body: bytes, *, version: int | None, rereads: bool = False) -> bytes:
    """Return the event's rows completed; see ``partial_images.whole_rows``."""
    layouts = [column_layout(plan, index) for index in range(len(plan.columns))]
    return partial_images.whole_rows(plan, layouts, op, body, version=version or event_version(body), rereads=rereads)


def truncated(plan: TablePlan, index: int | None = None) -> DefiniteError:
    """Return the error for a row that ends before its columns do."""
    where = str(plan.table.id) if index is None else where_of(plan, index)
    return DefiniteError(f"{where}: a row ends too early; the known schema does not fit the data")


def leaves_values_out(plan: TablePlan, body: bytes, *, version: int | None) -> bool:
    """Return whether images lack columns; see ``partial_images.leaves_values_out``."""
    return partial_images.leaves_values_out(plan, body, version=version or event_version(body))


def event_version(body: bytes) -> int:
    """Return version 1 or 2, found by the body. Version 2 has a two-byte length of extra data,
    below 256, where version 1 has the bitmap of ones of a full image.
    """
    return 2 if len(body) > 9 and body[9] == 0 else 1  # noqa: PLR2004 - table id 6, flags 2, then the low byte


def rows_start(plan: TablePlan, op: str, body: bytes, *, version: int | None = None) -> int:
    """Return the offset of the rows. Raise DefiniteError unless the event has all of the plan's
    columns.
    """
    count = len(plan.columns)
    at = 8
    if (version or event_version(body)) == 2:  # noqa: PLR2004 - the event's version
        extra = int.from_bytes(body[8:10], "little")
        at += max(extra, 2)
    width, at = _lenenc(body, at, plan)
    if width != count:
        raise other_width(plan, width)
    for _ in range(2 if op == "u" else 1):
        bitmap = body[at : at + (count + 7) // 8]
        at += (count + 7) // 8
        if at > len(body):
            raise truncated(plan)
        if int.from_bytes(bitmap, "little") & (1 << count) - 1 != (1 << count) - 1:
            raise partial_image(plan)
    return at


def _lenenc(raw: bytes, at: int, plan: TablePlan) -> tuple[int, int]:
    first = raw[at] if at < len(raw) else None
    if first is None:
        raise truncated(plan)
    if first < _LENENC_2 - 1:
        return first, at + 1
    size = {_LENENC_2: 2, _LENENC_3: 3, _LENENC_8: 8}.get(first)
    if size is None or at + 1 + size > len(raw):
        raise truncated(plan)
    return int.from_bytes(raw[at + 1 : at + 1 + size], "little"), at + 1 + size


# --- binary result sets ---------------------------------------------------------------------------


class ResultRows:
    """A reader of binary result-set rows whose select list is all columns of the plan, in image
    order.
    """

    def __init__(self, plan: TablePlan) -> None:
        needed = _needed(plan)
        self._plan = plan
        self._layouts = [result_layout(column) for column in plan.columns]
        self._readers = [result_reader(plan, i) if i in needed else None for i in range(len(plan.columns))]

    def __call__(self, rows: bytes) -> Iterator[Row]:
        """Yield the rows of these packets, which include headers. A final EOF or OK packet is
        ignored.
        """
        for payload in packet_payloads(rows):
            if payload[:1] != b"\x00":
                return
            yield self._row(payload)

    def _row(self, payload: bytes) -> Row:
        row: list[Any] = []
        for index, raw in enumerate(_fields(self._plan, self._layouts, payload)):
            read = self._readers[index]
            row.append(None if raw is None or read is None else read(raw))
        return tuple(row)


def end_of_rows(packets: bytes, start: int, rows_max: int, bytes_max: int) -> int:
    """Return the offset after the next rows; see ``rowplan.RowEncoder``. An incomplete last packet
    counts to the end: its reader raises the error.
    """
    at, rows = start, 0
    while at < len(packets) and (at == start or (rows < rows_max and at - start < bytes_max)):
        length = LONGEST
        while length == LONGEST and at < len(packets):
            length = int.from_bytes(packets[at : at + 3], "little")
            at += 4 + length
        rows += 1
    return min(at, len(packets))


def packet_payloads(packets: bytes) -> Iterator[bytes]:
    """Yield the payloads of whole packets, joined if one spans several."""
    at = 0
    parts: list[bytes] = []
    while at < len(packets):
        length = int.from_bytes(packets[at : at + 3], "little")
        if at + 4 + length > len(packets):
            raise DefiniteError("the rows of a chunk end inside a packet")
        parts.append(packets[at + 4 : at + 4 + length])
        at += 4 + length
        if length < LONGEST:
            yield b"".join(parts)
            parts.clear()
    if parts:
        raise DefiniteError("the rows of a chunk end inside a row")


def _fields(plan: TablePlan, layouts: Sequence[int], payload: bytes) -> Iterator[bytes | None]:
    at = 1 + (len(layouts) + 9) // 8
    if at > len(payload):
        raise truncated(plan)
    for index, layout in enumerate(layouts):
        if payload[1 + (index + 2 >> 3)] >> (index + 2 & 7) & 1:
            yield None
            continue
        size = layout
        if layout == DATE_PACKED:
            size, at = (payload[at] if at < len(payload) else 0), at + 1
        elif layout == LENGTH_ENCODED:
            size, at = _lenenc(payload, at, plan)
        if at + size > len(payload):
            raise truncated(plan, index)
        yield payload[at : at + size]
        at += size
    if at != len(payload):
        raise DefiniteError(f"{plan.table.id}: a row of a chunk is longer than its columns; the known schema does not fit the data")


def _needed(plan: TablePlan) -> frozenset[int]:
    return frozenset(i for i, column in enumerate(plan.columns) if column.included) | frozenset(plan.key)


# --- table maps -----------------------------------------------------------------------------------

_TYPE_CODES: dict[IntEnum, tuple[int, ...]] = {
    Source.INT8: (1,),
    Source.INT16: (2,),
    Source.INT24: (9,),
    Source.INT32: (3,),
    Source.INT64: (8,),
    Source.FLOAT: (4,),
    Source.DOUBLE: (5,),
    Source.DECIMAL: (246,),
    Source.YEAR: (13,),
    Source.DATE: (10, 14),
    Source.TIME: (19,),
    Source.DATETIME: (18,),
    Source.TIMESTAMP: (17,),
    Source.BIT: (16,),
    Source.TEXT: (15, 252, 253, 254),
    Source.BINARY: (15, 252, 253, 254),
    Source.ENUM: (247, 254),
    Source.SET: (248, 254),
    Source.JSON: (245,),
    Source.GEOMETRY: (255,),
    Source.VECTOR: (242,),
    Source.UUID: (254,),
    Source.INET4: (254,),
    Source.INET6: (254,),
    Source.TIME_OLD: (11,),
    Source.DATETIME_OLD: (12,),
    Source.TIMESTAMP_OLD: (7,),
}
"""Binlog type codes of each source form (binlog_event.h: enum_field_types)."""
_COMPRESSED_CODES = (140, 141)

_META_BYTES = {
    4: 1,
    5: 1,
    252: 1,
    255: 1,
    245: 1,
    242: 1,
    19: 1,
    18: 1,
    17: 1,
    140: 1,
    16: 2,
    15: 2,
    246: 2,
    253: 2,
    254: 2,
    247: 2,
    248: 2,
    141: 2,
}


def check_table_map(plan: TablePlan, body: bytes) -> None:
    """Raise DefiniteError if a table map stores its columns otherwise than the plan expects: a
    wrong width would misread every row after it. # I4

    The error names the first wrong column.
    """
    types, metas = _table_map_columns(plan, body)
    if len(types) != len(plan.columns):
        raise DefiniteError(
            f"{plan.table.id}: the log's table map has {len(types)} columns where the known schema has {len(plan.columns)}; "
            "the schema is out of sync; reset the connector's offsets to have the table's definition read again"
        )
    for index, (code, meta) in enumerate(zip(types, metas, strict=True)):
        wanted = column_layout(plan, index)
        found = _map_layout(code, meta)
        codes = _COMPRESSED_CODES if plan.columns[index].compressed else _TYPE_CODES[plan.columns[index].source]
        if code not in codes or (found is not None and found != wanted):
            raise DefiniteError(
                f"{where_of(plan, index)}: the log stores it as type {code} (metadata {meta.hex() or 'none'}), the known schema has "
                f"{plan.table.columns[index].type_text}; the schema is out of sync; "
                "reset the connector's offsets to have the table's definition read again"
            )


def _table_map_columns(plan: TablePlan, body: bytes) -> tuple[bytes, list[bytes]]:
    try:
        at = 8
        for _ in range(2):  # database and table name: length, text, a zero byte
            at += body[at] + 2
        count, at = _lenenc(body, at, plan)
        types, at = body[at : at + count], at + count
        size, at = _lenenc(body, at, plan)
        block = body[at : at + size]
        metas, at = [], 0
        for code in types:
            width = _META_BYTES.get(code, 0)
            metas.append(block[at : at + width])
            at += width
    except IndexError:
        raise truncated(plan) from None
    if len(types) != count or at > len(block):
        raise truncated(plan)
    return types, metas


def _map_layout(code: int, meta: bytes) -> Layout | None:
    """Return the layout of a table map's type and metadata; None if the type alone decides it."""
    match code:
        case 246:
            return Layout(0, packed_size(meta[0], meta[1]))
        case 19:
            return Layout(0, 3 + (meta[0] + 1) // 2)
        case 18:
            return Layout(0, 5 + (meta[0] + 1) // 2)
        case 17:
            return Layout(0, 4 + (meta[0] + 1) // 2)
        case 16:
            return Layout(0, meta[1] + (meta[0] > 0))
        case 15 | 253 | 141:
            return Layout(1 if int.from_bytes(meta, "little") <= ONE_LENGTH_BYTE_MAX else 2, 0)
        case 252 | 255 | 245 | 242 | 140:
            return Layout(meta[0], 0)
        case 254:
            return _string_layout(meta)
        case _:
            return None


def _string_layout(meta: bytes) -> Layout:
    """Return the layout of a STRING, whose first metadata byte is the real type. Its bits 4 and 5
    are, inverted, bits 8 and 9 of the length (log_event.cc).
    """
    kind, length = meta[0], meta[1]
    if kind & 0x30 != 0x30:  # noqa: PLR2004 - both bits set: no high bits of the length
        length |= ((kind & 0x30) ^ 0x30) << 4
        kind |= 0x30
    if kind in (247, 248):
        return Layout(0, length)
    return Layout(1 if length <= ONE_LENGTH_BYTE_MAX else 2, 0)


def text_table(plan: TablePlan, index: int) -> tuple[str, ...] | None:
    """Return the 256 characters of a text column in a one-byte charset; () if its bytes are UTF-8
    already; None for all others.
    """
    column = plan.columns[index]
    if column.source is not Source.TEXT or column.compressed:
        return None
    if (column.charset or "utf8mb4").lower() in charsets.UTF8:
        return ()
    return charsets.single_byte_table(column.charset)
