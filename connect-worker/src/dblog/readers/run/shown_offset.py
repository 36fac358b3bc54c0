"""Selects the fields of a source offset that every reader of a connector may see: positions and
counts.

The other fields hold the state of dumps: keys of rows, and the SQL of requests and signals
(``dblog_dump``, ``dblog_dumps``, Debezium's ``incremental_snapshot_``). The list names what is
shown, so a new field stays hidden until somebody has decided about it.
"""

from __future__ import annotations

from collections.abc import Mapping

from dblog.config.options import HIDDEN
from dblog.model import OffsetMap
from dblog.readers.run.offset import TABLE_COUNT, UNREPORTED, WINDOWS

SHOWN = frozenset(
    {
        *(
            "snapshot",
            "snapshot_completed",
            "last_snapshot_record",
            "transaction_id",
            "dblog_server",
            "dblog_event",
            "dblog_epoch",
            WINDOWS,
            UNREPORTED,
        ),
        # Fields of the binlog.
        *("file", "pos", "gtids", "event", "row", "server_id", "ts_sec"),
        # Fields of PostgreSQL.
        *("lsn", "lsn_proc", "lsn_commit", "lsn_events_processed", "messageType", "txId", "ts_usec", "xmin"),
        *("dblog_commit", "dblog_change", "dblog_change_lsn", "dblog_standby_started"),
    }
)


def without_rows(offset: OffsetMap) -> OffsetMap:
    """Return the offset with HIDDEN in place of each value that may hold a row's key or SQL."""
    return {name: value if value is None or _is_shown(name) else HIDDEN for name, value in offset.items()}


def hidden_field(offset: Mapping[str, object]) -> str | None:
    """Return the first field whose value is HIDDEN, or None."""
    return next((name for name, value in offset.items() if value == HIDDEN), None)


def _is_shown(name: str) -> bool:
    return name in SHOWN or name.startswith(TABLE_COUNT)
