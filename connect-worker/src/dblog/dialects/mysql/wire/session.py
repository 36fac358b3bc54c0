"""A session with one MySQL server: facts about it, positions of its log, and its connections for
log and dump.

This is the dialect's access to the database, on top of connect.py, log.py, dump.py and check.py;
all other files are pure. Statements whose spelling or meaning depends on version or flavor are
methods here, which MariaDB's session overrides.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dblog.core.successor import Answering, Receives, Waits, Why, verdict_on
from dblog.dialects.guide import Hosting
from dblog.dialects.mysql.binlog.identity import FILE_BEGIN, KnownLog, LogEnd, why_other_log
from dblog.dialects.mysql.binlog.position import GtidSet, file_index
from dblog.dialects.mysql.catalog import information_schema, sql
from dblog.dialects.mysql.catalog.index_orders import Part, read_parts
from dblog.dialects.mysql.wire import protocol
from dblog.dialects.mysql.wire.connect import (
    ConnectSettings,
    PrivilegeError,
    Wire,
    identity,
    open_wire,
    replica_status,
    settings_of,
    version_of,
)
from dblog.dialects.mysql.wire.guarded import CATALOG_BYTES_MAX
from dblog.dialects.mysql.wire.hosting import HOSTING_VARIABLES, hosting_of
from dblog.dialects.mysql.wire.log import LogConnection, announce
from dblog.dialects.mysql.wire.replication import received_by
from dblog.dialects.mysql.wire.state_watermarks import owned_gtids
from dblog.errors import LOST_REMEDY, DefiniteError, PositionLostError, ServerChangedError, TableChangedError, TransientError
from dblog.model import Table, TableId

__all__ = ["ConnectSettings", "ServerFacts", "Session", "TableChangedError", "connect", "settings_of"]

_VARIABLES = (
    "log_bin", "binlog_format", "binlog_row_image", "binlog_row_metadata", "binlog_transaction_compression",
    "binlog_order_commits", "binlog_checksum", "log_bin_compress", "log_slave_updates", "log_replica_updates", "gtid_mode",
    "server_id", "server_uuid", "lower_case_table_names", "sql_mode", "character_set_server", "collation_server", "version",
    "version_comment", "innodb_native_foreign_keys", "read_only", "super_read_only", "system_time_zone",
    *HOSTING_VARIABLES,
)  # fmt: skip

_PICOSECONDS_OF_MS = 1_000_000_000

_WAITS = Waits()
"""The waits of this process for servers. They outlive sessions, which come and go during a wait."""

HONEST_TRIES_MAX, HONEST_INTERVAL_S = 50, 0.01

_RETENTION = "'binlog_expire_logs_seconds', 'expire_logs_days', 'binlog_expire_logs_auto_purge'"
_BYTES = "SELECT TABLE_NAME, DATA_LENGTH FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s"
_ROWS = "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """Facts that a server reports about itself. A variable that a version lacks has the value by
    which that version behaves.
    """

    flavor: str
    """``mysql`` or ``mariadb``, regardless of the connector's class."""
    version: tuple[int, int, int]
    version_text: str
    log_bin: bool
    binlog_format: str
    row_image: str
    row_metadata: str
    """FULL, MINIMAL, NO_LOG (MariaDB's default), or "" if the server (5.7) does not know it."""
    gtid_mode: str
    """ON, OFF, ON_PERMISSIVE or OFF_PERMISSIVE; always ON for MariaDB."""
    server_id: int
    server_uuid: str | None
    lower_case_table_names: int
    sql_mode: str
    charset: str
    collation: str
    system_time_zone: str
    """The meaning of time_zone=SYSTEM in a session, as the operating system's text: UTC, CEST."""
    compressed: bool
    """The default of sessions for binlog_transaction_compression (MySQL) or log_bin_compress
    (MariaDB).
    """
    ordered_commits: bool
    logs_replicated: bool
    """True if changes that arrive by replication reach this server's log."""
    cascades_logged: bool
    """True if rows changed by ON DELETE / UPDATE actions are in the log (MySQL 9.6: foreign keys
    moved to the SQL layer).
    """
    hosting: Hosting
    """The managed service that runs the server, as far as its variables and its name show."""

    @property
    def uses_gtids(self) -> bool:
        """True if every transaction has a GTID, so that a set of them shows a reader's position
        (not so in the permissive modes).
        """
        return self.gtid_mode == "ON"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """A file of SHOW BINARY LOGS."""

    name: str
    bytes_total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cascade:
    """A foreign key whose actions change rows of ``child`` when ``parent`` changes."""

    name: str
    child: TableId
    parent: TableId
    on_update: str
    on_delete: str

    def __str__(self) -> str:
        return f"{self.child} ({self.name}, references {self.parent}, on update {self.on_update}, on delete {self.on_delete})"


