"""The items that a log decoder returns: offsets in the log, batches of finished rows, and events
that need a decision.

Values only, shared by the compiled decoder and its reference implementation, so that tests can
compare them with ``==``.
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
"""The longest event, plain or unpacked. A server sends none longer than the largest
max_allowed_packet and its room for headers (MAX_LOG_EVENT_HEADER in sql/log_event.h).
"""


LOOK_AHEAD_BYTES_MAX = 1 << 24
"""The most bytes of a transaction that wait in memory until its end is known. A second connection
searches for the end of a longer one. # I6
"""

MysqlGtids = list[tuple[str, str, int, int]]
"""(uuid, tag or "", first, last) of finished transactions, in log order, joined if consecutive."""
MariadbGtids = list[tuple[int, int, int]]
"""(domain, server id, sequence number): the last finished transaction of each domain."""


@dataclass(slots=True, kw_only=True)
class LogOffset:
    """The point at which reading would continue: Debezium's offset fields, and the transactions
    finished since the item before.

    ``pos`` is the beginning of the open transaction (its GTID event if it has one), or else the
    position after the last finished one. ``event`` counts the open transaction's events already
    consumed, BEGIN included (MariaDB: its GTID event); 0 outside a transaction. Debezium takes a
    compressed transaction (TRANSACTION_PAYLOAD) for one event and reads it again; there ``event``
    is 0 and ``packed_event`` counts. ``gtids_delta`` has the open transaction only after its
    commit.
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
    """Records of the open transaction; None if they are not counted."""
    prepared: str | None = None
    """XA transactions that have not ended (dialects/mysql/task/prepared.py), None if they have not
    changed. The decoder does not set it.
    """
    gtids_delta: MysqlGtids | MariadbGtids = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class LogEvent:
    """An event that needs a decision of the reader: DDL, pass-through rows, a rotation, an
    incident, an unknown type.

    ``type_code`` -1 is an ERR packet and -2 an EOF packet, with the packet as ``body``. -3 asks for
    the end of the transaction that begins at ``position`` (``LogDecoder.told``). ``body`` is
    without header and checksum. ``table`` is the body of the table map before pass-through rows,
    ``flags`` are the header's. ``position`` is the offset after the event.
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
    """The order in its transaction of a rows event whose images lack columns; None if transactions
    are not counted.
    """
    encoder: RowEncoder | None = field(default=None, compare=False)
    """The encoder of a rows event whose images lack columns; None for any other event. ``thread``
    is set for such an event and for a statement inside a transaction (CREATE TABLE ... SELECT).
    """


ERR_PACKET = -1
EOF_PACKET = -2
LOOK_AHEAD = -3
