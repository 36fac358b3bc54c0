"""Where one timeline of a server left another: what a promoted standby tells of the server before it."""

from __future__ import annotations

from dblog.dialects.postgres.pgoutput.position import lsn_of
from dblog.dialects.postgres.wire.connect import ConnectSettings, open_wire


def switch_point(settings: ConnectSettings, timeline: int, before: int) -> int | None:
    """The LSN at which ``timeline`` or one between the two left the timeline ``before``; None where the server does not know of that.

    A walsender's session of its own asks it (PostgreSQL manual, "Streaming Replication Protocol", TIMELINE_HISTORY).
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
