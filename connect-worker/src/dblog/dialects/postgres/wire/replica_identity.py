"""Gives tables the REPLICA IDENTITY that replica.identity.autoset.values asks for (PostgreSQL
manual, ALTER TABLE, REPLICA IDENTITY).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import structlog

from dblog.config.replica_identities import OPTION, IdentityRule, ReplicaIdentity, identity_of
from dblog.dialects.postgres.catalog.sql import quote, quote_table
from dblog.dialects.postgres.wire.connect import LockedError, PrivilegeError
from dblog.dialects.postgres.wire.session import Session
from dblog.errors import DefiniteError
from dblog.model import TableId

log = structlog.get_logger(__name__)

_KINDS = {"d": "DEFAULT", "f": "FULL", "n": "NOTHING", "i": "INDEX"}
"""Names of identities by pg_class.relreplident."""


def set_identities(session: Session, tables: Iterable[TableId], rules: Sequence[IdentityRule]) -> None:
    """Alter the tables that have another identity. Raise ConfigError for a table with two rules,
    and DefiniteError for one that the account may not alter.
    """
    for table in tables:
        wanted = identity_of(str(table), rules)
        if wanted is None:
            continue
        # Rows are logged with the identity of their partition, whose index has another name.
        parts = [table] if wanted.index is not None else session.logged_as(table)
        for part in parts:
            if wanted != _identity(session, part):
                _set(session, part, wanted)


ALTER_LIMIT_MS = 1000
"""Milliseconds that an ALTER TABLE waits for its lock. Readers of the table wait after an ALTER
that waits itself, so it is short; the start tries again.
"""
ALTER_LIMIT_MAX_MS = 5000
"""Limit of that wait including the time after which an autovacuum gives way."""

_AUTOVACUUM_SQL = "SELECT (extract(epoch FROM pg_catalog.current_setting('deadlock_timeout')::interval) * 1000)::int"
"""Query for the milliseconds that a statement waits for a lock before the server cancels an
autovacuum that holds it (PostgreSQL manual, 25.1.6 "The Autovacuum Daemon").
"""


def _set(session: Session, table: TableId, wanted: ReplicaIdentity) -> None:
    log.info("setting the REPLICA IDENTITY of a table", table=str(table), identity=_text(wanted))
    statement = f"ALTER TABLE {quote_table(table)} REPLICA IDENTITY {_text(wanted)}"
    doing = f"setting the REPLICA IDENTITY of {table}"
    try:
        # A shorter wait never gets the lock from an autovacuum of the table, which may take hours.
        ((gives_way_ms,),) = session.query(_AUTOVACUUM_SQL, doing=doing)
        with session.lock_limit(min(gives_way_ms + ALTER_LIMIT_MS, ALTER_LIMIT_MAX_MS), doing=doing):
            session.query(statement, doing=doing)
    except PrivilegeError as e:
        message = f"the account may not set the REPLICA IDENTITY of {table} ({OPTION}); as its owner run: {statement}; then the connector leaves it alone"
        raise DefiniteError(message) from e
    except LockedError as e:
        message = f"{e}: others use the table for longer than a moment at a time; run there when it rests: {statement}; then the connector leaves it alone"
        raise LockedError(message) from e


def _identity(session: Session, table: TableId) -> ReplicaIdentity | None:
    """Return the table's current identity; None if the table is gone."""
    rows = session.query(
        "SELECT c.relreplident::text, (SELECT ic.relname FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class ic ON ic.oid = i.indexrelid "
        "WHERE i.indrelid = c.oid AND i.indisreplident) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relname = %s",
        (table.database, table.name),
        doing=f"reading the REPLICA IDENTITY of {table}",
    )
    if not rows:
        return None
    kind, index = rows[0]
    return ReplicaIdentity(_KINDS[kind], index if _KINDS[kind] == "INDEX" else None)


def _text(identity: ReplicaIdentity) -> str:
    return f"USING INDEX {quote(identity.index)}" if identity.index is not None else identity.kind
