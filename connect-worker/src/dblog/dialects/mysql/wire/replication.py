"""A test whether a server still receives transactions from others: by its replication channels, its
group, or its Galera cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dblog.core.successor import Receives
from dblog.dialects.mysql.wire.connect import PrivilegeError, Wire

_GROUP_NAME = "SHOW GLOBAL VARIABLES LIKE 'group_replication_group_name'"
_MEMBER_STATE = "SELECT MEMBER_STATE FROM performance_schema.replication_group_members WHERE MEMBER_ID = @@GLOBAL.server_uuid"
_WSREP_CONNECTED = "SHOW GLOBAL STATUS LIKE 'wsrep_connected'"
_DOING = "asking whether the server replicates"


def received_by(wire: Wire, replica_statement: str) -> tuple[Receives, float | None]:
    """Return the state of the server's replication, and its lag in seconds if it reports one. A
    group or a cluster reports none.
    """
    try:
        found, lag_s = of_channels(wire.query_named(replica_statement, doing=_DOING))
        if found is Receives.NOTHING and any(value for _, value in wire.query(_GROUP_NAME, doing=_DOING)):
            # SHOW REPLICA STATUS does not have a group's channels.
            states = [str(state).upper() for (state,) in wire.query(_MEMBER_STATE, doing=_DOING)]
            found = Receives.FOLLOWS if set(states) & {"ONLINE", "RECOVERING"} else Receives.STOPPED
        if found is Receives.NOTHING and any(str(value).upper() == "ON" for _, value in wire.query(_WSREP_CONNECTED, doing=_DOING)):
            found = Receives.FOLLOWS
    except PrivilegeError:
        return Receives.UNKNOWN, None
    return found, lag_s


def of_channels(rows: Sequence[Mapping[str, Any]]) -> tuple[Receives, float | None]:
    """Return the state and lag by the rows of SHOW REPLICA STATUS, one per channel. The most active
    channel counts, and the longest lag.
    """
    channels = [_of_channel({name.lower(): value for name, value in row.items()}) for row in rows]
    best = max((receives for receives, _ in channels), key=_ORDER.index, default=Receives.NOTHING)
    lags = [lag_s for _, lag_s in channels if lag_s is not None]
    return best, max(lags, default=None)


_ORDER = (Receives.NOTHING, Receives.STOPPED, Receives.DISCONNECTED, Receives.FOLLOWS)


def _of_channel(row: Mapping[str, Any]) -> tuple[Receives, float | None]:
    """Return the state and lag of a channel. MySQL renamed these columns in 8.0.22."""
    receives, applies = (
        str(row.get(f"replica_{thread}_running", row.get(f"slave_{thread}_running", "No"))).lower() for thread in ("io", "sql")
    )
    lag = row.get("seconds_behind_source", row.get("seconds_behind_master"))
    lag_s = None if lag is None else float(lag)
    if applies != "yes":
        return Receives.STOPPED, lag_s
    if receives == "yes":
        return Receives.FOLLOWS, lag_s
    if receives == "no":
        # Received transactions may still be applied: the server reports a lag until that is done.
        return (Receives.STOPPED, None) if not lag_s else (Receives.FOLLOWS, lag_s)
    return Receives.DISCONNECTED, lag_s
