"""The inversion of rows events: inserts become deletes, deletes inserts, updates the opposite
updates.

Rows come in reverse order, because a statement may move a key from one row to another. To undo
several events, begin with the last one.

The log must have the full row before a change. An insert needs none, since its row is what it
undoes. So MINIMAL and NOBLOB images of updates and deletes raise MissingColumnsError. All images of
PARTIAL_JSON, FULL and FULL_NODUP can be inverted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from dblog.codecs.rowplan import missing_columns
from dblog.dialects.mysql.binlog.partial_images import absent_columns, event_head, opened, whole_rows, written
from dblog.dialects.mysql.binlog.row_image import column_layout

if TYPE_CHECKING:
    from dblog.codecs.plan import TablePlan

_INVERSE: dict[str, Literal["c", "u", "d"]] = {"c": "d", "d": "c", "u": "u"}


def inverse_rows(plan: TablePlan, op: str, body: bytes, *, version: int) -> tuple[Literal["c", "u", "d"], bytes, int]:
    """Return the operation, the body of a version 2 event and its number of rows. Raise
    DefiniteError if the log lacks the rows before the change or is damaged.
    """
    layouts = [column_layout(plan, index) for index in range(len(plan.columns))]
    if op != "c":
        _, before_present, _ = opened(plan, layouts, op, body, version=version)
        if absent_columns(plan, before_present):
            raise missing_columns(plan)
    whole = whole_rows(plan, layouts, op, body, version=version)
    reader, present, _ = opened(plan, layouts, op, whole, version=2)
    rows: list[bytes] = []
    for _ in reader.rows(op, present):
        first = written(reader.image(present))
        rows.append(written(reader.image(present)) + first if op == "u" else first)
    return _INVERSE[op], event_head(plan, whole, images=2 if op == "u" else 1) + b"".join(reversed(rows)), len(rows)
