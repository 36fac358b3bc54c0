"""A warning about tables whose rows changed their key while the log left out their large values, so
that the record of the new key has placeholders (NOBLOB images).

A connector that reads rows again never sends such a record (``binlog/reread_image.py``). Any other
one sends it, like Debezium, and says so in its status.
"""

from __future__ import annotations

import structlog

from dblog.codecs.rowplan import OLD_KEY_HEADER
from dblog.readers.items import LogRows
from dblog.readers.standing_warnings import StandingWarnings

log = structlog.get_logger(__name__)

LACKING_VALUES = "large values beside a changed key"
"""The key of the standing warning."""


class MovedValues:
    """The warning of one task. The log thread passes in rows of which some record lacks values."""

    def __init__(self, warnings: StandingWarnings) -> None:
        self._warnings = warnings

    def note(self, item: LogRows) -> None:
        """Raise the warning for tables whose rows changed their key and lack values."""
        moved = {
            encoder.plan.table.id
            for encoder, keys, _, headers in item.segments
            if (lacking := item.lacking.get(encoder.plan.table.id))
            and any(header[0][0] == OLD_KEY_HEADER and keys[at] in lacking for at, header in headers.items() if header)
        }
        new = {table for table in moved if not self._warnings.found_again(LACKING_VALUES, table)}
        if not new:
            return
        log.warning("large values are missing beside a changed key", tables=[str(table) for table in new])
        self._warnings.raise_of_tables(
            LACKING_VALUES,
            new,
            before="rows of ",
            after=" got another key, and the log leaves out their large values (binlog_row_image=NOBLOB): under the new key their records have "
            "unavailable.value.placeholder. Request a dump of these tables (dblog dumps start CONNECTOR TABLE --mode repair), and run "
            "SET GLOBAL binlog_row_image = 'FULL' on the source, or set dblog.row.image.missing=reread",
        )
