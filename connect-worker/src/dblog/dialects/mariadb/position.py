"""Where in a MariaDB log something is: one GTID a replication domain. Files and offsets are as in MySQL.

Within a domain transactions are ordered, so the last GTID of each is enough ("0-1-100,5-2-7"). Rule source: MariaDB knowledge base "Global
Transaction ID". Debezium's offsets may hold several servers of one domain; the greatest sequence number of them is where the domain stands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from dblog.errors import DefiniteError


@dataclass(frozen=True, slots=True, order=True)
class Gtid:
    """One transaction: domain, the server that made it, sequence number."""

    domain: int
    server_id: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.domain}-{self.server_id}-{self.sequence}"

    @classmethod
    def parse(cls, text: str) -> Gtid:
        """From ``domain-server-sequence``; DefiniteError otherwise."""
        parts = text.split("-")
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts):  # noqa: PLR2004 - a GTID has three parts
            message = f"'{text[:100]}' is not a MariaDB GTID; correct the connector's offset (field gtids), or reset it"
            raise DefiniteError(message)
        return cls(*map(int, parts))


class GtidPosition:
    """The last GTID of each domain. ``add`` changes it in place; every other operation gives a new value."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[int, tuple[int, int]] = {}

    @classmethod
    def parse(cls, text: str) -> GtidPosition:
        """From the server's or an offset's text; DefiniteError when it is not one."""
        out = cls()
        for part in "".join(text.split()).split(","):
            if part:
                gtid = Gtid.parse(part)
                known = out.gtid(gtid.domain)
                if known is None or known.sequence < gtid.sequence:
                    out.add(gtid.domain, gtid.server_id, gtid.sequence)
        return out

    def add(self, domain: int, server_id: int, sequence: int) -> None:
        """The domain has come to this transaction. The log's order counts, not the number's: it may step back without strict mode."""
        self._last[domain] = (server_id, sequence)

    def add_all(self, gtids: Iterable[tuple[int, int, int]]) -> None:
        """Add a batch's finished transactions (``LogOffset.gtids_delta``)."""
        for domain, server_id, sequence in gtids:
            self._last[domain] = (server_id, sequence)

    def copy(self) -> GtidPosition:
        """An independent position."""
        out = GtidPosition()
        out._last = self._last.copy()
        return out

    def contains(self, other: GtidPosition) -> bool:
        """Whether this position has every transaction of the other behind it."""
        return all(domain in self._last and self._last[domain][1] >= last[1] for domain, last in other._last.items())

    def subtract(self, other: GtidPosition) -> GtidPosition:
        """The domains in which this position is later than the other, with their last GTIDs here."""
        out = GtidPosition()
        for domain, last in self._last.items():
            known = other._last.get(domain)
            if known is None or known[1] < last[1]:
                out.add(domain, *last)
        return out

    def gtid(self, domain: int) -> Gtid | None:
        """The domain's last GTID."""
        last = self._last.get(domain)
        return None if last is None else Gtid(domain, *last)

    def domains(self) -> tuple[int, ...]:
        """The domains, ascending."""
        return tuple(sorted(self._last))

    def text(self) -> str:
        """``@@gtid_binlog_pos``'s form, domains ascending."""
        return ",".join(f"{domain}-{server_id}-{sequence}" for domain, (server_id, sequence) in sorted(self._last.items()))

    def __bool__(self) -> bool:
        return bool(self._last)

    def __eq__(self, other: object) -> bool:
        return self._last == other._last if isinstance(other, GtidPosition) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # positions move in place

    def __repr__(self) -> str:
        return f"GtidPosition({self.text()!r})"


class BinlogState:
    """The newest transaction of each server in each domain (``@@gtid_binlog_state``): by it a server shows what its log has."""

    __slots__ = ("_last",)

    def __init__(self, gtids: Iterable[Gtid]) -> None:
        self._last: dict[tuple[int, int], int] = {}
        for gtid in gtids:
            key = gtid.domain, gtid.server_id
            self._last[key] = max(self._last.get(key, 0), gtid.sequence)

    @classmethod
    def parse(cls, text: str) -> BinlogState:
        """From the server's text; DefiniteError when it is none."""
        return cls(Gtid.parse(part) for part in "".join(text.split()).split(",") if part)

    def lacks(self, gtid: Gtid) -> bool:
        """Return whether the log is known not to have this transaction. One of a server that it has nothing of may have come with a copy, if its domain has
        got beyond it; then only the server knows.
        """
        last = self._last.get((gtid.domain, gtid.server_id))
        if last is None:
            last = max((sequence for (domain, _), sequence in self._last.items() if domain == gtid.domain), default=0)
        return last < gtid.sequence

    def got(self, missing: Collection[Gtid], *, without: int | None) -> str:
        """Return how far the log has come on its way to these transactions. ``without``: a server whose transactions do not count, since it may write them
        itself.

        The numbers of a domain rise, whoever writes: a log that has a later one than the missing one comes no nearer to it by any other.
        """
        upto = {gtid.domain: gtid.sequence for gtid in missing}
        return ",".join(
            f"{domain}-{server}-{min(last, upto[domain])}"
            for (domain, server), last in sorted(self._last.items())
            if domain in upto and server != without
        )
