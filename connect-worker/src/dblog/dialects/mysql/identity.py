"""Whether the log that a server has is the one that was read so far: file names and positions mean something in one log only. Pure.

A host name or a proxy may lead to another server at any connection, and the same server may have begun its log again (RESET). MySQL names itself by its
UUID. MariaDB has nothing but a server_id, which is 1 wherever nobody has set it; so there the GTID position that the log has at our place must be the one
that we have there, too. Both have file numbers that never fall while a log goes on, a name in front of them, and an end that no reader can be beyond.
"""

from __future__ import annotations

from dataclasses import dataclass

from dblog.dialects.mariadb.position import GtidPosition
from dblog.dialects.mysql.position import file_index

FILE_BEGIN = 4
"""The position of a file's first event. A log that is entered by GTIDs alone is at the first place of its oldest file, ahead of what the GTIDs say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLog:
    """The log that was read so far and the place in it; ``server`` None where an offset does not say it. ``gtids`` are those in front of the place, None
    where they are not to be compared; ``all_sources``: none of them were passed over.
    """

    server: str | None
    file: str
    pos: int
    gtids: str | None = None
    all_sources: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """A server and the end of its log."""

    server: str
    file: str
    pos: int


def why_other_log(known: KnownLog, now: LogEnd) -> str | None:
    """What shows that the server's log is not the known one; None when nothing does."""
    if known.server is not None and known.server != now.server:
        return f"the server is {now.server}, the log read so far is that of {known.server}"
    name, name_now = (file.rpartition(".")[0] for file in (known.file, now.file))
    if name != name_now:
        return f"its log files are called {name_now}, those read so far {name}"
    place, end = (file_index(known.file), known.pos), (file_index(now.file), now.pos)
    if end < place:
        return f"its log ends at {now.file}:{now.pos}, in front of {known.file}:{known.pos}, which was read before"
    return None


def why_other_gtids(known: KnownLog, there: str | None) -> str | None:
    """The same by what MariaDB says of our place: its GTID position there, None when the place is no event's begin."""
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
