"""Manages the connections of one task to its server: a session for queries, the log, chunks; and
remembers which server they all must reach.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace

from dblog.config.options import Settings
from dblog.config.stream_params import STREAM_PARAMS, stream_params
from dblog.dialects.idle_session import IdleSession
from dblog.dialects.opening import Opening
from dblog.dialects.postgres.catalog.publishing import Entries
from dblog.dialects.postgres.catalog.read_columns import ReadColumns
from dblog.dialects.postgres.pgoutput.offset import PostgresProgress
from dblog.dialects.postgres.task.doubtful_tables import DoubtfulTables
from dblog.dialects.postgres.task.heartbeat import STATEMENT_LIMIT_S
from dblog.dialects.postgres.wire.connect import ConnectSettings, Wire, open_wire, settings_of
from dblog.dialects.postgres.wire.dump import DumpConnection
from dblog.dialects.postgres.wire.identity import identified, identity_of, moved_to
from dblog.dialects.postgres.wire.log import STATUS_INTERVAL_S, ConfirmedLsn, LogConnection, heard_within_s
from dblog.dialects.postgres.wire.session import Session, connect
from dblog.dialects.postgres.wire.slot import options_of, require_position
from dblog.errors import ServerChangedError, TransientError
from dblog.model import TableId
from dblog.readers.standing_warnings import StandingWarnings

ANSWER_LIMIT_S = 15.0
"""Seconds after which a session that does not answer the simplest query is opened again."""

_SHOWN = re.compile(r"[ -~]{1,50}")
"""Pattern of a name that an application_name shows unchanged: other characters are replaced in it,
and it is cut after 63.
"""


def by_root(settings: Settings) -> bool:
    """Return True if rows of partitions come under the name of their partitioned table."""
    return settings.boolean("publish.via.partition.root")


def reader_name(settings: Settings) -> str:
    """Return the application_name of the connector's log connection. By it the connector recognizes
    its own connection, which an earlier run may have left.
    """
    name = settings.text("name")
    shown = name if _SHOWN.fullmatch(name) else hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"dblog log {shown}"


def chunk_settings_of(settings: Settings) -> ConnectSettings:
    """Return the settings for reading chunks in read-only mode: those of a standby if one is
    named.
    """
    where = settings_of(settings)
    host, port = settings.text_or_none("dblog.dump.hostname"), settings["dblog.dump.port"]
    return replace(where, host=host or where.host, port=port if isinstance(port, int) else where.port)


class Connections:
    """The connections of one task. One session serves the starting thread and then the log thread,
    which closes it while it has no queries. The log and each dump thread have separate connections.
    """

    def __init__(self, settings: Settings, session: Session, *, warnings: StandingWarnings | None = None) -> None:
        """Start with an open session. ``warnings`` receives what an operator must know while the
        task runs; None if nobody reads them.
        """
        self.settings = settings
        self.session = session
        self.warnings = warnings or StandingWarnings()
        self.opening = Opening(self.warnings)
        """Context manager around the opening of each connection of the task."""
        self._idle = IdleSession()
        self.identity = session.identity
        """Identity of the server that all connections must reach."""
        self.is_standby = session.is_standby
        self.moved_on: str | None = None
        """Identity that the standby has got by a promotion, its own or its upstream's; None before.
        Open connections survive a promotion.
        """
        self.doubts = DoubtfulTables()
        self.marks = session.catalog_marks()
        """Marks of ``Session.catalog_marks``: first from before the tables were read, later those
        of the last watch.
        """
        self.entries = Entries()
        """Entries of ``Session.publication_entries``: first those of the start, later those of the
        last watch.
        """
        self.said: dict[str, str] = {}
        """Texts that the watch has logged, by the keys of standing warnings, so that each is logged
        once.
        """
        self.lacking: frozenset[TableId] = frozenset()
        """Captured tables that the publication lacked at the last watch."""

    @property
    def slot(self) -> str:
        """Value of slot.name."""
        return self.settings.text("slot.name")

    @property
    def reader_name(self) -> str:
        """Name of the log connection."""
        return reader_name(self.settings)

    @property
    def publication(self) -> str:
        """Value of publication.name."""
        return self.settings.text("publication.name")

    @property
    def read_only(self) -> bool:
        """True if nothing may be written to the server."""
        return self.settings.boolean("read.only")

    @property
    def streams(self) -> bool:
        """Value of dblog.log.streaming."""
        return self.settings.boolean("dblog.log.streaming")

    def live_session(self) -> Session:
        """Return the session for queries of the log thread. It is opened again if the server has
        dropped it or if it was closed as idle.
        """
        self._idle.used()
        try:
            self.session.wire.query("SELECT 1", doing="asking whether the server is there", limit_s=ANSWER_LIMIT_S)
        except TransientError:
            self.session.close()
            with self.opening():
                self.session = connect(
                    settings_of(self.settings), by_root=self.session.by_root, publication=self.session.publication, again=True
                )
            self._idle.opened()
            if self.session.identity != self.identity:
                raise self.changed(self.session.identity) from None
        return self.session

    def close_idle_session(self) -> None:
        """Close the session if it has had no query for a while; the next one opens it again. The
        log thread calls this regularly.
        """
        if self._idle.is_due():
            self.session.close()

    def changed(self, identity: str) -> ServerChangedError:
        """Return the error for a connection that has reached another server or another timeline."""
        return ServerChangedError(f"{moved_to(self.session.settings.address, self.identity, identity)}; the connector starts again")

    def open_chunks(self, reads: ReadColumns) -> DumpConnection:
        """Open connections for chunks and watermarks. In read-only mode chunks may come from a
        standby. ``reads`` decides which columns of a table chunks read.
        """
        where = settings_of(self.settings)
        with self.opening():
            return DumpConnection.open(
                chunk_settings_of(self.settings) if self.read_only else where,
                where,
                identity=identity_of,
                server=self.identity,
                read_only=self.read_only,
                publication=self.publication,
                doubt=self.doubts.add,
                reads=reads,
            )

    def open_heartbeat(self) -> Wire:
        """Open a connection to this very server for the statement of heartbeats. The server ends a
        statement that takes long.
        """
        settings = settings_of(self.settings)
        limited = replace(settings, statement_timeout_s=min(settings.statement_timeout_s or STATEMENT_LIMIT_S, STATEMENT_LIMIT_S))
        with self.opening():
            wire = open_wire(limited, again=True, name="dblog heartbeat")
        try:
            if (found := identity_of(wire)) != self.identity:
                raise self.changed(found)
        except BaseException:
            wire.close()
            raise
        return wire

    def open_log(self, at: PostgresProgress, confirmed: ConfirmedLsn) -> LogConnection:
        """Open the log from a position. Raise ServerChangedError if another server answers than the
        one that the position belongs to.
        """
        session = self.live_session()
        if at.server is not None and at.server != session.identity:
            raise self.changed(session.identity)
        require_position(session, self.slot, at)
        with self.opening():
            wire = open_wire(settings_of(self.settings), again=True, replication=True, name=self.reader_name)
        try:
            if (found := identified(wire)) != session.identity:
                raise self.changed(found)
            connection = LogConnection.open(
                wire,
                slot=self.slot,
                publication=self.publication,
                options=options_of(
                    self.publication, streaming=self.streams, further=stream_params(self.settings.text_or_none(STREAM_PARAMS))
                ),
                lsn=at.at.lsn,
                confirmed=confirmed,
                status_interval_s=min(
                    STATUS_INTERVAL_S, self.settings.integer("status.update.interval.ms") / 1000, heard_within_s(wire) / 3
                ),
            )
        except BaseException:
            wire.close()
            raise
        try:
            # From here on no other reader can move the slot or create it again. So this check finds
            # what happened between the first check and the opening.
            require_position(session, self.slot, at)
        except BaseException:
            connection.close()
            raise
        return connection
