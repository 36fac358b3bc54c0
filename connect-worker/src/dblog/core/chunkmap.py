"""Draws the progress of a table's dump as a row of cells in key order.

A table with one reader is dumped completely up to its frontier. A table with several readers has
gaps. If its key begins with an integer, the gaps are placed by that integer, as if rows were spread
evenly over the ranges that are left. The part before the first range is as wide as the rows already
read are at that density. Only shares leave this module, because keys are values of rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from dblog.core.table_dump import KeyRange

CELLS_MAX = 200
ROWS_OF_CELL_MIN = 100
"""Number of rows that a cell stands for at least, so a small table has fewer cells."""

NEARLY = 0.99
"""Upper limit of the last cell's share before the dump is done, however wrong the estimate is."""

Stretch = Sequence[float]
"""Begin and end of a stretch, each as a share of the table from 0 to 1."""


def left_of(ranges: Sequence[KeyRange], *, rows: int, rows_left: int | None) -> list[list[float]] | None:
    """Return the unread stretches of a table that several readers read.

    Return None if there are fewer than two ranges, if ``rows_left`` is unknown or 0, or if the key
    does not begin with an integer.
    """
    if not rows_left or len(ranges) < 2:  # noqa: PLR2004
        return None
    bounds = [(None if one.after is None else one.after[0], one.upto[0]) for one in ranges]
    known = [(after, upto) for after, upto in bounds if type(after) is int and type(upto) is int and after <= upto]
    if len(known) < len(bounds):
        return None
    width = sum(upto - after for after, upto in known)
    first, end = known[0][0], known[-1][1]
    in_between = end - first - width
    read = max(0.0, rows * width / rows_left - in_between)
    total = end - first + read
    if not width or in_between < 0:
        return None
    return [[round((after - first + read) / total, 4), round((upto - first + read) / total, 4)] for after, upto in known]


def cells_of(rows: int, rows_estimated: int | None, *, done: bool, left: Sequence[Stretch] | None = None) -> list[float] | None:
    """Return the dumped share of each cell, from 0 to 1; all cells are equally wide. Return None if
    the number of rows is unknown.

    ``left`` are the unread stretches. Without it, everything after the rows read so far is unread.
    """
    total = rows if done else None if rows_estimated is None else max(rows_estimated, rows + 1)
    if total is None:
        return None
    count = max(1, min(CELLS_MAX, -(-total // ROWS_OF_CELL_MIN)))
    if done:
        return [1.0] * count
    stretches = [[rows / total, 1.0]] if left is None else left
    cells = [round(max(0.0, 1 - _covered(stretches, cell / count, (cell + 1) / count) * count), 3) for cell in range(count)]
    return [*cells[:-1], min(NEARLY, cells[-1])]


def _covered(stretches: Sequence[Stretch], begin: float, end: float) -> float:
    return sum(max(0.0, min(end, upto) - max(begin, after)) for after, upto in stretches)
