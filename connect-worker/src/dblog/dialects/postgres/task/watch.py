"""Watches the end of the server's log, how much of it the slot still keeps, and the server's load,
on separate sessions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from dblog.abort import Abort
from dblog.core.pressure import Limit
from dblog.core.selection import Selection
from dblog.dialects.postgres.pgoutput.offset import PostgresProgress
from dblog.dialects.postgres.pgoutput.position import SEGMENT_BYTES, lsn_of
from dblog.dialects.postgres.task.connections import Connections, by_root, chunk_settings_of
from dblog.dialects.postgres.task.unpublished import Unpublished
from dblog.dialects.postgres.wire.connect import ConnectSettings, settings_of
from dblog.dialects.postgres.wire.estimates import row_estimates
from dblog.dialects.postgres.wire.identity import identity_of
from dblog.dialects.postgres.wire.session import LOG_END_SQL, Session, connect
from dblog.errors import DefiniteError, TransientError
from dblog.model import TableId
from dblog.readers.contract import Load, LogState, Progress

QUESTION_LIMIT_S = 10.0

_SLOT_SQL = (
    f"SELECT ({LOG_END_SQL})::text, s.restart_lsn::text, s.confirmed_flush_lsn::text, s.wal_status, s.safe_wal_size, "
    "extract(epoch FROM pg_catalog.clock_timestamp())::float8, pg_catalog.pg_size_bytes(pg_catalog.current_setting('max_slot_wal_keep_size')) "
    "FROM pg_catalog.pg_replication_slots s WHERE s.slot_name = %s"
)


def _asking(settings: ConnectSettings, connections: Connections, abort: Abort) -> Session:
    asked = replace(settings, connect_timeout_s=QUESTION_LIMIT_S, statement_timeout_s=QUESTION_LIMIT_S, abort=abort)
    with connections.opening():
        return connect(asked, by_root=by_root(connections.settings), again=True)


class PostgresWatch:
    """The watch of the log. Implements ``readers.contract.LogWatch``. ``selection`` tells captured
    tables; None before a task has read its schemas, when there are none.
    """

    def __init__(self, connections: Connections, abort: Abort, *, selection: Selection | None) -> None:
        self._slot = connections.slot
        self._selection = selection
        self._connections = connections
        self._session = _asking(settings_of(connections.settings), connections, abort)
        self._unpublished = Unpublished(connections, self._session, selection=selection)
        if self._session.identity != connections.identity:
            self._note_identity(self._session.identity)
            self._session.close()
            message = f"another server answers at {self._session.settings.address}"
            raise TransientError(message)

    def _includes(self, table: TableId) -> bool:
        return self._selection is not None and self._selection.includes(table)

    def look(self, read: Progress, stored: Progress) -> LogState:
        """Return the state of the log from pg_replication_slots. Raise TransientError if the slot
        is gone.
        """
        assert isinstance(read, PostgresProgress), "made by this dialect"
        assert isinstance(stored, PostgresProgress), "made by this dialect"
        rows = self._session.query(_SLOT_SQL, (self._slot,), doing="asking how far the log goes")
        if not rows:
            message = f"the slot {self._slot} is gone"
            raise TransientError(message)
        self._look_at_timeline()
        unpublished = self._unpublished.look()
        self._look_at_tables()
        end_text, restart, confirmed, status, safe, now_s, kept = rows[0]
        end = lsn_of(end_text)
        restart_lsn = stored.at.lsn if restart is None else lsn_of(restart)
        return LogState(
            behind_bytes=max(0, end - read.at.lsn),
            behind_files=max(0, end // SEGMENT_BYTES - read.at.lsn // SEGMENT_BYTES),
            stored_behind_files=max(0, end // SEGMENT_BYTES - stored.at.lsn // SEGMENT_BYTES),
            margin_files=None
            if safe is None
            # Without max_slot_wal_keep_size a slot keeps everything that it needs.
            else max(0, safe) // SEGMENT_BYTES,
            margin_bytes=None if safe is None else max(0, safe),
            purged=status == "lost" or (confirmed is not None and lsn_of(confirmed) > stored.at.lsn),
            retention_s=None,
            kept_bytes=kept if kept is not None and kept > 0 else None,
            needed_bytes=max(0, end - restart_lsn),
            stored_age_s=max(0.0, now_s - stored.source_ts_us / 1_000_000) if stored.source_ts_us else None,
            uses_gtids=False,
            tables_unpublished=unpublished,
        )

    def _look_at_timeline(self) -> None:
        """Note a new timeline of a standby. One that is promoted, or follows a promoted server,
        cuts no connection, so nothing else shows it.
        """
        if self._connections.is_standby:
            self._note_identity(identity_of(self._session.wire))

    def _note_identity(self, found: str) -> None:
        system, _, _ = found.partition("/")
        if self._connections.is_standby and found != self._connections.identity and system == self._connections.identity.partition("/")[0]:
            self._connections.moved_on = found

    def _look_at_tables(self) -> None:
        """Note tables that a statement has altered as doubtful. The log shows the effect only with
        the table's next row, which may never come, and may never show the new name of a partitioned
        table.
        """
        self._look_at_entries()
        known, marks = self._connections.marks, self._session.catalog_marks()
        for number in known.keys() | marks.keys():
            if (before := known.get(number)) != (now := marks.get(number)):
                # The new name may be captured although the old one was not.
                for name, _ in filter(None, (before, now)):
                    if self._includes(name):
                        self._connections.doubts.add(name)
        self._connections.marks = marks

    def _look_at_entries(self) -> None:
        """Note tables as doubtful that were taken out of the publication and put back since the
        last look: another entry publishes them now.
        """
        known, entries = self._connections.entries, self._session.publication_entries()
        for number, table in self._unpublished.tables.items():
            now = entries.of(number)
            if now and now != known.of(number) and self._includes(table):
                self._connections.doubts.add(table)
        self._connections.entries = entries

    def row_estimates(self, tables: Sequence[TableId]) -> dict[TableId, int]:
        """Return row counts by the statistics of ANALYZE."""
        return row_estimates(self._session, tables)

    def close(self) -> None:
        """Close the session."""
        self._session.close()


_QUESTIONS = {
    Limit.THREADS_RUNNING: "SELECT count(*)::float8 FROM pg_catalog.pg_stat_activity WHERE state = 'active' AND backend_type = 'client backend'",
    Limit.TRANSACTION_AGE: (
        "SELECT COALESCE(max(extract(epoch FROM pg_catalog.clock_timestamp() - xact_start)), 0)::float8 FROM pg_catalog.pg_stat_activity "
        "WHERE backend_type = 'client backend'"
    ),
    Limit.REPLICA_LAG: (
        "SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN CASE WHEN pg_catalog.pg_last_wal_receive_lsn() = pg_catalog.pg_last_wal_replay_lsn() THEN 0 "
        "ELSE extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.pg_last_xact_replay_timestamp()) * 1000 END END::float8"
    ),
}
_UNKNOWN = {
    Limit.REPLICA_LAG: "chunks are not read from a standby, so nothing lags",
    Limit.STATEMENT_P95: "PostgreSQL does not count how long statements take; limit transaction.age.s or threads.running instead",
    Limit.HISTORY_LENGTH: "PostgreSQL has no history list; limit transaction.age.s instead",
}


class ServerLoad:
    """The watch of the server's load. Implements ``readers.contract.LoadWatch``."""

    def __init__(self, connections: Connections, abort: Abort) -> None:
        where = chunk_settings_of(connections.settings) if connections.read_only else settings_of(connections.settings)
        self._session = _asking(where, connections, abort)

    def measure(self, wanted: Collection[Limit]) -> Load:
        """Return the wanted measurements, each from one cheap query, and the reasons for those that
        are missing.
        """
        measured: dict[Limit, float] = {}
        missing: dict[Limit, str] = {}
        for limit in wanted:
            question = _QUESTIONS.get(limit)
            try:
                value = None if question is None else self._session.wire.one(question, doing="measuring the load")
            except DefiniteError as e:
                missing[limit] = str(e)
                continue
            if value is None:
                missing[limit] = _UNKNOWN.get(limit, "the server does not count it")
            else:
                measured[limit] = float(value)
        return Load(measured=measured, missing=missing)

    def close(self) -> None:
        """Close the session."""
        self._session.close()
