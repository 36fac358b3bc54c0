"""The connections of one task to its server: a session for questions, the log, chunks; and which server they all have to reach."""

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
from dblog.dialects.postgres.task.doubts import Doubts
from dblog.dialects.postgres.task.heartbeat import STATEMENT_LIMIT_S
from dblog.dialects.postgres.wire.connect import ConnectSettings, Wire, open_wire, settings_of
from dblog.dialects.postgres.wire.dump import DumpConnection
from dblog.dialects.postgres.wire.identity import identified, identity_of, moved_to
from dblog.dialects.postgres.wire.log import STATUS_INTERVAL_S, LogConnection, heard_within_s
from dblog.dialects.postgres.wire.session import Session, connect
from dblog.dialects.postgres.wire.slot import options_of, require_position
from dblog.errors import ServerChangedError, TransientError
from dblog.model import TableId
from dblog.readers.standing_warnings import StandingWarnings

ANSWER_LIMIT_S = 15.0
"""A session that does not answer the simplest question within that time is opened again."""

_SHOWN = re.compile(r"[ -~]{1,50}")
"""A name that an application_name shows whole: other characters are replaced there, and it ends after 63."""


def by_root(settings: Settings) -> bool:
    """Whether rows of partitions come under their partitioned table's name."""
    return settings.boolean("publish.via.partition.root")


def reader_name(settings: Settings) -> str:
    """What the connector's log connection is called at the server (application_name): by this it knows its own, which an earlier run may have left."""
    name = settings.text("name")
    shown = name if _SHOWN.fullmatch(name) else hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"dblog log {shown}"


def chunk_settings_of(settings: Settings) -> ConnectSettings:
    """Where chunks are read in read-only mode: a standby where one is named."""
    where = settings_of(settings)
    host, port = settings.text_or_none("dblog.dump.hostname"), settings["dblog.dump.port"]
    return replace(where, host=host or where.host, port=port if isinstance(port, int) else where.port)


class Connections:
    """One session serves the starting thread, then the log thread, which closes it while it has nothing to ask. The log and each dump thread have connections
    of their own.
    """

    def __init__(self, settings: Settings, session: Session, *, warnings: StandingWarnings | None = None) -> None:
        """``warnings`` takes what an operator has to know while the task runs; None: nobody reads them."""
        self.settings = settings
        self.session = session
        self.warnings = warnings or StandingWarnings()
        self.opening = Opening(self.warnings)
        """Where each connection of the task is opened."""
        self._idle = IdleSession()
        self.identity = session.identity
        """Which server they all have to reach."""
        self.is_standby = session.is_standby
        self.moved_on: str | None = None
        """The identity that the standby has come to by a promotion, its own or its upstream's: connections that are open live through that."""
        self.doubts = Doubts()
        self.marks = session.catalog_marks()
        """Of ``Session.catalog_marks``, from ahead of what is read of the tables; then as the watch has seen them last."""
        self.entries = Entries()
        """Of ``Session.publication_entries``: as the start has found them, then as the watch has seen them last."""
        self.said: dict[str, str] = {}
        """Texts that the watch has logged, by the keys of standing warnings: each is logged once."""
        self.lacking: frozenset[TableId] = frozenset()
        """The captured tables that the publication lacked when the watch looked last."""

    @property
    def slot(self) -> str:
        """slot.name."""
        return self.settings.text("slot.name")

    @property
    def reader_name(self) -> str:
        """Of the log connection."""
        return reader_name(self.settings)

    @property
    def publication(self) -> str:
        """publication.name."""
        return self.settings.text("publication.name")

    @property
    def read_only(self) -> bool:
        """Whether nothing may be written."""
        return self.settings.boolean("read.only")

    @property
    def streams(self) -> bool:
        """dblog.log.streaming."""
        return self.settings.boolean("dblog.log.streaming")

    def live_session(self) -> Session:
        """The session for questions of the log thread; opened again when the server has dropped it, or it was closed while nobody asked."""
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
        """Close the session that has been asked nothing for a while: the next question opens it again. Called by the log thread, again and again."""
        if self._idle.is_due():
            self.session.close()

    def changed(self, identity: str) -> ServerChangedError:
        """Return the error for a connection that has reached another server, or another timeline."""
        return ServerChangedError(f"{moved_to(self.session.settings.address, self.identity, identity)}; the connector starts again")

    def open_chunks(self, reads: ReadColumns) -> DumpConnection:
        """Connections for chunks and watermarks; in read-only mode chunks may come from a standby. ``reads``: which columns of a table chunks read."""
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
        """For the statement of heartbeats, to this very server; it ends one that takes long."""
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
        """The log from there on. ServerChangedError when another server answers than the position belongs to."""
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
            # Nobody else can read the slot on, or make another one, from here on: what happened between the first question and the opening shows now.
            require_position(session, self.slot, at)
        except BaseException:
            connection.close()
            raise
        return connection


class ConfirmedLsn:
    """How far all is stored, as the committing thread has said last. Callable from any thread."""

    def __init__(self, lsn: int) -> None:
        self.lsn = lsn

    def __call__(self) -> int:
        return self.lsn
