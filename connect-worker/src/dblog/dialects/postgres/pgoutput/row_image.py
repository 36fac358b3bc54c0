"""Splits tuples of the log and lines of COPY into values: the reference implementation of both.

In the log a tuple is a count, then a letter for each column: ``n`` is NULL, ``u`` a large value
that was not changed and is not sent, ``t`` a text after its length (PostgreSQL manual, 55.9
"TupleData"). A line of COPY has the same texts between tabs, with backslashes before characters
that would end them (manual, COPY, "Text Format"). So a row has the same values both ways.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dblog.codecs.plan import ColumnPlan, TablePlan
from dblog.codecs.rowplan import DUMP_AGAIN, LogRowsReader, other_width
from dblog.dialects.postgres.pgoutput.source_block import PostgresContext, source_block
from dblog.dialects.postgres.values import fields
from dblog.dialects.postgres.values.modes import TypeModes
from dblog.dialects.postgres.values.unavailable import unavailable as unavailable_of
from dblog.errors import BadRowsError, DefiniteError

Row = tuple[Any, ...]
Raw = list[bytes | None]


class _Unchanged(bytes):
    """The type of the placeholder for a missing field. It is recognized by identity, which no slice
    of a message shares.
    """


UNCHANGED: bytes = _Unchanged()
"""Placeholder for the field of a large value that was not sent."""

_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_MEANT = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
NULL_FIELD = rb"\N"


def tuple_at(data: bytes, at: int) -> tuple[Raw, int]:
    """Return the fields of the tuple that begins at ``at``, and the place after it. Raise
    DefiniteError if it is cut off.
    """
    try:
        (count,) = struct.unpack_from(">H", data, at)
        at += 2
        out: Raw = []
        for _ in range(count):
            letter, at = data[at : at + 1], at + 1
            match letter:
                case b"n":
                    out.append(None)
                case b"u":
                    out.append(UNCHANGED)
                case b"t":
                    (size,) = struct.unpack_from(">I", data, at)
                    at += 4
                    if at + size > len(data):
                        raise _cut_off()
                    out.append(data[at : at + size])
                    at += size
                case _:
                    message = f"a field of the log has the unknown form {letter!r}"
                    raise DefiniteError(message)
    except struct.error as e:
        raise _cut_off() from e
    return out, at


def _cut_off() -> DefiniteError:
    return DefiniteError("a tuple of the log is cut off")


def fields_of_line(line: bytes) -> Raw:
    """Return the fields of one line, given without the newline at its end."""
    return [None if field == NULL_FIELD else _plain(field) for field in line.split(b"\t")]


def _plain(field: bytes) -> bytes:
    if b"\\" not in field:
        return field
    return _ESCAPED.sub(lambda found: _MEANT.get(found[1], found[1]), field)


def end_of_rows(rows: bytes, start: int, rows_max: int, bytes_max: int) -> int:
    """Return the end of the next rows; see ``rowplan.RowEncoder``."""
    end = start
    for _ in range(rows_max):
        newline = rows.find(b"\n", end)
        if newline < 0:
            return len(rows)
        if end > start and newline + 1 - start > bytes_max:
            return end
        end = newline + 1
    return end


def images(op: str, body: bytes) -> tuple[Raw | None, Raw | None, bool]:
    """Return (before, after, True if ``before`` has all columns) of an insert, update or delete.
    ``body`` is its message after the table's number.
    """
    before = after = None
    whole = False
    at = 0
    if op in ("u", "d") and body[:1] in (b"K", b"O"):
        whole = body[:1] == b"O"
        before, at = tuple_at(body, 1)
    if op in ("c", "u"):
        if body[at : at + 1] != b"N":
            message = "a change of the log has no new row"
            raise DefiniteError(message)
        after, at = tuple_at(body, at + 1)
    if at != len(body) or (op == "d" and before is None):
        message = "a change of the log has another form than pgoutput's"
        raise DefiniteError(message)
    return before, after, whole


def lacks_values(plan: TablePlan, body: bytes) -> bool:
    """Return True if the new row of an update lacks a value that records need: it was not changed,
    and the old row does not show it either.
    """
    before, after, _ = images("u", body)
    return (
        after is not None
        and len(after) == len(plan.columns)
        and any(
            field is UNCHANGED and plan.columns[at].included and (before is None or at >= len(before) or before[at] is None)
            for at, field in enumerate(after)
        )
    )


def with_values(body: bytes, values: Mapping[int, bytes | None]) -> bytes:
    """Return an update with these fields, by index, in its new row."""
    at = 0
    if body[:1] in (b"K", b"O"):
        _, at = tuple_at(body, 1)
    after, _ = tuple_at(body, at + 1)
    fields = [values.get(place, field) for place, field in enumerate(after)]
    made = (b"n" if field is None else b"u" if field is UNCHANGED else b"t" + struct.pack(">I", len(field)) + field for field in fields)
    return b"".join([body[: at + 1], struct.pack(">H", len(fields)), *made])


def _shows_key(plan: TablePlan, before: Raw) -> bool:
    """Return True if a replica identity has the columns of the message key, which may be different
    ones.
    """
    names = {name.lower() for name in plan.table.key}
    return all(
        before[at] is not None or (plan.table.columns[at].nullable and plan.table.columns[at].name.lower() in names) for at in plan.key
    )


def no_key(plan: TablePlan) -> BadRowsError:
    """Return the error for a delete that does not show which row it was."""
    columns = ", ".join(plan.table.columns[at].name for at in plan.key)
    return BadRowsError(
        f"{plan.table.id}: the log has deletes without the columns of the message key ({columns}), which are not in the table's replica identity; run "
        f"ALTER TABLE {plan.table.id} REPLICA IDENTITY FULL, or choose columns of the replica identity with message.key.columns"
    )


def no_value(plan: TablePlan, at: int) -> BadRowsError:
    """Return the error for a change that lacks a value which a record needs."""
    return BadRowsError(
        f"{plan.table.id}.{plan.table.columns[at].name}: the log does not have a large value that an update has not changed, and no placeholder can stand "
        f"for it in this column; run ALTER TABLE {plan.table.id} REPLICA IDENTITY FULL; {DUMP_AGAIN}"
    )


class PostgresImage:
    """A reader of tuples of the log and lines of COPY. Satisfies ``codecs.rowplan.Image``."""

    def __init__(self, modes: TypeModes) -> None:
        self._modes = modes

    def RowImages(self, plan: TablePlan, /) -> LogRowsReader:  # noqa: N802 - the protocol's
        """Return a reader of one change, given as its message after the table's number."""
        values = self._values(plan)
        unavailable = [self.unavailable(column) for column in plan.columns]
        needed = [self.needs_value(plan, at) for at in range(len(plan.columns))]

        def read(op: str, body: bytes, *, version: int | None = None) -> Iterator[tuple[Row | None, Row | None]]:
            del version
            before, after, whole = images(op, body)
            for row in (before, after):
                if row is not None and len(row) != len(plan.columns):
                    raise other_width(plan, len(row))
            if op == "u" and before is None and "u" in plan.skipped_operations:
                # The key is unchanged, so nothing is written, whatever the log lacks.
                return
            if before is not None and after is not None:
                after = [old if new is UNCHANGED and old is not None else new for old, new in zip(before, after, strict=True)]
            if (
                after is not None
                and (lacking := next((at for at, new in enumerate(after) if new is UNCHANGED and needed[at]), None)) is not None
            ):
                raise no_value(plan, lacking)
            if before is not None and not whole and not _shows_key(plan, before):
                if op == "d":
                    raise no_key(plan)
                before = None
            yield (None if before is None else values(before, unavailable)), (None if after is None else values(after, unavailable))

        return read

    def ResultRows(self, plan: TablePlan, /) -> Callable[[bytes], Iterator[Row]]:  # noqa: N802 - the protocol's
        """Return a reader of lines of COPY."""
        values = self._values(plan)

        def read(rows: bytes) -> Iterator[Row]:
            for line in rows.split(b"\n")[:-1]:
                row = fields_of_line(line) if plan.columns else []
                if len(row) != len(plan.columns):
                    raise other_width(plan, len(row))
                yield values(row, [])

        return read

    def reader(self, plan: TablePlan, column: ColumnPlan, /) -> fields.Read:
        """Return a function from a column's text to its value."""
        return fields.reader(column, self._modes, where=f"{plan.table.id}.{column.name}")

    def unavailable(self, column: ColumnPlan, /) -> Any:
        """Return the placeholder for a value of the column that was not sent; None if no
        placeholder is possible.
        """
        return unavailable_of(column, self._modes) if column.schema is not None else None

    def needs_value(self, plan: TablePlan, at: int, /) -> bool:
        """Return True if a record needs a real value of this column: it is in the key, or no
        placeholder is possible. A column that may be NULL becomes NULL instead, as with Debezium,
        unless event.converting.failure.handling.mode=fail.
        """
        column = plan.columns[at]
        if at in plan.key:
            return True
        if not column.included or column.schema is None or self.unavailable(column) is not None:
            return False
        return not column.schema.optional or self._modes.event_converting_failure_handling_mode == "fail"

    def _values(self, plan: TablePlan) -> Callable[[Raw, list[Any]], Row]:
        # A column that is in no record may have a type that no reader supports.
        keys = set(plan.key)
        readers = [self.reader(plan, column) if column.included or at in keys else None for at, column in enumerate(plan.columns)]

        def values(row: Raw, unavailable: list[Any]) -> Row:
            return tuple(
                None if raw is None or reader is None else unavailable[at] if raw is UNCHANGED else reader(raw)
                for at, (raw, reader) in enumerate(zip(row, readers, strict=True))
            )

        return values

    def end_of_rows(self, rows: bytes, start: int, rows_max: int, bytes_max: int, /) -> int:
        """Return the end of the next rows; see ``rowplan.RowEncoder``."""
        return end_of_rows(rows, start, rows_max, bytes_max)

    def source_block(self, plan: TablePlan, context: PostgresContext, /, *, row: int) -> dict[str, Any]:
        """Return the source block of one row; see ``rowplan.Image``."""
        return source_block(plan, context, row=row)

    def check_table_map(self, plan: TablePlan, body: bytes, /) -> None:
        """Do nothing: a Relation message is compared before the plan is requested
        (task/schemas.py).
        """
