"""The reading of rows events with MINIMAL images: the changes that they show, and the rows that
must be read again from the table.

Such an event has the key before a change, and the columns set by it. This is enough for deletes:
the key, with nulls and zeros elsewhere, as Debezium writes them for PostgreSQL's default replica
identity. Inserted and updated rows are read again by their key, and have no image before. A row
that no longer exists is left out, because its delete, or the change of its key, follows in the log.

An update of the message key becomes a delete of the old key and, read again, a row of the new one.
All deletes of an event come before its rows, so that a key that moves from one row to another ends
with a row.

The key in the images is the primary key, else the first unique index of NOT NULL columns
(sql/table.cc, ``mark_columns_per_binlog_row_image``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dblog.codecs.plan import Source, TablePlan
from dblog.codecs.rowplan import ReadOp, partial_image
from dblog.dialects.mysql.binlog import json_diff
from dblog.dialects.mysql.binlog.partial_images import PARTIAL_UPDATE, Fields, absent_columns, event_head, opened, written
from dblog.dialects.mysql.binlog.row_image import column_layout, where_of
from dblog.dialects.mysql.catalog.sql import key_indexes
from dblog.dialects.mysql.values.default_field import default_field
from dblog.dialects.mysql.values.fields import statement_value
from dblog.errors import DefiniteError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dblog.codecs.rowplan import Layout

Key = tuple[Any, ...]
"""A key as parameters of a statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Minimal:
    """The contents of one event with ``rows`` rows.

    ``gone`` is a complete DELETE event. ``moved`` is a complete UPDATE event of the rows whose key
    has changed; only its keys are right. ``read`` are the keys of rows to read again under the
    operation ``op``, ``read_moved`` the new keys of ``moved``. ``moved_ends`` are the offsets in
    ``moved`` at which its rows end.
    """

    op: ReadOp
    rows: int
    gone: bytes | None = None
    moved: bytes | None = None
    read: tuple[Key, ...] = ()
    read_moved: tuple[Key, ...] = ()
    moved_ends: tuple[int, ...] = ()


def read_minimal(plan: TablePlan, op: str, body: bytes, *, version: int) -> Minimal:
    """Read an event whose images lack columns. Raise DefiniteError if even the key is missing."""
    layouts = [column_layout(plan, index) for index in range(len(plan.columns))]
    reader, before_present, after_present = opened(plan, layouts, op, body, version=version)
    table_key = key_indexes(plan.table) if plan.table.key else ()
    certain = {*table_key, *plan.key}
    away = {*absent_columns(plan, after_present)} if op == "c" else set()
    if not table_key or (op != "c" and certain & {*absent_columns(plan, before_present)}):
        raise partial_image(plan)
    values = [_default_of(plan, index, layouts[index]) if index in away else _value_of(plan, index, layouts[index]) for index in table_key]
    zeros = [_zero(plan, index, layout) for index, layout in enumerate(layouts)]
    whole = {"d": bytearray(event_head(plan, body, images=1)), "u": bytearray(event_head(plan, body, images=2))}
    read: dict[Key, None] = {}
    read_moved: dict[Key, None] = {}
    moved_ends: list[int] = []
    rows = 0
    for _ in reader.rows(op, after_present):
        rows += 1
        before = _placed(reader.image(before_present), before_present, zeros) if op != "c" else zeros
        if op == "d":
            whole["d"] += written(before)
            continue
        if op == "u" and version == PARTIAL_UPDATE:
            reader.partial_columns()
        after = _placed(reader.image(after_present), after_present, before)
        key = tuple(value(after[index]) for value, index in zip(values, table_key, strict=True))
        if op == "u" and any(before[index] != after[index] for index in certain):
            whole["u"] += written(before) + written(after)
            moved_ends.append(len(whole["u"]))
            read_moved[key] = None
        else:
            read[key] = None
    return Minimal(
        op="c" if op == "c" else "u",
        rows=rows,
        gone=bytes(whole["d"]) if op == "d" else None,
        moved=bytes(whole["u"]) if read_moved else None,
        read=tuple(read),
        read_moved=tuple(read_moved),
        moved_ends=tuple(moved_ends),
    )


def _placed(found: Fields, there: bytes, rest: Fields) -> Fields:
    """Return one field per column: ``found`` for the columns that are present, ``rest`` for the
    others.
    """
    fields = iter(found)
    return [next(fields) if there[i >> 3] >> (i & 7) & 1 else other for i, other in enumerate(rest)]


def _value_of(plan: TablePlan, index: int, layout: Layout) -> Callable[[bytes | None], Any]:
    """Return the function from a key column's field to the parameter of a statement."""
    where = where_of(plan, index)
    read = statement_value(plan.columns[index], plan.table.columns[index], where=where)

    def value(field: bytes | None) -> Any:
        if field is None:
            message = f"{where}: the log has NULL in a key; the schema is out of sync; reset the connector's offsets to have the table's definition read again"
            raise DefiniteError(message)
        return read(field[layout.prefix :])

    return value


def _default_of(plan: TablePlan, index: int, layout: Layout) -> Callable[[bytes | None], Any]:
    """Return the function to the parameter of a key column that an INSERT did not name. Raise
    PartialImageError if the default is in doubt.
    """
    try:
        field = default_field(plan.columns[index], plan.table.columns[index], layout)
    except (ValueError, ArithmeticError):
        raise partial_image(plan) from None
    value = _value_of(plan, index, layout)(field)
    return lambda _: value


def _zero(plan: TablePlan, index: int, layout: Layout) -> bytes | None:
    """Return the field of a column of which nothing is known: NULL, or the zero of its type."""
    if plan.table.columns[index].nullable:
        return None
    match plan.columns[index].source:
        case Source.JSON:
            raw = json_diff.string_document("")
        case Source.GEOMETRY:
            raw = b"\0\0\0\0\1\1\0\0\0" + bytes(16)  # POINT(0 0)
        case Source.DECIMAL | Source.TIME | Source.DATETIME:
            # These types store zero with the top bit set, so that negative values sort below it.
            return b"\x80" + bytes(layout.size - 1)
        case _:
            raw = b""
    return len(raw).to_bytes(layout.prefix, "little") + raw if layout.prefix else bytes(layout.size)


def slices(keys: Sequence[Key], rows_max: int) -> list[tuple[Key, ...]]:
    """Split the keys into groups of one statement each."""
    return [tuple(keys[at : at + rows_max]) for at in range(0, len(keys), rows_max)]
