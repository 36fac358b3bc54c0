"""The server's log from outside: its end, and how much of it is left. Queries on a separate session
read files, their sizes, and how long they are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dblog.abort import Abort
from dblog.dialects.mysql.binlog.offset import LogProgress
from dblog.dialects.mysql.binlog.position import file_index
from dblog.dialects.mysql.task.connections import Connections
from dblog.dialects.mysql.wire.session import LogFile, settings_of
from dblog.errors import TransientError
from dblog.model import TableId
from dblog.readers.contract import LogState, Progress

ANSWER_LIMIT_S = 10.0

TABLES_ASKED_MAX = 200
"""The most tables that are queried one by one, which costs the server least. For more, all tables
of their databases are read at once.
"""


class BinlogWatch:
    """The watch of one server's log. Implements ``readers.contract.LogWatch``."""

    def __init__(self, connections: Connections, abort: Abort) -> None:
        settings = replace(
            settings_of(connections.settings), connect_timeout_s=ANSWER_LIMIT_S, statement_timeout_s=ANSWER_LIMIT_S, abort=abort
        )
        with connections.opening():
            self._session = connections.dialect.connect(settings, again=True)
        if self._session.identity != connections.identity:
            self._session.close()
            message = f"another server answers at {settings.address}"
            raise TransientError(message)

    def look(self, read: Progress, stored: Progress) -> LogState:
        """Return the state of the log. The status row is read before the files: what is added in
        between makes the end appear too near, never too far.
        """
        assert isinstance(read, LogProgress), "made by this dialect"
        assert isinstance(stored, LogProgress), "made by this dialect"
        status = self._session.log_status()
        files = self._session.log_files()
        last = file_index(status["file"])
        behind_bytes, behind_files = _behind(position_of(read), (last, int(status["position"])), files)
        kept, _ = position_of(stored)
        older = [file for file in files if file_index(file.name) < kept]
        age_s = max(0.0, self._session.now_s() - stored.source_ts_us / 1_000_000) if stored.source_ts_us else None
        return LogState(
            behind_bytes=behind_bytes,
            behind_files=behind_files,
            stored_behind_files=max(0, last - kept),
            margin_files=len(older),
            margin_bytes=sum(file.bytes_total for file in older),
            purged=bool(files) and kept < file_index(files[0].name),
            retention_s=self._session.log_retention_s(),
            kept_bytes=self._session.log_bytes_max(),
            needed_bytes=sum(file.bytes_total for file in files if file_index(file.name) >= kept),
            stored_age_s=age_s,
            uses_gtids=self._session.facts.uses_gtids,
        )

    def row_estimates(self, tables: Sequence[TableId]) -> dict[TableId, int]:
        """Return TABLE_ROWS of the catalog."""
        return self._session.row_estimates(tables, one_by_one=len(tables) <= TABLES_ASKED_MAX)

    def close(self) -> None:
        """Close the session."""
        self._session.close()


def position_of(progress: LogProgress) -> tuple[int, int]:
    """Return file number and offset."""
    return file_index(progress.file), progress.pos


def _behind(read: tuple[int, int], end: tuple[int, int], files: Sequence[LogFile]) -> tuple[int, int]:
    """Return bytes and files between a position and the end of the log; zero if the position is
    past it, because it has moved on meanwhile.
    """
    at, pos = read
    last, end_pos = end
    if at >= last:
        return (max(0, end_pos - pos), 0) if at == last else (0, 0)
    sizes = {file_index(file.name): file.bytes_total for file in files}
    between = sum(size for number, size in sizes.items() if at < number < last)
    return max(0, sizes.get(at, pos) - pos) + between + end_pos, last - at
