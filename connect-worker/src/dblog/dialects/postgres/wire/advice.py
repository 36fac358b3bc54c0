"""Advice about a server before a connector starts: what its slots keep, what ends a slot, and what is left of senders.

Nothing here stops a connector, so validation leaves it to the person who prepares the database
(``dblog doctor``). Each sentence names the section of the page that helps.
"""

from __future__ import annotations

from collections.abc import Iterator

from dblog.dialects.guide import Topic, cited
from dblog.dialects.postgres.wire.hosting import hosting_of, how_to_set
from dblog.dialects.postgres.wire.session import Session

KEPT_BYTES_MIN = 1 << 30
"""The smallest bound of a slot's log that lasts for an outage, and the most that a slot without a
reader may keep before it is named.
"""
_IDLE_TIMEOUT_SINCE = 180000
_KEPT_SQL = (
    "SELECT pg_catalog.pg_size_bytes(pg_catalog.current_setting('max_slot_wal_keep_size')) "
    "WHERE pg_catalog.current_setting('max_slot_wal_keep_size') <> '-1'"
)
_UNREAD_SQL = (
    "SELECT slot_name, pg_catalog.pg_wal_lsn_diff(CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() "
    "ELSE pg_catalog.pg_current_wal_lsn() END, restart_lsn)::bigint FROM pg_catalog.pg_replication_slots "
    "WHERE NOT active AND restart_lsn IS NOT NULL AND slot_name <> %s ORDER BY 2 DESC"
)
_SENDERS_SQL = (
    "SELECT pg_catalog.current_setting('max_wal_senders')::int - count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'walsender'"
)


def advise(session: Session, *, slot: str, unread_bytes_min: int = KEPT_BYTES_MIN) -> list[str]:
    """Return the advice. ``slot`` is the connector's own. A slot that nobody reads is named if it
    keeps at least ``unread_bytes_min`` of log.
    """
    flavor, hosting = "postgres", hosting_of(session)
    return [
        *(cited(text, flavor, Topic.RETENTION, hosting) for text in _of_retention(session, slot, unread_bytes_min)),
        *(cited(text, flavor, Topic.SETTINGS, hosting) for text in _of_senders(session)),
        *(cited(text, flavor, Topic.REPLICAS, hosting) for text in _of_standby(session)),
    ]


def _of_retention(session: Session, slot: str, unread_bytes_min: int) -> Iterator[str]:
    address = session.settings.address
    kept = session.wire.one(_KEPT_SQL, doing="asking how much log a slot keeps")
    if kept is None:
        yield (
            f"max_slot_wal_keep_size is -1 at {address}: while the connector is down, its slot keeps all log, until the disk is full and the server "
            "stops; watch dblog_task_log_needed_bytes, or give it a bound that lasts for your longest outage: ALTER SYSTEM SET max_slot_wal_keep_size = "
            "'100GB'; SELECT pg_reload_conf();"
        )
    elif kept < KEPT_BYTES_MIN:
        yield (
            f"max_slot_wal_keep_size is {session.setting('max_slot_wal_keep_size')} at {address}: a connector that is down while more is written loses "
            "its slot and has to dump all tables again; raise it"
        )
    if session.version >= _IDLE_TIMEOUT_SINCE and (idle := session.setting("idle_replication_slot_timeout")) not in (None, "0"):
        yield (
            f"idle_replication_slot_timeout is {idle} at {address}: the slot of a connector that is stopped for longer is lost, and all tables have to be "
            "dumped again; set it to 0, or to more than your longest outage"
        )
    for name, unread in session.query(_UNREAD_SQL, (slot,), doing="looking for slots that nobody reads"):
        if unread >= unread_bytes_min:
            yield (
                f"nobody reads the slot {name} at {address}, and it keeps {unread / 1e9:.1f} GB of log; if its reader is gone for good, run there: "
                f"SELECT pg_drop_replication_slot('{name}');"
            )


def _of_senders(session: Session) -> Iterator[str]:
    left = session.wire.one(_SENDERS_SQL, doing="counting who reads the log")
    if left < 1:
        yield (
            f"the server at {session.settings.address} has no room for another reader of its log (max_wal_senders), so the connector waits for one to end; "
            f"{how_to_set(hosting_of(session), 'max_wal_senders', '20')}"
        )


def _of_standby(session: Session) -> Iterator[str]:
    if session.is_standby and session.setting("hot_standby_feedback") != "on":
        yield (
            f"the server at {session.settings.address} is a standby with hot_standby_feedback=off: its primary may remove rows of the catalog that the slot "
            "needs, and the slot is lost then; run there ALTER SYSTEM SET hot_standby_feedback = on; SELECT pg_reload_conf();"
        )
