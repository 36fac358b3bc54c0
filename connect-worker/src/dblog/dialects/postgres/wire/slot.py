"""Manages the replication slot that keeps the log for a connector, and its publication (PostgreSQL
manual, 49.2.2 "Replication Slots", CREATE PUBLICATION).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import structlog

from dblog.dialects.postgres.catalog import publishing
from dblog.dialects.postgres.catalog.sql import quote, quote_table, quote_text
from dblog.dialects.postgres.pgoutput.offset import PostgresProgress
from dblog.dialects.postgres.pgoutput.position import lsn_of, lsn_text
from dblog.dialects.postgres.wire.connect import ConnectSettings, LockedError, PrivilegeError, PublicationMissingError, open_wire
from dblog.dialects.postgres.wire.session import Session
from dblog.dialects.postgres.wire.successor import require_reached
from dblog.errors import LOST_REMEDY, DefiniteError, PositionLostError, TransientError, discreet
from dblog.model import TableId

log = structlog.get_logger(__name__)

PLUGIN = "pgoutput"
_FAILOVER_SINCE = 170000
_OPTIONS_IN_BRACKETS_SINCE = 150000
_OF_SCHEMAS_SINCE = 150000


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A row of pg_replication_slots."""

    name: str
    plugin: str
    database: str | None
    active_pid: int | None
    confirmed_lsn: int
    wal_status: str | None
    """State of the slot's log; ``lost`` if the server has dropped log that the slot needs."""


def find_slot(session: Session, name: str) -> Slot | None:
    """Return the slot as it is now; None if there is none. Raise DefiniteError for a physical
    slot.
    """
    rows = session.query(
        "SELECT slot_name, plugin, database, active_pid, confirmed_flush_lsn::text, wal_status, slot_type "
        "FROM pg_catalog.pg_replication_slots WHERE slot_name = %s",
        (name,),
        doing=f"looking for the slot {name}",
    )
    if not rows:
        return None
    _, plugin, database, pid, confirmed, wal_status, kind = rows[0]
    if kind != "logical":
        message = f"the replication slot {name} is a physical one; name another with slot.name, or drop it: SELECT pg_drop_replication_slot('{name}')"
        raise DefiniteError(message)
    return Slot(
        name=name,
        plugin=plugin,
        database=database,
        active_pid=pid,
        confirmed_lsn=0 if confirmed is None else lsn_of(confirmed),
        wal_status=wal_status,
    )


def require_ours(slot: Slot, settings: ConnectSettings) -> None:
    """Raise DefiniteError for a slot of another plugin or database, and PositionLostError for one
    that has lost its log.
    """
    if slot.plugin != PLUGIN:
        message = (
            f"the slot {slot.name} decodes with {slot.plugin}, and this connector reads {PLUGIN}; name another slot with slot.name, or drop it: "
            f"SELECT pg_drop_replication_slot('{slot.name}')"
        )
        raise DefiniteError(message)
    if slot.database != settings.database:
        message = f"the slot {slot.name} is of database '{slot.database}', the connector of '{settings.database}'; name another slot with slot.name"
        raise DefiniteError(message)
    if slot.wal_status == "lost":
        message = (
            f"the server has dropped log that the slot {slot.name} needs (max_slot_wal_keep_size, or the slot was invalidated), so changes after "
            f"{lsn_text(slot.confirmed_lsn)} are lost; drop it with SELECT pg_drop_replication_slot('{slot.name}'); {LOST_REMEDY}"
        )
        raise PositionLostError(message)


def require_position(session: Session, name: str, at: PostgresProgress) -> None:
    """Raise PositionLostError if the slot cannot deliver what follows a position: it is gone, was
    created again, or another reader has moved it on. The server itself would silently begin further
    on.
    """
    found = find_slot(session, name)
    if found is None:
        message = (
            f"the replication slot {name} no longer exists, so changes after {at} may be lost; {LOST_REMEDY}. The connector makes the slot when it "
            "starts. After a failover a slot is there only with slot.failover=true"
        )
        raise PositionLostError(message)
    require_ours(found, session.settings)
    require_reached(session, at)
    if found.confirmed_lsn > at.at.lsn:
        message = (
            f"the slot {name} has been read up to {lsn_text(found.confirmed_lsn)}, and the connector up to {at}: the changes in between cannot be read again; "
            f"{LOST_REMEDY}; or set offset.mismatch.strategy=trust_slot to go on without them"
        )
        raise PositionLostError(message)


