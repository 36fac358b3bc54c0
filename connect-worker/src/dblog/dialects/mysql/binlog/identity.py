"""A test whether a server's log is the one read so far, since file names and positions are valid in
one log only. Pure.

A host name or a proxy may lead to another server at any connection, and the same server may have
started its log again (RESET). MySQL identifies itself by its UUID. MariaDB has only a server_id,
which is 1 unless it was set, so there the GTIDs before our position are compared too
(mariadb/identity.py). In both, file numbers never fall while a log continues, file names keep their
prefix, and no reader can be past the end.
"""

from __future__ import annotations

from dataclasses import dataclass

from dblog.dialects.mysql.binlog.position import file_index

FILE_BEGIN = 4
"""The position of a file's first event. A log that is entered by GTIDs alone is at the first
position of its oldest file, before the transactions that the GTIDs name.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLog:
    """The log read so far, and the position in it. ``server`` is None if the offset does not name
    it. ``gtids`` are those before the position, None if they are not to be compared.
    ``all_sources``: no source was excluded.
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
    """Return the reason why the server's log is not the known one; None if nothing shows that."""
    if known.server is not None and known.server != now.server:
        return f"the server is {now.server}, the log read so far is that of {known.server}"
    name, name_now = (file.rpartition(".")[0] for file in (known.file, now.file))
    if name != name_now:
        return f"its log files are called {name_now}, those read so far {name}"
    read, end = (file_index(known.file), known.pos), (file_index(now.file), now.pos)
    if end < read:
        return f"its log ends at {now.file}:{now.pos}, before {known.file}:{known.pos}, which has been read"
    return None
