"""What a log decoder gives: offsets in the log, batches of finished rows, and events that need a decision.

Values only, shared by the compiled decoder and its reference implementation, so that tests can compare them with ``==``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dblog.readers.items import IGNORED_FOR_NOW, ROWS_PARKED, IgnoredForNow, LogCounts, LogRows, RowsParked

if TYPE_CHECKING:
    from dblog.codecs.rowplan import RowEncoder
    from dblog.codecs.transactions import TransactionCounts, TransactionOrder

__all__ = [
    "EOF_PACKET",
    "ERR_PACKET",
    "EVENT_BYTES_MAX",
    "IGNORED_FOR_NOW",
    "LOOK_AHEAD",
    "LOOK_AHEAD_BYTES_MAX",
    "ROWS_PARKED",
    "IgnoredForNow",
    "LogCounts",
    "LogEvent",
    "LogOffset",
    "LogRows",
    "RowsParked",
]

EVENT_BYTES_MAX = (1 << 30) + (1 << 16)
"""An event of the log, plain or unpacked: a server sends none that is longer than the greatest max_allowed_packet and its own room for headers
(MAX_LOG_EVENT_HEADER in sql/log_event.h)."""


LOOK_AHEAD_BYTES_MAX = 1 << 24
"""So much of a transaction waits in memory until its end is known; the end of a longer one is looked for on a connection of its own. # I6"""

MysqlGtids = list[tuple[str, str, int, int]]
"""(uuid, tag or "", first, last) of finished transactions, in log order, joined where they follow each other."""
MariadbGtids = list[tuple[int, int, int]]
"""(domain, server id, sequence number): the last finished one of each domain."""


@dataclass(slots=True, kw_only=True)
class LogOffset:
    """Where reading would go on: Debezium's offset fields, and the transactions finished since the item before.

    ``pos`` is where the open transaction begins (its GTID event if it has one), else the position after the last finished one. ``event`` counts
    the open transaction's events already consumed, from and with BEGIN (MariaDB: its GTID event); 0 outside. Inside a compressed transaction
    (TRANSACTION_PAYLOAD), which Debezium takes for one event and reads again, ``event`` is 0 and ``packed_event`` counts. ``gtids_delta`` leaves
    the open transaction out until it commits.
    """

    file: str
    pos: int
    event: int = 0
    packed_event: int = 0
    row: int = 0
    ts_sec: int = 0
    server_id: int = 0
    in_transaction: bool = False
    transaction: TransactionCounts | None = None
    """The records of the open transaction, where they are counted."""
    prepared: str | None = None
    """Not the decoder's: the XA transactions that have not ended (dialects/mysql/task/prepared.py), where they have changed."""
    gtids_delta: MysqlGtids | MariadbGtids = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class LogEvent:
    """An event that the reader must decide on: DDL, pass-through rows, rotation, an incident, a type nobody knows.

    ``type_code`` -1 is an ERR packet and -2 an EOF packet, with the packet as ``body``; -3 asks for the end of the transaction that begins at ``position``
    (``LogDecoder.told``). ``body`` is without header and checksum. ``table``
    is the table map's body in front of pass-through rows, ``flags`` are the header's. ``position`` is the offset after the event.
    """

    type_code: int
    timestamp_s: int
    server_id: int
    body: bytes
    file: str
    start_pos: int
    next_pos: int
    position: LogOffset
    gtid: str | None = None
    source_ts_us: int = 0
    sequence_high: int = 0
    sequence_low: int = 0
    table: bytes | None = None
    flags: int = 0
    thread: int | None = None
    transaction: TransactionOrder | None = None
    """Of a rows event whose images lack columns, where transactions are counted."""
    encoder: RowEncoder | None = field(default=None, compare=False)
    """``encoder`` only of a rows event whose images lack columns, ``thread`` of this and of a statement inside a transaction (CREATE TABLE ... SELECT)."""


ERR_PACKET = -1
EOF_PACKET = -2
LOOK_AHEAD = -3
