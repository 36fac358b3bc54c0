"""The MySQL or MariaDB source of one connector: the dialect with the connector's options, without a
connection.
"""

from __future__ import annotations

from dblog.config.options import Settings
from dblog.dialects.mysql.binlog.offset import LogProgress
from dblog.dialects.mysql.catalog import sql
from dblog.dialects.mysql.task.connections import Connections
from dblog.dialects.mysql.task.dialect import BinlogDialect, rereads
from dblog.dialects.mysql.task.plans import BinlogPlans
from dblog.dialects.mysql.task.server import BinlogServer
from dblog.dialects.mysql.wire.session import settings_of
from dblog.model import OffsetMap, TableId
from dblog.readers.standing_warnings import StandingWarnings


class BinlogSource:
    """The source of one connector. Implements ``readers.contract.Source``."""

    def __init__(self, dialect: BinlogDialect, settings: Settings) -> None:
        self.dialect = dialect
        self.plans = BinlogPlans(dialect, settings)
        self._settings = settings

    @property
    def watermark_table(self) -> TableId:
        """The watermark table as the configuration names it."""
        return sql.parse_table_name(self._settings.text("dblog.watermark.table"))

    @property
    def signal_tables(self) -> frozenset[TableId]:
        """The signal tables as the configuration names them; empty unless signals come from the
        source.
        """
        names = (
            self._settings.text_or_none("signal.data.collection")
            if "source" in self._settings.items_of("signal.enabled.channels")
            else None
        )
        return frozenset(sql.parse_table_name(name.strip()) for name in (names or "").split(",") if name.strip())

    @property
    def builtin_databases(self) -> frozenset[str]:
        """System databases of the server."""
        return sql.BUILTIN_DATABASES

    @property
    def log_writes_watermarks(self) -> bool:
        """True if rows that lack columns are read again, which needs a watermark."""
        return rereads(self._settings)

    def leaving(self) -> None:
        """Do nothing: a server keeps its binlog regardless of readers."""

    def progress(self, offset: OffsetMap) -> LogProgress:
        """Parse a stored offset."""
        return self.dialect.progress.of_offset(offset)

    def connect(self, *, again: bool, warnings: StandingWarnings | None = None) -> BinlogServer:
        """Connect to the server."""
        session = self.dialect.connect(settings_of(self._settings), again=again)
        return BinlogServer(
            Connections(
                self.dialect,
                self._settings,
                session,
                watermark_table=self.watermark_table,
                signal_tables=self.signal_tables,
                warnings=warnings,
            )
        )
