"""Watermarks that are read from a MariaDB server's state (read.only): MySQL's rules, by the
variables that MariaDB has.

Low: gtid_binlog_pos may be later than what a snapshot shows, because a transaction is written to
the log before it is visible. But START TRANSACTION WITH CONSISTENT SNAPSHOT takes the snapshot and
the log's position under one lock. binlog_snapshot_file and binlog_snapshot_position therefore name
exactly the transactions that this snapshot shows, so a snapshot proves by its position what it
shows. After a change to another server's log it has to show the GTIDs too, because reading begins
at a position before them.

On a replica that is not the log's server gtid_slave_pos counts. It moves after the commit of an
applied transaction, whether or not the replica logs it (log_slave_updates).

High: gtid_binlog_pos and the end of the log, read after the SELECT, are later than what a snapshot
shows, as a high watermark has to be.

Source: MariaDB knowledge base, "Enhancements for START TRANSACTION WITH CONSISTENT SNAPSHOT",
"Global Transaction ID", sql/log.cc (binlog_start_consistent_snapshot, trx_group_commit_leader).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dblog.dialects.mariadb.position import GtidPosition
from dblog.dialects.mariadb.session import MariaDbSession
from dblog.dialects.mysql.binlog.offset import LogProgress
from dblog.dialects.mysql.binlog.position import file_index
from dblog.dialects.mysql.catalog.sql import grant_global
from dblog.dialects.mysql.wire.connect import PrivilegeError, Wire
from dblog.dialects.mysql.wire.state_watermarks import FILTERS, SnapshotMarks
from dblog.errors import DefiniteError, TransientError

_MARKED = "replicate_events_marked_for_skip"
"""The variable that decides about transactions marked by ``skip_replication`` in a session of the
source.
"""


class MariaDbMarks(SnapshotMarks):
    """Watermarks from the state of a MariaDB server."""

    _shown = False
    """True once a snapshot of this connection has shown the GTIDs at which reading began."""

    def may_begin(self, low: LogProgress) -> bool:
        """Return whether a snapshot may be taken now. On the log's own server always, because there
        the snapshot proves itself; another server must have applied the low watermark first.
        """
        self._find_server()
        return self.same_server or self._applied(self._snapshot).contains(self._wanted(low))

    def shows(self, low: LogProgress) -> bool:
        """Return whether the snapshot shows the low watermark, by the snapshot's position in the
        log.
        """
        if not self.same_server:
            return True
        file, pos = self._position()
        if (file_index(file), pos) < (file_index(low.file), low.pos):
            return False
        if not self._shown:
            found = self._snapshot.query("SELECT BINLOG_GTID_POS(%s, %s)", (file, pos), doing="reading the snapshot's GTIDs")[0][0]
            self._shown = found is not None and GtidPosition.parse(str(found)).contains(self._wanted(low))
        return self._shown

    def _position(self) -> tuple[str, int]:
        rows = self._snapshot.query("SHOW STATUS LIKE 'binlog_snapshot_%'", doing="reading the snapshot's position")
        found = {str(name).lower(): str(value) for name, value in rows}
        file = found.get("binlog_snapshot_file", "")
        if not file:
            message = (
                f"the server at {self._snapshot.settings.address} does not show its snapshots' positions (binlog_snapshot_file), which read.only=true needs; "
                "remove read.only"
            )
            raise DefiniteError(message)
        return file, int(found["binlog_snapshot_position"])

    def _check_replica(self) -> None:
        """Raise TransientError if the server has applied no GTIDs and so is no replica; refuse one
        with filters. There is no check for GTIDs themselves, which every MariaDB has.
        """
        if not self._applied(self._snapshot):
            message = (
                f"the server at {self._snapshot.settings.address}, which chunks are read from, is neither the one whose log is read nor a replica (its "
                "gtid_slave_pos is empty); set dblog.dump.hostname to a replica of database.hostname"
            )
            raise TransientError(message)
        self._refuse_filters()

    def _filters(self) -> dict[str, str]:
        """Return the filters of all connections by name, since each connection has its own.

        Some are variables, which show the values of ``default_master_connection``. Others (ids of
        servers and domains) are only in the connection's status. The nameless connection exists
        even on a server that follows no other.
        """
        found: dict[str, str] = {}
        names = {""}
        for connection in self._connections():
            named = {column.lower(): str(value or "") for column, value in connection.items()}
            names.add(named["connection_name"])
            _add(found, named["connection_name"], named.items())
        for name in sorted(names):
            self._snapshot.query("SET SESSION default_master_connection = %s", (name,), doing="looking at the replica's filters")
            rows = self._snapshot.query("SHOW GLOBAL VARIABLES LIKE 'replicate\\_%'", doing="looking at the replica's filters")
            _add(found, name, ((str(variable).lower(), str(value or "")) for variable, value in rows))
        self._snapshot.query("SET SESSION default_master_connection = ''", doing="looking at the replica's filters")
        return found

    def _connections(self) -> list[dict[str, Any]]:
        """Return the connections by which the replica follows its sources. Raise DefiniteError if
        the account may not see their names, because a filter of an unseen connection may leave out
        rows.
        """
        try:
            return self._snapshot.query_named("SHOW ALL SLAVES STATUS", doing="looking at the replica's connections")
        except PrivilegeError as e:
            user = str(self._snapshot.query("SELECT CURRENT_USER()", doing="asking who we are")[0][0])
            message = (
                f"the replica at {self._snapshot.settings.address}, which chunks are to be read from, does not show the account {user} by which connections it "
                "replicates, so whether their filters leave out rows is not known; run there: "
                f"{grant_global(MariaDbSession.replica_privilege, user)}"
            )
            raise DefiniteError(message) from e

    def _applied(self, wire: Wire) -> GtidPosition:
        return GtidPosition.parse(str(wire.query("SELECT @@GLOBAL.gtid_slave_pos", doing="reading the applied GTIDs")[0][0] or ""))

    def _logged(self, wire: Wire) -> Any:
        variable = "gtid_binlog_pos" if wire is self._log_server else "gtid_current_pos"
        return GtidPosition.parse(str(wire.query(f"SELECT @@GLOBAL.{variable}", doing="reading the logged GTIDs")[0][0] or ""))


def _add(found: dict[str, str], connection: str, values: Iterable[tuple[str, str]]) -> None:
    of = f" of its connection {connection}" if connection else ""
    for name, value in values:
        if name.startswith(FILTERS) or (name == _MARKED and value.upper() != "REPLICATE"):
            found[name + of] = found.get(name + of, "") + value
