"""Reads a source offset of PostgreSQL in Debezium's form, moves it along the log, and writes it
back.

Keys and meaning are Debezium's (``lsn``, ``lsn_commit``, ``txId``, ``ts_usec``, ``messageType``),
so a connector can be taken over from Debezium and handed back. ``lsn`` and ``lsn_commit`` are the
end of the last transaction that was taken completely, where both programs continue.

Debezium's ``lsn_proc``, the last change that was processed, is read and never written. If an offset
has it, Debezium looks for that change in the log and skips it (WalPositionLocator.java). The next
transaction often begins at the very end of the last commit record, so ``lsn_proc = lsn_commit``
would lose its first change. And the place of an older change may be gone from the slot, which
Debezium refuses (PostgresConnection.validateLogPosition). Without the key Debezium starts at
``lsn`` and skips nothing.

Our own keys beside them:

- ``dblog_server``: the system that the LSNs belong to, and its timeline.
- ``dblog_epoch``: how often that has changed (D7).
- ``dblog_commit``, ``dblog_event``, ``dblog_change_lsn`` and ``dblog_change``: inside a transaction
  its commit LSN, the number of its changes that were taken, and the place of the last one.
- ``dblog_standby_started``: the start time of the standby that is read (wire/successor.py).
- ``dblog_windows`` and ``dblog_unreported``: see readers/run/offset.py.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Self

from dblog.codecs.transactions import TransactionCounts
from dblog.core.timeline import Position
from dblog.core.watermark import WatermarkPosition
from dblog.dialects.postgres.pgoutput.items import LogOffset
from dblog.dialects.postgres.pgoutput.position import lsn_text, sequence_of, wal_file
from dblog.dialects.postgres.pgoutput.source_block import PostgresContext
from dblog.errors import DefiniteError
from dblog.model import OffsetMap

TRANSACTION_ID = "transaction_id"
TABLE_COUNT = "transaction_data_collection_order_"
LSN_FIELDS = ("lsn_commit", "lsn_proc", "lsn")
"""Keys that may hold a stored position, the best first. Debezium continues at its last commit."""


class PostgresProgress:
    """The progress of reading the log. ``advance`` takes the decoder's offsets, in order.
    Implements ``readers.contract.Progress``.
    """

    def __init__(self, at: LogOffset, *, database: str, server: str | None = None, epoch: int = 0, standby_started_us: int = 0) -> None:
        """Start at an offset. ``server`` is ``<system identifier>/<timeline>``.
        ``standby_started_us`` is the start time of that server's process; 0 if it is not a standby.
        """
        self.at = at
        self.database = database
        self.server = server
        self.epoch = epoch
        self.standby_started_us = standby_started_us

    @classmethod
    def of_offset(cls, offset: OffsetMap, *, database: str) -> Self:
        """Read a stored offset, ours or Debezium's. Raise DefiniteError if it names no position in
        a log.
        """
        lsn = next((value for name in LSN_FIELDS if isinstance(value := offset.get(name), int) and not isinstance(value, bool)), None)
        if lsn is None:
            message = "the connector's offset has no lsn; set it with PATCH /connectors/<name>/offsets, or reset the offsets to dump again"
            raise DefiniteError(message)
        server = offset.get("dblog_server")
        at = LogOffset(
            lsn=lsn,
            commit_lsn=_integer(offset, "dblog_commit"),
            event=_integer(offset, "dblog_event"),
            change_lsn=_integer(offset, "dblog_change_lsn"),
            change=_integer(offset, "dblog_change"),
            xid=_integer(offset, "txId"),
            ts_us=_integer(offset, "ts_usec"),
            kind=kind if isinstance(kind := offset.get("messageType"), str) else "",
            transaction=_counts(offset),
        )
        return cls(
            at,
            database=database,
            server=server if isinstance(server, str) else None,
            epoch=_integer(offset, "dblog_epoch"),
            standby_started_us=_integer(offset, "dblog_standby_started"),
        )

    def copy(self) -> Self:
        """Return an independent copy."""
        return type(self)(self.at, database=self.database, server=self.server, epoch=self.epoch, standby_started_us=self.standby_started_us)

    def advance(self, position: LogOffset) -> None:
        """Take the offset after an item. Facts that an item does not show stay as they are."""
        before = self.at
        self.at = LogOffset(
            lsn=position.lsn,
            commit_lsn=position.commit_lsn,
            event=position.event,
            change_lsn=position.change_lsn,
            change=position.change,
            xid=position.xid or before.xid,
            ts_us=position.ts_us or before.ts_us,
            kind=position.kind or before.kind,
            transaction=position.transaction,
        )

    @property
    def timeline(self) -> int:
        """Timeline of the server; 1 if it is unknown."""
        _, _, timeline = (self.server or "").partition("/")
        return int(timeline) if timeline.isdigit() else 1

    @property
    def sequence(self) -> Position:
        """Position as the two numbers of ``source.sequence`` (D7)."""
        return self.sequence_of(self.at)

    def sequence_of(self, position: LogOffset) -> Position:
        """Return an item's position as the two sequence numbers (D7), in this epoch."""
        return sequence_at(position, epoch=self.epoch)

    @property
    def source_ts_us(self) -> int:
        """Commit time of the newest transaction that was taken, in part or completely, in
        microseconds.
        """
        return self.at.ts_us

    @property
    def resume_point(self) -> Hashable:
        """Value that stays equal as long as a new connection would begin at the same change."""
        return self.at.lsn, self.at.commit_lsn, self.at.event

    @property
    def is_between(self) -> bool:
        """True if no transaction is taken in part."""
        return not self.at.in_transaction

    def has_come_to(self, mark: int, *, quiet: bool) -> bool:  # noqa: ARG002 - the contract's: an LSN alone shows it
        """Return True if every transaction that ended before the LSN has been taken."""
        return self.at.lsn >= mark

    def taken_over(self) -> None:
        """Do nothing: Debezium's LSNs have the same meaning."""

    def note(self) -> dict[str, object]:
        """Return the position for people, in the history and in log lines."""
        return {"lsn": lsn_text(self.at.lsn)}

    def metrics(self) -> dict[str, float]:
        """Return numbers for the herder."""
        return {"log_pos": float(self.at.lsn), "log_file": float(self.timeline)}

    def row_context(self, *, now_us: int) -> PostgresContext:
        """Return the context of the source block for a record at this position."""
        high, low = self.sequence
        return PostgresContext(
            database=self.database, lsn=self.at.lsn, source_ts_us=now_us, now_us=now_us, sequence_high=high, sequence_low=low
        )

    def watermark_position(self) -> WatermarkPosition:
        """Return the position for markers of chunks: the WAL file and the LSN."""
        high, low = self.sequence
        return WatermarkPosition(file=wal_file(self.timeline, self.at.lsn), pos=self.at.lsn, sequence_high=high, sequence_low=low)

    def to_map(self) -> dict[str, str | int | float | bool | None]:
        """Return the offset as Debezium writes it. Our own keys are left out if they are zero."""
        at = self.at
        out: dict[str, str | int | float | bool | None] = {"lsn": at.lsn, "lsn_commit": at.lsn}
        if at.ts_us:
            out["ts_usec"] = at.ts_us
        if at.xid:
            out["txId"] = at.xid
        if at.kind:
            out["messageType"] = at.kind
        counts = {
            "dblog_commit": at.commit_lsn,
            "dblog_event": at.event,
            "dblog_change_lsn": at.change_lsn,
            "dblog_change": at.change,
            "dblog_epoch": self.epoch,
            "dblog_standby_started": self.standby_started_us,
        }
        out |= {name: value for name, value in counts.items() if value}
        if self.server is not None:
            out["dblog_server"] = self.server
        if at.transaction is not None:
            out[TRANSACTION_ID] = at.transaction.id
            out |= {f"{TABLE_COUNT}{table}": records for table, records in at.transaction.tables.items()}
        return out

    def __str__(self) -> str:
        return lsn_text(self.at.lsn)

    __repr__ = __str__


def sequence_at(position: LogOffset, *, epoch: int) -> Position:
    """Return the position of the next change as the two sequence numbers (D7).

    Inside a transaction it comes after the changes that were taken.
    """
    if position.in_transaction:
        return sequence_of(epoch=epoch, lsn=position.commit_lsn, number=position.event + 1)
    return sequence_of(epoch=epoch, lsn=position.lsn)


def _counts(offset: OffsetMap) -> TransactionCounts | None:
    name = offset.get(TRANSACTION_ID)
    if not isinstance(name, str) or not _integer(offset, "dblog_commit"):
        return None
    tables = {key.removeprefix(TABLE_COUNT): _integer(offset, key) for key in offset if key.startswith(TABLE_COUNT)}
    return TransactionCounts(name, tables)


def _integer(offset: OffsetMap, name: str) -> int:
    value = offset.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
