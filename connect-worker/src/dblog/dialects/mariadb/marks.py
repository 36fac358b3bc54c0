"""Read marks of windows on MariaDB: MySQL's rules, with what MariaDB shows instead.

Low: gtid_binlog_pos may be ahead of what a snapshot shows, for a transaction is written to the log before it is visible. But START
TRANSACTION WITH CONSISTENT SNAPSHOT takes the snapshot and the log's position under one lock: binlog_snapshot_file and
binlog_snapshot_position name exactly the transactions that this very snapshot shows. So the snapshot proves itself by its position. After
another server's log it has to show the GTIDs, too, for the reading begins at a position in front of them.

On a replica that is not the log's server gtid_slave_pos counts: it moves behind the commit of what was applied, whether or not the replica
logs it (log_slave_updates).

High: gtid_binlog_pos and the log's end, read behind the SELECT, are ahead of what a snapshot shows: what a high mark has to be.

Source: MariaDB knowledge base, "Enhancements for START TRANSACTION WITH CONSISTENT SNAPSHOT", "Global Transaction ID", sql/log.cc
(binlog_start_consistent_snapshot, trx_group_commit_leader).
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
from dblog.dialects.mysql.wire.marks import FILTERS, SnapshotMarks
from dblog.errors import DefiniteError, TransientError

_MARKED = "replicate_events_marked_for_skip"
"""What becomes of transactions that a session of the source has marked by ``skip_replication``."""


class MariaDbMarks(SnapshotMarks):
    """As MySQL's."""

    _shown = False
    """Whether a snapshot of this connection has shown the GTIDs that the reading began with."""

    def may_begin(self, low: LogProgress) -> bool:
        """A snapshot of the log's own server proves itself; another one is asked before."""
        self._find_server()
        return self.same_server or self._applied(self._snapshot).contains(self._wanted(low))

    def shows(self, low: LogProgress) -> bool:
        """By the snapshot's position in the log."""
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
        """Every MariaDB has GTIDs; a replica has applied some."""
        if not self._applied(self._snapshot):
            message = (
                f"the server at {self._snapshot.settings.address}, which chunks are read from, is neither the one whose log is read nor a replica (its "
                "gtid_slave_pos is empty); set dblog.dump.hostname to a replica of database.hostname"
            )
            raise TransientError(message)
        self._refuse_filters()

    def _filters(self) -> dict[str, str]:
        """Of every connection, for each has filters of its own: those that are variables, which show the ones of ``default_master_connection``, and those
        that only its status has (ids of servers and domains). The nameless connection is there also where it follows nobody.
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
        """Those that the replica follows its sources by. Their names are shown to nobody without a privilege, and one that is not known may leave out rows."""
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
