"""A session with one MariaDB server. It differs from MySQL's in GTIDs by domain, names of
privileges, and the commands that ask for the log.

Rule sources: MariaDB knowledge base "Global Transaction ID", "Replication Protocol 4:
COM_BINLOG_DUMP", sql/sql_repl.cc (``gtid_find_binlog_file``, ``check_slave_start_position``).
"""

from __future__ import annotations

from collections.abc import Callable

from dblog.dialects.mariadb import catalog
from dblog.dialects.mariadb.identity import why_other_gtids
from dblog.dialects.mariadb.position import BinlogState, GtidPosition
from dblog.dialects.mysql.binlog.identity import KnownLog
from dblog.dialects.mysql.binlog.position import file_index
from dblog.dialects.mysql.wire import protocol
from dblog.dialects.mysql.wire.connect import ConnectSettings, Wire, open_wire, settings_of
from dblog.dialects.mysql.wire.session import LOCK_WAIT_S, Lacking, ServerFacts, Session
from dblog.errors import DefiniteError, TableChangedError, TransientError
from dblog.model import Table, TableId

__all__ = ["ConnectSettings", "MariaDbSession", "ServerFacts", "TableChangedError", "connect", "settings_of"]

_CAPABILITY_GTID = 4
"""The capability to understand GTID events. With a lower one the server rewrites events for us."""

_SEND_ANNOTATE = 0x02
"""The flag of COM_BINLOG_DUMP that asks for ANNOTATE_ROWS events (the statement's text)."""


