"""Finds out which server a connection has reached: its system identifier and its current timeline.

Only IDENTIFY_SYSTEM gives a standby's timeline (PostgreSQL manual, "Streaming Replication
Protocol"): that of the record replayed last. The control file follows with the next restartpoint,
which may be half an hour later.
"""

from __future__ import annotations

from dblog.dialects.postgres.wire.connect import Wire, open_wire


def identified(wire: Wire) -> str:
    """Return the identity of the server that a replication connection has reached: ``<system
    identifier>/<timeline>``.
    """
    ((system, timeline, *_),) = wire.query("IDENTIFY_SYSTEM", doing="asking which server it is")
    return f"{system}/{timeline}"


def system_of(wire: Wire) -> str:
    """Return the system identifier, which a primary and its standbys share."""
    return str(wire.one("SELECT system_identifier FROM pg_catalog.pg_control_system()", doing="asking which server it is"))


def identity_of(wire: Wire) -> str:
    """Return ``<system identifier>/<timeline>`` for an ordinary connection. A standby is asked on a
    separate replication connection.
    """
    if wire.one("SELECT pg_catalog.pg_is_in_recovery()", doing="asking whether it is a standby"):
        walsender = open_wire(wire.settings, again=True, replication=True, name="dblog timeline")
        try:
            return identified(walsender)
        finally:
            walsender.close()
    file = wire.one("SELECT pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn())", doing="asking for the timeline")
    return f"{system_of(wire)}/{int(str(file)[:8], 16)}"


def moved_to(address: str, was: str, now: str) -> str:
    """Return a description, for an error, of a change of the server at an address. A promoted
    standby stays the same server.
    """
    (system, _, timeline), (was_system, _, was_timeline) = now.partition("/"), was.partition("/")
    if system != was_system:
        return f"a server of another cluster answers at {address} now (system {system}, not {was_system})"
    return f"the server at {address} is on timeline {timeline} now, and was on {was_timeline}: it was promoted, follows a server that was, or is another one"
