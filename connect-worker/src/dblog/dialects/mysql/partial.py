"""Makes whole rows of those that the server shortened: images without all columns, and JSON documents as differences.

The result is a plain rows event of version 2, so both row encoders read it as they read any other. What a shortened event cannot tell:

- NOBLOB: large objects that an update leaves alone are not in the images. Their columns get ``__debezium_unavailable_value``, the placeholder that
  Debezium's PostgreSQL connector (and its MySQL one from 3.7 on) writes for values it did not get; JSON columns get it as a JSON string.
  An INSERT leaves out the large objects that it did not name: they are NULL, or empty where NULL is not allowed.
- MINIMAL leaves out columns of any type. No record with right values can be made of that: the event is refused with the remedy.
- PARTIAL_JSON: differences are applied to the image before the update.

Rule sources: MySQL manual "binlog_row_image", "binlog_row_value_options"; sql/rpl_record.cc (``unpack_row``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dblog.codecs.plan import Source, TablePlan
from dblog.codecs.rowplan import other_width, partial_image
from dblog.dialects.mysql import json_diff
from dblog.dialects.mysql.types import canonical_type
from dblog.errors import DefiniteError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dblog.codecs.rowplan import Layout

PLACEHOLDER = "__debezium_unavailable_value"
PARTIAL_UPDATE = 3
"""The version under which the decoders hand in PARTIAL_UPDATE_ROWS, an update event like version 2 but for the images after."""

_LARGE = ("text", "blob", "json", "longtext", "longblob", "mediumtext", "mediumblob", "tinytext", "tinyblob")
_PARTIAL_JSON = 1
_WIDE = {"ucs2": "utf_16_be", "utf16": "utf_16_be", "utf16le": "utf_16_le", "utf32": "utf_32_be"}
"""Character sets that write ASCII otherwise than ASCII."""

Fields = list[bytes | None]
"""Each column's bytes with their length in front; None for NULL."""


def whole_rows(plan: TablePlan, layouts: Sequence[Layout], op: str, body: bytes, *, version: int) -> bytes:
    """The body of a version 2 event with the same rows, whole. DefiniteError when that cannot be, or the event is damaged."""
    reader = _Reader(plan, layouts, body, at=8)
    if version >= 2:  # noqa: PLR2004 - version 1 has no extra data
        reader.take(max(int.from_bytes(reader.take(2), "little") - 2, 0))
    count = reader.packed()
    if count != len(plan.columns):
        raise other_width(plan, count)
    width = (count + 7) // 8
    before_there = after_there = reader.take(width)
    if op == "u":
        after_there = reader.take(width)
    if not any(before_there) or not any(after_there):
        raise partial_image(plan)
    out = bytearray(body[:8]) + b"\x02\x00" + _packed(count) + b"\xff" * (width * (2 if op == "u" else 1))
    while reader.at < len(body):
        before: Fields | None = None
        if op != "c":
            found = reader.image(before_there)
            before = _filled(plan, layouts, found, before_there, None, op)
            out += _written(before)
        if op != "d":
            partial = reader.partial_columns() if version == PARTIAL_UPDATE else frozenset()
            found = reader.image(after_there)
            after = _filled(plan, layouts, found, after_there, before, op)
            for index in partial:
                after[index] = _whole_document(plan, index, before, after[index])
            out += _written(after)
    return bytes(out)


def _whole_document(plan: TablePlan, index: int, before: Fields | None, differences: bytes | None) -> bytes | None:
    if differences is None:
        return None
    old = None if before is None else before[index]
    where = f"{plan.table.id}, column {plan.table.columns[index].name}"
    if old is None:
        message = (
            f"{where}: the log holds a difference of a JSON document, but not the document before; "
            "run SET GLOBAL binlog_row_value_options = '' on the source and take a new snapshot of the table"
        )
        raise DefiniteError(message)
    try:
        document = json_diff.applied(old[4:], differences[4:])
    except ValueError as error:
        message = f"{where}: {error}; run SET GLOBAL binlog_row_value_options = '' on the source and take a new snapshot of the table"
        raise DefiniteError(message) from error
    return len(document).to_bytes(4, "little") + document