class MariaDbSession(Session):
    """A session with one MariaDB server."""

    flavor = "mariadb"
    status_privilege = "BINLOG MONITOR"
    """The name of REPLICATION CLIENT since 10.5.2."""
    replica_privilege = "SLAVE MONITOR"
    history_privilege = None
    names_its_own = False
    """False, because nodes of a Galera cluster share a server_id, and a rebuilt server often gets
    the id of its predecessor.
    """

    @property
    def status_statement(self) -> str:
        """The statement for the log's status, in the old spelling that every version accepts."""
        return "SHOW MASTER STATUS"

    @property
    def replica_statement(self) -> str:
        """The statement for the replication status, with one row per followed server."""
        return "SHOW ALL SLAVES STATUS"

    def history_list_length(self) -> float | None:
        """Return the length of the history list. MariaDB has it in a status variable, which needs
        no privilege.
        """
        return self._status_number("Innodb_history_list_length")

    def statement_times(self) -> list[tuple[float, int]] | None:
        """Return None: MariaDB does not count statement times."""
        return None

    @property
    def _hidden_index(self) -> str:
        return "IGNORED" if self.facts.version >= (10, 6, 0) else "'NO'"

    def current_position(self) -> tuple[str, int, str]:
        """Return the file, the offset, and the GTID position at exactly that point."""
        status = self.log_status()
        file, pos = status["file"], int(status["position"])
        return file, pos, self._gtids_at(file, pos)

    def honest_position(self) -> tuple[str, int, str]:
        """Return the current position, whose GTIDs are exactly those at its offset."""
        return self.current_position()

    def why_other_log(self, known: KnownLog) -> str | None:
        """Return the reason why this log is another one; None if nothing shows that. Also compares
        the GTID position at the known position, because independent servers often share a
        server_id.
        """
        reason = super().why_other_log(known)
        if reason is not None or known.gtids is None or file_index(known.file) < file_index(self.log_files()[0].name):
            return reason
        return why_other_gtids(known, self._gtids_if_any(known.file, known.pos))

    def _gtids_if_any(self, file: str, pos: int) -> str | None:
        found = self.query("SELECT BINLOG_GTID_POS(%s, %s)", (file, pos), doing="reading the GTID position")[0][0]
        return None if found is None else str(found)

    def _gtids_at(self, file: str, pos: int) -> str:
        found = self._gtids_if_any(file, pos)
        if found is None:
            message = (
                f"the server at {self.settings.address} does not know the GTID position at {file}:{pos}; was the file purged just now?"
            )
            raise TransientError(message)
        return GtidPosition.parse(found).text()

    def purged_gtids(self) -> str:
        """Return the GTID position at the beginning of the oldest file: earlier transactions are
        purged.
        """
        files = self.log_files()
        return self._gtids_at(files[0].name, 4) if files else ""

    def executed_gtids(self) -> str:
        """Return the last transaction of each domain in the log."""
        return GtidPosition.parse(str(self.query("SELECT @@GLOBAL.gtid_binlog_state")[0][0] or "")).text()

    def _purged_unread(self, gtids: str) -> str:
        seen, purged = GtidPosition.parse(gtids), GtidPosition.parse(self.purged_gtids())
        return f"its log begins after {purged.text()}, the connector stopped at {seen.text()}" if purged.subtract(seen) else ""

    def present_gtids(self) -> str:
        """Return the GTIDs that the server has. They include a transaction that still waits for a
        replica's acknowledgement, because the state changes before the log is sent.
        """
        return self.executed_gtids()

    def lacking(self, gtids: str, wanted: Callable[[str], bool] | None) -> Lacking:
        """Return the newest of these transactions in each domain, as far as the server lacks them."""
        seen = GtidPosition.parse(gtids)
        state = BinlogState.parse(str(self.query("SELECT @@GLOBAL.gtid_binlog_state")[0][0] or ""))
        newest = [gtid for domain in seen.domains() if (gtid := seen.gtid(domain)) is not None]
        missing = [gtid for gtid in newest if state.lacks(gtid) and (wanted is None or wanted(f"{gtid.domain}-{gtid.server_id}"))]
        own = any(gtid.server_id == self.facts.server_id for gtid in missing)
        got = state.got(missing, without=None if own else self.facts.server_id)
        return Lacking(",".join(map(str, missing)), own=own, got=got)

    def own_unread(self, gtids: str) -> str:
        """Return an empty text: no transaction of the server itself can be missed. In a domain the
        numbers of all servers form one sequence, which continues after what was read.
        """
        del gtids
        return ""

    @property
    def reset_replica_statement(self) -> str:
        """The statement that ends replication, in the old spelling that every version accepts."""
        return "RESET SLAVE ALL"

    def read_catalog(self, include: Callable[[TableId], bool]) -> list[Table]:
        """Return every base table that ``include`` accepts."""
        return catalog.read_tables(self.execute, include)

    def versioned_tables(self) -> tuple[TableId, ...]:
        """Return the tables WITH SYSTEM VERSIONING."""
        rows = self.query(
            "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'SYSTEM VERSIONED' ORDER BY 1, 2",
            doing="looking for system-versioned tables",
        )
        return tuple(TableId(str(database), str(name)) for database, name in rows)

    def _prepare_log(self, wire: Wire, *, heartbeat_s: float, gtids: str | None) -> None:
        wire.query(
            f"SET @mariadb_slave_capability = {_CAPABILITY_GTID}, @master_binlog_checksum = 'CRC32', "
            f"@master_heartbeat_period = {int(heartbeat_s * 1_000_000_000)}",
            doing="preparing to read the log",
        )
        if gtids:
            # Strict: the server refuses (1236) a position that its log does not hold, instead of
            # starting at the next transaction.
            wire.query(
                "SET @slave_connect_state = %s, @slave_gtid_strict_mode = 1, @slave_gtid_ignore_duplicates = 0",
                (GtidPosition.parse(gtids).text(),),
                doing="preparing to read the log",
            )

    def _dump_command(self, *, server_id: int, file: str | None, pos: int | None, gtids: str | None, statements: bool) -> bytes:
        flags = _SEND_ANNOTATE if statements else 0
        if gtids:
            return protocol.binlog_dump(server_id=server_id, file="", pos=4, flags=flags)
        return self._dump_by_file(server_id=server_id, file=file, pos=pos, flags=flags)


def connect(settings: ConnectSettings, *, again: bool = False) -> MariaDbSession:
    """Connect to a MariaDB server. Raise DefiniteError if the server is MySQL."""
    wire = open_wire(settings, again=again)
    try:
        session = MariaDbSession(wire)
        if session.facts.flavor != "mariadb":
            message = (
                f"the server at {settings.address} is MySQL ({session.facts.version_text}); "
                "use connector.class io.debezium.connector.mysql.MySqlConnector for it"
            )
            raise DefiniteError(message)
        session.limit_lock_waits(LOCK_WAIT_S)
    except BaseException:
        wire.close()
        raise
    return session
