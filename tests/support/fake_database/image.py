"""Row images of the database in memory, as JSON.

In the log they are pairs of rows; in a chunk each line is a row. They satisfy the parts of
``codecs.rowplan.Image`` that tests use.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dblog.codecs.envelope import INT64, source_schema
from dblog.codecs.plan import TablePlan
from dblog.codecs.rowplan import source_head

Row = tuple[Any, ...]

SOURCE = source_schema("fake", ("number", INT64), ("entry", INT64))
"""Schema of the source block."""


def source_block(plan: TablePlan, context: Any, /, *, row: int) -> dict[str, Any]:
    return source_head(plan, context, row=row, database=plan.table.id.database) | {"number": context.number, "entry": context.entry}


def log_image(images: Iterable[tuple[Row | None, Row | None]]) -> bytes:
    return json.dumps(list(images)).encode()


def chunk_image(rows: Iterable[Row]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def row_count(rows: bytes) -> int:
    """Return the number of rows in a chunk's image."""
    assert not rows or rows.endswith(b"\n")
    return sum(isinstance(json.loads(line), list) for line in rows.splitlines())


class JsonImage:
    """The reader of row images in the log and in chunks."""

    def RowImages(self, plan: TablePlan, /) -> Callable[..., Iterator[tuple[Row | None, Row | None]]]:  # noqa: N802
        def read(_op: str, body: bytes, *, version: int | None = None) -> Iterator[tuple[Row | None, Row | None]]:
            assert version is None
            for before, after in json.loads(body):
                for row in (before, after):
                    assert row is None or len(row) == len(plan.columns), "rows are decoded with the schema of their position"
                yield before and tuple(before), after and tuple(after)

        return read

    def ResultRows(self, plan: TablePlan, /) -> Callable[[bytes], Iterator[Row]]:  # noqa: N802
        def read(rows: bytes) -> Iterator[Row]:
            for line in rows.splitlines():
                row = tuple(json.loads(line))
                assert len(row) == len(plan.columns), "a chunk is decoded with the schema that it was read with"
                yield row

        return read

    def source_block(self, plan: TablePlan, context: Any, /, *, row: int) -> dict[str, Any]:
        return source_block(plan, context, row=row)

    def end_of_rows(self, rows: bytes, start: int, rows_max: int, bytes_max: int, /) -> int:
        end = start
        for line in rows[start:].splitlines(keepends=True)[:rows_max]:
            end += len(line)
            if end - start >= bytes_max:
                break
        return end
