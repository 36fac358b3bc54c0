"""Defines PostgreSQL as a kind of database: the source of a connector, and queries without a
task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dblog.abort import Abort
from dblog.config.namespaces import Namespace
from dblog.config.options import Settings
from dblog.core.selection import Selection, named_parts
from dblog.core.timeline import Timeline
from dblog.core.unmatched_columns import describe_unmatched_columns
from dblog.dialects.answer_budget import CHECKS_BUDGET
from dblog.dialects.postgres.catalog.overrides import Overrides, not_taken, probes
from dblog.dialects.postgres.catalog.sql import quote
from dblog.dialects.postgres.catalog.tables import BUILTIN_SCHEMAS
from dblog.dialects.postgres.task.altered import check_altered
from dblog.dialects.postgres.task.checked import check_configured
from dblog.dialects.postgres.task.connections import by_root
from dblog.dialects.postgres.task.source import PostgresSource
from dblog.dialects.postgres.wire.advice import advise
from dblog.dialects.postgres.wire.connect import settings_of
from dblog.dialects.postgres.wire.session import Session, connect
from dblog.dialects.postgres.wire.slot import follow_publication
from dblog.errors import DefiniteError, TableChangedError
from dblog.model import OffsetMap, TableId
from dblog.readers.contract import Effects
from dblog.readers.topics import require_own_topics


class PostgresKind:
    """The PostgreSQL kind of database. Implements ``readers.contract.DatabaseKind``."""

    def source(self, settings: Settings) -> PostgresSource:
        """Return the source of a connector."""
        return PostgresSource(settings)

    def check(self, settings: Settings, *, limit_s: float, abort: Abort) -> list[str]:
        """Return warnings about the server: reachable, right login, a log of rows, privileges, slot
        and publication as far as they exist. Nothing is created.
        """
        overrides = Overrides(settings.originals)
        source = self.source(settings)
        selection = Selection.from_settings(
            settings.originals, namespace=Namespace.SCHEMA, builtin=BUILTIN_SCHEMAS, never=source.signal_tables
        )
        session = self._connect(settings, limit_s, abort)
        try:
            follow_publication(session, settings.text("publication.name"))
            tables = list(session.read_tables(selection.includes).values())
            named = named_parts(settings.originals, namespace=Namespace.SCHEMA)
            warnings = check_configured(
                session, settings, tables=tables, plans=source.plans, signal_tables=source.signal_tables, named=named
            )
            require_own_topics(settings, [table.id for table in tables])
            _require_taken(session, overrides, [table.id for table in tables])
            return [*warnings, *describe_unmatched_columns(settings.originals, tables)]
        finally:
            session.close()

    def advise(self, settings: Settings, *, limit_s: float, abort: Abort) -> list[str]:
        """Return advice about slots, senders and a standby."""
        session = self._connect(settings, limit_s, abort)
        try:
            return advise(session, slot=settings.text("slot.name"))
        finally:
            session.close()

    def superfluous(self, settings: Settings, *, limit_s: float, abort: Abort) -> list[str]:
        """Return the statement that removes superuser rights from the account, which needs only
        REPLICATION and SELECT.
        """
        session = self._connect(settings, limit_s, abort)
        try:
            superuser = session.wire.one(
                "SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user", doing="reading the account's privileges"
            )
        finally:
            session.close()
        return [f"ALTER ROLE {quote(settings.text('database.user'))} NOSUPERUSER REPLICATION;"] if superuser else []

    def check_offsets(self, prefix: str, changes: Sequence[tuple[Mapping[str, Any], OffsetMap | None]]) -> None:
        """Check offsets that a user gives, by the rules of this dialect."""
        check_altered(prefix, changes)

    def effects(self, settings: Settings, statement: str, timeline: Timeline, *, database: str, limit_s: float, abort: Abort) -> Effects:
        """Raise DefiniteError: the log of PostgreSQL has no statements to explain."""
        del settings, statement, timeline, database, limit_s, abort
        message = "the log of PostgreSQL holds no statements: its effect shows in the columns of later rows, which the connector follows"
        raise DefiniteError(message)

    def _connect(self, settings: Settings, limit_s: float, abort: Abort) -> Session:
        """Open a session without the user's initial statements, which may change something."""
        where = settings_of(settings)
        return connect(
            replace(
                where, connect_timeout_s=min(where.connect_timeout_s, limit_s), initial_statements=(), abort=abort, budget=CHECKS_BUDGET
            ),
            by_root=by_root(settings),
        )


def _require_taken(session: Session, overrides: Overrides, tables: Iterable[TableId]) -> None:
    """Raise ConfigError for the first configured condition of a SELECT that the server does not
    accept. No row is read.
    """
    for table, probe in probes(overrides, tables):
        try:
            session.try_condition(probe, doing=f"trying the condition of the SELECT for {table}")
        except (DefiniteError, TableChangedError) as e:
            raise not_taken(table, e) from e
