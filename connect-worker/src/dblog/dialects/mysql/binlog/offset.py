"""The source offset of MySQL and MariaDB: Debezium's map, which is parsed, advanced by the log, and
written back.

Keys and meaning are Debezium's (``file``, ``pos``, ``gtids``, ``server_id``, ``event``, ``row``,
``ts_sec``, ``snapshot``), so a connector can be taken over from Debezium and handed back. dblog
adds ``dblog_dump`` (the dump's progress), ``dblog_server`` (the server that the file names belong
to), ``dblog_epoch`` (how often that server has changed: D7), ``dblog_xa`` (XA transactions that
have not ended: task/prepared.py), ``dblog_windows`` and ``dblog_unreported`` (the schemas of the
start are not in their topic yet: both readers/run/offset.py).

Inside a transaction ``file`` and ``pos`` are its BEGIN, ``gtids`` the set without it, ``event`` the
number of its events to skip, BEGIN included. To Debezium a compressed transaction is one event,
which it reads again. There ``event`` is left out, and ``dblog_event`` counts the events inside. If
records are counted (provide.transaction.metadata), ``transaction_id`` names the transaction, and
``transaction_data_collection_order_<table>`` is the number of a table's records taken from it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol, Self

from dblog.codecs.transactions import TransactionCounts
from dblog.core.watermark import WatermarkPosition
from dblog.dialects.mysql.binlog.items import LogOffset
from dblog.dialects.mysql.binlog.position import GtidSet, file_index
from dblog.dialects.mysql.binlog.source_block import BinlogContext
from dblog.errors import DefiniteError
from dblog.model import OffsetMap

TRANSACTION_ID = "transaction_id"
TABLE_COUNT = "transaction_data_collection_order_"

PREPARED_UNKNOWN = '{"prepared":{},"open":null,"forgot":true}'
"""The XA transactions of an offset that dblog did not write. No list was kept, so any may be
prepared (task/prepared.py).
"""

POSITION_BITS = 23
"""Low bits of the second number of ``source.sequence``, which hold the number of the row (D7)."""


def sequence_of(*, epoch: int, file: str, pos: int) -> tuple[int, int]:
    """Return the two numbers of ``source.sequence`` at a position in the log (D7)."""
    return epoch << 32 | file_index(file), pos << POSITION_BITS


def schema_position(*, epoch: int, at: LogOffset) -> tuple[int, int]:
    """Return the position whose schemas apply to the rows at an offset.

    It is the beginning of their transaction, or after a statement inside it. Such a statement is
    the CREATE of a table made by a query, and its changes apply from here on.
    """
    high, low = sequence_of(epoch=epoch, file=at.file, pos=at.pos)
    return high, low + 1 if at.in_transaction else low


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMark:
    """The end of a server's log as a watermark. All that a snapshot taken until then can show lies
    before ``file`` and ``pos``, and its transactions are among ``gtids``.
    """

    file: str
    pos: int
    gtids: Any
    """GTIDs in the form of one kind of server."""


class Gtids(Protocol):
    """The transactions before a position, in the form of one kind of server."""

    def add_all(self, gtids: Any) -> None:
        """Add finished transactions (``LogOffset.gtids_delta``)."""

    def text(self) -> str:
        """Return the text for the offset."""

    def contains(self, other: Any) -> bool:
        """Return whether all transactions of ``other`` are among these."""

    def subtract(self, other: Any) -> Self:
        """Return the transactions that ``other`` lacks."""

    def __bool__(self) -> bool: ...


class LogProgress:
    """The progress of reading the log. ``advance`` applies the decoder's offsets in order.
    MariaDB's subclass differs in its GTIDs (dialects/mariadb/offset.py).
    """

    def __init__(
        self,
        *,
        file: str,
        pos: int,
        gtids: str | None,
        event: int = 0,
        packed_event: int = 0,
        row: int = 0,
        server_id: int = 0,
        ts_sec: int = 0,
        server: str | None = None,
        epoch: int = 0,
        prepared: str = "",
        transaction: TransactionCounts | None = None,
    ) -> None:
        self.file = file
        self.pos = pos
        self.event = event
        self.packed_event = packed_event
        self.row = row
        self.server_id = server_id
        self.ts_sec = ts_sec
        self.server = server
        self.epoch = epoch
        self.prepared = prepared
        self.transaction = transaction
        self.gtids: Gtids | None = None if gtids is None else self.parse_gtids(gtids)

    @staticmethod
    def parse_gtids(text: str) -> Gtids:
        """Parse the text of a server or an offset. Raise DefiniteError if it is malformed."""
        return GtidSet.parse(text)

    @staticmethod
    def gtids_include(text: str, others: str) -> bool:
        """Return whether all of ``others`` are in ``text``."""
        return GtidSet.parse(text).contains(GtidSet.parse(others))

    @classmethod
    def of_offset(cls, offset: OffsetMap) -> Self:
        """Parse a stored offset of dblog or Debezium. Raise DefiniteError if it names no position
        in a log.
        """
        file, pos = offset.get("file"), offset.get("pos")
        gtids = offset.get("gtids")
        if not isinstance(file, str) or not isinstance(pos, int):
            message = "the connector's offset has no file and pos; set them with PATCH /connectors/<name>/offsets, or reset the offsets to dump again"
            raise DefiniteError(message)
        server, prepared = offset.get("dblog_server"), offset.get("dblog_xa")
        return cls(
            file=file,
            pos=pos,
            gtids=gtids if isinstance(gtids, str) else None,
            event=_integer(offset, "event"),
            packed_event=_integer(offset, "dblog_event"),
            row=_integer(offset, "row"),
            server_id=_integer(offset, "server_id"),
            ts_sec=_integer(offset, "ts_sec"),
            server=server if isinstance(server, str) else None,
            epoch=_integer(offset, "dblog_epoch"),
            prepared=prepared if isinstance(prepared, str) else "",
            transaction=_counts(offset),
        )

    def copy(self) -> Self:
        """Return an independent copy, since the reader's offset and the committed one move
        apart.
        """
        return type(self)(
            file=self.file,
            pos=self.pos,
            gtids=None if self.gtids is None else self.gtids.text(),
            event=self.event,
            packed_event=self.packed_event,
            row=self.row,
            server_id=self.server_id,
            ts_sec=self.ts_sec,
            server=self.server,
            epoch=self.epoch,
            prepared=self.prepared,
            transaction=self.transaction,
        )

    def advance(self, after: LogOffset) -> None:
        """Move to the offset after a decoder item."""
        self.file = after.file
        self.pos = after.pos
        self.event = after.event
        self.packed_event = after.packed_event
        self.row = after.row
        self.transaction = after.transaction
        if after.prepared is not None:
            self.prepared = after.prepared
        if after.ts_sec:
            self.ts_sec = after.ts_sec
        if after.server_id:
            self.server_id = after.server_id
        if self.gtids is not None and after.gtids_delta:
            self.gtids.add_all(after.gtids_delta)

    def pass_over(self, gtids: str, wanted: Callable[[str], bool]) -> None:
        """Count transactions of ``gtids`` as read if ``wanted`` does not select their source (a
        UUID).
        """
        if self.gtids is not None:
            self.gtids.add_all(member for member in GtidSet.parse(gtids).members() if not wanted(member[0]))

    @property
    def resume_point(self) -> Hashable:
        """A value that stays equal as long as a new connection would begin at the same event."""
        return self.file, self.pos, self.skip_events

    @property
    def is_between(self) -> bool:
        """True if no transaction is partly read."""
        return not (self.event or self.packed_event or self.row)

    def has_come_to(self, mark: LogMark, *, quiet: bool) -> bool:
        """Return whether reading has reached the mark: by position, and in a quiet log also by
        GTIDs. The position does not move over transactions that the server leaves out as already
        read.
        """
        if (file_index(self.file), self.pos) >= (file_index(mark.file), mark.pos):
            return True
        return quiet and self.gtids is not None and self.gtids.contains(mark.gtids)

    @property
    def source_ts_us(self) -> int:
        """The time of the newest event read, in microseconds."""
        return self.ts_sec * 1_000_000

    def sequence_of(self, position: LogOffset) -> tuple[int, int]:
        """Return the two numbers of ``source.sequence`` at an item's position (D7)."""
        return sequence_of(epoch=self.epoch, file=position.file, pos=position.pos)

    def taken_over(self) -> None:
        """Note that this connector did not write the offset."""
        self.prepared = self.prepared or PREPARED_UNKNOWN

    def note(self) -> dict[str, object]:
        """Return the position for people, in the history and in log lines."""
        return {"file": self.file, "pos": self.pos}

    def metrics(self) -> dict[str, float]:
        """Return the metrics for the herder."""
        return {"log_pos": float(self.pos), "log_file": float(file_index(self.file))}

    def row_context(self, *, now_us: int) -> BinlogContext:
        """Return the source block of a record at this position."""
        high, low = self.sequence
        return BinlogContext(
            file=self.file, pos=self.pos, server_id=0, source_ts_us=now_us, now_us=now_us, sequence_high=high, sequence_low=low
        )

    def watermark_position(self) -> WatermarkPosition:
        """Return the position for chunk markers."""
        high, low = self.sequence
        return WatermarkPosition(file=self.file, pos=self.pos, sequence_high=high, sequence_low=low)

    def __str__(self) -> str:
        return f"{self.file}:{self.pos}"

    @property
    def skip_events(self) -> int:
        """Events of the open transaction that were read, compressed or not."""
        return self.event + self.packed_event

    @property
    def sequence(self) -> tuple[int, int]:
        """The two numbers of ``source.sequence`` at this position (D7)."""
        return sequence_of(epoch=self.epoch, file=self.file, pos=self.pos)

    def to_map(self) -> dict[str, str | int | float | bool | None]:
        """Return the offset as Debezium writes it; zero counts are left out."""
        out: dict[str, str | int | float | bool | None] = {}
        if self.ts_sec:
            out["ts_sec"] = self.ts_sec
        out["file"] = self.file
        out["pos"] = self.pos
        if self.gtids is not None:
            out["gtids"] = self.gtids.text()
        counts = {
            "row": self.row,
            "server_id": self.server_id,
            "event": self.event,
            "dblog_event": self.packed_event,
            "dblog_epoch": self.epoch,
        }
        out |= {name: value for name, value in counts.items() if value}
        if self.server is not None:
            out["dblog_server"] = self.server
        if self.prepared:
            out["dblog_xa"] = self.prepared
        if self.transaction is not None:
            out[TRANSACTION_ID] = self.transaction.id
            out |= {f"{TABLE_COUNT}{table}": records for table, records in self.transaction.tables.items()}
        return out


def _counts(offset: OffsetMap) -> TransactionCounts | None:
    name = offset.get(TRANSACTION_ID)
    if not isinstance(name, str):
        return None
    tables = {key.removeprefix(TABLE_COUNT): _integer(offset, key) for key in offset if key.startswith(TABLE_COUNT)}
    return TransactionCounts(name, tables)


def _integer(offset: OffsetMap, name: str) -> int:
    value = offset.get(name)
    return value if isinstance(value, int) else 0
