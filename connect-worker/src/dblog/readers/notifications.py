"""Sends notices of dumps where notification.enabled.channels has them go: to a topic, as records in order with the rows they speak of, and to the log.

The log's lines leave out what holds values of rows: the topic is as well guarded as the rows' own topics are, a log need not be.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from dblog.core.notices import KEYS, Notice
from dblog.model import Segment
from dblog.readers.records import Records

log = structlog.get_logger(__name__)


class Notifications:
    """One connector's; the log thread calls it."""

    def __init__(self, records: Records, *, channels: Sequence[str]) -> None:
        self._records = records
        self._logs = "log" in channels
        self._sends = "sink" in channels

    @property
    def wanted(self) -> bool:
        """Whether anybody is notified."""
        return self._logs or self._sends

    def segments(self, notices: list[Notice]) -> list[Segment]:
        """The records of notices, in order. Registry calls happen here."""
        for notice in notices if self._logs else ():
            data = {name: text for name, text in notice.data.items() if name not in KEYS}
            log.info("notification", aggregate_type=notice.aggregate, type=notice.type, id=notice.id, **data)
        return [self._records.notification(notice) for notice in notices] if self._sends else []