def create_slot(settings: ConnectSettings, name: str, *, version: int, failover: bool) -> int:
    """Create the slot on a separate replication connection, which waits for every open transaction.
    Return the LSN from which all changes come.

    Snapshots taken from now on show every transaction that ended before this LSN. No snapshot is
    exported.
    """
    wire = open_wire(settings, again=True, replication=True, name="dblog slot")
    options = "(SNAPSHOT 'nothing')" if version >= _OPTIONS_IN_BRACKETS_SINCE else "NOEXPORT_SNAPSHOT"
    if failover:
        if version < _FAILOVER_SINCE:
            wire.close()
            message = f"slot.failover=true needs PostgreSQL 17, and {settings.address} runs {version // 10000}; set slot.failover=false"
            raise DefiniteError(message)
        options = "(SNAPSHOT 'nothing', FAILOVER)"
    try:
        ((_, lsn, *_),) = wire.query(f'CREATE_REPLICATION_SLOT "{name}" LOGICAL {PLUGIN} {options}', doing=f"making the slot {name}")
        return lsn_of(lsn)
    finally:
        wire.close()


_FREED_TRIES, _FREED_INTERVAL_S = 50, 0.1


def _await_free(session: Session, name: str) -> bool:
    """Return True once no process reads the slot: the walsender of a run that has ended may not
    have noticed yet.
    """
    for _ in range(_FREED_TRIES):
        if not session.query("SELECT FROM pg_catalog.pg_replication_slots WHERE slot_name = %s AND active_pid IS NOT NULL", (name,)):
            return True
        time.sleep(_FREED_INTERVAL_S)
    return False


def drop_slot(session: Session, name: str) -> bool:
    """Drop the slot if it exists. Return False if another process reads it."""
    if not _await_free(session, name):
        return False
    session.query(
        "SELECT pg_catalog.pg_drop_replication_slot(slot_name) FROM pg_catalog.pg_replication_slots WHERE slot_name = %s",
        (name,),
        doing=f"dropping the slot {name}",
    )
    return True


_NEWER_PUBLICATION_SQL = (
    "SELECT pg_catalog.age(p.xmin) <= pg_catalog.age(s.catalog_xmin) FROM pg_catalog.pg_publication p, pg_catalog.pg_replication_slots s "
    "WHERE p.pubname = %s AND s.slot_name = %s"
)
"""Query that is true if the publication was created or altered after the point up to which the slot
keeps the catalog. Only then may it be missing there.
"""
_PEEK_LIMIT_MS = 5000

_WRITTEN_SQL = (
    "SELECT p.xmin FROM p UNION ALL SELECT r.xmin FROM pg_catalog.pg_publication_rel r JOIN p ON p.oid = r.prpubid",
    " UNION ALL SELECT n.xmin FROM pg_catalog.pg_publication_namespace n JOIN p ON p.oid = n.pnpubid",
)
"""Queries for the transactions that wrote a publication and its entries; the second part is for
version 15 and later.
"""


def is_older_than_publication(session: Session, name: str, publication: str) -> bool:
    """Return True if the slot exists and the publication may have got tables since it was created:
    nobody waited for the transactions that were writing to them then.
    """
    written = "".join(_WRITTEN_SQL if session.version >= _OF_SCHEMAS_SINCE else _WRITTEN_SQL[:1])
    return bool(
        session.query(
            "WITH p AS (SELECT oid, xmin FROM pg_catalog.pg_publication WHERE pubname = %s) SELECT 1 FROM pg_catalog.pg_replication_slots s "
            f"WHERE s.slot_name = %s AND EXISTS (SELECT FROM ({written}) e WHERE pg_catalog.age(e.xmin) <= pg_catalog.age(s.catalog_xmin))",
            (publication, name),
            doing=f"looking for the publication {publication}",
        )
    )


