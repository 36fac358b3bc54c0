"""XA transactions between their two halves: which tables a prepared one has changed, and what its end means.

The log has a transaction's rows at XA PREPARE, and only later whether it commits. Its rows are sent where they stand, as Debezium sends them: until the
end nobody else can change the same rows (the prepared transaction holds their locks), so their order is right. Two things follow.

- A chunk read in between shows the rows as they were before, although its low mark stands behind the prepared rows: a window of such a table
  would send old values over new ones, so it is read again until the transaction has ended. # I2
- XA ROLLBACK takes back what was sent. If it touched captured tables, or nobody knows (it was prepared before this task began to read), the task
  stops with an error that says what to do. # I3 I5

Rule sources: MySQL manual 15.3.8.3 "Restrictions on XA Transactions", sql/log_event.cc (``XA_prepare_log_event``: one byte one_phase, then format id,
lengths and data of the XID); MariaDB writes the same event (sql/log_event.h).
"""

from __future__ import annotations

from dblog.errors import DefiniteError
from dblog.model import TableId

PREPARED_MAX = 10_000
"""More unresolved transactions than any server keeps; beyond that the oldest is forgotten, and counts as unknown."""


class Prepared:
    """The XA transactions of one log, as it is read."""

    def __init__(self, *, began_inside: bool = False) -> None:
        """``began_inside``: reading began inside a transaction, so the first one's tables are not known for certain."""
        self._unsure = began_inside
        self._open: set[TableId] = set()
        self._prepared: dict[str, frozenset[TableId]] = {}

    @property
    def tables(self) -> frozenset[TableId]:
        """Tables with rows whose transaction has not ended."""
        return frozenset().union(*self._prepared.values()) if self._prepared else frozenset()

    def rows(self, table: TableId) -> None:
        """Rows of a captured table have passed."""
        self._open.add(table)

    def outside(self) -> None:
        """The log is between two transactions; an XA transaction always begins a batch of its own."""
        self._open = set()

    def prepare(self, body: bytes) -> None:
        """The event XA PREPARE; one that commits in one phase is over with it."""
        tables, self._open = self._open, set()
        if len(body) < 13 or body[0]:  # noqa: PLR2004 - one_phase, format id and two lengths
            return
        if len(self._prepared) >= PREPARED_MAX:
            del self._prepared[next(iter(self._prepared))]
        if self._unsure:
            self._unsure = False
            return
        self._prepared[_xid_of_event(body)] = frozenset(tables)

    def statement(self, text: str, *, where: str) -> frozenset[TableId] | None:
        """An XA statement of the log; None for any other one. Gives the tables whose prepared rows are valid now.

        DefiniteError for a rollback that takes back rows that were sent, or that may have been.
        """
        words = text.split(None, 2)
        if len(words) < 2 or words[0].upper() != "XA":  # noqa: PLR2004 - XA and the verb
            return None
        verb = words[1].upper()
        if verb not in ("COMMIT", "ROLLBACK"):
            return frozenset()
        xid = words[2].removesuffix(" ONE PHASE").strip() if len(words) > 2 else ""  # noqa: PLR2004
        known = self._prepared.pop(xid.lower(), None)
        if verb == "ROLLBACK" and (known is None or known):
            what = "of a transaction that was prepared before the connector began to read" if known is None else _named(known)
            message = (
                f"the log holds an XA ROLLBACK at {where} {what}: rows that it had prepared are in the topics already, and are not in "
                "the database; dump the tables anew (reset the connector's offsets), or set event.processing.failure.handling.mode=warn to go on"
            )
            raise DefiniteError(message)
        return known or frozenset()


def _named(tables: frozenset[TableId]) -> str:
    return f"that touches {', '.join(sorted(map(str, tables)))}"


def _xid_of_event(body: bytes) -> str:
    """As the statements of the log write it: X'gtrid',X'bqual',format."""
    format_id, gtrid, bqual = (int.from_bytes(body[at : at + 4], "little") for at in (1, 5, 9))
    data = body[13:]
    return f"x'{data[:gtrid].hex()}',x'{data[gtrid : gtrid + bqual].hex()}',{format_id}"
