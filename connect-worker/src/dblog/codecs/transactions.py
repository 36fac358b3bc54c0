"""Describes the transaction metadata that Debezium reports: the order of each record in its
transaction, and the borders of transactions (``provide.transaction.metadata``).

A transaction begins with BEGIN (MariaDB: with a GTID event that is not standalone). It always has
an END, even with counts of zero. XA transactions of MySQL have no BEGIN in the log, so their rows
belong to no transaction; nor do standalone statements, DDL and TRUNCATE. The records of changes are
counted: a changed key counts twice, a tombstone or a skipped row does not count.

The counts are part of the offset. So a run that begins inside a transaction continues with them and
reports no BEGIN twice. Debezium counts from 1 again there, and on MariaDB leaves out the END of a
transaction that ROLLBACK or XA ends.

This module has values only, shared by both decoders and both row encoders. Source of the rules:
Debezium's TransactionMonitor, BinlogOffsetContext and BinlogStreamingChangeEventSource; its manual,
"MySQL connector", Transaction metadata.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TransactionOrder:
    """The number of records before an event's own ones in its transaction, in all and of the
    event's table.
    """

    id: str
    total: int = 0
    of_table: int = 0


@dataclass(slots=True)
class TransactionCounts:
    """The open transaction and its records so far by table (``db.table``)."""

    id: str
    tables: dict[str, int] = field(default_factory=dict)

    def copy(self) -> TransactionCounts:
        """Return a copy that later counting does not change."""
        return TransactionCounts(self.id, dict(self.tables))


@dataclass(frozen=True, slots=True)
class TransactionBorder:
    """A BEGIN, or an END if ``tables`` has counts. ``ts_us`` is the time that ``source`` would have
    for the event.
    """

    id: str
    ts_us: int
    tables: dict[str, int] | None = None
