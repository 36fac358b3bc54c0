"""Whether the log that a server has is the one that was read so far: file names and positions mean something in one log only. Pure.

A host name or a proxy may lead to another server at any connection, and the same server may have begun its log again (RESET). MySQL names itself by its
UUID. MariaDB has nothing but a server_id, which is 1 wherever nobody has set it; so there the GTIDs in front of our position are compared, too
(mariadb/identity.py). Both have file numbers that never fall while a log goes on, a name in front of them, and an end that no reader can be beyond.
"""

from __future__ import annotations

from dataclasses import dataclass

from dblog.dialects.mysql.binlog.position import file_index

FILE_BEGIN = 4
"""The position of a file's first event. A log that is entered by GTIDs alone is at the first position of its oldest file, in front of the transactions that
the GTIDs name.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLog:
    """The log that was read so far and the position in it; ``server`` None where an offset does not name it. ``gtids`` are those in front of the
    position, None where they are not to be compared; ``all_sources``: none of them were passed over.
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
    read, end = (file_index(known.file), known.pos), (file_index(now.file), now.pos)
    if end < read:
        return f"its log ends at {now.file}:{now.pos}, in front of {known.file}:{known.pos}, which was read before"
    return None
