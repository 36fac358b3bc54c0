"""Selects the logical messages that become records, and builds these records."""

from __future__ import annotations

from dblog import __version__
from dblog.clock import Clock
from dblog.config.options import Settings
from dblog.core.selection import name_matcher
from dblog.dialects.postgres.pgoutput import logical_message
from dblog.dialects.postgres.pgoutput.items import LogOffset
from dblog.dialects.postgres.pgoutput.messages import Message
from dblog.dialects.postgres.pgoutput.source_block import PostgresContext, source_of_message
from dblog.readers.items import OtherRecord

_INCLUDE, _EXCLUDE = "message.prefix.include.list", "message.prefix.exclude.list"
_PREFIX_SHOWN_MAX = 200


class LogicalMessages:
    """The logical messages of one connector."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._clock = clock
        self._name = settings.text("topic.prefix")
        self._binary_mode = settings.text("binary.handling.mode")
        self._included = name_matcher(settings.originals.get(_INCLUDE), option=_INCLUDE)
        self._excluded = name_matcher(settings.originals.get(_EXCLUDE), option=_EXCLUDE)

    def includes(self, prefix: str) -> bool:
        """Return True if messages with this prefix become records; without a list all do."""
        if self._included is not None:
            return self._included(prefix)
        return self._excluded is None or not self._excluded(prefix)

    def record(self, message: Message, context: PostgresContext, position: LogOffset) -> OtherRecord:
        """Return Debezium's record of a message."""
        source = source_of_message(context, version=__version__, name=self._name)
        now_us = self._clock.now_us()
        return OtherRecord(
            suffix=logical_message.SUFFIX,
            key_schema=logical_message.KEY,
            key={"prefix": message.prefix},
            value_schema=logical_message.value_schema(self._binary_mode),
            value=logical_message.value(message, source, binary_mode=self._binary_mode, now_us=now_us),
            position=position,
            way_out=f"leave messages with the prefix {_shown(message.prefix)} out with {_EXCLUDE}",
        )


def _shown(prefix: str) -> str:
    """Return a prefix as an error names it: any client chooses one, of any length."""
    return prefix if len(prefix) <= _PREFIX_SHOWN_MAX else f"{prefix[:_PREFIX_SHOWN_MAX]}..."