def _filled(plan: TablePlan, layouts: Sequence[Layout], found: Fields, there: bytes, before: Fields | None, op: str) -> Fields:
    """The image with all columns: those left out are as before, or a placeholder, or (INSERT) what the server gives them."""
    out: Fields = []
    at = 0
    for index in range(len(plan.columns)):
        if there[index >> 3] >> (index & 7) & 1:
            out.append(found[at])
            at += 1
            continue
        declared = plan.table.columns[index]
        if index in plan.key or canonical_type(declared) not in _LARGE:
            raise partial_image(plan)
        prefix = layouts[index].prefix
        if before is not None:
            out.append(before[index])
        elif op == "c":
            out.append(None if declared.nullable else _empty(plan, index, prefix))
        else:
            out.append(_framed(_placeholder(plan, index), prefix))
    return out


def _empty(plan: TablePlan, index: int, prefix: int) -> bytes:
    if plan.columns[index].source is Source.JSON:
        raise partial_image(plan)  # a JSON column that is not NULL has no value that the server would take by itself
    return bytes(prefix)


def _placeholder(plan: TablePlan, index: int) -> bytes:
    column = plan.columns[index]
    if column.source is Source.JSON:
        return json_diff.string_document(PLACEHOLDER)
    if column.source is Source.TEXT:
        return PLACEHOLDER.encode(_WIDE.get((column.charset or "").lower(), "ascii"))
    return PLACEHOLDER.encode()


def _framed(raw: bytes, prefix: int) -> bytes:
    return len(raw).to_bytes(prefix, "little") + raw


def _written(fields: Fields) -> bytes:
    bits = sum(1 << index for index, field in enumerate(fields) if field is None)
    return bits.to_bytes((len(fields) + 7) // 8, "little") + b"".join(field for field in fields if field is not None)


def _packed(count: int) -> bytes:
    return bytes([count]) if count < 0xFB else b"\xfc" + count.to_bytes(2, "little")  # noqa: PLR2004 - a table has at most 4096 columns


class _Reader:
    """Goes through an event's body; whatever reaches beyond its end is a damaged event."""

    def __init__(self, plan: TablePlan, layouts: Sequence[Layout], body: bytes, *, at: int) -> None:
        self._plan, self._layouts, self._body, self.at = plan, layouts, body, at
        self._json = [i for i, column in enumerate(plan.columns) if column.source is Source.JSON]

    def take(self, length: int) -> bytes:
        if self.at + length > len(self._body):
            message = f"{self._plan.table.id}: a row ends too early; the known schema does not fit the data"
            raise DefiniteError(message)
        self.at += length
        return self._body[self.at - length : self.at]

    def packed(self) -> int:
        first = self.take(1)[0]
        if first < 0xFB:  # noqa: PLR2004 - a number of one byte
            return first
        return int.from_bytes(self.take({0xFC: 2, 0xFD: 3}.get(first, 8)), "little")

    def partial_columns(self) -> frozenset[int]:
        """Which JSON columns of the next image hold differences."""
        if not self.packed() & _PARTIAL_JSON:
            return frozenset()
        bits = self.take((len(self._json) + 7) // 8)
        return frozenset(column for place, column in enumerate(self._json) if bits[place >> 3] >> (place & 7) & 1)

    def image(self, there: bytes) -> Fields:
        """The fields of the columns that are there."""
        columns = [i for i in range(len(self._layouts)) if there[i >> 3] >> (i & 7) & 1]
        nulls = self.take((len(columns) + 7) // 8)
        out: Fields = []
        for place, index in enumerate(columns):
            if nulls[place >> 3] >> (place & 7) & 1:
                out.append(None)
                continue
            layout = self._layouts[index]
            prefix = self.take(layout.prefix)
            out.append(prefix + self.take(int.from_bytes(prefix, "little") if layout.prefix else layout.size))
        return out
