"""XA transactions between their two halves: the tables that a prepared one has changed, and the
consequences of its end.

The log has the rows of a transaction at XA PREPARE, and only later whether it commits. Its rows are
sent at their position in the log, as in Debezium. Until the end no other transaction can change the
same rows (the prepared one holds their locks), so their order is right. Five rules follow:

- A chunk read in between shows the rows as they were before, although its low watermark is after
  the prepared rows. A window of such a table would send old values over new ones. So none is opened
  until the transaction has ended; dump threads read other tables meanwhile. # I2
- XA ROLLBACK undoes rows that were sent. They are read again from their position in the log, and
  the inverse of each is sent. If that is impossible, the tables are dumped again as a repair
  (``task/undo_xa.py``). # I3 I5
- The rows of a transaction prepared before the connector's first position are before that position,
  and no dump can see them. At its XA COMMIT every captured table is dumped again, because the log
  does not show which ones it changed. Its XA ROLLBACK needs nothing, since none of its rows was
  sent. # I3
- Rows that lack columns cannot be read again before the commit, so their tables are dumped again at
  the commit.
- Rows of a table that is not captured at their position (not yet, or not by today's include lists)
  are skipped. By the commit the connector may capture the table, with a dump that could not see
  them. So its name is kept, and it is dumped again at the commit. # I3

So for every transaction it must be known whether it was prepared before the first position. Those
that have not ended are part of the offset (``dblog_xa``). Debezium's offsets have none, so after a
takeover from Debezium the rollback of an unknown transaction has every captured table repaired.

Rule sources: MySQL manual 15.3.8.3 "Restrictions on XA Transactions", sql/log_event.cc
(``XA_prepare_log_event``: one byte one_phase, then format id, lengths and data of the XID); MariaDB
writes the same event (sql/log_event.h).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from dblog.model import TableId

PREPARED_MAX = 1000
"""The most transactions that are kept, more than any server has unresolved. Beyond it the oldest is
forgotten and counts as unknown.
"""


@dataclass(frozen=True, slots=True)
class Begin:
    """The position at which a transaction begins. File names are comparable within one epoch only."""

    epoch: int
    file: str
    pos: int


@dataclass(slots=True)
class _Xa:
    """The tables changed by one transaction. ``unread``: tables with rows that cannot be read again
    before its commit. ``left_out``: tables whose rows were skipped.
    """

    tables: set[TableId] = field(default_factory=set)
    unread: set[TableId] = field(default_factory=set)
    left_out: set[TableId] = field(default_factory=set)
    begin: Begin | None = None
    """The position at which it begins; None if an earlier version wrote the offset, which did not
    store it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack:
    """An XA ROLLBACK of rows that were sent, or (``tables`` None) that may have been. Call
    ``Prepared.forget`` once they are undone.
    """

    xid: str
    tables: frozenset[TableId] | None
    begin: Begin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The result of an XA statement: the tables that must be dumped again; all captured ones if
    ``unknown``.
    """

    unread: frozenset[TableId] = frozenset()
    left_out: frozenset[TableId] = frozenset()
    """Tables of a prepared transaction that is committed now. Those still not captured need
    nothing.
    """
    unknown: str | None = None
    """The xid of a transaction that was prepared before the first position and is committed now;
    else None.
    """


class Prepared:
    """The XA transactions of one log, as it is read.

    ``text`` is the state stored in an offset. ``complete`` tells whether an offset without state
    means that no transaction is prepared.
    """

    def __init__(self, text: str | None = None, *, complete: bool = True) -> None:
        self._complete = complete
        self._open: _Xa | None = None
        self._prepared: dict[str, _Xa] = {}
        self._changed = False
        if text:
            state = json.loads(text)
            self._complete = not state.get("forgot", False)
            begins = state.get("begins", {})
            self._prepared = {xid: _xa(lists, begins.get(xid)) for xid, lists in state["prepared"].items()}
            self._open = None if state["open"] is None else _xa(state["open"], state.get("open_begin"))

    @property
    def tables(self) -> frozenset[TableId]:
        """Tables with rows whose transaction has not ended."""
        return frozenset().union(*(xa.tables for xa in self._prepared.values())) if self._prepared else frozenset()

    @property
    def is_open(self) -> bool:
        """True inside an XA transaction that is not prepared yet."""
        return self._open is not None

    def take_changed(self) -> str | None:
        """Return the state for the offset if it has changed since the last call, else None; "" if
        there is nothing to keep.
        """
        if not self._changed:
            return None
        self._changed = False
        if not self._prepared and self._open is None and self._complete:
            return ""
        state = {
            "prepared": {xid: _lists(xa) for xid, xa in self._prepared.items()},
            "open": None if self._open is None else _lists(self._open),
            "begins": {xid: _place(xa.begin) for xid, xa in self._prepared.items() if xa.begin is not None},
            "open_begin": None if self._open is None or self._open.begin is None else _place(self._open.begin),
        }
        return json.dumps(state if self._complete else state | {"forgot": True}, separators=(",", ":"))

    def begin(self, at: Begin) -> None:
        """Note the beginning of an XA transaction: MySQL's XA START, MariaDB's GTID event that
        names it. After a reconnect inside the transaction the same one begins again.
        """
        self._open = self._open or _Xa(begin=at)
        self._changed = True

    def rows(self, table: TableId) -> None:
        """Note rows of a captured table."""
        if self._open is not None and table not in self._open.tables:
            self._open.tables.add(table)
            self._changed = True

    def unread(self, table: TableId) -> None:
        """Note rows of a captured table that must be read again, which is impossible before the
        commit.
        """
        assert self._open is not None, "an XA transaction has rows between its start and its end"
        self._open.unread.add(table)
        self._changed = True

    def left_out(self, table: TableId) -> None:
        """Note a table map whose rows are not sent: the table is not captured, has not joined yet,
        or is parked.
        """
        if self._open is not None and table not in self._open.left_out:
            self._open.left_out.add(table)
            self._changed = True

    def outside(self) -> None:
        """Note that the log is between two transactions. An XA transaction always begins a new
        batch.
        """
        if self._open is not None:
            self._open = None
            self._changed = True

    def prepare(self, body: bytes) -> Ended:
        """Handle the event XA PREPARE. A transaction that commits in one phase ends with it."""
        xa, self._open = self._open or _Xa(), None
        self._changed = True
        if len(body) < 13 or body[0]:  # noqa: PLR2004 - one_phase, format id and two lengths
            return Ended(unread=frozenset(xa.unread))
        if len(self._prepared) >= PREPARED_MAX:
            del self._prepared[next(iter(self._prepared))]
            self._complete = False
        self._prepared[xid_of_event(body)] = xa
        return Ended()

    def statement(self, text: str, *, at: Begin) -> Ended | RolledBack | None:
        """Handle an XA statement; return None for any other. ``at`` is the beginning of the open
        transaction, if there is one.
        """
        words = text.split(None, 2)
        if len(words) < 2 or words[0].upper() != "XA":  # noqa: PLR2004 - XA and the verb
            return None
        verb = words[1].upper()
        if verb in ("START", "BEGIN"):
            self.begin(at)
        if verb not in ("COMMIT", "ROLLBACK"):
            return Ended()
        xid = words[2].strip() if len(words) > 2 else ""  # noqa: PLR2004
        if xid.upper().endswith(" ONE PHASE"):
            xid = xid[: -len(" ONE PHASE")].strip()
        known = self._prepared.get(xid.lower())
        if verb == "ROLLBACK" and (known.tables if known is not None else not self._complete):
            tables = None if known is None else frozenset(known.tables)
            return RolledBack(xid=xid.lower(), tables=tables, begin=None if known is None else known.begin)
        self.forget(xid)
        if verb == "ROLLBACK":
            return Ended()
        return Ended(unknown=xid) if known is None else Ended(unread=frozenset(known.unread), left_out=frozenset(known.left_out))

    def forget(self, xid: str) -> None:
        """Note that the transaction has ended and that nothing of it is left to do."""
        self._prepared.pop(xid.lower(), None)
        self._changed = True


def _lists(xa: _Xa) -> list[list[list[str]]]:
    return [[[t.database, t.name] for t in sorted(tables)] for tables in (xa.tables, xa.unread, xa.left_out)]


def _place(begin: Begin) -> list[int | str]:
    return [begin.epoch, begin.file, begin.pos]


def _xa(lists: list[list[list[str]]], begin: Any) -> _Xa:
    tables, unread, left_out = ({TableId(*name) for name in names} for names in lists)
    return _Xa(tables, unread, left_out, None if begin is None else Begin(*begin))


def xid_of_event(body: bytes) -> str:
    """Return the XID as the log's statements write it: X'gtrid',X'bqual',format."""
    format_id, gtrid, bqual = (int.from_bytes(body[at : at + 4], "little") for at in (1, 5, 9))
    data = body[13:]
    return f"x'{data[:gtrid].hex()}',x'{data[gtrid : gtrid + bqual].hex()}',{format_id}"
