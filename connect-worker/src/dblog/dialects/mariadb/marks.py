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

from typing import Any

from dblog.dialects.mariadb.position import GtidPosition
from dblog.dialects.mysql.binlog.offset import LogProgress
from dblog.dialects.mysql.binlog.position import file_index
from dblog.dialects.mysql.wire.connect import Wire
from dblog.dialects.mysql.wire.marks import FILTERS, SnapshotMarks
from dblog.errors import DefiniteError, TransientError


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
        """They are variables here, which every account may read."""
        rows = self._snapshot.query("SHOW GLOBAL VARIABLES LIKE 'replicate\\_%'", doing="looking at the replica's filters")
        return {str(name): str(value or "") for name, value in rows if str(name).lower().startswith(FILTERS)}

    def _applied(self, wire: Wire) -> GtidPosition:
        return GtidPosition.parse(str(wire.query("SELECT @@GLOBAL.gtid_slave_pos", doing="reading the applied GTIDs")[0][0] or ""))

    def _logged(self, wire: Wire) -> Any:
        variable = "gtid_binlog_pos" if wire is self._log_server else "gtid_current_pos"
        return GtidPosition.parse(str(wire.query(f"SELECT @@GLOBAL.{variable}", doing="reading the logged GTIDs")[0][0] or ""))
