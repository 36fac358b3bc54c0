"""Represents the PostgreSQL source of one connector: its options, without a connection."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from dblog.config.options import Settings
from dblog.dialects.postgres.catalog import sql
from dblog.dialects.postgres.catalog.tables import BUILTIN_SCHEMAS
from dblog.dialects.postgres.pgoutput.offset import PostgresProgress
from dblog.dialects.postgres.task.connections import Connections, by_root
from dblog.dialects.postgres.task.plans import PostgresPlans
from dblog.dialects.postgres.task.server import PostgresServer
from dblog.dialects.postgres.wire.connect import settings_of
from dblog.dialects.postgres.wire.session import connect
from dblog.dialects.postgres.wire.slot import drop_slot, follow_publication
from dblog.model import OffsetMap, TableId
from dblog.readers.standing_warnings import StandingWarnings

log = structlog.get_logger(__name__)

NO_TABLE = TableId("", "")
"""Name of no table: watermarks are messages of the log, so no table holds them."""


class PostgresSource:
    """The PostgreSQL source of one connector. Implements ``readers.contract.Source``."""

    watermark_table = NO_TABLE
    builtin_databases = BUILTIN_SCHEMAS
    log_writes_watermarks = False

    def __init__(self, settings: Settings) -> None:
        self.plans = PostgresPlans(settings)
        self._settings = settings

    @property
    def signal_tables(self) -> frozenset[TableId]:
        """Signal tables that the configuration names; none unless signals come from the source."""
        if "source" not in self._settings.items_of("signal.enabled.channels"):
            return frozenset()
        names = self._settings.text_or_none("signal.data.collection") or ""
        return frozenset(sql.parse_table_name(name.strip()) for name in names.split(",") if name.strip())

    def leaving(self) -> Callable[[], None] | None:
        """Return the function that drops the slot when the connector stops; None without
        slot.drop.on.stop.
        """
        return self._drop_slot if self._settings.boolean("slot.drop.on.stop") else None

    def _drop_slot(self) -> None:
        """Drop the slot unless another process is reading it by now."""
        name = self._settings.text("slot.name")
        session = connect(settings_of(self._settings), by_root=by_root(self._settings), again=True)
        try:
            if drop_slot(session, name):
                log.info("the slot is dropped (slot.drop.on.stop)", slot=name)
            else:
                log.warning("the slot is not dropped, for somebody reads it (slot.drop.on.stop)", slot=name)
        finally:
            session.close()

    def progress(self, offset: OffsetMap) -> PostgresProgress:
        """Return the progress of a stored offset."""
        return PostgresProgress.of_offset(offset, database=self._settings.text("database.dbname"))

    def connect(self, *, again: bool, warnings: StandingWarnings | None = None) -> PostgresServer:
        """Connect to the server."""
        session = connect(settings_of(self._settings), by_root=by_root(self._settings), again=again)
        try:
            follow_publication(session, self._settings.text("publication.name"))
        except BaseException:
            session.close()
            raise
        return PostgresServer(
            Connections(self._settings, session, warnings=warnings),
            self.plans,
            watermark_table=self.watermark_table,
            signal_tables=self.signal_tables,
        )
