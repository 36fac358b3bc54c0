"""Sends notices of dumps to the channels in notification.enabled.channels: a topic, and the log.

The topic gets records in order with the rows that they concern. Log lines leave out values of rows:
the topic can be protected like the topics of the rows, but the log may not be.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from dblog.core.notices import KEYS, Notice
from dblog.model import Segment
from dblog.readers.records import Records

log = structlog.get_logger(__name__)


class Notifications:
    """Notices of one connector; the log thread calls it."""

    def __init__(self, records: Records, *, channels: Sequence[str]) -> None:
        self._records = records
        self._logs = "log" in channels
        self._sends = "sink" in channels

    @property
    def wanted(self) -> bool:
        """True if at least one channel is enabled."""
        return self._logs or self._sends

    def segments(self, notices: list[Notice]) -> list[Segment]:
        """Return the records of these notices, in order, and log the notices. It may ask the
        registry.
        """
        for notice in notices if self._logs else ():
            data = {name: text for name, text in notice.data.items() if name not in KEYS}
            log.info("notification", aggregate_type=notice.aggregate, type=notice.type, id=notice.id, **data)
        return [self._records.notification(notice) for notice in notices] if self._sends else []
