"""The completion of rows that the server shortened: images without all columns, and JSON documents
as differences.

The result is a plain rows event of version 2, which both row encoders can read. Shortened events
differ by setting:

- An UPDATE with a whole image before shows all columns: those missing in the image after are
  unchanged. This is so for tables without a key, and with MariaDB's FULL_NODUP.
- NOBLOB: large objects that an update does not change are in neither image. Their columns get
  ``unavailable.value.placeholder``, as in Debezium's PostgreSQL connector (and its MySQL one since
  3.7) for values it did not get; JSON columns get it as a JSON string. If rows may be read again,
  an update of the key that leaves some out is a MissingColumnsError, because nobody has the row
  under the new key. MariaDB logs a REPLACE of an existing row as such an update too: a large object
  that it reset to its default looks like an unchanged one.
- An INSERT leaves out the columns that it did not name. They have their default (default_field.py);
  one in doubt counts as missing. An INSERT that named no column has an image of no columns and no
  bytes, and is one row: MySQL refuses to log more of them in one event (error 1534), MariaDB logs
  whole rows of tables without a key, and a table with a key has no second such row.
- MINIMAL has only the key before an update or delete, and only the assigned columns after it. This
  is a MissingColumnsError; if rows may be read again, binlog/minimal_images.py continues from
  there. MariaDB logs a REPLACE as such an update too, of a key with no column after it.
- PARTIAL_JSON: differences are applied to the image before the update.

Rule sources: MySQL manual "binlog_row_image", "binlog_row_value_options"; sql/rpl_record.cc
(``unpack_row``); MariaDB sql/log_event_server.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dblog.codecs.plan import Source, TablePlan
from dblog.codecs.rowplan import DUMP_AGAIN, missing_columns, other_width, partial_image
from dblog.dialects.mysql.binlog import json_diff
from dblog.dialects.mysql.catalog.sql import key_indexes
from dblog.dialects.mysql.values.default_field import WIDE, default_field
from dblog.dialects.mysql.values.fields import NOT_PACKED
from dblog.dialects.mysql.values.types import canonical_type
from dblog.errors import DefiniteError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dblog.codecs.rowplan import Layout

PARTIAL_UPDATE = 3
"""The version by which the decoders mark PARTIAL_UPDATE_ROWS: an update event like version 2,
except for the images after.
"""

_LARGE = ("text", "blob", "json", "longtext", "longblob", "mediumtext", "mediumblob", "tinytext", "tinyblob")
_PARTIAL_JSON = 1
Fields = list[bytes | None]
"""The bytes of each column with their length prefix; None for NULL."""


def whole_rows(plan: TablePlan, layouts: Sequence[Layout], op: str, body: bytes, *, version: int, rereads: bool = False) -> bytes:
    """Return the body of a version 2 event with the same rows, complete. ``rereads``: rows may be
    read again from the table.

    Raise DefiniteError if rows cannot be completed, or if the event is damaged.
    """
    reader, before_present, after_present = opened(plan, layouts, op, body, version=version)
    fill = _fill(plan, layouts, op, before_present, after_present)
    lacks = (
        rereads and op == "u" and any(plan.columns[index].included for index in fill if not after_present[index >> 3] >> (index & 7) & 1)
    )
    certain = {*plan.key, *(key_indexes(plan.table) if plan.table.key else ())} if lacks else set()
    out = bytearray(event_head(plan, body, images=2 if op == "u" else 1))
    for _ in reader.rows(op, after_present):
        before: Fields | None = None
        if op != "c":
            before = _filled(len(layouts), reader.image(before_present), before_present, fill, None)
            out += written(before)
        if op != "d":
            partial = reader.partial_columns() if version == PARTIAL_UPDATE else frozenset()
            after = _filled(len(layouts), reader.image(after_present), after_present, fill, before)
            for index in partial:
                after[index] = _whole_document(plan, index, before, after[index])
            if before is not None and any(before[index] != after[index] for index in certain):
                raise missing_columns(plan)
            out += written(after)
    return bytes(out)


def leaves_values_out(plan: TablePlan, body: bytes, *, version: int) -> bool:
    """Return whether an update event has captured columns in neither image, so that its records
    have the placeholder for them (NOBLOB).
    """
    width = (len(plan.columns) + 7) // 8
    at = 8 if version == 1 else 8 + max(int.from_bytes(body[8:10], "little"), 2)
    at += 1 if len(plan.columns) < 0xFB else 3  # noqa: PLR2004 - as ``_packed`` writes the count
    shown = int.from_bytes(body[at : at + width], "little") | int.from_bytes(body[at + width : at + 2 * width], "little")
    return any(column.included and not shown >> index & 1 for index, column in enumerate(plan.columns))


def opened(plan: TablePlan, layouts: Sequence[Layout], op: str, body: bytes, *, version: int) -> tuple[Reader, bytes, bytes]:
    """Return a reader at the first row, and the bitmaps of columns in the images before and after.
    If there is only one image, both are the same.
    """
    reader = Reader(plan, layouts, body, at=8)
    if version >= 2:  # noqa: PLR2004 - version 1 has no extra data
        reader.take(max(int.from_bytes(reader.take(2), "little") - 2, 0))
    count = reader.packed()
    if count != len(plan.columns):
        raise other_width(plan, count)
    width = (count + 7) // 8
    before_present = after_present = reader.take(width)
    if op == "u":
        after_present = reader.take(width)
    if op != "c" and not any(before_present):
        raise partial_image(plan)
    return reader, before_present, after_present


def event_head(plan: TablePlan, body: bytes, *, images: int) -> bytes:
    """Return the beginning of a version 2 event whose images have all columns."""
    count = len(plan.columns)
    return body[:8] + b"\x02\x00" + _packed(count) + b"\xff" * ((count + 7) // 8 * images)


def _whole_document(plan: TablePlan, index: int, before: Fields | None, differences: bytes | None) -> bytes | None:
    if differences is None:
        return None
    old = None if before is None else before[index]
    where = f"{plan.table.id}, column {plan.table.columns[index].name}"
    if old is None:
        message = (
            f"{where}: the log holds a difference of a JSON document, but not the document before; "
            f"run SET GLOBAL binlog_row_value_options = '' on the source; {DUMP_AGAIN}"
        )
        raise DefiniteError(message)
    try:
        document = json_diff.applied(old[4:], differences[4:])
    except ValueError as error:
        message = f"{where}: {error}; run SET GLOBAL binlog_row_value_options = '' on the source; {DUMP_AGAIN}"
        raise DefiniteError(message) from error
    return len(document).to_bytes(4, "little") + document


def absent_columns(plan: TablePlan, present: bytes) -> list[int]:
    """Return the columns that an image lacks."""
    return [i for i in range(len(plan.columns)) if not present[i >> 3] >> (i & 7) & 1]


def _fill(plan: TablePlan, layouts: Sequence[Layout], op: str, before_present: bytes, after_present: bytes) -> dict[int, bytes | None]:
    """Return fields for the columns that neither image has. Raise MissingColumnsError if no right
    value is known.
    """
    if op == "c":
        return {index: _default(plan, index, layouts[index]) for index in absent_columns(plan, after_present)}
    before = absent_columns(plan, before_present)
    either = {*before, *absent_columns(plan, after_present)} if op == "u" else {*before}
    if before and any(index in plan.key or canonical_type(plan.table.columns[index]) not in _LARGE for index in either):
        raise missing_columns(plan)
    return {index: _framed(_placeholder(plan, index), layouts[index].prefix) for index in before}


def _filled(count: int, found: Fields, there: bytes, fill: dict[int, bytes | None], before: Fields | None) -> Fields:
    """Return the image with all columns. Missing ones are taken from the image before, or if there
    is none, from ``fill``.
    """
    fields = iter(found)
    return [next(fields) if there[i >> 3] >> (i & 7) & 1 else before[i] if before is not None else fill[i] for i in range(count)]


def _default(plan: TablePlan, index: int, layout: Layout) -> bytes | None:
    """Return the field of a column that an INSERT did not name."""
    try:
        return default_field(plan.columns[index], plan.table.columns[index], layout)
    except (ValueError, ArithmeticError):
        raise missing_columns(plan) from None


def _placeholder(plan: TablePlan, index: int) -> bytes:
    column = plan.columns[index]
    if column.source is Source.JSON:
        return json_diff.string_document(plan.unavailable)
    raw = plan.unavailable.encode(WIDE.get((column.charset or "").lower(), "ascii") if column.source is Source.TEXT else "ascii")
    return NOT_PACKED + raw if column.compressed else raw


def _framed(raw: bytes, prefix: int) -> bytes:
    return len(raw).to_bytes(prefix, "little") + raw


def written(fields: Fields) -> bytes:
    """Return an image of all columns."""
    bits = sum(1 << index for index, field in enumerate(fields) if field is None)
    return bits.to_bytes((len(fields) + 7) // 8, "little") + b"".join(field for field in fields if field is not None)


def _packed(count: int) -> bytes:
    return bytes([count]) if count < 0xFB else b"\xfc" + count.to_bytes(2, "little")  # noqa: PLR2004 - a table has at most 4096 columns


class Reader:
    """A reader of an event's body. Reading past its end raises DefiniteError, since the event is
    damaged.
    """

    def __init__(self, plan: TablePlan, layouts: Sequence[Layout], body: bytes, *, at: int) -> None:
        self._plan, self._layouts, self._body, self.at = plan, layouts, body, at
        self._json = [i for i, column in enumerate(plan.columns) if column.source is Source.JSON]

    def rows(self, op: str, after_present: bytes) -> Iterator[None]:
        """Yield once for each row at the reader's position. An insert without any column is one row
        of no bytes.

        A row that consumes no byte ends the loop, since a damaged event would otherwise have
        endless rows.
        """
        if op == "c" and self.at == len(self._body) and len(absent_columns(self._plan, after_present)) == len(self._layouts):
            yield
        while self.at < len(self._body):
            begin = self.at
            yield
            if self.at == begin:
                message = f"{self._plan.table.id}: bytes follow a row that belong to no column; the event is damaged"
                raise DefiniteError(message)

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
        """Return the JSON columns of the next image that hold differences."""
        if not self.packed() & _PARTIAL_JSON:
            return frozenset()
        bits = self.take((len(self._json) + 7) // 8)
        return frozenset(column for bit, column in enumerate(self._json) if bits[bit >> 3] >> (bit & 7) & 1)

    def image(self, there: bytes) -> Fields:
        """Return the fields of the columns that are present."""
        columns = [i for i in range(len(self._layouts)) if there[i >> 3] >> (i & 7) & 1]
        nulls = self.take((len(columns) + 7) // 8)
        out: Fields = []
        for bit, index in enumerate(columns):
            if nulls[bit >> 3] >> (bit & 7) & 1:
                out.append(None)
                continue
            layout = self._layouts[index]
            prefix = self.take(layout.prefix)
            out.append(prefix + self.take(int.from_bytes(prefix, "little") if layout.prefix else layout.size))
        return out
