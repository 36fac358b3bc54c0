"""Starts tables of dumps again where the log shows that what was read of them counts no longer.

Each call changes the progress and sends the table's readers back in one step, so no reader goes on
from a frontier that is gone. Readers go back to the beginning even between two windows. # I9
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dblog.core.dumprequests import DumpRequest
from dblog.core.dumps import Dump
from dblog.model import TableId
from dblog.readers.dump.open_windows import OpenWindows
from dblog.readers.dump_progress import DumpProgress


class TableRestarts:
    """Restarts of one task's tables. The log thread calls it."""

    def __init__(self, *, progress: DumpProgress, windows: OpenWindows) -> None:
        self._progress = progress
        self._windows = windows

    def restart_own(self, table: TableId, reason: str, change: Callable[[Dump | None], Dump | None]) -> None:
        """Restart the table in the connector's own dump, with the state that ``change`` returns."""
        with self._progress.changed:
            self._windows.discard_table(table, reason)
            self._progress.change_own(change)

    def restart_many(self, tables: Iterable[TableId], reason: str, change: Callable[[Dump | None], Dump]) -> None:
        """Restart several tables in the connector's own dump at once. The caller logs the tables,
        which may be thousands.
        """
        with self._progress.changed:
            self._windows.discard_tables(tables, reason)
            self._progress.change_own(change)

    def restart(self, table: TableId, reason: str, *, only: Callable[[DumpRequest], bool] | None = None, own_repair: bool = False) -> None:
        """Restart the table in every dump that has begun and not finished it
        (``core.dump_book.DumpBook.restarted``).
        """
        with self._progress.changed:
            before = self._progress.book
            after = before.restarted(table, only=only, own_repair=own_repair)
            if only is not None and after is before:
                return
            self._windows.discard_table(table, reason)
            self._progress.change(lambda _: after)

    def rename_of_requests(self, pairs: Sequence[tuple[TableId, TableId]], wanted: Callable[[TableId], bool]) -> None:
        """Apply the renames of one statement to the requested dumps.

        If a name now belongs to another table, its reader goes back to the beginning, even if none
        of its windows is open.
        """
        with self._progress.changed:
            after, again = self._progress.book.requests_renamed(pairs, wanted)
            self._progress.change(lambda _: after)
            for table in again:
                self._windows.discard_table(table, "another table has its name")
