"""Warnings about tables with rows that stay in the lake until a repair has read the table.

They stand by table, and survive a restart of the run.
"""

from __future__ import annotations

from collections.abc import Iterable

from dblog.model import TableId
from dblog.readers.standing_warnings import StandingWarnings

KEPT = "rows that are kept with removed ones"
SENT = "rows that were sent and are not in the source"
LEFT_OUT = "position lost, and tables without a dump"


def warn_of_unrepaired(warnings: StandingWarnings, tables: Iterable[TableId]) -> None:
    """Warn of tables that have a gap in the log and were not repaired.

    The lake keeps, on purpose, rows that a TRUNCATE or another statement removed in the source. A
    repair would delete these rows as well.
    """
    warnings.raise_of_tables(
        KEPT,
        tables,
        before="rows that were deleted during the log's gap stay in the lake, of ",
        after=": skipped.operations also keeps rows there that a statement removed from these tables, and a repair would remove both, so none was ordered. "
        "If all of them may go, request a dump with mode=repair",
    )


def warn_of_sent_rows(warnings: StandingWarnings, tables: Iterable[TableId], why: str) -> None:
    """Warn of tables with rows that were sent but are not in the source."""
    warnings.raise_of_tables(
        SENT,
        tables,
        before=f"{why}. Until a dump with mode=repair has ended, rows that are not in the source may stay in the lake, of ",
        after="",
    )


def warn_of_left_out(warnings: StandingWarnings, tables: Iterable[TableId]) -> None:
    """Warn of tables that the dump after a lost position leaves out. # I5"""
    warnings.raise_of_tables(
        LEFT_OUT,
        tables,
        before="what was changed in ",
        after=" before the connector began again is lost: snapshot.include.collection.list leaves these tables out of the dump after a lost position. "
        "Request a dump of them with mode=repair",
    )
