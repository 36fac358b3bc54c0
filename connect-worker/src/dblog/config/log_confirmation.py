"""Whether a connector reports to its PostgreSQL server which position it has stored, so that the server can drop the log before it.

Debezium's keys: ``lsn.flush.mode``, and ``flush.lsn.source`` before it, which counts where the first is not set. The modes ``connector``
and ``connector_and_driver`` are one here: a stored position behind which nothing was captured is reported as any other.
"""

from __future__ import annotations

from dblog.config.options import Settings


def confirms_log(settings: Settings) -> bool:
    """False: something else moves the slot, and the server keeps its log until that happens."""
    mode = settings.text_or_none("lsn.flush.mode")
    return mode != "manual" if mode else settings.boolean("flush.lsn.source")
