"""What Debezium reports of transactions: the order of each record in its own, and their borders (``provide.transaction.metadata``).

A transaction begins with BEGIN (MariaDB: with a GTID event that is not standalone) and has an END whatever it captured, zero counts too. XA transactions of
MySQL have no BEGIN in the log, so their rows belong to none; neither do statements that stand alone, DDL and TRUNCATE. What counts are the records of
changes: a changed key counts twice, a tombstone or a row that was left out does not. The counts travel in the offset, so a run that begins inside a
transaction goes on with them and shows no BEGIN twice; Debezium counts from 1 again there, and leaves out the END of what ROLLBACK or XA ends on MariaDB.

Values only, shared by both decoders and both row encoders. Source of the rules: Debezium's TransactionMonitor, BinlogOffsetContext and
BinlogStreamingChangeEventSource; its manual, "MySQL connector", Transaction metadata.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TransactionOrder:
    """Where in its transaction an event's records begin: how many there were before, in all and of the event's table."""

    id: str
    total: int = 0
    of_table: int = 0


@dataclass(slots=True)
class TransactionCounts:
    """The open transaction, and its records so far by table (``db.table``)."""

    id: str
    tables: dict[str, int] = field(default_factory=dict)

    def copy(self) -> TransactionCounts:
        """Independent of what is counted later."""
        return TransactionCounts(self.id, dict(self.tables))


@dataclass(frozen=True, slots=True)
class TransactionBorder:
    """A BEGIN, or with the counts of ``tables`` an END. ``ts_us``: the time that ``source`` would have for the event."""

    id: str
    ts_us: int
    tables: dict[str, int] | None = None
