"""How much of a table has been dumped, drawn as a row of cells in key order."""

from __future__ import annotations

CELLS_MAX = 200
ROWS_OF_CELL_MIN = 100
"""A small table has fewer cells."""


def cells_of(rows: int, rows_estimated: int | None, *, done: bool) -> list[float] | None:
    """Of each cell the share that has been dumped, from 0 to 1; a cell is as many rows as every other. None where it is not known how many there are.

    Before the end the last cell is never whole, however wrong the estimate is.
    """
    total = rows if done else None if rows_estimated is None else max(rows_estimated, rows + 1)
    if total is None:
        return None
    count = max(1, min(CELLS_MAX, -(-total // ROWS_OF_CELL_MIN)))
    if done:
        return [1.0] * count
    size = total / count
    return [
        round(min(1.0, max(0.0, (rows - cell * size) / size)), 3) if cell < count - 1 else _last(rows, cell, size) for cell in range(count)
    ]


def _last(rows: int, cell: int, size: float) -> float:
    return min(0.99, round(max(0.0, (rows - cell * size) / size), 3))
