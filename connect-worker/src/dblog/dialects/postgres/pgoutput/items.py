"""The results of a log decoder: offsets, batches of finished rows, and messages that need a
decision. Values only, shared by both decoders.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dblog.codecs.transactions import TransactionCounts
    from dblog.dialects.postgres.pgoutput.messages import Message, Relation, Truncate


@dataclass(slots=True, kw_only=True)
class LogOffset:
    """The place where reading would continue. ``lsn`` is the resume point: every transaction that
    ended before it has been taken.

    - ``commit_lsn`` is the commit LSN of the open transaction, 0 outside of one; ``event`` counts
      its rows, messages and truncates that were taken.
    - ``change_lsn`` is the LSN at which the newest of them was written, and ``change`` the number
      of changes taken from there (0: unknown). The two identify the change, whatever else a
      publication gives.
    - ``xid``, ``ts_us`` and ``kind`` are those of the newest record, for Debezium's offset.
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
    """Counts of the open transaction's records; None if they are not counted."""

    @property
    def in_transaction(self) -> bool:
        """True if a transaction has been taken in part."""
        return self.commit_lsn > 0


@dataclass(frozen=True, slots=True)
class SignalRow:
    """The first three columns of a row that was inserted into a signal table. ``fault`` is the
    reason why it is not a signal; None if it is one.
    """

    texts: tuple[str | None, str | None, str | None]
    fault: str | None = None


@dataclass(slots=True, kw_only=True)
class LogEvent:
    """A message of the log on which the reader must decide.

    ``position`` is the offset after it, and ``lsn`` the place where it was written. ``number`` is
    its number in the transaction; a Relation has that of the row that follows. ``commit_lsn`` is
    the transaction's, or the message's own if it belongs to none.
    """

    message: Relation | Truncate | Message | SignalRow
    lsn: int
    commit_lsn: int
    number: int
    xid: int
    ts_us: int
    position: LogOffset
