"""A MySQL or MariaDB server for the reader layer: its session, its positions and schemas, and its
connections for log and chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import structlog

from dblog.abort import Abort
from dblog.core.changes import Change
from dblog.core.selection import Parts
from dblog.core.surrogate import keyed_by
from dblog.core.table_dump import Key
from dblog.core.timeline import Database, Timeline
from dblog.dialects.mysql.binlog.identity import FILE_BEGIN
from dblog.dialects.mysql.binlog.offset import LogProgress
from dblog.dialects.mysql.catalog import given_keys, sql
from dblog.dialects.mysql.catalog.index_orders import order_fault
from dblog.dialects.mysql.catalog.information_schema import read_databases
from dblog.dialects.mysql.ddl.conditions import fault_of, probe
from dblog.dialects.mysql.ddl.overrides import Overrides
from dblog.dialects.mysql.ddl.schema_changes import SchemaChange, initial_changes, schema_changes
from dblog.dialects.mysql.task.connections import Connections
from dblog.dialects.mysql.task.dialect import gtid_filter, rereads, writes_watermarks
from dblog.dialects.mysql.task.load import ServerLoad
from dblog.dialects.mysql.task.log import BinlogLog
from dblog.dialects.mysql.task.schemas import BinlogSchemas
from dblog.dialects.mysql.task.takeover import take_over
from dblog.dialects.mysql.task.watch import TABLES_ASKED_MAX, BinlogWatch
from dblog.dialects.mysql.wire.check import check
from dblog.dialects.mysql.wire.connect import PrivilegeError
from dblog.dialects.mysql.wire.dump import DumpConnection
from dblog.dialects.mysql.wire.session import Session, settings_of
from dblog.errors import LOST_REMEDY, DefiniteError, PositionLostError, ServerChangedError, TableChangedError, TableDeniedError, discreet
from dblog.model import OffsetMap, Table, TableId
from dblog.readers.contract import ESTIMATED_MAX, LogSchemas, Progress, TableResolver, TaskContext
from dblog.readers.items import Statement

log = structlog.get_logger(__name__)


OWN_TRANSACTIONS = "transactions of its own"
"""The key of the standing warning about a replica that was written to."""
CHECK_LIMIT_S = 2
"""The longest wait, in seconds, of a request's check for a table that another session locks (LOCK
TABLES, a waiting DDL statement).
"""


class BinlogServer:
    """A MySQL or MariaDB server. Implements ``readers.contract.Server``. Its session serves the
    starting thread, then the log thread.
    """

    chunk_sql = sql
    log_has_statements = True

    def __init__(self, connections: Connections) -> None:
        self.connections = connections
        self.dialect = connections.dialect
        self.settings = connections.settings
        self._overrides = Overrides(connections.settings.originals)

    @property
    def session(self) -> Session:
        """The current session."""
        return self.connections.session

    @property
    def watermark_table(self) -> TableId:
        """The watermark table as the log names it."""
        return self.connections.watermark_table

    @property
    def signal_tables(self) -> frozenset[TableId]:
        """The signal tables as the log names them."""
        return self.connections.signal_tables

    def close(self) -> None:
        """Close the session."""
        self.session.close()

    # ---- start

    def check(self, tables: Sequence[Table], *, watermarks: TableId | None, named: Parts) -> list[str]:
        """Raise DefiniteError if the server lacks something that is needed; return the warnings
        otherwise.
        """
        server_id = self.settings.integer("database.server.id")
        return check(
            self.session,
            server_id=server_id,
            tables=tables,
            watermarks=watermarks,
            rereads=rereads(self.settings),
            named=named,
            read_only=not writes_watermarks(self.settings),
        )

    def complete_log(self, lacking: Callable[[list[TableId]], None]) -> None:
        """Do nothing: the binlog has all rows."""
        del lacking

    def now(self) -> LogProgress:
        """Return the end of the log. In read-only mode watermarks are compared by it, so its GTIDs
        must contain everything before it.
        """
        written = writes_watermarks(self.settings)
        file, pos, gtids = self.session.current_position() if written else self.session.honest_position()
        return self._progress(file, pos, gtids)

    def begin(self) -> LogProgress:
        """Return the end of the log."""
        return self.now()

    def oldest(self) -> LogProgress:
        """Return the beginning of the log."""
        return self._progress(self.session.log_files()[0].name, FILE_BEGIN, self.session.purged_gtids())

    def _progress(self, file: str, pos: int, gtids: str) -> LogProgress:
        return self.dialect.progress(
            file=file, pos=pos, gtids=gtids if self.session.facts.uses_gtids else None, server=self.session.identity
        )

    def resume(self, progress: Progress) -> bool:
        """Check the position, after following to another server by GTIDs and counting unwanted
        transactions as read. Return whether the server is another one.
        """
        assert isinstance(progress, LogProgress), "made by this dialect"
        was = progress.server
        reason = self._follow(progress)
        wanted = gtid_filter(self.settings)
        if wanted is not None and progress.gtids:
            # The server refuses a reader that lacks any purged transaction, even one of an unwanted
            # source.
            progress.pass_over(self.session.purged_gtids(), wanted)
        self.session.check_position(
            file=progress.file,
            pos=progress.pos,
            gtids=None if progress.gtids is None else progress.gtids.text(),
            wanted=wanted,
            read_ts_s=progress.ts_sec,
        )
        if reason is not None:
            log.warning("another server answers; going on by GTIDs", was=was, now=self.session.identity, reason=reason)
            self._warn_of_its_own(progress)
        if not writes_watermarks(self.settings):
            self._prepare_marks(progress)
        return reason is not None

    def _warn_of_its_own(self, progress: LogProgress) -> None:
        """Warn of a replica's own transactions, from direct writes or from its time as a primary.
        Its log has these rows before others that were sent already.
        """
        own = "" if progress.gtids is None else self.session.own_unread(progress.gtids.text())
        if own:
            text = (
                f"the server at {self.session.settings.address} is a replica and has transactions of its own that no server read before had: {own}. They are "
                "sent now, and their rows may be older than what was sent of other servers: request a dump with mode=repair of the tables that they changed"
            )
            log.warning("a replica has transactions of its own", reason=text)
            self.connections.warnings.raise_warning(OWN_TRANSACTIONS, text, lasting=True)

    def _prepare_marks(self, progress: LogProgress) -> None:
        """Note the GTIDs that only another server had, which are lost. Snapshots must show all
        others that were read, in earlier runs too.
        """
        if progress.gtids is None:
            message = (
                "the connector's offset has no GTIDs (it was stored while the server did not use them), and read.only=true proves its windows by them; "
                "reset the connector's offsets to dump again, or remove read.only"
            )
            raise DefiniteError(message)
        absent = progress.gtids.subtract(self.dialect.progress.parse_gtids(self.session.present_gtids()))
        self.connections.absent_gtids = absent or None

    def _follow(self, progress: LogProgress) -> str | None:
        """Return the reason why this is another server's log than the one of the offset's file
        names; None if nothing shows that. Raise PositionLostError if there are no GTIDs to continue
        by.

        On another server only GTIDs carry over, and the epoch must rise (D7). The position becomes
        the beginning of the new log, before every row that can come, including rows that the GTIDs
        skip.
        """
        session = self.session
        by_gtids = bool(progress.gtids) and session.facts.uses_gtids
        other_server = progress.server is not None and progress.server != session.identity
        # Without both, the check of the file gives a better error.
        reason = session.why_other_log(self.connections.known(progress)) if by_gtids or other_server else None
        if reason is not None:
            if not by_gtids:
                lacks = "it does not use them (gtid_mode)" if progress.gtids else "the offset has no GTIDs"
                message = (
                    f"the server at {session.settings.address} is not the one that wrote the stored offset ({reason}), and only GTIDs would show where to go "
                    f"on: {lacks}; point the connector at the old server; {LOST_REMEDY}"
                )
                raise PositionLostError(message)
            progress.file, progress.pos = session.log_files()[0].name, FILE_BEGIN
            progress.event = progress.packed_event = progress.row = 0
            progress.transaction = None
        progress.server = session.identity
        return reason

    # ---- schemas

    def read_tables(self, include: Callable[[TableId], bool]) -> list[Table]:
        """Return every base table that ``include`` accepts."""
        return self.session.read_catalog(include)

    def read_databases(self) -> dict[str, Database]:
        """Return the charset and collation of each database."""
        return {found.name: Database(found.charset, found.collation) for found in read_databases(self.session.execute)}

    def take_over(self, records: Iterable[bytes], timeline: Timeline, *, prefix: str, offset: OffsetMap) -> int:
        """Replay the statements of Debezium's schema history."""
        parse = self.dialect.text_parser(self.session.facts, timeline)
        return take_over(records, timeline, server=prefix, offset=offset, parse=parse, include=self.dialect.progress.gtids_include)

    def at_start(self, include: Callable[[TableId], bool]) -> list[SchemaChange]:
        """Return each table's CREATE TABLE. A table whose text may not be read is left out, since
        nothing depends on it.
        """
        texts = []
        for table in self.session.read_catalog(include):
            try:
                texts.append((table, self.session.show_create(table.id)))
            except DefiniteError as e:
                log.warning("a table is left out of the schema-change topic", table=str(table.id), reason=str(e))
        defaults = {name: (found.charset, found.collation) for name, found in self.read_databases().items()}
        server = (self.session.facts.charset, self.session.facts.collation)
        return initial_changes(texts, defaults, server=server, comments=self._comments)

    def of_statement(
        self,
        statement: Statement,
        changes: Sequence[Change],
        *,
        after: Callable[[TableId], Table | None],
        includes: Callable[[TableId], bool],
        includes_database: Callable[[str], bool],
    ) -> list[SchemaChange]:
        """Return one record for each table that the statement touches, or one for its database."""
        return schema_changes(
            changes,
            statement.text,
            default_database=statement.database,
            after=after,
            captured=includes,
            database=includes_database,
            comments=self._comments,
        )

    @property
    def _comments(self) -> bool:
        return self.settings.boolean("include.schema.comments")

    def schemas(self, timeline: Timeline, context: TaskContext, *, epoch: int) -> BinlogSchemas:
        """Return the schemas of the log."""
        return BinlogSchemas(self.connections, timeline, context, epoch=epoch)

    # ---- connections

    def log(self, schemas: LogSchemas, resolve: TableResolver, context: TaskContext) -> BinlogLog:
        """Return the binlog."""
        assert isinstance(schemas, BinlogSchemas), "made by this dialect"
        return BinlogLog(self.connections, schemas, resolve, context)

    def open_watch(self, abort: Abort) -> BinlogWatch:
        """Open a separate session for questions about the log."""
        return BinlogWatch(self.connections, abort)

    def open_load(self, abort: Abort) -> ServerLoad:
        """Open a separate session for questions about the load."""
        return ServerLoad(self.connections, abort)

    def own_condition(self, table: TableId) -> str | None:
        """Return the condition in snapshot.select.statement.overrides; None if it has none for the
        table.
        """
        return self._overrides.condition(table)

    def open_chunks(self) -> DumpConnection:
        """Open connections for chunks and watermarks."""
        return self.connections.open_chunks()

    # ---- requests

    def _asking(self) -> Session:
        """Open a session for the questions of one request."""
        with self.connections.opening():
            session = self.dialect.connect(settings_of(self.settings), again=True)
        try:
            session.limit_lock_waits(CHECK_LIMIT_S)
        except BaseException:
            session.close()
            raise
        return session

    def prepare_dump(self, tables: Sequence[Table]) -> dict[TableId, int]:
        """Check the tables and estimate their rows, on a separate session. Creates the watermark
        table if the connector has not needed it yet.
        """
        session = self._asking()
        try:
            if session.identity != self.connections.identity:
                message = f"another server answers at {session.settings.address} now"
                raise ServerChangedError(message)
            writes = writes_watermarks(self.settings)
            check(
                session,
                server_id=self.settings.integer("database.server.id"),
                tables=tables,
                watermarks=self.watermark_table if writes else None,
                rereads=rereads(self.settings),
                read_only=not writes,
            )
            if len(tables) > ESTIMATED_MAX:
                return {}
            return session.row_estimates([table.id for table in tables], one_by_one=len(tables) <= TABLES_ASKED_MAX)
        finally:
            session.close()

    def check_surrogate(self, tables: Sequence[Table], column: str) -> None:
        """Raise DefiniteError if the tables cannot be read in the order of the column.

        An action of a foreign key in the storage engine changes the column without a row event, so
        a row that moves into a range already read would be missed. The log shows only the columns
        of an index, not its order.
        """
        session = self._asking()
        try:
            found = session.cascaded(column)
            parts = session.index_parts([table.id for table in tables])
        finally:
            session.close()
        for table in tables:
            key = keyed_by(table, column).key
            if key != table.key and (fault := order_fault(table, key, parts[table.id])) is not None:
                message = (
                    f"{table.id} cannot be read in the order of {', '.join(key)}: {fault}; so the server would sort the table for each chunk. Create an index "
                    f"on {key[0]} that is neither hidden nor descending"
                )
                raise DefiniteError(message)
            if (foreign_key := found.get(table.id)) is not None:
                message = (
                    f"{table.id} cannot be read by its column {column}, which its foreign key {foreign_key} changes without a trace in the log; name another "
                    "column, or request the dump without surrogate_key"
                )
                raise DefiniteError(message)

    def check_conditions(self, conditions: Sequence[tuple[Table, str]]) -> None:
        """Raise DefiniteError for a condition that cannot be used. The texts are checked first,
        then the server tries all of them on one connection, in a READ ONLY transaction.
        """
        for table, where in conditions:
            if (fault := fault_of(where)) is not None:
                message = f"the predicate of {table.id} cannot be used: {fault}"
                raise DefiniteError(message)
        connection = self.open_chunks()
        try:
            connection.begin_snapshot()
            for table, where in conditions:
                try:
                    connection.select(probe(table.id, where), (), table=table.id)
                except (PrivilegeError, TableDeniedError):
                    raise
                # A missing column looks like a changed table.
                except (DefiniteError, TableChangedError) as e:
                    message = f"the server does not take the predicate of {table.id}"
                    refused = DefiniteError(f"{message}: {e}")
                    refused.discreet = f"{message}: {discreet(e)}"
                    raise refused from e
        finally:
            connection.close()

    def check_keys(self, table: Table, keys: Sequence[Key]) -> None:
        """Raise DefiniteError for keys that do not fit the columns' types."""
        given_keys.check(table, keys)

    def try_keys(self, table: Table, keys: Sequence[Key]) -> None:
        """Raise DefiniteError for keys that the server rejects, tried in groups."""
        connection = self.open_chunks()
        try:
            for numbers, (text, parameters) in given_keys.probes(table, keys):
                try:
                    connection.select(text, parameters, table=table.id)
                except (PrivilegeError, TableDeniedError):
                    raise
                except DefiniteError as e:
                    message = f"the server does not take {numbers} for {table.id}: {e}"
                    raise DefiniteError(message) from e
        finally:
            connection.close()
