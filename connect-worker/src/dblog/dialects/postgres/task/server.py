"""Represents one PostgreSQL server for the reader layer: its session, its positions and schemas,
and its connections for log and chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import structlog

from dblog.abort import Abort
from dblog.config.replica_identities import OPTION as IDENTITIES
from dblog.config.replica_identities import identity_rules
from dblog.core.selection import Parts, Selection
from dblog.core.surrogate import keyed_by
from dblog.core.table_dump import Key
from dblog.core.timeline import Database, Timeline
from dblog.dialects.postgres.catalog import conditions, given_keys
from dblog.dialects.postgres.catalog.index_orders import order_fault
from dblog.dialects.postgres.catalog.overrides import Overrides
from dblog.dialects.postgres.catalog.publishing import Entries
from dblog.dialects.postgres.pgoutput.items import LogOffset
from dblog.dialects.postgres.pgoutput.offset import PostgresProgress
from dblog.dialects.postgres.pgoutput.position import lsn_text
from dblog.dialects.postgres.task.checked import check_configured
from dblog.dialects.postgres.task.connections import Connections, by_root
from dblog.dialects.postgres.task.log import PostgresLog
from dblog.dialects.postgres.task.plans import PostgresPlans
from dblog.dialects.postgres.task.schemas import PostgresSchemas
from dblog.dialects.postgres.task.watch import PostgresWatch, ServerLoad
from dblog.dialects.postgres.wire.check import lacks_tables, require_readable
from dblog.dialects.postgres.wire.connect import TABLE_CHANGED, settings_of
from dblog.dialects.postgres.wire.dump import DumpConnection
from dblog.dialects.postgres.wire.estimates import row_estimates
from dblog.dialects.postgres.wire.replica_identity import set_identities
from dblog.dialects.postgres.wire.session import Session, connect
from dblog.dialects.postgres.wire.slot import (
    add_tables,
    can_decode,
    create_publication,
    create_slot,
    drop_slot,
    find_publication,
    find_slot,
    is_older_than_publication,
    require_ours,
    require_position,
)
from dblog.dialects.postgres.wire.successor import require_same_history
from dblog.errors import DefiniteError, PositionLostError, TableChangedError, TableDeniedError, discreet
from dblog.model import OffsetMap, Table, TableId
from dblog.readers.contract import ESTIMATED_MAX, LogSchemas, Progress, TableResolver, TaskContext
from dblog.readers.start import may_start_over

log = structlog.get_logger(__name__)

CHECK_LIMIT_MS = 2000
"""Milliseconds that the check of a request waits for a lock on a table."""


class PostgresServer:
    """The server of one task. Implements ``readers.contract.Server``. One session serves the
    starting thread, then the log thread.
    """

    log_has_statements = False

    def __init__(
        self, connections: Connections, plans: PostgresPlans, *, watermark_table: TableId, signal_tables: frozenset[TableId]
    ) -> None:
        self.connections = connections
        self._plans = plans
        self.chunk_sql = plans.chunk_sql
        self.settings = connections.settings
        self.watermark_table = watermark_table
        self.signal_tables = signal_tables
        self._overrides = Overrides(connections.settings.originals)
        self._numbered: dict[int, Table] = {}
        self._lacking: list[TableId] = []
        """Tables that the publication lacks and that will be added."""
        self._selection: Selection | None = None
        self._publication_is_new = False
        self._is_resumed = False
        """True if the log continues from a stored position."""
        self._put_back: frozenset[TableId] = frozenset()
        """Tables that this start has added to the publication."""

    @property
    def session(self) -> Session:
        """Current session."""
        return self.connections.session

    def close(self) -> None:
        """Close the session."""
        self.session.close()

    # ---- start

    def check(self, tables: Sequence[Table], *, watermarks: TableId | None, named: Parts) -> list[str]:
        """Check everything that the server must provide and return warnings. Then create the
        publication and set replica identities, if the configuration says so.
        """
        del watermarks
        warnings = check_configured(
            self.session, self.settings, tables=tables, plans=self._plans, signal_tables=self.signal_tables, named=named, starts=True
        )
        set_identities(self.session, [table.id for table in tables], identity_rules(self.settings.text_or_none(IDENTITIES)))
        self._publish([table.id for table in tables])
        return warnings

    def _publish(self, tables: list[TableId]) -> None:
        """Create or plan the publication that publication.autocreate.mode asks for. This comes
        before the slot, because a slot decodes with the catalog of its time.
        """
        mode, name = self.settings.text("publication.autocreate.mode"), self.connections.publication
        if mode == "disabled":
            return
        found = find_publication(self.session, name)
        wanted = [*tables, *sorted(self.signal_tables)]
        if found is None:
            log.info("making the publication", publication=name, mode=mode)
            chosen = None if mode == "all_tables" else [] if mode == "no_tables" else wanted
            create_publication(self.session, name, chosen, by_root=by_root(self.settings))
            self._publication_is_new = True
            # What is written to the tables until then would be in no record.
            if mode == "no_tables" and wanted:
                raise DefiniteError(lacks_tables(name, wanted))
        elif mode == "filtered" and not found.all_tables:
            self._lacking = [table for table in wanted if table not in found.tables]

    def complete_log(self, lacking: Callable[[list[TableId]], None]) -> None:
        """Add the tables that the publication lacks to it. If nothing is stored yet, tables that it
        has got since the slot was created lack rows too, and are reported as lacking.
        """
        if not self._is_resumed and is_older_than_publication(self.session, self.connections.slot, self.connections.publication):
            lacking([table.id for table in self._numbered.values()])
        if not self._lacking:
            return
        name = self.connections.publication
        lacking([table for table in self._lacking if table not in self.signal_tables])
        log.info("adding tables to the publication", publication=name, tables=[str(table) for table in self._lacking[:20]])
        add_tables(self.session, name, self._lacking)
        self._put_back = frozenset(self._lacking)
        entries = self.session.publication_entries()
        self._numbered = {number: replace(table, published_by=entries.of(number)) for number, table in self._numbered.items()}
        self._lacking = []

    def now(self) -> PostgresProgress:
        """Return the position at the end of the log."""
        return self._progress(self.session.log_end())

    def begin(self) -> PostgresProgress:
        """Return the position where the slot begins; create the slot if there is none. An existing
        slot without an offset was created for this connector, so reading begins there.
        """
        name, settings = self.connections.slot, settings_of(self.settings)
        found = find_slot(self.session, name)
        if found is not None:
            try:
                require_ours(found, settings)
            except PositionLostError as e:
                log.warning("the slot has lost its log, and nothing was stored of it: it is made again", slot=name, reason=str(e))
                drop_slot(self.session, name)
                found = None
        if found is not None:
            return self._progress(found.confirmed_lsn)
        log.info("making the slot, which waits for transactions that are under way", slot=name)
        lsn = create_slot(settings, name, version=self.session.version, failover=self.settings.boolean("slot.failover"))
        return self._progress(lsn)

    def oldest(self) -> PostgresProgress:
        """Return the position where the slot begins."""
        return self.begin()

    def _progress(self, lsn: int) -> PostgresProgress:
        return PostgresProgress(
            LogOffset(lsn=lsn),
            database=self.session.settings.database,
            server=self.session.identity,
            standby_started_us=self._standby_started_us(),
        )

    def resume(self, progress: Progress) -> bool:
        """Prepare to continue at a stored position. The slot must exist and must not have moved
        past it. Return True if the epoch must rise, since LSNs may repeat after a promotion.
        """
        assert isinstance(progress, PostgresProgress), "made by this dialect"
        session, name = self.session, self.connections.slot
        self._is_resumed = True
        other = progress.server is not None and progress.server != session.identity
        found = find_slot(session, name)
        if other:
            require_same_history(session, progress, confirmed_lsn=0 if found is None else found.confirmed_lsn)
        trusts = self.settings.text("offset.mismatch.strategy") in ("trust_slot", "trust_greater_lsn")
        if found is not None and found.confirmed_lsn > progress.at.lsn and trusts:
            log.warning(
                "the slot is ahead of the offset, going on there (offset.mismatch.strategy)",
                offset=str(progress),
                slot=lsn_text(found.confirmed_lsn),
            )
            progress.at = LogOffset(lsn=found.confirmed_lsn)
        require_position(session, name, progress)
        if may_start_over(self.settings.text("snapshot.mode")):
            self._require_publication(progress)
        progress.server, progress.standby_started_us = session.identity, self._standby_started_us()
        return other

    def _standby_started_us(self) -> int:
        return self.session.process_started_us() if self.connections.is_standby else 0

    def _require_publication(self, progress: PostgresProgress) -> None:
        """Raise PositionLostError if the publication did not exist after the position: the slot
        cannot deliver that part, so it is dropped.
        """
        name, publication = self.connections.slot, self.connections.publication
        if not self._publication_is_new and can_decode(self.session, name, publication):
            return
        drop_slot(self.session, name)
        message = (
            f"the publication {publication} was missing for a time after {progress}, and the log of that time cannot be read: the slot {name} is dropped, and "
            "all is dumped again"
        )
        raise PositionLostError(message)

    # ---- schemas

    def read_tables(self, include: Callable[[TableId], bool]) -> list[Table]:
        """Return every table that ``include`` accepts and whose rows are logged."""
        found = self.session.read_tables(include)
        self._numbered = found
        return sorted(found.values(), key=lambda table: table.id)

    def read_databases(self) -> dict[str, Database]:
        """Return {}: tables inherit nothing from a schema."""
        return {}

    def take_over(self, records: Iterable[bytes], timeline: Timeline, *, prefix: str, offset: OffsetMap) -> int:
        """Read the tables from the catalog and return their number. Debezium's PostgreSQL connector
        keeps no schema history, and the log shows where tables were different.
        """
        del records, prefix
        progress = PostgresProgress.of_offset(offset, database=self.session.settings.database)
        tables = self.read_tables(timeline.captures)
        for table in tables:
            timeline.put(table, progress.sequence, note=progress.note())
        return len(tables)

    def at_start(self, include: Callable[[TableId], bool]) -> list[Any]:
        """Return []: Debezium's PostgreSQL connector reports no schemas."""
        del include
        return []

    def of_statement(self, statement: Any, changes: Any, *, after: Any, includes: Any, includes_database: Any) -> list[Any]:
        """Return []: Debezium's PostgreSQL connector reports no changes of schemas."""
        del statement, changes, after, includes, includes_database
        return []

    def schemas(self, timeline: Timeline, context: TaskContext, *, epoch: int) -> PostgresSchemas:
        """Return the schemas of the task's tables, filled with what the start has read."""
        schemas = PostgresSchemas(self.connections, timeline, context, epoch=epoch)
        self.connections.entries = Entries((number, entry) for number, table in self._numbered.items() for entry in table.published_by)
        schemas.know(self._numbered, put_back=self._put_back)
        self._selection = context.selection
        return schemas

    # ---- connections

    def log(self, schemas: LogSchemas, resolve: TableResolver, context: TaskContext) -> PostgresLog:
        """Return the log of a task."""
        assert isinstance(schemas, PostgresSchemas), "made by this dialect"
        return PostgresLog(self.connections, schemas, resolve, context, signal_tables=self.signal_tables)

    def open_watch(self, abort: Abort) -> PostgresWatch:
        """Open a separate session for queries about the log."""
        return PostgresWatch(self.connections, abort, selection=self._selection)

    def open_load(self, abort: Abort) -> ServerLoad:
        """Open a separate session for queries about the load."""
        return ServerLoad(self.connections, abort)

    def own_condition(self, table: TableId) -> str | None:
        """Return the condition of a table's first dump by snapshot.select.statement.overrides; None
        for all rows.
        """
        return self._overrides.condition(table)

    def open_chunks(self) -> DumpConnection:
        """Open connections for chunks and watermarks."""
        return self.connections.open_chunks(self.chunk_sql)

    # ---- requests

    def _asking(self) -> Session:
        """Open a session for the checks of one request."""
        with self.connections.opening():
            return connect(settings_of(self.settings), by_root=by_root(self.settings), again=True)

    def prepare_dump(self, tables: Sequence[Table]) -> dict[TableId, int]:
        """Check that the account can read the tables, and return row estimates unless there are too
        many tables. It uses a separate session.
        """
        session = self._asking()
        try:
            if session.identity != self.connections.identity:
                raise self.connections.changed(session.identity)
            require_readable(session, map(self.chunk_sql.of, tables))
            return {} if len(tables) > ESTIMATED_MAX else row_estimates(session, [table.id for table in tables])
        finally:
            session.close()

    def check_surrogate(self, tables: Sequence[Table], column: str) -> None:
        """Raise DefiniteError if a table cannot be read in the order of this column. The log has
        every change of a row, even one made by a foreign key. But an index must provide the order,
        and the log shows only the names of an index's columns.
        """
        session = self._asking()
        try:
            parts = session.index_parts([table.id for table in tables])
        finally:
            session.close()
        for table in tables:
            key = keyed_by(table, column).key
            if key != table.key and (fault := order_fault(key, parts.get(table.id, []))) is not None:
                message = (
                    f"{table.id} cannot be read in the order of {', '.join(key)}: {fault}; so the server would sort the table for each chunk. Create an index "
                    f"on ({', '.join(key)}), in the order that these columns have by default"
                )
                raise DefiniteError(message)

    def check_conditions(self, conditions_of: Sequence[tuple[Table, str]]) -> None:
        """Raise DefiniteError for a condition that cannot be used. The texts are checked first,
        then the server checks them all, on one connection and in a READ ONLY transaction.
        """
        for table, where in conditions_of:
            if (fault := conditions.fault_of(where)) is not None:
                message = f"the predicate of {table.id} cannot be used: {fault}"
                raise DefiniteError(message)
        connection = self.open_chunks()
        try:
            connection.limit_locks(CHECK_LIMIT_MS)
            connection.begin_snapshot()
            for table, where in conditions_of:
                try:
                    connection.select(conditions.probe(table.id, where), (), table=table.id)
                except TableDeniedError:
                    raise
                # A missing column looks like a table that has changed.
                except (DefiniteError, TableChangedError) as e:
                    message = f"the server does not take the predicate of {table.id}"
                    refused = DefiniteError(f"{message}: {str(e).removesuffix(TABLE_CHANGED)}")
                    refused.discreet = f"{message}: {discreet(e)}"
                    raise refused from e
        finally:
            connection.close()

    def check_keys(self, table: Table, keys: Sequence[Key]) -> None:
        """Raise DefiniteError for keys that do not fit the types of the key's columns."""
        given_keys.check(table, keys)

    def try_keys(self, table: Table, keys: Sequence[Key]) -> None:
        """Raise DefiniteError if the server does not accept one of the keys. All are tried, in
        parts.
        """
        connection = self.open_chunks()
        try:
            connection.limit_locks(CHECK_LIMIT_MS)
            connection.begin_snapshot()
            for numbers, (text, parameters) in given_keys.probes(table, keys):
                try:
                    connection.select(text, parameters, table=table.id)
                except TableDeniedError:
                    raise
                except DefiniteError as e:
                    message = f"the server does not take {numbers} for {table.id}: {e}"
                    raise DefiniteError(message) from e
        finally:
            connection.close()
