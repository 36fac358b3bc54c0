"""Whether the log of a MariaDB server is the one that was read so far: by the GTID position that it has at our position. Pure.

Independent servers often have one server_id, so what MySQL's rules state (mysql/binlog/identity.py) is not enough here.
"""

from __future__ import annotations

from dblog.dialects.mariadb.position import GtidPosition
from dblog.dialects.mysql.binlog.identity import FILE_BEGIN, KnownLog


def why_other_gtids(known: KnownLog, there: str | None) -> str | None:
    """What shows that it is another one; ``there`` is the server's GTID position at ours, None when no event begins there."""
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