def can_decode(session: Session, name: str, publication: str) -> bool:
    """Return True if the slot's next transactions can be decoded with the publication. Only those
    that the server decodes within a few seconds are tried.
    """
    if not session.wire.one(_NEWER_PUBLICATION_SQL, (publication, name), doing=f"looking for the publication {publication}"):
        return True
    _await_free(session, name)
    limit_ms = int((session.settings.statement_timeout_s or 0) * 1000)
    warnings = session.wire.connection.notices
    warnings.clear()
    session.query(f"SET statement_timeout = {_PEEK_LIMIT_MS}", doing=f"looking into the slot {name}")
    try:
        session.query(
            "SELECT count(*) FROM pg_catalog.pg_logical_slot_peek_binary_changes(%s, NULL, NULL, 'proto_version', '1', 'publication_names', %s)",
            (name, quote(publication)),
            doing=f"looking into the slot {name}",
        )
    except PublicationMissingError:
        return False
    except (TransientError, DefiniteError) as e:
        log.info("the slot cannot be looked into, so its reading shows it", slot=name, reason=discreet(e))
    finally:
        session.query(f"SET statement_timeout = {limit_ms}", doing=f"looking into the slot {name}")
    # A warning is all that version 18 gives.
    return not any(publication in warning for warning in warnings)


# ---- the publication


