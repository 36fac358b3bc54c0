"""Which fields of a source offset everybody may see who may read a connector: those that hold positions and counts.

The others hold the state of dumps: keys of rows, and the SQL of requests and signals (``dblog_dump``, ``dblog_dumps``, Debezium's ``incremental_snapshot_``).
The list has what is shown, so a field that comes later is hidden until somebody has thought of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from dblog.config.options import HIDDEN
from dblog.model import OffsetMap
from dblog.readers.offset import TABLE_COUNT, UNREPORTED, WINDOWS

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
        # The binlog's.
        *("file", "pos", "gtids", "event", "row", "server_id", "ts_sec"),
        # PostgreSQL's.
        *("lsn", "lsn_proc", "lsn_commit", "lsn_events_processed", "messageType", "txId", "ts_usec", "xmin"),
        *("dblog_commit", "dblog_change", "dblog_change_lsn", "dblog_standby_started"),
    }
)


def without_rows(offset: OffsetMap) -> OffsetMap:
    """Return the offset with HIDDEN in the place of each value that may hold a row's key or SQL."""
    return {name: value if value is None or _is_shown(name) else HIDDEN for name, value in offset.items()}


def hidden_field(offset: Mapping[str, object]) -> str | None:
    """Return the first field that holds what stands for a hidden value; None where there is none."""
    return next((name for name, value in offset.items() if value == HIDDEN), None)


def _is_shown(name: str) -> bool:
    return name in SHOWN or name.startswith(TABLE_COUNT)