@dataclass(frozen=True, slots=True)
class Lacking:
    """The transactions that were read and that a server lacks."""

    text: str
    """GTIDs of these transactions for a message, "" for none."""
    own: bool
    """True if the server made any of them itself."""
    got: str = ""
    """The server's progress towards them: a different text is progress."""


class Session:
    """A session with one server: one connection for statements, and any number for log and dump.
    Used from one thread.
    """

    flavor = "mysql"
    status_privilege = "REPLICATION CLIENT"
    """The privilege to query the log's position."""
    replica_privilege = "REPLICATION CLIENT"
    history_privilege: str | None = "PROCESS"
    """The privilege to query the history list, None if it needs none. ``replica_privilege`` is that
    for a replica's lag.
    """
    names_its_own = True
    """True if a GTID with this server's name proves that this server made the transaction."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.settings = wire.settings
        self.facts = self._read_facts()

    # -- facts -------------------------------------------------------------------------------------

    def _read_facts(self) -> ServerFacts:
        names = ", ".join(f"'{name}'" for name in _VARIABLES)
        rows = self.query(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})", doing="reading the server's variables")
        return read_facts({str(name).lower(): str(value) for name, value in rows}, host=self.settings.host)

    def limit_lock_waits(self, limit_s: int) -> None:
        """Let later statements wait at most this long for a table that another session locks (MySQL
        manual, "lock_wait_timeout", whose default is a year).

        The limit is at most half of a statement's time, or the end of a wait would look like a
        server that does not answer.
        """
        if self.settings.statement_timeout_s is not None:
            limit_s = max(1, min(limit_s, int(self.settings.statement_timeout_s / 2)))
        self.query(f"SET SESSION lock_wait_timeout = {limit_s}", doing="limiting waits for locks")

    def query(self, statement: str, arguments: Sequence[Any] = (), *, doing: str = "a query") -> list[tuple[Any, ...]]:
        """Return the rows of a statement on the session's connection."""
        return self._wire.query(statement, arguments, doing=doing)

    def current_user(self) -> str:
        """Return ``user@host`` of our account, for GRANT texts."""
        return str(self.query("SELECT CURRENT_USER()")[0][0])

    def is_replica(self) -> bool:
        """Return whether the server itself follows another one; False also if we may not know."""
        try:
            return bool(self.query(self.replica_statement, doing="asking whether the server is a replica"))
        except PrivilegeError:
            return False

    @property
    def replica_statement(self) -> str:
        """The statement for the replication status, with one row per channel."""
        return replica_status(self.facts.version)

    # -- positions ---------------------------------------------------------------------------------

    @property
    def status_statement(self) -> str:
        """The statement for the log's status. SHOW MASTER STATUS was renamed in 8.2 and removed in
        8.4.
        """
        return "SHOW BINARY LOG STATUS" if self.facts.version >= (8, 2, 0) else "SHOW MASTER STATUS"

    def log_status(self) -> dict[str, str]:
        """Return the status row by lower-case column name: file, position, binlog_do_db,
        binlog_ignore_db, executed_gtid_set.
        """
        rows = self._wire.query_named(self.status_statement, doing="reading the log's position")
        if not rows:
            raise DefiniteError(log_bin_off(self.settings.address, self.facts.hosting))
        return {name.lower(): str(value or "") for name, value in rows[0].items()}

    def current_position(self) -> tuple[str, int, str]:
        """Return the current file, offset and executed GTIDs ("" without GTIDs). The set may lack
        transactions before the offset, but has none after it.
        """
        status = self.log_status()
        gtids = GtidSet.parse(status.get("executed_gtid_set", "")).text() if self.facts.uses_gtids else ""
        return status["file"], int(status["position"]), gtids

    def honest_position(self) -> tuple[str, int, str]:
        """Return the current position with a set that contains every transaction before the offset,
        and perhaps later ones.

        It is for comparisons by offset. The status row may lack a transaction that is written but
        not yet visible; its GTID is owned until it is executed. If some GTIDs stay owned (a replica
        applies them, a commit waits for a replica), the offset is the beginning of the file,
        because no file begins inside a transaction.
        """
        for _ in range(HONEST_TRIES_MAX):
            file, pos, _ = self.current_position()
            owned = owned_gtids(self._wire)
            executed = self.executed_gtids()
            if GtidSet.parse(executed).contains(owned):
                return file, pos, executed
            time.sleep(HONEST_INTERVAL_S)
        return file, FILE_BEGIN, executed

    @property
    def identity(self) -> str:
        """The server to which the file names of an offset belong."""
        return identity(self.facts.server_uuid, self.facts.server_id)

    def why_other_log(self, known: KnownLog) -> str | None:
        """Return the reason why this server's log is not the one read so far; None if nothing shows
        that (identity.py).
        """
        if self.facts.flavor != self.flavor:
            return f"the server is a {self.facts.flavor} ({self.facts.version_text})"
        status = self.log_status()
        return why_other_log(known, LogEnd(server=self.identity, file=status["file"], pos=int(status["position"])))

    def _why_not_on(self, known: KnownLog, gtids: str | None, wanted: Callable[[str], bool] | None) -> str | None:
        """Return the reason why reading the log cannot continue as if nothing had happened; a start
        then decides.
        """
        reason = self.why_other_log(known)
        if reason is None and gtids and self.facts.uses_gtids and (lacking := self.lacking(gtids, wanted)).text:
            # A crash without sync_binlog=1 loses transactions and begins a new file, which names
            # and sizes of files do not show.
            reason = f"it lacks transactions that were read before: {lacking.text}"
        return reason

    def log_files(self) -> tuple[LogFile, ...]:
        """Return the log's files, oldest first."""
        rows = self.query("SHOW BINARY LOGS", doing="listing the log's files")
        return tuple(LogFile(name=str(name), bytes_total=int(size)) for name, size, *_ in rows)

    def log_retention_s(self) -> float | None:
        """Return how long the server keeps its log by its own rules, in seconds; None for ever.
        Additional rules of a managed service are unknown here.
        """
        rows = self.query(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({_RETENTION})", doing="reading how long the log is kept")
        found = {str(name).lower(): str(value) for name, value in rows}
        if found.get("binlog_expire_logs_auto_purge", "ON").upper() in ("OFF", "0"):
            return None
        return float(found.get("binlog_expire_logs_seconds", "0")) or float(found.get("expire_logs_days", "0")) * 86_400 or None

    def log_bytes_max(self) -> int | None:
        """Return how much of its log the server keeps by its own rules (MariaDB since 11.4,
        Percona), in bytes; None for all.
        """
        rows = self.query(
            "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('max_binlog_total_size', 'binlog_space_limit')",
            doing="reading how much of the log is kept",
        )
        return min((int(value) for _, value in rows if int(value)), default=None)

    def data_bytes(self, tables: Sequence[TableId]) -> int:
        """Return the size of these tables' rows by the catalog's statistics, without indexes."""
        found: dict[TableId, int] = {}
        for database in sorted({table.database for table in tables}):
            rows = self.query(_BYTES, (database,), doing="reading the sizes of tables")
            found |= {TableId(database, str(name)): int(size or 0) for name, size in rows}
        return sum(found.get(table, 0) for table in tables)

    def now_s(self) -> float:
        """Return the time of the server's clock, in seconds."""
        return float(self.query("SELECT UNIX_TIMESTAMP(NOW(3))", doing="asking for the time")[0][0])

    # -- load --------------------------------------------------------------------------------------

    def threads_running(self) -> float | None:
        """Return the number of running threads, this session's included."""
        return self._status_number("Threads_running")

    def history_list_length(self) -> float | None:
        """Return the length of InnoDB's history list; None if the server does not count it."""
        rows = self.query(
            "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len' AND STATUS = 'enabled'",
            doing="asking for the history list",
        )
        return float(rows[0][0]) if rows else None

    def transaction_age_s(self) -> float:
        """Return the age of the oldest transaction; 0 without one. Its times are in the server's
        time zone, regardless of the session's.
        """
        self.query("SET SESSION time_zone = 'SYSTEM'", doing="asking for transactions")
        rows = self.query(
            "SELECT TIMESTAMPDIFF(SECOND, MIN(trx_started), NOW()) FROM information_schema.INNODB_TRX", doing="asking for transactions"
        )
        return max(0.0, float(rows[0][0] or 0))

    def replica_lag_ms(self) -> float | None:
        """Return the longest lag of replication, in ms; 0 if the server follows none, None if
        replication does not run.
        """
        lags = [
            value
            for row in self._wire.query_named(self.replica_statement, doing="asking how far the replica is")
            for name, value in row.items()
            if name.lower() in ("seconds_behind_source", "seconds_behind_master")
        ]
        return None if any(lag is None for lag in lags) else max((float(lag) * 1000 for lag in lags), default=0.0)

    def statement_times(self) -> list[tuple[float, int]] | None:
        """Return a histogram of statement times since the server started: (upper bound in ms,
        count) of each bucket; None if the server does not count them.
        """
        rows = self.query(
            "SELECT BUCKET_TIMER_HIGH, COUNT_BUCKET FROM performance_schema.events_statements_histogram_global ORDER BY BUCKET_NUMBER",
            doing="asking for the times of statements",
        )
        return [(float(high) / _PICOSECONDS_OF_MS, int(count)) for high, count in rows] or None

    def _status_number(self, name: str) -> float | None:
        rows = self.query("SHOW GLOBAL STATUS LIKE %s", (name,), doing=f"asking for {name}")
        return float(rows[0][1]) if rows else None

    def row_estimates(self, tables: Sequence[TableId], *, one_by_one: bool) -> dict[TableId, int]:
        """Return the row counts in the catalog's statistics; tables without any are left out."""
        found: list[tuple[Any, ...]] = []
        if one_by_one:
            for table in tables:
                found += self.query(f"{_ROWS} AND TABLE_NAME = %s", (table.database, table.name), doing="reading statistics")
        else:
            for database in sorted({table.database for table in tables}):
                found += self.query(_ROWS, (database,), doing="reading statistics")
        wanted = set(tables)
        estimates = {TableId(str(database), str(name)): int(rows) for database, name, rows in found if rows is not None}
        return {table: rows for table, rows in estimates.items() if table in wanted}

    def purged_gtids(self) -> str:
        """Return the transactions that are no longer in the log."""
        return GtidSet.parse(self.query("SELECT @@GLOBAL.gtid_purged")[0][0]).text() if self.facts.uses_gtids else ""

    def executed_gtids(self) -> str:
        """Return the transactions that this server has executed."""
        return GtidSet.parse(self.query("SELECT @@GLOBAL.gtid_executed")[0][0]).text() if self.facts.uses_gtids else ""

    def present_gtids(self) -> str:
        """Return the transactions in the server's log: executed ones, and its own that are being
        committed.

        The log is sent before a commit is complete: a transaction that waits for a replica's
        acknowledgement may have been read without being executed. The server may still lose
        transactions of other servers that it applies. (MySQL manual 19.1.6.5 gtid_owned, 19.4.10
        AFTER_SYNC.)
        """
        if not self.facts.uses_gtids:
            return ""
        # Read first: what is committed meanwhile is executed.
        owned = owned_gtids(self._wire).only_source(self.facts.server_uuid or "")
        present = GtidSet.parse(self.executed_gtids())
        present.add_all(owned.members())
        return present.text()

    def check_position(
        self,
        *,
        file: str | None,
        pos: int | None,
        gtids: str | None,
        wanted: Callable[[str], bool] | None = None,
        read_ts_s: int = 0,
    ) -> None:
        """Raise PositionLostError if the log from there on is not available, or if the server lacks
        what was read and will never get it; TransientError while it may get it.

        Compares GTIDs if both sides have them, else file and offset. ``wanted`` selects the sources
        whose transactions count. ``read_ts_s`` is the time of the newest event read, 0 if unknown.
        The server too refuses some of these positions (error 1236), but only this shows which
        transactions are missing.
        """
        if gtids and self.facts.uses_gtids:
            self._check_gtids(gtids, wanted, read_ts_s)
        elif file is not None:
            self._check_file(file, pos or 4)

    def _check_gtids(self, gtids: str, wanted: Callable[[str], bool] | None, read_ts_s: int) -> None:
        unread = self._purged_unread(gtids)
        lacking = Lacking("", own=False) if unread else self.lacking(gtids, wanted)
        server = Answering(dropped=bool(unread), lacks=bool(lacking.text), lacks_its_own=lacking.own)
        if server.lacks and not (server.lacks_its_own and self.names_its_own):
            receives, lag_s = received_by(self._wire, self.replica_statement)
            age_s = self.now_s() - read_ts_s if read_ts_s else None
            waited_s = _WAITS.waited_s(self.settings.address, lacking.got, now_s=time.monotonic())
            own = server.lacks_its_own and receives is Receives.NOTHING
            server = replace(server, lacks_its_own=own, receives=receives, lag_s=lag_s, waited_s=waited_s, read_age_s=age_s)
        verdict = verdict_on(server)
        if verdict.why is not Why.MAY_COME:
            _WAITS.over(self.settings.address)
        at = f"the server at {self.settings.address}"
        match verdict.why:
            case Why.DROPPED:
                raise PositionLostError(f"{at} has purged transactions that were not read yet: {unread}; {LOST_REMEDY}")
            case Why.LACKS_ITS_OWN:
                message = f"{at} has lost transactions of its own that were read before ({lacking.text}): it was reset or restored from an older copy"
                raise PositionLostError(f"{message}; {LACKING_REMEDY}")
            case Why.MAY_COME:
                message = (
                    f"{at} lacks transactions that were read before: {lacking.text}; {server.receives.value}; waiting for its replication. Where it has become "
                    f"a primary, {self.reset_replica_statement} there ends the wait, and the position is lost"
                )
                if server.receives is Receives.UNKNOWN:
                    user = str(self._wire.query("SELECT CURRENT_USER()", doing="asking who we are")[0][0])
                    message += f"; for the connector to see it, run there: {sql.grant_global(self.replica_privilege, user)}"
                raise TransientError(message)
            case Why.NEVER_COMES:
                raise PositionLostError(
                    f"{at} lacks transactions that were read before: {lacking.text}; {server.receives.value}; {LACKING_REMEDY}"
                )
            case Why.WAITED_IN_VAIN:
                lag = "" if server.lag_s is None else f", though it reports to be {server.lag_s:.0f} s behind"
                message = (
                    f"{at} lacks transactions that were read before: {lacking.text}; {server.receives.value}, and they have not arrived for "
                    f"{server.waited_s:.0f} s{lag}, so the connector waits no longer"
                )
                raise PositionLostError(f"{message}; {LACKING_REMEDY}")

    def _purged_unread(self, gtids: str) -> str:
        """Return the purged transactions that were not read, for a message."""
        return _shortened(GtidSet.parse(self.purged_gtids()).subtract(GtidSet.parse(gtids)).text())

    def lacking(self, gtids: str, wanted: Callable[[str], bool] | None) -> Lacking:
        """Return the transactions of ``gtids`` that the server lacks, as far as their source is
        wanted.
        """
        missing = GtidSet.parse(gtids).subtract(GtidSet.parse(self.present_gtids()))
        if wanted is not None:
            missing = GtidSet.of(member for member in missing.members() if wanted(member[0]))
        text = missing.text()
        return Lacking(_shortened(text), own=bool(missing.only_source(self.facts.server_uuid or "")), got=text)

    def own_unread(self, gtids: str) -> str:
        """Return the transactions that a replica has made itself and that are not in ``gtids``, for
        a message; "" for a server that follows no other.
        """
        executed = GtidSet.parse(self.executed_gtids()).only_source(self.facts.server_uuid or "")
        unread = executed.subtract(GtidSet.parse(gtids))
        return _shortened(unread.text()) if unread and self.is_replica() else ""

    @property
    def reset_replica_statement(self) -> str:
        """The statement that makes a server forget the servers that it followed."""
        return "RESET REPLICA ALL" if self.facts.version >= (8, 0, 22) else "RESET SLAVE ALL"

    def _check_file(self, file: str, pos: int) -> None:
        wanted = file_index(file)
        files = self.log_files()
        found = next((f for f in files if f.name == file), None)
        if found is None:
            oldest, newest = (files[0].name, files[-1].name) if files else ("none", "none")
            fate = "has purged" if files and wanted < file_index(oldest) else "does not have"
            raise PositionLostError(
                f"the server at {self.settings.address} {fate} the log file {file} (it has {oldest} to {newest}); " + LOST_REMEDY
            )
        if pos > found.bytes_total:
            # The size was read after the position was stored, so a later position belongs to
            # another history.
            raise PositionLostError(
                f"position {pos} is beyond the end of the log file {file} ({found.bytes_total} bytes) of {self.settings.address}: "
                "the server was reset, or is another one; " + LOST_REMEDY
            )

    # -- catalog -----------------------------------------------------------------------------------

    def databases(self) -> tuple[str, ...]:
        """Return the user's databases, as the server spells them."""
        names = (str(row[0]) for row in self.query("SHOW DATABASES", doing="listing the databases"))
        return tuple(name for name in names if name.lower() not in information_schema.SYSTEM_DATABASES)

    def execute(self, statement: str, arguments: tuple[str, ...]) -> list[tuple[Any, ...]]:
        """Run a statement of catalog/information_schema.py and return its rows."""
        if statement.startswith("SHOW CREATE"):
            return self._wire.query_bytes(statement, doing="reading the catalog")
        return self._wire.query(statement, arguments, doing="reading the catalog", bytes_max=CATALOG_BYTES_MAX)

    def read_catalog(self, include: Callable[[TableId], bool]) -> list[Table]:
        """Return every base table that ``include`` accepts."""
        return information_schema.read_tables(self.execute, include)

    def show_create(self, table: TableId) -> str:
        """Return the CREATE TABLE text of a table. MariaDB puts a binary default into it byte by
        byte, regardless of the connection's charset.
        """
        rows = self._wire.query_bytes(f"SHOW CREATE TABLE {sql.quote_table(table)}", doing=f"reading the definition of {table}")
        return bytes(rows[0][1]).decode("utf-8", "replace")

    def cascades(self, captured: Callable[[TableId], bool]) -> tuple[Cascade, ...]:
        """Return foreign keys that change rows of captured tables without a row event (MySQL
        manual, FOREIGN KEY Constraints).
        """
        if self.facts.cascades_logged:
            return ()
        rows = self.query(_CASCADES, doing="reading the foreign keys")
        found = (
            Cascade(name=name, child=TableId(db, table), parent=TableId(parent_db, parent), on_update=update, on_delete=delete)
            for db, table, name, parent_db, parent, update, delete in rows
        )
        return tuple(cascade for cascade in found if captured(cascade.child))

    def cascaded(self, column: str) -> dict[TableId, str]:
        """Return the tables whose column of that name is updated by an action of a foreign key
        without a row event, with the name of the foreign key.
        """
        if self.facts.cascades_logged:
            return {}
        rows = self.query(_CASCADED, (column,), doing="reading the foreign keys")
        return {TableId(db, table): name for db, table, name in rows}

    def index_parts(self, tables: Sequence[TableId]) -> dict[TableId, list[Part]]:
        """Return the current parts of the indexes of these tables."""
        return read_parts(self.execute, tables, hidden=self._hidden_index)

    @property
    def _hidden_index(self) -> str:
        """The SQL expression that is YES for an index that the optimizer ignores; 5.7 has none."""
        return "IF(IS_VISIBLE = 'NO', 'YES', 'NO')" if self.facts.version >= (8, 0, 0) else "'NO'"

    def versioned_tables(self) -> tuple[TableId, ...]:
        """Return the system-versioned tables, which only MariaDB has."""
        return ()

    # -- connections -------------------------------------------------------------------------------

    def open_log(
        self,
        *,
        server_id: int,
        file: str | None,
        pos: int | None,
        gtids: str | None,
        heartbeat_s: float = 5.0,
        statements: bool = False,
        known: KnownLog | None = None,
        wanted: Callable[[str], bool] | None = None,
        lock: str | None = None,
    ) -> LogConnection:
        """Open the log at a position: after the GTIDs if they are given and the server uses them,
        else at file and offset.

        An unavailable position may become known only in the stream, as an ERR packet
        (``log.end_of_log``); ``check_position`` asks first.

        - ``statements``: ask for the texts of the statements of row changes too, on servers that
          have to be asked (include.query).
        - ``known``: the log read so far. ServerChangedError if this very connection has reached
          another one, or one that lacks transactions read from the ``wanted`` sources.
        - ``lock``: the name of a lock that the connection holds for its lifetime. By it other
          connections recognise its server.
        """
        wire = open_wire(self.settings, again=True)
        try:
            reason = None if known is None else type(self)(wire)._why_not_on(known, gtids, wanted)  # noqa: SLF001 - another object of this class
            if reason is not None:
                message = (
                    f"another server answers at {self.settings.address}, or its log has begun again: {reason}; the connector starts again"
                )
                raise ServerChangedError(message)
            self._prepare_log(wire, heartbeat_s=heartbeat_s, gtids=gtids)
            if lock is not None:
                wire.query("SELECT GET_LOCK(%s, 0)", (lock,), doing="preparing to read the log")
            announce(wire, server_id=server_id, hostname=socket.gethostname())
            command = self._dump_command(server_id=server_id, file=file, pos=pos, gtids=gtids, statements=statements)
            wire.socket.sendall(protocol.packets(command))
            return LogConnection(wire, heartbeat_s=heartbeat_s)
        except BaseException:
            wire.close()
            raise

    def _prepare_log(self, wire: Wire, *, heartbeat_s: float, gtids: str | None) -> None:
        """Set the session variables that the sending thread reads, in both spellings: 8.0.26
        renamed them and reads the old ones too.
        """
        del gtids
        period_ns = int(heartbeat_s * 1_000_000_000)
        # Asking for NONE would not strip checksums from logged events; the format description event
        # shows whether they are there.
        wire.query(
            "SET @master_binlog_checksum = 'CRC32', @source_binlog_checksum = 'CRC32', "
            f"@master_heartbeat_period = {period_ns}, @source_heartbeat_period = {period_ns}",
            doing="preparing to read the log",
        )

    def _dump_command(self, *, server_id: int, file: str | None, pos: int | None, gtids: str | None, statements: bool) -> bytes:
        del statements  # MySQL sends ROWS_QUERY events to everyone
        if self.facts.uses_gtids and gtids is not None and (gtids or file is None):
            seen = GtidSet.parse(gtids)
            if seen.tagged and self.facts.version < (8, 3, 0):
                message = (
                    f"the offset holds tagged GTIDs, which the server at {self.settings.address} ({self.facts.version_text}) does not know"
                )
                raise DefiniteError(message)
            return protocol.binlog_dump_gtid(server_id=server_id, gtid_set=seen.encode())
        return self._dump_by_file(server_id=server_id, file=file, pos=pos)

    def _dump_by_file(self, *, server_id: int, file: str | None, pos: int | None, flags: int = 0) -> bytes:
        if file is None:
            message = f"the offset has no file, and {self.settings.address} runs with gtid_mode={self.facts.gtid_mode}; {LOST_REMEDY}"
            raise PositionLostError(message)
        offset = pos or 4
        if offset > _DUMP_OFFSET_MAX:
            # The command's field has 32 bits; only a transaction larger than 4 GiB makes such a
            # file.
            message = f"position {offset} of {file} is beyond 4 GiB, which the protocol cannot ask for; use gtid_mode=ON; {LOST_REMEDY}"
            raise PositionLostError(message)
        return protocol.binlog_dump(server_id=server_id, file=file, pos=offset, flags=flags)

    def close(self) -> None:
        """Close the session's own connection; logs and dumps have their own."""
        self._wire.close()


LACKING_REMEDY = f"{LOST_REMEDY}; gtid.source.excludes leaves out sources whose transactions do not matter"

_DUMP_OFFSET_MAX = 0xFFFFFFFF

_CASCADES = """
SELECT r.CONSTRAINT_SCHEMA, r.TABLE_NAME, r.CONSTRAINT_NAME, r.UNIQUE_CONSTRAINT_SCHEMA, r.REFERENCED_TABLE_NAME, r.UPDATE_RULE,
  r.DELETE_RULE
FROM information_schema.REFERENTIAL_CONSTRAINTS r
WHERE r.UPDATE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT') OR r.DELETE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT')
ORDER BY 1, 2, 3
"""

_CASCADED = """
SELECT k.TABLE_SCHEMA, k.TABLE_NAME, k.CONSTRAINT_NAME
FROM information_schema.KEY_COLUMN_USAGE k JOIN information_schema.REFERENTIAL_CONSTRAINTS r
  ON r.CONSTRAINT_SCHEMA = k.CONSTRAINT_SCHEMA AND r.TABLE_NAME = k.TABLE_NAME AND r.CONSTRAINT_NAME = k.CONSTRAINT_NAME
WHERE LOWER(k.COLUMN_NAME) = LOWER(%s) AND r.UPDATE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT')
"""


def log_bin_off(address: str, hosting: Hosting) -> str:
    """Return the sentence for a server without a log."""
    match hosting:
        case Hosting.RDS:
            remedy = "turn automated backups on (a backup retention period above 0)"
        case Hosting.AURORA:
            remedy = "read from the writer, with binlog_format=ROW in the cluster's parameter group (reboot it)"
        case Hosting.CLOUD_SQL:
            remedy = "turn point-in-time recovery on (gcloud sql instances patch NAME --enable-bin-log)"
        case _:
            remedy = "start it with log_bin (and binlog_format=ROW) in its configuration"
    return f"the server at {address} writes no binary log; {remedy}"


LOCK_WAIT_S = 60
"""The longest wait of a start, in seconds, for a lock on a table whose definition it reads. The
start then fails with that reason and is tried again.
"""


def connect(settings: ConnectSettings, *, again: bool = False) -> Session:
    """Connect to a MySQL server. ``again``: this configuration has worked before, so an unknown
    host name counts as transient.
    """
    wire = open_wire(settings, again=again)
    try:
        session = Session(wire)
        if session.facts.flavor != "mysql":
            message = (
                f"the server at {settings.address} is MariaDB ({session.facts.version_text}); "
                "use connector.class io.debezium.connector.mariadb.MariaDbConnector for it"
            )
            raise DefiniteError(message)
        if session.facts.version >= (8, 0, 30):
            # The row images include invisible primary keys that the server adds itself, so the
            # catalog must show them.
            session.query("SET SESSION show_gipk_in_create_table_and_information_schema = ON", doing="setting up the session")
        session.limit_lock_waits(LOCK_WAIT_S)
    except BaseException:
        wire.close()
        raise
    return session


def read_facts(variables: dict[str, str], *, host: str = "") -> ServerFacts:
    """Return the facts in SHOW GLOBAL VARIABLES, for both flavors. ``host`` is the name by which
    the server is reached.
    """
    text = variables["version"]
    mariadb = "mariadb" in text.lower() or "mariadb" in variables.get("version_comment", "").lower()
    native_keys = variables.get("innodb_native_foreign_keys")

    def on(name: str, default: str) -> bool:
        return variables.get(name, default).upper() in ("ON", "1", "YES")

    return ServerFacts(
        flavor="mariadb" if mariadb else "mysql",
        version=version_of(text),
        version_text=text,
        log_bin=on("log_bin", "OFF"),
        binlog_format=variables.get("binlog_format", "ROW").upper(),
        row_image=variables.get("binlog_row_image", "FULL").upper(),
        row_metadata=variables.get("binlog_row_metadata", "").upper(),
        gtid_mode="ON" if mariadb else variables.get("gtid_mode", "OFF").upper(),
        server_id=int(variables.get("server_id", "0")),
        server_uuid=variables.get("server_uuid") or None,
        lower_case_table_names=int(variables.get("lower_case_table_names", "0")),
        sql_mode=variables.get("sql_mode", ""),
        charset=variables.get("character_set_server", ""),
        collation=variables.get("collation_server", ""),
        system_time_zone=variables.get("system_time_zone", ""),
        compressed=on("binlog_transaction_compression", "OFF") or on("log_bin_compress", "OFF"),
        ordered_commits=on("binlog_order_commits", "ON"),
        logs_replicated=on("log_replica_updates", variables.get("log_slave_updates", "OFF")),
        cascades_logged=native_keys is not None and native_keys.upper() in ("OFF", "0"),
        hosting=hosting_of(variables, host),
    )


def _shortened(text: str) -> str:
    return text if len(text) <= 300 else text[:300] + "..."  # noqa: PLR2004 - enough to find them on the server
