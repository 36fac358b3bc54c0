"""MySQL and MariaDB as kinds of databases: the source of a connector, and questions that need no
task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dblog.abort import Abort
from dblog.config.options import Settings
from dblog.core.pressure import Limit
from dblog.core.selection import Selection, named_parts
from dblog.core.timeline import AFTER_ALL, Timeline
from dblog.core.unmatched_columns import describe_unmatched_columns
from dblog.dialects.answer_budget import CHECKS_BUDGET
from dblog.dialects.mysql.catalog import sql
from dblog.dialects.mysql.ddl.overrides import Overrides, not_taken, probes
from dblog.dialects.mysql.task import altered
from dblog.dialects.mysql.task.dialect import BinlogDialect, rereads, writes_watermarks
from dblog.dialects.mysql.task.source import BinlogSource
from dblog.dialects.mysql.wire.advice import advise
from dblog.dialects.mysql.wire.check import check
from dblog.dialects.mysql.wire.grants import superfluous
from dblog.dialects.mysql.wire.session import Session, settings_of
from dblog.errors import DefiniteError, TableChangedError
from dblog.model import OffsetMap, TableId
from dblog.readers.contract import Effects
from dblog.readers.options import dump_limits
from dblog.readers.start import dumps_at_all
from dblog.readers.topics import require_own_topics


class BinlogKind:
    """A kind of database with a binlog. Implements ``readers.contract.DatabaseKind``."""

    def __init__(self, dialect: BinlogDialect) -> None:
        self._dialect = dialect

    def source(self, settings: Settings) -> BinlogSource:
        """Return the source of a connector."""
        return BinlogSource(self._dialect, settings)

    def check(self, settings: Settings, *, limit_s: float, abort: Abort) -> list[str]:
        """Check address, login, log and privileges; return warnings. The watermark table is created
        only when the task starts.
        """
        overrides = Overrides(settings.originals)
        watermarks = sql.parse_table_name(settings.text("dblog.watermark.table"))
        selection = Selection.from_settings(
            settings.originals, builtin=sql.BUILTIN_DATABASES, never=self.source(settings).signal_tables | {watermarks}
        )
        writes = writes_watermarks(settings) and (dumps_at_all(settings.text("snapshot.mode")) or rereads(settings))
        session = self._connect(settings, limit_s, abort, budget=CHECKS_BUDGET)
        try:
            tables = session.read_catalog(selection.includes)
            warnings = check(
                session,
                server_id=settings.integer("database.server.id"),
                tables=tables,
                watermarks=watermarks if writes else None,
                rereads=rereads(settings),
                named=named_parts(settings.originals),
                make=False,
                read_only=not writes_watermarks(settings),
            )
            require_own_topics(settings, [table.id for table in tables])
            _require_taken(session, overrides, [table.id for table in tables])
            return [*warnings, *describe_unmatched_columns(settings.originals, tables)]
        finally:
            session.close()

    def advise(self, settings: Settings, *, limit_s: float, abort: Abort) -> list[str]:
        """Return advice about the log's retention and the server's replication."""
        selection = Selection.from_settings(
            settings.originals,
            builtin=sql.BUILTIN_DATABASES,
            never=self.source(settings).signal_tables | {sql.parse_table_name(settings.text("dblog.watermark.table"))},
        )
        session = self._connect(settings, limit_s, abort, budget=CHECKS_BUDGET)
        try:
            return advise(session, [table.id for table in session.read_catalog(selection.includes)])
        finally:
            session.close()

    def superfluous(self, settings: Settings, *, limit_s: float, abort: Abort) -> list[str]:
        """Return statements that revoke the account's superfluous privileges, by SHOW GRANTS."""
        watermarks = sql.parse_table_name(settings.text("dblog.watermark.table"))
        selection = Selection.from_settings(
            settings.originals, builtin=sql.BUILTIN_DATABASES, never=self.source(settings).signal_tables | {watermarks}
        )
        writes = writes_watermarks(settings) and (dumps_at_all(settings.text("snapshot.mode")) or rereads(settings))
        session = self._connect(settings, limit_s, abort, budget=CHECKS_BUDGET)
        try:
            captured = [table.id for table in session.read_catalog(selection.includes)]
            grants = [str(row[0]) for row in session.query("SHOW GRANTS", doing="listing the account's privileges")]
            return list(
                superfluous(
                    grants,
                    user=session.current_user(),
                    status=session.status_privilege,
                    captured=captured,
                    named=named_parts(settings.originals),
                    watermarks=watermarks if writes else None,
                    measures=_measures(session, dump_limits(settings), replica=settings.text_or_none("dblog.dump.hostname") is not None),
                )
            )
        finally:
            session.close()

    def check_offsets(self, prefix: str, changes: Sequence[tuple[Mapping[str, Any], OffsetMap | None]]) -> None:
        """Raise DefiniteError for offsets that the dialect cannot start from."""
        altered.check_altered(self._dialect.progress, prefix, changes)

    def effects(self, settings: Settings, statement: str, timeline: Timeline, *, database: str, limit_s: float, abort: Abort) -> Effects:
        """Return the effects of a statement, parsed like one from the log. The server is asked for
        its version and defaults.
        """
        session = self._connect(settings, limit_s, abort)
        try:
            parse = self._dialect.text_parser(session.facts, timeline)
        finally:
            session.close()
        changes = tuple(parse(statement, database, AFTER_ALL))
        return Effects(changes=changes, rewritten=self._dialect.rewritten(changes, timeline.lookup_before(AFTER_ALL)))

    def _connect(self, settings: Settings, limit_s: float, abort: Abort, **more: Any) -> Session:
        """Connect without the user's initial statements, because they may change something."""
        where = settings_of(settings)
        timeout_s = min(where.connect_timeout_s, limit_s)
        return self._dialect.connect(replace(where, connect_timeout_s=timeout_s, initial_statements=(), abort=abort, **more))


def _require_taken(session: Session, overrides: Overrides, tables: Iterable[TableId]) -> None:
    """Raise ConfigError for the first condition of a user's SELECT that the server rejects. No row
    is read.
    """
    doing = "trying the conditions of SELECTs"
    tried = probes(overrides, tables)
    if not tried:
        return
    session.query("START TRANSACTION READ ONLY", doing=doing)
    for table, probe in tried:
        try:
            session.query(probe, doing=f"trying the condition of the SELECT for {table}")
        except (DefiniteError, TableChangedError) as e:
            raise not_taken(table, e) from e
    session.query("ROLLBACK", doing=doing)


def _measures(session: Session, limits: Mapping[Limit, float], *, replica: bool) -> list[str]:
    """Return the privileges on the whole server by which these limits of dumps are measured.
    ``replica``: chunks come from a replica, which must show its filters.
    """
    privileges = {
        Limit.TRANSACTION_AGE: "PROCESS",
        Limit.HISTORY_LENGTH: session.history_privilege,
        Limit.REPLICA_LAG: session.replica_privilege,
    }
    wanted = [privilege for limit, privilege in privileges.items() if limit in limits] + [session.replica_privilege] * replica
    return [privilege for privilege in dict.fromkeys(wanted) if privilege is not None]
