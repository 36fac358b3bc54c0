"""The progress of reading a MariaDB log: as in MySQL, but with one GTID per replication domain."""

from __future__ import annotations

from collections.abc import Callable

from dblog.dialects.mariadb.position import GtidPosition
from dblog.dialects.mysql.binlog.offset import Gtids, LogProgress


class MariaDbProgress(LogProgress):
    """The progress of one connector in a MariaDB log."""

    @staticmethod
    def parse_gtids(text: str) -> Gtids:
        """Parse the text of a server or an offset. Raise DefiniteError if it is malformed."""
        return GtidPosition.parse(text)

    @staticmethod
    def gtids_include(text: str, others: str) -> bool:
        """Return whether ``text`` is at least as far as ``others`` in each domain of ``others``."""
        return GtidPosition.parse(text).contains(GtidPosition.parse(others))

    def pass_over(self, gtids: str, wanted: Callable[[str], bool]) -> None:
        """Count transactions of ``gtids`` as read if ``wanted`` does not select their source
        (domain-server).
        """
        if not isinstance(self.gtids, GtidPosition):
            return
        theirs = GtidPosition.parse(gtids).subtract(self.gtids)
        found = (theirs.gtid(domain) for domain in theirs.domains())
        self.gtids.add_all((g.domain, g.server_id, g.sequence) for g in found if g is not None and not wanted(f"{g.domain}-{g.server_id}"))
