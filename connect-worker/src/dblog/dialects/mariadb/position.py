"""Positions in a MariaDB log: one GTID per replication domain. Files and offsets are as in MySQL.

Transactions of a domain are ordered, so the last GTID of each domain is enough ("0-1-100,5-2-7").
Rule source: MariaDB knowledge base "Global Transaction ID". Debezium's offsets may hold several
servers of one domain; the greatest sequence number among them is the domain's position.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from dblog.errors import DefiniteError


@dataclass(frozen=True, slots=True, order=True)
class Gtid:
    """The identity of one transaction: domain, server that wrote it, sequence number."""

    domain: int
    server_id: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.domain}-{self.server_id}-{self.sequence}"

    @classmethod
    def parse(cls, text: str) -> Gtid:
        """Parse ``domain-server-sequence``. Raise DefiniteError if the text is malformed."""
        parts = text.split("-")
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts):  # noqa: PLR2004 - a GTID has three parts
            message = f"'{text[:100]}' is not a MariaDB GTID; correct the connector's offset (field gtids), or reset it"
            raise DefiniteError(message)
        return cls(*map(int, parts))


class GtidPosition:
    """The last GTID of each domain. ``add`` and ``add_all`` change it in place; every other
    operation returns a new value.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[int, tuple[int, int]] = {}

    @classmethod
    def parse(cls, text: str) -> GtidPosition:
        """Parse the text of a server or an offset. Raise DefiniteError if it is malformed."""
        out = cls()
        for part in "".join(text.split()).split(","):
            if part:
                gtid = Gtid.parse(part)
                known = out.gtid(gtid.domain)
                if known is None or known.sequence < gtid.sequence:
                    out.add(gtid.domain, gtid.server_id, gtid.sequence)
        return out

    def add(self, domain: int, server_id: int, sequence: int) -> None:
        """Set the domain's last transaction. The order of the log counts, not that of the numbers,
        which may step back without strict mode.
        """
        self._last[domain] = (server_id, sequence)

    def add_all(self, gtids: Iterable[tuple[int, int, int]]) -> None:
        """Add the finished transactions of a batch (``LogOffset.gtids_delta``)."""
        for domain, server_id, sequence in gtids:
            self._last[domain] = (server_id, sequence)

    def copy(self) -> GtidPosition:
        """Return an independent copy."""
        out = GtidPosition()
        out._last = self._last.copy()
        return out

    def contains(self, other: GtidPosition) -> bool:
        """Return whether this position is at least as far as the other in each of the other's
        domains.
        """
        return all(domain in self._last and self._last[domain][1] >= last[1] for domain, last in other._last.items())

    def subtract(self, other: GtidPosition) -> GtidPosition:
        """Return the domains in which this position is later than the other, with their last GTIDs
        here.
        """
        out = GtidPosition()
        for domain, last in self._last.items():
            known = other._last.get(domain)
            if known is None or known[1] < last[1]:
                out.add(domain, *last)
        return out

    def gtid(self, domain: int) -> Gtid | None:
        """Return the domain's last GTID; None if the position has nothing of the domain."""
        last = self._last.get(domain)
        return None if last is None else Gtid(domain, *last)

    def domains(self) -> tuple[int, ...]:
        """Return the domains in ascending order."""
        return tuple(sorted(self._last))

    def text(self) -> str:
        """Return the position in the form of ``@@gtid_binlog_pos``, domains in ascending order."""
        return ",".join(f"{domain}-{server_id}-{sequence}" for domain, (server_id, sequence) in sorted(self._last.items()))

    def __bool__(self) -> bool:
        return bool(self._last)

    def __eq__(self, other: object) -> bool:
        return self._last == other._last if isinstance(other, GtidPosition) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # positions move in place

    def __repr__(self) -> str:
        return f"GtidPosition({self.text()!r})"


class BinlogState:
    """The newest transaction of each server in each domain (``@@gtid_binlog_state``), which shows
    what a server's log contains.
    """

    __slots__ = ("_last",)

    def __init__(self, gtids: Iterable[Gtid]) -> None:
        self._last: dict[tuple[int, int], int] = {}
        for gtid in gtids:
            key = gtid.domain, gtid.server_id
            self._last[key] = max(self._last.get(key, 0), gtid.sequence)

    @classmethod
    def parse(cls, text: str) -> BinlogState:
        """Parse the server's text. Raise DefiniteError if it is malformed."""
        return cls(Gtid.parse(part) for part in "".join(text.split()).split(",") if part)

    def lacks(self, gtid: Gtid) -> bool:
        """Return whether the log certainly lacks this transaction.

        If the log has nothing of the transaction's server but its domain is already further, the
        transaction may have come with a copy of the data. Then the answer is False, since only the
        server knows.
        """
        last = self._last.get((gtid.domain, gtid.server_id))
        if last is None:
            last = max((sequence for (domain, _), sequence in self._last.items() if domain == gtid.domain), default=0)
        return last < gtid.sequence

    def got(self, missing: Collection[Gtid], *, without: int | None) -> str:
        """Return how far the log is on its way to the missing transactions, as text, per domain and
        server.

        Numbers of a domain rise across all servers, so a sequence number is capped at the missing
        one: later transactions bring the log no nearer. Transactions of the server ``without`` do
        not count, since it may write them itself.
        """
        upto = {gtid.domain: gtid.sequence for gtid in missing}
        return ",".join(
            f"{domain}-{server}-{min(last, upto[domain])}"
            for (domain, server), last in sorted(self._last.items())
            if domain in upto and server != without
        )
