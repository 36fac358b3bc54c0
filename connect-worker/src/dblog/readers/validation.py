"""Asks the database whether a configuration can work, before the connector is created: reachable, the right login, a usable log, privileges.

Nothing is created or changed here; the watermark table is made when the task starts.
"""

from __future__ import annotations

from dataclasses import replace

from dblog.abort import Abort
from dblog.config.options import Settings
from dblog.core.selection import Selection, named_parts
from dblog.dialects.mysql import sql
from dblog.dialects.mysql.budget import AnswerBudget
from dblog.dialects.mysql.session import settings_of
from dblog.readers.binlog_dialect import DIALECTS, rereads
from dblog.readers.start import dumps_at_all

CHECKS_BYTES_MAX = 4 << 30
"""Two catalogs of the greatest kind; the server of a check is whatever its configuration names, and it runs in the worker's own process."""

_BUDGET = AnswerBudget(CHECKS_BYTES_MAX)


def check_database(flavor: str, settings: Settings, limit_s: float, abort: Abort) -> list[str]:
    """Raise what makes the connector's start pointless, give the warnings of what does not; ``flavor`` is the connector plugin's.

    No connection waits for longer than ``limit_s``, and ``abort`` cuts them all. The user's initial statements are not run: a check changes nothing.
    """
    marks = sql.parse_table_name(settings.text("dblog.watermark.table"))
    selection = Selection.from_settings(settings.originals, never=frozenset({marks}))
    reads = dumps_at_all(settings.text("snapshot.mode")) or rereads(settings)
    where = settings_of(settings)
    where = replace(where, connect_timeout_s=min(where.connect_timeout_s, limit_s), initial_statements=(), abort=abort, budget=_BUDGET)
    session = DIALECTS[flavor].connect(where)
    try:
        tables = session.read_catalog(selection.includes)
        return session.check(
            server_id=settings.integer("database.server.id"),
            tables=tables,
            marks=marks if reads else None,
            rereads=rereads(settings),
            named=named_parts(settings.originals),
            make=False,
        )
    finally:
        session.close()
