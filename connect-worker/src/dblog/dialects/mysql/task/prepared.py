"""XA transactions between their two halves: which tables a prepared one has changed, and what its end means.

The log has a transaction's rows at XA PREPARE, and only later whether it commits. Its rows are sent where they stand, as Debezium sends them: until the
end nobody else can change the same rows (the prepared transaction holds their locks), so their order is right. Five things follow.

- A chunk read in between shows the rows as they were before, although its low watermark stands behind the prepared rows: a window of such a table
  would send old values over new ones, so none is opened until the transaction has ended; dump threads take other tables meanwhile. # I2
- XA ROLLBACK takes back what was sent. Its rows are read once more from where they begin in the log, and the inverse of each is sent; where that cannot be,
  the tables are dumped again as a repair (``task/takeback.py``). # I3 I5
- What was prepared before the connector's first position has its rows before it, and no dump can see them: at its XA COMMIT every captured table is
  dumped again, for the log does not show which ones it changed. Its XA ROLLBACK means nothing: none of its rows was sent. # I3
- Rows that lack columns cannot be read again before the commit: their tables are dumped again at the commit.
- Rows of a table that is not captured where they stand, not yet or not by today's include lists, are passed over. By the commit the connector may follow the
  table, with a dump that could not see them: so its name is kept, and it is dumped again at the commit. # I3

So it must be known of every transaction whether it was prepared before the first position: those that have not ended travel in the offset
(``dblog_xa``). Debezium's offsets have none, so after taking one over the rollback of an unknown transaction has every captured table repaired.

Rule sources: MySQL manual 15.3.8.3 "Restrictions on XA Transactions", sql/log_event.cc (``XA_prepare_log_event``: one byte one_phase, then format id,
lengths and data of the XID); MariaDB writes the same event (sql/log_event.h).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from dblog.model import TableId

PREPARED_MAX = 1000
"""More unresolved transactions than any server keeps; beyond that the oldest is forgotten, and counts as unknown."""


@dataclass(frozen=True, slots=True)
class Begin:
    """Where a transaction begins in the log. The names of files mean something within one epoch."""

    epoch: int
    file: str
    pos: int


@dataclass(slots=True)
class _Xa:
    """What one transaction has changed; ``unread``: tables with rows that could not be read again before its commit; ``left_out``: tables whose rows were
    passed over.
    """

    tables: set[TableId] = field(default_factory=set)
    unread: set[TableId] = field(default_factory=set)
    left_out: set[TableId] = field(default_factory=set)
    begin: Begin | None = None
    """None: an earlier version has written the offset, which did not keep it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack:
    """An XA ROLLBACK of rows that were sent, or (``tables`` None) that may have been. ``Prepared.forget`` when they are taken back."""

    xid: str
    tables: frozenset[TableId] | None
    begin: Begin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """An XA statement, and what has to be dumped again: all captured tables if ``unknown``."""

    unread: frozenset[TableId] = frozenset()
    left_out: frozenset[TableId] = frozenset()
    """Of a transaction that was prepared and is committed now; whoever does not capture them still has nothing to do."""
    unknown: str | None = None
    """The xid of a transaction that was prepared before the first position, and is committed now."""


class Prepared:
    """The XA transactions of one log, as it is read. ``text`` is what an offset has of them, ``complete`` whether it would have all."""

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
        """Whether the log is inside an XA transaction that is not prepared yet."""
        return self._open is not None

    def take_changed(self) -> str | None:
        """The state for the offset if it has changed since the last call; "" when there is nothing to keep."""
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
        """An XA transaction begins: MySQL's XA START, MariaDB's GTID event that names it. The same one again after a reconnect in the middle of it."""
        self._open = self._open or _Xa(begin=at)
        self._changed = True

    def rows(self, table: TableId) -> None:
        """Rows of a captured table have passed."""
        if self._open is not None and table not in self._open.tables:
            self._open.tables.add(table)
            self._changed = True

    def unread(self, table: TableId) -> None:
        """Rows of a captured table have passed that must be read again, and cannot be before the commit."""
        assert self._open is not None, "rows of an XA transaction stand between its start and its end"
        self._open.unread.add(table)
        self._changed = True

    def left_out(self, table: TableId) -> None:
        """A table map has passed whose rows are not sent: the table is not captured, has not joined yet, or is parked."""
        if self._open is not None and table not in self._open.left_out:
            self._open.left_out.add(table)
            self._changed = True

    def outside(self) -> None:
        """The log is between two transactions; an XA transaction always begins a batch of its own."""
        if self._open is not None:
            self._open = None
            self._changed = True

    def prepare(self, body: bytes) -> Ended:
        """The event XA PREPARE; one that commits in one phase is over with it."""
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
        """An XA statement of the log; None for any other one. ``at``: where the open transaction begins, if one is."""
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
        """The transaction has ended, and nothing of it is left to do."""
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
    """As the statements of the log write it: X'gtrid',X'bqual',format."""
    format_id, gtrid, bqual = (int.from_bytes(body[at : at + 4], "little") for at in (1, 5, 9))
    data = body[13:]
    return f"x'{data[:gtrid].hex()}',x'{data[gtrid : gtrid + bqual].hex()}',{format_id}"
