"""How much of a table has been dumped, drawn as a row of cells in key order.

A table that one reader reads is whole up to its frontier. One that several read has gaps: where its key begins with a number they stand where the numbers
say, as if rows were spread evenly over what is left; what was read in front of the first frontier is as wide as its rows are at that. Only shares leave here:
keys are rows' values.
"""

from __future__ import annotations

from collections.abc import Sequence

from dblog.core.dumps import KeyRange

CELLS_MAX = 200
ROWS_OF_CELL_MIN = 100
"""A small table has fewer cells."""

NEARLY = 0.99
"""Of a cell that may not be whole before the end, however wrong the estimate is."""

Stretch = Sequence[float]
"""From where to where, as shares of the table."""


def left_of(ranges: Sequence[KeyRange], *, rows: int, rows_left: int | None) -> list[list[float]] | None:
    """What is left to read of a table that several readers read, as stretches of it; None where that cannot be said."""
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
    """Of each cell the share that has been dumped, from 0 to 1; each is as wide as every other. None where it is not known how many rows there are.

    ``left``: what is left to read, where it is not all that stands behind the rows that were read.
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
