"""A test whether a MariaDB server's log is the one read so far, by the GTID position that it
reports for the position we read up to. Pure.

Independent servers often share a server_id, so MySQL's rules (mysql/binlog/identity.py) are not
enough here.
"""

from __future__ import annotations

from dblog.dialects.mariadb.position import GtidPosition
from dblog.dialects.mysql.binlog.identity import FILE_BEGIN, KnownLog


def why_other_gtids(known: KnownLog, there: str | None) -> str | None:
    """Return the reason why the server's log is another one; None if nothing shows that. ``there``
    is the server's GTID position at our position, None if no event begins there.
    """
    if known.gtids is None:
        return None
    where = f"{known.file}:{known.pos}"
    if there is None:
        return f"its log has no event at {where}, which was read before"
    ours, theirs = GtidPosition.parse(known.gtids), GtidPosition.parse(there)
    both = [(ours.gtid(domain), theirs.gtid(domain)) for domain in theirs.domains() if ours.gtid(domain) is not None]
    if not both and (ours or theirs) and known.pos > FILE_BEGIN:
        return f"its log is at the GTID position '{there}' at {where}, the one read so far at '{known.gtids}'"
    for our, their in both:
        assert our is not None
        assert their is not None
        behind = their.sequence < our.sequence and (known.pos <= FILE_BEGIN or not known.all_sources)
        if our != their and not behind:
            return f"its log is at GTID {their} at {where}, the one read so far at {our}"
    return None
