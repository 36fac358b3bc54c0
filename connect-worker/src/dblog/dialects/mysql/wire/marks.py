"""Read marks of windows on MySQL: what proves, without any write, that a snapshot shows what the log has brought, and where the log ends.

Low: GTIDs enter gtid_executed behind their commit in the storage engine, so a snapshot that is taken after the set was read shows every
transaction in it. It has to hold all that the log has brought, which a log client can get before it is visible.

High: a visible transaction has been written to the log before it was committed in the engine, so it is in front of the log's end. Its GTID
is owned until it is in gtid_executed; so gtid_owned and then gtid_executed, read in this order, have it too.

Both hold for a snapshot of a replica: what the replica has executed is visible there, and it has nothing that its source has not logged. That
the snapshot's server is another one than the log's shows by a lock, which the log's connection holds by a name that nobody else uses.

Source: MySQL manual 19.1.3.3 and 19.1.6.5 (gtid_executed, gtid_owned), sql/binlog.cc (ordered_commit), sql/rpl_gtid_state.cc.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dblog.dialects.mysql.binlog.offset import LogMark, LogProgress
from dblog.dialects.mysql.binlog.position import GtidSet
from dblog.dialects.mysql.wire.connect import Wire, replica_status, version_of
from dblog.errors import DefiniteError, TransientError

GTIDS_SHOWN_MAX = 200
"""Characters of a set in a message."""

FILTERS = ("replicate_do_", "replicate_ignore_", "replicate_wild_", "replicate_rewrite_")
"""How the names of replication filters begin; ``Replicate_Ignore_Server_Ids`` is no filter of tables, and one that is set leaves out rows all the same."""

_OWNER_BEFORE_SOURCE = re.compile(r"#[0-9]+?(?=[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}:)")
_OWNER = re.compile(r"#[0-9]+")


class SnapshotMarks:
    """One dump thread's two connections: ``snapshot`` reads chunks, ``log_server`` answers for the server whose log is read.

    ``lock``: the name of the lock that the log's connection holds now. ``status``: the statement for the log's end. ``absent``: GTIDs in the stored offset
    that the log's server did not have at the start, so that no snapshot can be asked for them.
    """

    def __init__(self, snapshot: Wire, log_server: Wire, *, lock: Callable[[], str | None], status: str, absent: Any) -> None:
        self._snapshot = snapshot
        self._log_server = log_server
        self._lock = lock
        self._status = status
        self._absent = absent
        self._same: bool | None = None

    @property
    def same_server(self) -> bool:
        """Whether chunks are known to come from the server whose log is read."""
        return bool(self._same)

    def may_begin(self, low: LogProgress) -> bool:
        """Whether a snapshot that begins now can be what is wanted."""
        self._find_server()
        return bool(self._executed(self._snapshot).contains(self._wanted(low)))

    def shows(self, low: LogProgress) -> bool:
        """Whether the snapshot that has begun since is what is wanted."""
        del low
        return True

    def end(self) -> LogMark:
        """The log's end, behind everything that any snapshot can have shown until now. TransientError when the snapshot's server is ahead of the log's."""
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
        """Which server the snapshot's connection has reached; asked once the log is read, for the log's connection shows its server."""
        if self._same is not None:
            return
        name = self._lock()
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
        """A replica counts transactions as executed whose rows its filters have left out: no snapshot of it proves that it shows them."""
        filters = sorted(name for name, value in self._filters().items() if value)
        if filters:
            message = (
                f"the replica at {self._snapshot.settings.address}, which chunks are to be read from, leaves out or renames part of what it replicates "
                f"({', '.join(filters)}), so its rows do not show what the log has brought; remove its replication filters and rebuild it, or set "
                "dblog.dump.hostname to another server"
            )
            raise DefiniteError(message)

    def _filters(self) -> dict[str, str]:
        """The replication filters of the snapshot's server, over all of its channels. (MySQL manual 15.7.7.35, SHOW REPLICA STATUS.)"""
        found: dict[str, str] = {}
        for channel in self._snapshot.query_named(
            replica_status(version_of(self._snapshot.server_version)), doing="looking at the replica's filters"
        ):
            for name, value in channel.items():
                if name.lower().startswith(FILTERS):
                    found[name] = found.get(name, "") + str(value or "")
        return found

    def _wanted(self, low: LogProgress) -> Any:
        """What the log has brought, without what the server never had."""
        assert low.gtids is not None, "read-only mode needs GTIDs"
        return low.gtids if self._absent is None else low.gtids.subtract(self._absent)

    def _executed(self, wire: Wire) -> Any:
        """What every snapshot that begins there from now on shows."""
        return GtidSet.parse(str(wire.query("SELECT @@GLOBAL.gtid_executed", doing="reading the executed GTIDs")[0][0]))

    def _logged(self, wire: Wire) -> Any:
        """Every transaction that a snapshot there can show, and maybe some that none shows yet."""
        owned = owned_gtids(wire)
        executed: GtidSet = self._executed(wire)
        executed.add_all(owned.members())
        return executed


def owned_gtids(wire: Wire) -> GtidSet:
    """The GTIDs of transactions that are being committed, or applied by a replica. In the text each number is followed by # and its thread, and the next
    source by nothing else. (MySQL sql/rpl_gtid_owned.cc, to_string.)
    """
    text = str(wire.query("SELECT @@GLOBAL.gtid_owned", doing="reading the owned GTIDs")[0][0] or "")
    return GtidSet.parse(_OWNER.sub("", _OWNER_BEFORE_SOURCE.sub(",", text)))


def _holds(wire: Wire, name: str) -> bool:
    """Whether somebody at this server holds the lock."""
    return wire.query("SELECT IS_USED_LOCK(%s)", (name,), doing="asking which server it is")[0][0] is not None
