"""Watermarks that are read from a MySQL server's state (read.only): a proof without any write that
a snapshot shows what the log has, and the end of the log.

Low: GTIDs enter gtid_executed after their commit in the storage engine, so a snapshot taken after
the set was read shows every transaction in it. The set must contain everything read from the log,
since a log client can get a transaction before it is visible.

High: a visible transaction was written to the log before its commit in the engine, so it lies
before the end of the log. Its GTID is owned until it is in gtid_executed. So gtid_owned and then
gtid_executed, read in this order, contain it too.

Both hold for a snapshot of a replica: what the replica has executed is visible there, and it has
nothing that its source has not logged. A lock that only the log's connection holds shows whether
the snapshot's server is another one than the log's.

Source: MySQL manual 19.1.3.3 and 19.1.6.5 (gtid_executed, gtid_owned), sql/binlog.cc
(ordered_commit), sql/rpl_gtid_state.cc.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from dblog.dialects.mysql.binlog.offset import LogMark, LogProgress
from dblog.dialects.mysql.binlog.position import GtidSet
from dblog.dialects.mysql.wire.connect import Wire, replica_status, version_of
from dblog.errors import DefiniteError, TransientError

GTIDS_SHOWN_MAX = 200
"""The most characters of a GTID set in a message."""

FILTERS = ("replicate_do_", "replicate_ignore_", "replicate_wild_", "replicate_rewrite_")
"""Prefixes of the names of replication filters. ``Replicate_Ignore_Server_Ids`` does not filter
tables, but if it is set it leaves out rows all the same.
"""

_OWNER_BEFORE_SOURCE = re.compile(r"#[0-9]+?(?=[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}:)")
_OWNER = re.compile(r"#[0-9]+")


@dataclass(slots=True)
class LogLock:
    """The lock that the task's log connection holds, which tells the server whose log is read."""

    name: str | None = None
    """Name of the lock; None before the log is connected, and if watermarks are written."""


