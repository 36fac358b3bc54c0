"""Compares a source table with its Delta table: every key, every column, every difference counted.

It is independent of worker and sink on purpose, and uses only the rows of both ends, not their
digests or counters. The lake's rows are kept in memory by key (a demo's table fits), and the
source's rows are streamed past them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from demo.canonical import Reader, SourceColumn, of_lake, of_source

EXAMPLES_MAX = 5


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between both ends.

    The demo's rows are invented, so their values may be shown.
    """

    table: str
    key: tuple[object, ...]
    what: str

    def __str__(self) -> str:
        key = ", ".join(repr(part) for part in self.key)
        return f"{self.table}[{key}]: {self.what}"


@dataclass(slots=True)
class TableResult:
    """The result of comparing one table.

    ``rows_differing`` counts rows that are changed, missing, extra or doubled in the lake.
    """

    table: str
    rows_source: int = 0
    rows_lake: int = 0
    rows_changed: int = 0
    rows_missing: int = 0
    rows_extra: int = 0
    rows_doubled: int = 0
    columns_differing: list[str] = field(default_factory=list)
    examples: list[Difference] = field(default_factory=list)

    @property
    def rows_differing(self) -> int:
        """Number of rows that differ between both ends."""
        return self.rows_changed + self.rows_missing + self.rows_extra + self.rows_doubled

    @property
    def identical(self) -> bool:
        """True if the lake has every row and column of the source, and nothing else."""
        return self.rows_differing == 0 and not self.columns_differing and self.rows_source == self.rows_lake

    def note(self, key: tuple[object, ...], what: str) -> None:
        """Keep the first few differences as examples."""
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(Difference(self.table, key, what))


def compare_table(
    table: str,
    *,
    columns: Sequence[SourceColumn],
    key: Sequence[str],
    source_rows: Iterable[Sequence[object]],
    lake_names: Sequence[str],
    lake_rows: Iterable[Sequence[object]],
    ignored: frozenset[str] = frozenset(),
) -> TableResult:
    """Compare all rows.

    ``source_rows`` are in the order of ``columns``, ``lake_rows`` in that of ``lake_names``.
    ``ignored`` has the sink's own columns.
    """
    result = TableResult(table)
    names = [column.name for column in columns]
    missing = [name for name in names if name not in lake_names]
    extra = [name for name in lake_names if name not in names and name not in ignored]
    result.columns_differing = [f"{name} is missing in the lake" for name in missing] + [f"{name} is only in the lake" for name in extra]
    shared = [column for column in columns if column.name not in missing]
    if any(name in missing for name in key):
        result.rows_source = sum(1 for _ in source_rows)
        result.rows_lake = sum(1 for _ in lake_rows)
        result.rows_missing, result.rows_extra = result.rows_source, result.rows_lake
        return result

    lake_order = [lake_names.index(column.name) for column in shared]
    source_order = [names.index(column.name) for column in shared]
    key_order = [[column.name for column in shared].index(name) for name in key]
    lake: dict[tuple[object, ...], tuple[object, ...]] = {}
    for row in _canonical(lake_rows, lake_order, [of_lake(column) for column in shared]):
        result.rows_lake += 1
        row_key = tuple(row[at] for at in key_order)
        if row_key in lake:
            result.rows_doubled += 1
            result.note(row_key, "more than once in the lake")
        lake[row_key] = row

    for row in _canonical(source_rows, source_order, [of_source(column) for column in shared]):
        result.rows_source += 1
        row_key = tuple(row[at] for at in key_order)
        found = lake.pop(row_key, None)
        if found is None:
            result.rows_missing += 1
            result.note(row_key, "missing in the lake")
        elif found != row:
            result.rows_changed += 1
            for column, there, here in zip(shared, found, row, strict=True):
                if there != here:
                    result.note(row_key, f"{column.name} is {_shown(here)} in the source and {_shown(there)} in the lake")
    for row_key in lake:
        result.rows_extra += 1
        result.note(row_key, "only in the lake")
    return result


def _canonical(rows: Iterable[Sequence[object]], order: Sequence[int], readers: Sequence[Reader | None]) -> Iterable[tuple[object, ...]]:
    steps = list(zip(order, readers, strict=True))
    for row in rows:
        yield tuple([row[at] if read is None else read(row[at]) for at, read in steps])


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}... ({len(text)} characters)"  # noqa: PLR2004 - a line's width
