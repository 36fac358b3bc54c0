"""What a log decoder gives: offsets, batches of finished rows, and messages that need a decision. Values only, shared by both decoders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dblog.codecs.transactions import TransactionCounts
    from dblog.dialects.postgres.pgoutput.messages import Message, Relation, Truncate


@dataclass(slots=True, kw_only=True)
class LogOffset:
    """Where reading would go on. ``lsn`` is the resume point: every transaction that ended in front of it has been taken, whatever else was.

    ``commit_lsn`` is the open transaction's, 0 outside; ``event`` counts its rows, messages and truncates that were taken. ``change_lsn`` is where the newest
    of them was written, and ``change`` how many of that place were taken: by these two it is found again, whatever else a publication gives (0: not known).
    ``xid``, ``ts_us`` and ``kind`` are those of the newest record, for Debezium's offset.
    """

    lsn: int
    commit_lsn: int = 0
    event: int = 0
    change_lsn: int = 0
    change: int = 0
    xid: int = 0
    ts_us: int = 0
    kind: str = ""
    transaction: TransactionCounts | None = None
    """The records of the open transaction, where they are counted."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is taken in part."""
        return self.commit_lsn > 0


@dataclass(frozen=True, slots=True)
class SignalRow:
    """A row that was inserted into a signal table: its first three columns; ``fault``: why it is none."""

    texts: tuple[str | None, str | None, str | None]
    fault: str | None = None


@dataclass(slots=True, kw_only=True)
class LogEvent:
    """A message of the log that the reader must decide on. ``position`` is the offset behind it; ``lsn`` where it was written, ``number`` its number in the
    transaction (a Relation has that of the row it precedes), ``commit_lsn`` the transaction's, or its own where it is of none.
    """

    message: Relation | Truncate | Message | SignalRow
    lsn: int
    commit_lsn: int
    number: int
    xid: int
    ts_us: int
    position: LogOffset