class SnapshotMarks:
    """The pair of connections of one dump thread: ``snapshot`` reads chunks, ``log_server`` answers
    for the server whose log is read.

    ``lock`` is the lock that the log's connection holds. ``status`` is the statement for the end of
    the log. ``absent`` has the GTIDs of the stored offset that the log's
    server lacked at the start, so that no snapshot can be required to show them.
    """

    def __init__(self, snapshot: Wire, log_server: Wire, *, lock: LogLock, status: str, absent: Any) -> None:
        self._snapshot = snapshot
        self._log_server = log_server
        self._lock = lock
        self._status = status
        self._absent = absent
        self._same: bool | None = None

    @property
    def same_server(self) -> bool:
        """True if chunks are known to come from the server whose log is read."""
        return bool(self._same)

    def may_begin(self, low: LogProgress) -> bool:
        """Return whether a snapshot that begins now may show the low watermark."""
        self._find_server()
        return bool(self._executed(self._snapshot).contains(self._wanted(low)))

    def shows(self, low: LogProgress) -> bool:
        """Return whether a snapshot begun after ``may_begin`` shows the low watermark; on MySQL it
        always does.
        """
        del low
        return True

    def end(self) -> LogMark:
        """Return the end of the log, after everything that any snapshot can have shown until now.
        Raise TransientError if the snapshot's server is further than the log's.
        """
        theirs = None if self.same_server else self._logged(self._snapshot)
        logged = self._logged(self._log_server)
        status = self._log_server.query_named(self._status, doing="reading the log's end")
        if not status:
            message = f"the server at {self._log_server.settings.address} does not show where its log ends"
            raise TransientError(message)
        named = {name.lower(): str(value or "") for name, value in status[0].items()}
        if theirs is not None and not logged.contains(theirs):
            message = (
                f"the server at {self._snapshot.settings.address}, which chunks are read from, has transactions that the one at "
                f"{self._log_server.settings.address}, whose log is read, lacks ({theirs.subtract(logged).text()[:GTIDS_SHOWN_MAX]}): it is ahead, or it was "
                "written to; set dblog.dump.hostname to a replica of database.hostname"
            )
            raise TransientError(message)
        return LogMark(file=named["file"], pos=int(named["position"]), gtids=logged)

    def _find_server(self) -> None:
        """Find out whether both connections have reached the same server. This needs a running log
        connection, whose lock identifies its server.
        """
        if self._same is not None:
            return
        name = self._lock.name
        if name is None or not _holds(self._log_server, name):
            message = (
                f"the connection for the log's end at {self._log_server.settings.address} does not reach the server whose log is read, or the log is being "
                "connected again"
            )
            raise TransientError(message)
        self._same = _holds(self._snapshot, name)
        if not self._same:
            self._check_replica()

    def _check_replica(self) -> None:
        mode = str(self._snapshot.query("SELECT @@GLOBAL.gtid_mode", doing="looking at the replica")[0][0])
        if mode != "ON":
            message = (
                f"chunks are to be read from the replica at {self._snapshot.settings.address}, which runs with gtid_mode={mode}, so nothing shows what it has "
                "executed; set gtid_mode=ON there, or dblog.dump.hostname to another server"
            )
            raise DefiniteError(message)
        self._refuse_filters()

    def _refuse_filters(self) -> None:
        """Raise DefiniteError if the replica has filters. It counts transactions as executed whose
        rows were left out, so no snapshot of it proves that it shows them.
        """
        filters = sorted(name for name, value in self._filters().items() if value)
        if filters:
            message = (
                f"the replica at {self._snapshot.settings.address}, which chunks are to be read from, leaves out or renames part of what it replicates "
                f"({', '.join(filters)}), so its rows do not show what the log has brought; remove its replication filters and rebuild it, or set "
                "dblog.dump.hostname to another server"
            )
            raise DefiniteError(message)

    def _filters(self) -> dict[str, str]:
        """Return the replication filters of the snapshot's server, over all its channels (MySQL
        manual 15.7.7.35, SHOW REPLICA STATUS).
        """
        found: dict[str, str] = {}
        for channel in self._snapshot.query_named(
            replica_status(version_of(self._snapshot.server_version)), doing="looking at the replica's filters"
        ):
            for name, value in channel.items():
                if name.lower().startswith(FILTERS):
                    found[name] = found.get(name, "") + str(value or "")
        return found

    def _wanted(self, low: LogProgress) -> Any:
        """Return the GTIDs read from the log, without those that the server never had."""
        assert low.gtids is not None, "read-only mode needs GTIDs"
        return low.gtids if self._absent is None else low.gtids.subtract(self._absent)

    def _executed(self, wire: Wire) -> Any:
        """Return the GTIDs that every snapshot which begins there from now on shows."""
        return GtidSet.parse(str(wire.query("SELECT @@GLOBAL.gtid_executed", doing="reading the executed GTIDs")[0][0]))

    def _logged(self, wire: Wire) -> Any:
        """Return the GTIDs that a snapshot on this server may show: executed ones and those being
        committed.
        """
        owned = owned_gtids(wire)
        executed: GtidSet = self._executed(wire)
        executed.add_all(owned.members())
        return executed


def owned_gtids(wire: Wire) -> GtidSet:
    """Return the GTIDs of transactions that are being committed, or applied by a replica.

    In the server's text each number is followed by # and its thread, and the next source by no
    separator (MySQL sql/rpl_gtid_owned.cc, to_string).
    """
    text = str(wire.query("SELECT @@GLOBAL.gtid_owned", doing="reading the owned GTIDs")[0][0] or "")
    return GtidSet.parse(_OWNER.sub("", _OWNER_BEFORE_SOURCE.sub(",", text)))


def _holds(wire: Wire, name: str) -> bool:
    """Return whether any connection to this server holds the lock."""
    return wire.query("SELECT IS_USED_LOCK(%s)", (name,), doing="asking which server it is")[0][0] is not None
