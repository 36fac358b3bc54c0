"""Gives tables the REPLICA IDENTITY that replica.identity.autoset.values wants (PostgreSQL manual, ALTER TABLE, REPLICA IDENTITY)."""

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
"""pg_class.relreplident."""


def set_identities(session: Session, tables: Iterable[TableId], rules: Sequence[IdentityRule]) -> None:
    """Alter the tables that have another one. ConfigError for a table of two rules, DefiniteError for one that the account may not alter."""
    for table in tables:
        wanted = identity_of(str(table), rules)
        if wanted is None:
            continue
        # Rows are logged by the identity of their partition, whose index has a name of its own.
        parts = [table] if wanted.index is not None else session.logged_as(table)
        for part in parts:
            if wanted != _identity(session, part):
                _set(session, part, wanted)


ALTER_LIMIT_MS = 1000
"""Whoever reads the table waits behind an ALTER TABLE that waits itself. The start tries again."""
ALTER_LIMIT_MAX_MS = 5000
"""With what an autovacuum has to give way."""

_AUTOVACUUM_SQL = "SELECT (extract(epoch FROM pg_catalog.current_setting('deadlock_timeout')::interval) * 1000)::int"
"""How long a statement waits for a lock before the server has an autovacuum give way that holds it (PostgreSQL manual, 25.1.6 "The Autovacuum Daemon")."""


def _set(session: Session, table: TableId, wanted: ReplicaIdentity) -> None:
    log.info("setting the REPLICA IDENTITY of a table", table=str(table), identity=_text(wanted))
    statement = f"ALTER TABLE {quote_table(table)} REPLICA IDENTITY {_text(wanted)}"
    doing = f"setting the REPLICA IDENTITY of {table}"
    try:
        # A shorter wait never has the table from an autovacuum of it, which may take hours.
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
    """What the table has; None for one that is gone."""
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
