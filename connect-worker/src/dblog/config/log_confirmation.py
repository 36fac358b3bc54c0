"""Decides whether a connector reports its stored position to the PostgreSQL server, so that the
server can drop the log before it.

Debezium's options are ``lsn.flush.mode``, and the older ``flush.lsn.source``, which applies if the
first is not set. The modes ``connector`` and ``connector_and_driver`` are the same here: a stored
position is reported even if nothing was captured since.
"""

from __future__ import annotations

from dblog.config.options import Settings


def confirms_log(settings: Settings) -> bool:
    """Return True if the connector reports its position.

    Otherwise something else has to move the slot, and the server keeps its log until then.
    """
    mode = settings.text_or_none("lsn.flush.mode")
    return mode != "manual" if mode else settings.boolean("flush.lsn.source")
