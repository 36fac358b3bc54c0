"""How far a MariaDB log has been taken: as MySQL's, but that GTIDs are one for each replication domain."""

from __future__ import annotations

from collections.abc import Callable

from dblog.dialects.mariadb.position import GtidPosition
from dblog.dialects.mysql.binlog.offset import Gtids, LogProgress


class MariaDbProgress(LogProgress):
    """One connector's progress in a MariaDB log."""

    @staticmethod
    def parse_gtids(text: str) -> Gtids:
        """From the server's or an offset's text; DefiniteError when it is none."""
        return GtidPosition.parse(text)

    @staticmethod
    def gtids_include(text: str, others: str) -> bool:
        """Whether each domain has come at least as far as in the others."""
        return GtidPosition.parse(text).contains(GtidPosition.parse(others))

    def pass_over(self, gtids: str, wanted: Callable[[str], bool]) -> None:
        """Count the transactions of these whose source ``wanted`` does not select (domain-server) as read."""
        if not isinstance(self.gtids, GtidPosition):
            return
        theirs = GtidPosition.parse(gtids).subtract(self.gtids)
        found = (theirs.gtid(domain) for domain in theirs.domains())
        self.gtids.add_all((g.domain, g.server_id, g.sequence) for g in found if g is not None and not wanted(f"{g.domain}-{g.server_id}"))
