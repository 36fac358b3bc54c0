"""A source offset of MySQL and MariaDB: Debezium's map, read, moved on by the log, and written back.

Keys and meaning are Debezium's (``file``, ``pos``, ``gtids``, ``server_id``, ``event``, ``row``, ``ts_sec``, ``snapshot``), so a connector can be taken
over from Debezium and handed back. Ours beside them: ``dblog_dump`` (the dump's progress), ``dblog_server`` (which server the file names belong to),
``dblog_epoch`` (how often that has changed: D7), ``dblog_xa`` (XA transactions that have not ended: readers/prepared.py) and ``dblog_untold`` (the schemas
of the start are not in their topic yet: readers/offset.py).

Inside a transaction ``file`` and ``pos`` are its BEGIN, ``gtids`` the set without it, ``event`` the number of its events to skip, BEGIN included. A
compressed transaction is one event to Debezium, which reads it anew: there ``event`` is left out and ``dblog_event`` counts what is in it.
Where its records are counted (provide.transaction.metadata), ``transaction_id`` names it, and a ``transaction_data_collection_order_<table>`` is how
many of a table's were taken.
"""

from __future__ import annotations

from collections.abc import Callable

from dblog.codecs.logitems import LogOffset
from dblog.codecs.transactions import TransactionCounts
from dblog.dialects.mariadb.position import GtidPosition
from dblog.dialects.mysql.position import GtidSet, file_index
from dblog.errors import DefiniteError
from dblog.model import OffsetMap

TRANSACTION_ID = "transaction_id"
TABLE_COUNT = "transaction_data_collection_order_"

POSITION_BITS = 23
"""Low bits of the second sequence number that hold the row's number (D7)."""


def sequence_of(*, epoch: int, file: str, pos: int) -> tuple[int, int]:
    """D7's two numbers of a place in the log."""
    return epoch << 32 | file_index(file), pos << POSITION_BITS


def schema_position(*, epoch: int, place: LogOffset) -> tuple[int, int]:
    """Where the schemas of a place's rows are looked up: at the begin of their transaction, but behind a statement inside it, which is the CREATE of a
    table made by a query. That statement's changes hold from here on, too.
    """
    high, low = sequence_of(epoch=epoch, file=place.file, pos=place.pos)
    return high, low + 1 if place.in_transaction else low


class LogProgress:
    """How far the log has been taken; ``advance`` folds decoder places, in order."""

    def __init__(
        self,
        *,
        flavor: str,
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
        self.flavor = flavor
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
        parse = GtidPosition.parse if flavor == "mariadb" else GtidSet.parse
        self.gtids: GtidSet | GtidPosition | None = None if gtids is None else parse(gtids)

    @classmethod
    def of_offset(cls, offset: OffsetMap, *, flavor: str) -> LogProgress:
        """From a stored offset, ours or Debezium's. DefiniteError when it names no place in a log."""
        file, pos = offset.get("file"), offset.get("pos")
        gtids = offset.get("gtids")
        if not isinstance(file, str) or not isinstance(pos, int):
            message = "the connector's offset has no file and pos; set them with PATCH /connectors/<name>/offsets, or reset the offsets to dump anew"
            raise DefiniteError(message)
        server, prepared = offset.get("dblog_server"), offset.get("dblog_xa")
        return cls(
            flavor=flavor,
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

    def copy(self) -> LogProgress:
        """An independent copy: the reader's place and the committed place move apart."""
        return LogProgress(
            flavor=self.flavor,
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

    def advance(self, place: LogOffset) -> None:
        """Take the place after a decoder item."""
        self.file = place.file
        self.pos = place.pos
        self.event = place.event
        self.packed_event = place.packed_event
        self.row = place.row
        self.transaction = place.transaction
        if place.prepared is not None:
            self.prepared = place.prepared
        if place.ts_sec:
            self.ts_sec = place.ts_sec
        if place.server_id:
            self.server_id = place.server_id
        if self.gtids is not None and place.gtids_delta:
            self.gtids.add_all(place.gtids_delta)  # type: ignore[arg-type]  # the delta has the flavor's shape

    def pass_over(self, gtids: str, wanted: Callable[[str], bool]) -> None:
        """Count the transactions of these that ``wanted`` does not select (UUID; MariaDB: domain-server) as read."""
        if isinstance(self.gtids, GtidSet):
            self.gtids.add_all(member for member in GtidSet.parse(gtids).members() if not wanted(member[0]))
        elif self.gtids is not None:
            theirs = GtidPosition.parse(gtids).subtract(self.gtids)
            found = (theirs.gtid(domain) for domain in theirs.domains())
            self.gtids.add_all(
                (g.domain, g.server_id, g.sequence) for g in found if g is not None and not wanted(f"{g.domain}-{g.server_id}")
            )

    @property
    def skip_events(self) -> int:
        """Events of the open transaction that were taken, compressed or not."""
        return self.event + self.packed_event

    @property
    def sequence(self) -> tuple[int, int]:
        """D7's numbers of this place."""
        return sequence_of(epoch=self.epoch, file=self.file, pos=self.pos)

    def to_map(self) -> dict[str, str | int | float | bool | None]:
        """The offset as Debezium writes it; zero counts are left out."""
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