_ADMINISTRATOR_SQL = (
    "SELECT r.rolsuper OR EXISTS (SELECT FROM pg_catalog.pg_roles m WHERE m.rolname IN ('rds_superuser', 'azure_pg_admin', 'cloudsqlsuperuser') "
    "AND pg_catalog.pg_has_role(r.oid, m.oid, 'member')) FROM pg_catalog.pg_roles r WHERE r.rolname = current_user"
)
_NOT_OWNED_SQL = (
    "SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN unnest(%s::text[], %s::text[]) AS t (schema, name) "
    "ON n.nspname = t.schema AND c.relname = t.name WHERE NOT pg_catalog.pg_has_role(c.relowner, 'USAGE') LIMIT 1"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A row of pg_publication, with the tables that it publishes."""

    name: str
    all_tables: bool
    operations: frozenset[str]
    by_root: bool
    tables: frozenset[TableId]
    filtered: frozenset[TableId]
    """Tables of which it publishes only some rows."""


def find_publication(session: Session, name: str) -> Publication | None:
    """Return the publication as it is now; None if there is none."""
    rows = session.query(
        "SELECT puballtables, pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot FROM pg_catalog.pg_publication WHERE pubname = %s",
        (name,),
        doing=f"looking for the publication {name}",
    )
    if not rows:
        return None
    all_tables, *kinds, by_root = rows[0]
    tables = session.query(publishing.tables_sql(name, version=session.version), doing=f"listing the publication {name}")
    operations = [kind for kind, on in zip(("insert", "update", "delete", "truncate"), kinds, strict=True) if on]
    return Publication(
        name=name,
        all_tables=all_tables,
        operations=frozenset(operations),
        by_root=by_root,
        tables=frozenset(TableId(schema, table) for schema, table, _ in tables),
        filtered=frozenset(TableId(schema, table) for schema, table, some in tables if some),
    )


def publishes_all(session: Session, name: str) -> bool:
    """Return True if the publication has all tables, including those created later."""
    return bool(
        session.wire.one(
            "SELECT puballtables FROM pg_catalog.pg_publication WHERE pubname = %s", (name,), doing=f"looking for the publication {name}"
        )
    )


def follow_publication(session: Session, name: str) -> Publication | None:
    """Make the session follow the publication, whatever the configuration would create, and return
    it; None if there is none.

    Tables then have the columns that the publication lists, and rows of partitions come under the
    name that it gives them.
    """
    session.publication = name
    found = find_publication(session, name)
    if found is not None:
        session.by_root = found.by_root
    return found


def create_publication(session: Session, name: str, tables: Sequence[TableId] | None, *, by_root: bool) -> None:
    """Create the publication for these tables; None for all, including those created later."""
    doing = f"making the publication {name}"
    try:
        with session.lock_limit(ADD_LIMIT_MS, doing=doing):
            session.query(_publication_statement(name, tables, by_root=by_root), doing=doing)
    except PrivilegeError as e:
        message = f"{e}; {_make_it_yourself(session, name, tables, by_root=by_root)}"
        raise PrivilegeError(message) from e
    except LockedError as e:
        raise _locked(session, e, tables or (), _publication_statement(name, tables, by_root=by_root)) from e


def lacks_to_create(session: Session, name: str, tables: Sequence[TableId] | None, *, by_root: bool) -> str | None:
    """Return the sentence about an account that may not create the publication, with the statement
    for one that may; None if it may. Nothing is created.

    Providers of managed servers let their administrators do what otherwise needs a superuser, so
    for these accounts the start finds out.
    """
    if session.wire.one(_ADMINISTRATOR_SQL, doing="reading the account's privileges"):
        return None
    allowed = session.wire.one(
        "SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')", doing="reading the account's privileges"
    )
    if allowed and tables is not None:
        allowed = not session.query(
            _NOT_OWNED_SQL, ([table.database for table in tables], [table.name for table in tables]), doing="looking for the tables' owners"
        )
    if allowed and tables is not None:
        return None
    return (
        f"user '{session.settings.user}' may not make the publication {name}; {_make_it_yourself(session, name, tables, by_root=by_root)}"
    )


def _publication_statement(name: str, tables: Sequence[TableId] | None, *, by_root: bool) -> str:
    what = " FOR ALL TABLES" if tables is None else f" FOR TABLE {', '.join(map(quote_table, tables))}" if tables else ""
    options = " WITH (publish_via_partition_root = true)" if by_root else ""
    return f"CREATE PUBLICATION {quote(name)}{what}{options}"


def _make_it_yourself(session: Session, name: str, tables: Sequence[TableId] | None, *, by_root: bool) -> str:
    who = "a superuser" if tables is None else f"the owner of the tables with CREATE on database {session.settings.database}"
    statement = _publication_statement(name, tables, by_root=by_root)
    return f"run there as {who}: {statement}; or set publication.autocreate.mode=disabled and make it yourself"


ADD_LIMIT_MS = 10_000
"""Milliseconds to wait for the locks of a publication's tables; the start tries again."""


def add_tables(session: Session, publication: str, tables: Sequence[TableId]) -> None:
    """Add these tables to the publication. This does not wait for transactions that are writing to
    them; what these wrote before is in no record.
    """
    statement = f"ALTER PUBLICATION {quote(publication)} ADD TABLE {', '.join(map(quote_table, tables))}"
    doing = f"adding tables to the publication {publication}"
    try:
        with session.lock_limit(ADD_LIMIT_MS, doing=doing):
            session.query(statement, doing=doing)
    except PrivilegeError as e:
        message = f"{e}; run there as the owner of the publication and the tables: {statement}"
        raise PrivilegeError(message) from e
    except LockedError as e:
        raise _locked(session, e, tables, statement) from e


_LOCKING_SQL = (
    "SELECT n.nspname, c.relname, array_agg(DISTINCT l.pid) FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c ON c.oid = l.relation "
    "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE l.granted AND l.pid <> pg_catalog.pg_backend_pid() "
    "AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()) AND l.mode IN "
    "('ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock') "
    "AND (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::name[], %s::name[])) GROUP BY n.nspname, c.relname ORDER BY 1, 2 LIMIT 3"
)
"""Query for sessions that hold a lock for which a change of a publication waits. The change takes
SHARE UPDATE EXCLUSIVE (PostgreSQL manual, 13.3.1 "Table-Level Locks").
"""


def _locked(session: Session, error: LockedError, tables: Sequence[TableId], statement: str) -> LockedError:
    found = session.query(
        _LOCKING_SQL, ([table.database for table in tables], [table.name for table in tables]), doing="asking who locks the tables"
    )
    holders = [f"{TableId(schema, name)} is locked by process {', '.join(map(str, pids))}" for schema, name, pids in found]
    told = "; ".join(holders) or "one of its tables was locked"
    return LockedError(
        f"{error}: {told} (pg_stat_activity shows what it does). It is tried again; or run this there while the table is idle: {statement}"
    )


def options_of(publication: str, *, streaming: bool = False, further: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the options of START_REPLICATION for pgoutput (PostgreSQL manual, 55.5 "Logical
    Streaming Replication Parameters"). With ``streaming``, large transactions come before they end.
    ``further`` are the user's own options.
    """
    options = {"proto_version": "1", "publication_names": quote(publication), "messages": "true", **further}
    if streaming:
        options |= {"proto_version": "2", "streaming": "on"}
    return ", ".join(f"{key} {quote_text(value)}" for key, value in options.items())
