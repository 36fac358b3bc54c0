"""Asks the database whether a configuration can work, before the connector is created: reachable, the right login, a usable log, privileges.

Nothing is created or changed here; the watermark table is made when the task starts.
"""

from __future__ import annotations

from dblog.config.options import Settings
from dblog.core.selection import Selection
from dblog.dialects.mysql.session import settings_of
from dblog.readers.binlog_dialect import DIALECTS, rereads


def check_database(flavor: str, settings: Settings) -> None:
    """Raise what makes the connector's start pointless; ``flavor`` is the connector plugin's."""
    selection = Selection.from_settings(settings.originals)
    session = DIALECTS[flavor].connect(settings_of(settings))
    try:
        tables = session.read_catalog(selection.includes)
        session.check(server_id=settings.integer("database.server.id"), tables=tables, marks=None, rereads=rereads(settings))
    finally:
        session.close()
