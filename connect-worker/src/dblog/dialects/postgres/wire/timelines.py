"""Reads where one timeline of a server left another, which a promoted standby knows about its
predecessor.
"""

from __future__ import annotations

from dblog.dialects.postgres.pgoutput.position import lsn_of
from dblog.dialects.postgres.wire.connect import ConnectSettings, open_wire


def switch_point(settings: ConnectSettings, timeline: int, before: int) -> int | None:
    """Return the LSN at which ``timeline``, or one between the two, left the timeline ``before``;
    None if the server does not know it.

    It asks on a separate walsender session (PostgreSQL manual, "Streaming Replication Protocol",
    TIMELINE_HISTORY).
    """
    if timeline <= before:
        return None
    wire = open_wire(settings, again=True, replication=True, name="dblog timeline")
    try:
        ((_, content),) = wire.query(f"TIMELINE_HISTORY {timeline}", doing="reading the timeline's history")
    finally:
        wire.close()
    text = content if isinstance(content, str) else bytes(content).decode()
    for line in text.splitlines():
        parts = line.split()
        if len(parts) > 1 and parts[0] == str(before):
            return lsn_of(parts[1])
    return None
